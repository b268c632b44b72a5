/* A build without MPI; --peer mpi is rejected before this is called: see candidate.h. */
#include "bench/candidate/candidate.h"

weir_status bench_candidate_mpi_open(bench_job *job, bench_candidate **candidate)
{
    (void)candidate;
    return bench_job_note(job, WEIR_ERR_UNSUPPORTED, "--peer mpi: this build has no MPI");
}
