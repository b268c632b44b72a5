/* Sends and receives among the GPUs of this machine: launches of the kernel of p2p.cuh. */
#include "nccl/gpu.h"
#include "nccl/p2p_gpu.h"
#include "nccl/p2p_host.h"

/* Calls of one direction of a pair in one launch. */
enum { CALLS_EACH = WEIRI_P2P_CALLS_MAX / (2 * WEIRI_GPU_RANKS_MAX) };

/* What is to be launched, and how far that is. */
typedef struct launches {
    weiri_nccl_comm *comm;
    const weiri_nccl_call *calls;
    size_t count;
    size_t next[2 * WEIRI_GPU_RANKS_MAX]; /* of each direction of each pair */
    weiri_p2p_self self;
} launches;

static weiri_p2p_call describe(const weiri_nccl_call *call, int place)
{
    int sends = call->kind == WEIRI_NCCL_SEND;
    return (weiri_p2p_call){sends ? (char *)(uintptr_t)call->in : call->out,
                            weiri_p2p_bytes_of(call), place, sends};
}

/* The next calls of one direction of a pair, into a launch. */
static void add_flow(launches *all, int way, weiri_p2p_args *args, cudaStream_t *stream)
{
    weiri_nccl_kind kind = way % 2 ? WEIRI_NCCL_RECV : WEIRI_NCCL_SEND;
    int before = args->ncalls, rank = weiri_comm_name(all->comm->p2p->here, way / 2);
    for (int i = 0; i < CALLS_EACH; i++) {
        const weiri_nccl_call *call =
            weiri_p2p_next_of(all->calls, all->count, kind, rank, &all->next[way]);
        if (!call)
            break;
        int lanes = weiri_p2p_lanes_of(weiri_p2p_bytes_of(call), args->lanes);
        args->blocks_each = lanes > args->blocks_each ? lanes : args->blocks_each;
        args->call[args->ncalls++] = describe(call, way / 2);
        *stream = call->stream;
    }
    if (args->ncalls > before)
        args->first[args->nflows++] = before;
    args->first[args->nflows] = args->ncalls;
}

/* The next message to itself: beside the others in the launch, if there are any and it is
 * in their stream, else by a copy. */
static weir_status add_self(launches *all, weiri_p2p_args *args, cudaStream_t stream)
{
    enum { BLOCKS_MAX = 128, BLOCK_BYTES = 64 << 10 };
    weir_status status = weiri_p2p_next_self(all->comm, all->calls, all->count, &all->self);
    const weiri_nccl_call *send = all->self.send, *recv = all->self.recv;
    if (status != WEIR_OK || !send || !send->count || recv->out == send->in)
        return status;
    const uint64_t bytes = weiri_p2p_bytes_of(send), blocks = (bytes - 1) / BLOCK_BYTES + 1;
    if (!args->ncalls || send->stream != stream || recv->stream != stream)
        return weiri_nccl_gpu_copy(all->comm, recv->out, send->in, bytes, recv->stream);
    args->own = (weiri_p2p_own){recv->out, send->in, bytes,
                                (int32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX)};
    return WEIR_OK;
}

/* Puts the next calls of each direction of each pair into a launch. */
static weir_status launch(launches *all, int *launched)
{
    const weiri_nccl_p2p *p2p = all->comm->p2p;
    weiri_p2p_args args = {.rank = p2p->place, .lanes = p2p->lanes};
    cudaStream_t stream = NULL;
    for (int place = 0; place < p2p->count; place++)
        args.mailbox[place] = p2p->mailbox[place];
    for (int way = 0; way < 2 * p2p->count; way++)
        if (way / 2 != p2p->place)
            add_flow(all, way, &args, &stream);
    weir_status status = add_self(all, &args, stream);
    *launched = args.ncalls > 0 || all->self.send;
    if (status == WEIR_OK && args.ncalls > 0)
        status = weiri_nccl_gpu_exchange(all->comm, &args, stream);
    return status;
}

weir_status weiri_p2p_launch(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    launches all = {.comm = comm, .calls = calls, .count = count};
    weir_status status = WEIR_OK;
    for (int launched = 1; launched && status == WEIR_OK;)
        status = launch(&all, &launched);
    return status;
}
