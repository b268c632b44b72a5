/*
 * What the source of a kernel includes. weir_kernel_compile (weir/algo.h) compiles such
 * a file at run time: as C, by cc, for a communicator on the host, and as CUDA, by
 * NVRTC, for one on GPUs. What both take is C without what C++ lacks (a cast from void *
 * is written out, no designators out of order), functions marked WEIR_KERNEL_FN, and the
 * words of weir/device.h and of this file:
 *
 *     #include "weir/kernel.h"
 *
 *     typedef struct ping_args {
 *         weir_memchan_dev *chan;
 *         uint64_t bytes;
 *     } ping_args;
 *
 *     WEIR_KERNEL(ping, ping_args, args)
 *     {
 *         weir_put(args.chan, 0, 0, args.bytes, weir_tid(), weir_nthreads());
 *         weir_block_sync();
 *         ...
 *     }
 *
 * A kernel has one parameter, a struct of plain data, which the launch fills.
 *
 * On GPUs a launch is a grid of blocks of threads, all of which are on the device at
 * once, so a block may wait for another one, here or on a peer. On the host a launch is
 * one block of one thread whatever was asked for, and runs in the calling thread until
 * it ends; a peer's kernel runs beside it, so it may wait for that.
 *
 * What a replayed launch counts (epochs, parities) belongs into memory, never into the
 * parameter: semaphores keep their counts there by themselves.
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include <weir/device.h>

/* Steps when a compiled kernel of before cannot be launched any more. */
enum { WEIR_KERNEL_ABI = 1 };

/* A function that kernels call. */
#if defined(__CUDACC__)
#define WEIR_KERNEL_FN static __device__ __forceinline__
#else
#define WEIR_KERNEL_FN WEIR_FN
#endif

#if defined(__CUDACC__) || defined(WEIR_EMULATED)

/* Opens a kernel: its name, the type of its parameter, the parameter's name. */
#define WEIR_KERNEL(name, type, args)                                                              \
    extern "C" __global__ void name(const __grid_constant__ type args)

/* A thread in its block, and a block in the launch. */
WEIR_KERNEL_FN uint32_t weir_tid(void)
{
    return threadIdx.x;
}

WEIR_KERNEL_FN uint32_t weir_nthreads(void)
{
    return blockDim.x;
}

WEIR_KERNEL_FN uint32_t weir_block(void)
{
    return blockIdx.x;
}

WEIR_KERNEL_FN uint32_t weir_nblocks(void)
{
    return gridDim.x;
}

/* The threads of a block meet: all of them call it. */
WEIR_KERNEL_FN void weir_block_sync(void)
{
    __syncthreads();
}

/* The same, and all learn whether any of them gave something else than 0. */
WEIR_KERNEL_FN int weir_block_any(int status)
{
    return __syncthreads_or(status);
}

/* Says that the kernel failed: status is what a wait returned, or WEIR_ERR_INVALID or
 * WEIR_ERR_MISMATCH. All other waits of this rank end, too, and the next call on the
 * communicator, or weir_comm_check, tells it. guard is that of any channel. */
WEIR_KERNEL_FN void weir_kernel_fail(const weir_guard *guard, int status)
{
    weir_wait_record *record = guard->record;
    if (status != WEIR_ERR_TIMEOUT && status != WEIR_ERR_INVALID && status != WEIR_ERR_MISMATCH)
        return;
    /* A wait whose deadline passed has left more than this would say. */
    if (record && (status != WEIR_ERR_TIMEOUT || !weir_load_relaxed(&record->kind)))
        weir_wait_note(guard, WEIR_WAIT_FAILED, (uint64_t)-status, 0);
    weir_store_release((uint64_t *)guard->abort_word, WEIR_ABORTED_BY_KERNEL);
}

#if defined(__CUDACC__)
/* Memory that the threads of a block share: as many bytes as the launch was given,
 * aligned to 16. Declares `name`, a char *, at the beginning of a kernel. */
#define WEIR_SHARED(name)                                                                          \
    extern __shared__ uint4 weir_shared_words[];                                                   \
    char *const name = (char *)weir_shared_words
#endif

#else

/* The state of the launch that runs in this thread. */
typedef struct weir_kernel_run {
    void *shared;
    int status;
} weir_kernel_run;
/* __thread: the word that C and C++ share. */
static __thread weir_kernel_run weir_kernel_now __attribute__((unused));

/* What weir_kernel_launch finds in the compiled file. */
typedef struct weir_kernel_entry {
    uint32_t abi; /* WEIR_KERNEL_ABI */
    uint32_t args_bytes;
    int (*run)(const void *args, void *shared); /* what weir_kernel_fail was given, or 0 */
} weir_kernel_entry;

#define WEIR_KERNEL(name, type, args)                                                              \
    static void weir_body_##name(const type args);                                                 \
    static int weir_run_##name(const void *packed, void *shared)                                   \
    {                                                                                              \
        type unpacked;                                                                             \
        memcpy(&unpacked, packed, sizeof unpacked);                                                \
        weir_kernel_now.shared = shared;                                                           \
        weir_kernel_now.status = 0;                                                                \
        weir_body_##name(unpacked);                                                                \
        return weir_kernel_now.status;                                                             \
    }                                                                                              \
    extern const weir_kernel_entry weir_kernel_##name;                                             \
    const weir_kernel_entry weir_kernel_##name = {WEIR_KERNEL_ABI, sizeof(type),                   \
                                                  weir_run_##name};                                \
    static void weir_body_##name(const type args)

WEIR_FN uint32_t weir_tid(void)
{
    return 0;
}

WEIR_FN uint32_t weir_nthreads(void)
{
    return 1;
}

WEIR_FN uint32_t weir_block(void)
{
    return 0;
}

WEIR_FN uint32_t weir_nblocks(void)
{
    return 1;
}

WEIR_FN void weir_block_sync(void)
{
}

WEIR_FN int weir_block_any(int status)
{
    return status != 0;
}

WEIR_FN void weir_kernel_fail(const weir_guard *guard, int status)
{
    (void)guard;
    if (!weir_kernel_now.status)
        weir_kernel_now.status = status;
}

#define WEIR_SHARED(name) char *const name = (char *)weir_kernel_now.shared

#endif

/* ------------------------------------- kernels that are a whole collective */

/* Ranks of one communicator. */
#if defined(__CUDACC__)
enum { WEIR_KERNEL_RANKS_MAX = 8 };
#else
enum { WEIR_KERNEL_RANKS_MAX = 64 };
#endif

/* alltoallv and sendrecv: what this rank exchanges with one peer, in bytes, and where
 * that begins in its buffers. */
typedef struct weir_kernel_split {
    uint64_t send_at, send_bytes, recv_at, recv_bytes;
} weir_kernel_split;

enum { WEIR_KERNEL_STATE_WORDS = 8 };

/*
 * The parameter of a kernel that weir_algo_from_file launches as a collective. Sizes are in
 * bytes. Buffers may be of any length and alignment, in place or not, as weir/weir.h says for
 * the collective, and no peer need reach them: data goes through scratch memory.
 *
 * Scratch. Each rank has nranks slots of slot_bytes, aligned to 128; slot r is what rank r
 * may write. A channel's remote is the peer's scratch memory, its local and packets are
 * the own. It is zeroed once, when the context is created, not before each launch.
 */
typedef struct weir_kernel_args {
    const char *in;
    char *out;
    uint64_t in_bytes, out_bytes;
    int32_t rank, nranks;
    int32_t collective, dtype, op; /* weir_collective, weir_dtype, weir_op */
    int32_t root;
    uint32_t element_bytes;
    uint32_t blocks;           /* of the launch */
    uint64_t slot_bytes;
    weir_memchan_dev *const *chans; /* see weir_kernel_chans */
    uint64_t *state;                /* see weir_kernel_state */
    weir_guard guard;
    weir_kernel_split splits[WEIR_KERNEL_RANKS_MAX]; /* of each rank; else all zero */
} weir_kernel_args;

/* The calling block's channels, nranks - 1 of them: to the next rank, the one after it, and
 * so on around. Blocks of one index on all ranks are at their ends. */
WEIR_FN weir_memchan_dev *const *weir_kernel_chans(const weir_kernel_args *args, uint32_t block)
{
    return args->chans + (size_t)block * (size_t)(args->nranks - 1);
}

/* The rank that a channel of that index goes to. */
WEIR_FN int weir_kernel_peer(const weir_kernel_args *args, int index)
{
    return (args->rank + 1 + index) % args->nranks;
}

/* WEIR_KERNEL_STATE_WORDS words of the block's own, which stay from launch to launch and
 * begin at zero. */
WEIR_FN uint64_t *weir_kernel_state(const weir_kernel_args *args, uint32_t block)
{
    return args->state + (size_t)block * WEIR_KERNEL_STATE_WORDS;
}

#endif
