/*
 * The contract of collectives (lib/base/contract.h): for every collective and placement, a plan
 * that keeps what the caller keeps is accepted by the checker and by the benchmarks' validation,
 * and a plan that does not is rejected by both. The plans are of two ranks, in the short form of
 * plan_text.h, and run unchecked on the host. The table in the documentation equals that in code.
 */
#include "verify/tests/support/plan_ranks.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

#include "base/contract.h"
#include "verify/expected.h"

enum { RANKS = 2, COUNT = 1003, ROOT = 0, BUFFER_BYTES = RANKS * COUNT * 4 };

/* A plan: rank r copies what its peer needs from its input to its scratch chunk 0, gets the peer's
 * to its scratch chunk 1, and ends with finish[r] and, out of place, copy_own[r]. */
typedef struct exchange {
    const char *head; /* "allreduce 2 i1 o1 s2" */
    weir_collective collective;
    const char *prepared[RANKS], *finish[RANKS], *copy_own[RANKS];
} exchange;

static const exchange exchanges[] = {
    {"allreduce 2 i1 o1 s2",
     WEIR_COLL_ALLREDUCE,
     {"i0", "i0"},
     {"re i0+1 s1+1 > o0+1", "re i0+1 s1+1 > o0+1"},
     {"", ""}},
    {"reduce_scatter 2 i2 o1 s2",
     WEIR_COLL_REDUCE_SCATTER,
     {"i1", "i0"},
     {"re i0+1 s1+1 > o0+1", "re i1+1 s1+1 > o0+1"},
     {"", ""}},
    {"allgather 2 i1 o2 s2",
     WEIR_COLL_ALLGATHER,
     {"i0", "i0"},
     {"copy s1+1 > o1+1", "copy s1+1 > o0+1"},
     {"copy i0+1 > o0+1", "copy i0+1 > o1+1"}},
    {"broadcast 2 i1 o1 s2",
     WEIR_COLL_BROADCAST,
     {"i0", "i0"},
     {"nop", "copy s1+1 > o0+1"},
     {"copy i0+1 > o0+1", ""}},
    {"reduce 2 i1 o1 s2", WEIR_COLL_REDUCE, {"i0", "i0"}, {"re i0+1 s1+1 > o0+1", "nop"}, {"", ""}},
    {"alltoall 2 i2 o2 s2",
     WEIR_COLL_ALLTOALL,
     {"i1", "i0"},
     {"copy s1+1 > o1+1", "copy s1+1 > o0+1"},
     {"copy i0+1 > o0+1", "copy i1+1 > o1+1"}},
};
enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };

/* An operation that a rank appends, and whether the contract allows it. */
typedef struct addition {
    weir_collective collective;
    int in_place, rank;
    const char *op;
    int is_allowed;
    const char *word; /* of the checker's message */
} addition;

static const addition additions[] = {
    /* out of place: the input is kept, the root's and that which no rank reads included */
    {WEIR_COLL_ALLREDUCE, 0, 1, "copy o0+1 > i0+1", 0, "writes input chunk 0 of rank 1"},
    {WEIR_COLL_REDUCE_SCATTER, 0, 1, "copy o0+1 > i0+1", 0, "writes input chunk 0 of rank 1"},
    {WEIR_COLL_ALLGATHER, 0, 1, "copy o0+1 > i0+1", 0, "writes input chunk 0 of rank 1"},
    {WEIR_COLL_BROADCAST, 0, 1, "copy o0+1 > i0+1", 0, "writes input chunk 0 of rank 1"},
    {WEIR_COLL_REDUCE, 0, 0, "copy o0+1 > i0+1", 0, "writes input chunk 0 of rank 0"},
    {WEIR_COLL_ALLTOALL, 0, 1, "copy o0+1 > i0+1", 0, "writes input chunk 0 of rank 1"},
    /* and so is the output of ranks that receive no result */
    {WEIR_COLL_REDUCE, 0, 1, "copy i0+1 > o0+1", 0, "only the root, rank 0, has an output"},
    /* in place: the result is complete, and what is neither result nor undefined is kept */
    {WEIR_COLL_ALLREDUCE, 1, 1, "copy s0+1 > o0+1", 0, "the contribution of rank 0 is missing"},
    {WEIR_COLL_REDUCE_SCATTER, 1, 1, "copy i0+1 > o0+1", 0, "output chunk 0 of rank 1"},
    {WEIR_COLL_REDUCE_SCATTER, 1, 1, "copy o0+1 > i0+1", 1, NULL},
    {WEIR_COLL_ALLGATHER, 1, 1, "copy o0+1 > o1+1", 0, "output chunk 1 of rank 1"},
    {WEIR_COLL_BROADCAST, 1, 0, "copy s1+1 > o0+1", 0, "output chunk 0 of rank 0"},
    {WEIR_COLL_REDUCE, 1, 0, "copy s1+1 > o0+1", 0, "output chunk 0 of rank 0"},
    {WEIR_COLL_REDUCE, 1, 1, "copy s1+1 > o0+1", 0, "a reduce in place keeps it on this rank"},
    {WEIR_COLL_REDUCE, 1, 1, "copy s0+1 > o0+1", 1, NULL}, /* the same data again */
    {WEIR_COLL_ALLTOALL, 1, 1, "copy o0+1 > o1+1", 0, "output chunk 1 of rank 1"},
};
enum { ADDITIONS = sizeof additions / sizeof *additions };

static const exchange *exchange_of(weir_collective collective)
{
    const exchange *found = exchanges;
    while (found->collective != collective)
        found++;
    return found;
}

static weir_plan *plan_of_exchange(const exchange *from, int in_place, const addition *with)
{
    char text[1024];
    int used = snprintf(text, sizeof text, "%s%s", from->head, in_place ? " inplace" : "");
    for (int rank = 0; rank < RANKS; rank++) {
        int peer = 1 - rank;
        const char *own = in_place ? "" : from->copy_own[rank];
        const char *more = with && with->rank == rank ? with->op : "";
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "\n%d.0; copy %s+1 > s0+1; nop; signal @m%d; wait @m%d; nop; "
                         "get %d:s0+1 > s1+1; nop; %s%s%s; nop; signal @m%d; wait @m%d%s%s",
                         rank, from->prepared[rank], peer, peer, peer, from->finish[rank],
                         *own ? "; " : "", own, peer, peer, *more ? "; nop; " : "", more);
    }
    return plan_of(text);
}

/* ----------------------------------------------------------------- validation */

static weirv_case case_of(const plan_rank *with, weir_collective collective, int in_place)
{
    return (weirv_case){.collective = collective,
                        .dtype = WEIR_INT32,
                        .op = WEIR_SUM,
                        .root = ROOT,
                        .rank = with->rank,
                        .nranks = RANKS,
                        .count = COUNT,
                        .seed = 7,
                        .in_place = in_place,
                        .exact = 1};
}

/* Runs a plan as a benchmark does. Returns what its validation finds on this rank; -1: the call
 * failed. */
static int64_t run_and_validate(plan_rank *with, const weir_plan *plan, weir_collective collective,
                                int in_place)
{
    const weirv_case c = case_of(with, collective, in_place);
    const weiri_contract *contract = weiri_contract_of((int)collective);
    const size_t block = COUNT * 4;
    char *in = weir_mem_pointer(with->memory[0]), *out = weir_mem_pointer(with->memory[1]);
    weirv_result result = {0};
    weirv_poison(out, BUFFER_BYTES);
    if (in_place) {
        in = out + (size_t)weiri_contract_in_block(contract, with->rank) * block;
        out += (size_t)weiri_contract_out_block(contract, with->rank) * block;
    }
    weirv_fill_input(&c, in);
    weir_status status =
        weir_executor_run(with->executor, plan, in, out, weirv_send_elements(&c) * 4,
                          weirv_recv_elements(&c) * 4, c.dtype, c.op, NULL);
    if (status != WEIR_OK) {
        fprintf(stderr, "# rank %d: %s\n", with->rank, weir_last_error());
        return -1;
    }
    weirv_check_exact(&c, out, &result);
    return (int64_t)(result.wrong + weirv_input_changed(&c, in));
}

/* A plan of one placement is correct in both. */
static int run_right_plans(plan_rank *with)
{
    int failures = 0;
    for (int i = 0; i < 4 * EXCHANGES; i++) {
        const exchange *from = &exchanges[i / 4];
        weir_plan *plan = plan_of_exchange(from, i & 1, NULL);
        weir_executor_set_checks(with->executor, 1); /* it finds the root */
        int64_t found = run_and_validate(with, plan, from->collective, i >> 1 & 1);
        if (found)
            fprintf(stderr, "# %s plan %s place, called %s place: %lld wrong on rank %d\n",
                    weir_collective_name(from->collective), i & 1 ? "in" : "out of",
                    i & 2 ? "in" : "out of", (long long)found, with->rank);
        failures += found != 0;
        weir_plan_free(plan);
    }
    return failures;
}

static int run_additions(plan_rank *with)
{
    int failures = 0;
    weir_executor_set_checks(with->executor, 0);
    for (int i = 0; i < ADDITIONS; i++) {
        const addition *at = &additions[i];
        weir_plan *plan = plan_of_exchange(exchange_of(at->collective), at->in_place, at);
        int64_t found = run_and_validate(with, plan, at->collective, at->in_place);
        int has_to_find = !at->is_allowed && with->rank == at->rank;
        if (found < 0 || (found > 0) != has_to_find) {
            fprintf(stderr, "# %s %s place, rank %d: %s: %lld wrong on rank %d\n",
                    weir_collective_name(at->collective), at->in_place ? "in" : "out of", at->rank,
                    at->op, (long long)found, with->rank);
            failures++;
        }
        weir_plan_free(plan);
    }
    return failures;
}

static int run_body(weir_boot *boot, void *argument)
{
    plan_rank with = {0};
    int (*run)(plan_rank *) = *(int (**)(plan_rank *))argument;
    int failures = 0;
    EXPECT_OK(&failures, plan_rank_open(&with, boot, BUFFER_BYTES));
    if (!failures)
        failures = run(&with);
    plan_rank_close(&with);
    return failures;
}

static void run_on_ranks(int (*run)(plan_rank *))
{
    weir_plan_free(plan_of_exchange(&exchanges[0], 0, NULL)); /* skips without a reader */
    run_ranks(RANKS, run_body, &run);
}

/* --------------------------------------------------------------------- tests */

TEST(checker_accepts_what_the_contract_allows)
{
    static weir_plan_report report;
    for (int i = 0; i < 2 * EXCHANGES; i++) {
        weir_plan *plan = plan_of_exchange(&exchanges[i / 2], i & 1, NULL);
        if (weir_plan_check(plan, &report) != WEIR_OK)
            fail_msg("%s, in place %d: %s", exchanges[i / 2].head, i & 1, weir_last_error());
        weir_plan_free(plan);
    }
    for (int i = 0; i < ADDITIONS; i++)
        if (additions[i].is_allowed) {
            weir_plan *plan = plan_of_exchange(exchange_of(additions[i].collective),
                                               additions[i].in_place, &additions[i]);
            if (weir_plan_check(plan, &report) != WEIR_OK)
                fail_msg("%s: %s", additions[i].op, weir_last_error());
            weir_plan_free(plan);
        }
}

TEST(checker_rejects_what_breaks_the_contract)
{
    static weir_plan_report report;
    for (int i = 0; i < ADDITIONS; i++) {
        const addition *at = &additions[i];
        if (at->is_allowed)
            continue;
        weir_plan *plan = plan_of_exchange(exchange_of(at->collective), at->in_place, at);
        if (weir_plan_check(plan, &report) != WEIR_ERR_INVALID)
            fail_msg("accepted: %s, in place %d, rank %d: %s", weir_collective_name(at->collective),
                     at->in_place, at->rank, at->op);
        assert_int_equal(report.violations[0].fault, WEIR_PLAN_FAULT_RESULT);
        assert_int_equal(report.violations[0].rank, at->rank);
        if (!strstr(report.violations[0].text, at->word))
            fail_msg("'%s' is not in: %s", at->word, report.violations[0].text);
        weir_plan_free(plan);
    }
}

/* Every collective and placement with a form of plans has an addition that is rejected. */
TEST(additions_cover_every_collective_and_placement)
{
    for (int i = 0; i < 2 * EXCHANGES; i++) {
        int covered = 0;
        for (int k = 0; k < ADDITIONS; k++)
            covered |= additions[k].collective == exchanges[i / 2].collective &&
                       additions[k].in_place == (i & 1) && !additions[k].is_allowed;
        assert_true(covered);
    }
}

/* ---------------------------------------------------------- the documentation */

static const char *words_of(const weiri_contract *contract, const weiri_after *after, char *text)
{
    static const char *const words[] = {"result", "kept", "undefined, except the output"};
    if (after[WEIRI_ROLE_ROOT] == after[WEIRI_ROLE_OTHER])
        strcpy(text, words[after[WEIRI_ROLE_ROOT]]);
    else
        sprintf(text, "root: %s; others: %s", words[after[WEIRI_ROLE_ROOT]],
                words[after[WEIRI_ROLE_OTHER]]);
    assert_true(contract->has_root || after[0] == after[1]);
    return text;
}

/* The row of the table in docs/user/buffers.md. */
static void write_row(weir_collective collective, char *row)
{
    const weiri_contract *contract = weiri_contract_of((int)collective);
    char out[64], in[64];
    const char *place = weiri_contract_in_block(contract, 1)    ? "`in == out + rank * count`"
                        : weiri_contract_out_block(contract, 1) ? "`out == in + rank * count`"
                                                                : "`in == out`";
    if (contract->in_place == WEIRI_IN_PLACE_NONE)
        sprintf(row, "| %s | kept | %s | none | - |", weir_collective_name(collective),
                words_of(contract, contract->out, out));
    else
        sprintf(row, "| %s | kept | %s | %s%s | %s |", weir_collective_name(collective),
                words_of(contract, contract->out, out), place,
                contract->in_place == WEIRI_IN_PLACE_PLANS ? ", plans only" : "",
                words_of(contract, contract->in_place_in, in));
}

TEST(documentation_has_the_table_of_the_code)
{
    static char text[1 << 16];
    FILE *file = fopen("docs/user/buffers.md", "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (int i = 0; i < WEIR_COLL_COUNT; i++) {
        char row[256];
        write_row((weir_collective)i, row);
        if (!strstr(text, row))
            fail_msg("docs/user/buffers.md lacks: %s", row);
    }
}

/* ------------------------------------------------- facts outside of the table */

/* Verification is independent of the library, and so has its own idea of what collectives are. */
TEST(validation_and_the_table_agree)
{
    for (int i = 0; i < WEIRI_COLL_ROWS; i++) {
        const weiri_contract *contract = weiri_contract_of(i);
        const weirv_case c = {.collective = (weir_collective)i, .nranks = 3, .count = 5};
        assert_int_equal(weirv_is_reduction(c.collective), contract->reduces);
        if (i == WEIR_COLL_ALLTOALLV || i == WEIR_COLL_COUNT) /* lengths of counts; of nothing */
            continue;
        assert_int_equal(weirv_send_elements(&c), contract->in_has_blocks ? 15 : 5);
        assert_int_equal(weirv_recv_elements(&c), contract->out_has_blocks ? 15 : 5);
    }
}

/* The Python program knows the lengths and factors of those collectives that it measures. */
TEST(the_python_benchmark_and_the_table_agree)
{
    static const char *const factors[] = {"1.0", "(n - 1) / n", "2 * (n - 1) / n"};
    static char text[1 << 16];
    FILE *file = fopen("python/weir/bench.py", "re");
    int found = 0;
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (int i = 0; i < WEIR_COLL_COUNT; i++) {
        const weiri_contract *contract = weiri_contract_of(i);
        char name[64], row[64];
        const char *shape = contract->in_has_blocks == contract->out_has_blocks ? "same"
                            : contract->in_has_blocks                           ? "scatter"
                                                                                : "gather";
        snprintf(name, sizeof name, "    \"%s\": (\"", contract->name);
        snprintf(row, sizeof row, "\", \"%s\", lambda n: %s)", shape, factors[contract->bus]);
        const char *at = strstr(text, name);
        const char *end = at ? strchr(at, '\n') : NULL;
        const char *here = at ? strstr(at, row) : NULL;
        if (at && (!here || here > end))
            fail_msg("python/weir/bench.py: the row of %s lacks %s", contract->name, row);
        found += at != NULL;
    }
    assert_int_equal(found, 6);
}

TEST(validation_passes_right_plans_in_both_placements)
{
    run_on_ranks(run_right_plans);
}

TEST(validation_finds_what_breaks_the_contract_and_nothing_else)
{
    run_on_ranks(run_additions);
}

int main(void)
{
    return run_all_tests("contract");
}
