/* The plug-in and the settings: see nccl_tuner.h. */
#define _GNU_SOURCE

#include "bench/candidate/nccl_tuner.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The plug-in's folders, from the program's own: in a source tree, installed, and of tests. */
static const char *const folders[] = {"build",
                                      "..",
                                      "../lib/weir",
                                      "../lib64/weir",
                                      ".",
                                      "../lib/x86_64-linux-gnu/weir",
                                      "../lib/aarch64-linux-gnu/weir"};

static int tuner_find(char *path, size_t bytes)
{
    char folder[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const int written =
            snprintf(path, bytes, "%s/%s/libnccl-tuner-weir.so", folder, folders[i]);
        if (written > 0 && (size_t)written < bytes && access(path, R_OK) == 0)
            return 0;
    }
    return -1;
}

int bench_nccl_tuner_open(bench_nccl_tuner *tuner, char *problem, size_t bytes)
{
    char path[PATH_MAX + 64];
    const char *other = getenv("NCCL_TUNER_PLUGIN");
    if (tuner_find(path, sizeof path) != 0) {
        snprintf(problem, bytes,
                 "libnccl-tuner-weir.so is not next to this program or its "
                 "libraries; build or install it by make");
        return -1;
    }
    if (other && *other && strcmp(other, path) != 0) {
        snprintf(problem, bytes,
                 "NCCL_TUNER_PLUGIN names another plug-in, %.200s; unset the variable", other);
        return -1;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    tuner->control = library ? dlsym(library, TUNER_CONTROL) : NULL;
    if (!tuner->control) {
        snprintf(problem, bytes, "%.300s", dlerror());
        return -1;
    }
    *tuner->control = (tuner_control){.is_in_control = 1};
    setenv("NCCL_TUNER_PLUGIN", path, 1);
    return 0;
}

int bench_nccl_tuner_collective(weir_collective collective)
{
    static const weir_collective order[TUNER_COLLECTIVES] = {
        WEIR_COLL_BROADCAST, WEIR_COLL_REDUCE, WEIR_COLL_ALLGATHER, WEIR_COLL_REDUCE_SCATTER,
        WEIR_COLL_ALLREDUCE};
    for (int i = 0; i < TUNER_COLLECTIVES; i++)
        if (order[i] == collective)
            return i;
    return -1;
}

/* NCCL's numbers of algorithms and protocols, as in tuner.h. */
enum { TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT };
enum { LL, LL128, SIMPLE };

/* Which algorithms serve which collectives, bits 1 << NCCL's number; LL doubles the data, so that
 * it is tried with small messages only. What a communicator does not offer shows when it runs. */
static const struct {
    int algorithm, protocol;
    unsigned collectives;
    size_t most_bytes;
} serves[] = {
    {RING, LL, 0x1f, 1 << 20},
    {RING, LL128, 0x1f, 0},
    {RING, SIMPLE, 0x1f, 0},
    {TREE, LL, 1 << 4, 1 << 20},
    {TREE, LL128, 1 << 4, 0},
    {TREE, SIMPLE, 1 << 4, 0},
    {NVLS, SIMPLE, 0x1c, 0},
    {PAT, SIMPLE, 0x0c, 0},
    {NVLS_TREE, SIMPLE, 1 << 4, 0},
    {COLLNET_DIRECT, SIMPLE, 0x1c, 0},
    {COLLNET_CHAIN, SIMPLE, 1 << 4, 0},
};

int bench_nccl_settings(weir_collective collective,
                        bench_nccl_setting settings[BENCH_NCCL_SETTINGS_MAX])
{
    static const int channels[] = {-1, 1, 2, 4, 8, 16, 32};
    const int number = bench_nccl_tuner_collective(collective);
    int count = 0;
    for (size_t i = 0; number >= 0 && i < sizeof serves / sizeof *serves; i++)
        for (size_t k = 0; k < sizeof channels / sizeof *channels; k++)
            if (serves[i].collectives >> number & 1)
                settings[count++] = (bench_nccl_setting){
                    {serves[i].algorithm, serves[i].protocol, channels[k]}, serves[i].most_bytes};
    return count;
}

void bench_nccl_setting_name(const tuner_setting *setting, char *name, size_t bytes)
{
    const int length = snprintf(name, bytes, "%s/%s", bench_tuner_algorithms[setting->algorithm],
                                bench_tuner_protocols[setting->protocol]);
    if (setting->channels > 0 && length > 0 && (size_t)length < bytes)
        snprintf(name + length, bytes - (size_t)length, "/%d", setting->channels);
}

int bench_nccl_setting_read(const char *name, tuner_setting *setting)
{
    for (int i = 0; i < TUNER_ALGORITHMS * TUNER_PROTOCOLS; i++) {
        char word[32];
        *setting = (tuner_setting){i / TUNER_PROTOCOLS, i % TUNER_PROTOCOLS, -1};
        bench_nccl_setting_name(setting, word, sizeof word);
        const size_t length = strlen(word);
        if (strncmp(name, word, length) != 0 || (name[length] && name[length] != '/'))
            continue;
        setting->channels = name[length] ? atoi(name + length + 1) : -1;
        return 0;
    }
    return -1;
}
