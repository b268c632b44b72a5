/* A library with NCCL's interface as a candidate of bench_replay: calls and groups as recorded. */
#include "bench/candidate/vendor.h"
#include "bench/job/cores.h"
#include "bench/job/exchange.h"
#include "bench/replay/plan.h"

typedef struct vendor_state {
    bench_vendor vendor;
    vendor_comm *comms;             /* by set */
    int in_group[REPLAY_LANES_MAX]; /* between GroupStart and GroupEnd of several steps */
} vendor_state;

static weir_status vendor_check(replay_candidate *self, vendor_result result, const char *what)
{
    const vendor_state *state = self->state;
    if (result == 0)
        return WEIR_OK;
    return bench_job_note(self->plan->job, WEIR_ERR_SYSTEM, "%s: %s: %s", self->name, what,
                          state->vendor.error_string(result));
}

/* Creates the communicator of a set; its first rank makes the id. Collective. */
static weir_status vendor_make(replay_candidate *self, int set)
{
    const replay_plan *plan = self->plan;
    vendor_state *state = self->state;
    const replay_comm *ranks = plan->sets[set];
    const int member = replay_comm_rank(ranks, plan->job->rank);
    vendor_id id = {{0}};
    weir_status status = WEIR_OK;
    if (member == 0)
        status = vendor_check(self, state->vendor.get_unique_id(&id), "unique id");
    status = bench_job_agree(plan->job, status, "vendor library");
    if (status != WEIR_OK)
        return status;
    bench_exchange_broadcast(plan->job, &id, sizeof id, ranks->ranks[0]);
    bench_job_phase(plan->job, "set-up: vendor library", (uint64_t)set);
    if (member >= 0)
        status = vendor_check(
            self, state->vendor.comm_init(&state->comms[set], ranks->nranks, id, member),
            "communicator");
    return bench_job_agree(plan->job, status, "vendor library");
}

static weir_status vendor_open(replay_candidate *self)
{
    replay_plan *plan = self->plan;
    vendor_state *state = replay_take(&plan->pool, 1, sizeof *state);
    char why[200] = "";
    weir_status status = WEIR_OK;
    self->state = state;
    if (state)
        state->comms =
            replay_take(&plan->pool, (size_t)plan->schedule->nsets, sizeof *state->comms);
    if (plan->pool.has_failed)
        status = replay_no_memory();
    else if (!plan->job->gpu && !self->peer->path)
        status = bench_job_note(plan->job, WEIR_ERR_INVALID,
                                "--peer %s: it works on GPUs; give --backend cuda, or --peer mpi",
                                self->peer->text);
    else if (bench_vendor_open(self->peer->path, &state->vendor, why, sizeof why) != WEIR_OK)
        status = bench_job_note(plan->job, WEIR_ERR_SYSTEM,
                                "--peer %s: %s; name the library by WEIR_NCCL_SO or --peer PATH",
                                self->peer->text, why);
    status = bench_job_agree(plan->job, status, "vendor library");
    if (status != WEIR_OK)
        return status;
    snprintf(self->name, sizeof self->name, "%s", state->vendor.name);
    bench_cores_check(plan->job, self->name);
    for (int set = 0; set < plan->schedule->nsets && status == WEIR_OK; set++)
        status = vendor_make(self, set);
    return status;
}

static const char *vendor_refuses(replay_candidate *self, const replay_work *work)
{
    const int n = replay_work_set(self->plan, work)->nranks;
    return replay_kind_has_op((replay_kind)work->step->kind) && work->call->op == WEIR_AVG &&
                   n & (n - 1)
               ? "it scales an average before it sums, which rounds"
               : NULL;
}

/* Sends and receives of an exchange, each from its place in the block of its peer. */
static vendor_result vendor_exchange(replay_candidate *self, const replay_work *work, void *stream)
{
    const vendor_state *state = self->state;
    vendor_comm comm = state->comms[work->step->set];
    vendor_result result = 0;
    for (uint32_t i = 0; i < work->step->ncalls && result == 0; i++) {
        const replay_message message = replay_message_of(self->plan, work, i);
        result =
            message.is_send
                ? state->vendor.send(message.data, message.bytes, bench_vendor_type(WEIR_UINT8),
                                     message.peer, comm, stream)
                : state->vendor.recv(message.data, message.bytes, bench_vendor_type(WEIR_UINT8),
                                     message.peer, comm, stream);
    }
    return result;
}

static vendor_result vendor_call(replay_candidate *self, const replay_work *work)
{
    const vendor_state *state = self->state;
    weir_splits splits;
    const weir_call call = replay_work_call(self->plan, work, &splits);
    return work->step->kind == REPLAY_EXCHANGE
               ? vendor_exchange(self, work, call.stream)
               : bench_vendor_run(&state->vendor, state->comms[work->step->set],
                                  replay_work_set(self->plan, work)->nranks, &call, call.stream);
}

/* Groups of the recording contain several steps; a step of several messages is a group as well. */
static weir_status vendor_run(replay_candidate *self, const replay_work *work)
{
    vendor_state *state = self->state;
    vendor_result result = state->vendor.group_start(), ended = 0;
    int *in_group = &state->in_group[work->lane];
    if (work->step->is_grouped && !*in_group && result == 0)
        result = state->vendor.group_start();
    *in_group = work->step->is_grouped || *in_group;
    if (result == 0)
        result = vendor_call(self, work);
    ended = state->vendor.group_end();
    if (!work->step->is_grouped && *in_group) {
        const vendor_result outer = state->vendor.group_end();
        ended = ended ? ended : outer;
        *in_group = 0;
    }
    return vendor_check(self, result ? result : ended, replay_step_name(work->step->kind));
}

static void vendor_close(replay_candidate *self)
{
    vendor_state *state = self->state;
    for (int i = 0; state && state->comms && i < self->plan->schedule->nsets; i++)
        if (state->comms[i])
            state->vendor.comm_destroy(state->comms[i]);
    self->state = NULL;
}

const replay_candidate_ops replay_vendor = {vendor_open, vendor_refuses, vendor_run, NULL,
                                            vendor_close};
