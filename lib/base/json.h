/*
 * The JSON writer of every program: values go straight to a file, and commas, colons and line
 * breaks are added where they belong. Inside an object each value follows its key. Strings are
 * always valid JSON: control characters are escaped, and bytes that are not UTF-8 become '?'.
 * The writer neither allocates nor closes the file; write errors stay in the file's error flag.
 * Objects and arrays may be nested 63 deep. A writer belongs to one thread.
 */
#ifndef WEIR_BASE_JSON_H
#define WEIR_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum bench_json_layout {
    BENCH_JSON_LINES,    /* each key on a new line; the values of an array on one line */
    BENCH_JSON_INDENTED, /* each key and each value of an array on a new line, indented by depth */
    BENCH_JSON_INLINE    /* ", " between values; line breaks where bench_json_break puts them */
} bench_json_layout;

/* Initialise file and layout; the rest is the writer's. A copy of the structure continues from the
 * same place. */
typedef struct bench_json {
    FILE *file;
    bench_json_layout layout;
    int depth;
    uint64_t filled;  /* bit d: the object or array open at depth d has a value already */
    int after_key;    /* the next value belongs to the key just written */
    int break_indent; /* 1 + the indentation of the line that the next value starts, or 0 */
} bench_json;

void bench_json_key(bench_json *json, const char *key);
void bench_json_open_object(bench_json *json);
void bench_json_close_object(bench_json *json);
void bench_json_open_list(bench_json *json);
void bench_json_close_list(bench_json *json);
/* Starts a new line, indented by so many blanks, before the next key, value of an array, or closing
 * bracket. */
void bench_json_break(bench_json *json, int indent);

void bench_json_text(bench_json *json, const char *text);
void bench_json_whole(bench_json *json, long long value);
void bench_json_unsigned(bench_json *json, unsigned long long value);
void bench_json_flag(bench_json *json, int value);
/* NaN and infinities, which JSON lacks, become null. The first writes 17 significant digits. */
void bench_json_real(bench_json *json, double value);
void bench_json_real_digits(bench_json *json, double value, int digits);
/* Copies a number that is text already; text that does not start like a number becomes null. */
void bench_json_number(bench_json *json, const char *text);
void bench_json_null(bench_json *json);

/* A key and its value. */
void bench_json_put_text(bench_json *json, const char *key, const char *text);
void bench_json_put_whole(bench_json *json, const char *key, long long value);
void bench_json_put_flag(bench_json *json, const char *key, int value);
void bench_json_put_real(bench_json *json, const char *key, double value);
void bench_json_put_null(bench_json *json, const char *key);
void bench_json_put_object(bench_json *json, const char *key); /* opens it */
void bench_json_put_list(bench_json *json, const char *key);   /* opens it */

/* The length in bytes of the UTF-8 character at the start of text, or 0 if there is none: no
 * overlong forms, surrogates or code points above U+10FFFF. */
size_t weiri_utf8_length(const char *text);

#endif
