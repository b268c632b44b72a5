/* A deadline of a wait, and the length of the wait for its error line. */
#ifndef WEIR_BOOT_DEADLINE_H
#define WEIR_BOOT_DEADLINE_H

#include <weir/target.h>

typedef struct weiri_deadline {
    uint64_t end_ns;
    int timeout_ms;
} weiri_deadline;

static inline weiri_deadline weiri_deadline_in(int timeout_ms)
{
    return (weiri_deadline){weir_clock_ns() + (uint64_t)timeout_ms * 1000000u, timeout_ms};
}

/* Milliseconds left, rounded up; 0 once it has passed. */
static inline int weiri_deadline_left_ms(const weiri_deadline *deadline)
{
    uint64_t now = weir_clock_ns();
    if (now >= deadline->end_ns)
        return 0;
    return (int)((deadline->end_ns - now + 999999u) / 1000000u);
}

#endif
