/*
 * The plan checker agrees with brute force: random plans, made from small correct ones by a few
 * random changes, are run in many random orders (plan_runner.h). A plan that the checker accepts
 * must end in every run with the right results, and write and read every element in the same order.
 * Of the plans that it rejects, runs must show 98% to be wrong: the checker is stricter than
 * necessary only about packets.
 */
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/plan_runner.h"
#include "verify/tests/support/unit_test.h"

#include <time.h>

/* ------------------------------------------------------------------ changes */

static uint64_t generator;

static uint32_t random_below(uint32_t below)
{
    return (uint32_t)run_next_random(&generator, (int)below);
}

static weiri_plan_block *random_block(weir_plan *plan, weiri_plan_gpu **gpu)
{
    *gpu = &plan->gpus[random_below((uint32_t)plan->nranks)];
    return &(*gpu)->blocks[random_below((*gpu)->nblocks)];
}

/* Adds `by` to the length of the pipeline body that contains the operation. */
static void fit_pipeline(weiri_plan_gpu *gpu, const weiri_plan_block *block, uint32_t at, int by)
{
    for (uint32_t i = block->first_op; i < at; i++)
        if (gpu->ops[i].kind == WEIRI_PLAN_PIPELINE_OP && at <= i + gpu->ops[i].nops)
            gpu->ops[i].nops = (uint32_t)((int)gpu->ops[i].nops + by);
}

static void drop(weiri_plan_gpu *gpu, weiri_plan_block *block, uint32_t at)
{
    if (gpu->ops[at].kind == WEIRI_PLAN_PIPELINE_OP)
        return;
    fit_pipeline(gpu, block, at, -1);
    memmove(&gpu->ops[at], &gpu->ops[at + 1], (gpu->nops - at - 1) * sizeof *gpu->ops);
    gpu->nops--;
    block->nops--;
    for (uint32_t i = 0; i < gpu->nblocks; i++)
        if (gpu->blocks[i].first_op > at)
            gpu->blocks[i].first_op--;
}

static void swap(weiri_plan_gpu *gpu, weiri_plan_op *a, weiri_plan_op *b)
{
    (void)gpu;
    if (a->kind == WEIRI_PLAN_PIPELINE_OP || b->kind == WEIRI_PLAN_PIPELINE_OP ||
        a->in_body != b->in_body)
        return;
    weiri_plan_op other = *a;
    *a = *b;
    *b = other;
}

/* Makes an operand refer to a different chunk or buffer. */
static void redirect(weiri_plan_gpu *gpu, const weiri_plan_op *op)
{
    uint32_t count = op->nsrcs + op->ndsts;
    if (!count)
        return;
    uint32_t i = random_below(count);
    weiri_plan_ref *ref =
        &gpu->refs[i < op->nsrcs ? op->first_src + i : op->first_dst + i - op->nsrcs];
    if (random_below(3) == 0)
        ref->buffer = (uint8_t)random_below(WEIR_PLAN_BUFFERS);
    ref->index = random_below(4);
}

static void change_kind(weiri_plan_op *op)
{
    switch (op->kind) {
    case WEIRI_PLAN_SIGNAL_OP: op->kind = WEIRI_PLAN_RELAXED_SIGNAL_OP; break;
    case WEIRI_PLAN_WAIT_OP: op->kind = WEIRI_PLAN_RELAXED_WAIT_OP; break;
    case WEIRI_PLAN_RELAXED_SIGNAL_OP: op->kind = WEIRI_PLAN_SIGNAL_OP; break;
    case WEIRI_PLAN_RELAXED_WAIT_OP: op->kind = WEIRI_PLAN_WAIT_OP; break;
    case WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP: op->kind = WEIRI_PLAN_PUT_SIGNAL_OP; break;
    case WEIRI_PLAN_READ_REDUCE_OP: op->kind = WEIRI_PLAN_GET_OP; break;
    case WEIRI_PLAN_REDUCE_PACKETS_OP: op->kind = WEIRI_PLAN_REDUCE_OP; break;
    case WEIRI_PLAN_BARRIER_OP: op->kind = WEIRI_PLAN_NOP_OP; break;
    default: break;
    }
}

static void change(weir_plan *plan)
{
    weiri_plan_gpu *gpu;
    weiri_plan_block *block = random_block(plan, &gpu);
    if (!block->nops)
        return;
    uint32_t at = block->first_op + random_below(block->nops);
    weiri_plan_op *op = &gpu->ops[at];
    switch (random_below(8)) {
    case 0:
    case 1:
    case 2:
        drop(gpu, block, at);
        break;
    case 3:
    case 4:
        if (at + 1 < block->first_op + block->nops)
            swap(gpu, op, op + 1);
        break;
    case 5:
        redirect(gpu, op);
        break;
    case 6:
        change_kind(op);
        break;
    default:
        if (op->nids && op->kind != WEIRI_PLAN_PUT_SIGNAL_OP)
            gpu->ids[op->first_id] = random_below(2);
        else
            plan->double_scratch ^= random_below(4) == 0;
    }
}

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
    generator = run_mix(seed);
    for (uint32_t changes = 1 + random_below(2); changes; changes--)
        change(plan);
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
                 (unsigned long long)seed, found.hangs, found.wrong, found.races,
                 found.unbalanced, text);
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
