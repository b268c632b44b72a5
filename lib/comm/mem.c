/*
 * Registered memory: the public face of regions. A weir_mem is a piece of an
 * own region, a piece of a peer's region (imported), or plain memory of this
 * process that no peer can map (staged).
 */
#include "base/error.h"
#include "comm/comm.h"
#include "comm/gpu.h"
#include "comm/region.h"

#include <stdlib.h>
#include <string.h>

struct weir_mem {
    weir_comm *comm;
    void *pointer;
    size_t bytes;
    enum { ALLOCATED, REGISTERED, IMPORTED } kind; /* ALLOCATED: it owns its region */
    int owner;                                     /* rank whose region it lies in */
    weiri_desc desc;                               /* generation 0: staged */
};

/* The content of a weir_mem_handle. */
typedef struct handle_content {
    uint64_t magic;
    uint64_t job;
    uint64_t bytes;
    weiri_desc desc;
    int32_t owner;
    int32_t padding;
    uint64_t check; /* hash of all of the above: tells a damaged handle */
} handle_content;

_Static_assert(sizeof(handle_content) <= WEIR_MEM_HANDLE_BYTES, "the handle holds its content");

static const uint64_t handle_magic = 0x31304d454d524957; /* "WIRMEM01" */

static weir_status make(weir_mem content, weir_mem **mem)
{
    weir_mem *object = malloc(sizeof *object);
    if (!object)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a registered-memory object");
    *object = content;
    *mem = object;
    return WEIR_OK;
}

weir_status weir_mem_alloc(weir_comm *comm, size_t bytes, weir_mem **mem)
{
    if (!comm || !mem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_alloc: comm and mem are required");
    int id;
    weir_status status = weiri_region_create(comm, NULL, bytes, &id);
    if (status != WEIR_OK)
        return status;
    void *base = comm->regions[id].segment.base;
    /* Not by its address: an empty one may begin where another one ends. */
    weiri_desc desc = {(uint32_t)id, comm->regions[id].generation, 0};
    status = make((weir_mem){comm, base, bytes, ALLOCATED, comm->rank, desc}, mem);
    if (status != WEIR_OK)
        weiri_region_free(comm, id);
    return status;
}

weir_status weir_mem_register(weir_comm *comm, void *pointer, size_t bytes, weir_mem **mem)
{
    if (!comm || !mem || (!pointer && bytes))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_mem_register: comm, pointer and mem are required");
    weiri_desc desc = weiri_region_describe(comm, pointer, bytes);
    int id;
    if (desc.generation || !comm->gpu || !bytes)
        return make((weir_mem){comm, pointer, bytes, REGISTERED, comm->rank, desc}, mem);
    weir_status status = weiri_region_create(comm, pointer, bytes, &id);
    if (status != WEIR_OK)
        return status;
    desc = (weiri_desc){(uint32_t)id, comm->regions[id].generation, 0};
    status = make((weir_mem){comm, pointer, bytes, ALLOCATED, comm->rank, desc}, mem);
    if (status != WEIR_OK)
        weiri_region_free(comm, id);
    return status;
}

void *weir_mem_pointer(const weir_mem *mem)
{
    return mem->pointer;
}

static weir_status check_part(const weir_mem *mem, size_t offset_bytes, const void *other,
                              size_t bytes)
{
    if (!mem || (!other && bytes) || offset_bytes > mem->bytes || bytes > mem->bytes - offset_bytes)
        return weiri_fail(WEIR_ERR_INVALID, "%zu bytes at %zu are not within the memory's %zu",
                          bytes, offset_bytes, mem ? mem->bytes : 0);
    return WEIR_OK;
}

weir_status weir_mem_write(weir_mem *mem, size_t offset_bytes, const void *from, size_t bytes)
{
    weir_status status = check_part(mem, offset_bytes, from, bytes);
    char *to = mem ? (char *)mem->pointer + offset_bytes : NULL;
    if (status != WEIR_OK || !bytes)
        return status;
    if (mem->comm->gpu)
        return mem->comm->gpu->ops->copy(mem->comm, to, from, bytes);
    memcpy(to, from, bytes);
    return WEIR_OK;
}

weir_status weir_mem_read(const weir_mem *mem, size_t offset_bytes, void *to, size_t bytes)
{
    weir_status status = check_part(mem, offset_bytes, to, bytes);
    const char *from = mem ? (const char *)mem->pointer + offset_bytes : NULL;
    if (status != WEIR_OK || !bytes)
        return status;
    if (mem->comm->gpu)
        return mem->comm->gpu->ops->copy(mem->comm, to, from, bytes);
    memcpy(to, from, bytes);
    return WEIR_OK;
}

size_t weir_mem_bytes(const weir_mem *mem)
{
    return mem->bytes;
}

int weir_mem_shareable(const weir_mem *mem)
{
    return mem->desc.generation != 0;
}

static uint64_t check_of(const handle_content *content)
{
    return weiri_hash_bytes(WEIRI_HASH_START, content, offsetof(handle_content, check));
}

weir_status weir_mem_export(const weir_mem *mem, weir_mem_handle *handle)
{
    if (!mem || !handle)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_export: mem and handle are required");
    handle_content content = {
        handle_magic, mem->comm->job, mem->bytes, mem->desc, mem->owner, 0, 0};
    content.check = check_of(&content);
    memset(handle, 0, sizeof *handle);
    memcpy(handle->bytes, &content, sizeof content);
    return WEIR_OK;
}

static weir_status check_handle(const weir_comm *comm, const handle_content *content)
{
    if (content->magic != handle_magic || content->check != check_of(content))
        return weiri_fail(WEIR_ERR_INVALID,
                          "not a memory handle, or a damaged one; pass on all %d "
                          "bytes that weir_mem_export wrote",
                          WEIR_MEM_HANDLE_BYTES);
    if (content->job != comm->job || content->owner < 0 || content->owner >= comm->nranks ||
        content->desc.region >= WEIRI_REGIONS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "this memory handle is another communicator's");
    if (content->desc.generation == 0)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d's memory is plain memory, which peers cannot map; allocate it "
                          "with weir_mem_alloc",
                          content->owner);
    return WEIR_OK;
}

/* A handle of this rank's own memory: no mapping, the region itself. */
static weir_status own_pointer(weir_comm *comm, weiri_desc desc, char **pointer)
{
    if (desc.region >= (uint32_t)comm->nregions || !comm->regions[desc.region].segment.base ||
        comm->regions[desc.region].generation != desc.generation)
        return weiri_fail(WEIR_ERR_INVALID, "this memory of rank %d is freed", comm->rank);
    *pointer = (char *)comm->regions[desc.region].segment.base + desc.offset;
    return WEIR_OK;
}

weir_status weir_mem_import(weir_comm *comm, const weir_mem_handle *handle, weir_mem **mem)
{
    if (!comm || !handle || !mem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_import: comm, handle and mem are required");
    handle_content content;
    memcpy(&content, handle->bytes, sizeof content);
    weir_status status = check_handle(comm, &content);
    if (status != WEIR_OK)
        return status;
    char *pointer = NULL;
    int own = content.owner == comm->rank;
    status = own ? own_pointer(comm, content.desc, &pointer)
                 : weiri_region_pointer(comm, content.owner, content.desc, &pointer);
    if (status != WEIR_OK)
        return status;
    status =
        make((weir_mem){comm, pointer, content.bytes, IMPORTED, content.owner, content.desc}, mem);
    if (status == WEIR_OK && !own)
        comm->peers[content.owner].mappings[content.desc.region].users++;
    return status;
}

/* What weir_mem_send sends: a handle, or why there is none. */
typedef struct mem_letter {
    int32_t status;
    weir_mem_handle handle;
} mem_letter;

weir_status weir_mem_send(weir_comm *comm, const weir_mem *mem, int peer, int tag)
{
    mem_letter letter;
    memset(&letter, 0, sizeof letter);
    weir_status status = weir_mem_export(mem, &letter.handle);
    letter.status = status;
    weir_status sent = weir_boot_send(comm->boot, &letter, sizeof letter, peer, tag);
    return status != WEIR_OK ? status : sent;
}

weir_status weir_mem_recv(weir_comm *comm, int peer, int tag, weir_mem **mem)
{
    mem_letter letter;
    weir_status status = weir_boot_recv(comm->boot, &letter, sizeof letter, peer, tag);
    if (status == WEIR_OK && letter.status != WEIR_OK)
        status = weiri_fail((weir_status)letter.status,
                            "rank %d had no memory to send to rank %d; its own message says why",
                            peer, comm->rank);
    if (status == WEIR_OK)
        status = weir_mem_import(comm, &letter.handle, mem);
    return status;
}

static void free_imports(const weir_comm *comm, weir_mem **mems, int count)
{
    for (int rank = 0; rank < count; rank++)
        if (rank != comm->rank)
            weir_mem_free(mems[rank]);
}

static weir_status import_all(weir_comm *comm, weir_mem *own, const weir_mem_handle *handles,
                              weir_mem **mems)
{
    for (int rank = 0; rank < comm->nranks; rank++) {
        weir_status status = WEIR_OK;
        if (rank == comm->rank)
            mems[rank] = own;
        else
            status = weir_mem_import(comm, &handles[rank], &mems[rank]);
        if (status != WEIR_OK) {
            free_imports(comm, mems, rank);
            return status;
        }
    }
    return WEIR_OK;
}

weir_status weir_mem_exchange(weir_comm *comm, weir_mem *mem, weir_mem **mems)
{
    size_t n = (size_t)comm->nranks;
    weir_mem_handle *handles = calloc(n, sizeof *handles);
    weir_mem **made = calloc(n, sizeof *made);
    weir_status status = handles && made
                             ? weir_mem_export(mem, &handles[comm->rank])
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %zu handles", n);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, handles, sizeof *handles);
    if (status == WEIR_OK) {
        weir_status imported = import_all(comm, mem, handles, made);
        status = weir_boot_agree(comm->boot, imported);
        if (status != WEIR_OK && imported == WEIR_OK)
            free_imports(comm, made, comm->nranks);
    }
    if (status == WEIR_OK)
        memcpy(mems, made, n * sizeof *mems);
    free(made);
    free(handles);
    return status;
}

/* What a rank brings to weir_mem_symmetric. */
typedef struct symmetric_part {
    uint64_t bytes;
    weiri_desc desc;
} symmetric_part;

/* Notes who has what, and on GPUs maps it all. Local. */
static weir_status take_parts(weir_mem *mem, const symmetric_part *parts)
{
    weir_comm *comm = mem->comm;
    weiri_region *region = &comm->regions[mem->desc.region];
    size_t n = (size_t)comm->nranks;
    for (size_t rank = 0; rank < n; rank++)
        if (parts[rank].bytes != mem->bytes)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "symmetric memory: rank %d has %zu bytes, rank %zu has %zu",
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
    weir_comm *comm = mem->comm;
    weir_status status = WEIR_OK;
    symmetric_part *parts = calloc((size_t)comm->nranks, sizeof *parts);
    if (!parts)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the ranks' parts");
    else if (mem->kind != ALLOCATED)
        status =
            weiri_fail(WEIR_ERR_INVALID,
                       "symmetric memory must come from weir_mem_alloc or be registered whole");
    else
        parts[comm->rank] = (symmetric_part){mem->bytes, mem->desc};
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, parts, sizeof *parts);
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, take_parts(mem, parts));
    free(parts);
    if (status != WEIR_OK && mem->kind == ALLOCATED) {
        free(comm->regions[mem->desc.region].symmetric);
        comm->regions[mem->desc.region].symmetric = NULL;
    }
    return status;
}

void weir_mem_free(weir_mem *mem)
{
    if (!mem)
        return;
    weir_comm *comm = mem->comm;
    if (mem->kind == ALLOCATED)
        weiri_region_free(comm, (int)mem->desc.region);
    if (mem->kind == IMPORTED && mem->owner != comm->rank) {
        weiri_mapping *mapping = &comm->peers[mem->owner].mappings[mem->desc.region];
        if (--mapping->users == 0) {
            weiri_segment_destroy(&mapping->segment);
            mapping->generation = 0;
        }
    }
    free(mem);
}
