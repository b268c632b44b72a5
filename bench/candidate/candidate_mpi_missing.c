/* A build without MPI; --peer mpi is rejected before: see candidate.h. */
#include "base/absent.h"
#include "bench/candidate/candidate.h"

WEIRI_ABSENT(bench_candidate_mpi_open);
