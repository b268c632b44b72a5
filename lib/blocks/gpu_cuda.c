/*
 * Blocks on the GPUs of one node. A call becomes one launch (cuda/args.h), whose cost on the host
 * does not depend on the list: the kernel reads and checks the entries. Tags are in device memory,
 * followed by the counters of this rank's launches and the word that claims its report.
 */
#include "blocks/blocks.h"

#include "base/error.h"
#include "blocks/cuda/args.h"
#include "coll/cuda/launch/run_cuda.h"
#include "comm/gpu/gpu_cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPORT_BYTES = 4096,
    PART_LOG = 14,       /* blocks of one length are copied in parts of about so many bytes */
    PARTS_LOG_MIXED = 3, /* and others in so many parts */
    PARTS_LOG_MOST = 20,
    GRID_MOST = 1 << 20,
};

struct blocks_gpu {
    blocks_gpu_report *report; /* a page of pinned memory */
    blocks_gpu_report *there;  /* the same, as kernels see it */
    uint64_t *counters, *claimed;
};

static size_t slots_of_all(const weir_blocks *b)
{
    return (size_t)b->comm->nranks * (size_t)b->slots;
}

static weir_status gpu_open(weir_blocks *b)
{
    struct blocks_gpu *gpu = calloc(1, sizeof *gpu);
    void *page = NULL, *there = NULL;
    int before;
    if (!gpu || posix_memalign(&page, REPORT_BYTES, REPORT_BYTES) != 0) {
        free(gpu);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "weir_blocks_create: no memory for reports");
    }
    memset(page, 0, REPORT_BYTES);
    weir_status status = b->comm->gpu->ops->pin(b->comm, page, REPORT_BYTES, &there);
    if (status == WEIR_OK)
        status = weiri_cuda_enter(b->comm, &before);
    if (status != WEIR_OK) {
        if (there)
            b->comm->gpu->ops->unpin(b->comm, page);
        free(page);
        free(gpu);
        return status;
    }
    weiri_cuda_load(weiri_blocks_gpu_copy_kernel());
    weiri_cuda_load(weiri_blocks_gpu_wait_kernel());
    weiri_cuda_leave(b->comm, before);
    uint64_t *counters = (uint64_t *)weir_mem_pointer(b->tags) + slots_of_all(b);
    *gpu = (struct blocks_gpu){page, there, counters, counters + slots_of_all(b)};
    b->gpu = gpu;
    return WEIR_OK;
}

static void gpu_close(weir_blocks *b)
{
    if (!b->gpu)
        return;
    b->comm->gpu->ops->unpin(b->comm, b->gpu->report);
    free(b->gpu->report);
    free(b->gpu);
}

/* How many parts each block is copied in, as a power of 2. */
static int parts_log(const blocks_list *list)
{
    int log = 0;
    while (list->block_bytes >> log > 1 << PART_LOG && log < PARTS_LOG_MOST)
        log++;
    return list->block_bytes ? log : PARTS_LOG_MIXED;
}

static blocks_gpu_args args_make(const blocks_call *call)
{
    const weir_blocks *b = call->blocks;
    const blocks_peer *peers = b->peers;
    const size_t slot = (size_t)call->args.slot;
    blocks_gpu_args a = {.view = weiri_cuda_of(b->comm)->view,
                         .list = call->list,
                         .parts_log = parts_log(&call->list),
                         .ranks = {call->source, call->destination},
                         .is_put = call->source == b->comm->rank,
                         .pools = {peers[call->source].pool, peers[call->destination].pool},
                         .pool_bytes = {peers[call->source].bytes, peers[call->destination].bytes},
                         .reach = {call->reach.source, call->reach.destination},
                         .tag_word = call->args.tag_word,
                         .tag = call->args.tag,
                         .claimed = b->gpu->claimed,
                         .report = b->gpu->there};
    if (call->args.tag || call->args.tag_word) {
        a.tag_at = peers[call->args.peer].tags + (size_t)b->comm->rank * (size_t)b->slots + slot;
        a.arrived = b->gpu->counters + (size_t)call->args.peer * (size_t)b->slots + slot;
    }
    return a;
}

static weir_status gpu_run(const blocks_call *call)
{
    weir_comm *comm = call->blocks->comm;
    const size_t list_bytes = call->list.count * (uint64_t)call->list.words * sizeof(uint64_t);
    int before;
    blocks_gpu_args a = args_make(call);
    const uint64_t units = call->list.count * call->list.repetitions;
    const uint64_t most = (uint64_t)GRID_MOST * (BLOCKS_GPU_THREADS / BLOCKS_GPU_WARP);
    const uint64_t warps = units > most >> a.parts_log ? most : units << a.parts_log;
    const int blocks =
        (int)((warps * BLOCKS_GPU_WARP + BLOCKS_GPU_THREADS - 1) / BLOCKS_GPU_THREADS);
    weir_status status = weiri_cuda_ready(comm, call->args.stream, &before);
    if (status != WEIR_OK)
        return status;
    status = comm->gpu->ops->check_buffer(comm, call->list.entries, list_bytes);
    if (status == WEIR_OK && call->args.tag_word)
        status = comm->gpu->ops->check_buffer(comm, call->args.tag_word, sizeof(uint64_t));
    if (status == WEIR_OK)
        status = weiri_cuda_launch(comm, call->args.stream, call->function,
                                   weiri_blocks_gpu_copy_kernel(),
                                   (weiri_gpu_shape){blocks ? blocks : 1, BLOCKS_GPU_THREADS}, &a);
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_wait(weir_blocks *b, int source, const uint64_t *word, uint64_t tag,
                            weir_stream stream)
{
    blocks_gpu_wait w = {weiri_cuda_of(b->comm)->view, word, tag, source};
    int before;
    weir_status status = weiri_cuda_ready(b->comm, stream, &before);
    if (status != WEIR_OK)
        return status;
    status = weiri_cuda_launch(b->comm, stream, "weir_blocks_wait_on",
                               weiri_blocks_gpu_wait_kernel(), (weiri_gpu_shape){1, 1}, &w);
    weiri_cuda_leave(b->comm, before);
    return status;
}

static weir_status gpu_check(weir_blocks *b)
{
    blocks_gpu_report *report = b->gpu->report;
    if (!weir_load_acquire(&report->problem))
        return weir_comm_check(b->comm);
    const blocks_gpu_report found = *report;
    weir_store_release(&report->problem, 0);
    weir_status status =
        b->comm->gpu->ops->clear(b->comm, b->gpu->claimed, sizeof *b->gpu->claimed);
    if (status != WEIR_OK)
        return status;
    return weiri_blocks_fail_outside(found.is_put ? "weir_blocks_put" : "weir_blocks_get",
                                     found.entry, found.problem == BLOCKS_GPU_SOURCE,
                                     (int)found.rank, found.offset, found.bytes, found.reach,
                                     found.pool_bytes);
}

const blocks_gpu_ops weiri_blocks_gpu = {gpu_open, gpu_close, gpu_run, gpu_wait, gpu_check};
