/*
 * Internals of the plan reader, shared by json*.c. json.c reads the plan and calls json_rank.c for
 * each rank, which calls json_ops.c for each thread block; all use json_values.c. The reader keeps
 * its position in weiri_json and the first failure in status; after a failure its functions do
 * nothing.
 */
#ifndef WEIR_PLAN_FORMAT_JSON_H
#define WEIR_PLAN_FORMAT_JSON_H

#include "plan/format/plan.h"

#include <jansson.h>

enum { WEIRI_JSON_WARNINGS_MAX = 16, WEIRI_JSON_NO_RANK = -1, WEIRI_JSON_REQUIRED = -1 };
#define WEIRI_JSON_NO_OP UINT32_MAX

typedef struct weiri_json {
    weir_plan *plan;
    int rank; /* position of the reader: rank, block and op */
    uint32_t block, op;
    const char *warned[WEIRI_JSON_WARNINGS_MAX]; /* unknown keys already reported */
    int nwarned;
    weir_status status; /* the first failure */
} weiri_json;

static inline weiri_plan_gpu *weiri_json_gpu(const weiri_json *in)
{
    return &in->plan->gpus[in->rank];
}

/* ------------------------------------------------------------- json_values.c */

/* Records a failure at the reader's position, unless one is recorded already. */
void weiri_json_reject(weiri_json *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void weiri_json_no_memory(weiri_json *in);
/* Logs a warning for each member that is not in known ("|name|name|"), once for each name. */
void weiri_json_known(weiri_json *in, json_t *object, const char *known);
/* Returns value; fails if it is not an object. what names it in the message. */
json_t *weiri_json_object(weiri_json *in, json_t *value, const char *what);
/* Read a member. A missing array is NULL; a missing number or flag is `absent`, where
 * WEIRI_JSON_REQUIRED makes a missing number a failure. Texts and buffers are required; a text is
 * "" after a failure. */
json_t *weiri_json_array(weiri_json *in, json_t *object, const char *key);
uint64_t weiri_json_number(weiri_json *in, json_t *object, const char *key, uint64_t most,
                           int64_t absent);
/* The same for a required number of 32 bits. */
uint32_t weiri_json_count(weiri_json *in, json_t *object, const char *key, uint32_t most);
int weiri_json_flag(weiri_json *in, json_t *object, const char *key, int absent);
const char *weiri_json_text(weiri_json *in, json_t *object, const char *key);
weir_plan_buffer weiri_json_buffer(weiri_json *in, json_t *object, const char *key);
/* The channel type that text names; key is for the message. */
weiri_plan_channel weiri_json_channel(weiri_json *in, const char *text, const char *key);
/* Appends the integers of an array to the rank's ids, and returns their range. */
void weiri_json_ids(weiri_json *in, json_t *object, const char *key, uint32_t *first,
                    uint32_t *count);

/* --------------------------------------------------------------- json_rank.c */

/* Reads a rank: its chunks, channels, remote buffers, semaphores and thread blocks. */
void weiri_json_read_rank(weiri_json *in, json_t *object);

/* ---------------------------------------------------------------- json_ops.c */

/* Reads the operations of a thread block, whose lists must have been read before. */
void weiri_json_read_ops(weiri_json *in, json_t *block);

#endif
