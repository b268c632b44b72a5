/*
 * One row of bench_blocks: a number of pages, each rank's cache, and the lists between ranks.
 *
 * A rank's cache has 3 times as many pages as a request. The first third holds what the rank sends
 * and never changes; the request's pages are anywhere in the rest, of which the others must not
 * change either. Every 8 bytes say which rank of the job wrote them first, and at which offset, so
 * that a check of any word shows what is there instead. Before each iteration each rank clears the
 * rest of its cache, and afterwards it checks all of it.
 */
#ifndef BENCH_BLOCKS_BLOCKS_TRIAL_H
#define BENCH_BLOCKS_BLOCKS_TRIAL_H

#include "bench/blocks/blocks_options.h"
#include "bench/job/job.h"
#include <weir/blocks.h>

enum {
    BLOCKS_MESSAGE_BYTES = 256,
    BLOCKS_PEERS_MOST = 64, /* that a rank has with --peer socket */
};

/* The pages that one rank sends to another: a list of weir/blocks.h, in offsets of page 0. */
typedef struct blocks_route {
    int from, to,
        unlisted; /* ranks of the group; a page of the receiver that is in none of its lists */
    size_t count;
    uint64_t *list; /* room for one entry more; owned */
    int64_t type;   /* MPI's, on this rank's side */
    int fd;         /* of the socket's floor; -1: none */
    size_t left;    /* bytes that are still to pass through it */
} blocks_route;

/* Where the data of a page come from. */
typedef struct blocks_origin {
    int rank, page; /* rank of the group; -1: the page must not change */
} blocks_origin;

/* Where the cache of a rank is. */
typedef struct blocks_process {
    int64_t pid;
    uint64_t address;
} blocks_process;

typedef struct blocks_trial {
    bench_job *job;
    const blocks_options *options;
    int rank, nranks; /* this rank's place in its group, whose ranks exchange pages */
    int *names;       /* [nranks]: the job's ranks that form the group; owned */
    int pages, cache_pages;
    size_t block_bytes, cache_bytes;
    weir_blocks_dim dims[2]; /* layers; keys and values, if they are apart */
    int ndims;
    blocks_route *sends, *receives; /* of this rank */
    int nsends, nreceives;
    blocks_origin *origins; /* of this rank's pages */
    weir_mem *mem;
    char *cache, *malloced, *stream;
    weir_blocks *blocks;
    blocks_process *processes;    /* of all ranks of the job */
    uint64_t tag, received_bytes; /* by this rank in an iteration */
    int planted;                  /* faults that have changed something on this rank */
} blocks_trial;

/* Returns how a kind of transfer is called: by candidate and algorithm. */
const char *blocks_kind_name(blocks_kind kind);

/* Allocates a cache, fills it, and makes the lists. Collective; agreed; failures are reported. */
weir_status blocks_trial_open(blocks_trial *t, bench_job *job, const blocks_options *o, int pages);
/* Collective. */
void blocks_trial_close(blocks_trial *t);
/* Clears the pages that may be received. Local. */
void blocks_trial_clear(blocks_trial *t);
/* Checks every byte of the cache; is_local: data came from this rank itself. Returns the number of
 * wrong blocks, and describes the first one in message (BLOCKS_MESSAGE_BYTES). Local. */
uint64_t blocks_trial_check(const blocks_trial *t, int is_local, char *message);

/* Moves all pages once: this rank's part. injects: the fault of the options is planted. */
weir_status blocks_transfer(blocks_trial *t, blocks_kind kind, int injects);
/* Connects the routes by sockets, collective, agreed; and moves as many bytes through them. */
weir_status blocks_socket_open(blocks_trial *t);
void blocks_socket_close(blocks_trial *t);
weir_status blocks_socket_run(blocks_trial *t);
/* Makes and frees MPI's types of all routes. */
weir_status blocks_mpi_open(blocks_trial *t);
void blocks_mpi_close(blocks_trial *t);

#endif
