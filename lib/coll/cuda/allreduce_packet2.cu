/*
 * allreduce, packet2: a reduce-scatter and an allgather, both by packets. Two
 * message latencies, but each rank sends only twice its input, however many ranks
 * there are. For a few ten to a few hundred KiB.
 *
 *   1. A thread sends word j of every other rank's share of its input to that
 *      rank (phase 0).
 *   2. It waits for word j of the own share of all peers, reduces them, stores
 *      the result and sends it to all peers (phase 1).
 *   3. It waits for word j of all other shares and stores them.
 *
 * Shares have the same number of packets, one at least, even where the input ends
 * before or within them: so every rank hears from every other, and the buffers
 * may alternate. One thread does everything with word j of all shares: it has
 * read what it overwrites if in is out.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/packet.cuh"
#include "coll/cuda/device/types.cuh"

enum { THREADS_MAX = 256 };

static inline __host__ __device__ size_t share_words(uint64_t bytes, int nranks)
{
    return ((bytes + 7) / 8 + (unsigned)nranks - 1) / (unsigned)nranks;
}

/* Words beyond the end are 0 and stored nowhere. */
static __device__ __forceinline__ uint64_t load(const weiri_gpu_args &args, size_t word)
{
    size_t bytes = weiri_gpu_word_bytes(args.bytes, word);
    return bytes ? weiri_gpu_load_word(args.in + 8 * word, bytes) : 0;
}

static __device__ __forceinline__ void store(const weiri_gpu_args &args, size_t word, uint64_t data)
{
    size_t bytes = weiri_gpu_word_bytes(args.bytes, word);
    if (bytes)
        weiri_gpu_store_word(args.out + 8 * word, data, bytes);
}

/* Word j of all shares but the own one, on its way in phase 0. */
static __device__ __forceinline__ void load_each(const weiri_gpu_args &args, size_t share, size_t j,
                                                 uint64_t (&words)[WEIRI_GPU_RANKS_MAX])
{
    const int nranks = args.view.nranks;
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
        if (r < nranks && r != args.view.rank)
            words[r] = load(args, (size_t)r * share + j);
}

template <int dtype>
static __device__ __forceinline__ void reduce(const weiri_gpu_args &args, uint64_t epoch,
                                              size_t share, size_t j)
{
    const weiri_gpu_view &view = args.view;
    const size_t word = (size_t)view.rank * share + j;
    const uint64_t own = load(args, word);
    uint64_t words[WEIRI_GPU_RANKS_MAX][1], total[1];
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
        words[r][0] = own;
    weiri_gpu_receive_all<0>(view, epoch, 0, j, words);
    weiri_gpu_reduce<dtype>(args.op, view.nranks, words, total);
    weiri_gpu_send_all<0>(view, epoch, 1, j, total[0]);
    store(args, word, total[0]);
}

/* Phase 1: word j of all shares but the own one. */
static __device__ __forceinline__ void gather(const weiri_gpu_args &args, uint64_t epoch,
                                              size_t share, size_t j)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = view.nranks;
    uint64_t words[WEIRI_GPU_RANKS_MAX][1] = {};
    weiri_gpu_receive_all<0>(view, epoch, 1, j, words);
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
        if (r < nranks && r != view.rank)
            store(args, (size_t)r * share + j, words[r][0]);
}

template <int dtype>
static __global__ void __launch_bounds__(THREADS_MAX)
    allreduce_packet2(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const size_t share = share_words(args.bytes, view.nranks);
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    uint64_t words[WEIRI_GPU_RANKS_MAX];
    if (first < share)
        load_each(args, share, first, words);
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (size_t j = first; j < share; j += step) {
        if (j != first)
            load_each(args, share, j, words);
        weiri_gpu_send_each<0>(view, epoch, 0, j, words);
    }
    weiri_gpu_turn(view, epoch);
    for (size_t j = first; j < share; j += step)
        reduce<dtype>(args, epoch, share, j);
    for (size_t j = first; j < share; j += step)
        gather(args, epoch, share, j);
}

/* No table has it where NVLink joins GPUs, so there is a kernel for any number of ranks alone. */
WEIRI_GPU_DEFINE_OF_TYPES(allreduce_packet2)

weiri_gpu_shape weiri_gpu_allreduce_packet2_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape(share_words(args->bytes, args->view.nranks), processors,
                                  THREADS_MAX);
}

int weiri_gpu_allreduce_packet2_serves(const weiri_gpu_args *args)
{
    return share_words(args->bytes, args->view.nranks) <= WEIRI_GPU_SLOT_BYTES / 16;
}
