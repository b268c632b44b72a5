/* One poll loop over the listening socket, the guests who have not yet proven
 * who they are, and the ranks who have joined and must not leave. */
#define _GNU_SOURCE /* accept4, POLLRDHUP */

#include "boot/reception.h"

#include "base/error.h"
#include "base/log.h"
#include "boot/link.h"
#include "boot/ranks.h"
#include "boot/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More guests than ranks, so that strangers alone cannot fill the room. When
 * it is full, whoever has been there longest has to go. */
enum { MOST_STRANGERS = 64 };

/* A connection whose far end has not proven who it is. */
typedef struct guest {
    int fd;
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    weiri_challenge challenge;
    weiri_hello hello;
    size_t hello_bytes; /* how much of it has arrived */
} guest;

typedef struct reception {
    const weiri_job *job;
    int listener;
    int *fds;
    weiri_address *listens;
    int missing;        /* ranks that have not joined */
    int nguests, most_guests;
    guest *guests;      /* in the order of their arrival */
    struct pollfd *set; /* the listener, the guests, the ranks */
    int refused;
    char last_refusal[160];
} reception;

static void remove_guest(reception *room, int index)
{
    room->nguests--;
    memmove(&room->guests[index], &room->guests[index + 1],
            (size_t)(room->nguests - index) * sizeof *room->guests);
}

static void refuse(reception *room, int index, const char *why)
{
    guest *who = &room->guests[index];
    weiri_log(WEIRI_LOG_WARN, "rank %d refused the connection from %s: %s", room->job->rank,
              who->where, why);
    room->refused++;
    snprintf(room->last_refusal, sizeof room->last_refusal, "%s, %s", who->where, why);
    close(who->fd);
    remove_guest(room, index);
}

/* Writes to a fresh connection, whose buffer is empty: it fits or fails. */
static int write_now(int fd, const void *data, size_t bytes)
{
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    size_t done = 0;
    return weiri_link_write_some(fd, -1, &part, 1, &done) == WEIR_OK && done == bytes;
}

static weir_status welcome(reception *room, int fd, const struct sockaddr_storage *name)
{
    if (room->nguests == room->most_guests)
        refuse(room, 0, "too many connections that say nothing");
    guest *who = &room->guests[room->nguests];
    memset(who, 0, sizeof *who);
    who->fd = fd;
    weiri_address address = {0};
    weiri_address_from_socket(name, &address);
    weiri_address_text(&address, who->where);
    weir_status status = weiri_challenge_make(room->job, &who->challenge);
    if (status != WEIR_OK) {
        close(fd);
        return status;
    }
    room->nguests++;
    weiri_socket_no_delay(fd);
    if (!write_now(fd, &who->challenge, sizeof who->challenge))
        refuse(room, room->nguests - 1, "it hung up");
    return WEIR_OK;
}

static weir_status accept_guests(reception *room)
{
    for (;;) {
        struct sockaddr_storage name = {0};
        socklen_t bytes = sizeof name;
        int fd = accept4(room->listener, (struct sockaddr *)&name, &bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && room->nguests > 0) {
            refuse(room, 0, "no more files can be opened");
            continue;
        }
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEIR_OK;
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO))
            continue;
        if (fd < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d accepts connections",
                                    room->job->rank);
        weir_status status = welcome(room, fd, &name);
        if (status != WEIR_OK)
            return status;
    }
}

/* Why a rank that knows the secret cannot be let in: a disagreement that ends
 * the job, for everyone, now. */
static weir_status check_rank(const reception *room, const guest *who)
{
    const weiri_job *job = room->job;
    const weiri_hello *hello = &who->hello;
    if (hello->nranks != job->nranks)
        return weiri_fail(WEIR_ERR_MISMATCH, "rank %d at %s says %d ranks, rank %d says %d",
                          hello->rank, who->where, hello->nranks, job->rank, job->nranks);
    if (hello->rank <= job->rank || hello->rank >= job->nranks)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "%s says that it is rank %d; rank %d expected one from %d to %d",
                          who->where, hello->rank, job->rank, job->rank + 1, job->nranks - 1);
    if (room->fds[hello->rank] >= 0)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "two processes say that they are rank %d, the second at %s; every rank "
                          "must be started once",
                          hello->rank, who->where);
    return WEIR_OK;
}

/* Takes a guest with a complete hello in, or turns it away. */
static weir_status decide(reception *room, int index)
{
    guest *who = &room->guests[index];
    weiri_reply reply;
    if (!weiri_hello_proven(room->job, &who->challenge, &who->hello)) {
        const char *why = "it does not know this job's secret";
        weiri_reply_make(room->job, &who->challenge, &who->hello, WEIR_ERR_REFUSED,
                         "wrong secret; use the unique id or WEIR_BOOT_SECRET of this job",
                         &reply);
        write_now(who->fd, &reply, sizeof reply);
        refuse(room, index, why);
        return WEIR_OK;
    }
    weir_status status = check_rank(room, who);
    weiri_reply_make(room->job, &who->challenge, &who->hello, status,
                     status == WEIR_OK ? "" : weir_last_error(), &reply);
    int told = write_now(who->fd, &reply, sizeof reply);
    if (status != WEIR_OK || !told) {
        refuse(room, index, status == WEIR_OK ? "it hung up" : weir_last_error());
        return status;
    }
    room->fds[who->hello.rank] = who->fd;
    if (room->listens)
        room->listens[who->hello.rank] = who->hello.listens;
    room->missing--;
    remove_guest(room, index);
    return WEIR_OK;
}

static weir_status hear(reception *room, int index)
{
    guest *who = &room->guests[index];
    weir_status status = weiri_link_read_some(who->fd, -1, &who->hello, sizeof who->hello,
                                              &who->hello_bytes);
    if (who->hello_bytes >= sizeof who->hello.magic && !weiri_hello_plausible(&who->hello)) {
        refuse(room, index, "it does not speak weir's protocol");
        return WEIR_OK;
    }
    if (status != WEIR_OK) {
        refuse(room, index, "it hung up without saying who it is");
        return WEIR_OK;
    }
    return who->hello_bytes == sizeof who->hello ? decide(room, index) : WEIR_OK;
}

static weir_status fail_late(const reception *room, const weiri_deadline *deadline)
{
    weiri_ranks late = {0};
    for (int rank = room->job->rank + 1; rank < room->job->nranks; rank++)
        if (room->fds[rank] < 0)
            weiri_ranks_add(&late, rank);
    char where[WEIRI_ADDRESS_TEXT_BYTES] = "?";
    weiri_address address;
    if (weiri_socket_address(room->listener, &address) == WEIR_OK)
        weiri_address_text(&address, where);
    char refusals[256] = "";
    if (room->refused > 0)
        snprintf(refusals, sizeof refusals, " (connections refused: %d, the last: %s)",
                 room->refused, room->last_refusal);
    return weiri_fail(WEIR_ERR_TIMEOUT, "%s %s %s not joined %s after %d ms%s; start them, or "
                                        "raise WEIR_TIMEOUT_MS",
                      weiri_ranks_noun(&late), late.list, weiri_ranks_have(&late), where,
                      deadline->timeout_ms, refusals);
}

/* Fills the poll set; returns how many entries it has. */
static int watch(const reception *room)
{
    int count = 0;
    room->set[count++] = (struct pollfd){.fd = room->listener, .events = POLLIN};
    for (int i = 0; i < room->nguests; i++)
        room->set[count++] = (struct pollfd){.fd = room->guests[i].fd, .events = POLLIN};
    for (int rank = 0; rank < room->job->nranks; rank++) {
        int joined = rank > room->job->rank;
        room->set[count++] = (struct pollfd){.fd = joined ? room->fds[rank] : -1,
                                             .events = POLLRDHUP};
    }
    return count;
}

/* Acts on the poll set of nguests guests. */
static weir_status act(reception *room, int nguests)
{
    const struct pollfd *ranks = room->set + 1 + nguests;
    for (int rank = 0; rank < room->job->nranks; rank++)
        if (ranks[rank].revents)
            return weiri_fail(WEIR_ERR_PEER,
                              "rank %d joined rank %d and is gone before all ranks had come", rank,
                              room->job->rank);
    /* Backwards, since a guest that leaves moves those behind it. */
    for (int i = nguests - 1; i >= 0; i--) {
        weir_status status = room->set[1 + i].revents ? hear(room, i) : WEIR_OK;
        if (status != WEIR_OK)
            return status;
    }
    return room->set[0].revents ? accept_guests(room) : WEIR_OK;
}

static weir_status receive_all(reception *room, const weiri_deadline *deadline)
{
    while (room->missing > 0) {
        int nguests = room->nguests;
        int left_ms = weiri_deadline_left_ms(deadline);
        int ready = poll(room->set, (nfds_t)watch(room), left_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d waits for connections",
                                    room->job->rank);
        if (ready == 0 && left_ms == 0)
            return fail_late(room, deadline);
        weir_status status = act(room, nguests);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

weir_status weiri_reception_run(const weiri_job *job, int listener,
                                const weiri_deadline *deadline, int *fds,
                                weiri_address *listens)
{
    int most_guests = job->nranks + MOST_STRANGERS;
    reception room = {.job = job,
                      .listener = listener,
                      .fds = fds,
                      .listens = listens,
                      .missing = job->nranks - 1 - job->rank,
                      .most_guests = most_guests,
                      .guests = calloc((size_t)most_guests, sizeof *room.guests),
                      .set = calloc((size_t)(1 + most_guests + job->nranks), sizeof *room.set)};
    weir_status status;
    if (room.guests && room.set)
        status = receive_all(&room, deadline);
    else
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to receive %d ranks",
                            job->rank, job->nranks);
    while (room.nguests > 0)
        refuse(&room, 0, "it never said who it is");
    free(room.guests);
    free(room.set);
    return status;
}
