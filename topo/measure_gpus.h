/* The kernels that measure GPUs: a ping-pong of two blocks, and reads of a peer's memory. */
#ifndef TOPO_MEASURE_GPUS_H
#define TOPO_MEASURE_GPUS_H

#include <stdint.h>

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
