/*
 * The state of one-sided calls (rma.h), and running them: which parts of a call are for ranks of
 * this node, on the host or a GPU, and which for other nodes.
 */
#include "nccl/rma/rma.h"

#include "nccl/gpu/gpu.h"
#include "nccl/gpu/nvtx.h"
#include "nccl/p2p/p2p_host.h"
#include "nccl/rma/rma_quick.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

static size_t rma_stride(int indices)
{
    const size_t line = 2 * WEIR_LINE_BYTES / sizeof(uint64_t);
    return ((size_t)indices + line - 1) / line * line;
}

size_t weiri_rma_words_bytes(const weiri_nccl_settings *settings, int count)
{
    const int indices = settings->contexts * settings->signals;
    return (size_t)WEIRI_RMA_COUNTS * (size_t)count * rma_stride(indices) * sizeof(uint64_t);
}

weir_status weiri_nccl_rma_create(weiri_nccl_comm *comm)
{
    const weiri_nccl_p2p *p2p = comm->p2p;
    const size_t boxes = weiri_p2p_boxes_bytes(p2p->lanes, p2p->count);
    weiri_nccl_rma *rma = calloc(1, sizeof *rma);
    if (rma)
        rma->base = calloc((size_t)p2p->count, sizeof *rma->base);
    comm->rma = rma;
    if (!rma || !rma->base)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for one-sided calls");
    rma->indices = comm->settings.contexts * comm->settings.signals;
    rma->stride = rma_stride(rma->indices);
    rma->place = p2p->node_rank;
    rma->count = p2p->count;
    for (int place = 0; place < rma->count; place++)
        rma->base[place] = (uint64_t *)(void *)(p2p->mailbox[place] + boxes);
    return weiri_rma_quick_open(comm);
}

void weiri_nccl_rma_destroy(weiri_nccl_comm *comm)
{
    if (!comm->rma)
        return;
    weiri_rma_net_close(comm, 0);
    weiri_rma_quick_close(comm->rma);
    free(comm->rma->base);
    free(comm->rma);
    comm->rma = NULL;
}

weir_status weiri_rma_save(const weiri_nccl_comm *comm, uint64_t *words)
{
    const weiri_nccl_p2p *p2p = comm->p2p;
    return weir_mem_read(p2p->own, weiri_p2p_boxes_bytes(p2p->lanes, p2p->count), words,
                         weiri_rma_words_bytes(&comm->settings, p2p->count));
}

weir_status weiri_rma_restore(weiri_nccl_comm *comm, const uint64_t *words)
{
    const weiri_nccl_p2p *p2p = comm->p2p;
    return weir_mem_write(p2p->own, weiri_p2p_boxes_bytes(p2p->lanes, p2p->count), words,
                          weiri_rma_words_bytes(&comm->settings, p2p->count));
}

/* ------------------------------------------------------------------- running */

/* The path of a put to its window; checked again, as the window may have been deregistered since
 * the call was made in a group. */
static weir_status rma_find_window(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                   const weiri_window_peer **to)
{
    weiri_registration *window = weiri_registration_find(comm->handle, call->window);
    if (!window || !window->peers)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d: a put to rank %d uses a window that was "
                          "deregistered before the group ended",
                          comm->rank, call->peer);
    *to = &window->peers[call->peer];
    weiri_rma_quick_keep(comm, window);
    return WEIR_OK;
}

static weir_status rma_run_remote(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                  const weiri_window_peer *to)
{
    /* Between nodes the host moves data, after the work before it in the stream. */
    weir_comm *node = weiri_comm_node(comm->comm);
    weir_status status = comm->device < 0 ? WEIR_OK : node->gpu->ops->await(node, call->stream);
    if (status != WEIR_OK)
        return status;
    return call->kind == WEIRI_ONESIDED_PUT ? weiri_rma_net_put(comm, call, to)
                                            : weiri_rma_net_signal(comm, call->peer, call->index);
}

static weir_status rma_run_out(weiri_nccl_comm *comm, const weiri_nccl_onesided *call)
{
    const weiri_window_peer *to = NULL;
    weir_status status = WEIR_OK;
    if (call->kind == WEIRI_ONESIDED_PUT)
        status = rma_find_window(comm, call, &to);
    if (status != WEIR_OK)
        return status;
    if (weiri_p2p_is_remote(comm, call->peer))
        return rma_run_remote(comm, call, to);
    if (comm->device >= 0)
        return weiri_rma_gpu_out(comm, call, to);
    if (to)
        status = weiri_rma_put_on_host(comm, call, to);
    if (status == WEIR_OK)
        weiri_rma_signal_on_host(comm, call->peer, call->index);
    return status;
}

static weir_status rma_run_wait(weiri_nccl_comm *comm, const weiri_nccl_onesided *call)
{
    weir_status status = WEIR_OK;
    if (comm->device >= 0)
        status = weiri_rma_gpu_wait(comm, call);
    for (int i = 0; i < call->nwaits && status == WEIR_OK; i++) {
        const weiri_onesided_wait *wait = &call->waits[i];
        if (weiri_p2p_is_remote(comm, wait->peer))
            status = weiri_rma_net_wait(comm, wait);
        else if (comm->device < 0)
            status = weiri_rma_wait_on_host(comm, wait);
    }
    return status;
}

ncclResult_t weiri_nccl_rma_run(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    static const char *const names[] = {"ncclPutSignal", "ncclSignal", "ncclWaitSignal"};
    const weiri_nccl_onesided *own = call->onesided;
    weiri_nccl_nvtx_begin(comm, names[own->kind], own->bytes);
    weir_status status =
        own->kind == WEIRI_ONESIDED_WAIT ? rma_run_wait(comm, own) : rma_run_out(comm, own);
    weiri_nccl_nvtx_end(comm);
    if (status == WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "%s, rank %d of %d: %llu bytes", names[own->kind], comm->rank,
                  comm->nranks, (unsigned long long)own->bytes);
    return weiri_nccl_result_of(comm, status);
}
