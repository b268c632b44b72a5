/*
 * The host interface of NCCL 2.32 as libweir_nccl.so serves it. Names, values and layouts are
 * NCCL's, so programs built with NCCL's header, of this or an older version, load this library
 * unchanged; the descriptions are weir's. The same functions exist with the prefixes mccl and
 * pnccl. The functions of NCCL's device interface are in weir_nccl_device.h.
 *
 * Counts are in elements. In a build or on a node without GPUs, buffers are host memory,
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
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_NCCL_API __attribute__((visibility("default")))

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_VERSION_CODE 23203

typedef struct CUstream_st *cudaStream_t; /* the CUDA runtime's own */
typedef struct CUevent_st *cudaEvent_t;
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
    ncclTimeout = 8, /* not returned by weir, whose deadlines give ncclRemoteError */
    ncclNumResults = 9
} ncclResult_t;

/* Values equal the values of weir_dtype. */
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

/* Values equal the values of weir_op; from ncclNumOps on, ncclRedOpCreatePreMulSum has made them.
 */
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
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

/* Configuration of a communicator. size, magic and version are those of the header with which the
 * caller was built; an older, shorter structure has the defaults for what it lacks. numRmaCtx and
 * numRmaSig are the numbers of contexts and signals of one-sided calls, 1 by default, and equal on
 * all ranks. With blocking 0, functions that create a communicator return ncclInProgress and its
 * handle at once; until ncclCommGetAsyncError reports ncclSuccess it can only be queried or ended.
 * minCTAs, maxCTAs and CTAPolicy, equal on all ranks, bound the thread blocks of kernels as
 * min_blocks, max_blocks and block_policy of weir_comm_config do. The other members have no
 * effect. */
typedef struct ncclConfig_v23100 {
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
    int graphUsageMode;
    int numRmaCtx;
    int maxP2pPeers;
    int graphStreamOrdering;
    int launchOrderImplicit;
    int numRmaSig;
    int rmaEagerInit;
    int hostCftMode;
    int nvlsHostMode;
} ncclConfig_t;

/* Options of one collective, for the functions whose names end in Config. Equal on all ranks.
 * algSelection: names of algorithms of weir (weir_algo_list), separated by commas, of which the
 * first that serves the call is used; forceAlgSelection 0: if none does, as if it were NULL.
 * launchCompletionEvent, on GPUs: recorded in the stream before the collective. minCTAs, maxCTAs
 * and CTAPolicy bound its thread blocks, except for gather and scatter. nvlsCTAs and cgaClusterSize
 * are checked; they, ext and userProfilerTag do not affect execution. */
typedef struct ncclConfigExt ncclConfigExt_t;
typedef struct ncclCollConfig_v23200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    ncclConfigExt_t *ext;
    int minCTAs;
    int maxCTAs;
    int nvlsCTAs;
    int cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection;
    int CTAPolicy;
    uint64_t userProfilerTag;
    cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

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

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;

typedef struct ncclEncryptionConfig_v23200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int mode;
    const char *psk;
} ncclEncryptionConfig_t;

/* Accepts NCCL_ENCRYPTION_MODE_NONE and NULL, which means the same. NCCL_ENCRYPTION_MODE_PSK with a
 * key of at least 32 bytes: ncclInvalidUsage, because weir's sockets are not encrypted; they are
 * not encrypted afterwards either. ncclInvalidArgument for other structures. Local. */
WEIR_NCCL_API ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);

/* --------------------------------------------------------------- parameters */

/* The parameters are the environment variables that weir reads (weir_env_help). Their values are
 * integers if their defaults are numbers, otherwise strings. All functions are local and
 * thread-safe; unknown keys, invalid handles and NULL give ncclInvalidArgument. */
typedef struct ncclParamHandle *ncclParamHandle_t;

/* Finds a parameter by its name. The handle is valid as long as the library is loaded. */
WEIR_NCCL_API ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key);
/* Return the present value; ncclInvalidArgument if it is not an integer in the type's range. */
WEIR_NCCL_API ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
WEIR_NCCL_API ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
/* Returns the present value as text, which is valid until the thread's next call of the function.
 */
WEIR_NCCL_API ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out);
/* Copies the value: an int64_t, or a string with its terminating NUL. *len becomes its length, also
 * if maxLen is too small (ncclInvalidArgument). */
WEIR_NCCL_API ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len);
/* Returns the present value of a parameter as text of *valueLen bytes with its terminating NUL. */
WEIR_NCCL_API ncclResult_t ncclParamGetParameter(const char *key, const char **value,
                                                 int *valueLen);
/* Returns the names of weir's parameters; with NCCL_PARAM_DUMP_ALL=true also those of the variables
 * that launchers set for weir. The table is valid until the thread's next call of the function. */
WEIR_NCCL_API ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen);
/* Prints their names, values and meanings on standard error. */
WEIR_NCCL_API void ncclParamDumpAll(void);

/* ------------------------------------------------------------ communicators */

/* To be called in one process, which must live until all ranks have joined. An id serves one
 * communicator. */
WEIR_NCCL_API ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);
/* Collective: blocks until all ranks have joined, at most WEIR_TIMEOUT_MS. On GPUs the rank uses
 * the calling thread's current device. */
WEIR_NCCL_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                            int rank);
WEIR_NCCL_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                                  int rank, ncclConfig_t *config);
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
/* Creates the id with which new ranks join comm in ncclCommGrow. Called by one rank, the
 * coordinator; its process must live until the new ranks have joined. ncclInvalidUsage if an
 * earlier id of this rank has not been used. */
WEIR_NCCL_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId);
/* Creates a communicator of the ranks of comm, which keep their numbers, and of new ranks.
 * Collective. The ranks of comm pass comm and rank -1, the coordinator also the id, the others
 * NULL; a new rank passes NULL for comm, the id, and its rank, which is at least the number of
 * ranks of comm. The id is used up if it succeeds. ncclInvalidArgument on all ranks of comm if the
 * coordinator passes another id or nRanks differ; ncclInvalidUsage if no rank passes an id. */
WEIR_NCCL_API ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId,
                                        int rank, ncclComm_t *newcomm, ncclConfig_t *config);
/* With NCCL_SUSPEND_MEM, frees the memory of the communicator: staging buffers, mailboxes and
 * mappings of peers' memory. Collective. Until ncclCommResume, calls on it give ncclInvalidUsage,
 * except those that query, destroy or abort it. Windows and registrations stay valid, with their
 * contents, which are the caller's memory; signals that have arrived and were not waited for are
 * kept. No operations may be outstanding. flags 0 does nothing. */
WEIR_NCCL_API ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
/* Allocates it again. Collective. ncclInvalidUsage if comm is not suspended. If it fails, comm
 * stays suspended. */
WEIR_NCCL_API ncclResult_t ncclCommResume(ncclComm_t comm);

typedef enum {
    ncclStatGpuMemSuspend = 0,   /* bytes that ncclCommSuspend frees; 0 while suspended */
    ncclStatGpuMemSuspended = 1, /* 1: suspended */
    ncclStatGpuMemPersist = 2,   /* bytes that it does not free */
    ncclStatGpuMemTotal = 3      /* the sum of both */
} ncclCommMemStat_t;

/* Returns a figure of the memory that weir has allocated for comm on this rank: GPU memory, or
 * host memory if there are no GPUs. Local. */
WEIR_NCCL_API ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat,
                                            uint64_t *value);
WEIR_NCCL_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* Collective: waits until all ranks have called it. Of several ranks of one process, only the call
 * for the last one waits. */
WEIR_NCCL_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends all calls in progress on every rank with an error, and frees comm. */
WEIR_NCCL_API ncclResult_t ncclCommAbort(ncclComm_t comm);
/* Aborts the communicator as ncclCommAbort does, without freeing it. */
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

/* Returns the caller's address of a window. Local. */
WEIR_NCCL_API ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);

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
WEIR_NCCL_API ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                             ncclDataType_t datatype, ncclRedOp_t op,
                                             ncclComm_t comm, cudaStream_t stream);
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
 * nor receive do not call anything. A send may block until the receiver has the data: two ranks
 * that send to each other do so in groups. */
WEIR_NCCL_API ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype,
                                    int peer, ncclComm_t comm, cudaStream_t stream);
WEIR_NCCL_API ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                                    ncclComm_t comm, cudaStream_t stream);

/* The collectives above, with options for this call; config may be NULL. */
WEIR_NCCL_API ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
                                               ncclDataType_t datatype, ncclRedOp_t op,
                                               ncclComm_t comm, cudaStream_t stream,
                                               const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
                                               ncclDataType_t datatype, int root, ncclComm_t comm,
                                               cudaStream_t stream, const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
                                            ncclDataType_t datatype, ncclRedOp_t op, int root,
                                            ncclComm_t comm, cudaStream_t stream,
                                            const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff,
                                               size_t sendcount, ncclDataType_t datatype,
                                               ncclComm_t comm, cudaStream_t stream,
                                               const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff,
                                                   size_t recvcount, ncclDataType_t datatype,
                                                   ncclRedOp_t op, ncclComm_t comm,
                                                   cudaStream_t stream,
                                                   const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count,
                                              ncclDataType_t datatype, ncclComm_t comm,
                                              cudaStream_t stream, const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count,
                                            ncclDataType_t datatype, int root, ncclComm_t comm,
                                            cudaStream_t stream, const ncclCollConfig_t *config);
WEIR_NCCL_API ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count,
                                             ncclDataType_t datatype, int root, ncclComm_t comm,
                                             cudaStream_t stream, const ncclCollConfig_t *config);

/* --------------------------------------------------------------- one-sided */

/*
 * A signal is a count that each rank keeps for each peer, context and signal index. A peer adds to
 * it, and waits subtract from it. Contexts are 0 to numRmaCtx - 1, signal indices 0 to
 * numRmaSig - 1 of the communicator's configuration.
 *
 * Order: when a signal has been received, all data that the same peer has put before it, and all
 * its earlier signals in any context, have arrived. When a put has completed, its source may be
 * changed. The peer need not call anything for puts and signals to arrive.
 *
 * A put needs a window that the peer's process maps or can write to (ncclMemAlloc gives such
 * memory); otherwise it gives ncclInvalidUsage. Between nodes, signals need at least one window to
 * have been registered with the communicator.
 *
 * ncclInvalidArgument: indices, flags other than 0, a window that was deregistered or belongs to
 * another communicator, a range beyond the window, opCnt below 1.
 */
typedef struct {
    int opCnt; /* signals to wait for */
    int peer;
    int sigIdx;
    int ctx;
} ncclWaitSignalDesc_t;

/* Copies count elements to offset peerWinOffset (bytes) of the peer's window and then signals it.
 */
WEIR_NCCL_API ncclResult_t ncclPutSignal(const void *localbuff, size_t count,
                                         ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                                         size_t peerWinOffset, int sigIdx, int ctx,
                                         unsigned int flags, ncclComm_t comm, cudaStream_t stream);
/* Signals the peer. */
WEIR_NCCL_API ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags,
                                      ncclComm_t comm, cudaStream_t stream);
/* Waits for the signals of all descriptors. They are read before the call returns. */
WEIR_NCCL_API ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs,
                                          ncclComm_t comm, cudaStream_t stream);

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
