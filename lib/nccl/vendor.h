/*
 * The real library, where WEIR_NCCL_FALLBACK names it: communicators that weir
 * cannot make are its own, and calls on them go there.
 */
#ifndef WEIR_NCCL_VENDOR_H
#define WEIR_NCCL_VENDOR_H

#include "nccl/abi.h"

/* Makes the library's communicator instead of comm->comm, which could not be made on any
 * rank: reason. Collective over comm->boot; agreed. Where no rank can, reason comes back. */
weir_status weiri_nccl_vendor_init(weiri_nccl_comm *comm, weir_status reason);
ncclResult_t weiri_nccl_vendor_run(weiri_nccl_comm *comm, const weiri_nccl_call *call);
weir_status weiri_nccl_vendor_p2p(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                  size_t count);
/* Likewise the rest of what a communicator is asked for. */
ncclResult_t weiri_nccl_vendor_async(weiri_nccl_comm *comm, ncclResult_t *error);
void weiri_nccl_vendor_end(weiri_nccl_comm *comm, int aborts);

#endif
