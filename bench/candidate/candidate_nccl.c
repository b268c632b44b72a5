/*
 * A vendor's library as a candidate, in one of its modes:
 *
 *   default     on weir's buffers
 *   symmetric   on buffers that the library allocates, of the same size, registered as
 *               symmetric windows
 *   zero-cta    the same, with the policy that leaves copies to the copy engines
 *
 * Each mode has its own communicator, with the settings of the user's environment.
 */
#include "bench/candidate/candidate.h"
#include "bench/candidate/nccl_tuner.h"
#include "bench/candidate/vendor.h"
#include "bench/job/exchange.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_FP8 = 22400, VERSION_WINDOWS = 22700, VERSION_ZERO_CTA = 22800 };

typedef struct nccl_state {
    bench_vendor vendor;
    vendor_comm comm;
    bench_operands operands; /* the windows; unused in default mode */
    void *windows[2];
    int borrows;          /* 1: comm is another candidate's */
    const tuner_row *row; /* of the table, for the current call; NULL: none */
    tuner_setting setting;
} nccl_state;

static weir_status nccl_check(const bench_candidate *self, vendor_result result, const char *what)
{
    const nccl_state *state = self->state;
    if (result == 0)
        return WEIR_OK;
    return bench_job_note(self->job, WEIR_ERR_SYSTEM, "%s: %s: %s", self->name, what,
                          state->vendor.error_string(result));
}

/* The library's average scales before it sums, which is exact only for powers of two. */
static const char *nccl_refuses(bench_candidate *self, const bench_operation *operation)
{
    const nccl_state *state = self->state;
    const weir_call *call = &operation->call;
    int nranks = self->job->group_nranks;
    int reduces = weirv_is_reduction(call->collective);
    int is_fp8 = call->dtype == WEIR_FP8_E4M3 || call->dtype == WEIR_FP8_E5M2;
    int is_float = is_fp8 || call->dtype == WEIR_HALF || call->dtype == WEIR_FLOAT ||
                   call->dtype == WEIR_DOUBLE || call->dtype == WEIR_BFLOAT16;
    if (is_fp8 && reduces && state->vendor.version < VERSION_FP8)
        return "this version does not reduce fp8";
    if (reduces && call->op == WEIR_AVG && is_float && (nranks & (nranks - 1)))
        return "it scales before it sums, which rounds";
    return bench_candidate_needs_two(operation);
}

/* The bytes of a call as NCCL tells its tuner. */
static unsigned long long nccl_tuner_bytes(const bench_candidate *self, const weir_call *call)
{
    const int is_part =
        call->collective == WEIR_COLL_ALLGATHER || call->collective == WEIR_COLL_REDUCE_SCATTER;
    return (unsigned long long)call->count * weir_dtype_bytes(call->dtype) *
           (unsigned)(is_part ? self->job->group_nranks : 1);
}

static weir_status nccl_prepare(bench_candidate *self, const bench_operation *operation)
{
    nccl_state *state = self->state;
    self->operation = operation;
    if (state->vendor.tuner && self->follows_table)
        state->row = bench_tuner_find(
            &state->vendor.tuner->table, bench_nccl_tuner_collective(operation->call.collective),
            nccl_tuner_bytes(self, &operation->call), self->job->groups[self->job->group].nnodes,
            self->job->group_nranks, -1, -1);
    return WEIR_OK;
}

/* Tells the plug-in what the candidate's next call shall use. */
static void nccl_take_control(bench_candidate *self)
{
    const nccl_state *state = self->state;
    if (!state->vendor.tuner)
        return;
    tuner_control *control = state->vendor.tuner->control;
    control->forces = self->follows_table ? state->row != NULL : *self->forced != '\0';
    control->setting = state->row ? state->row->setting : state->setting;
    control->asked = control->applied = 0;
}

static weir_status nccl_run(bench_candidate *self)
{
    const nccl_state *state = self->state;
    nccl_take_control(self);
    return nccl_check(self,
                      bench_vendor_run(&state->vendor, state->comm, self->job->group_nranks,
                                       &self->operation->call, bench_gpu_stream(self->job->gpu)),
                      weir_collective_name(self->operation->collective));
}

/* The setting, if NCCL has used it. */
static const char *nccl_algo(bench_candidate *self)
{
    const nccl_state *state = self->state;
    if (!state->vendor.tuner || !state->vendor.tuner->control->applied)
        return "";
    return self->follows_table ? "table" : self->forced;
}

static void nccl_close(bench_candidate *self)
{
    nccl_state *state = self->state;
    void *memory[] = {state->operands.in, state->operands.out};
    for (int i = 0; i < 2 && state->comm; i++)
        if (state->windows[i])
            state->vendor.window_deregister(state->comm, state->windows[i]);
    if (state->comm && !state->borrows)
        state->vendor.comm_destroy(state->comm);
    for (int i = 0; i < 2; i++)
        if (memory[i])
            state->vendor.mem_free(memory[i]);
    bench_candidate_free(self);
}

static const bench_candidate_ops nccl_ops = {nccl_refuses,        nccl_prepare, nccl_run,
                                             bench_candidate_out, nccl_algo,    nccl_close};

static vendor_config zero_cta_config(void)
{
    const int open = INT_MIN;
    return (vendor_config){.size = sizeof(vendor_config),
                           .magic = 0xcafebeef,
                           .version = VERSION_ZERO_CTA,
                           .blocking = open,
                           .cga_cluster_size = open,
                           .min_ctas = open,
                           .max_ctas = open,
                           .split_share = open,
                           .traffic_class = open,
                           .collnet_enable = open,
                           .cta_policy = VENDOR_CTA_POLICY_ZERO,
                           .shrink_share = open,
                           .nvls_ctas = open,
                           .channels_per_net_peer = open,
                           .nvlink_centric_schedule = open};
}

/* Gives every rank the unique id of its group's leader. Collective; agreed. */
static weir_status nccl_share_id(bench_candidate *self, vendor_id *id)
{
    const nccl_state *state = self->state;
    bench_job *job = self->job;
    weir_status status = WEIR_OK;
    memset(id, 0, sizeof *id);
    if (job->group_rank == 0)
        status = nccl_check(self, state->vendor.get_unique_id(id), "unique id");
    status = bench_job_agree(job, status, "vendor library");
    if (status == WEIR_OK && bench_exchange_share(job, id, sizeof *id) != 0)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for unique ids");
    return status;
}

/* The library connects the ranks of a group by itself. Collective; agreed. */
static weir_status nccl_make_communicator(bench_candidate *self, bench_nccl_mode mode)
{
    nccl_state *state = self->state;
    bench_job *job = self->job;
    vendor_id id;
    weir_status status = nccl_share_id(self, &id);
    if (status != WEIR_OK)
        return status;
    bench_job_phase(job, "set-up: vendor library", 0);
    vendor_config config = zero_cta_config();
    vendor_result made =
        mode == BENCH_NCCL_ZERO_CTA
            ? state->vendor.comm_init_config(&state->comm, job->group_nranks, id, job->group_rank,
                                             &config)
            : state->vendor.comm_init(&state->comm, job->group_nranks, id, job->group_rank);
    status = nccl_check(self, made, "communicator");
    if (status != WEIR_OK && mode == BENCH_NCCL_ZERO_CTA) /* whether a version has the policy
                                                             shows only here */
        status = bench_job_note(job, WEIR_ERR_UNSUPPORTED, "%s: this version has no such policy",
                                self->name);
    return bench_job_agree(job, status, "vendor library");
}

/* Allocates buffers with the library and registers them as windows. Collective; agreed. */
static weir_status nccl_make_windows(bench_candidate *self, const bench_buffers *buffers)
{
    nccl_state *state = self->state;
    const bench_vendor *v = &state->vendor;
    void **places[] = {&state->operands.in, &state->operands.out};
    size_t bytes[] = {buffers->in.bytes, buffers->out.bytes};
    for (int i = 0; i < 2; i++) {
        weir_status status =
            nccl_check(self, v->mem_alloc(places[i], bytes[i]), "symmetric memory");
        status = bench_job_agree(self->job, status, "vendor library");
        if (status != WEIR_OK)
            return status;
        vendor_result made = v->window_register(state->comm, *places[i], bytes[i],
                                                &state->windows[i], VENDOR_WINDOW_SYMMETRIC);
        status = nccl_check(self, made, "symmetric window");
        if (status == WEIR_OK && !state->windows[i])
            status = bench_job_note(self->job, WEIR_ERR_UNSUPPORTED,
                                    "%s: symmetric windows are not for these GPUs; measure it "
                                    "with --peer nccl:default",
                                    self->name);
        status = bench_job_agree(self->job, status, "vendor library");
        if (status != WEIR_OK)
            return status;
    }
    self->operands = &state->operands;
    return WEIR_OK;
}

int bench_nccl_has_mode(const bench_vendor *vendor, bench_nccl_mode mode)
{
    int has_windows = vendor->version >= VERSION_WINDOWS && vendor->mem_alloc && vendor->mem_free &&
                      vendor->window_register && vendor->window_deregister;
    if (mode == BENCH_NCCL_ZERO_CTA)
        return has_windows && vendor->comm_init_config && vendor->version >= VERSION_ZERO_CTA;
    return mode == BENCH_NCCL_DEFAULT || has_windows;
}

weir_status bench_candidate_nccl_open(bench_job *job, const bench_buffers *buffers,
                                      const bench_vendor *vendor, bench_nccl_mode mode,
                                      bench_candidate **candidate)
{
    static const char *const suffixes[] = {"", ":symmetric", ":zero-cta"};
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &nccl_ops, sizeof(nccl_state), &self);
    status = bench_job_agree(job, status, "candidates");
    if (status != WEIR_OK) {
        bench_candidate_free(self);
        return status;
    }
    nccl_state *state = self->state;
    state->vendor = *vendor;
    self->peer = self->has_threads = 1;
    snprintf(self->name, sizeof self->name, "%s%s", vendor->name, suffixes[mode]);
    status = nccl_make_communicator(self, mode);
    if (status == WEIR_OK && mode != BENCH_NCCL_DEFAULT)
        status = nccl_make_windows(self, buffers);
    if (status != WEIR_OK) {
        nccl_close(self);
        return status;
    }
    *candidate = self;
    return WEIR_OK;
}

weir_status bench_candidate_nccl_tuned(bench_candidate *nccl, const bench_nccl_setting *setting,
                                       bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    const nccl_state *from = nccl->state;
    const weir_status status =
        bench_candidate_create(nccl->job, &nccl_ops, sizeof(nccl_state), &self);
    if (status != WEIR_OK)
        return status;
    nccl_state *state = self->state;
    *state = (nccl_state){.vendor = from->vendor, .comm = from->comm, .borrows = 1};
    self->peer = self->has_threads = 1;
    self->follows_table = !setting;
    if (setting) {
        state->setting = setting->setting;
        self->most_bytes = setting->most_bytes;
        bench_nccl_setting_name(&setting->setting, self->forced, sizeof self->forced);
    }
    snprintf(self->name, sizeof self->name, "%.28s:%s", nccl->name,
             setting ? self->forced : "table");
    *candidate = self;
    return WEIR_OK;
}
