/*
 * Sends and receives of a GPU's buffers in a communicator across machines. What crosses
 * them the host moves, on copies in pinned host memory (coll/internode/bridge.h), as it moves
 * collectives; what stays on the machine is launched before the host waits for others, so
 * that all calls of a group make progress together.
 */
#include "nccl/p2p_host.h"

#include "base/error.h"
#include "coll/internode/bridge.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* The calls, of which those to other machines have copies as buffers. */
typedef struct staging {
    weiri_nccl_comm *comm;
    weir_comm *here;
    const weiri_nccl_call *calls;
    weiri_nccl_call *staged;
    size_t count;
} staging;

static int is_staged(const staging *s, size_t i)
{
    return weiri_nccl_is_p2p(&s->calls[i]) &&
           weiri_p2p_by_host(s->comm, weiri_nccl_peer(&s->calls[i]));
}

/* The work before a call ends first; how much memory all take. */
static weir_status await_streams(const staging *s, uint64_t *sent, uint64_t *received)
{
    const weiri_gpu_ops *gpu = s->here->gpu->ops;
    weir_status status = WEIR_OK;
    *sent = *received = 0;
    for (size_t i = 0; i < s->count && status == WEIR_OK; i++) {
        const weiri_nccl_call *call = &s->calls[i];
        uint64_t bytes = weiri_p2p_bytes_of(call);
        int sends = weiri_nccl_sends(call);
        if (!is_staged(s, i))
            continue;
        *(sends ? sent : received) += bytes;
        status = gpu->check_buffer(s->here, sends ? call->call.in : call->call.out, bytes);
        if (status == WEIR_OK)
            status = gpu->await(s->here, call->call.stream);
    }
    return status;
}

/* Gives each call its part of the host memory. */
static weir_status stage(const staging *s, uint64_t sent, uint64_t received)
{
    weiri_coll *coll = NULL;
    char *in = NULL, *out = NULL;
    weir_status status = weiri_coll_get(s->comm->comm, &coll);
    if (status == WEIR_OK)
        status = weiri_bridge_stage(coll, WEIRI_BRIDGE_IN, sent, &in);
    if (status == WEIR_OK)
        status = weiri_bridge_stage(coll, WEIRI_BRIDGE_OUT, received, &out);
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
static weir_status copy(const staging *s, int sends)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < s->count && status == WEIR_OK; i++) {
        const weiri_nccl_call *call = &s->calls[i], *staged = &s->staged[i];
        uint64_t bytes = weiri_p2p_bytes_of(call);
        if (is_staged(s, i) && weiri_nccl_sends(call) == sends && bytes)
            status = s->here->gpu->ops->copy(s->here, sends ? staged->call.out : call->call.out,
                                             sends ? call->call.in : staged->call.in, bytes);
    }
    return status;
}

static weir_status run(const staging *s)
{
    uint64_t sent, received;
    weir_status status = await_streams(s, &sent, &received);
    if (status == WEIR_OK && sent + received)
        status = stage(s, sent, received);
    if (status == WEIR_OK)
        status = copy(s, 1);
    if (status == WEIR_OK)
        status = weiri_p2p_launch(s->comm, s->calls, s->count);
    if (status == WEIR_OK)
        status = weiri_p2p_move(s->comm, s->staged, s->count);
    return status == WEIR_OK ? copy(s, 0) : status;
}

weir_status weiri_p2p_staged(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    staging s = {comm, weiri_comm_node(comm->comm), calls, malloc(count * sizeof *calls), count};
    if (!s.staged)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    memcpy(s.staged, calls, count * sizeof *calls);
    weir_status status = run(&s);
    free(s.staged);
    return status;
}
