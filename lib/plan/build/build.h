/*
 * Internals of the plan builder: the program that the user's calls have described so far.
 *
 * The user's calls create channels, semaphores and groups (build_parts.c) and append operations to
 * thread blocks (build_ops.c, through build_call.c). weir_plan_build (build.c) then checks that
 * each signal has a wait (build_signals.c), fuses operations (build_fuse.c) and adds fences
 * (build_fence.c) in one block after another, and copies the program, once for each instance, into
 * a plan (build_emit.c). build_state.c and build_memory.c serve all of them.
 *
 * Channels and remote buffers are listed in the order of their first use, as in files of the DSL.
 */
#ifndef WEIR_PLAN_BUILD_BUILD_H
#define WEIR_PLAN_BUILD_BUILD_H

#include "plan/format/plan.h"

enum {
    WEIRI_BUILD_GROUP = 1 << 16, /* block numbers from this one on denote groups */
    WEIRI_BUILD_INSTANCES_MAX = 256,
};

/* An operation. References name ranks instead of ids of a file; ids are indices of the rank's
 * channels of the operation's type, or of its semaphores. */
typedef struct weiri_build_op {
    weiri_plan_kind kind;
    weiri_plan_channel channel;
    unsigned sync;         /* weir_plan_sync: the fences that the caller requested */
    uint32_t loop;         /* number of the pipeline that contains it, from 1; 0: none */
    uint32_t part, nparts; /* its block's part in a group of blocks */
    uint32_t barrier, nblocks;
    weiri_plan_ref *srcs, *dsts;
    uint32_t nsrcs, ndsts, *ids, nids;
} weiri_build_op;

typedef struct weiri_build_list {
    uint32_t *items, count;
} weiri_build_list;

/* A thread block: its operations, its lists of channels and remote buffers by channel type, and
 * the types in the order of their first use. */
typedef struct weiri_build_block {
    weiri_build_op *ops;
    uint32_t nops;
    weiri_build_list channels[WEIRI_PLAN_CHANNELS], remotes[WEIRI_PLAN_CHANNELS];
    weiri_plan_channel channel_order[WEIRI_PLAN_CHANNELS], remote_order[WEIRI_PLAN_CHANNELS];
    uint32_t nchannel_order, nremote_order;
} weiri_build_block;

typedef struct weiri_build_rank {
    uint32_t scratch;            /* chunks */
    weiri_build_list peers[2];   /* of its memory channels and of its port channels */
    weiri_build_list switches;   /* indices of the builder's switches */
    weiri_build_list semaphores; /* initial values */
    weiri_build_list barriers;   /* for each barrier, the index of the group that enters it */
    weiri_plan_remote *remotes;
    uint32_t nremotes;
    weiri_build_block *blocks;
    uint32_t nblocks;
} weiri_build_rank;

typedef struct weiri_build_switch {
    weir_plan_buffer buffer;
    weiri_build_list ranks;
    weiri_rank_set has;
} weiri_build_switch;

typedef struct weiri_build_loop {
    uint64_t unit_bytes;
    uint32_t num_chunks;
    uint32_t size; /* chunks of its last reference; 0: none yet */
    int is_mixed;  /* 1: its references differ in size */
} weiri_build_loop;

struct weir_plan_builder {
    weir_plan_spec spec; /* with defaults filled in; name points to the member below */
    char *name;
    weiri_build_rank *ranks;
    weiri_build_switch *switches;
    uint32_t nswitches;
    weiri_build_list *groups; /* of thread blocks */
    uint32_t ngroups;
    weiri_build_loop *loops;
    uint32_t nloops;
    uint32_t loop;      /* number of the open pipeline; 0: none */
    weir_status status; /* of the first wrong call, and its message */
    char message[384];
};

/* build_state.c */

/* Records a failure of the given call unless one is recorded already. rank negative: none. */
void weiri_build_reject(weir_plan_builder *builder, const char *call, int rank, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));
void weiri_build_no_memory(weir_plan_builder *builder);

/* Appends to a list; does nothing after a failure. */
void weiri_build_add(weir_plan_builder *builder, weiri_build_list *list, uint32_t item);
/* The position of an item in a list; the list's count if it is absent. */
uint32_t weiri_build_find(const weiri_build_list *list, uint32_t item);

/* A thread block of a rank; creates it, and those with lower numbers, if necessary. NULL: no
 * memory. */
weiri_build_block *weiri_build_block_of(weir_plan_builder *builder, int rank, uint32_t block);

void weiri_build_op_free(weiri_build_op *op);

/* build_parts.c: chunks of a rank's buffer, before they are multiplied by the instances. */
uint32_t weiri_build_chunks(const weir_plan_builder *builder, int rank, weir_plan_buffer buffer);

/* build_memory.c */

/* 1 if b must not begin before a has finished: they share chunks, and one of them writes these.
 * Reading packets that a writes is no conflict, because readers wait for packets; ports do not. */
int weiri_build_conflict(const weir_plan_builder *builder, int rank, const weiri_build_op *a,
                         const weiri_build_op *b);
/* 1 if two references share a chunk of memory. */
int weiri_build_overlap(const weir_plan_builder *builder, int rank, const weiri_plan_ref *a,
                        const weiri_plan_ref *b);
/* 1 if two references share chunks, and each shared chunk has the same position in both. */
int weiri_build_same_place(const weir_plan_builder *builder, int rank, const weiri_plan_ref *a,
                           const weiri_plan_ref *b);

/* The stages of weir_plan_build: build_signals.c, build_fuse.c, build_fence.c, build_emit.c. */
void weiri_build_check_signals(weir_plan_builder *builder, weiri_plan_channel type);
void weiri_build_fuse(weir_plan_builder *builder, int rank, weiri_build_block *block);
void weiri_build_fence(weir_plan_builder *builder, int rank, weiri_build_block *block);
weir_status weiri_build_emit(weir_plan_builder *builder, weir_plan **plan);

#endif
