/* Look-up in the table of environment variables, and its help text. */
#include "base/env.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct env_row {
    const char *variable, *fallback, *meaning;
} env_row;

static const env_row rows[] = {
#define ROW(symbol, variable, fallback, meaning) {variable, fallback, meaning},
    WEIRI_ENV_MAP(ROW)
#undef ROW
};

const char *weiri_env(weiri_env_key key)
{
    const char *value = getenv(rows[key].variable);
    return value && *value ? value : NULL;
}

const char *weiri_env_name(weiri_env_key key)
{
    return rows[key].variable;
}

const char *weiri_env_default(weiri_env_key key)
{
    return rows[key].fallback;
}

const char *weiri_env_meaning(weiri_env_key key)
{
    return rows[key].meaning;
}

weir_status weiri_env_long(weiri_env_key key, long low, long high, long fallback, long *value)
{
    const char *text = weiri_env(key);
    if (!text) {
        *value = fallback;
        return WEIR_OK;
    }
    const char *digits = text + (*text == '-');
    errno = 0;
    const long number = strtol(text, NULL, 10);
    if (errno || !*digits || digits[strspn(digits, "0123456789")] || number < low || number > high)
        return weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected a number from %ld to %ld",
                          rows[key].variable, text, low, high);
    *value = number;
    return WEIR_OK;
}

int weir_env_help(char *text, size_t bytes)
{
    size_t used = 0;
    for (int key = 0; key < WEIRI_ENV_COUNT; key++) {
        int more = snprintf(used < bytes ? text + used : NULL, used < bytes ? bytes - used : 0,
                            "  %-22s %s (default: %s)\n", rows[key].variable, rows[key].meaning,
                            rows[key].fallback);
        used += (size_t)more;
    }
    return (int)used;
}
