/*
 * The algorithm table: the rows of all algorithms. A row is in the file of its algorithm; those of
 * GPU kernels, whose files are compiled for GPUs, are here. The first host row and the first
 * internode row of a collective must serve every size and kind of memory; on GPUs the last kernel
 * must. weir_algo_info (weir/weir.h) and weiri_algo (task.h) describe the fields of a row;
 * docs/developer/add-an-algorithm.md shows how to add one.
 */
#include "coll/algos.h"

#include "coll/cuda/kernels.h"

#include <pthread.h>
#include <string.h>

#if WEIR_HAVE_CUDA
/* A row of a kernel; of one that does not combine in rank order, and what does it then; and of an
 * algorithm that the host drives with copy engines. */
#define KERNEL(which, algo, kernel, text) ORDERED(which, algo, kernel, text, NULL)
#define ORDERED(which, algo, kernel, text, instead)                                                \
    &(const weiri_algo)                                                                            \
    {                                                                                              \
        .info = {WEIRI_TRAITS(which, algo, CUDA, text, WEIRI_GPU_RANKS_MAX), .in_order = instead}, \
        .run = weiri_cuda_run, .gpu = &(const weiri_gpu_algo)                                      \
        {                                                                                          \
            weiri_gpu_##kernel##_kernel, weiri_gpu_##kernel##_shape, weiri_gpu_##kernel##_serves   \
        }                                                                                          \
    }
#define COPY_ENGINE(which, algo, function, text)                                                   \
    &(const weiri_algo)                                                                            \
    {                                                                                              \
        .info = {WEIRI_TRAITS(which, algo, CUDA, text, WEIRI_GPU_RANKS_MAX)}, .run = function      \
    }
#endif

const weiri_algo *const weiri_algo_table[] = {
    &weiri_host_allreduce_packet_row,
    &weiri_host_allreduce_packet2_row,
    &weiri_host_allreduce_dynamic_row,
    &weiri_host_allreduce_fused_row,
    &weiri_host_allreduce_numa_row,
    &weiri_host_reduce_scatter_packet_row,
    &weiri_host_reduce_scatter_direct_row,
    &weiri_host_allgather_packet_row,
    &weiri_host_allgather_direct_row,
    &weiri_host_allgather_cma_row,
    &weiri_host_broadcast_packet_row,
    &weiri_host_broadcast_direct_row,
    &weiri_host_broadcast_cma_row,
    &weiri_host_reduce_packet_row,
    &weiri_host_reduce_direct_row,
    &weiri_host_reduce_packet2_row,
    &weiri_host_reduce_chain_row,
    &weiri_host_reduce_dynamic_row,
    &weiri_host_alltoall_packet_row,
    &weiri_host_alltoall_direct_row,
    &weiri_host_alltoall_cma_row,
    &weiri_host_alltoallv_packet_row,
    &weiri_host_alltoallv_direct_row,
    &weiri_host_alltoallv_cma_row,
    &weiri_host_sendrecv_packet_row,
    &weiri_host_sendrecv_direct_row,
    &weiri_host_sendrecv_cma_row,
    &weiri_net_allreduce_rails_row,
    &weiri_net_allreduce_packet_row,
    &weiri_net_allreduce_doubling_row,
    &weiri_net_allreduce_halving_row,
    &weiri_net_allreduce_ring_row,
    &weiri_net_allreduce_trees_row,
    &weiri_net_reduce_scatter_rails_row,
    &weiri_net_reduce_scatter_packet_row,
    &weiri_net_reduce_scatter_halving_row,
    &weiri_net_allgather_rails_row,
    &weiri_net_allgather_packet_row,
    &weiri_net_allgather_bruck_row,
    &weiri_net_allgather_ring_row,
    &weiri_net_broadcast_rails_row,
    &weiri_net_broadcast_binomial_row,
    &weiri_net_broadcast_scatter_row,
    &weiri_net_reduce_rails_row,
    &weiri_net_reduce_packet_row,
    &weiri_net_reduce_binomial_row,
    &weiri_net_alltoall_pairs_row,
    &weiri_net_alltoall_packet_row,
    &weiri_net_alltoall_bruck_row,
    &weiri_net_alltoall_pairwise_row,
    &weiri_net_alltoallv_pairs_row,
    &weiri_net_alltoallv_pairwise_row,
    &weiri_net_sendrecv_pairs_row,
#if WEIR_HAVE_CUDA
    KERNEL(ALLREDUCE, "packet", allreduce_packet,
           "send the input to all as LL packets, reduce all inputs; one latency"),
    KERNEL(ALLREDUCE, "ll128_one", allreduce_ll128_one, "the same by LL128 lines"),
    KERNEL(ALLREDUCE, "ll128", ll128, "reduce a share, gather the shares, both by LL128 lines"),
    ORDERED(ALLREDUCE, "ring", reduce_ring, "partial results, then results, around a ring of ranks",
            "push"),
    KERNEL(ALLREDUCE, "push", push, "store shares into staging buffers, reduce, store to all"),
    KERNEL(REDUCE_SCATTER, "packet", reduce_scatter_packet,
           "send each rank its block as LL packets"),
    KERNEL(REDUCE_SCATTER, "ll128", ll128, "the same by LL128 lines"),
    ORDERED(REDUCE_SCATTER, "ring", reduce_ring, "partial results around a ring of ranks", "push"),
    KERNEL(REDUCE_SCATTER, "push", push, "store blocks into staging buffers, reduce there"),
    KERNEL(REDUCE_SCATTER, "direct", reduce_scatter_direct,
           "read and reduce one block of all inputs"),
    KERNEL(REDUCE, "packet", reduce_packet, "send the input to the root as LL packets"),
    KERNEL(REDUCE, "ll128", ll128, "reduce a share, send it to the root, by LL128 lines"),
    ORDERED(REDUCE, "ll128_chain", reduce_ll128_chain,
            "partial results from rank to rank, by LL128 lines", "ll128"),
    ORDERED(REDUCE, "chain", reduce_chain,
            "partial results from rank to rank, through staging buffers", "push"),
    KERNEL(REDUCE, "push", push, "store shares into staging buffers, reduce, store at the root"),
    KERNEL(ALLGATHER, "packet", allgather_packet, "send the input to all as LL packets"),
    KERNEL(ALLGATHER, "ll128", allgather_ll128, "the same by LL128 lines"),
    KERNEL(ALLGATHER, "ring", allgather_ring, "blocks around a ring of ranks"),
    KERNEL(ALLGATHER, "direct", allgather_direct, "write the input into all outputs"),
    KERNEL(ALLGATHER, "exchange", exchange_direct,
           "as messages to every rank; unregistered memory"),
    KERNEL(BROADCAST, "packet", broadcast_packet, "the root sends LL packets to all"),
    KERNEL(BROADCAST, "ll128", broadcast_ll128, "the root scatters, all forward, by LL128 lines"),
    KERNEL(BROADCAST, "chain", broadcast_chain, "pieces from rank to rank"),
    KERNEL(BROADCAST, "direct", broadcast_direct, "the root scatters, all write into all outputs"),
    KERNEL(ALLTOALL, "packet", exchange_packet, "blocks as LL packets"),
    KERNEL(ALLTOALL, "ll128", exchange_ll128, "the same by LL128 lines"),
    KERNEL(ALLTOALL, "rotation", alltoall_rotation, "blocks to one peer after the other"),
    KERNEL(ALLTOALL, "direct", exchange_direct, "short blocks as LL packets, long ones stored"),
    KERNEL(ALLTOALLV, "packet", exchange_short, "blocks as LL packets"),
    KERNEL(ALLTOALLV, "direct", exchange_direct, "short blocks as LL packets, long ones stored"),
    KERNEL(SENDRECV, "packet", exchange_short, "a block as LL packets"),
    KERNEL(SENDRECV, "direct", exchange_direct, "a short block as LL packets, a long one stored"),
    COPY_ENGINE(ALLGATHER, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory"),
    COPY_ENGINE(ALLTOALL, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory"),
    COPY_ENGINE(BROADCAST, "ce", weiri_cuda_copy_engine, "copy engines write; symmetric memory"),
    COPY_ENGINE(ALLREDUCE, "ce", weiri_cuda_allreduce_ce,
                "copy engines exchange and gather, kernels reduce meanwhile; symmetric memory"),
#endif
};

enum { ROWS = sizeof weiri_algo_table / sizeof *weiri_algo_table };
const size_t weiri_algo_table_rows = ROWS;

/* What users see of the rows, which weir_algo_list returns as one array. */
static weir_algo_info infos[ROWS];
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void infos_fill(void)
{
    for (size_t i = 0; i < ROWS; i++)
        infos[i] = weiri_algo_table[i]->info;
}

const char *weir_algo_backend_name(weir_algo_backend backend)
{
    static const char *const names[] = {"host", "cuda", "net"};
    return (unsigned)backend < WEIR_ALGO_BACKENDS ? names[backend] : NULL;
}

const weir_algo_info *weir_algo_info_find(weir_algo_backend backend, weir_collective collective,
                                          const char *name)
{
    size_t length = strcspn(name, ":");
    pthread_once(&infos_once, infos_fill);
    for (size_t i = 0; i < ROWS; i++)
        if (infos[i].backend == backend && infos[i].collective == collective &&
            strlen(infos[i].name) == length && memcmp(infos[i].name, name, length) == 0)
            return &infos[i];
    return NULL;
}

const weir_algo_info *weir_algo_list(size_t *count)
{
    pthread_once(&infos_once, infos_fill);
    *count = ROWS;
    return infos;
}
