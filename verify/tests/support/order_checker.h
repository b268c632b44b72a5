/*
 * Finds accesses to shared memory that nothing orders, between processes and threads, whatever the
 * processor would do: a release that became relaxed is found on x86 too. Only in builds with
 * BUILD=order; order_checker.c explains how.
 */
#ifndef VERIFY_TESTS_SUPPORT_ORDER_CHECKER_H
#define VERIFY_TESTS_SUPPORT_ORDER_CHECKER_H

#ifdef WEIR_ORDER_CHECKER
/* Returns the number of unordered pairs of accesses found since the last call, in this process and
 * in all that it has forked. */
unsigned order_checker_faults(void);
enum { ORDER_CHECKED = 1 };
#else
static inline unsigned order_checker_faults(void)
{
    return 0;
}
enum { ORDER_CHECKED = 0 };
#endif

#endif
