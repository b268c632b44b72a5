/*
 * The host functions of NCCL's device interface (weir_nccl_device.h): forwarded to the communicator
 * of the fallback library beside weir's, or refused.
 */
#include "nccl/weir_nccl_device.h"

#include "nccl/rma/rma.h"
#include "nccl/vendor/vendor.h"

#include "base/env.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Finds the library's function of a name. Refuses the call if there is no library, or an old one.
 */
static ncclResult_t device_find(const char *name, void **function)
{
    if (!weiri_env(WEIRI_ENV_NCCL_FALLBACK))
        return weiri_nccl_beside_refuse(name);
    *function = weiri_nccl_vendor_function(name);
    if (*function)
        return ncclSuccess;
    return weiri_nccl_fail(ncclInvalidUsage, "%s: %s=%s does not have it", name,
                           weiri_env_name(WEIRI_ENV_NCCL_FALLBACK),
                           weiri_env(WEIRI_ENV_NCCL_FALLBACK));
}

/* Finds it, and the library's communicator, which must have been made. */
static ncclResult_t device_find_for(const char *name, ncclComm_t comm, void **function,
                                    ncclComm_t *beside)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    if (!own)
        return weiri_nccl_not_entered();
    *beside = weiri_nccl_beside_of(own);
    weiri_nccl_leave(own);
    ncclResult_t result = device_find(name, function);
    if (result == ncclSuccess && !*beside)
        result = weiri_nccl_fail(ncclInvalidUsage,
                                 "%s: the communicator has no device interface yet; register a "
                                 "symmetric window or call ncclDevCommCreate first",
                                 name);
    return result;
}

/* Declares `call`, a pointer to the function of a name. */
#define DEVICE_FUNCTION(name) __typeof__(name) *call = NULL

/* --------------------------------------------------------- device communicators */

/* The argument of a job. */
typedef struct device_request {
    ncclComm_t comm;
    const struct ncclDevCommRequirements *requirements;
    struct ncclDevComm *made;
} device_request;

static ncclResult_t run_device_create(void *argument)
{
    const device_request *request = argument;
    DEVICE_FUNCTION(ncclDevCommCreate);
    ncclComm_t beside = NULL;
    weiri_nccl_comm *own = weiri_nccl_enter(request->comm);
    if (!own)
        return weiri_nccl_not_entered();
    ncclResult_t result = device_find("ncclDevCommCreate", (void **)&call);
    if (result == ncclSuccess)
        result = weiri_nccl_beside_make(own, &beside);
    if (result == ncclSuccess)
        result = call(beside, request->requirements, request->made);
    weiri_nccl_leave(own);
    return result;
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *requirements,
                               struct ncclDevComm *made)
{
    DEVICE_FUNCTION(ncclDevCommCreate);
    ncclResult_t result = device_find("ncclDevCommCreate", (void **)&call);
    device_request *request = NULL;
    if (result == ncclSuccess && (!requirements || !made))
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclDevCommCreate: a pointer is NULL");
    if (result == ncclSuccess && !(request = malloc(sizeof *request)))
        result = weiri_nccl_fail(ncclSystemError, "ncclDevCommCreate: no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *request = (device_request){comm, requirements, made};
    return weiri_nccl_do((weiri_nccl_job){run_device_create, request, comm, NULL, 0});
}
WEIRI_NCCL_ALIAS(DevCommCreate);

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device)
{
    DEVICE_FUNCTION(ncclDevCommDestroy);
    ncclComm_t beside = NULL;
    ncclResult_t result = device_find_for("ncclDevCommDestroy", comm, (void **)&call, &beside);
    return result == ncclSuccess ? call(beside, device) : result;
}
WEIRI_NCCL_ALIAS(DevCommDestroy);

/* Copies weir's answers into as much of a structure as the caller has. */
static void properties_fill(const weiri_nccl_comm *own, ncclCommProperties_t *props)
{
    ncclCommProperties_t answers = *props;
    const size_t known = sizeof answers < props->size ? sizeof answers : props->size;
    answers.rank = own->rank;
    answers.nRanks = own->nranks;
    answers.cudaDev = own->device < 0 ? 0 : own->device;
    answers.nvmlDev = answers.cudaDev;
    answers.deviceApiSupport = own->device >= 0 && weiri_env(WEIRI_ENV_NCCL_FALLBACK) != NULL;
    answers.multimemSupport = 0;
    answers.ginType = 0;
    answers.nLsaTeams = own->comm ? weir_comm_nnodes(own->comm) : 1;
    answers.hostRmaSupport = own->settings.contexts > 0;
    if (props->size > known)
        memset((char *)props + known, 0, props->size - known);
    memcpy((char *)props + offsetof(ncclCommProperties_t, rank),
           (const char *)&answers + offsetof(ncclCommProperties_t, rank),
           known - offsetof(ncclCommProperties_t, rank));
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props)
{
    DEVICE_FUNCTION(ncclCommQueryProperties);
    enum { SIZE_MOST = 4096 };
    if (!props || props->magic != NCCL_CONFIG_MAGIC || props->size > SIZE_MOST ||
        props->size < offsetof(ncclCommProperties_t, rank))
        return weiri_nccl_fail(ncclInvalidArgument, "ncclCommQueryProperties: props was not set to "
                                                    "NCCL_COMM_PROPERTIES_INITIALIZER");
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return weiri_nccl_not_entered();
    ncclComm_t beside = weiri_nccl_beside_of(own);
    ncclResult_t result = ncclSuccess;
    if (beside)
        result = device_find("ncclCommQueryProperties", (void **)&call);
    if (beside && result == ncclSuccess)
        result = call(beside, props);
    else if (!beside)
        properties_fill(own, props);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommQueryProperties);

/* ------------------------------------------------------------------- windows */

/* The library follows handles, so only its own are passed on. */
static ncclResult_t device_find_window(const char *name, ncclWindow_t window, void **function)
{
    ncclResult_t result = device_find(name, function);
    if (result == ncclSuccess && !weiri_registration_is_alias(window))
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "%s: %p is not a window of the fallback library; register memory "
                                 "of ncclMemAlloc with NCCL_WIN_COLL_SYMMETRIC",
                                 name, (void *)window);
    return result;
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr)
{
    DEVICE_FUNCTION(ncclGetLsaMultimemDevicePointer);
    ncclResult_t result =
        device_find_window("ncclGetLsaMultimemDevicePointer", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, outPtr) : result;
}
WEIRI_NCCL_ALIAS(GetLsaMultimemDevicePointer);

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                          ncclMultimemHandle_t multimem, void **outPtr)
{
    DEVICE_FUNCTION(ncclGetMultimemDevicePointer);
    ncclResult_t result =
        device_find_window("ncclGetMultimemDevicePointer", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, multimem, outPtr) : result;
}
WEIRI_NCCL_ALIAS(GetMultimemDevicePointer);

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void **outPtr)
{
    DEVICE_FUNCTION(ncclGetLsaDevicePointer);
    ncclResult_t result = device_find_window("ncclGetLsaDevicePointer", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, lsaRank, outPtr) : result;
}
WEIRI_NCCL_ALIAS(GetLsaDevicePointer);

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr)
{
    DEVICE_FUNCTION(ncclGetPeerDevicePointer);
    ncclResult_t result = device_find_window("ncclGetPeerDevicePointer", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, peer, outPtr) : result;
}
WEIRI_NCCL_ALIAS(GetPeerDevicePointer);

ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, uint32_t *leId,
                                         size_t *leOffset)
{
    DEVICE_FUNCTION(ncclGetMultimemDeviceLeInfo);
    ncclResult_t result = device_find_window("ncclGetMultimemDeviceLeInfo", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, leId, leOffset) : result;
}
WEIRI_NCCL_ALIAS(GetMultimemDeviceLeInfo);

ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
                                    ncclTeam_t cftTeam, uint32_t *leId, size_t *leOffset)
{
    DEVICE_FUNCTION(ncclGetCftDeviceLeInfo);
    ncclResult_t result = device_find_window("ncclGetCftDeviceLeInfo", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, peerCft, cftTeam, leId, leOffset) : result;
}
WEIRI_NCCL_ALIAS(GetCftDeviceLeInfo);

ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld,
                                     uint32_t *leId, size_t *leOffset)
{
    DEVICE_FUNCTION(ncclGetPeerDeviceLeInfo);
    ncclResult_t result = device_find_window("ncclGetPeerDeviceLeInfo", window, (void **)&call);
    return result == ncclSuccess ? call(window, offset, peerWorld, leId, leOffset) : result;
}
WEIRI_NCCL_ALIAS(GetPeerDeviceLeInfo);

/* --------------------------------------------------------------------- teams */

static ncclTeam_t team_of_self(void)
{
    return (ncclTeam_t){.nRanks = 1, .rank = 0, .stride = 1};
}

ncclTeam_t ncclTeamWorld(ncclComm_t comm)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    if (!own)
        return (ncclTeam_t){0, 0, 0};
    const ncclTeam_t world = {.nRanks = own->nranks, .rank = own->rank, .stride = 1};
    weiri_nccl_leave(own);
    return world;
}
WEIRI_NCCL_ALIAS(TeamWorld);

/* A team of the library, from the function of a name that has only the communicator. */
static ncclTeam_t device_team(const char *name, ncclComm_t comm)
{
    ncclTeam_t (*call)(ncclComm_t) = NULL;
    ncclComm_t beside = NULL;
    return device_find_for(name, comm, (void **)&call, &beside) == ncclSuccess ? call(beside)
                                                                               : team_of_self();
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
    return device_team("ncclTeamLsa", comm);
}
WEIRI_NCCL_ALIAS(TeamLsa);

ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm)
{
    return device_team("ncclTeamCftMultimem", comm);
}
WEIRI_NCCL_ALIAS(TeamCftMultimem);

ncclTeam_t ncclTeamRail(ncclComm_t comm)
{
    return device_team("ncclTeamRail", comm);
}
WEIRI_NCCL_ALIAS(TeamRail);

ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode)
{
    DEVICE_FUNCTION(ncclTeamCft);
    ncclComm_t beside = NULL;
    if (device_find_for("ncclTeamCft", comm, (void **)&call, &beside) != ncclSuccess)
        return team_of_self();
    return call(beside, mode);
}
WEIRI_NCCL_ALIAS(TeamCft);

static int device_rank(const char *name, ncclComm_t comm, ncclTeam_t team, int rank)
{
    int (*call)(ncclComm_t, ncclTeam_t, int) = NULL;
    ncclComm_t beside = NULL;
    if (device_find_for(name, comm, (void **)&call, &beside) != ncclSuccess)
        return -1;
    return call(beside, team, rank);
}

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
    return device_rank("ncclTeamRankToWorld", comm, team, rank);
}
WEIRI_NCCL_ALIAS(TeamRankToWorld);

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
    return device_rank("ncclTeamRankToLsa", comm, team, rank);
}
WEIRI_NCCL_ALIAS(TeamRankToLsa);

/* -------------------------------------------------------------- requirements */

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
                                             struct ncclLsaBarrierHandle *outHandle,
                                             struct ncclDevResourceRequirements *outReq)
{
    DEVICE_FUNCTION(ncclLsaBarrierCreateRequirement);
    ncclResult_t result = device_find("ncclLsaBarrierCreateRequirement", (void **)&call);
    return result == ncclSuccess ? call(team, nBarriers, outHandle, outReq) : result;
}
WEIRI_NCCL_ALIAS(LsaBarrierCreateRequirement);

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                             struct ncclGinBarrierHandle *outHandle,
                                             struct ncclDevResourceRequirements *outReq)
{
    DEVICE_FUNCTION(ncclGinBarrierCreateRequirement);
    ncclComm_t beside = NULL;
    ncclResult_t result =
        device_find_for("ncclGinBarrierCreateRequirement", comm, (void **)&call, &beside);
    return result == ncclSuccess ? call(beside, team, nBarriers, outHandle, outReq) : result;
}
WEIRI_NCCL_ALIAS(GinBarrierCreateRequirement);

ncclResult_t ncclCftBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
                                             struct ncclCftBarrierHandle *outHandle,
                                             struct ncclDevResourceRequirements *outReq)
{
    DEVICE_FUNCTION(ncclCftBarrierCreateRequirement);
    ncclResult_t result = device_find("ncclCftBarrierCreateRequirement", (void **)&call);
    return result == ncclSuccess ? call(team, nBarriers, outHandle, outReq) : result;
}
WEIRI_NCCL_ALIAS(CftBarrierCreateRequirement);

int ncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
    DEVICE_FUNCTION(ncclLLA2ACalcSlots);
    return device_find("ncclLLA2ACalcSlots", (void **)&call) == ncclSuccess
               ? call(maxElts, maxEltSize)
               : 0;
}
WEIRI_NCCL_ALIAS(LLA2ACalcSlots);

ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, struct ncclLLA2AHandle *outHandle,
                                        struct ncclDevResourceRequirements *outReq)
{
    DEVICE_FUNCTION(ncclLLA2ACreateRequirement);
    ncclResult_t result = device_find("ncclLLA2ACreateRequirement", (void **)&call);
    return result == ncclSuccess ? call(nBlocks, nSlots, outHandle, outReq) : result;
}
WEIRI_NCCL_ALIAS(LLA2ACreateRequirement);

ncclResult_t ncclGinOutboxCreateRequirement(int nBlocks, int size_log2,
                                            struct ncclGinOutboxHandle *outHandle,
                                            struct ncclDevResourceRequirements *outReq)
{
    DEVICE_FUNCTION(ncclGinOutboxCreateRequirement);
    ncclResult_t result = device_find("ncclGinOutboxCreateRequirement", (void **)&call);
    return result == ncclSuccess ? call(nBlocks, size_log2, outHandle, outReq) : result;
}
WEIRI_NCCL_ALIAS(GinOutboxCreateRequirement);

ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2,
                                              struct ncclGinInboxA2AHandle *outHandle,
                                              struct ncclDevResourceRequirements *outReq)
{
    DEVICE_FUNCTION(ncclGinInboxA2ACreateRequirement);
    ncclResult_t result = device_find("ncclGinInboxA2ACreateRequirement", (void **)&call);
    return result == ncclSuccess ? call(peers, nBlocks, size_log2, outHandle, outReq) : result;
}
WEIRI_NCCL_ALIAS(GinInboxA2ACreateRequirement);
