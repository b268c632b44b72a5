/* The run functions of the algorithm table (table.c). Each is described in its own file; all are
 * collective and have the contract of weiri_algo_run. */
#ifndef WEIR_COLL_ALGOS_H
#define WEIR_COLL_ALGOS_H

#include "coll/coll.h"

weir_status weiri_allreduce_packet(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allreduce_packet2(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allreduce_dynamic(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allreduce_fused(weiri_coll *coll, const weiri_task *task);
/* The same after the descriptors of all ranks' buffers have been exchanged. */
weir_status weiri_allreduce_fused_posted(weiri_coll *coll, const weiri_task *task);
/* Exchanges descriptors, and runs an allreduce that needs all buffers mapped, or the algorithm that
 * serves other memory. */
weir_status weiri_allreduce_mapped(weiri_coll *coll, const weiri_task *task, weiri_algo_run run);
weir_status weiri_allreduce_numa(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allreduce_ring(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_scatter_packet(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_scatter_direct(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allgather_packet(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allgather_cma(weiri_coll *coll, const weiri_task *task);
weir_status weiri_allgather_direct(weiri_coll *coll, const weiri_task *task);
weir_status weiri_broadcast_packet(weiri_coll *coll, const weiri_task *task);
weir_status weiri_broadcast_cma(weiri_coll *coll, const weiri_task *task);
weir_status weiri_broadcast_direct(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_packet(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_packet2(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_dynamic(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_chain(weiri_coll *coll, const weiri_task *task);
weir_status weiri_reduce_direct(weiri_coll *coll, const weiri_task *task);
/* alltoall, alltoallv and sendrecv; task->pairs has the buffers and lengths. */
weir_status weiri_exchange_packet(weiri_coll *coll, const weiri_task *task);
weir_status weiri_exchange_cma(weiri_coll *coll, const weiri_task *task);
weir_status weiri_exchange_direct(weiri_coll *coll, const weiri_task *task);

/* Across nodes (coll/internode/). */
weir_status weiri_internode_coll_relay(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allreduce_rails(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allgather_rails(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_reduce_scatter_rails(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_broadcast_rails(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_reduce_rails(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_pairs(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allreduce_doubling(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allreduce_halving(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allreduce_ring(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allreduce_trees(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_reduce_scatter_halving(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allgather_bruck(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_allgather_ring(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_broadcast_binomial(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_broadcast_scatter(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_reduce_binomial(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_alltoall_bruck(weiri_coll *coll, const weiri_task *task);
weir_status weiri_internode_coll_pairwise(weiri_coll *coll, const weiri_task *task);

/* A call across nodes on GPU buffers: runs the selected algorithm, on copies in host memory as far
 * as necessary. Blocks: first until the stream's earlier work has ended, then until the output is
 * complete. */
weir_status weiri_internode_coll_gpu(weiri_coll *coll, const weiri_task *task);

/* GPUs of one node: launches the kernel of the selected algorithm. If that has none, as copy
 * engines have, or does not serve the call, the last one that is selected for shorter calls and
 * serves it, else the collective's general one. Does not block. */
weir_status weiri_cuda_run(weiri_coll *coll, const weiri_task *task);

/* GPUs of one node: the same with copy engines; without symmetric memory, the general kernel. */
weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weiri_task *task);
weir_status weiri_cuda_allreduce_ce(weiri_coll *coll, const weiri_task *task);

/* Runs another algorithm than the selected one, and records its name for weir_comm_last_algo. */
static inline weir_status weiri_algo_fall_back(weiri_coll *coll, const weiri_task *task,
                                               const char *name, weiri_algo_run run)
{
    coll->last_algo = name;
    return run(coll, task);
}

/* For algorithms that need buffers which peers can map, when this rank has found out that some are
 * not, as all ranks do: runs what the tuning table has for unregistered memory; where that is "cma"
 * and the ranks may not read each other's memory, the collective's first algorithm. That algorithm
 * begins with the current epoch, whose descriptors are in other parts of the areas. */
weir_status weiri_algo_fall_back_plain(weiri_coll *coll, const weiri_task *task);

#endif
