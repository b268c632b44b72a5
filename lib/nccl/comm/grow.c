/*
 * Growing communicators. The coordinator creates a unique id, which the program sends to the new
 * ranks. In ncclCommGrow it sends the id to the other old ranks over the old communicator's
 * bootstrap, and all ranks, old and new, create the new communicator with it. The new communicator
 * shares nothing with the old one.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/comm/init.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return weiri_nccl_not_entered();
    if (!uniqueId)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommGetUniqueId: uniqueId is NULL");
    else if (own->has_grow_id)
        result = weiri_nccl_fail(ncclInvalidUsage,
                                 "ncclCommGetUniqueId: an earlier id has not been used yet; call "
                                 "ncclCommGrow with it first");
    else
        result = weiri_nccl_result(weir_unique_id_create(&own->grow_id));
    if (result == ncclSuccess) {
        own->has_grow_id = 1;
        memcpy(uniqueId, &own->grow_id, sizeof *uniqueId);
    }
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommGetUniqueId);

/* The argument of a job of an old rank. */
typedef struct grow_request {
    ncclComm_t parent;
    int nranks, has_id;
    weir_unique_id id;
    weiri_nccl_settings settings;
    weiri_nccl_comm *own; /* as in weiri_nccl_comm_request */
    ncclComm_t *made;
} grow_request;

/* What an old rank has been called with. */
typedef struct grow_vote {
    int32_t nranks, has_id;
    weir_unique_id id;
} grow_vote;

static weir_status grow_check_id(const weiri_nccl_comm *comm, const grow_request *request)
{
    if (!request->has_id)
        return WEIR_OK;
    if (!comm->has_grow_id || memcmp(&comm->grow_id, &request->id, sizeof comm->grow_id) != 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "ncclCommGrow, rank %d: the id is not the one that ncclCommGetUniqueId "
                          "has returned for this communicator, or was used before",
                          comm->rank);
    return WEIR_OK;
}

/* The coordinator's id, from what all old ranks have been called with. */
static weir_status grow_count_votes(const weiri_nccl_comm *comm, const grow_vote *votes,
                                    weir_unique_id *id)
{
    int coordinator = -1;
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (votes[rank].nranks != votes->nranks)
            return weiri_fail(WEIR_ERR_INVALID,
                              "ncclCommGrow: rank %d passes nRanks %d, rank 0 passes %d", rank,
                              votes[rank].nranks, votes->nranks);
        if (votes[rank].has_id && coordinator >= 0)
            return weiri_fail(WEIR_ERR_INVALID,
                              "ncclCommGrow: ranks %d and %d pass an id; only the rank that called "
                              "ncclCommGetUniqueId may",
                              coordinator, rank);
        if (votes[rank].has_id)
            coordinator = rank;
    }
    if (coordinator < 0)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "ncclCommGrow: no rank of the communicator passes "
                                                "the id of ncclCommGetUniqueId");
    *id = votes[coordinator].id;
    return WEIR_OK;
}

/* Passes the id on to all old ranks. All fail if one has no memory for the new communicator. */
static weir_status grow_share_id(const weiri_nccl_comm *comm, const grow_request *request,
                                 weiri_nccl_comm_request *grown)
{
    grow_vote *votes = calloc((size_t)comm->nranks, sizeof *votes);
    weir_status status =
        votes && grown->reserved
            ? grow_check_id(comm, request)
            : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK) {
        votes[comm->rank] =
            (grow_vote){.nranks = request->nranks, .has_id = request->has_id, .id = request->id};
        status = weir_boot_allgather(comm->boot, votes, sizeof *votes);
    }
    if (status == WEIR_OK)
        status = grow_count_votes(comm, votes, &grown->id);
    free(votes);
    return status;
}

static ncclResult_t run_grow_old(void *argument)
{
    const grow_request *request = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter(request->parent);
    if (!comm)
        return weiri_nccl_not_entered();
    weiri_nccl_comm_request grown = {.rank = comm->rank,
                                     .nranks = request->nranks,
                                     .device = comm->device,
                                     .settings = request->settings,
                                     .own = request->own,
                                     .made = request->made};
    grown.reserved = weiri_nccl_comm_reserve(request->own, &request->settings);
    ncclResult_t result = ncclSuccess;
    if (comm->vendor)
        result = weiri_nccl_fail(ncclInvalidUsage, "ncclCommGrow: a communicator of the fallback "
                                                   "library cannot grow");
    else if (request->nranks <= comm->nranks)
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclCommGrow: nRanks is %d, expected more than the %d of the "
                                 "communicator",
                                 request->nranks, comm->nranks);
    else
        result = weiri_nccl_result(grow_share_id(comm, request, &grown));
    if (result == ncclSuccess)
        result = weiri_nccl_comm_create(&grown);
    else
        weiri_nccl_comm_unreserve(request->own, grown.reserved);
    if (result == ncclSuccess && request->has_id)
        comm->has_grow_id = 0;
    weiri_nccl_leave(comm);
    return result;
}

static ncclResult_t run_grow_new(void *argument)
{
    return weiri_nccl_comm_create(argument);
}

static ncclResult_t grow_old(ncclComm_t comm, int nranks, const ncclUniqueId *id,
                             ncclComm_t *newcomm, const ncclConfig_t *config)
{
    weiri_nccl_settings settings;
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    ncclResult_t result = weiri_nccl_read_config(config, &own->settings, &settings);
    weiri_nccl_leave(own);
    grow_request *request = result == ncclSuccess ? calloc(1, sizeof *request) : NULL;
    if (result == ncclSuccess && !request)
        result = weiri_nccl_fail(ncclSystemError, "ncclCommGrow: no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *request = (grow_request){.parent = comm,
                              .nranks = nranks,
                              .has_id = id != NULL,
                              .settings = settings,
                              .made = newcomm};
    if (id)
        memcpy(&request->id, id, sizeof request->id);
    return weiri_nccl_do_create((weiri_nccl_job){run_grow_old, request, comm, NULL, 0}, &settings,
                                &request->own, newcomm);
}

static ncclResult_t grow_new(int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                             const ncclConfig_t *config)
{
    weiri_nccl_settings settings;
    weiri_nccl_comm_request *request = NULL;
    ncclResult_t result = weiri_nccl_read_config(config, NULL, &settings);
    if (result == ncclSuccess && !id)
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclCommGrow: a new rank needs the id of ncclCommGetUniqueId");
    if (result == ncclSuccess && (rank < 1 || rank >= nranks))
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclCommGrow: new rank %d of %d; new ranks come after those of "
                                 "the old communicator",
                                 rank, nranks);
    if (result == ncclSuccess && !(request = calloc(1, sizeof *request)))
        result = weiri_nccl_fail(ncclSystemError, "ncclCommGrow: no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *request = (weiri_nccl_comm_request){.rank = rank,
                                         .nranks = nranks,
                                         .device = weiri_nccl_gpu_current(),
                                         .settings = settings,
                                         .made = newcomm};
    memcpy(&request->id, id, sizeof request->id);
    return weiri_nccl_do_create((weiri_nccl_job){run_grow_new, request, NULL, NULL, 0}, &settings,
                                &request->own, newcomm);
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                          ncclComm_t *newcomm, ncclConfig_t *config)
{
    ncclResult_t result = ncclSuccess;
    if (!newcomm || nRanks < 1)
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclCommGrow: nRanks is %d; newcomm is required", nRanks);
    else if (comm && rank != -1)
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclCommGrow: a rank of the communicator must pass rank -1, not "
                                 "%d",
                                 rank);
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *newcomm = NULL;
    return comm ? grow_old(comm, nRanks, uniqueId, newcomm, config)
                : grow_new(nRanks, uniqueId, rank, newcomm, config);
}
WEIRI_NCCL_ALIAS(CommGrow);
