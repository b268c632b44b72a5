/*
 * The one header that knows which compiler and which target reads it: C for
 * the host, or CUDA for the GPU. Everything that differs between the two and
 * is needed by code compiled for both is defined here, and nowhere else.
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

/*
 * Emulation: a test compiles device code as C++ for the host (WEIR_EMULATED) and
 * runs all threads of all ranks in one thread. These are the test's: a poll that
 * found nothing gives another thread its turn; a store to shared words may do so
 * and counts as progress; the clock moves only once nothing else can. An access of 16 bytes
 * tells where it goes, as a GPU cannot do it anywhere.
 */
#if defined(WEIR_EMULATED)
extern "C" {
void weir_emulated_relax(void);
void weir_emulated_stored(void);
uint64_t weir_emulated_clock_ns(void);
void weir_emulated_access16(const void *at);
}
#endif

/* Bytes that two cores fight over: one line, as the prefetchers see it, two. */
#define WEIR_LINE_BYTES 64

/* Atomics on plain words shared with peers. "relaxed" orders nothing, "acquire"
 * and "release" are system scope on a GPU. */
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

/* Two words with one access of 16 bytes, which is atomic for each of them alone.
 * words is 16-byte aligned. */
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

/* Orders everything before it and everything behind it, for all ranks. */
WEIR_FN void weir_fence_system(void)
{
#if WEIR_ON_DEVICE
    __threadfence_system();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* A monotonic clock for deadlines and measurements; a device's is its own. */
WEIR_FN uint64_t weir_clock_ns(void)
{
#if WEIR_ON_DEVICE
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
#elif defined(WEIR_EMULATED)
    return weir_emulated_clock_ns();
#else
    struct timespec now;
#if defined(CLOCK_MONOTONIC)
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    /* ISO C alone (-std=c11) does not declare it; Linux has it as clock 1. */
    extern int weir_clock_gettime(int clock, struct timespec *time) __asm__("clock_gettime");
    weir_clock_gettime(1, &now);
#endif
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* A hint to the core that this is a wait loop. */
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

#endif
