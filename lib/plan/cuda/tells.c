/* Which plans have ranks meet at entry; see encode.h. */
#include "plan/cuda/encode.h"

#include <stdlib.h>
#include <string.h>

/* Whether the operations of a rank reach the input or output of another one. */
static int is_direct(const weiri_plan_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->nrefs; i++)
        if (gpu->refs[i].place != WEIRI_PLAN_LOCAL && gpu->refs[i].buffer != WEIR_PLAN_SCRATCH)
            return 1;
    return 0;
}

/* Marks the chunks of scratch whose packets a rank waits for. */
static void mark_awaited(const weiri_plan_gpu *gpu, unsigned char *awaited)
{
    for (uint32_t i = 0; i < gpu->nops; i++) {
        const weiri_plan_op *op = &gpu->ops[i];
        for (uint32_t s = 0; s < op->nsrcs; s++) {
            const weiri_plan_ref *ref = &gpu->refs[op->first_src + s];
            if (ref->is_packets && ref->place == WEIRI_PLAN_LOCAL &&
                op->channel != WEIRI_PLAN_PORT)
                memset(awaited + ref->index, 1, ref->size);
        }
    }
}

static int is_in_group(const weiri_plan_gpu *gpu, const weiri_plan_ref *ref, int rank)
{
    const weiri_plan_switch *group = &gpu->switches[ref->rank];
    for (uint32_t i = 0; i < group->nranks; i++)
        if (gpu->ids[group->first_rank + i] == (uint32_t)rank)
            return 1;
    return 0;
}

/* Whether some of the packets that a rank sends to another one are awaited there. */
static int is_heard(const weiri_plan_gpu *gpu, int at, const unsigned char *awaited)
{
    for (uint32_t i = 0; i < gpu->nops; i++) {
        const weiri_plan_op *op = &gpu->ops[i];
        for (uint32_t d = 0; d < op->ndsts; d++) {
            const weiri_plan_ref *ref = &gpu->refs[op->first_dst + d];
            if (!ref->is_packets || ref->place == WEIRI_PLAN_LOCAL ||
                (ref->place == WEIRI_PLAN_GROUP ? !is_in_group(gpu, ref, at) : ref->rank != at))
                continue;
            if (memchr(awaited + ref->index, 1, ref->size))
                return 1;
        }
    }
    return 0;
}

/* Whether a rank waits for packets of every other. Without memory for the answer: no. */
static int hears_all(const weir_plan *plan, int rank)
{
    unsigned char *awaited = calloc((size_t)plan->gpus[rank].chunks[WEIR_PLAN_SCRATCH] + 1, 1);
    int all = awaited != NULL;
    if (all)
        mark_awaited(&plan->gpus[rank], awaited);
    for (int peer = 0; peer < plan->nranks && all; peer++)
        if (peer != rank)
            all = is_heard(&plan->gpus[peer], rank, awaited);
    free(awaited);
    return all;
}

int weiri_plan_tells(const weir_plan *plan)
{
    int safe = !plan->has_packets || plan->double_scratch;
    for (int rank = 0; rank < plan->nranks; rank++)
        if (is_direct(&plan->gpus[rank]))
            return 1;
    for (int rank = 0; rank < plan->nranks && safe && plan->has_packets; rank++)
        safe = hears_all(plan, rank);
    return !safe;
}
