/*
 * Teams: threads of a block that move data together, and optionally a warp beside them that signals
 * other ranks. Releasing a word means waiting until all stores of the block have been performed,
 * which takes a microsecond or two over a link; with a signalling warp, the movers do not wait for
 * that and are already in the next step.
 *
 * All threads of a team run the same steps:
 *
 *   if (weiri_gpu_is_mover(team)) {
 *       some threads wait for what the step needs; weiri_gpu_team_barrier; all move data
 *   }
 *   weiri_gpu_team_end_step(&team);
 *   for (peer = team.signaller; peer < nranks; peer += team.signallers)
 *       release a word
 *
 * At the end of a step each mover warp is counted and continues; the signalling warp waits until
 * all have been counted. So movers may be one step ahead, and what the movers of a step read must
 * not be overwritten in the next step before the movers have synchronised there. If there are too
 * few threads, or all are better used as movers, there is no signalling warp: all threads move,
 * synchronise and signal.
 */
#ifndef WEIR_COLL_CUDA_TEAM_CUH
#define WEIR_COLL_CUDA_TEAM_CUH

#include "coll/cuda/device/protocol.cuh"

typedef struct weiri_gpu_team {
    uint32_t worker, workers;  /* this thread's number among the movers; >= workers: it signals */
    int signaller, signallers; /* this thread among the signallers; >= the number of ranks: it does
                                  not signal */
    uint32_t barrier;          /* named barrier of the movers: 1 or 2; 0: the whole block's */
    uint32_t warps;            /* mover warps to be counted in all steps so far */
    uint32_t *done;            /* in shared memory: mover warps counted; NULL: no signalling
                                * warp */
} weiri_gpu_team;

/* The calling thread as number `thread` of a team of `threads`. barrier: 1 or 2, or 0 if the team
 * is the whole block. done: a word in shared memory that is 0 before any thread ends a step, or
 * NULL for a team without a signalling warp. */
WEIRI_GPU_FN weiri_gpu_team weiri_gpu_team_of(uint32_t thread, uint32_t threads, uint32_t barrier,
                                              uint32_t *done)
{
    enum { WARP = 32 };
    weiri_gpu_team team = {thread, threads, (int)thread, (int)threads, barrier, 0, NULL};
    if (!done || threads % WARP || threads < 2 * WARP)
        return team;
    team.workers = threads - WARP;
    team.signaller = thread < team.workers ? WEIRI_GPU_RANKS_MAX : (int)(thread - team.workers);
    team.signallers = WARP;
    team.barrier = barrier ? barrier : 1;
    team.done = done;
    return team;
}

/* The block as one team with a signalling warp. All threads call it; includes a __syncthreads.
 * done: in shared memory. */
WEIRI_GPU_FN weiri_gpu_team weiri_gpu_block_team(uint32_t *done)
{
    if (threadIdx.x == 0)
        *done = 0;
    __syncthreads();
    return weiri_gpu_team_of(threadIdx.x, blockDim.x, 0, done);
}

/* The two halves of the block as two teams, and which of them this thread belongs to; a block with
 * too few threads is one team that belongs to both. done: two words in shared memory, or NULL for
 * no signalling warps. All threads call it; includes a __syncthreads. */
WEIRI_GPU_FN weiri_gpu_team weiri_gpu_half_block_teams(uint32_t *done, bool *first, bool *second)
{
    const uint32_t half = blockDim.x / 2;
    if (done && threadIdx.x < 2)
        done[threadIdx.x] = 0;
    __syncthreads();
    *first = *second = true;
    if (half % 32 || !half)
        return weiri_gpu_team_of(threadIdx.x, blockDim.x, 0, done);
    *first = threadIdx.x < half;
    *second = !*first;
    return weiri_gpu_team_of(threadIdx.x % half, half, *first ? 1 : 2,
                             done ? done + *second : NULL);
}

WEIRI_GPU_FN bool weiri_gpu_is_mover(const weiri_gpu_team &team)
{
    return team.worker < team.workers;
}

/* Barrier of the movers. */
WEIRI_GPU_FN void weiri_gpu_team_barrier(const weiri_gpu_team &team)
{
    if (team.barrier == 1) /* constants: for a barrier number unknown at compile time */
        __barrier_sync_count(1, team.workers); /* the compiler reserves all barriers */
    else if (team.barrier == 2)
        __barrier_sync_count(2, team.workers);
    else
        __syncthreads();
}

/* A counter in shared memory: incrementing it releases, reading it acquires. */
WEIRI_GPU_FN void weiri_gpu_count_warp(uint32_t *count)
{
#if WEIR_ON_DEVICE
    asm volatile("red.release.cta.shared::cta.add.u32 [%0], 1;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(count))
                 : "memory");
#else
    atomicAdd(count, 1u);
#endif
}

WEIRI_GPU_FN uint32_t weiri_gpu_read_warps_done(const uint32_t *count)
{
#if WEIR_ON_DEVICE
    uint32_t seen;
    asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];"
                 : "=r"(seen)
                 : "r"((uint32_t)__cvta_generic_to_shared(count))
                 : "memory");
    return seen;
#else
    return *count;
#endif
}

/* Ends a step. All movers reach it, whatever happened, so the signalling warp never waits in
 * vain. */
WEIRI_GPU_FN void weiri_gpu_team_end_step(weiri_gpu_team *team)
{
    enum { WARP = 32 };
    if (!team->done) {
        weiri_gpu_team_barrier(*team);
        return;
    }
    team->warps += team->workers / WARP;
    if (weiri_gpu_is_mover(*team)) {
        __syncwarp();
        if (team->worker % WARP == 0)
            weiri_gpu_count_warp(team->done);
        return;
    }
    while (weiri_gpu_read_warps_done(team->done) < team->warps)
        weir_relax();
    __syncwarp();
}

#endif
