/* The order of NCCL EP's rows: see moe_nccl_ep_rows.h. */
#include "bench/moe/moe_nccl_ep_rows.h"

#include "bench/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

static uint64_t ep_hash(const char *row, size_t bytes)
{
    uint64_t hash = 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < bytes; i += sizeof hash) {
        uint64_t word;
        memcpy(&word, row + i, sizeof word);
        hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    return hash;
}

static int ep_compare(const void *left, const void *right)
{
    const ep_expected *a = left, *b = right;
    if (a->expert != b->expert)
        return a->expert < b->expert ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static void ep_list(moe_candidate *c, int version, const char *x, ep_rows *rows)
{
    const bench_moe_trial *t = c->trial;
    const size_t row = c->info.row_bytes;
    for (int i = 0; i < rows->count; i++) {
        int source, token, choice;
        ep_expected *e = &rows->expected[i];
        e->row = weirv_moe_row(t->oracle, version, t->rank, i, &source, &token, &choice);
        const int32_t *experts = weirv_moe_experts(t->oracle, version, source);
        e->expert = experts[token * t->config.topk + choice] - c->info.first_expert;
        e->hash = ep_hash(x + ((size_t)source * (size_t)t->tokens + (size_t)token) * row, row);
        e->slot = -1;
    }
    qsort(rows->expected, (size_t)rows->count, sizeof *rows->expected, ep_compare);
}

weir_status bench_ep_rows_open(moe_candidate *c, int version, int slots, ep_rows *rows)
{
    const bench_moe_trial *t = c->trial;
    const size_t rank_bytes = (size_t)t->tokens * c->info.row_bytes;
    char *x = malloc((size_t)t->nranks * rank_bytes);
    rows->count = weirv_moe_received(t->oracle, version, t->rank);
    rows->slots = slots;
    rows->expected = calloc((size_t)rows->count + 1, sizeof *rows->expected);
    rows->unknown = calloc((size_t)slots, sizeof *rows->unknown);
    rows->mirror = calloc((size_t)slots, c->info.row_bytes);
    if (!x || !rows->expected || !rows->unknown || !rows->mirror) {
        free(x);
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for NCCL EP's rows");
    }
    for (int rank = 0; rank < t->nranks; rank++)
        weirv_moe_fill_tokens(t->oracle, version, version, rank, x + (size_t)rank * rank_bytes);
    ep_list(c, version, x, rows);
    free(x);
    return WEIR_OK;
}

void bench_ep_rows_close(ep_rows *rows)
{
    free(rows->expected);
    free(rows->unknown);
    free(rows->mirror);
}

/* -------------------------------------------------------------------- fetch */

/* The row of an expert that has these contents and no slot yet; NULL: none. */
static ep_expected *ep_find(ep_expected *first, int count, uint64_t hash)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (first[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && first[low].hash == hash; low++)
        if (first[low].slot < 0)
            return &first[low];
    return NULL;
}

static void ep_take(moe_candidate *c, const ep_rows *rows, ep_expected *e, int slot)
{
    const size_t bytes = c->info.row_bytes;
    e->slot = slot;
    memcpy(c->rows + (size_t)e->row * bytes, rows->mirror + (size_t)slot * bytes, bytes);
}

/* Places the rows of one expert in the mirror; `count` rows are expected. */
static void ep_place(moe_candidate *c, ep_rows *rows, ep_expected *first, int count, int got)
{
    const size_t bytes = c->info.row_bytes;
    int unknown = 0;
    for (int i = 0; i < count; i++) {
        first[i].slot = -1;
        memset(c->rows + (size_t)first[i].row * bytes, 0, bytes);
    }
    for (int slot = 0; slot < got; slot++) {
        ep_expected *e = ep_find(first, count, ep_hash(rows->mirror + (size_t)slot * bytes, bytes));
        if (e)
            ep_take(c, rows, e, slot);
        else
            rows->unknown[unknown++] = slot;
    }
    for (int i = 0; i < count && unknown; i++)
        if (first[i].slot < 0)
            ep_take(c, rows, &first[i], rows->unknown[--unknown]);
}

weir_status bench_ep_rows_fetch(moe_candidate *c, ep_rows *rows, const char *device)
{
    const size_t place = (size_t)rows->slots * c->info.row_bytes;
    weir_status status = WEIR_OK;
    for (int expert = 0, at = 0, offset = 0; expert < c->info.local_experts; expert++) {
        int count = 0, got = c->counts[expert];
        while (at + count < rows->count && rows->expected[at + count].expert == expert)
            count++;
        got = got < 0 ? 0 : got > rows->slots ? rows->slots : got;
        status = bench_gpu_pull(c->trial->job->gpu, rows->mirror, device + (size_t)expert * place,
                                (size_t)got * c->info.row_bytes);
        if (status != WEIR_OK)
            return status;
        ep_place(c, rows, rows->expected + at, count, got);
        c->offsets[expert] = offset;
        offset += got;
        at += count;
    }
    return status;
}

/* -------------------------------------------------------------------- store */

weir_status bench_ep_rows_store(moe_candidate *c, ep_rows *rows, char *device)
{
    const size_t bytes = c->info.row_bytes;
    weir_status status = WEIR_OK;
    for (int i = 0; status == WEIR_OK && i < rows->count;) {
        const int expert = rows->expected[i].expert;
        int used = 0;
        for (; i < rows->count && rows->expected[i].expert == expert; i++) {
            const ep_expected *e = &rows->expected[i];
            if (e->slot < 0)
                continue;
            memcpy(rows->mirror + (size_t)e->slot * bytes, c->outputs + (size_t)e->row * bytes,
                   bytes);
            used = e->slot >= used ? e->slot + 1 : used;
        }
        status = bench_gpu_push(c->trial->job->gpu,
                                device + (size_t)expert * (size_t)rows->slots * bytes, rows->mirror,
                                (size_t)used * bytes);
    }
    return status;
}
