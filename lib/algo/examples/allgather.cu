/*
 * An allgather in one kernel, as an example: each rank stores its input, piece by piece, into
 * its slot of everybody's scratch memory, and takes the others' pieces from its own.
 *
 *     mpirun -np 4 ./bench_allgather --algo lib/algo/examples/allgather.cu:allgather
 *
 * Phases of a piece, which the blocks divide among themselves: put into all peers; meet, so
 * that all of theirs are here; copy out; meet again, so that nobody overwrites what a peer is
 * still reading. weir_barrier releases what its threads' block has stored, and acquires.
 */
#include <weir/kernel.h>

/* The block meets its like on all other ranks: 0, or on all its threads not. */
WEIR_KERNEL_FN int meet(const weir_kernel_args *args)
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
    const size_t part = args.slot_bytes / nblocks / 128 * 128; /* of a slot, this block's */
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
        if (meet(&args))
            return;
        for (int i = 0; i < args.nranks - 1; i++) {
            const size_t peer = (size_t)weir_kernel_peer(&args, i);
            weir_copy_shared(args.out + peer * bytes + from,
                             chans[i]->local + peer * args.slot_bytes + at, length, tid, nthreads);
        }
        if (meet(&args))
            return;
    }
}
