/*
 * Steps that copy: one source to all destinations, any of which may be packets. The threads of the
 * block share the bytes.
 *
 * Data is copied in vectors of 16 bytes where all operands have the same alignment; the bytes
 * before and after them, or all bytes if the alignments differ, are copied in words of 8 that are
 * assembled from bytes. Each thread has several independent loads in flight before its first store.
 */
#ifndef WEIR_PLAN_CUDA_SPREAD_CUH
#define WEIR_PLAN_CUDA_SPREAD_CUH

#include "plan/cuda/device/block.cuh"

/* Accesses of a thread in flight: vectors, and packets. */
enum { WEIRI_IMAGE_FLIGHT = 8, WEIRI_IMAGE_PACKETS_FLIGHT = 4 };

/* How bytes [begin, end) of the operands' line are divided: head words, vectors, tail words. */
struct weiri_image_cut {
    size_t begin, end;
    size_t body, tail;          /* begin and end of the vectors */
    uint32_t head_words, words; /* of 8 bytes, the last one of each part possibly shorter: of the
                                 * head, and of head and tail */
};

/* unit: bytes of an element. If the head is not a whole number of elements, all bytes are words. */
WEIRI_GPU_FN weiri_image_cut weiri_image_cut_line(const weiri_image_operand *operands,
                                                  uint32_t count, size_t begin, size_t end,
                                                  uint32_t unit)
{
    const uintptr_t first = (uintptr_t)operands[0].line;
    uintptr_t odd = 0;
    for (uint32_t i = 1; i < count; i++)
        odd |= (uintptr_t)operands[i].line ^ first;
    size_t head = (16 - (first + begin) % 16) % 16;
    if (odd % 16 || head % unit || head > end - begin)
        head = end - begin;
    weiri_image_cut cut = {begin, end, begin + head, 0, 0, 0};
    cut.tail = cut.body + (end - cut.body) / 16 * 16;
    cut.head_words = (uint32_t)((head + 7) / 8);
    cut.words = cut.head_words + (uint32_t)((end - cut.tail + 7) / 8);
    return cut;
}

/* The offset of a word outside of the vectors; *left: the bytes from there to the end of its
 * part. */
WEIRI_GPU_FN size_t weiri_image_word_at(const weiri_image_cut &cut, uint32_t word, size_t *left)
{
    const bool is_head = word < cut.head_words;
    const size_t at =
        is_head ? cut.begin + (size_t)8 * word : cut.tail + (size_t)8 * (word - cut.head_words);
    *left = (is_head ? cut.body : cut.end) - at;
    return at;
}

/* ------------------------------------------------------------------------ data */

WEIRI_GPU_FN void weiri_image_copy_vectors(const weiri_image_operand *operands, uint32_t ndsts,
                                           size_t begin, size_t end)
{
    enum { UNROLL = WEIRI_IMAGE_FLIGHT };
    const size_t step = (size_t)16 * blockDim.x;
    const char *from = operands[0].line;
#pragma unroll 1
    for (size_t at = begin + (size_t)16 * threadIdx.x; at < end; at += UNROLL * step) {
        weiri_gpu_vector some[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (at + u * step < end)
                some[u] = weiri_gpu_load16(from + at + u * step);
#pragma unroll 1
        for (uint32_t d = 1; d <= ndsts; d++) {
            char *to = operands[d].line + at;
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (at + u * step < end)
                    weiri_gpu_store16(to + u * step, some[u]);
        }
    }
}

/* Copies the words before and after the vectors. */
WEIRI_GPU_COLD_FN void weiri_image_copy_words(const weiri_image_operand *operands, uint32_t ndsts,
                                              size_t begin, size_t end)
{
    const weiri_image_cut cut = weiri_image_cut_line(operands, 1 + ndsts, begin, end, 1);
#pragma unroll 1
    for (uint32_t word = threadIdx.x; word < cut.words; word += blockDim.x) {
        size_t left;
        const size_t at = weiri_image_word_at(cut, word, &left);
        const uint64_t data = weiri_gpu_load_word(operands[0].line + at, left);
        for (uint32_t d = 1; d <= ndsts; d++)
            weiri_gpu_store_word(operands[d].line + at, data, left);
    }
}

WEIRI_GPU_FN void weiri_image_copy(const weiri_image_operand *operands, uint32_t ndsts,
                                   size_t begin, size_t end)
{
    const weiri_image_cut cut = weiri_image_cut_line(operands, 1 + ndsts, begin, end, 1);
    weiri_image_copy_vectors(operands, ndsts, cut.body, cut.tail);
    if (cut.words)
        weiri_image_copy_words(operands, ndsts, begin, end);
}

/* --------------------------------------------------------------------- packets */

/* Waits for the packets of COUNT words, which a thread loads together: at byte `at` of lines[w], or
 * if STRIDED at byte at + w * step of lines[0]. Packets outside of the mask are not read and give
 * 0. */
template <int COUNT, bool STRIDED>
WEIRI_GPU_FN void weiri_image_receive(const weiri_image_launch &run, uint32_t op,
                                      const weiri_image_operand *lines, size_t at, size_t step,
                                      uint32_t mask, uint64_t (&data)[COUNT])
{
    uint32_t missing = mask;
    weir_waiter waiter = {0, 0};
    const char *from[COUNT];
#pragma unroll
    for (int w = 0; w < COUNT; w++) {
        data[w] = 0;
        from[w] = lines[STRIDED || !(mask >> w & 1) ? 0 : w].line + at + (STRIDED ? w * step : 0);
    }
#pragma unroll 1
    for (;;) {
        uint64_t low[COUNT], high[COUNT];
#pragma unroll
        for (int w = 0; w < COUNT; w++)
            if (missing >> w & 1)
                weir_load_pair((const uint64_t *)from[w], &low[w], &high[w]);
#pragma unroll
        for (int w = 0; w < COUNT; w++) {
            if (!(missing >> w & 1) || (uint32_t)(low[w] >> 32) != run.flag ||
                (uint32_t)(high[w] >> 32) != run.flag)
                continue;
            data[w] = high[w] << 32 | (uint32_t)low[w];
            missing &= ~(1u << w);
        }
        if (!missing || weiri_image_has_failed(run))
            return;
        const int status = weir_waiter_step(&waiter, &run.args->view.guard);
        if (status) {
            weiri_image_fail(run, op, status, -1, WEIR_WAIT_PACKET, run.epoch, missing);
            return;
        }
    }
}

/* How many bytes of data a line has from byte `at` on. */
WEIRI_GPU_FN size_t weiri_image_data_left(size_t at, size_t data_end)
{
    return at < data_end ? data_end - at : 0;
}

/* Nonzero if the lines of some operands do not begin at multiples of 8 bytes. */
WEIRI_GPU_FN uintptr_t weiri_image_misalignment(const weiri_image_operand *operands, uint32_t count)
{
    uintptr_t odd = 0;
    for (uint32_t i = 0; i < count; i++)
        odd |= (uintptr_t)operands[i].line % 8;
    return odd;
}

/* The end of those words of bytes [begin, end) that are whole and aligned. */
WEIRI_GPU_FN size_t weiri_image_whole_end(uintptr_t odd, size_t begin, size_t end, size_t data_end)
{
    const size_t last = end < data_end ? end : data_end / 8 * 8;
    return !odd && last > begin ? last : begin;
}

/* Loads a word of data of which `left` bytes exist; a whole word is aligned. */
template <bool whole> WEIRI_GPU_FN uint64_t weiri_image_load(const char *from, size_t left)
{
    return whole ? *(const volatile uint64_t *)from : weiri_gpu_load_word(from, left);
}

template <bool whole> WEIRI_GPU_FN void weiri_image_store(char *to, uint64_t word, size_t left)
{
    if (whole)
        *(uint64_t *)to = word;
    else
        weiri_gpu_store_word(to, word, left);
}

/* The first word of this thread from byte `begin` on. Word i of a line belongs to thread i modulo
 * the threads of the block, whatever the step and its operands are: packet steps of a block on the
 * same bytes need no fence between them (docs/developer/plans.md). */
WEIRI_GPU_FN size_t weiri_image_own_word(size_t begin)
{
    const uint32_t word = (uint32_t)(begin / 8 % blockDim.x);
    const uint32_t ahead = threadIdx.x >= word ? 0 : blockDim.x;
    return begin + (size_t)8 * (threadIdx.x + ahead - word);
}

/* Handles bytes [begin, end), both multiples of 8; each thread has `flight` words in flight. */
template <bool from_packets, bool to_packets, bool whole, int flight>
WEIRI_GPU_FN void weiri_image_copy_packet_words(const weiri_image_launch &run, uint32_t op,
                                                const weiri_image_operand *operands, uint32_t ndsts,
                                                size_t begin, size_t end, size_t data_end)
{
    const size_t step = (size_t)8 * blockDim.x;
#pragma unroll 1
    for (size_t at = weiri_image_own_word(begin); at < end; at += flight * step) {
        uint64_t data[flight] = {};
        uint32_t mask = 0;
#pragma unroll
        for (int u = 0; u < flight; u++)
            mask |= (uint32_t)(at + u * step < end) << u;
        if (from_packets) {
            weiri_image_receive<flight, true>(run, op, operands, 2 * at, 2 * step, mask, data);
        } else {
#pragma unroll
            for (int u = 0; u < flight; u++)
                if (mask >> u & 1)
                    data[u] =
                        weiri_image_load<whole>(operands[0].line + at + u * step,
                                                weiri_image_data_left(at + u * step, data_end));
        }
#pragma unroll 1
        for (uint32_t d = 1; d <= ndsts; d++) {
            char *to = operands[d].line;
#pragma unroll
            for (int u = 0; u < flight; u++) {
                const size_t here = at + u * step;
                if (!(mask >> u & 1))
                    continue;
                if (to_packets)
                    weir_packet16_write((uint64_t *)(to + 2 * here), run.flag, data[u]);
                else
                    weiri_image_store<whole>(to + here, data[u],
                                             weiri_image_data_left(here, data_end));
            }
        }
    }
}

/* Handles bytes [begin, end), both multiples of 8: first the words that are whole and aligned. */
template <bool from_packets, bool to_packets>
WEIRI_GPU_FN void weiri_image_copy_packets(const weiri_image_launch &run, uint32_t op,
                                           const weiri_image_operand *operands, uint32_t ndsts,
                                           size_t begin, size_t end, size_t data_end)
{
    const uintptr_t odd = (from_packets ? 0 : weiri_image_misalignment(operands, 1)) |
                          (to_packets ? 0 : weiri_image_misalignment(operands + 1, ndsts));
    const size_t middle = weiri_image_whole_end(odd, begin, end, data_end);
    weiri_image_copy_packet_words<from_packets, to_packets, true, WEIRI_IMAGE_PACKETS_FLIGHT>(
        run, op, operands, ndsts, begin, middle, data_end);
    weiri_image_copy_packet_words<from_packets, to_packets, false, 1>(run, op, operands, ndsts,
                                                                      middle, end, data_end);
}

#endif
