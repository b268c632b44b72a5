/*
 * How close devices are: the closest common component in hwloc's tree, NVLink as far as hwloc
 * reports it, and the choice of a NIC that follows from them.
 */
#include <stdlib.h>

#include "base/error.h"
#include "topo/model.h"

_Static_assert((int)WEIRI_TOPO_SAME_SWITCH == (int)WEIRI_NIC_SAME_SWITCH &&
                   (int)WEIRI_TOPO_CROSS_NUMA == (int)WEIRI_NIC_FAR,
               "paths are the library's distances");

const char *weiri_topo_path_name(weiri_topo_path path)
{
    static const char *const names[] = {"self", "same-switch", "same-root", "same-numa",
                                        "cross-numa"};
    return names[path];
}

static weiri_topo_path path_of_numa(const weiri_topo *topo, int numa_a, int numa_b)
{
    if (hwloc_get_nbobjs_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE) == 1)
        return WEIRI_TOPO_SAME_NUMA;
    return numa_a >= 0 && numa_a == numa_b ? WEIRI_TOPO_SAME_NUMA : WEIRI_TOPO_CROSS_NUMA;
}

/* hwloc's own search compares depths, which mean nothing for I/O objects. */
static hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b)
{
    for (; a; a = a->parent)
        for (hwloc_obj_t above = b; above; above = above->parent)
            if (above == a)
                return a;
    return NULL;
}

static weiri_topo_path path_between(const weiri_topo *topo, const weiri_topo_entry *a,
                                    const weiri_topo_entry *b)
{
    if (a->pci == b->pci)
        return WEIRI_TOPO_SELF;
    hwloc_obj_t common = common_ancestor(a->pci, b->pci);
    if (common && common->type == HWLOC_OBJ_BRIDGE)
        return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST ? WEIRI_TOPO_SAME_ROOT
                                                                           : WEIRI_TOPO_SAME_SWITCH;
    return path_of_numa(topo, a->device.numa, b->device.numa);
}

weiri_topo_path weiri_topo_gpu_gpu(const weiri_topo *topo, int gpu_a, int gpu_b)
{
    return path_between(topo, &topo->gpus.entries[gpu_a], &topo->gpus.entries[gpu_b]);
}

weiri_topo_path weiri_topo_gpu_nic(const weiri_topo *topo, int gpu, int nic)
{
    return path_between(topo, &topo->gpus.entries[gpu], &topo->nics.entries[nic]);
}

/* ------------------------------------------------------------------ NVLink */

static int gpu_of_object(const weiri_topo *topo, hwloc_obj_t object)
{
    hwloc_obj_t pci = object ? weiri_topo_pci_of(object) : NULL;
    for (int i = 0; pci && i < topo->gpus.count; i++)
        if (topo->gpus.entries[i].pci == pci)
            return i;
    return -1;
}

/* hwloc counts in MB/s, and reports a large value from each GPU to itself. */
static void read_nvlink(weiri_topo *topo, const struct hwloc_distances_s *links)
{
    for (unsigned from = 0; from < links->nbobjs; from++) {
        int a = gpu_of_object(topo, links->objs[from]);
        for (unsigned to = 0; to < links->nbobjs; to++) {
            int b = gpu_of_object(topo, links->objs[to]);
            if (a >= 0 && b >= 0 && a != b)
                topo->nvlink_gbs[a * topo->gpus.count + b] =
                    (double)links->values[from * links->nbobjs + to] / 1000;
        }
    }
}

weir_status weiri_topo_collect_nvlink(weiri_topo *topo)
{
    unsigned count = 1;
    struct hwloc_distances_s *links = NULL;
    if (topo->gpus.count == 0 ||
        hwloc_distances_get_by_name(topo->hwloc, "NVLinkBandwidth", &count, &links, 0) != 0 ||
        count == 0)
        return WEIR_OK;
    /* GPUs joined by NVSwitches: turns links to the switches into links between GPUs. Only if there
     * are switches, because the second step drops direct links between GPUs. */
    if (hwloc_distances_transform(topo->hwloc, links, HWLOC_DISTANCES_TRANSFORM_MERGE_SWITCH_PORTS,
                                  NULL, 0) == 0)
        hwloc_distances_transform(topo->hwloc, links, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE,
                                  NULL, 0);
    size_t ngpus = (size_t)topo->gpus.count;
    topo->nvlink_gbs = calloc(ngpus * ngpus, sizeof *topo->nvlink_gbs);
    if (topo->nvlink_gbs)
        read_nvlink(topo, links);
    hwloc_distances_release(topo->hwloc, links);
    return topo->nvlink_gbs
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %zu GPUs' links", ngpus);
}

double weiri_topo_nvlink_gbs(const weiri_topo *topo, int gpu_a, int gpu_b)
{
    return topo->nvlink_gbs ? topo->nvlink_gbs[gpu_a * topo->gpus.count + gpu_b] : 0;
}

/* -------------------------------------------------------------- the nearest */

/* From a GPU, or from a NUMA node if gpu is -1. */
static weiri_topo_path path_to_nic(const weiri_topo *topo, int gpu, int numa, int nic)
{
    if (gpu >= 0)
        return weiri_topo_gpu_nic(topo, gpu, nic);
    return path_of_numa(topo, numa, topo->nics.entries[nic].device.numa);
}

/* Uses the rule of the library's network transports. */
static int pick_nic(const weiri_topo *topo, int gpu, int numa, int ordinal)
{
    weiri_nic_view *views = calloc((size_t)topo->nics.count + 1, sizeof *views);
    int picked = -1;
    for (int i = 0; views && i < topo->nics.count; i++) {
        const weiri_topo_device *device = &topo->nics.entries[i].device;
        views[i] = (weiri_nic_view){.up = device->link_up,
                                    .verbs = device->openfabrics,
                                    .distance = (int)path_to_nic(topo, gpu, numa, i)};
    }
    if (views)
        picked = weiri_nic_pick(views, topo->nics.count, ordinal);
    free(views);
    return picked;
}

int weiri_topo_pick_nic(const weiri_topo *topo, int gpu)
{
    int is_known = gpu >= 0 && gpu < topo->gpus.count;
    return is_known ? pick_nic(topo, gpu, -1, gpu) : pick_nic(topo, -1, -1, 0);
}

int weiri_topo_pick_nic_at(const weiri_topo *topo, int numa, int ordinal)
{
    return pick_nic(topo, -1, numa, ordinal);
}
