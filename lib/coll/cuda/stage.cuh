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
 * nobody asks. Rounds are
 * numbered alike at both ends, so no circle of waits can close: what a round
 * waits for needs rounds before it only, or the first half of the same. One half of a
 * block's threads stores, the other takes, so that links are busy while data are taken; a
 * block of too few threads does one after the other.
 *
 * Lanes need not be blocks of one index: a sender says how many lanes there are,
 * and the receiver's blocks take them in turn. A team's threads meet before each release
 * and behind each acquire.
 */
#ifndef WEIR_COLL_CUDA_STAGE_CUH
#define WEIR_COLL_CUDA_STAGE_CUH

#include "coll/cuda/move.cuh"

/* About as many as multiprocessors. */
#if defined(WEIR_EMULATED)
enum { WEIRI_GPU_LANES_MAX = 32 }; /* tests have more blocks */
#else
enum { WEIRI_GPU_LANES_MAX = 128 };
#endif
#define WEIRI_GPU_PIECE_MAX_BYTES ((uint64_t)64 << 10)

/* One direction of a pair; lanes == 0: this block has nothing to do with it. */
typedef struct weiri_gpu_stream {
    char *at; /* where its bytes come from, or are to go */
    uint64_t bytes;
    uint32_t lanes;
    uint32_t lane; /* the block's, of a stream that leaves */
} weiri_gpu_stream;

/* A block's, in shared memory. */
typedef struct weiri_gpu_streams {
    weiri_gpu_stream leave[WEIRI_GPU_RANKS_MAX], come[WEIRI_GPU_RANKS_MAX];
} weiri_gpu_streams;

WEIRI_GPU_FN uint32_t weiri_gpu_lanes(uint64_t blocks)
{
    return (uint32_t)weiri_gpu_least(blocks, WEIRI_GPU_LANES_MAX);
}

/* Bytes of half a sender's part of a stage. */
WEIRI_GPU_FN uint64_t weiri_gpu_stage_half(const weiri_gpu_view &view)
{
    return (uint32_t)WEIRI_GPU_STAGE_BYTES / (uint32_t)view.nranks & ~127u;
}

/* The place in a rank's stage for a lane's piece of a sender's. */
WEIRI_GPU_FN char *weiri_gpu_stage_at(const weiri_gpu_view &view, int at, int from, uint64_t round,
                                      uint64_t offset)
{
    return view.scratch[at] + WEIRI_GPU_STAGE_AT +
           ((uint64_t)from * 2 + (round & 1)) * weiri_gpu_stage_half(view) + offset;
}

/* Of a lane: as much as the stage holds, but less of a stream that all lanes have room for
 * at once, so that each carries its share. Whole lines where they fit. */
WEIRI_GPU_FN uint64_t weiri_gpu_piece_bytes(const weiri_gpu_view &view,
                                            const weiri_gpu_stream &stream)
{
    const uint32_t line = WEIRI_GPU_LINE_BYTES;
    uint32_t room = (uint32_t)weiri_gpu_stage_half(view) / stream.lanes;
    uint32_t lines = weiri_gpu_parts(weiri_gpu_units(stream.bytes, line), stream.lanes);
    room = (uint32_t)weiri_gpu_least(room, WEIRI_GPU_PIECE_MAX_BYTES);
    room &= room < line ? ~15u : ~(line - 1);
    return weiri_gpu_least(room, (uint64_t)lines * line);
}

/* Bytes of a lane's piece; 0: the stream has no such piece any more. */
WEIRI_GPU_FN uint64_t weiri_gpu_piece_of(const weiri_gpu_view &view, const weiri_gpu_stream &stream,
                                         uint32_t lane, uint64_t round, uint64_t *at)
{
    if (lane >= stream.lanes)
        return 0;
    uint64_t piece = weiri_gpu_piece_bytes(view, stream);
    *at = (round * stream.lanes + lane) * piece;
    return *at < stream.bytes ? weiri_gpu_least(stream.bytes - *at, piece) : 0;
}

WEIRI_GPU_FN uint64_t weiri_gpu_rounds(const weiri_gpu_view &view, const weiri_gpu_stream &stream)
{
    if (!stream.lanes)
        return 0;
    uint32_t piece = (uint32_t)weiri_gpu_piece_bytes(view, stream);
    return weiri_gpu_parts(weiri_gpu_units(stream.bytes, 16), stream.lanes * (piece / 16));
}

/* The threads that store, or those that take: half a block each, or all of it. */
typedef struct weiri_gpu_team {
    uint32_t worker, workers;
    int half; /* 0: stores, 1: takes, -1: all threads do both */
} weiri_gpu_team;

WEIRI_GPU_FN weiri_gpu_team weiri_gpu_team_of_thread(void)
{
    const uint32_t half = blockDim.x / 2;
    if (half % 32 || !half)
        return {threadIdx.x, blockDim.x, -1};
    return {threadIdx.x % half, half, threadIdx.x >= half};
}

WEIRI_GPU_FN void weiri_gpu_team_meet(const weiri_gpu_team &team)
{
    if (team.half < 0)
        __syncthreads();
    else
        __barrier_sync_count((unsigned)team.half + 1, team.workers);
}

/* One round of the streams that leave: wait for room, store, tell. */
WEIRI_GPU_FN void weiri_gpu_leave_round(const weiri_gpu_view &view,
                                        const weiri_gpu_streams *streams,
                                        const weiri_gpu_team &team, uint64_t epoch, uint64_t round)
{
    uint64_t at;
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers) {
        const weiri_gpu_stream &stream = streams->leave[peer];
        if (round >= 2 && weiri_gpu_piece_of(view, stream, stream.lane, round, &at))
            weiri_gpu_await_word(
                view, &weiri_gpu_cell_at(view, view.rank, peer, stream.lane)->taken,
                weiri_gpu_step(epoch, round - 1), peer);
    }
    weiri_gpu_team_meet(team);
    for (int i = 0; i < view.nranks; i++) {
        const int peer = weiri_gpu_nth_after(view.rank, i, view.nranks);
        const weiri_gpu_stream &stream = streams->leave[peer];
        uint64_t bytes = weiri_gpu_piece_of(view, stream, stream.lane, round, &at);
        if (bytes)
            weiri_gpu_copy(weiri_gpu_stage_at(view, peer, view.rank, round,
                                              stream.lane * weiri_gpu_piece_bytes(view, stream)),
                           stream.at + at, bytes, team.worker, team.workers);
    }
    weiri_gpu_team_meet(team);
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers) {
        const weiri_gpu_stream &stream = streams->leave[peer];
        if (weiri_gpu_piece_of(view, stream, stream.lane, round, &at))
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
        if (weiri_gpu_piece_of(view, streams->come[peer], lane, round, &at))
            weiri_gpu_await_word(view, &weiri_gpu_cell_at(view, view.rank, peer, lane)->staged,
                                 weiri_gpu_step(epoch, round + 1), peer);
    weiri_gpu_team_meet(team);
    for (int peer = 0; peer < view.nranks; peer++) {
        const weiri_gpu_stream &stream = streams->come[peer];
        uint64_t bytes = weiri_gpu_piece_of(view, stream, lane, round, &at);
        if (bytes)
            weiri_gpu_copy(stream.at + at,
                           weiri_gpu_stage_at(view, view.rank, peer, round,
                                              lane * weiri_gpu_piece_bytes(view, stream)),
                           bytes, team.worker, team.workers);
    }
    weiri_gpu_team_meet(team);
    for (int peer = (int)team.worker; peer < view.nranks; peer += (int)team.workers)
        if (weiri_gpu_piece_of(view, streams->come[peer], lane, round + 2, &at)) /* awaits it */
            weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, lane)->taken,
                               weiri_gpu_step(epoch, round + 1));
}

/* All threads of a block, whose streams all of them see. They have met behind it. */
WEIRI_GPU_FN void weiri_gpu_stream_all(const weiri_gpu_view &view, const weiri_gpu_streams *streams,
                                       uint64_t epoch)
{
    const weiri_gpu_team team = weiri_gpu_team_of_thread();
    uint64_t rounds = 0;
    uint32_t lanes = 0;
    for (int peer = 0; peer < view.nranks; peer++) {
        uint64_t out = weiri_gpu_rounds(view, streams->leave[peer]);
        uint64_t in = weiri_gpu_rounds(view, streams->come[peer]);
        rounds = rounds > out ? rounds : out;
        rounds = rounds > in ? rounds : in;
        if (streams->come[peer].lanes > lanes)
            lanes = streams->come[peer].lanes;
    }
    for (uint64_t round = 0; round < rounds; round++) {
        if (team.half != 1)
            weiri_gpu_leave_round(view, streams, team, epoch, round);
        for (uint32_t lane = blockIdx.x; lane < lanes && team.half; lane += gridDim.x)
            weiri_gpu_come_round(view, streams, team, epoch, round, lane);
    }
    __syncthreads();
}

#endif
