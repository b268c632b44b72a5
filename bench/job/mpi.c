/* Start and end of MPI, and what the library says about itself: see mpi.h. */
#include "bench/job/mpi_comm.h"

#include "base/mpi_open.h"
#include "bench/job/mpi_guard.h"

#include <stdio.h>
#include <stdlib.h>

static int uses_threads;

void bench_mpi_use_threads(void)
{
    uses_threads = 1;
}

int bench_mpi_has_threads(const bench_mpi *mpi)
{
    return mpi->has_threads;
}

/* There is one job in a process. */
bench_mpi *bench_mpi_start(const char *program, int rank)
{
    static bench_mpi only;
    /* MPI_THREAD_MULTIPLE in the standard ABI, and in the others. The watchdog calls no MPI. */
    const int multiple = MPI_THREAD_FUNNELED == 1024 ? 4096 : 3;
    int provided = 0;
    bench_mpi_guard_begin(program, rank);
    const int code =
        MPI_Init_thread(NULL, NULL, uses_threads ? multiple : MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS)
        exit(code); /* the guard's */
    bench_mpi_guard_end();
    only.has_threads = provided == multiple;
    MPI_Comm_dup(MPI_COMM_WORLD, &only.comm);
    only.group = only.comm;
    return &only;
}

void bench_mpi_divide(bench_mpi *mpi, int color, int key)
{
    MPI_Comm_split(mpi->comm, color, key, &mpi->group);
}

weir_status bench_mpi_boot(bench_mpi *mpi, weir_boot **boot)
{
    return weir_boot_mpi_create_from(&weiri_mpi, mpi->comm, boot);
}

void bench_mpi_end(bench_mpi *mpi)
{
    if (!mpi)
        return;
    if (mpi->group != mpi->comm)
        MPI_Comm_free(&mpi->group);
    MPI_Comm_free(&mpi->comm);
    MPI_Finalize();
}

void bench_mpi_version(const bench_mpi *mpi, char *text, size_t bytes)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    if (mpi)
        MPI_Get_library_version(version, &length);
    snprintf(text, bytes, "%s", version);
}
