/* Inputs of verification tests: patterns in new memory, classes of data types, equal elements. */
#ifndef VERIFY_TESTS_SUPPORT_VERIFY_INPUTS_H
#define VERIFY_TESTS_SUPPORT_VERIFY_INPUTS_H

#include "verify/number.h"
#include "verify/pattern.h"
#include "verify/tests/support/unit_test.h"

static inline int is_float(weir_dtype dtype)
{
    return weirv_format_of(dtype) != NULL;
}

static inline int is_small_float(weir_dtype dtype)
{
    return is_float(dtype) && weir_dtype_bytes(dtype) <= 2;
}

/* The pattern of a rank; the caller frees it. */
static inline void *new_input(weir_dtype dtype, weir_op op, int rank, uint64_t seed, size_t count)
{
    void *input = malloc(count * 8);
    assert_non_null(input);
    weirv_fill(input, 0, count, dtype, op, rank, seed);
    return input;
}

static inline size_t count_equal(weir_dtype dtype, const void *a, const void *b, size_t count)
{
    size_t width = weir_dtype_bytes(dtype), equal = 0;
    for (size_t i = 0; i < count; i++)
        equal += memcmp((const char *)a + i * width, (const char *)b + i * width, width) == 0;
    return equal;
}

#endif
