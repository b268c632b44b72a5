/* Reports of ranks before there is a communicator: see watch.h. */
#include "bench/job/watch.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_WAIT_MS = 500, RANK_MS = 150, ALL_RANKS_MS = 2000, RANKS_MAX = 4096 };

/* Makes the name of a rank's socket. It starts with a zero byte: an abstract name, without a file.
 * Returns its length. */
static socklen_t make_socket_name(int rank, struct sockaddr_un *name)
{
    const char *job = getenv("PMIX_NAMESPACE");
    char parent[24];
    snprintf(parent, sizeof parent, "%ld", (long)getppid());
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weir-set-up-%.40s-%d",
                          job ? job : parent, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* The socket stays open as long as the process lives. */
static void bind_own_socket(int rank)
{
    struct sockaddr_un name;
    socklen_t length = make_socket_name(rank, &name);
    int own = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (own >= 0 && bind(own, (struct sockaddr *)&name, length) != 0)
        close(own);
}

static int has_socket(int rank)
{
    struct sockaddr_un name;
    socklen_t length = make_socket_name(rank, &name);
    int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int found = probe >= 0 && connect(probe, (struct sockaddr *)&name, length) == 0;
    if (probe >= 0)
        close(probe);
    return found;
}

static void wait_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void write_silent(FILE *to, int first, int end)
{
    for (int rank = first; rank < end; rank++)
        fprintf(to, "  rank %d: no answer; it is stopped, or has not come\n", rank);
}

/* Writes the head of the report if no lower rank reports, this rank, and the silent ranks next to
 * it. */
static void write_part(FILE *to, const bench_watch *watch, int rank, int nranks,
                       const char *phase, const char *why)
{
    int below = rank - 1, above = rank + 1;
    while (below >= 0 && !has_socket(below))
        below--;
    while (above < nranks && !has_socket(above))
        above++;
    if (below < 0)
        fprintf(to, "weir: where %d rank%s stand%s in set-up (deadline %d ms): %s\n", nranks,
                nranks == 1 ? "" : "s", nranks == 1 ? "s" : "", watch->deadline_ms, watch->program);
    write_silent(to, below + 1, rank);
    fprintf(to, "  rank %d (pid %ld): in %s; %s\n", rank, (long)getpid(), phase, why);
    if (above == nranks)
        write_silent(to, rank + 1, nranks);
}

void bench_setup_report(const bench_watch *watch, const char *phase, const char *why)
{
    int rank = watch->rank, nranks = watch->nranks;
    char *text = NULL;
    size_t bytes = 0;
    if (rank < 0 || rank >= nranks || nranks > RANKS_MAX)
        rank = 0, nranks = 1;
    long rank_ms = nranks * RANK_MS < ALL_RANKS_MS ? RANK_MS : ALL_RANKS_MS / nranks;
    bind_own_socket(rank);
    wait_ms(FIRST_WAIT_MS + rank * rank_ms);
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return;
    write_part(to, watch, rank, nranks, phase, why);
    fclose(to);
    if (write(STDERR_FILENO, text, bytes) >= 0)
        wait_ms((nranks - rank) * rank_ms);
    free(text);
}
