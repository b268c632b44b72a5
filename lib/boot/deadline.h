/*
 * A deadline of a wait, and the length of the wait for its error line. A thread that waits on
 * behalf of a communicator installs a guard, which can end all of its waits in bootstraps earlier.
 * Waits poll in a loop, and end when no time is left; with a guard they look again after a few
 * milliseconds.
 */
#ifndef WEIR_BOOT_DEADLINE_H
#define WEIR_BOOT_DEADLINE_H

#include <weir/target.h>

/* has_ended(context) returns 1 if waits are to end now. */
typedef struct weiri_wait_guard {
    int (*has_ended)(void *context);
    void *context;
    int timeout_ms; /* of every wait, if that is shorter */
} weiri_wait_guard;

/* The guard of the calling thread; NULL: none. */
extern _Thread_local const weiri_wait_guard *weiri_wait_guarded;

typedef struct weiri_deadline {
    uint64_t end_ns;
    int timeout_ms;
} weiri_deadline;

static inline weiri_deadline weiri_deadline_in(int timeout_ms)
{
    const weiri_wait_guard *guard = weiri_wait_guarded;
    if (guard && guard->timeout_ms < timeout_ms)
        timeout_ms = guard->timeout_ms;
    return (weiri_deadline){weir_clock_ns() + (uint64_t)timeout_ms * 1000000u, timeout_ms};
}

/* Milliseconds left, rounded up, or until the guard is to be asked again; 0 once the wait has to
 * end. */
static inline int weiri_deadline_left_ms(const weiri_deadline *deadline)
{
    enum { GUARDED_MS = 5 };
    const weiri_wait_guard *guard = weiri_wait_guarded;
    uint64_t now = weir_clock_ns();
    if (now >= deadline->end_ns || (guard && guard->has_ended(guard->context)))
        return 0;
    const int left_ms = (int)((deadline->end_ns - now + 999999u) / 1000000u);
    return guard && left_ms > GUARDED_MS ? GUARDED_MS : left_ms;
}

#endif
