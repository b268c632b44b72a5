/* How communicators are made and ended, for those that make one out of another. */
#ifndef WEIR_NCCL_INIT_H
#define WEIR_NCCL_INIT_H

#include "nccl/abi.h"

/* A rank of a communicator to be made: a job's argument, from malloc. */
typedef struct weiri_nccl_birth {
    weir_unique_id id;
    int rank, nranks;
    int device; /* -1: memory of the process */
    ncclComm_t *made;
} weiri_nccl_birth;

/* Meets the other ranks and writes *made. Blocks. */
ncclResult_t weiri_nccl_bear(const weiri_nccl_birth *birth);
/* Whether config, which may be NULL, is one. */
ncclResult_t weiri_nccl_check_config(const ncclConfig_t *config);
/* Frees all of a communicator that nobody uses. Collective unless it was aborted. */
void weiri_nccl_bury(weiri_nccl_comm *comm);

#endif
