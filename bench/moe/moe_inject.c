/* The faults of bench_moe's --inject: where there is a place for them, and what they do there. */
#include "bench/moe/moe_trial.h"

#include "bench/job/exchange.h"

#include <string.h>

static const char *const fault_names[BENCH_MOE_FAULTS] = {
    [BENCH_MOE_NO_FAULT] = "none",
    [BENCH_MOE_DROP_TOKEN] = "drop-token",
    [BENCH_MOE_WRONG_EXPERT] = "wrong-expert",
    [BENCH_MOE_STALE_ROW] = "stale-row",
    [BENCH_MOE_FLIP_BIT] = "flip-bit",
    [BENCH_MOE_LOSE_COUNT] = "lose-count",
    [BENCH_MOE_OVERFLOW] = "overflow",
    [BENCH_MOE_WRONG_WEIGHT] = "wrong-weight",
    [BENCH_MOE_SWAP_OUTPUTS] = "swap-outputs",
};

const char *bench_moe_fault_name(bench_moe_fault fault)
{
    return fault_names[fault];
}

/* ------------------------------------------------------------------- places */

/* The place of received row `index`, or of the last row if there are fewer or index is -1. */
static size_t row_of(moe_candidate *c, int version, int index)
{
    int source, token, choice;
    const int count = weirv_moe_received(c->trial->oracle, version, c->trial->rank);
    index = index < 0 || index >= count ? count - 1 : index;
    return count ? (size_t)weirv_moe_row(c->trial->oracle, version, c->trial->rank, index, &source,
                                         &token, &choice)
                 : 0;
}

/* The last received row that holds another token than the first one; -1: none. */
static int other_token(const bench_moe_trial *t, int version, int rank)
{
    int source, token, choice, first_source, first_token;
    int index = weirv_moe_received(t->oracle, version, rank) - 1;
    if (index < 1)
        return -1;
    weirv_moe_row(t->oracle, version, rank, 0, &first_source, &first_token, &choice);
    for (; index > 0; index--) {
        weirv_moe_row(t->oracle, version, rank, index, &source, &token, &choice);
        if (source != first_source || token != first_token)
            return index;
    }
    return -1;
}

/* The first choice of a rank that has an expert; -1: none. */
static int first_choice(const bench_moe_trial *t, int version, int rank)
{
    const int32_t *experts = weirv_moe_experts(t->oracle, version, rank);
    const int choices = weirv_moe_tokens(t->oracle, version, rank) * t->config.topk;
    for (int i = 0; i < choices; i++)
        if (experts[i] >= 0)
            return i;
    return -1;
}

static int is_weight_of_combine(const bench_moe_trial *t)
{
    return t->options->fault == BENCH_MOE_WRONG_WEIGHT && t->config.layout == WEIR_MOE_EXPERT_MAJOR;
}

static int has_place(const bench_moe_trial *t, int version, int rank)
{
    if (is_weight_of_combine(t))
        return first_choice(t, version, rank) >= 0;
    if (t->options->fault == BENCH_MOE_WRONG_EXPERT)
        return other_token(t, version, rank) > 0;
    return weirv_moe_received(t->oracle, version, rank) >
           (t->options->fault == BENCH_MOE_SWAP_OUTPUTS);
}

/* Whether the option leaves the rank of the job open, or names this one. */
static int may_have_fault(const bench_moe_options *o, int rank)
{
    return o->fault_rank < 0 || o->fault_rank == rank;
}

/* Of this rank's group. Iterations with all versions, the first one last: others have an iteration
 * before them. *turn: the iterations are tried in this order; after the last one, there is no
 * place. */
static moe_target target_of_group(const bench_moe_trial *t, int iterations, int *turn)
{
    for (*turn = 1; *turn <= WEIRV_MOE_VERSIONS; ++*turn) {
        const int iteration = *turn % iterations;
        for (int rank = 0; rank < t->nranks; rank++)
            if (may_have_fault(t->options, t->names[rank]) &&
                has_place(t, iteration % WEIRV_MOE_VERSIONS, rank))
                return (moe_target){iteration, t->names[rank]};
    }
    return (moe_target){-1, -1};
}

moe_target bench_moe_inject_target(const bench_moe_trial *t, int iterations)
{
    const int nranks = t->job->nranks;
    int turn;
    if (t->options->fault == BENCH_MOE_NO_FAULT)
        return (moe_target){-1, -1};
    const moe_target mine = target_of_group(t, iterations, &turn);
    const int first = (int)bench_exchange_fold(t->job, BENCH_FOLD_MIN,
                                               turn * nranks + (mine.rank < 0 ? 0 : mine.rank));
    turn = first / nranks;
    return turn > WEIRV_MOE_VERSIONS ? (moe_target){-1, -1}
                                     : (moe_target){turn % iterations, first % nranks};
}

/* ------------------------------------------------------------------- faults */

static int swap_bytes(char *a, char *b, size_t bytes)
{
    int changed = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char kept = a[i];
        changed |= a[i] != b[i];
        a[i] = b[i];
        b[i] = kept;
    }
    return changed;
}

static char *received_row(const moe_candidate *c, size_t row)
{
    return c->rows + row * c->info.recv_row_bytes;
}

static float *received_scales(const moe_candidate *c, size_t row)
{
    return c->scales + row * (size_t)c->info.scales_per_row;
}

static size_t scales_bytes(const moe_candidate *c)
{
    return (size_t)c->info.scales_per_row * sizeof(float);
}

/* Copies bytes. Returns whether that changes any. */
static int change_bytes(void *to, const void *from, size_t bytes)
{
    const int changed = memcmp(to, from, bytes) != 0;
    memcpy(to, from, bytes);
    return changed;
}

/* Writes a row with its scales. Returns whether that changes either. */
static int put_row(moe_candidate *c, size_t row, const char *from, const void *scales)
{
    return change_bytes(received_row(c, row), from, c->info.recv_row_bytes) |
           change_bytes(received_scales(c, row), scales, scales_bytes(c));
}

void bench_moe_inject_keep(moe_candidate *c, int version)
{
    const size_t bytes = c->info.recv_row_bytes, row = row_of(c, version, 0);
    if (c->trial->options->fault != BENCH_MOE_STALE_ROW)
        return;
    memset(c->kept, 0, bytes);
    if (!weirv_moe_received(c->trial->oracle, version, c->trial->rank))
        return;
    memcpy(c->kept, received_row(c, row), bytes);
    memcpy(c->kept + c->info.row_bytes, received_scales(c, row), scales_bytes(c));
}

static int inject_weight_received(moe_candidate *c, size_t row)
{
    const int k = c->trial->config.topk;
    for (int i = 0; i < k; i++)
        if (c->row_experts[row * (size_t)k + (size_t)i] >= 0) {
            c->row_weights[row * (size_t)k + (size_t)i] += 0.5f;
            return 1;
        }
    return 0;
}

static int inject_lost_count(moe_candidate *c)
{
    for (int local = 0; local < c->info.local_experts; local++)
        if (c->counts[local]) {
            c->counts[local]--;
            return 1;
        }
    return 0;
}

static int inject_exchange(moe_candidate *c, int version, size_t first)
{
    const int index = other_token(c->trial, version, c->trial->rank);
    if (index < 0)
        return 0;
    const size_t other = row_of(c, version, index);
    return swap_bytes((char *)received_scales(c, first), (char *)received_scales(c, other),
                      scales_bytes(c)) |
           swap_bytes(received_row(c, first), received_row(c, other), c->info.recv_row_bytes);
}

static int inject_empty(moe_candidate *c, size_t row)
{
    memset(c->kept, 0, c->info.row_bytes + scales_bytes(c));
    return put_row(c, row, c->kept, c->kept + c->info.row_bytes);
}

int bench_moe_inject_received(moe_candidate *c, int version, int whole)
{
    const int rank = c->trial->rank;
    const size_t first = row_of(c, version, 0);
    const size_t end = (size_t)weirv_moe_end_row(c->trial->oracle, version, rank);
    if (!weirv_moe_received(c->trial->oracle, version, rank))
        return 0;
    switch ((bench_moe_fault)c->trial->options->fault) {
    case BENCH_MOE_DROP_TOKEN:
        return inject_empty(c, first);
    case BENCH_MOE_WRONG_EXPERT:
        return inject_exchange(c, version, first);
    case BENCH_MOE_STALE_ROW:
        return put_row(c, first, c->kept, c->kept + c->info.row_bytes);
    case BENCH_MOE_FLIP_BIT:
        received_row(c, row_of(c, version, whole))[c->info.recv_row_bytes / 2] ^= 1;
        return 1;
    case BENCH_MOE_LOSE_COUNT:
        return inject_lost_count(c);
    case BENCH_MOE_OVERFLOW:
        return put_row(c, end, received_row(c, first), received_scales(c, first));
    case BENCH_MOE_WRONG_WEIGHT:
        return is_weight_of_combine(c->trial) ? 0 : inject_weight_received(c, first);
    default:
        return 0;
    }
}

/* Exchanges the outputs of two tokens or, if there is only one, of two choices. */
static int inject_outputs_exchange(moe_candidate *c, int version)
{
    const size_t bytes = c->info.row_bytes;
    const int index = other_token(c->trial, version, c->trial->rank);
    return swap_bytes(c->outputs + row_of(c, version, 0) * bytes,
                      c->outputs + row_of(c, version, index) * bytes, bytes);
}

int bench_moe_inject_outputs(moe_candidate *c, int version)
{
    const int choice = first_choice(c->trial, version, c->trial->rank);
    if (c->trial->options->fault == BENCH_MOE_SWAP_OUTPUTS)
        return inject_outputs_exchange(c, version);
    if (!is_weight_of_combine(c->trial) || choice < 0)
        return 0;
    c->kept_weight = c->weights[version][choice];
    c->weights[version][choice] += 0.5f;
    return 1;
}

void bench_moe_inject_undo(moe_candidate *c, int version)
{
    const int choice = first_choice(c->trial, version, c->trial->rank);
    if (is_weight_of_combine(c->trial) && choice >= 0)
        c->weights[version][choice] = c->kept_weight;
}
