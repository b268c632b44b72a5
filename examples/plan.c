/*
 * plan: builds an alltoall as a plan, proves that it is correct for every length, writes it to a
 * file, and runs it among four forked ranks.
 *
 *     cc plan.c -o plan $(pkg-config --cflags --libs weir)
 *     ./plan
 *     weir-plan show plan.json
 *
 * Each rank waits until every peer's output may be written, puts a block into it, and waits until
 * all blocks have arrived.
 */
#include <weir/plan.h>

#include <stdio.h>
#include <stdlib.h>

enum { NRANKS = 4, COUNT = 1000, TIMEOUT_MS = 60000 };

/* Ends the process if a call failed. The waits of other ranks notice that it has ended. */
static void need(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "plan: %s\n", weir_last_error());
        exit(weir_status_exit_code(status));
    }
}

/* Signals all peers of a rank, after its earlier operations, and waits for their signals. */
static void rank_barrier(weir_plan_chan *chans, int rank)
{
    for (int peer = 0; peer < NRANKS; peer++)
        if (peer != rank)
            weir_plan_signal(chans[peer], 0, WEIR_PLAN_BEFORE);
    for (int peer = 0; peer < NRANKS; peer++)
        if (peer != rank)
            weir_plan_wait(chans[peer], 0, WEIR_PLAN_AFTER);
}

/* The operations of all ranks. Building calls report errors in weir_plan_build. */
static weir_plan *build(void)
{
    weir_plan_spec spec = {.name = "mine", .collective = WEIR_COLL_ALLTOALL, .nranks = NRANKS};
    weir_plan_builder *b = NULL;
    weir_plan *plan = NULL;
    need(weir_plan_builder_create(&spec, &b));
    for (int rank = 0; rank < NRANKS; rank++) {
        weir_plan_chan chans[NRANKS];
        for (int peer = 0; peer < NRANKS; peer++)
            if (peer != rank)
                chans[peer] = weir_plan_memory_channel(b, rank, peer);
        rank_barrier(chans, rank);
        for (int peer = 0; peer < NRANKS; peer++) {
            weir_plan_chunks from = weir_plan_slice(weir_plan_input(b, rank), peer, 1);
            weir_plan_chunks to = weir_plan_slice(weir_plan_output(b, peer), rank, 1);
            if (peer != rank)
                weir_plan_put(chans[peer], to, from, 0);
            else
                weir_plan_copy(to, from, 0);
        }
        rank_barrier(chans, rank);
    }
    need(weir_plan_build(b, &plan));
    return plan;
}

/* The program of one rank. */
static int rank_main(weir_boot *boot, void *plan)
{
    static int in[NRANKS * COUNT], out[NRANKS * COUNT];
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_executor *executor = NULL;
    int rank = weir_boot_rank(boot), wrong = 0;
    for (int i = 0; i < NRANKS * COUNT; i++)
        in[i] = rank * NRANKS * COUNT + i;
    need(weir_comm_create(boot, &config, &comm));
    need(weir_executor_create(comm, &executor));
    need(weir_executor_run(executor, plan, in, out, sizeof in, sizeof in, WEIR_INT32, 0, NULL));
    for (int i = 0; i < NRANKS * COUNT; i++)
        wrong += out[i] != i / COUNT * NRANKS * COUNT + rank * COUNT + i % COUNT;
    printf("rank %d: %d words exchanged, %d are wrong\n", rank, NRANKS * COUNT, wrong);
    weir_executor_destroy(executor);
    need(weir_comm_destroy(comm));
    return wrong != 0;
}

int main(void)
{
    int codes[NRANKS], worst = 0;
    weir_plan *plan = build();
    need(weir_plan_check(plan, NULL));
    need(weir_plan_write(plan, "plan.json"));
    need(weir_boot_fork_run(NRANKS, rank_main, plan, TIMEOUT_MS, codes));
    for (int rank = 0; rank < NRANKS; rank++)
        worst = codes[rank] > worst ? codes[rank] : worst;
    weir_plan_free(plan);
    return worst;
}
