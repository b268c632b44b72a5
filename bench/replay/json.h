/*
 * JSON that is read as a stream: files of many gigabytes, of which some objects are wanted. The
 * scanner copies one value after the other as text, in which functions find members. It checks
 * brackets, keys of the file's object and the end of the file. What it does not check is harmless
 * here: commas, and the characters within words and strings.
 */
#ifndef BENCH_REPLAY_JSON_H
#define BENCH_REPLAY_JSON_H

#include "bench/replay/read.h"

#include <stddef.h>
#include <stdint.h>

enum { REPLAY_JSON_TEXT_BYTES = 1 << 17 /* longer values are cut */ };

/* A value as it is in the file, without line ends. The text may be changed. */
typedef struct replay_json_value {
    const char *key; /* of a member of the file's object; NULL: an object */
    char *text;
    long line; /* where it begins */
    int is_cut;
} replay_json_value;

typedef weir_status (*replay_json_use)(void *context, const replay_json_value *value);

/* Calls the function for each object of a file (list NULL); or for the members of the file's object
 * and for each object in the member `list`. What follows a fault is left out with a note. */
weir_status replay_json_read(replay_reader *reader, replay_source *source, const char *list,
                             replay_json_use use, void *context);

/* Finds the first member with a key in a value, at any depth. Returns its value; NULL: none. Pure.
 */
char *replay_json_find(const char *text, const char *key);
/* Ends a text behind its first value. */
void replay_json_end(char *value);
/* What a value is; value may be NULL. Pure. -1: no whole number; no time in microseconds, which
 * becomes nanoseconds; NAN: no number. */
int64_t replay_json_whole(const char *value);
int64_t replay_json_ns(const char *value);
double replay_json_real(const char *value);
/* Copies a string without its escapes of one character; "" if it is none. Returns 0 if only its
 * beginning fits. */
int replay_json_text(const char *value, char *to, size_t bytes);

/* A member of a value: a string, "" if it is none or does not fit; a whole number, or -1. Pure. */
void replay_json_string(const char *object, const char *key, char *to, size_t bytes);
int64_t replay_json_number(const char *object, const char *key);

#endif
