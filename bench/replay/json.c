/* JSON that is read as a stream: see json.h. */
#include "bench/replay/json.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

weir_status replay_json_open(replay_json *json, replay_source *source)
{
    *json = (replay_json){.source = source, .line = 1};
    json->block = malloc(REPLAY_JSON_BLOCK + 1);
    json->text = malloc(REPLAY_JSON_TEXT + 1);
    if (!json->block || !json->text) {
        replay_json_close(json);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to read JSON");
    }
    *json->block = *json->text = '\0';
    return WEIR_OK;
}

void replay_json_close(replay_json *json)
{
    free(json->block);
    free(json->text);
    json->block = json->text = NULL;
}

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
    if (json->length < REPLAY_JSON_TEXT)
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

/* Reads a string behind its first quote; as it is in the file, or without escapes. */
static int json_text(replay_json *json, int is_raw)
{
    for (;;) {
        int c = json_peek(json);
        if (c < 0)
            return 0;
        json->at++;
        json->line += c == '\n';
        if (c == '"')
            return 1;
        if (c == '\\') {
            const int next = json_peek(json);
            if (is_raw || next == 'u')
                json_keep(json, c);
            if (next < 0)
                return 0;
            json->at++;
            c = is_raw || next != 'n' ? next : '\n';
        }
        json_keep(json, c);
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
        return json_text(json, 0) ? REPLAY_JSON_STRING
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

/* What a character is to whoever skips: 0 nothing, else as in the comments of json_skip_to. */
static const unsigned char skipped[256] = {
    ['\0'] = 1, ['\n'] = 2, ['"'] = 3, ['['] = 4, ['{'] = 4, [']'] = 5, ['}'] = 5};

/* Skips the rest of a string. 0: the file ends. */
static int json_skip_string(replay_json *json)
{
    for (;;) {
        const char *at = json->block + json->at;
        while (*at != '"' && *at != '\\' && *at != '\n' && *at)
            at++;
        json->at = (size_t)(at - json->block);
        const int c = json_peek(json);
        if (c < 0)
            return 0;
        json->at++;
        json->line += c == '\n';
        if (c == '"')
            return 1;
        if (c == '\\' && json_peek(json) >= 0)
            json->at++;
    }
}

/* Skips until `depth` containers are open. */
static void json_skip_to(replay_json *json, int depth)
{
    while (!json->fault && json->depth > depth) {
        const unsigned char *at = (unsigned char *)json->block + json->at;
        while (!skipped[*at])
            at++;
        json->at = (size_t)(at - (unsigned char *)json->block);
        const int c = json_peek(json);
        if (c < 0) {
            json_fault(json, "the file ends within a value");
            return;
        }
        json->at++;
        switch (skipped[c]) {
        case 2: /* a line's end */
            json->line++;
            break;
        case 3: /* a string begins */
            if (!json_skip_string(json))
                json_fault(json, "the file ends within a string");
            break;
        case 4: /* an object or array begins */
            json_enter(json, c);
            break;
        case 5: /* one ends */
            if (json->closers[--json->depth] != c)
                json_fault(json, "a bracket closes what was not opened");
            break;
        default: /* a block begins with another character than a NUL */
            break;
        }
    }
}

void replay_json_leave(replay_json *json)
{
    json_skip_to(json, json->depth - 1);
}

void replay_json_skip(replay_json *json)
{
    const replay_token token = replay_json_next(json);
    if (token == REPLAY_JSON_OBJECT || token == REPLAY_JSON_ARRAY)
        replay_json_leave(json);
}

void replay_json_raw(replay_json *json)
{
    const int depth = json->depth;
    const replay_token token = replay_json_next(json);
    if (token != REPLAY_JSON_OBJECT && token != REPLAY_JSON_ARRAY)
        return;
    json_keep(json, token == REPLAY_JSON_OBJECT ? '{' : '[');
    while (!json->fault && json->depth > depth) {
        const int c = json_peek(json);
        if (c < 0) {
            json_fault(json, "the file ends within a value");
            return;
        }
        json->at++;
        json->line += c == '\n';
        if (c != '\n')
            json_keep(json, c);
        if (c == '"' && !json_text(json, 1))
            json_fault(json, "the file ends within a string");
        if (c == '"')
            json_keep(json, c);
        else if (c == '{' || c == '[')
            json_enter(json, c);
        else if ((c == '}' || c == ']') && json->closers[--json->depth] != c)
            json_fault(json, "a bracket closes what was not opened");
    }
}

int64_t replay_json_whole(replay_json *json, int64_t otherwise)
{
    const replay_token token = replay_json_next(json);
    char *end;
    if (token == REPLAY_JSON_OBJECT || token == REPLAY_JSON_ARRAY)
        replay_json_leave(json);
    if (token != REPLAY_JSON_WORD)
        return otherwise;
    errno = 0;
    const int64_t value = strtoll(json->text, &end, 10);
    return errno || *end || end == json->text ? otherwise : value;
}

void replay_json_string(replay_json *json, char *to, size_t bytes)
{
    const replay_token token = replay_json_next(json);
    if (token == REPLAY_JSON_OBJECT || token == REPLAY_JSON_ARRAY)
        replay_json_leave(json);
    *to = '\0';
    if (token == REPLAY_JSON_STRING && json->length < bytes)
        memcpy(to, json->text, json->length + 1);
}
