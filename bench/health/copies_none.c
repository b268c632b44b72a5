/* A build without CUDA measures no copies of GPUs. */
#include "bench/health/checks.h"

void health_check_gpu_copies(health_report *report, const health_settings *settings,
                             const weiri_topo *topo, health_counters *counters)
{
    weiri_topo_counts counts;
    (void)settings;
    (void)counters;
    weiri_topo_count(topo, &counts);
    if (counts.gpus == 0)
        return;
    health_set(health_add(report, "gpus.copies", "copies between host and GPUs"), HEALTH_SKIPPED,
               "this build has no CUDA; make CUDA=1");
}
