/*
 * NCCL's parameter functions over weir's table of environment variables (base/env.h). A handle is a
 * row's number plus 1. Values are read from the environment at each call; an unset variable has its
 * default, which is empty where the table describes it in brackets.
 */
#include "nccl/comm/init.h"

#include "base/env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES = 24 };

static int is_number(const char *text, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

static const char *param_default(weiri_env_key key, char number[NUMBER_BYTES])
{
    const char *text = weiri_env_default(key);
    if (key != WEIRI_ENV_TIMEOUT_MS)
        return *text == '(' ? "" : text;
    snprintf(number, NUMBER_BYTES, "%d", weiri_nccl_timeout_ms()); /* not weir's default */
    return number;
}

/* The present value; it is valid as long as number. */
static const char *param_value(weiri_env_key key, char number[NUMBER_BYTES])
{
    const char *value = weiri_env(key);
    return value ? value : param_default(key, number);
}

/* Whether a parameter is an integer. */
static int param_is_integer(weiri_env_key key)
{
    int64_t value;
    return is_number(weiri_env_default(key), &value);
}

/* Variables that launchers set are not weir's parameters. */
static int param_is_published(weiri_env_key key)
{
    const char *name = weiri_env_name(key);
    return strncmp(name, "WEIR_", 5) == 0 || strncmp(name, "NCCL_", 5) == 0;
}

static int param_shows_all(void)
{
    const char *value = getenv("NCCL_PARAM_DUMP_ALL");
    return value && (strcasecmp(value, "true") == 0 || strcasecmp(value, "t") == 0 ||
                     strcmp(value, "1") == 0);
}

static int param_find(const char *name, weiri_env_key *key)
{
    for (int i = 0; name && i < WEIRI_ENV_COUNT; i++)
        if (strcmp(weiri_env_name((weiri_env_key)i), name) == 0) {
            *key = (weiri_env_key)i;
            return 1;
        }
    return 0;
}

static ncclResult_t param_refuse_name(const char *function, const char *name)
{
    return weiri_nccl_fail(ncclInvalidArgument,
                           "%s: weir has no parameter %s; "
                           "ncclParamGetAllParameterKeys lists them",
                           function, name ? name : "NULL");
}

ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key)
{
    weiri_env_key found = WEIRI_ENV_LOG;
    if (!out || !param_find(key, &found))
        return param_refuse_name("ncclParamBind", key);
    *out = (ncclParamHandle_t)((uintptr_t)found + 1); /* NOLINT: an opaque number */
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(ParamBind);

static ncclResult_t param_of(ncclParamHandle_t h, const void *out, weiri_env_key *key)
{
    const uintptr_t number = (uintptr_t)h;
    if (!number || number > WEIRI_ENV_COUNT || !out)
        return weiri_nccl_fail(ncclInvalidArgument, "ncclParamGet: a handle of ncclParamBind and "
                                                    "an address for the result are required");
    *key = (weiri_env_key)(number - 1);
    return ncclSuccess;
}

/* Reads an integer in [low, high]; high as uint64_t. */
static ncclResult_t param_integer(ncclParamHandle_t h, const void *out, int64_t low, uint64_t high,
                                  int64_t *value)
{
    weiri_env_key key = WEIRI_ENV_LOG;
    char number[NUMBER_BYTES];
    ncclResult_t result = param_of(h, out, &key);
    if (result != ncclSuccess)
        return result;
    const char *text = param_value(key, number);
    if (param_is_integer(key) && is_number(text, value) && *value >= low &&
        (*value < 0 || (uint64_t)*value <= high))
        return ncclSuccess;
    return weiri_nccl_fail(ncclInvalidArgument,
                           "ncclParamGet: %s is \"%s\", which is not an integer of this type",
                           weiri_env_name(key), text);
}

/* Defines the function of a type. */
#define PARAM_GET(suffix, type, low, high)                                                         \
    ncclResult_t ncclParamGet##suffix(ncclParamHandle_t h, type *out)                              \
    {                                                                                              \
        int64_t value = 0;                                                                         \
        const ncclResult_t result = param_integer(h, out, low, (uint64_t)(high), &value);          \
        if (result == ncclSuccess)                                                                 \
            *out = (type)value;                                                                    \
        return result;                                                                             \
    }                                                                                              \
    WEIRI_NCCL_ALIAS(ParamGet##suffix)

PARAM_GET(I8, int8_t, INT8_MIN, INT8_MAX);
PARAM_GET(I16, int16_t, INT16_MIN, INT16_MAX);
PARAM_GET(I32, int32_t, INT32_MIN, INT32_MAX);
PARAM_GET(I64, int64_t, INT64_MIN, INT64_MAX);
PARAM_GET(U8, uint8_t, 0, UINT8_MAX);
PARAM_GET(U16, uint16_t, 0, UINT16_MAX);
PARAM_GET(U32, uint32_t, 0, UINT32_MAX);
PARAM_GET(U64, uint64_t, 0, UINT64_MAX);

/* A copy of text that is valid until the thread's next call with the same place. */
static const char *param_keep(char **place, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return NULL;
    free(*place);
    *place = copy;
    return copy;
}

ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out)
{
    static _Thread_local char *kept; /* one string per thread is not freed */
    weiri_env_key key = WEIRI_ENV_LOG;
    char number[NUMBER_BYTES];
    ncclResult_t result = param_of(h, out, &key);
    if (result != ncclSuccess)
        return result;
    const char *text = param_keep(&kept, param_value(key, number));
    if (!text)
        return weiri_nccl_fail(ncclSystemError, "ncclParamGetStr: no memory");
    *out = text;
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(ParamGetStr);

ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
    weiri_env_key key = WEIRI_ENV_LOG;
    char number[NUMBER_BYTES];
    int64_t value = 0;
    ncclResult_t result = param_of(h, out, &key);
    if (result != ncclSuccess)
        return result;
    const char *text = param_value(key, number);
    const int is_integer = param_is_integer(key) && is_number(text, &value);
    const size_t bytes = is_integer ? sizeof value : strlen(text) + 1;
    if (len)
        *len = (int)bytes;
    if (maxLen < 0 || (size_t)maxLen < bytes)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "ncclParamGet: %s needs %zu bytes, maxLen is %d",
                               weiri_env_name(key), bytes, maxLen);
    memcpy(out, is_integer ? (const void *)&value : text, bytes);
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(ParamGet);

ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
    static _Thread_local char *kept;
    weiri_env_key found = WEIRI_ENV_LOG;
    char number[NUMBER_BYTES];
    if (!value || !valueLen || !param_find(key, &found))
        return param_refuse_name("ncclParamGetParameter", key);
    const char *text = param_keep(&kept, param_value(found, number));
    if (!text)
        return weiri_nccl_fail(ncclSystemError, "ncclParamGetParameter: no memory");
    *value = text;
    *valueLen = (int)strlen(text);
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(ParamGetParameter);

ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
    static _Thread_local const char *names[WEIRI_ENV_COUNT];
    int count = 0;
    if (!table || !tableLen)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "ncclParamGetAllParameterKeys: a pointer is NULL");
    const int all = param_shows_all();
    for (int i = 0; i < WEIRI_ENV_COUNT; i++)
        if (all || param_is_published((weiri_env_key)i))
            names[count++] = weiri_env_name((weiri_env_key)i);
    *table = names;
    *tableLen = count;
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(ParamGetAllParameterKeys);

void ncclParamDumpAll(void)
{
    char number[NUMBER_BYTES];
    const int all = param_shows_all();
    for (int i = 0; i < WEIRI_ENV_COUNT; i++) {
        const weiri_env_key key = (weiri_env_key)i;
        if (all || param_is_published(key))
            fprintf(stderr, "%s=%s (default: %s): %s\n", weiri_env_name(key),
                    param_value(key, number), weiri_env_default(key), weiri_env_meaning(key));
    }
}
WEIRI_NCCL_ALIAS(ParamDumpAll);
