/* The JSON writer. */
#include "bench/output/json.h"

#include <math.h>

static void separate(bench_json *json)
{
    if (json->comma)
        fputc(',', json->file);
    json->comma = 1;
}

static void open_level(bench_json *json, char bracket)
{
    separate(json);
    fputc(bracket, json->file);
    json->comma = 0;
}

static void close_level(bench_json *json, char bracket)
{
    fputc(bracket, json->file);
    json->comma = 1;
}

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

void bench_json_key(bench_json *json, const char *key)
{
    separate(json);
    fputc('\n', json->file);
    write_string(json->file, key);
    fputs(": ", json->file);
    json->comma = 0;
}

void bench_json_open_object(bench_json *json)
{
    open_level(json, '{');
}

void bench_json_close_object(bench_json *json)
{
    close_level(json, '}');
}

void bench_json_open_list(bench_json *json)
{
    open_level(json, '[');
}

void bench_json_close_list(bench_json *json)
{
    close_level(json, ']');
}

void bench_json_text(bench_json *json, const char *text)
{
    separate(json);
    write_string(json->file, text);
}

void bench_json_whole(bench_json *json, long long value)
{
    separate(json);
    fprintf(json->file, "%lld", value);
}

void bench_json_real(bench_json *json, double value)
{
    if (!isfinite(value)) {
        bench_json_null(json);
        return;
    }
    separate(json);
    fprintf(json->file, "%.17g", value);
}

void bench_json_number(bench_json *json, const char *text)
{
    const char *digits = text + (text[0] == '-');
    if (digits[0] < '0' || digits[0] > '9') {
        bench_json_null(json);
        return;
    }
    separate(json);
    fputs(text, json->file);
}

void bench_json_null(bench_json *json)
{
    separate(json);
    fputs("null", json->file);
}

void bench_json_put_text(bench_json *json, const char *key, const char *text)
{
    bench_json_key(json, key);
    bench_json_text(json, text);
}

void bench_json_put_whole(bench_json *json, const char *key, long long value)
{
    bench_json_key(json, key);
    bench_json_whole(json, value);
}

void bench_json_put_real(bench_json *json, const char *key, double value)
{
    bench_json_key(json, key);
    bench_json_real(json, value);
}
