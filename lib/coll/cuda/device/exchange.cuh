/*
 * Messages between pairs of ranks: what the kernels share, so that different ranks may run
 * different ones of them in the same call. Short messages travel as LL packets. In every launch
 * each rank sends every peer a header, which holds the length of its message and, if the message is
 * long, the number of lanes (sending blocks). The receiver compares it with what it expects.
 */
#ifndef WEIR_COLL_CUDA_EXCHANGE_CUH
#define WEIR_COLL_CUDA_EXCHANGE_CUH

#include "coll/cuda/device/ll_message.cuh"
#include "coll/cuda/device/splits.cuh"

enum { WEIRI_GPU_HEADER_SHIFT = 48 };
#define WEIRI_GPU_PACKET_BYTES ((uint64_t)256 << 10)

/* Messages longer than this are long. */
static inline __host__ __device__ uint64_t weiri_gpu_packet_bytes_of(const weiri_gpu_args &args)
{
    return args.packet_bytes ? args.packet_bytes : WEIRI_GPU_PACKET_BYTES;
}

WEIRI_GPU_FN void weiri_gpu_fail_mismatch(const weiri_gpu_view &view, int peer, uint64_t expected,
                                          uint64_t seen)
{
    weiri_gpu_fail(view, WEIR_ERR_MISMATCH, peer, WEIR_WAIT_COUNTS, expected, seen);
}

/* ------------------------------------------------------------------- headers */

WEIRI_GPU_FN uint64_t weiri_gpu_header_of(uint64_t bytes, uint32_t lanes)
{
    return (uint64_t)lanes << WEIRI_GPU_HEADER_SHIFT | bytes;
}

WEIRI_GPU_FN uint64_t weiri_gpu_header_bytes(uint64_t header)
{
    return header & (((uint64_t)1 << WEIRI_GPU_HEADER_SHIFT) - 1);
}

/* Compares a peer's header with what is expected of that peer. If they differ, or if this rank has
 * given up, sends the peer the empty credit that it may be waiting for. */
WEIRI_GPU_FN void weiri_gpu_compare_header(const weiri_gpu_view &view, const weiri_gpu_pair &pair,
                                           uint64_t packet_bytes, int peer, uint64_t epoch,
                                           uint64_t header)
{
    uint64_t seen = weiri_gpu_header_bytes(header);
    if (header != WEIRI_GPU_NO_HEADER && seen == pair.recv_bytes)
        return;
    if (header != WEIRI_GPU_NO_HEADER && pair.recv_at != WEIRI_GPU_REFUSED)
        weiri_gpu_fail_mismatch(view, peer, pair.recv_bytes, seen); /* a rejected split has been
                                                                     * reported already */
    if (pair.recv_bytes <= packet_bytes) {
        weiri_gpu_cell *cell = weiri_gpu_cell_at(view, peer, view.rank, 0);
        weir_packet16_write(cell->in, (uint32_t)epoch, 0);
        weir_packet16_write(cell->out, (uint32_t)epoch, WEIRI_GPU_UNMAPPED);
    }
}

/* ------------------------------------------------------------ short messages */

/* lanes: number of lanes of each message; NULL if none is long. */
WEIRI_GPU_FN void weiri_gpu_send_short(const weiri_gpu_args &args, const weiri_gpu_pair *pairs,
                                       uint64_t packet_bytes, const uint32_t *lanes, uint64_t epoch,
                                       const weiri_gpu_assignment &lane)
{
    const weiri_gpu_view &view = args.view;
    for (uint32_t i = lane.first; i + 1 < (uint32_t)view.nranks; i += lane.step) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        const weiri_gpu_pair &pair = pairs[peer];
        uint64_t bytes = pair.send_bytes > packet_bytes ? 0 : pair.send_bytes;
        weiri_gpu_send_message(view, peer, args.in + pair.send_at, bytes, epoch, lane.worker,
                               lane.workers);
        if (weiri_gpu_has_header(bytes, lane.worker, lane.workers))
            weiri_gpu_send_header(view, peer, epoch,
                                  weiri_gpu_header_of(pair.send_bytes, lanes ? lanes[peer] : 0));
    }
}

WEIRI_GPU_FN void weiri_gpu_receive_short(const weiri_gpu_args &args, const weiri_gpu_pair *pairs,
                                          uint64_t packet_bytes, uint64_t epoch,
                                          const weiri_gpu_assignment &lane)
{
    const weiri_gpu_view &view = args.view;
    for (uint32_t i = lane.first; i < (uint32_t)view.nranks; i += lane.step) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        const weiri_gpu_pair &pair = pairs[peer];
        uint64_t bytes = pair.recv_bytes > packet_bytes ? 0 : pair.recv_bytes;
        char *to = args.out + pair.recv_at;
        if (peer == view.rank) {
            if (pair.send_bytes <= packet_bytes)
                weiri_gpu_copy(to, args.in + pair.send_at,
                               weiri_gpu_min(pair.send_bytes, pair.recv_bytes), lane.worker,
                               lane.workers);
            continue;
        }
        if (weiri_gpu_has_header(bytes, lane.worker, lane.workers))
            weiri_gpu_compare_header(view, pair, packet_bytes, peer, epoch,
                                     weiri_gpu_receive_header(view, peer, epoch));
        weiri_gpu_receive_message(view, peer, to, bytes, epoch, lane.worker, lane.workers);
    }
}

/* ---------------------------------------------------------------------- host */

/* The longest message that this rank knows of. The result may differ between ranks. */
static uint64_t weiri_gpu_longest_bytes(const weiri_gpu_args *args)
{
    uint64_t most = 0;
    if (args->collective == WEIR_COLL_ALLGATHER)
        return args->bytes;
    if (args->counts.send_counts) { /* counts on the device: at most what the buffers hold */
        const weiri_gpu_counts *counts = &args->counts;
        most =
            counts->in_elements > counts->out_elements ? counts->in_elements : counts->out_elements;
        return most * args->element_bytes;
    }
    for (int peer = 0; peer < args->view.nranks; peer++) {
        uint64_t out = args->pairs[peer].send_bytes, in = args->pairs[peer].recv_bytes;
        most = out > most ? out : most;
        most = in > most ? in : most;
    }
    return most;
}

#endif
