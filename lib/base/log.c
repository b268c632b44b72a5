/* Formats one line in memory and writes it with one call. */
#include "base/log.h"

#include "base/c_locale.h"
#include "base/env.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static atomic_int log_rank = -1;
static atomic_int log_level = -1;

/* Returns the level of a name; -1 if there is none. */
static int log_find_level(const char *wanted)
{
    int level = WEIRI_LOG_DEBUG;
    while (level >= WEIRI_LOG_ERROR && strcmp(wanted, level_names[level]) != 0)
        level--;
    return level;
}

/* The first thread that needs the level sets it, and is the only one to warn. */
static int log_read_level(void)
{
    const char *wanted = weiri_env(WEIRI_ENV_LOG);
    int found = wanted ? log_find_level(wanted) : WEIRI_LOG_WARN, unset = -1;
    int level = found < 0 ? WEIRI_LOG_WARN : found;
    if (atomic_compare_exchange_strong(&log_level, &unset, level) && found < 0)
        weiri_log(WEIRI_LOG_WARN, "%s=%s: expected error, warn, info or debug; using warn",
                  weiri_env_name(WEIRI_ENV_LOG), wanted);
    return level;
}

void weiri_log_set_rank(int rank)
{
    atomic_store(&log_rank, rank);
}

int weiri_log_enabled(weiri_log_level level)
{
    int limit = atomic_load(&log_level);
    if (limit < 0)
        limit = log_read_level();
    return (int)level <= limit;
}

void weiri_log_raise(weiri_log_level level)
{
    if (!weiri_log_enabled(level))
        atomic_store(&log_level, (int)level);
}

void weiri_log(weiri_log_level level, const char *format, ...)
{
    if (!weiri_log_enabled(level))
        return;
    char line[LINE_BYTES];
    int rank = atomic_load(&log_rank);
    int used = rank < 0 ? snprintf(line, sizeof line, "weir %s: ", level_names[level])
                        : snprintf(line, sizeof line, "weir[%d] %s: ", rank, level_names[level]);
    va_list arguments;
    va_start(arguments, format);
    const locale_t before = weiri_c_locale_begin();
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    weiri_c_locale_end(before);
    va_end(arguments);
    size_t length = more < 0 ? (size_t)used : weiri_text_escape(line, sizeof line - 1);
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written;
}
