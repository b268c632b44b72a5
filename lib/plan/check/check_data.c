/*
 * Operations on data: the values they move, and who accesses what.
 *
 * Within a thread block two operations are ordered by a fence between them; within an operation
 * only the accesses to one element, a lane, are. What a port channel was asked to read and
 * write has chains of its own: fences of the block do not order it, flushes and signals do.
 *
 * Packets. Who reads one knows that it was written, hence that whatever was read to make it
 * was read before: what flows orders the reads that it flowed through, element by element,
 * before what is written with it. He knows too that the launch it came of had begun. Nothing
 * else that the sender did before is ordered, for packets are stored without a release.
 */
#include "plan/check/check.h"


/* A part of an operation: sources and destinations that have the same chunks in common. */
typedef struct pieces {
    uint32_t src, nsrcs, dst, ndsts; /* of the gpu's refs */
    uint32_t size;
    weiri_check_port *port;          /* who accesses; NULL: the thread block */
} pieces;

/* An operation under way. */
typedef struct moving {
    weiri_check *check;
    uint32_t block, node;
    const weiri_plan_op *op;
    uint32_t op_place; /* of the gpu's ops */
    const weiri_plan_gpu *gpu;
} moving;

uint32_t weiri_check_first_place(const weiri_check *check, int rank, unsigned buffer,
                                 uint32_t index)
{
    const weir_plan *plan = check->plan;
    if (buffer == WEIR_PLAN_SCRATCH) {
        uint32_t half = plan->double_scratch && check->launch % 2 ? check->half[rank] : 0;
        return check->first_place[rank][buffer] + half + index;
    }
    if (plan->in_place && buffer == WEIR_PLAN_INPUT &&
        check->blocks_of[WEIR_PLAN_INPUT] < check->blocks_of[WEIR_PLAN_OUTPUT])
        return check->first_place[rank][WEIR_PLAN_OUTPUT] +
               (uint32_t)rank * check->block_chunks + index;
    if (plan->in_place && buffer == WEIR_PLAN_OUTPUT &&
        check->blocks_of[WEIR_PLAN_INPUT] >= check->blocks_of[WEIR_PLAN_OUTPUT])
        return check->first_place[rank][WEIR_PLAN_INPUT] + index +
               (check->blocks_of[WEIR_PLAN_INPUT] > check->blocks_of[WEIR_PLAN_OUTPUT]
                    ? (uint32_t)rank * check->block_chunks
                    : 0);
    return check->first_place[rank][buffer] + index;
}

/* ------------------------------------------------------------ parts and lanes */

static uint32_t npieces(const weiri_plan_op *op)
{
    switch (weiri_plan_traits[op->kind].mode) {
    case WEIRI_PLAN_PAIRS:
        return op->nsrcs;
    case WEIRI_PLAN_SPREAD:
        return op->channel == WEIRI_PLAN_PORT ? op->ndsts : 1;
    default:
        return 1;
    }
}

static pieces pieces_of(const moving *in, uint32_t i)
{
    const weiri_plan_op *op = in->op;
    weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
    int is_port = op->channel == WEIRI_PLAN_PORT;
    pieces made = {op->first_src, op->nsrcs, op->first_dst, op->ndsts, 0, NULL};
    if (mode == WEIRI_PLAN_PAIRS) {
        made.src += i;
        made.nsrcs = 1;
    }
    if (mode == WEIRI_PLAN_PAIRS || (mode == WEIRI_PLAN_SPREAD && is_port)) {
        made.dst += i;
        made.ndsts = 1;
    }
    made.size = in->gpu->refs[made.src].size;
    if (is_port)
        made.port =
            weiri_check_port_of(in->check, in->block, in->gpu->ids[op->first_id + i]);
    return made;
}

/* A put of packets through a port takes them as they are; all others wait for theirs. */
static int awaits(const moving *in, const weiri_plan_ref *ref)
{
    return ref->is_packets && in->op->kind != WEIRI_PLAN_PUT_PACKETS_OP;
}

/* Whether the operation handles chunk k now, in this world. */
static int handles(const moving *in, uint32_t size, uint32_t k)
{
    const weiri_check_block *block = &in->check->blocks[in->block];
    int32_t turn = weiri_check_turn(&in->check->worlds, in->check->row, block->rank,
                                    in->op_place, size, k);
    return turn >= 0 && (uint32_t)turn == (in->op->in_body ? block->turn : 0);
}

/* Ranks whose memory a reference is into: the i-th; -1: no more. */
static int rank_of(const moving *in, const weiri_plan_ref *ref, uint32_t i)
{
    if (ref->place != WEIRI_PLAN_GROUP)
        return i ? -1 : ref->place == WEIRI_PLAN_LOCAL ? in->check->blocks[in->block].rank
                                                       : ref->rank;
    const weiri_plan_switch *group = &in->gpu->switches[ref->rank];
    return i < group->nranks ? (int)in->gpu->ids[group->first_rank + i] : -1;
}

/* A reference's chunk in a block of its buffer: its length; in scratch all are long. */
static uint32_t reach_of(const moving *in, const weiri_plan_ref *ref, uint32_t k)
{
    return ref->buffer == WEIR_PLAN_SCRATCH ? 0 : (ref->index + k) % in->check->block_chunks;
}

/* ------------------------------------------------------------- an operation */

/* Packets of this launch are where they are expected, or the block waits for them. */
static int has_packets(moving *in)
{
    weiri_check *check = in->check;
    for (uint32_t g = 0; g < npieces(in->op); g++) {
        pieces part = pieces_of(in, g);
        for (uint32_t i = 0; i < part.nsrcs; i++) {
            const weiri_plan_ref *ref = &in->gpu->refs[part.src + i];
            int rank = rank_of(in, ref, 0);
            if (!awaits(in, ref))
                continue;
            uint32_t first = weiri_check_first_place(check, rank, ref->buffer, ref->index);
            for (uint32_t k = 0; k < part.size; k++) {
                weiri_place *place = &check->places[first + k];
                if (place->packets == (int32_t)check->launch || !handles(in, part.size, k))
                    continue;
                weiri_check_block *block = &check->blocks[in->block];
                block->state = WEIRI_CHECK_WAITS;
                block->place = first + k;
                block->next = place->waiting;
                place->waiting = in->block;
                return 0;
            }
        }
    }
    return 1;
}

static void read_one(moving *in, const pieces *part, const weiri_plan_ref *ref, uint32_t place,
                     uint32_t lane)
{
    weiri_check *check = in->check;
    weiri_place *at = &check->places[place];
    const weiri_check_block *block = &check->blocks[in->block];
    weiri_access access = {lane, block->chain, block->tick, WEIRI_CHECK_NONE};
    if (part->port) {
        access.chain = part->port->chain;
        access.tick = part->port->nputs;
    }
    weiri_check_read_place(check, in->block, place, access, awaits(in, ref));
    if (!check->plan->has_packets)
        return;
    uint32_t writer = at->last.lane;
    if (writer != WEIRI_CHECK_NONE &&
        check->nodes[check->lanes[writer].node].launch != check->launch)
        writer = WEIRI_CHECK_NONE;
    uint32_t *source = weiri_check_append(check, &check->sources, &check->nsources, sizeof *source);
    if (!source)
        return;
    *source = writer;
    check->lanes[lane].count++;
    if (awaits(in, ref) && writer != WEIRI_CHECK_NONE) {
        const weiri_node *sender = &check->nodes[check->lanes[writer].node];
        check->lanes[lane].ranks |=
            check->lanes[writer].ranks | UINT64_C(1) << check->blocks[sender->block].rank;
        if (at->last.chain >= check->rank_chain) /* a port's: it has read what it put */
            weiri_check_learn(check, in->block, at->last.chain - 1, at->last.tick + 1);
    }
}

/* All that a lane reads; its value is the next of check->values. */
static void read_lane(moving *in, const pieces *part, uint32_t k)
{
    weiri_check *check = in->check;
    weiri_lane *lane = weiri_check_append(check, &check->lanes, &check->nlanes, sizeof *lane);
    weiri_value *value =
        weiri_check_append(check, &check->values, &check->nvalues, sizeof *value);
    int is_first = 1;
    if (!lane || !value)
        return;
    lane->node = in->node;
    lane->first = check->nsources;
    for (uint32_t i = 0; i < part->nsrcs && check->status == WEIR_OK; i++) {
        const weiri_plan_ref *ref = &in->gpu->refs[part->src + i];
        int rank;
        for (uint32_t j = 0; (rank = rank_of(in, ref, j)) >= 0; j++) {
            uint32_t place = weiri_check_first_place(check, rank, ref->buffer, ref->index + k);
            weiri_value read = weiri_value_read(check, place, ref->is_packets, in->node);
            uint32_t reach = reach_of(in, ref, k);
            read.reach = read.reach > reach ? read.reach : reach;
            *value = is_first ? read : weiri_value_reduce(*value, read, in->node);
            is_first = 0;
            read_one(in, part, ref, place, check->nlanes - 1);
        }
    }
    for (uint32_t i = 0; i < part->ndsts; i++) {
        uint32_t reach = reach_of(in, &in->gpu->refs[part->dst + i], k);
        value->reach = value->reach > reach ? value->reach : reach;
    }
    check->blocks[in->block].pending_ranks |= check->lanes[check->nlanes - 1].ranks;
}

/* An input that is not the output is the caller's, and stays as it is. */
static void spare_input(moving *in, const weiri_plan_ref *ref, int rank, uint32_t k)
{
    const weir_plan *plan = in->check->plan;
    const weiri_check_block *block = &in->check->blocks[in->block];
    if (ref->buffer == WEIR_PLAN_INPUT && !plan->in_place && in->check->report->proves_result)
        weiri_check_violate(in->check, WEIR_PLAN_FAULT_RESULT, block->rank, in->block, block->op,
                            "writes input chunk %u of rank %d, which the caller keeps: the plan "
                            "is not in place",
                            ref->index + k, rank);
}

static void write_one(moving *in, const pieces *part, const weiri_plan_ref *ref, uint32_t place,
                      uint32_t lane, const weiri_value *value)
{
    weiri_check *check = in->check;
    weiri_place *at = &check->places[place];
    const weiri_check_block *block = &check->blocks[in->block];
    weiri_access access = {lane, block->chain, block->tick, WEIRI_CHECK_NONE};
    char name[WEIRI_CHECK_TEXT];
    if (part->port) {
        access.chain = part->port->chain + 1;
        access.tick = part->port->nputs;
    }
    if (ref->is_packets && at->packets == (int32_t)check->launch)
        weiri_check_violate(check, WEIR_PLAN_FAULT_RACE, block->rank, in->block, block->op,
                            "writes packets in %s a second time in a launch: who waits for them "
                            "cannot tell the two apart",
                            weiri_check_place_name(check, place, name));
    weiri_check_write_place(check, in->block, place, access);
    at->value = *value;
    at->packets = ref->is_packets ? (int32_t)check->launch : -1;
    if (ref->is_packets)
        weiri_check_wake(check, &at->waiting);
}

static void write_lane(moving *in, const pieces *part, uint32_t k, uint32_t lane,
                       const weiri_value *value)
{
    weiri_check *check = in->check;
    for (uint32_t i = 0; i < part->ndsts && check->status == WEIR_OK; i++) {
        const weiri_plan_ref *ref = &in->gpu->refs[part->dst + i];
        int rank;
        for (uint32_t j = 0; (rank = rank_of(in, ref, j)) >= 0; j++) {
            spare_input(in, ref, rank, k);
            write_one(in, part, ref,
                      weiri_check_first_place(check, rank, ref->buffer, ref->index + k), lane,
                      value);
        }
    }
}

static void move_all(moving *in)
{
    weiri_check *check = in->check;
    uint32_t first_lane = check->nlanes, done = 0;
    check->nvalues = 0;
    for (uint32_t g = 0; g < npieces(in->op); g++) {
        pieces part = pieces_of(in, g);
        for (uint32_t k = 0; k < part.size && check->status == WEIR_OK; k++)
            if (handles(in, part.size, k))
                read_lane(in, &part, k);
    }
    for (uint32_t g = 0; g < npieces(in->op); g++) {
        pieces part = pieces_of(in, g);
        for (uint32_t k = 0; k < part.size && check->status == WEIR_OK; k++)
            if (handles(in, part.size, k)) {
                write_lane(in, &part, k, first_lane + done, &check->values[done]);
                done++;
            }
    }
}

/* What was asked of port channels is behind one another there. */
static void count_puts(moving *in)
{
    const weiri_check_block *block = &in->check->blocks[in->block];
    for (uint32_t i = 0; in->op->channel == WEIRI_PLAN_PORT && i < npieces(in->op); i++) {
        weiri_check_port *port = pieces_of(in, i).port;
        if (port->thread != i || port->stretch != block->tick) {
            port->ncovered = port->stretch == block->tick ? port->ncovered : port->nputs;
            port->thread = port->stretch == block->tick && port->thread != i ? WEIRI_CHECK_NONE : i;
            port->stretch = block->tick;
        }
        port->nputs++;
    }
}

int weiri_check_data(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const weiri_check_block *at = &check->blocks[block];
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    moving in = {check, block, check->nnodes, op, (uint32_t)(op - gpu->ops), gpu};
    if (!has_packets(&in))
        return 0;
    weiri_node *node = weiri_check_append(check, &check->nodes, &check->nnodes, sizeof *node);
    if (!node)
        return 1;
    *node = (weiri_node){block, at->op, op->in_body ? at->turn : 0, check->launch};
    move_all(&in);
    count_puts(&in);
    if (op->kind == WEIRI_PLAN_PUT_SIGNAL_OP || op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP) {
        if (op->channel == WEIRI_PLAN_MEMORY)
            weiri_check_fence(check, block);
        weiri_check_signal_ids(check, block, op, 0);
    }
    if (op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP)
        weiri_check_flush(check, block, op);
    return 1;
}
