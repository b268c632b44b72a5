/* JSON that is read as a stream: see json.h. */
#include "bench/replay/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

/* A file, and the text of its last value. */
typedef struct json_file {
    replay_source *source;
    char *block; /* what is read of the file, and a NUL */
    char *text;
    size_t at, end, length;
    long line;
    int is_cut;
    const char *fault;  /* NULL, or what is wrong with the file at this line */
    weir_status status; /* of reading the file */
} json_file;

/* Reads the next block. 0: there is none. */
static int json_fill(json_file *json)
{
    replay_source_take(json->source, json->end);
    json->at = json->end = 0;
    if (json->status == WEIR_OK)
        json->status = replay_source_peek(json->source, &json->block, &json->end);
    return json->status == WEIR_OK && json->end > 0;
}

/* The next character, or -1 at the end of the file. */
static int json_peek(json_file *json)
{
    return json->at < json->end || json_fill(json) ? (unsigned char)json->block[json->at] : -1;
}

/* Skips blanks and separators. Returns the next character. */
static int json_blanks(json_file *json)
{
    int c;
    while ((c = json_peek(json)) == ' ' || c == '\n' || c == ',' || c == '\t' || c == '\r') {
        json->line += c == '\n';
        json->at++;
    }
    return c;
}

static int json_fault(json_file *json, const char *fault)
{
    if (!json->fault)
        json->fault = fault;
    return 0;
}

/* Takes the next bytes of the block, and keeps them. */
static void json_keep(json_file *json, size_t bytes)
{
    const size_t room = REPLAY_JSON_TEXT_BYTES - json->length, fit = bytes < room ? bytes : room;
    memcpy(json->text + json->length, json->block + json->at, fit);
    json->at += bytes;
    json->length += fit;
    json->is_cut |= fit < bytes;
}

/* What stops a scan: 1: a line's end, or a block's; 2: a string begins or ends; 3: an object or
 * list begins; 4: one ends; 5: an escape. */
static const unsigned char stops[2][256] = {
    {['\0'] = 1, ['\n'] = 1, ['"'] = 2, ['['] = 3, ['{'] = 3, [']'] = 4, ['}'] = 4},
    {['\0'] = 1, ['\n'] = 1, ['"'] = 2, ['\\'] = 5}};

/* Keeps an object, a list or a string as text. 0: a fault. */
static int json_nested(json_file *json)
{
    char closers[DEPTH_MAX];
    int depth = 0, in_string = 0;
    do {
        const unsigned char *from = (unsigned char *)json->block + json->at, *at = from;
        while (!stops[in_string][*at])
            at++;
        json_keep(json, (size_t)(at - from));
        const int c = json_peek(json);
        if (c < 0)
            return json_fault(json, "the file ends within a value");
        const int stop = stops[in_string][c];
        json->line += c == '\n';
        if (c == '\n')
            json->at++;
        else
            json_keep(json, 1);
        if (stop == 2)
            in_string = !in_string;
        else if (stop == 5 && json_peek(json) >= 0)
            json_keep(json, 1);
        else if (stop == 3 && depth == DEPTH_MAX)
            return json_fault(json, "brackets are nested deeper than 64");
        else if (stop == 3)
            closers[depth++] = c == '{' ? '}' : ']';
        else if (stop == 4 && closers[--depth] != c)
            return json_fault(json, "a bracket closes what was not opened");
    } while (depth || in_string);
    return 1;
}

static int is_word(int c)
{
    return c > ' ' && !strchr(",:{}[]\"", c);
}

/* Keeps the next value as text. 0: a fault. */
static int json_value(json_file *json, replay_json_value *value)
{
    const int c = json_blanks(json);
    json->length = 0;
    json->is_cut = 0;
    value->line = json->line;
    if (c < 0)
        return json_fault(json, "the file ends within a value");
    if (c == '}' || c == ']')
        return json_fault(json, "a bracket closes what was not opened");
    if (c != '"' && c != '{' && c != '[' && !is_word(c))
        return json_fault(json, "not JSON");
    if (is_word(c))
        while (is_word(json_peek(json)))
            json_keep(json, 1);
    else if (!json_nested(json))
        return 0;
    json->text[json->length] = '\0';
    value->is_cut = json->is_cut;
    return 1;
}

/* Reads the objects of a list, or those that follow each other in the file. */
static weir_status json_objects(json_file *json, replay_json_use use, void *context)
{
    replay_json_value value = {.text = json->text};
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && json_blanks(json) == '{' && json_value(json, &value))
        status = use(context, &value);
    return status;
}

/* Reads a key up to its colon. */
static int json_key(json_file *json, char *key, size_t bytes)
{
    replay_json_value value;
    if (!json_value(json, &value))
        return 0;
    const int is_string = *json->text == '"', c = json_blanks(json);
    if (!is_string || c != ':')
        return json_fault(json, c < 0 ? "the file ends within a value" : "not a key of an object");
    json->at++;
    replay_json_text(json->text, key, bytes);
    return 1;
}

/* Reads the members of the file's object, and the objects of the list. */
static weir_status json_members(json_file *json, const char *list, replay_json_use use,
                                void *context)
{
    char key[64];
    replay_json_value value = {.key = key, .text = json->text};
    weir_status status = WEIR_OK;
    json_blanks(json);
    json->at++; /* the bracket by which the format was recognised */
    while (status == WEIR_OK && json_blanks(json) != '}' && json_key(json, key, sizeof key)) {
        if (strcmp(key, list) == 0 && json_blanks(json) == '[') {
            json->at++;
            status = json_objects(json, use, context);
            if (status == WEIR_OK && !json->fault && json_blanks(json) != ']')
                json_value(json, &value); /* finds the fault */
            json->at += !json->fault;
        } else if (json_value(json, &value)) {
            status = use(context, &value);
        }
        if (json->fault)
            break;
    }
    return status;
}

weir_status replay_json_read(replay_reader *reader, replay_source *source, const char *list,
                             replay_json_use use, void *context)
{
    json_file json = {.source = source, .line = 1};
    weir_status status = WEIR_OK;
    json.text = malloc(REPLAY_JSON_TEXT_BYTES + 1);
    if (!json.text || !json_fill(&json))
        status = json.text ? WEIR_OK : replay_no_memory();
    else if (list)
        status = json_members(&json, list, use, context);
    else
        status = json_objects(&json, use, context);
    if (status == WEIR_OK)
        status = json.status;
    reader->trace->is_cut |= json.fault != NULL;
    if (status == WEIR_OK && json.fault)
        replay_note(reader, json.line, "%s: what follows is left out", json.fault);
    free(json.text);
    return status;
}

/* -------------------------------------------------------------- values as text */

/* The quote that ends the string behind its first quote, or the end of the text. */
static const char *string_end(const char *at)
{
    while (*at && *at != '"')
        at += *at == '\\' && at[1] ? 2 : 1;
    return at;
}

char *replay_json_find(const char *text, const char *key)
{
    const size_t length = strlen(key);
    while ((text = strchr(text, '"')) != NULL) {
        const char *begin = text + 1, *end = string_end(begin);
        const char *after = *end ? end + 1 + strspn(end + 1, " \t\r") : end;
        if (*after == ':' && (size_t)(end - begin) == length && !memcmp(begin, key, length))
            return (char *)(uintptr_t)(after + 1 + strspn(after + 1, " \t\r"));
        text = after;
    }
    return NULL;
}

void replay_json_end(char *value)
{
    int depth = 0;
    do {
        if (*value == '"')
            value = (char *)(uintptr_t)string_end(value + 1);
        depth += (*value == '[' || *value == '{') - (*value == ']' || *value == '}');
    } while (*value && value++ && depth > 0);
    *value = '\0';
}

int64_t replay_json_whole(const char *value)
{
    char *end;
    errno = 0;
    const long long whole = value ? strtoll(value, &end, 10) : -1;
    return !value || errno || end == value || is_word((unsigned char)*end) ? -1 : whole;
}

/* Microseconds with up to three decimals. */
int64_t replay_json_ns(const char *value)
{
    char *end;
    if (!value || !isdigit((unsigned char)*value))
        return -1;
    const long long whole = strtoll(value, &end, 10);
    int64_t part = 0;
    if (whole < 0 || whole > INT64_MAX / 2000)
        return -1;
    const size_t digits = strspn(value, "0123456789.");
    if (value[digits] == 'e' || value[digits] == 'E')
        return (int64_t)(strtod(value, NULL) * 1e3);
    if (*end == '.')
        for (int i = 0, more = 1; i < 3; i++) {
            more = more && isdigit((unsigned char)*++end);
            part = part * 10 + (more ? *end - '0' : 0);
        }
    return whole * 1000 + part;
}

double replay_json_real(const char *value)
{
    return value && is_word((unsigned char)*value) ? strtod(value, NULL) : NAN;
}

int replay_json_text(const char *value, char *to, size_t bytes)
{
    const int is_string = value && *value == '"';
    const char *from = is_string ? value + 1 : "", *end = string_end(from);
    char *last = to + bytes - 1;
    while (from < end && to < last) {
        const int is_escape = *from == '\\' && from[1] && from[1] != 'u';
        from += is_escape;
        *to++ = *from == 'n' && is_escape ? '\n' : *from;
        from++;
    }
    *to = '\0';
    return from >= end;
}

void replay_json_string(const char *object, const char *key, char *to, size_t bytes)
{
    if (!replay_json_text(replay_json_find(object, key), to, bytes))
        *to = '\0';
}

int64_t replay_json_number(const char *object, const char *key)
{
    return replay_json_whole(replay_json_find(object, key));
}
