/*
 * A communicator of the fallback library beside weir's, for what needs NCCL's device code. It is
 * made when a symmetric window is registered or a device communicator is created, both of which are
 * collective, and ends with weir's. A window registered with both has the library's handle, because
 * kernels follow it.
 */
#include "nccl/vendor/vendor.h"

#include "nccl/rma/rma.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>

/* The analyzer's macros are for callers. */
#undef weiri_nccl_beside_refuse

typedef struct weiri_nccl_beside {
    ncclComm_t comm;
} weiri_nccl_beside;

ncclComm_t weiri_nccl_beside_of(const weiri_nccl_comm *comm)
{
    if (comm->vendor)
        return comm->vendor;
    return comm->beside ? comm->beside->comm : NULL;
}

ncclResult_t weiri_nccl_beside_refuse(const char *name)
{
    return weiri_nccl_fail(ncclInvalidUsage,
                           "%s is part of NCCL's device interface, for which weir needs NCCL's "
                           "library; set %s to its path, or use weir/device.h in kernels",
                           name, weiri_env_name(WEIRI_ENV_NCCL_FALLBACK));
}

ncclResult_t weiri_nccl_beside_make(weiri_nccl_comm *comm, ncclComm_t *made)
{
    *made = weiri_nccl_beside_of(comm);
    if (*made)
        return ncclSuccess;
    weiri_nccl_beside *beside = calloc(1, sizeof *beside);
    weir_status status =
        beside ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a communicator");
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weiri_nccl_vendor_create(comm, &beside->comm);
    status = weir_boot_agree(comm->boot, status);
    if (status != WEIR_OK) {
        if (beside && beside->comm)
            weiri_nccl_vendor_destroy(beside->comm, 1);
        free(beside);
        return weiri_nccl_result(status);
    }
    weiri_log(WEIRI_LOG_INFO, "nccl: rank %d of %d: %s serves the device interface", comm->rank,
              comm->nranks, weiri_env(WEIRI_ENV_NCCL_FALLBACK));
    comm->beside = beside;
    *made = beside->comm;
    return ncclSuccess;
}

void weiri_nccl_beside_end(weiri_nccl_comm *comm)
{
    if (!comm->beside)
        return;
    weiri_nccl_vendor_destroy(comm->beside->comm, comm->async_error != ncclSuccess);
    free(comm->beside);
    comm->beside = NULL;
}

/* ------------------------------------------------------------------- windows */

ncclResult_t weiri_nccl_beside_window(weiri_nccl_comm *comm, weiri_registration *window)
{
    ncclComm_t to = NULL;
    if (!weiri_env(WEIRI_ENV_NCCL_FALLBACK) || comm->vendor ||
        !(window->flags & NCCL_WIN_COLL_SYMMETRIC))
        return ncclSuccess;
    __typeof__(ncclCommWindowRegister) *add;
    ncclResult_t result = weiri_nccl_beside_make(comm, &to);
    *(void **)&add = weiri_nccl_vendor_function("ncclCommWindowRegister");
    if (result == ncclSuccess && add)
        result = add(to, window->buff, window->size, &window->alias, window->flags);
    if (result == ncclSuccess && window->alias)
        return ncclSuccess;
    window->alias = NULL; /* a window of weir only: all but the device interface works */
    weiri_log(WEIRI_LOG_WARN,
              "nccl: rank %d: a window of %zu bytes is not one of the fallback "
              "library, so kernels cannot use it (result %d); use memory of ncclMemAlloc",
              comm->rank, window->size, (int)result);
    return ncclSuccess;
}

void weiri_nccl_beside_window_end(weiri_nccl_comm *comm, weiri_registration *window)
{
    if (!window->alias || !comm->beside)
        return;
    __typeof__(ncclCommWindowDeregister) *drop;
    *(void **)&drop = weiri_nccl_vendor_function("ncclCommWindowDeregister");
    if (drop)
        drop(comm->beside->comm, window->alias);
    window->alias = NULL;
}
