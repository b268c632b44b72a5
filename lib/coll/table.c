/*
 * The algorithm table: one row for each algorithm of each collective. The
 * first row of a collective must serve every size and kind of memory.
 */
#include "coll/algos.h"

#include "coll/cuda/kernels.h"

#include <string.h>

/* X(collective, name, run, rounding, reproducible, summary); the last but one are those of
 * weir_algo_info. */
#define HOST_ALGOS(X)                                                                              \
    X(ALLREDUCE, "packet", weiri_allreduce_packet, ONCE, 1,                                        \
      "publish the input, reduce everybody's; one latency, small sizes")                           \
    X(ALLREDUCE, "packet2", weiri_allreduce_packet2, ONCE, 1,                                      \
      "reduce a share, gather the shares, through scratch memory; plain memory")                   \
    X(ALLREDUCE, "fused", weiri_allreduce_fused, ONCE, 1,                                          \
      "read a share of all, reduce it, write it to all; library memory")                           \
    X(ALLREDUCE, "ring", weiri_allreduce_ring, PER_RANK, 0,                                        \
      "partial sums from rank to rank, through scratch memory")                                    \
    X(REDUCE_SCATTER, "packet", weiri_reduce_scatter_packet, ONCE, 1,                              \
      "publish the input, reduce the own block of everybody's")                                    \
    X(REDUCE_SCATTER, "direct", weiri_reduce_scatter_direct, ONCE, 1,                              \
      "reduce the own block from everybody's library memory")                                      \
    X(ALLGATHER, "packet", weiri_allgather_packet, ONCE, 1, "publish the input, copy everybody's") \
    X(ALLGATHER, "direct", weiri_allgather_direct, ONCE, 1,                                        \
      "copy from everybody's library memory")                                                      \
    X(BROADCAST, "packet", weiri_broadcast_packet, ONCE, 1,                                        \
      "the root publishes, the others follow")                                                     \
    X(BROADCAST, "direct", weiri_broadcast_direct, ONCE, 1, "copy from the root's library memory") \
    X(REDUCE, "packet", weiri_reduce_packet, ONCE, 1,                                              \
      "publish the input, the root reduces everybody's")                                           \
    X(REDUCE, "direct", weiri_reduce_direct, ONCE, 1,                                              \
      "each reduces a share into the root's library memory")                                       \
    X(ALLTOALL, "packet", weiri_exchange_packet, ONCE, 1, "messages through scratch memory")       \
    X(ALLTOALL, "direct", weiri_exchange_direct, ONCE, 1, "copy from the sender's library memory") \
    X(ALLTOALLV, "packet", weiri_exchange_packet, ONCE, 1, "messages through scratch memory")      \
    X(ALLTOALLV, "direct", weiri_exchange_direct, ONCE, 1,                                         \
      "copy from the sender's library memory")                                                     \
    X(SENDRECV, "packet", weiri_exchange_packet, ONCE, 1, "messages through scratch memory")       \
    X(SENDRECV, "direct", weiri_exchange_direct, ONCE, 1, "copy from the sender's library memory")

/* X(collective, name, run, rounding, bridges from, summary); between nodes, described in
 * coll/internode/. Phases on GPUs pay where they are shorter than the copies that they save:
 * allreduce and reduce_scatter from about there on, reduce, whose root copies everything anyway,
 * nowhere. */
#define NEVER SIZE_MAX
#define NET_ALGOS(X)                                                                               \
    X(ALLREDUCE, "rails", weiri_internode_coll_allreduce_rails, PER_NODE, 128 << 10,               \
      "reduce-scatter inside, exchange of partial results, allgather inside")                      \
    X(ALLREDUCE, "packet", weiri_internode_coll_relay, ONCE, NEVER,                                \
      "one message between two machines; small sizes")                                             \
    X(REDUCE_SCATTER, "rails", weiri_internode_coll_reduce_scatter_rails, PER_NODE, 128 << 10,     \
      "reduce inside for each rank of other machines, send it the result")                         \
    X(REDUCE_SCATTER, "packet", weiri_internode_coll_relay, ONCE, NEVER,                           \
      "one message between two machines; small sizes")                                             \
    X(ALLGATHER, "rails", weiri_internode_coll_allgather_rails, ONCE, 0,                           \
      "send the input to each machine, spread what comes inside")                                  \
    X(ALLGATHER, "packet", weiri_internode_coll_relay, ONCE, NEVER,                                \
      "one message between two machines; small sizes")                                             \
    X(BROADCAST, "rails", weiri_internode_coll_broadcast_rails, ONCE, 0,                           \
      "chunks by turns from the root's machine, broadcast inside")                                 \
    X(REDUCE, "rails", weiri_internode_coll_reduce_rails, PER_NODE, NEVER,                         \
      "reduce inside, the root combines machines")                                                 \
    X(ALLTOALL, "pairs", weiri_internode_coll_pairs, ONCE, 0, "messages between each two ranks")   \
    X(ALLTOALL, "packet", weiri_internode_coll_relay, ONCE, NEVER,                                 \
      "one message between two machines; small sizes")                                             \
    X(ALLTOALLV, "pairs", weiri_internode_coll_pairs, ONCE, 0,                                     \
      "messages between each two ranks, short blocks of two machines in one")                      \
    X(SENDRECV, "pairs", weiri_internode_coll_pairs, ONCE, 0, "messages between each two ranks")

/* X(collective, name, kernel, summary); kernels are described in coll/cuda/. The
 * last row of a collective serves every call. */
#if WEIR_HAVE_CUDA
#define CUDA_ALGOS(X)                                                                              \
    X(ALLREDUCE, "packet", allreduce_packet,                                                       \
      "send the input to all as packets, reduce everybody's; one latency")                         \
    X(ALLREDUCE, "ll128_one", allreduce_ll128_one, "as packet, by packets of 128 bytes")           \
    X(ALLREDUCE, "ll128", ll128,                                                                   \
      "reduce a share, gather the shares, both by packets of 128 bytes, 120 of data")              \
    X(ALLREDUCE, "push", push, "store shares into stages, reduce, store into all")                 \
    X(REDUCE_SCATTER, "packet", reduce_scatter_packet, "send everybody its block as packets")      \
    X(REDUCE_SCATTER, "ll128", ll128, "the same by packets of 128 bytes")                          \
    X(REDUCE_SCATTER, "push", push, "store blocks into stages, reduce what came into the own")     \
    X(REDUCE_SCATTER, "direct", reduce_scatter_direct, "read and reduce the own block of all")     \
    X(REDUCE, "packet", reduce_packet, "send the input to the root as packets")                    \
    X(REDUCE, "ll128", ll128, "reduce a share, send it to the root, by packets of 128 bytes")      \
    X(REDUCE, "chain", reduce_chain, "partial results from rank to rank, through stages")          \
    X(REDUCE, "push", push, "store shares into stages, reduce, store at the root")                 \
    X(ALLGATHER, "packet", allgather_packet, "send the input to all as packets")                   \
    X(ALLGATHER, "ll128", allgather_ll128, "the same by packets of 128 bytes, 120 of data")        \
    X(ALLGATHER, "direct", allgather_direct, "write the input into everybody's output")            \
    X(BROADCAST, "packet", broadcast_packet, "the root sends packets to all")                      \
    X(BROADCAST, "ll128", broadcast_ll128, "the root scatters, all send on, 128 bytes at a time")  \
    X(BROADCAST, "direct", broadcast_direct, "the root scatters, all write to all")                \
    X(ALLTOALL, "packet", exchange_packet, "blocks as packets")                                    \
    X(ALLTOALL, "ll128", exchange_ll128, "the same by packets of 128 bytes, 120 of data")          \
    X(ALLTOALL, "direct", exchange_direct, "short blocks as packets, long ones written directly")  \
    X(ALLTOALLV, "packet", exchange_short, "blocks as packets")                                    \
    X(ALLTOALLV, "direct", exchange_direct, "short blocks as packets, long ones written directly") \
    X(SENDRECV, "packet", exchange_short, "a block as packets")                                    \
    X(SENDRECV, "direct", exchange_direct, "a short block as packets, a long one written directly")
/* X(collective, name, run, summary); what the host drives, with copy engines. */
#define COPY_ENGINE_ALGOS(X)                                                                       \
    X(ALLGATHER, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory")             \
    X(ALLTOALL, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory")              \
    X(ALLREDUCE, "ce", weiri_cuda_allreduce_ce,                                                    \
      "copy engines exchange and gather, reduced beside; symmetric memory")
#else
#define CUDA_ALGOS(X)
#define COPY_ENGINE_ALGOS(X)
#endif

/* Two arrays of one order: what the public sees, and what runs. */
static const weir_algo_info infos[] = {
#define INFO(collective, name, backend, summary, max_ranks, rounding, reproducible)                \
    {WEIR_COLL_##collective, name,      WEIR_ALGO_##backend,      summary, 2,                      \
     max_ranks,              WEIR_ROUNDING_##rounding, reproducible},
#define ROW(collective, name, run, rounding, reproducible, summary)                                \
    INFO(collective, name, HOST, summary, WEIRI_RANKS_MAX, rounding, reproducible)
    HOST_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, rounding, from_bytes, summary)                                  \
    INFO(collective, name, INTERNODE, summary, WEIRI_RANKS_MAX, rounding, 1)
    NET_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, kernel, summary)                                                     \
    INFO(collective, name, CUDA, summary, WEIRI_GPU_RANKS_MAX, ONCE, 1)
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
#define ROW(collective, name, run, rounding, reproducible, summary)                                \
    {WEIR_COLL_##collective, name, WEIR_ALGO_HOST, run, NULL, 0},
    HOST_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, rounding, from_bytes, summary)                                  \
    {WEIR_COLL_##collective, name, WEIR_ALGO_INTERNODE, run, NULL, from_bytes},
    NET_ALGOS(ROW)
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
