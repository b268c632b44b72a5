/* The kernels that measure GPUs: two blocks that answer each other, and reads of a peer. */
#ifndef TOPO_MEASURE_GPUS_H
#define TOPO_MEASURE_GPUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts one end on the current device and stream: rounds times it stores the number of the
 * round into theirs, a word of the peer GPU's memory (the first end begins), and waits for it
 * in own. Ends early, with fewer rounds, when a second has passed. Writes to ns_and_rounds the
 * nanoseconds of all rounds and their number. Not blocking; 0, or CUDA's error. */
int weiri_topo_gpu_ping_pong(void *stream, int is_first, uint32_t rounds, uint64_t *own,
                             uint64_t *theirs, uint64_t *ns_and_rounds);

/* Starts reads of `total` bytes by all of the current device, which are the first `bytes` of
 * from, over and over, so that what starts one is not in the time. Both are powers of two, of 16
 * at least. sink: a word that is hardly ever written. Not blocking; 0, or CUDA's error. */
int weiri_topo_gpu_read(void *stream, const void *from, uint64_t bytes, uint64_t total,
                        uint64_t *sink);

#ifdef __cplusplus
}
#endif

#endif
