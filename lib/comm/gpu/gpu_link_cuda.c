/*
 * Whether NVLink connects this rank's GPU with its peers'. Over NVLink, and within one GPU, a
 * 128-byte store arrives as a whole, and atomic operations on a peer's memory are atomic; over
 * PCIe neither holds. For devices that this process sees, CUDA reports whether the link supports
 * native atomics. For others, if a launcher gives each rank one device only, the driver's
 * management library (NVML) is queried by bus id. If neither knows, the answer is no.
 */
#include "comm/gpu/gpu_cuda.h"

#include <dlfcn.h>
#include <string.h>

/* As declared in the driver's nvml.h; nvmlReturn_t is an int, 0 for success, nvmlDevice_t a
 * pointer. */
typedef struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*p2p_status)(void *device, void *other, int capability, int *status);
} nvml;

enum { NVML_P2P_NVLINK = 2, NVML_P2P_OK = 0 };

/* Returns 0 if the library lacks the function. */
static int nvml_look_up(const nvml *from, const char *name, void *function)
{
    void *symbol = dlsym(from->library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Loads and initialises NVML. The library of the result is NULL if NVML cannot be used. */
static nvml nvml_open(void)
{
    nvml found = {.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!found.library)
        return found;
    if (nvml_look_up(&found, "nvmlInit_v2", &found.init) &&
        nvml_look_up(&found, "nvmlShutdown", &found.shutdown) &&
        nvml_look_up(&found, "nvmlDeviceGetHandleByPciBusId_v2", &found.by_bus) &&
        nvml_look_up(&found, "nvmlDeviceGetP2PStatus", &found.p2p_status) && found.init() == 0)
        return found;
    dlclose(found.library);
    return (nvml){NULL, NULL, NULL, NULL, NULL};
}

static void nvml_close(const nvml *opened)
{
    if (!opened->library)
        return;
    opened->shutdown();
    dlclose(opened->library);
}

static int nvml_has_nvlink(const nvml *of, const char *bus, const char *other_bus)
{
    void *device, *other;
    int status;
    return of->library && of->by_bus(bus, &device) == 0 && of->by_bus(other_bus, &other) == 0 &&
           of->p2p_status(device, other, NVML_P2P_NVLINK, &status) == 0 && status == NVML_P2P_OK;
}

static int cuda_has_native_atomics(int device, const char *other_bus)
{
    int other, native = 0;
    if (cudaDeviceGetByPCIBusId(&other, other_bus) != cudaSuccess ||
        cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, device, other) !=
            cudaSuccess)
        cudaGetLastError();
    return native == 1;
}

int weiri_cuda_joins(int device, const char *bus, const char *const *peers, int npeers)
{
    int is_open = 0, joins = 1;
    nvml opened = {NULL, NULL, NULL, NULL, NULL};
    for (int i = 0; i < npeers && joins; i++) {
        if (strcmp(peers[i], bus) == 0 || cuda_has_native_atomics(device, peers[i]))
            continue;
        if (!is_open++)
            opened = nvml_open();
        joins = nvml_has_nvlink(&opened, bus, peers[i]);
    }
    nvml_close(&opened);
    return joins;
}
