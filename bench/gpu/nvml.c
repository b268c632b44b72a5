/* NVML's functions by name, and readings: see clocks.h. */
#include "bench/gpu/clocks.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char library_name[] = "libnvidia-ml.so.1";

/* The prototypes of the driver's nvml.h: nvmlReturn_t is an int, 0 for success; nvmlDevice_t is a
 * pointer. */
typedef struct functions {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*by_bus)(const char *bus, void **device);
    int (*driver)(char *version, unsigned bytes);
    int (*clock)(void *device, int domain, unsigned *mhz);
    int (*clock_most)(void *device, int domain, unsigned *mhz);
    int (*power)(void *device, unsigned *mw);
    int (*power_most)(void *device, unsigned *mw);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*reasons)(void *device, unsigned long long *reasons);
} functions;

/* Clock domains, and the sensor on the chip. */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0 };

static const struct {
    size_t at;
    const char *name, *later_name; /* the name in newer drivers; NULL: the same */
    const char *loss;              /* what is lost without it; NULL: nothing works without it */
} rows[] = {
    {offsetof(functions, init), "nvmlInit_v2", NULL, NULL},
    {offsetof(functions, shutdown), "nvmlShutdown", NULL, NULL},
    {offsetof(functions, error_string), "nvmlErrorString", NULL, NULL},
    {offsetof(functions, by_bus), "nvmlDeviceGetHandleByPciBusId_v2", NULL, NULL},
    {offsetof(functions, driver), "nvmlSystemGetDriverVersion", NULL, "the driver's version"},
    {offsetof(functions, clock), "nvmlDeviceGetClockInfo", NULL, "clocks"},
    {offsetof(functions, clock_most), "nvmlDeviceGetMaxClockInfo", NULL, "the highest clocks"},
    {offsetof(functions, power), "nvmlDeviceGetPowerUsage", NULL, "power"},
    {offsetof(functions, power_most), "nvmlDeviceGetEnforcedPowerLimit", NULL, "the power limit"},
    {offsetof(functions, temperature), "nvmlDeviceGetTemperature", NULL, "temperature"},
    {offsetof(functions, reasons), "nvmlDeviceGetCurrentClocksThrottleReasons",
     "nvmlDeviceGetCurrentClocksEventReasons", "throttling"},
};

struct bench_nvml {
    void *library, *device;
    functions call;
    int begun; /* init was called with success */
    double spent_s;
    void *xid_events; /* NULL: not watched */
    long long xids;
    bench_nvml_info info;
};

/* Fills the table. Returns 0, or -1 if a required function is missing. */
static int nvml_load_functions(bench_nvml *nvml)
{
    bench_nvml_info *info = &nvml->info;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(nvml->library, rows[i].name);
        if (!symbol && rows[i].later_name)
            symbol = dlsym(nvml->library, rows[i].later_name);
        memcpy((char *)&nvml->call + rows[i].at, &symbol, sizeof symbol);
        if (symbol)
            continue;
        if (!info->problem[0] || !rows[i].loss)
            snprintf(info->problem, sizeof info->problem, "%s has no %s%s%s", library_name,
                     rows[i].name, rows[i].loss ? ", so not read: " : "",
                     rows[i].loss ? rows[i].loss : "");
        if (!rows[i].loss)
            return -1;
    }
    return 0;
}

static int nvml_refuse(bench_nvml *nvml, const char *what, int result)
{
    snprintf(nvml->info.problem, sizeof nvml->info.problem, "%s, %s: %.60s", library_name, what,
             nvml->call.error_string(result));
    return -1;
}

/* Opens the library and finds the GPU. A failure is described in info.problem. */
static int nvml_find_device(bench_nvml *nvml, const char *bus)
{
    char full[32];
    nvml->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        snprintf(nvml->info.problem, sizeof nvml->info.problem, "%s cannot be opened",
                 library_name);
        return -1;
    }
    if (nvml_load_functions(nvml) != 0)
        return -1;
    int result = nvml->call.init();
    if (result != 0)
        return nvml_refuse(nvml, "start", result);
    nvml->begun = 1;
    snprintf(full, sizeof full, "%s.0", bus);
    result = nvml->call.by_bus(full, &nvml->device);
    nvml->info.is_lost = result != 0;
    return result == 0 ? 0 : nvml_refuse(nvml, "GPU by its bus id", result);
}

static int clock_of(const bench_nvml *nvml, int (*call)(void *, int, unsigned *), int domain)
{
    unsigned mhz = 0;
    return call && call(nvml->device, domain, &mhz) == 0 ? (int)mhz : -1;
}

static int watts_of(const bench_nvml *nvml, int (*call)(void *, unsigned *))
{
    unsigned mw = 0;
    return call && call(nvml->device, &mw) == 0 ? (int)((mw + 500) / 1000) : -1;
}

bench_nvml *bench_nvml_open(const char *bus)
{
    bench_nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml)
        return NULL;
    bench_nvml_info *info = &nvml->info;
    info->sm_mhz_most = info->memory_mhz_most = info->power_w_most = -1;
    if (nvml_find_device(nvml, bus) != 0) {
        nvml->device = NULL;
        return nvml;
    }
    if (nvml->call.driver && nvml->call.driver(info->driver, sizeof info->driver) != 0)
        info->driver[0] = '\0';
    info->sm_mhz_most = clock_of(nvml, nvml->call.clock_most, CLOCK_SM);
    info->memory_mhz_most = clock_of(nvml, nvml->call.clock_most, CLOCK_MEMORY);
    info->power_w_most = watts_of(nvml, nvml->call.power_most);
    return nvml;
}

void bench_nvml_close(bench_nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->begun)
        nvml->call.shutdown();
    if (nvml->library)
        dlclose(nvml->library);
    free(nvml);
}

int bench_nvml_read(bench_nvml *nvml, bench_reading *reading)
{
    unsigned celsius = 0;
    unsigned long long reasons = 0;
    if (!nvml || !nvml->device)
        return -1;
    double began_s = weiri_clock_s();
    const functions *call = &nvml->call;
    /* Reasons and clocks first: they change soonest after the work has ended. */
    reading->knows_reasons = call->reasons && call->reasons(nvml->device, &reasons) == 0;
    reading->reasons = reasons;
    reading->sm_mhz = clock_of(nvml, call->clock, CLOCK_SM);
    reading->memory_mhz = clock_of(nvml, call->clock, CLOCK_MEMORY);
    reading->power_w = watts_of(nvml, call->power);
    reading->temperature_c = -1;
    if (call->temperature && call->temperature(nvml->device, SENSOR_GPU, &celsius) == 0)
        reading->temperature_c = (int)celsius;
    nvml->spent_s += weiri_clock_s() - began_s;
    return 0;
}

void bench_nvml_describe(bench_nvml *nvml, bench_nvml_info *info)
{
    memset(info, 0, sizeof *info);
    if (!nvml)
        return;
    *info = nvml->info;
    info->has_start = bench_nvml_read(nvml, &info->start) == 0;
    if (info->has_start && !info->start.knows_reasons && !info->problem[0])
        snprintf(info->problem, sizeof info->problem, "the GPU does not report throttling");
}

double bench_nvml_spent_s(const bench_nvml *nvml)
{
    return nvml ? nvml->spent_s : 0;
}

/* ------------------------------------------------------------------ counters */

/* Of a link's counters the first three: replays, recoveries and CRC errors of flits, those of
 * `nvidia-smi nvlink -e`. Later ones also count bits that the lanes' error correction has
 * corrected, which happens some ten times a second on good links. */
enum { NVLINKS_MAX = 18, LINK_COUNTERS = 3 };
enum { ECC_CORRECTED = 0, ECC_UNCORRECTED = 1, ECC_VOLATILE = 0 };

typedef int (*ecc_function)(void *device, int type, int counter, unsigned long long *count);
typedef int (*link_state_function)(void *device, unsigned link, int *is_active);
typedef int (*link_errors_function)(void *device, unsigned link, int counter,
                                    unsigned long long *count);

static void *nvml_symbol(const bench_nvml *nvml, const char *name, void *function, size_t bytes)
{
    void *symbol = dlsym(nvml->library, name);
    memcpy(function, &symbol, bytes);
    return symbol;
}

static long long nvml_ecc_errors(const bench_nvml *nvml, int type)
{
    ecc_function read_errors;
    unsigned long long count;
    if (!nvml_symbol(nvml, "nvmlDeviceGetTotalEccErrors", &read_errors, sizeof read_errors) ||
        read_errors(nvml->device, type, ECC_VOLATILE, &count) != 0)
        return -1;
    return (long long)count;
}

/* Counts the links of the GPU, those that are active, and their errors. */
static void nvml_count_links(const bench_nvml *nvml, bench_counters *counters)
{
    link_state_function read_state;
    link_errors_function read_errors;
    nvml_symbol(nvml, "nvmlDeviceGetNvLinkErrorCounter", &read_errors, sizeof read_errors);
    if (!nvml_symbol(nvml, "nvmlDeviceGetNvLinkState", &read_state, sizeof read_state))
        return;
    counters->links = counters->links_active = 0;
    for (unsigned link = 0; link < NVLINKS_MAX; link++) {
        int is_active = 0;
        if (read_state(nvml->device, link, &is_active) != 0)
            continue;
        counters->links++;
        counters->links_active += is_active != 0;
        for (int kind = 0; read_errors && kind < LINK_COUNTERS; kind++) {
            unsigned long long count;
            if (read_errors(nvml->device, link, kind, &count) != 0)
                continue;
            counters->link_errors =
                (counters->link_errors < 0 ? 0 : counters->link_errors) + (long long)count;
        }
    }
}

static long long nvml_pcie_replays(const bench_nvml *nvml)
{
    int (*read_replays)(void *device, unsigned *count);
    unsigned count;
    return nvml_symbol(nvml, "nvmlDeviceGetPcieReplayCounter", &read_replays,
                       sizeof read_replays) &&
                   read_replays(nvml->device, &count) == 0
               ? (long long)count
               : -1;
}

void bench_nvml_watch_xids(bench_nvml *nvml)
{
    enum { XID_EVENTS = 0x8 };
    int (*create)(void **set);
    int (*watch)(void *device, unsigned long long types, void *set);
    if (!nvml || !nvml->device || nvml->xid_events ||
        !nvml_symbol(nvml, "nvmlEventSetCreate", &create, sizeof create) ||
        !nvml_symbol(nvml, "nvmlDeviceRegisterEvents", &watch, sizeof watch) ||
        create(&nvml->xid_events) != 0)
        return;
    if (watch(nvml->device, XID_EVENTS, nvml->xid_events) != 0)
        nvml->xid_events = NULL;
}

static long long nvml_xids(bench_nvml *nvml)
{
    struct {
        void *device;
        unsigned long long type, data;
        unsigned gpu_instance, compute_instance;
    } event;
    int (*next)(void *set, void *event, unsigned timeout_ms);
    if (!nvml->xid_events || !nvml_symbol(nvml, "nvmlEventSetWait_v2", &next, sizeof next))
        return -1;
    while (next(nvml->xid_events, &event, 0) == 0)
        nvml->xids++;
    return nvml->xids;
}

int bench_nvml_count(bench_nvml *nvml, bench_counters *counters)
{
    *counters = (bench_counters){-1, -1, -1, -1, -1, -1, -1};
    if (!nvml || !nvml->device)
        return -1;
    counters->corrected = nvml_ecc_errors(nvml, ECC_CORRECTED);
    counters->uncorrected = nvml_ecc_errors(nvml, ECC_UNCORRECTED);
    nvml_count_links(nvml, counters);
    counters->xids = nvml_xids(nvml);
    counters->pcie_replays = nvml_pcie_replays(nvml);
    return 0;
}
