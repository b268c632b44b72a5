/*
 * Threads of a block that move data together, and a warp beside them that tells others
 * what has been moved. To release a word means to wait until all that the block has stored
 * is where it belongs, a microsecond or two over a link; the movers do not wait for
 * that, and are at the next step while the last one is told.
 *
 * All threads of a team run the same steps, one after the other:
 *
 *     if (weiri_gpu_moves(team)) {
 *         some wait for what the step needs; weiri_gpu_team_barrier; all move their part
 *     }
 *     weiri_gpu_team_done(&team);
 *     for (peer = team.speaker; peer < nranks; peer += team.speakers)
 *         release a word
 *
 * done: a mover's part is counted, and it goes on; the telling warp waits for all parts.
 * So movers may be in a later step, and what one step's movers read together must not be
 * overwritten in the next before they have met there. Where threads are too few, or all of
 * them are better used to move, there is no such warp: all move, meet, and tell.
 */
#ifndef WEIR_COLL_CUDA_TEAM_CUH
#define WEIR_COLL_CUDA_TEAM_CUH

#include "coll/cuda/device/frame.cuh"

typedef struct weiri_gpu_team {
    uint32_t worker, workers;   /* this thread's place among the movers; beyond: it tells */
    int speaker, speakers;      /* likewise among those that tell; behind all ranks: it does not */
    uint32_t barrier;           /* where movers meet: 1 or 2; 0: the block's */
    uint32_t parts;             /* of all movers' warps, in the steps so far */
    uint32_t *done;             /* shared memory: how many of them; NULL: nobody else tells */
} weiri_gpu_team;

/* The calling thread as number `thread` of a team of `threads`. barrier: 1 or 2, or 0
 * if it is the whole block. done: a word in shared memory that is 0 before any of them is
 * done with a step; NULL: all move. */
WEIRI_GPU_FN weiri_gpu_team weiri_gpu_team_of(uint32_t thread, uint32_t threads, uint32_t barrier,
                                              uint32_t *done)
{
    enum { WARP = 32 };
    weiri_gpu_team team = {thread, threads, (int)thread, (int)threads, barrier, 0, NULL};
    if (!done || threads % WARP || threads < 2 * WARP)
        return team;
    team.workers = threads - WARP;
    team.speaker = thread < team.workers ? WEIRI_GPU_RANKS_MAX : (int)(thread - team.workers);
    team.speakers = WARP;
    team.barrier = barrier ? barrier : 1;
    team.done = done;
    return team;
}

/* The block as a team, a warp of which tells. All threads; they have met behind it. done: in
 * shared memory. */
WEIRI_GPU_FN weiri_gpu_team weiri_gpu_whole_block(uint32_t *done)
{
    if (threadIdx.x == 0)
        *done = 0;
    __syncthreads();
    return weiri_gpu_team_of(threadIdx.x, blockDim.x, 0, done);
}

/* Its halves as two teams, and which of them the thread is in; a block of too few threads is
 * one team, which is both. done: two words, likewise; NULL: all threads move. */
WEIRI_GPU_FN weiri_gpu_team weiri_gpu_half_block(uint32_t *done, bool *first, bool *second)
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

WEIRI_GPU_FN bool weiri_gpu_moves(const weiri_gpu_team &team)
{
    return team.worker < team.workers;
}

/* Movers: behind it, each sees what the others have seen and done before. */
WEIRI_GPU_FN void weiri_gpu_team_barrier(const weiri_gpu_team &team)
{
    if (team.barrier == 1) /* constants: of a number that it does not know, the compiler */
        __barrier_sync_count(1, team.workers); /* reserves all barriers that there are */
    else if (team.barrier == 2)
        __barrier_sync_count(2, team.workers);
    else
        __syncthreads();
}

/* A count in the block's shared memory: adding to it releases, reading it acquires. */
WEIRI_GPU_FN void weiri_gpu_count_part(uint32_t *count)
{
#if WEIR_ON_DEVICE
    asm volatile("red.release.cta.shared::cta.add.u32 [%0], 1;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(count))
                 : "memory");
#else
    atomicAdd(count, 1u);
#endif
}

WEIRI_GPU_FN uint32_t weiri_gpu_count_of(const uint32_t *count)
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

/* The end of a step. Movers always come here, so nobody waits for ever. */
WEIRI_GPU_FN void weiri_gpu_team_done(weiri_gpu_team *team)
{
    enum { WARP = 32 };
    if (!team->done) {
        weiri_gpu_team_barrier(*team);
        return;
    }
    team->parts += team->workers / WARP;
    if (weiri_gpu_moves(*team)) {
        __syncwarp();
        if (team->worker % WARP == 0)
            weiri_gpu_count_part(team->done);
        return;
    }
    while (weiri_gpu_count_of(team->done) < team->parts)
        weir_relax();
    __syncwarp();
}

#endif
