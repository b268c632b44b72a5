/* The peers that --peer of the benchmarks of collectives names. Pure, except that a path is read to
 * find out what it is. */
#ifndef BENCH_OPTIONS_PEERS_H
#define BENCH_OPTIONS_PEERS_H

#include "bench/options/options.h"

#include <stddef.h>

/* The words of --peer, for --help; PATH is a vendor's library, or a peer in a file. */
#define BENCH_PEERS_ARGUMENT "mpi|nccl|copies|[py:]PATH[:MODE]"

/* The peer of a word or of a library's path, which has a slash; else its kind is
 * BENCH_PEER_UNKNOWN. */
bench_peer bench_peer_of(const char *text);
/* What follows the colon after the file name of a peer in a file; "" if nothing. */
const char *bench_peer_mode(const char *text);
/* Divides such a text into the path and the mode, cut where they do not fit. */
void bench_peer_split(const char *text, char *path, size_t path_bytes, char *mode,
                      size_t mode_bytes);
/* 1 if rows of both would have the same name: a library without a mode is measured in every mode.
 * Paths are compared as text. */
int bench_peer_is_same(const bench_peer *a, const bench_peer *b);
/* Writes every word, "mpi, nccl, " and so on, and what else names a peer. */
void bench_peer_list(char *text, size_t bytes);

#endif
