/* Forms of values, and the distance between names: see env_check.h. */
#include "base/env_check.h"

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64 };

static const struct {
    weiri_env_key key;
    long low, high;
} numbers[] = {
    {WEIRI_ENV_TIMEOUT_MS, 1, WEIRI_TIMEOUT_MS_MAX},
    {WEIRI_ENV_CHECK, 0, 1},
    {WEIRI_ENV_SOCKET_STREAMS, 1, 8},
    {WEIRI_ENV_BOOT_PORT, 1, 65535},
    {WEIRI_ENV_IB_GID_INDEX, 0, 65535},
    {WEIRI_ENV_CMA, 0, 1},
    {WEIRI_ENV_XPMEM, 0, 1},
    {WEIRI_ENV_ALLOW_SHARED_GPU, 0, 1},
    {WEIRI_ENV_METRICS_INTERVAL_MS, -1, LONG_MAX / 1000},
    {WEIRI_ENV_METRICS_MIN_BYTES, 0, LONG_MAX},
    {WEIRI_ENV_MONITOR_CALLS, 2, 128},
};

static const struct {
    weiri_env_key key;
    const char *words;    /* separated by blanks */
    const char *expected; /* as a message lists them */
    char separator;       /* of a list of words; 0: one word */
} choices[] = {
    {WEIRI_ENV_LOG, "error warn info debug", "error, warn, info or debug", 0},
    {WEIRI_ENV_BACKEND, "auto host cuda", "auto, host or cuda", 0},
    {WEIRI_ENV_TRANSPORT, "auto shm cuda_ipc ib tcp", "auto, shm, cuda_ipc, ib or tcp", 0},
    {WEIRI_ENV_CONNECT, "auto all first-use", "auto, all or first-use", 0},
    {WEIRI_ENV_LAUNCHER, "auto none mpi pmix slurm torchrun",
     "auto, none, mpi, pmix, slurm or torchrun", 0},
    {WEIRI_ENV_METRICS, "prom json 0", "prom, json or prom,json", ','},
};

/* Variables of other parts of weir: the Python package and its build. */
static const char *const others[] = {"WEIR_PYTHON_NATIVE", "WEIR_LIBRARIES", "WEIR_MAKE_FLAGS"};

/* ------------------------------------------------------------------- values */

static int check_has_word(const char *words, const char *text, size_t length)
{
    for (const char *word = words; *word; word += strcspn(word, " "), word += *word == ' ')
        if (length && strcspn(word, " ") == length && strncmp(word, text, length) == 0)
            return 1;
    return 0;
}

static int check_is_choice(const char *words, char separator, const char *text)
{
    const char until[] = {separator, '\0'};
    for (const char *at = text;;) {
        const size_t length = separator ? strcspn(at, until) : strlen(at);
        if (!check_has_word(words, at, length))
            return 0;
        if (!at[length])
            return 1;
        at += length + 1;
    }
}

/* "0", "1" or "HOST:PORT" */
static int check_is_ras(const char *text)
{
    const char *colon = strrchr(text, ':');
    if (strcmp(text, "0") == 0 || strcmp(text, "1") == 0)
        return 1;
    return colon && colon > text && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")];
}

weir_status weiri_env_check(void)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && i < sizeof numbers / sizeof *numbers; i++) {
        long value;
        status = weiri_env_long(numbers[i].key, numbers[i].low, numbers[i].high, 0, &value);
    }
    for (size_t i = 0; status == WEIR_OK && i < sizeof choices / sizeof *choices; i++) {
        const char *text = weiri_env(choices[i].key);
        if (text && !check_is_choice(choices[i].words, choices[i].separator, text))
            status = weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected %s",
                                weiri_env_name(choices[i].key), text, choices[i].expected);
    }
    const char *ras = weiri_env(WEIRI_ENV_RAS);
    if (status == WEIR_OK && ras && !check_is_ras(ras))
        status = weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected 0, 1 or HOST:PORT",
                            weiri_env_name(WEIRI_ENV_RAS), ras);
    return status;
}

/* -------------------------------------------------------------------- names */

int weiri_env_distance(const char *a, const char *b)
{
    int rows[3][NAME_BYTES + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    const int b_length = (int)strlen(b);
    for (int j = 0; j <= b_length; j++)
        last[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (int j = 1; j <= b_length; j++) {
            const int replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = last[j] < now[j - 1] ? last[j] + 1 : now[j - 1] + 1;
            if (replaced < now[j])
                now[j] = replaced;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        int *unused = before;
        before = last;
        last = now;
        now = unused;
    }
    return last[b_length];
}

/* Returns the name of weir's that resembles this one, or NULL. */
static const char *name_closest(const char *name)
{
    const char *closest = NULL;
    int least = (int)strlen(name) / 4 + 1;
    for (int key = 0; key < WEIRI_ENV_COUNT; key++) {
        const char *known = weiri_env_name((weiri_env_key)key);
        const int distance = strncmp(known, "WEIR_", 5) == 0 && strlen(known) < NAME_BYTES
                                 ? weiri_env_distance(name, known)
                                 : least;
        if (distance < least) {
            least = distance;
            closest = known;
        }
    }
    return closest;
}

int weiri_env_is_unknown(const char *variable, const char **closest)
{
    char name[NAME_BYTES];
    const size_t length = strcspn(variable, "=");
    *closest = NULL;
    if (strncmp(variable, "WEIR_", 5) != 0 || length >= sizeof name)
        return 0;
    memcpy(name, variable, length);
    name[length] = '\0';
    for (int key = 0; key < WEIRI_ENV_COUNT; key++)
        if (strcmp(name, weiri_env_name((weiri_env_key)key)) == 0)
            return 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return 0;
    *closest = name_closest(name);
    return 1;
}

void weiri_env_warn_unknown(void)
{
    extern char **environ;
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;
    const char *closest;
    if (atomic_flag_test_and_set(&has_warned))
        return;
    for (char **variable = environ; variable && *variable; variable++)
        if (weiri_env_is_unknown(*variable, &closest))
            weiri_log(WEIRI_LOG_WARN, "%.*s is no variable of weir and has no effect; %s%s%s",
                      (int)strcspn(*variable, "="), *variable, closest ? "did you mean " : "",
                      closest ? closest : "a benchmark's --help-env lists all", closest ? "?" : "");
}
