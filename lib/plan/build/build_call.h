/*
 * One call of the user that appends an operation. build_ops.c fills in a weiri_build_call;
 * build_call.c checks it and appends the operation to its thread blocks. After the builder's first
 * failure these functions do nothing.
 */
#ifndef WEIR_PLAN_BUILD_BUILD_CALL_H
#define WEIR_PLAN_BUILD_BUILD_CALL_H

#include "plan/build/build.h"

/* The operation that a call describes; it is copied into each thread block. */
typedef struct weiri_build_call {
    weir_plan_builder *builder;
    const char *name;
    int rank;
    int block; /* thread block or group */
    weiri_plan_kind kind;
    weiri_plan_channel channel;
    weir_plan_sync sync;
    const uint32_t *id; /* index of its channel or semaphore; NULL: none */
    int uses_channel;   /* 1: id is a channel, which the block's list must contain */
    weiri_plan_ref dst, src;
    const weir_plan_chunks *others;
    int nothers;
} weiri_build_call;

static inline int weiri_build_call_is_ok(const weiri_build_call *call)
{
    return call->builder->status == WEIR_OK;
}

static inline int weiri_build_call_is_group(int block)
{
    return block >= WEIRI_BUILD_GROUP;
}

/* Fails the call, if none has failed before: a format as printf's, and its values. */
#define weiri_build_call_reject(call, ...)                                                         \
    weiri_build_reject((call)->builder, (call)->name, (call)->rank, __VA_ARGS__)

void weiri_build_call_check_rank(const weiri_build_call *call);
void weiri_build_call_check_block(const weiri_build_call *call);
/* Fails if the block is a group. */
void weiri_build_call_check_single(const weiri_build_call *call);
void weiri_build_call_check_sizes(const weiri_build_call *call, const weiri_plan_ref *a,
                                  const weiri_plan_ref *b);
/* Fails if the operation would write chunks that it also reads at another position. */
void weiri_build_call_check_places(const weiri_build_call *call, const weiri_plan_ref *dst,
                                   const weiri_plan_ref *src);
void weiri_build_call_check_packets(const weiri_build_call *call, const weiri_plan_ref *ref,
                                    const char *what);
void weiri_build_call_check_pipeline(const weiri_build_call *call, const weiri_plan_ref *ref);

/* Converts chunks, which must belong to rank, to a reference. what: "source", "destination". */
weiri_plan_ref weiri_build_call_ref(const weiri_build_call *call, weir_plan_chunks chunks, int rank,
                                    const char *what);

/* Appends the operation to its block or to each block of its group; append_to: to one block,
 * which handles one of nparts parts. */
void weiri_build_call_append(const weiri_build_call *call);
void weiri_build_call_append_to(const weiri_build_call *call, uint32_t number, uint32_t part,
                                uint32_t nparts);

#endif
