/*
 * The fallback library named by WEIR_NCCL_FALLBACK: communicators that weir cannot create are its
 * communicators, and calls on them are forwarded.
 */
#ifndef WEIR_NCCL_VENDOR_H
#define WEIR_NCCL_VENDOR_H

#include "nccl/abi.h"

/* Creates the library's communicator in place of comm->comm, which could not be created on any rank
 * for `reason`. Collective over comm->boot; all ranks agree on the result. If no rank can, `reason`
 * is returned. */
weir_status weiri_nccl_vendor_init(weiri_nccl_comm *comm, weir_status reason);
ncclResult_t weiri_nccl_vendor_run(weiri_nccl_comm *comm, const weiri_nccl_call *call);
weir_status weiri_nccl_vendor_p2p(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                  size_t count);
/* Likewise for the remaining operations on a communicator. */
ncclResult_t weiri_nccl_vendor_async(weiri_nccl_comm *comm, ncclResult_t *error);
void weiri_nccl_vendor_end(weiri_nccl_comm *comm, int aborts);

#endif
