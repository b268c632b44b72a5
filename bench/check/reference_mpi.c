/* The MPI reference in a build with MPI: see reference.h. */
#include "bench/check/reference.h"

#include "bench/job/mpi_comm.h"
#include "verify/reference.h"

weir_status bench_reference_check(bench_job *job, const weirv_case *data, const void *out,
                                  int steps, int sampled, weirv_result *found)
{
    int error = sampled ? weirv_check_sampled(job->mpi->comm, data, out, steps, found)
                        : weirv_check(job->mpi->comm, data, out, steps, found);
    return error == MPI_SUCCESS ? WEIR_OK
                                : bench_job_note(job, WEIR_ERR_SYSTEM, "MPI error %d", error);
}
