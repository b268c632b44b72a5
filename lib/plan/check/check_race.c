/*
 * Detects races: accesses to a place that happens-before does not order.
 *
 * Two accesses conflict if one of them writes. Each access is compared with the last write, and a
 * write also with the reads since; as the order is transitive, older accesses need no comparison.
 * (The order of one thread's accesses is not; a place is loose if the last write precedes a read
 * only in that order, and is then compared with later writes too.)
 * Accesses that no clock orders can happen in either order, so one simulated run finds every race.
 */
#include "plan/check/check.h"

#include <stdlib.h>

/* -------------------------------------------------------------------- order */

/* Whether lane `earlier` contributed to what lane `from` reads. */
static int data_flows(weiri_check *check, uint32_t earlier, uint32_t from)
{
    uint32_t *stack = NULL, depth = 0, *slot;
    int found = 0;
    if (earlier == WEIRI_CHECK_NONE || check->nsources == 0)
        return 0;
    check->stamp++;
    slot = weiri_check_append(check, &stack, &depth, sizeof *stack);
    if (slot)
        *slot = from;
    while (depth && !found && check->steps_left) {
        const weiri_check_lane *lane = &check->lanes[stack[--depth]];
        for (uint32_t i = 0; i < lane->count && !found && check->steps_left; i++) {
            uint32_t source = check->sources[lane->first + i];
            check->steps_left--;
            if (source == WEIRI_CHECK_NONE || check->lanes[source].stamp == check->stamp)
                continue;
            check->lanes[source].stamp = check->stamp;
            found = source == earlier;
            slot = weiri_check_append(check, &stack, &depth, sizeof *stack);
            if (slot)
                *slot = source;
        }
    }
    free(stack);
    if (!found && !check->steps_left)
        weiri_check_fail(check, WEIR_ERR_UNSUPPORTED,
                         "packets flow through too many operations: too large to check");
    return found;
}

void weiri_check_propagate_reached(weiri_check *check)
{
    for (uint32_t i = check->nlanes; i > check->first_lane; i--) {
        weiri_check_lane *lane = &check->lanes[i - 1];
        const weiri_check_instance *instance = &check->instances[lane->instance];
        const weiri_check_block *block = &check->blocks[instance->block];
        /* a port may still write after the launch */
        if (weiri_check_op(check, block, instance->op)->channel != WEIRI_PLAN_PORT)
            lane->reached_ranks |= weiri_rank_set_of((uint32_t)block->rank);
        for (uint32_t j = 0; j < lane->count; j++) /* sources have lower indices */
            if (check->sources[lane->first + j] != WEIRI_CHECK_NONE)
                check->lanes[check->sources[lane->first + j]].reached_ranks |= lane->reached_ranks;
    }
}

/* Whether a read of an earlier launch is known to have happened, as data made from it reached a
 * rank in that launch and that rank's next launch is known to have begun. */
static int has_reached(const weiri_check *check, const weiri_check_access *read,
                       const weiri_clock *now)
{
    if (read->lane == WEIRI_CHECK_NONE || !check->plan->has_packets)
        return 0;
    const weiri_check_lane *lane = &check->lanes[read->lane];
    uint32_t launch = check->instances[lane->instance].launch;
    if (launch == check->launch)
        return 0;
    for (weiri_rank_set ranks = lane->reached_ranks; ranks; ranks &= ranks - 1)
        if (weiri_clock_covers(now, check->rank_chain + weiri_rank_set_lowest(ranks), launch + 1))
            return 1;
    return 0;
}

/* Whether the threads of the block divide an operation's packets, word by word. */
static int divides_packets(const weiri_plan_op *op)
{
    return weiri_plan_traits[op->kind].packets != WEIRI_PLAN_PACKETS_NONE &&
           op->channel != WEIRI_PLAN_PORT && !op->in_body;
}

/* Whether the same thread makes both accesses, so that no fence is needed between them: the
 * accesses of two packet operations on one part of a chunk (docs/developer/plans.md). */
static int is_same_thread(const weiri_check *check, const weiri_check_access *access,
                          uint32_t block, uint32_t lane)
{
    if (check->is_strict || access->lane == WEIRI_CHECK_NONE ||
        access->chain != check->blocks[block].chain)
        return 0;
    const weiri_check_lane *earlier = &check->lanes[access->lane], *later = &check->lanes[lane];
    const weiri_check_instance *a = &check->instances[earlier->instance];
    const weiri_check_instance *b = &check->instances[later->instance];
    const weiri_plan_op *first = weiri_check_op(check, &check->blocks[a->block], a->op);
    const weiri_plan_op *second = weiri_check_op(check, &check->blocks[b->block], b->op);
    return a->block == block && b->block == block && a->launch == b->launch && a->op != b->op &&
           divides_packets(first) && divides_packets(second) && first->part == second->part &&
           first->nparts == second->nparts && earlier->chunk == later->chunk &&
           earlier->size == later->size;
}

/* Whether an access happened before the access of this lane. */
static int access_ordered(weiri_check *check, const weiri_check_access *access, uint32_t block,
                          uint32_t lane, int is_write, int is_read)
{
    if (access->tick == WEIRI_CHECK_NONE)
        return 1;
    if (weiri_clock_covers(check->blocks[block].now, access->chain, access->tick))
        return 1;
    if (is_same_thread(check, access, block, lane))
        return 1;
    if (access->lane == lane)
        return is_read;
    if (!is_write)
        return 0;
    for (weiri_rank_set ranks = check->lanes[lane].ranks; ranks; ranks &= ranks - 1)
        if (weiri_clock_covers(check->begin[weiri_rank_set_lowest(ranks)], access->chain,
                               access->tick))
            return 1;
    return is_read && (has_reached(check, access, check->blocks[block].now) ||
                       data_flows(check, access->lane, lane));
}

static const char *remedy(const weiri_check *check, uint32_t block, const weiri_check_access *other)
{
    const weiri_check_block *own = &check->blocks[block];
    const weiri_check_instance *instance = &check->instances[check->lanes[other->lane].instance];
    const weiri_check_block *theirs = &check->blocks[instance->block];
    if (other->chain != theirs->chain)
        return "the put may still be under way: a flush, or its signal and an answer, must "
               "come first";
    if (instance->block == block && instance->launch == check->launch && instance->op == own->op &&
        instance->iteration == own->iteration)
        return "both are accesses of one operation";
    if (instance->block == block)
        return "a nop is missing between them";
    if (theirs->rank == own->rank)
        return "no barrier, semaphore or signal orders them";
    return instance->launch == check->launch ? "no signal and wait order them"
                                             : "nothing orders it after the previous launch";
}

static void report_race(weiri_check *check, uint32_t block, uint32_t place, int is_write,
                        const weiri_check_access *other, int other_is_read)
{
    char name[WEIRI_CHECK_TEXT], where[WEIRI_CHECK_TEXT];
    const weiri_check_block *own = &check->blocks[block];
    const char *does = is_write ? "writes" : "reads";
    weiri_check_place_name(check, place, name);
    if (other->lane == WEIRI_CHECK_NONE) {
        weiri_check_report_violation(
            check, WEIR_PLAN_FAULT_RACE, own->rank, block, own->op,
            "%s %s, which the caller may still be writing: nothing orders it "
            "after the begin of that rank's launch",
            does, name);
        weiri_check_advise_begin(check, block, (int)(other->chain - check->rank_chain));
        return;
    }
    const weiri_check_instance *instance = &check->instances[check->lanes[other->lane].instance];
    const char *when = instance->launch == check->launch ? "" : " of the previous launch";
    weiri_check_report_violation(
        check, WEIR_PLAN_FAULT_RACE, own->rank, block, own->op, "%s %s, which %s%s %s: %s", does,
        name, weiri_check_where(check, instance->block, instance->op, where), when,
        other_is_read ? "may still be reading" : "may still be writing",
        remedy(check, block, other));
    weiri_check_advise_race(check, block, place, other, other_is_read);
}

static void drop_reads(weiri_check *check, weiri_check_place *place)
{
    while (place->reads != WEIRI_CHECK_NONE) {
        uint32_t read = place->reads;
        place->reads = check->accesses[read].next;
        check->accesses[read].next = check->free_access;
        check->free_access = read;
    }
}

static void add_read(weiri_check *check, weiri_check_place *place, weiri_check_access access)
{
    uint32_t slot = check->free_access;
    if (slot != WEIRI_CHECK_NONE) {
        check->free_access = check->accesses[slot].next;
    } else {
        if (!weiri_check_append(check, &check->accesses, &check->naccesses, sizeof access))
            return;
        slot = check->naccesses - 1;
    }
    access.next = place->reads;
    check->accesses[slot] = access;
    place->reads = slot;
}

/* Counts an access; 0: there are too many, and the check has failed. */
static int count_access(weiri_check *check)
{
    if (check->naccessed++ < WEIRI_CHECK_ACCESSES_MAX && check->status == WEIR_OK)
        return 1;
    weiri_check_fail(check, WEIR_ERR_UNSUPPORTED,
                     "more than %d accesses to chunks in %d launches: too large to check",
                     WEIRI_CHECK_ACCESSES_MAX, WEIRI_CHECK_LAUNCHES);
    return 0;
}

void weiri_check_read_place(weiri_check *check, uint32_t block, uint32_t place,
                            weiri_check_access access, int awaited)
{
    weiri_check_place *at = &check->places[place];
    if (!count_access(check))
        return;
    if (!awaited && !access_ordered(check, &at->last, block, access.lane, 0, 0))
        report_race(check, block, place, 0, &at->last, 0);
    at->is_loose |= !awaited && at->last.tick != WEIRI_CHECK_NONE &&
                    !weiri_clock_covers(check->blocks[block].now, at->last.chain, at->last.tick);
    add_read(check, at, access);
}

void weiri_check_write_place(weiri_check *check, uint32_t block, uint32_t place,
                             weiri_check_access access)
{
    if (!count_access(check))
        return;
    weiri_check_place *at = &check->places[place];
    const weiri_check_access *late = NULL;
    int late_is_read = 0;
    for (uint32_t read = at->reads; read != WEIRI_CHECK_NONE && !late;
         read = check->accesses[read].next)
        if (!access_ordered(check, &check->accesses[read], block, access.lane, 1,
                            !check->accesses[read].is_rewrite)) {
            late = &check->accesses[read];
            late_is_read = !late->is_rewrite;
        }
    if (!late && (at->reads == WEIRI_CHECK_NONE || at->is_loose) &&
        !access_ordered(check, &at->last, block, access.lane, 1, 0))
        late = &at->last;
    if (late)
        report_race(check, block, place, 1, late, late_is_read);
    drop_reads(check, at);
    at->last = access;
    at->is_loose = 0;
}

/* The rewrite follows the write, as it stores what it has read there. Other readers of the packet
 * cannot distinguish the two, so it need not be ordered with them; what overwrites the packet later
 * must be ordered after it. */
void weiri_check_rewrite_place(weiri_check *check, uint32_t place, weiri_check_access access)
{
    access.is_rewrite = 1;
    if (count_access(check))
        add_read(check, &check->places[place], access);
}

/* --------------------------------------------------------------- the caller */

/* Whether data made from what was read reached the caller's rank, whose launch has ended. */
static int reaches_caller(const weiri_check *check, const weiri_check_access *read, int rank)
{
    return read->lane != WEIRI_CHECK_NONE &&
           weiri_rank_set_has(check->lanes[read->lane].reached_ranks, (uint32_t)rank);
}

void weiri_check_caller_access(weiri_check *check, int rank)
{
    weiri_check_access access = {WEIRI_CHECK_NONE, check->rank_chain + (uint32_t)rank,
                                 check->launch, WEIRI_CHECK_NONE, 0};
    for (int buffer = WEIR_PLAN_INPUT; buffer <= WEIR_PLAN_OUTPUT; buffer++) {
        uint32_t chunks = check->blocks_of[buffer] * check->block_chunks;
        uint32_t first = weiri_check_first_place(check, rank, (unsigned)buffer, 0);
        for (uint32_t i = 0; i < chunks; i++) {
            weiri_check_place *place = &check->places[first + i];
            const weiri_clock *now = check->begin[rank];
            const weiri_check_access *late = NULL;
            int late_is_read = 0;
            for (uint32_t read = place->reads; read != WEIRI_CHECK_NONE && !late;
                 read = check->accesses[read].next)
                if (!weiri_clock_covers(now, check->accesses[read].chain,
                                        check->accesses[read].tick) &&
                    !reaches_caller(check, &check->accesses[read], rank)) {
                    late = &check->accesses[read];
                    late_is_read = 1;
                }
            if (!late && (place->reads == WEIRI_CHECK_NONE || place->is_loose) &&
                place->last.lane != WEIRI_CHECK_NONE &&
                !weiri_clock_covers(now, place->last.chain, place->last.tick))
                late = &place->last;
            if (late) {
                char name[WEIRI_CHECK_TEXT];
                const weiri_check_instance *instance =
                    &check->instances[check->lanes[late->lane].instance];
                weiri_check_report_violation(
                    check, WEIR_PLAN_FAULT_RACE, check->blocks[instance->block].rank,
                    instance->block, instance->op,
                    "may still be %s %s when the launch of that rank has ended "
                    "and the caller uses it",
                    late_is_read ? "reading" : "writing",
                    weiri_check_place_name(check, first + i, name));
                weiri_check_advise_end(check, late, late_is_read, rank);
            }
            drop_reads(check, place);
            place->last = access;
            place->is_loose = 0;
        }
    }
}
