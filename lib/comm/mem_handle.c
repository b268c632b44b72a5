/*
 * Handles of registered memory: their content, how damaged and foreign ones are recognised, and
 * sending them over the bootstrap.
 */
#include "base/error.h"
#include "comm/mem.h"

#include <stdlib.h>
#include <string.h>

/* The content of a weir_mem_handle. */
typedef struct handle_content {
    uint64_t magic;
    uint64_t job;
    uint64_t bytes;
    weiri_desc desc;
    int32_t owner;
    int32_t known[WEIRI_NETWORKS]; /* 1: the key for this network is valid */
    weiri_net_key keys[WEIRI_NETWORKS];
    uint64_t check; /* hash of the fields above, to detect damage */
} handle_content;

_Static_assert(sizeof(handle_content) == 256, "no padding, which the check would not cover");

static const uint64_t handle_magic = 0x32304d454d524957; /* "WIRMEM02" */

static uint64_t handle_check_of(const handle_content *content)
{
    return weiri_hash_bytes(WEIRI_HASH_START, content, offsetof(handle_content, check));
}

weir_status weiri_mem_net_registration(const weir_mem *mem, weiri_net *net,
                                       const weiri_net_mem **own)
{
    if (mem->kind == WEIRI_MEM_IMPORTED)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d cannot send from imported memory of rank %d; it must pass "
                          "memory that it has allocated or registered",
                          mem->comm->rank, mem->owner);
    /* Empty memory is also registered, because signals and empty puts refer to a registration. */
    weir_status status = weiri_mem_nets_register(mem->nets, net, mem->pointer, mem->bytes,
                                                 mem->comm->gpu ? WEIRI_NET_CUDA : WEIRI_NET_HOST);
    if (status == WEIR_OK)
        *own = mem->nets->own[weiri_network_of(net->ops->transport)];
    return status;
}

weir_status weiri_mem_net_key(const weir_mem *mem, weir_transport transport, weiri_net_key *key)
{
    int network = weiri_network_of(transport);
    if (mem->kind != WEIRI_MEM_IMPORTED || !mem->nets->known[network])
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "memory of rank %d was exported before that rank had connected over %s; "
                          "connect first, then export",
                          mem->owner, weir_transport_name(transport));
    *key = mem->nets->keys[network];
    return WEIR_OK;
}

/* Fills in the keys for all open networks: of this rank's memory, or as received from the owner. */
static weir_status handle_add_keys(const weir_mem *mem, handle_content *content)
{
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        weiri_net *net = weiri_comm_open_net(mem->comm, network);
        content->known[network] = mem->nets->known[network];
        content->keys[network] = mem->nets->keys[network];
        if (mem->kind == WEIRI_MEM_IMPORTED || !net)
            continue;
        const weiri_net_mem *own = NULL;
        weir_status status = weiri_mem_net_registration(mem, net, &own);
        if (status == WEIR_ERR_UNSUPPORTED) /* a network may be unable to register GPU memory */
            continue;
        if (status != WEIR_OK)
            return status;
        content->known[network] = 1;
        content->keys[network] = own->key;
    }
    return WEIR_OK;
}

weir_status weir_mem_export(const weir_mem *mem, weir_mem_handle *handle)
{
    if (!mem || !handle)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_export: mem and handle are required");
    handle_content content = {.magic = handle_magic,
                              .job = mem->comm->job,
                              .bytes = mem->bytes,
                              .desc = mem->desc,
                              .owner = mem->owner};
    weir_status status = handle_add_keys(mem, &content);
    if (status != WEIR_OK)
        return status;
    content.check = handle_check_of(&content);
    memset(handle, 0, sizeof *handle);
    memcpy(handle->bytes, &content, sizeof content);
    return WEIR_OK;
}

static int handle_has_key(const handle_content *content)
{
    int known = 0;
    for (int network = 0; network < WEIRI_NETWORKS; network++)
        known |= content->known[network];
    return known;
}

static weir_status handle_check(const weir_comm *comm, const handle_content *content)
{
    if (content->magic != handle_magic || content->check != handle_check_of(content))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_mem_import: not a memory handle, or a damaged one; pass on all %d "
                          "bytes that weir_mem_export wrote",
                          WEIR_MEM_HANDLE_BYTES);
    if (content->job != comm->job || content->owner < 0 || content->owner >= comm->nranks ||
        content->desc.region >= WEIRI_REGIONS_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "the memory handle belongs to another communicator; import it on the one "
                          "that it was exported from");
    if (content->desc.generation == 0 && !handle_has_key(content))
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d's memory is unregistered, so peers cannot map it; allocate it "
                          "with weir_mem_alloc",
                          content->owner);
    return WEIR_OK;
}

/* Imports a handle of this rank's own memory, without a mapping. */
static weir_status mem_own_pointer(weir_comm *comm, weiri_desc desc, char **pointer)
{
    if (desc.region >= (uint32_t)comm->nregions || !comm->regions[desc.region].segment.base ||
        comm->regions[desc.region].generation != desc.generation)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d has freed this memory", comm->rank);
    *pointer = (char *)comm->regions[desc.region].segment.base + desc.offset;
    return WEIR_OK;
}

weir_status weir_mem_import(weir_comm *comm, const weir_mem_handle *handle, weir_mem **mem)
{
    if (!comm || !handle || !mem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_mem_import: comm, handle and mem are required");
    handle_content content;
    memcpy(&content, handle->bytes, sizeof content);
    weir_status status = weiri_comm_admit(comm, "weir_mem_import");
    if (status == WEIR_OK)
        status = handle_check(comm, &content);
    if (status != WEIR_OK)
        return status;
    char *pointer = NULL;
    weir_comm *node = weiri_comm_node(comm);
    int own = content.owner == comm->rank, place = weiri_comm_node_rank(comm, content.owner);
    int mapped = !own && weiri_comm_maps(comm, content.owner) && content.desc.generation != 0;
    if (own && content.desc.generation)
        status = mem_own_pointer(node, content.desc, &pointer);
    if (mapped)
        status = weiri_region_pointer(node, place, content.desc, &pointer);
    else if (!own && !handle_has_key(&content))
        status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                            "rank %d is on another node, and its memory was exported before that "
                            "rank had connected over a network; connect first, then export",
                            content.owner);
    if (status != WEIR_OK)
        return status;
    weir_mem *made = NULL;
    status = weiri_mem_make((weir_mem){comm, pointer, content.bytes, WEIRI_MEM_IMPORTED,
                                       content.owner, content.desc, NULL},
                            &made);
    if (status != WEIR_OK)
        return status;
    memcpy(made->nets->known, content.known, sizeof content.known);
    memcpy(made->nets->keys, content.keys, sizeof content.keys);
    if (mapped)
        node->peers[place].mappings[content.desc.region].users++;
    *mem = made;
    return WEIR_OK;
}

/* The message of weir_mem_send: a handle, or the status of the failed export. */
typedef struct mem_message {
    int32_t status;
    weir_mem_handle handle;
} mem_message;

weir_status weir_mem_send(weir_comm *comm, const weir_mem *mem, int peer, int tag)
{
    WEIRI_REQUIRE(comm); /* a peer waits for the error of NULL instead of memory */
    weiri_setup setup;
    mem_message message;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_mem_send");
    if (status != WEIR_OK)
        return status;
    memset(&message, 0, sizeof message);
    status = weir_mem_export(mem, &message.handle);
    message.status = status;
    weir_status sent = weir_boot_send(comm->boot, &message, sizeof message, peer, tag);
    return weiri_setup_end(&setup, status != WEIR_OK ? status : sent);
}

weir_status weir_mem_recv(weir_comm *comm, int peer, int tag, weir_mem **mem)
{
    WEIRI_REQUIRE(comm && mem);
    weiri_setup setup;
    mem_message message;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_mem_recv");
    if (status != WEIR_OK)
        return status;
    status =
        weiri_setup_end(&setup, weir_boot_recv(comm->boot, &message, sizeof message, peer, tag));
    if (status == WEIR_OK && message.status != WEIR_OK)
        status = weiri_fail((weir_status)message.status,
                            "rank %d could not export the memory for rank %d; see its error line",
                            peer, comm->rank);
    if (status == WEIR_OK)
        status = weir_mem_import(comm, &message.handle, mem);
    return status;
}

static void mem_free_imports(const weir_comm *comm, weir_mem **mems, int count)
{
    for (int rank = 0; rank < count; rank++)
        if (rank != comm->rank)
            weir_mem_free(mems[rank]);
}

static weir_status mem_import_all(weir_comm *comm, weir_mem *own, const weir_mem_handle *handles,
                                  weir_mem **mems)
{
    for (int rank = 0; rank < comm->nranks; rank++) {
        weir_status status = WEIR_OK;
        if (rank == comm->rank)
            mems[rank] = own;
        else
            status = weir_mem_import(comm, &handles[rank], &mems[rank]);
        if (status != WEIR_OK) {
            mem_free_imports(comm, mems, rank);
            return status;
        }
    }
    return WEIR_OK;
}

weir_status weir_mem_exchange(weir_comm *comm, weir_mem *mem, weir_mem **mems)
{
    WEIRI_REQUIRE(comm && mems);
    size_t n = (size_t)comm->nranks;
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_mem_exchange");
    if (status != WEIR_OK)
        return status;
    weir_mem_handle *handles = calloc(n, sizeof *handles);
    weir_mem **made = calloc(n, sizeof *made);
    status = handles && made ? weir_mem_export(mem, &handles[comm->rank])
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %zu handles", n);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, handles, sizeof *handles);
    if (status == WEIR_OK) {
        weir_status imported = mem_import_all(comm, mem, handles, made);
        status = weiri_setup_end(&setup, weir_boot_agree(comm->boot, imported));
        if (status != WEIR_OK && imported == WEIR_OK)
            mem_free_imports(comm, made, comm->nranks);
    } else {
        status = weiri_setup_end(&setup, status);
    }
    if (status == WEIR_OK)
        memcpy(mems, made, n * sizeof *mems);
    free(made);
    free(handles);
    return status;
}
