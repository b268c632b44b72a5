/*
 * Measures links between GPUs in this process. Bandwidths: each pair alone by copy engines, then
 * every GPU reading from the next one at the same time, by copy engines or kernels, whichever is
 * faster. Latencies: two kernels that answer each other. The memory is from cudaMalloc; peer access
 * is enabled once and stays enabled.
 */
#include "topo/measure.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "base/error.h"

enum {
    REPEATS = 5,
    PAIR_BYTES = 256 << 20,
    LARGEST_BYTES = 256 << 20,
    SMALLEST_BYTES = 64 << 10,
    STEP = 8,
    ROUNDS = 500,
    WORD_BYTES = 256, /* a word, alone in its cache lines */
};

typedef struct gpu {
    cudaStream_t stream;
    cudaEvent_t begins, ends;
    char *source, *target;
    uint64_t *word, *result;
} gpu;

typedef struct study {
    int count;
    gpu *gpus;
    weiri_links *links;
    weiri_progress *progress;
    double done; /* links, for the progress */
} study;

/* Turns CUDA's error of the last call into a status with a message. */
static weir_status cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return WEIR_OK;
    cudaGetLastError();
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "measuring GPUs: %s: %s", what,
                      cudaGetErrorString(error));
}

static weir_status open_gpu(study *all, int index)
{
    gpu *own = &all->gpus[index];
    cudaError_t error = cudaSetDevice(index);
    for (int peer = 0; peer < all->count && error == cudaSuccess; peer++) {
        if (peer == index)
            continue;
        error = cudaDeviceEnablePeerAccess(peer, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled)
            error = (cudaGetLastError(), cudaSuccess);
    }
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&own->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreate(&own->begins);
    if (error == cudaSuccess)
        error = cudaEventCreate(&own->ends);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&own->source, LARGEST_BYTES);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&own->target, LARGEST_BYTES);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&own->word, WORD_BYTES);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&own->result, WORD_BYTES);
    if (error == cudaSuccess)
        error = cudaMemset(own->source, 1, LARGEST_BYTES);
    return cuda_status(error, "set-up, with peer access between all GPUs");
}

static void close_gpu(study *all, int index)
{
    gpu *own = &all->gpus[index];
    cudaSetDevice(index);
    if (own->stream)
        cudaStreamDestroy(own->stream);
    if (own->begins)
        cudaEventDestroy(own->begins);
    if (own->ends)
        cudaEventDestroy(own->ends);
    cudaFree(own->source);
    cudaFree(own->target);
    cudaFree(own->word);
    cudaFree(own->result);
}

/* The least time of all repetitions. */
static double least(const double *values)
{
    double found = values[0];
    for (int i = 1; i < REPEATS; i++)
        found = values[i] < found ? values[i] : found;
    return found;
}

typedef enum engine { COPY_ENGINES, KERNELS, ENGINES } engine;

/* Starts a timed read of `bytes` bytes from another GPU; kernels read them repeatedly,
 * LARGEST_BYTES in all. */
static cudaError_t start_read(study *all, int from, int to, engine by, size_t bytes)
{
    gpu *own = &all->gpus[to];
    cudaError_t error = cudaSetDevice(to);
    if (error == cudaSuccess)
        error = cudaEventRecord(own->begins, own->stream);
    if (error == cudaSuccess && by == COPY_ENGINES)
        error =
            cudaMemcpyPeerAsync(own->target, to, all->gpus[from].source, from, bytes, own->stream);
    else if (error == cudaSuccess)
        error = (cudaError_t)weiri_topo_gpu_read(own->stream, all->gpus[from].source, bytes,
                                                 LARGEST_BYTES, own->result);
    return error == cudaSuccess ? cudaEventRecord(own->ends, own->stream) : error;
}

static cudaError_t end_read(study *all, int to, double *us)
{
    float ms = 0;
    cudaError_t error = cudaEventSynchronize(all->gpus[to].ends);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(&ms, all->gpus[to].begins, all->gpus[to].ends);
    *us = ms * 1e3;
    return error;
}

static weir_status measure_pair(study *all, int from, int to)
{
    double times_us[REPEATS];
    cudaError_t error = cudaSuccess;
    for (int repeat = 0; repeat < REPEATS && error == cudaSuccess; repeat++) {
        error = start_read(all, from, to, COPY_ENGINES, PAIR_BYTES);
        if (error == cudaSuccess)
            error = end_read(all, to, &times_us[repeat]);
    }
    if (error != cudaSuccess)
        return cuda_status(error, "a copy between two GPUs");
    all->links->gbs[from * all->count + to] = PAIR_BYTES / least(times_us) * 1e-3;
    return WEIR_OK;
}

/* Records the bandwidth that the slowest GPU gets. */
static weir_status read_together(study *all, engine by, size_t bytes, double *gbs)
{
    const double read = by == KERNELS ? LARGEST_BYTES : (double)bytes;
    double slowest_us[REPEATS];
    cudaError_t error = cudaSuccess;
    for (int repeat = 0; repeat < REPEATS && error == cudaSuccess; repeat++) {
        slowest_us[repeat] = 0;
        for (int to = 0; to < all->count && error == cudaSuccess; to++)
            error = start_read(all, (to + 1) % all->count, to, by, bytes);
        for (int to = 0; to < all->count && error == cudaSuccess; to++) {
            double us = 0;
            error = end_read(all, to, &us);
            slowest_us[repeat] = us > slowest_us[repeat] ? us : slowest_us[repeat];
        }
    }
    if (error != cudaSuccess)
        return cuda_status(error, "reads between all GPUs");
    *gbs = read / least(slowest_us) * 1e-3;
    return WEIR_OK;
}

static weir_status measure_together(study *all, size_t bytes)
{
    weiri_links *links = all->links;
    double most = 0;
    weir_status status = WEIR_OK;
    for (engine by = 0; by < ENGINES && status == WEIR_OK; by++) {
        double gbs = 0;
        status = read_together(all, by, bytes, &gbs);
        most = gbs > most ? gbs : most;
    }
    links->bytes[links->nsizes] = (double)bytes;
    links->together_gbs[links->nsizes++] = most;
    return status;
}

/* Measures half a round trip, which is the same in both directions. The first end's kernel may
 * start late: its clock begins when it starts, so its times count. */
static weir_status measure_latency(study *all, int first, int second)
{
    gpu *one = &all->gpus[first], *other = &all->gpus[second];
    uint64_t result[2] = {0, 0};
    cudaError_t error = cudaSetDevice(first);
    if (error == cudaSuccess)
        error = cudaMemset(one->word, 0, WORD_BYTES);
    if (error == cudaSuccess)
        error = cudaSetDevice(second);
    if (error == cudaSuccess)
        error = cudaMemset(other->word, 0, WORD_BYTES);
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    if (error == cudaSuccess)
        error = (cudaError_t)weiri_topo_gpu_ping_pong(other->stream, 0, ROUNDS, other->word,
                                                      one->word, other->result);
    if (error == cudaSuccess)
        error = cudaSetDevice(first);
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    if (error == cudaSuccess)
        error = (cudaError_t)weiri_topo_gpu_ping_pong(one->stream, 1, ROUNDS, one->word,
                                                      other->word, one->result);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(one->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(other->stream);
    if (error == cudaSuccess)
        error = cudaMemcpy(result, one->result, sizeof result, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess)
        return cuda_status(error, "kernels that answer each other");
    if (result[1] < ROUNDS)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "measuring GPUs: GPU %d does not see what GPU %d stores", first, second);
    double us = (double)result[0] * 1e-3 / ROUNDS / 2;
    all->links->us[first * all->count + second] = all->links->us[second * all->count + first] = us;
    return WEIR_OK;
}

/* Links are most of the work: latencies of n(n-1)/2 pairs, bandwidths of n(n-1). */
static void show_progress(study *all)
{
    const double links = 1.5 * all->count * (all->count - 1);
    weiri_progress_show(all->progress, "links between GPUs", ++all->done / (links + 1));
}

static weir_status measure(study *all)
{
    weir_status status = WEIR_OK;
    for (int index = 0; index < all->count && status == WEIR_OK; index++)
        status = open_gpu(all, index);
    for (int first = 0; first < all->count && status == WEIR_OK; first++)
        for (int second = first + 1; second < all->count && status == WEIR_OK; second++) {
            status = measure_latency(all, first, second);
            show_progress(all);
        }
    for (int from = 0; from < all->count && status == WEIR_OK; from++)
        for (int to = 0; to < all->count && status == WEIR_OK; to++) {
            if (from != to)
                status = measure_pair(all, from, to);
            if (from != to)
                show_progress(all);
        }
    for (size_t bytes = SMALLEST_BYTES; bytes <= LARGEST_BYTES && status == WEIR_OK; bytes *= STEP)
        status = measure_together(all, bytes);
    for (int index = 0; index < all->count; index++)
        close_gpu(all, index);
    return status;
}

weir_status weiri_topo_measure_gpus(const weiri_topo *topo, weiri_progress *progress,
                                    weiri_links **links)
{
    study all = {.progress = progress};
    weir_status status = cuda_status(cudaGetDeviceCount(&all.count), "no driver");
    if (status != WEIR_OK)
        return status;
    if (all.count < 2 || all.count > WEIRI_LINKS_ENDPOINTS_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "measuring GPUs: CUDA finds %d; give --ranks N for the links between "
                          "cores",
                          all.count);
    status = weiri_links_create(all.count, &all.links);
    if (status != WEIR_OK)
        return status;
    all.gpus = calloc((size_t)all.count, sizeof *all.gpus);
    status = all.gpus ? measure(&all)
                      : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to measure %d GPUs", all.count);
    free(all.gpus);
    if (status != WEIR_OK) {
        weiri_links_free(all.links);
        return status;
    }
    snprintf(all.links->backend, sizeof all.links->backend, "cuda");
    weiri_topo_digest(topo, all.links->machine);
    *links = all.links;
    return WEIR_OK;
}
