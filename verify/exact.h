/*
 * Inputs of reductions that are exact by construction: whatever the order in
 * which ranks are combined, and wherever partial results are stored in the
 * type itself, no rounding happens, so the result is known bit for bit. It is
 * also known without the inputs: contributions are built from differences of
 * neighbours, which cancel, so one element of the result costs as much as one
 * of an input, however many ranks there are. With c(k) hashes of (position k,
 * seed, index), for ranks 0..n-1:
 *
 *   sum, avg   x_r = c(r + 1) - c(r), hence the sum c(n) - c(0). Integers wrap.
 *              Floats are whole numbers with 0 <= c <= A where A * ceil(n / 2)
 *              is at most 2^(bits of the significand): the rises add up to no
 *              more, nor do the falls, so every partial sum is exact. avg is
 *              the sum divided by n, rounded once.
 *   prod       integers: (c(r + 1) | 1) / (c(r) | 1) modulo 2^bits. Floats: +-2^
 *              (c(r + 1) - c(r)) with few exponents, and one rank, another in
 *              each element, has any significand.
 *   max, min   one rank, another in each element, has the result; the others
 *              agree with it above one bit, are behind by that bit, and are random
 *              below it. The bit is the sign in a quarter of the elements, and a low
 *              one in half of them.
 *
 * Where a type has too few values for n ranks (fp8 beyond 16 or 32), a group of
 * neighbours shares its positions, and which of them contributes a number other
 * than 0 (prod: 1) changes every 16 elements.
 */
#ifndef VERIFY_EXACT_H
#define VERIFY_EXACT_H

#include "verify/compare.h"
#include "verify/pattern.h"

/* Elements [first, first + count) of a rank's input, or of the result of all
 * nranks ranks. buffer needs no alignment. Local. */
void weirv_exact_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                      int rank, int nranks, uint64_t seed);
void weirv_exact_result(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                        int nranks, uint64_t seed);

/*
 * Instruction sets for which the loops that write data are compiled besides the
 * machine's least: a function is made again with __attribute__((target(...),
 * flatten)), and called where the processor has the set. x86-64 only.
 */

#ifdef __x86_64__

#define WEIRV_AVX2 "avx2"
#define WEIRV_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

static inline int weirv_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}

static inline int weirv_has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#endif

#endif
