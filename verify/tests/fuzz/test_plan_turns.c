/*
 * Pipelines of many turns: families of plans whose faults appear only after some number of turns,
 * which a parameter sets. The checker must reject the wrong ones, and the executor must give right
 * results for the accepted ones at lengths beyond twice the parameter, or reject the call if the
 * plan is accepted for fewer turns only. Rejected plans are run in random order (plan_runner.h) and
 * must fail there.
 *
 *   lag      one block is L turns ahead of another, which is right if they handle the same chunk in
 *            the same turn, and wrong beyond 2 L turns if the second handles a chunk that the first
 *            writes in the second half of its turns; or too few credits for L turns
 *   dead     two pipelines in a row wait for a third that has T credits: no more than T turns end
 *   credits  a block may be K turns ahead of its consumer, through semaphores; wrong: the consumer
 *            is one turn ahead of the producer
 *   channel  likewise between ranks; wrong: the consumer copies before it waits
 *
 * The bounded variants limit the message length such that the fault cannot appear.
 */
#include "verify/tests/support/long_part.h"
#include "verify/tests/support/plan_ranks.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/plan_runner.h"
#include "verify/tests/support/unit_test.h"

#include <sys/mman.h>

enum { UNIT = 16, FAMILIES = 4, TURNS_MOST = 160, SEEDS = 24, PLANS_MAX = 512, TEXT_MAX = 4096 };

typedef struct variant {
    int family, parameter, is_wrong, credits;
    uint64_t max_turns; /* that the plan's range of lengths permits; 0: any */
} variant;

static const char *const family_names[FAMILIES] = {"lag", "dead", "credits", "channel"};

/* ------------------------------------------------------------------- the plans */

/* Appends `name word word ...; nop; `, or nothing if times is 0. */
static void add_times(char *text, const char *name, const char *word, int times)
{
    if (times == 0)
        return;
    strcat(text, name);
    for (int i = 0; i < times; i++)
        sprintf(text + strlen(text), " %s", i ? word + 1 : word);
    strcat(text, "; nop; ");
}

static void write_lag(char *text, const variant *of)
{
    sprintf(text, "allgather 2 i2 o4 s5\nsem 0 %d\n", of->credits);
    for (int rank = 0; rank < 2; rank++) {
        const int peer = 1 - rank, source = of->is_wrong ? 1 : 0;
        sprintf(text + strlen(text),
                "%d.0; rlxsignal @m%d; rlxwait @m%d; nop; copy i0+1 > s2+1; nop; ", rank, peer,
                peer);
        add_times(text, "sem_acquire", "$0", of->parameter);
        sprintf(text + strlen(text),
                "pipeline %d*2; nop; sem_acquire $0; nop; copy s%d+2 > s3+2; nop; sem_release $1; "
                "nop; end; nop; ",
                UNIT, source);
        for (int k = 0; k < 2; k++) {
            const int from = of->is_wrong ? 4 - k : 3 + k, to = 2 * rank + k;
            sprintf(text + strlen(text), "copy s%d+1 > o%d+1; put s%d+1 > %d:o%d+1 @m%d; ", from,
                    to, from, peer, to, peer);
        }
        sprintf(text + strlen(text), "nop; signal @m%d; nop; wait @m%d; nop\n", peer, peer);
        sprintf(text + strlen(text),
                "%d.1; pipeline %d*2; nop; sem_acquire $1; nop; copy i0+2 > s0+2; nop; sem_release "
                "$0; nop; end; nop; ",
                rank, UNIT);
        add_times(text, "sem_release", "$0", of->parameter);
        strcat(text, "nop\n");
    }
}

static void write_dead(char *text, const variant *of)
{
    sprintf(text, "allgather 2 i1 o2 s1\nsem 0 %d\n", of->parameter);
    for (int rank = 0; rank < 2; rank++)
        sprintf(text + strlen(text),
                "%d.0; rlxsignal @m%d; nop; rlxwait @m%d; copy i0+1 > o%d+1; "
                "pipeline %d*1; nop; sem_acquire $0; nop; put s0+1 > %d:o%d+1 @m%d; end; "
                "pipeline %d*1; nop; sem_release $1; nop; end; signal @m%d; nop; wait @m%d; nop\n"
                "%d.1; pipeline %d*1; nop; sem_acquire $1; nop; copy i0+1 > s0+1; nop; "
                "sem_release $0; nop; end\n",
                rank, 1 - rank, 1 - rank, rank, UNIT, 1 - rank, rank, 1 - rank, UNIT, 1 - rank,
                1 - rank, rank, UNIT);
}

static void write_credits(char *text, const variant *of)
{
    sprintf(text, "allgather 2 i1 o2 s1\nsem %d %d\n", of->is_wrong, of->parameter);
    for (int rank = 0; rank < 2; rank++)
        sprintf(
            text + strlen(text),
            "%d.0; rlxsignal @m%d; nop; rlxwait @m%d; copy i0+1 > o%d+1; "
            "pipeline %d*1; sem_acquire $0; nop; put s0+1 > %d:o%d+1 @m%d; nop; sem_release $1; "
            "end; signal @m%d; nop; wait @m%d; nop\n"
            "%d.1; pipeline %d*1; sem_acquire $1; nop; copy i0+1 > s0+1; nop; sem_release $0; "
            "end\n",
            rank, 1 - rank, 1 - rank, rank, UNIT, 1 - rank, rank, 1 - rank, 1 - rank, 1 - rank,
            rank, UNIT);
}

static void write_channel(char *text, const variant *of)
{
    strcpy(text, "allgather 2 i1 o2 s1\n");
    for (int rank = 0; rank < 2; rank++) {
        const int peer = 1 - rank;
        char link[2][16];
        for (int i = 0; i < 2; i++)
            sprintf(link[i], "@m%d/%d", peer, i);
        sprintf(text + strlen(text),
                "%d.0; copy i0+1 > o%d+1; pipeline %d*1; wait %s; nop; "
                "put i0+1 > %d:s0+1 @m%d; nop; signal @m%d; end; nop; ",
                rank, rank, UNIT, link[1], peer, peer, peer);
        add_times(text, "wait", link[1], of->parameter);
        sprintf(text + strlen(text), "nop\n%d.1; ", rank);
        add_times(text, "signal", link[1], of->parameter);
        sprintf(text + strlen(text),
                of->is_wrong
                    ? "pipeline %d*1; copy s0+1 > o%d+1; nop; wait @m%d; nop; signal %s; end\n"
                    : "pipeline %d*1; wait @m%d; nop; copy s0+1 > o%d+1; nop; signal %s; end\n",
                UNIT, peer, peer, link[1]);
    }
}

static weir_plan *plan_of_variant(const variant *of)
{
    static void (*const writers[FAMILIES])(char *, const variant *) = {
        write_lag, write_dead, write_credits, write_channel};
    static char text[TEXT_MAX];
    writers[of->family](text, of);
    weir_plan *plan = plan_of(text);
    const uint64_t chunks = of->family == 0 ? 2 : 1;
    if (of->max_turns) /* of all ranks' blocks */
        plan->max_bytes = 2 * of->max_turns / chunks * chunks * UNIT;
    return plan;
}

/* ---------------------------------------------------------------- the variants */

static int add_variant(variant *all, int count, variant one)
{
    if (count < PLANS_MAX)
        all[count] = one;
    return count + 1;
}

/* All parameters if the environment variable ALL is set, else some. */
static int is_tried(int parameter)
{
    return getenv("ALL") || parameter == 1 || parameter == 8 || parameter == 33 ||
           (is_long_run() && (parameter == 2 || parameter == 16));
}

static int list_variants(variant *all)
{
    int n = 0;
    for (int lag = 0; lag <= 16; lag++) {
        if (!is_tried(lag))
            continue;
        n = add_variant(all, n, (variant){0, lag, 0, lag + 1, 0});
        n = add_variant(all, n, (variant){0, lag, 0, lag + 17, 0});
        n = add_variant(all, n, (variant){0, lag, 0, lag, 0}); /* one credit is missing */
        n = add_variant(all, n, (variant){0, lag, 1, lag + 1, 0});
        if (lag)
            n = add_variant(all, n, (variant){0, lag, 1, lag + 1, 2 * (uint64_t)lag});
    }
    for (int turns = 1; turns <= 32; turns++) {
        if (!is_tried(turns))
            continue;
        n = add_variant(all, n, (variant){1, turns, 1, turns, 0});
        n = add_variant(all, n, (variant){1, turns, 1, turns, (uint64_t)turns});
    }
    for (int family = 2; family < FAMILIES; family++)
        for (int credits = 1; credits <= 33; credits++) {
            if (!is_tried(credits))
                continue;
            n = add_variant(all, n, (variant){family, credits, 0, credits, 0});
            n = add_variant(all, n, (variant){family, credits, 1, credits, 0});
        }
    return n;
}

/* What the checker has to find: 1: right, 0: wrong. */
static int is_right_variant(const variant *of)
{
    if (of->max_turns)
        return 1;
    return !of->is_wrong && !(of->family == 0 && of->credits == of->parameter);
}

/* ----------------------------------------------------------------------- runs */

static runner run;

/* Whether some run in random order hangs, gives a wrong result, or orders accesses differently. */
static int fails_in_some_run(const weir_plan *plan, uint64_t units, int strong)
{
    uint64_t order = 0;
    if (!run_prepare(&run, plan, units * weiri_plan_block_chunks(plan), strong, 0))
        fail_msg("%d turns are too many for the runner", (int)units);
    for (int i = 0; i < SEEDS; i++) {
        run_outcome one = run_once(&run, (uint64_t)i);
        if (!one.ended || one.wrong || one.unbalanced || (i && one.order != order))
            return 1;
        order = one.order;
    }
    return 0;
}

/* The length of a chunk in units at which a wrong variant fails. */
static uint64_t units_of_fault(const variant *of)
{
    if (of->family == 0)
        return (uint64_t)of->parameter + 2;
    return of->family == 1 ? (uint64_t)of->parameter + 1 : 2;
}

typedef struct tally {
    int plans, accepted, limited, rejected, shown, runs, refused;
} tally;

typedef struct calls {
    const variant *variants;
    const uint64_t *limits; /* by variant: the longest chunk, in bytes; 0: the plan is rejected */
    int count;
    int *counts; /* shared: runs, rejected calls */
} calls;

/* Runs an accepted plan with chunks of these units; returns the failures. */
static int call_plan(plan_rank *with, const weir_plan *plan, uint64_t limit, uint64_t units,
                     int *counts)
{
    const uint64_t chunks = weiri_plan_block_chunks(plan), block = units * UNIT * chunks;
    const plan_use use = {.plan = plan, .block_bytes = block, .dtype = WEIR_INT32, .op = WEIR_SUM};
    if (2 * block > plan->max_bytes)
        return 0;
    if (units * UNIT <= limit) {
        counts[0]++;
        return plan_call(with, &use, (int)units);
    }
    counts[1]++;
    weir_status status = weir_executor_run(with->executor, plan, weir_mem_pointer(with->memory[0]),
                                           weir_mem_pointer(with->memory[1]), block, 2 * block,
                                           WEIR_INT32, WEIR_SUM, NULL);
    return status != WEIR_ERR_INVALID ||
           !strstr(weir_last_error(), "the plan is accepted for up to");
}

static int calls_body(weir_boot *boot, void *argument)
{
    static const uint64_t lengths[] = {1, 2, 3, 5, 8};
    calls *all = argument;
    plan_rank with = {0};
    int failures = 0, counts[2] = {0};
    EXPECT_OK(&failures, plan_rank_open(&with, boot, (size_t)4 * TURNS_MOST * UNIT));
    for (int i = 0; i < all->count && !failures; i++) {
        const variant *of = &all->variants[i];
        const uint64_t far = (uint64_t)of->parameter, limit = all->limits[i];
        weir_plan *plan = plan_of_variant(of);
        if (limit) {
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                failures += call_plan(&with, plan, limit, lengths[l], counts);
            for (uint64_t times = 1; times <= 4; times++)
                failures += call_plan(&with, plan, limit, times * far + 1, counts);
            if (of->max_turns)
                failures += call_plan(&with, plan, limit,
                                      of->max_turns / weiri_plan_block_chunks(plan), counts);
        }
        weir_plan_free(plan);
    }
    if (with.rank == 0)
        memcpy(all->counts, counts, sizeof counts);
    plan_rank_close(&with);
    return failures;
}

/* Returns the longest chunk, in bytes, for which the plan is accepted; 0: it is rejected. */
static uint64_t check_variant(const variant *of, tally *to)
{
    static weir_plan_report report;
    weir_plan *plan = plan_of_variant(of);
    const int is_accepted = weir_plan_check(plan, &report) == WEIR_OK;
    to->plans++;
    if (is_accepted != is_right_variant(of))
        fail_msg("%s %d, wrong %d, credits %d, at most %d turns: %s", family_names[of->family],
                 of->parameter, of->is_wrong, of->credits, (int)of->max_turns,
                 is_accepted ? "accepted" : weir_last_error());
    to->accepted += is_accepted;
    to->limited += is_accepted && !report.all_lengths;
    to->rejected += !is_accepted;
    if (!is_accepted) {
        if (!fails_in_some_run(plan, units_of_fault(of), 0))
            fail_msg("%s %d, wrong %d: rejected, but runs", family_names[of->family], of->parameter,
                     of->is_wrong);
        to->shown++;
    }
    weir_plan_free(plan);
    return !is_accepted ? 0 : report.all_lengths ? UINT64_MAX : report.max_chunk_bytes;
}

TEST(faults_that_need_many_turns_are_found_and_accepted_plans_run)
{
    static variant all[PLANS_MAX];
    static uint64_t limits[PLANS_MAX];
    const int count = list_variants(all);
    int *counts =
        mmap(NULL, 2 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(count <= PLANS_MAX && counts != MAP_FAILED);
    for (int family = 0, first = 0, last; family < FAMILIES; family++, first = last) {
        tally found = {0};
        for (last = first; last < count && all[last].family == family; last++)
            limits[last] = check_variant(&all[last], &found);
        run_ranks(2, calls_body, &(calls){&all[first], &limits[first], last - first, counts});
        print_message("# %-8s %3d plans: %3d accepted (%d of them up to a number of turns), %3d "
                      "rejected (%3d shown wrong); %4d runs, 0 wrong; %d calls with more turns "
                      "rejected\n",
                      family_names[family], found.plans, found.accepted, found.limited,
                      found.rejected, found.shown, counts[0], counts[1]);
        assert_int_equal(found.shown, found.rejected);
        assert_true(counts[0] > 0);
    }
    munmap(counts, 2 * sizeof *counts);
}

int main(void)
{
    (void)long_part("pipelines of 2 and 16 turns");
    return run_all_tests("plan_turns");
}
