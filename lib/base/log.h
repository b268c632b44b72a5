/*
 * The log: one line per event on standard error, "weir[rank] level: text", filtered by WEIR_LOG
 * (error, warn, info, debug). The default is warn; an invalid value is logged once and counts as
 * warn. Each line is written with one call, so that lines of several ranks do not mix.
 */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

typedef enum weiri_log_level {
    WEIRI_LOG_ERROR,
    WEIRI_LOG_WARN,
    WEIRI_LOG_INFO,
    WEIRI_LOG_DEBUG
} weiri_log_level;

/* Sets the rank in the lines of this process; -1, the initial value, for none. Thread-safe. */
void weiri_log_set_rank(int rank);
/* Logs at this level or at that of WEIR_LOG, whichever is more. Thread-safe. */
void weiri_log_raise(weiri_log_level level);
int weiri_log_enabled(weiri_log_level level);
void weiri_log(weiri_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
