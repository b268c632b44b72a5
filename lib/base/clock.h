/* The monotonic clock (weir_clock_ns) in other units. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <weir/target.h>

static inline double weiri_clock_s(void)
{
    return (double)weir_clock_ns() * 1e-9;
}

static inline double weiri_clock_us(void)
{
    return (double)weir_clock_ns() * 1e-3;
}

static inline uint64_t weiri_clock_ms(void)
{
    return weir_clock_ns() / 1000000;
}

#endif
