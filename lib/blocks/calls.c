/* The public calls on blocks: arguments, and tags. */
#include "blocks/blocks.h"

#include "base/config.h"
#include "base/error.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"
#include <weir/device.h>

#include <inttypes.h>

/* ---------------------------------------------------------------- arguments */

/* Takes over the list, and computes by how much its dimensions move an entry at most. */
static weir_status resolve_list(blocks_call *call)
{
    const weir_blocks_args *args = &call->args;
    blocks_list *list = &call->list;
    uint64_t blocks;
    int overflows = 0;
    if (args->ndims < 0 || args->ndims > WEIR_BLOCKS_DIMS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "%s: ndims is %d; at most %d dimensions are possible",
                          call->function, args->ndims, WEIR_BLOCKS_DIMS_MAX);
    if (args->ndims && !args->dims)
        return weiri_fail(WEIR_ERR_INVALID, "%s: dims is NULL, but ndims is %d", call->function,
                          args->ndims);
    *list = (blocks_list){.entries = args->list,
                          .count = args->count,
                          .block_bytes = args->block_bytes,
                          .repetitions = 1,
                          .ndims = args->ndims,
                          .words = args->block_bytes ? 2 : 3};
    for (int d = 0; d < args->ndims; d++) {
        const weir_blocks_dim *dim = &args->dims[d];
        uint64_t source, destination;
        if (!dim->count)
            return weiri_fail(WEIR_ERR_INVALID, "%s: dims[%d].count is 0; it must be at least 1",
                              call->function, d);
        list->dims[d] = *dim;
        overflows |=
            __builtin_mul_overflow(list->repetitions, dim->count, &list->repetitions) ||
            __builtin_mul_overflow(dim->count - 1, dim->source_stride, &source) ||
            __builtin_mul_overflow(dim->count - 1, dim->destination_stride, &destination) ||
            __builtin_add_overflow(call->reach.source, source, &call->reach.source) ||
            __builtin_add_overflow(call->reach.destination, destination, &call->reach.destination);
    }
    if (overflows || __builtin_mul_overflow(list->repetitions, list->count, &blocks) ||
        list->count > SIZE_MAX / (3 * sizeof(uint64_t)))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: the counts of dims, or their products with strides or with count, "
                          "exceed 64 bits",
                          call->function);
    return WEIR_OK;
}

/* Whether the process of a rank has ended, or the path to its node. */
static int rank_is_dead(const weir_blocks *b, int rank)
{
    if (!weiri_comm_maps(b->comm, rank))
        return weiri_blocks_net_is_gone(b, rank);
    return weiri_comm_is_dead(weiri_comm_node(b->comm), weiri_comm_node_rank(b->comm, rank));
}

/* Checks that the peer can be reached, and that its pool and this rank's still exist; of ranks of
 * other nodes, the peer itself checks its pool. */
static weir_status check_peer(const blocks_call *call)
{
    const weir_blocks *b = call->blocks;
    const int peer = call->args.peer, maps = weiri_comm_maps(b->comm, peer);
    if (rank_is_dead(b, peer))
        return weiri_fail(WEIR_ERR_PEER, "%s: the process of rank %d has ended", call->function,
                          peer);
    if (maps && weiri_blocks_pool_is_freed(b, peer))
        return weiri_blocks_fail_freed(call->function, peer);
    if (weiri_blocks_pool_is_freed(b, b->comm->rank))
        return weiri_blocks_fail_freed(call->function, b->comm->rank);
    if (maps && !b->peers[peer].pool && b->peers[peer].bytes &&
        !weiri_comm_node(b->comm)->reads_unregistered)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "%s: rank %d's pool is unregistered memory, which this system does not "
                          "let peers access; allocate it with weir_mem_alloc",
                          call->function, peer);
    return WEIR_OK;
}

static weir_status call_resolve(blocks_call *call, const weir_blocks_args *given, int is_put)
{
    weir_blocks *b = call->blocks;
    weir_blocks_args *args = &call->args;
    if (!b || !given)
        return weiri_fail(WEIR_ERR_INVALID, "%s: blocks and args are required", call->function);
    weir_status status = weiri_comm_admit(b->comm, call->function);
    if (status == WEIR_OK)
        status = weiri_config_read("weir_blocks_args", given, args, sizeof *args);
    if (status != WEIR_OK)
        return status;
    if (args->peer < 0 || args->peer >= b->comm->nranks)
        return weiri_fail(WEIR_ERR_INVALID, "%s: peer is %d; ranks are 0 to %d", call->function,
                          args->peer, b->comm->nranks - 1);
    if ((args->tag || args->tag_word) && (args->slot < 0 || args->slot >= b->slots))
        return weiri_fail(WEIR_ERR_INVALID, "%s: slot is %d; slots are 0 to %d", call->function,
                          args->slot, b->slots - 1);
    if (args->count && !args->list)
        return weiri_fail(WEIR_ERR_INVALID, "%s: list is NULL, but count is %zu", call->function,
                          args->count);
    call->source = is_put ? b->comm->rank : args->peer;
    call->destination = is_put ? args->peer : b->comm->rank;
    if (args->stream && !b->comm->gpu)
        return weiri_fail(WEIR_ERR_INVALID, "%s: stream must be NULL on the host backend",
                          call->function);
    status = resolve_list(call);
    return status == WEIR_OK ? check_peer(call) : status;
}

static weir_status blocks_run(const char *function, weir_blocks *blocks,
                              const weir_blocks_args *given, int is_put)
{
    blocks_call call = {.function = function, .blocks = blocks, .args = WEIR_BLOCKS_ARGS_INIT};
    uint64_t bytes = 0;
    weir_status status = call_resolve(&call, given, is_put);
    if (status == WEIR_OK && blocks->gpu)
        return weiri_blocks_gpu.run(&call);
    if (status == WEIR_OK)
        status = weiri_blocks_check(&call, &bytes);
    if (status == WEIR_OK && !weiri_comm_maps(blocks->comm, call.args.peer))
        return weiri_blocks_net_run(&call);
    if (status == WEIR_OK && bytes)
        status = weiri_blocks_copy(&call, bytes);
    const uint64_t tag = call.args.tag_word ? *call.args.tag_word : call.args.tag;
    if (status == WEIR_OK && tag) {
        uint64_t *tags = blocks->peers[call.args.peer].tags;
        const size_t first = (size_t)blocks->comm->rank * (size_t)blocks->slots;
        weir_store_release(&tags[first + (size_t)call.args.slot], tag);
    }
    return status;
}

weir_status weir_blocks_put(weir_blocks *blocks, const weir_blocks_args *args)
{
    return blocks_run("weir_blocks_put", blocks, args, 1);
}

weir_status weir_blocks_get(weir_blocks *blocks, const weir_blocks_args *args)
{
    return blocks_run("weir_blocks_get", blocks, args, 0);
}

/* --------------------------------------------------------------------- tags */

const uint64_t *weir_blocks_word(const weir_blocks *b, int source, int slot)
{
    if (!b || source < 0 || source >= b->comm->nranks || slot < 0 || slot >= b->slots)
        return NULL;
    return (uint64_t *)weir_mem_pointer(b->tags) + (size_t)source * (size_t)b->slots + (size_t)slot;
}

uint64_t weir_blocks_tag(const weir_blocks *blocks, int source, int slot)
{
    const uint64_t *word = weir_blocks_word(blocks, source, slot);
    uint64_t tag = 0;
    if (word && blocks->gpu) /* 0 if it fails: the communicator reports why */
        blocks->comm->gpu->ops->copy(blocks->comm, &tag, word, sizeof tag);
    else if (word)
        tag = weir_load_acquire(word);
    return tag;
}

static weir_status wait_fail(const weir_blocks *b, int status, int source, int slot, uint64_t tag,
                             uint64_t timeout_ns)
{
    const uint64_t seen = weir_blocks_tag(b, source, slot);
    if (status == WEIR_ERR_ABORTED)
        return weiri_comm_fail_aborted(b->comm, "weir_blocks_wait");
    if (status == WEIR_ERR_PEER)
        return weiri_fail(WEIR_ERR_PEER,
                          "weir_blocks_wait: the process of rank %d has ended before it stored "
                          "tag %" PRIu64 " in slot %d, which holds %" PRIu64,
                          source, tag, slot, seen);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "weir_blocks_wait: rank %d has not stored tag %" PRIu64
                      " in slot %d within %" PRIu64 " ms; the slot holds %" PRIu64,
                      source, tag, slot, timeout_ns / 1000000, seen);
}

static int wait_step(const weir_blocks *b, int source, weir_waiter *waiter, const weir_guard *guard)
{
    const int step = weir_waiter_step(waiter, guard);
    if ((step == WEIR_ERR_TIMEOUT || waiter->polls % WEIRI_POLLS_PER_LIFE_CHECK == 0) &&
        rank_is_dead(b, source))
        return WEIR_ERR_PEER;
    return step;
}

weir_status weir_blocks_wait(weir_blocks *blocks, int source, int slot, uint64_t tag,
                             int timeout_ms)
{
    if (!weir_blocks_word(blocks, source, slot) || timeout_ms < 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_blocks_wait: blocks is required, timeout_ms must not be negative, "
                          "and source %d and slot %d must be in range",
                          source, slot);
    weir_status status = weiri_comm_admit(blocks->comm, "weir_blocks_wait");
    const int is_remote = !weiri_comm_maps(blocks->comm, source);
    weir_guard guard = blocks->comm->guard;
    weir_waiter waiter = {0, 0};
    int idle = 0;
    if (timeout_ms)
        guard.timeout_ns = (uint64_t)timeout_ms * 1000000;
    if (is_remote)
        weiri_internode_drive_begin(blocks->comm->internode);
    while (status == WEIR_OK && weir_blocks_tag(blocks, source, slot) < tag) {
        int step = is_remote ? weiri_blocks_net_step(blocks, source, &waiter, &idle, &guard)
                             : wait_step(blocks, source, &waiter, &guard);
        if (step && weir_blocks_tag(blocks, source, slot) < tag) /* the last before it died */
            status = wait_fail(blocks, step, source, slot, tag, guard.timeout_ns);
    }
    if (is_remote)
        weiri_internode_drive_end(blocks->comm->internode);
    return status;
}

weir_status weir_blocks_wait_on(weir_blocks *blocks, int source, int slot, uint64_t tag,
                                weir_stream stream)
{
    const uint64_t *word = weir_blocks_word(blocks, source, slot);
    if (word && blocks->gpu)
        return weiri_blocks_gpu.wait(blocks, source, word, tag, stream);
    if (stream)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_blocks_wait_on: stream must be NULL on the host backend");
    return weir_blocks_wait(blocks, source, slot, tag, 0);
}

weir_status weir_blocks_check(weir_blocks *blocks)
{
    if (!blocks)
        return weiri_fail(WEIR_ERR_INVALID, "weir_blocks_check: blocks is required");
    if (weiri_comm_is_forked(blocks->comm))
        return weiri_fork_fail("communicator");
    return blocks->gpu ? weiri_blocks_gpu.check(blocks) : weir_comm_check(blocks->comm);
}
