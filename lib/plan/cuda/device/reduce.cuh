/*
 * Steps that reduce: all sources, in order, into every destination. vector.cuh defines the types in
 * which values accumulate, and the rounding; a step rounds once.
 *
 * Data is handled in vectors of 16 bytes where all operands have the same alignment. A thread has
 * up to 8 loads in flight: 4 vectors from each of 2 sources, 2 from each of 4, 1 from each of up to
 * 8; beyond 8 sources, 4 sources at a time. Each thread loads all sources of what it stores before
 * it stores, so a destination may be one of the sources.
 *
 * In steps with packets, the first source and the first destination are data, all others packets.
 *
 * op is WEIR_SUM, WEIR_MAX or WEIR_PROD; `inverted` are the bits to invert in every word that is
 * read and written (weiri_gpu_inverted).
 */
#ifndef WEIR_PLAN_CUDA_REDUCE_CUH
#define WEIR_PLAN_CUDA_REDUCE_CUH

#include "plan/cuda/device/spread.cuh"

enum { WEIRI_IMAGE_SOURCES = 8 }; /* of which a thread loads a word each at once */

/* A running reduction of several words. */
template <int dtype, int op, int places> struct weiri_image_accumulator {
    typedef weiri_gpu_lanes<dtype> lanes;
    typename lanes::lane lane[places][lanes::COUNT];

    WEIRI_GPU_FN void begin(weiri_image_accumulator &of, const uint64_t (&words)[places],
                            uint64_t inverted)
    {
#pragma unroll
        for (int p = 0; p < places; p++)
            lanes::unpack(words[p] ^ inverted, of.lane[p]);
    }
    WEIRI_GPU_FN void add(weiri_image_accumulator &to, const uint64_t (&words)[places],
                          uint64_t inverted)
    {
        typename lanes::lane next[lanes::COUNT];
#pragma unroll
        for (int p = 0; p < places; p++) {
            lanes::unpack(words[p] ^ inverted, next);
#pragma unroll
            for (int i = 0; i < lanes::COUNT; i++)
                to.lane[p][i] = weiri_gpu_combine<op>(to.lane[p][i], next[i]);
        }
    }
    WEIRI_GPU_FN void end(const weiri_image_accumulator &of, uint64_t (&words)[places],
                          uint64_t inverted)
    {
#pragma unroll
        for (int p = 0; p < places; p++)
            words[p] = lanes::pack(of.lane[p]) ^ inverted;
    }
};

/* ------------------------------------------------------------------------ data */

/* Reduces up to `sources` sources, `flight` vectors of each at a time. */
template <int dtype, int op, int sources, int flight>
WEIRI_GPU_FN void weiri_image_reduce_few(const weiri_image_operand *operands, uint32_t nsrcs,
                                         uint32_t ndsts, size_t begin, size_t end,
                                         uint64_t inverted)
{
    const size_t step = (size_t)16 * blockDim.x;
#pragma unroll 1
    for (size_t at = begin + (size_t)16 * threadIdx.x; at < end; at += flight * step) {
        uint64_t words[flight][sources][2];
        const char *from[sources];
#pragma unroll
        for (int s = 0; s < sources; s++)
            from[s] = operands[(uint32_t)s < nsrcs ? s : 0].line + at;
#pragma unroll
        for (int f = 0; f < flight; f++)
#pragma unroll
            for (int s = 0; s < sources; s++) {
                const size_t ahead = at + f * step < end ? f * step : 0;
                const weiri_gpu_vector some = weiri_gpu_load16(from[s] + ahead);
                words[f][s][0] = some.word[0];
                words[f][s][1] = some.word[1];
            }
        uint64_t totals[flight][2];
#pragma unroll
        for (int f = 0; f < flight; f++)
            weiri_gpu_combine_all<dtype, op>((int)nsrcs, words[f], totals[f], inverted, 0, 1, 0);
#pragma unroll 1
        for (uint32_t d = nsrcs; d < nsrcs + ndsts; d++) {
            char *to = operands[d].line + at;
#pragma unroll
            for (int f = 0; f < flight; f++)
                if (f == 0 || at + f * step < end)
                    weiri_gpu_store16(to + f * step, {{totals[f][0], totals[f][1]}});
        }
    }
}

template <int dtype, int op>
WEIRI_GPU_FN void weiri_image_reduce_many(const weiri_image_operand *operands, uint32_t nsrcs,
                                          uint32_t ndsts, size_t begin, size_t end,
                                          uint64_t inverted)
{
    typedef weiri_image_accumulator<dtype, op, 2> total;
    enum { GROUP = 4 };
    const size_t step = (size_t)16 * blockDim.x;
#pragma unroll 1
    for (size_t at = begin + (size_t)16 * threadIdx.x; at < end; at += step) {
        total sum;
        uint64_t result[2];
        total::begin(sum, weiri_gpu_load16(operands[0].line + at).word, inverted);
#pragma unroll 1
        for (uint32_t s = 1; s < nsrcs; s += GROUP) {
            weiri_gpu_vector some[GROUP];
#pragma unroll
            for (uint32_t g = 0; g < GROUP; g++)
                if (s + g < nsrcs)
                    some[g] = weiri_gpu_load16(operands[s + g].line + at);
#pragma unroll
            for (uint32_t g = 0; g < GROUP; g++)
                if (s + g < nsrcs)
                    total::add(sum, some[g].word, inverted);
        }
        total::end(sum, result, inverted);
        for (uint32_t d = nsrcs; d < nsrcs + ndsts; d++)
            weiri_gpu_store16(operands[d].line + at, {{result[0], result[1]}});
    }
}

template <int dtype>
WEIRI_GPU_FN weiri_image_cut weiri_image_cut_reduction(const weiri_image_operand *operands,
                                                       uint32_t count, size_t begin, size_t end)
{
    return weiri_image_cut_line(operands, count, begin, end,
                                8 / (uint32_t)weiri_gpu_lanes<dtype>::COUNT);
}

/* Reduces the words before and after the vectors. */
template <int dtype, int op>
WEIRI_GPU_COLD_FN void weiri_image_reduce_words(const weiri_image_operand *operands, uint32_t nsrcs,
                                                uint32_t ndsts, size_t begin, size_t end,
                                                uint64_t inverted)
{
    const weiri_image_cut cut =
        weiri_image_cut_reduction<dtype>(operands, nsrcs + ndsts, begin, end);
    typedef weiri_image_accumulator<dtype, op, 1> total;
#pragma unroll 1
    for (uint32_t word = threadIdx.x; word < cut.words; word += blockDim.x) {
        size_t left;
        const size_t at = weiri_image_word_at(cut, word, &left);
        total sum;
        uint64_t some[1] = {weiri_gpu_load_word(operands[0].line + at, left)};
        total::begin(sum, some, inverted);
#pragma unroll 1
        for (uint32_t s = 1; s < nsrcs; s++) {
            some[0] = weiri_gpu_load_word(operands[s].line + at, left);
            total::add(sum, some, inverted);
        }
        total::end(sum, some, inverted);
        for (uint32_t d = nsrcs; d < nsrcs + ndsts; d++)
            weiri_gpu_store_word(operands[d].line + at, some[0], left);
    }
}

template <int dtype, int op>
WEIRI_GPU_FN void weiri_image_reduce(const weiri_image_operand *operands, uint32_t nsrcs,
                                     uint32_t ndsts, size_t begin, size_t end, uint64_t inverted)
{
    const weiri_image_cut cut =
        weiri_image_cut_reduction<dtype>(operands, nsrcs + ndsts, begin, end);
    if (nsrcs <= 2)
        weiri_image_reduce_few<dtype, op, 2, 4>(operands, nsrcs, ndsts, cut.body, cut.tail,
                                                inverted);
    else if (nsrcs <= 4)
        weiri_image_reduce_few<dtype, op, 4, 2>(operands, nsrcs, ndsts, cut.body, cut.tail,
                                                inverted);
    else if (nsrcs <= WEIRI_IMAGE_SOURCES)
        weiri_image_reduce_few<dtype, op, 8, 1>(operands, nsrcs, ndsts, cut.body, cut.tail,
                                                inverted);
    else
        weiri_image_reduce_many<dtype, op>(operands, nsrcs, ndsts, cut.body, cut.tail, inverted);
    if (cut.words)
        weiri_image_reduce_words<dtype, op>(operands, nsrcs, ndsts, begin, end, inverted);
}

/* --------------------------------------------------------------------- packets */

/* Receives packets from the sources `first` and later, as many as a thread awaits at once, and
 * returns how many these are. */
template <int COUNT>
WEIRI_GPU_FN uint32_t weiri_image_receive_some(const weiri_image_launch &run, uint32_t step_op,
                                               const weiri_image_operand *operands, uint32_t first,
                                               uint32_t nsrcs, size_t at, uint64_t (&data)[COUNT])
{
    const uint32_t most = COUNT, count = nsrcs - first < most ? nsrcs - first : most;
    weiri_image_receive<COUNT, false>(run, step_op, operands + first, 2 * at, 0, (1u << count) - 1,
                                      data);
    return count;
}

/* Reduces the word at byte `at` of all sources; `flight` packets are awaited at once. The load of
 * the first source is in flight while the packets of the others are awaited. */
template <int dtype, int op, bool whole, int flight>
WEIRI_GPU_FN uint64_t weiri_image_reduce_packet(const weiri_image_launch &run, uint32_t step_op,
                                                const weiri_image_operand *operands, uint32_t nsrcs,
                                                size_t at, size_t left, uint64_t inverted)
{
    typedef weiri_image_accumulator<dtype, op, 1> total;
    total sum;
    uint64_t data[flight], some[1] = {weiri_image_load<whole>(operands[0].line + at, left)};
    uint32_t count = weiri_image_receive_some(run, step_op, operands, 1, nsrcs, at, data);
    total::begin(sum, some, inverted);
#pragma unroll 1
    for (uint32_t s = 1;;) {
#pragma unroll
        for (uint32_t g = 0; g < flight; g++) {
            some[0] = data[g];
            if (g < count)
                total::add(sum, some, inverted);
        }
        s += count;
        if (s >= nsrcs)
            break;
        count = weiri_image_receive_some(run, step_op, operands, s, nsrcs, at, data);
    }
    total::end(sum, some, inverted);
    return some[0];
}

/* Handles bytes [begin, end), both multiples of 8. */
template <int dtype, int op, bool whole, int flight>
WEIRI_GPU_FN void weiri_image_reduce_packet_words(const weiri_image_launch &run, uint32_t step_op,
                                                  const weiri_image_operand *operands,
                                                  uint32_t nsrcs, uint32_t ndsts, size_t begin,
                                                  size_t end, size_t data_end, uint64_t inverted)
{
    const size_t step = (size_t)8 * blockDim.x;
#pragma unroll 1
    for (size_t at = weiri_image_own_word(begin); at < end; at += step) {
        const size_t left = weiri_image_data_left(at, data_end);
        uint64_t word = weiri_image_reduce_packet<dtype, op, whole, flight>(
            run, step_op, operands, nsrcs, at, left, inverted);
        weiri_image_store<whole>(operands[nsrcs].line + at, word, left);
        if (!whole && left < 8)
            word &= ((uint64_t)1 << 8 * left) - 1;
#pragma unroll 1
        for (uint32_t d = nsrcs + 1; d < nsrcs + ndsts; d++)
            weir_packet16_write((uint64_t *)(operands[d].line + 2 * at), run.flag, word);
    }
}

/* Handles bytes [begin, end), both multiples of 8: first the words that are whole and aligned. */
template <int dtype, int op>
WEIRI_GPU_FN void weiri_image_reduce_packets(const weiri_image_launch &run, uint32_t step_op,
                                             const weiri_image_operand *operands, uint32_t nsrcs,
                                             uint32_t ndsts, size_t begin, size_t end,
                                             size_t data_end, uint64_t inverted)
{
    const uintptr_t odd =
        weiri_image_misalignment(operands, 1) | weiri_image_misalignment(operands + nsrcs, 1);
    const size_t middle = weiri_image_whole_end(odd, begin, end, data_end);
    weiri_image_reduce_packet_words<dtype, op, true, WEIRI_IMAGE_SOURCES - 1>(
        run, step_op, operands, nsrcs, ndsts, begin, middle, data_end, inverted);
    weiri_image_reduce_packet_words<dtype, op, false, 1>(run, step_op, operands, nsrcs, ndsts,
                                                         middle, end, data_end, inverted);
}

#endif
