/* JSON that is read as a stream: see json.h. */
#include "bench/replay/json.h"

#include "base/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads the next block, behind which is a NUL. 0: there is none. */
static int json_fill(replay_json *json)
{
    json->at = json->end = 0;
    if (json->status == WEIR_OK)
        json->status = replay_source_read(json->source, json->block, REPLAY_JSON_BLOCK, &json->end);
    if (json->status != WEIR_OK)
        json->end = 0;
    json->block[json->end] = '\0';
    return json->end > 0;
}

/* The next character, or -1 at the end of the file. */
static int json_peek(replay_json *json)
{
    return json->at < json->end || json_fill(json) ? (unsigned char)json->block[json->at] : -1;
}

static replay_token json_fault(replay_json *json, const char *fault)
{
    if (!json->fault)
        json->fault = fault;
    json->depth = 0;
    return REPLAY_JSON_NONE;
}

static void json_keep(replay_json *json, int c)
{
    if (json->length < REPLAY_JSON_TEXT_BYTES)
        json->text[json->length++] = (char)c;
    else
        json->is_cut = 1;
    json->text[json->length] = '\0';
}

/* Skips blanks and separators. Returns the next character. */
static int json_blanks(replay_json *json)
{
    int c;
    while ((c = json_peek(json)) == ' ' || c == '\n' || c == ',' || c == '\t' || c == '\r') {
        json->line += c == '\n';
        json->at++;
    }
    return c;
}

/* What becomes of a string's characters. */
typedef enum string_use { SKIP, KEEP, KEEP_RAW } string_use;

/* Reads a string behind its first quote: skips it, or keeps it without escapes, or as it is in the
 * file. 0: the file ends. */
static int json_string(replay_json *json, string_use use)
{
    for (;;) {
        const char *from = json->block + json->at, *at = from;
        while (*at != '"' && *at != '\\' && *at != '\n' && *at)
            at++;
        for (json->at += (size_t)(at - from); use != SKIP && from < at;)
            json_keep(json, *from++);
        const int c = json_peek(json);
        if (c < 0)
            return 0;
        json->at++;
        json->line += c == '\n';
        if (c == '"')
            return 1;
        const int next = c == '\\' ? json_peek(json) : -1;
        if (use != SKIP && (c != '\\' || use == KEEP_RAW || next == 'u'))
            json_keep(json, c);
        if (next < 0)
            continue;
        json->at++;
        if (use != SKIP)
            json_keep(json, use == KEEP && next == 'n' ? '\n' : next);
    }
}

static replay_token json_enter(replay_json *json, int c)
{
    if (json->depth == REPLAY_JSON_DEPTH)
        return json_fault(json, "brackets are nested deeper than 64");
    json->closers[json->depth++] = c == '{' ? '}' : ']';
    return c == '{' ? REPLAY_JSON_OBJECT : REPLAY_JSON_ARRAY;
}

static int is_word(int c)
{
    return c > ' ' && !strchr(",:{}[]\"", c);
}

replay_token replay_json_next(replay_json *json)
{
    const int c = json->fault ? -1 : json_blanks(json);
    json->length = 0;
    json->is_cut = 0;
    *json->text = '\0';
    if (c < 0)
        return json->depth ? json_fault(json, "the file ends within a value") : REPLAY_JSON_NONE;
    json->at++;
    if (c == '{' || c == '[')
        return json_enter(json, c);
    if (c == '}' || c == ']') {
        if (!json->depth || json->closers[json->depth - 1] != c)
            return json_fault(json, "a bracket closes what was not opened");
        json->depth--;
        return REPLAY_JSON_CLOSE;
    }
    if (c == '"')
        return json_string(json, KEEP) ? REPLAY_JSON_STRING
                                       : json_fault(json, "the file ends within a string");
    if (!is_word(c))
        return json_fault(json, "not JSON");
    json_keep(json, c);
    for (int more; (more = json_peek(json)) > 0 && is_word(more); json->at++)
        json_keep(json, more);
    return REPLAY_JSON_WORD;
}

int replay_json_key(replay_json *json)
{
    const replay_token token = replay_json_next(json);
    if (token == REPLAY_JSON_CLOSE || token == REPLAY_JSON_NONE)
        return 0;
    const int c = json_blanks(json);
    if (token != REPLAY_JSON_STRING || c != ':') {
        json_fault(json, c < 0 ? "the file ends within a value" : "not a key of an object");
        return 0;
    }
    json->at++;
    return 1;
}

int replay_json_is(const replay_json *json, const char *text)
{
    return strcmp(json->text, text) == 0;
}

/* What a character is to json_walk. 1: a line's end, or a block's; 2: a string begins; 3: an object
 * or array begins; 4: one ends. */
static const unsigned char skipped[256] = {
    ['\0'] = 1, ['\n'] = 1, ['"'] = 2, ['['] = 3, ['{'] = 3, [']'] = 4, ['}'] = 4};

/* Skips, or keeps as text, until `depth` containers are open. */
static void json_walk(replay_json *json, int depth, int keeps)
{
    while (!json->fault && json->depth > depth) {
        const unsigned char *at = (unsigned char *)json->block + json->at;
        while (!keeps && !skipped[*at])
            at++;
        json->at = (size_t)(at - (unsigned char *)json->block);
        const int c = json_peek(json);
        if (c < 0) {
            json_fault(json, "the file ends within a value");
            return;
        }
        json->at++;
        json->line += c == '\n';
        if (keeps && c != '\n')
            json_keep(json, c);
        if (skipped[c] == 2) {
            if (!json_string(json, keeps ? KEEP_RAW : SKIP))
                json_fault(json, "the file ends within a string");
            if (keeps)
                json_keep(json, c);
        } else if (skipped[c] == 3) {
            json_enter(json, c);
        } else if (skipped[c] == 4 && json->closers[--json->depth] != c) {
            json_fault(json, "a bracket closes what was not opened");
        }
    }
}

/* Skips the object or array that a token has entered. */
static replay_token json_leave(replay_json *json, replay_token token)
{
    if (token == REPLAY_JSON_OBJECT || token == REPLAY_JSON_ARRAY)
        json_walk(json, json->depth - 1, 0);
    return token;
}

void replay_json_skip(replay_json *json)
{
    json_leave(json, replay_json_next(json));
}

void replay_json_raw(replay_json *json)
{
    const int depth = json->depth;
    const replay_token token = replay_json_next(json);
    if (token != REPLAY_JSON_OBJECT && token != REPLAY_JSON_ARRAY)
        return;
    json_keep(json, token == REPLAY_JSON_OBJECT ? '{' : '[');
    json_walk(json, depth, 1);
}

int64_t replay_json_whole(replay_json *json, int64_t otherwise)
{
    char *end;
    if (json_leave(json, replay_json_next(json)) != REPLAY_JSON_WORD)
        return otherwise;
    errno = 0;
    const int64_t value = strtoll(json->text, &end, 10);
    return errno || *end || end == json->text ? otherwise : value;
}

/* ---------------------------------------------------------------- whole objects */

/* Microseconds with up to three decimals, in nanoseconds; -1: not a time. */
static int64_t json_ns(const char *text)
{
    char *end;
    const long long whole = strtoll(text, &end, 10);
    int64_t part = 0;
    if (*text < '0' || *text > '9' || whole < 0 || whole > INT64_MAX / 2000)
        return -1;
    if (*end == '.')
        for (int i = 0, more = 1; i < 3; i++) {
            more = more && *++end >= '0' && *end <= '9';
            part = part * 10 + (more ? *end - '0' : 0);
        }
    if (strpbrk(end, "eE"))
        return (int64_t)(strtod(text, NULL) * 1e3);
    return whole * 1000 + part;
}

/* Reads the next value, no member, into its place. */
static void json_value(replay_json *json, const replay_json_field *field, void *to)
{
    int64_t *whole = to;
    if (field->use == REPLAY_JSON_WHOLE)
        *whole = replay_json_whole(json, -1);
    else if (field->use == REPLAY_JSON_COUNT)
        *whole += replay_json_whole(json, 0) > 0;
    else if (field->use == REPLAY_JSON_RAW) {
        replay_json_raw(json);
        free(*(char **)to);
        *(char **)to = strdup(json->is_cut ? "" : json->text);
        if (!*(char **)to)
            json->status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to read JSON");
    } else {
        const replay_token token = json_leave(json, replay_json_next(json));
        const int is_text = token == REPLAY_JSON_STRING &&
                            (json->length < field->bytes || field->use == REPLAY_JSON_BEGIN);
        if (field->use == REPLAY_JSON_REAL)
            *(double *)to = token == REPLAY_JSON_WORD ? strtod(json->text, NULL) : NAN;
        else if (field->use == REPLAY_JSON_NS)
            *whole = token == REPLAY_JSON_WORD ? json_ns(json->text) : -1;
        else
            snprintf(to, field->bytes, "%s", is_text ? json->text : "");
    }
}

static int is_key(const replay_json *json, const char *key)
{
    return *key == '*' ? strstr(json->text, key + 1) != NULL : replay_json_is(json, key);
}

int replay_json_object(replay_json *json, const replay_json_table *table, void *to)
{
    const int depth = json->depth - 1;
    while (json->depth > depth && replay_json_key(json)) {
        const replay_json_field *field = table->fields, *end = field + table->count;
        while (field < end && !is_key(json, field->key))
            field++;
        if (field == end) {
            replay_json_skip(json);
        } else if (field->use != REPLAY_JSON_MEMBERS) {
            json_value(json, field, (char *)to + field->at);
        } else if (replay_json_next(json) == REPLAY_JSON_OBJECT) {
            replay_json_object(json, &(replay_json_table){table->fields, table->count, NULL}, to);
        }
        if (field == table->fields && table->is_wanted &&
            !table->is_wanted((char *)to + field->at)) {
            json_walk(json, depth, 0);
            return 0;
        }
    }
    return 1;
}

weir_status replay_json_each(replay_json *json,
                             weir_status (*read)(replay_json *json, void *context), void *context)
{
    weir_status status = WEIR_OK;
    if (replay_json_next(json) == REPLAY_JSON_ARRAY)
        while (status == WEIR_OK && replay_json_next(json) == REPLAY_JSON_OBJECT)
            status = read(json, context);
    return status == WEIR_OK ? json->status : status;
}

weir_status replay_json_file(replay_reader *reader, replay_source *source,
                             weir_status (*read)(replay_json *json, void *context), void *context)
{
    replay_json json = {.source = source, .line = 1};
    json.block = calloc(1, REPLAY_JSON_BLOCK + 1);
    json.text = calloc(1, REPLAY_JSON_TEXT_BYTES + 1);
    weir_status status = json.block && json.text ? read(&json, context) : replay_no_memory();
    if (status == WEIR_OK)
        status = json.status;
    reader->trace->is_cut |= json.fault != NULL;
    if (status == WEIR_OK && json.fault)
        replay_note(reader, json.line, "%s: what follows is left out", json.fault);
    free(json.block);
    free(json.text);
    return status;
}
