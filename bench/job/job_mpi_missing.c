/* A build without MPI: see mpi.h. */
#include "bench/job/mpi.h"

int bench_mpi_is_built(void)
{
    return 0;
}

weir_status bench_mpi_start(bench_mpi **mpi)
{
    (void)mpi;
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_mpi_boot(bench_mpi *mpi, weir_boot **boot)
{
    (void)mpi;
    (void)boot;
    return WEIR_ERR_UNSUPPORTED;
}

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
