/*
 * The host interface of NCCL 2.28 as libweir_nccl.so serves it. Names, values and layouts are
 * NCCL's, so programs built with NCCL's header load this library unchanged; the descriptions are
 * weir's. The same functions exist with the prefix mccl.
 *
 * Counts are in elements. In a build or on a node without GPUs, buffers are memory of the process,
 * streams are ignored, and calls return when the caller's buffers are complete. On GPUs, calls
 * return when the work has been added to the stream. A call that fails returns a result other than
 * ncclSuccess, with a text in ncclGetLastError.
 *
 * A communicator may be used by one thread at a time, except for ncclCommAbort, ncclCommRevoke and
 * ncclCommGetAsyncError, which any thread may call at any time. A handle that was destroyed or
 * never created is rejected, not followed.
 */
#ifndef WEIR_NCCL_WEIR_NCCL_H
#define WEIR_NCCL_WEIR_NCCL_H

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_NCCL_API __attribute__((visibility("default")))

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE 22809

typedef struct CUstream_st *cudaStream_t; /* the CUDA runtime's own */
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6, /* a peer has died or left, or did not arrive by the deadline */
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

/* Values are those of weir_dtype. */
typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

/* Values are those of weir_op; from ncclNumOps on they are from ncclRedOpCreatePreMulSum. */
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,
    ncclMaxRedOp = INT_MAX
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_SIM_INFO_MAGIC 0x74685283u
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

/* Configuration of a communicator. size, magic and version are those of the header with which the
 * caller was built. Creation is always complete when the call returns, even with blocking 0; the
 * other members have no effect. */
typedef struct ncclConfig_v22800 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
} ncclConfig_t;

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

/* ------------------------------------------------------- version and errors */

WEIR_NCCL_API ncclResult_t ncclGetVersion(int *version);
WEIR_NCCL_API const char *ncclGetErrorString(ncclResult_t result);
/* The text of the last error in any thread; comm is ignored. Valid until the calling thread calls
 * it again. */
WEIR_NCCL_API const char *ncclGetLastError(ncclComm_t comm);
WEIR_NCCL_API void ncclResetDebugInit(void);

/* ------------------------------------------------------------ communicators */

/* To be called in one process, which must live until all ranks have joined. An id serves one
 * communicator. */
WEIR_NCCL_API ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);
/* Collective: blocks until all ranks have joined, at most WEIR_TIMEOUT_MS. On GPUs the rank uses
 * the calling thread's current device. */
WEIR_NCCL_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                            int rank);
WEIR_NCCL_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks,
                                                  ncclUniqueId commId, int rank,
                                                  ncclConfig_t *config);
/* The ranks rendezvous by the first of the ids. */
WEIR_NCCL_API ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank,
                                                    int nId, ncclUniqueId *commIds,
                                                    ncclConfig_t *config);
/* All ranks in this process; devlist may be NULL. comm receives ndev handles. */
WEIR_NCCL_API ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist);
/* Collective. newcomm receives NULL if color is NCCL_SPLIT_NOCOLOR. */
WEIR_NCCL_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                                         ncclConfig_t *config);
/* Collective among the ranks that are not excluded. */
WEIR_NCCL_API ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList,
                                          int excludeRanksCount, ncclComm_t *newcomm,
                                          ncclConfig_t *config, int shrinkFlags);
WEIR_NCCL_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* Collective: waits until all ranks have called it. Of several ranks of one process, only the call
 * for the last one waits. */
WEIR_NCCL_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends all calls in progress on every rank with an error, and frees comm. */
WEIR_NCCL_API ncclResult_t ncclCommAbort(ncclComm_t comm);
/* The same without freeing it. */
WEIR_NCCL_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);
WEIR_NCCL_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
WEIR_NCCL_API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
/* The CUDA device; 0 if there are no GPUs. */
WEIR_NCCL_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device);
WEIR_NCCL_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);

/* ------------------------------------------------------------------- memory */

WEIR_NCCL_API ncclResult_t ncclMemAlloc(void **ptr, size_t size);
WEIR_NCCL_API ncclResult_t ncclMemFree(void *ptr);
/* The memory must stay valid until it is deregistered. Memory that peers cannot map is accepted,
 * and staged. */
WEIR_NCCL_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size,
                                            void **handle);
WEIR_NCCL_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
/* Collective. With NCCL_WIN_COLL_SYMMETRIC, calls on the window use one offset on all ranks
 * (weir_mem_symmetric in weir/weir.h). */
WEIR_NCCL_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size,
                                                  ncclWindow_t *win, int winFlags);
WEIR_NCCL_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/* NCCL's interface for kernels is not supported: ncclInvalidUsage. */
struct ncclDevComm;
struct ncclDevCommRequirements;
WEIR_NCCL_API ncclResult_t ncclDevCommCreate(ncclComm_t comm,
                                             const struct ncclDevCommRequirements *requirements,
                                             struct ncclDevComm *made);
WEIR_NCCL_API ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device);

/* --------------------------------------------------------------- reductions */

/* op multiplies each rank's input by its scalar before adding. */
WEIR_NCCL_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                    ncclDataType_t datatype,
                                                    ncclScalarResidence_t residence,
                                                    ncclComm_t comm);
WEIR_NCCL_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* -------------------------------------------------------------- collectives */

/* In place: sendbuff == recvbuff. */
WEIR_NCCL_API ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, int root,
                                      ncclComm_t comm, cudaStream_t stream);
WEIR_NCCL_API ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root,
                                     ncclComm_t comm, cudaStream_t stream);
WEIR_NCCL_API ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                                         ncclDataType_t datatype, int root, ncclComm_t comm,
                                         cudaStream_t stream);
WEIR_NCCL_API ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream);
/* sendbuff: nranks * recvcount. In place: recvbuff == sendbuff + rank * recvcount. */
WEIR_NCCL_API ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff,
                                             size_t recvcount, ncclDataType_t datatype,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
/* recvbuff: nranks * sendcount. In place: sendbuff == recvbuff + rank * sendcount. */
WEIR_NCCL_API ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                         ncclDataType_t datatype, ncclComm_t comm,
                                         cudaStream_t stream);
/* Both buffers: nranks * count. In place: sendbuff == recvbuff; a copy is sent. */
WEIR_NCCL_API ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                                        ncclDataType_t datatype, ncclComm_t comm,
                                        cudaStream_t stream);
/* On root: nranks * count in recvbuff. In place: sendbuff == recvbuff + root * count. */
WEIR_NCCL_API ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count,
                                      ncclDataType_t datatype, int root, ncclComm_t comm,
                                      cudaStream_t stream);
/* On root: nranks * count in sendbuff. In place: recvbuff == sendbuff + root * count. */
WEIR_NCCL_API ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
                                       ncclDataType_t datatype, int root, ncclComm_t comm,
                                       cudaStream_t stream);
/* Messages between two ranks arrive in order, and their lengths must match. Ranks that neither send
 * nor receive do not call anything. */
WEIR_NCCL_API ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype,
                                    int peer, ncclComm_t comm, cudaStream_t stream);
WEIR_NCCL_API ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype,
                                    int peer, ncclComm_t comm, cudaStream_t stream);

/* ------------------------------------------------------------------- groups */

/* What the thread calls between them runs at the end of the outermost group: first communicators
 * are created, then each communicator's collectives run in order, then all its sends and receives
 * at once. If a call is rejected, the end of the group fails and nothing runs. */
WEIR_NCCL_API ncclResult_t ncclGroupStart(void);
WEIR_NCCL_API ncclResult_t ncclGroupEnd(void);
/* Ends the group without its collectives, sends and receives (communicators are created). At the
 * outermost end, returns the estimated microseconds that they would take: a rough figure, from the
 * bytes that leave a rank; negative, as in NCCL, if weir has no figures: across nodes, and for GPUs
 * that NVLink does not join. Local. */
WEIR_NCCL_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo);

#ifdef __cplusplus
}
#endif

#endif
