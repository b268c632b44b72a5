/*
 * The bootstrap of forked children: a mesh of socket pairs.
 *
 * The socket pairs of a child are created just before it is forked, and the parent closes the
 * child's ends right afterwards. Each socket is therefore open in one process only, and the peers
 * of a child that dies see the end of the stream.
 */
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "boot/deadline.h"
#include "boot/link.h"
#include "boot/mesh.h"
#include "boot/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64 };

typedef struct family {
    int nranks;
    int *ends;     /* ends[r * nranks + q]: rank r's socket to rank q, or -1 */
    pid_t *pids;   /* 0: not started, or reaped */
    int *codes;    /* what each child ended with */
    pid_t parent;
} family;

static int *ends_of(const family *kin, int rank)
{
    return kin->ends + (size_t)rank * (size_t)kin->nranks;
}

/* Raises the limit of open files to what is open at once: the ends of children that are not forked
 * yet (at most n/2 * n/2), the next child's own pairs, and other files. */
static weir_status allow_descriptors(int nranks)
{
    enum { OTHERS = 64 };
    rlim_t needed = (rlim_t)(nranks * nranks / 4 + 2 * nranks + OTHERS);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "limit of open files");
    if (limit.rlim_cur >= needed)
        return WEIR_OK;
    if (limit.rlim_max < needed)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "%d forked ranks need %llu open files, %llu are allowed; raise 'ulimit "
                          "-Hn' or start fewer ranks",
                          nranks, (unsigned long long)needed,
                          (unsigned long long)limit.rlim_max);
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "raising the limit of open files to %llu",
                                (unsigned long long)needed);
    return WEIR_OK;
}

/* Frees what family_create or a part of it allocated. */
static void family_free(family *kin)
{
    if (kin->ends)
        weiri_link_close_all(kin->ends, kin->nranks * kin->nranks);
    free(kin->codes);
    free(kin->pids);
    free(kin->ends);
}

static weir_status family_create(family *kin, int nranks)
{
    size_t n = (size_t)nranks;
    *kin = (family){.nranks = nranks,
                    .ends = malloc(n * n * sizeof *kin->ends),
                    .pids = calloc(n, sizeof *kin->pids),
                    .codes = calloc(n, sizeof *kin->codes),
                    .parent = getpid()};
    if (kin->ends)
        memset(kin->ends, 0xff, n * n * sizeof *kin->ends); /* every entry -1 */
    if (kin->ends && kin->pids && kin->codes)
        return WEIR_OK;
    family_free(kin);
    return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to start %d ranks", nranks);
}

static weir_status make_pairs(family *kin, int rank)
{
    for (int peer = rank + 1; peer < kin->nranks; peer++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "socket pair of ranks %d and %d", rank,
                                    peer);
        ends_of(kin, rank)[peer] = pair[0];
        ends_of(kin, peer)[rank] = pair[1];
    }
    return WEIR_OK;
}

/* Runs body in a child, which ends with _exit: functions that the parent registered with atexit
 * must not run in it. */
__attribute__((noreturn)) static void live(family *kin, int rank,
                                           int (*body)(weir_boot *boot, void *argument),
                                           void *argument)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != kin->parent)
        _exit(128 + SIGKILL);
    weiri_log_set_rank(rank);
    for (int other = 0; other < kin->nranks; other++)
        if (other != rank)
            weiri_link_close_all(ends_of(kin, other), kin->nranks);
    weir_boot *boot;
    weir_status status = weiri_mesh_create("fork", rank, kin->nranks, weiri_config_timeout_ms(),
                                           ends_of(kin, rank), &boot);
    if (status != WEIR_OK) {
        weiri_log(WEIRI_LOG_ERROR, "%s", weir_last_error());
        _exit(weir_status_exit_code(status));
    }
    int code = body(boot, argument);
    weir_boot_destroy(boot);
    fflush(NULL);
    _exit(code);
}

static weir_status start(family *kin, int (*body)(weir_boot *boot, void *argument),
                         void *argument)
{
    fflush(NULL); /* so that children do not write buffered output again */
    for (int rank = 0; rank < kin->nranks; rank++) {
        weir_status status = make_pairs(kin, rank);
        if (status != WEIR_OK)
            return status;
        pid_t pid = fork();
        if (pid < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "fork of rank %d of %d", rank,
                                    kin->nranks);
        if (pid == 0)
            live(kin, rank, body, argument);
        kin->pids[rank] = pid;
        weiri_link_close_all(ends_of(kin, rank), kin->nranks);
    }
    return WEIR_OK;
}

/* Reaps children that have ended and returns how many have not. Waits by pid, so that the caller's
 * other children are left alone. */
static int reap(family *kin, int flags)
{
    int alive = 0;
    for (int rank = 0; rank < kin->nranks; rank++) {
        if (kin->pids[rank] == 0)
            continue;
        int state = 0;
        pid_t got;
        do
            got = waitpid(kin->pids[rank], &state, flags);
        while (got < 0 && errno == EINTR);
        if (got == 0) {
            alive++;
            continue;
        }
        kin->pids[rank] = 0;
        /* got < 0: SIGCHLD is ignored in this process, and the code is lost. */
        if (got < 0)
            kin->codes[rank] = 255;
        else
            kin->codes[rank] = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    }
    return alive;
}

static void kill_all(family *kin)
{
    for (int rank = 0; rank < kin->nranks; rank++)
        if (kin->pids[rank] > 0)
            kill(kin->pids[rank], SIGKILL);
    reap(kin, 0);
}

static weir_status wait_all(family *kin, int timeout_ms)
{
    enum { LONGEST_NAP_NS = 2000000 };
    weiri_deadline deadline = weiri_deadline_in(timeout_ms);
    struct timespec nap = {.tv_nsec = 50000};
    while (reap(kin, WNOHANG) > 0) {
        if (weiri_deadline_left_ms(&deadline) == 0) {
            weiri_ranks late = {0};
            for (int rank = 0; rank < kin->nranks; rank++)
                if (kin->pids[rank] > 0)
                    weiri_ranks_add(&late, rank);
            return weiri_fail(WEIR_ERR_TIMEOUT, "%s %s of %d %s not ended after %d ms",
                              weiri_ranks_noun(&late), late.list, kin->nranks,
                              weiri_ranks_have(&late), timeout_ms);
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < LONGEST_NAP_NS)
            nap.tv_nsec *= 2;
    }
    return WEIR_OK;
}

weir_status weir_boot_fork_run(int nranks, int (*body)(weir_boot *boot, void *argument),
                               void *argument, int timeout_ms, int *exit_codes)
{
    if (nranks < 1 || nranks > MOST_RANKS)
        return weiri_fail(WEIR_ERR_INVALID, "%d forked ranks; expected 1 to %d", nranks,
                          MOST_RANKS);
    if (!body || timeout_ms < 1)
        return weiri_fail(WEIR_ERR_INVALID,
                          "forked ranks need a body and a timeout of at least 1 ms, got %d ms",
                          timeout_ms);
    weir_status status = allow_descriptors(nranks);
    if (status != WEIR_OK)
        return status;
    family kin;
    status = family_create(&kin, nranks);
    if (status != WEIR_OK)
        return status;
    status = start(&kin, body, argument);
    if (status == WEIR_OK)
        status = wait_all(&kin, timeout_ms);
    kill_all(&kin); /* does nothing after success */
    if (exit_codes)
        memcpy(exit_codes, kin.codes, (size_t)nranks * sizeof *exit_codes);
    family_free(&kin);
    return status;
}
