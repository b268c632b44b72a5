/* The faults of bench_moe's --inject: what they do to the data on rank 0. */
#include "bench/moe/moe_trial.h"

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

/* The place of a received row; the first one that has to be compared as a whole, or the last one.
 */
static size_t row_of(moe_candidate *c, int version, int index)
{
    int source, token, choice;
    const int count = weirv_moe_received(c->trial->oracle, version, c->trial->job->rank);
    index = index < 0 || index >= count ? count - 1 : index;
    return count ? (size_t)weirv_moe_row(c->trial->oracle, version, c->trial->job->rank, index,
                                         &source, &token, &choice)
                 : 0;
}

static void swap_bytes(char *a, char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

void bench_moe_inject_before(moe_candidate *c, int version)
{
    const size_t row = row_of(c, version, 0), scales = (size_t)c->info.scales_per_row;
    if (c->trial->options->fault != BENCH_MOE_STALE_ROW)
        return;
    memcpy(c->kept, c->rows + row * c->info.recv_row_bytes, c->info.recv_row_bytes);
    memcpy(c->kept + c->info.row_bytes, c->scales + row * scales, scales * sizeof(float));
}

static void inject_weight_received(moe_candidate *c, size_t row)
{
    const int k = c->trial->config.topk;
    for (int i = 0; i < k; i++)
        if (c->row_experts[row * (size_t)k + (size_t)i] >= 0) {
            c->row_weights[row * (size_t)k + (size_t)i] += 0.5f;
            return;
        }
}

static void inject_lost_count(moe_candidate *c)
{
    for (int local = 0; local < c->info.local_experts; local++)
        if (c->counts[local]) {
            c->counts[local]--;
            return;
        }
}

void bench_moe_inject_received(moe_candidate *c, int version, int whole)
{
    const size_t bytes = c->info.recv_row_bytes, scales = (size_t)c->info.scales_per_row;
    const size_t first = row_of(c, version, 0), last = row_of(c, version, -1);
    const size_t end = (size_t)weirv_moe_end_row(c->trial->oracle, version, c->trial->job->rank);
    char *row = c->rows + first * bytes;
    switch ((bench_moe_fault)c->trial->options->fault) {
    case BENCH_MOE_DROP_TOKEN:
        memset(row, 0, bytes);
        break;
    case BENCH_MOE_WRONG_EXPERT:
        swap_bytes(row, c->rows + last * bytes, bytes);
        break;
    case BENCH_MOE_STALE_ROW:
        memcpy(row, c->kept, bytes);
        memcpy(c->scales + first * scales, c->kept + c->info.row_bytes, scales * sizeof(float));
        break;
    case BENCH_MOE_FLIP_BIT:
        c->rows[row_of(c, version, whole) * bytes + bytes / 2] ^= 1;
        break;
    case BENCH_MOE_LOSE_COUNT:
        inject_lost_count(c);
        break;
    case BENCH_MOE_OVERFLOW:
        memcpy(c->rows + end * bytes, row, bytes);
        break;
    case BENCH_MOE_WRONG_WEIGHT:
        if (c->trial->config.layout != WEIR_MOE_EXPERT_MAJOR)
            inject_weight_received(c, first);
        break;
    default:
        break;
    }
}

/* The first choice of rank 0 that has an expert; NULL: none. */
static float *first_weight(moe_candidate *c, int version)
{
    const bench_moe_trial *t = c->trial;
    const int32_t *experts = weirv_moe_experts(t->oracle, version, t->job->rank);
    const int choices = weirv_moe_tokens(t->oracle, version, t->job->rank) * t->config.topk;
    for (int i = 0; i < choices; i++)
        if (experts[i] >= 0)
            return &c->weights[version][i];
    return NULL;
}

void bench_moe_inject_outputs(moe_candidate *c, int version)
{
    const size_t bytes = c->info.row_bytes;
    float *weight = first_weight(c, version);
    if (c->trial->options->fault == BENCH_MOE_SWAP_OUTPUTS)
        swap_bytes(c->outputs + row_of(c, version, 0) * bytes,
                   c->outputs + row_of(c, version, -1) * bytes, bytes);
    if (c->trial->options->fault != BENCH_MOE_WRONG_WEIGHT || !weight)
        return;
    c->kept_weight = *weight;
    *weight += 0.5f;
}

void bench_moe_inject_undo(moe_candidate *c, int version)
{
    float *weight = first_weight(c, version);
    if (c->trial->options->fault == BENCH_MOE_WRONG_WEIGHT && weight)
        *weight = c->kept_weight;
}
