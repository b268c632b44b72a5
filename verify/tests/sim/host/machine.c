/*
 * The machine of a simulation. Values within a node of "xeon" are those of the recorded machine
 * with 16 cores (docs/performance/host-collectives.md): a load of a line that another core has
 * written takes 5 ns, a store to one that another core reads 8. All others are assumptions:
 *
 * - Xeon: 8 channels of DDR4-3200 (205 GB/s) and 3 UPI links of 11.2 GT/s (62 GB/s in each
 *   direction), of which 80 and 75% are used. Latencies of a line: 60 ns within a socket, 140
 *   between two.
 * - EPYC with four NUMA nodes in a socket (NPS4): 2 channels of DDR4-3200 for each node (51 GB/s),
 * a port of 32 bytes per cycle at 1.8 GHz (57 GB/s) for each last-level cache, of which 80 and 90%
 *   are used; between nodes the I/O die, taken as 100 GB/s. Latencies of a line: 25 ns within a
 *   last-level cache, 95 between two of a node, 110 between nodes.
 */
#include "verify/tests/sim/host/machine.h"

#include "topo/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sim_values known_values[] = {
    {.name = "xeon",
     .load_ns = {1.5, 5, 5.5, 8},
     .store_ns = {1.5, 8, 8, 14},
     .line_ns = {2, 60, 60, 140},
     .serve_ns = 10,
     .own_cache_bytes = 2 << 20,
     .memory_gbs = 164,
     .link_gbs = 47,
     .call_ns = 400,
     .page_ns = 80},
    {.name = "epyc",
     .is_amd = 1,
     .load_ns = {1.5, 3.5, 7, 8.5},
     .store_ns = {1.5, 4, 9, 11},
     .line_ns = {2, 25, 95, 110},
     .serve_ns = 10,
     .own_cache_bytes = 512 << 10,
     .memory_gbs = 41,
     .link_gbs = 100,
     .port_gbs = 51,
     .call_ns = 400,
     .page_ns = 80},
};

static void machine_fail(const char *what, const char *path)
{
    fprintf(stderr, "host_sim: %s: %s\n", path, what);
    exit(2);
}

/* The index of a number among those seen before; a new one is added. */
static int index_of(int *seen, int *count, int most, int number)
{
    for (int i = 0; i < *count; i++)
        if (seen[i] == number)
            return i;
    if (*count == most)
        machine_fail("more NUMA nodes or caches than this program has room for", "topology");
    seen[*count] = number;
    return (*count)++;
}

/* The last-level cache of a rank's first hardware thread; without one, its NUMA node's number. */
static int cache_number(const weiri_topo *topo, const weiri_place *place, double *bytes)
{
    hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topo->hwloc, (unsigned)atoi(place->cpus));
    hwloc_obj_t cache =
        pu ? hwloc_get_ancestor_obj_by_type(topo->hwloc, HWLOC_OBJ_L3CACHE, pu) : NULL;
    *bytes = cache ? (double)cache->attr->cache.size : 0;
    return cache ? (int)cache->logical_index : -1 - place->numa;
}

static void choose_values(sim_machine *machine, const char *name)
{
    for (size_t i = 0; i < sizeof known_values / sizeof *known_values; i++)
        if (strcmp(known_values[i].name, name) == 0)
            machine->values = known_values[i];
    if (!machine->values.name)
        machine_fail("no such set of values; expected xeon or epyc", name);
}

void sim_machine_load(sim_machine *machine, const char *xml_path, int nranks, const char *values)
{
    weiri_topo *topo = NULL;
    weiri_place place;
    int nodes[SIM_NODES_MAX], caches[SIM_CACHES_MAX];
    *machine = (sim_machine){.nranks = nranks};
    choose_values(machine, values);
    if (nranks < 2 || nranks > SIM_RANKS_MAX)
        machine_fail("expected 2 to 64 ranks", xml_path);
    if (weiri_topo_load(xml_path, &topo) != WEIR_OK)
        machine_fail(weir_last_error(), xml_path);
    for (int rank = 0; rank < nranks; rank++) {
        if (weiri_topo_place(topo, rank, nranks, &place) != WEIR_OK || place.sharers != 1)
            machine_fail("fewer cores than ranks", xml_path);
        int cache = cache_number(topo, &place, &machine->cache_bytes);
        machine->node_of[rank] = index_of(nodes, &machine->nnodes, SIM_NODES_MAX, place.numa);
        machine->cache_of[rank] = index_of(caches, &machine->ncaches, SIM_CACHES_MAX, cache);
        machine->node_of_cache[machine->cache_of[rank]] = machine->node_of[rank];
        weiri_place_free(&place);
    }
    weiri_topo_destroy(topo);
}

sim_distance sim_machine_distance(const sim_machine *machine, int from, int to)
{
    if (from == to)
        return SIM_OWN;
    if (machine->cache_of[from] == machine->cache_of[to])
        return SIM_CACHE;
    return machine->node_of[from] == machine->node_of[to] ? SIM_NODE : SIM_FAR;
}
