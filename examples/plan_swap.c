/*
 * plan_swap: builds an alltoall of two ranks with the plan builder, proves it, writes it to a file
 * for `weir-plan show` and `--plan`, and runs it. The ranks are forked processes.
 *
 *     cc plan_swap.c -o plan_swap $(pkg-config --cflags --libs weir) && ./plan_swap swap.json
 */
#include <weir/plan.h>

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, COUNT = 1000 /* elements of a block; any number is right */ };

/* Block r of a rank's input is for rank r, block r of its output is from rank r. */
static weir_status build_swap(weir_plan **plan)
{
    weir_plan_spec spec = {.name = "swap", .collective = WEIR_COLL_ALLTOALL, .nranks = RANKS};
    weir_plan_builder *b = NULL;
    weir_status status = weir_plan_builder_create(&spec, &b);
    if (status != WEIR_OK)
        return status;
    for (int rank = 0; rank < RANKS; rank++) {
        const int peer = 1 - rank, block = 0; /* of threads */
        weir_plan_chan chan = weir_plan_memory_channel(b, rank, peer);
        weir_plan_chunks in = weir_plan_input(b, rank), out = weir_plan_output(b, rank);
        weir_plan_chunks there = weir_plan_output(b, peer);

        weir_plan_copy(weir_plan_slice(out, rank, 1), weir_plan_slice(in, rank, 1), block);
        weir_plan_relaxed_signal(chan, block, WEIR_PLAN_UNSYNCED); /* my launch has begun */
        weir_plan_relaxed_wait(chan, block, WEIR_PLAN_AFTER);      /* so has the peer's */
        weir_plan_put(chan, weir_plan_slice(there, rank, 1), weir_plan_slice(in, peer, 1), block);
        weir_plan_signal(chan, block, WEIR_PLAN_BEFORE); /* my data have been put */
        weir_plan_wait(chan, block, WEIR_PLAN_AFTER);    /* so have the peer's */
    }
    return weir_plan_build(b, plan); /* frees b, and reports the first wrong call */
}

/* Proves the plan, or prints what is wrong and how to correct it. */
static weir_status prove(const weir_plan *plan)
{
    weir_plan_report *report = malloc(sizeof *report);
    weir_status status = report ? weir_plan_check(plan, report) : WEIR_ERR_NO_MEMORY;
    for (unsigned i = 0; status == WEIR_ERR_INVALID && i < report->nviolations; i++)
        fprintf(stderr, "rank %d: %s\n", report->violations[i].rank, report->violations[i].text);
    free(report);
    return status;
}

/* Runs on each rank: 0, or an exit code. */
static int run_rank(weir_boot *boot, void *argument)
{
    const weir_plan *plan = argument;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    weir_comm *comm = NULL;
    weir_executor *executor = NULL;
    static int in[RANKS * COUNT], out[RANKS * COUNT];
    int wrong = 0;

    config.backend = WEIR_BACKEND_HOST; /* the buffers are memory of the process */
    weir_status status = weir_comm_create(boot, &config, &comm);
    if (status == WEIR_OK)
        status = weir_executor_create(comm, &executor);
    const int rank = status == WEIR_OK ? weir_comm_rank(comm) : 0;
    for (int i = 0; i < RANKS * COUNT; i++)
        in[i] = 1000000 * rank + i;
    if (status == WEIR_OK)
        status = weir_executor_run(executor, plan, in, out, sizeof in, sizeof out, WEIR_INT32,
                                   WEIR_SUM, NULL);
    for (int i = 0; status == WEIR_OK && i < RANKS * COUNT; i++)
        wrong += out[i] != 1000000 * (i / COUNT) + rank * COUNT + i % COUNT;
    if (status == WEIR_OK)
        printf("rank %d: %d wrong elements\n", rank, wrong);
    else
        fprintf(stderr, "plan_swap: %s\n", weir_last_error());
    weir_executor_destroy(executor);
    if (comm)
        weir_comm_destroy(comm);
    return status == WEIR_OK ? wrong != 0 : weir_status_exit_code(status);
}

int main(int argc, char **argv)
{
    enum { LIMIT_MS = 30000 };
    weir_plan *plan = NULL;
    int codes[RANKS] = {0};
    weir_status status = build_swap(&plan);
    if (status == WEIR_OK)
        status = prove(plan);
    if (status == WEIR_OK && argc > 1)
        status = weir_plan_write(plan, argv[1]);
    if (status == WEIR_OK)
        status = weir_boot_fork_run(RANKS, run_rank, plan, LIMIT_MS, codes);
    weir_plan_free(plan);
    if (status != WEIR_OK) {
        fprintf(stderr, "plan_swap: %s\n", weir_last_error());
        return weir_status_exit_code(status);
    }
    for (int rank = 0; rank < RANKS; rank++)
        if (codes[rank] != 0)
            return codes[rank];
    return 0;
}
