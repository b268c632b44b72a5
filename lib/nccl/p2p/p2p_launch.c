/*
 * Sends and receives among the GPUs of this node: launches the kernel of p2p.cuh in the stream of
 * the group's first call. If the group uses other streams, that stream waits for them before, and
 * they wait for it after.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/p2p/p2p_gpu.h"
#include "nccl/p2p/p2p_host.h"

/* Calls of one direction of a pair in one launch. */
enum { CALLS_EACH = WEIRI_P2P_CALLS_MAX / (2 * WEIRI_GPU_RANKS_MAX) };

/* What is to be launched, and how far that is. */
typedef struct launch_state {
    weiri_nccl_comm *comm;
    const weiri_nccl_call *calls;
    size_t count;
    cudaStream_t stream;
    size_t next[2 * WEIRI_GPU_RANKS_MAX]; /* for each direction of each pair */
    weiri_p2p_self self;
} launch_state;

static weiri_p2p_call call_args(const weiri_nccl_call *call, int node_rank)
{
    int sends = weiri_nccl_sends(call);
    return (weiri_p2p_call){sends ? (char *)(uintptr_t)call->call.in : call->call.out,
                            weiri_p2p_bytes_of(call), node_rank, sends};
}

/* Adds the next calls of one direction of a pair to a launch. */
static void add_flow(launch_state *all, int direction, weiri_p2p_args *args)
{
    const int sends = direction % 2 == 0;
    int before = args->ncalls, rank = weiri_comm_parent_rank(all->comm->p2p->node, direction / 2);
    for (int i = 0; i < CALLS_EACH; i++) {
        const weiri_nccl_call *call =
            weiri_p2p_next_call(all->calls, all->count, sends, rank, &all->next[direction]);
        if (!call)
            break;
        int lanes = weiri_p2p_lanes_of(weiri_p2p_bytes_of(call), args->lanes);
        args->blocks_each = lanes > args->blocks_each ? lanes : args->blocks_each;
        args->call[args->ncalls++] = call_args(call, direction / 2);
    }
    if (args->ncalls > before)
        args->first[args->nflows++] = before;
    args->first[args->nflows] = args->ncalls;
}

/* The next message of this rank to itself: part of the launch if it has other messages, otherwise a
 * copy. */
static weir_status add_self(launch_state *all, weiri_p2p_args *args)
{
    enum { BLOCKS_MAX = 64, BLOCK_BYTES = 64 << 10 };
    weir_status status = weiri_p2p_next_self(all->comm, all->calls, all->count, &all->self);
    const weiri_nccl_call *send = all->self.send, *recv = all->self.recv;
    if (status != WEIR_OK || !send || !send->call.count || recv->call.out == send->call.in)
        return status;
    const uint64_t bytes = weiri_p2p_bytes_of(send), blocks = (bytes - 1) / BLOCK_BYTES + 1;
    if (!args->ncalls)
        return weiri_nccl_gpu_copy(all->comm, recv->call.out, send->call.in, bytes, all->stream);
    args->own = (weiri_p2p_self_copy){recv->call.out, send->call.in, bytes,
                                      (int32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX)};
    return WEIR_OK;
}

/* Launches the next calls of each direction of each pair. */
static weir_status launch_next(launch_state *all, int *launched)
{
    const weiri_nccl_p2p *p2p = all->comm->p2p;
    weiri_p2p_args args = {.rank = p2p->node_rank, .lanes = p2p->lanes};
    for (int node_rank = 0; node_rank < p2p->count; node_rank++)
        args.mailbox[node_rank] = p2p->mailbox[node_rank];
    for (int direction = 0; direction < 2 * p2p->count; direction++)
        if (direction / 2 != p2p->node_rank)
            add_flow(all, direction, &args);
    weir_status status = add_self(all, &args);
    *launched = args.ncalls > 0 || all->self.send;
    if (status == WEIR_OK && args.ncalls > 0)
        status = weiri_nccl_gpu_exchange(all->comm, &args, all->stream);
    return status;
}

/* Whether a call is the first one in a stream other than the stream of the launches. */
static int is_first_in_stream(const launch_state *all, size_t which)
{
    const weiri_nccl_call *call = &all->calls[which];
    if (!weiri_nccl_is_p2p(call) || call->call.stream == all->stream)
        return 0;
    for (size_t i = 0; i < which; i++)
        if (weiri_nccl_is_p2p(&all->calls[i]) && all->calls[i].call.stream == call->call.stream)
            return 0;
    return 1;
}

/* Joins the group's other streams with the stream of the launches, before or after the launches. */
static weir_status join_streams(const launch_state *all, int is_after)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < all->count && status == WEIR_OK; i++) {
        cudaStream_t other = all->calls[i].call.stream;
        if (is_first_in_stream(all, i))
            status = is_after ? weiri_nccl_gpu_follow(all->comm, other, all->stream)
                              : weiri_nccl_gpu_follow(all->comm, all->stream, other);
    }
    return status;
}

weir_status weiri_p2p_run_on_gpu(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    launch_state all = {.comm = comm, .calls = calls, .count = count};
    size_t first = 0;
    while (first < count && !weiri_nccl_is_p2p(&calls[first]))
        first++;
    if (first == count)
        return WEIR_OK;
    all.stream = calls[first].call.stream;
    weir_status status = join_streams(&all, 0);
    for (int launched = 1; launched && status == WEIR_OK;)
        status = launch_next(&all, &launched);
    return status == WEIR_OK ? join_streams(&all, 1) : status;
}
