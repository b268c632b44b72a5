/*
 * The algorithm table: one row for each algorithm of each collective. The
 * first row of a collective must serve every size and kind of memory.
 */
#include "coll/algos.h"

#include "coll/cuda/kernels.h"

/* X(collective, name, run, summary) */
#define HOST_ALGOS(X)                                                                              \
    X(ALLREDUCE, "packet", weiri_allreduce_packet,                                                 \
      "publish the input, reduce everybody's; one latency, small sizes")                           \
    X(ALLREDUCE, "packet2", weiri_allreduce_packet2,                                               \
      "reduce a share, gather the shares, through scratch memory; plain memory")                   \
    X(ALLREDUCE, "fused", weiri_allreduce_fused,                                                   \
      "read a share of all, reduce it, write it to all; library memory")                           \
    X(ALLREDUCE, "ring", weiri_allreduce_ring,                                                     \
      "partial sums from rank to rank, through scratch memory")                                    \
    X(REDUCE_SCATTER, "packet", weiri_reduce_scatter_packet,                                       \
      "publish the input, reduce the own block of everybody's")                                    \
    X(REDUCE_SCATTER, "direct", weiri_reduce_scatter_direct,                                       \
      "reduce the own block from everybody's library memory")                                      \
    X(ALLGATHER, "packet", weiri_allgather_packet, "publish the input, copy everybody's")          \
    X(ALLGATHER, "direct", weiri_allgather_direct, "copy from everybody's library memory")         \
    X(BROADCAST, "packet", weiri_broadcast_packet, "the root publishes, the others follow")        \
    X(BROADCAST, "direct", weiri_broadcast_direct, "copy from the root's library memory")          \
    X(REDUCE, "packet", weiri_reduce_packet, "publish the input, the root reduces everybody's")    \
    X(REDUCE, "direct", weiri_reduce_direct,                                                       \
      "each reduces a share into the root's library memory")                                       \
    X(ALLTOALL, "packet", weiri_exchange_packet, "messages through scratch memory")                \
    X(ALLTOALL, "direct", weiri_exchange_direct, "copy from the sender's library memory")          \
    X(ALLTOALLV, "packet", weiri_exchange_packet, "messages through scratch memory")               \
    X(ALLTOALLV, "direct", weiri_exchange_direct, "copy from the sender's library memory")         \
    X(SENDRECV, "packet", weiri_exchange_packet, "messages through scratch memory")                \
    X(SENDRECV, "direct", weiri_exchange_direct, "copy from the sender's library memory")

/* X(collective, name, run, bridges from, summary); between machines, described in coll/net/.
 * Phases on GPUs pay where they are shorter than the copies that they save: allreduce and
 * reduce_scatter from about there on, reduce, whose root copies everything anyway, nowhere. */
#define NEVER SIZE_MAX
#define NET_ALGOS(X)                                                                               \
    X(ALLREDUCE, "rails", weiri_internode_coll_allreduce_rails, 128 << 10,                         \
      "reduce-scatter inside, exchange of partial results, allgather inside")                      \
    X(ALLREDUCE, "packet", weiri_internode_coll_relay, NEVER,                                      \
      "one message between two machines; small sizes")                                             \
    X(REDUCE_SCATTER, "rails", weiri_internode_coll_reduce_scatter_rails, 128 << 10,               \
      "reduce inside for each rank of other machines, send it the result")                         \
    X(REDUCE_SCATTER, "packet", weiri_internode_coll_relay, NEVER,                                 \
      "one message between two machines; small sizes")                                             \
    X(ALLGATHER, "rails", weiri_internode_coll_allgather_rails, 0,                                 \
      "send the input to each machine, spread what comes inside")                                  \
    X(ALLGATHER, "packet", weiri_internode_coll_relay, NEVER,                                      \
      "one message between two machines; small sizes")                                             \
    X(BROADCAST, "rails", weiri_internode_coll_broadcast_rails, 0,                                 \
      "chunks by turns from the root's machine, broadcast inside")                                 \
    X(REDUCE, "rails", weiri_internode_coll_reduce_rails, NEVER,                                   \
      "reduce inside, the root combines machines")                                                 \
    X(ALLTOALL, "pairs", weiri_internode_coll_pairs, 0, "messages between each two ranks")         \
    X(ALLTOALL, "packet", weiri_internode_coll_relay, NEVER,                                       \
      "one message between two machines; small sizes")                                             \
    X(ALLTOALLV, "pairs", weiri_internode_coll_pairs, 0,                                           \
      "messages between each two ranks, short blocks of two machines in one")                      \
    X(SENDRECV, "pairs", weiri_internode_coll_pairs, 0, "messages between each two ranks")

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
#define ROW(collective, name, run, summary)                                                        \
    {WEIR_COLL_##collective, name, "host", summary, 2, WEIRI_RANKS_MAX},
    HOST_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, from_bytes, summary)                                            \
    {WEIR_COLL_##collective, name, "net", summary, 2, WEIRI_RANKS_MAX},
    NET_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, kernel, summary)                                                     \
    {WEIR_COLL_##collective, name, "cuda", summary, 2, WEIRI_GPU_RANKS_MAX},
    CUDA_ALGOS(ROW) COPY_ENGINE_ALGOS(ROW)
#undef ROW
};

#define GPU_ROW(kernel)                                                                            \
    &(const weiri_gpu_algo)                                                                        \
    {                                                                                              \
        weiri_gpu_##kernel##_kernel, weiri_gpu_##kernel##_shape, weiri_gpu_##kernel##_serves       \
    }

const weiri_algo weiri_algo_table[] = {
#define ROW(collective, name, run, summary)                                                        \
    {WEIR_COLL_##collective, name, WEIR_BACKEND_HOST, run, NULL, 0},
    HOST_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, from_bytes, summary)                                            \
    {WEIR_COLL_##collective, name, WEIRI_BACKEND_INTERNODE, run, NULL, from_bytes},
    NET_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, kernel, summary)                                                     \
    {WEIR_COLL_##collective, name, WEIR_BACKEND_CUDA, weiri_cuda_run, GPU_ROW(kernel), 0},
    CUDA_ALGOS(ROW)
#undef ROW
#define ROW(collective, name, run, summary)                                                        \
    {WEIR_COLL_##collective, name, WEIR_BACKEND_CUDA, run, NULL, 0},
    COPY_ENGINE_ALGOS(ROW)
#undef ROW
};

const size_t weiri_algo_table_rows = sizeof weiri_algo_table / sizeof *weiri_algo_table;

const weir_algo_info *weir_algo_list(size_t *count)
{
    *count = weiri_algo_table_rows;
    return infos;
}
