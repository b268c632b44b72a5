/*
 * The reduction loop for lanes of one kind. Included by reduce_body.h once for
 * each KIND (f32, f64, u8, u32, u64), with that kind's vec_, load_, store_,
 * combine_ and finish_ and their one-element forms in sight. No include guard.
 *
 * A block of vectors is loaded from the first source, combined with every other
 * source in turn while it stays in registers, and stored once. Because a block
 * is stored only after all its elements are read, dst may be a source. The
 * vector that ends exactly at the last element overlaps the one before it
 * instead of leaving a remainder; it is computed before the first store, which
 * keeps that true in place as well.
 */
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)
#define OF_KIND(name) JOIN(name, KIND)

#define vec_kind OF_KIND(vec_)
#define one_kind OF_KIND(one_)

/* One element from at bytes into every source. For counts below one vector. */
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

/* BLOCK vectors, stride bytes apart in memory. */
WEIR_FN void OF_KIND(reduce_block_)(weir_dtype dtype, weir_op op, uint8_t *dst,
                                    const void *const *src, int nsrc, size_t at, size_t stride,
                                    const struct average *average)
{
    vec_kind total[BLOCK];
    const uint8_t *from = (const uint8_t *)src[0] + at;
#pragma GCC unroll 8
    for (size_t j = 0; j < BLOCK; j++)
        total[j] = OF_KIND(load_)(dtype, from + j * stride);
    for (int k = 1; k < nsrc; k++) {
        from = (const uint8_t *)src[k] + at;
#pragma GCC unroll 8
        for (size_t j = 0; j < BLOCK; j++)
            total[j] = OF_KIND(combine_)(dtype, op, total[j],
                                         OF_KIND(load_)(dtype, from + j * stride));
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < BLOCK; j++) {
        if (op == WEIR_AVG)
            total[j] = OF_KIND(finish_)(dtype, total[j], average);
        OF_KIND(store_)(dtype, dst + at + j * stride, total[j]);
    }
}

/* element_bytes, dtype and op are constants of the caller, folded away here. */
WEIR_FN void OF_KIND(reduce_)(weir_dtype dtype, weir_op op, size_t element_bytes, uint8_t *dst,
                              const void *const *src, int nsrc, size_t count, uint64_t divisor)
{
    const size_t stride = sizeof(vec_kind) / sizeof(one_kind) * element_bytes;
    const size_t bytes = count * element_bytes;
    struct average average;
    if (op == WEIR_AVG)
        average = average_of(divisor);
    if (bytes < stride) {
        for (size_t at = 0; at < bytes; at += element_bytes)
            OF_KIND(reduce_one_)(dtype, op, dst, src, nsrc, at, &average);
        return;
    }
    const size_t last = bytes - stride;
    vec_kind end = OF_KIND(reduce_vector_)(dtype, op, src, nsrc, last, &average);
    size_t at = 0;
    for (; at + BLOCK * stride <= bytes; at += BLOCK * stride)
        OF_KIND(reduce_block_)(dtype, op, dst, src, nsrc, at, stride, &average);
    for (; at < last; at += stride) {
        vec_kind total = OF_KIND(reduce_vector_)(dtype, op, src, nsrc, at, &average);
        OF_KIND(store_)(dtype, dst + at, total);
    }
    OF_KIND(store_)(dtype, dst + last, end);
}

#undef vec_kind
#undef one_kind
#undef OF_KIND
#undef JOIN
#undef JOIN_TOKENS
