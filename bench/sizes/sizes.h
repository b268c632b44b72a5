/* The sizes of a sweep: from -b to -e, in steps of -f or -i. All functions are pure. */
#ifndef BENCH_SIZES_SIZES_H
#define BENCH_SIZES_SIZES_H

#include "bench/options/options.h"

/* The size after bytes; 0 after the last one. Sizes only grow. */
size_t bench_sizes_next(const bench_options *options, size_t bytes);
/* The last size, and the number of sizes. */
size_t bench_sizes_last(const bench_options *options);
size_t bench_sizes_count(const bench_options *options);

#endif
