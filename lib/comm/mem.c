/*
 * Registered memory. A weir_mem is a part of one of this rank's regions, a part of a peer's region
 * (imported), or unregistered memory of this process that peers cannot map (staged). It may also be
 * registered with networks: its handle then carries their keys, and an import that cannot be mapped
 * consists of these keys alone.
 */
#include "base/error.h"
#include "comm/comm.h"
#include "comm/gpu/gpu.h"
#include "comm/mem.h"
#include "comm/node/region.h"

#include <stdlib.h>
#include <string.h>

weir_status weiri_mem_make(weir_mem content, weir_mem **mem)
{
    weir_mem *object = malloc(sizeof *object);
    content.nets = calloc(1, sizeof *content.nets);
    if (!object || !content.nets) {
        free(content.nets);
        free(object);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a registered-memory object");
    }
    *object = content;
    *mem = object;
    return WEIR_OK;
}

/* Creates an object of a new region; frees the region if that fails. */
static weir_status mem_make_region(weir_comm *comm, void *adopted, size_t bytes, int id,
                                   weir_mem **mem)
{
    weir_comm *node = weiri_comm_node(comm);
    void *base = adopted ? adopted : node->regions[id].segment.base;
    /* Not looked up by address: an empty region may begin where another one ends. */
    weiri_desc desc = {(uint32_t)id, node->regions[id].generation, 0};
    weir_status status = weiri_mem_make(
        (weir_mem){comm, base, bytes, WEIRI_MEM_ALLOCATED, comm->rank, desc, NULL}, mem);
    if (status != WEIR_OK)
        weiri_region_free(node, id);
    return status;
}

/* Creates an object with a new region: adopted memory of the caller or, if NULL, new memory. */
static weir_status mem_create_region(weir_comm *comm, void *adopted, size_t bytes, weir_mem **mem)
{
    int id;
    weir_status status = weiri_region_create(weiri_comm_node(comm), adopted, bytes, 0, &id);
    return status == WEIR_OK ? mem_make_region(comm, adopted, bytes, id, mem) : status;
}

weir_status weiri_mem_reserve(weir_comm *comm, size_t bytes, weir_mem **mem)
{
    int id;
    weir_status status = weiri_region_create(weiri_comm_node(comm), NULL, bytes, 1, &id);
    return status == WEIR_OK ? mem_make_region(comm, NULL, bytes, id, mem) : status;
}

weir_status weiri_mem_back(const weir_mem *mem, size_t at, size_t bytes)
{
    return weiri_region_back(weiri_comm_node(mem->comm), (int)mem->desc.region, at, bytes);
}

weir_status weir_mem_alloc(weir_comm *comm, size_t bytes, weir_mem **mem)
{
    if (!comm || !mem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_alloc: comm and mem are required");
    const weir_status status = weiri_comm_admit(comm, "weir_mem_alloc");
    return status == WEIR_OK ? mem_create_region(comm, NULL, bytes, mem) : status;
}

weir_status weir_mem_register(weir_comm *comm, void *pointer, size_t bytes, weir_mem **mem)
{
    if (!comm || !mem || (!pointer && bytes))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_mem_register: comm, pointer and mem are required");
    const weir_status status = weiri_comm_admit(comm, "weir_mem_register");
    if (status != WEIR_OK)
        return status;
    weiri_desc desc = weiri_region_describe(weiri_comm_node(comm), pointer, bytes);
    if (desc.generation || !comm->gpu || !bytes)
        return weiri_mem_make(
            (weir_mem){comm, pointer, bytes, WEIRI_MEM_REGISTERED, comm->rank, desc, NULL}, mem);
    return mem_create_region(comm, pointer, bytes, mem);
}

void *weir_mem_pointer(const weir_mem *mem)
{
    return mem->pointer;
}

static weir_status mem_check_part(const weir_mem *mem, size_t offset_bytes, const void *other,
                                  size_t bytes)
{
    if (mem && weiri_comm_is_forked(mem->comm))
        return weiri_fork_fail("communicator");
    if (mem && !mem->pointer && bytes)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d's memory is not mapped on rank %d, which can only reach it over "
                          "a network",
                          mem->owner, mem->comm->rank);
    if (!mem || (!other && bytes) || offset_bytes > mem->bytes || bytes > mem->bytes - offset_bytes)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%zu bytes at offset %zu are not within the memory's %zu bytes", bytes,
                          offset_bytes, mem ? mem->bytes : 0);
    return WEIR_OK;
}

static weir_status mem_copy(const weir_mem *mem, void *to, const void *from, size_t bytes)
{
    if (mem->comm->gpu)
        return mem->comm->gpu->ops->copy(mem->comm, to, from, bytes);
    memcpy(to, from, bytes);
    return WEIR_OK;
}

weir_status weir_mem_write(weir_mem *mem, size_t offset_bytes, const void *from, size_t bytes)
{
    weir_status status = mem_check_part(mem, offset_bytes, from, bytes);
    if (status != WEIR_OK || !bytes)
        return status;
    return mem_copy(mem, (char *)mem->pointer + offset_bytes, from, bytes);
}

weir_status weir_mem_read(const weir_mem *mem, size_t offset_bytes, void *to, size_t bytes)
{
    weir_status status = mem_check_part(mem, offset_bytes, to, bytes);
    if (status != WEIR_OK || !bytes)
        return status;
    return mem_copy(mem, to, (const char *)mem->pointer + offset_bytes, bytes);
}

size_t weir_mem_bytes(const weir_mem *mem)
{
    return mem->bytes;
}

int weir_mem_shareable(const weir_mem *mem)
{
    return mem->desc.generation != 0;
}

/* A rank's contribution to the allgather of weir_mem_symmetric. */
typedef struct symmetric_part {
    uint64_t bytes;
    weiri_desc desc;
} symmetric_part;

/* Stores all ranks' descriptors and maps their regions. Local. */
static weir_status mem_take_parts(weir_mem *mem, const symmetric_part *parts)
{
    weir_comm *comm = weiri_comm_node(mem->comm);
    weiri_region *region = &comm->regions[mem->desc.region];
    size_t n = (size_t)comm->nranks;
    for (size_t rank = 0; rank < n; rank++)
        if (parts[rank].bytes != mem->bytes)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "symmetric memory: rank %d has %zu bytes, rank %zu has %zu; all "
                              "ranks must pass the same size",
                              comm->rank, mem->bytes, rank, (size_t)parts[rank].bytes);
    weiri_desc *all = calloc(n, sizeof *all);
    if (!all)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the ranks' parts");
    for (size_t rank = 0; rank < n; rank++)
        all[rank] = parts[rank].desc;
    free(region->symmetric);
    region->symmetric = all;
    for (int rank = 0; rank < comm->nranks; rank++) {
        weir_status status = WEIR_OK;
        if (rank != comm->rank)
            status = weiri_region_map(comm, rank, all[rank]);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

weir_status weir_mem_symmetric(weir_mem *mem)
{
    if (!mem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_symmetric: mem is required");
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, mem->comm, "weir_mem_symmetric");
    if (status != WEIR_OK)
        return status;
    weir_comm *comm = weiri_comm_node(mem->comm);
    symmetric_part *parts = calloc((size_t)comm->nranks, sizeof *parts);
    if (!parts)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the ranks' parts");
    else if (mem->kind != WEIRI_MEM_ALLOCATED)
        status =
            weiri_fail(WEIR_ERR_INVALID,
                       "rank %d: weir_mem_symmetric needs memory of weir_mem_alloc, or a whole "
                       "GPU allocation that was registered",
                       comm->rank);
    else
        parts[comm->rank] = (symmetric_part){mem->bytes, mem->desc};
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, parts, sizeof *parts);
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, mem_take_parts(mem, parts));
    status = weiri_setup_end(&setup, status);
    free(parts);
    if (status != WEIR_OK && mem->kind == WEIRI_MEM_ALLOCATED) {
        free(comm->regions[mem->desc.region].symmetric);
        comm->regions[mem->desc.region].symmetric = NULL;
    }
    return status;
}

void weir_mem_free(weir_mem *mem)
{
    if (!mem || weiri_comm_is_forked(mem->comm))
        return;
    weir_comm *comm = weiri_comm_node(mem->comm);
    weiri_mem_nets_deregister(mem->nets);
    free(mem->nets);
    if (mem->kind == WEIRI_MEM_ALLOCATED)
        weiri_region_free(comm, (int)mem->desc.region);
    if (mem->kind == WEIRI_MEM_IMPORTED && mem->owner != mem->comm->rank && mem->pointer) {
        int place = weiri_comm_node_rank(mem->comm, mem->owner);
        weiri_mapping *mapping = &comm->peers[place].mappings[mem->desc.region];
        if (--mapping->users == 0) {
            weiri_segment_destroy(&mapping->segment);
            mapping->generation = 0;
        }
    }
    free(mem);
}
