/* What calls across machines keep for buffers of GPUs: see bridge.h. */
#include "coll/internode/bridge.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

#include <stdlib.h>

enum { LEAST_BYTES = 8 << 20 }; /* of a stage */

typedef struct stage {
    weir_mem *memory;
    int pinned;
} stage;

struct weiri_bridge {
    stage stages[WEIRI_BRIDGE_STAGES];
    weir_mem *landing;
    int window_pinned;
};

static weir_status get_bridge(weiri_coll *coll)
{
    if (!coll->bridge)
        coll->bridge = calloc(1, sizeof *coll->bridge);
    return coll->bridge ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for stages");
}

static weir_status pin(const weir_comm *comm, weir_mem *memory, int *pinned)
{
    void *unused;
    weir_status status = comm->gpu->ops->pin(comm->gpu_comm, weir_mem_pointer(memory),
                                             weir_mem_bytes(memory), &unused);
    *pinned = status == WEIR_OK;
    return status;
}

static void unpin(const weir_comm *comm, weir_mem *memory, int pinned)
{
    if (pinned)
        comm->gpu->ops->unpin(comm->gpu_comm, weir_mem_pointer(memory));
}

static void free_stage(const weir_comm *comm, stage *of)
{
    unpin(comm, of->memory, of->pinned);
    weir_mem_free(of->memory);
    *of = (stage){NULL, 0};
}

void weiri_bridge_destroy(weiri_coll *coll)
{
    weiri_bridge *bridge = coll->bridge;
    if (!bridge)
        return;
    for (int i = 0; i < WEIRI_BRIDGE_STAGES; i++)
        free_stage(coll->comm, &bridge->stages[i]);
    if (bridge->window_pinned)
        unpin(coll->comm, coll->comm->internode->memory, 1);
    weir_mem_free(bridge->landing);
    free(bridge);
    coll->bridge = NULL;
}

weir_status weiri_bridge_stage(weiri_coll *coll, int which, size_t bytes, char **base)
{
    weir_comm *comm = coll->comm;
    weir_status status = get_bridge(coll);
    if (status != WEIR_OK)
        return status;
    stage *of = &coll->bridge->stages[which];
    if (!of->memory || weir_mem_bytes(of->memory) < bytes) {
        free_stage(comm, of);
        status = weir_mem_alloc(comm->host_comm, bytes > LEAST_BYTES ? bytes : LEAST_BYTES,
                                &of->memory);
        if (status == WEIR_OK)
            status = pin(comm, of->memory, &of->pinned);
    }
    if (status == WEIR_OK)
        *base = weir_mem_pointer(of->memory);
    return status;
}

weir_status weiri_bridge_landing(weiri_coll *coll, char **landing)
{
    weir_comm *comm = coll->comm;
    weir_status status = get_bridge(coll);
    if (status == WEIR_OK && !coll->bridge->window_pinned)
        status = pin(comm, comm->internode->memory, &coll->bridge->window_pinned);
    if (status == WEIR_OK && !coll->bridge->landing)
        status =
            weir_mem_alloc(comm->gpu_comm, comm->internode->slot_bytes, &coll->bridge->landing);
    if (status == WEIR_OK)
        *landing = weir_mem_pointer(coll->bridge->landing);
    return status;
}
