/*
 * The library's example plans: each is built, proved correct by the checker for several numbers of
 * ranks and instances, in place and out of place, and run on the host with correct results.
 */
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/plan_ranks.h"
#include "verify/tests/support/unit_test.h"

#include "plan/examples/examples.h"

static weir_plan *make(const weiri_plan_example *example, const weiri_plan_example_options *with)
{
    weir_plan *plan = NULL;
    if (weiri_plan_example_make(example, with, &plan) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return plan;
}

static void read_again(const weir_plan *plan)
{
    char *text = NULL;
    size_t bytes;
    assert_int_equal(weir_plan_print(plan, &text, &bytes), WEIR_OK);
    plan_reads_again(text, bytes, plan->name);
    free(text);
}

static void examine(const weiri_plan_example *example, const weiri_plan_example_options *with)
{
    weir_plan *plan = make(example, with);
    weir_plan_report report;
    assert_string_equal(weir_plan_name(plan), example->name);
    assert_int_equal(weir_plan_nranks(plan), with->nranks);
    assert_int_equal(weir_plan_in_place(plan), with->in_place);
    if (weir_plan_check(plan, &report) != WEIR_OK)
        fail_msg("%d instances: %s", with->instances, weir_last_error());
    assert_int_equal(report.proves_result, 1);
    assert_int_equal(report.all_lengths, 1);
    assert_int_equal(report.root, 0);
    if (with->nranks <= 4)
        read_again(plan);
    weir_plan_free(plan);
}

TEST(every_example_is_proved_correct)
{
    static const int ranks[] = {2, 3, 4, 8};
    size_t count;
    const weiri_plan_example *all = weiri_plan_examples(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++)
            for (int variant = 0; variant < 4; variant++) {
                weiri_plan_example_options with = {
                    .nranks = ranks[k], .instances = variant & 1 ? 3 : 1, .in_place = variant >> 1};
                examine(&all[i], &with);
            }
}

TEST(an_example_for_sixteen_ranks_on_four_nodes_is_proved_correct)
{
    weiri_plan_example_options with = {.nranks = 16, .instances = 2, .node_ranks = 4};
    examine(weiri_plan_example_find("allreduce_hierarchical"), &with);
}

/* -------------------------------------------------------------------- on hosts */

enum { MOST_RUN = 7, MEMORY_BYTES = MOST_RUN * 60000 };

/* Lengths that are divisible, that are not, that leave ranks without data, and that need several
 * iterations. */
static int use_plan(plan_rank *with, const weir_plan *plan, int in_place)
{
    static const size_t blocks[] = {1020, 8, 60000, 4096};
    int failures = 0;
    for (int round = 0; round < 8 && !failures; round++) {
        const plan_use use = {.plan = plan,
                              .block_bytes = blocks[round % 4],
                              .dtype = round & 1 ? WEIR_INT32 : WEIR_FLOAT,
                              .op = round & 2 ? WEIR_MAX : WEIR_SUM,
                              .in_place = in_place,
                              .is_plain = round == 5};
        failures += plan_call(with, &use, round);
    }
    return failures;
}

static int example_body(weir_boot *boot, void *argument)
{
    plan_rank with = {0};
    size_t count;
    const weiri_plan_example *all = weiri_plan_examples(&count);
    int failures = 0;
    (void)argument;
    EXPECT_OK(&failures, plan_rank_open(&with, boot, MEMORY_BYTES));
    for (size_t i = 0; i < 2 * count && !failures; i++) {
        weiri_plan_example_options how = {.nranks = with.nranks,
                                          .instances = i & 1 ? 2 : 1,
                                          .in_place = (int)i & 1,
                                          .unit_bytes = 4096};
        weir_plan *plan = NULL;
        EXPECT_OK(&failures, weiri_plan_example_make(&all[i / 2], &how, &plan));
        if (!failures)
            failures += use_plan(&with, plan, how.in_place);
        weir_plan_free(plan);
    }
    plan_rank_close(&with);
    return failures;
}

TEST(every_example_runs_on_the_host)
{
    static const int ranks[] = {2, 4, MOST_RUN};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        run_ranks(ranks[i], example_body, NULL);
}

int main(void)
{
    return run_all_tests("plan_examples");
}
