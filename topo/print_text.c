/*
 * The hardware as text: a summary, then short tables, one per question (NUMA nodes, GPUs and NICs,
 * where each rank runs, how close devices are). Tables without rows are omitted.
 */
#include <stdio.h>
#include <stdlib.h>

#include "topo/model.h"

/* Words of the distance tables, short enough for eight columns. */
static const char *short_path(weiri_topo_path path)
{
    static const char *const words[] = {"-", "switch", "root", "numa", "far"};
    return words[path];
}

/* "3", or "-" for none. */
static const char *number_or_dash(int number, char text[16])
{
    snprintf(text, 16, "%d", number);
    return number >= 0 ? text : "-";
}

static void print_bytes(FILE *out, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    fprintf(out, "%.3g %s", bytes, units[unit]);
}

static void print_caches(const weiri_topo *topo, FILE *out)
{
    const char *separator = "  caches     ";
    for (int type = HWLOC_OBJ_L5CACHE; type >= HWLOC_OBJ_L1CACHE; type--) {
        int count = hwloc_get_nbobjs_by_type(topo->hwloc, (hwloc_obj_type_t)type);
        hwloc_obj_t first = hwloc_get_obj_by_type(topo->hwloc, (hwloc_obj_type_t)type, 0);
        if (count <= 0 || !first)
            continue;
        fprintf(out, "%sL%u %d x ", separator, first->attr->cache.depth, count);
        print_bytes(out, (double)first->attr->cache.size);
        separator = ", ";
    }
    if (*separator == ',')
        fputc('\n', out);
}

static void print_overview(const weiri_topo *topo, const char *source, FILE *out)
{
    weiri_topo_counts counts;
    char summary[256], digest[WEIRI_TOPO_DIGEST_BYTES];
    weiri_topo_count(topo, &counts);
    weiri_topo_summary(topo, summary, sizeof summary);
    weiri_topo_digest(topo, digest);
    fprintf(out, "%s: %s\n", source, summary);
    fprintf(out, "  threads    ");
    if (!weiri_topo_knows_threads(topo))
        fprintf(out, "not in NCCL's file; one stands for those of a NUMA node: ");
    fprintf(out, "%d on %d core%s", counts.pus, counts.cores, counts.cores == 1 ? "" : "s");
    if (counts.usable_pus < counts.pus)
        fprintf(out, "; this process may use %d on %d", counts.usable_pus, counts.usable_cores);
    fputc('\n', out);
    print_caches(topo, out);
    fprintf(out, "  digest     %s\n", digest);
}

static void print_numa(const weiri_topo *topo, FILE *out)
{
    fprintf(out, "\nNUMA      memory  cpus\n");
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE, node))) {
        char *cpus = weiri_topo_list(node->cpuset);
        char memory[24] = "-";
        if (node->attr->numanode.local_memory)
            snprintf(memory, sizeof memory, "%.0f GiB",
                     (double)node->attr->numanode.local_memory / (1 << 30));
        fprintf(out, "%4u  %10s  %s\n", node->os_index, memory, cpus && cpus[0] ? cpus : "-");
        free(cpus);
    }
}

static void print_gpus(const weiri_topo *topo, FILE *out)
{
    if (topo->gpus.count == 0)
        return;
    fprintf(out, "\nGPU  name    PCI address   NUMA  PCIe GB/s  NIC       model\n");
    for (int i = 0; i < topo->gpus.count; i++) {
        const weiri_topo_device *gpu = weiri_topo_gpu(topo, i);
        const weiri_topo_device *nic = weiri_topo_nic(topo, weiri_topo_pick_nic(topo, i));
        char numa[16], speed[16] = "-";
        if (gpu->pcie_gbs > 0)
            snprintf(speed, sizeof speed, "%.1f", gpu->pcie_gbs);
        fprintf(out, "%3d  %-6s  %-12s  %4s  %9s  %-8s  %s\n", i, gpu->name, gpu->pci,
                number_or_dash(gpu->numa, numa), speed, nic ? nic->name : "-",
                gpu->model[0] ? gpu->model : "-");
    }
}

static void print_nics(const weiri_topo *topo, FILE *out)
{
    static const char *const states[] = {"-", "down", "up"};
    if (topo->nics.count == 0)
        return;
    fprintf(out, "\nNIC  name      PCI address   NUMA  Gbit/s  state  kind\n");
    for (int i = 0; i < topo->nics.count; i++) {
        const weiri_topo_device *nic = weiri_topo_nic(topo, i);
        char numa[16], speed[16] = "-";
        if (nic->link_gbits > 0)
            snprintf(speed, sizeof speed, "%g", nic->link_gbits);
        fprintf(out, "%3d  %-8s  %-12s  %4s  %6s  %-5s  %s\n", i, nic->name, nic->pci,
                number_or_dash(nic->numa, numa), speed, states[nic->link_up + 1],
                nic->openfabrics ? "OpenFabrics (verbs)" : "network");
    }
}

static void print_place(const weiri_topo *topo, const weiri_place *place, FILE *out)
{
    const weiri_topo_device *gpu = weiri_topo_gpu(topo, place->gpu);
    const weiri_topo_device *nic = weiri_topo_nic(topo, place->nic);
    char numa[16];
    fprintf(out, "%4d  %4s  %-6s  %-8s  %5d  %s", place->local_rank,
            number_or_dash(place->numa, numa), gpu ? gpu->name : "-", nic ? nic->name : "-",
            place->ncores, place->cpus);
    if (place->sharers > 1)
        fprintf(out, " (shared by %d ranks)", place->sharers);
    fputc('\n', out);
}

static void print_places(const weiri_topo *topo, const weiri_place *places, int nranks, FILE *out)
{
    fprintf(out, "\nRank  NUMA  GPU     NIC       cores  cpus\n");
    for (int rank = 0; rank < nranks; rank++)
        print_place(topo, &places[rank], out);
}

/* "0 fe80::1, 1 10.9.9.1 (RoCE v2)" */
static void print_gids(const weiri_rdma_port *port, FILE *out)
{
    for (int i = 0; i < port->ngids; i++) {
        char address[WEIRI_RDMA_GID_TEXT_BYTES];
        weiri_rdma_gid_text(&port->gids[i], address);
        fprintf(out, "%s%d %s (%s)", i ? ", " : "", port->gids[i].index, address,
                weiri_rdma_gid_type_name(port->gids[i].type));
    }
    fputs(port->ngids ? "\n" : "none\n", out);
}

static void print_ports(const weiri_topo *topo, FILE *out)
{
    if (topo->nports == 0)
        return;
    fprintf(out, "\nRDMA port   NUMA  Gbit/s  state     link        interface  GIDs\n");
    for (int i = 0; i < topo->nports; i++) {
        const weiri_rdma_port *port = &topo->ports[i];
        char name[80], numa[16], speed[16] = "-";
        snprintf(name, sizeof name, "%s:%d", port->device, port->port);
        if (port->gbits > 0)
            snprintf(speed, sizeof speed, "%g", port->gbits);
        fprintf(out, "%-10s  %4s  %6s  %-8s  %-10s  %-9s  ", name, number_or_dash(port->numa, numa),
                speed, port->state, port->ethernet ? "Ethernet" : "InfiniBand",
                port->netdev[0] ? port->netdev : "-");
        print_gids(port, out);
    }
}

/* Prints the port that the `ib` transport of each rank uses. */
static void print_choices(const weiri_topo *topo, const weiri_place *places, int nranks, FILE *out)
{
    if (topo->nports == 0)
        return;
    fprintf(out, "\nRank  RDMA port   GID  why\n");
    for (int rank = 0; rank < nranks; rank++) {
        char name[80];
        weiri_rdma_choice choice;
        if (weiri_topo_choose_port(topo, &places[rank], &choice) != WEIR_OK) {
            fprintf(out, "%4d  -             -  %s\n", rank, weir_last_error());
            continue;
        }
        const weiri_rdma_port *port = &topo->ports[choice.port];
        snprintf(name, sizeof name, "%s:%d", port->device, port->port);
        fprintf(out, "%4d  %-10s  %3d  %s\n", rank, name, port->gids[choice.gid].index, choice.why);
    }
}

static void print_port_distances(const weiri_topo *topo, FILE *out)
{
    if (topo->nports == 0 || topo->gpus.count == 0)
        return;
    fprintf(out, "\nGPU:port");
    for (int port = 0; port < topo->nports; port++) {
        char name[80];
        snprintf(name, sizeof name, "%s:%d", topo->ports[port].device, topo->ports[port].port);
        fprintf(out, " %10s", name);
    }
    fputc('\n', out);
    for (int gpu = 0; gpu < topo->gpus.count; gpu++) {
        fprintf(out, "%-8s", topo->gpus.entries[gpu].device.name);
        for (int port = 0; port < topo->nports; port++)
            fprintf(out, " %10s", short_path(weiri_topo_gpu_port(topo, gpu, port)));
        fputc('\n', out);
    }
}

/* "-", a path's word, or "nv450" for NVLink of 450 GB/s. */
static const char *gpu_gpu_cell(const weiri_topo *topo, int row, int column, char text[16])
{
    double nvlink_gbs = weiri_topo_nvlink_gbs(topo, row, column);
    if (nvlink_gbs <= 0)
        return short_path(weiri_topo_gpu_gpu(topo, row, column));
    snprintf(text, 16, "nv%.0f", nvlink_gbs);
    return text;
}

static const char *gpu_nic_cell(const weiri_topo *topo, int row, int column, char text[16])
{
    (void)text;
    return short_path(weiri_topo_gpu_nic(topo, row, column));
}

typedef const char *(*cell_text)(const weiri_topo *topo, int row, int column, char text[16]);

/* One row per GPU, one column per device. */
static void print_matrix(const weiri_topo *topo, const char *title, const weiri_topo_table *columns,
                         cell_text cell, FILE *out)
{
    if (columns->count == 0)
        return;
    fprintf(out, "\n%-8s", title);
    for (int column = 0; column < columns->count; column++)
        fprintf(out, " %8s", columns->entries[column].device.name);
    fputc('\n', out);
    for (int row = 0; row < topo->gpus.count; row++) {
        fprintf(out, "%-8s", topo->gpus.entries[row].device.name);
        for (int column = 0; column < columns->count; column++) {
            char text[16];
            fprintf(out, " %8s", cell(topo, row, column, text));
        }
        fputc('\n', out);
    }
}

static void print_distances(const weiri_topo *topo, FILE *out)
{
    if (topo->gpus.count < 2 && (topo->gpus.count == 0 || topo->nics.count == 0))
        return;
    if (topo->gpus.count > 1)
        print_matrix(topo, "GPU:GPU", &topo->gpus, gpu_gpu_cell, out);
    print_matrix(topo, "GPU:NIC", &topo->nics, gpu_nic_cell, out);
    fprintf(out,
            "\nShared by the two: switch, one PCIe switch; root, one PCIe root complex; "
            "numa, one NUMA\nnode; far, only the machine (or the location is unknown)%s\n",
            topo->nvlink_gbs ? "; nvN, NVLink of N GB/s" : "");
}

weir_status weiri_topo_print_text(const weiri_topo *topo, const char *source, int nranks, FILE *out)
{
    weiri_place *places;
    const weir_status status = weiri_topo_places(topo, nranks, &places);
    if (status) /* before anything is written */
        return status;
    print_overview(topo, source, out);
    print_numa(topo, out);
    print_gpus(topo, out);
    print_nics(topo, out);
    print_ports(topo, out);
    print_places(topo, places, nranks, out);
    print_choices(topo, places, nranks, out);
    print_port_distances(topo, out);
    print_distances(topo, out);
    weiri_places_free(places, nranks);
    return WEIR_OK;
}
