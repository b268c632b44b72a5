/* The monotonic clock under its internal name; weir_clock_ns is the clock. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include "base/target.h"

static inline uint64_t weiri_now_ns(void)
{
    return weir_clock_ns();
}

#endif
