/*
 * The differences between the compilers and targets that read weir's headers: C for the host, CUDA
 * for the GPU, and C++ for the GPU emulator of the tests. Code that is compiled for several of them
 * uses these definitions; no other header tests for a compiler.
 */
#ifndef WEIR_TARGET_H
#define WEIR_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__CUDACC__)
#define WEIR_FN static __host__ __device__ __forceinline__
#else
#define WEIR_FN static inline __attribute__((always_inline, unused))
#endif

#if defined(__CUDA_ARCH__)
#define WEIR_ON_DEVICE 1
#else
#define WEIR_ON_DEVICE 0
#endif

/* Enclose code with C's casts, the only ones that C and C++ share: C++ programs may be compiled
 * with -Wold-style-cast. */
#if defined(__cplusplus) && !defined(__CUDACC__)
#define WEIR_C_CASTS_BEGIN                                                                         \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"")
#define WEIR_C_CASTS_END _Pragma("GCC diagnostic pop")
#else
#define WEIR_C_CASTS_BEGIN
#define WEIR_C_CASTS_END
#endif
WEIR_C_CASTS_BEGIN

/*
 * Emulation. Tests compile device code as C++ for the host (WEIR_EMULATED) and run all threads of
 * all ranks in one thread. The emulator provides these functions: relax switches to another
 * emulated thread after an unsuccessful poll; stored counts a store to shared words as progress and
 * may switch; the clock advances only when no thread can make progress; access16 checks that a
 * 16-byte access is aligned.
 */
#if defined(WEIR_EMULATED)
extern "C" {
void weir_emulated_relax(void);
void weir_emulated_stored(void);
uint64_t weir_emulated_clock_ns(void);
void weir_emulated_access16(const void *at);
}
#endif

/* Bytes of a cache line. */
#define WEIR_LINE_BYTES 64

/* Atomic accesses to words shared with peers. Relaxed accesses order nothing; acquire and release
 * have system scope on a GPU. */
WEIR_FN uint64_t weir_load_relaxed(const uint64_t *word)
{
#if WEIR_ON_DEVICE
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
#else
    return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

WEIR_FN uint64_t weir_load_acquire(const uint64_t *word)
{
#if WEIR_ON_DEVICE
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
#else
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

WEIR_FN void weir_store_relaxed(uint64_t *word, uint64_t value)
{
#if WEIR_ON_DEVICE
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
#if defined(WEIR_EMULATED)
    weir_emulated_stored();
#endif
}

WEIR_FN void weir_store_release(uint64_t *word, uint64_t value)
{
#if WEIR_ON_DEVICE
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
#if defined(WEIR_EMULATED)
    weir_emulated_stored();
#endif
}

/* Load and store two words with one 16-byte access, which is atomic for each word, not for both
 * together. words must be 16-byte aligned. Relaxed. */
WEIR_FN void weir_load_pair(const uint64_t *words, uint64_t *first, uint64_t *second)
{
#if WEIR_ON_DEVICE
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*first), "=l"(*second)
                 : "l"(words)
                 : "memory");
#else
    *first = __atomic_load_n(words, __ATOMIC_RELAXED);
    *second = __atomic_load_n(words + 1, __ATOMIC_RELAXED);
#endif
}

/* The same, and acquires. */
WEIR_FN void weir_load_pair_acquire(const uint64_t *words, uint64_t *first, uint64_t *second)
{
#if WEIR_ON_DEVICE
    asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*first), "=l"(*second)
                 : "l"(words)
                 : "memory");
#else
    *first = __atomic_load_n(words, __ATOMIC_ACQUIRE);
    *second = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
#endif
}

/* Stores two words with one 16-byte access, which is atomic for each word. */
WEIR_FN void weir_store_pair(uint64_t *words, uint64_t first, uint64_t second)
{
#if WEIR_ON_DEVICE
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first),
                 "l"(second)
                 : "memory");
#else
    weir_store_relaxed(words, first);
    weir_store_relaxed(words + 1, second);
#endif
}

/* A sequentially consistent fence of system scope: orders all accesses before it against all after
 * it, as seen by every rank. */
WEIR_FN void weir_fence_system(void)
{
#if WEIR_ON_DEVICE
    __threadfence_system();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Returns a monotonic time for deadlines and measurements. Times of a GPU and of the host are not
 * comparable. */
WEIR_FN uint64_t weir_clock_ns(void)
{
#if WEIR_ON_DEVICE
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
#elif defined(WEIR_EMULATED)
    return weir_emulated_clock_ns();
#else
#if defined(CLOCK_MONOTONIC)
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    /* Strict ISO C does not declare CLOCK_MONOTONIC, which is clock 1 on Linux, and before C11 not
     * even struct timespec. */
    struct {
        long tv_sec, tv_nsec;
    } now;
    extern int weir_clock_gettime(int clock, void *time) __asm__("clock_gettime");
    weir_clock_gettime(1, &now);
#endif
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* Hints to the processor that this is a polling loop. */
WEIR_FN void weir_pause(void)
{
#if WEIR_ON_DEVICE
    __nanosleep(20);
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

WEIR_C_CASTS_END

#endif
