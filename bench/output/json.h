/*
 * A small JSON writer: values go straight to a file, commas are put where they
 * belong. Inside an object each value follows its key. Local.
 */
#ifndef BENCH_OUTPUT_JSON_H
#define BENCH_OUTPUT_JSON_H

#include <stdio.h>

typedef struct bench_json {
    FILE *file;
    int comma; /* a value stands before this place on the same level */
} bench_json;

void bench_json_key(bench_json *json, const char *key);
void bench_json_open_object(bench_json *json);
void bench_json_close_object(bench_json *json);
void bench_json_open_list(bench_json *json);
void bench_json_close_list(bench_json *json);
void bench_json_text(bench_json *json, const char *text);
void bench_json_whole(bench_json *json, long long value);
/* NaN and infinities, which JSON lacks, become null. */
void bench_json_real(bench_json *json, double value);
/* A number that is text already; what JSON has no number for (an empty text) becomes null. */
void bench_json_number(bench_json *json, const char *text);
void bench_json_null(bench_json *json);
/* A key and its value. */
void bench_json_put_text(bench_json *json, const char *key, const char *text);
void bench_json_put_whole(bench_json *json, const char *key, long long value);
void bench_json_put_real(bench_json *json, const char *key, double value);

#endif
