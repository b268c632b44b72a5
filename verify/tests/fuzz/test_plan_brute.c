/*
 * The plan checker agrees with brute force: random plans, made from small correct ones by a few
 * random changes, are run in many random orders (plan_runner.h). A plan that the checker accepts
 * must end in every run with the right results, and write and read every element in the same order.
 * Of the plans that it rejects, runs must show 98% to be wrong: the checker is stricter than
 * necessary only about packets.
 */
#include "verify/tests/support/plan_changes.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/plan_runner.h"
#include "verify/tests/support/unit_test.h"

#include <time.h>

/* ------------------------------------------------------------------ agreement */

typedef struct verdict {
    int hangs, wrong, races, unbalanced, fits;
} verdict;

static runner run;

static void add_runs(verdict *found, const weir_plan *plan, uint64_t units, int root, int runs)
{
    for (int strong = 0; strong < 2; strong++) {
        uint64_t order = 0;
        if (!run_prepare(&run, plan, units, strong, root))
            return;
        found->fits = 1;
        for (int i = 0; i < (strong ? 1 + runs / 4 : runs); i++) {
            run_outcome one = run_once(&run, (uint64_t)i);
            found->hangs |= !one.ended;
            found->unbalanced |= one.unbalanced;
            found->wrong |= one.ended && one.wrong;
            if (i && one.ended)
                found->races |= one.order != order;
            order = one.order;
            if (found->hangs || found->wrong || found->races)
                return;
        }
    }
}

static int has_pipeline(const weir_plan *plan)
{
    for (int rank = 0; rank < plan->nranks; rank++)
        for (uint32_t i = 0; i < plan->gpus[rank].nops; i++)
            if (plan->gpus[rank].ops[i].kind == WEIRI_PLAN_PIPELINE_OP)
                return 1;
    return 0;
}

static int is_bad(const verdict *found)
{
    return found->hangs || found->wrong || found->races || found->unbalanced;
}

/* Runs lengths of up to `limit` units, those that pipelines divide into several turns too. */
static verdict brute_force(const weir_plan *plan, int root, int runs, uint64_t limit)
{
    static const uint64_t lengths[] = {1, 3, 5, 9};
    verdict found = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && !is_bad(&found); i++)
        if (lengths[i] <= limit && (i < 3 || has_pipeline(plan)))
            add_runs(&found, plan, lengths[i], root, i < 3 ? runs : runs / 4);
    return found;
}

/* The longest block, in units, for which a plan is accepted. */
static uint64_t accepted_units(const weir_plan *plan, const weir_plan_report *report)
{
    if (report->all_lengths)
        return UINT64_MAX;
    return report->max_chunk_bytes / plan->alignment * weiri_plan_block_chunks(plan);
}

TEST(correct_plans_run_in_any_order)
{
    for (int i = 0; i < RIGHT_PLANS; i++) {
        weir_plan_report report;
        weir_plan *plan = plan_of(right_plans[i]);
        assert_int_equal(weir_plan_check(plan, &report), WEIR_OK);
        verdict found = brute_force(plan, report.root, 60, UINT64_MAX);
        if (!found.fits || is_bad(&found))
            fail_msg("hangs %d, wrong %d, races %d, unbalanced %d, fits %d: %s", found.hangs,
                     found.wrong, found.races, found.unbalanced, found.fits, right_plans[i]);
        weir_plan_free(plan);
    }
}

typedef struct tally {
    int accepted, rejected, shown, tried;
} tally;

/* Checks and runs one random plan; fails, or with SHOW set prints, if the two disagree. */
static void try_one(uint64_t seed, tally *all)
{
    static weir_plan_report report;
    const char *text = right_plans[seed % RIGHT_PLANS];
    weir_plan *plan = plan_of(text);
    change_generator = run_mix(seed);
    for (uint32_t changes = 1 + change_below(2); changes; changes--)
        change_plan(plan);
    memset(&report, 0, sizeof report);
    if (weiri_plan_validate(plan) != WEIR_OK) {
        weir_plan_free(plan);
        return;
    }
    weir_status status = weir_plan_check(plan, &report);
    int accepted = status == WEIR_OK;
    verdict found = brute_force(plan, report.root, accepted ? 40 : 150,
                                accepted ? accepted_units(plan, &report) : UINT64_MAX);
    all->tried++;
    if (accepted && found.fits && is_bad(&found))
        fail_msg("seed %llu: accepted, but hangs %d, wrong %d, races %d, unbalanced %d: %s",
                 (unsigned long long)seed, found.hangs, found.wrong, found.races, found.unbalanced,
                 text);
    if (!accepted && found.fits && !is_bad(&found) && getenv("SHOW"))
        print_message("# seed %llu: rejected, but runs: %s\n#   %s\n", (unsigned long long)seed,
                      weir_last_error(), text);
    all->accepted += accepted;
    all->rejected += !accepted && found.fits;
    all->shown += !accepted && found.fits && is_bad(&found);
    weir_plan_free(plan);
}

/* The environment variable TRIES sets the number of plans, and makes them depend on the time. */
TEST(the_checker_agrees_with_random_execution)
{
    const char *tries = getenv("TRIES");
    uint64_t first = tries ? (uint64_t)time(NULL) << 20 : 1;
    int count = tries ? atoi(tries) : 300;
    tally all = {0};
    for (int i = 0; i < count; i++)
        try_one(first + (uint64_t)i, &all);
    print_message("# %d plans: %d accepted, and all runs agree; %d rejected, %d shown wrong by "
                  "runs\n",
                  all.tried, all.accepted, all.rejected, all.shown);
    assert_true(all.accepted > all.tried / 20);
    assert_true(all.shown * 100 >= all.rejected * 98);
}

int main(void)
{
    return run_all_tests("plan_brute");
}
