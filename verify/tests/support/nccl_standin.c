/*
 * Test double for the NCCL library to which libweir_nccl.so falls back: it accepts only its own
 * unique id and handles, and writes 42 as the result of a collective and 43 as a received message.
 * Its windows are at 64 bytes after a page's begin, and its device communicators say "standin".
 */
#include "nccl/weir_nccl_device.h"

#include <string.h>

static int own; /* its address is the handle */
static int the_rank, the_nranks;
static int groups;

static ncclComm_t handle(void)
{
    return (ncclComm_t)(void *)&own;
}

static ncclResult_t write_to(ncclComm_t comm, void *out, size_t count, int value)
{
    if (comm != handle())
        return ncclInvalidArgument;
    memset(out, value, count);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    memset(uniqueId, 7, sizeof *uniqueId);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    ncclUniqueId expected;
    ncclGetUniqueId(&expected);
    if (memcmp(&expected, &commId, sizeof expected) != 0 || rank >= nranks)
        return ncclInvalidArgument;
    *comm = handle();
    the_rank = rank;
    the_nranks = nranks;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return comm == handle() && !groups ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    *asyncError = ncclCommDestroy(comm);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "the stand-in succeeded" : "the stand-in failed";
}

ncclResult_t ncclGroupStart(void)
{
    groups++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    groups--;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    (void)sendbuff, (void)datatype, (void)op, (void)stream;
    return write_to(comm, recvbuff, count, 42);
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return ncclAllReduce(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return ncclAllReduce(sendbuff, recvbuff, sendcount, datatype, ncclSum, comm, stream);
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)root;
    return ncclAllReduce(sendbuff, recvbuff, count, datatype, ncclSum, comm, stream);
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)root;
    return ncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)sendbuff, (void)count, (void)datatype, (void)peer, (void)stream;
    return comm == handle() ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)datatype, (void)peer, (void)stream;
    return write_to(comm, recvbuff, count, 43);
}

/* ----------------------------------------------------------- device interface */

static _Alignas(4096) char pages[8][4096];
static int windows;

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                    int winFlags)
{
    if (comm != handle() || !buff || !size || !(winFlags & NCCL_WIN_COLL_SYMMETRIC))
        return ncclInvalidArgument;
    *win = (ncclWindow_t)(void *)(pages[windows++ % 8] + 64);
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    return comm == handle() && (size_t)win % 4096 == 64 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *requirements,
                               struct ncclDevComm *made)
{
    if (comm != handle() || !requirements)
        return ncclInvalidArgument;
    memcpy((void *)made, "standin", 7);
    return ncclSuccess;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device)
{
    return comm == handle() && memcmp((const void *)device, "standin", 7) == 0
               ? ncclSuccess
               : ncclInvalidArgument;
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
    (void)comm;
    return (ncclTeam_t){.nRanks = the_nranks, .rank = the_rank, .stride = 4};
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void **outPtr)
{
    *outPtr = (char *)(void *)window + offset + lsaRank;
    return (size_t)window % 4096 == 64 ? ncclSuccess : ncclInternalError;
}
