/*
 * Copies between the host and GPUs, within a GPU and between GPUs, by the copy engines, as
 * nvbandwidth's tests of the same names measure them: one stream, events around a row of copies
 * from and to page-locked memory.
 */
#include "bench/health/checks.h"
#include "topo/measure.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>

enum { COPY_BYTES = 256 << 20, COPIES = 8 };

typedef struct copy_engine {
    cudaStream_t stream;
    cudaEvent_t start, end;
} copy_engine;

/* GB/s of a copy, or 0 with the error in *error. */
static double gpu_copy_gbs(const copy_engine *engine, void *to, const void *from, int repeats,
                           cudaError_t *error)
{
    double best = 0;
    for (int i = 0; i < repeats && *error == cudaSuccess; i++) {
        float ms = 0;
        *error = cudaEventRecord(engine->start, engine->stream);
        for (int k = 0; k < COPIES && *error == cudaSuccess; k++)
            *error = cudaMemcpyAsync(to, from, COPY_BYTES, cudaMemcpyDefault, engine->stream);
        if (*error == cudaSuccess)
            *error = cudaEventRecord(engine->end, engine->stream);
        if (*error == cudaSuccess)
            *error = cudaEventSynchronize(engine->end);
        if (*error == cudaSuccess)
            *error = cudaEventElapsedTime(&ms, engine->start, engine->end);
        if (*error == cudaSuccess && ms > 0) {
            const double gbs = (double)COPIES * COPY_BYTES / (ms * 1e6);
            best = gbs > best ? gbs : best;
        }
    }
    return best;
}

static void gpu_add_copy(health_report *report, int gpu, const char *name, const char *what,
                         double gbs, cudaError_t error, const char *look)
{
    char id[HEALTH_ID_BYTES], text[HEALTH_TEXT_BYTES];
    snprintf(id, sizeof id, "gpu%d.copy.%s", gpu, name);
    snprintf(text, sizeof text, "GPU %d: %s", gpu, what);
    health_check *check = health_add(report, id, text);
    health_look(check, look);
    if (error == cudaSuccess)
        health_set_value(check, gbs, "GB/s", 1);
    else
        health_set(check, HEALTH_BROKEN, "CUDA: %s", cudaGetErrorString(error));
}

static void gpu_check_copies_of(health_report *report, int gpu, int repeats)
{
    static const char pcie[] = "the PCIe link (lspci -vv: LnkSta), NUMA placement, IOMMU settings";
    void *host = NULL, *device = NULL, *other = NULL;
    copy_engine engine = {0};
    double to_gbs = 0, from_gbs = 0, within_gbs = 0;
    cudaError_t error = cudaSetDevice(gpu);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&engine.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreate(&engine.start);
    if (error == cudaSuccess)
        error = cudaEventCreate(&engine.end);
    if (error == cudaSuccess)
        error = cudaHostAlloc(&host, COPY_BYTES, cudaHostAllocDefault);
    if (error == cudaSuccess)
        error = cudaMalloc(&device, COPY_BYTES);
    if (error == cudaSuccess)
        error = cudaMalloc(&other, COPY_BYTES);
    to_gbs = gpu_copy_gbs(&engine, device, host, repeats, &error);
    from_gbs = gpu_copy_gbs(&engine, host, device, repeats, &error);
    /* A copy within the GPU reads and writes its memory. */
    within_gbs = 2 * gpu_copy_gbs(&engine, other, device, repeats, &error);
    gpu_add_copy(report, gpu, "from-host", "copy from the host", to_gbs, error, pcie);
    gpu_add_copy(report, gpu, "to-host", "copy to the host", from_gbs, error, pcie);
    gpu_add_copy(report, gpu, "within", "copy within its memory, read and written", within_gbs,
                 error, "nvidia-smi -q -d ECC,CLOCK; other processes on the GPU");
    cudaFree(other);
    cudaFree(device);
    cudaFreeHost(host);
    if (engine.end)
        cudaEventDestroy(engine.end);
    if (engine.start)
        cudaEventDestroy(engine.start);
    if (engine.stream)
        cudaStreamDestroy(engine.stream);
    cudaGetLastError();
}

/* The slowest pair of GPUs. */
static void gpu_check_peers(health_report *report, const health_settings *settings,
                            const weiri_topo *topo, int ngpus)
{
    weiri_links *links;
    int slow_from = 0, slow_to = 1;
    if (ngpus < 2)
        return;
    health_check *check = health_add(report, "gpus.links", "between GPUs, slowest pair");
    health_look(check, "weir-topo --measure shows every pair; nvidia-smi topo -m; NVLink states");
    if (weiri_topo_measure_gpus(topo, settings->progress, &links) != WEIR_OK) {
        health_set(check, HEALTH_BROKEN, "%s", weir_last_error());
        return;
    }
    const size_t n = (size_t)links->endpoints;
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++)
            if (from != to &&
                links->gbs[from * n + to] < links->gbs[(size_t)slow_from * n + (size_t)slow_to]) {
                slow_from = (int)from;
                slow_to = (int)to;
            }
    health_set_value(check, links->gbs[(size_t)slow_from * n + (size_t)slow_to], "GB/s", 1);
    snprintf(check->detail, sizeof check->detail, "GPU %d reads from GPU %d", slow_to, slow_from);
    weiri_links_free(links);
}

void health_check_gpu_copies(health_report *report, const health_settings *settings,
                             const weiri_topo *topo)
{
    weiri_topo_counts counts;
    int ngpus = 0;
    weiri_topo_count(topo, &counts);
    if (counts.gpus == 0)
        return;
    if (cudaGetDeviceCount(&ngpus) != cudaSuccess)
        ngpus = 0;
    cudaGetLastError();
    health_check *check = health_add(report, "gpus.usable", "GPUs that CUDA can use");
    health_look(check, "nvidia-smi, CUDA_VISIBLE_DEVICES, dmesg (Xid messages)");
    health_set_value(check, ngpus, "", 0);
    if (!getenv("CUDA_VISIBLE_DEVICES"))
        health_expect(check, HEALTH_EQUAL, counts.gpus, HEALTH_MISSING, "the GPUs on the PCIe bus");
    for (int i = 0; i < ngpus; i++) {
        weiri_progress_show(settings->progress, "GPU copies", 0);
        gpu_check_copies_of(report, i, settings->level == HEALTH_QUICK ? 2 : 6);
    }
    gpu_check_peers(report, settings, topo, ngpus);
}
