/* How communicators are created and freed, for functions that derive one from another. */
#ifndef WEIR_NCCL_INIT_H
#define WEIR_NCCL_INIT_H

#include "nccl/abi.h"

/* A rank of a communicator to be created. The argument of a job, from malloc. */
typedef struct weiri_nccl_comm_request {
    weir_unique_id id;
    int rank, nranks;
    int device; /* -1: host memory */
    weiri_nccl_settings settings;
    weiri_nccl_comm *own;      /* not NULL: it has a handle already, which the caller has got */
    weiri_nccl_comm *reserved; /* else its memory, from weiri_nccl_comm_reserve; NULL: none yet */
    ncclComm_t *made;
    char name[64]; /* from the configuration; "" if it has none */
} weiri_nccl_comm_request;

/* Allocates a communicator without a handle, before ranks agree to create it. Returns own if that
 * has one already; NULL: no memory. Release with weiri_nccl_comm_unreserve, which spares own, or
 * pass it on as `reserved`. */
weiri_nccl_comm *weiri_nccl_comm_reserve(weiri_nccl_comm *own, const weiri_nccl_settings *settings);
void weiri_nccl_comm_unreserve(const weiri_nccl_comm *own, weiri_nccl_comm *reserved);
/* Creates the communicator together with its other ranks and, unless it has a handle, writes *made.
 * Collective; blocks. */
ncclResult_t weiri_nccl_comm_create(const weiri_nccl_comm_request *birth);
/* Runs a job that creates a communicator: as weiri_nccl_do if settings->blocking. Otherwise gives
 * *made a handle, puts its communicator into *own, which is in the job's argument, and runs the job
 * in the background; the result is ncclInProgress. */
ncclResult_t weiri_nccl_do_create(weiri_nccl_job job, const weiri_nccl_settings *settings,
                                  weiri_nccl_comm **own, ncclComm_t *made);

/* Creates weir's communicator and what belongs to it, when own is created or resumed. Collective.
 */
weir_status weiri_nccl_comm_open(weiri_nccl_comm *own);
/* The opposite. Collective unless own has failed. */
void weiri_nccl_comm_close(weiri_nccl_comm *own);

/* Reads a configuration, which may be NULL: then the settings are the parent's, if it has one, or
 * the defaults. */
/* What a sum of NCCL_CTA_POLICY_ flags means. Pure. */
enum { WEIRI_NCCL_POLICIES = 3 };
weir_block_policy weiri_nccl_policy(int flags);
/* Replaces what NCCL's environment variables set. WEIR_ERR_INVALID. */
weir_status weiri_nccl_read_environment(weiri_budget *budget);
ncclResult_t weiri_nccl_read_config(const ncclConfig_t *config, const weiri_nccl_settings *parent,
                                    weiri_nccl_settings *settings);
/* The deadline of waits: WEIR_TIMEOUT_MS, or a longer default than weir's. */
int weiri_nccl_timeout_ms(void);
/* Frees a communicator that nobody uses any more. Collective unless it was aborted. */
void weiri_nccl_comm_free(weiri_nccl_comm *comm);

#endif
