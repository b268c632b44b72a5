/*
 * What NVIDIA's driver knows about GPUs and hwloc does not report, or only by a plug-in: compute
 * capability, and where each NVLink leads. NVML is opened at run time; its prototypes are those of
 * the driver's nvml.h, whose nvmlReturn_t is an int, 0 for success.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/model.h"

enum { LINKS_MOST = 18 };

typedef struct nvml_pci {
    char old_bus[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char bus_id[32];
} nvml_pci;

typedef struct nvml_calls {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*capability)(void *device, int *major, int *minor);
    int (*link_state)(void *device, unsigned link, int *is_active);
    int (*link_end)(void *device, unsigned link, nvml_pci *end);
} nvml_calls;

static int nvml_open(nvml_calls *calls)
{
    static const char *const names[] = {"nvmlInit_v2",
                                        "nvmlShutdown",
                                        "nvmlDeviceGetHandleByPciBusId_v2",
                                        "nvmlDeviceGetCudaComputeCapability",
                                        "nvmlDeviceGetNvLinkState",
                                        "nvmlDeviceGetNvLinkRemotePciInfo_v2"};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *symbols[6];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        symbols[i] = library ? dlsym(library, names[i]) : NULL;
        if (!symbols[i])
            return -1;
    }
    memcpy(calls, symbols, sizeof *calls);
    return calls->init() == 0 ? 0 : -1;
}

/* The class of a link's end; an end that the system does not show is taken for an NVSwitch. */
static void nvml_class(const char *bus, char class_id[12])
{
    char path[96];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.20s/class", bus);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%11[0-9a-fx]", class_id) != 1)
        snprintf(class_id, 12, "0x068000");
    if (file)
        fclose(file);
}

/* NVML writes domains with eight digits. */
static void nvml_bus(const char *text, char bus[24])
{
    const char *from = strlen(text) > 12 && strncmp(text, "0000", 4) == 0 ? text + 4 : text;
    size_t i = 0;
    for (; i < 23 && isprint((unsigned char)from[i]); i++)
        bus[i] = (char)tolower((unsigned char)from[i]);
    bus[i] = '\0';
}

static void nvml_annotate_links(const nvml_calls *calls, void *device, hwloc_obj_t pci)
{
    struct {
        char bus[24];
        int count;
    } ends[LINKS_MOST];
    char text[LINKS_MOST * 64] = "";
    int nends = 0, is_active;
    for (unsigned link = 0; link < LINKS_MOST; link++) {
        nvml_pci end = {.bus_id = ""};
        char bus[24];
        if (calls->link_state(device, link, &is_active) != 0 || !is_active ||
            calls->link_end(device, link, &end) != 0)
            continue;
        nvml_bus(end.bus_id[0] ? end.bus_id : end.old_bus, bus);
        int i = 0;
        while (i < nends && strcmp(ends[i].bus, bus) != 0)
            i++;
        if (i == nends) {
            memcpy(ends[nends].bus, bus, sizeof bus);
            ends[nends++].count = 0;
        }
        ends[i].count++;
    }
    for (int i = 0; i < nends; i++) {
        const size_t used = strlen(text);
        char class_id[12];
        nvml_class(ends[i].bus, class_id);
        snprintf(text + used, sizeof text - used, "nvlink %s %d %s;",
                 ends[i].bus[0] ? ends[i].bus : "fffffff:ffff:ff", ends[i].count, class_id);
    }
    if (nends)
        hwloc_obj_add_info(pci, WEIRI_TOPO_INFO_LINKS, text);
}

void weiri_topo_annotate_nvml(hwloc_topology_t hwloc)
{
    nvml_calls calls;
    hwloc_obj_t pci = NULL;
    int is_open = 0;
    while ((pci = hwloc_get_next_pcidev(hwloc, pci))) {
        const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
        char bus[24], text[16];
        int major, minor;
        void *device;
        if (at->vendor_id != WEIRI_VENDOR_NVIDIA || !weiri_topo_is_gpu(pci) ||
            hwloc_obj_get_info_by_name(pci, WEIRI_TOPO_INFO_HIDDEN))
            continue;
        if (!is_open && nvml_open(&calls) != 0)
            return;
        is_open = 1;
        snprintf(bus, sizeof bus, "%04x:%02x:%02x.%x", at->domain, at->bus, at->dev,
                 at->func & 0xfu);
        if (calls.by_bus(bus, &device) != 0 || calls.capability(device, &major, &minor) != 0)
            continue;
        snprintf(text, sizeof text, "%d", major * 10 + minor);
        hwloc_obj_add_info(pci, WEIRI_TOPO_INFO_SM, text);
        nvml_annotate_links(&calls, device, pci);
    }
    if (is_open)
        calls.shutdown();
}
