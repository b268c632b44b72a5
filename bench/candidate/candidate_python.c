/*
 * A peer in a Python file as a candidate, on host memory. A process next to each rank runs the file
 * (peer_process.h, peer_python.py) for the whole run. Rank and process share copies of the input
 * and the output; a call's time is what the process measures around the peer's function, and copies
 * and messages are not timed.
 */
#define _GNU_SOURCE /* memfd_create */
#include "bench/candidate/candidate.h"
#include "bench/candidate/peer_process.h"

#include "bench/job/cores.h"
#include "bench/options/peers.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const char bench_peer_script[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\nbench_peer_script:\n.incbin \"bench/candidate/peer_python.py\"\n"
        ".byte 0\n.popsection\n");

typedef struct python_state {
    const bench_job *job;
    char path[512], mode[32];
    int fds[2]; /* of the shared copies of input and output */
    void *shared[2];
    size_t bytes[2];
    bench_peer_process process;
    char refusal[WEIR_PEER_TEXT];
} python_state;

/* What the process answers to the first command; peer_python.py packs it. */
typedef struct python_about {
    char name[32], version[32], settings[256];
    int has_threads;
} python_about;

/* In the child: becomes Python, with the socket and the shared memory as file descriptors. */
static void python_start(void *context, int fd)
{
    const python_state *state = context;
    static const char no_python[] = "python3 cannot be started; install it, or correct PATH";
    char fds[3][16], ranks[4][16];
    const int inherited[] = {fd, state->fds[0], state->fds[1]};
    const int numbers[] = {state->job->group_rank, state->job->group_nranks, state->job->local_rank,
                           state->job->groups[state->job->group].nnodes};
    for (int i = 0; i < 3; i++) {
        fcntl(inherited[i], F_SETFD, 0);
        snprintf(fds[i], sizeof fds[i], "%d", inherited[i]);
    }
    for (int i = 0; i < 4; i++)
        snprintf(ranks[i], sizeof ranks[i], "%d", numbers[i]);
    execlp("python3", "python3", "-c", bench_peer_script, state->path, state->mode, fds[0], fds[1],
           fds[2], ranks[0], ranks[1], ranks[2], ranks[3], (char *)NULL);
    bench_peer_send(fd, BENCH_PEER_FAILED, no_python, sizeof no_python);
}

/* The bytes of a call's input and output on this rank. */
static size_t python_bytes(const bench_candidate *self, const weir_call *c, int is_output)
{
    const weir_collective gathers[2] = {WEIR_COLL_REDUCE_SCATTER, WEIR_COLL_ALLGATHER};
    const int has_all = c->collective == WEIR_COLL_ALLTOALL || c->collective == gathers[is_output];
    return c->count * weir_dtype_bytes(c->dtype) * (size_t)(has_all ? self->job->group_nranks : 1);
}

static int python_describe(const bench_candidate *self, const weir_call *c, int is_trial,
                           char *words, size_t bytes)
{
    return snprintf(words, bytes,
                    "{\"collective\": \"%s\", \"dtype\": \"%s\", \"op\": \"%s\", \"count\": %zu, "
                    "\"root\": %d, \"in_bytes\": %zu, \"out_bytes\": %zu, \"is_trial\": %d}",
                    weir_collective_name(c->collective), weir_dtype_name(c->dtype),
                    weir_op_name(c->op), c->count, c->root, python_bytes(self, c, 0),
                    python_bytes(self, c, 1), is_trial);
}

static const char *python_refuses(bench_candidate *self, const bench_operation *operation)
{
    python_state *state = self->state;
    const weir_call *call = &operation->call;
    char words[512], what[48];
    if (state->process.failure[0])
        return state->process.failure;
    if (call->collective == WEIR_COLL_ALLTOALLV || call->collective == WEIR_COLL_SENDRECV)
        return "peers in Python have no alltoallv and no sendrecv";
    if (bench_candidate_needs_two(operation))
        return bench_candidate_needs_two(operation);
    const int length = python_describe(self, call, 1, words, sizeof words);
    snprintf(what, sizeof what, "%s of %zu elements", weir_collective_name(call->collective),
             call->count);
    memset(state->refusal, 0, sizeof state->refusal);
    if (bench_peer_process_do(&state->process, BENCH_PEER_CALL, words, (size_t)length, what,
                              state->refusal, sizeof state->refusal - 1) != 0)
        return state->process.failure;
    return state->refusal[0] ? state->refusal : NULL;
}

static weir_status python_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return WEIR_OK;
}

static weir_status python_run(bench_candidate *self)
{
    python_state *state = self->state;
    const weir_call *call = &self->operation->call;
    const double began_us = weiri_clock_us();
    char words[512];
    double us = 0;
    const int length = python_describe(self, call, 0, words, sizeof words);
    const int has_output =
        call->collective != WEIR_COLL_REDUCE || self->job->group_rank == call->root;
    memcpy(state->shared[0], call->in, python_bytes(self, call, 0));
    if (bench_peer_process_call(&state->process, words, (size_t)length, &us) != 0)
        return bench_job_note(self->job, WEIR_ERR_SYSTEM, "%s: %s", self->name,
                              state->process.failure);
    if (has_output)
        memcpy(call->out, state->shared[1], python_bytes(self, call, 1));
    self->untimed_us += weiri_clock_us() - began_us - us;
    return WEIR_OK;
}

static void python_close(bench_candidate *self)
{
    python_state *state = self->state;
    bench_peer_process_end(&state->process);
    for (int i = 0; i < 2; i++) {
        if (state->shared[i] && state->shared[i] != MAP_FAILED)
            munmap(state->shared[i], state->bytes[i]);
        if (state->fds[i] > 0)
            close(state->fds[i]);
    }
    bench_candidate_free(self);
}

static const bench_candidate_ops python_ops = {
    python_refuses,      python_prepare,         python_run,
    bench_candidate_out, bench_candidate_forced, python_close};

static weir_status python_share(bench_candidate *self, const bench_buffers *buffers)
{
    python_state *state = self->state;
    const size_t bytes[] = {buffers->in.bytes, buffers->out.bytes};
    for (int i = 0; i < 2; i++) {
        state->bytes[i] = bytes[i];
        state->fds[i] = memfd_create("weir-peer", MFD_CLOEXEC);
        if (state->fds[i] >= 0 && ftruncate(state->fds[i], (off_t)bytes[i]) == 0)
            state->shared[i] =
                mmap(NULL, bytes[i], PROT_READ | PROT_WRITE, MAP_SHARED, state->fds[i], 0);
        if (!state->shared[i] || state->shared[i] == MAP_FAILED)
            return bench_job_note(self->job, WEIR_ERR_NO_MEMORY, "no memory shared with a peer");
    }
    return WEIR_OK;
}

/* Probes and creates; a failure is in the process. Collective. */
static void python_create(bench_candidate *self)
{
    python_state *state = self->state;
    python_about about = {.name = ""};
    const char *colon = state->mode[0] ? ":" : "", *slash = strrchr(state->path, '/');
    const bench_cores own = bench_cores_widen(self->job);
    snprintf(self->name, sizeof self->name, "%.40s%s%.20s", slash ? slash + 1 : state->path, colon,
             state->mode);
    bench_peer_process_start(&state->process, self->job, python_start, state);
    bench_cores_restore(&own);
    if (bench_peer_process_do(&state->process, BENCH_PEER_PROBE, NULL, 0, "probe", &about,
                              sizeof about) != 0)
        return;
    about.name[sizeof about.name - 1] = about.version[sizeof about.version - 1] = '\0';
    about.settings[sizeof about.settings - 1] = '\0';
    bench_candidate_name_peer(self, about.name, about.version, state->mode);
    bench_candidate_keep_settings(self, about.settings);
    self->has_threads = about.has_threads;
    if (self->has_threads)
        bench_cores_check(self->job, self->name);
    (void)bench_peer_process_do(&state->process, BENCH_PEER_CREATE, NULL, 0, "create", NULL, 0);
}

weir_status bench_candidate_python_open(bench_job *job, const bench_buffers *buffers,
                                        const bench_peer *peer, bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &python_ops, sizeof(python_state), &self);
    if (status == WEIR_OK) {
        python_state *state = self->state;
        state->process.fd = -1;
        state->job = job;
        bench_peer_split(peer->path, state->path, sizeof state->path, state->mode,
                         sizeof state->mode);
        self->peer = 1;
        status = job->gpu ? bench_job_note(job, WEIR_ERR_UNSUPPORTED,
                                           "--peer %s: peers in Python work on host memory; write "
                                           "a peer in a library (docs/user/peers.md)",
                                           peer->text)
                          : python_share(self, buffers);
    }
    status = bench_job_agree(job, status, "candidates");
    if (status != WEIR_OK) {
        if (self)
            python_close(self);
        return status;
    }
    python_create(self);
    *candidate = self;
    return WEIR_OK;
}
