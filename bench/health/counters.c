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
    bench_counters gpus[];
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
        bench_nvml *nvml = counters_open(topo, i);
        bench_nvml_count(nvml, &counters->gpus[i]);
        bench_nvml_close(nvml);
        counters->count = i + 1;
    }
    return counters;
}

void health_counters_free(health_counters *counters)
{
    free(counters);
}

/* A counter after the measurements, of which `before` had been counted before. */
static void counters_add(health_report *report, int gpu, const char *name, const char *what,
                         long long before, long long after, const char *look)
{
    char id[HEALTH_ID_BYTES], text[HEALTH_TEXT_BYTES];
    if (before < 0 || after < 0)
        return;
    snprintf(id, sizeof id, "gpu%d.%s", gpu, name);
    snprintf(text, sizeof text, "GPU %d: %s during the checks", gpu, what);
    health_check *check = health_add(report, id, text);
    health_set_value(check, (double)(after - before), "", 0);
    health_expect(check, HEALTH_AT_MOST, 0, HEALTH_MISSING, "a good device has none");
    health_look(check, look);
    if (before > 0)
        snprintf(check->detail, sizeof check->detail, "%lld before", before);
}

static void counters_add_clocks(health_report *report, int gpu, const bench_nvml_info *info)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES], reasons[BENCH_REASONS_BYTES];
    bench_clocks clocks;
    bench_clocks_clear(&clocks);
    bench_clocks_add(&clocks, &info->start);
    snprintf(id, sizeof id, "gpu%d.throttled", gpu);
    snprintf(what, sizeof what, "GPU %d: clocks lowered by power, heat or the board", gpu);
    health_check *check = health_add(report, id, what);
    health_look(check, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; cooling; power supplies");
    bench_clocks_describe(&clocks, check->detail, sizeof check->detail);
    if (clocks.silent) {
        health_set(check, HEALTH_NOTED, "the GPU does not report it");
        return;
    }
    health_set_value(check, clocks.throttled, "", 0);
    health_expect(check, HEALTH_EQUAL, 0, HEALTH_SLOW, "an idle or cooled GPU");
    if (clocks.throttled) {
        bench_clocks_reasons(&clocks, reasons);
        snprintf(check->detail, sizeof check->detail, "%s", reasons);
    }
}

static void counters_add_gpu(health_report *report, const weiri_topo *topo, int gpu,
                             const bench_counters *before)
{
    bench_nvml_info info;
    bench_counters after;
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
    bench_nvml *nvml = counters_open(topo, gpu);
    bench_nvml_describe(nvml, &info);
    if (bench_nvml_count(nvml, &after) != 0) {
        snprintf(id, sizeof id, "gpu%d.driver", gpu);
        snprintf(what, sizeof what, "GPU %d: the driver's view", gpu);
        health_check *check = health_add(report, id, what);
        health_set(check, HEALTH_SKIPPED, "%s", info.problem);
        bench_nvml_close(nvml);
        return;
    }
    bench_nvml_close(nvml);
    snprintf(id, sizeof id, "gpu%d.nvlinks", gpu);
    snprintf(what, sizeof what, "GPU %d: active NVLinks", gpu);
    if (after.links > 0) {
        health_check *check = health_add(report, id, what);
        health_set_value(check, after.links_active, "", 0);
        health_look(check, "nvidia-smi nvlink -s; the fabric manager's log; dmesg (Xid 74)");
        health_expect(check, HEALTH_EQUAL, after.links, HEALTH_MISSING, "the links of the GPU");
    }
    counters_add(report, gpu, "ecc.uncorrected", "uncorrected ECC errors", before->uncorrected,
                 after.uncorrected,
                 "nvidia-smi -q -d ECC,ROW_REMAPPER; replace the GPU if they recur");
    counters_add(report, gpu, "nvlink.errors", "NVLink errors", before->link_errors,
                 after.link_errors, "nvidia-smi nvlink -e; reseat the GPU or its bridge");
    if (info.has_start)
        counters_add_clocks(report, gpu, &info);
}

void health_check_counters(health_report *report, const weiri_topo *topo,
                           const health_counters *before)
{
    for (int i = 0; before && i < before->count; i++)
        counters_add_gpu(report, topo, i, &before->gpus[i]);
}
