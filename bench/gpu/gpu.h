/*
 * The GPU of a rank: memory, copies, one stream that all operations are enqueued on, events that
 * time them on the stream, and CUDA graphs of operations that are replayed as one. gpu_cuda.c is
 * built if there is a CUDA toolkit, gpu_none.c otherwise; with the latter no bench_gpu exists.
 *
 * All functions are local. Unless stated otherwise they block until the stream has completed the
 * request, and a failure leaves a line in the note for bench_job_agree.
 */
#ifndef BENCH_GPU_GPU_H
#define BENCH_GPU_GPU_H

#include "bench/job/note.h"
#include <weir/weir.h>

typedef struct bench_gpu bench_gpu;
typedef struct bench_gpu_graph bench_gpu_graph; /* operations that have been captured */

/* The description of a GPU. */
typedef struct bench_gpu_info {
    char name[64];                                /* "NVIDIA H200" */
    char bus[16];                                 /* "0000:1b:00", as nccl-tests prints it */
    int driver, runtime;                          /* CUDA's versions, 13000 for 13.0 */
    size_t memory_bytes, free_bytes, cache_bytes; /* cache_bytes is the second-level cache */
} bench_gpu_info;

/* 1 if this build can use GPUs. */
int bench_gpu_built(void);
/* WEIR_ERR_SYSTEM, with the reason that CUDA gives, if there is no usable GPU or no driver. */
weir_status bench_gpu_probe(bench_note *note);
/* 1 if the communicator works on GPU memory. */
int bench_gpu_serves(const weir_comm *comm);
/* Makes the communicator's device current for this thread and creates a stream. note must outlive
 * the GPU. */
weir_status bench_gpu_open(weir_comm *comm, bench_note *note, bench_gpu **gpu);
/* Makes the GPU current for this thread. */
weir_status bench_gpu_enter(bench_gpu *gpu);
/* gpu may be NULL. */
void bench_gpu_close(bench_gpu *gpu);
void bench_gpu_describe(const bench_gpu *gpu, bench_gpu_info *info);
/* The stream that operations are enqueued on; NULL for NULL. */
weir_stream bench_gpu_stream(const bench_gpu *gpu);

/* Streams for calls that are in flight together: lane 0 is the stream above. bench_gpu_add_lanes
 * creates them up to `count`; bench_gpu_lane is NULL for a GPU that is NULL. */
enum { BENCH_GPU_LANES_MAX = 8 };
weir_status bench_gpu_add_lanes(bench_gpu *gpu, int count);
weir_stream bench_gpu_lane(const bench_gpu *gpu, int lane);
/* Other lanes go on after what lane 0 has been given so far; lane 0 goes on after what all others
 * have been given. Not blocking. */
weir_status bench_gpu_fork(bench_gpu *gpu);
weir_status bench_gpu_join(bench_gpu *gpu);
/* Enqueues computation on a lane: a kernel that keeps so many percent of the multiprocessors busy
 * for so long, at most 10 s. Not blocking. */
weir_status bench_gpu_compute(bench_gpu *gpu, int lane, double us, int percent);

/* Device memory; and page-locked host memory, from which copies to the device are fast. */
weir_status bench_gpu_alloc(bench_gpu *gpu, size_t bytes, void **pointer);
void bench_gpu_free(bench_gpu *gpu, void *pointer);
weir_status bench_gpu_mirror_alloc(bench_gpu *gpu, size_t bytes, void **pointer);
void bench_gpu_mirror_free(bench_gpu *gpu, void *pointer);
/* Describes device memory to another process of this host, which opens it by cuIpcOpenMemHandle. */
enum { BENCH_GPU_HANDLE_BYTES = 64 };
weir_status bench_gpu_export(bench_gpu *gpu, void *pointer,
                             unsigned char handle[BENCH_GPU_HANDLE_BYTES]);
/* Copy to and from the device. */
weir_status bench_gpu_push(bench_gpu *gpu, void *device, const void *host, size_t bytes);
weir_status bench_gpu_pull(bench_gpu *gpu, void *host, const void *device, size_t bytes);
/* Enqueues a copy within the device's memory. Not blocking. */
weir_status bench_gpu_copy(bench_gpu *gpu, void *to, const void *from, size_t bytes);

/* Waits for everything that was enqueued. */
weir_status bench_gpu_sync(bench_gpu *gpu);
/* Holds back what is enqueued on the stream from now on until bench_gpu_let_go, so that the time of
 * the host's launches is not part of a measurement; at most for some milliseconds, because a call
 * may wait for the stream. bench_gpu_let_go must follow, before the next wait for the stream. */
weir_status bench_gpu_hold(bench_gpu *gpu);
void bench_gpu_let_go(bench_gpu *gpu);
/* Records the start and the end event on the stream. Not blocking. */
weir_status bench_gpu_mark_start(bench_gpu *gpu);
weir_status bench_gpu_mark_end(bench_gpu *gpu);
/* The time between both events, once the stream has passed them. */
weir_status bench_gpu_marked_us(bench_gpu *gpu, double *us);

/* Captures what enqueue puts on the stream, without running it. What enqueue uses must live as long
 * as the graph. Release the graph with bench_gpu_forget before the GPU is closed. */
weir_status bench_gpu_record(bench_gpu *gpu, weir_status (*enqueue)(void *context), void *context,
                             bench_gpu_graph **graph);
/* Launches the graph once. Not blocking. */
weir_status bench_gpu_replay(bench_gpu *gpu, bench_gpu_graph *graph);
/* graph may be NULL. */
void bench_gpu_forget(bench_gpu_graph *graph);

#endif
