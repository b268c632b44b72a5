/*
 * A call of a builder that makes an operation: what build_ops.c fills in, and what checks it
 * and appends it (build_call.c). After the builder's first failure none of these does anything.
 */
#ifndef WEIR_PLAN_BUILD_BUILD_CALL_H
#define WEIR_PLAN_BUILD_BUILD_CALL_H

#include "plan/build/build.h"

/* Where a call is, and what it makes. Its references and ids are copied into each block. */
typedef struct weiri_call {
    weir_plan_builder *builder;
    const char *name;
    int rank;
    int block; /* or a group */
    weiri_plan_kind kind;
    weiri_plan_channel channel;
    weir_plan_sync sync;
    const uint32_t *id; /* of its channel or semaphore; NULL: none */
    int uses_channel;   /* the block's list has it */
    weiri_plan_ref dst;
    weiri_plan_ref src;
    const weir_plan_chunks *others;
    int nothers;
} weiri_call;

static inline int weiri_call_goes_on(const weiri_call *the)
{
    return the->builder->status == WEIR_OK;
}

static inline int weiri_call_is_group(int block)
{
    return block >= WEIRI_BUILD_GROUP;
}

void weiri_call_check_rank(const weiri_call *the);
void weiri_call_check_block(const weiri_call *the);
/* The block is no group. */
void weiri_call_check_single(const weiri_call *the);
void weiri_call_check_sizes(const weiri_call *the, const weiri_plan_ref *a,
                            const weiri_plan_ref *b);
/* What an operation reads it must not write at another place at the same time. */
void weiri_call_check_places(const weiri_call *the, const weiri_plan_ref *dst,
                             const weiri_plan_ref *src);
void weiri_call_check_packets(const weiri_call *the, const weiri_plan_ref *ref,
                              const char *what);
void weiri_call_check_pipeline(const weiri_call *the, const weiri_plan_ref *ref);

/* Chunks, which are to be a rank's, as a reference. what: "source", "destination". */
weiri_plan_ref weiri_call_ref(const weiri_call *the, weir_plan_chunks chunks, int rank,
                              const char *what);

/* Appends the operation to its block, or to each of its group's; or to one block, as so many
 * parts' part. */
void weiri_call_append(const weiri_call *the);
void weiri_call_append_to(const weiri_call *the, uint32_t number, uint32_t part,
                          uint32_t nparts);

#endif
