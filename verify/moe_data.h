/* The inside of the oracle of expert parallelism: its tables, rows and routings. */
#ifndef VERIFY_MOE_DATA_H
#define VERIFY_MOE_DATA_H

#include "verify/moe.h"

#include <stddef.h>

enum { MOE_BLOCK = 128 };

/* The rows that a rank receives, in order of their places. choice: of expert-major rows, the choice
 * that the row serves; of others, the token's first choice on the rank. */
typedef struct moe_place {
    int row, bin, source, token, choice;
} moe_place;

typedef struct moe_places {
    int rank; /* whose they are; -1: not computed */
    int count, room, end_row;
    moe_place *of;
    int32_t *counts, *offsets; /* [local experts]: rows or pairs, first rows */
    int32_t *sources;          /* [nranks]: rows of each source */
} moe_places;

typedef struct moe_version {
    int *tokens;      /* [nranks] */
    int32_t *experts; /* [nranks, max_tokens, topk] */
    float *weights;   /* the same */
    moe_places places;
} moe_version;

struct weirv_moe {
    weirv_moe_shape shape;
    int local_experts, row_blocks, tail; /* tail: elements of the last block */
    size_t element_bytes, row_bytes, sent_row_bytes;
    uint64_t blocks, rows;       /* of the table; row numbers in use */
    uint64_t token_rows;         /* rows below this number are tokens, others outputs */
    char *elements;              /* [blocks, 128] of dtype */
    float *values;               /* [blocks, 128] */
    uint8_t *fp8, *fp8_tail;     /* [blocks, 128]: as sent; the tail is shorter */
    float *scales, *scales_tail; /* [blocks] */
    int32_t *next;               /* [local experts]: scratch */
    moe_version versions[WEIRV_MOE_VERSIONS];
    const int *names;    /* [nranks]: of ranks, in messages; NULL: their numbers; borrowed */
    uint64_t trace_hash; /* of all lines of the trace */
    float *sum;          /* [hidden]: scratch */
    char *expected;      /* a row: scratch */
};

/* A row's origin. */
typedef struct moe_origin {
    int version, source, token, choice; /* choice -1: a token */
} moe_origin;

static inline uint64_t moe_block_of(const weirv_moe *o, uint64_t row, int j)
{
    const uint64_t stride = 1 + row / o->blocks % (o->blocks - 1);
    return (row % o->blocks + (uint64_t)j * stride) % o->blocks;
}

/* Writes a row by its number. */
void moe_fill_row(const weirv_moe *o, uint64_t row, char *to);
uint64_t moe_row_number(const weirv_moe *o, moe_origin origin);
/* Finds a row by its first two blocks, in dtype or as sent. Returns 0 if it is none. */
int moe_identify(const weirv_moe *o, const void *row, const float *scales, moe_origin *origin);
/* Finds an output by the values of its first block, each within `error`. */
int moe_identify_values(const weirv_moe *o, const float *values, int count, float error,
                        uint64_t *first_block);
/* Makes the routings of all versions. */
int moe_route(weirv_moe *o, char *problem);
/* Computes the rows of a rank, or finds those of the latest call. NULL: no memory. */
const moe_places *moe_places_of(weirv_moe *oracle, int version, int rank);
void moe_to_element(weir_dtype dtype, float value, void *element);

static inline const int32_t *moe_token_experts(const weirv_moe *o, int version, int source,
                                               int token)
{
    const weir_moe_config *c = &o->shape.config;
    return o->versions[version].experts +
           ((size_t)source * (size_t)c->max_tokens + (size_t)token) * (size_t)c->topk;
}

#endif
