/*
 * broadcast over all links: the root gives each peer a share of its own, and
 * every peer forwards its share to the others while the root sends on. The root
 * and every peer send the message once, so it takes as long as a link needs to
 * carry it once.
 *
 * A block owns a part of each share, cut into pieces; blocks of one index meet.
 * In each round
 *
 *   1. the root stores a piece of each share at its owner and steps `staged`
 *      there (release),
 *   2. the owner awaits that (acquire), stores the piece at all others but the
 *      root, and steps `staged` there,
 *   3. the others await it.
 *
 * Pieces go straight into the outputs if peers can map all of them, and then 3.
 * is left for the end. Otherwise all go through the stages, which hold those of some
 * rounds, two at least: after 2. and 3. the piece is copied into the output and `taken` is
 * stepped at the sender, which awaits that as many rounds later. One half of the block
 * forwards then what the other takes out; and a warp of each half tells (team.cuh).
 *
 * Ranks other than the root tell at entry where their outputs are; nobody stores
 * before that. Each rank hears from every peer: a tell or a step. The words of
 * the cells only grow, and a tell is read by all before they give the steps that
 * its teller awaits, so nothing is overwritten unread.
 */
#include "coll/cuda/device/stage.cuh"
#include "coll/cuda/device/types.cuh"

enum { UNIT_BYTES = 2048, ROUNDS_WANTED = 8, PIECE_BYTES = 64 << 10 };
#if defined(WEIR_EMULATED)
static const uint32_t PIECE_LEAST_BYTES = 256; /* tests have several rounds soon */
#else
static const uint32_t PIECE_LEAST_BYTES = 8 << 10;
#endif

typedef struct spread {
    weiri_gpu_desc out[WEIRI_GPU_RANKS_MAX]; /* not the root's */
    int staged;                              /* whether any of them is plain */
} spread;

/* How the message is divided, the same on all ranks. */
typedef struct plan {
    uint64_t share; /* bytes of a rank's share but for the last */
    uint64_t part;  /* bytes of a block's part of a share */
    uint64_t piece;
    uint32_t rounds;
    uint32_t depth;  /* rounds whose pieces a stage holds */
    uint32_t blocks; /* that have a part */
} plan;

WEIRI_GPU_FN plan plan_of(const weiri_gpu_args &args)
{
    const weiri_gpu_view &view = args.view;
    uint32_t units = weiri_gpu_units(args.bytes, UNIT_BYTES);
    uint32_t units_share = weiri_gpu_parts(units, (uint32_t)view.nranks - 1);
    uint32_t blocks = (uint32_t)weiri_gpu_least(gridDim.x, weiri_gpu_stage_half(view) / 16);
    uint32_t units_part = weiri_gpu_parts(units_share, blocks);
    plan p;
    p.share = (uint64_t)units_share * UNIT_BYTES;
    p.part = (uint64_t)units_part * UNIT_BYTES;
    p.blocks = weiri_gpu_parts(units_share, units_part);
    p.piece = p.rounds = p.depth = 0;
    return p;
}

/* Where pieces go decides how long they may be. Links to those that wait for a forwarded
 * piece are idle for the first round, so there are several where pieces are not too short. */
WEIRI_GPU_FN void plan_rounds(const weiri_gpu_view &view, plan *p, int staged)
{
    uint32_t room = (uint32_t)weiri_gpu_stage_half(view) / p->blocks;
    uint64_t piece = p->part / ROUNDS_WANTED;
    room &= room < WEIRI_GPU_LINE_BYTES ? ~15u : ~(uint32_t)(WEIRI_GPU_LINE_BYTES - 1);
    piece = piece > PIECE_LEAST_BYTES ? piece & ~(uint64_t)(WEIRI_GPU_LINE_BYTES - 1)
                                      : PIECE_LEAST_BYTES;
    piece = weiri_gpu_least(piece, PIECE_BYTES);
    p->piece = staged && room < piece ? room : piece;
    p->rounds = weiri_gpu_parts(weiri_gpu_units(p->part, 16), (uint32_t)p->piece / 16);
    p->depth = 2 * (uint32_t)weiri_gpu_stage_half(view) / (p->blocks * (uint32_t)p->piece);
}

/* This block's piece of a rank's share. */
WEIRI_GPU_FN uint64_t piece_of(const weiri_gpu_args &args, const plan &p, int owner, uint64_t round,
                               uint64_t *at)
{
    uint64_t start = (uint64_t)(owner < args.root ? owner : owner - 1) * p.share;
    uint64_t in_share = blockIdx.x * p.part + round * p.piece;
    uint64_t end = start + weiri_gpu_least((blockIdx.x + 1) * p.part, p.share);
    end = weiri_gpu_least(end, args.bytes);
    *at = start + in_share;
    return *at < end ? weiri_gpu_least(end - *at, p.piece) : 0;
}

/* Where a sender stores a piece for a rank. */
WEIRI_GPU_FN char *target_of(const weiri_gpu_args &args, const spread *s, const plan &p, int to,
                             int from, uint64_t round, uint64_t at)
{
    if (s->staged)
        return weiri_gpu_stage_of(args.view, to, from) +
               ((uint32_t)round % p.depth * p.blocks + blockIdx.x) * p.piece;
    return weiri_gpu_address(args.view, to, s->out[to]) + at;
}

/* ----------------------------------------------------- steps, one thread a peer */

WEIRI_GPU_FN void step_staged(const weiri_gpu_view &view, int peer, uint64_t epoch, uint64_t pieces)
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

WEIRI_GPU_FN void step_taken(const weiri_gpu_view &view, int peer, uint64_t epoch, uint64_t pieces)
{
    weir_store_release(&weiri_gpu_cell_of(view, peer, view.rank)->taken,
                       weiri_gpu_step(epoch, pieces));
}

/* Room for the piece of a round in a peer's stage. */
WEIRI_GPU_FN void await_room(const weiri_gpu_view &view, const spread *s, const plan &p, int peer,
                             uint64_t epoch, uint64_t round)
{
    if (s->staged && round >= p.depth)
        weiri_gpu_await_step(view, &weiri_gpu_cell_of(view, view.rank, peer)->taken, epoch,
                             round - p.depth + 1, peer);
}

/* ------------------------------------------------------------------- the root */

WEIRI_GPU_FN void send_round(const weiri_gpu_args &args, const spread *s, const plan &p,
                             weiri_gpu_team *team, uint64_t epoch, uint64_t round)
{
    const weiri_gpu_view &view = args.view;
    if (weiri_gpu_moves(*team)) {
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
    weiri_gpu_team_done(team);
    for (int peer = team->speaker; peer < view.nranks; peer += team->speakers)
        if (peer != view.rank)
            step_staged(view, peer, epoch, round + 1);
}

/* ----------------------------------------------------------- all other ranks */

WEIRI_GPU_FN void forward_round(const weiri_gpu_args &args, const spread *s, const plan &p,
                                weiri_gpu_team *team, uint64_t epoch, uint64_t round)
{
    const weiri_gpu_view &view = args.view;
    if (weiri_gpu_moves(*team)) {
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
    weiri_gpu_team_done(team);
    for (int peer = team->speaker; peer < view.nranks; peer += team->speakers) {
        if (peer == args.root && s->staged)
            step_taken(view, peer, epoch, round + 1);
        else if (peer != args.root && peer != view.rank)
            step_staged(view, peer, epoch, round + 1);
    }
}

/* What others forwarded in a round, out of the stage. */
WEIRI_GPU_FN void take_round(const weiri_gpu_args &args, const spread *s, const plan &p,
                             weiri_gpu_team *team, uint64_t epoch, uint64_t round)
{
    const weiri_gpu_view &view = args.view;
    if (weiri_gpu_moves(*team)) {
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
    weiri_gpu_team_done(team);
    for (int peer = team->speaker; peer < view.nranks; peer += team->speakers)
        if (peer != view.rank && peer != args.root)
            step_taken(view, peer, epoch, round + 1);
}

/* With stages, one half of the block forwards what the other takes out. */
WEIRI_GPU_FN void receive(const weiri_gpu_args &args, const spread *s, const plan &p,
                          uint64_t epoch)
{
    __shared__ uint32_t done[2];
    const weiri_gpu_view &view = args.view;
    bool forwards = true, takes = false;
    weiri_gpu_team team =
        s->staged ? weiri_gpu_half_block(done, &forwards, &takes) : weiri_gpu_whole_block(&done[0]);
    for (uint64_t round = 0; round < p.rounds; round++) {
        if (forwards)
            forward_round(args, s, p, &team, epoch, round);
        if (takes)
            take_round(args, s, p, &team, epoch, round);
    }
    if (s->staged)
        return;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank && peer != args.root)
            await_staged(view, peer, epoch, p.rounds);
}

WEIRI_GPU_FN void send(const weiri_gpu_args &args, const spread *s, const plan &p, uint64_t epoch)
{
    __shared__ uint32_t done;
    weiri_gpu_team team = weiri_gpu_whole_block(&done);
    for (uint64_t round = 0; round < p.rounds; round++)
        send_round(args, s, p, &team, epoch, round);
}

/* The root's first pieces, while it waits to be told where they go. */
WEIRI_GPU_FN void prefetch(const weiri_gpu_args &args, const plan &p)
{
    const weiri_gpu_view &view = args.view;
    for (uint32_t share = 0; share + 1 < (uint32_t)view.nranks; share++) {
        uint64_t at = share * p.share + blockIdx.x * p.part;
        if (at < args.bytes)
            weiri_gpu_prefetch(args.in + at, weiri_gpu_least(args.bytes - at, p.part), threadIdx.x,
                               blockDim.x);
    }
}

/* -------------------------------------------------------------------- meeting */

WEIRI_GPU_FN void tell_all(const weiri_gpu_args &args, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    if (view.rank == args.root)
        return;
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank)
            weiri_gpu_tell(view, peer, epoch, WEIRI_GPU_PLAIN, args.out_desc);
}

WEIRI_GPU_FN void hear_all(const weiri_gpu_args &args, spread *s, uint64_t epoch)
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
        plain |= out == WEIRI_GPU_PLAIN;
    }
    plain = __syncthreads_or(plain);
    if (!threadIdx.x)
        s->staged = plain;
    __syncthreads();
}

static __global__ void __launch_bounds__(512)
    broadcast_direct(const __grid_constant__ weiri_gpu_args args)
{
    __shared__ spread s;
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    plan p = plan_of(args);
    int has_part = blockIdx.x < p.blocks;
    if (has_part)
        tell_all(args, epoch);
    if (has_part && view.rank == args.root)
        prefetch(args, p);
    weiri_gpu_turn(view, epoch);
    if (!has_part)
        return;
    hear_all(args, &s, epoch);
    plan_rounds(view, &p, s.staged);
    if (view.rank == args.root)
        send(args, &s, p, epoch);
    else
        receive(args, &s, p, epoch);
}

WEIRI_GPU_DEFINE_OF_BYTES(broadcast_direct)

weiri_gpu_shape weiri_gpu_broadcast_direct_shape(const weiri_gpu_args *args, int processors)
{
    uint64_t units = (args->bytes + UNIT_BYTES - 1) / UNIT_BYTES;
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
