/*
 * A program that has started MPI, whose launcher seems to have ranks on other nodes and no PMIx:
 * weir_boot_launcher_create must connect the ranks by MPI. Rank 0 prints their number.
 */
#include <weir/weir.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    weir_boot *boot = NULL;
    MPI_Init(&argc, &argv);
    unsetenv("PMIX_RANK");
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    const weir_status status = weir_boot_launcher_create(&boot);
    if (status != WEIR_OK || weir_boot_barrier(boot) != WEIR_OK)
        fprintf(stderr, "mpi_launcher: %s\n", weir_last_error());
    else if (weir_boot_rank(boot) == 0)
        printf("%d ranks\n", weir_boot_nranks(boot));
    weir_boot_destroy(boot);
    MPI_Finalize();
    return weir_status_exit_code(status);
}
