/* The table of examples, and what is common to making them. */
#include "plan/examples/program.h"

#include "base/error.h"

#include <string.h>

static const weiri_plan_example examples[] = {
    {"allreduce_oneshot", WEIR_COLL_ALLREDUCE,
     "packets of everything to every rank, each reduces all: least latency", 1,
     weiri_example_allreduce_oneshot},
    {"allreduce_twoshot", WEIR_COLL_ALLREDUCE,
     "packets of a share to each rank, which reduces it and sends packets of the result", 1,
     weiri_example_allreduce_twoshot},
    {"allreduce_direct", WEIR_COLL_ALLREDUCE,
     "all pairs: each rank reads and reduces its share, and writes the result to all", 0,
     weiri_example_allreduce_direct},
    {"allreduce_ring", WEIR_COLL_ALLREDUCE,
     "shares go round a ring twice, reduced the first time: only neighbours need links", 0,
     weiri_example_allreduce_ring},
    {"allreduce_switch", WEIR_COLL_ALLREDUCE,
     "each rank reduces its share over a switch channel and broadcasts the result", 0,
     weiri_example_allreduce_switch},
    {"allreduce_hierarchical", WEIR_COLL_ALLREDUCE,
     "inside each machine over memory, between machines over ports", 0,
     weiri_example_allreduce_hierarchical},
    {"allgather_packets", WEIR_COLL_ALLGATHER, "packets from each rank to every other", 1,
     weiri_example_allgather_packets},
    {"allgather_direct", WEIR_COLL_ALLGATHER, "all pairs: each rank writes to every other", 0,
     weiri_example_allgather_direct},
    {"allgather_ring", WEIR_COLL_ALLGATHER, "shares go round a ring", 0,
     weiri_example_allgather_ring},
    {"reduce_scatter_direct", WEIR_COLL_REDUCE_SCATTER,
     "all pairs: each rank reads and reduces its share", 0, weiri_example_reduce_scatter_direct},
    {"reduce_scatter_ring", WEIR_COLL_REDUCE_SCATTER, "shares go round a ring and are reduced",
     0, weiri_example_reduce_scatter_ring},
    {"alltoall_packets", WEIR_COLL_ALLTOALL, "packets from each rank to every other", 1,
     weiri_example_alltoall_packets},
    {"alltoall_direct", WEIR_COLL_ALLTOALL,
     "all pairs: each rank writes to every other, in place through scratch", 0,
     weiri_example_alltoall_direct},
    {"broadcast_direct", WEIR_COLL_BROADCAST, "rank 0 writes to every other", 0,
     weiri_example_broadcast_direct},
    {"broadcast_chain", WEIR_COLL_BROADCAST, "a pipeline from rank 0 through all others", 0,
     weiri_example_broadcast_chain},
    {"reduce_direct", WEIR_COLL_REDUCE, "rank 0 reads and reduces all", 0,
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
    if (!all.machine_ranks)
        all.machine_ranks = with->nranks % 2 ? 1 : with->nranks / 2;
    if (all.machine_ranks < 1 || with->nranks % all.machine_ranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: machines of %d ranks; expected a divisor of all %d ranks",
                          example->name, all.machine_ranks, with->nranks);
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
    weir_status status = weir_plan_builder_create(&spec, &builder);
    if (status != WEIR_OK)
        return status;
    example->program(builder, &all);
    return weir_plan_build(builder, plan);
}

/* ------------------------------------------------------------ what programs share */

void weiri_example_mesh_create(weir_plan_builder *b, int nranks, weiri_example_mesh *mesh)
{
    for (int rank = 0; rank < nranks; rank++)
        for (int peer = 0; peer < nranks; peer++)
            if (peer != rank)
                mesh->of[rank].to[peer] = weir_plan_memory_channel(b, rank, peer);
}

void weiri_example_ring_create(weir_plan_builder *b, int nranks, weiri_example_ring *ring)
{
    for (int rank = 0; rank < nranks; rank++) {
        int next = (rank + 1) % nranks, prev = (rank + nranks - 1) % nranks;
        ring->next[rank] = weir_plan_memory_channel(b, rank, next);
        ring->prev[rank] =
            next == prev ? ring->next[rank] : weir_plan_memory_channel(b, rank, prev);
    }
}

void weiri_example_barrier(const weiri_example_row *row, int rank, int first, int end, int block)
{
    for (int peer = first; peer < end; peer++)
        if (peer != rank)
            weir_plan_signal(row->to[peer], block, WEIR_PLAN_BEFORE);
    for (int peer = first; peer < end; peer++)
        if (peer != rank)
            weir_plan_wait(row->to[peer], block, WEIR_PLAN_AFTER);
}
