/* The sizes of a sweep: from -b to -e, by -f or -i. Pure. */
#ifndef BENCH_SIZES_SIZES_H
#define BENCH_SIZES_SIZES_H

#include "bench/options/options.h"

/* The size after bytes, in bytes. 0 if the sweep ends there; sizes only grow. */
size_t bench_sizes_next(const bench_options *options, size_t bytes);
/* The last size of the sweep. */
size_t bench_sizes_last(const bench_options *options);
size_t bench_sizes_count(const bench_options *options);

#endif
