/*
 * broadcast, direct: the root sends each peer one share, and every peer forwards its share to the
 * others while the root continues. The root and every peer send the message once, so it takes as
 * long as one link needs to carry it once.
 *
 * A block owns a part of each share, divided into pieces, and works with the blocks of the same
 * index. In each round
 *
 *   1. the root stores a piece of each share at its owner and advances `staged` there
 *      (release),
 *   2. the owner awaits that (acquire), stores the piece at all other ranks but the root,
 *      and advances `staged` there,
 *   3. the others await it.
 *
 * Pieces go directly into the outputs if peers can map all of them; step 3 is then done once at the
 * end. Otherwise all pieces go through staging buffers, which hold those of `depth` (two or more)
 * rounds: after steps 2 and 3 the piece is copied to the output and `taken` is advanced at the
 * sender, which awaits it `depth` rounds later. One half of the block then forwards what the other
 * half copies out, and a warp of each half signals (team.cuh).
 *
 * At entry all ranks but the root send descriptors of their outputs; nobody stores before that.
 * Each rank receives a descriptor or a signal from every peer. The words of the cells only grow,
 * and a descriptor is read by all ranks before they give the signals for which its sender waits, so
 * nothing is overwritten unread.
 */
#include "coll/cuda/device/stage.cuh"
#include "coll/cuda/device/types.cuh"

enum { BROADCAST_UNIT_BYTES = 2048, BROADCAST_ROUNDS_WANTED = 8, PIECE_BYTES = 64 << 10 };
#if defined(WEIR_EMULATED)
static const uint32_t PIECE_LEAST_BYTES = 256; /* small, so that tests have several rounds */
#else
static const uint32_t PIECE_LEAST_BYTES = 8 << 10;
#endif

typedef struct broadcast_state {
    weiri_gpu_desc out[WEIRI_GPU_RANKS_MAX]; /* of all ranks but the root */
    int staged;                              /* whether any of them is unregistered */
} broadcast_state;

/* How the message is divided; the same on all ranks. */
typedef struct broadcast_plan {
    uint64_t share; /* bytes of a rank's share; the last may be shorter */
    uint64_t part;  /* bytes of a block's part of a share */
    uint64_t piece;
    uint32_t rounds;
    uint32_t depth;  /* rounds whose pieces a staging buffer holds */
    uint32_t blocks; /* that have a part */
} broadcast_plan;

WEIRI_GPU_FN broadcast_plan plan_shares(const weiri_gpu_args &args)
{
    const weiri_gpu_view &view = args.view;
    uint32_t units = weiri_gpu_units_for(args.bytes, BROADCAST_UNIT_BYTES);
    uint32_t units_share = weiri_gpu_div_up(units, (uint32_t)view.nranks - 1);
    uint32_t blocks = (uint32_t)weiri_gpu_min(gridDim.x, weiri_gpu_stage_half(view) / 16);
    uint32_t units_part = weiri_gpu_div_up(units_share, blocks);
    broadcast_plan p;
    p.share = (uint64_t)units_share * BROADCAST_UNIT_BYTES;
    p.part = (uint64_t)units_part * BROADCAST_UNIT_BYTES;
    p.blocks = weiri_gpu_div_up(units_share, units_part);
    p.piece = p.rounds = p.depth = 0;
    return p;
}

/* Sets the length of pieces, which depends on where they go. The links to ranks that wait for a
 * forwarded piece are idle during the first round, so there are several rounds unless pieces would
 * become too short. */
WEIRI_GPU_FN void plan_rounds(const weiri_gpu_view &view, broadcast_plan *p, int staged)
{
    uint32_t room = (uint32_t)weiri_gpu_stage_half(view) / p->blocks;
    uint64_t piece = p->part / BROADCAST_ROUNDS_WANTED;
    room &= room < WEIRI_GPU_LINE_BYTES ? ~15u : ~(uint32_t)(WEIRI_GPU_LINE_BYTES - 1);
    piece = piece > PIECE_LEAST_BYTES ? piece & ~(uint64_t)(WEIRI_GPU_LINE_BYTES - 1)
                                      : PIECE_LEAST_BYTES;
    piece = weiri_gpu_min(piece, PIECE_BYTES);
    p->piece = staged && room < piece ? room : piece;
    p->rounds = weiri_gpu_div_up(weiri_gpu_units_for(p->part, 16), (uint32_t)p->piece / 16);
    p->depth = 2 * (uint32_t)weiri_gpu_stage_half(view) / (p->blocks * (uint32_t)p->piece);
}

/* This block's piece of a rank's share. */
WEIRI_GPU_FN uint64_t piece_of(const weiri_gpu_args &args, const broadcast_plan &p, int owner,
                               uint64_t round, uint64_t *at)
{
    uint64_t start = (uint64_t)(owner < args.root ? owner : owner - 1) * p.share;
    uint64_t in_share = blockIdx.x * p.part + round * p.piece;
    uint64_t end = start + weiri_gpu_min((blockIdx.x + 1) * p.part, p.share);
    end = weiri_gpu_min(end, args.bytes);
    *at = start + in_share;
    return *at < end ? weiri_gpu_min(end - *at, p.piece) : 0;
}

/* Where a sender stores a piece for a rank. */
WEIRI_GPU_FN char *target_of(const weiri_gpu_args &args, const broadcast_state *s,
                             const broadcast_plan &p, int to, int from, uint64_t round, uint64_t at)
{
    if (s->staged)
        return weiri_gpu_stage_of(args.view, to, from) +
               ((uint32_t)round % p.depth * p.blocks + blockIdx.x) * p.piece;
    return weiri_gpu_address(args.view, to, s->out[to]) + at;
}

/* ----------------------------------------------------- steps, one thread a peer */

WEIRI_GPU_FN void signal_staged(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                uint64_t pieces)
{
    weir_store_release(&weiri_gpu_cell_of(view, peer, view.rank)->staged,
                       weiri_gpu_step(epoch, pieces));
}

WEIRI_GPU_FN void await_staged(const weiri_gpu_view &view, int peer, uint64_t epoch,
                               uint64_t pieces)
{
    weiri_gpu_await_step(view, &weiri_gpu_cell_of(view, view.rank, peer)->staged, epoch, pieces,
                         peer);
}

WEIRI_GPU_FN void signal_taken(const weiri_gpu_view &view, int peer, uint64_t epoch,
                               uint64_t pieces)
{
    weir_store_release(&weiri_gpu_cell_of(view, peer, view.rank)->taken,
                       weiri_gpu_step(epoch, pieces));
}

/* Waits for room for a round's piece in a peer's staging buffer. */
WEIRI_GPU_FN void await_room(const weiri_gpu_view &view, const broadcast_state *s,
                             const broadcast_plan &p, int peer, uint64_t epoch, uint64_t round)
{
    if (s->staged && round >= p.depth)
        weiri_gpu_await_step(view, &weiri_gpu_cell_of(view, view.rank, peer)->taken, epoch,
                             round - p.depth + 1, peer);
}

/* ------------------------------------------------------------------- the root */

WEIRI_GPU_FN void root_send_round(const weiri_gpu_args &args, const broadcast_state *s,
                                  const broadcast_plan &p, weiri_gpu_team *team, uint64_t epoch,
                                  uint64_t round)
{
    const weiri_gpu_view &view = args.view;
    if (weiri_gpu_is_mover(*team)) {
        for (int peer = (int)team->worker; peer < view.nranks; peer += (int)team->workers)
            if (peer != view.rank)
                await_room(view, s, p, peer, epoch, round);
        weiri_gpu_team_barrier(*team);
        for (int i = 1; i < view.nranks; i++) {
            int owner = (view.rank + i) % view.nranks;
            uint64_t at, bytes = piece_of(args, p, owner, round, &at);
            weiri_gpu_copy(target_of(args, s, p, owner, view.rank, round, at), args.in + at, bytes,
                           team->worker, team->workers);
            if (args.out != args.in)
                weiri_gpu_copy(args.out + at, args.in + at, bytes, team->worker, team->workers);
        }
    }
    weiri_gpu_team_end_step(team);
    for (int peer = team->signaller; peer < view.nranks; peer += team->signallers)
        if (peer != view.rank)
            signal_staged(view, peer, epoch, round + 1);
}

/* ----------------------------------------------------------- all other ranks */

WEIRI_GPU_FN void forward_round(const weiri_gpu_args &args, const broadcast_state *s,
                                const broadcast_plan &p, weiri_gpu_team *team, uint64_t epoch,
                                uint64_t round)
{
    const weiri_gpu_view &view = args.view;
    if (weiri_gpu_is_mover(*team)) {
        uint64_t at, bytes = piece_of(args, p, view.rank, round, &at);
        for (int peer = (int)team->worker; peer < view.nranks; peer += (int)team->workers) {
            if (peer == args.root)
                await_staged(view, peer, epoch, round + 1);
            else if (peer != view.rank)
                await_room(view, s, p, peer, epoch, round);
        }
        weiri_gpu_team_barrier(*team);
        const char *from = args.out + at;
        if (s->staged) {
            from = target_of(args, s, p, view.rank, args.root, round, at);
            weiri_gpu_copy(args.out + at, from, bytes, team->worker, team->workers);
        }
        for (int i = 1; i < view.nranks; i++) {
            int peer = (view.rank + i) % view.nranks;
            if (peer != args.root)
                weiri_gpu_copy(target_of(args, s, p, peer, view.rank, round, at), from, bytes,
                               team->worker, team->workers);
        }
    }
    weiri_gpu_team_end_step(team);
    for (int peer = team->signaller; peer < view.nranks; peer += team->signallers) {
        if (peer == args.root && s->staged)
            signal_taken(view, peer, epoch, round + 1);
        else if (peer != args.root && peer != view.rank)
            signal_staged(view, peer, epoch, round + 1);
    }
}

/* Copies what others forwarded in a round from the staging buffer to the output. */
WEIRI_GPU_FN void drain_round(const weiri_gpu_args &args, const broadcast_state *s,
                              const broadcast_plan &p, weiri_gpu_team *team, uint64_t epoch,
                              uint64_t round)
{
    const weiri_gpu_view &view = args.view;
    if (weiri_gpu_is_mover(*team)) {
        for (int peer = (int)team->worker; peer < view.nranks; peer += (int)team->workers)
            if (peer != view.rank && peer != args.root)
                await_staged(view, peer, epoch, round + 1);
        weiri_gpu_team_barrier(*team);
        for (int peer = 0; peer < view.nranks; peer++) {
            uint64_t at, bytes;
            if (peer == view.rank || peer == args.root)
                continue;
            bytes = piece_of(args, p, peer, round, &at);
            weiri_gpu_copy(args.out + at, target_of(args, s, p, view.rank, peer, round, at), bytes,
                           team->worker, team->workers);
        }
    }
    weiri_gpu_team_end_step(team);
    for (int peer = team->signaller; peer < view.nranks; peer += team->signallers)
        if (peer != view.rank && peer != args.root)
            signal_taken(view, peer, epoch, round + 1);
}

/* With staging buffers, one half of the block forwards while the other copies out. */
WEIRI_GPU_FN void receive_all(const weiri_gpu_args &args, const broadcast_state *s,
                              const broadcast_plan &p, uint64_t epoch)
{
    WEIRI_GPU_SHARED(uint32_t, done, [2]);
    const weiri_gpu_view &view = args.view;
    bool forwards = true, drains = false;
    weiri_gpu_team team = s->staged ? weiri_gpu_half_block_teams(done, &forwards, &drains)
                                    : weiri_gpu_block_team(&done[0]);
    for (uint64_t round = 0; round < p.rounds; round++) {
        if (forwards)
            forward_round(args, s, p, &team, epoch, round);
        if (drains)
            drain_round(args, s, p, &team, epoch, round);
    }
    if (s->staged)
        return;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank && peer != args.root)
            await_staged(view, peer, epoch, p.rounds);
}

WEIRI_GPU_FN void root_send_all(const weiri_gpu_args &args, const broadcast_state *s,
                                const broadcast_plan &p, uint64_t epoch)
{
    WEIRI_GPU_SHARED(uint32_t, done);
    weiri_gpu_team team = weiri_gpu_block_team(&done);
    for (uint64_t round = 0; round < p.rounds; round++)
        root_send_round(args, s, p, &team, epoch, round);
}

/* Prefetches the root's first pieces while it waits for the descriptors. */
WEIRI_GPU_FN void root_prefetch(const weiri_gpu_args &args, const broadcast_plan &p)
{
    const weiri_gpu_view &view = args.view;
    for (uint32_t share = 0; share + 1 < (uint32_t)view.nranks; share++) {
        uint64_t at = share * p.share + blockIdx.x * p.part;
        if (at < args.bytes)
            weiri_gpu_prefetch(args.in + at, weiri_gpu_min(args.bytes - at, p.part), threadIdx.x,
                               blockDim.x);
    }
}

/* -------------------------------------------------------------- descriptors */

WEIRI_GPU_FN void send_desc_to_all(const weiri_gpu_args &args, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    if (view.rank == args.root)
        return;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank)
            weiri_gpu_send_descs(view, peer, epoch, WEIRI_GPU_UNMAPPED, args.out_desc);
}

WEIRI_GPU_FN void receive_descs(const weiri_gpu_args &args, broadcast_state *s, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    int plain = 0;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        const weiri_gpu_cell *cell = weiri_gpu_cell_of(view, view.rank, peer);
        weiri_gpu_desc out = args.out_desc;
        if (peer == args.root)
            continue;
        if (peer != view.rank)
            out = weiri_gpu_receive(view, (const char *)cell->out, 0, epoch, peer);
        s->out[peer] = out;
        plain |= out == WEIRI_GPU_UNMAPPED;
    }
    plain = __syncthreads_or(plain);
    if (!threadIdx.x)
        s->staged = plain;
    __syncthreads();
}

static __global__ void __launch_bounds__(512)
    broadcast_direct(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(broadcast_state, s);
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    broadcast_plan p = plan_shares(args);
    int has_part = blockIdx.x < p.blocks;
    if (has_part)
        send_desc_to_all(args, epoch);
    if (has_part && view.rank == args.root)
        root_prefetch(args, p);
    weiri_gpu_advance_epoch(view, epoch);
    if (!has_part)
        return;
    receive_descs(args, &s, epoch);
    plan_rounds(view, &p, s.staged);
    if (view.rank == args.root)
        root_send_all(args, &s, p, epoch);
    else
        receive_all(args, &s, p, epoch);
}

WEIRI_GPU_DEFINE_OF_BYTES(broadcast_direct)

weiri_gpu_shape weiri_gpu_broadcast_direct_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t units = (args->bytes + BROADCAST_UNIT_BYTES - 1) / BROADCAST_UNIT_BYTES;
    uint64_t share = (units + (uint64_t)args->view.nranks - 2) / ((uint64_t)args->view.nranks - 1);
    weiri_gpu_shape shape = {processors, 512};
    if (share < (uint64_t)processors)
        shape.blocks = (int)share;
    if (share <= (uint64_t)processors * 4)
        shape.threads = 256;
    return shape;
}

int weiri_gpu_broadcast_direct_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_BROADCAST && args->bytes > 0 && args->view.nranks > 1;
}
