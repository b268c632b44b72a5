/*
 * The kernel of own_kernel.c: an allreduce of int32, which the library compiles when the program
 * runs, as C for host memory and as CUDA for GPUs.
 *
 * Each rank stores its input in its slot of every peer's scratch memory; after a barrier it adds
 * them; after a second barrier the slots may be overwritten. Inputs that are
 * longer than a block's part of a slot take several rounds; blocks take the parts in turn.
 */
#include <weir/kernel.h>

WEIR_KERNEL_FN int rank_barrier(const weir_kernel_args *args)
{
    weir_memchan_dev *const *chans = weir_kernel_chans(args, weir_block());
    weir_block_sync();
    const int status =
        weir_barrier(chans, (uint32_t)(args->nranks - 1), weir_tid(), weir_nthreads());
    if (status)
        weir_kernel_fail(&args->guard, status);
    return weir_block_any(status);
}

WEIR_KERNEL(add_all, weir_kernel_args, args)
{
    const uint32_t tid = weir_tid(), nthreads = weir_nthreads(), nblocks = weir_nblocks();
    const size_t part = args.slot_bytes / nblocks / 128 * 128;
    const size_t at = part * weir_block(), slot = (size_t)args.rank * args.slot_bytes + at;
    weir_memchan_dev *const *chans = weir_kernel_chans(&args, weir_block());
    if (args.dtype != WEIR_INT32 || args.op != WEIR_SUM) {
        weir_kernel_fail(&args.guard, WEIR_ERR_INVALID);
        return;
    }
    for (size_t from = at; from < args.in_bytes; from += part * nblocks) {
        const size_t left = args.in_bytes - from, bytes = left < part ? left : part;
        for (int i = 0; i < args.nranks - 1; i++)
            weir_copy_shared(chans[i]->remote + slot, args.in + from, bytes, tid, nthreads);
        if (rank_barrier(&args))
            return;
        for (size_t word = tid; word < bytes / 4; word += nthreads) {
            int32_t sum = ((const int32_t *)(args.in + from))[word];
            for (int i = 0; i < args.nranks - 1; i++) {
                const size_t peer = (size_t)weir_kernel_peer(&args, i) * args.slot_bytes + at;
                sum += ((const int32_t *)(chans[i]->local + peer))[word];
            }
            ((int32_t *)(args.out + from))[word] = sum;
        }
        if (rank_barrier(&args))
            return;
    }
}
