/*
 * allgather, packet: LL packets to all peers. Every thread loads its words of the input once and
 * stores each as a packet into the slots at all peers; then it polls the packets of the same number
 * from all peers at once and stores their words into the output. All accesses are relaxed: packets
 * carry their flags, and a peer's packets also prove that it has finished the epoch before. There
 * is no fence and no barrier.
 */
#include "coll/cuda/device/ll_message.cuh"
#include "coll/cuda/device/types.cuh"

/* The kernel for up to N ranks. A thread handles one word of all ranks at a time: its parallelism
 * is over the ranks. */
template <int N, bool EVEN>
WEIRI_GPU_FN void gather_packets(const weiri_gpu_args &args, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    uint64_t bytes = args.bytes;
    uint32_t packets = weiri_gpu_packet_count(bytes);
    uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    uint32_t peers = ((1u << view.nranks) - 1) & ~(1u << view.rank);
    char *own = args.out + (uint64_t)view.rank * bytes;
#pragma unroll 1
    for (uint32_t i = first; i < packets; i += step) {
        uint64_t word = weiri_gpu_load_nth<EVEN>(args.in, i, bytes);
        weiri_gpu_keep_after_loads(&epoch);
#pragma unroll
        for (int peer = 0; peer < N; peer++)
            if (peers >> peer & 1)
                weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, WEIRI_GPU_MESSAGE), i,
                               epoch, word);
        if (own != args.in)
            weiri_gpu_store_nth<EVEN>(own, i, bytes, word);
    }
    weiri_gpu_advance_epoch(view, epoch);
    const char *slots = weiri_gpu_slot(view, view.rank, 0, epoch, WEIRI_GPU_MESSAGE);
#pragma unroll 1
    for (uint32_t i = first; i < packets; i += step) {
        uint64_t words[N];
        weiri_gpu_receive_packets<N>(view, slots + (size_t)i * 16, WEIRI_GPU_SLOT_BYTES, peers,
                                     epoch, -1, words);
#pragma unroll
        for (int peer = 0; peer < N; peer++)
            if (peers >> peer & 1)
                weiri_gpu_store_nth<EVEN>(args.out + (uint64_t)peer * bytes, i, bytes, words[peer]);
    }
}

static __global__ void __launch_bounds__(512)
    allgather_packet(const __grid_constant__ weiri_gpu_args args)
{
    uint64_t epoch = weiri_gpu_epoch(args.view);
    if (!weiri_gpu_word_aligned(args.in, args.bytes) || !weiri_gpu_word_aligned(args.out, 0))
        gather_packets<8, false>(args, epoch);
    else if (args.view.nranks <= 2)
        gather_packets<2, true>(args, epoch);
    else if (args.view.nranks <= 4)
        gather_packets<4, true>(args, epoch);
    else
        gather_packets<8, true>(args, epoch);
}

WEIRI_GPU_DEFINE_OF_BYTES(allgather_packet)

weiri_gpu_shape weiri_gpu_allgather_packet_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_copy_shape((args->bytes + 7) / 8, processors);
}

int weiri_gpu_allgather_packet_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLGATHER && args->bytes > 0 &&
           args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
