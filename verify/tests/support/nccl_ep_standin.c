/*
 * Test double for libnccl_ep.so, implemented with MPI on host memory: the functions that
 * bench/moe/moe_nccl_ep.h finds in it, low-latency mode, expert-major. It refuses structs without
 * size and mark, and places an expert's rows in another order in each call, as the library may.
 * With STANDIN_DROP a dispatch leaves one row out, with STANDIN_ROW it writes another token's row,
 * with STANDIN_SUM combine leaves a choice out, with STANDIN_VERSION it is of another version, with
 * STANDIN_LACKS it has no combine, and with STANDIN_FAILS a group cannot be created.
 */
#include "bench/moe/moe_nccl_ep.h"
#include "lib/compute/numeric.h"

#include <mpi.h>

#include <stdlib.h>
#include <string.h>

#ifndef STANDIN_VERSION
#define STANDIN_VERSION 100
#endif
#define EXPORT __attribute__((visibility("default")))
#ifdef STANDIN_LACKS
#define ncclEpCombine combine_of_another_name
#endif

enum { INVALID = 4 };

typedef struct ep_group {
    nccl_ep_config config;
    MPI_Comm comm; /* the vendor's stand-in points to it */
    int rank, nranks, local, slots;
} ep_group;

typedef struct ep_handle {
    const ep_group *group;
    int tokens, topk, calls;
    int64_t *experts; /* of all ranks */
    int *slot;        /* of each choice of all ranks; -1: none */
} ep_handle;

EXPORT int ncclEpGetVersion(int *version);
EXPORT int ncclEpCreateGroup(void **group, void *comm, const nccl_ep_config *config);
EXPORT int ncclEpGroupDestroy(void *group);
EXPORT int ncclEpInitHandle(void **handle, void *group, int layout, const void *config, int topk,
                            const nccl_ep_tensor *memory);
EXPORT int ncclEpUpdateHandle(void *handle, const nccl_ep_tensor *experts,
                              const nccl_ep_layout_info *info, void *stream);
EXPORT int ncclEpHandleDestroy(void *handle);
EXPORT int ncclEpDispatch(void *handle, const nccl_ep_dispatch_inputs *in,
                          const nccl_ep_dispatch_outputs *out, const nccl_ep_layout_info *info,
                          const void *config, void *stream);
EXPORT int ncclEpCombine(void *handle, const nccl_ep_combined *in, const nccl_ep_combined *out,
                         const void *config, void *stream);

#define IS_GOOD(s) ((s)->size == sizeof *(s) && (s)->magic == (unsigned)NCCL_EP_MAGIC)

static int is_tensor(const nccl_ep_tensor *t, int datatype, unsigned ndim, size_t first)
{
    return t && t->size == sizeof *t && t->magic == (unsigned)NCCL_EP_TENSOR_MAGIC &&
           t->datatype == datatype && t->ndim == ndim && t->sizes[0] == first && t->data;
}

int ncclEpGetVersion(int *version)
{
    *version = STANDIN_VERSION;
    return 0;
}

int ncclEpCreateGroup(void **group, void *comm, const nccl_ep_config *config)
{
    ep_group *g = calloc(1, sizeof *g);
    if (!g || !comm || !IS_GOOD(config) || config->version != NCCL_EP_API ||
        config->algorithm != NCCL_EP_LOW_LATENCY)
        return INVALID;
#ifdef STANDIN_FAILS
    return INVALID;
#endif
    g->config = *config;
    g->comm = *(MPI_Comm *)comm;
    MPI_Comm_rank(g->comm, &g->rank);
    MPI_Comm_size(g->comm, &g->nranks);
    g->local = (int)config->experts / g->nranks;
    g->slots = (int)config->max_tokens * g->nranks;
    *group = g;
    return 0;
}

int ncclEpGroupDestroy(void *group)
{
    free(group);
    return 0;
}

int ncclEpInitHandle(void **handle, void *group, int layout, const void *config, int topk,
                     const nccl_ep_tensor *memory)
{
    ep_handle *h = calloc(1, sizeof *h);
    if (!h || layout != NCCL_EP_EXPERT_MAJOR || config || memory || topk < 1)
        return INVALID;
    h->group = group;
    h->topk = topk;
    *handle = h;
    return 0;
}

/* Numbers the rows of each expert: from the front in one call, from the back in the next one. */
static void number_slots(ep_handle *h)
{
    const ep_group *g = h->group;
    const int choices = g->nranks * h->tokens * h->topk;
    int *count = calloc(g->config.experts, sizeof *count);
    for (int turn = 0; turn < choices; turn++) {
        const int i = h->calls % 2 ? turn : choices - 1 - turn;
        h->slot[i] = h->experts[i] < 0 ? -1 : count[h->experts[i]]++;
    }
    free(count);
    h->calls++;
}

int ncclEpUpdateHandle(void *handle, const nccl_ep_tensor *experts, const nccl_ep_layout_info *info,
                       void *stream)
{
    ep_handle *h = handle;
    (void)stream;
    h->tokens = (int)h->group->config.max_tokens;
    if (info || !is_tensor(experts, NCCL_EP_INT64, 2, (size_t)h->tokens) ||
        experts->sizes[1] != (size_t)h->topk)
        return INVALID;
    const size_t choices = (size_t)h->tokens * (size_t)h->topk;
    h->experts = realloc(h->experts, (size_t)h->group->nranks * choices * sizeof *h->experts);
    h->slot = realloc(h->slot, (size_t)h->group->nranks * choices * sizeof *h->slot);
    MPI_Allgather(experts->data, (int)choices, MPI_INT64_T, h->experts, (int)choices, MPI_INT64_T,
                  h->group->comm);
    number_slots(h);
    return 0;
}

int ncclEpHandleDestroy(void *handle)
{
    ep_handle *h = handle;
    free(h->experts);
    free(h->slot);
    free(h);
    return 0;
}

int ncclEpDispatch(void *handle, const nccl_ep_dispatch_inputs *in,
                   const nccl_ep_dispatch_outputs *out, const nccl_ep_layout_info *info,
                   const void *config, void *stream)
{
    ep_handle *h = handle;
    const ep_group *g = h->group;
    (void)config, (void)stream;
    if (!IS_GOOD(in) || !IS_GOOD(out) || !IS_GOOD(info) ||
        !is_tensor(in->tokens, NCCL_EP_BFLOAT16, 2, (size_t)h->tokens) ||
        !is_tensor(out->tokens, NCCL_EP_BFLOAT16, 3, (size_t)g->local) ||
        out->tokens->sizes[1] != (size_t)g->slots ||
        !is_tensor(info->expert_counters, NCCL_EP_INT32, 1, (size_t)g->local))
        return INVALID;
    const size_t row = 2 * in->tokens->sizes[1], each = (size_t)h->tokens * row;
    char *all = malloc((size_t)g->nranks * each), *to = out->tokens->data;
    int32_t *counts = info->expert_counters->data;
    memset(counts, 0, (size_t)g->local * sizeof *counts);
    MPI_Allgather(in->tokens->data, (int)each, MPI_BYTE, all, (int)each, MPI_BYTE, g->comm);
    for (int i = 0; i < g->nranks * h->tokens * h->topk; i++) {
        const int64_t own = h->experts[i] - (int64_t)g->rank * g->local;
        if (h->experts[i] < 0 || own < 0 || own >= g->local)
            continue;
        int token = i / h->topk;
        counts[own]++;
#ifdef STANDIN_ROW
        token = h->calls == 2 && h->slot[i] == 0 ? (token + 1) % h->tokens : token;
#endif
        memcpy(to + ((size_t)own * (size_t)g->slots + (size_t)h->slot[i]) * row,
               all + (size_t)token * row, row);
    }
#ifdef STANDIN_DROP
    if (h->calls == 2 && counts[0])
        counts[0]--;
#endif
    free(all);
    return 0;
}

int ncclEpCombine(void *handle, const nccl_ep_combined *in, const nccl_ep_combined *out,
                  const void *config, void *stream)
{
    ep_handle *h = handle;
    const ep_group *g = h->group;
    (void)config, (void)stream;
    if (!IS_GOOD(in) || !IS_GOOD(out) ||
        !is_tensor(in->tokens, NCCL_EP_BFLOAT16, 3, (size_t)g->local) ||
        !is_tensor(out->tokens, NCCL_EP_BFLOAT16, 2, (size_t)h->tokens) ||
        !is_tensor(out->weights, NCCL_EP_FLOAT, 2, (size_t)h->tokens))
        return INVALID;
    const size_t hidden = out->tokens->sizes[1];
    const size_t each = (size_t)g->local * (size_t)g->slots * hidden;
    uint16_t *all = malloc((size_t)g->nranks * each * sizeof *all), *to = out->tokens->data;
    const float *weights = out->weights->data;
    MPI_Allgather(in->tokens->data, (int)each, MPI_UINT16_T, all, (int)each, MPI_UINT16_T, g->comm);
    for (int token = 0; token < h->tokens; token++)
        for (size_t at = 0; at < hidden; at++) {
            float sum = 0;
            for (int choice = 0; choice < h->topk; choice++) {
                const int i = (g->rank * h->tokens + token) * h->topk + choice;
                if (h->experts[i] < 0)
                    continue;
#ifdef STANDIN_SUM
                if (h->calls == 2 && token == 0 && choice == 0)
                    continue;
#endif
                sum += weights[token * h->topk + choice] *
                       weiri_bf16_to_float(
                           all[((size_t)h->experts[i] * (size_t)g->slots + (size_t)h->slot[i]) *
                                   hidden +
                               at]);
            }
            to[(size_t)token * hidden + at] = weiri_bf16_from_float(sum);
        }
    free(all);
    return 0;
}
