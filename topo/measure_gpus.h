/* The kernel side of measuring GPUs: two blocks on two GPUs that answer each other. */
#ifndef WEIR_TOPO_MEASURE_GPUS_H
#define WEIR_TOPO_MEASURE_GPUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts one end on the current device and stream: rounds times it stores the number of the
 * round into theirs, a word of the peer GPU's memory (the first end begins), and waits for it
 * in own. Ends early, with own_rounds short of rounds, when a second has passed. Writes the
 * nanoseconds of all rounds and their number. Not blocking; 0, or CUDA's error. */
int weiri_topo_gpu_ping_pong(void *stream, int is_first, uint32_t rounds, uint64_t *own,
                             uint64_t *theirs, uint64_t *ns_and_rounds);

#ifdef __cplusplus
}
#endif

#endif
