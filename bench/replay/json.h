/*
 * JSON that is read as a stream: files of many gigabytes, of which a few values are wanted. The
 * scanner keeps one block of the file and the text of one value; what is skipped costs about as
 * much as finding the quotes in it. It checks brackets, keys and the end of the file. What it does
 * not check is harmless here: commas, and the characters within words and strings.
 */
#ifndef BENCH_REPLAY_JSON_H
#define BENCH_REPLAY_JSON_H

#include "bench/replay/source.h"

#include <stdint.h>

enum {
    REPLAY_JSON_BLOCK = 1 << 18,
    REPLAY_JSON_TEXT = 1 << 17, /* longer texts are cut */
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
    int is_cut; /* the text was longer than REPLAY_JSON_TEXT */
    int depth;
    char closers[REPLAY_JSON_DEPTH];
    const char *fault;  /* NULL, or what is wrong with the file at this line */
    weir_status status; /* of reading the file */
} replay_json;

/* Begins to read a source. Local. WEIR_ERR_NO_MEMORY. Release with replay_json_close. */
weir_status replay_json_open(replay_json *json, replay_source *source);
void replay_json_close(replay_json *json);

/* Reads the next value up to its text, enters an object or array, or leaves one. */
replay_token replay_json_next(replay_json *json);
/* Within an object: reads a key. 0: the object has ended, or an error. */
int replay_json_key(replay_json *json);
/* Whether the text of the last token is this one. */
int replay_json_is(const replay_json *json, const char *text);
/* Skips the next value as a whole. */
void replay_json_skip(replay_json *json);
/* Skips what is left of the object or array that was entered last. */
void replay_json_leave(replay_json *json);
/* Reads the next value as a whole into text, as it is in the file, without line ends. */
void replay_json_raw(replay_json *json);
/* Reads the next value, a whole number; otherwise returns `otherwise`. */
int64_t replay_json_whole(replay_json *json, int64_t otherwise);
/* Reads the next value, a string, into a text of so many bytes; "" if it is none or too long. */
void replay_json_string(replay_json *json, char *to, size_t bytes);

#endif
