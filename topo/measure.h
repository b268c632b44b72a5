/*
 * Measures the links of this machine (lib/base/links.h): of cores, and of GPUs.
 */
#ifndef TOPO_MEASURE_H
#define TOPO_MEASURE_H

#include "base/links.h"
#include "programs/terminal.h"
#include "topo/topo.h"

#include <stdint.h>

/* Both show their progress between measurements; progress may be NULL. */

/* Measures the links between the places of nranks ranks: one thread at each place reads what
 * another has written, through the caches and the memory of this machine. Keeps all places busy for
 * about 20 ms per pair and one second more. Local, blocking. WEIR_ERR_INVALID: fewer than two or
 * too many ranks; WEIR_ERR_NO_MEMORY, WEIR_ERR_SYSTEM. */
weir_status weiri_topo_measure_cores(const weiri_topo *topo, int nranks, weiri_progress *progress,
                                     weiri_links **links);

/* Measures the links between all GPUs. They read from one another by their copy engines, all at
 * once by kernels too, and the faster of the two counts; latencies are those of kernels that store
 * into each other's memory. Local, blocking. WEIR_ERR_UNSUPPORTED: fewer than two GPUs, two of them
 * cannot reach each other, or a build without CUDA. */
weir_status weiri_topo_measure_gpus(const weiri_topo *topo, weiri_progress *progress,
                                    weiri_links **links);

/* Prints links as text: a matrix of bandwidths, one of latencies, and what all links reach
 * together. Write errors stay in out's error flag. */
void weiri_topo_print_links(const weiri_links *links, FILE *out);

/* The kernels that measure GPUs: a ping-pong of two blocks, and reads of a peer's memory. */

#ifdef __cplusplus
extern "C" {
#endif

/* Starts one end of a ping-pong on the current device and stream. In each round it stores the
 * round's number into `theirs`, a word of the peer GPU's memory (the first end begins), and waits
 * for it in `own`. Ends early, with fewer rounds, after one second. Writes the nanoseconds of all
 * rounds and their number to ns_and_rounds. Not blocking; returns 0 or CUDA's error. */
int weiri_topo_gpu_ping_pong(void *stream, int is_first, uint32_t rounds, uint64_t *own,
                             uint64_t *theirs, uint64_t *ns_and_rounds);

/* Starts reads of `total` bytes by all of the current device: the first `bytes` bytes of `from`,
 * repeatedly, so that launching is not part of the time. Both are powers of two of at least 16.
 * sink: a word that the kernel hardly ever writes. Not blocking; returns 0 or CUDA's error. */
int weiri_topo_gpu_read(void *stream, const void *from, uint64_t bytes, uint64_t total,
                        uint64_t *sink);

#ifdef __cplusplus
}
#endif

#endif
