/*
 * Computes where each rank of a node should run. Ranks choose a NUMA node with usable cores one
 * after another: the NUMA node of their GPU, else the one that an even spread over all cores gives
 * them. As long as there are cores for all ranks, a NUMA node without free cores passes its next
 * rank to the one with the most. The ranks of a NUMA node then divide its cores into equal
 * consecutive parts, or share cores if there are more ranks than cores. All of this is a function
 * of the topology and the number of ranks, so every rank knows every place.
 */
#include <stdlib.h>

#include "base/error.h"
#include "topo/model.h"

typedef struct numa_cores {
    int numa;
    int first_core; /* index in core_list.cores */
    int ncores, nranks;
} numa_cores;

typedef struct core_list {
    hwloc_obj_t *cores; /* the usable ones in hwloc's order: those of a NUMA node are consecutive */
    int ncores;
    numa_cores *nodes;
    int nnodes;
} core_list;

static void free_cores(core_list *list)
{
    free(list->nodes);
    free(list->cores);
}

static void add_core(core_list *list, hwloc_obj_t core)
{
    int numa = hwloc_bitmap_first(core->nodeset);
    numa_cores *last = list->nnodes > 0 ? &list->nodes[list->nnodes - 1] : NULL;
    if (!last || last->numa != numa) {
        last = &list->nodes[list->nnodes++];
        last->numa = numa;
        last->first_core = list->ncores;
    }
    last->ncores++;
    list->cores[list->ncores++] = core;
}

static weir_status list_cores(const weiri_topo *topo, core_list *list)
{
    int ncores = hwloc_get_nbobjs_by_type(topo->hwloc, topo->core_type);
    *list = (core_list){0};
    list->cores = calloc((size_t)ncores, sizeof *list->cores);
    list->nodes = calloc((size_t)ncores, sizeof *list->nodes);
    if (!list->cores || !list->nodes) {
        free_cores(list);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a table of %d cores", ncores);
    }
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo->hwloc, topo->core_type, core)))
        if (hwloc_bitmap_intersects(core->cpuset, topo->usable))
            add_core(list, core);
    return WEIR_OK;
}

static int gpu_of_rank(const weiri_topo *topo, int local_rank)
{
    return topo->gpus.count > 0 ? local_rank % topo->gpus.count : -1;
}

static numa_cores *wanted_node(const weiri_topo *topo, const core_list *list, int rank, int nranks)
{
    int gpu = gpu_of_rank(topo, rank);
    for (int i = 0; gpu >= 0 && i < list->nnodes; i++)
        if (list->nodes[i].numa == topo->gpus.entries[gpu].device.numa)
            return &list->nodes[i];
    int core = (int)((long long)rank * list->ncores / nranks);
    numa_cores *wanted = list->nodes;
    while (core >= wanted->first_core + wanted->ncores)
        wanted++;
    return wanted;
}

static numa_cores *emptiest_node(const core_list *list)
{
    numa_cores *best = list->nodes;
    for (numa_cores *each = list->nodes; each < list->nodes + list->nnodes; each++)
        if (each->ncores - each->nranks > best->ncores - best->nranks)
            best = each;
    return best;
}

/* Lets all ranks choose. Returns the NUMA node of local_rank, and its ordinal among the ranks
 * there. */
static numa_cores *choose_nodes(const weiri_topo *topo, const core_list *list, int local_rank,
                                int nranks, int *ordinal)
{
    numa_cores *chosen = NULL;
    for (int rank = 0; rank < nranks; rank++) {
        numa_cores *wanted = wanted_node(topo, list, rank, nranks);
        if (nranks <= list->ncores && wanted->nranks == wanted->ncores)
            wanted = emptiest_node(list);
        if (rank == local_rank) {
            chosen = wanted;
            *ordinal = wanted->nranks;
        }
        wanted->nranks++;
    }
    return chosen;
}

/* The consecutive cores of the NUMA node for its rank number `ordinal`. */
static void share_cores(const numa_cores *node, int ordinal, int *first, int *ncores, int *sharers)
{
    if (node->nranks > node->ncores) {
        int core = ordinal % node->ncores;
        *first = node->first_core + core;
        *ncores = 1;
        *sharers = node->nranks / node->ncores + (core < node->nranks % node->ncores);
        return;
    }
    int begin = ordinal * node->ncores / node->nranks;
    *first = node->first_core + begin;
    *ncores = (ordinal + 1) * node->ncores / node->nranks - begin;
    *sharers = 1;
}

static weir_status write_cpus(const weiri_topo *topo, const core_list *list, int first,
                              weiri_place *place)
{
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    for (int i = first; i < first + place->ncores; i++)
        hwloc_bitmap_or(cpus, cpus, list->cores[i]->cpuset);
    hwloc_bitmap_and(cpus, cpus, topo->usable);
    place->cpus = weiri_topo_list(cpus);
    hwloc_bitmap_free(cpus);
    return place->cpus ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a list of cpus");
}

weir_status weiri_topo_place(const weiri_topo *topo, int local_rank, int local_nranks,
                             weiri_place *place)
{
    if (local_nranks < 1 || local_rank < 0 || local_rank >= local_nranks)
        return weiri_fail(WEIR_ERR_INVALID, "place of local rank %d: expected 0 to %d of %d ranks",
                          local_rank, local_nranks - 1, local_nranks);
    core_list list;
    weir_status status = list_cores(topo, &list);
    if (status)
        return status;
    int ordinal = 0, first = 0;
    const numa_cores *node = choose_nodes(topo, &list, local_rank, local_nranks, &ordinal);
    weiri_place made = {.local_rank = local_rank, .local_nranks = local_nranks};
    share_cores(node, ordinal, &first, &made.ncores, &made.sharers);
    made.numa = node->numa;
    made.gpu = gpu_of_rank(topo, local_rank);
    made.nic = made.gpu >= 0 ? weiri_topo_pick_nic(topo, made.gpu)
                             : weiri_topo_pick_nic_at(topo, made.numa, ordinal);
    status = write_cpus(topo, &list, first, &made);
    if (!status)
        *place = made;
    free_cores(&list);
    return status;
}

weir_status weiri_topo_places(const weiri_topo *topo, int local_nranks, weiri_place **places)
{
    weir_status status = WEIR_OK;
    if (local_nranks < 1)
        return weiri_fail(WEIR_ERR_INVALID, "places of %d ranks: expected 1 or more", local_nranks);
    weiri_place *made = calloc((size_t)local_nranks, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the places of %d ranks", local_nranks);
    for (int rank = 0; status == WEIR_OK && rank < local_nranks; rank++)
        status = weiri_topo_place(topo, rank, local_nranks, &made[rank]);
    if (status == WEIR_OK)
        *places = made;
    else
        weiri_places_free(made, local_nranks);
    return status;
}

void weiri_place_free(weiri_place *place)
{
    free(place->cpus);
    place->cpus = NULL;
}

void weiri_places_free(weiri_place *places, int local_nranks)
{
    for (int rank = 0; rank < local_nranks; rank++)
        weiri_place_free(&places[rank]);
    free(places);
}

char *weiri_topo_list(hwloc_const_bitmap_t cpus)
{
    char *list;
    return hwloc_bitmap_list_asprintf(&list, cpus) >= 0 ? list : NULL;
}
