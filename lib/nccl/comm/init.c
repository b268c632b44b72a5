/*
 * Creating communicators. Ranks rendezvous over TCP by a unique id. On a node with GPUs a rank uses
 * the device that is current when the function is called.
 */
#include "nccl/comm/init.h"

#include "nccl/comm/profiler.h"
#include "nccl/comm/variables.h"
#include "nccl/gpu/gpu.h"
#include "nccl/vendor/vendor.h"

#include "base/error.h"
#include "boot/tcp.h"
#include "comm/monitor/monitor.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    weir_unique_id id;
    _Static_assert(sizeof id == sizeof *uniqueId, "both ids have 128 bytes");
    if (!uniqueId)
        return weiri_nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    weir_status status = weir_unique_id_create(&id);
    if (status == WEIR_OK)
        memcpy(uniqueId, &id, sizeof id);
    return weiri_nccl_result(status);
}
WEIRI_NCCL_ALIAS(GetUniqueId);

void weiri_nccl_comm_free(weiri_nccl_comm *comm)
{
    if (comm->device >= 0)
        weiri_nccl_gpu_order_end(comm);
    if (comm->comm && !comm->async_error)
        weiri_comm_barrier(comm->comm); /* nobody uses the mailboxes any more */
    weiri_nccl_registrations_free(comm);
    weiri_nccl_beside_end(comm);
    weiri_nccl_saved_free(comm);
    weiri_nccl_comm_close(comm);
    weir_boot_destroy(comm->boot);
    if (comm->has_grow_id)
        weiri_boot_tcp_cancel(&comm->grow_id);
    free(comm->scales);
    free(comm);
}

static weiri_nccl_comm *comm_make(const weiri_nccl_settings *settings, int state)
{
    weiri_nccl_comm *own = calloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->device = -1;
    own->local_nranks = 1;
    own->settings = *settings;
    atomic_store(&own->state, state);
    return own;
}

/* Ends the creation of a communicator that has a handle. Its user may have ended it meanwhile. */
static void comm_settle(weiri_nccl_comm *own, ncclResult_t result)
{
    int creating = WEIRI_NCCL_CREATING;
    if (result != ncclSuccess)
        own->async_error = result;
    if (atomic_compare_exchange_strong(
            &own->state, &creating, result == ncclSuccess ? WEIRI_NCCL_READY : WEIRI_NCCL_FAILED))
        return;
    own->async_error = ncclRemoteError;
    if (own->comm)
        weir_comm_abort(own->comm);
    weiri_nccl_comm_free(own);
}

weiri_nccl_comm *weiri_nccl_comm_reserve(weiri_nccl_comm *own, const weiri_nccl_settings *settings)
{
    return own ? own : comm_make(settings, WEIRI_NCCL_READY);
}

void weiri_nccl_comm_unreserve(const weiri_nccl_comm *own, weiri_nccl_comm *reserved)
{
    if (reserved != own)
        free(reserved);
}

ncclResult_t weiri_nccl_comm_create(const weiri_nccl_comm_request *request)
{
    weiri_nccl_comm *own = request->reserved
                               ? request->reserved
                               : weiri_nccl_comm_reserve(request->own, &request->settings);
    if (!own)
        return weiri_nccl_fail(ncclSystemError, "no memory for a communicator");
    own->rank = request->rank;
    own->nranks = request->nranks;
    own->device = request->device;
    if (request->device >= 0)
        weiri_nccl_gpu_use(request->device);
    weiri_nccl_variables_report(own->rank);
    weiri_nccl_profiler_start();
    weir_status status = weiri_boot_tcp_create(&request->id, own->rank, own->nranks,
                                               weiri_nccl_timeout_ms(), &own->boot);
    if (status == WEIR_OK)
        status = weiri_nccl_comm_open(own);
    if (own->comm)
        weiri_monitor_name(own->comm, request->name);
    ncclResult_t result = weiri_nccl_result(status);
    if (request->own)
        return result;
    if (result == ncclSuccess && !weiri_nccl_publish(own))
        result = weiri_nccl_fail(ncclSystemError, "too many communicators in this process");
    if (result == ncclSuccess) {
        *request->made = own->handle;
        return result;
    }
    own->async_error = result; /* a creation that failed frees it without communicating */
    if (own->comm)
        weir_comm_abort(own->comm);
    weiri_nccl_comm_free(own);
    return result;
}

/* ---------------------------------------------------------- in the background */

/* The argument of the thread that creates a communicator. */
typedef struct background {
    weiri_nccl_job job;
    weiri_nccl_comm *own;
    weiri_nccl_comm *parent; /* with a turn; NULL: none */
    unsigned turn;
} background;

static void *background_main(void *opaque)
{
    background *all = opaque;
    if (all->parent)
        weiri_nccl_turn_begin(all->parent, all->turn);
    ncclResult_t result = all->job.run(all->job.argument);
    if (all->parent)
        weiri_nccl_turn_end(all->parent);
    comm_settle(all->own, result);
    free(all->job.argument);
    free(all);
    return NULL;
}

static ncclResult_t run_background(void *argument)
{
    pthread_t thread;
    background *all = malloc(sizeof *all);
    const background *given = argument;
    if (all) {
        *all = *given;
        all->parent = weiri_nccl_turn_take(all->job.on, &all->turn);
    }
    if (!all || pthread_create(&thread, NULL, background_main, all) != 0) {
        if (all && all->parent) {
            weiri_nccl_turn_begin(all->parent, all->turn);
            weiri_nccl_turn_end(all->parent);
        }
        free(all);
        free(given->job.argument);
        ncclResult_t result = weiri_nccl_fail(ncclSystemError, "cannot start the thread that "
                                                               "creates a communicator");
        comm_settle(given->own, result);
        return result;
    }
    pthread_detach(thread);
    return ncclInProgress;
}

/* The group of the call has failed. */
static void drop_background(void *argument)
{
    const background *given = argument;
    free(given->job.argument);
    comm_settle(given->own, ncclInvalidUsage);
}

ncclResult_t weiri_nccl_do_create(weiri_nccl_job job, const weiri_nccl_settings *settings,
                                  weiri_nccl_comm **own, ncclComm_t *made)
{
    *own = NULL;
    if (settings->blocking)
        return weiri_nccl_do(job);
    background *all = malloc(sizeof *all);
    weiri_nccl_comm *comm = all ? comm_make(settings, WEIRI_NCCL_CREATING) : NULL;
    if (!comm || !weiri_nccl_publish(comm)) {
        free(comm);
        free(all);
        free(job.argument);
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclSystemError, "no memory or handle for a communicator"));
    }
    *own = comm;
    *made = comm->handle;
    *all = (background){.job = job, .own = comm};
    return weiri_nccl_do((weiri_nccl_job){run_background, all, job.on, drop_background, 1});
}

static ncclResult_t run_comm_create(void *argument)
{
    return weiri_nccl_comm_create(argument);
}

static ncclResult_t init_rank(ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *config)
{
    weiri_nccl_settings settings;
    ncclResult_t result = weiri_nccl_read_config(config, NULL, &settings);
    weiri_nccl_comm_request *request = NULL;
    if (result == ncclSuccess && !comm)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommInitRank: comm is NULL");
    if (result == ncclSuccess && (nranks < 1 || rank < 0 || rank >= nranks))
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclCommInitRank: rank %d of %d; expected 1 or more ranks, and a "
                                 "rank from 0 to their number - 1",
                                 rank, nranks);
    if (result == ncclSuccess && !(request = malloc(sizeof *request)))
        result = weiri_nccl_fail(ncclSystemError, "no memory for a communicator");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *comm = NULL;
    *request = (weiri_nccl_comm_request){.rank = rank,
                                         .nranks = nranks,
                                         .device = weiri_nccl_gpu_current(),
                                         .settings = settings,
                                         .made = comm};
    memcpy(&request->id, id, sizeof request->id);
    /* Older programs have no member for a communicator's name. */
    const size_t end = offsetof(ncclConfig_t, commName) + sizeof config->commName;
    if (config && config->size >= end && config->commName)
        snprintf(request->name, sizeof request->name, "%s", config->commName);
    return weiri_nccl_do_create((weiri_nccl_job){run_comm_create, request, NULL, NULL, 0},
                                &settings, &request->own, comm);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    return init_rank(comm, nranks, &commId, rank, NULL);
}
WEIRI_NCCL_ALIAS(CommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t *config)
{
    return init_rank(comm, nranks, &commId, rank, config);
}
WEIRI_NCCL_ALIAS(CommInitRankConfig);

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId *commIds, ncclConfig_t *config)
{
    if (nId < 1 || !commIds)
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclInvalidArgument, "ncclCommInitRankScalable: no unique id"));
    for (int i = 1; i < nId && myrank == 0; i++) /* one id is enough for any number of ranks */
        weiri_boot_tcp_cancel((const weir_unique_id *)&commIds[i]);
    return init_rank(newcomm, nranks, commIds, myrank, config);
}
WEIRI_NCCL_ALIAS(CommInitRankScalable);

/* Checks that each GPU is named once. No check without GPUs. */
static ncclResult_t check_devices(int ndev, const int *devlist)
{
    int count = weiri_nccl_gpu_count();
    for (int i = 0; count > 0 && i < ndev; i++) {
        int device = devlist ? devlist[i] : i;
        if (device < 0 || device >= count)
            return weiri_nccl_fail(ncclInvalidArgument,
                                   "ncclCommInitAll: GPU %d does not exist; this node has %d",
                                   device, count);
        for (int j = 0; devlist && j < i; j++)
            if (devlist[j] == device)
                return weiri_nccl_fail(ncclInvalidUsage, "ncclCommInitAll: GPU %d is listed twice",
                                       device);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
    ncclUniqueId id;
    int before = weiri_nccl_gpu_current();
    ncclResult_t result = ncclSuccess;
    if (!comm || ndev < 1)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %d devices", ndev);
    if (result == ncclSuccess)
        result = check_devices(ndev, devlist);
    if (result == ncclSuccess)
        result = ncclGetUniqueId(&id);
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    ncclGroupStart();
    for (int i = 0; i < ndev; i++) {
        if (before >= 0)
            weiri_nccl_gpu_use(devlist ? devlist[i] : i);
        init_rank(&comm[i], ndev, &id, i, NULL);
    }
    if (before >= 0)
        weiri_nccl_gpu_use(before);
    return ncclGroupEnd();
}
WEIRI_NCCL_ALIAS(CommInitAll);

/* ------------------------------------------------------------------ questions */

typedef enum property { RANKS, DEVICE, RANK } property;

static ncclResult_t get_property(const char *name, ncclComm_t handle, int *value, property what)
{
    weiri_nccl_comm *comm = weiri_nccl_enter_opened(handle);
    if (!comm)
        return weiri_nccl_not_entered();
    ncclResult_t result = ncclSuccess;
    if (!value)
        result =
            weiri_nccl_fail(ncclInvalidArgument, "%s: the pointer to the result is NULL", name);
    else
        *value = what == RANKS ? comm->nranks : what == RANK ? comm->rank : comm->device;
    if (value && what == DEVICE && comm->device < 0)
        *value = 0;
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
    return get_property("ncclCommCount", comm, count, RANKS);
}
WEIRI_NCCL_ALIAS(CommCount);

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
    return get_property("ncclCommCuDevice", comm, device, DEVICE);
}
WEIRI_NCCL_ALIAS(CommCuDevice);

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
    return get_property("ncclCommUserRank", comm, rank, RANK);
}
WEIRI_NCCL_ALIAS(CommUserRank);
