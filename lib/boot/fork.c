/*
 * The bootstrap of forked children: a mesh of socket pairs, or with many ranks a tree of meshes
 * (tree.h).
 *
 * The socket pairs of a child are created just before it is forked, and the parent closes the
 * child's ends right afterwards. Each socket is therefore open in one process only, and the peers
 * of a child that dies see the end of the stream.
 */
#include "base/config.h"
#include "base/fd.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_files.h"
#include "boot/deadline.h"
#include "boot/link.h"
#include "boot/mesh.h"
#include "boot/ranks.h"
#include "boot/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct fork_job {
    int nranks;
    int *ends;   /* sockets of each rank to the members of its meshes, or -1 */
    pid_t *pids; /* 0: not started, or reaped */
    int *codes;  /* exit codes; 128 + the signal if one ended the child */
    int *said;   /* shared with the children: their exit codes, or UNSAID */
    int failed;  /* the first rank that was seen to end with another code than 0; -1: none */
    pid_t parent;
    uint8_t key[WEIRI_KEY_BYTES]; /* of the names at which ranks listen */
} fork_job;

enum { ENDS = WEIRI_TREE_MESH }; /* of a rank, in all of its meshes */
enum { UNSAID = -1 };
_Static_assert((int)WEIRI_TREE_DEPTH *(int)WEIRI_TREE_GROUP <= (int)ENDS, "ends suffice");

/* A rank's sockets to the members of its mesh on a level. */
static int *fork_ends_of(const fork_job *job, int rank, int level)
{
    return job->ends + (size_t)rank * ENDS + (size_t)level * WEIRI_TREE_GROUP;
}

static void fork_close_ends(fork_job *job, int rank)
{
    weiri_link_close_all(fork_ends_of(job, rank, 0), ENDS);
}

/* The files that are open at once. In the parent: the ends of children that are not forked yet (in
 * a mesh at most n/2 * n/2), the next child's own pairs, and other files. In a child of a tree also
 * a descriptor of each rank's process. */
static uint64_t fork_descriptors_needed(int nranks)
{
    enum { OTHERS = 64, OF_TREE = WEIRI_TREE_DEPTH * (WEIRI_TREE_GROUP * WEIRI_TREE_GROUP / 4) };
    return nranks <= WEIRI_TREE_MESH ? (uint64_t)(nranks * nranks / 4 + 2 * nranks + OTHERS)
                                     : (uint64_t)(nranks + OF_TREE + OTHERS);
}

static weir_status fork_allow_processes(int nranks)
{
    struct rlimit limit;
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur < (rlim_t)nranks)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "%d forked ranks need as many processes, %llu are allowed; raise 'ulimit "
                          "-u' or start fewer ranks",
                          nranks, (unsigned long long)limit.rlim_cur);
    return WEIR_OK;
}

/* Frees what fork_job_create or a part of it allocated. */
static void fork_job_free(fork_job *job)
{
    if (job->ends)
        weiri_link_close_all(job->ends, job->nranks * ENDS);
    if (job->said)
        munmap(job->said, (size_t)job->nranks * sizeof *job->said);
    free(job->codes);
    free(job->pids);
    free(job->ends);
}

static weir_status fork_job_create(fork_job *job, int nranks)
{
    size_t n = (size_t)nranks;
    *job = (fork_job){.nranks = nranks,
                      .failed = -1,
                      .ends = malloc(n * ENDS * sizeof *job->ends),
                      .pids = calloc(n, sizeof *job->pids),
                      .codes = calloc(n, sizeof *job->codes),
                      .parent = getpid()};
    if (job->ends)
        memset(job->ends, 0xff, n * ENDS * sizeof *job->ends); /* every entry -1 */
    void *shared = mmap(NULL, n * sizeof *job->said, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job->said = shared == MAP_FAILED ? NULL : shared;
    for (size_t rank = 0; job->said && rank < n; rank++)
        job->said[rank] = UNSAID;
    if (job->ends && job->pids && job->codes && job->said) {
        weir_status status = weiri_random(job->key, sizeof job->key);
        if (status != WEIR_OK)
            fork_job_free(job);
        return status;
    }
    fork_job_free(job);
    return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to start %d ranks", nranks);
}

/* The pairs with the members of a mesh that are forked later. */
static weir_status fork_make_pairs_of(fork_job *job, int rank, int level,
                                      const weiri_tree_level *at)
{
    for (int i = at->index + 1; i < at->count; i++) {
        int pair[2], peer = weiri_tree_member(at, i);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "socket pair of ranks %d and %d", rank,
                                    peer);
        fork_ends_of(job, rank, level)[i] = weiri_fd_raise(pair[0]);
        fork_ends_of(job, peer, level)[at->index] = weiri_fd_raise(pair[1]);
        if (fork_ends_of(job, rank, level)[i] < 0 || fork_ends_of(job, peer, level)[at->index] < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "socket pair of ranks %d and %d", rank,
                                    peer);
    }
    return WEIR_OK;
}

static weir_status fork_make_pairs(fork_job *job, int rank)
{
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    int count = weiri_tree_levels(rank, job->nranks, levels);
    weir_status status = WEIR_OK;
    for (int level = 0; level < count && status == WEIR_OK; level++)
        status = fork_make_pairs_of(job, rank, level, &levels[level]);
    return status;
}

/* The bootstrap of a child, from its ends. */
static weir_status fork_create_boot(const fork_job *job, int rank, weir_boot **boot)
{
    int *fds[WEIRI_TREE_DEPTH];
    const int timeout_ms = weiri_config_timeout_ms();
    weiri_direct *direct = NULL;
    for (int level = 0; level < WEIRI_TREE_DEPTH; level++)
        fds[level] = fork_ends_of(job, rank, level);
    if (job->nranks <= WEIRI_TREE_MESH)
        return weiri_mesh_create("fork", rank, job->nranks, timeout_ms, fds[0], boot);
    weiri_direct_job self = {.rank = rank, .nranks = job->nranks, .timeout_ms = timeout_ms};
    memcpy(self.key, job->key, sizeof self.key);
    weir_status status = weiri_direct_create(&self, &direct);
    return status == WEIR_OK
               ? weiri_tree_create("fork", rank, job->nranks, timeout_ms, fds, direct, boot)
               : status;
}

/* Runs body in a child, which ends with _exit: functions that the parent registered with atexit
 * must not run in it. */
__attribute__((noreturn)) static void fork_child_main(fork_job *job, int rank,
                                                      int (*body)(weir_boot *boot, void *argument),
                                                      void *argument)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != job->parent)
        _exit(128 + SIGKILL);
    weiri_log_set_rank(rank);
    for (int other = 0; other < job->nranks; other++)
        if (other != rank)
            fork_close_ends(job, other);
    weir_boot *boot;
    weir_status status = fork_create_boot(job, rank, &boot);
    if (status != WEIR_OK) {
        weiri_log(WEIRI_LOG_ERROR, "%s", weir_last_error());
        job->said[rank] = weir_status_exit_code(status);
        _exit(job->said[rank]);
    }
    int code = body(boot, argument);
    weir_boot_destroy(boot);
    fflush(NULL);
    job->said[rank] = code & 0xff;
    _exit(code);
}

static weir_status fork_start(fork_job *job, int (*body)(weir_boot *boot, void *argument),
                              void *argument)
{
    fflush(NULL); /* so that children do not write buffered output again */
    for (int rank = 0; rank < job->nranks; rank++) {
        weir_status status = fork_make_pairs(job, rank);
        if (status != WEIR_OK)
            return status;
        pid_t pid = fork();
        if (pid < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "fork of rank %d of %d%s", rank,
                                    job->nranks,
                                    errno == EAGAIN ? "; raise 'ulimit -u' or the container's "
                                                      "limit of processes"
                                                    : "");
        if (pid == 0)
            fork_child_main(job, rank, body, argument);
        job->pids[rank] = pid;
        fork_close_ends(job, rank);
    }
    return WEIR_OK;
}

/* The code of a child that somebody else has reaped: SIGCHLD is ignored in this process, or a
 * handler of the program waits for any child. */
static int fork_code_said(const fork_job *job, int rank)
{
    enum { UNKNOWN = 255 };
    if (job->said[rank] != UNSAID)
        return job->said[rank];
    weiri_log(WEIRI_LOG_ERROR,
              "rank %d ended before its body returned, with an unknown code: this process ignores "
              "SIGCHLD, or reaps every child in a handler",
              rank);
    return UNKNOWN;
}

/* Reaps children that have ended and returns how many have not. Waits by pid, so that the caller's
 * other children are left alone. */
static int fork_reap(fork_job *job, int flags)
{
    int alive = 0;
    for (int rank = 0; rank < job->nranks; rank++) {
        if (job->pids[rank] == 0)
            continue;
        int state = 0;
        pid_t got;
        do
            got = waitpid(job->pids[rank], &state, flags);
        while (got < 0 && errno == EINTR);
        if (got == 0) {
            alive++;
            continue;
        }
        job->pids[rank] = 0;
        if (got < 0)
            job->codes[rank] = fork_code_said(job, rank);
        else
            job->codes[rank] = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
        if (job->codes[rank] != 0 && job->failed < 0)
            job->failed = rank;
    }
    return alive;
}

static void fork_kill_all(fork_job *job)
{
    for (int rank = 0; rank < job->nranks; rank++)
        if (job->pids[rank] > 0)
            kill(job->pids[rank], SIGKILL);
    fork_reap(job, 0);
}

/* Lists the ranks that still run. */
static weiri_ranks fork_running(const fork_job *job)
{
    weiri_ranks running = {0};
    for (int rank = 0; rank < job->nranks; rank++)
        if (job->pids[rank] > 0)
            weiri_ranks_add(&running, rank);
    return running;
}

/* Returns 1 if all ranks that have not ended are stopped, and so cannot end. */
static int fork_all_stopped(const fork_job *job)
{
    for (int rank = 0; rank < job->nranks; rank++) {
        siginfo_t info = {0};
        if (job->pids[rank] > 0 &&
            (waitid(P_PID, (id_t)job->pids[rank], &info, WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
             info.si_code != CLD_STOPPED))
            return 0;
    }
    return 1;
}

/* What has been seen since a rank failed. */
typedef struct fork_farewell {
    uint64_t failed_ns; /* when the first failure was seen; 0: none */
    weiri_deadline end; /* of the ranks that have not ended */
    int alive;          /* how many ranks have not ended */
} fork_farewell;

/* After a failure, kills the ranks that have not ended if none ends for FAREWELL_MS, or all of them
 * are stopped. Each rank that ends gives the others that time again, because many ranks on few
 * cores end slowly. */
static void fork_end_stragglers(fork_job *job, int alive, fork_farewell *farewell)
{
    enum { FAREWELL_MS = 5000 };
    if (job->failed < 0)
        return;
    if (!farewell->failed_ns)
        farewell->failed_ns = weir_clock_ns();
    if (alive != farewell->alive)
        farewell->end = weiri_deadline_in(FAREWELL_MS);
    farewell->alive = alive;
    const int is_over = weiri_deadline_left_ms(&farewell->end) == 0;
    if (!is_over && !fork_all_stopped(job))
        return;
    weiri_ranks late = fork_running(job);
    if (is_over)
        weiri_log(WEIRI_LOG_ERROR,
                  "%s %s %s not ended %d ms after rank %d failed with code %d; killed",
                  weiri_ranks_noun(&late), late.list, weiri_ranks_have(&late),
                  (int)((weir_clock_ns() - farewell->failed_ns) / 1000000), job->failed,
                  job->codes[job->failed]);
    else
        weiri_log(WEIRI_LOG_ERROR, "%s %s stopped, and killed because rank %d failed with code %d",
                  weiri_ranks_noun(&late), late.list, job->failed, job->codes[job->failed]);
    fork_kill_all(job);
}

/* Looks often in the first seconds, and later seldom, so that long measurements are not
 * disturbed. timeout_ms 0: without a limit. */
static weir_status fork_wait_all(fork_job *job, int timeout_ms)
{
    enum { SHORTEST_NAP_NS = 50000, EARLY_NAP_NS = 2000000, LATE_NAP_NS = 100000000, EARLY = 1000 };
    weiri_deadline deadline = weiri_deadline_in(timeout_ms);
    fork_farewell farewell = {0};
    struct timespec nap = {.tv_nsec = SHORTEST_NAP_NS};
    for (int naps = 0, alive; (alive = fork_reap(job, WNOHANG)) > 0; naps++) {
        fork_end_stragglers(job, alive, &farewell);
        if (timeout_ms > 0 && weiri_deadline_left_ms(&deadline) == 0) {
            weiri_ranks late = fork_running(job);
            return weiri_fail(WEIR_ERR_TIMEOUT, "%s %s of %d %s not ended after %d ms",
                              weiri_ranks_noun(&late), late.list, job->nranks,
                              weiri_ranks_have(&late), timeout_ms);
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < (naps < EARLY ? EARLY_NAP_NS : LATE_NAP_NS))
            nap.tv_nsec *= 2;
    }
    return WEIR_OK;
}

weir_status weir_boot_fork_run(int nranks, int (*body)(weir_boot *boot, void *argument),
                               void *argument, int timeout_ms, int *exit_codes)
{
    if (nranks < 1 || nranks > WEIR_RANKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "%d forked ranks; expected 1 to %d", nranks,
                          WEIR_RANKS_MAX);
    if (!body || timeout_ms < 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "forked ranks need a body and a time limit of 1 ms or more, or 0 for "
                          "none, got %d ms",
                          timeout_ms);
    weir_status status = fork_allow_processes(nranks);
    if (status == WEIR_OK) {
        char who[48];
        snprintf(who, sizeof who, "%d forked ranks", nranks);
        status = weiri_open_files_allow(fork_descriptors_needed(nranks), who);
    }
    if (status != WEIR_OK)
        return status;
    fork_job job;
    status = fork_job_create(&job, nranks);
    if (status != WEIR_OK)
        return status;
    status = fork_start(&job, body, argument);
    if (status == WEIR_OK)
        status = fork_wait_all(&job, timeout_ms);
    fork_kill_all(&job); /* does nothing after success */
    if (exit_codes)
        memcpy(exit_codes, job.codes, (size_t)nranks * sizeof *exit_codes);
    fork_job_free(&job);
    return status;
}
