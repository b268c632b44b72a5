/*
 * Messages between pairs in one launch, whatever their lengths: alltoallv,
 * sendrecv, and alltoall of more than packets carry. How a message travels
 * depends on its length alone, which both ends know:
 *
 *   short  as packets; where a rank has no others, by a kernel that can do no more,
 *   long   straight into the receiver's output; if peers cannot map that,
 *          through the receiver's stage, piece by piece (stage.cuh).
 *
 * Every rank decides for itself how its blocks divide what it sends, so grids
 * and everything else may differ between ranks. Phases:
 *
 *   1. credit: a receiver tells every sender of a long message where it may
 *      store, which also says that the receiver's earlier kernels have ended,
 *   2. short messages leave as packets, and to every peer a header: how long the
 *      message is, and in how many lanes it comes if it is long,
 *   3. long messages: a block's lane waits for the credit, stores its part,
 *      meets and signals (release) in the cell of the lane's number,
 *   4. short messages are received; each header is compared with what is
 *      expected: a difference aborts the communicator, and nothing is stored
 *      outside the output. A sender that waits for a credit which its receiver has
 *      no reason to give is told so by a credit for no bytes,
 *   5. the lanes of long messages are awaited (acquire).
 *
 * A header comes from every peer in every launch, so packets need no other
 * proof that a peer has finished. A credit is read only by blocks that signal
 * behind it, or send pieces through the stage, which are awaited: the next one cannot
 * overwrite it unread.
 */
#include "coll/cuda/device/exchange.cuh"
#include "coll/cuda/device/stage.cuh"
#include "coll/cuda/device/types.cuh"

/* A block's stretch of a long message, before the next block's: four vectors a thread. */
enum { TILE_THREAD_BYTES = 64 };
/* The own share crosses no link: its tiles are cheaper. */
enum { OWN_TILES_AS_ONE = 4 };

/* What this block has to do with a rank's credit. */
enum { NOT_SERVED, MAPPED, STAGED, REFUSED };

/* What a lane's signal says. */
enum { SENT = 1, ABANDONED = 2 };

/* What this rank exchanges with each rank; the same in all blocks but for the
 * last three. A long message has lanes, which are neighbouring blocks, from first_block
 * on and round the `senders` first blocks of the grid; the own share has blocks of
 * its own behind those. */
typedef struct exchange {
    weiri_gpu_pair pair[WEIRI_GPU_RANKS_MAX];
    uint64_t packet_bytes;
    uint32_t senders;
    uint32_t first_block[WEIRI_GPU_RANKS_MAX], lanes[WEIRI_GPU_RANKS_MAX];
    int state[WEIRI_GPU_RANKS_MAX];
    weiri_gpu_desc credit[WEIRI_GPU_RANKS_MAX];
    weiri_gpu_streams streams;
} exchange;

WEIRI_GPU_FN int is_long(const exchange *x, uint64_t bytes)
{
    return bytes > x->packet_bytes;
}

/* ------------------------------------------------------------------ division */

/* Fills pair and packet_bytes; whether any message of this rank is long. */
WEIRI_GPU_FN int load_pairs(const weiri_gpu_args &args, exchange *x)
{
    const weiri_gpu_view &view = args.view;
    uint64_t packet_bytes = weiri_gpu_packet_bytes_of(args);
    int any_long = 0;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        weiri_gpu_pair pair = weiri_gpu_load_pair(args, peer);
        if (peer == view.rank && pair.send_bytes != pair.recv_bytes) {
            if (pair.send_at != WEIRI_GPU_REFUSED && pair.recv_at != WEIRI_GPU_REFUSED)
                weiri_gpu_disagree(view, peer, pair.recv_bytes, pair.send_bytes);
            pair.send_bytes = weiri_gpu_least(pair.send_bytes, pair.recv_bytes);
        }
        x->pair[peer] = pair;
        any_long |= pair.send_bytes > packet_bytes || pair.recv_bytes > packet_bytes;
    }
    if (!threadIdx.x)
        x->packet_bytes = packet_bytes;
    return __syncthreads_or(any_long);
}

WEIRI_GPU_FN uint64_t tile_bytes(void)
{
    return (uint64_t)blockDim.x * TILE_THREAD_BYTES;
}

WEIRI_GPU_FN uint32_t tiles_for(const exchange *x, int peer)
{
    uint64_t bytes = x->pair[peer].send_bytes;
    return is_long(x, bytes)
               ? weiri_gpu_parts(weiri_gpu_units(bytes, TILE_THREAD_BYTES), blockDim.x)
               : 0;
}

/* Deals the tiles of all long messages to the blocks in turn, one message after the
 * other, beginning with the next rank's: so ranks with equal messages send to one peer at
 * a time, each to another, which is faster than to all at once (357 against 350 GB/s). */
WEIRI_GPU_FN void divide(const weiri_gpu_view &view, exchange *x)
{
    const uint32_t blocks = gridDim.x;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const uint32_t tiles = tiles_for(x, peer), own = tiles_for(x, view.rank);
        uint32_t before = 0, all = 0;
        for (int i = 0; i + 1 < view.nranks; i++) {
            int other = weiri_gpu_rank_after(view, i);
            before = other == peer ? all : before;
            all += tiles_for(x, other);
        }
        uint32_t alone = 0; /* blocks that copy the own share */
        if (own) {
            uint64_t weight = (uint64_t)all * OWN_TILES_AS_ONE + own;
            alone = (uint32_t)(((uint64_t)own * blocks + weight - 1) / weight);
            alone = all && alone == blocks ? blocks - 1 : alone;
        }
        const uint32_t senders = blocks - alone;
        if (peer == view.rank) {
            x->senders = senders;
            x->first_block[peer] = alone ? senders : 0;
            x->lanes[peer] = own ? (alone ? alone : 1) : 0;
        } else {
            x->first_block[peer] = tiles ? before % senders : 0;
            x->lanes[peer] = (uint32_t)weiri_gpu_least(tiles, senders);
        }
    }
    __syncthreads();
}

/* This block's lane of a message to a peer; not below lanes[peer] if it has none. */
WEIRI_GPU_FN uint32_t lane_of(const weiri_gpu_view &view, const exchange *x, int peer)
{
    const uint32_t first = x->first_block[peer];
    if (peer == view.rank)
        return blockIdx.x - first;
    if (blockIdx.x >= x->senders)
        return x->lanes[peer];
    return blockIdx.x >= first ? blockIdx.x - first : blockIdx.x + x->senders - first;
}

WEIRI_GPU_FN int serves(const weiri_gpu_view &view, const exchange *x, int peer)
{
    return lane_of(view, x, peer) < x->lanes[peer];
}

/* What a lane moves of a message: stretches of so many bytes, and from one to the next,
 * counted from the line of 128 bytes in which the target begins, so that lines are
 * stored whole. */
typedef struct stretches {
    uint64_t first, bytes, step, before; /* before: of the first line, what is not the target's */
} stretches;

WEIRI_GPU_FN stretches stretches_of(const exchange *x, int peer, uint32_t lane, const char *to)
{
    const uint32_t lanes = x->lanes[peer];
    stretches s;
    s.before = weiri_gpu_misaligned(to, WEIRI_GPU_LINE_BYTES);
    s.bytes = tile_bytes();
    s.first = lane * s.bytes;
    s.step = lanes * s.bytes;
    return s;
}

/* Where the first block's threads tell senders of long messages what they wait
 * for. Read by all their blocks. */
WEIRI_GPU_FN void give_credits(const weiri_gpu_args &args, const exchange *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const weiri_gpu_pair &pair = x->pair[peer];
        if (peer != view.rank && is_long(x, pair.recv_bytes))
            weiri_gpu_tell(view, peer, epoch, pair.recv_bytes,
                           args.out_desc == WEIRI_GPU_PLAIN ? WEIRI_GPU_PLAIN
                                                            : args.out_desc + pair.recv_at);
    }
}

/* ---------------------------------------------------------------------- long */

/* Looks at the headers that have come already: ranks that wait for credits which
 * neither of them gives must not wait for each other. */
WEIRI_GPU_FN void look_at_headers(const weiri_gpu_args &args, const exchange *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = 0; peer < view.nranks; peer++) {
        const char *slot = weiri_gpu_slot(view, view.rank, peer, epoch, WEIRI_GPU_HEADER);
        uint64_t header;
        if (peer != view.rank &&
            weir_packet16_read((const uint64_t *)slot, (uint32_t)epoch, &header))
            weiri_gpu_compare_header(view, x->pair[peer], x->packet_bytes, peer, epoch, header);
    }
}

/* Waits for a peer's credit: bytes, and where. No bytes if none comes. */
WEIRI_GPU_FN void hear_credit(const weiri_gpu_args &args, const exchange *x, int peer,
                              uint64_t epoch, uint64_t *bytes, weiri_gpu_desc *at)
{
    enum { POLLS_PER_LOOK = 16 };
    const weiri_gpu_view &view = args.view;
    const weiri_gpu_cell *cell = weiri_gpu_cell_at(view, view.rank, peer, 0);
    weir_waiter waiter = {0, 0};
    while (!weiri_gpu_read_told(cell, epoch, bytes, at)) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_PACKET, epoch,
                           weir_load_relaxed(cell->in) >> 32);
            *bytes = 0;
            return;
        }
        if (waiter.polls % POLLS_PER_LOOK == 0)
            look_at_headers(args, x, epoch);
    }
}

/* Hears the credits that this block's parts need; afterwards all threads know
 * the states. A credit that did not come, or says other bytes, is refused. */
WEIRI_GPU_FN void hear_credits(const weiri_gpu_args &args, exchange *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        int state = serves(view, x, peer) ? MAPPED : NOT_SERVED;
        if (state == MAPPED && peer != view.rank) {
            uint64_t bytes;
            weiri_gpu_desc at = WEIRI_GPU_PLAIN;
            hear_credit(args, x, peer, epoch, &bytes, &at);
            x->credit[peer] = at;
            state = at == WEIRI_GPU_PLAIN ? STAGED : MAPPED;
            if (bytes != x->pair[peer].send_bytes)
                state = REFUSED;
            if (state == REFUSED && bytes)
                weiri_gpu_disagree(view, peer, bytes, x->pair[peer].send_bytes);
        }
        x->state[peer] = state;
    }
    __syncthreads();
}

WEIRI_GPU_FN void push_mapped(const weiri_gpu_args &args, const exchange *x)
{
    const weiri_gpu_view &view = args.view;
    for (int i = 0; i < view.nranks; i++) {
        int peer = weiri_gpu_rank_after(view, i);
        if (x->state[peer] != MAPPED)
            continue;
        const weiri_gpu_pair &pair = x->pair[peer];
        char *to = peer == view.rank ? args.out + pair.recv_at
                                     : weiri_gpu_address(view, peer, x->credit[peer]);
        const stretches s = stretches_of(x, peer, lane_of(view, x, peer), to);
        const uint64_t end = pair.send_bytes + s.before;
        for (uint64_t at = s.first; at < end; at += s.step) {
            const uint64_t begin = at > s.before ? at - s.before : 0;
            const uint64_t bytes = weiri_gpu_least(end, at + s.bytes) - s.before - begin;
            const char *from = args.in + pair.send_at + begin;
            weiri_gpu_copy(to + begin, from, bytes);
        }
    }
}

WEIRI_GPU_FN uint64_t signal_of(uint64_t epoch, uint64_t how)
{
    return epoch << WEIRI_GPU_SIGNAL_SHIFT | how;
}

/* What a lane's sender says instead of pieces if it gives up. */
WEIRI_GPU_FN uint64_t abandoned_of(uint64_t epoch)
{
    return weiri_gpu_step(epoch + 1, 0) - 1;
}

/* Whether a lane has pieces of a stream: they tell all that a signal would. */
WEIRI_GPU_FN bool streams_lane(const weiri_gpu_stream &stream, uint32_t lane)
{
    uint64_t at;
    return stream.lanes && weiri_gpu_piece_of(stream, lane, 0, &at) != 0;
}

/* Sets up this block's streams; whether there are any. The stage divides a
 * message otherwise than the blocks do, as the receiver must know it. The block
 * meets here between its stores to mapped outputs and its signals. */
WEIRI_GPU_FN int set_up_streams(const weiri_gpu_args &args, exchange *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    int any = 0;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const weiri_gpu_pair &pair = x->pair[peer];
        weiri_gpu_stream *leave = &x->streams.leave[peer], *come = &x->streams.come[peer];
        leave->at = (char *)args.in + pair.send_at;
        leave->bytes = pair.send_bytes;
        leave->lanes = x->state[peer] == STAGED ? weiri_gpu_lanes_for(x->lanes[peer]) : 0;
        leave->lane = lane_of(view, x, peer);
        come->at = args.out + pair.recv_at;
        come->bytes = pair.recv_bytes;
        come->lanes = come->lane = 0;
        if (args.out_desc == WEIRI_GPU_PLAIN && peer != view.rank && is_long(x, pair.recv_bytes)) {
            uint64_t header = weiri_gpu_receive_header(view, peer, epoch);
            if (weiri_gpu_header_bytes(header) == pair.recv_bytes)
                come->lanes = weiri_gpu_lanes_for(header >> WEIRI_GPU_HEADER_SHIFT);
        }
        any |= leave->lanes || come->lanes;
    }
    return __syncthreads_or(any);
}

WEIRI_GPU_FN void send_long(const weiri_gpu_args &args, exchange *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = 0; peer < view.nranks; peer++) {
        const uint64_t all = x->pair[peer].send_bytes;
        const uint64_t first = lane_of(view, x, peer) * tile_bytes();
        if (serves(view, x, peer) && first < all)
            weiri_gpu_prefetch(args.in + x->pair[peer].send_at + first,
                               weiri_gpu_least(all - first, tile_bytes()), threadIdx.x, blockDim.x);
    }
    hear_credits(args, x, epoch);
    push_mapped(args, x);
    if (set_up_streams(args, x, epoch))
        weiri_gpu_stream_all<false>(view, &x->streams, epoch);
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const uint32_t lane = lane_of(view, x, peer);
        if (peer == view.rank || x->state[peer] == NOT_SERVED ||
            streams_lane(x->streams.leave[peer], lane))
            continue;
        weiri_gpu_cell *cell = weiri_gpu_cell_at(view, peer, view.rank, lane);
        if (x->state[peer] == REFUSED) /* nobody shall wait for pieces */
            weir_store_release(&cell->staged, abandoned_of(epoch));
        weir_store_release(&cell->signal,
                           signal_of(epoch, x->state[peer] == REFUSED ? ABANDONED : SENT));
    }
}

/* A lane's part is there, or the first piece of its stream, whose others are taken by one of
 * this rank's blocks. If its sender has given up, so does this rank. */
WEIRI_GPU_FN void await_lane(const weiri_gpu_view &view, const exchange *x, int peer, uint32_t lane,
                             uint64_t epoch)
{
    const weiri_gpu_cell *cell = weiri_gpu_cell_at(view, view.rank, peer, lane);
    bool abandoned;
    if (streams_lane(x->streams.come[peer], lane)) {
        weiri_gpu_await_step(view, &cell->staged, epoch, 1, peer);
        abandoned = weir_load_relaxed(&cell->staged) == abandoned_of(epoch);
    } else {
        weiri_gpu_await_word(view, &cell->signal, signal_of(epoch, SENT), peer);
        abandoned = weir_load_relaxed(&cell->signal) == signal_of(epoch, ABANDONED);
    }
    if (abandoned)
        weir_store_release((uint64_t *)view.guard.abort_word, 1);
}

/* Each block waits for the lanes of some peers. */
WEIRI_GPU_FN void await_long(const weiri_gpu_args &args, const exchange *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (uint32_t i = blockIdx.x; i + 1 < (uint32_t)view.nranks; i += gridDim.x) {
        int peer = weiri_gpu_rank_after(view, (int)i);
        if (!is_long(x, x->pair[peer].recv_bytes))
            continue;
        uint64_t header = weiri_gpu_receive_header(view, peer, epoch);
        if (weiri_gpu_header_bytes(header) != x->pair[peer].recv_bytes)
            continue;
        for (uint32_t lane = threadIdx.x; lane < header >> WEIRI_GPU_HEADER_SHIFT;
             lane += blockDim.x)
            await_lane(view, x, peer, lane, epoch);
    }
}

WEIRI_GPU_FN void exchange_all(const weiri_gpu_args &args, exchange *x)
{
    uint64_t epoch = weiri_gpu_epoch(args.view);
    weiri_gpu_lane lane = weiri_gpu_lane_of(args.view);
    int any_long = load_pairs(args, x);
    if (any_long) {
        if (!blockIdx.x)
            give_credits(args, x, epoch);
        divide(args.view, x);
    }
    weiri_gpu_send_short(args, x->pair, x->packet_bytes, any_long ? x->lanes : NULL, epoch, lane);
    weiri_gpu_turn(args.view, epoch);
    if (any_long)
        send_long(args, x, epoch);
    weiri_gpu_receive_short(args, x->pair, x->packet_bytes, epoch, lane);
    if (any_long)
        await_long(args, x, epoch);
}

static __global__ void __launch_bounds__(512)
    exchange_direct(const __grid_constant__ weiri_gpu_args args)
{
    __shared__ exchange x;
    exchange_all(args, &x);
}

/* ---------------------------------------------------------------------- host */

WEIRI_GPU_DEFINE_OF_BYTES(exchange_direct)

weiri_gpu_shape weiri_gpu_exchange_direct_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t packet_bytes = weiri_gpu_packet_bytes_of(*args);
    uint64_t longest = weiri_gpu_longest_bytes(args), nranks = (uint64_t)args->view.nranks;
    if (longest <= packet_bytes) /* a header is a packet more */
        return weiri_gpu_copy_shape((longest + 8 + 255) / 256 * 32 * nranks, processors);
    const int blocks = longest <= (uint64_t)1 << 20 ? processors : 2 * processors;
    return {blocks, 256};
}

int weiri_gpu_exchange_direct_serves(const weiri_gpu_args *args)
{
    uint64_t packet_bytes = weiri_gpu_packet_bytes_of(*args);
    return packet_bytes <= WEIRI_GPU_SLOT_BYTES / 2 &&
           (args->collective == WEIR_COLL_ALLTOALL || args->collective == WEIR_COLL_ALLTOALLV ||
            args->collective == WEIR_COLL_SENDRECV);
}
