/* A build without MPI; the options name no MPI reference then: see reference.h. */
#include "bench/check/reference.h"

weir_status bench_reference_check(bench_job *job, const weirv_case *data, const void *out,
                                  int steps, int sampled, weirv_result *found)
{
    (void)data;
    (void)out;
    (void)steps;
    (void)sampled;
    (void)found;
    return bench_job_note(job, WEIR_ERR_UNSUPPORTED, "this build has no MPI reference");
}

void bench_reference_write_faults(FILE *out, const bench_run *run)
{
    (void)out;
    (void)run;
}
