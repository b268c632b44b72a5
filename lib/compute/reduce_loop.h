/*
 * The reduction loop for lanes of one kind. reduce_body.h includes this file once for each KIND
 * (f32, f64, u8, u32, u64), after defining the kind's vec_, load_, store_, stream_, combine_ and
 * finish_, and their versions for one element; so it has no include guard.
 *
 * A block of vectors is loaded from the first source, combined with each other source in order
 * while it stays in registers, and stored once. A block is stored only after all its elements have
 * been read, so dst may be a source. The last vector ends exactly at the last element and overlaps
 * the one before it, so there is no remainder. A streaming loop must begin where dst is aligned;
 * the vector at the first element then overlaps the one after it. Both are computed before the
 * first store and stored after the last load, so results are correct in place as well.
 */
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)
#define OF_KIND(name) JOIN(name, KIND)

#define vec_kind OF_KIND(vec_)
#define one_kind OF_KIND(one_)

/* One element, at byte `at` of every source. For counts below one vector. */
WEIR_FN void OF_KIND(reduce_one_)(weir_dtype dtype, weir_op op, uint8_t *dst,
                                  const void *const *src, int nsrc, size_t at,
                                  const struct average *average)
{
    one_kind total = OF_KIND(one_load_)(dtype, (const uint8_t *)src[0] + at);
    for (int k = 1; k < nsrc; k++)
        total = OF_KIND(one_combine_)(dtype, op, total,
                                      OF_KIND(one_load_)(dtype, (const uint8_t *)src[k] + at));
    if (op == WEIR_AVG)
        total = OF_KIND(one_finish_)(dtype, total, average);
    OF_KIND(one_store_)(dtype, dst + at, total);
}

WEIR_FN vec_kind OF_KIND(reduce_vector_)(weir_dtype dtype, weir_op op, const void *const *src,
                                         int nsrc, size_t at, const struct average *average)
{
    vec_kind total = OF_KIND(load_)(dtype, (const uint8_t *)src[0] + at);
    for (int k = 1; k < nsrc; k++)
        total = OF_KIND(combine_)(dtype, op, total,
                                  OF_KIND(load_)(dtype, (const uint8_t *)src[k] + at));
    return op == WEIR_AVG ? OF_KIND(finish_)(dtype, total, average) : total;
}

/* `block` vectors, stride bytes apart in memory; for streaming, dst + at must be a multiple of
 * stride. */
WEIR_FN void OF_KIND(reduce_block_)(weir_dtype dtype, weir_op op, uint8_t *dst,
                                    const void *const *src, int nsrc, size_t at, size_t stride,
                                    size_t block, const struct average *average, int streaming)
{
    vec_kind total[BLOCK];
    const uint8_t *from = (const uint8_t *)src[0] + at;
#pragma GCC unroll 8
    for (size_t j = 0; j < block; j++)
        total[j] = OF_KIND(load_)(dtype, from + j * stride);
    for (int k = 1; k < nsrc; k++) {
        from = (const uint8_t *)src[k] + at;
#pragma GCC unroll 8
        for (size_t j = 0; j < block; j++)
            total[j] =
                OF_KIND(combine_)(dtype, op, total[j], OF_KIND(load_)(dtype, from + j * stride));
    }
    if (op == WEIR_AVG) {
#pragma GCC unroll 8
        for (size_t j = 0; j < block; j++)
            total[j] = OF_KIND(finish_)(dtype, total[j], average);
    }
    if (streaming) {
#pragma GCC unroll 8
        for (size_t j = 0; j < block; j++)
            OF_KIND(stream_)(dtype, dst + at + j * stride, total[j], stride);
    } else {
#pragma GCC unroll 8
        for (size_t j = 0; j < block; j++)
            OF_KIND(store_)(dtype, dst + at + j * stride, total[j]);
    }
}

/* dtype, op and element_bytes are constants in every caller, which the compiler propagates. */
WEIR_FN void OF_KIND(reduce_)(weir_dtype dtype, weir_op op, size_t element_bytes, uint8_t *dst,
                              const void *const *src, int nsrc, size_t count, uint64_t divisor,
                              int streaming)
{
    const size_t stride = sizeof(vec_kind) / sizeof(one_kind) * element_bytes;
    const size_t block = element_bytes < sizeof(one_kind) ? BLOCK / 2 : BLOCK;
    const size_t bytes = count * element_bytes;
    struct average average = {.divisor = 1};
    if (op == WEIR_AVG)
        average = average_of(divisor);
    if (bytes < stride) {
        for (size_t at = 0; at < bytes; at += element_bytes)
            OF_KIND(reduce_one_)(dtype, op, dst, src, nsrc, at, &average);
        return;
    }
    const size_t last = bytes - stride;
    size_t at = (size_t)(0 - (uintptr_t)dst) % stride;
    if (at % element_bytes || bytes < STREAMING_BYTES)
        streaming = 0;
    if (!streaming)
        at = 0;
    vec_kind begin = {0};
    if (streaming)
        begin = OF_KIND(reduce_vector_)(dtype, op, src, nsrc, 0, &average);
    vec_kind end = OF_KIND(reduce_vector_)(dtype, op, src, nsrc, last, &average);
    for (; at + block * stride <= bytes; at += block * stride)
        OF_KIND(reduce_block_)(dtype, op, dst, src, nsrc, at, stride, block, &average, streaming);
    for (; at < last; at += stride) {
        vec_kind total = OF_KIND(reduce_vector_)(dtype, op, src, nsrc, at, &average);
        OF_KIND(store_)(dtype, dst + at, total);
    }
    if (streaming) {
        OF_KIND(store_)(dtype, dst, begin);
        streaming_fence();
    }
    OF_KIND(store_)(dtype, dst + last, end);
}

#undef vec_kind
#undef one_kind
#undef OF_KIND
#undef JOIN
#undef JOIN_TOKENS
