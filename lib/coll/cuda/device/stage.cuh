/*
 * Streams through the stage: how data reach an output that peers cannot map.
 *
 * Each sender has an equal part of the receiver's stage (both stages, which are
 * neighbours), in two halves that take turns. A stream is cut into pieces; piece
 * number j * lanes + l is the lane l's in round j, in half j % 2. In a round a
 * block first stores its own lanes' pieces into the stages of all peers that it
 * serves so, then takes the pieces that have come for its own output.
 *
 *   sender    staged = epoch << 24 | pieces    in the receiver's cell of the lane
 *   receiver  taken  = epoch << 24 | pieces    in the sender's cell of the lane
 *
 * A piece may be stored once the piece two rounds before is taken; of the last two
 * nobody asks. Rounds are numbered alike at both ends, so no circle of waits can close:
 * what a round waits for needs rounds before it only, or the first half of the same. One
 * half of a block's threads stores, the other takes, so that links are busy while data are
 * taken; a block of too few threads does one after the other.
 *
 * Lanes need not be blocks of one index: a sender says how many lanes there are,
 * and the receiver's blocks take them in turn. A team's threads meet before each release
 * and behind each acquire.
 */
#ifndef WEIR_COLL_CUDA_STAGE_CUH
#define WEIR_COLL_CUDA_STAGE_CUH

#include "coll/cuda/device/move.cuh"
#include "coll/cuda/device/team.cuh"

/* Of two blocks for each multiprocessor: one stores while the other waits. */
#if defined(WEIR_EMULATED)
enum { WEIRI_GPU_LANES_MAX = 3, WEIRI_GPU_PIECE_LEAST_BYTES = 256 }; /* tests have more blocks */
#else
enum { WEIRI_GPU_LANES_MAX = 256, WEIRI_GPU_PIECE_LEAST_BYTES = 16 << 10 };
#endif
enum { WEIRI_GPU_PIECE_MAX_BYTES = 128 << 10 };

/* One direction of a pair; lanes == 0: this block has nothing to do with it. */
typedef struct weiri_gpu_stream {
    char *at; /* where its bytes come from, or are to go */
    char *to; /* where they go to, of what leaves for the own rank */
    uint64_t bytes;
    uint32_t lanes;
    uint32_t lane;  /* the block's, of a stream that leaves */
    uint32_t piece; /* bytes of a lane's, which weiri_gpu_stream_all finds out */
} weiri_gpu_stream;

/* A block's, in shared memory. What leaves for the own rank is copied beside the others. */
typedef struct weiri_gpu_streams {
    weiri_gpu_stream leave[WEIRI_GPU_RANKS_MAX], come[WEIRI_GPU_RANKS_MAX];
} weiri_gpu_streams;

WEIRI_GPU_FN uint32_t weiri_gpu_lanes_for(uint64_t blocks)
{
    return (uint32_t)weiri_gpu_least(blocks, WEIRI_GPU_LANES_MAX);
}

/* Bytes of half a sender's part of a stage. */
WEIRI_GPU_FN uint64_t weiri_gpu_stage_half(const weiri_gpu_view &view)
{
    return (uint32_t)WEIRI_GPU_STAGE_BYTES / (uint32_t)(view.nranks - 1) & ~127u;
}

/* A sender's part of a rank's stage. */
WEIRI_GPU_FN char *weiri_gpu_stage_of(const weiri_gpu_view &view, int at, int from)
{
    const uint32_t part = (uint32_t)(from - (from > at));
    return view.scratch[at] + WEIRI_GPU_STAGE_AT + (uint64_t)part * 2 * weiri_gpu_stage_half(view);
}

/* The place in it for a lane's piece of a stream. */
WEIRI_GPU_FN char *weiri_gpu_stage_at(const weiri_gpu_view &view, int at, int from, uint64_t round,
                                      uint64_t offset)
{
    return weiri_gpu_stage_of(view, at, from) + (round & 1) * weiri_gpu_stage_half(view) + offset;
}

/* Of a lane: as much as the stage holds, or less where all rounds are alike then, or all lanes
 * have room for a stream at once, so that each carries its share, or where there are two rounds
 * then, so that one travels while the other is taken. Whole lines where they fit. */
WEIRI_GPU_FN uint32_t weiri_gpu_piece_bytes(const weiri_gpu_view &view,
                                            const weiri_gpu_stream &stream)
{
    const uint32_t line = WEIRI_GPU_LINE_BYTES;
    if (!stream.lanes)
        return 0;
    const uint32_t half = (uint32_t)weiri_gpu_stage_half(view) / stream.lanes;
    const uint32_t room = (uint32_t)weiri_gpu_least(half, WEIRI_GPU_PIECE_MAX_BYTES);
    if (room < line)
        return room & ~15u;
    const uint32_t lines = weiri_gpu_units(stream.bytes, line);
    uint32_t rounds = weiri_gpu_parts(lines, stream.lanes * (room / line));
    if (rounds == 1 && lines >= 2 * stream.lanes * (WEIRI_GPU_PIECE_LEAST_BYTES / line))
        rounds = 2;
    return weiri_gpu_parts(lines, stream.lanes * rounds) * line;
}

/* Bytes of a lane's piece; 0: the stream has no such piece any more. */
WEIRI_GPU_FN uint64_t weiri_gpu_piece_of(const weiri_gpu_stream &stream, uint32_t lane,
                                         uint64_t round, uint64_t *at)
{
    if (lane >= stream.lanes)
        return 0;
    *at = (round * stream.lanes + lane) * stream.piece;
    return *at < stream.bytes ? weiri_gpu_least(stream.bytes - *at, stream.piece) : 0;
}

WEIRI_GPU_FN uint64_t weiri_gpu_rounds(const weiri_gpu_stream &stream)
{
    if (!stream.lanes)
        return 0;
    return weiri_gpu_parts(weiri_gpu_units(stream.bytes, 16), stream.lanes * (stream.piece / 16));
}

/* Where a piece goes that leaves for a rank. */
WEIRI_GPU_FN char *weiri_gpu_leave_to(const weiri_gpu_view &view, const weiri_gpu_stream &stream,
                                      int peer, uint64_t round, uint64_t at)
{
    if (peer == view.rank)
        return stream.to + at;
    return weiri_gpu_stage_at(view, peer, view.rank, round,
                              (uint64_t)stream.lane * stream.piece);
}

/* A round's pieces, of streams that are alike: loaded once. */
template <int N>
WEIRI_GPU_FN void weiri_gpu_leave_alike(const weiri_gpu_view &view,
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
        const weiri_gpu_stream &stream = streams->leave[peer];
        uint64_t at, piece = weiri_gpu_piece_of(stream, stream.lane, round, &at);
        if (!piece)
            continue;
        to[i] = weiri_gpu_leave_to(view, stream, peer, round, at);
        from = stream.at + at;
        bytes = piece;
    }
    if (bytes)
        weiri_gpu_copy_to<N>(to, from, bytes, team.worker, team.workers);
}

/* A round's pieces, one after the other. */
WEIRI_GPU_FN void weiri_gpu_leave_each(const weiri_gpu_view &view, const weiri_gpu_streams *streams,
                                       const weiri_gpu_team &team, uint64_t round)
{
    for (int i = 0; i < view.nranks; i++) {
        const int peer = weiri_gpu_nth_after(view.rank, i, view.nranks);
        const weiri_gpu_stream &stream = streams->leave[peer];
        uint64_t at, bytes = weiri_gpu_piece_of(stream, stream.lane, round, &at);
        if (bytes)
            weiri_gpu_copy(weiri_gpu_leave_to(view, stream, peer, round, at), stream.at + at, bytes,
                           team.worker, team.workers);
    }
}

/* One round of the streams that leave: wait for room, store, tell. */
template <bool alike>
WEIRI_GPU_FN void weiri_gpu_leave_round(const weiri_gpu_view &view,
                                        const weiri_gpu_streams *streams,
                                        const weiri_gpu_team &team, uint64_t epoch, uint64_t round)
{
    uint64_t at;
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers) {
        const weiri_gpu_stream &stream = streams->leave[peer];
        if (round >= 2 && peer != view.rank &&
            weiri_gpu_piece_of(stream, stream.lane, round, &at))
            weiri_gpu_await_step(
                view, &weiri_gpu_cell_at(view, view.rank, peer, stream.lane)->taken,
                epoch, round - 1, peer);
    }
    weiri_gpu_team_barrier(team);
    if (!alike)
        weiri_gpu_leave_each(view, streams, team, round);
    else if (view.nranks <= 4)
        weiri_gpu_leave_alike<4>(view, streams, team, round);
    else
        weiri_gpu_leave_alike<8>(view, streams, team, round);
    weiri_gpu_team_barrier(team);
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers) {
        const weiri_gpu_stream &stream = streams->leave[peer];
        if (peer != view.rank && weiri_gpu_piece_of(stream, stream.lane, round, &at))
            weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, stream.lane)->staged,
                               weiri_gpu_step(epoch, round + 1));
    }
}

/* One round of one lane of the streams that come: wait, take, tell. */
WEIRI_GPU_FN void weiri_gpu_come_round(const weiri_gpu_view &view, const weiri_gpu_streams *streams,
                                       const weiri_gpu_team &team, uint64_t epoch, uint64_t round,
                                       uint32_t lane)
{
    uint64_t at;
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers)
        if (weiri_gpu_piece_of(streams->come[peer], lane, round, &at))
            weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, peer, lane)->staged,
                                 epoch, round + 1, peer);
    weiri_gpu_team_barrier(team);
    for (int peer = 0; peer < view.nranks; peer++) {
        const weiri_gpu_stream &stream = streams->come[peer];
        uint64_t bytes = weiri_gpu_piece_of(stream, lane, round, &at);
        if (bytes)
            weiri_gpu_copy(stream.at + at,
                           weiri_gpu_stage_at(view, view.rank, peer, round,
                                              (uint64_t)lane * stream.piece),
                           bytes, team.worker, team.workers);
    }
    weiri_gpu_team_barrier(team);
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers)
        if (weiri_gpu_piece_of(streams->come[peer], lane, round + 2, &at)) /* awaits it */
            weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, lane)->taken,
                               weiri_gpu_step(epoch, round + 1));
}

/* All threads of a block, whose streams all of them see. They have met behind it. alike: all
 * streams that leave carry the same bytes, in the same lanes. */
template <bool alike>
WEIRI_GPU_FN void weiri_gpu_stream_all(const weiri_gpu_view &view, weiri_gpu_streams *streams,
                                       uint64_t epoch)
{
    bool stores, takes;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        streams->leave[peer].piece = weiri_gpu_piece_bytes(view, streams->leave[peer]);
        streams->come[peer].piece = weiri_gpu_piece_bytes(view, streams->come[peer]);
    }
    const weiri_gpu_team team = weiri_gpu_half_block(NULL, &stores, &takes);
    uint64_t rounds = 0;
    uint32_t lanes = 0;
    for (int peer = 0; peer < view.nranks; peer++) {
        uint64_t out = weiri_gpu_rounds(streams->leave[peer]);
        uint64_t in = weiri_gpu_rounds(streams->come[peer]);
        rounds = rounds > out ? rounds : out;
        rounds = rounds > in ? rounds : in;
        if (streams->come[peer].lanes > lanes)
            lanes = streams->come[peer].lanes;
    }
    for (uint64_t round = 0; round < rounds; round++) {
        if (stores)
            weiri_gpu_leave_round<alike>(view, streams, team, epoch, round);
        for (uint32_t lane = blockIdx.x; lane < lanes && takes; lane += gridDim.x)
            weiri_gpu_come_round(view, streams, team, epoch, round, lane);
    }
    __syncthreads();
}

#endif
