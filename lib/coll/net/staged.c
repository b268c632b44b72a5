/*
 * Calls across machines on buffers of GPUs. Between machines the host moves the data:
 * inputs are copied into pinned host memory, the algorithm runs there, and its output
 * goes back. Calls with one count go in pieces of it, block by block, so that the host
 * memory stays small; the others take as much as their blocks need.
 *
 * Pinned memory is made when a call first needs so much, and kept. It is memory of the
 * machine's ranks, which the phases inside a machine use without copies.
 */
#include "coll/net/staged.h"

#include "base/error.h"
#include "comm/gpu.h"
#include "comm/net.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 8 << 20 }; /* of all blocks of a buffer, at once */

/* Pinned memory, of the collectives' state. */
typedef struct weiri_stage {
    weir_mem *memory;
    int pinned;
} weiri_stage;

static void free_stage(weir_comm *comm, weiri_stage *stage)
{
    if (stage->pinned)
        comm->gpu->ops->unpin(comm->device, weir_mem_pointer(stage->memory));
    weir_mem_free(stage->memory);
    *stage = (weiri_stage){NULL, 0};
}

void weiri_stages_destroy(weiri_coll *coll)
{
    for (int i = 0; coll->stages && i < 2; i++)
        free_stage(coll->comm, &coll->stages[i]);
    free(coll->stages);
    coll->stages = NULL;
}

/* Stage 0 is for inputs, 1 for outputs. */
static weir_status get_stage(weiri_coll *coll, int which, size_t bytes, char **base)
{
    weir_comm *comm = coll->comm;
    void *unused;
    if (!coll->stages)
        coll->stages = calloc(2, sizeof *coll->stages);
    if (!coll->stages)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for stages");
    weiri_stage *stage = &coll->stages[which];
    if (!stage->memory || weir_mem_bytes(stage->memory) < bytes) {
        free_stage(comm, stage);
        bytes = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
        weir_status status = weir_mem_alloc(comm->local, bytes, &stage->memory);
        if (status == WEIR_OK) {
            status = comm->gpu->ops->pin(comm->device, weir_mem_pointer(stage->memory), bytes,
                                         &unused);
            stage->pinned = status == WEIR_OK;
        }
        if (status != WEIR_OK)
            return status;
    }
    *base = weir_mem_pointer(stage->memory);
    return WEIR_OK;
}

static weir_status copy(weiri_coll *coll, void *to, const void *from, size_t bytes)
{
    weir_comm *comm = coll->comm;
    return bytes ? comm->gpu->ops->copy(comm->device, to, from, bytes) : WEIR_OK;
}

/* How many blocks of count a buffer of this rank has; 0: it is not used here. */
typedef struct blocks {
    size_t in, out;
} blocks;

static blocks blocks_of(const weiri_coll *coll, const weiri_call *call)
{
    size_t n = (size_t)coll->nranks;
    int is_root = call->root == coll->rank;
    switch (call->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
        return (blocks){n, 1};
    case WEIR_COLL_ALLGATHER:
        return (blocks){1, n};
    case WEIR_COLL_ALLTOALL:
        return (blocks){n, n};
    case WEIR_COLL_BROADCAST:
        return (blocks){is_root ? 1 : 0, 1};
    case WEIR_COLL_REDUCE:
        return (blocks){1, is_root ? 1 : 0};
    default:
        return (blocks){1, 1};
    }
}

/* Elements [first, first + count) of every block. */
static weir_status run_piece(weiri_coll *coll, const weiri_call *whole, const blocks *b,
                             size_t first, size_t count)
{
    weiri_call call = *whole;
    char *in = NULL, *out = NULL;
    size_t at = first * call.element_bytes;
    call.count = count;
    call.bytes = count * call.element_bytes;
    weir_status status = get_stage(coll, 0, (size_t)coll->nranks * call.bytes, &in);
    if (status == WEIR_OK)
        status = get_stage(coll, 1, (size_t)coll->nranks * call.bytes, &out);
    for (size_t i = 0; i < b->in && status == WEIR_OK; i++)
        status = copy(coll, in + i * call.bytes, whole->in + i * whole->bytes + at, call.bytes);
    if (status != WEIR_OK)
        return status;
    call.in = in;
    call.out = out;
    if (call.collective == WEIR_COLL_ALLTOALL)
        for (size_t peer = 0; peer < (size_t)coll->nranks; peer++)
            coll->pairs[peer] = (weiri_pair){in + peer * call.bytes, out + peer * call.bytes,
                                             call.bytes, call.bytes, 1, 1};
    status = call.choice->algo->run(coll, &call);
    for (size_t i = 0; i < b->out && status == WEIR_OK; i++)
        status = copy(coll, whole->out + i * whole->bytes + at, out + i * call.bytes, call.bytes);
    return status;
}

static weir_status run_pieces(weiri_coll *coll, const weiri_call *call)
{
    const blocks b = blocks_of(coll, call);
    size_t n = (size_t)coll->nranks, line = WEIR_LINE_BYTES / call->element_bytes;
    size_t piece = PIECE_BYTES / n / call->element_bytes / line * line;
    weir_status status = WEIR_OK;
    for (size_t first = 0; first < call->count && status == WEIR_OK; first += piece) {
        size_t left = call->count - first;
        status = run_piece(coll, call, &b, first, left < piece ? left : piece);
    }
    return status;
}

/* alltoallv and sendrecv: the pairs' blocks side by side. */
static weir_status run_pairs(weiri_coll *coll, const weiri_call *call)
{
    weiri_pair device[WEIRI_RANKS_MAX];
    char *in = NULL, *out = NULL;
    size_t n = (size_t)coll->nranks, sent = 0, received = 0;
    memcpy(device, coll->pairs, n * sizeof *device);
    for (size_t peer = 0; peer < n; peer++) {
        sent += device[peer].send_bytes;
        received += device[peer].recv_bytes;
    }
    weir_status status = get_stage(coll, 0, sent, &in);
    if (status == WEIR_OK)
        status = get_stage(coll, 1, received, &out);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++) {
        weiri_pair *pair = &coll->pairs[peer];
        pair->from = in;
        pair->to = out;
        status = copy(coll, in, device[peer].from, pair->send_bytes);
        in += pair->send_bytes;
        out += pair->recv_bytes;
    }
    if (status == WEIR_OK)
        status = call->choice->algo->run(coll, call);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++)
        status = copy(coll, device[peer].to, coll->pairs[peer].to, device[peer].recv_bytes);
    return status;
}

weir_status weiri_across_staged(weiri_coll *coll, const weiri_call *call)
{
    weir_comm *comm = coll->comm;
    if (call->splits)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_alltoallv_device: across machines the host must know the counts; "
                          "use weir_alltoallv");
    weir_status status = comm->gpu->ops->await(comm->device, call->stream);
    if (status != WEIR_OK)
        return status;
    int in_pairs =
        call->collective == WEIR_COLL_ALLTOALLV || call->collective == WEIR_COLL_SENDRECV;
    return in_pairs ? run_pairs(coll, call) : run_pieces(coll, call);
}
