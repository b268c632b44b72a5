/*
 * The header for kernels compiled at run time. weir_kernel_compile (weir/algo.h) compiles a source
 * file as C with cc for a communicator of the host backend, and as CUDA with NVRTC for one of the
 * cuda backend. A source that both accept is written in the common subset of C and C++ (casts from
 * void * are explicit, designators in order), marks its functions WEIR_KERNEL_FN, and uses
 * weir/device.h and this header:
 *
 *     #include <weir/kernel.h>
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
 * A kernel has one parameter, a structure of plain data, which the launch passes.
 *
 * On a GPU a launch is a grid of blocks that are all resident at the same time, so a block may wait
 * for another one of the same grid or of a peer's. On the host a launch is always one block of one
 * thread; it runs in the calling thread until it ends, concurrently with the peers' kernels.
 *
 * Counters that must advance when a captured launch is replayed (epochs, parities) belong in
 * memory, not in the parameter. Semaphores keep theirs in memory.
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include <weir/device.h>

WEIR_C_CASTS_BEGIN

/* Incremented when kernels compiled with an older header can no longer be launched. */
enum { WEIR_KERNEL_ABI = 1 };

/* Marks a function that kernels call. */
#if defined(__CUDACC__)
#define WEIR_KERNEL_FN static __device__ __forceinline__
#else
#define WEIR_KERNEL_FN WEIR_FN
#endif

#if defined(__CUDACC__) || defined(WEIR_EMULATED)

/* Defines a kernel: its name, the type of its parameter, and the parameter's name. */
#define WEIR_KERNEL(name, type, args)                                                              \
    extern "C" __global__ void name(const __grid_constant__ type args)

/* Return the index of the thread in its block, the number of threads per block, the index of the
 * block in the launch, and the number of blocks. */
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

/* A barrier of the threads of a block, all of which must call it. */
WEIR_KERNEL_FN void weir_block_sync(void)
{
    __syncthreads();
}

/* A barrier of the block that returns non-zero to all of its threads if any passed non-zero. */
WEIR_KERNEL_FN int weir_block_any(int status)
{
    return __syncthreads_or(status);
}

/* Reports that the kernel failed. status is the error of a wait, WEIR_ERR_INVALID or
 * WEIR_ERR_MISMATCH. It aborts the communicator on this rank, which ends its other waits; the next
 * call on the communicator, or weir_comm_check, returns the status and aborts the other ranks.
 * WEIR_ERR_ABORTED has no effect on a GPU, since its cause is already recorded. Every thread with
 * an error may make the call. Pass the error itself: the result of weir_block_any is not a status.
 * guard is that of any channel of the communicator. */
WEIR_KERNEL_FN void weir_kernel_fail(const weir_guard *guard, int status)
{
    weir_wait_record *record = guard->record;
    if (status != WEIR_ERR_TIMEOUT && status != WEIR_ERR_INVALID && status != WEIR_ERR_MISMATCH)
        return;
    /* A wait that timed out has already recorded its peer and values: keep that record. */
    if (record && (status != WEIR_ERR_TIMEOUT || !weir_load_relaxed(&record->kind)))
        weir_wait_note(guard, WEIR_WAIT_FAILED, (uint64_t)-status, 0);
    weir_store_release((uint64_t *)guard->abort_word, WEIR_ABORTED_BY_KERNEL);
}

#if defined(__CUDACC__)
/* Declares `name`, a char *, at the beginning of a kernel: the shared memory of the block, as many
 * bytes as the launch requested, 16-byte aligned. */
#define WEIR_SHARED(name)                                                                          \
    extern __shared__ uint4 weir_shared_words[];                                                   \
    char *const name = (char *)weir_shared_words
#endif

#else

/* The state of the launch that runs in this thread. */
typedef struct weir_kernel_run {
    char *shared;
    int status;
} weir_kernel_run;
/* __thread is the spelling that C and C++ share. */
static __thread weir_kernel_run weir_kernel_now __attribute__((unused));

/* The symbol that weir_kernel_launch looks up in the compiled file. */
typedef struct weir_kernel_entry {
    uint32_t abi; /* WEIR_KERNEL_ABI */
    uint32_t args_bytes;
    /* Runs the kernel; returns the first status that it passed to weir_kernel_fail, or 0. */
    int (*run)(const void *args, char *shared);
} weir_kernel_entry;

#define WEIR_KERNEL(name, type, args)                                                              \
    static void weir_body_##name(const type args);                                                 \
    static int weir_run_##name(const void *packed, char *shared)                                   \
    {                                                                                              \
        type unpacked;                                                                             \
        memcpy(&unpacked, packed, sizeof unpacked);                                                \
        weir_kernel_now.shared = shared;                                                           \
        weir_kernel_now.status = 0;                                                                \
        weir_body_##name(unpacked);                                                                \
        return weir_kernel_now.status;                                                             \
    }                                                                                              \
    extern const weir_kernel_entry weir_kernel_##name;                                             \
    const weir_kernel_entry weir_kernel_##name = {WEIR_KERNEL_ABI, sizeof(type), weir_run_##name}; \
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

#define WEIR_SHARED(name) char *const name = weir_kernel_now.shared

#endif

/* --------------------------------------- kernels that implement a collective */

/* The largest number of ranks that such a kernel serves, on a GPU and on the host; it is limited by
 * the size of a kernel's parameter. */
#if defined(__CUDACC__)
enum { WEIR_KERNEL_RANKS_MAX = 8 };
#else
enum { WEIR_KERNEL_RANKS_MAX = 64 };
#endif

/* alltoallv and sendrecv: the bytes that this rank exchanges with one peer, and where they begin in
 * its buffers, in bytes. */
typedef struct weir_kernel_split {
    uint64_t send_at, send_bytes, recv_at, recv_bytes;
} weir_kernel_split;

enum { WEIR_KERNEL_STATE_WORDS = 8 };

/*
 * The parameter of a kernel that an algorithm of weir_algo_from_file launches for a collective.
 * Buffers have any length and alignment, and are in place or not, as weir/weir.h describes for the
 * collective. Peers cannot address them: data goes through scratch memory.
 *
 * Scratch memory. Each rank has nranks slots of slot_bytes, aligned to 128 bytes; rank r writes
 * slot r. A channel's remote is the peer's scratch memory; its local and packets are this rank's.
 * It is zeroed once, when the context is created, not before each launch.
 */
typedef struct weir_kernel_args {
    const char *in;
    char *out;
    uint64_t in_bytes, out_bytes;
    int32_t rank, nranks;
    int32_t collective, dtype, op; /* weir_collective, weir_dtype, weir_op */
    int32_t root;
    uint32_t element_bytes;
    uint32_t blocks; /* of the launch */
    uint64_t slot_bytes;
    weir_memchan_dev *const *chans; /* see weir_kernel_chans */
    uint64_t *state;                /* see weir_kernel_state */
    weir_guard guard;
    weir_kernel_split splits[WEIR_KERNEL_RANKS_MAX]; /* alltoallv, sendrecv; else all zero */
} weir_kernel_args;

/* Returns the calling block's nranks - 1 channels: entry i leads to rank (rank + 1 + i) % nranks.
 * They connect the blocks of equal index on all ranks. */
WEIR_FN weir_memchan_dev *const *weir_kernel_chans(const weir_kernel_args *args, uint32_t block)
{
    return args->chans + (size_t)block * (size_t)(args->nranks - 1);
}

/* Returns the rank that the channel of this index leads to. */
WEIR_FN int weir_kernel_peer(const weir_kernel_args *args, int index)
{
    return (args->rank + 1 + index) % args->nranks;
}

/* Returns the block's WEIR_KERNEL_STATE_WORDS words, which are zero at first and persist between
 * launches. */
WEIR_FN uint64_t *weir_kernel_state(const weir_kernel_args *args, uint32_t block)
{
    return args->state + (size_t)block * WEIR_KERNEL_STATE_WORDS;
}

WEIR_C_CASTS_END

#endif
