/*
 * Errors that GPUs and their NVLinks have counted, and the state of their clocks. Counters are read
 * before and after the measurements: errors that appear under load count against the GPU, old ones
 * are shown.
 */
#include "bench/gpu/clocks.h"
#include "bench/health/checks.h"

#include <stdlib.h>
#include <string.h>

struct health_counters {
    int count;
    struct health_gpu_counters {
        bench_nvml *nvml; /* open, because opening takes longer than the work that is looked at */
        bench_counters before;
        bench_clocks clocks; /* while the GPU works, and at the end */
    } gpus[];
};

/* Opens NVML for a GPU of the topology, whose address ends in ".0", which NVML's bus id lacks. */
static bench_nvml *counters_open(const weiri_topo *topo, int gpu)
{
    char bus[16];
    snprintf(bus, sizeof bus, "%s", weiri_topo_gpu(topo, gpu)->pci);
    bus[strcspn(bus, ".")] = '\0';
    return bench_nvml_open(bus);
}

health_counters *health_counters_read(const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    health_counters *counters =
        calloc(1, sizeof *counters + (size_t)counts.gpus * sizeof counters->gpus[0]);
    for (int i = 0; counters && i < counts.gpus; i++) {
        counters->gpus[i].nvml = counters_open(topo, i);
        bench_nvml_count(counters->gpus[i].nvml, &counters->gpus[i].before);
        bench_clocks_clear(&counters->gpus[i].clocks);
        counters->count = i + 1;
    }
    return counters;
}

void health_counters_look(health_counters *counters, int gpu)
{
    bench_reading reading;
    if (!counters || gpu < 0 || gpu >= counters->count)
        return;
    if (bench_nvml_read(counters->gpus[gpu].nvml, &reading) == 0)
        bench_clocks_add(&counters->gpus[gpu].clocks, &reading);
}

void health_counters_free(health_counters *counters)
{
    for (int i = 0; counters && i < counters->count; i++)
        bench_nvml_close(counters->gpus[i].nvml);
    free(counters);
}

/* A counter after the measurements, of which `before` had been counted before. */
static void counters_add(health_report *report, int gpu, const char *name, const char *what,
                         long long before, long long after, const char *look)
{
    char id[HEALTH_ID_BYTES], text[HEALTH_TEXT_BYTES];
    if (before < 0)
        return;
    snprintf(id, sizeof id, "gpu%d.%s", gpu, name);
    snprintf(text, sizeof text, "GPU %d: %s during the checks", gpu, what);
    health_check *check = health_add(report, id, text);
    health_look(check, look);
    if (after < 0) {
        health_set(check, HEALTH_MISSING, "the GPU no longer reports them");
        return;
    }
    health_set_value(check, (double)(after - before), "", 0);
    health_expect(check, HEALTH_AT_MOST, 0, HEALTH_MISSING, "a good device has none");
    if (before > 0)
        snprintf(check->detail, sizeof check->detail, "%lld before", before);
}

static void counters_add_clocks(health_report *report, int gpu, const bench_clocks *readings,
                                const bench_reading *last)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES], reasons[BENCH_REASONS_BYTES];
    bench_clocks clocks = *readings;
    bench_clocks_add(&clocks, last);
    snprintf(id, sizeof id, "gpu%d.throttled", gpu);
    snprintf(what, sizeof what, "GPU %d: clocks lowered by power, heat or the board", gpu);
    health_check *check = health_add(report, id, what);
    health_look(check, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; cooling; power supplies");
    bench_clocks_describe(&clocks, check->detail, sizeof check->detail);
    if (clocks.silent == clocks.samples) {
        health_set(check, HEALTH_NOTED, "the GPU does not report it");
        return;
    }
    health_set_value(check, clocks.throttled, "", 0);
    health_expect(check, HEALTH_EQUAL, 0, HEALTH_SLOW, "an idle or cooled GPU");
    if (clocks.throttled) {
        bench_clocks_reasons(&clocks, reasons);
        snprintf(check->detail, sizeof check->detail, "%s in %d of %d readings", reasons,
                 clocks.throttled, clocks.samples);
    }
}

/* A GPU whose driver cannot be asked: a fault if the driver works and does not find it. */
static void counters_add_silent(health_report *report, int gpu, const bench_nvml_info *info)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
    snprintf(id, sizeof id, "gpu%d.driver", gpu);
    snprintf(what, sizeof what, "GPU %d: the driver's view", gpu);
    health_check *check = health_add(report, id, what);
    health_set(check, info->is_lost ? HEALTH_MISSING : HEALTH_SKIPPED, "%s", info->problem);
    health_look(check, "dmesg (Xid messages, \"fallen off the bus\"), nvidia-smi -L; "
                       "reset or replace it");
}

static void counters_add_links(health_report *report, int gpu, const bench_counters *after)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
    if (after->links <= 0)
        return;
    snprintf(id, sizeof id, "gpu%d.nvlinks", gpu);
    snprintf(what, sizeof what, "GPU %d: active NVLinks", gpu);
    health_check *check = health_add(report, id, what);
    health_set_value(check, after->links_active, "", 0);
    health_look(check, "nvidia-smi nvlink -s; the fabric manager's log; dmesg (Xid 74)");
    health_expect(check, HEALTH_EQUAL, after->links, HEALTH_MISSING, "the links of the GPU");
}

static void counters_add_gpu(health_report *report, const weiri_topo *topo, int gpu,
                             const struct health_gpu_counters *own)
{
    enum { VENDOR_NVIDIA = 0x10de };
    bench_nvml_info info;
    bench_counters after;
    if (weiri_topo_gpu(topo, gpu)->vendor_id != VENDOR_NVIDIA)
        return;
    bench_nvml *nvml = counters_open(topo, gpu);
    bench_nvml_describe(nvml, &info);
    const int is_silent = bench_nvml_count(nvml, &after) != 0;
    bench_nvml_close(nvml);
    if (is_silent) {
        counters_add_silent(report, gpu, &info);
        return;
    }
    counters_add_links(report, gpu, &after);
    counters_add(report, gpu, "ecc.uncorrected", "uncorrected ECC errors", own->before.uncorrected,
                 after.uncorrected,
                 "nvidia-smi -q -d ECC,ROW_REMAPPER; replace the GPU if they recur");
    counters_add(report, gpu, "nvlink.errors", "NVLink errors", own->before.link_errors,
                 after.link_errors, "nvidia-smi nvlink -e; reseat the GPU or its bridge");
    if (info.has_start)
        counters_add_clocks(report, gpu, &own->clocks, &info.start);
}

void health_check_counters(health_report *report, const weiri_topo *topo,
                           const health_counters *before)
{
    for (int i = 0; before && i < before->count; i++)
        counters_add_gpu(report, topo, i, &before->gpus[i]);
}
