/*
 * Launches the kernels of gpu_ports.cu in the default stream. Channels, the FIFO and *status must
 * be accessible to the GPU; offsets and lengths are in bytes. The status of a failed wait goes to
 * *status.
 */
#ifndef VERIFY_TESTS_GPU_GPU_PORTS_H
#define VERIFY_TESTS_GPU_GPU_PORTS_H

#include <weir/port_device.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_PORTS_PEERS = 8 };

/* Channels by peer, NULL for missing ones; passed by value as the argument of a launch. */
typedef struct gpu_ports_mesh_args {
    weir_portchan_dev *chans[GPU_PORTS_PEERS];
    int rank, nranks;
    size_t part_bytes;
    int rounds;
    int *status;
} gpu_ports_mesh_args;

/* Loads all of these kernels into the current GPU. A program must do so before it runs kernels that
 * need its proxy: CUDA loads a kernel at its first launch and meanwhile waits for running kernels
 * and blocks the proxy. */
void gpu_ports_load(void);

/* `rounds` times: one thread per peer puts this rank's part to it, signals, flushes, and waits for
 * the peer's part; between rounds all ranks confirm that they have read. */
void gpu_ports_mesh(const gpu_ports_mesh_args *args);
/* Puts, signals after it, and waits for the peer's signal. */
void gpu_ports_put_and_wait(weir_portchan_dev *chan, size_t to, size_t from, size_t bytes,
                            int flush, int *status);
/* blocks x threads threads put 8 bytes each; then this rank waits for as many signals. */
void gpu_ports_flood(weir_portchan_dev *chan, size_t to, size_t from, int blocks, int threads,
                     int *status);

/* Measurements: the nanoseconds of each batch of rounds go to ns. */
typedef struct gpu_ports_timing {
    int rounds, batches;
    uint64_t *ns; /* one per batch */
    int *status;
} gpu_ports_timing;

/* Custom triggers, each of them awaited, or only the last of a batch; ordered: after everything
 * written before. */
void gpu_ports_triggers(const weir_fifo_dev *fifo, int ordered, int in_a_row,
                        const gpu_ports_timing *timing);
/* One end of a ping-pong of signals, each after a put of put_bytes if that is >= 0. */
void gpu_ports_ping_pong(weir_portchan_dev *chan, int first, size_t to, size_t from,
                         long long put_bytes, const gpu_ports_timing *timing);

#ifdef __cplusplus
}
#endif

#endif
