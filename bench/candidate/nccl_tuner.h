/*
 * NCCL's settings as candidates (--tune-nccl, --verify-nccl): the plug-in that forces them
 * (bench/tuner), and which settings are measured. All functions are local.
 */
#ifndef BENCH_CANDIDATE_NCCL_TUNER_H
#define BENCH_CANDIDATE_NCCL_TUNER_H

#include "bench/options/options.h"
#include "bench/tuner/tuner.h"

typedef struct bench_nccl_tuner {
    tuner_control *control; /* in the plug-in */
    tuner_table table;      /* of --verify-nccl */
} bench_nccl_tuner;

/* Loads the plug-in and takes control of it, before NCCL does so; sets NCCL_TUNER_PLUGIN. On
 * failure problem (at most bytes) says what to do. Returns 0 or -1. */
int bench_nccl_tuner_open(bench_nccl_tuner *tuner, char *problem, size_t bytes);
/* NCCL's number of a collective; -1: its tuner is not asked. Pure. */
int bench_nccl_tuner_collective(weir_collective collective);

/* A setting that is tried up to a size; most_bytes 0: at every size. */
typedef struct bench_nccl_setting {
    tuner_setting setting;
    size_t most_bytes;
} bench_nccl_setting;
enum { BENCH_NCCL_SETTINGS_MAX = 128 };
/* Lists the settings that a collective may have; their number. Pure. */
int bench_nccl_settings(weir_collective collective,
                        bench_nccl_setting settings[BENCH_NCCL_SETTINGS_MAX]);
/* "ring/ll128/8", without a number if NCCL chooses the channels. */
void bench_nccl_setting_name(const tuner_setting *setting, char *name, size_t bytes);
/* Reads such a name. Returns 0, or -1 if it is none. */
int bench_nccl_setting_read(const char *name, tuner_setting *setting);

#endif
