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

typedef enum weiri_json_layout {
    WEIRI_JSON_LINES,    /* each key on a new line; the values of an array on one line */
    WEIRI_JSON_INDENTED, /* each key and each value of an array on a new line, indented by depth */
    WEIRI_JSON_INLINE    /* ", " between values; line breaks where weiri_json_break puts them */
} weiri_json_layout;

/* Initialise file and layout; the rest is the writer's. A copy of the structure continues from the
 * same place. */
typedef struct weiri_json_writer {
    FILE *file;
    weiri_json_layout layout;
    int depth;
    uint64_t filled;  /* bit d: the object or array open at depth d has a value already */
    int after_key;    /* the next value belongs to the key just written */
    int break_indent; /* 1 + the indentation of the line that the next value starts, or 0 */
} weiri_json_writer;

void weiri_json_key(weiri_json_writer *json, const char *key);
void weiri_json_open_object(weiri_json_writer *json);
void weiri_json_close_object(weiri_json_writer *json);
void weiri_json_open_list(weiri_json_writer *json);
void weiri_json_close_list(weiri_json_writer *json);
/* Starts a new line, indented by so many blanks, before the next key, value of an array, or closing
 * bracket. */
void weiri_json_break(weiri_json_writer *json, int indent);

void weiri_json_add_text(weiri_json_writer *json, const char *text);
void weiri_json_add_whole(weiri_json_writer *json, long long value);
void weiri_json_unsigned(weiri_json_writer *json, unsigned long long value);
/* NaN and infinities, which JSON lacks, become null. The first writes 17 significant digits. */
void weiri_json_add_real(weiri_json_writer *json, double value);
void weiri_json_real_digits(weiri_json_writer *json, double value, int digits);
/* Copies a number that is text already; text that does not start like a number becomes null. */
void weiri_json_add_number(weiri_json_writer *json, const char *text);
void weiri_json_add_null(weiri_json_writer *json);

/* A key and its value. */
void weiri_json_put_text(weiri_json_writer *json, const char *key, const char *text);
void weiri_json_put_whole(weiri_json_writer *json, const char *key, long long value);
void weiri_json_put_unsigned(weiri_json_writer *json, const char *key, unsigned long long value);
void weiri_json_put_flag(weiri_json_writer *json, const char *key, int value);
void weiri_json_put_real(weiri_json_writer *json, const char *key, double value);
void weiri_json_put_null(weiri_json_writer *json, const char *key);
void weiri_json_put_object(weiri_json_writer *json, const char *key); /* opens it */
void weiri_json_put_list(weiri_json_writer *json, const char *key);   /* opens it */

/* The length in bytes of the UTF-8 character at the start of text, or 0 if there is none: no
 * overlong forms, surrogates or code points above U+10FFFF. */
size_t weiri_utf8_length(const char *text);

#endif
