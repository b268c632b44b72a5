/*
 * allgather by pushing. Every block owns a part of the input, the same part on
 * all ranks; blocks of one index meet. Phases:
 *
 *   1. tell: where this rank's output is, which also says that its earlier
 *      kernels have ended,
 *   2. hear where the peers' outputs are,
 *   3. load the part once, store it into all outputs that are mapped here;
 *      the others get it through their stages (stage.cuh), where this rank's own
 *      output may be among those that others cannot map,
 *   4. meet: signal to all (release), await all (acquire). Not where all outputs are
 *      plain: a block that has taken a piece from each peer knows that the same block there
 *      has heard, and nobody stores anywhere else.
 *
 * A link carries nothing but the data, once. Blocks without a part do nothing.
 */
#include "coll/cuda/device/stage.cuh"
#include "coll/cuda/device/types.cuh"

enum { UNIT_BYTES = 2048 };

typedef struct gather {
    weiri_gpu_desc out[WEIRI_GPU_RANKS_MAX];
    char *to[WEIRI_GPU_RANKS_MAX]; /* where this rank's block belongs in an output, or NULL */
    weiri_gpu_streams streams;
} gather;

/* A block's part of the input; bytes == 0: none. */
typedef struct part {
    uint64_t at, bytes;
    uint32_t blocks; /* that have one */
} part;

WEIRI_GPU_FN part part_of(const weiri_gpu_args &args)
{
    uint32_t units = weiri_gpu_units(args.bytes, UNIT_BYTES);
    uint32_t units_each = weiri_gpu_parts(units, gridDim.x);
    uint64_t each = (uint64_t)units_each * UNIT_BYTES;
    part mine = {blockIdx.x * each, 0, weiri_gpu_parts(units, units_each)};
    if (mine.at < args.bytes)
        mine.bytes = weiri_gpu_least(args.bytes - mine.at, each);
    return mine;
}

/* One thread a peer fills in what the block knows of it. */
WEIRI_GPU_FN void hear_one(const weiri_gpu_args &args, gather *g, const part &mine, uint64_t epoch,
                           int peer)
{
    const weiri_gpu_view &view = args.view;
    uint64_t own_at = (uint64_t)view.rank * args.bytes;
    weiri_gpu_stream *leave = &g->streams.leave[peer], *come = &g->streams.come[peer];
    leave->lanes = come->lanes = 0;
    leave->at = (char *)args.in;
    leave->bytes = args.bytes;
    leave->lane = blockIdx.x;
    g->to[peer] = NULL;
    if (peer == view.rank) {
        g->to[peer] = args.out + own_at == args.in ? NULL : args.out + own_at;
        return;
    }
    const weiri_gpu_cell *cell = weiri_gpu_cell_of(view, view.rank, peer);
    weiri_gpu_desc out = weiri_gpu_receive(view, (const char *)cell->out, 0, epoch, peer);
    if (out != WEIRI_GPU_PLAIN) {
        g->to[peer] = weiri_gpu_address(view, peer, out) + own_at;
    } else {
        leave->lanes = weiri_gpu_lanes_for(mine.blocks);
    }
    if (args.out_desc == WEIRI_GPU_PLAIN) {
        come->at = args.out + (uint64_t)peer * args.bytes;
        come->bytes = args.bytes;
        come->lanes = weiri_gpu_lanes_for(mine.blocks);
        come->lane = 0;
    }
}

/* Loads the part once and stores it to all targets. */
template <int N> WEIRI_GPU_FN void push_to(const weiri_gpu_args &args, const gather *g, part mine)
{
    const weiri_gpu_view &view = args.view;
    char *to[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        to[i] = i < view.nranks ? g->to[weiri_gpu_nth_after(view.rank, i, view.nranks)] : NULL;
        to[i] = to[i] ? to[i] + mine.at : NULL;
    }
    weiri_gpu_copy_to<N>(to, args.in + mine.at, mine.bytes, threadIdx.x, blockDim.x);
}

WEIRI_GPU_FN void push(const weiri_gpu_args &args, const gather *g, const part &mine)
{
    if (args.view.nranks <= 4)
        push_to<4>(args, g, mine);
    else
        push_to<8>(args, g, mine);
}

/* How many streams there are from peers and to peers. */
WEIRI_GPU_FN int count_streams(const weiri_gpu_view &view, const gather *g)
{
    int count = 0;
    for (int peer = 0; peer < view.nranks; peer++)
        if (peer != view.rank)
            count += (g->streams.leave[peer].lanes != 0) + (g->streams.come[peer].lanes != 0);
    return count;
}

/* Whether this block has taken a piece from every peer, once all streams have come. */
WEIRI_GPU_FN int took_of_all(const weiri_gpu_view &view, const gather *g, int streams)
{
    uint64_t at;
    const weiri_gpu_stream &one = g->streams.come[weiri_gpu_nth_after(view.rank, 1, view.nranks)];
    return streams == 2 * (view.nranks - 1) && weiri_gpu_piece_of(one, blockIdx.x, 0, &at);
}

/* With streams the own share is copied beside them, lest links wait for it. */
WEIRI_GPU_FN void stream_own_share(const weiri_gpu_view &view, gather *g, const part &mine)
{
    weiri_gpu_stream *own = &g->streams.leave[view.rank];
    if (threadIdx.x == 0 && g->to[view.rank]) {
        own->lanes = weiri_gpu_lanes_for(mine.blocks);
        own->to = g->to[view.rank];
        g->to[view.rank] = NULL;
    }
    __syncthreads();
}

WEIRI_GPU_FN void gather_all(const weiri_gpu_args &args, gather *g)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    part mine = part_of(args);
    weiri_gpu_prefetch(args.in + mine.at, mine.bytes, threadIdx.x, blockDim.x);
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank && mine.bytes)
            weiri_gpu_tell(view, peer, epoch, WEIRI_GPU_PLAIN, args.out_desc);
    weiri_gpu_turn(view, epoch);
    if (!mine.bytes)
        return;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        hear_one(args, g, mine, epoch, peer);
    __syncthreads();
    const int streams = count_streams(view, g);
    if (streams)
        stream_own_share(view, g, mine);
    push(args, g, mine);
    if (streams)
        weiri_gpu_stream_all<true>(view, &g->streams, epoch);
    if (!took_of_all(view, g, streams))
        weiri_gpu_barrier(view, epoch, 1);
}

static __global__ void __launch_bounds__(512)
    allgather_direct(const __grid_constant__ weiri_gpu_args args)
{
    __shared__ gather g;
    gather_all(args, &g);
}

WEIRI_GPU_DEFINE_OF_BYTES(allgather_direct)

weiri_gpu_shape weiri_gpu_allgather_direct_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t units = (args->bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    if (units <= (uint64_t)processors * 2)
        return {units < (uint64_t)processors ? (int)units : processors, 128};
    return {units <= (uint64_t)processors * 8 ? processors : 2 * processors, 256};
}

int weiri_gpu_allgather_direct_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLGATHER && args->bytes > 0;
}
