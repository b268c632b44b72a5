/*
 * JSON that is read as a stream: files of many gigabytes, of which a few values are wanted. The
 * scanner keeps one block of the file and the text of one value; what is skipped costs about as
 * much as finding the quotes in it. It checks brackets, keys and the end of the file. What it does
 * not check is harmless here: commas, and the characters within words and strings.
 */
#ifndef BENCH_REPLAY_JSON_H
#define BENCH_REPLAY_JSON_H

#include "bench/replay/read.h"

#include <stddef.h>
#include <stdint.h>

enum {
    REPLAY_JSON_BLOCK = 1 << 18,
    REPLAY_JSON_TEXT_BYTES = 1 << 17, /* longer texts are cut */
    REPLAY_JSON_DEPTH = 64
};

typedef enum replay_token {
    REPLAY_JSON_NONE, /* the end of the file, or after an error */
    REPLAY_JSON_OBJECT,
    REPLAY_JSON_ARRAY,
    REPLAY_JSON_STRING, /* text: without quotes, escapes of one character replaced */
    REPLAY_JSON_WORD,   /* text: a number, true, false, null */
    REPLAY_JSON_CLOSE   /* of the object or array that was entered last */
} replay_token;

typedef struct replay_json {
    replay_source *source;
    char *block, *text; /* of the last string or word, with a NUL */
    size_t at, end, length;
    long line;
    int is_cut; /* the text was longer than REPLAY_JSON_TEXT_BYTES */
    int depth;
    char closers[REPLAY_JSON_DEPTH];
    const char *fault;  /* NULL, or what is wrong with the file at this line */
    weir_status status; /* of reading the file */
} replay_json;

/* Reads a source by a function. What follows a fault of the JSON is left out with a note. */
weir_status replay_json_file(replay_reader *reader, replay_source *source,
                             weir_status (*read)(replay_json *json, void *context), void *context);

/* Reads the next value up to its text, enters an object or array, or leaves one. */
replay_token replay_json_next(replay_json *json);
/* Within an object: reads a key. 0: the object has ended, or an error. */
int replay_json_key(replay_json *json);
/* Whether the text of the last token is this one. */
int replay_json_is(const replay_json *json, const char *text);
/* Skips the next value as a whole. */
void replay_json_skip(replay_json *json);
/* Reads the next value as a whole into text, as it is in the file, without line ends. */
void replay_json_raw(replay_json *json);
/* Reads the next value, a whole number; otherwise returns `otherwise`. */
int64_t replay_json_whole(replay_json *json, int64_t otherwise);
/* Reads the next value, a list, and calls the function for each object in it, which it enters. */
weir_status replay_json_each(replay_json *json,
                             weir_status (*read)(replay_json *json, void *context), void *context);

/* What a key's value becomes in a struct. */
typedef enum replay_json_use {
    REPLAY_JSON_WHOLE, /* int64_t: a whole number; -1: it is none */
    REPLAY_JSON_COUNT, /* int64_t: plus 1 if the value is a whole number above 0 */
    REPLAY_JSON_REAL,  /* double */
    REPLAY_JSON_NS,    /* int64_t: microseconds, which may have decimals, in nanoseconds; -1 */
    REPLAY_JSON_TEXT,  /* char[bytes]: a string; "" if it is none or too long */
    REPLAY_JSON_BEGIN, /* char[bytes]: the beginning of a string */
    REPLAY_JSON_RAW, /* char *, malloc'd: the value's text in the file; "" if it is too long; NULL:
                         no memory, as the scanner's status says */
    REPLAY_JSON_MEMBERS /* none: an object whose keys are looked up in the same table */
} replay_json_use;

typedef struct replay_json_field {
    const char *key; /* "*part": keys that contain the part */
    uint16_t use, bytes;
    size_t at; /* offset in the struct */
} replay_json_field;

/* Fields of a struct: a whole number, a text. */
#define REPLAY_JSON_NUMBER(type, key, member)                                                      \
    {                                                                                              \
        key, REPLAY_JSON_WHOLE, 0, offsetof(type, member)                                          \
    }
#define REPLAY_JSON_STRING(type, key, member)                                                      \
    {                                                                                              \
        key, REPLAY_JSON_TEXT, sizeof((type *)0)->member, offsetof(type, member)                   \
    }

/* The keys of an object that are wanted. */
typedef struct replay_json_table {
    const replay_json_field *fields;
    size_t count;
    /* NULL, or whether an object is wanted whose first field has this text. */
    int (*is_wanted)(const char *text);
} replay_json_table;

/* Reads the members of the object that was entered last into a struct, and leaves it. 0: the rest
 * of it was skipped as unwanted. */
int replay_json_object(replay_json *json, const replay_json_table *table, void *to);

#endif
