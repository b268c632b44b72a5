/*
 * Result codes, their texts, and the last error. Like NCCL, the library keeps one last error for
 * the process, because a watchdog thread asks for the error of another thread.
 */
#include "nccl/abi.h"

#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The analyzer's macros are for callers. */
#undef weiri_nccl_fail

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[WEIRI_NCCL_TEXT_BYTES];

ncclResult_t weiri_nccl_fail(ncclResult_t result, const char *format, ...)
{
    char line[WEIRI_NCCL_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    memcpy(last_error, line, sizeof line);
    pthread_mutex_unlock(&lock);
    weiri_log(WEIRI_LOG_INFO, "nccl: result %d: %s", (int)result, line);
    return result;
}

static ncclResult_t ncclresult_of(weir_status status)
{
    switch (status) {
    case WEIR_OK:
        return ncclSuccess;
    case WEIR_ERR_INVALID:
        return ncclInvalidArgument;
    case WEIR_ERR_UNSUPPORTED:
    case WEIR_ERR_MISMATCH:
        return ncclInvalidUsage;
    case WEIR_ERR_SYSTEM:
    case WEIR_ERR_NO_MEMORY:
        return ncclSystemError;
    case WEIR_ERR_REFUSED:
    case WEIR_ERR_PEER:
    case WEIR_ERR_TIMEOUT:
    case WEIR_ERR_ABORTED:
        return ncclRemoteError;
    case WEIR_ERR_INTERNAL:
        break;
    }
    return ncclInternalError;
}

ncclResult_t weiri_nccl_result(weir_status status)
{
    return status == WEIR_OK ? ncclSuccess
                             : weiri_nccl_fail(ncclresult_of(status), "%s", weir_last_error());
}

/* Whether weir's communicator has been aborted after such an error. */
static int ends_communicator(weir_status status)
{
    return status == WEIR_ERR_MISMATCH || status == WEIR_ERR_PEER || status == WEIR_ERR_TIMEOUT ||
           status == WEIR_ERR_ABORTED;
}

ncclResult_t weiri_nccl_result_of(weiri_nccl_comm *comm, weir_status status)
{
    ncclResult_t result = weiri_nccl_result(status);
    int none = ncclSuccess;
    if (comm && ends_communicator(status))
        atomic_compare_exchange_strong(&comm->async_error, &none, (int)result);
    return result;
}

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return weiri_nccl_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(GetVersion);

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",
        "a CUDA call failed",
        "a system call failed or memory is short",
        "internal error",
        "invalid argument",
        "invalid usage",
        "a peer is gone, was aborted, or was not there by the deadline",
        "in progress",
        "a deadline passed",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}
WEIRI_NCCL_ALIAS(GetErrorString);

const char *ncclGetLastError(ncclComm_t comm)
{
    static _Thread_local char copy[WEIRI_NCCL_TEXT_BYTES];
    (void)comm;
    pthread_mutex_lock(&lock);
    memcpy(copy, last_error, sizeof copy);
    pthread_mutex_unlock(&lock);
    return copy;
}
WEIRI_NCCL_ALIAS(GetLastError);

/* Does nothing: logging follows WEIR_LOG, which is read once. */
void ncclResetDebugInit(void)
{
}
WEIRI_NCCL_ALIAS(ResetDebugInit);
