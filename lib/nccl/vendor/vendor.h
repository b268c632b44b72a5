/*
 * The fallback library named by WEIR_NCCL_FALLBACK: communicators that weir cannot create are its
 * communicators, and calls on them are forwarded.
 */
#ifndef WEIR_NCCL_VENDOR_H
#define WEIR_NCCL_VENDOR_H

#include "nccl/abi.h"

struct weiri_registration;

/* Creates the library's communicator in place of comm->comm, which could not be created on any rank
 * for `reason`. Collective over comm->boot; all ranks agree on the result. If no rank can, `reason`
 * is returned. */
weir_status weiri_nccl_vendor_init(weiri_nccl_comm *comm, weir_status reason);
ncclResult_t weiri_nccl_vendor_run(weiri_nccl_comm *comm, const weiri_nccl_call *call);
weir_status weiri_nccl_vendor_p2p(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                  size_t count);
/* Likewise for the remaining operations on a communicator. */
ncclResult_t weiri_nccl_vendor_async(weiri_nccl_comm *comm, ncclResult_t *error);

/* The library's function of a name ("ncclTeamLsa"); NULL if there is no library, or it lacks it. */
void *weiri_nccl_vendor_function(const char *name);
/* Memory of the library's ncclMemAlloc; NULL if there is no library, or no memory. */
void *weiri_nccl_vendor_alloc(size_t bytes);
void weiri_nccl_vendor_free(void *memory);
/* Creates a communicator of the library with the same ranks as comm. Collective over comm->boot;
 * agreed. Ends one. */
weir_status weiri_nccl_vendor_create(weiri_nccl_comm *comm, ncclComm_t *made);
void weiri_nccl_vendor_destroy(ncclComm_t made, int aborts);

/* ------------------------------------------- a communicator beside weir's (beside.c) */

/* The library's communicator for the device interface, if there is one; NULL: none yet. */
ncclComm_t weiri_nccl_beside_of(const weiri_nccl_comm *comm);
/* Makes it on first use. Collective. */
ncclResult_t weiri_nccl_beside_make(weiri_nccl_comm *comm, ncclComm_t *made);
void weiri_nccl_beside_end(weiri_nccl_comm *comm);
/* The result of a function of the device interface if there is no library. */
ncclResult_t weiri_nccl_beside_refuse(const char *name);
#ifdef __clang_analyzer__ /* as in abi.h */
#define weiri_nccl_beside_refuse(name) ((void)(weiri_nccl_beside_refuse)(name), ncclInvalidUsage)
#endif
/* Registers a symmetric window of weir's with the library, too; its alias is the library's handle.
 * Collective. Does nothing without a library. */
ncclResult_t weiri_nccl_beside_window(weiri_nccl_comm *comm, struct weiri_registration *window);
void weiri_nccl_beside_window_end(weiri_nccl_comm *comm, struct weiri_registration *window);

#endif
