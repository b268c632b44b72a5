/*
 * The algorithm table: one row for each algorithm of each collective and backend. The first host
 * row and the first internode row of a collective must serve every size and kind of memory; on GPUs
 * the last kernel must. docs/developer/add-an-algorithm.md describes the fields.
 */
#include "coll/algos.h"

#include "coll/cuda/kernels.h"

#include <string.h>

/* X(collective, name, run, rounding, reproducible, needs_mapped, summary): rounding, reproducible
 * and needs_mapped are those of weir_algo_info. */
#define HOST_ALGOS(X)                                                                              \
    X(ALLREDUCE, "packet", weiri_allreduce_packet, ONCE, 1, 0,                                     \
      "publish the input, reduce all inputs; one latency, small sizes")                            \
    X(ALLREDUCE, "packet2", weiri_allreduce_packet2, ONCE, 1, 0,                                   \
      "reduce a share, gather the shares, through scratch memory; unregistered memory")            \
    X(ALLREDUCE, "dynamic", weiri_allreduce_dynamic, ONCE, 1, 0,                                   \
      "the same; faster ranks reduce more; long unregistered memory")                              \
    X(ALLREDUCE, "fused", weiri_allreduce_fused, ONCE, 1, 1,                                       \
      "read a share of all inputs, reduce it, write it to all; registered memory")                 \
    X(ALLREDUCE, "numa", weiri_allreduce_numa, ONCE, 1, 1,                                         \
      "the same within each NUMA node, partial results between them; registered memory")           \
    X(ALLREDUCE, "ring", weiri_allreduce_ring, PER_RANK, 0, 0,                                     \
      "partial sums from rank to rank, through scratch memory")                                    \
    X(REDUCE_SCATTER, "packet", weiri_reduce_scatter_packet, ONCE, 1, 0,                           \
      "publish the input, reduce one block of all inputs")                                         \
    X(REDUCE_SCATTER, "direct", weiri_reduce_scatter_direct, ONCE, 1, 1,                           \
      "reduce one block from all ranks' registered memory")                                        \
    X(ALLGATHER, "packet", weiri_allgather_packet, ONCE, 1, 0,                                     \
      "publish the input, copy all inputs")                                                        \
    X(ALLGATHER, "direct", weiri_allgather_direct, ONCE, 1, 1, "copy from registered memory")      \
    X(ALLGATHER, "cma", weiri_allgather_cma, ONCE, 1, 0,                                           \
      "the kernel copies from the peers' buffers; unregistered memory")                            \
    X(BROADCAST, "packet", weiri_broadcast_packet, ONCE, 1, 0,                                     \
      "the root publishes, the others copy")                                                       \
    X(BROADCAST, "direct", weiri_broadcast_direct, ONCE, 1, 1,                                     \
      "copy from the root's registered memory")                                                    \
    X(BROADCAST, "cma", weiri_broadcast_cma, ONCE, 1, 0,                                           \
      "the kernel copies from the root's buffer; unregistered memory")                             \
    X(REDUCE, "packet", weiri_reduce_packet, ONCE, 1, 0,                                           \
      "publish the input, the root reduces all inputs")                                            \
    X(REDUCE, "direct", weiri_reduce_direct, ONCE, 1, 1,                                           \
      "each reduces a share into the root's registered memory")                                    \
    X(REDUCE, "packet2", weiri_reduce_packet2, ONCE, 1, 0,                                         \
      "reduce a share, the root gathers the shares, through scratch memory; unregistered memory")  \
    X(REDUCE, "chain", weiri_reduce_chain, ONCE, 1, 0,                                             \
      "partial results from rank to rank, through scratch memory; long unregistered memory")       \
    X(REDUCE, "dynamic", weiri_reduce_dynamic, ONCE, 1, 0,                                         \
      "like packet2; faster ranks reduce more; long unregistered memory")                          \
    X(ALLTOALL, "packet", weiri_exchange_packet, ONCE, 1, 0, "messages through scratch memory")    \
    X(ALLTOALL, "direct", weiri_exchange_direct, ONCE, 1, 1, "copy from registered memory")        \
    X(ALLTOALL, "cma", weiri_exchange_cma, ONCE, 1, 0,                                             \
      "the kernel copies from the peers' buffers; unregistered memory")                            \
    X(ALLTOALLV, "packet", weiri_exchange_packet, ONCE, 1, 0, "messages through scratch memory")   \
    X(ALLTOALLV, "direct", weiri_exchange_direct, ONCE, 1, 1, "copy from registered memory")       \
    X(ALLTOALLV, "cma", weiri_exchange_cma, ONCE, 1, 0,                                            \
      "the kernel copies from the peers' buffers; unregistered memory")                            \
    X(SENDRECV, "packet", weiri_exchange_packet, ONCE, 1, 0, "messages through scratch memory")    \
    X(SENDRECV, "direct", weiri_exchange_direct, ONCE, 1, 1, "copy from registered memory")        \
    X(SENDRECV, "cma", weiri_exchange_cma, ONCE, 1, 0,                                             \
      "the kernel copies from the peers' buffers; unregistered memory")

/* X(collective, name, run, rounding, GPU phases from, summary): between nodes; see coll/internode/.
 * Phases on GPUs are faster if they take less time than the copies that they save: in allreduce and
 * reduce_scatter from about 128 KiB on, in reduce, whose root copies everything anyway, never. */
#define NEVER SIZE_MAX
#define INTERNODE_ALGOS(X)                                                                         \
    X(ALLREDUCE, "rails", weiri_internode_coll_allreduce_rails, PER_NODE, 128 << 10,               \
      "reduce-scatter in each node, exchange of partial results, allgather in each node")          \
    X(ALLREDUCE, "packet", weiri_internode_coll_relay, ONCE, NEVER,                                \
      "one message between two nodes; small sizes")                                                \
    X(ALLREDUCE, "doubling", weiri_internode_coll_allreduce_doubling, PER_NODE, NEVER,             \
      "leaders by recursive doubling; small sizes, many nodes")                                    \
    X(ALLREDUCE, "halving", weiri_internode_coll_allreduce_halving, PER_NODE, NEVER,               \
      "rails by recursive halving and doubling (Rabenseifner); many nodes")                        \
    X(ALLREDUCE, "ring", weiri_internode_coll_allreduce_ring, PER_NODE, NEVER,                     \
      "rails around a ring of nodes; many nodes")                                                  \
    X(ALLREDUCE, "trees", weiri_internode_coll_allreduce_trees, PER_NODE, NEVER,                   \
      "rails up and down two binary trees; many nodes")                                            \
    X(REDUCE_SCATTER, "rails", weiri_internode_coll_reduce_scatter_rails, PER_NODE, 128 << 10,     \
      "reduce in each node for each rank of other nodes, send it the result")                      \
    X(REDUCE_SCATTER, "packet", weiri_internode_coll_relay, ONCE, NEVER,                           \
      "one message between two nodes; small sizes")                                                \
    X(REDUCE_SCATTER, "halving", weiri_internode_coll_reduce_scatter_halving, PER_NODE, NEVER,     \
      "leaders by recursive halving; small sizes, many nodes")                                     \
    X(ALLGATHER, "rails", weiri_internode_coll_allgather_rails, ONCE, 0,                           \
      "send the input to each node, distribute it there")                                          \
    X(ALLGATHER, "packet", weiri_internode_coll_relay, ONCE, NEVER,                                \
      "one message between two nodes; small sizes")                                                \
    X(ALLGATHER, "bruck", weiri_internode_coll_allgather_bruck, ONCE, NEVER,                       \
      "leaders by Bruck's algorithm; small sizes, many nodes")                                     \
    X(ALLGATHER, "ring", weiri_internode_coll_allgather_ring, ONCE, NEVER,                         \
      "rails around a ring of nodes; many nodes")                                                  \
    X(BROADCAST, "rails", weiri_internode_coll_broadcast_rails, ONCE, 0,                           \
      "ranks of the root's node send chunks in rotation, broadcast in each node")                  \
    X(BROADCAST, "binomial", weiri_internode_coll_broadcast_binomial, ONCE, NEVER,                 \
      "a binomial tree of nodes; small sizes, many nodes")                                         \
    X(BROADCAST, "scatter", weiri_internode_coll_broadcast_scatter, ONCE, NEVER,                   \
      "rails scatter and gather around a ring of nodes; many nodes")                               \
    X(REDUCE, "rails", weiri_internode_coll_reduce_rails, PER_NODE, NEVER,                         \
      "reduce in each node, the root combines the results")                                        \
    X(REDUCE, "binomial", weiri_internode_coll_reduce_binomial, PER_NODE, NEVER,                   \
      "a binomial tree of nodes; many nodes")                                                      \
    X(ALLTOALL, "pairs", weiri_internode_coll_pairs, ONCE, 0, "messages between pairs of ranks")   \
    X(ALLTOALL, "packet", weiri_internode_coll_relay, ONCE, NEVER,                                 \
      "one message between two nodes; small sizes")                                                \
    X(ALLTOALL, "bruck", weiri_internode_coll_alltoall_bruck, ONCE, NEVER,                         \
      "leaders by Bruck's algorithm; small sizes, many nodes")                                     \
    X(ALLTOALL, "pairwise", weiri_internode_coll_pairwise, ONCE, NEVER,                            \
      "one pair of ranks at a time; many nodes")                                                   \
    X(ALLTOALLV, "pairs", weiri_internode_coll_pairs, ONCE, 0,                                     \
      "messages between pairs of ranks, short blocks of two nodes in one")                         \
    X(ALLTOALLV, "pairwise", weiri_internode_coll_pairwise, ONCE, NEVER,                           \
      "one pair of ranks at a time; many nodes")                                                   \
    X(SENDRECV, "pairs", weiri_internode_coll_pairs, ONCE, 0, "messages between pairs of ranks")

/* X(collective, name, kernel, summary): GPU kernels of coll/cuda/. The last row of a collective
 * serves every call. */
#if WEIR_HAVE_CUDA
#define CUDA_ALGOS(X)                                                                              \
    X(ALLREDUCE, "packet", allreduce_packet,                                                       \
      "send the input to all as LL packets, reduce all inputs; one latency")                       \
    X(ALLREDUCE, "ll128_one", allreduce_ll128_one, "the same by LL128 lines")                      \
    X(ALLREDUCE, "ll128", ll128, "reduce a share, gather the shares, both by LL128 lines")         \
    X(ALLREDUCE, "ring", reduce_ring, "partial results, then results, around a ring of ranks")     \
    X(ALLREDUCE, "push", push, "store shares into staging buffers, reduce, store to all")          \
    X(REDUCE_SCATTER, "packet", reduce_scatter_packet, "send each rank its block as LL packets")   \
    X(REDUCE_SCATTER, "ll128", ll128, "the same by LL128 lines")                                   \
    X(REDUCE_SCATTER, "ring", reduce_ring, "partial results around a ring of ranks")               \
    X(REDUCE_SCATTER, "push", push, "store blocks into staging buffers, reduce there")             \
    X(REDUCE_SCATTER, "direct", reduce_scatter_direct, "read and reduce one block of all inputs")  \
    X(REDUCE, "packet", reduce_packet, "send the input to the root as LL packets")                 \
    X(REDUCE, "ll128", ll128, "reduce a share, send it to the root, by LL128 lines")               \
    X(REDUCE, "ll128_chain", reduce_ll128_chain,                                                   \
      "partial results from rank to rank, by LL128 lines")                                         \
    X(REDUCE, "chain", reduce_chain, "partial results from rank to rank, through staging buffers") \
    X(REDUCE, "push", push, "store shares into staging buffers, reduce, store at the root")        \
    X(ALLGATHER, "packet", allgather_packet, "send the input to all as LL packets")                \
    X(ALLGATHER, "ll128", allgather_ll128, "the same by LL128 lines")                              \
    X(ALLGATHER, "ring", allgather_ring, "blocks around a ring of ranks")                          \
    X(ALLGATHER, "direct", allgather_direct, "write the input into all outputs")                   \
    X(ALLGATHER, "exchange", exchange_direct, "as messages to every rank; unregistered memory")    \
    X(BROADCAST, "packet", broadcast_packet, "the root sends LL packets to all")                   \
    X(BROADCAST, "ll128", broadcast_ll128, "the root scatters, all forward, by LL128 lines")       \
    X(BROADCAST, "chain", broadcast_chain, "pieces from rank to rank")                             \
    X(BROADCAST, "direct", broadcast_direct, "the root scatters, all write into all outputs")      \
    X(ALLTOALL, "packet", exchange_packet, "blocks as LL packets")                                 \
    X(ALLTOALL, "ll128", exchange_ll128, "the same by LL128 lines")                                \
    X(ALLTOALL, "rotation", alltoall_rotation, "blocks to one peer after the other")               \
    X(ALLTOALL, "direct", exchange_direct, "short blocks as LL packets, long ones stored")         \
    X(ALLTOALLV, "packet", exchange_short, "blocks as LL packets")                                 \
    X(ALLTOALLV, "direct", exchange_direct, "short blocks as LL packets, long ones stored")        \
    X(SENDRECV, "packet", exchange_short, "a block as LL packets")                                 \
    X(SENDRECV, "direct", exchange_direct, "a short block as LL packets, a long one stored")
/* X(collective, name, run, summary): copy engines, driven by the host. */
#define COPY_ENGINE_ALGOS(X)                                                                       \
    X(ALLGATHER, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory")             \
    X(ALLTOALL, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory")              \
    X(ALLREDUCE, "ce", weiri_cuda_allreduce_ce,                                                    \
      "copy engines exchange and gather, kernels reduce meanwhile; symmetric memory")
#else
#define CUDA_ALGOS(X)
#define COPY_ENGINE_ALGOS(X)
#endif

/* Two arrays in the same order: the public description and the functions. */
static const weir_algo_info infos[] = {
#define INFO(collective, name, backend, summary, max_ranks, rounding, reproducible, needs_mapped)  \
    {WEIR_COLL_##collective,   name,         WEIR_ALGO_##backend, summary, 2, max_ranks,           \
     WEIR_ROUNDING_##rounding, reproducible, needs_mapped},
#define ROW(collective, name, run, rounding, reproducible, needs_mapped, summary)                  \
    INFO(collective, name, HOST, summary, WEIRI_RANKS_MAX, rounding, reproducible, needs_mapped)
    HOST_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, rounding, from_bytes, summary)                                  \
    INFO(collective, name, INTERNODE, summary, WEIRI_RANKS_MAX, rounding, 1, 0)
        INTERNODE_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, kernel, summary)                                                     \
    INFO(collective, name, CUDA, summary, WEIRI_GPU_RANKS_MAX, ONCE, 1, 0)
            CUDA_ALGOS(ROW) COPY_ENGINE_ALGOS(ROW)
#undef ROW
#undef INFO
};

#define GPU_ROW(kernel)                                                                            \
    &(const weiri_gpu_algo)                                                                        \
    {                                                                                              \
        weiri_gpu_##kernel##_kernel, weiri_gpu_##kernel##_shape, weiri_gpu_##kernel##_serves       \
    }

const weiri_algo weiri_algo_table[] = {
#define ROW(collective, name, run, rounding, reproducible, needs_mapped, summary)                  \
    {WEIR_COLL_##collective, name, WEIR_ALGO_HOST, run, NULL, 0},
    HOST_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, rounding, from_bytes, summary)                                  \
    {WEIR_COLL_##collective, name, WEIR_ALGO_INTERNODE, run, NULL, from_bytes},
        INTERNODE_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, kernel, summary)                                                     \
    {WEIR_COLL_##collective, name, WEIR_ALGO_CUDA, weiri_cuda_run, GPU_ROW(kernel), 0},
            CUDA_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, summary)                                                        \
    {WEIR_COLL_##collective, name, WEIR_ALGO_CUDA, run, NULL, 0},
                COPY_ENGINE_ALGOS(ROW)
#undef ROW
};

const size_t weiri_algo_table_rows = sizeof weiri_algo_table / sizeof *weiri_algo_table;

const char *weir_algo_backend_name(weir_algo_backend backend)
{
    static const char *const names[] = {"host", "cuda", "net"};
    return (unsigned)backend < WEIR_ALGO_BACKENDS ? names[backend] : NULL;
}

const weir_algo_info *weir_algo_info_find(weir_algo_backend backend, weir_collective collective,
                                          const char *name)
{
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < weiri_algo_table_rows; i++)
        if (infos[i].backend == backend && infos[i].collective == collective &&
            strlen(infos[i].name) == length && memcmp(infos[i].name, name, length) == 0)
            return &infos[i];
    return NULL;
}

const weir_algo_info *weir_algo_list(size_t *count)
{
    *count = weiri_algo_table_rows;
    return infos;
}
