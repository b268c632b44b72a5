/*
 * alltoall by packets. Phases:
 *
 *   1. send: every thread serves one rank, loads its words of that rank's share
 *      and stores them as packets into the slot there,
 *   2. the own share is copied, while packets are under way,
 *   3. receive: the same thread polls the packets of the same rank that it
 *      serves and stores their words into the output.
 *
 * All ranks send as much to each other as they receive, so the packets are also
 * what proves that a peer has finished the epoch before. No fence, no meeting.
 */
#include "coll/cuda/device/packets.cuh"
#include "coll/cuda/device/types.cuh"

static __global__ void __launch_bounds__(512)
    exchange_packet(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view), bytes = args.bytes;
    weiri_gpu_lane lane = weiri_gpu_lane_of(view);
    uint32_t npeers = (uint32_t)view.nranks - 1;
    for (uint32_t i = lane.first; i < npeers; i += lane.step) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        weiri_gpu_send_run(view, peer, args.in + (uint64_t)peer * bytes, bytes, epoch, lane.worker,
                           lane.workers);
    }
    weiri_gpu_turn(view, epoch);
    for (uint32_t i = lane.first; i <= npeers; i += lane.step) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        char *to = args.out + (uint64_t)peer * bytes;
        if (peer == view.rank)
            weiri_gpu_copy(to, args.in + (uint64_t)peer * bytes, bytes, lane.worker, lane.workers);
        else
            weiri_gpu_receive_run(view, peer, to, bytes, epoch, lane.worker, lane.workers);
    }
}

WEIRI_GPU_DEFINE_OF_BYTES(exchange_packet)

weiri_gpu_shape weiri_gpu_exchange_packet_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t warps = (args->bytes + 255) / 256; /* a rank's, so that none serves two */
    return weiri_gpu_copy_shape(warps * 32 * (uint64_t)args->view.nranks, processors);
}

int weiri_gpu_exchange_packet_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLTOALL && args->bytes > 0 &&
           args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
