/* Start and end of MPI, and what the library says about itself: see mpi.h. */
#include "bench/job/mpi_comm.h"

#include <weir/mpi.h>

#include <stdio.h>
#include <stdlib.h>

#define TEXT(number) #number
#define VERSION_TEXT(major, minor, release) TEXT(major) "." TEXT(minor) "." TEXT(release)

#if defined(OPEN_MPI)
static const char built_with[] =
    "Open MPI v" VERSION_TEXT(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(I_MPI_VERSION)
static const char built_with[] = "Intel(R) MPI Library";
#elif defined(MVAPICH2_VERSION)
static const char built_with[] = "MVAPICH2 Version      :\t" MVAPICH2_VERSION;
#elif defined(MPICH_VERSION)
static const char built_with[] = "MPICH Version:\t" MPICH_VERSION;
#else
static const char built_with[] = "";
#endif

int bench_mpi_is_built(void)
{
    return 1;
}

/* There is one job in a process. */
weir_status bench_mpi_start(bench_mpi **mpi)
{
    static bench_mpi only;
    int provided = MPI_THREAD_SINGLE; /* the watchdog thread calls no MPI */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &only.comm);
    *mpi = &only;
    return WEIR_OK;
}

weir_status bench_mpi_boot(bench_mpi *mpi, weir_boot **boot)
{
    return weir_boot_mpi_create(mpi->comm, boot);
}

void bench_mpi_end(bench_mpi *mpi)
{
    if (!mpi)
        return;
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

const char *bench_mpi_built_with(void)
{
    return built_with;
}
