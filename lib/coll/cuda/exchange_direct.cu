/*
 * alltoallv, sendrecv, long alltoall, and allgather of long unregistered memory: messages between
 * pairs in one launch, whatever their lengths. How a message travels depends only on its length,
 * which both ends know:
 *
 *   short  as LL packets; if a rank has only short ones, exchange_short may serve it,
 *   long   directly into the receiver's output; if peers cannot map that, through the
 *          receiver's staging buffer, piece by piece (stage.cuh).
 *
 * Every rank decides for itself how its blocks divide what it sends, so grids and everything else
 * may differ between ranks.
 *
 *   1. Credits: a receiver sends the sender of each long message the descriptor of where to
 *      store it, which also proves that the receiver's earlier kernels have ended.
 *   2. Short messages are sent as packets, and a header goes to every peer: the length of the
 *      message and, if it is long, its number of lanes (sending blocks).
 *   3. Long messages: each lane waits for the credit, stores its part, synchronises its
 *      threads and signals (release) in the cell of the lane's number.
 *   4. Short messages are received, and each header is compared with what is expected. A
 *      difference aborts the communicator, and nothing is stored outside the output. A sender
 *      waiting for a credit that its receiver has no reason to give gets an empty credit.
 *   5. The lanes of long messages are awaited (acquire).
 *
 * A header arrives from every peer in every launch, so packets need no other proof that a peer has
 * finished. A credit is read only by blocks that later signal, or send pieces through the staging
 * buffer, and both are awaited: the next credit cannot overwrite it unread.
 */
#include "coll/cuda/device/exchange.cuh"
#include "coll/cuda/device/stage.cuh"
#include "coll/cuda/device/types.cuh"

/* Bytes per thread of a tile: blocks take the tiles of a long message in turn. */
enum { TILE_THREAD_BYTES = 64 };
/* Tiles of this rank's message to itself cross no link: so many count as one. */
enum { OWN_TILES_AS_ONE = 4 };

/* How this block serves a rank's message. */
enum { NOT_SERVED, MAPPED, STAGED, REFUSED };

/* Values of a lane's signal. */
enum { SENT = 1, ABANDONED = 2 };

/* What this rank exchanges with each rank; the same in all blocks except for the last three
 * members. The lanes of a long message are neighbouring blocks, from first_block on, cyclically
 * among the first `senders` blocks of the grid; the message to itself has the blocks after
 * those. */
typedef struct exchange_state {
    weiri_gpu_pair pair[WEIRI_GPU_RANKS_MAX];
    uint64_t packet_bytes;
    uint32_t senders;
    uint32_t first_block[WEIRI_GPU_RANKS_MAX], lanes[WEIRI_GPU_RANKS_MAX];
    int state[WEIRI_GPU_RANKS_MAX];
    weiri_gpu_desc credit[WEIRI_GPU_RANKS_MAX];
    weiri_gpu_streams streams;
} exchange_state;

WEIRI_GPU_FN int is_long(const exchange_state *x, uint64_t bytes)
{
    return bytes > x->packet_bytes;
}

/* ------------------------------------------------------------------ division */

/* Fills pair and packet_bytes; returns whether any message of this rank is long. */
WEIRI_GPU_FN int exchange_load_pairs(const weiri_gpu_args &args, exchange_state *x)
{
    const weiri_gpu_view &view = args.view;
    uint64_t packet_bytes = weiri_gpu_packet_bytes_of(args);
    int any_long = 0;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        weiri_gpu_pair pair = weiri_gpu_load_pair(args, peer);
        if (peer == view.rank && pair.send_bytes != pair.recv_bytes) {
            if (pair.send_at != WEIRI_GPU_REFUSED && pair.recv_at != WEIRI_GPU_REFUSED)
                weiri_gpu_fail_mismatch(view, peer, pair.recv_bytes, pair.send_bytes);
            pair.send_bytes = weiri_gpu_min(pair.send_bytes, pair.recv_bytes);
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

WEIRI_GPU_FN uint32_t tiles_for(const exchange_state *x, int peer)
{
    uint64_t bytes = x->pair[peer].send_bytes;
    return is_long(x, bytes)
               ? weiri_gpu_div_up(weiri_gpu_units_for(bytes, TILE_THREAD_BYTES), blockDim.x)
               : 0;
}

/* Deals the tiles of all long messages to the blocks in turn, message by message, beginning with
 * the next rank's. Ranks with equal messages therefore send to one peer at a time, each to a
 * different one, which is faster than sending to all at once. */
WEIRI_GPU_FN void divide_lanes(const weiri_gpu_view &view, exchange_state *x)
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
        uint32_t alone = 0; /* blocks that copy this rank's message to itself */
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
            x->lanes[peer] = (uint32_t)weiri_gpu_min(tiles, senders);
        }
    }
    __syncthreads();
}

/* This block's lane of a message to a peer; at least lanes[peer] if it has none. */
WEIRI_GPU_FN uint32_t lane_of(const weiri_gpu_view &view, const exchange_state *x, int peer)
{
    const uint32_t first = x->first_block[peer];
    if (peer == view.rank)
        return blockIdx.x - first;
    if (blockIdx.x >= x->senders)
        return x->lanes[peer];
    return blockIdx.x >= first ? blockIdx.x - first : blockIdx.x + x->senders - first;
}

WEIRI_GPU_FN int has_lane(const weiri_gpu_view &view, const exchange_state *x, int peer)
{
    return lane_of(view, x, peer) < x->lanes[peer];
}

/* What a lane moves of a message: stretches of `bytes` bytes, `step` apart, counted from the
 * 128-byte line in which the target begins, so that lines are stored whole. */
typedef struct stretches {
    uint64_t first, bytes, step, before; /* before: bytes of the first line before the target */
} stretches;

WEIRI_GPU_FN stretches stretches_of(const exchange_state *x, int peer, uint32_t lane,
                                    const char *to)
{
    const uint32_t lanes = x->lanes[peer];
    stretches s;
    s.before = weiri_gpu_misaligned(to, WEIRI_GPU_LINE_BYTES);
    s.bytes = tile_bytes();
    s.first = lane * s.bytes;
    s.step = lanes * s.bytes;
    return s;
}

/* Sends the credits of all long messages this rank receives. Called by the first block; read by all
 * blocks of the senders. */
WEIRI_GPU_FN void send_credits(const weiri_gpu_args &args, const exchange_state *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const weiri_gpu_pair &pair = x->pair[peer];
        if (peer != view.rank && is_long(x, pair.recv_bytes))
            weiri_gpu_send_descs(view, peer, epoch, pair.recv_bytes,
                                 args.out_desc == WEIRI_GPU_UNMAPPED
                                     ? WEIRI_GPU_UNMAPPED
                                     : args.out_desc + pair.recv_at);
    }
}

/* ---------------------------------------------------------------------- long */

/* Checks the headers that have arrived already, so that two ranks waiting for credits which neither
 * will give do not wait for each other. */
WEIRI_GPU_FN void check_arrived_headers(const weiri_gpu_args &args, const exchange_state *x,
                                        uint64_t epoch)
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

/* Waits for a peer's credit: the length and where to store. bytes is 0 if none comes. */
WEIRI_GPU_FN void await_credit(const weiri_gpu_args &args, const exchange_state *x, int peer,
                               uint64_t epoch, uint64_t *bytes, weiri_gpu_desc *at)
{
    enum { POLLS_PER_LOOK = 16 };
    const weiri_gpu_view &view = args.view;
    const weiri_gpu_cell *cell = weiri_gpu_cell_at(view, view.rank, peer, 0);
    weir_waiter waiter = {0, 0};
    while (!weiri_gpu_read_descs(cell, epoch, bytes, at)) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_PACKET, epoch,
                           weir_load_relaxed(cell->in) >> 32);
            *bytes = 0;
            return;
        }
        if (waiter.polls % POLLS_PER_LOOK == 0)
            check_arrived_headers(args, x, epoch);
    }
}

/* Waits for the credits that this block needs; afterwards all threads know the states. A credit
 * that did not come, or is for another length, is rejected. */
WEIRI_GPU_FN void await_credits(const weiri_gpu_args &args, exchange_state *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        int state = has_lane(view, x, peer) ? MAPPED : NOT_SERVED;
        if (state == MAPPED && peer != view.rank) {
            uint64_t bytes;
            weiri_gpu_desc at = WEIRI_GPU_UNMAPPED;
            await_credit(args, x, peer, epoch, &bytes, &at);
            x->credit[peer] = at;
            state = at == WEIRI_GPU_UNMAPPED ? STAGED : MAPPED;
            if (bytes != x->pair[peer].send_bytes)
                state = REFUSED;
            if (state == REFUSED && bytes)
                weiri_gpu_fail_mismatch(view, peer, bytes, x->pair[peer].send_bytes);
        }
        x->state[peer] = state;
    }
    __syncthreads();
}

WEIRI_GPU_FN void store_mapped(const weiri_gpu_args &args, const exchange_state *x)
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
            const uint64_t bytes = weiri_gpu_min(end, at + s.bytes) - s.before - begin;
            const char *from = args.in + pair.send_at + begin;
            weiri_gpu_copy(to + begin, from, bytes);
        }
    }
}

WEIRI_GPU_FN uint64_t signal_of(uint64_t epoch, uint64_t how)
{
    return epoch << WEIRI_GPU_SIGNAL_SHIFT | how;
}

/* The value of `staged` by which a lane's sender gives up. */
WEIRI_GPU_FN uint64_t abandoned_of(uint64_t epoch)
{
    return weiri_gpu_step(epoch + 1, 0) - 1;
}

/* Whether a lane has pieces of a stream; they replace its signal. */
WEIRI_GPU_FN bool streams_lane(const weiri_gpu_stream &stream, uint32_t lane)
{
    uint64_t at;
    return stream.lanes && weiri_gpu_stream_piece(stream, lane, 0, &at) != 0;
}

/* Sets up this block's streams; returns whether there are any. The staging buffer divides a message
 * differently from the blocks, because the receiver must know the division. The block synchronises
 * here, between its stores to mapped outputs and its signals. */
WEIRI_GPU_FN int set_up_streams(const weiri_gpu_args &args, exchange_state *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    int any = 0;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const weiri_gpu_pair &pair = x->pair[peer];
        weiri_gpu_stream *leave = &x->streams.send[peer], *come = &x->streams.receive[peer];
        leave->at = (char *)args.in + pair.send_at;
        leave->bytes = pair.send_bytes;
        leave->lanes = x->state[peer] == STAGED ? weiri_gpu_lanes_for(x->lanes[peer]) : 0;
        leave->lane = lane_of(view, x, peer);
        come->at = args.out + pair.recv_at;
        come->bytes = pair.recv_bytes;
        come->lanes = come->lane = 0;
        if (args.out_desc == WEIRI_GPU_UNMAPPED && peer != view.rank &&
            is_long(x, pair.recv_bytes)) {
            uint64_t header = weiri_gpu_receive_header(view, peer, epoch);
            if (weiri_gpu_header_bytes(header) == pair.recv_bytes)
                come->lanes = weiri_gpu_lanes_for(header >> WEIRI_GPU_HEADER_SHIFT);
        }
        any |= leave->lanes || come->lanes;
    }
    return __syncthreads_or(any);
}

WEIRI_GPU_FN void exchange_send_long(const weiri_gpu_args &args, exchange_state *x, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (int peer = 0; peer < view.nranks; peer++) {
        const uint64_t all = x->pair[peer].send_bytes;
        const uint64_t first = lane_of(view, x, peer) * tile_bytes();
        if (has_lane(view, x, peer) && first < all)
            weiri_gpu_prefetch(args.in + x->pair[peer].send_at + first,
                               weiri_gpu_min(all - first, tile_bytes()), threadIdx.x, blockDim.x);
    }
    await_credits(args, x, epoch);
    store_mapped(args, x);
    if (set_up_streams(args, x, epoch))
        weiri_gpu_run_streams<false>(view, &x->streams, epoch);
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const uint32_t lane = lane_of(view, x, peer);
        if (peer == view.rank || x->state[peer] == NOT_SERVED ||
            streams_lane(x->streams.send[peer], lane))
            continue;
        weiri_gpu_cell *cell = weiri_gpu_cell_at(view, peer, view.rank, lane);
        if (x->state[peer] == REFUSED) /* nobody may wait for pieces */
            weir_store_release(&cell->staged, abandoned_of(epoch));
        weir_store_release(&cell->signal,
                           signal_of(epoch, x->state[peer] == REFUSED ? ABANDONED : SENT));
    }
}

/* Waits for a lane's part, or for the first piece of its stream, whose other pieces are taken by
 * one of this rank's blocks. If the sender has given up, this rank gives up as well. */
WEIRI_GPU_FN void await_lane(const weiri_gpu_view &view, const exchange_state *x, int peer,
                             uint32_t lane, uint64_t epoch)
{
    const weiri_gpu_cell *cell = weiri_gpu_cell_at(view, view.rank, peer, lane);
    bool abandoned;
    if (streams_lane(x->streams.receive[peer], lane)) {
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
WEIRI_GPU_FN void exchange_await_long(const weiri_gpu_args &args, const exchange_state *x,
                                      uint64_t epoch)
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

WEIRI_GPU_FN void exchange_all(const weiri_gpu_args &args, exchange_state *x)
{
    uint64_t epoch = weiri_gpu_epoch(args.view);
    weiri_gpu_assignment lane = weiri_gpu_assign_peer(args.view);
    int any_long = exchange_load_pairs(args, x);
    if (any_long) {
        if (!blockIdx.x)
            send_credits(args, x, epoch);
        divide_lanes(args.view, x);
    }
    weiri_gpu_send_short(args, x->pair, x->packet_bytes, any_long ? x->lanes : NULL, epoch, lane);
    weiri_gpu_advance_epoch(args.view, epoch);
    if (any_long)
        exchange_send_long(args, x, epoch);
    weiri_gpu_receive_short(args, x->pair, x->packet_bytes, epoch, lane);
    if (any_long)
        exchange_await_long(args, x, epoch);
}

static __global__ void __launch_bounds__(512)
    exchange_direct(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(exchange_state, x);
    exchange_all(args, &x);
}

/* ---------------------------------------------------------------------- host */

WEIRI_GPU_DEFINE_OF_BYTES(exchange_direct)

weiri_gpu_shape weiri_gpu_exchange_direct_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t packet_bytes = weiri_gpu_packet_bytes_of(*args);
    uint64_t longest = weiri_gpu_longest_bytes(args), nranks = (uint64_t)args->view.nranks;
    if (longest <= packet_bytes) /* the header is one more packet */
        return weiri_gpu_copy_shape((longest + 8 + 255) / 256 * 32 * nranks, processors);
    const int blocks = longest <= (uint64_t)1 << 20 ? processors : 2 * processors;
    return {blocks, 256};
}

int weiri_gpu_exchange_direct_serves(const weiri_gpu_args *args)
{
    uint64_t packet_bytes = weiri_gpu_packet_bytes_of(*args);
    return packet_bytes <= WEIRI_GPU_SLOT_BYTES / 2 &&
           (args->collective == WEIR_COLL_ALLTOALL || args->collective == WEIR_COLL_ALLTOALLV ||
            args->collective == WEIR_COLL_SENDRECV || args->collective == WEIR_COLL_ALLGATHER);
}
