/*
 * Errors: a status for code, one line of text for people. A function that detects a failure calls
 * weiri_fail(), which stores the line for weir_last_error() and returns the status. Callers pass
 * the status on, and may prepend what they know with weiri_fail_context().
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <weir/weir.h>

/* Stores the formatted line for the calling thread and returns status. Thread-safe, as all
 * functions here. */
weir_status weiri_fail(weir_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Like weiri_fail, with ": " and strerror(error_number) appended. */
weir_status weiri_fail_errno(weir_status status, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prepends the formatted text and ": " to the stored line and returns status. */
weir_status weiri_fail_context(weir_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The first line of a public function: returns WEIR_ERR_INVALID from it unless the pointers that it
 * requires are there. */
#define WEIRI_REQUIRE(pointers)                                                                    \
    do {                                                                                           \
        if (__builtin_expect(!(pointers), 0))                                                      \
            return weiri_fail(WEIR_ERR_INVALID, "%s: NULL instead of what it requires", __func__); \
    } while (0)

/* Whether a status usually follows from the failure of another rank, whose error has the cause. */
static inline int weiri_status_is_consequence(weir_status status)
{
    return status == WEIR_ERR_REFUSED || status == WEIR_ERR_PEER || status == WEIR_ERR_TIMEOUT ||
           status == WEIR_ERR_ABORTED;
}

/* clang's analyzer sees one file at a time, and would take these for functions that may return
 * WEIR_OK after a failure. The files that define them undefine the macros. */
#ifdef __clang_analyzer__
#define weiri_fail(status, ...) ((void)(weiri_fail)(status, __VA_ARGS__), status)
#define weiri_fail_errno(status, ...) ((void)(weiri_fail_errno)(status, __VA_ARGS__), status)
#define weiri_fail_context(status, ...) ((void)(weiri_fail_context)(status, __VA_ARGS__), status)
#define weir_boot_agree(boot, mine)                                                                \
    ({                                                                                             \
        const weir_status given = (mine), agreed = (weir_boot_agree)(boot, given);                 \
        given != WEIR_OK ? given : agreed;                                                         \
    })
#endif

#endif
