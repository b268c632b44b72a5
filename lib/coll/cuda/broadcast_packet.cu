/*
 * broadcast by packets. The root loads each word once and stores it as a packet
 * into its slots at all peers, which poll and store it into their outputs.
 *
 * Slots are written again two epochs later without asking, which is sound only
 * if every rank hears from every other in every epoch. The root's packets say
 * it for the root; all other ranks send each peer an empty packet (a header),
 * and wait for theirs: as long as a barrier by packets, which is as long as the
 * root's own packets take.
 */
#include "coll/cuda/device/packets.cuh"
#include "coll/cuda/device/types.cuh"

template <int N, bool EVEN>
WEIRI_GPU_FN void send(const weiri_gpu_args &args, uint64_t epoch, uint32_t peers, uint32_t first,
                       uint32_t step)
{
    const weiri_gpu_view &view = args.view;
    uint32_t packets = weiri_gpu_packets(args.bytes);
#pragma unroll 1
    for (uint32_t i = first; i < packets; i += step) {
        uint64_t word = weiri_gpu_load_nth<EVEN>(args.in, i, args.bytes);
        weiri_gpu_settle(&epoch);
#pragma unroll
        for (int peer = 0; peer < N; peer++)
            if (peers >> peer & 1)
                weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, WEIRI_GPU_MESSAGE), i,
                               epoch, word);
        if (args.out != args.in)
            weiri_gpu_store_nth<EVEN>(args.out, i, args.bytes, word);
    }
}

/* The first threads of the grid exchange empty packets, each with one peer. */
WEIRI_GPU_FN int greets(const weiri_gpu_view &view, uint32_t thread)
{
    return thread < (uint32_t)view.nranks && (int)thread != view.rank;
}

static __global__ void __launch_bounds__(512)
    broadcast_packet(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    uint32_t peers = ((1u << view.nranks) - 1) & ~(1u << view.rank);
    if (view.rank != args.root) {
        for (uint32_t peer = first; peer < (uint32_t)view.nranks; peer += step)
            if (greets(view, peer))
                weiri_gpu_send_header(view, (int)peer, epoch, 0);
    } else if (!weiri_gpu_even(args.in, args.bytes) || !weiri_gpu_even(args.out, 0)) {
        send<8, false>(args, epoch, peers, first, step);
    } else if (view.nranks <= 4) {
        send<4, true>(args, epoch, peers, first, step);
    } else {
        send<8, true>(args, epoch, peers, first, step);
    }
    weiri_gpu_turn(view, epoch);
    if (view.rank != args.root)
        weiri_gpu_receive_run(view, args.root, args.out, args.bytes, epoch, first, step);
    for (uint32_t peer = first; peer < (uint32_t)view.nranks; peer += step)
        if (greets(view, peer) && (int)peer != args.root)
            weiri_gpu_receive_header(view, (int)peer, epoch);
}

WEIRI_GPU_DEFINE_OF_BYTES(broadcast_packet)

weiri_gpu_shape weiri_gpu_broadcast_packet_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_copy_shape((args->bytes + 7) / 8, processors);
}

int weiri_gpu_broadcast_packet_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_BROADCAST && args->bytes > 0 &&
           args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
