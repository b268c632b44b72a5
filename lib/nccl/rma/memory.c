/*
 * Memory allocation. Allocations are kept in a list, so that ncclMemFree recognises its argument.
 * Host memory is a shared segment, which peers map as a window of one-sided calls. Collectives
 * treat it as unregistered memory.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/rma/rma.h"
#include "nccl/vendor/vendor.h"

#include "transport/transport.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct allocation {
    struct allocation *next;
    void *memory;
    int device; /* -1: host memory, which is segment */
    int is_vendors;
    weiri_segment segment;
    weiri_segment_key key;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations;

/* Memory for the fallback library's windows must be its own. */
static void allocate(allocation *made, size_t bytes)
{
    if (made->device < 0) {
        if (weiri_transport_shm.segment_create(bytes, &made->segment, &made->key) == WEIR_OK)
            made->memory = made->segment.base;
        return;
    }
    made->memory = weiri_nccl_vendor_alloc(bytes);
    made->is_vendors = made->memory != NULL;
    if (!made->memory)
        made->memory = weiri_nccl_gpu_alloc(bytes);
}

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
    int device = weiri_nccl_gpu_current();
    allocation *made = ptr ? malloc(sizeof *made) : NULL;
    if (!ptr)
        return weiri_nccl_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
    if (made) {
        *made = (allocation){.device = device, .segment = {.fd = -1}};
        allocate(made, size ? size : 1);
    }
    if (!made || !made->memory) {
        free(made);
        return weiri_nccl_fail(ncclSystemError, "ncclMemAlloc: no memory for %zu bytes", size);
    }
    *ptr = made->memory;
    pthread_mutex_lock(&lock);
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(MemAlloc);

ncclResult_t ncclMemFree(void *ptr)
{
    if (!ptr)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    allocation **at = &allocations;
    while (*at && (*at)->memory != ptr)
        at = &(*at)->next;
    allocation *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    if (!found)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "ncclMemFree: %p was not allocated by ncclMemAlloc", ptr);
    if (found->is_vendors)
        weiri_nccl_vendor_free(ptr);
    else if (found->device >= 0)
        weiri_nccl_gpu_free(ptr);
    else
        weiri_segment_destroy(&found->segment);
    free(found);
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(MemFree);

int weiri_nccl_allocation_key(const void *pointer, size_t bytes, weiri_segment_key *key,
                              uint64_t *offset)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (const allocation *one = allocations; one && !found; one = one->next) {
        const size_t at = (size_t)((const char *)pointer - (const char *)one->memory);
        found = one->device < 0 && at <= one->segment.bytes && bytes <= one->segment.bytes - at;
        if (found) {
            *key = one->key;
            *offset = at;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}
