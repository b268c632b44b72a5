/* A build without MPI; the options name no MPI reference then: see reference.h. */
#include "bench/check/reference.h"

#include "base/absent.h"

WEIRI_ABSENT(bench_reference_check);

void bench_reference_write_faults(FILE *out, const bench_run *run)
{
    (void)out, (void)run;
}
