/*
 * A builder inside: what its calls have said, before it is a plan.
 *
 * Calls append operations (build_ops.c) to thread blocks, about buffers, channels and what else
 * a rank has (build_parts.c). weir_plan_build (build.c) then looks whether each signal has its
 * wait (build_signals.c), works on one block at a time, with fusion (build_fuse.c) and fences
 * (build_fence.c), and copies all of it, once for every instance, into a plan (build_emit.c).
 * Channels and remote buffers are listed as they are first used, for that is the order that
 * files of the DSL have.
 */
#ifndef WEIR_PLAN_BUILD_BUILD_H
#define WEIR_PLAN_BUILD_BUILD_H

#include "plan/format/plan.h"

enum {
    WEIRI_BUILD_GROUP = 1 << 16, /* block numbers from here on are groups' */
    WEIRI_BUILD_INSTANCES_MAX = 256,
};

/* An operation. References name ranks, not a file's ids; ids count the rank's channels of the
 * operation's type, or its semaphores. */
typedef struct weiri_build_op {
    weiri_plan_kind kind;
    weiri_plan_channel channel;
    unsigned sync;         /* weir_plan_sync: fences that it asks for */
    uint32_t loop;         /* the pipeline that it is in, from 1 on; 0: none */
    uint32_t part, nparts; /* of a group of blocks */
    uint32_t barrier, nblocks;
    weiri_plan_ref *srcs, *dsts;
    uint32_t nsrcs, ndsts;
    uint32_t *ids;
    uint32_t nids;
} weiri_build_op;

typedef struct weiri_build_list {
    uint32_t *items;
    uint32_t count;
} weiri_build_list;

/* A block's lists of channels and remote buffers, by type, and the types as they came. */
typedef struct weiri_build_block {
    weiri_build_op *ops;
    uint32_t nops;
    weiri_build_list channels[WEIRI_PLAN_CHANNELS], remotes[WEIRI_PLAN_CHANNELS];
    weiri_plan_channel channel_order[WEIRI_PLAN_CHANNELS], remote_order[WEIRI_PLAN_CHANNELS];
    uint32_t nchannel_order, nremote_order;
} weiri_build_block;

typedef struct weiri_build_rank {
    uint32_t scratch; /* chunks */
    weiri_build_list peers[2]; /* of the memory and port channels */
    weiri_build_list switches; /* of the builder's */
    weiri_build_list semaphores;
    weiri_build_list barriers; /* of the builder's groups, that meet in them */
    weiri_plan_remote *remotes;
    uint32_t nremotes;
    weiri_build_block *blocks;
    uint32_t nblocks;
} weiri_build_rank;

typedef struct weiri_build_switch {
    weir_plan_buffer buffer;
    weiri_build_list ranks;
    uint64_t has; /* a bit for each rank */
} weiri_build_switch;

typedef struct weiri_build_loop {
    uint64_t unit_bytes;
    uint32_t num_chunks;
    uint32_t size; /* of its references, in chunks; 0: none yet */
    int is_mixed;  /* of several sizes */
} weiri_build_loop;

struct weir_plan_builder {
    weir_plan_spec spec; /* with its defaults; the name is the builder's */
    char *name;
    weiri_build_rank *ranks;
    weiri_build_switch *switches;
    uint32_t nswitches;
    weiri_build_list *groups; /* of thread blocks */
    uint32_t ngroups;
    weiri_build_loop *loops;
    uint32_t nloops;
    uint32_t loop; /* the one that is open; 0: none */
    weir_status status; /* of the first wrong call, and what to say of it */
    char message[384];
};

/* Keeps the first failure. rank negative: of no rank. */
void weiri_build_refuse(weir_plan_builder *builder, const char *call, int rank,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
void weiri_build_no_memory(weir_plan_builder *builder);

/* Appends to a list; after a failure nothing happens. */
void weiri_build_add(weir_plan_builder *builder, weiri_build_list *list, uint32_t item);
/* Where an item stands in a list; its count: nowhere. */
uint32_t weiri_build_find(const weiri_build_list *list, uint32_t item);

/* The block of a rank, and those before it, which may be empty. NULL: no memory. */
weiri_build_block *weiri_build_block_of(weir_plan_builder *builder, int rank, uint32_t block);

void weiri_build_op_free(weiri_build_op *op);

static inline int weiri_build_is_fence(const weiri_build_op *op)
{
    return op->kind == WEIRI_PLAN_NOP_OP || op->kind == WEIRI_PLAN_BARRIER_OP;
}

/* Chunks of a rank's buffer, of an instance. */
uint32_t weiri_build_chunks(const weir_plan_builder *builder, int rank, weir_plan_buffer buffer);

/* Whether b must not begin before a is done with the chunks that they share: one of them
 * writes these. Readers of packets wait for them, so that needs no order, but where a port
 * reads. */
int weiri_build_conflict(const weir_plan_builder *builder, int rank, const weiri_build_op *a,
                         const weiri_build_op *b);
/* Whether two references may be to the same memory, of one chunk at least. */
int weiri_build_overlap(const weir_plan_builder *builder, int rank, const weiri_plan_ref *a,
                        const weiri_plan_ref *b);
/* Whether a chunk that both have stands at the same place in both. */
int weiri_build_same_place(const weir_plan_builder *builder, int rank, const weiri_plan_ref *a,
                           const weiri_plan_ref *b);

/* The steps of weir_plan_build. */
void weiri_build_check_signals(weir_plan_builder *builder, weiri_plan_channel type);
void weiri_build_fuse(weir_plan_builder *builder, int rank, weiri_build_block *block);
void weiri_build_fence(weir_plan_builder *builder, int rank, weiri_build_block *block);
weir_status weiri_build_emit(weir_plan_builder *builder, weir_plan **plan);

#endif
