/*
 * allgather, direct: every rank stores its input directly into all outputs. Each block owns a part
 * of the input, the same part on all ranks, and synchronises with the blocks of the same index.
 *
 *   1. Send the descriptor of this rank's output to all peers, which also proves that
 *      this rank's earlier kernels have ended.
 *   2. Receive the descriptors of the peers' outputs.
 *   3. Load the part once and store it into all outputs that are mapped here. The other
 *      outputs get it through staging buffers (stage.cuh); this rank's own output may be
 *      one of those that peers cannot map.
 *   4. Barrier: signal all peers (release), await all (acquire). It is omitted if all
 *      outputs are unregistered: a block that has taken a piece from each peer knows that
 *      the same block there has received the descriptors, and nobody stores elsewhere.
 *
 * A link carries nothing but the data, once. Blocks without a part return.
 */
#include "coll/cuda/device/stage.cuh"
#include "coll/cuda/device/types.cuh"

enum { ALLGATHER_UNIT_BYTES = 2048 };

typedef struct allgather_state {
    weiri_gpu_desc out[WEIRI_GPU_RANKS_MAX];
    char *to[WEIRI_GPU_RANKS_MAX]; /* where this rank's data go in a peer's output; NULL if not
                                    * mapped */
    weiri_gpu_streams streams;
} allgather_state;

/* A block's part of the input; bytes == 0: none. */
typedef struct part {
    uint64_t at, bytes;
    uint32_t blocks; /* number of blocks that have one */
} part;

WEIRI_GPU_FN part allgather_part(const weiri_gpu_args &args)
{
    uint32_t units = weiri_gpu_units_for(args.bytes, ALLGATHER_UNIT_BYTES);
    uint32_t units_each = weiri_gpu_div_up(units, gridDim.x);
    uint64_t each = (uint64_t)units_each * ALLGATHER_UNIT_BYTES;
    part mine = {blockIdx.x * each, 0, weiri_gpu_div_up(units, units_each)};
    if (mine.at < args.bytes)
        mine.bytes = weiri_gpu_min(args.bytes - mine.at, each);
    return mine;
}

/* Receives one peer's descriptor and sets up its target or its streams. One thread per peer. */
WEIRI_GPU_FN void gather_receive_desc(const weiri_gpu_args &args, allgather_state *g,
                                      const part &mine, uint64_t epoch, int peer)
{
    const weiri_gpu_view &view = args.view;
    uint64_t own_at = (uint64_t)view.rank * args.bytes;
    weiri_gpu_stream *send = &g->streams.send[peer], *receive = &g->streams.receive[peer];
    send->lanes = receive->lanes = 0;
    send->at = (char *)args.in;
    send->bytes = args.bytes;
    send->lane = blockIdx.x;
    g->to[peer] = NULL;
    if (peer == view.rank) {
        g->to[peer] = args.out + own_at == args.in ? NULL : args.out + own_at;
        return;
    }
    const weiri_gpu_cell *cell = weiri_gpu_cell_of(view, view.rank, peer);
    weiri_gpu_desc out = weiri_gpu_receive(view, (const char *)cell->out, 0, epoch, peer);
    if (out != WEIRI_GPU_UNMAPPED) {
        g->to[peer] = weiri_gpu_address(view, peer, out) + own_at;
    } else {
        send->lanes = weiri_gpu_lanes_for(mine.blocks);
    }
    if (args.out_desc == WEIRI_GPU_UNMAPPED) {
        receive->at = args.out + (uint64_t)peer * args.bytes;
        receive->bytes = args.bytes;
        receive->lanes = weiri_gpu_lanes_for(mine.blocks);
        receive->lane = 0;
    }
}

/* Loads the part once and stores it to all targets. */
template <int N>
WEIRI_GPU_FN void push_to(const weiri_gpu_args &args, const allgather_state *g, part mine)
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

WEIRI_GPU_FN void store_to_outputs(const weiri_gpu_args &args, const allgather_state *g,
                                   const part &mine)
{
    if (args.view.nranks <= 4)
        push_to<4>(args, g, mine);
    else
        push_to<8>(args, g, mine);
}

/* How many streams there are to and from peers. */
WEIRI_GPU_FN int count_streams(const weiri_gpu_view &view, const allgather_state *g)
{
    int count = 0;
    for (int peer = 0; peer < view.nranks; peer++)
        if (peer != view.rank)
            count += (g->streams.send[peer].lanes != 0) + (g->streams.receive[peer].lanes != 0);
    return count;
}

/* Whether this block has taken a piece from every peer once all streams have ended. */
WEIRI_GPU_FN int took_of_all(const weiri_gpu_view &view, const allgather_state *g, int streams)
{
    uint64_t at;
    const weiri_gpu_stream &one =
        g->streams.receive[weiri_gpu_nth_after(view.rank, 1, view.nranks)];
    return streams == 2 * (view.nranks - 1) && weiri_gpu_stream_piece(one, blockIdx.x, 0, &at);
}

/* If there are streams, this rank's own data are copied beside them, so that links do not wait. */
WEIRI_GPU_FN void stream_own_share(const weiri_gpu_view &view, allgather_state *g, const part &mine)
{
    weiri_gpu_stream *own = &g->streams.send[view.rank];
    if (threadIdx.x == 0 && g->to[view.rank]) {
        own->lanes = weiri_gpu_lanes_for(mine.blocks);
        own->to = g->to[view.rank];
        g->to[view.rank] = NULL;
    }
    __syncthreads();
}

WEIRI_GPU_FN void allgather_blocks(const weiri_gpu_args &args, allgather_state *g)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    part mine = allgather_part(args);
    weiri_gpu_prefetch(args.in + mine.at, mine.bytes, threadIdx.x, blockDim.x);
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank && mine.bytes)
            weiri_gpu_send_descs(view, peer, epoch, WEIRI_GPU_UNMAPPED, args.out_desc);
    weiri_gpu_advance_epoch(view, epoch);
    if (!mine.bytes)
        return;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        gather_receive_desc(args, g, mine, epoch, peer);
    __syncthreads();
    const int streams = count_streams(view, g);
    if (streams)
        stream_own_share(view, g, mine);
    store_to_outputs(args, g, mine);
    if (streams)
        weiri_gpu_run_streams<true>(view, &g->streams, epoch);
    if (!took_of_all(view, g, streams))
        weiri_gpu_barrier(view, epoch, 1);
}

static __global__ void __launch_bounds__(512)
    allgather_direct(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(allgather_state, g);
    allgather_blocks(args, &g);
}

WEIRI_GPU_DEFINE_OF_BYTES(allgather_direct)

weiri_gpu_shape weiri_gpu_allgather_direct_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t units = (args->bytes + ALLGATHER_UNIT_BYTES - 1) / ALLGATHER_UNIT_BYTES;
    if (units <= (uint64_t)processors * 2)
        return {units < (uint64_t)processors ? (int)units : processors, 128};
    return {units <= (uint64_t)processors * 8 ? processors : 2 * processors, 256};
}

int weiri_gpu_allgather_direct_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLGATHER && args->bytes > 0;
}
