/*
 * What a rank exchanges with each other one in a pairwise collective: as the host
 * says it in the launch's arguments, or as arrays in device memory say it, which a
 * kernel of the caller may have written and nobody has checked. A split that ends
 * behind its buffer is refused here, before anything is moved: it becomes an empty
 * one, the rank's record says which it was, and the communicator is aborted. So no
 * address that a kernel computes from a pair lies outside of the rank's buffers,
 * and as a sender stores only where the receiver's checked pair says, none outside
 * of a peer's.
 */
#ifndef WEIR_COLL_CUDA_SPLITS_CUH
#define WEIR_COLL_CUDA_SPLITS_CUH

#include "coll/cuda/device/frame.cuh"

/* The place of a split that was refused. */
#define WEIRI_GPU_REFUSED (~(uint64_t)0)

/* Bytes of so many elements, as many as can be said. */
WEIRI_GPU_FN uint64_t weiri_gpu_said_bytes(uint64_t displ, uint64_t count, uint64_t each)
{
    uint64_t most = ~(uint64_t)0 / each;
    return displ > most || count > most - displ ? ~(uint64_t)0 : (displ + count) * each;
}

/* One split of a buffer of so many elements, in bytes. kind: WEIR_WAIT_SEND or _RECV. */
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
    if (!blockIdx.x) /* one says it for all */
        weiri_gpu_fail(args.view, WEIR_ERR_INVALID, peer, kind, elements * each,
                       weiri_gpu_said_bytes(displ, count, each));
}

/* What this rank exchanges with a peer, itself included. */
WEIRI_GPU_FN weiri_gpu_pair weiri_gpu_load_pair(const weiri_gpu_args &args, int peer)
{
    const weiri_gpu_counts &counts = args.counts;
    if (!counts.send_counts)
        return args.pairs[peer];
    /* All four loads are under way at once. */
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
