/* Staging buffers of calls between nodes on GPU memory; see gpu_staging.h. */
#include "coll/internode/gpu_staging.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

#include <stdlib.h>

enum { LEAST_BYTES = 8 << 20 }; /* of a host staging buffer */

typedef struct host_buffer {
    weir_mem *memory;
    int pinned;
} host_buffer;

struct weiri_gpu_staging {
    host_buffer host[WEIRI_GPU_STAGING_COUNT];
    weir_mem *device;
    int window_pinned;
};

static weir_status gpu_staging_get(weiri_coll *coll)
{
    if (!coll->gpu_staging)
        coll->gpu_staging = calloc(1, sizeof *coll->gpu_staging);
    return coll->gpu_staging
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the staging buffers of GPUs");
}

static weir_status memory_pin(const weir_comm *comm, weir_mem *memory, int *pinned)
{
    void *unused;
    weir_status status = comm->gpu->ops->pin(comm->gpu_comm, weir_mem_pointer(memory),
                                             weir_mem_bytes(memory), &unused);
    *pinned = status == WEIR_OK;
    return status;
}

static void memory_unpin(const weir_comm *comm, weir_mem *memory, int pinned)
{
    if (pinned)
        comm->gpu->ops->unpin(comm->gpu_comm, weir_mem_pointer(memory));
}

static void host_buffer_free(const weir_comm *comm, host_buffer *of)
{
    memory_unpin(comm, of->memory, of->pinned);
    weir_mem_free(of->memory);
    *of = (host_buffer){NULL, 0};
}

void weiri_gpu_staging_destroy(weiri_coll *coll)
{
    weiri_gpu_staging *staging = coll->gpu_staging;
    if (!staging)
        return;
    for (int i = 0; i < WEIRI_GPU_STAGING_COUNT; i++)
        host_buffer_free(coll->comm, &staging->host[i]);
    if (staging->window_pinned)
        memory_unpin(coll->comm, coll->comm->internode->memory, 1);
    weir_mem_free(staging->device);
    free(staging);
    coll->gpu_staging = NULL;
}

weir_status weiri_gpu_staging_host(weiri_coll *coll, int which, size_t bytes, char **base)
{
    weir_comm *comm = coll->comm;
    weir_status status = gpu_staging_get(coll);
    if (status != WEIR_OK)
        return status;
    host_buffer *of = &coll->gpu_staging->host[which];
    if (!of->memory || weir_mem_bytes(of->memory) < bytes) {
        host_buffer_free(comm, of);
        status =
            weir_mem_alloc(comm->host_comm, bytes > LEAST_BYTES ? bytes : LEAST_BYTES, &of->memory);
        if (status == WEIR_OK)
            status = memory_pin(comm, of->memory, &of->pinned);
    }
    if (status == WEIR_OK)
        *base = weir_mem_pointer(of->memory);
    return status;
}

weir_status weiri_gpu_staging_device(weiri_coll *coll, char **buffer)
{
    weir_comm *comm = coll->comm;
    weir_status status = gpu_staging_get(coll);
    if (status == WEIR_OK && !coll->gpu_staging->window_pinned)
        status = memory_pin(comm, comm->internode->memory, &coll->gpu_staging->window_pinned);
    if (status == WEIR_OK && !coll->gpu_staging->device)
        status =
            weir_mem_alloc(comm->gpu_comm, comm->internode->slot_bytes, &coll->gpu_staging->device);
    if (status == WEIR_OK)
        *buffer = weir_mem_pointer(coll->gpu_staging->device);
    return status;
}
