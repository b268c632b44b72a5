/*
 * own_kernel: an allreduce with a kernel of the program, own_kernel.cu, which the library compiles
 * at run time, among four forked ranks. It needs no compiler for GPUs: here the kernel runs on host
 * memory. On a communicator of the backend cuda the same call compiles it with NVRTC.
 *
 *     cc own_kernel.c -o own_kernel $(pkg-config --cflags --libs weir)
 *     ./own_kernel own_kernel.cu
 *
 * The compiled kernel is kept in ~/.cache/weir for later runs.
 */
#include <weir/algo.h>

#include <stdio.h>
#include <stdlib.h>

enum { NRANKS = 4, COUNT = 100000, LIFETIME_MS = 60000 }; /* then the ranks are killed; 0: never */

/* Ends this rank if a call failed. The waits of the other ranks notice that it has ended. */
static void need(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "own_kernel: %s\n", weir_last_error());
        exit(weir_status_exit_code(status));
    }
}

/* The program of one rank; file is the kernel's. */
static int rank_main(weir_boot *boot, void *file)
{
    static int data[COUNT];
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_algo *algo = NULL;
    need(weir_comm_create(boot, &config, &comm));
    need(weir_algo_from_file(comm, file, "add_all", WEIR_COLL_ALLREDUCE, &algo));

    for (int i = 0; i < COUNT; i++)
        data[i] = weir_comm_rank(comm) + i;
    weir_call call = WEIR_CALL_INIT;
    call.dtype = WEIR_INT32;
    call.op = WEIR_SUM;
    call.in = data;
    call.out = data;
    call.count = COUNT;
    need(weir_algo_execute(algo, comm, &call));

    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += data[i] != NRANKS * (NRANKS - 1) / 2 + NRANKS * i;
    printf("rank %d: \"%s\" added %d numbers, %d are wrong\n", weir_comm_rank(comm),
           weir_algo_name(algo), COUNT, wrong);
    weir_algo_destroy(algo);
    need(weir_comm_destroy(comm));
    return wrong != 0;
}

int main(int argc, char **argv)
{
    int codes[NRANKS], worst = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: own_kernel FILE\n");
        return 2;
    }
    need(weir_boot_fork_run(NRANKS, rank_main, argv[1], LIFETIME_MS, codes));
    for (int rank = 0; rank < NRANKS; rank++)
        worst = codes[rank] > worst ? codes[rank] : worst;
    return worst;
}
