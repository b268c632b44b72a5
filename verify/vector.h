/*
 * Instruction sets for which the loops that write data are compiled besides the
 * machine's least: a function is made again with __attribute__((target(...),
 * flatten)), and called where the processor has the set. x86-64 only.
 */
#ifndef VERIFY_VECTOR_H
#define VERIFY_VECTOR_H

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
