/* The MPI reference: see reference.h. */
#include "bench/check/reference.h"

#include "bench/job/mpi_comm.h"
#include "verify/reference.h"

weir_status bench_reference_check(bench_job *job, const weirv_case *data, const void *out,
                                  int steps, int sampled, weirv_result *found)
{
    int error = sampled ? weirv_check_sampled(job->mpi->group, data, out, steps, found)
                        : weirv_check(job->mpi->group, data, out, steps, found);
    return error == MPI_SUCCESS ? WEIR_OK
                                : bench_job_note(job, WEIR_ERR_SYSTEM, "MPI error %d", error);
}

/* 1 if the fault concerns some call of the run. */
static int reference_is_concerned(const bench_run *run, weirv_mpi_fault fault)
{
    const bench_options *o = run->options;
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEIR_OP_COUNT; op++)
            if ((o->dtype == BENCH_ALL || o->dtype == dtype) &&
                (o->op == BENCH_ALL || o->op == op) &&
                weirv_mpi_fault_concerns(fault, run->collective, (weir_dtype)dtype, (weir_op)op))
                return 1;
    return 0;
}

void bench_reference_write_faults(FILE *out, const bench_run *run)
{
    const int uses =
        run->options->verify == BENCH_VERIFY_MPI || run->options->verify == BENCH_VERIFY_BOTH;
    const char *text;
    for (int fault = 0; uses && run->job->mpi && fault < WEIRV_MPI_FAULTS; fault++)
        if (weirv_mpi_has((weirv_mpi_fault)fault, &text) &&
            reference_is_concerned(run, (weirv_mpi_fault)fault))
            fprintf(out, "# Fault of this MPI, avoided by the reference: %s\n", text);
}
