/*
 * The calling thread's floating-point environment: rounding mode, flush-to-zero, and exceptions
 * that trap. A program may have changed it: -ffast-math, torch.set_flush_denormal and
 * feenableexcept do. Arithmetic whose results are promised runs between weiri_float_begin and
 * weiri_float_end, in the default environment. Where the thread has that, as nearly all have, both
 * cost a few cycles.
 *
 * Loads after weiri_float_begin and stores before weiri_float_end stay between them. An operand
 * that is in a register when weiri_float_begin is called needs WEIRI_FLOAT_OPERAND, so that the
 * compiler does not compute with it earlier.
 */
#ifndef WEIR_BASE_FLOAT_ENV_H
#define WEIR_BASE_FLOAT_ENV_H

#include <stdint.h>

#define WEIRI_FLOAT_OPERAND(operand) __asm__ volatile("" : "+r"(operand) : : "memory")

#if defined(__x86_64__)

typedef uint32_t weiri_float_env; /* MXCSR; the x87 unit is not used */

enum { WEIRI_FLOAT_DEFAULT = 0x1f80, WEIRI_FLOAT_FLAGS = 0x3f };

static inline weiri_float_env weiri_float_get(void)
{
    weiri_float_env now;
    __asm__ volatile("stmxcsr %0" : "=m"(now));
    return now;
}

static inline void weiri_float_set(weiri_float_env to)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(to) : "memory");
}

#elif defined(__aarch64__)

typedef uint64_t weiri_float_env; /* FPCR; the flags are in FPSR */

enum { WEIRI_FLOAT_DEFAULT = 0, WEIRI_FLOAT_FLAGS = 0 };

static inline weiri_float_env weiri_float_get(void)
{
    weiri_float_env now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    return now;
}

static inline void weiri_float_set(weiri_float_env to)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(to) : "memory");
}

#endif

#if defined(__x86_64__) || defined(__aarch64__)

/* Sets the default environment. Returns what weiri_float_end restores. */
static inline weiri_float_env weiri_float_begin(void)
{
    const weiri_float_env before = weiri_float_get();
    if (__builtin_expect((before & ~(weiri_float_env)WEIRI_FLOAT_FLAGS) != WEIRI_FLOAT_DEFAULT, 0))
        weiri_float_set(WEIRI_FLOAT_DEFAULT);
    return before;
}

static inline void weiri_float_end(weiri_float_env before)
{
    if (__builtin_expect((before & ~(weiri_float_env)WEIRI_FLOAT_FLAGS) != WEIRI_FLOAT_DEFAULT, 0))
        weiri_float_set(before);
}

#else

#include <fenv.h>

typedef fenv_t weiri_float_env;

static inline weiri_float_env weiri_float_begin(void)
{
    weiri_float_env before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    __asm__ volatile("" : : : "memory");
    return before;
}

static inline void weiri_float_end(weiri_float_env before)
{
    __asm__ volatile("" : : : "memory");
    fesetenv(&before);
}

#endif

#endif
