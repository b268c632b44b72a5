/*
 * torchrun: the smallest program for PyTorch's launcher, which passes rank and address to the ranks
 * in environment variables. Any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
 * will do.
 *
 *     cc torchrun.c -o torchrun_hello $(pkg-config --cflags --libs weir)
 *     torchrun --nproc-per-node 4 --no-python ./torchrun_hello
 */
#include <weir/weir.h>

#include <stdio.h>

int main(void)
{
    int mine, sum = 0;
    weir_boot *boot = NULL;
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST; /* mine and sum are memory of the process */
    weir_status status = weir_boot_torchrun_create(&boot);
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
        weir_comm_abort(comm); /* so that the other ranks end, too */
    if (status != WEIR_OK)
        fprintf(stderr, "torchrun_hello: %s\n", weir_last_error());
    weir_boot_destroy(boot);
    return weir_status_exit_code(status);
}
