/*
 * Memory allocation and registration. Allocations of ncclMemAlloc are kept in a list, so that
 * ncclMemFree recognises what it is given. A registration, or a window, is an object of this
 * process whose address is its handle.
 */
#include "nccl/gpu.h"

#include "base/error.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGNMENT = 4096 };

typedef struct allocation {
    struct allocation *next;
    void *memory;
    int device; /* -1: memory of the process */
} allocation;

/* A registered buffer; mem is NULL if peers cannot map it. */
typedef struct registration {
    struct registration *next;
    ncclComm_t handle;
    weir_mem *mem;
} registration;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations;
static registration *registrations;

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
    int device = weiri_nccl_gpu_current();
    allocation *made = ptr ? malloc(sizeof *made) : NULL;
    if (!ptr)
        return weiri_nccl_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
    size_t bytes = size ? size : 1;
    void *memory = NULL;
    if (made && device >= 0)
        memory = weiri_nccl_gpu_alloc(bytes);
    else if (made && posix_memalign(&memory, ALIGNMENT, bytes) != 0)
        memory = NULL;
    if (!memory) {
        free(made);
        return weiri_nccl_fail(ncclSystemError, "ncclMemAlloc: no memory for %zu bytes", size);
    }
    *made = (allocation){.memory = memory, .device = device};
    pthread_mutex_lock(&lock);
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
    *ptr = memory;
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
    if (found->device >= 0)
        weiri_nccl_gpu_free(ptr);
    else
        free(ptr);
    free(found);
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(MemFree);

/* -------------------------------------------------------------- registration */

static void *registration_add(ncclComm_t handle, weir_mem *mem)
{
    registration *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    pthread_mutex_lock(&lock);
    *made = (registration){registrations, handle, mem};
    registrations = made;
    pthread_mutex_unlock(&lock);
    return made;
}

/* Takes a registration of this communicator from the list; NULL if it is not one. */
static registration *registration_remove(ncclComm_t handle, const void *object)
{
    pthread_mutex_lock(&lock);
    registration **at = &registrations;
    while (*at && ((const void *)*at != object || (*at)->handle != handle))
        at = &(*at)->next;
    registration *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Frees the registrations of a communicator that ends. */
void weiri_nccl_registrations_free(ncclComm_t handle)
{
    pthread_mutex_lock(&lock);
    for (registration **at = &registrations; *at;) {
        registration *one = *at;
        if (one->handle != handle) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        weir_mem_free(one->mem);
        free(one);
    }
    pthread_mutex_unlock(&lock);
}

/* Returns NULL if peers cannot map the buffer, which is no failure: it will be staged. */
static weir_mem *register_memory(const weiri_nccl_comm *comm, void *buff, size_t size)
{
    weir_mem *mem = NULL;
    if (!comm->vendor && size && weir_mem_register(comm->comm, buff, size, &mem) != WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "nccl: %p is staged: %s", buff, weir_last_error());
    return mem;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return ncclInvalidArgument;
    if (!buff || !handle)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommRegister: a pointer is NULL");
    else if (!(*handle = registration_add(comm, register_memory(own, buff, size))))
        result = weiri_nccl_fail(ncclSystemError, "no memory for a registration");
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommRegister);

static ncclResult_t registration_release(ncclComm_t comm, const void *object)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return ncclInvalidArgument;
    registration *found = object ? registration_remove(comm, object) : NULL;
    if (found)
        weir_mem_free(found->mem);
    else if (object)
        result = weiri_nccl_fail(ncclInvalidArgument, "%p is not registered with this communicator",
                                 object);
    free(found);
    weiri_nccl_leave(own);
    return result;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return registration_release(comm, handle);
}
WEIRI_NCCL_ALIAS(CommDeregister);

/* The argument of a job. */
typedef struct window_request {
    ncclComm_t comm;
    void *buff;
    size_t size;
    ncclWindow_t *window;
    int flags;
} window_request;

/* Declares a window symmetric. Collective. On the host this has no effect. */
static weir_status window_make_symmetric(weiri_nccl_comm *own, const window_request *request,
                                  weir_mem *mem)
{
    weir_status status = mem ? WEIR_OK : WEIR_ERR_UNSUPPORTED;
    if (own->vendor || own->device < 0 || !(request->flags & NCCL_WIN_COLL_SYMMETRIC))
        return WEIR_OK;
    status = weir_boot_agree(own->boot, status);
    if (status == WEIR_OK)
        status = weir_mem_symmetric(mem);
    return status == WEIR_ERR_UNSUPPORTED ? WEIR_OK : status; /* it is used like any other buffer */
}

static ncclResult_t run_window(void *argument)
{
    const window_request *request = argument;
    weiri_nccl_comm *own = weiri_nccl_enter(request->comm);
    if (!own)
        return ncclInvalidArgument;
    weir_mem *mem = register_memory(own, request->buff, request->size);
    ncclResult_t result = weiri_nccl_result(window_make_symmetric(own, request, mem));
    void *object = result == ncclSuccess ? registration_add(request->comm, mem) : NULL;
    if (!object) {
        weir_mem_free(mem);
        if (result == ncclSuccess)
            result = weiri_nccl_fail(ncclSystemError, "no memory for a window");
    }
    *request->window = object;
    weiri_nccl_leave(own);
    return result;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                    int winFlags)
{
    window_request *request = win && buff ? malloc(sizeof *request) : NULL;
    if (!request)
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: a pointer is NULL"));
    *request = (window_request){comm, buff, size, win, winFlags};
    return weiri_nccl_do((weiri_nccl_job){run_window, request, comm});
}
WEIRI_NCCL_ALIAS(CommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    return comm || win ? registration_release(comm, win) : ncclSuccess;
}
WEIRI_NCCL_ALIAS(CommWindowDeregister);

static ncclResult_t refuse_device_api(const char *name)
{
    return weiri_nccl_fail(ncclInvalidUsage, "%s is not supported; for kernels use weir/device.h",
                           name);
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm,
                               const struct ncclDevCommRequirements *requirements,
                               struct ncclDevComm *made)
{
    (void)comm, (void)requirements, (void)made;
    return refuse_device_api("ncclDevCommCreate");
}
WEIRI_NCCL_ALIAS(DevCommCreate);

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device)
{
    (void)comm, (void)device;
    return refuse_device_api("ncclDevCommDestroy");
}
WEIRI_NCCL_ALIAS(DevCommDestroy);
