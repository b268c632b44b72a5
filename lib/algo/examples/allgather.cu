/*
 * An example of a kernel for weir_algo_from_file: an allgather. Each rank stores its input, one
 * chunk at a time, in its slot of every peer's scratch memory, and copies the peers' chunks from
 * its own scratch memory to its output.
 *
 *     mpirun -np 4 ./bench_allgather --algo lib/algo/examples/allgather.cu:allgather
 *
 * Chunks are dealt to the blocks in turn. Each block serves a chunk in four phases: store it at all
 * peers; barrier, after which all peers' chunks have arrived; copy them to the output; barrier,
 * after which no rank reads its scratch memory any more, so it may be overwritten. weir_barrier has
 * release semantics for all stores of the block, and acquire semantics for the loads after it.
 */
#include <weir/kernel.h>

/* Barrier between the blocks of equal index on all ranks. Returns non-zero in all threads of the
 * block if a wait failed. */
WEIR_KERNEL_FN int rank_barrier(const weir_kernel_args *args)
{
    weir_memchan_dev *const *chans = weir_kernel_chans(args, weir_block());
    weir_block_sync();
    int status = weir_barrier(chans, (uint32_t)(args->nranks - 1), weir_tid(), weir_nthreads());
    if (status)
        weir_kernel_fail(&args->guard, status);
    return weir_block_any(status);
}

WEIR_KERNEL(allgather, weir_kernel_args, args)
{
    const uint32_t tid = weir_tid(), nthreads = weir_nthreads(), nblocks = weir_nblocks();
    const size_t part = args.slot_bytes / nblocks / 128 * 128; /* a block's part of a slot */
    const size_t at = part * weir_block(), bytes = args.in_bytes;
    const size_t own = (size_t)args.rank * args.slot_bytes + at;
    weir_memchan_dev *const *chans = weir_kernel_chans(&args, weir_block());

    for (size_t from = at; from < bytes; from += part * nblocks) {
        const size_t length = bytes - from < part ? bytes - from : part;
        char *const mine = args.out + (size_t)args.rank * bytes + from;
        if (mine != args.in + from)
            weir_copy_shared(mine, args.in + from, length, tid, nthreads);
        for (int i = 0; i < args.nranks - 1; i++)
            weir_copy_shared(chans[i]->remote + own, args.in + from, length, tid, nthreads);
        if (rank_barrier(&args))
            return;
        for (int i = 0; i < args.nranks - 1; i++) {
            const size_t peer = (size_t)weir_kernel_peer(&args, i);
            weir_copy_shared(args.out + peer * bytes + from,
                             chans[i]->local + peer * args.slot_bytes + at, length, tid, nthreads);
        }
        if (rank_barrier(&args))
            return;
    }
}
