/*
 * Sends and receives of a communicator: its mailboxes, and who serves which message. A rank's
 * messages to itself are copied, the first send to the first receive. On GPUs a kernel moves what
 * stays on the node; the host moves everything else.
 */
#include "nccl/p2p/p2p_host.h"

#include "nccl/gpu/gpu.h"
#include "nccl/gpu/nvtx.h"
#include "nccl/comm/profiler.h"
#include "nccl/rma/rma.h"
#include "nccl/vendor/vendor.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

void weiri_nccl_p2p_destroy(weiri_nccl_comm *comm)
{
    weiri_nccl_p2p *p2p = comm->p2p;
    if (!p2p)
        return;
    for (int rank = 0; p2p->all && rank < p2p->count; rank++)
        if (rank != p2p->node_rank)
            weir_mem_free(p2p->all[rank]);
    weir_mem_free(p2p->own);
    free(p2p->all);
    free(p2p->mailbox);
    free(p2p);
    comm->p2p = NULL;
}

static weir_status create_mailbox(weiri_nccl_comm *comm)
{
    weiri_nccl_p2p *p2p = calloc(1, sizeof *p2p);
    comm->p2p = p2p;
    if (p2p) {
        p2p->node = weiri_comm_node(comm->comm);
        p2p->node_rank = weir_comm_rank(p2p->node);
        p2p->count = weir_comm_nranks(p2p->node);
        p2p->lanes = weiri_p2p_lanes_for(comm->device >= 0, p2p->count);
        p2p->all = calloc((size_t)p2p->count, sizeof *p2p->all);
        p2p->mailbox = calloc((size_t)p2p->count, sizeof *p2p->mailbox);
    }
    if (!p2p || !p2p->all || !p2p->mailbox)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    return weir_mem_alloc(p2p->node,
                          weiri_p2p_boxes_bytes(p2p->lanes, p2p->count) +
                              weiri_rma_words_bytes(&comm->settings, p2p->count),
                          &p2p->own);
}

/* Maps the mailboxes of the node's ranks. */
static weir_status map_mailboxes(weiri_nccl_p2p *p2p)
{
    weir_status status = weir_mem_exchange(p2p->node, p2p->own, p2p->all);
    for (int rank = 0; status == WEIR_OK && rank < p2p->count; rank++)
        p2p->mailbox[rank] = weir_mem_pointer(p2p->all[rank]);
    return status;
}

weir_status weiri_nccl_p2p_create(weiri_nccl_comm *comm)
{
    weiri_internode *internode = comm->comm->internode;
    weir_status status = weir_boot_agree(comm->boot, create_mailbox(comm));
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, map_mailboxes(comm->p2p));
    if (status != WEIR_OK || !internode)
        return status;
    status = weiri_internode_open_pairs(internode);
    comm->p2p->pairs = internode->pairs;
    return status;
}

/* ------------------------------------------------------------------ running */

/* Checks all messages of this rank to itself before anything is moved; on the host also copies
 * them. */
static weir_status serve_self(const weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                              size_t count)
{
    weiri_p2p_self self = {.sends = 0};
    weir_status status;
    while ((status = weiri_p2p_next_self(comm, calls, count, &self)) == WEIR_OK && self.send)
        if (comm->device < 0 && self.send->call.count && self.recv->call.out != self.send->call.in)
            memmove(self.recv->call.out, self.send->call.in, weiri_p2p_bytes_of(self.send));
    return status;
}

static weir_status serve_others(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    if (comm->device < 0)
        return weiri_p2p_run_on_host(comm, calls, count);
    return comm->p2p->pairs ? weiri_p2p_run_staged(comm, calls, count)
                            : weiri_p2p_run_on_gpu(comm, calls, count);
}

static weir_status serve_all(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    weir_status status = serve_self(comm, calls, count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++)
        if (calls[i].event && weiri_nccl_is_p2p(&calls[i]))
            status = weiri_nccl_gpu_record(comm, calls[i].event, calls[i].call.stream);
    if (status == WEIR_OK && (comm->nranks > 1 || comm->device >= 0))
        status = serve_others(comm, calls, count);
    return status;
}

weir_status weiri_nccl_p2p_run(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    if (comm->vendor)
        return weiri_nccl_vendor_p2p(comm, calls, count);
    const uint64_t lent = comm->p2p->lent;
    weiri_nccl_nvtx_begin(comm, "ncclGroup of sends and receives", 0);
    weir_status status = comm->comm->monitor || comm->comm->recorder
                             ? weiri_nccl_p2p_monitored(comm, calls, count, serve_all)
                             : serve_all(comm, calls, count);
    weiri_nccl_nvtx_end(comm);
    if (status == WEIR_OK)
        weiri_log(WEIRI_LOG_INFO,
                  "nccl sends and receives, rank %d of %d: %zu call(s) through "
                  "%s, %llu lent",
                  comm->rank, comm->nranks, count,
                  comm->p2p->pairs ? "mailboxes and messages" : "mailboxes",
                  (unsigned long long)(comm->p2p->lent - lent));
    return status;
}
