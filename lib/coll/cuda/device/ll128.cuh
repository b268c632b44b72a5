/*
 * LL128 lines: packets of 128 bytes, 120 bytes of data and an 8-byte flag, as in NCCL's LL128. A
 * line costs 1/15 more than its data, whereas a 16-byte LL packet doubles it; like LL packets,
 * lines need neither a barrier before nor a signal after.
 *
 * Eight neighbouring threads store a line with one instruction, 16 bytes each, and load it in the
 * same way. Such a warp-wide access to an aligned line is one transaction, also over NVLink: a
 * reader that sees the flag sees the whole line.
 *
 * A warp moves one unit at a time: four lines, which carry 480 bytes of a buffer, that is 30
 * vectors of 16 bytes. The last thread of each line has only 8 bytes of data beside the flag, so
 * two such threads share one vector:
 *
 *   thread of a half warp   0  1  2  3  4  5  6  7       8  9 10 11 12 13 14 15
 *   its vector of 15        0  1  2  3  4  5  6  14 low  7  8  9 10 11 12 13 14 high
 *
 * Buffers are therefore read and written in whole, aligned vectors. Flags are epochs; they are
 * always at the same places, in memory that holds nothing but lines, so no data can be mistaken for
 * a flag.
 */
#ifndef WEIR_COLL_CUDA_LL128_CUH
#define WEIR_COLL_CUDA_LL128_CUH

#include "coll/cuda/device/ll_reduce.cuh"

enum {
    WEIRI_GPU_UNIT_DATA = 480,  /* bytes of a buffer in a unit */
    WEIRI_GPU_UNIT_BYTES = 512, /* bytes of a unit in a slot */
};

/* Units that the slot of one sender, phase and parity holds. A sender's phases are adjacent, so a
 * kernel that sends in phase 0 only has WEIRI_GPU_PHASES times as much room. */
static inline __host__ __device__ uint32_t weiri_gpu_ll128_slot_units(int nranks)
{
    return (uint32_t)(WEIRI_GPU_LINES_BYTES / (2 * WEIRI_GPU_PHASES) / (unsigned)nranks /
                      WEIRI_GPU_UNIT_BYTES);
}

/* Units for so many bytes; at least one, so that there is always a unit to wait for. */
static inline __host__ __device__ uint32_t weiri_gpu_ll128_units(uint64_t bytes)
{
    return (uint32_t)(bytes ? (bytes + WEIRI_GPU_UNIT_DATA - 1) / WEIRI_GPU_UNIT_DATA : 1);
}

/* Units of each of `shares` equal shares, even if the data end before or within the last ones. */
static inline __host__ __device__ uint32_t weiri_gpu_ll128_share_units(uint64_t bytes,
                                                                       uint32_t shares)
{
    return (weiri_gpu_ll128_units(bytes) + shares - 1) / shares;
}

/* Whether LL128 can serve a call of so many units per receiver, sent in so many phases: the link
 * must deliver lines whole, and the units must fit into a sender's slot. */
static inline int weiri_gpu_ll128_serves_units(const weiri_gpu_args *args, uint32_t units,
                                               int phases)
{
    return args->nvlink && units <= WEIRI_GPU_PHASES / (uint32_t)phases *
                                        weiri_gpu_ll128_slot_units(args->view.nranks);
}

/* The part of each unit that a thread handles. */
struct weiri_gpu_line_part {
    uint32_t vector;  /* which of the unit's 30 vectors it holds, or shares */
    uint32_t is_last; /* last thread of a line: 8 bytes of data, and the flag */
    uint32_t is_high; /* its data are the upper half of the shared vector */
    uint32_t slot_at; /* offset in the unit as stored in a slot */
};

WEIRI_GPU_FN weiri_gpu_line_part weiri_gpu_line_part_of_thread(void)
{
    uint32_t lane = threadIdx.x % 32, thread = lane % 16;
    weiri_gpu_line_part part;
    part.is_last = lane % 8 == 7;
    part.is_high = thread == 15;
    part.vector = lane / 16 * 15 + (part.is_last ? 14 : thread < 7 ? thread : thread - 1);
    part.slot_at = lane * 16;
    return part;
}

/* Offset in a scratch segment of the lines that rank `from` writes. */
template <int exact>
WEIRI_GPU_FN size_t weiri_gpu_ll128_slot_at(const weiri_gpu_view &view, int from, uint64_t epoch,
                                            int phase)
{
    const int nranks = weiri_gpu_nranks<exact>(view);
    unsigned sender = (unsigned)epoch % 2 * (unsigned)nranks + (unsigned)from;
    return WEIRI_GPU_LINES_AT + (size_t)(sender * WEIRI_GPU_PHASES + (unsigned)phase) *
                                    weiri_gpu_ll128_slot_units(nranks) * WEIRI_GPU_UNIT_BYTES;
}

/* ------------------------------------------------------------------ buffers */

/* Accesses by the threads of a warp for which `wanted` is true. Accesses are predicated
 * instructions because branches could leave the warp diverged: __syncwarp makes its threads wait
 * for each other, but does not make them continue together, and a line would be stored or loaded in
 * parts. */
template <int bytes> WEIRI_GPU_FN uint64_t weiri_gpu_load_if(const char *from, bool wanted)
{
    uint64_t value = 0;
#if WEIR_ON_DEVICE
    uint32_t low;
    if (bytes == 8) {
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.u64 %0, 0;"
                     "@p ld.volatile.global.u64 %0, [%1];}"
                     : "=&l"(value)
                     : "l"(from), "r"((uint32_t)wanted)
                     : "memory");
        return value;
    }
    if (bytes == 4)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0;"
                     "@p ld.volatile.global.u32 %0, [%1];}"
                     : "=&r"(low)
                     : "l"(from), "r"((uint32_t)wanted)
                     : "memory");
    else
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0;"
                     "@p ld.volatile.global.u8 %0, [%1];}"
                     : "=&r"(low)
                     : "l"(from), "r"((uint32_t)wanted)
                     : "memory");
    value = low;
#else
    if (wanted)
        memcpy(&value, from, bytes);
#endif
    return value;
}

template <int bytes> WEIRI_GPU_FN void weiri_gpu_store_if(char *to, uint64_t value, bool wanted)
{
#if WEIR_ON_DEVICE
    if (bytes == 8)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u64 [%0], %1;}" ::"l"(to),
                     "l"(value), "r"((uint32_t)wanted)
                     : "memory");
    else if (bytes == 4)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u32 [%0], %1;}" ::"l"(to),
                     "r"((uint32_t)value), "r"((uint32_t)wanted)
                     : "memory");
    else
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u8 [%0], %1;}" ::"l"(to),
                     "r"((uint32_t)value), "r"((uint32_t)wanted)
                     : "memory");
#else
    if (wanted)
        memcpy(to, &value, bytes);
#endif
}

WEIRI_GPU_FN void weiri_gpu_store16_if(char *to, const uint64_t (&data)[2], bool wanted)
{
#if WEIR_ON_DEVICE
    asm volatile(
        "{.reg .pred p; setp.ne.u32 p, %3, 0; @p st.global.v2.u64 [%0], {%1, %2};}" ::"l"(to),
        "l"(data[0]), "l"(data[1]), "r"((uint32_t)wanted)
        : "memory");
#else
    if (wanted)
        weiri_gpu_store16(to, {{data[0], data[1]}});
#endif
}

/* Loads what exists of the 8 bytes at `first` of a buffer that ends at `end`; the rest is 0. odd:
 * the low bits of all addresses and lengths, the same in all threads of the warp. */
WEIRI_GPU_FN uint64_t weiri_gpu_load_some(const char *buffer, size_t first, size_t end,
                                          uint32_t odd)
{
    uint64_t word = 0;
    if (!(odd & 7))
        return weiri_gpu_load_if<8>(buffer + first, first + 8 <= end);
    if (!(odd & 3))
        return weiri_gpu_load_if<4>(buffer + first, first + 4 <= end) |
               weiri_gpu_load_if<4>(buffer + first + 4, first + 8 <= end) << 32;
#pragma unroll
    for (size_t i = 0; i < 8; i++)
        word |= weiri_gpu_load_if<1>(buffer + first + i, first + i < end) << (8 * i);
    return word;
}

WEIRI_GPU_FN void weiri_gpu_store_some(char *buffer, size_t first, size_t end, uint32_t odd,
                                       uint64_t word)
{
    if (!(odd & 7)) {
        weiri_gpu_store_if<8>(buffer + first, word, first + 8 <= end);
    } else if (!(odd & 3)) {
        weiri_gpu_store_if<4>(buffer + first, word, first + 4 <= end);
        weiri_gpu_store_if<4>(buffer + first + 4, word >> 32, first + 8 <= end);
    } else {
#pragma unroll
        for (size_t i = 0; i < 8; i++)
            weiri_gpu_store_if<1>(buffer + first + i, word >> (8 * i), first + i < end);
    }
}

/* Loads this thread's data of a whole unit at any address, assembled from the words around them. At
 * least 8 more bytes of the buffer must follow the unit. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_unit_load(const weiri_gpu_line_part &part, const char *unit)
{
    const uint32_t shift = weiri_gpu_misaligned(unit, 8);
    const char *from = unit - shift + 16 * part.vector + 8 * part.is_high;
    const uint64_t a = weiri_gpu_load_if<8>(from, true);
    const uint64_t b = weiri_gpu_load_if<8>(from + 8, shift || !part.is_last);
    const uint64_t c = weiri_gpu_load_if<8>(from + 16, shift && !part.is_last);
    return {{weiri_gpu_shift_words(a, b, shift), weiri_gpu_shift_words(b, c, shift)}};
}

/* Stores a whole unit at any address, in aligned words; each thread completes its last word with
 * the first bytes of the next thread's data. Only the two ends of the unit are stored by bytes. */
WEIRI_GPU_FN void weiri_gpu_unit_store(const weiri_gpu_line_part &part, char *unit,
                                       const uint64_t (&data)[2])
{
    const uint32_t lane = threadIdx.x % 32, shift = (0 - (uint32_t)(uintptr_t)unit) & 7;
    const uint32_t next = lane % 8 == 6    ? lane / 16 * 16 + (lane % 16 == 6 ? 8 : 7)
                          : lane % 16 == 7 ? lane + 8
                                           : lane + 1;
    const uint64_t after = __shfl_sync(0xffffffff, data[0], (int)(next % 32));
    const int ends = lane == 31;
    char *to = unit + 16 * part.vector + 8 * part.is_high;
    weiri_gpu_store_if<8>(to + shift,
                          weiri_gpu_shift_words(data[0], part.is_last ? after : data[1], shift),
                          !ends || !shift);
    weiri_gpu_store_if<8>(to + 8 + shift, weiri_gpu_shift_words(data[1], after, shift),
                          !part.is_last);
#pragma unroll
    for (uint32_t i = 0; i < 7; i++) {
        weiri_gpu_store_if<1>(to + i, data[0] >> 8 * i, !lane && i < shift);
        weiri_gpu_store_if<1>(to + 7 - i, data[0] >> (56 - 8 * i), ends && shift && 7 - i >= shift);
    }
}

/* Loads this thread's data of the unit that begins at `at` of a buffer of `bytes` bytes; what lies
 * beyond its end is 0. For the last thread of a line, word 1 is undefined. aligned: the buffer is
 * aligned to 16. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_line_load(const weiri_gpu_line_part &part,
                                                  const char *buffer, size_t bytes, size_t at,
                                                  int aligned)
{
    weiri_gpu_vector data;
    if (aligned && at + WEIRI_GPU_UNIT_DATA <= bytes) {
        data = weiri_gpu_load16(buffer + at + 16 * part.vector);
        data.word[0] = part.is_high ? data.word[1] : data.word[0];
        return data;
    }
    if (at + WEIRI_GPU_UNIT_DATA + 8 <= bytes)
        return weiri_gpu_unit_load(part, buffer + at);
    const uint32_t odd = (uint32_t)((uintptr_t)(buffer + at) | (bytes - at));
    const size_t first = at + 16 * part.vector + 8 * part.is_high;
    data.word[0] = weiri_gpu_load_some(buffer, first, bytes, odd);
    data.word[1] = weiri_gpu_load_some(buffer, first + 8, part.is_last ? 0 : bytes, odd);
    return data;
}

WEIRI_GPU_FN void weiri_gpu_line_store(const weiri_gpu_line_part &part, char *buffer, size_t bytes,
                                       size_t at, int aligned, const uint64_t (&data)[2])
{
    const size_t first = at + 16 * part.vector + 8 * part.is_high;
    if (at + WEIRI_GPU_UNIT_DATA <= bytes) {
        if (!aligned) {
            weiri_gpu_unit_store(part, buffer + at, data);
            return;
        }
        weiri_gpu_store16_if(buffer + first, data, !part.is_last);
        weiri_gpu_store_if<8>(buffer + first, data[0], part.is_last);
        return;
    }
    const uint32_t odd = (uint32_t)((uintptr_t)(buffer + at) | (bytes - at));
    weiri_gpu_store_some(buffer, first, bytes, odd, data[0]);
    weiri_gpu_store_some(buffer, first + 8, part.is_last ? 0 : bytes, odd, data[1]);
}

/* -------------------------------------------------------------------- lines */

/* Stores a unit; all threads of the warp call it. They must be converged: the code before must
 * contain no branch in which they diverge. */
WEIRI_GPU_FN void weiri_gpu_send_lines(const weiri_gpu_line_part &part, char *unit, uint64_t epoch,
                                       uint64_t first, uint64_t second)
{
    uint64_t *to = (uint64_t *)(unit + part.slot_at);
    __syncwarp(); /* a diverged warp would store a line in parts */
#if WEIR_ON_DEVICE
    weir_store_pair(to, first, part.is_last ? epoch : second);
#else
    if (!part.is_last)
        weir_store_pair(to, first, second);
    else
        weir_store_relaxed(to, first);
    __syncwarp();
    if (part.is_last)
        weir_store_release(to + 1, epoch);
#endif
}

/* Stores the same unit into this rank's slot at each of `ranks`, a bit mask. */
template <int exact>
WEIRI_GPU_FN void
weiri_gpu_send_lines_to(const weiri_gpu_view &view, const weiri_gpu_line_part &part, uint64_t epoch,
                        int phase, uint32_t unit, unsigned ranks, const uint64_t (&data)[2])
{
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t at = weiri_gpu_ll128_slot_at<exact>(view, view.rank, epoch, phase) +
                      (size_t)unit * WEIRI_GPU_UNIT_BYTES;
#pragma unroll
    for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, nranks);
        if (i < nranks && ranks >> r & 1)
            weiri_gpu_send_lines(part, view.scratch[r] + at, epoch, data[0], data[1]);
    }
}

/* Waits for a unit in the slots of the peers of a bit mask on this rank and loads it into
 * words[peer], with all peers' loads in flight at once; other entries are left unchanged. All
 * threads of the warp call it. */
template <int exact>
WEIRI_GPU_FN void
weiri_gpu_receive_lines(const weiri_gpu_view &view, const weiri_gpu_line_part &part, uint64_t epoch,
                        int phase, uint32_t unit, uint64_t (&words)[WEIRI_GPU_RANKS_MAX][2],
                        unsigned peers = ~0u)
{
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t stride =
        (size_t)WEIRI_GPU_PHASES * weiri_gpu_ll128_slot_units(nranks) * WEIRI_GPU_UNIT_BYTES;
    const char *first = view.scratch[view.rank] +
                        weiri_gpu_ll128_slot_at<exact>(view, 0, epoch, phase) +
                        (size_t)unit * WEIRI_GPU_UNIT_BYTES + part.slot_at;
    const unsigned failed_bit = 1u << 31;
    unsigned missing = peers & ((1u << nranks) - 1) & ~(1u << view.rank);
    weir_waiter waiter = {0, 0};
    int status = 0;
    for (;;) {
        unsigned late = 0;
        __syncwarp();
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            if (r < nranks && missing >> r & 1)
                weir_load_pair((const uint64_t *)(first + r * stride), &words[r][0], &words[r][1]);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            if (r < nranks && missing >> r & 1 && part.is_last && words[r][1] != epoch)
                late |= 1u << r;
        late = __reduce_or_sync(0xffffffff, late | (status ? failed_bit : 0));
#if !WEIR_ON_DEVICE
        for (int r = 0; r < nranks; r++) /* the emulator runs a line's threads one after another */
            if (missing >> r & 1)
                weir_load_pair((const uint64_t *)(first + r * stride), &words[r][0], &words[r][1]);
#endif
        if (!late)
            return;
        if (late & failed_bit)
            break;
        missing = late;
        status = weir_waiter_step(&waiter, &view.guard);
    }
    if (status)
        weiri_gpu_fail(view, status, __ffs((int)missing) - 1, WEIR_WAIT_PACKET, epoch, 0);
}

/* Waits for a unit of all peers in phase 0 and reduces it with this rank's own data. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_reduce_lines(const weiri_gpu_view &view,
                                         const weiri_gpu_line_part &part, int op, uint64_t epoch,
                                         uint32_t unit, const weiri_gpu_vector &own,
                                         uint64_t (&totals)[2])
{
    uint64_t words[WEIRI_GPU_RANKS_MAX][2];
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
        words[r][0] = own.word[0];
        words[r][1] = own.word[1];
    }
    weiri_gpu_receive_lines<exact>(view, part, epoch, 0, unit, words);
    weiri_gpu_reduce<dtype>(op, weiri_gpu_nranks<exact>(view), words, totals);
}

#endif
