/* The table of example programs, and the function that generates their plans. */
#include "plan/examples/program.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static const weiri_plan_example examples[] = {
    {"allreduce_oneshot", WEIR_COLL_ALLREDUCE,
     "each rank sends all its data to all others in packets, and reduces all: lowest latency", 1,
     weiri_example_allreduce_oneshot},
    {"allreduce_twoshot", WEIR_COLL_ALLREDUCE,
     "each rank reduces one share, which the others send it in packets, and sends the result", 1,
     weiri_example_allreduce_twoshot},
    {"allreduce_direct", WEIR_COLL_ALLREDUCE,
     "all pairs: each rank reads and reduces its share, and writes the result to all", 0,
     weiri_example_allreduce_direct},
    {"allreduce_ring", WEIR_COLL_ALLREDUCE,
     "shares go round a ring twice, reduced in the first round: only neighbours need links", 0,
     weiri_example_allreduce_ring},
    {"allreduce_switch", WEIR_COLL_ALLREDUCE,
     "each rank reduces its share over a switch channel and broadcasts the result", 0,
     weiri_example_allreduce_switch},
    {"allreduce_hierarchical", WEIR_COLL_ALLREDUCE,
     "inside each node over memory channels, between nodes over port channels", 0,
     weiri_example_allreduce_hierarchical},
    {"allgather_packets", WEIR_COLL_ALLGATHER, "each rank sends packets to every other", 1,
     weiri_example_allgather_packets},
    {"allgather_direct", WEIR_COLL_ALLGATHER, "all pairs: each rank writes to every other", 0,
     weiri_example_allgather_direct},
    {"allgather_ring", WEIR_COLL_ALLGATHER, "shares go round a ring", 0,
     weiri_example_allgather_ring},
    {"reduce_scatter_direct", WEIR_COLL_REDUCE_SCATTER,
     "all pairs: each rank reads and reduces its share", 0, weiri_example_reduce_scatter_direct},
    {"reduce_scatter_ring", WEIR_COLL_REDUCE_SCATTER, "shares go round a ring and are reduced", 0,
     weiri_example_reduce_scatter_ring},
    {"alltoall_packets", WEIR_COLL_ALLTOALL, "each rank sends packets to every other", 1,
     weiri_example_alltoall_packets},
    {"alltoall_direct", WEIR_COLL_ALLTOALL,
     "all pairs: each rank writes to every other; in place, through scratch", 0,
     weiri_example_alltoall_direct},
    {"broadcast_direct", WEIR_COLL_BROADCAST, "rank 0 writes to every other rank", 0,
     weiri_example_broadcast_direct},
    {"broadcast_chain", WEIR_COLL_BROADCAST, "a pipeline from rank 0 through all others", 0,
     weiri_example_broadcast_chain},
    {"reduce_direct", WEIR_COLL_REDUCE, "rank 0 reads and reduces the data of all ranks", 0,
     weiri_example_reduce_direct},
    {"reduce_chain", WEIR_COLL_REDUCE, "a pipeline through all ranks to rank 0", 0,
     weiri_example_reduce_chain},
};

const weiri_plan_example *weiri_plan_examples(size_t *count)
{
    *count = sizeof examples / sizeof *examples;
    return examples;
}

const weiri_plan_example *weiri_plan_example_find(const char *name)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (strcmp(examples[i].name, name) == 0)
            return &examples[i];
    return NULL;
}

weir_status weiri_plan_example_make(const weiri_plan_example *example,
                                    const weiri_plan_example_options *with, weir_plan **plan)
{
    weiri_plan_example_options all = *with;
    weir_plan_builder *builder = NULL;
    if (with->nranks < 2 || with->nranks > WEIRI_EXAMPLE_RANKS)
        return weiri_fail(WEIR_ERR_INVALID, "%s: %d ranks; expected 2 to %d", example->name,
                          with->nranks, WEIRI_EXAMPLE_RANKS);
    if (!all.node_ranks)
        all.node_ranks = with->nranks % 2 ? 1 : with->nranks / 2;
    if (all.node_ranks < 1 || with->nranks % all.node_ranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: nodes of %d ranks; expected a divisor of the %d ranks",
                          example->name, all.node_ranks, with->nranks);
    if (!all.unit_bytes)
        all.unit_bytes = 128 << 10;
    weir_plan_spec spec = {
        .name = example->name,
        .collective = example->collective,
        .nranks = with->nranks,
        .in_place = with->in_place,
        .instances = with->instances,
        .double_scratch = example->double_scratch,
        .op = with->op,
    };
    all.mesh = malloc(sizeof *all.mesh); /* larger than small stacks */
    weir_status status =
        all.mesh ? weir_plan_builder_create(&spec, &builder)
                 : weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for channels", example->name);
    if (status == WEIR_OK) {
        example->program(builder, &all);
        status = weir_plan_build(builder, plan);
    }
    free(all.mesh);
    return status;
}
