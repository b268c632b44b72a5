/* The bootstrap of a fleet: by an address, or as the launcher connects the processes of a job. */
#include "bench/health/fleet.h"

#include "base/error.h"
#include "bench/job/launch.h"
#include "bench/job/mpi.h"

#include <stdlib.h>
#include <string.h>

/* MPI connects the processes only to pass on a unique id: its calls have no deadlines. */
static weir_status fleet_boot_by_mpi(int launched_rank, weir_boot **boot)
{
    weir_boot *first = NULL;
    bench_mpi *mpi = bench_mpi_start("weir-check", launched_rank);
    weir_status status = bench_mpi_boot(mpi, &first);
    if (status != WEIR_OK)
        return status;
    const int rank = weir_boot_rank(first), nranks = weir_boot_nranks(first);
    weir_unique_id *ids = calloc((size_t)nranks, sizeof *ids);
    status = ids ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK && rank == 0)
        status = weir_unique_id_create(&ids[0]);
    status = weir_boot_agree(first, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(first, ids, sizeof *ids);
    if (status == WEIR_OK)
        status = weir_boot_tcp_create(&ids[0], rank, nranks, boot);
    free(ids);
    weir_boot_destroy(first);
    bench_mpi_end(mpi);
    return status;
}

weir_status fleet_boot(const char *address, int rank, int nranks, int timeout_ms, weir_boot **boot)
{
    char problem[BENCH_PROBLEM_BYTES] = "", timeout[16];
    bench_launch launch;
    snprintf(timeout, sizeof timeout, "%d", timeout_ms);
    setenv("WEIR_TIMEOUT_MS", timeout, 1); /* the bootstraps read it */
    if (address)
        return weir_boot_tcp_create_at(address, rank, nranks, boot);
    if (bench_launch_find(&launch, problem) != 0)
        return weiri_fail(WEIR_ERR_INVALID, "%s", problem);
    if (!launch.variable)
        return weiri_fail(WEIR_ERR_INVALID,
                          "--fleet: no launcher started this process; start one "
                          "process on each node with srun, mpirun or torchrun, or "
                          "give --address, --rank and --nodes");
    switch (launch.launcher) {
    case BENCH_LAUNCHER_PMIX:
        return weir_boot_pmix_create(boot);
    case BENCH_LAUNCHER_SLURM:
        return weir_boot_slurm_create(boot);
    case BENCH_LAUNCHER_TORCHRUN:
        return weir_boot_torchrun_create(boot);
    default:
        return fleet_boot_by_mpi(launch.rank, boot);
    }
}
