/*
 * Executes operations on data: the values they move, and their accesses to places.
 *
 * Two operations of a thread block are ordered by a fence between them; within an operation only
 * the accesses of one lane are ordered. The reads and writes that a port channel was asked for have
 * separate chains: fences of the block do not order them, flushes and signals do.
 *
 * Packets: a packet that arrived proves that it was written, and hence that everything its value
 * was computed from had been read before. Data flow thus orders those reads, lane by lane, before
 * writes that depend on the packet. It also proves that the sender's launch had begun. Nothing else
 * that the sender did before is ordered, as packets are stored without release semantics.
 */
#include "plan/check/check.h"

/* The sources and destinations of an operation that are handled together, chunk by chunk. */
typedef struct data_group {
    uint32_t src, nsrcs, dst, ndsts; /* indices into the gpu's refs */
    uint32_t size;
    weiri_check_port *port; /* that accesses them; NULL: the thread block itself */
} data_group;

/* The operation that is being executed. */
typedef struct data_op {
    weiri_check *check;
    uint32_t block, instance;
    const weiri_plan_op *op;
    uint32_t op_place; /* index into the gpu's ops */
    const weiri_plan_gpu *gpu;
} data_op;

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
        return check->first_place[rank][WEIR_PLAN_OUTPUT] + (uint32_t)rank * check->block_chunks +
               index;
    if (plan->in_place && buffer == WEIR_PLAN_OUTPUT &&
        check->blocks_of[WEIR_PLAN_INPUT] >= check->blocks_of[WEIR_PLAN_OUTPUT])
        return check->first_place[rank][WEIR_PLAN_INPUT] + index +
               (check->blocks_of[WEIR_PLAN_INPUT] > check->blocks_of[WEIR_PLAN_OUTPUT]
                    ? (uint32_t)rank * check->block_chunks
                    : 0);
    return check->first_place[rank][buffer] + index;
}

/* ----------------------------------------------------------- groups and lanes */

static uint32_t count_groups(const weiri_plan_op *op)
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

static data_group group_at(const data_op *in, uint32_t i)
{
    const weiri_plan_op *op = in->op;
    weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
    int is_port = op->channel == WEIRI_PLAN_PORT;
    data_group made = {op->first_src, op->nsrcs, op->first_dst, op->ndsts, 0, NULL};
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
        made.port = weiri_check_port_of(in->check, in->block, in->gpu->ids[op->first_id + i]);
    return made;
}

/* Whether a reference waits for packets. A put through a port copies packets as they are. */
static int waits_for_packet(const data_op *in, const weiri_plan_ref *ref)
{
    return ref->is_packets && in->op->kind != WEIRI_PLAN_PUT_PACKETS_OP;
}

/* Whether the operation handles chunk k in this byte class and iteration. */
static int handles_chunk(const data_op *in, uint32_t size, uint32_t k)
{
    const weiri_check_block *block = &in->check->blocks[in->block];
    int32_t iteration = weiri_check_iteration(&in->check->classes, in->check->row, block->rank,
                                              in->op_place, size, k);
    return iteration >= 0 && (uint32_t)iteration == (in->op->in_body ? block->iteration : 0);
}

/* The i-th rank whose memory a reference names; -1: there are no more. */
static int ref_rank(const data_op *in, const weiri_plan_ref *ref, uint32_t i)
{
    if (ref->place != WEIRI_PLAN_GROUP)
        return i                                ? -1
               : ref->place == WEIRI_PLAN_LOCAL ? in->check->blocks[in->block].rank
                                                : ref->rank;
    const weiri_plan_switch *group = &in->gpu->switches[ref->rank];
    return i < group->nranks ? (int)in->gpu->ids[group->first_rank + i] : -1;
}

/* The index in its block of a reference's k-th chunk, which bounds its length. All chunks of
 * scratch have the full length. */
static uint32_t chunk_in_block(const data_op *in, const weiri_plan_ref *ref, uint32_t k)
{
    return ref->buffer == WEIR_PLAN_SCRATCH ? 0 : (ref->index + k) % in->check->block_chunks;
}

/* ------------------------------------------------------------ one operation */

/* Whether all packets of this launch that the operation reads are there; if not, the block
 * waits. */
static int packets_arrived(data_op *in)
{
    weiri_check *check = in->check;
    for (uint32_t g = 0; g < count_groups(in->op); g++) {
        data_group part = group_at(in, g);
        for (uint32_t i = 0; i < part.nsrcs; i++) {
            const weiri_plan_ref *ref = &in->gpu->refs[part.src + i];
            int rank = ref_rank(in, ref, 0);
            if (!waits_for_packet(in, ref))
                continue;
            uint32_t first = weiri_check_first_place(check, rank, ref->buffer, ref->index);
            for (uint32_t k = 0; k < part.size; k++) {
                weiri_check_place *place = &check->places[first + k];
                if (place->packets == (int32_t)check->launch || !handles_chunk(in, part.size, k))
                    continue;
                weiri_check_block *block = &check->blocks[in->block];
                block->state = WEIRI_CHECK_BLOCKED;
                block->place = first + k;
                block->next = place->waiting;
                place->waiting = in->block;
                return 0;
            }
        }
    }
    return 1;
}

static void read_chunk(data_op *in, const data_group *part, const weiri_plan_ref *ref,
                       uint32_t place, uint32_t lane)
{
    weiri_check *check = in->check;
    weiri_check_place *at = &check->places[place];
    const weiri_check_block *block = &check->blocks[in->block];
    weiri_check_access access = {lane, block->chain, block->tick, WEIRI_CHECK_NONE, 0};
    if (part->port) {
        access.chain = part->port->chain;
        access.tick = part->port->nputs;
    }
    weiri_check_read_place(check, in->block, place, access, waits_for_packet(in, ref));
    if (!check->plan->has_packets)
        return;
    uint32_t writer = at->last.lane;
    if (writer != WEIRI_CHECK_NONE &&
        check->instances[check->lanes[writer].instance].launch != check->launch)
        writer = WEIRI_CHECK_NONE;
    uint32_t *source = weiri_check_append(check, &check->sources, &check->nsources, sizeof *source);
    if (!source)
        return;
    *source = writer;
    check->lanes[lane].count++;
    if (waits_for_packet(in, ref) && writer != WEIRI_CHECK_NONE) {
        const weiri_check_instance *sender = &check->instances[check->lanes[writer].instance];
        check->lanes[lane].ranks |= check->lanes[writer].ranks |
                                    weiri_rank_set_of((uint32_t)check->blocks[sender->block].rank);
        if (at->last.chain >= check->rank_chain) /* of a port, which has thus read the put's
                                                  * source */
            weiri_check_order_pending(check, in->block, at->last.chain - 1, at->last.tick + 1);
    }
}

/* Reads all sources of a lane; its value is appended to check->values. */
static void read_lane(data_op *in, const data_group *part, uint32_t k)
{
    weiri_check *check = in->check;
    weiri_check_lane *lane = weiri_check_append(check, &check->lanes, &check->nlanes, sizeof *lane);
    weiri_value *value = weiri_check_append(check, &check->values, &check->nvalues, sizeof *value);
    int is_first = 1;
    if (!lane || !value)
        return;
    lane->instance = in->instance;
    lane->chunk = k;
    lane->size = part->size;
    lane->first = check->nsources;
    for (uint32_t i = 0; i < part->nsrcs && check->status == WEIR_OK; i++) {
        const weiri_plan_ref *ref = &in->gpu->refs[part->src + i];
        int rank;
        for (uint32_t j = 0; (rank = ref_rank(in, ref, j)) >= 0; j++) {
            uint32_t place = weiri_check_first_place(check, rank, ref->buffer, ref->index + k);
            weiri_value read = weiri_value_read(check, place, ref->is_packets, in->instance);
            uint32_t max_chunk = chunk_in_block(in, ref, k);
            read.max_chunk = read.max_chunk > max_chunk ? read.max_chunk : max_chunk;
            *value = is_first ? read : weiri_value_reduce(*value, read, in->instance);
            is_first = 0;
            read_chunk(in, part, ref, place, check->nlanes - 1);
        }
    }
    for (uint32_t i = 0; i < part->ndsts; i++) {
        uint32_t max_chunk = chunk_in_block(in, &in->gpu->refs[part->dst + i], k);
        value->max_chunk = value->max_chunk > max_chunk ? value->max_chunk : max_chunk;
    }
    check->blocks[in->block].pending_ranks |= check->lanes[check->nlanes - 1].ranks;
}

/* An input that is not also the output belongs to the caller and must not change. */
static void check_input_kept(data_op *in, const weiri_plan_ref *ref, int rank, uint32_t k)
{
    const weir_plan *plan = in->check->plan;
    const weiri_check_block *block = &in->check->blocks[in->block];
    if (ref->buffer != WEIR_PLAN_INPUT || plan->in_place || !in->check->report->proves_result)
        return;
    weiri_check_report_violation(in->check, WEIR_PLAN_FAULT_RESULT, block->rank, in->block,
                                 block->op,
                                 "writes input chunk %u of rank %d, which the caller keeps: the "
                                 "plan is not in place",
                                 ref->index + k, rank);
    weiri_check_advise(in->check,
                       "write to scratch of rank %d instead (Buffer, weir_plan_scratch), or make "
                       "the plan in place",
                       rank);
}

/* Whether an operation copies a packet, for which it has waited, onto itself. */
static int copies_onto_itself(const data_op *in, const data_group *part, const weiri_plan_ref *ref,
                              uint32_t place, uint32_t k)
{
    const weiri_check *check = in->check;
    const weiri_plan_ref *source = &in->gpu->refs[part->src];
    if (check->is_strict || part->port || part->nsrcs != 1 || !ref->is_packets ||
        !waits_for_packet(in, source) || source->place != WEIRI_PLAN_LOCAL)
        return 0;
    return check->places[place].packets == (int32_t)check->launch &&
           weiri_check_first_place(check, check->blocks[in->block].rank, source->buffer,
                                   source->index + k) == place;
}

static void write_chunk(data_op *in, const data_group *part, const weiri_plan_ref *ref,
                        uint32_t place, uint32_t lane, const weiri_value *value)
{
    weiri_check *check = in->check;
    weiri_check_place *at = &check->places[place];
    const weiri_check_block *block = &check->blocks[in->block];
    weiri_check_access access = {lane, block->chain, block->tick, WEIRI_CHECK_NONE, 0};
    char name[WEIRI_CHECK_TEXT];
    if (part->port) {
        access.chain = part->port->chain + 1;
        access.tick = part->port->nputs;
    }
    if (ref->is_packets && at->packets == (int32_t)check->launch) {
        weiri_check_report_violation(
            check, WEIR_PLAN_FAULT_RACE, block->rank, in->block, block->op,
            "writes packets in %s a second time in a launch: their reader cannot "
            "distinguish the two",
            weiri_check_place_name(check, place, name));
        weiri_check_advise(check, "use another chunk of scratch for the second ones (Buffer, "
                                  "weir_plan_scratch)");
    }
    weiri_check_write_place(check, in->block, place, access);
    at->value = *value;
    at->packets = ref->is_packets ? (int32_t)check->launch : -1;
    if (ref->is_packets)
        weiri_check_wake(check, &at->waiting);
}

static void rewrite_chunk(data_op *in, uint32_t place, uint32_t lane)
{
    const weiri_check_block *block = &in->check->blocks[in->block];
    const weiri_check_access access = {lane, block->chain, block->tick, WEIRI_CHECK_NONE, 0};
    weiri_check_rewrite_place(in->check, place, access);
}

static void write_lane(data_op *in, const data_group *part, uint32_t k, uint32_t lane,
                       const weiri_value *value)
{
    weiri_check *check = in->check;
    for (uint32_t i = 0; i < part->ndsts && check->status == WEIR_OK; i++) {
        const weiri_plan_ref *ref = &in->gpu->refs[part->dst + i];
        int rank;
        for (uint32_t j = 0; (rank = ref_rank(in, ref, j)) >= 0; j++) {
            const uint32_t place =
                weiri_check_first_place(check, rank, ref->buffer, ref->index + k);
            check_input_kept(in, ref, rank, k);
            if (copies_onto_itself(in, part, ref, place, k))
                rewrite_chunk(in, place, lane);
            else
                write_chunk(in, part, ref, place, lane, value);
        }
    }
}

static void move_data(data_op *in)
{
    weiri_check *check = in->check;
    uint32_t first_lane = check->nlanes, done = 0;
    check->nvalues = 0;
    for (uint32_t g = 0; g < count_groups(in->op); g++) {
        data_group part = group_at(in, g);
        for (uint32_t k = 0; k < part.size && check->status == WEIR_OK; k++)
            if (handles_chunk(in, part.size, k))
                read_lane(in, &part, k);
    }
    for (uint32_t g = 0; g < count_groups(in->op); g++) {
        data_group part = group_at(in, g);
        for (uint32_t k = 0; k < part.size && check->status == WEIR_OK; k++)
            if (handles_chunk(in, part.size, k)) {
                write_lane(in, &part, k, first_lane + done, &check->values[done]);
                done++;
            }
    }
}

/* Counts the requests to port channels, each of which handles its requests in order. */
static void count_puts(data_op *in)
{
    const weiri_check_block *block = &in->check->blocks[in->block];
    for (uint32_t i = 0; in->op->channel == WEIRI_PLAN_PORT && i < count_groups(in->op); i++) {
        weiri_check_port *port = group_at(in, i).port;
        if (port->thread != i || port->interval != block->tick) {
            port->ncovered = port->interval == block->tick ? port->ncovered : port->nputs;
            port->thread =
                port->interval == block->tick && port->thread != i ? WEIRI_CHECK_NONE : i;
            port->interval = block->tick;
        }
        port->nputs++;
    }
}

int weiri_check_data(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const weiri_check_block *at = &check->blocks[block];
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    data_op in = {check, block, check->ninstances, op, (uint32_t)(op - gpu->ops), gpu};
    if (!packets_arrived(&in))
        return 0;
    weiri_check_instance *instance =
        weiri_check_append(check, &check->instances, &check->ninstances, sizeof *instance);
    if (!instance)
        return 1;
    *instance =
        (weiri_check_instance){block, at->op, op->in_body ? at->iteration : 0, check->launch};
    move_data(&in);
    count_puts(&in);
    if (weiri_plan_is_put_signal(op->kind)) {
        if (op->channel == WEIRI_PLAN_MEMORY)
            weiri_check_fence(check, block);
        weiri_check_signal_counters(check, block, op, 0);
    }
    if (op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP)
        weiri_check_flush(check, block, op);
    return 1;
}
