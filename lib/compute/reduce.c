/*
 * Chooses the reduction functions for the processor and the data type, from one table for each
 * instruction set.
 */
#include "compute/reduce.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct isa {
    const char *name;
    const weiri_reduce_table *table;
    int (*usable)(void);
} isa;

static int usable_always(void)
{
    return 1;
}

#if defined(__x86_64__)

static int usable_avx2(void)
{
    unsigned eax, ebx, ecx = 0, edx;
    __builtin_cpu_init();
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int usable_avx512(void)
{
    return usable_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}

#endif

/* Widest first; the last one is always usable. */
enum isa_index {
#if defined(__x86_64__)
    ISA_AVX512,
    ISA_AVX2,
#endif
    ISA_PLAIN
};

static const isa isas[] = {
#if defined(__x86_64__)
    [ISA_AVX512] = {"avx512", &weiri_reduce_avx512, usable_avx512},
    [ISA_AVX2] = {"avx2", &weiri_reduce_avx2, usable_avx2},
#endif
    [ISA_PLAIN] = {"plain", &weiri_reduce_plain, usable_always},
};

/* The widest usable instruction set, determined on first use. Racing threads store the same. */
static const isa *best_isa(void)
{
    static const isa *best;
    const isa *known = __atomic_load_n(&best, __ATOMIC_RELAXED);
    if (known)
        return known;
    known = isas;
    while (!known->usable())
        known++;
    __atomic_store_n(&best, known, __ATOMIC_RELAXED);
    return known;
}

/* 64-byte vectors are faster if conversions of small floats limit the speed; 32-byte vectors are
 * faster if loads beyond the first-level cache do. */
static const isa *isa_for(weir_dtype dtype)
{
    const isa *best = best_isa();
#if defined(__x86_64__)
    int converts = dtype == WEIR_BFLOAT16 || dtype == WEIR_FP8_E4M3 || dtype == WEIR_FP8_E5M2;
    if (best == &isas[ISA_AVX512] && !converts)
        return &isas[ISA_AVX2];
#else
    (void)dtype;
#endif
    return best;
}

static weiri_reduce_fn table_entry(const isa *from, weir_dtype dtype, weir_op op)
{
    if ((unsigned)dtype >= WEIR_DTYPE_COUNT || (unsigned)op >= WEIR_OP_COUNT)
        return NULL;
    return (*from->table)[dtype][op];
}

weiri_reduce_fn weiri_reduce_get(weir_dtype dtype, weir_op op)
{
    return table_entry(isa_for(dtype), dtype, op);
}

weiri_reduce_fn weiri_reduce_get_isa(const char *name, weir_dtype dtype, weir_op op)
{
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        if (strcmp(isas[i].name, name) == 0)
            return isas[i].usable() ? table_entry(&isas[i], dtype, op) : NULL;
    return NULL;
}

const char *weiri_reduce_isa(void)
{
    return best_isa()->name;
}

void weiri_reduce(void *dst, const void *const *src, int nsrc, size_t count, weir_dtype dtype,
                  weir_op op, uint64_t divisor, int streaming)
{
    weiri_reduce_fn reduce = weiri_reduce_get(dtype, op);
    if (reduce)
        reduce(dst, src, nsrc, count, divisor, streaming);
}
