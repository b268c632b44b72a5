/*
 * The host functions of NCCL 2.32's device interface, which weir does not implement: its kernels
 * and their structures are NCCL's own. With WEIR_NCCL_FALLBACK set, a communicator of that library
 * is made beside weir's when a symmetric window is registered or ncclDevCommCreate is called, and
 * serves these functions; windows registered with it have its handles, and ncclMemAlloc its memory.
 * Collectives stay weir's. Otherwise the functions give ncclInvalidUsage.
 */
#ifndef WEIR_NCCL_WEIR_NCCL_DEVICE_H
#define WEIR_NCCL_WEIR_NCCL_DEVICE_H

#include "nccl/weir_nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclCftBarrierHandle;
struct ncclLLA2AHandle;
struct ncclGinOutboxHandle;
struct ncclGinInboxA2AHandle;

typedef struct ncclTeam {
    int nRanks, rank, stride;
} ncclTeam_t;

typedef struct ncclMultimemHandle {
    void *mcBasePtr;
} ncclMultimemHandle_t;

/* Members after hostRmaSupport exist since NCCL 2.30 to 2.32; size says which the caller has. */
typedef struct ncclCommProperties {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int rank;
    int nRanks;
    int cudaDev;
    int nvmlDev;
    _Bool deviceApiSupport; /* whether ncclDevCommCreate can work: WEIR_NCCL_FALLBACK is set */
    _Bool multimemSupport;
    int ginType;
    int nLsaTeams;
    _Bool hostRmaSupport;
} ncclCommProperties_t;

/* Local. Of the library's communicator if there is one, otherwise of weir's. */
WEIR_NCCL_API ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);
/* Collective. */
WEIR_NCCL_API ncclResult_t ncclDevCommCreate(ncclComm_t comm,
                                             const struct ncclDevCommRequirements *requirements,
                                             struct ncclDevComm *made);
WEIR_NCCL_API ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device);

/* Addresses of windows. */
WEIR_NCCL_API ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                                           void **outPtr);
WEIR_NCCL_API ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                                        ncclMultimemHandle_t multimem,
                                                        void **outPtr);
WEIR_NCCL_API ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
                                                   void **outPtr);
WEIR_NCCL_API ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer,
                                                    void **outPtr);
WEIR_NCCL_API ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset,
                                                       uint32_t *leId, size_t *leOffset);
WEIR_NCCL_API ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
                                                  ncclTeam_t cftTeam, uint32_t *leId,
                                                  size_t *leOffset);
WEIR_NCCL_API ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset,
                                                   int peerWorld, uint32_t *leId, size_t *leOffset);

/* Teams. Without the library's communicator: the world of weir's; for other teams the calling rank
 * alone, and ncclGetLastError says why. Rank conversions give -1 then. */
WEIR_NCCL_API ncclTeam_t ncclTeamWorld(ncclComm_t comm);
WEIR_NCCL_API ncclTeam_t ncclTeamLsa(ncclComm_t comm);
WEIR_NCCL_API ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode);
WEIR_NCCL_API ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
WEIR_NCCL_API ncclTeam_t ncclTeamRail(ncclComm_t comm);
WEIR_NCCL_API int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
WEIR_NCCL_API int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

/* Requirements for ncclDevCommCreate. ncclLLA2ACalcSlots gives 0 without the library. */
WEIR_NCCL_API ncclResult_t ncclLsaBarrierCreateRequirement(
    ncclTeam_t team, int nBarriers, struct ncclLsaBarrierHandle *outHandle,
    struct ncclDevResourceRequirements *outReq);
WEIR_NCCL_API ncclResult_t ncclGinBarrierCreateRequirement(
    ncclComm_t comm, ncclTeam_t team, int nBarriers, struct ncclGinBarrierHandle *outHandle,
    struct ncclDevResourceRequirements *outReq);
WEIR_NCCL_API ncclResult_t ncclCftBarrierCreateRequirement(
    ncclTeam_t team, int nBarriers, struct ncclCftBarrierHandle *outHandle,
    struct ncclDevResourceRequirements *outReq);
WEIR_NCCL_API int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
WEIR_NCCL_API ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots,
                                                      struct ncclLLA2AHandle *outHandle,
                                                      struct ncclDevResourceRequirements *outReq);
WEIR_NCCL_API ncclResult_t
ncclGinOutboxCreateRequirement(int nBlocks, int size_log2, struct ncclGinOutboxHandle *outHandle,
                               struct ncclDevResourceRequirements *outReq);
WEIR_NCCL_API ncclResult_t ncclGinInboxA2ACreateRequirement(
    ncclTeam_t peers, int nBlocks, int size_log2, struct ncclGinInboxA2AHandle *outHandle,
    struct ncclDevResourceRequirements *outReq);

#ifdef __cplusplus
}
#endif

#endif
