/* The JSON writer. */
#include "base/json.h"

#include "base/c_locale.h"

#include <math.h>

static void json_write_line_break(weiri_json_writer *json, int indent)
{
    fprintf(json->file, "\n%*s", indent, "");
    json->break_indent = 0;
}

/* Writes what precedes a key, or a value without a key: a comma, and a line break or a blank. */
static void json_write_separator(weiri_json_writer *json, int is_key)
{
    uint64_t bit = (uint64_t)1 << json->depth;
    int is_first = !(json->filled & bit);
    if (json->after_key || json->depth == 0) {
        json->after_key = 0;
        return;
    }
    json->filled |= bit;
    if (!is_first)
        fputc(',', json->file);
    if (json->break_indent)
        json_write_line_break(json, json->break_indent - 1);
    else if (json->layout == WEIRI_JSON_INDENTED)
        json_write_line_break(json, 2 * json->depth);
    else if (json->layout == WEIRI_JSON_LINES && is_key)
        fputc('\n', json->file);
    else if (json->layout == WEIRI_JSON_INLINE && !is_first)
        fputc(' ', json->file);
}

static void json_open_level(weiri_json_writer *json, char bracket)
{
    json_write_separator(json, 0);
    fputc(bracket, json->file);
    json->depth++;
    json->filled &= ~((uint64_t)1 << json->depth);
}

static void json_close_level(weiri_json_writer *json, char bracket)
{
    int is_filled = json->filled >> json->depth & 1;
    json->depth--;
    if (json->break_indent)
        json_write_line_break(json, json->break_indent - 1);
    else if (json->layout == WEIRI_JSON_INDENTED && is_filled)
        json_write_line_break(json, 2 * json->depth);
    fputc(bracket, json->file);
}

size_t weiri_utf8_length(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t length = c[0] < 0x80                   ? 1
                    : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                    : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
                    : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                  : 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90))
        return 0;
    return length;
}

static void json_write_string(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text) {
        size_t length = weiri_utf8_length(text);
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ' || c == 127)
            fprintf(file, "\\u%04x", c);
        else if (length == 0)
            fputc('?', file);
        else
            fwrite(text, 1, length, file);
        text += length ? length : 1;
    }
    fputc('"', file);
}

void weiri_json_break(weiri_json_writer *json, int indent)
{
    json->break_indent = 1 + indent;
}

void weiri_json_key(weiri_json_writer *json, const char *key)
{
    json_write_separator(json, 1);
    json_write_string(json->file, key);
    fputs(": ", json->file);
    json->after_key = 1;
}

void weiri_json_open_object(weiri_json_writer *json)
{
    json_open_level(json, '{');
}

void weiri_json_close_object(weiri_json_writer *json)
{
    json_close_level(json, '}');
}

void weiri_json_open_list(weiri_json_writer *json)
{
    json_open_level(json, '[');
}

void weiri_json_close_list(weiri_json_writer *json)
{
    json_close_level(json, ']');
}

void weiri_json_add_text(weiri_json_writer *json, const char *text)
{
    json_write_separator(json, 0);
    json_write_string(json->file, text);
}

void weiri_json_add_whole(weiri_json_writer *json, long long value)
{
    json_write_separator(json, 0);
    fprintf(json->file, "%lld", value);
}

void weiri_json_unsigned(weiri_json_writer *json, unsigned long long value)
{
    json_write_separator(json, 0);
    fprintf(json->file, "%llu", value);
}

void weiri_json_real_digits(weiri_json_writer *json, double value, int digits)
{
    if (!isfinite(value)) {
        weiri_json_add_null(json);
        return;
    }
    json_write_separator(json, 0);
    const locale_t before = weiri_c_locale_begin();
    fprintf(json->file, "%.*g", digits, value);
    weiri_c_locale_end(before);
}

void weiri_json_add_real(weiri_json_writer *json, double value)
{
    weiri_json_real_digits(json, value, 17);
}

void weiri_json_add_number(weiri_json_writer *json, const char *text)
{
    const char *digits = text + (text[0] == '-');
    if (digits[0] < '0' || digits[0] > '9') {
        weiri_json_add_null(json);
        return;
    }
    json_write_separator(json, 0);
    fputs(text, json->file);
}

void weiri_json_add_null(weiri_json_writer *json)
{
    json_write_separator(json, 0);
    fputs("null", json->file);
}

void weiri_json_put_text(weiri_json_writer *json, const char *key, const char *text)
{
    weiri_json_key(json, key);
    weiri_json_add_text(json, text);
}

void weiri_json_put_whole(weiri_json_writer *json, const char *key, long long value)
{
    weiri_json_key(json, key);
    weiri_json_add_whole(json, value);
}

void weiri_json_put_unsigned(weiri_json_writer *json, const char *key, unsigned long long value)
{
    weiri_json_key(json, key);
    weiri_json_unsigned(json, value);
}

void weiri_json_put_flag(weiri_json_writer *json, const char *key, int value)
{
    weiri_json_key(json, key);
    json_write_separator(json, 0);
    fputs(value ? "true" : "false", json->file);
}

void weiri_json_put_real(weiri_json_writer *json, const char *key, double value)
{
    weiri_json_key(json, key);
    weiri_json_add_real(json, value);
}

void weiri_json_put_null(weiri_json_writer *json, const char *key)
{
    weiri_json_key(json, key);
    weiri_json_add_null(json);
}

void weiri_json_put_object(weiri_json_writer *json, const char *key)
{
    weiri_json_key(json, key);
    weiri_json_open_object(json);
}

void weiri_json_put_list(weiri_json_writer *json, const char *key)
{
    weiri_json_key(json, key);
    weiri_json_open_list(json);
}
