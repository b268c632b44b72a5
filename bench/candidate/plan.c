/* Checks whether a plan fits the run: see candidates.h. */
#include "bench/candidate/candidates.h"

#include "base/words.h"
#include "bench/sizes/shape.h"
#include <weir/plan.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int bench_plan_is_for(const weir_plan *plan, weir_collective collective)
{
    const char *name = weir_plan_collective(plan);
    return strcmp(name, weir_collective_name(collective)) == 0 ||
           (collective == WEIR_COLL_REDUCE_SCATTER && strcmp(name, "reducescatter") == 0);
}

/* A plan's range counts the same bytes as the sizes of the table. */
static int check_range(const bench_options *options, const weir_plan *plan, char *problem)
{
    uint64_t least, most;
    weir_plan_range(plan, &least, &most);
    if (options->action != BENCH_ACTION_RUN ||
        (options->min_bytes >= least && options->max_bytes <= most))
        return 0;
    return bench_refuse(problem,
                        "--plan %s: it serves messages of %" PRIu64 " to %" PRIu64
                        " bytes; -b is %zu and "
                        "-e is %zu: give sizes within",
                        options->plan, least, most, options->min_bytes, options->max_bytes);
}

static int check_plan(const bench_options *options, weir_collective collective, int nranks,
                      const weir_plan *plan, char *problem)
{
    const char *its = weir_plan_collective(plan);
    int ranks = weir_plan_nranks(plan);
    if (collective == WEIR_COLL_ALLTOALLV)
        return bench_refuse(
            problem, "--plan %s: plans have equal blocks, alltoallv has not; see bench_alltoall",
            options->plan);
    if (!bench_plan_is_for(plan, collective))
        return bench_refuse(problem, "--plan %s: it is a plan for %s; this benchmark measures %s",
                            options->plan, its, weir_collective_name(collective));
    if (check_range(options, plan, problem) != 0)
        return -1;
    if (nranks && ranks != nranks)
        return bench_refuse(
            problem,
            "--plan %s: it is for %d rank%s, and this job has %d: start %d (-g %d, or "
            "mpirun -np %d), or give another plan",
            options->plan, ranks, weiri_s(ranks), nranks, ranks, ranks, ranks);
    return 0;
}

/* Checks what comparing outputs could miss: races, deadlocks, and whether the root is that of -r.
 * Plans that are too large to be proved, and with --unproved rejected ones, are measured anyway;
 * their outputs are checked. */
static int prove_plan(const bench_options *options, weir_collective collective,
                      const bench_job *job, const weir_plan *plan, char *problem)
{
    weir_plan_report *report = malloc(sizeof *report);
    weir_status status = report ? weir_plan_check(plan, report) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_ERR_INVALID && options->unproved) {
        bench_job_say(job,
                      "--unproved: the plan is rejected and measured nevertheless: %s; its data is "
                      "compared, races and deadlocks remain possible",
                      weir_last_error());
        status = WEIR_ERR_UNSUPPORTED;
    }
    if (status == WEIR_ERR_INVALID)
        snprintf(problem, BENCH_PROBLEM_BYTES, "--plan: %s; weir-plan check reports more",
                 weir_last_error());
    else if (status == WEIR_ERR_NO_MEMORY)
        snprintf(problem, BENCH_PROBLEM_BYTES, "--plan %s: no memory to check it", options->plan);
    if (status == WEIR_OK && bench_collective_has_root(collective) &&
        report->root != options->root) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "--plan %s: its root is rank %d: give -r %d",
                 options->plan, report->root, report->root);
        status = WEIR_ERR_INVALID;
    }
    free(report);
    return status == WEIR_OK || status == WEIR_ERR_UNSUPPORTED ? 0 : -1;
}

int bench_plan_check(const bench_options *options, weir_collective collective, bench_job *job,
                     char *problem)
{
    weir_plan *plan = NULL;
    if (weir_plan_read(options->plan, &plan) != WEIR_OK)
        return bench_refuse(problem, "--plan: %s", weir_last_error());
    int fits = check_plan(options, collective, job ? job->group_nranks : 0, plan, problem);
    if (fits == 0 && job)
        fits = prove_plan(options, collective, job, plan, problem);
    if (fits == 0 && job)
        job->plan = plan;
    else
        weir_plan_free(plan);
    return fits;
}

void bench_plan_print(FILE *to, const bench_options *options)
{
    weir_plan *plan = NULL;
    char name[64], ranks[32];
    if (weir_plan_read(options->plan, &plan) != WEIR_OK)
        return;
    snprintf(name, sizeof name, "plan:%.26s", weir_plan_name(plan));
    snprintf(ranks, sizeof ranks, "%d", weir_plan_nranks(plan));
    fprintf(to, "%-20s %-8s %-8s plan %s of %s%s\n", name, "any", ranks, weir_plan_name(plan),
            options->plan, weir_plan_in_place(plan) ? ", made for use in place" : "");
    weir_plan_free(plan);
}
