/*
 * Included before the first line of the library's host algorithms when they are compiled for this
 * simulation: their copies, reductions, flags and waits become functions of hooks.c, which count
 * and time them. The algorithms' own lines are the library's.
 */
#ifndef WEIR_TESTS_SIM_HOST_HOOKS_H
#define WEIR_TESTS_SIM_HOST_HOOKS_H

#include "comm/comm.h"
#include "compute/copy.h"
#include "compute/reduce.h"

#include <string.h>

void *sim_memcpy(void *to, const void *from, size_t bytes);
void sim_copy(void *to, const void *from, size_t bytes);
void sim_copy_streaming(void *to, const void *from, size_t bytes);
void sim_copy_to_peer(void *to, const void *from, size_t bytes);
void sim_copy_from_peer(void *to, const void *from, size_t bytes);
void sim_copy_unfetched(void *to, const void *from, size_t bytes);
int sim_copies_unfetched(size_t total_bytes);
size_t sim_streaming_threshold_bytes(void);
int sim_never(void);
void sim_prefetch(const void *from, size_t bytes);
void sim_request_for_writing(const void *block, size_t bytes);

void sim_reduce(void *dst, const void *const *src, int nsrc, size_t count, weir_dtype dtype,
                weir_op op, uint64_t divisor, int streaming);
weiri_reduce_fn sim_reduce_get(weir_dtype dtype, weir_op op);

uint64_t sim_load(const uint64_t *word);
void sim_store(uint64_t *word, uint64_t value);
uint64_t sim_add(uint64_t *word, uint64_t value);
weir_status sim_wait(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                     const char *phase);
weir_status sim_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word, uint64_t target,
                     int peer, const char *phase);

weir_status sim_peer_copy_read(weir_comm *comm, int rank, uint64_t address, void *to, size_t bytes);
weir_status sim_peer_copy_write(weir_comm *comm, int rank, uint64_t address, const void *from,
                                size_t bytes);
weiri_desc sim_region_describe(const weir_comm *comm, const void *pointer, size_t bytes);
weir_status sim_region_pointer(weir_comm *comm, int rank, weiri_desc desc, char **pointer);

#ifndef SIM_HOOKS_THEMSELVES
#define memcpy sim_memcpy
#define weiri_copy sim_copy
#define weiri_copy_streaming sim_copy_streaming
#define weiri_copy_to_peer sim_copy_to_peer
#define weiri_copy_from_peer sim_copy_from_peer
#define weiri_copy_unfetched sim_copy_unfetched
#define weiri_copies_unfetched sim_copies_unfetched
#define weiri_streaming_threshold_bytes sim_streaming_threshold_bytes
#define weiri_copy_to_peers_is_far sim_never
#define weiri_copy_to_peer_is_timed sim_never
#define weiri_copy_from_peers_is_slow sim_never
#define weiri_prefetch sim_prefetch
#define weiri_request_for_writing sim_request_for_writing
#define weiri_reduce sim_reduce
#define weiri_reduce_get sim_reduce_get
#define weir_load_acquire sim_load
#define weir_store_release sim_store
#define weiri_comm_wait sim_wait
#define weiri_comm_idle sim_idle
#define weiri_peer_copy_read sim_peer_copy_read
#define weiri_peer_copy_write sim_peer_copy_write
#define weiri_region_describe sim_region_describe
#define weiri_region_pointer sim_region_pointer
#include "coll/coll.h"
#define weiri_claim(coll) sim_add(&(coll)->areas[0].claimed[(coll)->epoch & 1].value, 1)
#endif

#endif
