/*
 * The memory of the simulated ranks: who owns an address, how many bytes each rank has loaded from
 * and stored to each other one's memory, where copies of it are in caches, and how long accesses
 * take.
 *
 * Every rank owns one part of an arena, which is address space: its area, its buffers. The counts
 * follow from the library's accesses alone. Bytes that cross between NUMA nodes when caches are
 * considered, and times, follow from a model: lines (of long buffers blocks of 512 B)
 * are in a core's own caches, in last-level caches or in memory; a cache keeps what was brought in
 * last, up to its size; a store removes the block from the other caches. Memory controllers, links
 * between NUMA nodes and ports of last-level caches serve one access after another.
 */
#ifndef WEIR_TESTS_SIM_HOST_MEMORY_H
#define WEIR_TESTS_SIM_HOST_MEMORY_H

#include "verify/tests/sim/host/machine.h"

#include <stdint.h>

typedef struct sim_counts {
    uint64_t loaded[SIM_RANKS_MAX][SIM_RANKS_MAX]; /* by the first rank, memory of the second */
    uint64_t stored[SIM_RANKS_MAX][SIM_RANKS_MAX];
    uint64_t link[SIM_NODES_MAX][SIM_NODES_MAX]; /* moved between NUMA nodes, with caches */
    uint64_t memory[SIM_NODES_MAX];              /* moved by a node's memory controllers */
    uint64_t lines, far_lines;                   /* of flags, that a rank got from another one */
} sim_counts;

/* Reserves an arena with so many bytes for each rank; caches are empty. Releases the one before. */
void sim_memory_create(const sim_machine *machine, size_t bytes_each);
/* A rank's part of the arena. */
char *sim_memory_of(int rank);
/* The owner of an address; -1: memory outside the arena, which its user owns. */
int sim_memory_owner(const void *address);

sim_counts *sim_memory_counts(void);
void sim_memory_clear_counts(void);

/* An access of the running rank: loads and stores that overlap in time. */
typedef enum sim_store_kind {
    SIM_STORE_CACHED,
    SIM_STORE_UNFETCHED,
    SIM_STORE_PAST
} sim_store_kind;
typedef struct sim_access {
    int rank;
    double begin_ns, core_ns, end_ns;
} sim_access;
sim_access sim_access_begin(void);
void sim_access_load(sim_access *access, const void *from, size_t bytes);
void sim_access_store(sim_access *access, void *to, size_t bytes, sim_store_kind kind);
/* Lets the access's time pass. */
void sim_access_end(const sim_access *access);

/* Words that ranks poll, one in each line. A load gets the line if another rank has stored to it
 * since. */
void sim_word_load(const uint64_t *word);
void sim_word_wait(const uint64_t *word, uint64_t target);
void sim_word_store(uint64_t *word, uint64_t value);
uint64_t sim_word_add(uint64_t *word, uint64_t value);
/* Waits until any rank has stored a word since this rank's last such wait. */
void sim_word_wait_any(void);

#endif
