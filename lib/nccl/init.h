/* How communicators are created and freed, for functions that derive one from another. */
#ifndef WEIR_NCCL_INIT_H
#define WEIR_NCCL_INIT_H

#include "nccl/abi.h"

/* A rank of a communicator to be created. The argument of a job, from malloc. */
typedef struct weiri_nccl_comm_request {
    weir_unique_id id;
    int rank, nranks;
    int device; /* -1: memory of the process */
    ncclComm_t *made;
    char name[64]; /* from the configuration; "" if it has none */
} weiri_nccl_comm_request;

/* Creates the communicator together with its other ranks and writes *made. Collective; blocks. */
ncclResult_t weiri_nccl_comm_create(const weiri_nccl_comm_request *birth);
/* Checks a configuration, which may be NULL. */
ncclResult_t weiri_nccl_check_config(const ncclConfig_t *config);
/* Frees a communicator that nobody uses any more. Collective unless it was aborted. */
void weiri_nccl_comm_free(weiri_nccl_comm *comm);

#endif
