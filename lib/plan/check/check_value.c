/*
 * Symbolic values of chunks, and whether they are what the collective requires.
 *
 * A correct result is one input chunk, of one rank or reduced over several, each rank contributing
 * once. A wrong value never becomes correct again, so it suffices to record the first fault of a
 * chunk and the operation that caused it.
 *
 * Where lengths do not divide evenly, the last chunks of a block are shorter, and an operation
 * handles no more bytes than the shortest chunk that it names. A value records the highest index of
 * the chunks that it was stored in: if that exceeds its own index, the result lacks its end at some
 * lengths.
 */
#include "plan/check/check.h"

#include <stdio.h>

/* ----------------------------------------------------------- symbolic values */

weiri_value weiri_value_read(const weiri_check *check, uint32_t place, int as_packets,
                             uint32_t instance)
{
    const weiri_check_place *at = &check->places[place];
    weiri_value value = at->value;
    if (at->packets >= 0 && !as_packets)
        return (weiri_value){.state = WEIRI_VALUE_PACKETS, .chunk = place, .culprit = instance};
    if (at->packets < 0 && as_packets)
        return (weiri_value){.state = WEIRI_VALUE_UNDEFINED, .chunk = place, .culprit = instance};
    if (value.state == WEIRI_VALUE_UNDEFINED && value.culprit == WEIRI_CHECK_NONE) {
        value.chunk = place;
        value.culprit = instance;
    }
    return value;
}

weiri_value weiri_value_reduce(weiri_value a, weiri_value b, uint32_t instance)
{
    if (a.state != WEIRI_VALUE_GOOD || b.state != WEIRI_VALUE_GOOD)
        return a.state != WEIRI_VALUE_GOOD ? a : b;
    weiri_value made = a;
    made.culprit = instance;
    made.max_chunk = a.max_chunk > b.max_chunk ? a.max_chunk : b.max_chunk;
    made.ranks |= b.ranks;
    if (a.launch != b.launch) {
        made.state = WEIRI_VALUE_STALE;
    } else if (a.chunk != b.chunk) {
        made.state = WEIRI_VALUE_MIXED;
        made.detail = b.chunk;
    } else if (a.ranks & b.ranks) {
        made.state = WEIRI_VALUE_TWICE;
        made.detail = weiri_rank_set_lowest(a.ranks & b.ranks);
    } else {
        made.culprit = WEIRI_CHECK_NONE;
    }
    return made;
}

/* Chunk i of a rank's input. */
static weiri_value own_input(const weiri_check *check, int rank, uint32_t i)
{
    return (weiri_value){.state = WEIRI_VALUE_GOOD,
                         .ranks = weiri_rank_set_of((uint32_t)rank),
                         .chunk = i,
                         .max_chunk = i % check->block_chunks,
                         .launch = (uint8_t)check->launch,
                         .culprit = WEIRI_CHECK_NONE};
}

/* The caller has written the input. The output is undefined unless it is the input. */
void weiri_check_begin_values(weiri_check *check, int rank)
{
    for (int buffer = WEIR_PLAN_OUTPUT; buffer >= WEIR_PLAN_INPUT; buffer--) {
        uint32_t chunks = check->blocks_of[buffer] * check->block_chunks;
        uint32_t first = weiri_check_first_place(check, rank, (unsigned)buffer, 0);
        for (uint32_t i = 0; i < chunks; i++) {
            weiri_check_place *place = &check->places[first + i];
            place->packets = -1;
            if (buffer == WEIR_PLAN_OUTPUT)
                place->value = (weiri_value){.culprit = WEIRI_CHECK_NONE};
            else
                place->value = own_input(check, rank, i);
        }
    }
}

/* ------------------------------------------------------------------- results */

int weiri_check_knows_result(const weir_plan *plan)
{
    return plan->collective >= 0 && !weiri_contract_of(plan->collective)->is_uneven;
}

/* What an output chunk that is part of the result must hold: the chunk at the same place of one
 * rank's block, or of all ranks' blocks if the collective reduces. 0: it is no part of the result.
 */
static int expected_of(const weiri_check *check, int rank, int root, uint32_t i, weiri_value *value)
{
    const weiri_contract *contract = weiri_contract_of(check->plan->collective);
    const uint32_t of_block = check->block_chunks;
    const int nranks = check->plan->nranks;
    if (contract->out[weiri_contract_role(contract, rank, root)] != WEIRI_AFTER_RESULT)
        return 0;
    const weiri_rank_set all = ~(weiri_rank_set)0 >> (WEIRI_PLAN_RANKS_MAX - nranks);
    const uint32_t from = contract->out_has_blocks ? i / of_block : (uint32_t)root;
    const uint32_t own = contract->in_has_blocks ? (uint32_t)rank * of_block : 0;
    value->max_chunk = i % of_block;
    value->chunk = own + value->max_chunk;
    value->ranks = contract->reduces ? all : weiri_rank_set_of(from);
    return weiri_check_knows_result(check->plan);
}

static int is_right(const weiri_check *check, const weiri_value *value, const weiri_value *expected)
{
    return value->state == WEIRI_VALUE_GOOD && value->launch == check->launch &&
           value->chunk == expected->chunk && value->ranks == expected->ranks &&
           value->max_chunk <= expected->max_chunk;
}

/* How many ranks' contributions, summed over all chunks, are as a root would require. */
static uint32_t score(const weiri_check *check, int rank, int root)
{
    uint32_t sum = 0, chunks = check->blocks_of[WEIR_PLAN_OUTPUT] * check->block_chunks;
    uint32_t first = weiri_check_first_place(check, rank, WEIR_PLAN_OUTPUT, 0);
    weiri_value expected;
    for (uint32_t i = 0; i < chunks; i++) {
        const weiri_value *value = &check->places[first + i].value;
        if (expected_of(check, rank, root, i, &expected) && value->state == WEIRI_VALUE_GOOD &&
            value->launch == check->launch && value->chunk == expected.chunk)
            sum += weiri_rank_set_count(value->ranks & expected.ranks);
    }
    return sum;
}

/* The root for which the results are most nearly correct; the first one of equals. */
static int find_root(const weiri_check *check)
{
    int best = 0;
    uint32_t best_score = 0;
    for (int root = 0; root < check->plan->nranks; root++) {
        uint32_t sum = 0;
        for (int rank = 0; rank < check->plan->nranks; rank++)
            sum += score(check, rank, root);
        if (sum > best_score) {
            best = root;
            best_score = sum;
        }
    }
    return best;
}

/* Describes what is wrong with a value that is well-formed. */
static void explain_good(const weiri_check *check, const weiri_value *value,
                         const weiri_value *expected, char *text, size_t room)
{
    weiri_rank_set missing = expected->ranks & ~value->ranks;
    weiri_rank_set more = value->ranks & ~expected->ranks;
    if (value->launch != check->launch)
        snprintf(text, room, "it is that of the previous launch");
    else if (value->chunk != expected->chunk)
        snprintf(text, room, "it is input chunk %u of rank %u where chunk %u is expected",
                 value->chunk, weiri_rank_set_lowest(value->ranks), expected->chunk);
    else if (missing)
        snprintf(text, room, "the contribution of rank %u is missing",
                 weiri_rank_set_lowest(missing));
    else if (more)
        snprintf(text, room, "the contribution of rank %u does not belong there",
                 weiri_rank_set_lowest(more));
    else
        snprintf(text, room,
                 "it went through chunk %u of a block, which is shorter where lengths do not "
                 "divide",
                 value->max_chunk);
}

static void explain(const weiri_check *check, const weiri_value *value, const weiri_value *expected,
                    char *text, size_t room)
{
    char name[WEIRI_CHECK_TEXT];
    switch ((weiri_value_state)value->state) {
    case WEIRI_VALUE_UNDEFINED:
        if (value->culprit == WEIRI_CHECK_NONE)
            snprintf(text, room, "nothing is written there");
        else
            snprintf(text, room, "it is made from %s, which nothing has written",
                     weiri_check_place_name(check, value->chunk, name));
        break;
    case WEIRI_VALUE_GOOD:
        explain_good(check, value, expected, text, room);
        break;
    case WEIRI_VALUE_TWICE:
        snprintf(text, room, "the contribution of rank %u is there twice", value->detail);
        break;
    case WEIRI_VALUE_MIXED:
        snprintf(text, room, "input chunks %u and %u are reduced with each other", value->chunk,
                 value->detail);
        break;
    case WEIRI_VALUE_STALE:
        snprintf(text, room, "data of the previous launch are reduced with those of this one");
        break;
    case WEIRI_VALUE_PACKETS:
        snprintf(text, room, "packets in %s are read as data",
                 weiri_check_place_name(check, value->chunk, name));
        break;
    }
}

/* How to correct a well-formed value. */
static void advise_good(weiri_check *check, const weiri_value *value, const weiri_value *expected)
{
    const weiri_rank_set missing = expected->ranks & ~value->ranks;
    const weiri_rank_set more = value->ranks & ~expected->ranks;
    if (value->launch != check->launch)
        weiri_check_advise(check, "write it in every launch");
    else if (value->chunk != expected->chunk)
        weiri_check_advise(check, "use chunk %u as the source", expected->chunk);
    else if (missing)
        weiri_check_advise(check,
                           "add chunk %u of rank %u to the reduction: rank.reduce or, from "
                           "a peer, ch.reduce (weir_plan_reduce, weir_plan_read_reduce)",
                           expected->chunk, weiri_rank_set_lowest(missing));
    else if (more)
        weiri_check_advise(check, "leave out the source that holds it");
    else
        weiri_check_advise(check, "move it through scratch (Buffer, weir_plan_scratch), whose "
                                  "chunks all have full length");
}

static void advise_value(weiri_check *check, const weiri_value *value, const weiri_value *expected,
                         int rank, uint32_t i)
{
    switch ((weiri_value_state)value->state) {
    case WEIRI_VALUE_UNDEFINED:
        if (value->culprit == WEIRI_CHECK_NONE)
            weiri_check_advise(check,
                               "write output chunk %u of rank %d: copy, put or get "
                               "(weir_plan_copy, _put, _get)",
                               i, rank);
        else
            weiri_check_advise(check, "write that chunk before it is read, or read another one");
        break;
    case WEIRI_VALUE_GOOD:
        advise_good(check, value, expected);
        break;
    case WEIRI_VALUE_TWICE:
        weiri_check_advise(check, "leave out one of the sources that hold it");
        break;
    case WEIRI_VALUE_MIXED:
        weiri_check_advise(check, "reduce chunks of the same index: %u of every rank",
                           expected->chunk);
        break;
    case WEIRI_VALUE_STALE:
        weiri_check_advise(check, "write all sources in every launch before they are reduced");
        break;
    case WEIRI_VALUE_PACKETS:
        weiri_check_advise(check, "read them with unpack_packets (weir_plan_unpack_packets) or "
                                  "reduce packets (weir_plan_reduce_packets)");
        break;
    }
}

/* Reports a wrong value at the operation that made it, else at the last write of its chunk. */
static void report_value(weiri_check *check, int rank, const weiri_check_place *place,
                         const char *text)
{
    uint32_t instance = place->value.culprit, block = WEIRI_CHECK_NONE, op = WEIRI_CHECK_NONE;
    if (instance == WEIRI_CHECK_NONE && place->last.lane != WEIRI_CHECK_NONE)
        instance = check->lanes[place->last.lane].instance;
    if (instance != WEIRI_CHECK_NONE && check->instances[instance].launch == check->launch) {
        block = check->instances[instance].block;
        op = check->instances[instance].op;
    }
    int where = block == WEIRI_CHECK_NONE ? rank : check->blocks[block].rank;
    weiri_check_report_violation(check, WEIR_PLAN_FAULT_RESULT, where, block, op, "%s", text);
}

static void report_result(weiri_check *check, int rank, uint32_t i, const weiri_check_place *place,
                          const weiri_value *expected)
{
    char why[256], text[320];
    explain(check, &place->value, expected, why, sizeof why);
    snprintf(text, sizeof text, "output chunk %u of rank %d: %s", i, rank, why);
    report_value(check, rank, place, text);
    advise_value(check, &place->value, expected, rank, i);
}

static void advise_scratch(weiri_check *check, int rank)
{
    weiri_check_advise(check, "write to scratch of rank %d instead (Buffer, weir_plan_scratch)",
                       rank);
}

/* Out of place: an output that the contract keeps must not be written. (In place, the input is the
 * same memory.) */
static void check_output_kept(weiri_check *check, int rank, uint32_t i,
                              const weiri_check_place *place)
{
    char text[320];
    if (check->plan->in_place || place->last.lane == WEIRI_CHECK_NONE)
        return;
    snprintf(text, sizeof text,
             "output chunk %u of rank %d is written, but only the root, rank %d, has an output", i,
             rank, check->report->root);
    report_value(check, rank, place, text);
    advise_scratch(check, rank);
}

/* In place: input that the contract keeps must hold what it held before the launch. Out of place,
 * each write is reported where it happens (check_data.c). */
static void check_input_kept(weiri_check *check, int rank, int root)
{
    const weiri_contract *contract = weiri_contract_of(check->plan->collective);
    uint32_t chunks = check->blocks_of[WEIR_PLAN_INPUT] * check->block_chunks;
    uint32_t first = weiri_check_first_place(check, rank, WEIR_PLAN_INPUT, 0);
    char text[320];
    if (!check->plan->in_place ||
        contract->in_place_in[weiri_contract_role(contract, rank, root)] != WEIRI_AFTER_KEPT)
        return;
    for (uint32_t i = 0; i < chunks; i++) {
        const weiri_value own = own_input(check, rank, i);
        if (is_right(check, &check->places[first + i].value, &own))
            continue;
        snprintf(text, sizeof text,
                 "input chunk %u of rank %d has changed, but a %s in place keeps it on this rank",
                 i, rank, weir_collective_name((weir_collective)check->plan->collective));
        report_value(check, rank, &check->places[first + i], text);
        advise_scratch(check, rank);
    }
}

void weiri_check_results(weiri_check *check)
{
    const weir_plan *plan = check->plan;
    uint32_t chunks = check->blocks_of[WEIR_PLAN_OUTPUT] * check->block_chunks;
    const int arbitrary = check->report->nviolations > 0;
    int root = 0;
    if (arbitrary && (plan->in_place || weiri_plan_has_root(plan)))
        return; /* what was written is then not known */
    if (weiri_plan_has_root(plan))
        check->report->root = root = find_root(check);
    for (int rank = 0; rank < plan->nranks; rank++) {
        uint32_t first = weiri_check_first_place(check, rank, WEIR_PLAN_OUTPUT, 0);
        weiri_value expected;
        for (uint32_t i = 0; i < chunks; i++) {
            const weiri_check_place *place = &check->places[first + i];
            if (!expected_of(check, rank, root, i, &expected))
                check_output_kept(check, rank, i, place);
            else if (arbitrary ? place->last.lane == WEIRI_CHECK_NONE
                               : !is_right(check, &place->value, &expected))
                report_result(check, rank, i, place, &expected);
        }
        check_input_kept(check, rank, root);
    }
}
