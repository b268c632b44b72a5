/* weir's communicators of a recording, in whose memory all candidates work: see plan.h. */
#include "bench/replay/plan.h"

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

/* The first set of all ranks is the job's communicator. Communicators without a common rank are
 * created by one division of it. */
weir_status replay_comms_open(replay_plan *plan)
{
    const size_t nsets = (size_t)plan->schedule->nsets;
    weir_comm **comms = plan->comms = replay_take(&plan->pool, nsets, sizeof *comms);
    int *opened = replay_take(&plan->pool, nsets, sizeof *opened), color, key;
    weir_status status = WEIR_OK;
    if (!opened || !comms)
        status = replay_no_memory();
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
    return status;
}

/* Every rank destroys its communicators in the order of sets. */
void replay_comms_close(replay_plan *plan)
{
    for (int i = 0; plan->comms && i < plan->schedule->nsets; i++)
        if (plan->comms[i] != plan->job->comm)
            weir_comm_destroy(plan->comms[i]);
    plan->comms = NULL;
}
