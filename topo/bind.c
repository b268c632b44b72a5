/*
 * Binds the process to its place, unless its launcher has bound it already. Evidence is what the
 * kernel says: the process may not run on every hardware thread that the machine (or the cgroup)
 * offers, and other ranks of the node may run on others. Variables of launchers are no evidence,
 * because processes inherit them: Slurm's describe the step, whose tasks may be launchers
 * themselves. The exception is a binding that the user asked of Open MPI and that restricts nothing
 * on this machine. A thread that does all the work of a process can be bound to one core of the
 * place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/launchers.h"
#include "base/log.h"
#include "topo/model.h"

/* Open MPI also binds by default, which on a machine of one package restricts nothing: only a
 * policy that the user asked for counts, and only if it was carried out. The variables of an outer
 * mpirun, whose rank started this one's launcher, do not count. */
int weiri_topo_asked_openmpi(void)
{
    const weiri_launcher_row *launcher = weiri_launcher_of_process();
    const char *policy = getenv("OMPI_MCA_hwloc_base_binding_policy");
    const char *done = getenv("OMPI_MCA_orte_bound_at_launch");
    return launcher && strcmp(launcher->rank, "OMPI_COMM_WORLD_RANK") == 0 && policy &&
           strncmp(policy, "none", 4) != 0 && done && strcmp(done, "1") == 0;
}

static int count_cores(const weiri_topo *topo, hwloc_const_bitmap_t cpus)
{
    int ncores = 0;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo->hwloc, topo->core_type, core)))
        ncores += hwloc_bitmap_intersects(core->cpuset, cpus);
    return ncores;
}

/* The NUMA node that contains all these cpus, or -1. */
static int numa_of_cpus(const weiri_topo *topo, hwloc_const_bitmap_t cpus)
{
    int numa = -1;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo->hwloc, topo->core_type, core))) {
        int here = hwloc_bitmap_first(core->nodeset);
        if (!hwloc_bitmap_intersects(core->cpuset, cpus))
            continue;
        if (numa >= 0 && here != numa)
            return -1;
        numa = here;
    }
    return numa;
}

static weir_status replace_cpus(hwloc_const_bitmap_t cpus, weiri_place *place)
{
    char *list = weiri_topo_list(cpus);
    if (!list)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a list of cpus");
    free(place->cpus);
    place->cpus = list;
    return WEIR_OK;
}

static weir_status adopt(const weiri_topo *topo, hwloc_const_bitmap_t cpus, weiri_place *place)
{
    weir_status status = replace_cpus(cpus, place);
    if (status)
        return status;
    place->bound_by_launcher = 1;
    place->ncores = count_cores(topo, cpus);
    place->numa = numa_of_cpus(topo, cpus);
    place->sharers = 0;
    return WEIR_OK;
}

int weiri_topo_want(const weiri_topo *topo, const char *cpus, weiri_place *place)
{
    hwloc_bitmap_t wanted = hwloc_bitmap_alloc(), mine = hwloc_bitmap_alloc();
    const int can = wanted && mine && hwloc_bitmap_list_sscanf(wanted, cpus) == 0 &&
                    !hwloc_bitmap_iszero(wanted) &&
                    hwloc_get_cpubind(topo->hwloc, mine, HWLOC_CPUBIND_PROCESS) == 0 &&
                    hwloc_bitmap_isincluded(wanted, mine) && replace_cpus(wanted, place) == WEIR_OK;
    if (can) {
        place->ncores = count_cores(topo, wanted);
        place->numa = numa_of_cpus(topo, wanted);
        place->sharers = 0;
    }
    hwloc_bitmap_free(wanted);
    hwloc_bitmap_free(mine);
    return can;
}

static weir_status bind_process(const weiri_topo *topo, hwloc_bitmap_t cpus, weiri_place *place)
{
    if (hwloc_bitmap_list_sscanf(cpus, place->cpus) != 0 || hwloc_bitmap_iszero(cpus))
        return weiri_fail(WEIR_ERR_INVALID, "local rank %d: \"%s\" is not a list of cpus",
                          place->local_rank, place->cpus);
    if (hwloc_set_cpubind(topo->hwloc, cpus, HWLOC_CPUBIND_PROCESS) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "local rank %d: cannot bind to cpus %s",
                                place->local_rank, place->cpus);
    place->bound = 1;
    weiri_log(WEIRI_LOG_DEBUG, "bound to cpus %s", place->cpus);
    return WEIR_OK;
}

weir_status weiri_topo_bind(const weiri_topo *topo, int is_common, weiri_place *place)
{
    if (place->bound || place->bound_by_launcher)
        return WEIR_OK;
    if (!weiri_topo_is_live(topo))
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "local rank %d: cannot bind to a recorded machine; use the "
                          "topology of this machine",
                          place->local_rank);
    hwloc_const_bitmap_t all = hwloc_topology_get_allowed_cpuset(topo->hwloc);
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    weir_status status;
    if (hwloc_get_cpubind(topo->hwloc, cpus, HWLOC_CPUBIND_PROCESS) != 0) {
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                                  "local rank %d: cannot read the process's affinity",
                                  place->local_rank);
        goto free_cpus;
    }
    hwloc_bitmap_and(cpus, cpus, all);
    const int is_restricted = !is_common && !hwloc_bitmap_isequal(cpus, all);
    if (is_restricted || weiri_topo_asked_openmpi())
        status = adopt(topo, cpus, place);
    else
        status = bind_process(topo, cpus, place);
free_cpus:
    hwloc_bitmap_free(cpus);
    return status;
}

/* Removes all cpus but the hardware threads of the last core. */
static void keep_last_core(const weiri_topo *topo, hwloc_bitmap_t cpus)
{
    hwloc_obj_t core = NULL, last = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo->hwloc, topo->core_type, core)))
        if (hwloc_bitmap_intersects(core->cpuset, cpus))
            last = core;
    if (last)
        hwloc_bitmap_and(cpus, cpus, last->cpuset);
}

weir_status weiri_topo_settle(const weiri_topo *topo, weiri_place *place)
{
    if (!place->bound || place->ncores < 2)
        return WEIR_OK;
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    weir_status status;
    hwloc_bitmap_list_sscanf(cpus, place->cpus);
    keep_last_core(topo, cpus);
    if (hwloc_set_cpubind(topo->hwloc, cpus, HWLOC_CPUBIND_THREAD) != 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                                  "local rank %d: cannot bind to the last core of cpus %s",
                                  place->local_rank, place->cpus);
    else
        status = replace_cpus(cpus, place);
    hwloc_bitmap_free(cpus);
    if (status == WEIR_OK)
        place->ncores = 1;
    return status;
}

weir_status weiri_topo_visit_gpu(const weiri_topo *topo, int gpu)
{
    weir_status status = WEIR_OK;
    hwloc_bitmap_t cpus = hwloc_bitmap_dup(topo->usable);
    if (!cpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    if (gpu >= 0 && gpu < topo->gpus.count) {
        hwloc_obj_t near = topo->gpus.entries[gpu].pci;
        near = near ? hwloc_get_non_io_ancestor_obj(topo->hwloc, near) : NULL;
        if (near && hwloc_bitmap_intersects(near->cpuset, cpus))
            hwloc_bitmap_and(cpus, cpus, near->cpuset);
    }
    if (hwloc_set_cpubind(topo->hwloc, cpus, HWLOC_CPUBIND_THREAD) != 0)
        status =
            weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot bind to the cores of GPU %d", gpu);
    hwloc_bitmap_free(cpus);
    return status;
}
