/*
 * Asks other processes about their ranks. All that are known by then are asked at the same time,
 * one connection each; their answers may name further processes, which are asked next. A process
 * that is known to be stopped or dead is not asked.
 */
#define _GNU_SOURCE
#include "comm/monitor/ras.h"

#include "base/fd.h"

#include "comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 4, ASKED_MAX = WEIR_RANKS_MAX, ANSWER_BYTES_MAX = 16 << 20, NO_LIMIT_S = 60 };

/* A process that is being asked. */
typedef struct gather_one {
    weiri_monitor_peer peer;
    int fd;
    char *question, *answer; /* owned */
    size_t asked, question_length, used, room;
} gather_one;

typedef struct gathering {
    weiri_view *view;
    uint64_t host; /* of this node */
    uint64_t end_ns;
    int stop;
    weiri_monitor_peer asked[ASKED_MAX];
    int nasked;
    int nleft; /* ranks whose processes are too many to be asked */
} gathering;

static int gather_was_asked(const gathering *all, const weiri_monitor_peer *peer)
{
    for (int i = 0; i < all->nasked; i++)
        if (all->asked[i].pid == peer->pid && all->asked[i].host == peer->host)
            return 1;
    return 0;
}

void weiri_gather_ask(const weiri_view *view, int is_same_node, FILE *to)
{
    int known = 0;
    fprintf(to, "WEIR RECORDS");
    for (int i = 0; is_same_node && i < view->ncomms && known < WEIRI_RECORDS_KNOWN; i++)
        if (view->comms[i].is_own) {
            fprintf(to, " %" PRIx64, view->comms[i].hash);
            known++;
        }
    fprintf(to, "\n");
}

static void gather_write_question(const gathering *all, gather_one *one)
{
    FILE *file = open_memstream(&one->question, &one->question_length);
    if (!file)
        return;
    weiri_gather_ask(all->view, one->peer.host == all->host, file);
    fclose(file);
}

static void gather_close(gather_one *one)
{
    if (one->fd >= 0)
        close(one->fd);
    free(one->question);
    free(one->answer);
    *one = (gather_one){.fd = -1};
}

/* Connects to a process without blocking. Returns 0 if it cannot. */
static int gather_open(const gathering *all, const weiri_monitor_peer *peer, gather_one *one)
{
    struct sockaddr_storage name;
    const socklen_t length = weiri_address_to_socket(&peer->address, &name);
    *one = (gather_one){.peer = *peer};
    one->fd = weiri_fd_raise(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    gather_write_question(all, one);
    if (one->fd >= 0 && one->question &&
        (connect(one->fd, (struct sockaddr *)&name, length) == 0 || errno == EINPROGRESS))
        return 1;
    gather_close(one);
    return 0;
}

/* Opens connections to the processes that have not been asked yet. Returns how many. */
static int gather_begin(gathering *all, gather_one *ones)
{
    int count = 0;
    all->nleft = 0;
    for (int i = 0; i < all->view->ncomms; i++)
        for (int rank = 0; rank < all->view->comms[i].nranks; rank++) {
            const weiri_view_rank *about = &all->view->comms[i].ranks[rank];
            const int is_able = about->seen == WEIRI_SEEN_NOT || about->seen == WEIRI_SEEN_RUNNING;
            if (!about->peer.address.port || !is_able || gather_was_asked(all, &about->peer))
                continue;
            if (all->nasked == ASKED_MAX) {
                all->nleft++;
                continue;
            }
            all->asked[all->nasked++] = about->peer;
            if (gather_open(all, &about->peer, &ones[count]))
                count++;
            else
                all->view->timeouts++;
        }
    return count;
}

/* Sends and receives. Returns 1 once the process has closed the connection, or failed. */
static int gather_move(gather_one *one)
{
    if (one->asked < one->question_length) {
        const ssize_t done = send(one->fd, one->question + one->asked,
                                  one->question_length - one->asked, MSG_NOSIGNAL);
        one->asked += done > 0 ? (size_t)done : 0;
        return done < 0 && errno != EAGAIN && errno != EINTR;
    }
    if (one->room - one->used < 4096) {
        const size_t room = one->room ? 2 * one->room : 16384;
        char *longer = room <= ANSWER_BYTES_MAX ? realloc(one->answer, room) : NULL;
        if (!longer)
            return 1;
        one->answer = longer;
        one->room = room;
    }
    const ssize_t got = recv(one->fd, one->answer + one->used, one->room - one->used - 1, 0);
    one->used += got > 0 ? (size_t)got : 0;
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* Reads the answer of a process, complete or not. */
static void gather_end_one(gathering *all, gather_one *one)
{
    int is_complete = 0;
    if (one->answer) {
        one->answer[one->used] = '\0';
        is_complete = weiri_records_read(all->view, one->answer);
    }
    all->view->timeouts += !is_complete;
    gather_close(one);
}

/* Waits for events of the open connections. Returns 0 if the deadline has passed or the service is
 * to end. */
static int gather_wait(const gathering *all, const gather_one *ones, int count, struct pollfd *set)
{
    const uint64_t now_ns = weir_clock_ns();
    const int left_ms = now_ns < all->end_ns ? (int)((all->end_ns - now_ns) / 1000000) + 1 : 0;
    for (int i = 0; i < count; i++)
        set[i] = (struct pollfd){
            .fd = ones[i].fd, .events = ones[i].asked < ones[i].question_length ? POLLOUT : POLLIN};
    set[count] = (struct pollfd){.fd = all->stop, .events = POLLIN};
    return left_ms && poll(set, (nfds_t)count + 1, left_ms) > 0 && !set[count].revents;
}

static void gather_round(gathering *all, gather_one *ones, int count, struct pollfd *set)
{
    int open = count;
    while (open && gather_wait(all, ones, count, set))
        for (int i = 0; i < count; i++)
            if (ones[i].fd >= 0 && set[i].revents && gather_move(&ones[i])) {
                gather_end_one(all, &ones[i]);
                open--;
            }
    for (int i = 0; i < count; i++)
        if (ones[i].fd >= 0)
            gather_end_one(all, &ones[i]);
}

void weiri_gather(weiri_view *view, int stop, int timeout_s)
{
    const int limit_s = timeout_s ? timeout_s : NO_LIMIT_S;
    gathering *all = calloc(1, sizeof *all);
    gather_one *ones = calloc(ASKED_MAX, sizeof *ones);
    struct pollfd *set = calloc(ASKED_MAX + 1, sizeof *set);
    if (all && ones && set) {
        all->view = view;
        all->host = weiri_host_id();
        all->end_ns = weir_clock_ns() + (uint64_t)limit_s * 1000000000u;
        all->stop = stop;
        all->asked[all->nasked++] = (weiri_monitor_peer){.host = all->host, .pid = (int)getpid()};
        for (int round = 0; round < ROUNDS; round++) {
            const int count = gather_begin(all, ones);
            if (!count)
                break;
            gather_round(all, ones, count, set);
        }
        view->timeouts += all->nleft;
    }
    /* Nothing was heard of the other ranks. */
    for (int i = 0; i < view->ncomms; i++)
        for (int rank = 0; rank < view->comms[i].nranks; rank++)
            if (view->comms[i].ranks[rank].seen == WEIRI_SEEN_NOT)
                view->comms[i].ranks[rank].seen = WEIRI_SEEN_SILENT;
    free(set);
    free(ones);
    free(all);
}
