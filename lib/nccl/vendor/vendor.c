/*
 * The fallback library. It is opened once, when a communicator is requested that weir cannot
 * create. Its ranks rendezvous by a separate unique id, which rank 0 creates and distributes over
 * weir's bootstrap.
 */
#define _GNU_SOURCE /* RTLD_DEEPBIND */
#include "nccl/vendor/vendor.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* X(name) of the functions needed. Older libraries lack AlltoAll, which is composed of the
 * others. */
#define VENDOR_FUNCTIONS(X)                                                                        \
    X(GetUniqueId)                                                                                 \
    X(CommInitRank)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(CommGetAsyncError)                                                                           \
    X(GetErrorString)                                                                              \
    X(GroupStart)                                                                                  \
    X(GroupEnd)                                                                                    \
    X(AllReduce)                                                                                   \
    X(ReduceScatter)                                                                               \
    X(AllGather)                                                                                   \
    X(Broadcast)                                                                                   \
    X(Reduce)                                                                                      \
    X(Send)                                                                                        \
    X(Recv)

typedef struct vendor {
    void *library;
#define MEMBER(name) __typeof__(nccl##name) *name;
    VENDOR_FUNCTIONS(MEMBER)
#undef MEMBER
} vendor;

/* The library's calls to its own functions must not reach this library if that is preloaded; the
 * address sanitizer forbids RTLD_DEEPBIND. */
#ifdef __SANITIZE_ADDRESS__
enum { OPEN_MODE = RTLD_NOW | RTLD_LOCAL };
#else
enum { OPEN_MODE = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#endif

static vendor library_functions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static weir_status vendor_open(const char *path)
{
    vendor found = {.library = dlopen(path, OPEN_MODE)};
    const char *missing = NULL;
    if (!found.library)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s: %s", weiri_env_name(WEIRI_ENV_NCCL_FALLBACK),
                          dlerror());
#define FIND(name)                                                                                 \
    *(void **)&found.name = dlsym(found.library, "nccl" #name);                                    \
    if (!found.name)                                                                               \
        missing = "nccl" #name;
    VENDOR_FUNCTIONS(FIND)
#undef FIND
    if (!missing && found.AllReduce != ncclAllReduce) {
        library_functions = found;
        return WEIR_OK;
    }
    dlclose(found.library);
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s=%s: %s", weiri_env_name(WEIRI_ENV_NCCL_FALLBACK),
                      path, missing ? missing : "this is weir's own library");
}

static weir_status vendor_open_once(void)
{
    const char *path = weiri_env(WEIRI_ENV_NCCL_FALLBACK);
    weir_status status = WEIR_OK;
    if (!path)
        return weiri_fail_context(WEIR_ERR_UNSUPPORTED, "%s names no fallback library",
                                  weiri_env_name(WEIRI_ENV_NCCL_FALLBACK));
    pthread_mutex_lock(&lock);
    if (!library_functions.library)
        status = vendor_open(path);
    pthread_mutex_unlock(&lock);
    return status;
}

static weir_status vendor_status(ncclResult_t result, const char *what)
{
    return result == ncclSuccess || result == ncclInProgress
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_SYSTEM, "%s in the fallback library: %s", what,
                            library_functions.GetErrorString(result));
}

/* Rank 0 creates a unique id and sends it to all ranks. Collective. */
static weir_status vendor_share_id(weir_boot *boot, int nranks, ncclUniqueId *id)
{
    weir_status status = WEIR_OK;
    int rank = weir_boot_rank(boot);
    if (rank == 0)
        status = vendor_status(library_functions.GetUniqueId(id), "ncclGetUniqueId");
    status = weir_boot_agree(boot, status);
    for (int peer = 1; rank == 0 && peer < nranks && status == WEIR_OK; peer++)
        status = weir_boot_send(boot, id, sizeof *id, peer, 0);
    if (rank > 0 && status == WEIR_OK)
        status = weir_boot_recv(boot, id, sizeof *id, 0, 0);
    return weir_boot_agree(boot, status);
}

weir_status weiri_nccl_vendor_create(weiri_nccl_comm *comm, ncclComm_t *made)
{
    ncclUniqueId id;
    weir_status status = weir_boot_agree(comm->boot, vendor_open_once());
    if (status == WEIR_OK)
        status = vendor_share_id(comm->boot, comm->nranks, &id);
    if (status == WEIR_OK)
        status = vendor_status(library_functions.CommInitRank(made, comm->nranks, id, comm->rank),
                               "ncclCommInitRank");
    return status;
}

void weiri_nccl_vendor_destroy(ncclComm_t made, int aborts)
{
    if (aborts)
        library_functions.CommAbort(made);
    else
        library_functions.CommDestroy(made);
}

weir_status weiri_nccl_vendor_init(weiri_nccl_comm *comm, weir_status reason)
{
    ncclComm_t made = NULL;
    if (reason != WEIR_ERR_UNSUPPORTED) /* which all ranks agreed on */
        return reason;
    weir_status status = weiri_nccl_vendor_create(comm, &made);
    if (status != WEIR_OK)
        return status;
    comm->vendor = made;
    weiri_log(WEIRI_LOG_INFO, "nccl: rank %d of %d falls back to %s", comm->rank, comm->nranks,
              weiri_env(WEIRI_ENV_NCCL_FALLBACK));
    return WEIR_OK;
}

void *weiri_nccl_vendor_function(const char *name)
{
    return weiri_env(WEIRI_ENV_NCCL_FALLBACK) && vendor_open_once() == WEIR_OK
               ? dlsym(library_functions.library, name)
               : NULL;
}

void *weiri_nccl_vendor_alloc(size_t bytes)
{
    void *memory = NULL;
    __typeof__(ncclMemAlloc) *alloc;
    *(void **)&alloc = weiri_nccl_vendor_function("ncclMemAlloc");
    return alloc && alloc(&memory, bytes) == ncclSuccess ? memory : NULL;
}

void weiri_nccl_vendor_free(void *memory)
{
    __typeof__(ncclMemFree) *drop;
    *(void **)&drop = weiri_nccl_vendor_function("ncclMemFree");
    if (drop)
        drop(memory);
}

static ncclResult_t vendor_alltoall(const weiri_nccl_comm *comm, const weir_call *call)
{
    const ncclDataType_t type = (ncclDataType_t)call->dtype;
    size_t bytes = call->count * weir_dtype_bytes(call->dtype);
    ncclResult_t result = library_functions.GroupStart();
    for (int peer = 0; peer < comm->nranks && result == ncclSuccess; peer++) {
        result = library_functions.Send((const char *)call->in + (size_t)peer * bytes, call->count,
                                        type, peer, comm->vendor, call->stream);
        if (result == ncclSuccess)
            result = library_functions.Recv((char *)call->out + (size_t)peer * bytes, call->count,
                                            type, peer, comm->vendor, call->stream);
    }
    ncclResult_t end = library_functions.GroupEnd();
    return result == ncclSuccess ? end : result;
}

static ncclResult_t vendor_dispatch(const weiri_nccl_comm *comm, const weir_call *c)
{
    ncclComm_t to = comm->vendor;
    const ncclDataType_t type = (ncclDataType_t)c->dtype;
    const ncclRedOp_t op = (ncclRedOp_t)c->op;
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        return library_functions.AllReduce(c->in, c->out, c->count, type, op, to, c->stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return library_functions.ReduceScatter(c->in, c->out, c->count, type, op, to, c->stream);
    case WEIR_COLL_ALLGATHER:
        return library_functions.AllGather(c->in, c->out, c->count, type, to, c->stream);
    case WEIR_COLL_BROADCAST:
        return library_functions.Broadcast(c->in, c->out, c->count, type, c->root, to, c->stream);
    case WEIR_COLL_REDUCE:
        return library_functions.Reduce(c->in, c->out, c->count, type, op, c->root, to, c->stream);
    case WEIR_COLL_ALLTOALL:
        return vendor_alltoall(comm, c);
    case WEIR_COLL_SENDRECV:
        return c->source == -1
                   ? library_functions.Send(c->in, c->count, type, c->destination, to, c->stream)
                   : library_functions.Recv(c->out, c->recv_count, type, c->source, to, c->stream);
    case WEIR_COLL_ALLTOALLV:
    case WEIR_COLL_COUNT:
        break;
    }
    return ncclInternalError;
}

ncclResult_t weiri_nccl_vendor_run(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    ncclResult_t result = ncclInvalidUsage;
    if ((unsigned)call->call.op < ncclNumOps)
        result = vendor_dispatch(comm, &call->call);
    weiri_log(WEIRI_LOG_INFO, "nccl: call %d, rank %d of %d: %zu elements fell back: result %d",
              (int)call->call.collective, comm->rank, comm->nranks, weiri_nccl_count(call),
              (int)result);
    if (result == ncclSuccess)
        return result;
    return weiri_nccl_fail(result, "the fallback library: %s",
                           library_functions.GetErrorString(result));
}

weir_status weiri_nccl_vendor_p2p(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    ncclResult_t result = library_functions.GroupStart();
    for (size_t i = 0; i < count && result == ncclSuccess; i++)
        if (weiri_nccl_is_p2p(&calls[i]))
            result = vendor_dispatch(comm, &calls[i].call);
    ncclResult_t end = library_functions.GroupEnd();
    return vendor_status(result == ncclSuccess ? end : result, "sends and receives");
}

ncclResult_t weiri_nccl_vendor_async(weiri_nccl_comm *comm, ncclResult_t *error)
{
    return library_functions.CommGetAsyncError(comm->vendor, error);
}
