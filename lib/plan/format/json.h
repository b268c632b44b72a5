/*
 * The inside of the reader of plans, shared by json*.c. A reader goes through the document
 * once; after the first failure, which names where the reader stands, nothing more is done.
 */
#ifndef WEIR_PLAN_FORMAT_JSON_H
#define WEIR_PLAN_FORMAT_JSON_H

#include "plan/format/plan.h"

#include <jansson.h>

enum { WEIRI_JSON_WARNINGS_MAX = 16, WEIRI_JSON_NOWHERE = -1, WEIRI_JSON_REQUIRED = -1 };
#define WEIRI_JSON_NO_OP UINT32_MAX

typedef struct weiri_json {
    weir_plan *plan;
    int rank; /* where the reader is */
    uint32_t block, op;
    const char *warned[WEIRI_JSON_WARNINGS_MAX]; /* of the document's own keys */
    int nwarned;
    weir_status status; /* the first failure */
} weiri_json;

static inline weiri_plan_gpu *weiri_json_gpu(const weiri_json *in)
{
    return &in->plan->gpus[in->rank];
}

/* ------------------------------------------------------------- json_values.c */

/* The failure of where the reader is, if there was none before. */
void weiri_json_refuse(weiri_json *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void weiri_json_no_memory(weiri_json *in);
/* Warns of members that nobody reads, each name once; known is "|name|name|". */
void weiri_json_known(weiri_json *in, json_t *object, const char *known);
/* The value itself, which is refused if it is no object; what names it. */
json_t *weiri_json_object(weiri_json *in, json_t *value, const char *what);
/* Members. An absent array is empty (NULL); an absent number or flag is `absent`, which for a
 * number may be WEIRI_JSON_REQUIRED; texts are required, and "" where they are refused. */
json_t *weiri_json_array(weiri_json *in, json_t *object, const char *key);
uint64_t weiri_json_number(weiri_json *in, json_t *object, const char *key, uint64_t most,
                           int64_t absent);
int weiri_json_flag(weiri_json *in, json_t *object, const char *key, int absent);
const char *weiri_json_text(weiri_json *in, json_t *object, const char *key);
weir_plan_buffer weiri_json_buffer(weiri_json *in, json_t *object, const char *key);
/* The type of a word; key names it. */
weiri_plan_channel weiri_json_channel(weiri_json *in, const char *text, const char *key);
/* Appends an array's integers to the rank's ids; where they begin and how many they are. */
void weiri_json_ids(weiri_json *in, json_t *object, const char *key, uint32_t *first,
                    uint32_t *count);

/* --------------------------------------------------------------- json_rank.c */

/* A rank's program: chunks, channels, remote buffers, semaphores, thread blocks. */
void weiri_json_read_rank(weiri_json *in, json_t *object);

/* ---------------------------------------------------------------- json_ops.c */

/* A thread block's operations, behind its lists, in which their ids count. */
void weiri_json_read_ops(weiri_json *in, json_t *block);

#endif
