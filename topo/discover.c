/*
 * The life of a topology. hwloc is restricted to what weir reads, the tree is loaded from this
 * machine or from a recording, and the device tables are read from the tree. After loading, a
 * recording is processed like a live machine, so recorded machines test all of that code.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "topo/model.h"
#include "topo/nccl.h"

/* hwloc components that start a GPU's driver. They are slow, and placing ranks does not need
 * them. */
static const char *const driver_components[] = {"cuda", "nvml", "rsmi", "levelzero", NULL};
/* Components that weir never needs: PCI devices come from sysfs without libpciaccess, which leaks
 * memory; OpenCL and X displays report nothing about locations. */
static const char *const unused_components[] = {"pci", "opencl", "gl", NULL};

static void leave_out(hwloc_topology_t hwloc, const char *const *components)
{
    for (; *components; components++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, *components);
}

static weir_status configure(hwloc_topology_t hwloc, int ask_drivers)
{
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS |
                          HWLOC_TOPOLOGY_FLAG_IMPORT_SUPPORT;
    if (!ask_drivers)
        flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES;
    if (hwloc_topology_set_flags(hwloc, flags) != 0 ||
        hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "hwloc rejects its settings");
    leave_out(hwloc, unused_components);
    if (!ask_drivers)
        leave_out(hwloc, driver_components);
    return WEIR_OK;
}

/* The processors that this process may run on. hwloc's tree excludes what the cgroup forbids; this
 * function subtracts what the affinity mask forbids. */
static weir_status find_usable(weiri_topo *topo)
{
    hwloc_const_bitmap_t all = hwloc_topology_get_allowed_cpuset(topo->hwloc);
    topo->usable = hwloc_bitmap_alloc();
    if (!topo->usable)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    if (weiri_topo_is_live(topo) &&
        hwloc_get_cpubind(topo->hwloc, topo->usable, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_bitmap_and(topo->usable, topo->usable, all);
    if (hwloc_bitmap_iszero(topo->usable))
        hwloc_bitmap_copy(topo->usable, all);
    return WEIR_OK;
}

static weir_status read_tree(weiri_topo *topo, int ask_drivers)
{
    int ncores = hwloc_get_nbobjs_by_type(topo->hwloc, HWLOC_OBJ_CORE);
    topo->core_type = ncores > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    if (weiri_topo_is_live(topo))
        weiri_topo_annotate(topo->hwloc);
    if (weiri_topo_is_live(topo) && ask_drivers)
        weiri_topo_annotate_nvml(topo->hwloc);
    weir_status status = find_usable(topo);
    if (!status)
        status = weiri_topo_collect_devices(topo);
    if (!status)
        status = weiri_topo_collect_nvlink(topo);
    if (!status && weiri_topo_is_live(topo))
        status = weiri_topo_collect_ports(topo);
    return status;
}

/* Where a topology comes from. */
typedef struct topo_source {
    const char *path; /* of a recording; NULL: this machine */
    const char *xml;  /* the translation of the recording; NULL: it is hwloc XML itself */
    size_t bytes;     /* of xml, with the end */
    int ask_drivers;
} topo_source;

static int set_source(hwloc_topology_t hwloc, const topo_source *from)
{
    if (from->xml)
        return hwloc_topology_set_xmlbuffer(hwloc, from->xml, (int)from->bytes);
    return from->path ? hwloc_topology_set_xml(hwloc, from->path) : 0;
}

static weir_status load_tree(weiri_topo *topo, const topo_source *from)
{
    const char *xml_path = from->path;
    weir_status status = configure(topo->hwloc, from->ask_drivers);
    if (status)
        return status;
    if (set_source(topo->hwloc, from) != 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: not a machine recorded as hwloc XML; record one with "
                          "weir-topo --save FILE",
                          xml_path);
    if (hwloc_topology_load(topo->hwloc) == 0)
        return read_tree(topo, from->ask_drivers);
    if (xml_path)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: hwloc cannot read all of it; record the machine again with "
                          "weir-topo --save FILE",
                          xml_path);
    return weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                            "hwloc cannot discover this machine (are /sys and /proc mounted?)");
}

static weir_status create(const topo_source *from, weiri_topo **topo)
{
    weiri_topo *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a topology");
    weir_status status;
    weiri_topo_hide_redirections();
    if (hwloc_topology_init(&made->hwloc) == 0) {
        status = load_tree(made, from);
    } else {
        made->hwloc = NULL;
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "hwloc cannot start");
    }
    weiri_topo_restore_redirections();
    if (status)
        weiri_topo_destroy(made);
    else
        *topo = made;
    return status;
}

weir_status weiri_topo_discover(weiri_topo **topo)
{
    return create(&(topo_source){.ask_drivers = 0}, topo);
}

weir_status weiri_topo_discover_full(weiri_topo **topo)
{
    return create(&(topo_source){.ask_drivers = 1}, topo);
}

weir_status weiri_topo_load(const char *xml_path, weiri_topo **topo)
{
    const weir_status status = weiri_topo_check_recording(xml_path);
    return status ? status : create(&(topo_source){.path = xml_path, .ask_drivers = 1}, topo);
}

weir_status weiri_topo_load_nccl(const char *path, weiri_topo **topo)
{
    char *xml = NULL;
    size_t bytes = 0;
    weir_status status = weiri_nccl_translate(path, &xml, &bytes);
    if (!status)
        status = create(&(topo_source){path, xml, bytes + 1, 1}, topo);
    free(xml);
    return status;
}

weir_status weiri_topo_load_any(const char *path, weiri_topo **topo)
{
    return weiri_topo_is_nccl_file(path) ? weiri_topo_load_nccl(path, topo)
                                         : weiri_topo_load(path, topo);
}

void weiri_topo_destroy(weiri_topo *topo)
{
    if (!topo)
        return;
    free(topo->nvlink_gbs);
    free(topo->ports);
    free(topo->nics.entries);
    free(topo->gpus.entries);
    hwloc_bitmap_free(topo->usable);
    if (topo->hwloc)
        hwloc_topology_destroy(topo->hwloc);
    free(topo);
}

int weiri_topo_is_live(const weiri_topo *topo)
{
    return hwloc_topology_is_thissystem(topo->hwloc);
}

int weiri_topo_is_nccl(const weiri_topo *topo)
{
    return hwloc_obj_get_info_by_name(hwloc_get_root_obj(topo->hwloc), WEIRI_TOPO_INFO_SOURCE) !=
           NULL;
}

int weiri_topo_knows_threads(const weiri_topo *topo)
{
    return hwloc_obj_get_info_by_name(hwloc_get_root_obj(topo->hwloc), WEIRI_TOPO_INFO_THREADS) ==
           NULL;
}

static int count_usable(const weiri_topo *topo, hwloc_obj_type_t type)
{
    int count = 0;
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topo->hwloc, type, object)))
        count += hwloc_bitmap_intersects(object->cpuset, topo->usable);
    return count;
}

void weiri_topo_count(const weiri_topo *topo, weiri_topo_counts *counts)
{
    counts->packages = hwloc_get_nbobjs_by_type(topo->hwloc, HWLOC_OBJ_PACKAGE);
    counts->numa_nodes = hwloc_get_nbobjs_by_type(topo->hwloc, HWLOC_OBJ_NUMANODE);
    counts->cores = hwloc_get_nbobjs_by_type(topo->hwloc, topo->core_type);
    counts->pus = hwloc_get_nbobjs_by_type(topo->hwloc, HWLOC_OBJ_PU);
    counts->usable_cores = count_usable(topo, topo->core_type);
    counts->usable_pus = count_usable(topo, HWLOC_OBJ_PU);
    counts->gpus = topo->gpus.count;
    counts->nics = topo->nics.count;
}
