/*
 * Errors: a status for code, one line of text for people. A function that
 * fails calls weiri_fail(), which stores the line for weir_last_error() and
 * returns the status; callers above pass the status on, and may add what they
 * know with weiri_fail_context().
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <weir/weir.h>

/* Stores the formatted line and returns status. Local to the thread. */
weir_status weiri_fail(weir_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As weiri_fail, with ": strerror(error_number)" behind the line. */
weir_status weiri_fail_errno(weir_status status, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "formatted: " before the stored line and returns status. */
weir_status weiri_fail_context(weir_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
