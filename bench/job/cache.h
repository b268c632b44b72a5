/*
 * The last-level cache, and how much memory --cold needs to exceed it. A buffer's pool holds
 * copies of the buffer; the pools of all ranks that share a cache are together twice as large as
 * the cache. All functions are local; only bench_cache_sharers is pure.
 */
#ifndef BENCH_JOB_CACHE_H
#define BENCH_JOB_CACHE_H

#include <stddef.h>

/* Bytes of one last-level cache of this node; all are assumed to be equal. */
size_t bench_cache_bytes(void);
/* Bytes of one buffer's pool on the host backend; at least one copy of `largest` bytes. */
size_t bench_cache_pool_bytes(int local_nranks, size_t largest);
/* The same for a GPU, whose second-level cache is used by one rank. */
size_t bench_cache_gpu_pool_bytes(size_t cache_bytes, size_t largest);
/* The number of ranks per last-level cache when local_nranks ranks are spread over all caches of
 * the node. sharing: hardware threads per cache; all: hardware threads of the node. */
int bench_cache_sharers(int local_nranks, int sharing, int all);

#endif
