/* weir as a candidate of bench_replay. */
#include "bench/replay/plan.h"

static weir_status weir_replay_run(replay_candidate *self, const replay_work *work)
{
    weir_comm *comm = self->plan->comms[work->step->set];
    weir_splits splits;
    if (work->step->kind == REPLAY_BARRIER && !self->plan->job->gpu)
        return weir_comm_barrier(comm);
    const weir_call call = replay_work_call(self->plan, work, &splits);
    return weir_run(comm, &call);
}

const replay_candidate_ops replay_weir = {.run = weir_replay_run};
