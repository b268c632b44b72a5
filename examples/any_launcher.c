/*
 * any_launcher: one program for every way to start ranks. torchrun, mpirun, prterun and srun pass
 * ranks in environment variables; without a launcher, also in a script of sbatch or an interactive
 * shell of Slurm, the program forks four ranks. The sums are taken in ordinary memory, and if a
 * rank is lost, one of the others prints the state of all.
 *
 *     cc any_launcher.c -o any_launcher $(pkg-config --cflags --libs weir)
 *     ./any_launcher
 *     torchrun --nproc-per-node 4 --no-python ./any_launcher
 */
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FORKED_RANKS = 4, COUNT = 100000, CALLS = 100 };

/* Adds numbers of all ranks, and counts the sums that are wrong. */
static weir_status add(weir_comm *comm, float *mine, float *sum)
{
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    int wrong = 0;
    for (int call = 0; call < CALLS; call++) {
        weir_comm_note(comm, "adding", (uint64_t)call); /* what a report says of this rank */
        for (int i = 0; i < COUNT; i++)
            mine[i] = (float)(rank + call + i % 7);
        weir_status status = weir_allreduce(comm, mine, sum, COUNT, WEIR_FLOAT, WEIR_SUM, NULL);
        if (status != WEIR_OK)
            return status;
        for (int i = 0; i < COUNT; i++)
            wrong += sum[i] != (float)(nranks * (nranks - 1) / 2 + nranks * (call + i % 7));
    }
    printf("rank %d of %d: %d sums, %d wrong numbers\n", rank, nranks, CALLS, wrong);
    return wrong ? WEIR_ERR_INTERNAL : WEIR_OK;
}

/* The program of one rank. Returns its exit code. */
static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    float *mine = malloc(2 * COUNT * sizeof *mine);
    weir_status status = mine ? weir_comm_create(boot, &config, &comm) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK)
        status = add(comm, mine, mine + COUNT);
    if (status != WEIR_OK) {
        fprintf(stderr, "any_launcher: %s\n", weir_last_error());
        if (comm)
            weir_comm_report_once(comm, STDERR_FILENO); /* which rank is lost, who waits for whom */
        weir_comm_abort(comm);
    }
    const weir_status ended = weir_comm_destroy(comm);
    free(mine);
    return weir_status_exit_code(status != WEIR_OK ? status : ended);
}

int main(void)
{
    int codes[FORKED_RANKS] = {0}, worst = 0;
    weir_boot *boot;
    weir_status status = weir_boot_launcher_create(&boot);
    if (status == WEIR_OK && boot)
        worst = rank_main(boot, NULL);
    else if (status == WEIR_OK) /* 0: the ranks may run for as long as they like */
        status = weir_boot_fork_run(FORKED_RANKS, rank_main, NULL, 0, codes);
    if (status != WEIR_OK)
        fprintf(stderr, "any_launcher: %s\n", weir_last_error());
    weir_boot_destroy(boot);
    for (int rank = 0; rank < FORKED_RANKS; rank++)
        worst = codes[rank] > worst ? codes[rank] : worst;
    return status != WEIR_OK ? weir_status_exit_code(status) : worst;
}
