/*
 * Access to peers' buffers: exchange of descriptors, and copies and reductions from and to them.
 * Buffers in memory of weir_mem_alloc are mapped. Others, even after weir_mem_register, are
 * attached by XPMEM if the ranks have it; if not, the kernel copies from a buffer that a call
 * lends.
 *
 * That a buffer can be attached is its owner's statement, and every rank selects the algorithm by
 * it. Should a rank fail to attach such a buffer, it alone uses system calls for it.
 */
#include "coll/coll.h"

#include "base/error.h"
#include "base/log.h"
#include "compute/copy.h"
#include "comm/node/peer_copy.h"
#include "comm/node/xpmem.h"

#include <stdlib.h>
#include <string.h>

weiri_desc weiri_describe(const weiri_coll *coll, const void *pointer, size_t bytes,
                          weiri_lending lending)
{
    weiri_desc desc = lending == WEIRI_LENDS_COPIED
                          ? weiri_region_describe(coll->comm, pointer, bytes)
                          : weiri_xpmem_describe(coll->comm, pointer, bytes);
    if (desc.generation == 0 && lending != WEIRI_LENDS_MAPPED)
        desc = weiri_peer_copy_describe(coll->comm, pointer);
    return desc;
}

static int desc_is_mappable(weiri_desc desc)
{
    return desc.generation != 0 && desc.generation != WEIRI_GENERATION_UNREGISTERED;
}

/* The exchange of an epoch that has begun. */
static weir_status posts_exchange(weiri_coll *coll, const void *in, size_t in_bytes,
                                  weiri_lending lending, const void *out, size_t out_bytes,
                                  int *all_in, int *all_out)
{
    weiri_post *own = weiri_post_of(coll, coll->rank);
    own->in = weiri_describe(coll, in, in_bytes, lending);
    own->out = weiri_describe(coll, out, out_bytes, WEIRI_LENDS_MAPPED);
    weiri_flag_publish(coll, &own->flag, coll->epoch);
    *all_in = desc_is_mappable(own->in);
    *all_out = desc_is_mappable(own->out);
    if (own->in.generation == 0) /* all ranks fall back, whatever the others publish */
        return WEIR_OK;
    int n = coll->nranks;
    for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
        const weiri_post *post = weiri_post_of(coll, rank);
        weir_status status =
            weiri_flag_await(coll, &post->flag, coll->epoch, rank, "exchange of buffers");
        if (status != WEIR_OK)
            return status;
        *all_in &= desc_is_mappable(post->in);
        *all_out &= desc_is_mappable(post->out);
    }
    return WEIR_OK;
}

weir_status weiri_posts_exchange(weiri_coll *coll, const void *in, size_t in_bytes,
                                 weiri_lending lending, const void *out, size_t out_bytes,
                                 int *all_in, int *all_out)
{
    weir_status status = weiri_coll_begin(coll);
    return status == WEIR_OK
               ? posts_exchange(coll, in, in_bytes, lending, out, out_bytes, all_in, all_out)
               : status;
}

weir_status weiri_posts_exchange_ahead(weiri_coll *coll, const void *in, size_t in_bytes,
                                       const void *out, size_t out_bytes, int *all_in, int *all_out)
{
    weir_status status = weiri_coll_begin_ahead(coll, WEIRI_POSTS, WEIRI_POSTS / 2);
    return status == WEIR_OK ? posts_exchange(coll, in, in_bytes, WEIRI_LENDS_MAPPED, out,
                                              out_bytes, all_in, all_out)
                             : status;
}

int weiri_posts_are_readable(const weiri_coll *coll)
{
    /* This rank's first: if it is unreadable, the rank has not waited for the others', and loading
     * these would take their lines from their owners' caches. */
    for (int i = 0; i < coll->nranks; i++) {
        const int rank = (coll->rank + i) % coll->nranks;
        if (weiri_post_of(coll, rank)->in.generation == 0)
            return 0;
    }
    return 1;
}

weir_status weiri_post_in(weiri_coll *coll, int rank, const void *own, const char **pointer)
{
    if (rank == coll->rank) {
        *pointer = own;
        return WEIR_OK;
    }
    char *mapped = NULL;
    weir_status status =
        weiri_region_pointer(coll->comm, rank, weiri_post_of(coll, rank)->in, &mapped);
    *pointer = mapped;
    return status;
}

weir_status weiri_post_out(weiri_coll *coll, int rank, void *own, char **pointer)
{
    if (rank == coll->rank) {
        *pointer = own;
        return WEIR_OK;
    }
    return weiri_region_pointer(coll->comm, rank, weiri_post_of(coll, rank)->out, pointer);
}

/* What follows if a rank's buffer could not be mapped: the kernel copies from or to it instead, if
 * it is unregistered and the system permits it; *pointer is then NULL. */
static weir_status post_is_copied(const weiri_coll *coll, int rank, weiri_desc desc,
                                  weir_status status, char **pointer)
{
    *pointer = NULL;
    if (desc.generation != WEIRI_GENERATION_ATTACHED)
        return status;
    weir_status ended = weiri_xpmem_report_end(coll->comm, rank);
    if (ended != WEIR_OK)
        return ended;
    if (!coll->comm->reads_unregistered)
        return weiri_comm_give_up(coll->comm, status);
    weiri_log(WEIRI_LOG_DEBUG, "%s; the kernel copies instead", weir_last_error());
    return WEIR_OK;
}

weir_status weiri_posts_map_inputs(weiri_coll *coll, const weiri_task *task, size_t offset)
{
    weir_status status = WEIR_OK;
    for (int rank = 0; rank < coll->nranks && status == WEIR_OK; rank++) {
        const char *in = NULL;
        char *none = NULL;
        status = weiri_post_in(coll, rank, task->call->in, &in);
        if (status != WEIR_OK) {
            in = NULL;
            status = post_is_copied(coll, rank, weiri_post_of(coll, rank)->in, status, &none);
        }
        coll->sources[rank] = in ? in + offset : NULL;
    }
    return status;
}

weir_status weiri_posts_map_outputs(weiri_coll *coll, const weiri_task *task, int first, int count)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < count && status == WEIR_OK; i++) {
        int rank = (first + i) % coll->nranks;
        status = weiri_post_out(coll, rank, task->call->out, &coll->outputs[i]);
        if (status != WEIR_OK)
            status = post_is_copied(coll, rank, weiri_post_of(coll, rank)->out, status,
                                    &coll->outputs[i]);
    }
    return status;
}

static int reduction_is_mapped(const weiri_coll *coll, int noutputs)
{
    int is_mapped = 1;
    for (int rank = 0; rank < coll->nranks; rank++)
        is_mapped &= coll->sources[rank] != NULL;
    for (int i = 0; i < noutputs; i++)
        is_mapped &= coll->outputs[i] != NULL;
    return is_mapped;
}

/* The reduction of weiri_reduce_into for one block of length elements, with system calls for the
 * buffers that are not mapped. room holds a block of each rank and the result. */
static weir_status reduce_copied_block(weiri_coll *coll, const weiri_task *task,
                                       weiri_reduction what, size_t at, size_t length, char *room)
{
    const size_t offset = at * task->element_bytes, bytes = length * task->element_bytes;
    for (int rank = 0; rank < coll->nranks; rank++) {
        char *block = room + (size_t)rank * WEIRI_BLOCK_BYTES;
        coll->blocks[rank] = block;
        if (coll->sources[rank]) {
            coll->blocks[rank] = (const char *)coll->sources[rank] + offset;
            continue;
        }
        weir_status status = weiri_peer_copy_read(
            coll->comm, rank, weiri_post_of(coll, rank)->in.offset + what.offset + offset, block,
            bytes);
        if (status != WEIR_OK)
            return status;
    }
    char *result = room + (size_t)coll->nranks * WEIRI_BLOCK_BYTES;
    weiri_reduce(result, coll->blocks, coll->nranks, length, task->call->dtype, task->call->op,
                 (uint64_t)coll->nranks, 0);
    for (int i = 0; i < what.noutputs; i++) {
        int rank = (what.first_output + i) % coll->nranks;
        weir_status status = WEIR_OK;
        if (coll->outputs[i])
            memcpy(coll->outputs[i] + offset, result, bytes);
        else
            status = weiri_peer_copy_write(
                coll->comm, rank, weiri_post_of(coll, rank)->out.offset + offset, result, bytes);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

static weir_status reduce_copied(weiri_coll *coll, const weiri_task *task, weiri_reduction what)
{
    size_t step = WEIRI_BLOCK_BYTES / task->element_bytes, end = what.first + what.count;
    char *room = malloc(((size_t)coll->nranks + 1) * WEIRI_BLOCK_BYTES);
    weir_status status =
        room ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the blocks of a reduction");
    for (size_t at = what.first; at < end && status == WEIR_OK; at += step)
        status = reduce_copied_block(coll, task, what, at, end - at < step ? end - at : step, room);
    free(room);
    return status == WEIR_OK ? weiri_xpmem_check(coll->comm) : status;
}

weir_status weiri_reduce_into(weiri_coll *coll, const weiri_task *task, weiri_reduction what)
{
    size_t step = WEIRI_BLOCK_BYTES / task->element_bytes, end = what.first + what.count;
    int streaming = what.noutputs == 1 && task->count_bytes >= coll->streaming_from_bytes;
    const void **blocks = coll->blocks;
    char *const *outputs = coll->outputs;
    weiri_reduce_fn reduce = weiri_reduce_get(task->call->dtype, task->call->op);
    if (WEIRI_UNLIKELY(!reduction_is_mapped(coll, what.noutputs)))
        return reduce_copied(coll, task, what);
    for (size_t at = what.first; at < end; at += step) {
        size_t length = end - at < step ? end - at : step;
        size_t offset = at * task->element_bytes;
        for (int rank = 0; rank < coll->nranks; rank++)
            blocks[rank] = (const char *)coll->sources[rank] + offset;
        reduce(outputs[0] + offset, blocks, coll->nranks, length, (uint64_t)coll->nranks,
               streaming);
        for (int i = 1; i < what.noutputs; i++)
            memcpy(outputs[i] + offset, outputs[0] + offset, length * task->element_bytes);
    }
    return weiri_xpmem_check(coll->comm);
}

int weiri_reads_unregistered(const weiri_coll *coll, const weiri_task *task)
{
    return coll->comm->reads_unregistered &&
           task->size_bytes >= coll->cma_from_bytes[task->call->collective];
}

/* On Intel's processors the kernel copies a line in 2.7 to 5 ns, where passing it through a slot
 * takes 7 to 9, even if stores are as fast as within a cache; on AMD's the stores decide. */
int weiri_lends_unregistered(const weiri_coll *coll, weir_collective collective)
{
    return coll->cma_tuned[collective] || coll->nranks > 2 || coll->comm->oversubscribed ||
           !weiri_copy_streams_to_peers() || weiri_copy_to_peers_is_far();
}

/* Copies from an attached buffer; where this rank cannot attach it, the kernel copies. */
static weir_status fetch_attached(weiri_coll *coll, int rank, weiri_desc desc, size_t offset,
                                  void *to, size_t bytes, size_t total_bytes)
{
    char *from = NULL;
    weir_status status = weiri_xpmem_pointer(coll->comm, rank, desc, &from);
    if (status != WEIR_OK)
        status = post_is_copied(coll, rank, desc, status, &from);
    if (status != WEIR_OK)
        return status;
    if (!from)
        return weiri_peer_copy_read(coll->comm, rank, desc.offset + offset, to, bytes);
    weiri_move(coll, to, from + offset, bytes, total_bytes);
    return weiri_xpmem_check(coll->comm);
}

weir_status weiri_fetch(weiri_coll *coll, int rank, weiri_desc desc, size_t offset, void *to,
                        size_t bytes, size_t total_bytes)
{
    if (desc.generation == WEIRI_GENERATION_UNREGISTERED)
        return weiri_peer_copy_read(coll->comm, rank, desc.offset + offset, to, bytes);
    if (desc.generation == WEIRI_GENERATION_ATTACHED)
        return fetch_attached(coll, rank, desc, offset, to, bytes, total_bytes);
    char *from = NULL;
    weir_status status = weiri_region_pointer(coll->comm, rank, desc, &from);
    if (status == WEIR_OK)
        weiri_move(coll, to, from + offset, bytes, total_bytes);
    return status;
}
