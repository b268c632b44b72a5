/*
 * Streams through staging buffers: how data reach an output that peers cannot map.
 *
 * Each sender has an equal part of the receiver's two (adjacent) staging buffers, divided into two
 * halves that are used alternately. A stream is divided into pieces; piece number round * lanes +
 * lane belongs to that lane and uses half round % 2. In each round a block first stores its own
 * lane's pieces into the staging buffers of all peers that it serves in this way, and then copies
 * the pieces that have arrived to this rank's output.
 *
 *   sender    staged = epoch << 24 | pieces    in the receiver's cell of the lane
 *   receiver  taken  = epoch << 24 | pieces    in the sender's cell of the lane
 *
 * A piece may be stored once the piece of two rounds before has been taken; nobody waits for the
 * last two to be taken. Both ends number the rounds in the same way, so no cycle of waits can form:
 * a round depends only on earlier rounds, or on the sending half of the same round. One half of a
 * block's threads sends while the other receives, so that the links stay busy; a block with too few
 * threads does one after the other.
 *
 * Lanes need not be blocks of one index: the sender announces the number of lanes, and the
 * receiver's blocks serve them in turn. The threads of a team synchronise before each release and
 * after each acquire.
 */
#ifndef WEIR_COLL_CUDA_STAGE_CUH
#define WEIR_COLL_CUDA_STAGE_CUH

#include "coll/cuda/device/copy.cuh"
#include "coll/cuda/device/team.cuh"

/* Lanes are blocks; two blocks per multiprocessor, so that one stores while the other waits. */
#if defined(WEIR_EMULATED)
/* Fewer lanes than the tests' blocks. */
enum { WEIRI_GPU_LANES_MAX = 3, WEIRI_GPU_PIECE_LEAST_BYTES = 256 };
#else
enum { WEIRI_GPU_LANES_MAX = 256, WEIRI_GPU_PIECE_LEAST_BYTES = 16 << 10 };
#endif
enum { WEIRI_GPU_PIECE_MAX_BYTES = 128 << 10 };

/* One direction of a pair of ranks; lanes == 0: this block has no part in it. */
typedef struct weiri_gpu_stream {
    char *at; /* where the bytes come from, or are copied to */
    char *to; /* the target of what this rank copies to itself */
    uint64_t bytes;
    uint32_t lanes;
    uint32_t lane;  /* of this block, if the stream is sent */
    uint32_t piece; /* bytes of a lane's piece; computed by weiri_gpu_run_streams */
} weiri_gpu_stream;

/* The streams of a block, in shared memory. The stream that this rank sends to itself is copied
 * beside the others. */
typedef struct weiri_gpu_streams {
    weiri_gpu_stream send[WEIRI_GPU_RANKS_MAX], receive[WEIRI_GPU_RANKS_MAX];
} weiri_gpu_streams;

WEIRI_GPU_FN uint32_t weiri_gpu_lanes_for(uint64_t blocks)
{
    return (uint32_t)weiri_gpu_min(blocks, WEIRI_GPU_LANES_MAX);
}

/* Bytes of half a sender's part of the staging buffers. */
WEIRI_GPU_FN uint64_t weiri_gpu_stage_half(const weiri_gpu_view &view)
{
    return (uint32_t)WEIRI_GPU_STAGE_BYTES / (uint32_t)(view.nranks - 1) & ~127u;
}

/* A sender's part of the staging buffers of rank `at`. */
WEIRI_GPU_FN char *weiri_gpu_stage_of(const weiri_gpu_view &view, int at, int from)
{
    const uint32_t part = (uint32_t)(from - (from > at));
    return view.scratch[at] + WEIRI_GPU_STAGE_AT + (uint64_t)part * 2 * weiri_gpu_stage_half(view);
}

/* The place in it of a round's piece at `offset`. */
WEIRI_GPU_FN char *weiri_gpu_stage_at(const weiri_gpu_view &view, int at, int from, uint64_t round,
                                      uint64_t offset)
{
    return weiri_gpu_stage_of(view, at, from) + (round & 1) * weiri_gpu_stage_half(view) + offset;
}

/* Size of a lane's piece: as much as half a part holds; smaller if that makes all rounds equal, or
 * gives every lane an equal share of a short stream, or makes two rounds out of one so that one
 * piece travels while the other is taken. Whole lines of 128 bytes if they fit. */
WEIRI_GPU_FN uint32_t weiri_gpu_stream_piece_bytes(const weiri_gpu_view &view,
                                                   const weiri_gpu_stream &stream)
{
    const uint32_t line = WEIRI_GPU_LINE_BYTES;
    if (!stream.lanes)
        return 0;
    const uint32_t half = (uint32_t)weiri_gpu_stage_half(view) / stream.lanes;
    const uint32_t room = (uint32_t)weiri_gpu_min(half, WEIRI_GPU_PIECE_MAX_BYTES);
    if (room < line)
        return room & ~15u;
    const uint32_t lines = weiri_gpu_units_for(stream.bytes, line);
    uint32_t rounds = weiri_gpu_div_up(lines, stream.lanes * (room / line));
    if (rounds == 1 && lines >= 2 * stream.lanes * (WEIRI_GPU_PIECE_LEAST_BYTES / line))
        rounds = 2;
    return weiri_gpu_div_up(lines, stream.lanes * rounds) * line;
}

/* Bytes of a lane's piece of a round; 0 if the stream has ended. */
WEIRI_GPU_FN uint64_t weiri_gpu_stream_piece(const weiri_gpu_stream &stream, uint32_t lane,
                                             uint64_t round, uint64_t *at)
{
    if (lane >= stream.lanes)
        return 0;
    *at = (round * stream.lanes + lane) * stream.piece;
    return *at < stream.bytes ? weiri_gpu_min(stream.bytes - *at, stream.piece) : 0;
}

WEIRI_GPU_FN uint64_t weiri_gpu_stream_rounds(const weiri_gpu_stream &stream)
{
    if (!stream.lanes)
        return 0;
    return weiri_gpu_div_up(weiri_gpu_units_for(stream.bytes, 16),
                            stream.lanes * (stream.piece / 16));
}

/* Where this rank stores a piece for a peer. */
WEIRI_GPU_FN char *weiri_gpu_stream_target(const weiri_gpu_view &view,
                                           const weiri_gpu_stream &stream, int peer, uint64_t round,
                                           uint64_t at)
{
    if (peer == view.rank)
        return stream.to + at;
    return weiri_gpu_stage_at(view, peer, view.rank, round, (uint64_t)stream.lane * stream.piece);
}

/* Stores a round's pieces if all streams send the same bytes: loads them once. */
template <int N>
WEIRI_GPU_FN void weiri_gpu_stream_send_same(const weiri_gpu_view &view,
                                             const weiri_gpu_streams *streams,
                                             const weiri_gpu_team &team, uint64_t round)
{
    char *to[N];
    const char *from = NULL;
    uint64_t bytes = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        to[i] = NULL;
        if (i >= view.nranks)
            continue;
        const int peer = weiri_gpu_nth_after(view.rank, i, view.nranks);
        const weiri_gpu_stream &stream = streams->send[peer];
        uint64_t at, piece = weiri_gpu_stream_piece(stream, stream.lane, round, &at);
        if (!piece)
            continue;
        to[i] = weiri_gpu_stream_target(view, stream, peer, round, at);
        from = stream.at + at;
        bytes = piece;
    }
    if (bytes)
        weiri_gpu_copy_to<N>(to, from, bytes, team.worker, team.workers);
}

/* Stores a round's pieces, peer by peer. */
WEIRI_GPU_FN void weiri_gpu_stream_send_each(const weiri_gpu_view &view,
                                             const weiri_gpu_streams *streams,
                                             const weiri_gpu_team &team, uint64_t round)
{
    for (int i = 0; i < view.nranks; i++) {
        const int peer = weiri_gpu_nth_after(view.rank, i, view.nranks);
        const weiri_gpu_stream &stream = streams->send[peer];
        uint64_t at, bytes = weiri_gpu_stream_piece(stream, stream.lane, round, &at);
        if (bytes)
            weiri_gpu_copy(weiri_gpu_stream_target(view, stream, peer, round, at), stream.at + at,
                           bytes, team.worker, team.workers);
    }
}

/* One round of the streams sent: wait for room, store, signal. */
template <bool same>
WEIRI_GPU_FN void
weiri_gpu_stream_send_round(const weiri_gpu_view &view, const weiri_gpu_streams *streams,
                            const weiri_gpu_team &team, uint64_t epoch, uint64_t round)
{
    uint64_t at;
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers) {
        const weiri_gpu_stream &stream = streams->send[peer];
        if (round >= 2 && peer != view.rank &&
            weiri_gpu_stream_piece(stream, stream.lane, round, &at))
            weiri_gpu_await_step(view,
                                 &weiri_gpu_cell_at(view, view.rank, peer, stream.lane)->taken,
                                 epoch, round - 1, peer);
    }
    weiri_gpu_team_barrier(team);
    if (!same)
        weiri_gpu_stream_send_each(view, streams, team, round);
    else if (view.nranks <= 4)
        weiri_gpu_stream_send_same<4>(view, streams, team, round);
    else
        weiri_gpu_stream_send_same<8>(view, streams, team, round);
    weiri_gpu_team_barrier(team);
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers) {
        const weiri_gpu_stream &stream = streams->send[peer];
        if (peer != view.rank && weiri_gpu_stream_piece(stream, stream.lane, round, &at))
            weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, stream.lane)->staged,
                               weiri_gpu_step(epoch, round + 1));
    }
}

/* One round of one lane of the streams received: wait, copy out, signal. */
WEIRI_GPU_FN void weiri_gpu_stream_receive_round(const weiri_gpu_view &view,
                                                 const weiri_gpu_streams *streams,
                                                 const weiri_gpu_team &team, uint64_t epoch,
                                                 uint64_t round, uint32_t lane)
{
    uint64_t at;
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers)
        if (weiri_gpu_stream_piece(streams->receive[peer], lane, round, &at))
            weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, peer, lane)->staged,
                                 epoch, round + 1, peer);
    weiri_gpu_team_barrier(team);
    for (int peer = 0; peer < view.nranks; peer++) {
        const weiri_gpu_stream &stream = streams->receive[peer];
        uint64_t bytes = weiri_gpu_stream_piece(stream, lane, round, &at);
        if (bytes)
            weiri_gpu_copy(
                stream.at + at,
                weiri_gpu_stage_at(view, view.rank, peer, round, (uint64_t)lane * stream.piece),
                bytes, team.worker, team.workers);
    }
    weiri_gpu_team_barrier(team);
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers)
        if (weiri_gpu_stream_piece(streams->receive[peer], lane, round + 2, &at)) /* the sender will
                                                                                   * wait for it */
            weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, lane)->taken,
                               weiri_gpu_step(epoch, round + 1));
}

/* Runs all streams of a block, which every thread can see; ends with __syncthreads. All threads of
 * the block call it. same: all streams sent carry the same bytes in the same lanes. */
template <bool same>
WEIRI_GPU_FN void weiri_gpu_run_streams(const weiri_gpu_view &view, weiri_gpu_streams *streams,
                                        uint64_t epoch)
{
    bool stores, receives;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        streams->send[peer].piece = weiri_gpu_stream_piece_bytes(view, streams->send[peer]);
        streams->receive[peer].piece = weiri_gpu_stream_piece_bytes(view, streams->receive[peer]);
    }
    const weiri_gpu_team team = weiri_gpu_half_block_teams(NULL, &stores, &receives);
    uint64_t rounds = 0;
    uint32_t lanes = 0;
    for (int peer = 0; peer < view.nranks; peer++) {
        uint64_t out = weiri_gpu_stream_rounds(streams->send[peer]);
        uint64_t in = weiri_gpu_stream_rounds(streams->receive[peer]);
        rounds = rounds > out ? rounds : out;
        rounds = rounds > in ? rounds : in;
        if (streams->receive[peer].lanes > lanes)
            lanes = streams->receive[peer].lanes;
    }
    for (uint64_t round = 0; round < rounds; round++) {
        if (stores)
            weiri_gpu_stream_send_round<same>(view, streams, team, epoch, round);
        for (uint32_t lane = blockIdx.x; lane < lanes && receives; lane += gridDim.x)
            weiri_gpu_stream_receive_round(view, streams, team, epoch, round, lane);
    }
    __syncthreads();
}

#endif
