/*
 * Regions: this rank's allocations, their records in the shared directory, and
 * the peers' regions mapped here. A directory entry is reused with a higher
 * generation, so a mapping of an earlier one is recognised and replaced.
 *
 * A mapping made by a collective stays until its owner has freed the region;
 * weiri_region_sweep, called where memory is allocated or freed and at
 * barriers, then unmaps it. A mapping that weir_mem_import made stays until
 * the last importer is gone.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "comm/region.h"

#include <string.h>

static int find_free_entry(const weir_comm *comm)
{
    for (int id = 0; id < comm->nregions; id++)
        if (!comm->regions[id].segment.base)
            return id;
    return comm->nregions < WEIRI_REGIONS_MAX ? comm->nregions : -1;
}

weir_status weiri_region_create(weir_comm *comm, size_t bytes, int *id)
{
    weiri_region_sweep(comm);
    int entry = find_free_entry(comm);
    if (entry < 0)
        return weiri_fail(WEIR_ERR_NO_MEMORY,
                          "rank %d: more than %d live allocations; free some or allocate larger "
                          "ones and use parts of them",
                          comm->rank, WEIRI_REGIONS_MAX);
    weiri_region *region = &comm->regions[entry];
    weiri_region_record *record = &comm->peers[comm->rank].page->directory[entry];
    weir_status status =
        comm->transport->segment_create(bytes ? bytes : 1, &region->segment, &record->key);
    if (status != WEIR_OK)
        return status;
    region->bytes = bytes;
    region->generation++;
    weir_store_release(&record->generation, region->generation);
    if (entry == comm->nregions)
        comm->nregions++;
    *id = entry;
    return WEIR_OK;
}

void weiri_region_free(weir_comm *comm, int id)
{
    weiri_comm_page *page = comm->peers[comm->rank].page;
    weir_store_release(&page->directory[id].generation, 0);
    weir_store_release(&page->freed.value, page->freed.value + 1);
    comm->transport->segment_destroy(&comm->regions[id].segment);
    weiri_region_sweep(comm);
}

weiri_desc weiri_region_describe(const weir_comm *comm, const void *pointer, size_t bytes)
{
    for (int id = 0; id < comm->nregions; id++) {
        const weiri_region *region = &comm->regions[id];
        size_t offset = (size_t)((const char *)pointer - (const char *)region->segment.base);
        if (region->segment.base && offset <= region->bytes && bytes <= region->bytes - offset)
            return (weiri_desc){(uint32_t)id, region->generation, offset};
    }
    return (weiri_desc){0, 0, 0};
}

static void unmap(weir_comm *comm, weiri_mapping *mapping)
{
    comm->transport->segment_destroy(&mapping->segment);
    mapping->generation = 0;
}

weir_status weiri_region_map(weir_comm *comm, int rank, weiri_desc desc)
{
    weiri_peer *peer = &comm->peers[rank];
    if (desc.region >= WEIRI_REGIONS_MAX || desc.generation == 0)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d has no region %u", rank, desc.region);
    weiri_mapping *mapping = &peer->mappings[desc.region];
    if (mapping->generation == desc.generation)
        return WEIR_OK;
    if (mapping->generation && mapping->users)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d has freed region %u while it is still imported here; free the "
                          "import first",
                          rank, desc.region);
    const weiri_region_record *record = &peer->page->directory[desc.region];
    if (weir_load_acquire(&record->generation) != desc.generation)
        return weiri_fail(WEIR_ERR_PEER, "rank %d has freed region %u", rank, desc.region);
    if (mapping->generation)
        unmap(comm, mapping);
    weir_status status = comm->transport->segment_map(&record->key, &mapping->segment);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d's region %u", rank, desc.region);
    /* Had the owner reused the entry meanwhile, key would have named the new one. */
    if (weir_load_acquire(&record->generation) != desc.generation) {
        unmap(comm, mapping);
        return weiri_fail(WEIR_ERR_PEER, "rank %d has freed region %u", rank, desc.region);
    }
    mapping->generation = desc.generation;
    return WEIR_OK;
}

static void sweep_peer(weir_comm *comm, weiri_peer *peer)
{
    uint64_t freed = weir_load_acquire(&peer->page->freed.value);
    if (freed == peer->freed_seen)
        return;
    peer->freed_seen = freed;
    for (int id = 0; id < WEIRI_REGIONS_MAX; id++) {
        weiri_mapping *mapping = &peer->mappings[id];
        uint64_t generation = weir_load_acquire(&peer->page->directory[id].generation);
        if (mapping->generation && !mapping->users && mapping->generation != generation)
            unmap(comm, mapping);
    }
}

void weiri_region_sweep(weir_comm *comm)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        sweep_peer(comm, &comm->peers[rank]);
}

void weiri_region_destroy_all(weir_comm *comm)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        for (int id = 0; comm->peers[rank].mappings && id < WEIRI_REGIONS_MAX; id++)
            unmap(comm, &comm->peers[rank].mappings[id]);
    for (int id = 0; id < comm->nregions; id++)
        comm->transport->segment_destroy(&comm->regions[id].segment);
    comm->nregions = 0;
}
