/* Reads members of JSON objects as plain values, and records failures with their position. */
#include "plan/format/json.h"

#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weiri_json_reject(weiri_json *in, const char *format, ...)
{
    char where[WEIRI_PLAN_WHERE_BYTES], what[256];
    va_list arguments;
    if (in->status != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    weiri_plan_where(in->plan, in->rank, in->block, in->op, where);
    in->status = weiri_fail(WEIR_ERR_INVALID, "%s: %s", where, what);
}

void weiri_json_no_memory(weiri_json *in)
{
    if (in->status == WEIR_OK)
        in->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the plan", in->plan->file);
}

void weiri_json_known(weiri_json *in, json_t *object, const char *known)
{
    const char *key;
    json_t *value;
    char word[64];
    json_object_foreach(object, key, value)
    {
        snprintf(word, sizeof word, "|%.60s|", key);
        if (strstr(known, word))
            continue;
        int is_silent = in->nwarned == WEIRI_JSON_WARNINGS_MAX;
        for (int i = 0; i < in->nwarned && !is_silent; i++)
            is_silent = strcmp(in->warned[i], key) == 0;
        if (is_silent)
            continue;
        in->warned[in->nwarned++] = key;
        weiri_log(WEIRI_LOG_WARN, "%s: unknown key '%.60s' is ignored", in->plan->file, key);
    }
}

json_t *weiri_json_object(weiri_json *in, json_t *value, const char *what)
{
    if (!json_is_object(value))
        weiri_json_reject(in, "%s is not a JSON object", what);
    return value;
}

json_t *weiri_json_array(weiri_json *in, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value && !json_is_array(value))
        weiri_json_reject(in, "%s is not a JSON array", key);
    return value;
}

/* 1 if value is an integer from 0 to most, which is stored to *whole. jansson decodes all numbers
 * as reals here, because files contain integers that exceed the 63 bits of its integers; a
 * number of 2^64 or more becomes UINT64_MAX. */
static int plan_json_is_whole(const json_t *value, uint64_t most, uint64_t *whole)
{
    double real = json_is_real(value) ? json_real_value(value) : -1;
    if (!(real >= 0) || (real < 0x1p64 && (double)(uint64_t)real != real))
        return 0;
    *whole = real < 0x1p64 ? (uint64_t)real : UINT64_MAX;
    return *whole <= most;
}

uint64_t weiri_json_number(weiri_json *in, json_t *object, const char *key, uint64_t most,
                           int64_t absent)
{
    const json_t *value = json_object_get(object, key);
    uint64_t number = 0;
    if (!value && absent != WEIRI_JSON_REQUIRED)
        return (uint64_t)absent;
    if (!value)
        weiri_json_reject(in, "%s is missing", key);
    else if (!plan_json_is_whole(value, most, &number))
        weiri_json_reject(in, "%s is not an integer from 0 to %llu", key, (unsigned long long)most);
    return number;
}

uint32_t weiri_json_count(weiri_json *in, json_t *object, const char *key, uint32_t most)
{
    return (uint32_t)weiri_json_number(in, object, key, most, WEIRI_JSON_REQUIRED);
}

int weiri_json_flag(weiri_json *in, json_t *object, const char *key, int absent)
{
    json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        weiri_json_reject(in, "%s is neither true nor false", key);
    return value ? json_is_true(value) : absent;
}

const char *weiri_json_text(weiri_json *in, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        weiri_json_reject(in, "%s is %s", key, value ? "not a string" : "missing");
    return json_is_string(value) ? json_string_value(value) : "";
}

weir_plan_buffer weiri_json_buffer(weiri_json *in, json_t *object, const char *key)
{
    const char *text = weiri_json_text(in, object, key);
    for (int i = 0; i < WEIR_PLAN_BUFFERS; i++)
        if (text[0] == weiri_plan_buffer_letters[i] && !text[1])
            return (weir_plan_buffer)i;
    weiri_json_reject(in, "%s is '%.40s'; expected i, o or s", key, text);
    return WEIR_PLAN_SCRATCH;
}

weiri_plan_channel weiri_json_channel(weiri_json *in, const char *text, const char *key)
{
    for (int type = 0; type <= WEIRI_PLAN_CHANNELS; type++)
        if (strcmp(text, weiri_plan_channel_name((weiri_plan_channel)type)) == 0)
            return (weiri_plan_channel)type;
    weiri_json_reject(in, "%s is '%.40s'; expected memory, port or switch", key, text);
    return WEIRI_PLAN_NO_CHANNEL;
}

void weiri_json_ids(weiri_json *in, json_t *object, const char *key, uint32_t *first,
                    uint32_t *count)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    json_t *list = weiri_json_array(in, object, key), *item;
    size_t i;
    *first = gpu->nids;
    *count = 0;
    json_array_foreach(list, i, item)
    {
        uint64_t value;
        if (!plan_json_is_whole(item, INT32_MAX, &value)) {
            weiri_json_reject(in, "%s[%zu] is not an id; expected an integer of at least 0", key,
                              i);
            return;
        }
        uint32_t *id = weiri_plan_append(&gpu->ids, &gpu->nids, sizeof *gpu->ids);
        if (!id) {
            weiri_json_no_memory(in);
            return;
        }
        *id = (uint32_t)value;
        ++*count;
    }
}
