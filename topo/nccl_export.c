/*
 * Writes a machine in the form that NCCL reads (NCCL_TOPO_FILE): NUMA nodes as <cpu>, below them
 * PCIe switches, GPUs and NICs. A switch is the port towards the processor; as NCCL does, the ports
 * of a root complex and those towards devices are left out. What NCCL finds out by itself is left
 * to it: which rank has a GPU, the number and the GUID of a NIC, and for a virtual machine, whose
 * driver knows the links, everything below the PCI devices.
 */
#define _GNU_SOURCE

#include "topo/nccl_export.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/write_file.h"
#include "topo/nccl.h"

typedef struct exporter {
    const weiri_topo *topo;
    const topo_guest *guest; /* NULL: the machine itself */
    FILE *to;
    struct exported {
        const weiri_topo_entry *entry;
        int number;       /* of a GPU; -1: a NIC */
        hwloc_obj_t root; /* the highest I/O object above it */
    } * devices;          /* in the order of their addresses */
    int count;
    int nswitches; /* of a guest, so far: their addresses are invented */
} exporter;

/* ------------------------------------------------------------------- values */

/* Words of 32 bits, the highest first. */
static void export_mask(const exporter *e, hwloc_const_bitmap_t cpus)
{
    const int words = hwloc_bitmap_last(cpus) / 32 + 1;
    fputs(" affinity=\"", e->to);
    for (int i = words - 1; i >= 0; i--)
        fprintf(e->to, "%08lx%s",
                hwloc_bitmap_to_ith_ulong(cpus, (unsigned)i / 2) >> i % 2 * 32 & 0xffffffffUL,
                i ? "," : "");
    fputc('"', e->to);
}

/* Speed and number of lanes as the machine's description has them; else from GB/s as hwloc counts
 * them: the most lanes that fit, since only the product counts. */
static void export_link(const exporter *e, hwloc_obj_t object)
{
    static const double rates[] = {64, 32, 16, 8, 5, 2.5};
    static const int widths[] = {16, 8, 4, 2, 1, 12, 32};
    const char *known = hwloc_obj_get_info_by_name(object, WEIRI_TOPO_INFO_PCIE);
    const char *by = known ? strstr(known, " x") : NULL;
    const double gbs = object->type == HWLOC_OBJ_BRIDGE
                           ? (double)object->attr->bridge.upstream.pci.linkspeed
                           : (double)object->attr->pcidev.linkspeed;
    if (by) {
        fprintf(e->to, " link_speed=\"%.*s\" link_width=\"%d\"", (int)(by - known), known,
                atoi(by + 2));
        return;
    }
    for (size_t w = 0; gbs > 0 && w < sizeof widths / sizeof *widths; w++)
        for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
            if (fabs(weiri_nccl_pcie_gbs(rates[r], widths[w]) - gbs) < 0.005 * gbs) {
                fprintf(e->to, " link_speed=\"%.1f GT/s PCIe\" link_width=\"%d\"", rates[r],
                        widths[w]);
                return;
            }
    fputs(" link_speed=\"\" link_width=\"\"", e->to);
}

/* ------------------------------------------------------------------ devices */

static const struct hwloc_pcidev_attr_s *export_pci(hwloc_obj_t object)
{
    return object->type == HWLOC_OBJ_BRIDGE ? &object->attr->bridge.upstream.pci
                                            : &object->attr->pcidev;
}

/* 1 if several devices are directly below a bridge; functions of one device count once. */
static int export_branches(hwloc_obj_t bridge)
{
    for (hwloc_obj_t a = bridge->io_first_child; a; a = a->next_sibling) {
        const struct hwloc_pcidev_attr_s *x = export_pci(a);
        const struct hwloc_pcidev_attr_s *y = export_pci(bridge->io_first_child);
        if (x->bus != y->bus || x->dev != y->dev)
            return 1;
    }
    return 0;
}

/* NCCL uses NICs with verbs, and without any of them the others; none that is down. A machine that
 * it has described has no more. To NCCL a virtio NIC is no PCI device: it adds those of a virtual
 * machine to the first <cpu> by itself (2.28.9). */
static int export_uses_nic(const weiri_topo *topo, const weiri_topo_device *nic)
{
    enum { VIRTIO = 0x1af4 };
    int openfabrics = 0;
    if (weiri_topo_is_nccl(topo))
        return 1;
    if (nic->vendor_id == VIRTIO)
        return 0;
    for (int i = 0; i < topo->nics.count; i++)
        openfabrics |= topo->nics.entries[i].device.openfabrics;
    return nic->link_up != 0 && nic->openfabrics == openfabrics;
}

static int export_by_address(const void *left, const void *right)
{
    const struct exported *a = left, *b = right;
    return strcmp(a->entry->device.pci, b->entry->device.pci);
}

static void export_add(exporter *e, const weiri_topo_entry *entry, int number)
{
    hwloc_obj_t root = entry->pci;
    while (hwloc_obj_type_is_io(root->parent->type))
        root = root->parent;
    if (!e->guest || weiri_guest_device(e->guest, entry->device.pci))
        e->devices[e->count++] = (struct exported){entry, number, root};
}

static void export_collect(exporter *e)
{
    const weiri_topo *topo = e->topo;
    for (int i = 0; i < topo->gpus.count; i++)
        export_add(e, &topo->gpus.entries[i], i);
    for (int i = 0; i < topo->nics.count; i++)
        if (e->guest || export_uses_nic(topo, &topo->nics.entries[i].device))
            export_add(e, &topo->nics.entries[i], -1);
    qsort(e->devices, (size_t)e->count, sizeof *e->devices, export_by_address);
}

/* ------------------------------------------------------------- links of GPUs */

/* "nvlink 0000:f3:00.0 5 0x068000;...", as discovery and NCCL's files have them. */
static void export_known_links(const exporter *e, const char *links)
{
    char kind[8], target[24], class_id[12];
    int count;
    for (; links && *links; links = strchr(links, ';') ? strchr(links, ';') + 1 : NULL) {
        if (sscanf(links, "%7[a-z] %23[0-9a-fA-F:.] %d %11[-0-9a-fx]", kind, target, &count,
                   class_id) != 4)
            continue;
        fprintf(e->to, "<%s target=\"%s\" count=\"%d\"", kind, target, count);
        if (*class_id != '-')
            fprintf(e->to, " tclass=\"%s\"", class_id);
        fputs("/>\n", e->to);
    }
}

/* Links as hwloc reports them: bandwidths from GPU to GPU, which are through switches if all
 * together have more links than a GPU has. */
static void export_nvlinks(const exporter *e, int gpu, int sm)
{
    const double one = weiri_nvlink_gbs(sm);
    const int n = e->topo->gpus.count, most = sm >= 90 ? 18 : sm >= 80 ? 12 : 6;
    int sum = 0, least = 0;
    for (int to = 0; to < n; to++) {
        const int count = (int)lround(weiri_topo_nvlink_gbs(e->topo, gpu, to) / one);
        sum += count;
        least = count > least ? count : least;
    }
    if (sum > most)
        fprintf(e->to, "<nvlink target=\"fffffff:ffff:ff\" count=\"%d\" tclass=\"0x068000\"/>\n",
                least);
    for (int to = 0; to < n && sum <= most; to++) {
        const int count = (int)lround(weiri_topo_nvlink_gbs(e->topo, gpu, to) / one);
        if (count > 0)
            fprintf(e->to, "<nvlink target=\"%s\" count=\"%d\" tclass=\"0x030200\"/>\n",
                    weiri_topo_gpu(e->topo, to)->pci, count);
    }
}

/* The compute capability of NVIDIA's GPUs by their device numbers; 0: unknown. */
static int export_capability(const weiri_topo_entry *gpu)
{
    static const struct {
        unsigned short first, last, sm;
    } rows[] = {{0x15f0, 0x15ff, 60}, {0x1b00, 0x1d7f, 61},  {0x1d80, 0x1dff, 70},
                {0x1e00, 0x1fff, 75}, {0x2080, 0x20ff, 80},  {0x2180, 0x21ff, 75},
                {0x2200, 0x22ff, 86}, {0x2300, 0x237f, 90},  {0x2480, 0x25ff, 86},
                {0x2600, 0x28ff, 89}, {0x2900, 0x297f, 100}, {0x2b80, 0x2dff, 120}};
    const char *known = hwloc_obj_get_info_by_name(gpu->pci, WEIRI_TOPO_INFO_SM);
    if (known)
        return atoi(known);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (gpu->device.vendor_id == WEIRI_VENDOR_NVIDIA &&
            gpu->device.device_id >= rows[i].first && gpu->device.device_id <= rows[i].last)
            return rows[i].sm;
    return 0;
}

static void export_gpu(const exporter *e, const struct exported *device)
{
    const weiri_topo_entry *gpu = device->entry;
    const char *links = hwloc_obj_get_info_by_name(gpu->pci, WEIRI_TOPO_INFO_LINKS);
    const char *architecture = strstr(gpu->device.model, "gfx");
    const int sm = export_capability(gpu);
    int number = device->number;
    sscanf(gpu->device.name, "cuda%d", &number);
    fprintf(e->to, "<gpu dev=\"%d\"", number);
    if (sm)
        fprintf(e->to, " sm=\"%d\"", sm);
    if (architecture)
        fprintf(e->to, " gcn=\"%.*s\"", (int)strspn(architecture, "gfx0123456789abcde"),
                architecture);
    fputs(">\n", e->to);
    if (links)
        export_known_links(e, links);
    else if (e->topo->nvlink_gbs && !architecture)
        export_nvlinks(e, device->number, sm);
    fputs("</gpu>\n", e->to);
}

/* ----------------------------------------------------------------- the tree */

static void export_device(const exporter *e, const struct exported *device)
{
    hwloc_obj_t pci = device->entry->pci;
    const weiri_topo_device *at = &device->entry->device;
    const struct hwloc_pcidev_attr_s *ids = &pci->attr->pcidev;
    fprintf(e->to, "<pci busid=\"%s\" class=\"0x%04x00\"",
            e->guest ? weiri_guest_device(e->guest, at->pci)->guest : at->pci, ids->class_id);
    if (!e->guest && ids->vendor_id)
        fprintf(e->to,
                " vendor=\"0x%04x\" device=\"0x%04x\" subsystem_vendor=\"0x%04x\" "
                "subsystem_device=\"0x%04x\"",
                ids->vendor_id, ids->device_id, ids->subvendor_id, ids->subdevice_id);
    export_link(e, pci);
    fputs(e->guest ? "/>\n" : ">\n", e->to);
    if (e->guest)
        return;
    if (device->number >= 0) {
        export_gpu(e, device);
    } else {
        fputs("<nic>\n<net", e->to);
        weiri_xml_put_attribute(e->to, "name", "%s", at->name);
        fprintf(e->to, " port=\"%d\"", at->openfabrics);
        if (at->link_gbits > 0)
            fprintf(e->to, " speed=\"%.0f\"", at->link_gbits * 1000);
        fputs("/>\n</nic>\n", e->to);
    }
    fputs("</pci>\n", e->to);
}

static void export_open_switch(exporter *e, hwloc_obj_t bridge)
{
    const struct hwloc_pcidev_attr_s *at = export_pci(bridge);
    if (e->guest)
        fprintf(e->to, "<pci busid=\"ffff:ff:%02x.%x\" class=\"0x060400\"", e->nswitches / 8 % 32,
                e->nswitches % 8);
    else
        fprintf(e->to, "<pci busid=\"%04x:%02x:%02x.%x\" class=\"0x060400\"", at->domain, at->bus,
                at->dev, at->func & 0xfu);
    e->nswitches++;
    export_link(e, bridge);
    fputs(">\n", e->to);
}

/* 1 if the device, or one below the bridge, is written. */
static int export_has(const exporter *e, hwloc_obj_t object)
{
    for (int i = 0; i < e->count; i++)
        for (hwloc_obj_t at = e->devices[i].entry->pci; at; at = at->parent)
            if (at == object)
                return 1;
    return 0;
}

/* Writes what is below an I/O object. Below a root port comes a device or a switch; a switch is two
 * ports, the first of which stands for it. Recordings that leave ports out have their switches
 * where bridges branch. */
static void export_tree(exporter *e, hwloc_obj_t object, int is_below_port)
{
    if (!export_has(e, object))
        return;
    for (int i = 0; i < e->count; i++)
        if (e->devices[i].entry->pci == object)
            export_device(e, &e->devices[i]);
    if (object->type != HWLOC_OBJ_BRIDGE)
        return;
    const int is_port = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
    const int is_switch = is_port && (is_below_port || export_branches(object) ||
                                      hwloc_obj_get_info_by_name(object, WEIRI_TOPO_INFO_SWITCH));
    if (is_switch)
        export_open_switch(e, object);
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
        export_tree(e, child, is_port && !is_switch);
    if (is_switch)
        fputs("</pci>\n", e->to);
}

/* What hwloc knows of a node's processor, in NCCL's words. */
static void export_processor(const exporter *e, hwloc_obj_t node)
{
    for (int i = 0; i < WEIRI_NCCL_FACTS; i++) {
        hwloc_obj_t object = node->parent;
        while (object && !hwloc_obj_get_info_by_name(object, weiri_nccl_facts[i][1]))
            object = object->parent;
        if (!object)
            object = hwloc_get_obj_by_type(e->topo->hwloc, HWLOC_OBJ_PACKAGE, 0);
        const char *value =
            object ? hwloc_obj_get_info_by_name(object, weiri_nccl_facts[i][1]) : NULL;
        if (value && i == 0)
            value = strncmp(value, "aarch64", 7) == 0 ? "arm64"
                    : strncmp(value, "ppc64", 5) == 0 ? "ppc64"
                                                      : value;
        if (value)
            weiri_xml_put_attribute(e->to, weiri_nccl_facts[i][0], "%s", value);
    }
}

/* The first device at or after `i` that is below the node and the first of its root; -1: none.
 * Devices whose node is unknown go to the first. */
static int export_next_of(const exporter *e, int numa, int is_first, int i)
{
    for (; i < e->count; i++) {
        const int of = e->devices[i].entry->device.numa;
        int other = 0;
        while (e->devices[other].root != e->devices[i].root)
            other++;
        if (other == i && (of == numa || (is_first && of < 0)))
            return i;
    }
    return -1;
}

/* Returns 1 if the node was written: NCCL knows nodes with devices only, a guest those of its map.
 */
static int export_node(exporter *e, hwloc_obj_t node, int is_first)
{
    const int numa = (int)node->os_index;
    const struct guest_node *guest = e->guest ? weiri_guest_node(e->guest, numa) : NULL;
    int i = export_next_of(e, numa, is_first, 0);
    if ((e->guest && !guest) || (e->count && i < 0))
        return 0;
    fprintf(e->to, "<cpu numaid=\"%lld\"", guest ? guest->guest : numa);
    if (guest || weiri_topo_knows_threads(e->topo))
        export_mask(e, guest ? guest->cpus : node->complete_cpuset);
    export_processor(e, node);
    fputs(">\n", e->to);
    for (; i >= 0; i = export_next_of(e, numa, is_first, i + 1))
        export_tree(e, e->devices[i].root, 0);
    fputs("</cpu>\n", e->to);
    return 1;
}

/* Nodes without hardware threads are memory expanders. Of nodes that share hardware threads, such
 * as high-bandwidth memory, the smallest and then the lowest stands for all. */
static int export_is_node(const weiri_topo *topo, hwloc_obj_t node)
{
    hwloc_obj_t other = NULL;
    const int weight = hwloc_bitmap_weight(node->cpuset);
    while ((other = hwloc_get_next_obj_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE, other))) {
        const int others = hwloc_bitmap_weight(other->cpuset);
        if (hwloc_bitmap_intersects(node->cpuset, other->cpuset) &&
            (others < weight || (others == weight && other->os_index < node->os_index)))
            return 0;
    }
    return weight > 0;
}

static void export_form(const void *context, FILE *to)
{
    exporter e = *(const exporter *)context;
    const size_t n = (size_t)(e.topo->gpus.count + e.topo->nics.count) + 1;
    hwloc_obj_t node = NULL;
    int is_first = 1;
    e.to = to;
    e.devices = calloc(n, sizeof *e.devices);
    fputs("<system version=\"1\">\n", to);
    if (e.devices)
        export_collect(&e);
    while (e.devices &&
           (node = hwloc_get_next_obj_by_type(e.topo->hwloc, HWLOC_OBJ_NUMANODE, node)))
        if (export_is_node(e.topo, node) && export_node(&e, node, is_first))
            is_first = 0;
    fputs("</system>\n", to);
    free(e.devices);
}

void weiri_nccl_export(const weiri_topo *topo, const topo_guest *guest, FILE *to)
{
    export_form(&(exporter){.topo = topo, .guest = guest}, to);
}

weir_status weiri_topo_save_nccl(const weiri_topo *topo, const char *map, const char *path)
{
    static topo_guest guest; /* large */
    weir_status status = map ? weiri_guest_read(map, topo, &guest) : WEIR_OK;
    const exporter e = {.topo = topo, .guest = map ? &guest : NULL};
    if (!status && weiri_write_file(path, export_form, &e) != 0) {
        const int error = errno;
        status =
            weiri_fail_errno(weiri_write_refuses_path(error) ? WEIR_ERR_INVALID : WEIR_ERR_SYSTEM,
                             error, "%s: cannot write the topology", path);
    }
    if (map)
        weiri_guest_free(&guest);
    return status;
}

weir_status weiri_topo_nccl_view(const weiri_topo *topo, weiri_topo **view)
{
    char path[32];
    const int fd = memfd_create("weir-topo", MFD_CLOEXEC);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!to)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "no memory for a topology");
    weiri_nccl_export(topo, NULL, to);
    fflush(to);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const weir_status status = weiri_topo_load_nccl(path, view);
    fclose(to);
    return status;
}
