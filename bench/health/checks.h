/*
 * The checks of a node. Each adds its lines to the report, with the values that it found; expect.h
 * adds what is expected. All functions are local and blocking.
 */
#ifndef BENCH_HEALTH_CHECKS_H
#define BENCH_HEALTH_CHECKS_H

#include "bench/health/health.h"
#include "programs/terminal.h"
#include "topo/topo.h"

typedef enum health_level { HEALTH_QUICK, HEALTH_STANDARD, HEALTH_LONG } health_level;

typedef struct health_settings {
    health_level level;
    int nranks;           /* of collectives; 0: one per GPU, else per core, at most 8 */
    int gpus, nics;       /* that must be there; -1: not given */
    const char *inject;   /* a fault that the benchmarks plant in the output; NULL: none */
    double deadline_s;    /* of one program */
    const char *programs; /* folder of the benchmarks */
    const char *peer_so;  /* the vendor's library; NULL: none */
    weiri_progress *progress;
} health_settings;

/* What is there: processors, memory, limits, GPUs, NICs, versions. */
void health_check_facts(health_report *report, const health_settings *settings,
                        const weiri_topo *topo);

/* Whether the hardware is that of a recorded machine: a line for each difference. Errors: those of
 * weiri_topo_load_any. */
weir_status health_check_topology(health_report *report, const char *path, const weiri_topo *topo);

/* Writes the versions of weir and of the GPU driver, as far as there is one. */
void health_describe_versions(char *text, size_t bytes);

/* Errors that GPUs and their links have counted, clocks, throttling. health_counters_read is called
 * at the start of the checks, health_counters_look while a GPU works, and health_check_counters at
 * the end. NULL if there is no memory; all others accept NULL. */
typedef struct health_counters health_counters;
health_counters *health_counters_read(const weiri_topo *topo);
void health_counters_look(health_counters *counters, int gpu);
void health_check_counters(health_report *report, const weiri_topo *topo,
                           const health_counters *before);
void health_counters_free(health_counters *counters);

/* Copies: memory of the host by one thread and by one per core; between cores. */
void health_check_host_copies(health_report *report, const health_settings *settings,
                              const weiri_topo *topo);
/* Copies between host and each GPU in both directions, within a GPU, and between GPUs. In a build
 * without CUDA it adds a skipped check if there are GPUs. */
void health_check_gpu_copies(health_report *report, const health_settings *settings,
                             const weiri_topo *topo, health_counters *counters);

/* Collectives at a size bound by latency and one bound by bandwidth, verified, by weir and, if
 * settings->peer_so is set, by the vendor's library. */
void health_check_collectives(health_report *report, const health_settings *settings,
                              const weiri_topo *topo);
/* Repeats the checks that are too slow: the better result counts. Processors of a node also do
 * other work. */
void health_check_again(health_report *report, const health_settings *settings,
                        const weiri_topo *topo);

#endif
