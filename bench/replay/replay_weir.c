/* weir as a candidate of bench_replay. */
#include "bench/replay/plan.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Chooses sets without a common rank that are not open yet, beginning with `first`. Writes the
 * color and key of this rank, and returns how many sets were chosen. */
static int choose_apart(const replay_plan *plan, int *opened, int first, int *color, int *key)
{
    char used[REPLAY_RANKS_MAX] = {0};
    int chosen = 0;
    *color = WEIR_SPLIT_NONE;
    *key = 0;
    for (int i = first; i < plan->schedule->nsets; i++) {
        const replay_comm *set = plan->sets[i];
        int is_apart = !opened[i];
        for (int member = 0; is_apart && member < set->nranks; member++)
            is_apart = !used[set->ranks[member]];
        if (!is_apart)
            continue;
        opened[i] = 1;
        chosen++;
        for (int member = 0; member < set->nranks; member++) {
            used[set->ranks[member]] = 1;
            if (set->ranks[member] == plan->job->rank) {
                *color = i;
                *key = member;
            }
        }
    }
    return chosen;
}

/* Whether a set is all ranks of the job in their order. */
static int is_whole(const replay_plan *plan, const replay_comm *set)
{
    int member = 0;
    while (member < set->nranks && set->ranks[member] == member)
        member++;
    return member == plan->job->nranks;
}

/* The first set of all ranks is the job's communicator, to which the memory belongs, as in most
 * jobs. Communicators without a common rank are created by one division of the job's communicator.
 * The state becomes a list of this rank's, by set; NULL: it is not in it. */
static weir_status weir_replay_open(replay_candidate *self)
{
    const replay_plan *plan = self->plan;
    const size_t nsets = (size_t)plan->schedule->nsets;
    weir_comm **comms = self->state = calloc(nsets, sizeof *comms);
    int *opened = calloc(nsets, sizeof *opened), color, key;
    weir_status status = WEIR_OK;
    if (!opened || !comms)
        status = bench_job_note(plan->job, WEIR_ERR_NO_MEMORY, "no memory for communicators");
    status = bench_job_agree(plan->job, status, "communicators");
    for (int i = 0; i < plan->schedule->nsets && status == WEIR_OK; i++)
        if (is_whole(plan, plan->sets[i])) {
            comms[i] = plan->job->comm;
            opened[i] = 1;
            break;
        }
    for (int i = 0; i < plan->schedule->nsets && status == WEIR_OK; i++) {
        weir_comm_config config = WEIR_COMM_CONFIG_INIT;
        weir_comm *made = NULL;
        if (opened[i])
            continue;
        config.timeout_ms = plan->job->timeout_ms;
        config.backend = weir_comm_backend(plan->job->comm);
        config.device = weir_comm_device(plan->job->comm);
        choose_apart(plan, opened, i, &color, &key);
        status = weir_comm_split(plan->job->comm, color, key, &config, &made);
        if (status == WEIR_OK && color >= 0)
            comms[color] = made;
        status = bench_job_agree(plan->job, status, "communicators");
    }
    free(opened);
    return status;
}

static const char *weir_replay_refuses(replay_candidate *self, const replay_work *work)
{
    (void)self, (void)work;
    return NULL;
}

static weir_status weir_replay_run(replay_candidate *self, const replay_work *work)
{
    weir_comm *comm = ((weir_comm **)self->state)[work->step->set];
    weir_splits splits;
    if (work->step->kind == REPLAY_BARRIER && !self->plan->job->gpu)
        return weir_comm_barrier(comm);
    const weir_call call = replay_work_call(self->plan, work, &splits);
    return weir_run(comm, &call);
}

/* Every rank destroys its communicators in the order of sets. */
static void weir_replay_close(replay_candidate *self)
{
    weir_comm **comms = self->state;
    for (int i = 0; comms && i < self->plan->schedule->nsets; i++)
        if (comms[i] != self->plan->job->comm)
            weir_comm_destroy(comms[i]);
    free(comms);
    self->state = NULL;
}

const replay_candidate_ops replay_weir = {weir_replay_open, weir_replay_refuses, weir_replay_run,
                                          NULL, weir_replay_close};
