/*
 * The GPU of a rank, as a benchmark needs it: memory, copies, one stream that
 * all operations are enqueued on, marks that time them there, and a recording
 * of operations that is replayed as one (a CUDA graph). gpu_cuda.c is built where
 * the CUDA toolkit is; gpu_none.c elsewhere, and there is then never a bench_gpu.
 *
 * Everything is local. Where nothing else is said, functions block until the
 * stream has done what was asked, and a failure leaves a line for
 * bench_job_agree in the job.
 */
#ifndef BENCH_GPU_GPU_H
#define BENCH_GPU_GPU_H

#include "bench/job/note.h"
#include <weir/weir.h>

typedef struct bench_gpu bench_gpu;

/* A GPU in words. */
typedef struct bench_gpu_info {
    char name[64];  /* "NVIDIA H200" */
    char bus[16];   /* "0000:1b:00", as nccl-tests writes it */
    int driver, runtime; /* CUDA's versions, 13000 for 13.0 */
    size_t memory_bytes, free_bytes, cache_bytes; /* the cache is the second level */
} bench_gpu_info;

/* 1 if this build can use GPUs. */
int bench_gpu_built(void);
/* Whether GPUs can be had at all: WEIR_ERR_SYSTEM with what CUDA says, where the
 * machine has none, or no driver. */
weir_status bench_gpu_probe(bench_note *note);
/* Whether comm's buffers are those of a GPU. */
int bench_gpu_serves(const weir_comm *comm);
/* Makes the communicator's device this thread's, with a stream. */
weir_status bench_gpu_open(weir_comm *comm, bench_note *note, bench_gpu **gpu);
/* NULL is allowed. */
void bench_gpu_close(bench_gpu *gpu);
void bench_gpu_describe(const bench_gpu *gpu, bench_gpu_info *info);
/* What operations are enqueued on; NULL for NULL. */
weir_stream bench_gpu_stream(const bench_gpu *gpu);

/* Memory of the device, and memory of the process that copies to it are fast
 * from. */
weir_status bench_gpu_alloc(bench_gpu *gpu, size_t bytes, void **pointer);
void bench_gpu_free(bench_gpu *gpu, void *pointer);
weir_status bench_gpu_mirror_alloc(bench_gpu *gpu, size_t bytes, void **pointer);
void bench_gpu_mirror_free(bench_gpu *gpu, void *pointer);
/* To and from the device. */
weir_status bench_gpu_push(bench_gpu *gpu, void *device, const void *host, size_t bytes);
weir_status bench_gpu_pull(bench_gpu *gpu, void *host, const void *device, size_t bytes);

/* Waits for all that was enqueued. */
weir_status bench_gpu_sync(bench_gpu *gpu);
/* Marks the place on the stream, not blocking: the start of what is timed, and
 * its end. */
weir_status bench_gpu_mark_start(bench_gpu *gpu);
weir_status bench_gpu_mark_end(bench_gpu *gpu);
/* Between both marks, once the stream has done what was asked. */
weir_status bench_gpu_marked_us(bench_gpu *gpu, double *us);

/* Keeps what enqueue puts on the stream, without running it, for replays; a
 * recording that there was is gone. What enqueue uses must live as long. */
weir_status bench_gpu_record(bench_gpu *gpu, weir_status (*enqueue)(void *context),
                             void *context);
/* Runs the recording once more. Not blocking. */
weir_status bench_gpu_replay(bench_gpu *gpu);
void bench_gpu_forget(bench_gpu *gpu);

#endif
