/*
 * Broadcast on the host.
 *
 * packet: short messages pass through the root's lane. The root publishes longer ones piece by
 *         piece in its slot, and the others copy them as they arrive. The root may be ahead by as
 *         many messages as its slots have parts of that length, by two pieces of a long one.
 * direct: the root publishes a descriptor of its buffer in its lane, and the others copy from the
 *         buffer. The root returns when all have. If the buffer cannot be mapped, the data follow
 *         in the same epoch.
 * cma:    the same; the kernel copies from a buffer that cannot be mapped. Of two ranks with a core
 *         each, the root copies too: both claim blocks of a long buffer; the receiver reads its
 *         blocks from the root's memory, and the root writes its own into the receiver's.
 *
 * Shared copies. The receiver publishes where its output is after it has entered the call, and the
 * root claims nothing before it has seen that. Both leave when both have copied their blocks.
 * Blocks are claimed from the counter of dynamic.c, of which both know how often it is incremented:
 * once for each block and once more by each rank. No rank claims before the other one has finished
 * the epoch before: the root sends its descriptor after that, and the receiver publishes its
 * output.
 */
#include "coll/algos.h"
#include "coll/host/lane.h"
#include "coll/host/slot.h"
#include "comm/node/peer_copy.h"

enum { LONGEST_CHUNK_BYTES = 32768, FEWEST_CHUNKS = 4 };

/* From so many bytes on two ranks share the kernel's copy, in such blocks. */
enum { SHARED_FROM_BYTES = 262144, SHARED_BLOCK_BYTES = 65536 };

static const char packet_phase[] = "broadcast (packet)";
static const char direct_phase[] = "broadcast (direct)";

/* Only the root stores, so only the root waits until the others have finished. */
static weir_status broadcast_begin(weiri_coll *coll, const weiri_task *task, size_t bytes)
{
    if (coll->rank == task->call->root)
        return weiri_slot_begin(coll, bytes, WEIRI_ALL_RANKS);
    coll->epoch++;
    return WEIR_OK;
}

static weir_status broadcast_through_lane(weiri_coll *coll, const weiri_task *task)
{
    weir_status status;
    if (coll->rank == task->call->root) {
        status = weiri_lane_send(coll, task->call->in, task->count_bytes);
        weiri_place_own(coll, task, task->call->out, task->count_bytes);
    } else {
        const char *data;
        coll->epoch++;
        status = weiri_lane_follow(coll, task->call->root, task->count_bytes, packet_phase, &data);
        if (status == WEIR_OK)
            memcpy(task->call->out, data, task->count_bytes);
    }
    weiri_coll_end(coll);
    return status;
}

/* Every flag is polled by all ranks, so a long piece of several readers has fewer of them. */
static size_t broadcast_chunk(const weiri_coll *coll, size_t total)
{
    size_t chunk = total / FEWEST_CHUNKS / WEIRI_CHUNK_BYTES * WEIRI_CHUNK_BYTES;
    if (coll->nranks < 3 || chunk < WEIRI_CHUNK_BYTES)
        return WEIRI_CHUNK_BYTES;
    return chunk < LONGEST_CHUNK_BYTES ? chunk : LONGEST_CHUNK_BYTES;
}

/* The root's part for one piece. It copies the piece to its own output as long as the input is in
 * its cache. */
static void broadcast_publish(weiri_coll *coll, const weiri_task *task, size_t done, size_t total)
{
    const char *in = weiri_in_at(task, done);
    weiri_slot_publish(coll, coll->epoch, in, total, broadcast_chunk(coll, total),
                       weiri_copy_to_peer);
    if (task->call->out != task->call->in)
        weiri_move(coll, weiri_out_at(task, done), in, total, task->count_bytes);
}

static weir_status broadcast_packet_run(weiri_coll *coll, const weiri_task *task)
{
    if (task->count_bytes <= WEIRI_LANE_BYTES)
        return broadcast_through_lane(coll, task);
    weiri_slots_for_ahead(coll);
    for (size_t done = 0; done < task->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, task->count_bytes, done);
        weir_status status = broadcast_begin(coll, task, total);
        if (status == WEIR_OK && coll->rank == task->call->root)
            broadcast_publish(coll, task, done, total);
        else if (status == WEIR_OK)
            status = weiri_slot_follow(coll, task->call->root, weiri_out_at(task, done), total,
                                       broadcast_chunk(coll, total),
                                       weiri_slot_copy(coll, task->count_bytes), packet_phase);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end(coll);
    }
    return WEIR_OK;
}

/* Whether the others copy from the root's buffer. */
static int root_is_readable(weiri_coll *coll, weiri_desc desc)
{
    if (desc.generation == WEIRI_GENERATION_UNREGISTERED)
        coll->last_algo = "cma";
    return desc.generation != 0;
}

/* The root's buffer; unregistered memory if the root lends it, as "cma" always does. */
static weiri_desc describe_root(const weiri_coll *coll, const weiri_task *task, int is_cma)
{
    int lends = weiri_reads_unregistered(coll, task) &&
                weiri_lends_unregistered(coll, task->call->collective);
    return weiri_describe(coll, task->call->in, task->count_bytes,
                          is_cma  ? WEIRI_LENDS_COPIED
                          : lends ? WEIRI_LENDS_ANY
                                  : WEIRI_LENDS_MAPPED);
}

/* Short data are a message of the lane themselves, so they follow in the next epoch. */
static weir_status broadcast_stage(weiri_coll *coll, const weiri_task *task)
{
    if (task->count_bytes <= WEIRI_LANE_BYTES)
        coll->epoch++;
    return weiri_algo_fall_back_plain(coll, task);
}

/* Whether both ranks copy; both know it from the root's descriptor. */
static int broadcast_is_shared(const weiri_coll *coll, const weiri_task *task, weiri_desc desc)
{
    return coll->nranks == 2 && !coll->comm->oversubscribed &&
           desc.generation == WEIRI_GENERATION_UNREGISTERED &&
           task->count_bytes >= SHARED_FROM_BYTES;
}

/* Copies blocks until all are claimed: the root from its input to address at the receiver, the
 * receiver from there into its output. The receiver takes blocks from the start of the buffer, the
 * root from its end, so that in the next call the lines of each are in its cache. */
static weir_status broadcast_claim(weiri_coll *coll, const weiri_task *task, uint64_t address)
{
    const size_t blocks = (task->count_bytes + SHARED_BLOCK_BYTES - 1) / SHARED_BLOCK_BYTES;
    const int parity = (int)(coll->epoch & 1), peer = 1 - coll->rank;
    const int is_root = coll->rank == task->call->root;
    const uint64_t end = coll->claims[parity] + blocks;
    weir_status status = WEIR_OK;
    coll->claims[parity] = end + 2;
    for (size_t own = 0; status == WEIR_OK; own++) {
        size_t at = (is_root ? blocks - 1 - own : own) * SHARED_BLOCK_BYTES;
        if (weiri_claim(coll) >= end)
            return WEIR_OK;
        size_t left = task->count_bytes - at;
        size_t bytes = left < SHARED_BLOCK_BYTES ? left : SHARED_BLOCK_BYTES;
        status = is_root ? weiri_peer_copy_write(coll->comm, peer, address + at,
                                                 weiri_in_at(task, at), bytes)
                         : weiri_peer_copy_read(coll->comm, peer, address + at,
                                                weiri_out_at(task, at), bytes);
    }
    return status;
}

/* The root's part, when its descriptor is published. */
static weir_status broadcast_share(weiri_coll *coll, const weiri_task *task)
{
    const int peer = 1 - coll->rank;
    const weiri_post *post = weiri_post_of(coll, peer);
    weir_status status = weiri_flag_await(coll, &post->flag, coll->epoch, peer, direct_phase);
    return status == WEIR_OK ? broadcast_claim(coll, task, post->out.offset) : status;
}

/* The receiver's part, when it has the root's descriptor. */
static weir_status broadcast_copy_shared(weiri_coll *coll, const weiri_task *task, weiri_desc desc)
{
    weiri_post *post = weiri_post_of(coll, coll->rank);
    post->out = weiri_peer_copy_describe(coll->comm, task->call->out);
    weiri_flag_publish(coll, &post->flag, coll->epoch);
    weir_status status = broadcast_claim(coll, task, desc.offset);
    return status == WEIR_OK ? weiri_coll_end_together(coll, direct_phase) : status;
}

static weir_status broadcast_lend(weiri_coll *coll, const weiri_task *task, int is_cma)
{
    weiri_desc desc = describe_root(coll, task, is_cma);
    weir_status status = weiri_lane_send(coll, &desc, sizeof desc);
    if (status != WEIR_OK)
        return status;
    if (!root_is_readable(coll, desc))
        return broadcast_stage(coll, task);
    weiri_place_own(coll, task, task->call->out, task->count_bytes);
    if (broadcast_is_shared(coll, task, desc))
        status = broadcast_share(coll, task);
    return status == WEIR_OK ? weiri_coll_end_together(coll, direct_phase) : status;
}

static weir_status broadcast_copy(weiri_coll *coll, const weiri_task *task)
{
    weiri_desc desc;
    const char *lane;
    coll->epoch++;
    weir_status status = weiri_lane_await(coll, task->call->root, direct_phase, &lane);
    if (status != WEIR_OK)
        return status;
    memcpy(&desc, lane, sizeof desc);
    if (!root_is_readable(coll, desc))
        return broadcast_stage(coll, task);
    if (broadcast_is_shared(coll, task, desc))
        return broadcast_copy_shared(coll, task, desc);
    status = weiri_fetch(coll, task->call->root, desc, 0, task->call->out, task->count_bytes,
                         task->count_bytes);
    if (status == WEIR_OK)
        weiri_coll_end(coll);
    return status;
}

static weir_status broadcast_pull(weiri_coll *coll, const weiri_task *task, int is_cma)
{
    return coll->rank == task->call->root ? broadcast_lend(coll, task, is_cma)
                                          : broadcast_copy(coll, task);
}

static weir_status broadcast_direct_run(weiri_coll *coll, const weiri_task *task)
{
    return broadcast_pull(coll, task, 0);
}

static weir_status broadcast_cma_run(weiri_coll *coll, const weiri_task *task)
{
    if (!coll->comm->reads_unregistered)
        return weiri_algo_fall_back(coll, task, &weiri_host_broadcast_packet_row);
    return broadcast_pull(coll, task, 1);
}

const weiri_algo weiri_host_broadcast_packet_row = {
    .info = {WEIRI_HOST_TRAITS(BROADCAST, "packet", "the root publishes, the others copy")},
    .run = broadcast_packet_run,
};

const weiri_algo weiri_host_broadcast_direct_row = {
    .info = {WEIRI_HOST_TRAITS(BROADCAST, "direct", "copy from the root's registered memory"),
             .needs_mapped = 1},
    .run = broadcast_direct_run,
};

const weiri_algo weiri_host_broadcast_cma_row = {
    .info = {WEIRI_HOST_TRAITS(BROADCAST, "cma",
                               "the kernel copies from the root's buffer; unregistered memory")},
    .run = broadcast_cma_run,
};
