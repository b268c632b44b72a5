/*
 * The argument of the kernels of lib/blocks. A launch copies the blocks of one call: each warp
 * takes one part of one block after the other, checks its entry, and copies.
 *
 * Memory order. The threads of a block meet, then one of them executes a fence of system scope and
 * adds 1 to `arrived`. The one that adds last thus follows all copies; it sets `arrived` to 0 for
 * the next launch, and releases the tag, unless an entry was wrong: such a warp has added `bad`
 * before. Launches with the same tag slot of the same peer must not overlap.
 */
#ifndef WEIR_BLOCKS_CUDA_ARGS_H
#define WEIR_BLOCKS_CUDA_ARGS_H

#include "blocks/list.h"
#include "comm/gpu/gpu_view.h"

enum { BLOCKS_GPU_THREADS = 256, BLOCKS_GPU_WARP = 32 };

/* The first wrong entry that a kernel has found. In pinned memory of the host, which clears it. */
typedef struct blocks_gpu_report {
    uint64_t problem; /* BLOCKS_GPU_*; stored last */
    uint64_t entry, offset, bytes, reach, pool_bytes, rank, is_put;
} blocks_gpu_report;
enum { BLOCKS_GPU_SOURCE = 1, BLOCKS_GPU_DESTINATION };

typedef struct blocks_gpu_args {
    weiri_gpu_view view;
    blocks_list list;  /* in device memory */
    int32_t parts_log; /* each block is copied in 2^parts_log parts */
    int32_t ranks[2];  /* of the source and the destination */
    int32_t is_put;
    char *pools[2];
    uint64_t pool_bytes[2], reach[2];
    uint64_t *tag_at;         /* the peer's slot; NULL: no tag */
    const uint64_t *tag_word; /* where the tag is; NULL: it is `tag` */
    uint64_t tag;
    uint64_t *arrived; /* this rank's, one for each tag slot of each peer; 0 between launches */
    uint64_t *claimed; /* this rank's: 1 once a report was written */
    blocks_gpu_report *report;
} blocks_gpu_args;

/* The argument of a wait in a stream. */
typedef struct blocks_gpu_wait {
    weiri_gpu_view view;
    const uint64_t *word;
    uint64_t tag;
    int32_t source;
} blocks_gpu_wait;

#ifdef __cplusplus
extern "C" {
#endif
const void *weiri_blocks_gpu_copy_kernel(void);
const void *weiri_blocks_gpu_wait_kernel(void);
#ifdef __cplusplus
}
#endif

#endif
