/*
 * Floating-point environments that a program may have set in a thread that calls the library, for
 * tests that results do not depend on them. Only the calls that are tested run in one: the model's
 * arithmetic must not.
 */
#ifndef VERIFY_TESTS_SUPPORT_FLOAT_ENVIRONMENTS_H
#define VERIFY_TESTS_SUPPORT_FLOAT_ENVIRONMENTS_H

#include <stddef.h>
#include <stdint.h>

/* The control bits of the calling thread; the flags of exceptions are 0. */
typedef uint64_t float_control;

#if defined(__x86_64__)

enum { FLOAT_NORMAL = 0x1f80 };

static inline float_control float_control_get(void)
{
    return __builtin_ia32_stmxcsr();
}

static inline void float_control_set(float_control to)
{
    __builtin_ia32_ldmxcsr((unsigned)to);
}

#elif defined(__aarch64__)

enum { FLOAT_NORMAL = 0 };

static inline float_control float_control_get(void)
{
    float_control now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    return now;
}

static inline void float_control_set(float_control to)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(to) : "memory");
}

#endif

typedef struct float_environment {
    const char *name;
    float_control control;
} float_environment;

static const float_environment float_environments[] = {
#if defined(__x86_64__)
    {"results flushed to zero", 0x9f80},
    {"subnormal operands are zero", 0x1fc0},
    {"-ffast-math", 0x9fc0},
    {"rounds down", 0x3f80},
    {"rounds up", 0x5f80},
    {"rounds toward zero", 0x7f80},
    {"all exceptions trap", 0x0000},
    {"all exceptions trap, rounds up, -ffast-math", 0xc040},
#elif defined(__aarch64__)
    {"subnormals are zero", 1 << 24}, {"half subnormals are zero", 1 << 19},
    {"rounds up", 1 << 22},           {"rounds down", 2 << 22},
    {"rounds toward zero", 3 << 22},  {"default NaN", 1 << 25},
    {"all exceptions trap", 0x9f00}, /* where the processor can */
#endif
};

enum { FLOAT_ENVIRONMENTS = sizeof float_environments / sizeof *float_environments };

/* Sets an environment. */
static inline void float_environment_enter(const float_environment *environment)
{
    float_control_set(environment->control);
}

/* Ends it. Returns 1 if the control bits and flags were those that it had at its begin. */
static inline int float_environment_leave(const float_environment *environment)
{
    const float_control now = float_control_get();
    float_control_set(FLOAT_NORMAL);
    return now == environment->control;
}

#endif
