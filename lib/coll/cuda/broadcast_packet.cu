/*
 * broadcast, packet: the root loads each word once and stores it as an LL packet into its slots at
 * all peers, which poll and store it into their outputs.
 *
 * Slots are written again two epochs later without asking, which is correct only if every rank
 * receives from every other in every epoch. The root's packets do that for the root; every other
 * rank sends each peer an empty header packet and waits for theirs. That is a barrier by packets,
 * which takes no longer than the root's own packets. All accesses are relaxed.
 */
#include "coll/cuda/device/ll_message.cuh"
#include "coll/cuda/device/types.cuh"

template <int N, bool EVEN>
WEIRI_GPU_FN void root_send(const weiri_gpu_args &args, uint64_t epoch, uint32_t peers,
                            uint32_t first, uint32_t step)
{
    const weiri_gpu_view &view = args.view;
    uint32_t packets = weiri_gpu_packet_count(args.bytes);
#pragma unroll 1
    for (uint32_t i = first; i < packets; i += step) {
        uint64_t word = weiri_gpu_load_nth<EVEN>(args.in, i, args.bytes);
        weiri_gpu_keep_after_loads(&epoch);
#pragma unroll
        for (int peer = 0; peer < N; peer++)
            if (peers >> peer & 1)
                weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, WEIRI_GPU_MESSAGE), i,
                               epoch, word);
        if (args.out != args.in)
            weiri_gpu_store_nth<EVEN>(args.out, i, args.bytes, word);
    }
}

/* Whether this thread, one of the first of the grid, exchanges a header with the peer of its
 * number. */
WEIRI_GPU_FN int is_peer(const weiri_gpu_view &view, uint32_t thread)
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
            if (is_peer(view, peer))
                weiri_gpu_send_header(view, (int)peer, epoch, 0);
    } else if (!weiri_gpu_word_aligned(args.in, args.bytes) ||
               !weiri_gpu_word_aligned(args.out, 0)) {
        root_send<8, false>(args, epoch, peers, first, step);
    } else if (view.nranks <= 4) {
        root_send<4, true>(args, epoch, peers, first, step);
    } else {
        root_send<8, true>(args, epoch, peers, first, step);
    }
    weiri_gpu_advance_epoch(view, epoch);
    if (view.rank != args.root)
        weiri_gpu_receive_message(view, args.root, args.out, args.bytes, epoch, first, step);
    for (uint32_t peer = first; peer < (uint32_t)view.nranks; peer += step)
        if (is_peer(view, peer) && (int)peer != args.root)
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
