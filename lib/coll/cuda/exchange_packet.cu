/*
 * alltoall, packet: LL packets.
 *
 *   1. Send: every thread serves one rank; it loads its words of that rank's block and stores
 *      them as packets into the slot there.
 *   2. The rank's own block is copied while packets are in flight.
 *   3. Receive: the thread polls the packets of the rank that it serves and stores their
 *      words into the output.
 *
 * All ranks send each other as much as they receive, so the packets also prove that a peer has
 * finished the epoch before. All accesses are relaxed; there is no fence and no barrier.
 */
#include "coll/cuda/device/ll_message.cuh"
#include "coll/cuda/device/types.cuh"

static __global__ void __launch_bounds__(512)
    exchange_packet(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view), bytes = args.bytes;
    weiri_gpu_assignment lane = weiri_gpu_assign_peer(view);
    uint32_t npeers = (uint32_t)view.nranks - 1;
    for (uint32_t i = lane.first; i < npeers; i += lane.step) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        weiri_gpu_send_message(view, peer, args.in + (uint64_t)peer * bytes, bytes, epoch,
                               lane.worker, lane.workers);
    }
    weiri_gpu_advance_epoch(view, epoch);
    for (uint32_t i = lane.first; i <= npeers; i += lane.step) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        char *to = args.out + (uint64_t)peer * bytes;
        if (peer == view.rank)
            weiri_gpu_copy(to, args.in + (uint64_t)peer * bytes, bytes, lane.worker, lane.workers);
        else
            weiri_gpu_receive_message(view, peer, to, bytes, epoch, lane.worker, lane.workers);
    }
}

WEIRI_GPU_DEFINE_OF_BYTES(exchange_packet)

weiri_gpu_shape weiri_gpu_exchange_packet_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t warps = (args->bytes + 255) / 256; /* of one rank, so that no warp serves two */
    return weiri_gpu_copy_shape(warps * 32 * (uint64_t)args->view.nranks, processors);
}

int weiri_gpu_exchange_packet_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLTOALL && args->bytes > 0 &&
           args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
