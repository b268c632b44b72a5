/*
 * Reports of ranks before there is a communicator: see watch.h.
 *
 * One rank of a node collects the states of the others and writes the report at once, so that its
 * lines are in order: the rank that first binds an abstract socket named after the job. The others
 * send it a datagram each and wait until it has closed the socket, because the launcher terminates
 * the job when the first rank ends. A refusal to start is printed by the rank that binds another
 * socket of this kind.
 */
#define _GNU_SOURCE /* struct ucred */
#include "bench/job/watch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "bench/job/launch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { RANKS_MAX = 4096, LINE_BYTES = 320 };

/* How long the collector waits for the first or another rank, for all of them, and with the socket
 * open after the report. given_up: this rank has passed its deadline; terminated: the launcher
 * terminates the job, and leaves a second for the report. */
typedef struct setup_times {
    int next_ms, all_ms, after_ms;
} setup_times;
static const setup_times given_up = {1200, 1200, 100}, terminated = {600, 600, 0};
/* How often the collector looks for a SIGTERM, and as how long a look counts at most. LONGER_MS: by
 * how much the others' patience with the collector exceeds its times, as its looks may be late:
 * when one of them ends, the launcher terminates the job. */
enum { LOOK_MS = 50, LATE_MS = 100, LONGER_MS = 2000 };

static atomic_int setup_has_begun;

static const char report_name[] = "set-up", refusal_name[] = "refusal";

/* The state of a rank: the datagram. */
typedef struct setup_state {
    int32_t rank;
    int32_t pid; /* 0: no state has come */
    char line[LINE_BYTES];
} setup_state;

static void setup_sleep_ms(int ms)
{
    poll(NULL, 0, ms);
}

/* Makes the name of the collector, or of the rank that prints a refusal, from the identity of the
 * job on this node. It starts with a zero byte: an abstract name, without a file. Returns its
 * length. */
static socklen_t setup_make_name(const char *what, struct sockaddr_un *name)
{
    weiri_job_identity identity;
    char hash[WEIRI_JOB_NAME_BYTES];
    bench_launch_identity(&identity);
    weiri_job_identity_name(&identity, what, 0, hash);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weir-%s-%s", what, hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Returns a socket that is bound to the name, or connected to it; -1 if that is not possible. */
static int setup_open(const char *what, int (*use)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un name;
    socklen_t length = setup_make_name(what, &name);
    int fd = weiri_fd_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (fd >= 0) /* before a datagram can come */
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    if (fd >= 0 && use(fd, (struct sockaddr *)&name, length) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ---------------------------------------------------------------- the collector */

/* Receives a state. Returns 1 if it comes from a process of this user and from a rank. */
static int setup_receive(int fd, int nranks, setup_state *state)
{
    char control[CMSG_SPACE(sizeof(struct ucred))] = "";
    struct iovec part = {state, sizeof *state};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct ucred from;
    if (recvmsg(fd, &message, MSG_DONTWAIT) != (ssize_t)sizeof *state)
        return 0;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (!head || head->cmsg_type != SCM_CREDENTIALS)
        return 0;
    memcpy(&from, CMSG_DATA(head), sizeof from);
    state->line[sizeof state->line - 1] = '\0';
    return from.uid == geteuid() && state->rank >= 0 && state->rank < nranks && state->pid > 0;
}

static int setup_is_terminated(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

static int setup_least(int a, int b)
{
    return a < b ? a : b;
}

/* Receives states until all ranks have sent theirs or the time is over, which a SIGTERM shortens to
 * that of a rank which is terminated, counted from the start, but LATE_MS at least. Returns their
 * number. A look that comes late counts as LATE_MS: where this rank got no processor, the others
 * probably got none either. */
static int setup_collect(int fd, const setup_times *times, int nranks, setup_state *states)
{
    int all_ms = times->all_ms, next_ms = times->next_ms;
    int count = 1, hurries = 0; /* count: this rank */
    const uint64_t start_ms = weiri_clock_ms();
    uint64_t last_ms = start_ms;
    while (count < nranks) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        setup_state state;
        if (!hurries && setup_is_terminated()) {
            hurries = 1;
            const int rest_ms = terminated.all_ms - (int)(weiri_clock_ms() - start_ms);
            all_ms = setup_least(all_ms, rest_ms > LATE_MS ? rest_ms : LATE_MS);
        }
        const int left_ms = setup_least(all_ms, next_ms);
        if (left_ms <= 0)
            break;
        const int came =
            poll(&one, 1, setup_least(left_ms, LOOK_MS)) > 0 && setup_receive(fd, nranks, &state);
        const uint64_t now_ms = weiri_clock_ms();
        const int since_ms = (int)(now_ms - last_ms);
        const int took_ms = hurries ? since_ms : setup_least(since_ms, LATE_MS);
        last_ms = now_ms;
        all_ms -= took_ms;
        next_ms -= took_ms;
        if (!came)
            continue;
        count += !states[state.rank].pid;
        states[state.rank] = state;
        next_ms = times->next_ms;
    }
    return count;
}

/* Returns the number of ranks that the launcher started on this node. */
static int setup_local_nranks(int nranks)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "LOCAL_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && atoi(text) > 0 && atoi(text) < nranks)
            return atoi(text);
    }
    return nranks;
}

static void setup_write(const bench_watch *watch, int nranks, const setup_state *states)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return;
    fprintf(to, "weir: where %d rank%s stand%s in set-up (deadline %d ms): %s\n", nranks,
            nranks == 1 ? "" : "s", nranks == 1 ? "s" : "", watch->deadline_ms, watch->program);
    for (int rank = 0; rank < nranks; rank++)
        if (states[rank].pid)
            fprintf(to, "  rank %d (pid %d): %s\n", rank, states[rank].pid, states[rank].line);
        else
            fprintf(to, "  rank %d: no answer; it has ended, is stopped, %s\n", rank,
                    setup_local_nranks(nranks) < nranks ? "has not come, or is on another node"
                                                        : "or has not come");
    fclose(to);
    const ssize_t written = write(STDERR_FILENO, text, bytes);
    (void)written;
    free(text);
}

/* expected: if so many ranks have sent their state, there is nothing to report. */
static void setup_lead(int fd, const bench_watch *watch, const setup_times *times, int nranks,
                       const setup_state *mine, int expected)
{
    setup_state *states = calloc((size_t)nranks, sizeof *states);
    if (!states)
        return;
    states[mine->rank] = *mine;
    if (setup_collect(fd, times, nranks, states) < expected)
        setup_write(watch, nranks, states);
    if (!setup_is_terminated())
        setup_sleep_ms(times->after_ms);
    free(states);
}

/* ------------------------------------------------------------------ the others */

/* Sends the state, and waits until the collector has written the report. Returns 0, or -1 if there
 * is no collector any more. */
static int setup_follow(const setup_times *times, const setup_state *mine)
{
    const uint64_t end_ms =
        weiri_clock_ms() + (uint64_t)(times->all_ms + times->after_ms + LONGER_MS);
    int fd = setup_open(report_name, connect);
    if (fd < 0)
        return -1;
    const int sent = send(fd, mine, sizeof *mine, MSG_NOSIGNAL) == (ssize_t)sizeof *mine;
    close(fd);
    while (sent && weiri_clock_ms() < end_ms && (fd = setup_open(report_name, connect)) >= 0) {
        close(fd);
        setup_sleep_ms(10);
    }
    return sent ? 0 : -1;
}

static void setup_report(const bench_watch *watch, const setup_times *times, const char *phase,
                         const char *why, int expected)
{
    int rank = watch->rank, nranks = watch->nranks, fd;
    if (rank < 0 || rank >= nranks || nranks > RANKS_MAX)
        rank = 0, nranks = 1;
    setup_state mine = {.rank = rank, .pid = (int32_t)getpid()};
    const int says_so = strncmp(phase, "set-up", 6) == 0 || strncmp(phase, "tear-down", 9) == 0;
    snprintf(mine.line, sizeof mine.line, "in %s%s; %s", says_so ? "" : "set-up: ", phase, why);
    while ((fd = setup_open(report_name, bind)) < 0 && errno == EADDRINUSE)
        if (setup_follow(times, &mine) == 0)
            return;
    if (fd < 0)
        return;
    setup_lead(fd, watch, times, nranks, &mine, expected ? expected : nranks + 1);
    close(fd);
}

void bench_setup_report(const bench_watch *watch, const char *phase, const char *why)
{
    atomic_store(&setup_has_begun, 1);
    setup_report(watch, &given_up, phase, why, 0);
}

int bench_setup_is_reporting(void)
{
    return atomic_load(&setup_has_begun);
}

void bench_setup_report_lost(const bench_watch *watch, const char *phase)
{
    if (watch->nranks > 1)
        setup_report(watch, &terminated, phase, "the launcher terminates the job",
                     setup_local_nranks(watch->nranks));
}

int bench_setup_is_collected(void)
{
    int fd = setup_open(report_name, connect);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

int bench_setup_claim_refusal(int is_first)
{
    const struct timespec half = {.tv_nsec = 500000000};
    if (!is_first)
        nanosleep(&half, NULL);
    return setup_open(refusal_name, bind) >= 0 || errno != EADDRINUSE; /* bound until the end */
}

void bench_setup_hold_refusal(void)
{
    enum { SLEEPS = 20 };
    const struct timespec pause = {.tv_nsec = 1000000000 / SLEEPS};
    for (int i = 0; i < SLEEPS; i++)
        nanosleep(&pause, NULL);
}
