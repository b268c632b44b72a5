/*
 * Where each rank of a machine should run. Every NUMA node with usable cores
 * is a room. Ranks choose rooms one after the other: the room of their GPU,
 * else the one that an even spread over all cores gives them; while there are
 * cores for all, a full room sends its next rank to the emptiest. The ranks of
 * a room then split its cores in equal runs, or take turns on them if they are
 * more. All of it is a function of the topology and the number of ranks, so
 * every rank knows every place.
 */
#include <stdlib.h>

#include "base/error.h"
#include "topo/model.h"

typedef struct room {
    int numa;
    int first_core; /* position in floor.cores */
    int ncores;
    int nranks;
} room;

typedef struct floor_plan {
    hwloc_obj_t *cores; /* the usable ones, in hwloc's order: rooms are runs of it */
    int ncores;
    room *rooms;
    int nrooms;
} floor_plan;

static void free_plan(floor_plan *plan)
{
    free(plan->rooms);
    free(plan->cores);
}

static void add_core(floor_plan *plan, hwloc_obj_t core)
{
    int numa = hwloc_bitmap_first(core->nodeset);
    room *last = plan->nrooms > 0 ? &plan->rooms[plan->nrooms - 1] : NULL;
    if (!last || last->numa != numa) {
        last = &plan->rooms[plan->nrooms++];
        last->numa = numa;
        last->first_core = plan->ncores;
    }
    last->ncores++;
    plan->cores[plan->ncores++] = core;
}

static weir_status make_plan(const weiri_topo *topo, floor_plan *plan)
{
    int ncores = hwloc_get_nbobjs_by_type(topo->hwloc, topo->core_type);
    *plan = (floor_plan){0};
    plan->cores = calloc((size_t)ncores, sizeof *plan->cores);
    plan->rooms = calloc((size_t)ncores, sizeof *plan->rooms);
    if (!plan->cores || !plan->rooms) {
        free_plan(plan);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a table of %d cores", ncores);
    }
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo->hwloc, topo->core_type, core)))
        if (hwloc_bitmap_intersects(core->cpuset, topo->usable))
            add_core(plan, core);
    return WEIR_OK;
}

static int gpu_of_rank(const weiri_topo *topo, int local_rank)
{
    return topo->gpus.count > 0 ? local_rank % topo->gpus.count : -1;
}

static room *wanted_room(const weiri_topo *topo, const floor_plan *plan, int rank, int nranks)
{
    int gpu = gpu_of_rank(topo, rank);
    for (int i = 0; gpu >= 0 && i < plan->nrooms; i++)
        if (plan->rooms[i].numa == topo->gpus.entries[gpu].device.numa)
            return &plan->rooms[i];
    int core = (int)((long long)rank * plan->ncores / nranks);
    room *wanted = plan->rooms;
    while (core >= wanted->first_core + wanted->ncores)
        wanted++;
    return wanted;
}

static room *emptiest_room(const floor_plan *plan)
{
    room *best = plan->rooms;
    for (room *each = plan->rooms; each < plan->rooms + plan->nrooms; each++)
        if (each->ncores - each->nranks > best->ncores - best->nranks)
            best = each;
    return best;
}

/* Lets all ranks choose, and returns local_rank's room and its turn there. */
static room *choose_rooms(const weiri_topo *topo, const floor_plan *plan, int local_rank,
                          int nranks, int *turn)
{
    room *chosen = NULL;
    for (int rank = 0; rank < nranks; rank++) {
        room *wanted = wanted_room(topo, plan, rank, nranks);
        if (nranks <= plan->ncores && wanted->nranks == wanted->ncores)
            wanted = emptiest_room(plan);
        if (rank == local_rank) {
            chosen = wanted;
            *turn = wanted->nranks;
        }
        wanted->nranks++;
    }
    return chosen;
}

/* The run of the room's cores for its turn-th rank. */
static void share_cores(const room *home, int turn, int *first, int *ncores, int *sharers)
{
    if (home->nranks > home->ncores) {
        int seat = turn % home->ncores;
        *first = home->first_core + seat;
        *ncores = 1;
        *sharers = home->nranks / home->ncores + (seat < home->nranks % home->ncores);
        return;
    }
    int begin = turn * home->ncores / home->nranks;
    *first = home->first_core + begin;
    *ncores = (turn + 1) * home->ncores / home->nranks - begin;
    *sharers = 1;
}

static weir_status write_cpus(const weiri_topo *topo, const floor_plan *plan, int first,
                              weiri_place *place)
{
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    for (int i = first; i < first + place->ncores; i++)
        hwloc_bitmap_or(cpus, cpus, plan->cores[i]->cpuset);
    hwloc_bitmap_and(cpus, cpus, topo->usable);
    int length = hwloc_bitmap_list_snprintf(place->cpus, sizeof place->cpus, cpus);
    hwloc_bitmap_free(cpus);
    if (length < 0 || (size_t)length >= sizeof place->cpus)
        return weiri_fail(WEIR_ERR_INTERNAL, "local rank %d: its list of cpus exceeds %zu bytes",
                          place->local_rank, sizeof place->cpus);
    return WEIR_OK;
}

weir_status weiri_topo_place(const weiri_topo *topo, int local_rank, int local_nranks,
                             weiri_place *place)
{
    if (local_nranks < 1 || local_rank < 0 || local_rank >= local_nranks)
        return weiri_fail(WEIR_ERR_INVALID, "place of local rank %d: expected 0 to %d of %d ranks",
                          local_rank, local_nranks - 1, local_nranks);
    floor_plan plan;
    weir_status status = make_plan(topo, &plan);
    if (status)
        return status;
    int turn = 0, first = 0;
    const room *home = choose_rooms(topo, &plan, local_rank, local_nranks, &turn);
    weiri_place made = {.local_rank = local_rank, .local_nranks = local_nranks};
    share_cores(home, turn, &first, &made.ncores, &made.sharers);
    made.numa = home->numa;
    made.gpu = gpu_of_rank(topo, local_rank);
    made.nic = made.gpu >= 0 ? weiri_topo_pick_nic(topo, made.gpu)
                             : weiri_topo_pick_nic_at(topo, made.numa, turn);
    status = write_cpus(topo, &plan, first, &made);
    if (!status)
        *place = made;
    free_plan(&plan);
    return status;
}
