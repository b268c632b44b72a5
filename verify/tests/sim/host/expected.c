/*
 * Closed forms, with which the counts of a simulation are compared.
 *
 * n ranks, S bytes. Sizes are multiples of n lines, so that shares are equal.
 */
#include "verify/tests/sim/host/run.h"

#include <string.h>

/* Each pair's bytes: a block, or the whole. */
static uint64_t pairs_bytes(uint64_t each, int nranks)
{
    return (uint64_t)nranks * (uint64_t)(nranks - 1) * each;
}

/* Within each node a reduction and a copy of shares; between nodes loads and stores of partial
 * results. Nodes have equal numbers of ranks. */
static uint64_t numa_bytes(uint64_t size, int nranks)
{
    const uint64_t nodes = (uint64_t)sim.machine.nnodes, each = (uint64_t)nranks / nodes;
    return 2 * nodes * (each - 1) * size + 2 * (nodes - 1) * size;
}

static uint64_t allreduce_bytes(const char *algo, uint64_t size, int nranks)
{
    const uint64_t share = size / (uint64_t)nranks;
    if (strcmp(algo, "packet") == 0)
        return pairs_bytes(size, nranks);
    if (strcmp(algo, "fused") == 0 || strcmp(algo, "packet2") == 0)
        return 2 * pairs_bytes(share, nranks); /* loads and stores; loads twice */
    if (strcmp(algo, "numa") == 0)
        return numa_bytes(size, nranks);
    return UINT64_MAX; /* dynamic: who reduces what depends on time */
}

static uint64_t reduce_bytes(const char *algo, uint64_t size, int nranks)
{
    const uint64_t n = (uint64_t)nranks;
    if (strcmp(algo, "packet") == 0 || strcmp(algo, "chain") == 0)
        return (n - 1) * size;
    if (strcmp(algo, "packet2") == 0) /* n - 1 ranks reduce shares of n inputs; the root gathers */
        return (n - 1) * size + size;
    if (strcmp(algo, "direct") == 0) /* and all but the root store their share to it */
        return (n - 1) * size + (n - 1) * (size / n);
    return UINT64_MAX;
}

uint64_t sim_expected_bytes(weir_collective collective, const char *algo, uint64_t size_bytes,
                            int nranks)
{
    switch (collective) {
    case WEIR_COLL_ALLREDUCE:
        return allreduce_bytes(algo, size_bytes, nranks);
    case WEIR_COLL_REDUCE:
        return reduce_bytes(algo, size_bytes, nranks);
    case WEIR_COLL_BROADCAST:
        return (uint64_t)(nranks - 1) * size_bytes;
    case WEIR_COLL_ALLGATHER:
    case WEIR_COLL_REDUCE_SCATTER:
    case WEIR_COLL_ALLTOALL:
        return pairs_bytes(size_bytes / (uint64_t)nranks, nranks);
    default:
        return UINT64_MAX;
    }
}

/* Every node needs what the others have, or a partial result of each of them. */
uint64_t sim_least_crossing(weir_collective collective, uint64_t size_bytes)
{
    const sim_machine *machine = &sim.machine;
    const uint64_t others = (uint64_t)machine->nnodes - 1;
    uint64_t pairs = 0;
    switch (collective) {
    case WEIR_COLL_ALLREDUCE:
        return 2 * others * size_bytes;
    case WEIR_COLL_ALLTOALL:
        for (int from = 0; from < machine->nranks; from++)
            for (int to = 0; to < machine->nranks; to++)
                pairs += machine->node_of[from] != machine->node_of[to];
        return pairs * (size_bytes / (uint64_t)machine->nranks);
    default:
        return others * size_bytes;
    }
}
