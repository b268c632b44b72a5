/*
 * A peer in a Python file as a candidate. A process next to each rank runs the file
 * (peer_process.h, peer_python.py) for the whole run. On host memory, rank and process share copies
 * of the input and the output; a call's time is what the process measures around the peer's
 * function, and copies and messages are not timed. On a GPU, the process opens the candidate's
 * memory by CUDA IPC, and times batches on a stream of its own, as bench_batch_run does.
 */
#define _GNU_SOURCE /* memfd_create */
#include "bench/candidate/candidate.h"
#include "bench/candidate/peer_process.h"
#include "bench/gpu/gpu.h"

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
    bench_job *job;
    char path[512], mode[32];
    char memory[2][2 * BENCH_GPU_HANDLE_BYTES + 1]; /* input and output, as the process opens
                                                       them: a descriptor, or a GPU's handle */
    int fds[2];                                     /* host memory: of the shared copies */
    void *shared[2];
    size_t bytes[2];
    bench_operands operands; /* GPU memory */
    int is_cold;
    bench_peer_process process;
    char refusal[WEIR_PEER_TEXT], failure[WEIR_PEER_TEXT]; /* failure: why it is left out */
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
    const bench_job *job = state->job;
    char words[6][16];
    const int inherited[] = {fd, state->fds[0], state->fds[1]};
    const int numbers[] = {fd,
                           job->group_rank,
                           job->group_nranks,
                           job->local_rank,
                           job->groups[job->group].nnodes,
                           job->gpu ? weir_comm_device(job->comm) : -1};
    for (int i = 0; i < (job->gpu ? 1 : 3); i++)
        fcntl(inherited[i], F_SETFD, 0);
    for (int i = 0; i < 6; i++)
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
    execlp("python3", "python3", "-c", bench_peer_script, state->path, state->mode, words[0],
           state->memory[0], state->memory[1], words[1], words[2], words[3], words[4], words[5],
           (char *)NULL);
    bench_peer_send(fd, BENCH_PEER_FAILED, no_python, sizeof no_python);
}

/* The bytes of a call's input and output on this rank. */
static size_t python_bytes(const bench_candidate *self, const weir_call *c, int is_output)
{
    const weir_collective gathers[2] = {WEIR_COLL_REDUCE_SCATTER, WEIR_COLL_ALLGATHER};
    const int has_all = c->collective == WEIR_COLL_ALLTOALL || c->collective == gathers[is_output];
    return c->count * weir_dtype_bytes(c->dtype) * (size_t)(has_all ? self->job->group_nranks : 1);
}

/* Finds a call's memory in the GPU memory that is shared: the buffer (0: input, 1: output) and the
 * offset. A call in place has both in one buffer. Host memory is copied, and a trial's call has
 * the addresses of another candidate: `which`, at 0. */
static void python_place(const python_state *state, const void *address, int is_trial, int *which,
                         size_t *offset)
{
    const char *const bases[] = {state->operands.in, state->operands.out}, *at = address;
    *offset = 0;
    for (int i = 0; state->job->gpu && !is_trial && i < 2; i++)
        if (at >= bases[i] && at < bases[i] + state->bytes[i]) {
            *which = i;
            *offset = (size_t)(at - bases[i]);
        }
}

/* Describes a call for the process; operations 0: a trial. */
static int python_describe(const bench_candidate *self, const weir_call *c, int operations,
                           int is_graph, char *words, size_t bytes)
{
    const python_state *state = self->state;
    int places[] = {0, 1};
    size_t offsets[2];
    python_place(state, c->in, !operations, &places[0], &offsets[0]);
    python_place(state, c->out, !operations, &places[1], &offsets[1]);
    return snprintf(words, bytes,
                    "{\"collective\": \"%s\", \"dtype\": \"%s\", \"op\": \"%s\", \"count\": %zu, "
                    "\"root\": %d, \"in_bytes\": %zu, \"out_bytes\": %zu, \"in_at\": [%d, %zu], "
                    "\"out_at\": [%d, %zu], \"operations\": %d, \"is_graph\": %d}",
                    weir_collective_name(c->collective), weir_dtype_name(c->dtype),
                    weir_op_name(c->op), c->count, c->root, python_bytes(self, c, 0),
                    python_bytes(self, c, 1), places[0], offsets[0], places[1], offsets[1],
                    operations, is_graph);
}

/* Probes and creates in a new process. Returns 0, or -1 with a failure in the process.
 * Collective. */
static int python_begin(python_state *state, python_about *about)
{
    bench_peer_process *process = &state->process;
    const bench_cores own = bench_cores_widen(state->job);
    bench_peer_process_start(process, state->job, python_start, state);
    bench_cores_restore(&own);
    if (bench_peer_process_do(process, BENCH_PEER_PROBE, NULL, 0, "probe", about, sizeof *about) !=
        0)
        return -1;
    return bench_peer_process_do(process, BENCH_PEER_CREATE, NULL, 0, "create", NULL, 0);
}

/* Leaves the peer out of all calls to come, for the reason in the process. A new process makes the
 * calls that were right before, whose rounds may go on. Collective. */
static const char *python_leave_out(python_state *state)
{
    python_about about;
    memcpy(state->failure, state->process.failure, sizeof state->failure);
    (void)python_begin(state, &about);
    return state->failure;
}

static const char *python_refuses(bench_candidate *self, const bench_operation *operation)
{
    python_state *state = self->state;
    const weir_call *call = &operation->call;
    char words[512], what[48];
    if (state->failure[0])
        return state->failure;
    if (call->collective == WEIR_COLL_ALLTOALLV || call->collective == WEIR_COLL_SENDRECV)
        return "peers in Python have no alltoallv and no sendrecv";
    if (bench_candidate_needs_two(operation))
        return bench_candidate_needs_two(operation);
    if (state->is_cold)
        return "peers in Python on GPUs have no --cold";
    const int length = python_describe(self, call, 0, 0, words, sizeof words);
    snprintf(what, sizeof what, "%s of %zu elements", weir_collective_name(call->collective),
             call->count);
    memset(state->refusal, 0, sizeof state->refusal);
    if (bench_peer_process_do(&state->process, BENCH_PEER_CALL, words, (size_t)length, what,
                              state->refusal, sizeof state->refusal - 1) != 0)
        return python_leave_out(state);
    return state->refusal[0] ? state->refusal : NULL;
}

static weir_status python_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return WEIR_OK;
}

/* Has the process make the call so many times; *us is the time of one. */
static weir_status python_call(bench_candidate *self, int operations, int is_graph, double *us)
{
    python_state *state = self->state;
    char words[512];
    const int length =
        python_describe(self, &self->operation->call, operations, is_graph, words, sizeof words);
    weir_status status = self->job->gpu ? bench_gpu_sync(self->job->gpu) : WEIR_OK;
    if (status == WEIR_OK &&
        bench_peer_process_call(&state->process, words, (size_t)length, us) != 0)
        status = bench_job_note(self->job, WEIR_ERR_SYSTEM, "%s: %s", self->name,
                                state->process.failure);
    return status;
}

static weir_status python_run(bench_candidate *self)
{
    const python_state *state = self->state;
    const weir_call *call = &self->operation->call;
    const double began_us = weiri_clock_us();
    double us = 0;
    const int has_output =
        call->collective != WEIR_COLL_REDUCE || self->job->group_rank == call->root;
    if (!self->job->gpu)
        memcpy(state->shared[0], call->in, python_bytes(self, call, 0));
    weir_status status = python_call(self, 1, 0, &us);
    if (status != WEIR_OK)
        return status;
    if (!self->job->gpu && has_output)
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
    if (state->operands.in)
        bench_gpu_free(self->job->gpu, state->operands.in);
    if (state->operands.out)
        bench_gpu_free(self->job->gpu, state->operands.out);
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
        snprintf(state->memory[i], sizeof state->memory[i], "%d", state->fds[i]);
    }
    return WEIR_OK;
}

static weir_status python_share_gpu(bench_candidate *self, const bench_buffers *buffers)
{
    python_state *state = self->state;
    const size_t bytes[] = {buffers->in.bytes, buffers->out.bytes};
    void **memory[] = {&state->operands.in, &state->operands.out};
    weir_status status = WEIR_OK;
    for (int i = 0; i < 2 && status == WEIR_OK; i++) {
        state->bytes[i] = bytes[i];
        unsigned char handle[BENCH_GPU_HANDLE_BYTES];
        status = bench_gpu_alloc(self->job->gpu, bytes[i], memory[i]);
        if (status == WEIR_OK)
            status = bench_gpu_export(self->job->gpu, *memory[i], handle);
        for (size_t byte = 0; status == WEIR_OK && byte < sizeof handle; byte++)
            snprintf(state->memory[i] + 2 * byte, 3, "%02x", handle[byte]);
    }
    state->is_cold = buffers->in.pool_bytes > 0;
    self->operands = &state->operands;
    self->batch = python_call;
    return status;
}

/* Names the peer by what it reports; a failure is in the state. Collective. */
static void python_create(bench_candidate *self)
{
    python_state *state = self->state;
    python_about about = {.name = ""};
    const char *colon = state->mode[0] ? ":" : "", *slash = strrchr(state->path, '/');
    snprintf(self->name, sizeof self->name, "%.40s%s%.20s", slash ? slash + 1 : state->path, colon,
             state->mode);
    if (python_begin(state, &about) != 0)
        memcpy(state->failure, state->process.failure, sizeof state->failure);
    about.name[sizeof about.name - 1] = about.version[sizeof about.version - 1] = '\0';
    about.settings[sizeof about.settings - 1] = '\0';
    if (!about.name[0])
        return;
    bench_candidate_name_peer(self, about.name, about.version, state->mode);
    bench_candidate_keep_settings(self, about.settings);
    self->has_threads = about.has_threads;
    if (self->has_threads)
        bench_cores_check(self->job, self->name);
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
        status = job->gpu ? python_share_gpu(self, buffers) : python_share(self, buffers);
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
