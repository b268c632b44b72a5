/* Creating and freeing objects: ranks exchange where their pools and tags are, and map them. */
#include "blocks/blocks.h"

#include "base/config.h"
#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>

enum { SLOTS = 64 };

/* What a rank tells the others. A pool that cannot be mapped has no handle. */
typedef struct blocks_offer {
    weir_mem_handle pool, tags;
    uint64_t bytes, address;
    weiri_desc desc;
    int64_t slots;
} blocks_offer;

/* Checks what one rank can check, and reads the configuration. */
static weir_status create_check(const weir_comm *comm, const weir_mem *pool,
                                const weir_blocks_config *given, int *slots)
{
    weir_blocks_config config = WEIR_BLOCKS_CONFIG_INIT;
    weir_status status = weiri_config_read("weir_blocks_config", given, &config, sizeof config);
    if (status != WEIR_OK)
        return status;
    if (comm->nnodes > 1 && weir_comm_backend(comm) == WEIR_BACKEND_CUDA)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_blocks_create: GPUs of several nodes are not supported; create a "
                          "communicator for each node (weir_comm_split)");
    if (!pool || pool->comm != comm || pool->kind == WEIRI_MEM_IMPORTED)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_blocks_create: pool must be memory that rank %d has allocated or "
                          "registered with this communicator",
                          comm->rank);
    if (config.slots < 0 || config.slots > WEIR_BLOCKS_SLOTS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "weir_blocks_create: slots is %d; use 1 to %d",
                          config.slots, WEIR_BLOCKS_SLOTS_MAX);
    *slots = config.slots ? config.slots : SLOTS;
    return WEIR_OK;
}

static weir_status object_alloc(weir_comm *comm, weir_mem *pool, int slots, weir_blocks **blocks)
{
    const size_t n = (size_t)comm->nranks;
    const size_t words = n * (size_t)slots * (comm->gpu ? 2 : 1) + 1; /* gpu_cuda.c: its counters */
    weir_blocks *b = calloc(1, sizeof *b);
    blocks_peer *peers = calloc(n, sizeof *peers);
    weir_status status = WEIR_OK;
    if (!b || !peers)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "weir_blocks_create: no memory for %zu ranks", n);
    else
        *b = (weir_blocks){.comm = comm, .pool = pool, .slots = slots, .peers = peers};
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, words * sizeof(uint64_t), &b->tags);
    if (status == WEIR_OK && comm->gpu && (status = weiri_blocks_gpu.open(b)) != WEIR_OK)
        weir_mem_free(b->tags);
    if (status == WEIR_OK) {
        *blocks = b;
        return status;
    }
    free(peers);
    free(b);
    return status;
}

static weir_status offer_make(const weir_blocks *b, blocks_offer *mine)
{
    *mine = (blocks_offer){.bytes = b->pool->bytes,
                           .address = (uint64_t)(uintptr_t)b->pool->pointer,
                           .desc = b->pool->desc,
                           .slots = b->slots};
    weir_status status = weir_mem_export(b->tags, &mine->tags);
    if (status == WEIR_OK && b->pool->desc.generation)
        status = weir_mem_export(b->pool, &mine->pool);
    return status;
}

/* Maps the memory of one rank of this node. */
static weir_status peer_map(weir_blocks *b, blocks_peer *peer, const blocks_offer *offer)
{
    weir_status status = weir_mem_import(b->comm, &offer->tags, &peer->imported_tags);
    if (status == WEIR_OK && offer->desc.generation)
        status = weir_mem_import(b->comm, &offer->pool, &peer->imported_pool);
    if (status != WEIR_OK)
        return status;
    peer->tags = weir_mem_pointer(peer->imported_tags);
    peer->pool = peer->imported_pool ? weir_mem_pointer(peer->imported_pool) : NULL;
    return WEIR_OK;
}

static weir_status offers_take(weir_blocks *b, const blocks_offer *offers)
{
    for (int rank = 0; rank < b->comm->nranks; rank++) {
        const blocks_offer *offer = &offers[rank];
        blocks_peer *peer = &b->peers[rank];
        weir_status status = WEIR_OK;
        if (offer->slots != b->slots)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "weir_blocks_create: rank %d has %d slots, rank %d has %lld; all "
                              "ranks must pass the same number",
                              b->comm->rank, b->slots, rank, (long long)offer->slots);
        peer->bytes = offer->bytes;
        peer->address = offer->address;
        peer->desc = offer->desc;
        if (rank == b->comm->rank)
            peer->tags = weir_mem_pointer(b->tags), peer->pool = b->pool->pointer;
        else if (weiri_comm_maps(b->comm, rank))
            status = peer_map(b, peer, offer);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Collective; agreed. */
static weir_status object_share(weir_blocks *b)
{
    weir_boot *boot = b->comm->boot;
    blocks_offer *offers = calloc((size_t)b->comm->nranks, sizeof *offers);
    weir_status status = WEIR_OK;
    if (!offers)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "weir_blocks_create: no memory for %d ranks",
                            b->comm->nranks);
    else
        status = offer_make(b, &offers[b->comm->rank]);
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(boot, offers, sizeof *offers);
    if (status == WEIR_OK)
        status = weir_boot_agree(boot, offers_take(b, offers));
    free(offers);
    return status;
}

static void object_release(weir_blocks *b)
{
    weiri_blocks_net_close(b);
    for (int rank = 0; rank < b->comm->nranks; rank++) {
        weir_mem_free(b->peers[rank].imported_pool);
        weir_mem_free(b->peers[rank].imported_tags);
    }
    if (b->gpu)
        weiri_blocks_gpu.close(b);
    weir_mem_free(b->tags);
    free(b->peers);
    free(b);
}

weir_status weir_blocks_create(weir_comm *comm, weir_mem *pool, const weir_blocks_config *config,
                               weir_blocks **blocks)
{
    weir_blocks *made = NULL;
    weiri_setup setup;
    int slots = 0;
    if (!comm || !blocks)
        return weiri_fail(WEIR_ERR_INVALID, "weir_blocks_create: comm and blocks are required");
    weir_status status = weiri_setup_begin(&setup, comm, "weir_blocks_create");
    if (status != WEIR_OK)
        return status;
    status = create_check(comm, pool, config, &slots);
    if (status == WEIR_OK)
        status = object_alloc(comm, pool, slots, &made);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = object_share(made);
    if (status == WEIR_OK)
        status = weiri_blocks_net_open(made);
    status = weiri_setup_end(&setup, status);
    if (status == WEIR_OK)
        *blocks = made;
    else if (made)
        object_release(made);
    return status;
}

void weir_blocks_free(weir_blocks *blocks)
{
    if (!blocks || weiri_comm_is_forked(blocks->comm))
        return;
    if (blocks->gpu)
        blocks->comm->gpu->ops->quiesce(blocks->comm);
    weir_status status = weiri_comm_barrier(blocks->comm);
    if (status == WEIR_OK && blocks->net) {
        weiri_blocks_net_settle(blocks);
        weiri_comm_barrier(blocks->comm);
    }
    object_release(blocks); /* even if a barrier has failed: the communicator is then aborted */
}
