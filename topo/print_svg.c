/* Draws a node as SVG (lib/programs/picture.h). */
#include "programs/picture.h"
#include "topo/model.h"

#include <stdlib.h>
#include <string.h>

static int svg_most(int count, int most)
{
    return count < most ? count : most;
}

/* Fills the NUMA nodes, whose lists of cpus are the caller's to free. */
static void svg_add_nodes(const weiri_topo *topo, weiri_picture *picture,
                          char *cpus[WEIRI_PICTURE_NODES])
{
    hwloc_obj_t node = NULL;
    while (picture->nnodes < WEIRI_PICTURE_NODES &&
           (node = hwloc_get_next_obj_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE, node))) {
        if (!node->cpuset || hwloc_bitmap_iszero(node->cpuset))
            continue; /* a memory expander */
        char *list = cpus[picture->nnodes] = weiri_topo_list(node->cpuset);
        picture->nodes[picture->nnodes++] =
            (weiri_picture_node){.numa = (int)node->os_index,
                                 .memory_bytes = (double)node->attr->numanode.local_memory,
                                 .cpus = list ? list : ""};
    }
}

static void svg_add_devices(const weiri_topo *topo, weiri_picture *picture)
{
    picture->ngpus = svg_most(topo->gpus.count, WEIRI_PICTURE_DEVICES);
    picture->nnics = svg_most(topo->nics.count, WEIRI_PICTURE_DEVICES);
    for (int i = 0; i < picture->ngpus; i++) {
        const weiri_topo_device *gpu = weiri_topo_gpu(topo, i);
        picture->gpus[i] = (weiri_picture_device){.name = gpu->name,
                                                  .model = gpu->model,
                                                  .numa = gpu->numa,
                                                  .nic = weiri_topo_pick_nic(topo, i),
                                                  .pcie_gbs = gpu->pcie_gbs};
        for (int to = 0; to < picture->ngpus; to++)
            picture->nvlink_gbs[i][to] = weiri_topo_nvlink_gbs(topo, i, to);
    }
    for (int i = 0; i < picture->nnics; i++) {
        const weiri_topo_device *nic = weiri_topo_nic(topo, i);
        picture->nics[i] = (weiri_picture_device){.name = nic->name,
                                                  .model = nic->model,
                                                  .numa = nic->numa,
                                                  .number = i,
                                                  .link_gbits = nic->link_gbits,
                                                  .is_down = nic->link_up == 0};
    }
}

void weiri_topo_print_svg(const weiri_topo *topo, FILE *out)
{
    weiri_topo_draw(topo, NULL, 0, out);
}

void weiri_topo_draw(const weiri_topo *topo, const weiri_picture_way *ways, int nways, FILE *out)
{
    char summary[256], *cpus[WEIRI_PICTURE_NODES] = {NULL};
    weiri_picture picture = {
        .title = weiri_topo_processor(topo), .summary = summary, .ways = ways, .nways = nways};
    weiri_topo_summary(topo, summary, sizeof summary);
    svg_add_nodes(topo, &picture, cpus);
    svg_add_devices(topo, &picture);
    weiri_picture_put(&picture, 1, out);
    for (int i = 0; i < picture.nnodes; i++)
        free(cpus[i]);
}
