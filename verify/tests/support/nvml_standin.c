/*
 * Test double: NVML with one GPU, at the bus id of gpu_standin.c. Its clocks run at 1980 MHz,
 * limited only by idleness and an administrator's setting, which is no throttling. Variants:
 *
 *   STANDIN_THROTTLES   on rank 1 the clocks are limited by the power cap and by heat
 *   STANDIN_LACKS       there is no function for throttle reasons and no value for the memory clock
 *   STANDIN_RENAMED     that function has its newer name
 *   STANDIN_FAILS       initialization fails
 *   STANDIN_BARE        the library has no functions
 *   STANDIN_LOST        the library does not know the GPU
 *   STANDIN_ANY         a GPU is at every address
 *
 * Each time that a test makes the file that STANDIN_ERRORS names, and it is looked for, it is
 * removed, and an Xid is reported; the PCIe link counts it as a replay.
 *
 * Its NVLinks 0 to 4 lead to an NVSwitch, 6 to 11 to one that is not visible; link 5 is down.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9, TIMED_OUT = 10 };
enum { IDLE = 0x1, ADMINISTRATOR = 0x2, POWER_CAP = 0x4, HEAT = 0x20 };

#ifdef STANDIN_ANY
#define IS_GPU(bus) (*(bus) != '\0')
#else
#define IS_GPU(bus) (strcmp(bus, "0000:5a:00.0") == 0)
#endif
static int gpu;

typedef struct pci_info {
    char old_bus[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char bus_id[32];
} pci_info;

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned bytes);
EXPORT int nvmlDeviceGetClockInfo(void *device, int domain, unsigned *mhz);
EXPORT int nvmlDeviceGetMaxClockInfo(void *device, int domain, unsigned *mhz);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *mw);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw);
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons);
EXPORT int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active);
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *end);
EXPORT int nvmlEventSetCreate(void **set);
EXPORT int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
EXPORT int nvmlEventSetWait_v2(void *set, void *event, unsigned timeout_ms);
EXPORT int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *count);

#ifndef STANDIN_BARE

static int is_held_down(void)
{
#ifdef STANDIN_THROTTLES
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"); /* Open MPI */
    if (!rank)
        rank = getenv("PMI_RANK"); /* MPICH, Intel MPI */
    return rank && strcmp(rank, "1") == 0;
#else
    return 0;
#endif
}

int nvmlInit_v2(void)
{
#ifdef STANDIN_FAILS
    return NO_DRIVER;
#else
    return OK;
#endif
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
    *device = &gpu;
#ifdef STANDIN_LOST
    return NOT_FOUND;
#else
    return IS_GPU(bus) ? OK : NOT_FOUND;
#endif
}

int nvmlSystemGetDriverVersion(char *version, unsigned bytes)
{
    snprintf(version, bytes, "580.1");
    return OK;
}

int nvmlDeviceGetClockInfo(void *device, int domain, unsigned *mhz)
{
#ifdef STANDIN_LACKS
    if (domain == 2)
        return NOT_SUPPORTED;
#endif
    *mhz = domain == 2 ? 3201 : is_held_down() ? 1305 : 1980;
    return device == &gpu ? OK : NOT_FOUND;
}

int nvmlDeviceGetMaxClockInfo(void *device, int domain, unsigned *mhz)
{
    *mhz = domain == 2 ? 3201 : 1981;
    return device == &gpu ? OK : NOT_FOUND;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
    *mw = is_held_down() ? 699600 : 412300;
    return device == &gpu ? OK : NOT_FOUND;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw)
{
    *mw = 700000;
    return device == &gpu ? OK : NOT_FOUND;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    *celsius = is_held_down() ? 88 : 51;
    return device == &gpu && sensor == 0 ? OK : NOT_FOUND;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    *major = 9;
    *minor = 0;
    return device == &gpu ? OK : NOT_FOUND;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active)
{
    *is_active = link != 5;
    return device == &gpu && link < 12 ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *end)
{
    memset(end, 0, sizeof *end);
    snprintf(end->bus_id, sizeof end->bus_id, "%s", link < 5 ? "00000000:AB:00.0" : "");
    return device == &gpu ? OK : NOT_FOUND;
}

static unsigned errors;

int nvmlEventSetCreate(void **set)
{
    *set = &errors;
    return OK;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    enum { XIDS = 0x8 };
    return device == &gpu && set == &errors && types == XIDS ? OK : NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(void *set, void *event, unsigned timeout_ms)
{
    const char *path = getenv("STANDIN_ERRORS");
    if (set != &errors || !event || timeout_ms != 0 || !path || unlink(path) != 0)
        return TIMED_OUT;
    errors++;
    return OK;
}

int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *count)
{
    *count = errors;
    return device == &gpu ? OK : NOT_FOUND;
}

#ifndef STANDIN_LACKS
#ifdef STANDIN_RENAMED
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
#else
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
#endif
{
    *reasons = is_held_down() ? POWER_CAP | HEAT : IDLE | ADMINISTRATOR;
    return device == &gpu ? OK : NOT_FOUND;
}
#endif

#endif
