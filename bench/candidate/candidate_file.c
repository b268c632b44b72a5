/*
 * A peer in a file (weir/peer.h) as a candidate. On the host backend each call of the sweep runs
 * first in a process next to the rank (peer_process.h), with the buffers that the rank shares with
 * it, and the rank makes the call only if those of all ranks came back. A process whose parent has
 * used CUDA cannot use it, so that on GPUs only probe is tried.
 *
 * A peer that fails stays in the run as a candidate that refuses every call with the reason.
 */
#include "bench/candidate/candidate.h"
#include "bench/candidate/peer_process.h"

#include "base/mpi_open.h"
#include "bench/job/cores.h"
#include "bench/job/exchange.h"
#include "bench/options/peers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct file_state {
    char path[512], mode[32];
    weir_peer_job job;
    const weir_peer *peer; /* in this process; NULL: not loaded */
    void *state;           /* the peer's, once created */
    int is_created;
    bench_peer_process process;
    bench_operands operands;      /* the peer's GPU memory, if it has its own */
    char failure[WEIR_PEER_TEXT]; /* why it is left out, the same on every rank */
} file_state;

/* What the child answers to the first command. */
typedef struct file_about {
    char name[32];
    weir_peer_about about;
} file_about;

/* A call on its way to the child, followed by the counts and displacements of alltoallv. */
typedef struct file_call {
    weir_call call;
    size_t splits[];
} file_call;

/* --------------------------------------------------------------------- loading */

static int load_peer(file_state *state, char *why)
{
    void *library = dlopen(state->path, RTLD_NOW | RTLD_LOCAL);
    const weir_peer *(*open)(void) = NULL;
    if (!library) {
        snprintf(why, WEIR_PEER_TEXT, "cannot be loaded: %.70s", dlerror());
        return -1;
    }
    if (weiri_mpi_check_alone() != WEIR_OK) {
        snprintf(why, WEIR_PEER_TEXT, "brings another MPI into the process");
        return -1;
    }
    *(void **)&open = dlsym(library, "weir_peer_v1");
    const weir_peer *peer = open ? open() : NULL;
    if (!peer || peer->abi != WEIR_PEER_ABI || peer->size < sizeof *peer)
        snprintf(why, WEIR_PEER_TEXT, "its ABI is %d, this program's is %d; compile it anew",
                 peer ? peer->abi : 0, WEIR_PEER_ABI);
    else if (!peer->name || !peer->probe || !peer->create || !peer->run || !peer->destroy)
        snprintf(why, WEIR_PEER_TEXT, "it lacks one of name, probe, create, run, destroy");
    else
        state->peer = peer;
    return state->peer ? 0 : -1;
}

/* --------------------------------------------------------------------- the child */

static int child_exchange(void *context, void *all, size_t bytes)
{
    const file_state *state = context;
    return bench_peer_exchange(state->process.fd, state->job.rank, state->job.nranks, all, bytes);
}

static int child_probe(file_state *state, file_about *found, char *why)
{
    if (load_peer(state, why) != 0 || state->peer->probe(&state->job, &found->about, why) != 0)
        return -1;
    snprintf(found->name, sizeof found->name, "%s", state->peer->name);
    return 0;
}

static int child_call(const file_state *state, file_call *c, char *why)
{
    const size_t n = (size_t)state->job.nranks;
    const weir_splits splits = {c->splits, c->splits + n, c->splits + 2 * n, c->splits + 3 * n};
    if (c->call.collective == WEIR_COLL_ALLTOALLV)
        c->call.splits = &splits;
    c->call.device_splits = NULL;
    return state->peer->run(state->state, &c->call, why);
}

/* Serves commands until the rank ends the process. */
static void child_serve(void *context, int fd)
{
    file_state *state = context;
    const size_t room = sizeof(file_call) + 4 * (size_t)state->job.nranks * sizeof(size_t);
    file_call *call = malloc(room);
    bench_peer_message message;
    state->process.fd = fd;
    state->job.allgather = child_exchange;
    state->job.context = state;
    while (call && bench_peer_receive(fd, &message, call, room) == 0) {
        char why[WEIR_PEER_TEXT] = "it gives no reason";
        file_about found = {.name = ""};
        const int failed = message.kind == BENCH_PEER_PROBE ? child_probe(state, &found, why)
                           : message.kind == BENCH_PEER_CREATE
                               ? state->peer->create(&state->job, &state->state, why)
                               : child_call(state, call, why);
        if (failed)
            bench_peer_send(fd, BENCH_PEER_FAILED, why, strnlen(why, sizeof why - 1));
        else
            bench_peer_send(fd, BENCH_PEER_DONE, &found, sizeof found);
    }
    _exit(0);
}

/* ----------------------------------------------------------------------- the rank */

static int rank_exchange(void *context, void *all, size_t bytes)
{
    return bench_exchange_group(context, all, bytes);
}

/* Makes the first failure that a rank has that of all ranks. Returns 0 if there is none, else -1.
 * Collective. */
static int agree_on_failure(bench_job *job, file_state *state, int failed, const char *why)
{
    const int mine = failed ? job->rank : job->nranks;
    const int first = (int)bench_exchange_fold(job, BENCH_FOLD_MIN, mine);
    if (first == job->nranks)
        return 0;
    snprintf(state->failure, sizeof state->failure, "%s", failed ? why : "");
    bench_exchange_broadcast(job, state->failure, sizeof state->failure, first);
    return -1;
}

/* Carries out a command in the processes of all ranks. Collective. */
static int try_first(file_state *state, uint32_t kind, const void *data, size_t bytes,
                     const char *what, void *answer, size_t room)
{
    if (bench_peer_process_do(&state->process, kind, data, bytes, what, answer, room) == 0)
        return 0;
    memcpy(state->failure, state->process.failure, sizeof state->failure);
    return -1;
}

static const char *file_try_call(bench_candidate *self, const weir_call *call)
{
    file_state *state = self->state;
    const size_t n = (size_t)self->job->group_nranks * sizeof(size_t);
    file_call *c = malloc(sizeof *c + 4 * n);
    char what[48];
    if (agree_on_failure(self->job, state, c == NULL, "no memory to try it") == 0) {
        c->call = *call;
        if (call->splits) {
            const size_t *arrays[] = {call->splits->send_counts, call->splits->send_displs,
                                      call->splits->recv_counts, call->splits->recv_displs};
            for (size_t i = 0; i < 4; i++)
                memcpy((char *)c->splits + i * n, arrays[i], n);
        }
        snprintf(what, sizeof what, "%s of %zu elements", weir_collective_name(call->collective),
                 call->count);
        try_first(state, BENCH_PEER_CALL, c, sizeof *c + 4 * n, what, NULL, 0);
    }
    free(c);
    return state->failure[0] ? state->failure : NULL;
}

/* Collective, because the call is tried. */
static const char *file_refuses(bench_candidate *self, const bench_operation *operation)
{
    file_state *state = self->state;
    const char *why = state->failure[0] ? state->failure : bench_candidate_needs_two(operation);
    if (!why && state->peer->refuses)
        why = state->peer->refuses(state->state, &operation->call);
    return why || self->job->gpu ? why : file_try_call(self, &operation->call);
}

static weir_status file_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return WEIR_OK;
}

static weir_status file_run(bench_candidate *self)
{
    const file_state *state = self->state;
    char why[WEIR_PEER_TEXT] = "it gives no reason";
    if (state->peer->run(state->state, &self->operation->call, why) == 0)
        return WEIR_OK;
    return bench_job_note(self->job, WEIR_ERR_SYSTEM, "%s: %s", self->name, why);
}

static void file_close(bench_candidate *self)
{
    file_state *state = self->state;
    bench_peer_process_end(&state->process);
    if (state->is_created)
        state->peer->destroy(state->state);
    bench_candidate_free(self);
}

static const bench_candidate_ops file_ops = {
    file_refuses, file_prepare, file_run, bench_candidate_out, bench_candidate_forced, file_close};

/* ------------------------------------------------------------------------ opening */

static void describe_job(bench_job *job, const bench_buffers *buffers, file_state *state)
{
    state->job = (weir_peer_job){.size = sizeof state->job,
                                 .rank = job->group_rank,
                                 .nranks = job->group_nranks,
                                 .local_rank = job->local_rank,
                                 .nnodes = job->groups[job->group].nnodes,
                                 .device = job->gpu ? weir_comm_device(job->comm) : -1,
                                 .stream = bench_gpu_stream(job->gpu),
                                 .mode = state->mode,
                                 .most_bytes = {buffers->in.bytes, buffers->out.bytes},
                                 .context = job,
                                 .allgather = rank_exchange};
}

/* Probes in the child, then creates there and here. Collective; a failure is in the state. */
static void file_create(bench_candidate *self, const char *file)
{
    file_state *state = self->state;
    bench_job *job = self->job;
    char why[WEIR_PEER_TEXT] = "it gives no reason";
    file_about found = {.name = ""};
    const char *colon = state->mode[0] ? ":" : "";
    snprintf(self->name, sizeof self->name, "%.40s%s%.20s", file, colon, state->mode);
    const bench_cores own = bench_cores_widen(job);
    bench_peer_process_start(&state->process, job, child_serve, state);
    bench_cores_restore(&own);
    if (try_first(state, BENCH_PEER_PROBE, NULL, 0, "probe", &found, sizeof found) != 0)
        return;
    found.about.version[sizeof found.about.version - 1] = '\0';
    found.about.settings[sizeof found.about.settings - 1] = '\0';
    bench_candidate_name_peer(self, found.name, found.about.version, state->mode);
    bench_candidate_keep_settings(self, found.about.settings);
    self->has_threads = found.about.has_threads;
    if (self->has_threads)
        bench_cores_check(job, self->name);
    if (job->gpu)
        bench_peer_process_end(&state->process);
    else if (try_first(state, BENCH_PEER_CREATE, NULL, 0, "create", NULL, 0) != 0)
        return;
    int failed = load_peer(state, why);
    if (!failed)
        failed = state->peer->probe(&state->job, &found.about, why);
    if (agree_on_failure(job, state, failed, why) != 0)
        return;
    const bench_cores before = bench_cores_widen(job);
    failed = state->peer->create(&state->job, &state->state, why);
    bench_cores_restore(&before);
    state->is_created = !failed;
    if (agree_on_failure(job, state, failed, why) != 0 || !job->gpu || !state->peer->buffers)
        return;
    failed = state->peer->buffers(state->state, &state->operands.in, &state->operands.out, why);
    if (agree_on_failure(job, state, failed, why) == 0)
        self->operands = &state->operands;
}

weir_status bench_candidate_file_open(bench_job *job, const bench_buffers *buffers,
                                      const bench_peer *peer, bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &file_ops, sizeof(file_state), &self);
    status = bench_job_agree(job, status, "candidates");
    if (status != WEIR_OK) {
        bench_candidate_free(self);
        return status;
    }
    file_state *state = self->state;
    bench_peer_split(peer->path, state->path, sizeof state->path, state->mode, sizeof state->mode);
    describe_job(job, buffers, state);
    self->peer = 1;
    file_create(self, strrchr(state->path, '/') + 1);
    *candidate = self;
    return WEIR_OK;
}
