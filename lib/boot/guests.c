/* Accepting, challenging, authenticating and rejecting guests. */
#define _GNU_SOURCE /* accept4 */

#include "boot/guests.h"

#include "base/error.h"
#include "base/log.h"
#include "boot/link.h"
#include "boot/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* If the list is full, the oldest guest is rejected. If the process runs out of descriptors, only
 * guests older than FRESH_MS are, which have had time to send their hello. */
enum { MOST_STRANGERS = 64, FRESH_MS = 1000, SILENT_MS = 10000 };

static int guests_is_older(const weiri_guest *who, int ms)
{
    return weir_clock_ns() - who->came_ns > (uint64_t)ms * 1000000u;
}

static void guests_remove(weiri_guests *room, int index)
{
    room->count--;
    memmove(&room->list[index], &room->list[index + 1],
            (size_t)(room->count - index) * sizeof *room->list);
}

static void guests_refuse(weiri_guests *room, int index, const char *why)
{
    weiri_guest *who = &room->list[index];
    weiri_log(WEIRI_LOG_WARN, "rank %d refused the connection from %s: %s", room->job->rank,
              who->where, why);
    room->refused++;
    snprintf(room->last_refusal, sizeof room->last_refusal, "%s, %s", who->where, why);
    close(who->fd);
    guests_remove(room, index);
}

/* Writes to a new connection, whose send buffer is empty: succeeds at once or fails. */
static int guests_write_now(int fd, const void *data, size_t bytes)
{
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    size_t done = 0;
    return weiri_link_write_some(fd, -1, &part, 1, &done) == WEIR_OK && done == bytes;
}

static weir_status guests_welcome(weiri_guests *room, int fd, const struct sockaddr_storage *name)
{
    if (room->count == room->most)
        guests_refuse(room, 0, "too many connections that send nothing");
    weiri_guest *who = &room->list[room->count];
    memset(who, 0, sizeof *who);
    who->fd = fd;
    who->came_ns = weir_clock_ns();
    weiri_address address = {0};
    weiri_address_from_socket(name, &address);
    weiri_address_text(&address, who->where);
    weir_status status = weiri_challenge_make(room->job, &who->challenge);
    if (status != WEIR_OK) {
        close(fd);
        return status;
    }
    room->count++;
    weiri_socket_no_delay(fd);
    if (!guests_write_now(fd, &who->challenge, sizeof who->challenge))
        guests_refuse(room, room->count - 1, "it hung up");
    return WEIR_OK;
}

static weir_status guests_accept(weiri_guests *room)
{
    for (;;) {
        struct sockaddr_storage name = {0};
        socklen_t bytes = sizeof name;
        int fd = accept4(room->listener, (struct sockaddr *)&name, &bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && room->count > 0) {
            if (!guests_is_older(&room->list[0], FRESH_MS))
                return WEIR_OK; /* recent guests will authenticate and leave the list */
            guests_refuse(room, 0, "no more files can be opened");
            continue;
        }
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEIR_OK;
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO))
            continue;
        if (fd < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d accepts connections",
                                    room->job->rank);
        weir_status status = guests_welcome(room, fd, &name);
        if (status != WEIR_OK)
            return status;
    }
}

static const weiri_job *guests_recognise(const weiri_guests *room, const weiri_guest *who)
{
    if (room->host.recognise)
        return room->host.recognise(room->host.context, who);
    return weiri_hello_proven(room->job, &who->challenge, &who->hello) ? room->job : NULL;
}

/* Admits or rejects a guest whose hello is complete. */
static weir_status guests_decide(weiri_guests *room, int index)
{
    weiri_guest *who = &room->list[index];
    const weiri_guests_host *host = &room->host;
    const weiri_job *job = guests_recognise(room, who);
    weiri_reply reply;
    if (!job) {
        weiri_reply_make(room->job, &who->challenge, &who->hello, WEIR_ERR_REFUSED,
                         "wrong secret; use the unique id or WEIR_BOOT_SECRET of this job",
                         &reply);
        guests_write_now(who->fd, &reply, sizeof reply);
        guests_refuse(room, index, "it does not know this job's secret");
        return WEIR_OK;
    }
    weir_status status = host->check(host->context, job, who);
    weiri_reply_make(job, &who->challenge, &who->hello, status,
                     status == WEIR_OK ? "" : weir_last_error(), &reply);
    int sent = guests_write_now(who->fd, &reply, sizeof reply);
    if (status != WEIR_OK || !sent) {
        guests_refuse(room, index, status == WEIR_OK ? "it hung up" : weir_last_error());
        return status;
    }
    host->take(host->context, job, who);
    guests_remove(room, index);
    return WEIR_OK;
}

static weir_status guests_read_hello(weiri_guests *room, int index)
{
    weiri_guest *who = &room->list[index];
    weir_status status = weiri_link_read_some(who->fd, -1, &who->hello, sizeof who->hello,
                                              &who->hello_bytes);
    if (who->hello_bytes >= sizeof who->hello.magic && !weiri_hello_plausible(&who->hello)) {
        guests_refuse(room, index, "it does not speak weir's protocol");
        return WEIR_OK;
    }
    if (status != WEIR_OK) {
        guests_refuse(room, index, "it hung up without saying who it is");
        return WEIR_OK;
    }
    return who->hello_bytes == sizeof who->hello ? guests_decide(room, index) : WEIR_OK;
}

weir_status weiri_guests_open(const weiri_job *job, const weiri_guests_host *host, int listener,
                              int expected, weiri_guests *guests)
{
    int most = expected + MOST_STRANGERS;
    weiri_guest *list = calloc((size_t)most, sizeof *list);
    if (!list)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to receive %d ranks", job->rank,
                          expected);
    *guests = (weiri_guests){
        .job = job, .host = *host, .listener = listener, .most = most, .list = list};
    return WEIR_OK;
}

void weiri_guests_expire(weiri_guests *guests)
{
    while (guests->count > 0 && guests_is_older(&guests->list[0], SILENT_MS))
        guests_refuse(guests, 0, "it does not say who it is");
}

void weiri_guests_close(weiri_guests *guests)
{
    while (guests->count > 0)
        guests_refuse(guests, 0, "it never said who it is");
    free(guests->list);
    guests->list = NULL;
}

int weiri_guests_most_watched(const weiri_guests *guests)
{
    return 1 + guests->most;
}

int weiri_guests_watch(const weiri_guests *guests, struct pollfd *set)
{
    int entries = 0;
    set[entries++] = (struct pollfd){.fd = guests->listener, .events = POLLIN};
    for (int i = 0; i < guests->count; i++)
        set[entries++] = (struct pollfd){.fd = guests->list[i].fd, .events = POLLIN};
    return entries;
}

weir_status weiri_guests_act(weiri_guests *guests, const struct pollfd *set, int entries)
{
    /* From the last to the first, since removing a guest moves the later ones. */
    for (int i = entries - 2; i >= 0; i--) {
        weir_status status = set[1 + i].revents ? guests_read_hello(guests, i) : WEIR_OK;
        if (status != WEIR_OK)
            return status;
    }
    return set[0].revents ? guests_accept(guests) : WEIR_OK;
}
