/*
 * Regions: this rank's allocations, their records in the shared directory, and the mappings of
 * peers' regions. A directory entry is reused with a higher generation, so that a mapping of an
 * earlier region is recognised and replaced.
 *
 * On the host a region is mapped when a collective first uses it. On GPUs, where kernels use it,
 * every rank maps all regions of its peers in advance: each rank counts its changes (regions
 * created and freed), and its peers follow these changes and publish how far they have followed.
 * Kernels of peers may be given a region once all peers have followed its creation.
 *
 * A mapping stays until the owner has freed the region; weiri_region_sweep then unmaps it. It is
 * called where memory is allocated or freed, at barriers, and on GPUs before collectives. A mapping
 * made by weir_mem_import stays until its last import is freed. Memory that must not be freed while
 * peers have it mapped stays until all peers have followed.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"
#include "comm/node/region.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int weiri_comm_node_rank(const weir_comm *comm, int rank)
{
    return comm->internode ? comm->internode->place_of[rank] : rank;
}

int weiri_comm_maps(const weir_comm *comm, int rank)
{
    return comm->internode ? !weiri_internode_is_remote(comm->internode, rank)
                           : comm->peers[rank].page != NULL;
}

enum { MAPPINGS_FIRST = 8 }; /* a table of mappings doubles from there */

static int region_is_free(const weiri_region *region)
{
    return !region->segment.ops;
}

static int region_find_free_entry(const weir_comm *comm)
{
    for (int id = 0; id < comm->nregions; id++)
        if (region_is_free(&comm->regions[id]))
            return id;
    return comm->nregions < WEIRI_REGIONS_MAX ? comm->nregions : -1;
}

static uint64_t region_count_change(weir_comm *comm)
{
    weiri_word *changes = &comm->peers[comm->rank].page->changes;
    weir_store_release(&changes->value, changes->value + 1);
    return changes->value;
}

/* A region is adopted, allocated, or reserved. */
static weir_status region_make_segment(weir_comm *comm, void *adopted, size_t bytes,
                                       int is_reserved, weiri_segment *segment,
                                       weiri_segment_key *key)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (adopted)
        return comm->gpu->ops->adopt(comm, adopted, bytes, segment, key);
    if (!is_reserved)
        return comm->memory->segment_create(bytes ? bytes : 1, segment, key);
    /* In parts of a page, so that no huge page backs more than is asked for. */
    return comm->memory->segment_reserve(page, (int)(bytes / page + 1), segment, key);
}

weir_status weiri_region_create(weir_comm *comm, void *adopted, size_t bytes, int is_reserved,
                                int *id)
{
    weiri_region_sweep(comm);
    int entry = region_find_free_entry(comm);
    if (entry < 0)
        return weiri_fail(WEIR_ERR_NO_MEMORY,
                          "rank %d: more than %d live allocations; free some or allocate larger "
                          "ones and use parts of them",
                          weiri_comm_parent_rank(comm, comm->rank), WEIRI_REGIONS_MAX);
    weiri_region *region = &comm->regions[entry];
    weiri_region_record *record = &comm->peers[comm->rank].page->directory[entry];
    int before = -1;
    weir_status status = weiri_gpu_enter(comm, &before);
    if (status == WEIR_OK)
        status =
            region_make_segment(comm, adopted, bytes, is_reserved, &region->segment, &record->key);
    weiri_gpu_leave(comm, before);
    if (status != WEIR_OK)
        return status;
    region->bytes = bytes;
    region->adopted = adopted != NULL;
    region->generation++;
    region->known = region->freed = 0;
    region->symmetric = NULL;
    weir_store_release(&record->generation, region->generation);
    region->change = region_count_change(comm);
    if (entry == comm->nregions)
        comm->nregions++;
    weiri_gpu_know(comm, comm->rank, entry, region->segment.base);
    *id = entry;
    return WEIR_OK;
}

weir_status weiri_region_back(const weir_comm *comm, int id, size_t at, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = at / page * page, end = (at + bytes + page - 1) / page * page;
    return comm->memory->segment_back(&comm->regions[id].segment, first, end - first);
}

static int region_all_followed(const weir_comm *comm, uint64_t change)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        if (rank != comm->rank &&
            weir_load_acquire(&comm->peers[rank].page->followed[comm->rank].value) < change)
            return 0;
    return 1;
}

int weiri_region_known(weir_comm *comm, weiri_desc desc)
{
    weiri_region *region = &comm->regions[desc.region];
    if (!region->known)
        region->known = region_all_followed(comm, region->change);
    return region->known;
}

void weiri_region_free(weir_comm *comm, int id)
{
    weiri_region *region = &comm->regions[id];
    weir_store_release(&comm->peers[comm->rank].page->directory[id].generation, 0);
    region->change = region_count_change(comm);
    region->freed = 1;
    free(region->symmetric);
    region->symmetric = NULL;
    if (region->segment.ops->outlives_owner)
        weiri_segment_destroy(&region->segment);
    weiri_region_sweep(comm);
}

weiri_desc weiri_region_describe(const weir_comm *comm, const void *pointer, size_t bytes)
{
    for (int id = 0; id < comm->nregions; id++) {
        const weiri_region *region = &comm->regions[id];
        size_t offset = (size_t)((const char *)pointer - (const char *)region->segment.base);
        if (region->segment.base && !region->freed && offset <= region->bytes &&
            bytes <= region->bytes - offset)
            return (weiri_desc){(uint32_t)id, region->generation, offset};
    }
    return (weiri_desc){0, 0, 0};
}

static void region_unmap(weiri_mapping *mapping)
{
    weiri_segment_destroy(&mapping->segment);
    mapping->generation = 0;
}

/* Extends the table of a peer's mappings to an entry. */
static weir_status region_make_room(weiri_peer *peer, uint32_t entry)
{
    uint32_t count = peer->nmappings ? peer->nmappings : MAPPINGS_FIRST;
    if (entry < peer->nmappings)
        return WEIR_OK;
    while (count <= entry)
        count *= 2;
    weiri_mapping *more = realloc(peer->mappings, count * sizeof *more);
    if (!more)
        return WEIR_ERR_NO_MEMORY;
    for (uint32_t id = peer->nmappings; id < count; id++)
        more[id] = (weiri_mapping){.segment = {.fd = -1}};
    peer->mappings = more;
    peer->nmappings = count;
    return WEIR_OK;
}

weir_status weiri_region_map(weir_comm *comm, int rank, weiri_desc desc)
{
    weiri_peer *peer = &comm->peers[rank];
    const int number = weiri_comm_parent_rank(comm, rank);
    if (desc.region >= WEIRI_REGIONS_MAX || desc.generation == 0)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d has no region %u", number, desc.region);
    if (region_make_room(peer, desc.region) != WEIR_OK)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to map rank %d's region %u", number,
                          desc.region);
    weiri_mapping *mapping = &peer->mappings[desc.region];
    if (mapping->generation == desc.generation)
        return WEIR_OK;
    if (mapping->generation && mapping->users)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d has freed region %u while it is still imported here; free the "
                          "import first",
                          number, desc.region);
    const weiri_region_record *record = &peer->page->directory[desc.region];
    if (weir_load_acquire(&record->generation) != desc.generation)
        return weiri_fail(WEIR_ERR_PEER, "rank %d has freed region %u", number, desc.region);
    if (mapping->generation)
        region_unmap(mapping);
    int before = -1;
    weir_status status = weiri_gpu_enter(comm, &before);
    if (status == WEIR_OK)
        status = weiri_segment_map(&record->key, &mapping->segment);
    weiri_gpu_leave(comm, before);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d's region %u", number, desc.region);
    /* The key may belong to a new region, if the owner has reused the entry in the meantime. */
    if (weir_load_acquire(&record->generation) != desc.generation) {
        region_unmap(mapping);
        return weiri_fail(WEIR_ERR_PEER, "rank %d has freed region %u", number, desc.region);
    }
    mapping->generation = desc.generation;
    weiri_gpu_know(comm, rank, (int)desc.region, mapping->segment.base);
    return WEIR_OK;
}

/* Whether unmapping has to wait: CUDA unmaps memory of legacy IPC when all kernels have ended, and
 * holds up the copies of proxies until then, for which a kernel may be waiting. */
static int region_stays_mapped(const weir_comm *comm, const weiri_mapping *mapping)
{
    return comm->gpu && __atomic_load_n(&comm->proxies, __ATOMIC_RELAXED) &&
           !mapping->segment.ops->outlives_owner;
}

/* Follows a change of one region of a peer: unmaps a freed region, and on GPUs maps a new one. If
 * that fails, the next collective that uses the region reports the error. Returns 0 if unmapping
 * has to wait, else 1. */
static int region_follow(weir_comm *comm, int rank, int id)
{
    const weiri_peer *peer = &comm->peers[rank];
    weiri_mapping *mapping = (uint32_t)id < peer->nmappings ? &peer->mappings[id] : NULL;
    uint64_t generation = weir_load_acquire(&comm->peers[rank].page->directory[id].generation);
    if (mapping && (mapping->generation == generation || mapping->users))
        return 1;
    if (mapping && mapping->generation && region_stays_mapped(comm, mapping))
        return 0;
    if (mapping && mapping->generation)
        region_unmap(mapping);
    if (generation && comm->gpu)
        weiri_region_map(comm, rank, (weiri_desc){(uint32_t)id, (uint32_t)generation, 0});
    return 1;
}

static void region_follow_peer(weir_comm *comm, int rank)
{
    weiri_peer *peer = &comm->peers[rank];
    uint64_t changes = weir_load_acquire(&peer->page->changes.value);
    if (changes == peer->changes_seen || rank == comm->rank)
        return;
    const int count = comm->gpu ? WEIRI_REGIONS_MAX : (int)peer->nmappings;
    int followed = 1;
    for (int id = 0; id < count; id++)
        followed &= region_follow(comm, rank, id);
    if (!followed)
        return;
    peer->changes_seen = changes;
    if (comm->gpu)
        weir_store_release(&comm->peers[comm->rank].page->followed[rank].value, changes);
}

void weiri_region_sweep(weir_comm *comm)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        region_follow_peer(comm, rank);
    for (int id = 0; id < comm->nregions; id++) {
        weiri_region *region = &comm->regions[id];
        if (region->freed && !region_is_free(region) && region_all_followed(comm, region->change))
            weiri_segment_destroy(&region->segment);
    }
}

void weiri_region_unmap_all(weir_comm *comm)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        for (uint32_t id = 0; id < comm->peers[rank].nmappings; id++)
            region_unmap(&comm->peers[rank].mappings[id]);
}

void weiri_region_free_all(weir_comm *comm)
{
    for (int id = 0; id < comm->nregions; id++) {
        free(comm->regions[id].symmetric);
        weiri_segment_destroy(&comm->regions[id].segment);
    }
    comm->nregions = 0;
}
