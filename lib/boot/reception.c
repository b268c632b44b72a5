/* One poll loop over the guests at the listening socket and the ranks that have joined. */
#define _GNU_SOURCE /* POLLRDHUP */

#include "boot/reception.h"

#include "base/error.h"
#include "boot/guests.h"
#include "boot/ranks.h"
#include "boot/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct reception {
    const weiri_job *job;
    weiri_guests guests;
    int (*expects)(int rank, int other, int nranks);
    int *fds;
    weiri_address *listens;
    int missing;        /* ranks that have not joined */
    struct pollfd *set; /* guests, then ranks */
} reception;

/* Returns 1 if a rank has to connect to this one. */
static int reception_expects(const reception *room, int rank)
{
    return rank > room->job->rank && rank < room->job->nranks &&
           (!room->expects || room->expects(room->job->rank, rank, room->job->nranks));
}

/* Checks an authenticated rank. A contradiction ends the job for all ranks at once. */
static weir_status reception_check_rank(void *context, const weiri_job *job, const weiri_guest *who)
{
    const reception *room = context;
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
    if (!reception_expects(room, hello->rank))
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d at %s connected to rank %d, which did not "
                          "expect it",
                          hello->rank, who->where, job->rank);
    return WEIR_OK;
}

static void reception_take(void *context, const weiri_job *job, const weiri_guest *who)
{
    reception *room = context;
    (void)job;
    room->fds[who->hello.rank] = who->fd;
    if (room->listens)
        room->listens[who->hello.rank] = who->hello.listens;
    room->missing--;
}

static weir_status reception_fail_late(const reception *room, const weiri_deadline *deadline)
{
    weiri_ranks late = {0};
    for (int rank = room->job->rank + 1; rank < room->job->nranks; rank++)
        if (room->fds[rank] < 0 && reception_expects(room, rank))
            weiri_ranks_add(&late, rank);
    char where[WEIRI_ADDRESS_TEXT_BYTES] = "?";
    weiri_address address;
    if (weiri_socket_address(room->guests.listener, &address) == WEIR_OK)
        weiri_address_text(&address, where);
    char refusals[256] = "";
    if (room->guests.refused > 0)
        snprintf(refusals, sizeof refusals, " (connections refused: %d, the last: %s)",
                 room->guests.refused, room->guests.last_refusal);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "%s %s %s not joined %s after %d ms%s; start them, or "
                      "raise WEIR_TIMEOUT_MS",
                      weiri_ranks_noun(&late), late.list, weiri_ranks_have(&late), where,
                      deadline->timeout_ms, refusals);
}

/* Fills the poll set and returns the number of guests' entries. */
static int reception_watch(const reception *room)
{
    int guests = weiri_guests_watch(&room->guests, room->set);
    for (int rank = 0; rank < room->job->nranks; rank++) {
        int joined = rank > room->job->rank;
        room->set[guests + rank] =
            (struct pollfd){.fd = joined ? room->fds[rank] : -1, .events = POLLRDHUP};
    }
    return guests;
}

/* Handles the events of the poll set, of which the first `guests` entries are the guests'. */
static weir_status reception_act(reception *room, int guests)
{
    const struct pollfd *ranks = room->set + guests;
    for (int rank = 0; rank < room->job->nranks; rank++)
        if (ranks[rank].revents)
            return weiri_fail(WEIR_ERR_PEER,
                              "rank %d joined rank %d and ended before all ranks had joined", rank,
                              room->job->rank);
    return weiri_guests_act(&room->guests, room->set, guests);
}

static weir_status reception_receive_all(reception *room, const weiri_deadline *deadline)
{
    while (room->missing > 0) {
        int guests = reception_watch(room);
        int left_ms = weiri_deadline_left_ms(deadline);
        int ready = poll(room->set, (nfds_t)(guests + room->job->nranks),
                         weiri_guests_wait_ms(&room->guests, left_ms));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d waits for connections",
                                    room->job->rank);
        if (ready == 0 && left_ms == 0)
            return reception_fail_late(room, deadline);
        weir_status status = reception_act(room, guests);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Rejects processes that have connected, but are none of the ranks, with the reason: once the
 * listener is closed, they could only learn that nothing listens. A stranger that sends nothing
 * delays this rank by LATE_MS. */
static void reception_refuse_late(reception *room)
{
    enum { LATE_MS = 100 };
    const weiri_deadline deadline = weiri_deadline_in(LATE_MS);
    while (weiri_guests_pending(&room->guests) && weiri_deadline_left_ms(&deadline) > 0) {
        const int guests = weiri_guests_watch(&room->guests, room->set);
        const int wait_ms = weiri_guests_wait_ms(&room->guests, weiri_deadline_left_ms(&deadline));
        if (poll(room->set, (nfds_t)guests, wait_ms) > 0 &&
            weiri_guests_act(&room->guests, room->set, guests) == WEIR_ERR_SYSTEM)
            return;
    }
}

weir_status weiri_reception_run(const weiri_job *job, int listener, const weiri_deadline *deadline,
                                int (*expects)(int rank, int other, int nranks), int *fds,
                                weiri_address *listens)
{
    reception room = {.job = job, .expects = expects, .fds = fds, .listens = listens};
    for (int rank = job->rank + 1; rank < job->nranks; rank++)
        room.missing += reception_expects(&room, rank);
    const weiri_guests_host host = {
        .context = &room, .check = reception_check_rank, .take = reception_take};
    weir_status status = weiri_guests_open(job, &host, listener, job->nranks, &room.guests);
    if (status != WEIR_OK)
        return status;
    int entries = weiri_guests_most_watched(&room.guests) + job->nranks;
    room.set = calloc((size_t)entries, sizeof *room.set);
    if (room.set)
        status = reception_receive_all(&room, deadline);
    else
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to receive %d ranks", job->rank,
                            job->nranks);
    if (status == WEIR_OK)
        reception_refuse_late(&room);
    weiri_guests_close(&room.guests);
    free(room.set);
    return status;
}
