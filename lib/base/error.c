/* The calling thread's last error line, and the table of status names, texts and exit codes. */
#include "base/error.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The analyzer's macros are for callers. */
#undef weiri_fail
#undef weiri_fail_errno
#undef weiri_fail_context

enum { LINE_BYTES = 960 };

static _Thread_local char last_error[LINE_BYTES] = "no error";

/* Writes the text, with decimal points and without control characters. Returns its length; below 0
 * after a failure. */
static int error_write(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));
static int error_write(const char *format, va_list arguments)
{
    const locale_t before = weiri_c_locale_begin();
    const int length = vsnprintf(last_error, sizeof last_error, format, arguments);
    weiri_c_locale_end(before);
    return length < 0 ? length : (int)weiri_text_escape(last_error, sizeof last_error);
}

const char *weir_last_error(void)
{
    return last_error;
}

weir_status weiri_fail(weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_write(format, arguments);
    va_end(arguments);
    return status;
}

weir_status weiri_fail_errno(weir_status status, int error_number, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used = error_write(format, arguments);
    va_end(arguments);
    if (used >= 0 && used < LINE_BYTES)
        snprintf(last_error + used, sizeof last_error - (size_t)used, ": %s",
                 strerror(error_number));
    return status;
}

weir_status weiri_fail_context(weir_status status, const char *format, ...)
{
    char inner[LINE_BYTES];
    memcpy(inner, last_error, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    int used = error_write(format, arguments);
    va_end(arguments);
    if (used >= 0 && used < LINE_BYTES)
        snprintf(last_error + used, sizeof last_error - (size_t)used, ": %.*s",
                 LINE_BYTES - 2 - used, inner);
    return status;
}

/* One row for each status, at the index -status. */
static const struct status_row {
    const char *name, *text;
    int exit_code; /* of a program that ends because of it */
} status_rows[] = {
    [-WEIR_OK] = {"WEIR_OK", "success", 0},
    [-WEIR_ERR_INVALID] = {"WEIR_ERR_INVALID", "invalid argument", 2},
    [-WEIR_ERR_UNSUPPORTED] = {"WEIR_ERR_UNSUPPORTED", "not supported here", 2},
    [-WEIR_ERR_MISMATCH] = {"WEIR_ERR_MISMATCH", "ranks disagree", 2},
    [-WEIR_ERR_SYSTEM] = {"WEIR_ERR_SYSTEM", "operating system error", 3},
    [-WEIR_ERR_NO_MEMORY] = {"WEIR_ERR_NO_MEMORY", "out of memory", 3},
    [-WEIR_ERR_REFUSED] = {"WEIR_ERR_REFUSED", "connection refused", 3},
    [-WEIR_ERR_PEER] = {"WEIR_ERR_PEER", "a peer is gone", 3},
    [-WEIR_ERR_TIMEOUT] = {"WEIR_ERR_TIMEOUT", "a deadline passed", 4},
    [-WEIR_ERR_ABORTED] = {"WEIR_ERR_ABORTED", "the communicator was aborted", 4},
    [-WEIR_ERR_INTERNAL] = {"WEIR_ERR_INTERNAL", "internal error", 3},
};
static const struct status_row unknown_status = {"WEIR_ERR_UNKNOWN", "unknown status", 3};

enum { NSTATUSES = sizeof status_rows / sizeof *status_rows };
_Static_assert(NSTATUSES == 1 - WEIR_ERR_INTERNAL, "the table ends with the last status");

static const struct status_row *status_row_of(weir_status status)
{
    return status <= 0 && status > -(int)NSTATUSES ? &status_rows[-status] : &unknown_status;
}

const char *weir_status_name(weir_status status)
{
    return status_row_of(status)->name;
}

const char *weir_status_text(weir_status status)
{
    return status_row_of(status)->text;
}

int weir_status_exit_code(weir_status status)
{
    return status_row_of(status)->exit_code;
}
