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

/* The GPU that is measured: its numbers by CUDA, which CUDA_VISIBLE_DEVICES changes, and in the
 * topology. */
typedef struct copy_gpu {
    int device, gpu;
    cudaStream_t stream;
    cudaEvent_t start, end;
    void *host, *memory, *other;
    const weiri_topo *topo;
    health_counters *counters;
} copy_gpu;

/* Enqueues a row of copies between two events. */
static cudaError_t gpu_start_copies(const copy_gpu *own, void *to, const void *from)
{
    cudaError_t error = cudaEventRecord(own->start, own->stream);
    for (int k = 0; k < COPIES && error == cudaSuccess; k++)
        error = cudaMemcpyAsync(to, from, COPY_BYTES, cudaMemcpyDefault, own->stream);
    return error == cudaSuccess ? cudaEventRecord(own->end, own->stream) : error;
}

/* GB/s of the fastest row of copies, or 0 with the error in *error. */
static double gpu_copy_gbs(const copy_gpu *own, void *to, const void *from, int repeats,
                           cudaError_t *error)
{
    double best = 0;
    for (int i = 0; i < repeats && *error == cudaSuccess; i++) {
        float ms = 0;
        *error = gpu_start_copies(own, to, from);
        if (*error == cudaSuccess && i == 0)
            health_counters_look(own->counters, own->gpu);
        if (*error == cudaSuccess)
            *error = cudaEventSynchronize(own->end);
        if (*error == cudaSuccess)
            *error = cudaEventElapsedTime(&ms, own->start, own->end);
        if (*error == cudaSuccess && ms > 0) {
            const double gbs = (double)COPIES * COPY_BYTES / (ms * 1e6);
            best = gbs > best ? gbs : best;
        }
    }
    return best;
}

/* The number in the topology of a CUDA device; the same if its address is unknown there. */
static int gpu_in_topology(const weiri_topo *topo, int device)
{
    char bus[32];
    int gpu = -1;
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess)
        gpu = weiri_topo_gpu_by_pci(topo, bus);
    cudaGetLastError();
    return gpu >= 0 ? gpu : device;
}

/* Host memory is allocated by a thread on the cores next to the GPU, which decides where it is. */
static cudaError_t gpu_open(copy_gpu *own)
{
    cudaError_t error = cudaSetDevice(own->device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&own->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreate(&own->start);
    if (error == cudaSuccess)
        error = cudaEventCreate(&own->end);
    weiri_topo_visit_gpu(own->topo, own->gpu);
    if (error == cudaSuccess)
        error = cudaHostAlloc(&own->host, COPY_BYTES, cudaHostAllocDefault);
    if (error == cudaSuccess)
        error = cudaMalloc(&own->memory, COPY_BYTES);
    if (error == cudaSuccess)
        error = cudaMalloc(&own->other, COPY_BYTES);
    return error;
}

static void gpu_close(copy_gpu *own)
{
    weiri_topo_visit_gpu(own->topo, -1);
    cudaFree(own->other);
    cudaFree(own->memory);
    cudaFreeHost(own->host);
    if (own->end)
        cudaEventDestroy(own->end);
    if (own->start)
        cudaEventDestroy(own->start);
    if (own->stream)
        cudaStreamDestroy(own->stream);
    cudaGetLastError();
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

static void gpu_check_copies_of(health_report *report, copy_gpu *own, int repeats)
{
    static const char pcie[] = "the PCIe link (lspci -vv: LnkSta), NUMA placement, IOMMU settings";
    cudaError_t error = gpu_open(own);
    const double to_gbs = gpu_copy_gbs(own, own->memory, own->host, repeats, &error);
    const double from_gbs = gpu_copy_gbs(own, own->host, own->memory, repeats, &error);
    /* A copy within the GPU reads and writes its memory. */
    const double within_gbs = 2 * gpu_copy_gbs(own, own->other, own->memory, repeats, &error);
    gpu_add_copy(report, own->gpu, "from-host", "copy from the host", to_gbs, error, pcie);
    gpu_add_copy(report, own->gpu, "to-host", "copy to the host", from_gbs, error, pcie);
    gpu_add_copy(report, own->gpu, "within", "copy within its memory, read and written", within_gbs,
                 error, "nvidia-smi -q -d ECC,CLOCK; other processes on the GPU");
    gpu_close(own);
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
    snprintf(check->detail, sizeof check->detail, "GPU %d reads from GPU %d",
             gpu_in_topology(topo, slow_to), gpu_in_topology(topo, slow_from));
    weiri_links_free(links);
}

void health_check_gpu_copies(health_report *report, const health_settings *settings,
                             const weiri_topo *topo, health_counters *counters)
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
        copy_gpu own = {
            .device = i, .gpu = gpu_in_topology(topo, i), .topo = topo, .counters = counters};
        gpu_check_copies_of(report, &own, settings->level == HEALTH_QUICK ? 2 : 6);
    }
    gpu_check_peers(report, settings, topo, ngpus);
}
