/* A build without MPI: see mpi.h. */
#include "bench/job/mpi.h"

#include "base/absent.h"

int bench_mpi_is_built(void)
{
    return 0;
}

weir_status bench_mpi_start(bench_mpi **mpi)
{
    (void)mpi;
    return WEIR_ERR_UNSUPPORTED;
}

WEIRI_ABSENT(bench_mpi_boot);

void bench_mpi_end(bench_mpi *mpi)
{
    (void)mpi;
}

void bench_mpi_version(const bench_mpi *mpi, char *text, size_t bytes)
{
    (void)mpi;
    if (bytes)
        *text = '\0';
}

const char *bench_mpi_built_with(void)
{
    return "";
}
