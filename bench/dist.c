/*
 * nccl-tests' generated traffic: the part for a peer blends an equal share with
 * one in proportion to the distance (to - from) mod nranks. The arithmetic is
 * done in bytes and doubles and in its order, so that byte counts agree.
 */
#include "bench/dist.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 16 };

weir_status bench_dist_parse(const char *text, bench_dist *dist)
{
    static const char prefix[] = "spread:";
    if (strcmp(text, "uniform") == 0) {
        dist->spread = 0;
        return WEIR_OK;
    }
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        return WEIR_ERR_INVALID;
    char *end = NULL;
    double spread = strtod(text + sizeof prefix - 1, &end);
    if (end == text + sizeof prefix - 1 || *end || !(spread >= 0 && spread <= 1))
        return WEIR_ERR_INVALID;
    dist->spread = spread;
    return WEIR_OK;
}

size_t bench_dist_elements(const bench_dist *dist, size_t count, size_t element_bytes, int from,
                           int to, int nranks)
{
    size_t total_bytes = count * (size_t)nranks * element_bytes;
    size_t bytes = total_bytes;
    if (nranks > 1) {
        double distance = (double)((to - from + nranks) % nranks);
        double distances = (double)nranks * (nranks - 1) / 2;
        double equal = (double)total_bytes / nranks;
        double weighted = distance * (double)total_bytes / distances;
        bytes = (size_t)((1 - dist->spread) * equal + dist->spread * weighted);
    }
    return (bytes & ~(size_t)(ALIGN_BYTES - 1)) / element_bytes;
}
