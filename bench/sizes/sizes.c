/* The sizes of a sweep: see shape.h. */
#include "bench/sizes/shape.h"

size_t bench_sizes_next(const bench_options *options, size_t bytes)
{
    size_t next;
    if (options->step_factor <= 1)
        next = bytes + options->step_bytes;
    else if (bytes == 0)
        next = 1; /* multiplying 0 would not advance */
    else if (bytes > options->max_bytes / options->step_factor)
        return 0;
    else
        next = bytes * options->step_factor;
    return next > options->max_bytes ? 0 : next;
}

size_t bench_sizes_last(const bench_options *options)
{
    size_t last = options->min_bytes;
    if (options->step_factor <= 1)
        return last + (options->max_bytes - last) / options->step_bytes * options->step_bytes;
    for (size_t next; (next = bench_sizes_next(options, last));)
        last = next;
    return last;
}
