/*
 * Making communicators. Ranks meet by a unique id over TCP, which is all that
 * they need; on a machine with GPUs a rank takes the device that is current
 * where it was called.
 */
#include "nccl/init.h"

#include "nccl/gpu.h"
#include "nccl/vendor.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "boot/tcp.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How long ranks of a program may be apart, unless WEIR_TIMEOUT_MS says: such programs
 * expect calls to wait for as long as it takes. */
enum { PATIENCE_MS = 600000 };

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

ncclResult_t weiri_nccl_check_config(const ncclConfig_t *config)
{
    if (!config || config->magic == NCCL_CONFIG_MAGIC)
        return ncclSuccess;
    return weiri_nccl_fail(ncclInvalidArgument,
                           "the configuration was not set to NCCL_CONFIG_INITIALIZER");
}

/* What tells the ranks of this process from others. */
typedef struct seat {
    uint64_t job; /* rank 0's counts: a random number */
    uint64_t host;
    int64_t pid;
} seat;

/* Fills in what destruction needs to know. Collective. */
static weir_status take_seats(weiri_nccl_comm *own)
{
    seat *seats = calloc((size_t)own->nranks, sizeof *seats);
    if (!seats)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d ranks", own->nranks);
    seat *mine = &seats[own->rank];
    *mine = (seat){.host = weiri_host_id(), .pid = (int64_t)getpid()};
    weir_status status = WEIR_OK;
    if (getrandom(&mine->job, sizeof mine->job, 0) != (ssize_t)sizeof mine->job)
        mine->job = (uint64_t)(uintptr_t)own;
    status = weir_boot_allgather(own->boot, seats, sizeof *seats);
    own->job = seats->job;
    own->local_nranks = 0;
    for (int rank = 0; rank < own->nranks; rank++)
        own->local_nranks += seats[rank].host == mine->host && seats[rank].pid == mine->pid;
    free(seats);
    return status;
}

static int patience_ms(void)
{
    return weiri_env(WEIRI_ENV_TIMEOUT_MS) ? weiri_env_timeout_ms() : PATIENCE_MS;
}

/* GPUs are asked for wherever there are any: else what a program gives as a device's
 * memory would be taken for the process's. */
static weir_status create(weiri_nccl_comm *own)
{
    const char *backend = weiri_env(WEIRI_ENV_BACKEND);
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = patience_ms();
    if (!backend || strcmp(backend, "auto") == 0)
        config.backend = own->device >= 0 ? WEIR_BACKEND_CUDA : WEIR_BACKEND_HOST;
    config.device = own->device;
    weir_status status = weir_comm_create(own->boot, &config, &own->comm);
    if (status != WEIR_OK)
        return weiri_nccl_vendor_init(own, status);
    own->device = weir_comm_device(own->comm);
    status = take_seats(own);
    return status == WEIR_OK ? weiri_nccl_p2p_create(own) : status;
}

void weiri_nccl_bury(weiri_nccl_comm *comm)
{
    if (comm->device >= 0)
        weiri_nccl_gpu_forget(comm);
    if (comm->comm) {
        if (!comm->async_error)
            weir_comm_barrier(comm->comm); /* nobody uses mailboxes any more */
        weiri_nccl_forget_memory(comm->handle);
        weiri_nccl_p2p_destroy(comm);
        if (weir_comm_destroy(comm->comm) != WEIR_OK)
            weiri_log(WEIRI_LOG_INFO, "%s", weir_last_error());
    }
    weir_boot_destroy(comm->boot);
    free(comm->scales);
    free(comm);
}

ncclResult_t weiri_nccl_bear(const weiri_nccl_birth *birth)
{
    weiri_nccl_comm *own = calloc(1, sizeof *own);
    if (!own)
        return weiri_nccl_fail(ncclSystemError, "no memory for a communicator");
    own->rank = birth->rank;
    own->nranks = birth->nranks;
    own->device = birth->device;
    own->local_nranks = 1;
    if (birth->device >= 0)
        weiri_nccl_gpu_use(birth->device);
    weir_status status = weiri_boot_tcp_create(&birth->id, own->rank, own->nranks, patience_ms(),
                                               &own->boot);
    if (status == WEIR_OK)
        status = create(own);
    ncclResult_t result = weiri_nccl_result(status);
    ncclComm_t handle = NULL;
    if (result == ncclSuccess && !(handle = weiri_nccl_publish(own)))
        result = weiri_nccl_fail(ncclSystemError, "there are too many communicators");
    if (result == ncclSuccess) {
        *birth->made = handle;
        return result;
    }
    own->async_error = result; /* no meeting of those that failed */
    if (own->comm)
        weir_comm_abort(own->comm);
    weiri_nccl_bury(own);
    return result;
}

static ncclResult_t run_birth(void *argument)
{
    return weiri_nccl_bear(argument);
}

static ncclResult_t init(ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank,
                         const ncclConfig_t *config)
{
    ncclResult_t result = weiri_nccl_check_config(config);
    weiri_nccl_birth *birth = NULL;
    if (result == ncclSuccess && (!comm || nranks < 1 || rank < 0 || rank >= nranks))
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommInitRank: rank %d of %d", rank,
                                 nranks);
    if (result == ncclSuccess && !(birth = malloc(sizeof *birth)))
        result = weiri_nccl_fail(ncclSystemError, "no memory for a communicator");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *comm = NULL;
    *birth = (weiri_nccl_birth){
        .rank = rank, .nranks = nranks, .device = weiri_nccl_gpu_current(), .made = comm};
    memcpy(&birth->id, id, sizeof birth->id);
    return weiri_nccl_do((weiri_nccl_job){run_birth, birth, NULL});
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    return init(comm, nranks, &commId, rank, NULL);
}
WEIRI_NCCL_ALIAS(CommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t *config)
{
    return init(comm, nranks, &commId, rank, config);
}
WEIRI_NCCL_ALIAS(CommInitRankConfig);

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId *commIds, ncclConfig_t *config)
{
    if (nId < 1 || !commIds)
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclInvalidArgument, "ncclCommInitRankScalable: no unique id"));
    for (int i = 1; i < nId && myrank == 0; i++) /* one does for any number of ranks */
        weiri_boot_tcp_cancel((const weir_unique_id *)&commIds[i]);
    return init(newcomm, nranks, commIds, myrank, config);
}
WEIRI_NCCL_ALIAS(CommInitRankScalable);

/* Each rank once, on machines with GPUs. */
static ncclResult_t check_devices(int ndev, const int *devlist)
{
    int count = weiri_nccl_gpu_count();
    for (int i = 0; count > 0 && i < ndev; i++) {
        int device = devlist ? devlist[i] : i;
        if (device < 0 || device >= count)
            return weiri_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: no GPU %d, only %d",
                                   device, count);
        for (int j = 0; devlist && j < i; j++)
            if (devlist[j] == device)
                return weiri_nccl_fail(ncclInvalidUsage, "ncclCommInitAll: GPU %d twice", device);
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
        init(&comm[i], ndev, &id, i, NULL);
    }
    if (before >= 0)
        weiri_nccl_gpu_use(before);
    return ncclGroupEnd();
}
WEIRI_NCCL_ALIAS(CommInitAll);

/* ------------------------------------------------------------------ questions */

typedef enum question { RANKS, DEVICE, RANK } question;

static ncclResult_t ask(ncclComm_t handle, int *answer, question what)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(handle);
    if (!comm)
        return ncclInvalidArgument;
    ncclResult_t result = ncclSuccess;
    if (!answer)
        result = weiri_nccl_fail(ncclInvalidArgument, "no place for the answer");
    else
        *answer = what == RANKS ? comm->nranks : what == RANK ? comm->rank : comm->device;
    if (answer && what == DEVICE && comm->device < 0)
        *answer = 0;
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    return ask(comm, count, RANKS);
}
WEIRI_NCCL_ALIAS(CommCount);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    return ask(comm, device, DEVICE);
}
WEIRI_NCCL_ALIAS(CommCuDevice);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    return ask(comm, rank, RANK);
}
WEIRI_NCCL_ALIAS(CommUserRank);
