/*
 * Launches the kernels of gpu_channels.cu in the default stream. chan and status must be accessible
 * to the GPU; offsets are as in weir/device.h.
 */
#ifndef VERIFY_TESTS_GPU_GPU_CHANNELS_H
#define VERIFY_TESTS_GPU_GPU_CHANNELS_H

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts, signals, and waits for the peer's signal. */
void gpu_channels_put_and_wait(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                               int *status);
/* Enters a barrier with the peer, then gets from it. */
void gpu_channels_wait_and_get(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                               int *status);
/* Sends as packets of 8 bytes, or of 128 bytes if wide, and receives the peer's. */
void gpu_channels_packets(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                          uint32_t flag, int wide, int *status);
void gpu_channels_barriers(weir_memchan_dev *chan, int rounds, int *status);

#ifdef __cplusplus
}
#endif

#endif
