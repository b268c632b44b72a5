/*
 * A vendor's library as a contender, in one of its modes:
 *
 *   default     on the buffers that weir works on
 *   symmetric   on buffers of the library's own, of the same size, that are registered as
 *               symmetric windows
 *   zero-cta    likewise, with the policy that leaves copies to the copy engines
 *
 * Each has a communicator of its own. Where the library has no all-to-all, and for
 * alltoallv and sendrecv, calls are groups of sends and receives. NVLink multicast stays off
 * (vendor.h).
 */
#include "bench/candidate/candidate.h"
#include "bench/candidate/vendor.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { VERSION_FP8 = 22400, VERSION_WINDOWS = 22700, VERSION_ZERO_CTA = 22800 };

typedef struct nccl_state {
    bench_vendor vendor;
    vendor_comm comm;
    bench_home home;    /* of windows; else unused */
    void *windows[2];
} nccl_state;

static weir_status judge(const bench_candidate *self, vendor_result result, const char *what)
{
    const nccl_state *state = self->state;
    if (result == 0)
        return WEIR_OK;
    return bench_job_note(self->job, WEIR_ERR_SYSTEM, "%s: %s: %s", self->name, what,
                          state->vendor.error_string(result));
}

static int type_of(weir_dtype dtype)
{
    static const int types[WEIR_DTYPE_COUNT] = {
        [WEIR_INT8] = 0,   [WEIR_UINT8] = 1,   [WEIR_INT32] = 2,     [WEIR_UINT32] = 3,
        [WEIR_INT64] = 4,  [WEIR_UINT64] = 5,  [WEIR_HALF] = 6,      [WEIR_FLOAT] = 7,
        [WEIR_DOUBLE] = 8, [WEIR_BFLOAT16] = 9, [WEIR_FP8_E4M3] = 10, [WEIR_FP8_E5M2] = 11};
    return types[dtype];
}

static int op_of(weir_op op)
{
    static const int ops[WEIR_OP_COUNT] = {
        [WEIR_SUM] = 0, [WEIR_PROD] = 1, [WEIR_MAX] = 2, [WEIR_MIN] = 3, [WEIR_AVG] = 4};
    return ops[op];
}

/* Its average scales before it sums, which is exact for powers of two only. */
static const char *refuses(bench_candidate *self, const bench_operation *operation)
{
    const nccl_state *state = self->state;
    const weir_call *call = &operation->call;
    int nranks = self->job->nranks;
    int reduces = weirv_is_reduction(call->collective);
    int is_fp8 = call->dtype == WEIR_FP8_E4M3 || call->dtype == WEIR_FP8_E5M2;
    int is_float = is_fp8 || call->dtype == WEIR_HALF || call->dtype == WEIR_FLOAT ||
                   call->dtype == WEIR_DOUBLE || call->dtype == WEIR_BFLOAT16;
    if (is_fp8 && reduces && state->vendor.version < VERSION_FP8)
        return "this version does not reduce fp8";
    if (reduces && call->op == WEIR_AVG && is_float && (nranks & (nranks - 1)))
        return "it scales before it sums, which rounds";
    return NULL;
}

static weir_status prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return WEIR_OK;
}

/* One block to, or from, a rank. None where there is nothing. */
static vendor_result send_block(const nccl_state *state, const weir_call *c, size_t at,
                                size_t count, int rank, void *stream)
{
    size_t width = weir_dtype_bytes(c->dtype);
    if (count == 0)
        return 0;
    return state->vendor.send((const char *)c->in + at * width, count, type_of(c->dtype), rank,
                              state->comm, stream);
}

static vendor_result recv_block(const nccl_state *state, const weir_call *c, size_t at,
                                size_t count, int rank, void *stream)
{
    size_t width = weir_dtype_bytes(c->dtype);
    if (count == 0)
        return 0;
    return state->vendor.recv((char *)c->out + at * width, count, type_of(c->dtype), rank,
                              state->comm, stream);
}

static vendor_result exchange_with(const bench_candidate *self, int rank, void *stream)
{
    const weir_call *c = &self->operation->call;
    const nccl_state *state = self->state;
    size_t block = c->count, to = (size_t)rank;
    vendor_result result;
    if (c->collective == WEIR_COLL_ALLTOALLV) {
        result = send_block(state, c, c->splits->send_displs[to], c->splits->send_counts[to], rank, stream);
        return result ? result : recv_block(state, c, c->splits->recv_displs[to],
                                            c->splits->recv_counts[to], rank, stream);
    }
    if (c->collective == WEIR_COLL_ALLTOALL) {
        result = send_block(state, c, to * block, block, rank, stream);
        return result ? result : recv_block(state, c, to * block, block, rank, stream);
    }
    result = rank == c->destination ? send_block(state, c, 0, block, rank, stream) : 0;
    if (result == 0 && rank == c->source)
        result = recv_block(state, c, 0, block, rank, stream);
    return result;
}

static vendor_result run_group(const bench_candidate *self, void *stream)
{
    const nccl_state *state = self->state;
    vendor_result result = state->vendor.group_start();
    for (int rank = 0; rank < self->job->nranks && result == 0; rank++)
        result = exchange_with(self, rank, stream);
    vendor_result ended = state->vendor.group_end();
    return result ? result : ended;
}

static vendor_result run_call(const bench_candidate *self, void *stream)
{
    const weir_call *c = &self->operation->call;
    const nccl_state *state = self->state;
    const bench_vendor *v = &state->vendor;
    int type = type_of(c->dtype), op = op_of(c->op);
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        return v->allreduce(c->in, c->out, c->count, type, op, state->comm, stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return v->reduce_scatter(c->in, c->out, c->count, type, op, state->comm, stream);
    case WEIR_COLL_ALLGATHER:
        return v->allgather(c->in, c->out, c->count, type, state->comm, stream);
    case WEIR_COLL_BROADCAST:
        return v->broadcast(c->in, c->out, c->count, type, c->root, state->comm, stream);
    case WEIR_COLL_REDUCE:
        return v->reduce(c->in, c->out, c->count, type, op, c->root, state->comm, stream);
    case WEIR_COLL_ALLTOALL:
        if (v->alltoall)
            return v->alltoall(c->in, c->out, c->count, type, state->comm, stream);
        break;
    default:
        break;
    }
    return run_group(self, stream);
}

static weir_status run(bench_candidate *self)
{
    return judge(self, run_call(self, bench_gpu_stream(self->job->gpu)),
                 weir_collective_name(self->operation->call.collective));
}

static const char *algo(bench_candidate *self)
{
    (void)self;
    return "";
}

static void close_nccl(bench_candidate *self)
{
    nccl_state *state = self->state;
    void *memory[] = {state->home.in, state->home.out};
    for (int i = 0; i < 2 && state->comm; i++)
        if (state->windows[i])
            state->vendor.window_deregister(state->comm, state->windows[i]);
    if (state->comm)
        state->vendor.comm_destroy(state->comm);
    for (int i = 0; i < 2; i++)
        if (memory[i])
            state->vendor.mem_free(memory[i]);
    bench_candidate_free(self);
}

static const bench_candidate_ops ops = {refuses, prepare, run, bench_candidate_out, algo,
                                        close_nccl};

static vendor_config zero_cta_config(void)
{
    const int open = INT_MIN;
    return (vendor_config){.size = sizeof(vendor_config), .magic = 0xcafebeef,
                           .version = VERSION_ZERO_CTA, .blocking = open,
                           .cga_cluster_size = open, .min_ctas = open, .max_ctas = open,
                           .split_share = open, .traffic_class = open, .collnet_enable = open,
                           .cta_policy = VENDOR_CTA_POLICY_ZERO, .shrink_share = open,
                           .nvls_ctas = open, .channels_per_net_peer = open,
                           .nvlink_centric_schedule = open};
}

/* Rank 0's unique id goes to all; then the library meets by itself. */
static weir_status make_communicator(bench_candidate *self, bench_nccl_mode mode)
{
    nccl_state *state = self->state;
    bench_job *job = self->job;
    vendor_id id = {{0}};
    weir_status status = WEIR_OK;
    if (job->rank == 0)
        status = judge(self, state->vendor.get_unique_id(&id), "unique id");
    status = bench_job_agree(job, status, "vendor library");
    if (status != WEIR_OK)
        return status;
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, job->mpi);
    bench_job_phase(job, "set-up: vendor library", 0);
    vendor_config config = zero_cta_config();
    vendor_result made = mode == BENCH_NCCL_ZERO_CTA
                             ? state->vendor.comm_init_config(&state->comm, job->nranks, id,
                                                              job->rank, &config)
                             : state->vendor.comm_init(&state->comm, job->nranks, id, job->rank);
    status = judge(self, made, "communicator");
    if (status != WEIR_OK && mode == BENCH_NCCL_ZERO_CTA) /* versions know it or do not */
        status = bench_job_note(job, WEIR_ERR_UNSUPPORTED,
                                "%s: this version has no such policy", self->name);
    return bench_job_agree(job, status, "vendor library");
}

/* The library's own buffers, as windows. */
static weir_status make_windows(bench_candidate *self, const bench_buffers *buffers)
{
    nccl_state *state = self->state;
    const bench_vendor *v = &state->vendor;
    void **places[] = {&state->home.in, &state->home.out};
    size_t bytes[] = {buffers->in.bytes, buffers->out.bytes};
    for (int i = 0; i < 2; i++) {
        weir_status status = judge(self, v->mem_alloc(places[i], bytes[i]), "symmetric memory");
        status = bench_job_agree(self->job, status, "vendor library");
        if (status != WEIR_OK)
            return status;
        vendor_result made = v->window_register(state->comm, *places[i], bytes[i],
                                                &state->windows[i], VENDOR_WINDOW_SYMMETRIC);
        status = judge(self, made, "symmetric window");
        if (status == WEIR_OK && !state->windows[i])
            status = bench_job_note(self->job, WEIR_ERR_UNSUPPORTED,
                                    "%s: symmetric windows are not for these GPUs; measure it "
                                    "with --peer nccl:default", self->name);
        status = bench_job_agree(self->job, status, "vendor library");
        if (status != WEIR_OK)
            return status;
    }
    self->home = &state->home;
    return WEIR_OK;
}

int bench_nccl_has_mode(const bench_vendor *vendor, bench_nccl_mode mode)
{
    int has_windows = vendor->version >= VERSION_WINDOWS && vendor->mem_alloc &&
                      vendor->mem_free && vendor->window_register && vendor->window_deregister;
    if (mode == BENCH_NCCL_ZERO_CTA)
        return has_windows && vendor->comm_init_config && vendor->version >= VERSION_ZERO_CTA;
    return mode == BENCH_NCCL_DEFAULT || has_windows;
}

weir_status bench_candidate_nccl_open(bench_job *job, const bench_buffers *buffers,
                                      const bench_vendor *vendor, bench_nccl_mode mode,
                                      bench_candidate **contender)
{
    static const char *const suffixes[] = {"", ":symmetric", ":zero-cta"};
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &ops, sizeof(nccl_state), &self);
    status = bench_job_agree(job, status, "contenders");
    if (status != WEIR_OK) {
        bench_candidate_free(self);
        return status;
    }
    nccl_state *state = self->state;
    state->vendor = *vendor;
    self->peer = 1;
    snprintf(self->name, sizeof self->name, "%s%s", vendor->name, suffixes[mode]);
    status = make_communicator(self, mode);
    if (status == WEIR_OK && mode != BENCH_NCCL_DEFAULT)
        status = make_windows(self, buffers);
    if (status != WEIR_OK) {
        close_nccl(self);
        return status;
    }
    *contender = self;
    return WEIR_OK;
}
