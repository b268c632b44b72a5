/*
 * Whether the sizes of a run fit the memory of nodes and GPUs: checked before buffers are
 * allocated, because a node that runs out of memory swaps, or kills a rank.
 */
#ifndef BENCH_JOB_MEMORY_H
#define BENCH_JOB_MEMORY_H

#include "bench/job/buffers.h"

#include <stdint.h>

/* The memory that a rank can use. */
typedef struct bench_memory_room {
    size_t node_bytes; /* available on its node, or in the node's control group if that is less */
    int node_ranks;    /* that share it */
    size_t gpu_bytes;  /* free on its GPU; BENCH_MEMORY_NO_GPU: it uses none */
} bench_memory_room;

#define BENCH_MEMORY_NO_GPU SIZE_MAX

/* The available memory of the node, from files below root ("" for this machine; tests use recorded
 * ones). Local. */
size_t bench_memory_available(const char *root);
/* 1 if a rank with this need has room. Pure. */
int bench_memory_holds(const bench_memory_room *room, const bench_need *need);
/* Explains a need that has no room: "buffers of 4 ranks take 4096 GiB, and 22.6 GiB of memory are
 * available". Pure. */
void bench_memory_explain(const bench_memory_room *room, const bench_need *need, char *text,
                          size_t bytes);
/* Refuses a largest size that does not fit every node and GPU, with the largest one that does; but
 * lowers options->max_bytes, with a warning, if it is a default. Collective; agreed; a refusal is
 * reported. */
weir_status bench_memory_check(bench_job *job, bench_options *options, weir_collective collective,
                               const bench_dist *dist);

#endif
