/*
 * Test double: NVML with GPUs whose counters a test changes while a program runs. The file that
 * STANDIN_COUNTERS names has one line for each GPU that the driver finds:
 *
 *   BUS UNCORRECTED-ECC-ERRORS NVLINK-ERRORS ACTIVE-LINKS THROTTLE-REASONS
 *
 * such as "0000:41:00.0 0 0 4 0x0". Each GPU has 4 NVLinks; errors are those of its first link. A
 * negative number: the GPU does not report it. No file: the driver is not loaded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9 };
enum { LINKS = 4, GPUS_MOST = 8, BUS_BYTES = 32 };

typedef struct standin_gpu {
    long long uncorrected, link_errors, links_active;
    unsigned long long reasons;
} standin_gpu;

static char buses[GPUS_MOST][BUS_BYTES]; /* a handle is the address of its GPU's bus */

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter,
                                       unsigned long long *count);
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active);
EXPORT int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter,
                                           unsigned long long *count);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);

/* Reads the GPU's line, as it is now. Returns 0, or -1 if there is none. */
static int standin_read(const char *bus, standin_gpu *gpu)
{
    char name[BUS_BYTES];
    int found = 0;
    FILE *file = fopen(getenv("STANDIN_COUNTERS"), "r");
    while (file && !found &&
           fscanf(file, "%31s %lld %lld %lld %llx", name, &gpu->uncorrected, &gpu->link_errors,
                  &gpu->links_active, &gpu->reasons) == 5)
        found = strcmp(name, bus) == 0;
    if (file)
        fclose(file);
    return found ? 0 : -1;
}

int nvmlInit_v2(void)
{
    const char *path = getenv("STANDIN_COUNTERS");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return NO_DRIVER;
    fclose(file);
    return OK;
}

int nvmlShutdown(void)
{
    return OK;
}

const char *nvmlErrorString(int result)
{
    return result == NO_DRIVER ? "Driver Not Loaded" : result == NOT_FOUND ? "Not Found" : "?";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    standin_gpu gpu;
    if (standin_read(bus, &gpu) != 0)
        return NOT_FOUND;
    for (int i = 0; i < GPUS_MOST; i++) {
        if (!buses[i][0])
            snprintf(buses[i], BUS_BYTES, "%s", bus);
        if (strcmp(buses[i], bus) != 0)
            continue;
        *device = buses[i];
        return OK;
    }
    return NOT_FOUND;
}

static int standin_count(void *device, long long standin_gpu_number(const standin_gpu *),
                         unsigned long long *count)
{
    standin_gpu gpu;
    if (standin_read(device, &gpu) != 0)
        return NOT_FOUND;
    const long long number = standin_gpu_number(&gpu);
    *count = (unsigned long long)number;
    return number < 0 ? NOT_SUPPORTED : OK;
}

static long long standin_uncorrected(const standin_gpu *gpu)
{
    return gpu->uncorrected;
}

static long long standin_link_errors(const standin_gpu *gpu)
{
    return gpu->link_errors;
}

static long long standin_links_active(const standin_gpu *gpu)
{
    return gpu->links_active;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count)
{
    enum { UNCORRECTED = 1, SINCE_START = 0 };
    if (type != UNCORRECTED || counter != SINCE_START)
        return NOT_SUPPORTED;
    return standin_count(device, standin_uncorrected, count);
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active)
{
    unsigned long long active;
    const int result = standin_count(device, standin_links_active, &active);
    if (result != OK || link >= LINKS)
        return NOT_SUPPORTED;
    *is_active = link < active;
    return OK;
}

int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter,
                                    unsigned long long *count)
{
    if (link != 0 || counter != 0)
        return NOT_SUPPORTED;
    return standin_count(device, standin_link_errors, count);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
    standin_gpu gpu;
    if (standin_read(device, &gpu) != 0)
        return NOT_FOUND;
    *reasons = gpu.reasons;
    return OK;
}
