/* A build without MPI has no MPI candidate; the launcher's checks refuse --peer mpi. */
#include "bench/moe/moe_trial.h"

const moe_candidate_ops *const bench_moe_mpi = NULL;
