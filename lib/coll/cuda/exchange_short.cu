/*
 * alltoallv and sendrecv, packet: the kernel used if the host knows that all messages of this rank
 * are short. They travel as LL packets, with headers; nothing has to be decided on the device.
 * Peers may run this kernel or exchange_direct in the same call. All accesses are relaxed.
 */
#include "coll/cuda/device/exchange.cuh"
#include "coll/cuda/device/types.cuh"

static __global__ void __launch_bounds__(512)
    exchange_short(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const weiri_gpu_pair &own = args.pairs[view.rank];
    uint64_t epoch = weiri_gpu_epoch(view), packet_bytes = weiri_gpu_packet_bytes_of(args);
    weiri_gpu_assignment lane = weiri_gpu_assign_peer(view);
    if (!threadIdx.x && own.send_bytes != own.recv_bytes)
        weiri_gpu_fail_mismatch(view, view.rank, own.recv_bytes, own.send_bytes);
    weiri_gpu_send_short(args, args.pairs, packet_bytes, NULL, epoch, lane);
    weiri_gpu_advance_epoch(view, epoch);
    weiri_gpu_receive_short(args, args.pairs, packet_bytes, epoch, lane);
}

WEIRI_GPU_DEFINE_OF_BYTES(exchange_short)

weiri_gpu_shape weiri_gpu_exchange_short_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_exchange_direct_shape(args, processors);
}

int weiri_gpu_exchange_short_serves(const weiri_gpu_args *args)
{
    return weiri_gpu_exchange_direct_serves(args) && !args->counts.send_counts &&
           weiri_gpu_longest_bytes(args) <= weiri_gpu_packet_bytes_of(*args);
}
