/*
 * Launches of the kernels in gpu_ports.cu, into the default stream. Channels, the FIFO
 * and *status are in memory that the GPU reaches; offsets and lengths in bytes. What a
 * failing wait returns goes to *status.
 */
#ifndef VERIFY_TESTS_GPU_GPU_PORTS_H
#define VERIFY_TESTS_GPU_GPU_PORTS_H

#include <weir/port_device.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_PORTS_PEERS = 8 };

/* Channels by peer; NULL where there is none. By value, as an argument of a launch. */
typedef struct gpu_ports_mesh_args {
    weir_portchan_dev *chans[GPU_PORTS_PEERS];
    int rank, nranks;
    size_t part_bytes;
    int rounds;
    int *status;
} gpu_ports_mesh_args;

/* Loads all of these kernels into the current GPU. A program does so before kernels run
 * that need its proxy: CUDA loads a kernel at its first launch, waits for what runs to
 * end meanwhile, and has the proxy wait, too. */
void gpu_ports_load(void);

/* As often as rounds say, a thread for each peer puts this rank's part to it, signals,
 * flushes, and waits for its part; in between all tell that they have read. */
void gpu_ports_mesh(const gpu_ports_mesh_args *args);
/* Puts with a signal behind it, and waits for the peer's. */
void gpu_ports_put_and_wait(weir_portchan_dev *chan, size_t to, size_t from, size_t bytes,
                            int flush, int *status);
/* blocks x threads threads put 8 bytes each; then this end waits for as many signals. */
void gpu_ports_flood(weir_portchan_dev *chan, size_t to, size_t from, int blocks, int threads,
                     int *status);

/* Measurements: the nanoseconds of each batch of rounds go to ns. */
typedef struct gpu_ports_timing {
    int rounds, batches;
    uint64_t *ns; /* batches */
    int *status;
} gpu_ports_timing;

/* Custom triggers, each awaited, or in a row and only a batch's last; ordered: behind
 * whatever was written before. */
void gpu_ports_triggers(const weir_fifo_dev *fifo, int ordered, int in_a_row,
                        const gpu_ports_timing *timing);
/* One end of a ping-pong of signals, with put_bytes >= 0 behind puts of that length. */
void gpu_ports_ping_pong(weir_portchan_dev *chan, int first, size_t to, size_t from,
                         long long put_bytes, const gpu_ports_timing *timing);

#ifdef __cplusplus
}
#endif

#endif
