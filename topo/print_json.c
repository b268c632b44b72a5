/*
 * The machine for programs: one JSON object. Fields may be added, never
 * renamed; what is unknown is null. "schema" counts changes of meaning.
 *
 *   schema, weir, source, digest, summary, processor,
 *   counts{packages,numa_nodes,cores,threads,usable_cores,usable_threads,gpus,nics},
 *   caches[{level,bytes,count}], numa[{numa,cpus,memory_bytes}],
 *   gpus[{gpu,name,model,pci,vendor_id,device_id,numa,pcie_gbs,nic}],
 *   nics[{nic,name,model,pci,vendor_id,device_id,numa,pcie_gbs,link_gbits,link_up,openfabrics}],
 *   ranks[{rank,numa,gpu,nic,cores,cpus,sharers}],
 *   rdma_ports[{port,numa,gbits,state,active,link_layer,interface,gpu_paths[],
 *     gids[{index,gid,type}]}],
 *   rdma_ranks[{rank,port,gid,why}] (port and gid null where none serves),
 *   distances{gpu_gpu[][],gpu_nic[][],nvlink_gbs[][] or null}
 */
#include <inttypes.h>

#include "topo/model.h"

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *at = text; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            fputc(byte, out);
    }
    fputc('"', out);
}

static void put_text_field(FILE *out, const char *name, const char *text)
{
    fprintf(out, ", \"%s\": ", name);
    put_string(out, text);
}

/* null for an empty text. */
static void put_known_text_field(FILE *out, const char *name, const char *text)
{
    if (*text)
        put_text_field(out, name, text);
    else
        fprintf(out, ", \"%s\": null", name);
}

/* null for an unknown number: an index below 0, a speed of 0. */
static void put_index_field(FILE *out, const char *name, int index)
{
    if (index >= 0)
        fprintf(out, ", \"%s\": %d", name, index);
    else
        fprintf(out, ", \"%s\": null", name);
}

static void put_speed_field(FILE *out, const char *name, double speed)
{
    if (speed > 0)
        fprintf(out, ", \"%s\": %.6g", name, speed);
    else
        fprintf(out, ", \"%s\": null", name);
}

static void put_overview(const weiri_topo *topo, const char *source, FILE *out)
{
    weiri_topo_counts counts;
    char summary[256], digest[WEIRI_TOPO_DIGEST_BYTES];
    weiri_topo_count(topo, &counts);
    weiri_topo_summary(topo, summary, sizeof summary);
    weiri_topo_digest(topo, digest);
    fprintf(out, "{\"schema\": 1, \"weir\": \"%s\"", WEIR_VERSION);
    put_text_field(out, "source", source);
    put_text_field(out, "digest", digest);
    put_text_field(out, "summary", summary);
    put_known_text_field(out, "processor", weiri_topo_processor(topo));
    fprintf(out,
            ",\n \"counts\": {\"packages\": %d, \"numa_nodes\": %d, \"cores\": %d, "
            "\"threads\": %d, \"usable_cores\": %d, \"usable_threads\": %d, \"gpus\": %d, "
            "\"nics\": %d}",
            counts.packages, counts.numa_nodes, counts.cores, counts.pus, counts.usable_cores,
            counts.usable_pus, counts.gpus, counts.nics);
}

static void put_caches(const weiri_topo *topo, FILE *out)
{
    const char *separator = "";
    fprintf(out, ",\n \"caches\": [");
    for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L5CACHE; type++) {
        int count = hwloc_get_nbobjs_by_type(topo->hwloc, (hwloc_obj_type_t)type);
        hwloc_obj_t first = hwloc_get_obj_by_type(topo->hwloc, (hwloc_obj_type_t)type, 0);
        if (count <= 0 || !first)
            continue;
        fprintf(out, "%s\n  {\"level\": %u, \"bytes\": %" PRIu64 ", \"count\": %d}", separator,
                first->attr->cache.depth, (uint64_t)first->attr->cache.size, count);
        separator = ",";
    }
    fprintf(out, "]");
}

static void put_numa(const weiri_topo *topo, FILE *out)
{
    const char *separator = "";
    hwloc_obj_t node = NULL;
    fprintf(out, ",\n \"numa\": [");
    while ((node = hwloc_get_next_obj_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE, node))) {
        char cpus[WEIRI_PLACE_CPUS_BYTES];
        hwloc_bitmap_list_snprintf(cpus, sizeof cpus, node->cpuset);
        fprintf(out, "%s\n  {\"numa\": %u", separator, node->os_index);
        put_text_field(out, "cpus", cpus);
        fprintf(out, ", \"memory_bytes\": %" PRIu64 "}",
                (uint64_t)node->attr->numanode.local_memory);
        separator = ",";
    }
    fprintf(out, "]");
}

static void put_device(const weiri_topo_device *device, const char *kind, int index, FILE *out)
{
    fprintf(out, "%s\n  {\"%s\": %d", index > 0 ? "," : "", kind, index);
    put_text_field(out, "name", device->name);
    put_known_text_field(out, "model", device->model);
    put_text_field(out, "pci", device->pci);
    fprintf(out, ", \"vendor_id\": \"%04x\", \"device_id\": \"%04x\"", device->vendor_id,
            device->device_id);
    put_index_field(out, "numa", device->numa);
    put_speed_field(out, "pcie_gbs", device->pcie_gbs);
}

static void put_devices(const weiri_topo *topo, FILE *out)
{
    static const char *const truth[] = {"null", "false", "true"};
    fprintf(out, ",\n \"gpus\": [");
    for (int i = 0; i < topo->gpus.count; i++) {
        put_device(weiri_topo_gpu(topo, i), "gpu", i, out);
        put_index_field(out, "nic", weiri_topo_pick_nic(topo, i));
        fprintf(out, "}");
    }
    fprintf(out, "],\n \"nics\": [");
    for (int i = 0; i < topo->nics.count; i++) {
        const weiri_topo_device *nic = weiri_topo_nic(topo, i);
        put_device(nic, "nic", i, out);
        put_speed_field(out, "link_gbits", nic->link_gbits);
        fprintf(out, ", \"link_up\": %s, \"openfabrics\": %s}", truth[nic->link_up + 1],
                truth[nic->openfabrics + 1]);
    }
    fprintf(out, "]");
}

static weir_status put_ranks(const weiri_topo *topo, int nranks, FILE *out)
{
    fprintf(out, ",\n \"ranks\": [");
    for (int rank = 0; rank < nranks; rank++) {
        weiri_place place;
        weir_status status = weiri_topo_place(topo, rank, nranks, &place);
        if (status)
            return status;
        fprintf(out, "%s\n  {\"rank\": %d", rank > 0 ? "," : "", rank);
        put_index_field(out, "numa", place.numa);
        put_index_field(out, "gpu", place.gpu);
        put_index_field(out, "nic", place.nic);
        fprintf(out, ", \"cores\": %d", place.ncores);
        put_text_field(out, "cpus", place.cpus);
        fprintf(out, ", \"sharers\": %d}", place.sharers);
    }
    fprintf(out, "]");
    return WEIR_OK;
}

static void put_port_name(const weiri_rdma_port *port, FILE *out)
{
    fprintf(out, "\"port\": \"%s:%d\"", port->device, port->port);
}

static void put_gids(const weiri_rdma_port *port, FILE *out)
{
    fprintf(out, ", \"gids\": [");
    for (int i = 0; i < port->ngids; i++) {
        char address[WEIRI_RDMA_GID_TEXT_BYTES];
        weiri_rdma_gid_text(&port->gids[i], address);
        fprintf(out, "%s{\"index\": %d", i ? ", " : "", port->gids[i].index);
        put_text_field(out, "gid", address);
        put_text_field(out, "type", weiri_rdma_gid_type_name(port->gids[i].type));
        fputc('}', out);
    }
    fprintf(out, "]");
}

static void put_ports(const weiri_topo *topo, FILE *out)
{
    fprintf(out, ",\n \"rdma_ports\": [");
    for (int i = 0; i < topo->nports; i++) {
        const weiri_rdma_port *port = &topo->ports[i];
        fprintf(out, "%s\n  {", i ? "," : "");
        put_port_name(port, out);
        put_index_field(out, "numa", port->numa);
        put_speed_field(out, "gbits", port->gbits);
        put_text_field(out, "state", port->state);
        fprintf(out, ", \"active\": %s", port->active ? "true" : "false");
        put_text_field(out, "link_layer", port->ethernet ? "Ethernet" : "InfiniBand");
        put_known_text_field(out, "interface", port->netdev);
        fprintf(out, ", \"gpu_paths\": [");
        for (int gpu = 0; gpu < topo->gpus.count; gpu++)
            fprintf(out, "%s\"%s\"", gpu ? ", " : "",
                    weiri_topo_path_name(weiri_topo_gpu_port(topo, gpu, i)));
        fprintf(out, "]");
        put_gids(port, out);
        fputc('}', out);
    }
    fprintf(out, "]");
}

static weir_status put_choices(const weiri_topo *topo, int nranks, FILE *out)
{
    fprintf(out, ",\n \"rdma_ranks\": [");
    for (int rank = 0; topo->nports > 0 && rank < nranks; rank++) {
        weiri_place place;
        weiri_rdma_choice choice;
        weir_status status = weiri_topo_place(topo, rank, nranks, &place);
        if (status)
            return status;
        fprintf(out, "%s\n  {\"rank\": %d, ", rank ? "," : "", rank);
        if (weiri_topo_choose_port(topo, &place, &choice) == WEIR_OK) {
            const weiri_rdma_port *port = &topo->ports[choice.port];
            put_port_name(port, out);
            fprintf(out, ", \"gid\": %d", port->gids[choice.gid].index);
            put_text_field(out, "why", choice.why);
        } else {
            fprintf(out, "\"port\": null, \"gid\": null");
            put_text_field(out, "why", weir_last_error());
        }
        fputc('}', out);
    }
    fprintf(out, "]");
    return WEIR_OK;
}

typedef const char *(*cell_writer)(const weiri_topo *topo, int row, int column, char text[32]);

static const char *gpu_gpu_cell(const weiri_topo *topo, int row, int column, char text[32])
{
    snprintf(text, 32, "\"%s\"", weiri_topo_path_name(weiri_topo_gpu_gpu(topo, row, column)));
    return text;
}

static const char *gpu_nic_cell(const weiri_topo *topo, int row, int column, char text[32])
{
    snprintf(text, 32, "\"%s\"", weiri_topo_path_name(weiri_topo_gpu_nic(topo, row, column)));
    return text;
}

static const char *nvlink_cell(const weiri_topo *topo, int row, int column, char text[32])
{
    snprintf(text, 32, "%.6g", weiri_topo_nvlink_gbs(topo, row, column));
    return text;
}

static void put_matrix(const weiri_topo *topo, int ncolumns, cell_writer write_cell, FILE *out)
{
    fprintf(out, "[");
    for (int row = 0; row < topo->gpus.count; row++) {
        fprintf(out, "%s\n   [", row > 0 ? "," : "");
        for (int column = 0; column < ncolumns; column++) {
            char text[32];
            fprintf(out, "%s%s", column > 0 ? ", " : "", write_cell(topo, row, column, text));
        }
        fprintf(out, "]");
    }
    fprintf(out, "]");
}

static void put_distances(const weiri_topo *topo, FILE *out)
{
    fprintf(out, ",\n \"distances\": {\n  \"gpu_gpu\": ");
    put_matrix(topo, topo->gpus.count, gpu_gpu_cell, out);
    fprintf(out, ",\n  \"gpu_nic\": ");
    put_matrix(topo, topo->nics.count, gpu_nic_cell, out);
    fprintf(out, ",\n  \"nvlink_gbs\": ");
    if (topo->nvlink_gbs)
        put_matrix(topo, topo->gpus.count, nvlink_cell, out);
    else
        fprintf(out, "null");
    fprintf(out, "}}\n");
}

weir_status weiri_topo_print_json(const weiri_topo *topo, const char *source, int nranks,
                                  FILE *out)
{
    put_overview(topo, source, out);
    put_caches(topo, out);
    put_numa(topo, out);
    put_devices(topo, out);
    weir_status status = put_ranks(topo, nranks, out);
    put_ports(topo, out);
    if (!status)
        status = put_choices(topo, nranks, out);
    if (!status)
        put_distances(topo, out);
    return status;
}
