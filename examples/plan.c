/*
 * plan: builds an alltoall of two ranks with the plan builder, proves it, writes it to a file for
 * `weir-plan` and `--plan`, and runs it. The ranks are forked processes.
 *
 *     cc plan.c -o plan $(pkg-config --cflags --libs weir)
 *     ./plan swap.json
 *     weir-plan show swap.json
 */
#include <weir/plan.h>

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, COUNT = 1000 }; /* elements of a block; any number is right */
enum { LIFETIME_MS = 60000 };     /* then the ranks are killed; 0: never */

/* Ends the process if a call failed. The waits of the other rank notice that it has ended. */
static void need(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "plan: %s\n", weir_last_error());
        exit(weir_status_exit_code(status));
    }
}

/* Part r of each rank's input is for rank r. Part r of each rank's output is from rank r. */
static weir_status build_swap(weir_plan **plan)
{
    weir_plan_spec spec = {.name = "swap", .collective = WEIR_COLL_ALLTOALL, .nranks = RANKS};
    weir_plan_builder *b = NULL;
    weir_status status = weir_plan_builder_create(&spec, &b);
    if (status != WEIR_OK)
        return status;
    for (int rank = 0; rank < RANKS; rank++) {
        const int peer = 1 - rank, block = 0; /* the thread block */
        weir_plan_chan chan = weir_plan_memory_channel(b, rank, peer);
        weir_plan_chunks in = weir_plan_input(b, rank), out = weir_plan_output(b, rank);
        weir_plan_chunks there = weir_plan_output(b, peer);

        weir_plan_copy(weir_plan_slice(out, rank, 1), weir_plan_slice(in, rank, 1), block);
        weir_plan_relaxed_signal(chan, block, WEIR_PLAN_UNSYNCED); /* this rank's launch began */
        weir_plan_relaxed_wait(chan, block, WEIR_PLAN_AFTER);      /* the peer's launch began */
        weir_plan_put(chan, weir_plan_slice(there, rank, 1), weir_plan_slice(in, peer, 1), block);
        weir_plan_signal(chan, block, WEIR_PLAN_BEFORE); /* this rank's data have been put */
        weir_plan_wait(chan, block, WEIR_PLAN_AFTER);    /* the peer's data have arrived */
    }
    return weir_plan_build(b, plan); /* frees b; fails if a call above was wrong */
}

/* The program of one rank: exchanges a block with the other one. */
static int run_rank(weir_boot *boot, void *plan)
{
    static int in[RANKS * COUNT], out[RANKS * COUNT];
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    weir_comm *comm = NULL;
    weir_executor *executor = NULL;
    int rank = weir_boot_rank(boot), wrong = 0;

    config.backend = WEIR_BACKEND_HOST; /* the buffers are memory of the process */
    for (int i = 0; i < RANKS * COUNT; i++)
        in[i] = 1000000 * rank + i;
    need(weir_comm_create(boot, &config, &comm));
    need(weir_executor_create(comm, &executor));
    need(weir_executor_run(executor, plan, in, out, sizeof in, sizeof out, WEIR_INT32, WEIR_SUM,
                           NULL));
    for (int i = 0; i < RANKS * COUNT; i++)
        wrong += out[i] != 1000000 * (i / COUNT) + rank * COUNT + i % COUNT;
    printf("rank %d: %d wrong elements\n", rank, wrong);
    weir_executor_destroy(executor);
    need(weir_comm_destroy(comm));
    return wrong != 0;
}

int main(int argc, char **argv)
{
    weir_plan *plan = NULL;
    int codes[RANKS], worst = 0;
    need(build_swap(&plan));
    need(weir_plan_check(plan, NULL)); /* an error says what is wrong and how to correct it */
    if (argc > 1)
        need(weir_plan_write(plan, argv[1]));
    need(weir_boot_fork_run(RANKS, run_rank, plan, LIFETIME_MS, codes));
    for (int rank = 0; rank < RANKS; rank++)
        worst = codes[rank] > worst ? codes[rank] : worst;
    weir_plan_free(plan);
    return worst;
}
