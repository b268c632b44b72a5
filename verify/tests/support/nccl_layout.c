/*
 * Prints the values and layouts of NCCL's header, or of weir's own in its place, one "name value" a
 * line, for cli/nccl_header.sh. NCCL_HEADER is the file to include. Sizes of structures that grow
 * are printed only for the version that weir has.
 */
#include <stddef.h>
#include <stdio.h>

#ifndef NCCL_HEADER
#define NCCL_HEADER "nccl/weir_nccl.h"
#endif
#include NCCL_HEADER

#define VALUE(name) printf(#name " %lld\n", (long long)(name))
#define MEMBER(type, member) printf(#type "." #member " %zu\n", offsetof(type, member))
#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(type))

static void print_values(void)
{
    VALUE(ncclSuccess);
    VALUE(ncclUnhandledCudaError);
    VALUE(ncclSystemError);
    VALUE(ncclInternalError);
    VALUE(ncclInvalidArgument);
    VALUE(ncclInvalidUsage);
    VALUE(ncclRemoteError);
    VALUE(ncclInProgress);
    VALUE(ncclInt8);
    VALUE(ncclUint8);
    VALUE(ncclInt32);
    VALUE(ncclUint32);
    VALUE(ncclInt64);
    VALUE(ncclUint64);
    VALUE(ncclFloat16);
    VALUE(ncclFloat32);
    VALUE(ncclFloat64);
    VALUE(ncclBfloat16);
    VALUE(ncclFloat8e4m3);
    VALUE(ncclFloat8e5m2);
    VALUE(ncclNumTypes);
    VALUE(ncclSum);
    VALUE(ncclProd);
    VALUE(ncclMax);
    VALUE(ncclMin);
    VALUE(ncclAvg);
    VALUE(ncclNumOps);
    VALUE(ncclMaxRedOp);
    VALUE(ncclScalarDevice);
    VALUE(ncclScalarHostImmediate);
    VALUE(NCCL_UNIQUE_ID_BYTES);
    VALUE(NCCL_CONFIG_UNDEF_INT);
    VALUE(NCCL_SPLIT_NOCOLOR);
    VALUE(NCCL_WIN_DEFAULT);
    VALUE(NCCL_WIN_COLL_SYMMETRIC);
    VALUE(NCCL_SHRINK_DEFAULT);
    VALUE(NCCL_SHRINK_ABORT);
}

static void print_old_layouts(void)
{
    SIZE(ncclUniqueId);
    SIZE(ncclSimInfo_t);
    MEMBER(ncclSimInfo_t, estimatedTime);
    MEMBER(ncclConfig_t, magic);
    MEMBER(ncclConfig_t, version);
    MEMBER(ncclConfig_t, blocking);
    MEMBER(ncclConfig_t, cgaClusterSize);
    MEMBER(ncclConfig_t, minCTAs);
    MEMBER(ncclConfig_t, maxCTAs);
    MEMBER(ncclConfig_t, netName);
    MEMBER(ncclConfig_t, splitShare);
    MEMBER(ncclConfig_t, trafficClass);
    MEMBER(ncclConfig_t, commName);
    MEMBER(ncclConfig_t, collnetEnable);
    MEMBER(ncclConfig_t, CTAPolicy);
    MEMBER(ncclConfig_t, shrinkShare);
    MEMBER(ncclConfig_t, nvlsCTAs);
    MEMBER(ncclConfig_t, nChannelsPerNetPeer);
    MEMBER(ncclConfig_t, nvlinkCentricSched);
}

#if NCCL_VERSION_CODE >= 23200
static void print_new_layouts(void)
{
    VALUE(ncclTimeout);
    VALUE(ncclNumResults);
    VALUE(NCCL_WIN_STRICT_ORDERING);
    VALUE(NCCL_SUSPEND_MEM);
    VALUE(ncclStatGpuMemSuspend);
    VALUE(ncclStatGpuMemSuspended);
    VALUE(ncclStatGpuMemPersist);
    VALUE(ncclStatGpuMemTotal);
    VALUE(NCCL_ENCRYPTION_MODE_NONE);
    VALUE(NCCL_ENCRYPTION_MODE_PSK);
    SIZE(ncclConfig_t);
    MEMBER(ncclConfig_t, graphUsageMode);
    MEMBER(ncclConfig_t, numRmaCtx);
    MEMBER(ncclConfig_t, maxP2pPeers);
    MEMBER(ncclConfig_t, numRmaSig);
    MEMBER(ncclConfig_t, nvlsHostMode);
    SIZE(ncclCollConfig_t);
    MEMBER(ncclCollConfig_t, ext);
    MEMBER(ncclCollConfig_t, minCTAs);
    MEMBER(ncclCollConfig_t, maxCTAs);
    MEMBER(ncclCollConfig_t, nvlsCTAs);
    MEMBER(ncclCollConfig_t, cgaClusterSize);
    MEMBER(ncclCollConfig_t, algSelection);
    MEMBER(ncclCollConfig_t, forceAlgSelection);
    MEMBER(ncclCollConfig_t, CTAPolicy);
    MEMBER(ncclCollConfig_t, userProfilerTag);
    MEMBER(ncclCollConfig_t, launchCompletionEvent);
    SIZE(ncclEncryptionConfig_t);
    MEMBER(ncclEncryptionConfig_t, mode);
    MEMBER(ncclEncryptionConfig_t, psk);
    SIZE(ncclWaitSignalDesc_t);
    MEMBER(ncclWaitSignalDesc_t, opCnt);
    MEMBER(ncclWaitSignalDesc_t, peer);
    MEMBER(ncclWaitSignalDesc_t, sigIdx);
    MEMBER(ncclWaitSignalDesc_t, ctx);
}
#else
static void print_new_layouts(void)
{
}
#endif

int main(void)
{
    print_values();
    print_old_layouts();
    print_new_layouts();
    return 0;
}
