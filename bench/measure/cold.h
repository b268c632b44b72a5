/*
 * --cold: operations take turns on many copies of their buffers, more than the
 * last-level cache holds, so that none finds its data there. The copies lie
 * behind the buffers' first part, where checked calls run. Local.
 */
#ifndef BENCH_MEASURE_COLD_H
#define BENCH_MEASURE_COLD_H

#include <weir/weir.h>

#include <stddef.h>

struct bench_trial;

/* The copies of one trial's buffers. */
typedef struct bench_rotation {
    size_t count; /* of copies; 0: operations stay where they are */
    size_t at, step;
    char *in, *out; /* the first copies, in the mirror; in place both are the whole buffer */
    size_t in_stride_bytes, out_stride_bytes;
} bench_rotation;

/* The size of a machine's last-level cache, one of several alike. */
size_t bench_cold_cache_bytes(void);
/* What one buffer needs for copies that, with those of the other ranks at the
 * same cache, are twice as large as it; largest is the largest copy. */
size_t bench_cold_pool_bytes(int local_nranks, size_t largest);
/* The same of a GPU, whose cache is its rank's alone. */
size_t bench_cold_gpu_pool_bytes(size_t cache_bytes, size_t largest);
/* Ranks that share a last-level cache when local_nranks spread over all. Pure.
 * sharing: hardware threads at one; all: of the machine. */
int bench_cold_ranks_at_cache(int local_nranks, int sharing, int all);

/* Lays the copies out; with options->cold only. */
void bench_cold_place(struct bench_trial *trial);
/* Points the call at the buffers themselves. */
void bench_cold_reset(struct bench_trial *trial);
/* Gives every copy the input, and poisons its output. */
weir_status bench_cold_fill(struct bench_trial *trial);
/* Points the call at the next copy. */
void bench_cold_next(struct bench_trial *trial);

#endif
