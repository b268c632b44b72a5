/*
 * The log: one line an event on standard error, "weir[rank] level: text",
 * filtered by WEIR_LOG (error, warn, info, debug; default warn, also where it
 * is none of these, which the first line then says). Lines are written whole,
 * so ranks do not mix within a line.
 */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

typedef enum weiri_log_level {
    WEIRI_LOG_ERROR,
    WEIRI_LOG_WARN,
    WEIRI_LOG_INFO,
    WEIRI_LOG_DEBUG
} weiri_log_level;

/* The rank that lines name; -1 (the start) for none. Process wide. */
void weiri_log_set_rank(int rank);
int weiri_log_enabled(weiri_log_level level);
void weiri_log(weiri_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
