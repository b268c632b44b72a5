/* The thread's last error line, and the names and texts of the status codes. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 512 };

static _Thread_local char last_error[LINE_BYTES] = "no error";

const char *weir_last_error(void)
{
    return last_error;
}

weir_status weiri_fail(weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

weir_status weiri_fail_errno(weir_status status, int error_number, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(last_error, sizeof last_error, format, arguments);
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
    int used = vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    if (used >= 0 && used < LINE_BYTES)
        snprintf(last_error + used, sizeof last_error - (size_t)used, ": %.*s",
                 LINE_BYTES - 2 - used, inner);
    return status;
}

const char *weir_status_name(weir_status status)
{
    switch (status) {
#define CASE(symbol, value, exit_code, text)                                   \
    case WEIR_##symbol:                                                        \
        return "WEIR_" #symbol;
        WEIR_STATUS_MAP(CASE)
#undef CASE
    }
    return "WEIR_ERR_UNKNOWN";
}

const char *weir_status_text(weir_status status)
{
    switch (status) {
#define CASE(symbol, value, exit_code, text)                                   \
    case WEIR_##symbol:                                                        \
        return text;
        WEIR_STATUS_MAP(CASE)
#undef CASE
    }
    return "unknown status";
}

int weir_status_exit_code(weir_status status)
{
    switch (status) {
#define CASE(symbol, value, exit_code, text)                                   \
    case WEIR_##symbol:                                                        \
        return exit_code;
        WEIR_STATUS_MAP(CASE)
#undef CASE
    }
    return 3;
}
