/* Accepting, challenging, authenticating and rejecting guests. */
#define _GNU_SOURCE /* accept4 */

#include "boot/guests.h"

#include "base/fd.h"
#include "base/error.h"
#include "base/log.h"
#include "boot/link.h"
#include "boot/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* If the list is full or the process runs out of descriptors, the oldest guest is rejected if it is
 * older than FRESH_MS, and has thus had time to send its hello; else connections wait. */
enum { MOST_STRANGERS = 64, FEWEST = 4, FRESH_MS = 250, PAUSE_MS = 10, SILENT_MS = 10000 };
/* Refused connections that are logged one by one, and how often the number of further ones is. */
enum { LINES = 4, COUNT_EVERY_MS = 10000 };

static int guests_is_older(const weiri_guest *who, int ms)
{
    return weir_clock_ns() - who->came_ns > (uint64_t)ms * 1000000u;
}

static void guests_remove(weiri_guests *room, int index)
{
    room->count--;
    memmove(&room->list[index], &room->list[index + 1],
            (size_t)(room->count - index) * sizeof *room->list);
    room->resume_ns = 0;
}

/* Logs refused connections that the log does not show yet as a number. */
static void guests_log_count(weiri_guests *room)
{
    const int more = room->refused - room->logged;
    if (more == 0)
        return;
    weiri_log(WEIRI_LOG_WARN, "rank %d refused %d more connection%s, the last from %s",
              room->job->rank, more, more == 1 ? "" : "s", room->last_refusal);
    room->logged = room->refused;
    room->logged_ns = weir_clock_ns();
}

static void guests_log_count_if_due(weiri_guests *room)
{
    if (weir_clock_ns() - room->logged_ns > COUNT_EVERY_MS * UINT64_C(1000000))
        guests_log_count(room);
}

static void guests_log_refusal(weiri_guests *room, const char *where, const char *why)
{
    if (room->logged >= LINES) {
        guests_log_count_if_due(room);
        return;
    }
    weiri_log(WEIRI_LOG_WARN, "rank %d refused the connection from %s: %s%s", room->job->rank,
              where, why, room->refused == LINES ? "; further ones will only be counted" : "");
    room->logged++;
    room->logged_ns = weir_clock_ns();
}

static void guests_refuse(weiri_guests *room, int index, const char *why)
{
    weiri_guest *who = &room->list[index];
    room->refused++;
    snprintf(room->last_refusal, sizeof room->last_refusal, "%s, %s", who->where, why);
    guests_log_refusal(room, who->where, why);
    close(who->fd);
    guests_remove(room, index);
}

/* Rejects the oldest guest if it has had its time, and returns 1. Else no connections are accepted
 * for a moment. */
static int guests_make_room(weiri_guests *room, const char *why)
{
    if (guests_is_older(&room->list[0], FRESH_MS)) {
        guests_refuse(room, 0, why);
        return 1;
    }
    room->resume_ns = weir_clock_ns() + PAUSE_MS * UINT64_C(1000000);
    return 0;
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
        if (room->count == room->most &&
            !guests_make_room(room, "too many connections that send nothing"))
            return WEIR_OK;
        int fd = weiri_fd_raise(accept4(room->listener, (struct sockaddr *)&name, &bytes,
                                        SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && room->count > 0) {
            if (!guests_make_room(room, "no more files can be opened"))
                return WEIR_OK; /* recent guests will authenticate and leave the list */
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
                         host->unknown ? host->unknown
                                       : "wrong secret; use the unique id or WEIR_BOOT_SECRET of "
                                         "this job",
                         &reply);
        guests_write_now(who->fd, &reply, sizeof reply);
        guests_refuse(room, index, "it does not know this job's secret");
        return WEIR_OK;
    }
    if (host->is_crossing && host->is_crossing(host->context, job)) {
        weiri_reply_make(job, &who->challenge, &who->hello, (weir_status)WEIRI_REPLY_CROSSED, "",
                         &reply);
        guests_write_now(who->fd, &reply, sizeof reply);
        close(who->fd);
        guests_remove(room, index);
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
    weir_status status =
        weiri_link_read_some(who->fd, -1, &who->hello, sizeof who->hello, &who->hello_bytes);
    const char *fault =
        who->hello_bytes >= sizeof who->hello.magic ? weiri_hello_fault(&who->hello) : NULL;
    if (fault) {
        guests_refuse(room, index, fault);
        return WEIR_OK;
    }
    if (status != WEIR_OK) {
        guests_refuse(room, index, "it hung up without saying who it is");
        return WEIR_OK;
    }
    return who->hello_bytes == sizeof who->hello ? guests_decide(room, index) : WEIR_OK;
}

/* Returns the number of guests that leaves the process most of the descriptors it may open. */
static int guests_affordable(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT32_MAX)
        return INT32_MAX;
    const int quarter = (int)(files.rlim_cur / 4);
    return quarter > FEWEST ? quarter : FEWEST;
}

weir_status weiri_guests_open(const weiri_job *job, const weiri_guests_host *host, int listener,
                              int expected, weiri_guests *guests)
{
    const int affordable = guests_affordable();
    const int wanted = expected + MOST_STRANGERS;
    const int most = wanted < affordable ? wanted : affordable;
    weiri_guest *list = calloc((size_t)most, sizeof *list);
    if (!list)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to receive %d ranks", job->rank,
                          expected);
    *guests =
        (weiri_guests){.job = job, .host = *host, .listener = listener, .most = most, .list = list};
    return WEIR_OK;
}

void weiri_guests_expire(weiri_guests *guests)
{
    while (guests->count > 0 && guests_is_older(&guests->list[0], SILENT_MS))
        guests_refuse(guests, 0, "it does not say who it is");
    guests_log_count_if_due(guests);
}

void weiri_guests_close(weiri_guests *guests)
{
    while (guests->count > 0)
        guests_refuse(guests, 0, "it never said who it is");
    if (guests->job)
        guests_log_count(guests);
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
    const int paused = weir_clock_ns() < guests->resume_ns;
    set[entries++] = (struct pollfd){.fd = paused ? -1 : guests->listener, .events = POLLIN};
    for (int i = 0; i < guests->count; i++)
        set[entries++] = (struct pollfd){.fd = guests->list[i].fd, .events = POLLIN};
    return entries;
}

int weiri_guests_wait_ms(const weiri_guests *guests, int wait_ms)
{
    const int is_short = wait_ms >= 0 && wait_ms <= PAUSE_MS;
    return weir_clock_ns() < guests->resume_ns && !is_short ? PAUSE_MS : wait_ms;
}

int weiri_guests_pending(const weiri_guests *guests)
{
    struct pollfd queue = {.fd = guests->listener, .events = POLLIN};
    return guests->count > 0 || poll(&queue, 1, 0) > 0;
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
