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

/* null for an empty text. */
static void put_known_text(bench_json *json, const char *key, const char *text)
{
    if (*text)
        bench_json_put_text(json, key, text);
    else
        bench_json_put_null(json, key);
}

/* null for an unknown index (below 0). */
static void put_index(bench_json *json, const char *key, int index)
{
    if (index >= 0)
        bench_json_put_whole(json, key, index);
    else
        bench_json_put_null(json, key);
}

/* null for an unknown speed (0). */
static void put_speed(bench_json *json, const char *key, double speed)
{
    bench_json_key(json, key);
    if (speed > 0)
        bench_json_real_digits(json, speed, 6);
    else
        bench_json_null(json);
}

/* null for an unknown state (below 0). */
static void put_state(bench_json *json, const char *key, int state)
{
    if (state >= 0)
        bench_json_put_flag(json, key, state);
    else
        bench_json_put_null(json, key);
}

/* A member of the top-level object that is an array, on a new line. */
static void open_section(bench_json *json, const char *key)
{
    bench_json_break(json, 1);
    bench_json_put_list(json, key);
}

/* An object of such an array, on a new line. */
static void open_entry(bench_json *json)
{
    bench_json_break(json, 2);
    bench_json_open_object(json);
}

static void put_counts(const weiri_topo *topo, bench_json *json)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    bench_json_break(json, 1);
    bench_json_put_object(json, "counts");
    bench_json_put_whole(json, "packages", counts.packages);
    bench_json_put_whole(json, "numa_nodes", counts.numa_nodes);
    bench_json_put_whole(json, "cores", counts.cores);
    bench_json_put_whole(json, "threads", counts.pus);
    bench_json_put_whole(json, "usable_cores", counts.usable_cores);
    bench_json_put_whole(json, "usable_threads", counts.usable_pus);
    bench_json_put_whole(json, "gpus", counts.gpus);
    bench_json_put_whole(json, "nics", counts.nics);
    bench_json_close_object(json);
}

static void put_overview(const weiri_topo *topo, const char *source, bench_json *json)
{
    char summary[256], digest[WEIRI_TOPO_DIGEST_BYTES];
    weiri_topo_summary(topo, summary, sizeof summary);
    weiri_topo_digest(topo, digest);
    bench_json_put_whole(json, "schema", 1);
    bench_json_put_text(json, "weir", WEIR_VERSION);
    bench_json_put_text(json, "source", source);
    bench_json_put_text(json, "digest", digest);
    bench_json_put_text(json, "summary", summary);
    put_known_text(json, "processor", weiri_topo_processor(topo));
    put_counts(topo, json);
}

static void put_caches(const weiri_topo *topo, bench_json *json)
{
    open_section(json, "caches");
    for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L5CACHE; type++) {
        int count = hwloc_get_nbobjs_by_type(topo->hwloc, (hwloc_obj_type_t)type);
        hwloc_obj_t first = hwloc_get_obj_by_type(topo->hwloc, (hwloc_obj_type_t)type, 0);
        if (count <= 0 || !first)
            continue;
        open_entry(json);
        bench_json_put_whole(json, "level", first->attr->cache.depth);
        bench_json_put_whole(json, "bytes", (long long)first->attr->cache.size);
        bench_json_put_whole(json, "count", count);
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
}

static void put_numa(const weiri_topo *topo, bench_json *json)
{
    hwloc_obj_t node = NULL;
    open_section(json, "numa");
    while ((node = hwloc_get_next_obj_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE, node))) {
        char cpus[WEIRI_PLACE_CPUS_BYTES];
        hwloc_bitmap_list_snprintf(cpus, sizeof cpus, node->cpuset);
        open_entry(json);
        bench_json_put_whole(json, "numa", node->os_index);
        bench_json_put_text(json, "cpus", cpus);
        bench_json_put_whole(json, "memory_bytes", (long long)node->attr->numanode.local_memory);
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
}

static void put_pci_id(bench_json *json, const char *key, unsigned id)
{
    char text[16];
    snprintf(text, sizeof text, "%04x", id);
    bench_json_put_text(json, key, text);
}

/* Opens the object of a device; the caller adds the members of its kind and closes it. */
static void open_device(bench_json *json, const weiri_topo_device *device, const char *kind,
                        int index)
{
    open_entry(json);
    bench_json_put_whole(json, kind, index);
    bench_json_put_text(json, "name", device->name);
    put_known_text(json, "model", device->model);
    bench_json_put_text(json, "pci", device->pci);
    put_pci_id(json, "vendor_id", device->vendor_id);
    put_pci_id(json, "device_id", device->device_id);
    put_index(json, "numa", device->numa);
    put_speed(json, "pcie_gbs", device->pcie_gbs);
}

static void put_devices(const weiri_topo *topo, bench_json *json)
{
    open_section(json, "gpus");
    for (int i = 0; i < topo->gpus.count; i++) {
        open_device(json, weiri_topo_gpu(topo, i), "gpu", i);
        put_index(json, "nic", weiri_topo_pick_nic(topo, i));
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
    open_section(json, "nics");
    for (int i = 0; i < topo->nics.count; i++) {
        const weiri_topo_device *nic = weiri_topo_nic(topo, i);
        open_device(json, nic, "nic", i);
        put_speed(json, "link_gbits", nic->link_gbits);
        put_state(json, "link_up", nic->link_up);
        put_state(json, "openfabrics", nic->openfabrics);
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
}

static weir_status put_ranks(const weiri_topo *topo, int nranks, bench_json *json)
{
    open_section(json, "ranks");
    for (int rank = 0; rank < nranks; rank++) {
        weiri_place place;
        weir_status status = weiri_topo_place(topo, rank, nranks, &place);
        if (status)
            return status;
        open_entry(json);
        bench_json_put_whole(json, "rank", rank);
        put_index(json, "numa", place.numa);
        put_index(json, "gpu", place.gpu);
        put_index(json, "nic", place.nic);
        bench_json_put_whole(json, "cores", place.ncores);
        bench_json_put_text(json, "cpus", place.cpus);
        bench_json_put_whole(json, "sharers", place.sharers);
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
    return WEIR_OK;
}

static void put_port_name(const weiri_rdma_port *port, bench_json *json)
{
    char name[sizeof port->device + 16];
    snprintf(name, sizeof name, "%s:%d", port->device, port->port);
    bench_json_put_text(json, "port", name);
}

static void put_gids(const weiri_rdma_port *port, bench_json *json)
{
    bench_json_put_list(json, "gids");
    for (int i = 0; i < port->ngids; i++) {
        char address[WEIRI_RDMA_GID_TEXT_BYTES];
        weiri_rdma_gid_text(&port->gids[i], address);
        bench_json_open_object(json);
        bench_json_put_whole(json, "index", port->gids[i].index);
        bench_json_put_text(json, "gid", address);
        bench_json_put_text(json, "type", weiri_rdma_gid_type_name(port->gids[i].type));
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
}

static void put_port(const weiri_topo *topo, int index, bench_json *json)
{
    const weiri_rdma_port *port = &topo->ports[index];
    open_entry(json);
    put_port_name(port, json);
    put_index(json, "numa", port->numa);
    put_speed(json, "gbits", port->gbits);
    bench_json_put_text(json, "state", port->state);
    bench_json_put_flag(json, "active", port->active);
    bench_json_put_text(json, "link_layer", port->ethernet ? "Ethernet" : "InfiniBand");
    put_known_text(json, "interface", port->netdev);
    bench_json_put_list(json, "gpu_paths");
    for (int gpu = 0; gpu < topo->gpus.count; gpu++)
        bench_json_text(json, weiri_topo_path_name(weiri_topo_gpu_port(topo, gpu, index)));
    bench_json_close_list(json);
    put_gids(port, json);
    bench_json_close_object(json);
}

static void put_ports(const weiri_topo *topo, bench_json *json)
{
    open_section(json, "rdma_ports");
    for (int i = 0; i < topo->nports; i++)
        put_port(topo, i, json);
    bench_json_close_list(json);
}

static void put_choice(const weiri_topo *topo, int rank, const weiri_place *place,
                       bench_json *json)
{
    weiri_rdma_choice choice;
    open_entry(json);
    bench_json_put_whole(json, "rank", rank);
    if (weiri_topo_choose_port(topo, place, &choice) == WEIR_OK) {
        const weiri_rdma_port *port = &topo->ports[choice.port];
        put_port_name(port, json);
        bench_json_put_whole(json, "gid", port->gids[choice.gid].index);
        bench_json_put_text(json, "why", choice.why);
    } else {
        bench_json_put_null(json, "port");
        bench_json_put_null(json, "gid");
        bench_json_put_text(json, "why", weir_last_error());
    }
    bench_json_close_object(json);
}

static weir_status put_choices(const weiri_topo *topo, int nranks, bench_json *json)
{
    open_section(json, "rdma_ranks");
    for (int rank = 0; topo->nports > 0 && rank < nranks; rank++) {
        weiri_place place;
        weir_status status = weiri_topo_place(topo, rank, nranks, &place);
        if (status)
            return status;
        put_choice(topo, rank, &place, json);
    }
    bench_json_close_list(json);
    return WEIR_OK;
}

typedef void (*cell_writer)(const weiri_topo *topo, int row, int column, bench_json *json);

static void put_gpu_gpu_cell(const weiri_topo *topo, int row, int column, bench_json *json)
{
    bench_json_text(json, weiri_topo_path_name(weiri_topo_gpu_gpu(topo, row, column)));
}

static void put_gpu_nic_cell(const weiri_topo *topo, int row, int column, bench_json *json)
{
    bench_json_text(json, weiri_topo_path_name(weiri_topo_gpu_nic(topo, row, column)));
}

static void put_nvlink_cell(const weiri_topo *topo, int row, int column, bench_json *json)
{
    bench_json_real_digits(json, weiri_topo_nvlink_gbs(topo, row, column), 6);
}

/* A row per GPU. */
static void put_matrix(const weiri_topo *topo, const char *key, int ncolumns,
                       cell_writer put_cell, bench_json *json)
{
    bench_json_break(json, 2);
    bench_json_put_list(json, key);
    for (int row = 0; row < topo->gpus.count; row++) {
        bench_json_break(json, 3);
        bench_json_open_list(json);
        for (int column = 0; column < ncolumns; column++)
            put_cell(topo, row, column, json);
        bench_json_close_list(json);
    }
    bench_json_close_list(json);
}

static void put_distances(const weiri_topo *topo, bench_json *json)
{
    bench_json_break(json, 1);
    bench_json_put_object(json, "distances");
    put_matrix(topo, "gpu_gpu", topo->gpus.count, put_gpu_gpu_cell, json);
    put_matrix(topo, "gpu_nic", topo->nics.count, put_gpu_nic_cell, json);
    if (topo->nvlink_gbs) {
        put_matrix(topo, "nvlink_gbs", topo->gpus.count, put_nvlink_cell, json);
    } else {
        bench_json_break(json, 2);
        bench_json_put_null(json, "nvlink_gbs");
    }
    bench_json_close_object(json);
}

weir_status weiri_topo_print_json(const weiri_topo *topo, const char *source, int nranks,
                                  FILE *out)
{
    bench_json json = {.file = out, .layout = BENCH_JSON_INLINE};
    bench_json_open_object(&json);
    put_overview(topo, source, &json);
    put_caches(topo, &json);
    put_numa(topo, &json);
    put_devices(topo, &json);
    weir_status status = put_ranks(topo, nranks, &json);
    if (status)
        return status;
    put_ports(topo, &json);
    status = put_choices(topo, nranks, &json);
    if (status)
        return status;
    put_distances(topo, &json);
    bench_json_close_object(&json);
    fputc('\n', out);
    return WEIR_OK;
}
