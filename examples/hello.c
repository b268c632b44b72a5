/*
 * hello: the smallest weir program. Every rank contributes its rank number to an allreduce.
 *
 *     mpicc hello.c -o hello $(pkg-config --cflags --libs weir-mpi)
 *     mpirun -np 4 ./hello
 */
#include <weir/mpi.h>
#include <weir/weir.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    weir_boot *boot = NULL;
    weir_comm *comm = NULL;
    int mine, sum = 0;

    MPI_Init(&argc, &argv);
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST; /* the buffers below are memory of the process */
    weir_status status = weir_boot_mpi_create(MPI_COMM_WORLD, &boot);
    if (status == WEIR_OK)
        status = weir_comm_create(boot, &config, &comm);
    if (status == WEIR_OK) {
        mine = weir_comm_rank(comm);
        status = weir_allreduce(comm, &mine, &sum, 1, WEIR_INT32, WEIR_SUM, NULL);
    }
    if (status == WEIR_OK)
        printf("rank %d of %d: the ranks add up to %d\n", mine, weir_comm_nranks(comm), sum);
    if (status == WEIR_OK)
        status = weir_comm_destroy(comm);
    else
        weir_comm_abort(comm);
    if (status != WEIR_OK)
        fprintf(stderr, "hello: %s\n", weir_last_error());
    weir_boot_destroy(boot);
    MPI_Finalize();
    return weir_status_exit_code(status);
}
