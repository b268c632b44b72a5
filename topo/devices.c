/*
 * The tables of GPUs and NICs, read from hwloc's tree. A GPU is a PCI device that a compute runtime
 * can use, which excludes graphics of consoles, virtual machines and processors; a NIC is a PCI
 * device that has a network or OpenFabrics device. One PCI function is one entry, however many
 * names the operating system gives it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "topo/model.h"

enum { CLASS_DISPLAY = 0x03, CLASS_ACCELERATOR = 0x12 };

/* The device numbers of GPUs that a compute runtime supports, by vendor. Other display devices are
 * a server's console (ATI ES1000), chips older than these runtimes, or part of an AMD processor. */
static const struct {
    unsigned short vendor, first, last;
} gpu_numbers[] = {
    {WEIRI_VENDOR_NVIDIA, 0x05e0, 0x07df}, /* GT200, G92, Fermi */
    {WEIRI_VENDOR_NVIDIA, 0x0a20, 0xffff}, /* since GT215 */
    {WEIRI_VENDOR_AMD, 0x6600, 0x66ff},    /* Oland, Bonaire, Vega 20 */
    {WEIRI_VENDOR_AMD, 0x6780, 0x683f},    /* Tahiti, Hawaii, Polaris, Pitcairn */
    {WEIRI_VENDOR_AMD, 0x6860, 0x687f},    /* Vega 10 */
    {WEIRI_VENDOR_AMD, 0x6900, 0x69ff},    /* Tonga, Polaris, Vega 12 */
    {WEIRI_VENDOR_AMD, 0x7300, 0x7fff},    /* since Fiji: Navi, Instinct MI100 to MI350 */
};

static int has_gpu_number(const struct hwloc_pcidev_attr_s *at)
{
    for (size_t i = 0; i < sizeof gpu_numbers / sizeof *gpu_numbers; i++)
        if (at->vendor_id == gpu_numbers[i].vendor && at->device_id >= gpu_numbers[i].first &&
            at->device_id <= gpu_numbers[i].last)
            return 1;
    return 0;
}

/* The graphics unit of an Intel processor is always at this address. */
static int is_intel_processor(const struct hwloc_pcidev_attr_s *at)
{
    return at->domain == 0 && at->bus == 0 && at->dev == 2;
}

/* AMD's runtime reports which devices it can use, among them some graphics units of processors;
 * NCCL describes GPUs that it uses. */
static int is_used_by_runtime(hwloc_obj_t pci)
{
    hwloc_obj_t osdev = pci->io_first_child;
    while (osdev && (!osdev->name || strncmp(osdev->name, "rsmi", 4) != 0))
        osdev = osdev->next_sibling;
    return osdev || hwloc_obj_get_info_by_name(pci, WEIRI_TOPO_INFO_COMPUTE);
}

int weiri_topo_is_gpu(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
    const int class_base = at->class_id >> 8, is_display = class_base == CLASS_DISPLAY;
    if (is_used_by_runtime(pci))
        return 1;
    if (!is_display && class_base != CLASS_ACCELERATOR)
        return 0;
    if (at->vendor_id == WEIRI_VENDOR_INTEL)
        return is_display && !is_intel_processor(at);
    if (at->vendor_id == WEIRI_VENDOR_AMD)
        return !is_display || has_gpu_number(at);
    return at->vendor_id == WEIRI_VENDOR_NVIDIA && has_gpu_number(at);
}

hwloc_obj_t weiri_topo_pci_of(hwloc_obj_t osdev)
{
    hwloc_obj_t object = osdev;
    while (object && object->type != HWLOC_OBJ_PCI_DEVICE)
        object = object->parent;
    return object;
}

/* Nodes without cores (memory expanders) and second nodes of the same cores (high-bandwidth memory)
 * do not count: the lowest local node represents all. */
int weiri_topo_numa_of(const weiri_topo *topo, hwloc_obj_t object)
{
    while (object && !object->cpuset)
        object = object->parent;
    if (!object)
        return -1;
    int numa = -1;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_inside_cpuset_by_type(topo->hwloc, object->cpuset,
                                                            topo->core_type, core))) {
        int local = hwloc_bitmap_first(core->nodeset);
        if (numa >= 0 && local != numa)
            return -1;
        numa = local;
    }
    return numa >= 0 ? numa : hwloc_bitmap_first(object->nodeset);
}

static void copy_text(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from ? from : "");
}

static const char *info_of(hwloc_obj_t object, const char *name)
{
    return object ? hwloc_obj_get_info_by_name(object, name) : NULL;
}

/* A device is up if any of its ports is. */
static int link_up(hwloc_obj_t osdev)
{
    int up = -1;
    const char *state = info_of(osdev, WEIRI_TOPO_INFO_LINK_STATE);
    if (state)
        return strcmp(state, "up") == 0;
    for (int port = 1; up != 1; port++) {
        char name[24];
        snprintf(name, sizeof name, "Port%dState", port); /* hwloc's */
        state = info_of(osdev, name);
        if (!state)
            break;
        up = atoi(state) == 4; /* active */
    }
    return up;
}

/* The rank of a name, better ones first: a name that CUDA programs use precedes one of a
 * display. */
static int name_rank(hwloc_obj_t osdev)
{
    switch (osdev->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_OPENFABRICS:
        return 4;
    case HWLOC_OBJ_OSDEV_COPROC:
        return strncmp(osdev->name, "cuda", 4) == 0 ? 3 : 1;
    case HWLOC_OBJ_OSDEV_NETWORK:
        return 2;
    case HWLOC_OBJ_OSDEV_GPU:
        return strncmp(osdev->name, "nvml", 4) == 0 || strncmp(osdev->name, "rsmi", 4) == 0;
    default:
        return 0;
    }
}

static int is_better(hwloc_obj_t osdev, hwloc_obj_t best)
{
    const int rank = name_rank(osdev);
    if (!best || rank != name_rank(best))
        return rank > (best ? name_rank(best) : 0);
    return link_up(osdev) == 1 && link_up(best) != 1;
}

/* The OS device that names a PCI device best, or NULL. Of a card with several ports that is a port
 * which is up. */
static hwloc_obj_t best_osdev(const weiri_topo *topo, hwloc_obj_t pci)
{
    hwloc_obj_t best = NULL, osdev = NULL;
    while ((osdev = hwloc_get_next_osdev(topo->hwloc, osdev)))
        if (weiri_topo_pci_of(osdev) == pci && osdev->name && is_better(osdev, best))
            best = osdev;
    return best;
}

static int is_nic(hwloc_obj_t osdev)
{
    return osdev && (osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ||
                     osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK);
}

static void describe_pci(const weiri_topo *topo, hwloc_obj_t pci, weiri_topo_device *device)
{
    const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
    snprintf(device->pci, sizeof device->pci, "%04x:%02x:%02x.%x", at->domain, at->bus, at->dev,
             at->func & 0xfu);
    device->vendor_id = at->vendor_id;
    device->device_id = at->device_id;
    device->pcie_gbs = (double)at->linkspeed;
    device->numa = weiri_topo_numa_of(topo, pci);
    device->link_up = -1;
}

static void describe_gpu(const weiri_topo *topo, hwloc_obj_t pci, hwloc_obj_t osdev,
                         weiri_topo_device *device)
{
    describe_pci(topo, pci, device);
    copy_text(device->name, sizeof device->name, osdev ? osdev->name : NULL);
    const char *model = info_of(pci, WEIRI_TOPO_INFO_MODEL);
    if (!model)
        model = info_of(osdev, WEIRI_TOPO_INFO_MODEL);
    copy_text(device->model, sizeof device->model, model ? model : pci->name);
}

static void describe_nic(const weiri_topo *topo, hwloc_obj_t pci, hwloc_obj_t osdev,
                         weiri_topo_device *device)
{
    describe_pci(topo, pci, device);
    copy_text(device->name, sizeof device->name, osdev->name);
    copy_text(device->model, sizeof device->model, pci->name);
    device->openfabrics = osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    device->link_up = link_up(osdev);
    const char *gbits = info_of(osdev, WEIRI_TOPO_INFO_LINK_GBITS);
    device->link_gbits = gbits ? strtod(gbits, NULL) : 0;
}

static void add_device(weiri_topo *topo, hwloc_obj_t pci)
{
    hwloc_obj_t osdev = best_osdev(topo, pci);
    if (weiri_topo_is_gpu(pci) && !info_of(pci, WEIRI_TOPO_INFO_HIDDEN)) {
        weiri_topo_entry *entry = &topo->gpus.entries[topo->gpus.count++];
        entry->pci = pci;
        describe_gpu(topo, pci, osdev, &entry->device);
    } else if (is_nic(osdev)) {
        weiri_topo_entry *entry = &topo->nics.entries[topo->nics.count++];
        entry->pci = pci;
        describe_nic(topo, pci, osdev, &entry->device);
    }
}

/* The address has a fixed width, so its text sorts like the address. */
static int by_address(const void *left, const void *right)
{
    const weiri_topo_entry *a = left, *b = right;
    return strcmp(a->device.pci, b->device.pci);
}

static void name_unnamed_gpus(weiri_topo_table *gpus)
{
    for (int i = 0; i < gpus->count; i++) {
        weiri_topo_device *device = &gpus->entries[i].device;
        if (!device->name[0])
            snprintf(device->name, sizeof device->name, "gpu%d", i);
    }
}

weir_status weiri_topo_collect_devices(weiri_topo *topo)
{
    int npci = hwloc_get_nbobjs_by_type(topo->hwloc, HWLOC_OBJ_PCI_DEVICE);
    size_t room = npci > 0 ? (size_t)npci : 1;
    topo->gpus.entries = calloc(room, sizeof *topo->gpus.entries);
    topo->nics.entries = calloc(room, sizeof *topo->nics.entries);
    if (!topo->gpus.entries || !topo->nics.entries)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a table of %zu PCI devices", room);
    hwloc_obj_t pci = NULL;
    while ((pci = hwloc_get_next_pcidev(topo->hwloc, pci)))
        add_device(topo, pci);
    qsort(topo->gpus.entries, (size_t)topo->gpus.count, sizeof *topo->gpus.entries, by_address);
    qsort(topo->nics.entries, (size_t)topo->nics.count, sizeof *topo->nics.entries, by_address);
    name_unnamed_gpus(&topo->gpus);
    return WEIR_OK;
}

static const weiri_topo_device *device_at(const weiri_topo_table *table, int index)
{
    return index >= 0 && index < table->count ? &table->entries[index].device : NULL;
}

const weiri_topo_device *weiri_topo_gpu(const weiri_topo *topo, int gpu)
{
    return device_at(&topo->gpus, gpu);
}

const weiri_topo_device *weiri_topo_nic(const weiri_topo *topo, int nic)
{
    return device_at(&topo->nics, nic);
}

int weiri_topo_find(const weiri_topo_table *table, const char *pci)
{
    for (int i = 0; i < table->count; i++)
        if (strcasecmp(table->entries[i].device.pci, pci) == 0)
            return i;
    return -1;
}

int weiri_topo_gpu_by_pci(const weiri_topo *topo, const char *pci)
{
    return weiri_topo_find(&topo->gpus, pci);
}
