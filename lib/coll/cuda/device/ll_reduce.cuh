/*
 * LL packets for reductions: send a word to all peers, and wait for one word of every peer with all
 * polling loads in flight at once.
 */
#ifndef WEIR_COLL_CUDA_LL_REDUCE_CUH
#define WEIR_COLL_CUDA_LL_REDUCE_CUH

#include "coll/cuda/device/vector.cuh"

/* How many bytes of a buffer word number `word` holds: 8, fewer at the buffer's end, or 0. */
WEIRI_GPU_FN size_t weiri_gpu_word_bytes(size_t bytes, size_t word)
{
    size_t at = 8 * word;
    return at >= bytes ? 0 : bytes - at < 8 ? bytes - at : 8;
}

/* Stores the same word as packet `index` of this rank's slot at every peer. */
template <int exact>
WEIRI_GPU_FN void weiri_gpu_send_all(const weiri_gpu_view &view, uint64_t epoch, int phase,
                                     size_t index, uint64_t word)
{
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t at = weiri_gpu_slot_at(view.rank, epoch, phase) + 16 * index;
#pragma unroll
    for (int peer = 0; peer < WEIRI_GPU_RANKS_MAX; peer++)
        if (peer < nranks && peer != view.rank)
            weiri_gpu_send(view.scratch[peer] + at, 0, epoch, word);
}

/* Stores a different word for each peer as packet `index` of this rank's slot there. */
template <int exact>
WEIRI_GPU_FN void weiri_gpu_send_each(const weiri_gpu_view &view, uint64_t epoch, int phase,
                                      size_t index, const uint64_t (&words)[WEIRI_GPU_RANKS_MAX])
{
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t at = weiri_gpu_slot_at(view.rank, epoch, phase) + 16 * index;
#pragma unroll
    for (int peer = 0; peer < WEIRI_GPU_RANKS_MAX; peer++)
        if (peer < nranks && peer != view.rank)
            weiri_gpu_send(view.scratch[peer] + at, 0, epoch, words[peer]);
}

/* Waits for packet `index` of every peer's slot on this rank and stores it to words[peer][0]; this
 * rank's own entry is left unchanged. */
template <int exact>
WEIRI_GPU_FN void weiri_gpu_receive_all(const weiri_gpu_view &view, uint64_t epoch, int phase,
                                        size_t index, uint64_t (&words)[WEIRI_GPU_RANKS_MAX][1])
{
    const int nranks = weiri_gpu_nranks<exact>(view);
    const char *first = view.scratch[view.rank] + weiri_gpu_slot_at(0, epoch, phase) + 16 * index;
    unsigned missing = ((1u << nranks) - 1) & ~(1u << view.rank);
    weir_waiter waiter = {0, 0};
    for (;;) {
        uint64_t low[WEIRI_GPU_RANKS_MAX], high[WEIRI_GPU_RANKS_MAX];
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            if (r < nranks && missing >> r & 1)
                weir_load_pair((const uint64_t *)(first + (size_t)r * WEIRI_GPU_SLOT_BYTES),
                               &low[r], &high[r]);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
            if (r >= nranks || !(missing >> r & 1) || (uint32_t)(low[r] >> 32) != (uint32_t)epoch ||
                (uint32_t)(high[r] >> 32) != (uint32_t)epoch)
                continue;
            words[r][0] = high[r] << 32 | (uint32_t)low[r];
            missing &= ~(1u << r);
        }
        if (!missing)
            return;
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, __ffs((int)missing) - 1, WEIR_WAIT_PACKET, epoch, 0);
            return;
        }
    }
}

#endif
