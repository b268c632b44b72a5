/*
 * The splits of a pairwise collective: what a rank exchanges with each peer. They come from the
 * host in the launch's arguments, or from arrays in device memory, which the caller's own kernels
 * may have written and nobody has checked. A split that reaches beyond its buffer is rejected here,
 * before any data moves: it is replaced by an empty one, recorded for the report, and the
 * communicator is aborted. Hence no address computed from a pair lies outside this rank's buffers;
 * and since a sender stores only where the receiver's checked pair says, none lies outside a
 * peer's.
 */
#ifndef WEIR_COLL_CUDA_SPLITS_CUH
#define WEIR_COLL_CUDA_SPLITS_CUH

#include "coll/cuda/device/protocol.cuh"

/* Offset that marks a rejected split. */
#define WEIRI_GPU_REFUSED (~(uint64_t)0)

/* The end of a split in bytes, saturated at 2^64 - 1. */
WEIRI_GPU_FN uint64_t weiri_gpu_saturated_bytes(uint64_t displ, uint64_t count, uint64_t each)
{
    uint64_t most = ~(uint64_t)0 / each;
    return displ > most || count > most - displ ? ~(uint64_t)0 : (displ + count) * each;
}

/* Checks and converts one split of a buffer of `elements` elements into bytes. kind: WEIR_WAIT_SEND
 * or WEIR_WAIT_RECV. */
WEIRI_GPU_FN void weiri_gpu_check_split(const weiri_gpu_args &args, int peer, uint64_t kind,
                                        uint64_t count, uint64_t displ, uint64_t elements,
                                        uint64_t *at, uint64_t *bytes)
{
    uint64_t each = args.element_bytes;
    if (!count || (displ <= elements && count <= elements - displ)) {
        *at = count ? displ * each : 0;
        *bytes = count * each;
        return;
    }
    *at = WEIRI_GPU_REFUSED;
    *bytes = 0;
    if (!blockIdx.x) /* block 0 reports for all blocks */
        weiri_gpu_fail(args.view, WEIR_ERR_INVALID, peer, kind, elements * each,
                       weiri_gpu_saturated_bytes(displ, count, each));
}

/* An allgather as messages: the same input for everyone, and nothing for this rank if its input is
 * in place. */
WEIRI_GPU_FN weiri_gpu_pair weiri_gpu_allgather_pair(const weiri_gpu_args &args, int peer)
{
    const uint64_t at = (uint64_t)peer * args.bytes;
    const int in_place = peer == args.view.rank && args.out + at == args.in;
    return in_place ? weiri_gpu_pair{0, 0, 0, 0} : weiri_gpu_pair{0, args.bytes, at, args.bytes};
}

/* What this rank exchanges with a peer, itself included. */
WEIRI_GPU_FN weiri_gpu_pair weiri_gpu_load_pair(const weiri_gpu_args &args, int peer)
{
    const weiri_gpu_counts &counts = args.counts;
    if (args.collective == WEIR_COLL_ALLGATHER)
        return weiri_gpu_allgather_pair(args, peer);
    if (!counts.send_counts)
        return args.pairs[peer];
    /* all four loads are in flight at once */
    uint64_t send = counts.send_counts[peer], send_at = counts.send_displs[peer];
    uint64_t recv = counts.recv_counts[peer], recv_at = counts.recv_displs[peer];
    weiri_gpu_pair pair;
    weiri_gpu_check_split(args, peer, WEIR_WAIT_SEND, send, send_at, counts.in_elements,
                          &pair.send_at, &pair.send_bytes);
    weiri_gpu_check_split(args, peer, WEIR_WAIT_RECV, recv, recv_at, counts.out_elements,
                          &pair.recv_at, &pair.recv_bytes);
    return pair;
}

#endif
