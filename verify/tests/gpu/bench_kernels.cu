/*
 * Kernels for bench_algo.sh: collectives that send each message in one part, which must fit into a
 * slot, and one that gives wrong results. The protocol is that of lib/algo/examples/allgather.cu.
 */
#include <weir/kernel.h>

WEIR_KERNEL_FN int rank_barrier(const weir_kernel_args *args)
{
    weir_block_sync();
    int status = weir_barrier(weir_kernel_chans(args, 0), (uint32_t)(args->nranks - 1), weir_tid(),
                              weir_nthreads());
    if (status)
        weir_kernel_fail(&args->guard, status);
    return weir_block_any(status);
}

WEIR_KERNEL_FN void copy(char *to, const char *from, size_t bytes)
{
    if (to != from)
        weir_copy_shared(to, from, bytes, weir_tid(), weir_nthreads());
}

/* Copies bytes into this rank's slot on the rank at the other end of a channel. */
WEIR_KERNEL_FN void put(const weir_kernel_args *args, int index, const char *from, size_t bytes)
{
    copy(weir_kernel_chans(args, 0)[index]->remote + (size_t)args->rank * args->slot_bytes, from,
         bytes);
}

/* The slot with what a rank has put. */
WEIR_KERNEL_FN const char *slot(const weir_kernel_args *args, int rank)
{
    return weir_kernel_chans(args, 0)[0]->local + (size_t)rank * args->slot_bytes;
}

WEIR_KERNEL(broadcast, weir_kernel_args, args)
{
    for (int i = 0; i < args.nranks - 1 && args.rank == args.root; i++)
        put(&args, i, args.in, args.out_bytes);
    if (weir_block() || rank_barrier(&args))
        return;
    copy(args.out, args.rank == args.root ? args.in : slot(&args, args.root), args.out_bytes);
    rank_barrier(&args);
}

/* alltoallv and sendrecv. */
WEIR_KERNEL(exchange, weir_kernel_args, args)
{
    const weir_kernel_split own = args.splits[args.rank];
    for (int i = 0; i < args.nranks - 1; i++) {
        const weir_kernel_split split = args.splits[weir_kernel_peer(&args, i)];
        put(&args, i, args.in + split.send_at, split.send_bytes);
    }
    copy(args.out + own.recv_at, args.in + own.send_at, own.send_bytes);
    if (weir_block() || rank_barrier(&args))
        return;
    for (int i = 0; i < args.nranks - 1; i++) {
        const int peer = weir_kernel_peer(&args, i);
        copy(args.out + args.splits[peer].recv_at, slot(&args, peer), args.splits[peer].recv_bytes);
    }
    rank_barrier(&args);
}

/* Sum of int32, in rank order. */
WEIR_KERNEL(allreduce, weir_kernel_args, args)
{
    const int32_t *in = (const int32_t *)(const void *)args.in;
    int32_t *out = (int32_t *)(void *)args.out;
    for (int i = 0; i < args.nranks - 1; i++)
        put(&args, i, args.in, args.in_bytes);
    if (weir_block() || rank_barrier(&args))
        return;
    for (size_t at = weir_tid(); at < args.in_bytes / 4; at += weir_nthreads()) {
        uint32_t sum = 0;
        for (int rank = 0; rank < args.nranks; rank++) {
            const int32_t *theirs =
                rank == args.rank ? in : (const int32_t *)(const void *)slot(&args, rank);
            sum += (uint32_t)theirs[at];
        }
        out[at] = (int32_t)sum;
    }
    rank_barrier(&args);
}

/* Any collective that only moves data, with the last bit wrong. */
WEIR_KERNEL(wrong, weir_kernel_args, args)
{
    copy(args.out, args.in, args.in_bytes);
    weir_block_sync();
    if (weir_tid() == 0 && weir_block() == 0)
        args.out[args.out_bytes - 1] ^= 1;
}
