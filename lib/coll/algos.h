/* The rows of the algorithm table (table.c): each is defined in the file of its algorithm, which
 * describes it. Also, what several algorithms have in common. */
#ifndef WEIR_COLL_ALGOS_H
#define WEIR_COLL_ALGOS_H

#include "coll/coll.h"

/* The members of a row's info that all rows of a backend have in common, and the row's name and
 * text. A row that differs, or promises less, lists its members itself. */
#define WEIRI_TRAITS(which, called, where, text, most)                                             \
    .collective = WEIR_COLL_##which, .name = called, .backend = WEIR_ALGO_##where,                 \
    .summary = text, .min_ranks = 2, .max_ranks = most, .reproducible = 1
#define WEIRI_HOST_TRAITS(which, called, text)                                                     \
    WEIRI_TRAITS(which, called, HOST, text, WEIRI_RANKS_MAX)
#define WEIRI_NET_TRAITS(which, called, text)                                                      \
    WEIRI_TRAITS(which, called, INTERNODE, text, WEIRI_RANKS_MAX)

/* Ranks of one node, in host memory (coll/host/). */
extern const weiri_algo weiri_host_allreduce_packet_row, weiri_host_allreduce_packet2_row,
    weiri_host_allreduce_dynamic_row, weiri_host_allreduce_fused_row, weiri_host_allreduce_numa_row;
extern const weiri_algo weiri_host_reduce_scatter_packet_row, weiri_host_reduce_scatter_direct_row;
extern const weiri_algo weiri_host_allgather_packet_row, weiri_host_allgather_direct_row,
    weiri_host_allgather_cma_row;
extern const weiri_algo weiri_host_broadcast_packet_row, weiri_host_broadcast_direct_row,
    weiri_host_broadcast_cma_row;
extern const weiri_algo weiri_host_reduce_packet_row, weiri_host_reduce_direct_row,
    weiri_host_reduce_packet2_row, weiri_host_reduce_chain_row, weiri_host_reduce_dynamic_row;
extern const weiri_algo weiri_host_alltoall_packet_row, weiri_host_alltoall_direct_row,
    weiri_host_alltoall_cma_row;
extern const weiri_algo weiri_host_alltoallv_packet_row, weiri_host_alltoallv_direct_row,
    weiri_host_alltoallv_cma_row;
extern const weiri_algo weiri_host_sendrecv_packet_row, weiri_host_sendrecv_direct_row,
    weiri_host_sendrecv_cma_row;

/* Across nodes (coll/internode/). */
extern const weiri_algo weiri_net_allreduce_rails_row, weiri_net_allreduce_packet_row,
    weiri_net_allreduce_doubling_row, weiri_net_allreduce_halving_row, weiri_net_allreduce_ring_row,
    weiri_net_allreduce_trees_row;
extern const weiri_algo weiri_net_reduce_scatter_rails_row, weiri_net_reduce_scatter_packet_row,
    weiri_net_reduce_scatter_halving_row;
extern const weiri_algo weiri_net_allgather_rails_row, weiri_net_allgather_packet_row,
    weiri_net_allgather_bruck_row, weiri_net_allgather_ring_row;
extern const weiri_algo weiri_net_broadcast_rails_row, weiri_net_broadcast_binomial_row,
    weiri_net_broadcast_scatter_row;
extern const weiri_algo weiri_net_reduce_rails_row, weiri_net_reduce_packet_row,
    weiri_net_reduce_binomial_row;
extern const weiri_algo weiri_net_alltoall_pairs_row, weiri_net_alltoall_packet_row,
    weiri_net_alltoall_bruck_row, weiri_net_alltoall_pairwise_row;
extern const weiri_algo weiri_net_alltoallv_pairs_row, weiri_net_alltoallv_pairwise_row;
extern const weiri_algo weiri_net_sendrecv_pairs_row;

/* The allreduce "fused" after the descriptors of all ranks' buffers have been exchanged. */
weir_status weiri_allreduce_fused_posted(weiri_coll *coll, const weiri_task *task);
/* Exchanges descriptors, and runs an allreduce that needs all buffers mapped, or the algorithm that
 * serves other memory. */
weir_status weiri_allreduce_mapped(weiri_coll *coll, const weiri_task *task, weiri_algo_run run);

/* A call across nodes on GPU buffers: runs the selected algorithm, on copies in host memory as far
 * as necessary. Blocks: first until the stream's earlier work has ended, then until the output is
 * complete. */
weir_status weiri_internode_coll_gpu(weiri_coll *coll, const weiri_task *task);

/* GPUs of one node: launches the kernel of the selected algorithm. If that has none, as copy
 * engines have, or does not serve the call, the last one that is selected for shorter calls and
 * serves it, else the collective's general one. With WEIR_BLOCKS_ZERO, copy engines serve
 * the call if they can. Does not block. */
weir_status weiri_cuda_run(weiri_coll *coll, const weiri_task *task);

/* GPUs of one node: the same with copy engines; without symmetric memory, the general kernel. */
weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weiri_task *task);
weir_status weiri_cuda_allreduce_ce(weiri_coll *coll, const weiri_task *task);

/* Runs another algorithm than the selected one, and records its name for weir_comm_last_algo. */
static inline weir_status weiri_algo_fall_back(weiri_coll *coll, const weiri_task *task,
                                               const weiri_algo *algo)
{
    coll->last_algo = algo->info.name;
    return algo->run(coll, task);
}

/* For algorithms that need buffers which peers can map, when this rank has found out that some are
 * not, as all ranks do: runs what the tuning table has for unregistered memory; where that is "cma"
 * and the ranks may not read each other's memory, the collective's first algorithm. That algorithm
 * begins with the current epoch, whose descriptors are in other parts of the areas. */
weir_status weiri_algo_fall_back_plain(weiri_coll *coll, const weiri_task *task);

#endif
