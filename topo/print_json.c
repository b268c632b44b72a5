/*
 * Prints the hardware of a node as one JSON object. Fields may be added, never renamed; unknown
 * values are null. "schema" counts changes of meaning.
 *
 *   schema, weir, source, digest, summary, processor,
 *   counts{packages,numa_nodes,cores,threads,usable_cores,usable_threads,gpus,nics},
 *   caches[{level,bytes,count}], numa[{numa,cpus,memory_bytes}],
 *   gpus[{gpu,name,model,pci,vendor_id,device_id,numa,pcie_gbs,nic}],
 *   nics[{nic,name,model,pci,vendor_id,device_id,numa,pcie_gbs,link_gbits,link_up,openfabrics}],
 *   ranks[{rank,numa,gpu,nic,cores,cpus,sharers}],
 *   rdma_ports[{port,numa,gbits,state,active,link_layer,interface,gpu_paths[],
 *     gids[{index,gid,type}]}],
 *   rdma_ranks[{rank,port,gid,why}] (port and gid are null if no port is usable),
 *   distances{gpu_gpu[][],gpu_nic[][],nvlink_gbs[][] or null}
 */
#include "base/json.h"
#include "topo/model.h"

#include <stdlib.h>

/* null for an empty text. */
static void put_known_text(weiri_json_writer *json, const char *key, const char *text)
{
    if (*text)
        weiri_json_put_text(json, key, text);
    else
        weiri_json_put_null(json, key);
}

/* null for an unknown index (below 0). */
static void put_index(weiri_json_writer *json, const char *key, int index)
{
    if (index >= 0)
        weiri_json_put_whole(json, key, index);
    else
        weiri_json_put_null(json, key);
}

/* null for an unknown speed (0). */
static void put_speed(weiri_json_writer *json, const char *key, double speed)
{
    weiri_json_key(json, key);
    if (speed > 0)
        weiri_json_real_digits(json, speed, 6);
    else
        weiri_json_add_null(json);
}

/* null for an unknown state (below 0). */
static void put_state(weiri_json_writer *json, const char *key, int state)
{
    if (state >= 0)
        weiri_json_put_flag(json, key, state);
    else
        weiri_json_put_null(json, key);
}

/* A member of the top-level object that is an array, on a new line. */
static void open_section(weiri_json_writer *json, const char *key)
{
    weiri_json_break(json, 1);
    weiri_json_put_list(json, key);
}

/* An object of such an array, on a new line. */
static void open_entry(weiri_json_writer *json)
{
    weiri_json_break(json, 2);
    weiri_json_open_object(json);
}

static void put_counts(const weiri_topo *topo, weiri_json_writer *json)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    weiri_json_break(json, 1);
    weiri_json_put_object(json, "counts");
    weiri_json_put_whole(json, "packages", counts.packages);
    weiri_json_put_whole(json, "numa_nodes", counts.numa_nodes);
    weiri_json_put_whole(json, "cores", counts.cores);
    weiri_json_put_whole(json, "threads", counts.pus);
    weiri_json_put_whole(json, "usable_cores", counts.usable_cores);
    weiri_json_put_whole(json, "usable_threads", counts.usable_pus);
    weiri_json_put_whole(json, "gpus", counts.gpus);
    weiri_json_put_whole(json, "nics", counts.nics);
    weiri_json_close_object(json);
}

static void put_overview(const weiri_topo *topo, const char *source, weiri_json_writer *json)
{
    char summary[256], digest[WEIRI_TOPO_DIGEST_BYTES];
    weiri_topo_summary(topo, summary, sizeof summary);
    weiri_topo_digest(topo, digest);
    weiri_json_put_whole(json, "schema", 1);
    weiri_json_put_text(json, "weir", WEIR_VERSION);
    weiri_json_put_text(json, "source", source);
    weiri_json_put_text(json, "digest", digest);
    weiri_json_put_text(json, "summary", summary);
    put_known_text(json, "processor", weiri_topo_processor(topo));
    put_counts(topo, json);
}

static void put_caches(const weiri_topo *topo, weiri_json_writer *json)
{
    open_section(json, "caches");
    for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L5CACHE; type++) {
        int count = hwloc_get_nbobjs_by_type(topo->hwloc, (hwloc_obj_type_t)type);
        hwloc_obj_t first = hwloc_get_obj_by_type(topo->hwloc, (hwloc_obj_type_t)type, 0);
        if (count <= 0 || !first)
            continue;
        open_entry(json);
        weiri_json_put_whole(json, "level", first->attr->cache.depth);
        weiri_json_put_whole(json, "bytes", (long long)first->attr->cache.size);
        weiri_json_put_whole(json, "count", count);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void put_numa(const weiri_topo *topo, weiri_json_writer *json)
{
    hwloc_obj_t node = NULL;
    open_section(json, "numa");
    while ((node = hwloc_get_next_obj_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE, node))) {
        char *cpus = weiri_topo_list(node->cpuset);
        open_entry(json);
        weiri_json_put_whole(json, "numa", node->os_index);
        weiri_json_put_text(json, "cpus", cpus ? cpus : "");
        free(cpus);
        weiri_json_put_whole(json, "memory_bytes", (long long)node->attr->numanode.local_memory);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void put_pci_id(weiri_json_writer *json, const char *key, unsigned id)
{
    char text[16];
    snprintf(text, sizeof text, "%04x", id);
    weiri_json_put_text(json, key, text);
}

/* Opens the object of a device; the caller adds the members of its kind and closes it. */
static void open_device(weiri_json_writer *json, const weiri_topo_device *device, const char *kind,
                        int index)
{
    open_entry(json);
    weiri_json_put_whole(json, kind, index);
    weiri_json_put_text(json, "name", device->name);
    put_known_text(json, "model", device->model);
    weiri_json_put_text(json, "pci", device->pci);
    put_pci_id(json, "vendor_id", device->vendor_id);
    put_pci_id(json, "device_id", device->device_id);
    put_index(json, "numa", device->numa);
    put_speed(json, "pcie_gbs", device->pcie_gbs);
}

static void put_devices(const weiri_topo *topo, weiri_json_writer *json)
{
    open_section(json, "gpus");
    for (int i = 0; i < topo->gpus.count; i++) {
        open_device(json, weiri_topo_gpu(topo, i), "gpu", i);
        put_index(json, "nic", weiri_topo_pick_nic(topo, i));
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
    open_section(json, "nics");
    for (int i = 0; i < topo->nics.count; i++) {
        const weiri_topo_device *nic = weiri_topo_nic(topo, i);
        open_device(json, nic, "nic", i);
        put_speed(json, "link_gbits", nic->link_gbits);
        put_state(json, "link_up", nic->link_up);
        put_state(json, "openfabrics", nic->openfabrics);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void put_ranks(const weiri_place *places, int nranks, weiri_json_writer *json)
{
    open_section(json, "ranks");
    for (int rank = 0; rank < nranks; rank++) {
        const weiri_place *place = &places[rank];
        open_entry(json);
        weiri_json_put_whole(json, "rank", rank);
        put_index(json, "numa", place->numa);
        put_index(json, "gpu", place->gpu);
        put_index(json, "nic", place->nic);
        weiri_json_put_whole(json, "cores", place->ncores);
        weiri_json_put_text(json, "cpus", place->cpus);
        weiri_json_put_whole(json, "sharers", place->sharers);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void put_port_name(const weiri_rdma_port *port, weiri_json_writer *json)
{
    char name[sizeof port->device + 16];
    snprintf(name, sizeof name, "%s:%d", port->device, port->port);
    weiri_json_put_text(json, "port", name);
}

static void put_gids(const weiri_rdma_port *port, weiri_json_writer *json)
{
    weiri_json_put_list(json, "gids");
    for (int i = 0; i < port->ngids; i++) {
        char address[WEIRI_RDMA_GID_TEXT_BYTES];
        weiri_rdma_gid_text(&port->gids[i], address);
        weiri_json_open_object(json);
        weiri_json_put_whole(json, "index", port->gids[i].index);
        weiri_json_put_text(json, "gid", address);
        weiri_json_put_text(json, "type", weiri_rdma_gid_type_name(port->gids[i].type));
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void put_port(const weiri_topo *topo, int index, weiri_json_writer *json)
{
    const weiri_rdma_port *port = &topo->ports[index];
    open_entry(json);
    put_port_name(port, json);
    put_index(json, "numa", port->numa);
    put_speed(json, "gbits", port->gbits);
    weiri_json_put_text(json, "state", port->state);
    weiri_json_put_flag(json, "active", port->active);
    weiri_json_put_text(json, "link_layer", port->ethernet ? "Ethernet" : "InfiniBand");
    put_known_text(json, "interface", port->netdev);
    weiri_json_put_list(json, "gpu_paths");
    for (int gpu = 0; gpu < topo->gpus.count; gpu++)
        weiri_json_add_text(json, weiri_topo_path_name(weiri_topo_gpu_port(topo, gpu, index)));
    weiri_json_close_list(json);
    put_gids(port, json);
    weiri_json_close_object(json);
}

static void put_ports(const weiri_topo *topo, weiri_json_writer *json)
{
    open_section(json, "rdma_ports");
    for (int i = 0; i < topo->nports; i++)
        put_port(topo, i, json);
    weiri_json_close_list(json);
}

static void put_choice(const weiri_topo *topo, int rank, const weiri_place *place,
                       weiri_json_writer *json)
{
    weiri_rdma_choice choice;
    open_entry(json);
    weiri_json_put_whole(json, "rank", rank);
    if (weiri_topo_choose_port(topo, place, &choice) == WEIR_OK) {
        const weiri_rdma_port *port = &topo->ports[choice.port];
        put_port_name(port, json);
        weiri_json_put_whole(json, "gid", port->gids[choice.gid].index);
        weiri_json_put_text(json, "why", choice.why);
    } else {
        weiri_json_put_null(json, "port");
        weiri_json_put_null(json, "gid");
        weiri_json_put_text(json, "why", weir_last_error());
    }
    weiri_json_close_object(json);
}

static void put_choices(const weiri_topo *topo, const weiri_place *places, int nranks,
                        weiri_json_writer *json)
{
    open_section(json, "rdma_ranks");
    for (int rank = 0; topo->nports > 0 && rank < nranks; rank++)
        put_choice(topo, rank, &places[rank], json);
    weiri_json_close_list(json);
}

typedef void (*cell_writer)(const weiri_topo *topo, int row, int column, weiri_json_writer *json);

static void put_gpu_gpu_cell(const weiri_topo *topo, int row, int column, weiri_json_writer *json)
{
    weiri_json_add_text(json, weiri_topo_path_name(weiri_topo_gpu_gpu(topo, row, column)));
}

static void put_gpu_nic_cell(const weiri_topo *topo, int row, int column, weiri_json_writer *json)
{
    weiri_json_add_text(json, weiri_topo_path_name(weiri_topo_gpu_nic(topo, row, column)));
}

static void put_nvlink_cell(const weiri_topo *topo, int row, int column, weiri_json_writer *json)
{
    weiri_json_real_digits(json, weiri_topo_nvlink_gbs(topo, row, column), 6);
}

/* A row per GPU. */
static void put_matrix(const weiri_topo *topo, const char *key, int ncolumns, cell_writer put_cell,
                       weiri_json_writer *json)
{
    weiri_json_break(json, 2);
    weiri_json_put_list(json, key);
    for (int row = 0; row < topo->gpus.count; row++) {
        weiri_json_break(json, 3);
        weiri_json_open_list(json);
        for (int column = 0; column < ncolumns; column++)
            put_cell(topo, row, column, json);
        weiri_json_close_list(json);
    }
    weiri_json_close_list(json);
}

static void put_distances(const weiri_topo *topo, weiri_json_writer *json)
{
    weiri_json_break(json, 1);
    weiri_json_put_object(json, "distances");
    put_matrix(topo, "gpu_gpu", topo->gpus.count, put_gpu_gpu_cell, json);
    put_matrix(topo, "gpu_nic", topo->nics.count, put_gpu_nic_cell, json);
    if (topo->nvlink_gbs) {
        put_matrix(topo, "nvlink_gbs", topo->gpus.count, put_nvlink_cell, json);
    } else {
        weiri_json_break(json, 2);
        weiri_json_put_null(json, "nvlink_gbs");
    }
    weiri_json_close_object(json);
}

weir_status weiri_topo_print_json(const weiri_topo *topo, const char *source, int nranks, FILE *out)
{
    weiri_json_writer json = {.file = out, .layout = WEIRI_JSON_INLINE};
    weiri_place *places;
    const weir_status status = weiri_topo_places(topo, nranks, &places);
    if (status) /* before anything is written */
        return status;
    weiri_json_open_object(&json);
    put_overview(topo, source, &json);
    put_caches(topo, &json);
    put_numa(topo, &json);
    put_devices(topo, &json);
    put_ranks(places, nranks, &json);
    put_ports(topo, &json);
    put_choices(topo, places, nranks, &json);
    put_distances(topo, &json);
    weiri_json_close_object(&json);
    fputc('\n', out);
    weiri_places_free(places, nranks);
    return WEIR_OK;
}
