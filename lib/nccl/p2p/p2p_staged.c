/*
 * Sends and receives of GPU buffers in a communicator across nodes. The host moves what crosses
 * nodes, from and to copies in pinned host memory (coll/internode/gpu_staging.h), as it does for
 * collectives; what stays on the node is launched before the host waits for others, so that all
 * calls of a group make progress together.
 */
#include "nccl/p2p/p2p_host.h"

#include "base/error.h"
#include "coll/internode/gpu_staging.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* The calls, and copies in which calls to other nodes use host memory. */
typedef struct staging {
    weiri_nccl_comm *comm;
    weir_comm *node;
    const weiri_nccl_call *calls;
    weiri_nccl_call *staged;
    size_t count;
} staging;

static int is_staged(const staging *s, size_t i)
{
    return weiri_nccl_is_p2p(&s->calls[i]) &&
           weiri_p2p_is_moved_by_host(s->comm, weiri_nccl_peer(&s->calls[i]));
}

/* Waits for the work before each staged call, and adds up the memory that all need. */
static weir_status await_staged_streams(const staging *s, uint64_t *sent, uint64_t *received)
{
    const weiri_gpu_ops *gpu = s->node->gpu->ops;
    weir_status status = WEIR_OK;
    *sent = *received = 0;
    for (size_t i = 0; i < s->count && status == WEIR_OK; i++) {
        const weiri_nccl_call *call = &s->calls[i];
        uint64_t bytes = weiri_p2p_bytes_of(call);
        int sends = weiri_nccl_sends(call);
        if (!is_staged(s, i))
            continue;
        *(sends ? sent : received) += bytes;
        status = gpu->check_buffer(s->node, sends ? call->call.in : call->call.out, bytes);
        if (status == WEIR_OK)
            status = gpu->await(s->node, call->call.stream);
    }
    return status;
}

/* Gives each staged call its part of the host memory. */
static weir_status assign_host_memory(const staging *s, uint64_t sent, uint64_t received)
{
    weiri_coll *coll = NULL;
    char *in = NULL, *out = NULL;
    weir_status status = weiri_coll_get(s->comm->comm, &coll);
    if (status == WEIR_OK)
        status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_IN, sent, &in);
    if (status == WEIR_OK)
        status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_OUT, received, &out);
    for (size_t i = 0; i < s->count && status == WEIR_OK; i++) {
        weiri_nccl_call *call = &s->staged[i];
        if (!is_staged(s, i))
            continue;
        char **at = weiri_nccl_sends(call) ? &in : &out;
        call->call.in = *at;
        call->call.out = *at;
        *at += weiri_p2p_bytes_of(call);
    }
    return status;
}

/* Copies what is sent into host memory, or what was received out of it. */
static weir_status copy_staged(const staging *s, int sends)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < s->count && status == WEIR_OK; i++) {
        const weiri_nccl_call *call = &s->calls[i], *staged = &s->staged[i];
        uint64_t bytes = weiri_p2p_bytes_of(call);
        if (is_staged(s, i) && weiri_nccl_sends(call) == sends && bytes)
            status = s->node->gpu->ops->copy(s->node, sends ? staged->call.out : call->call.out,
                                             sends ? call->call.in : staged->call.in, bytes);
    }
    return status;
}

static weir_status run_staged(const staging *s)
{
    uint64_t sent, received;
    weir_status status = await_staged_streams(s, &sent, &received);
    if (status == WEIR_OK && sent + received)
        status = assign_host_memory(s, sent, received);
    if (status == WEIR_OK)
        status = copy_staged(s, 1);
    if (status == WEIR_OK)
        status = weiri_p2p_run_on_gpu(s->comm, s->calls, s->count);
    if (status == WEIR_OK)
        status = weiri_p2p_run_on_host(s->comm, s->staged, s->count);
    return status == WEIR_OK ? copy_staged(s, 0) : status;
}

weir_status weiri_p2p_run_staged(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    staging s = {comm, weiri_comm_node(comm->comm), calls, malloc(count * sizeof *calls), count};
    if (!s.staged)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    memcpy(s.staged, calls, count * sizeof *calls);
    weir_status status = run_staged(&s);
    free(s.staged);
    return status;
}
