/*
 * An order in which blocking calls can run: each actor, a lane of a rank, enters its units (a call,
 * or the calls of a group) one after the other; an instance is complete when all its ranks have
 * entered it, and a unit when all its instances are. The order of completion is the order of steps.
 */
#include "bench/replay/match.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A call, or the calls of a group. */
typedef struct unit {
    uint32_t rank, first, count;
    uint32_t parent; /* of the units that messages connect: the way to their root */
    uint32_t next;   /* another unit of the same exchange, in a circle */
    uint32_t left;   /* instances that are not complete */
} unit;

/* Units that messages connect, at their root. */
typedef struct exchange {
    uint32_t units, arrived;
    uint32_t last_rank; /* the rank whose unit was added last, plus 1 */
    int is_whole;       /* one exchange; 0: message by message */
} exchange;

typedef struct order {
    replay_pool pool;
    const replay_matching *m;
    replay_schedule *s;
    unit *units;
    int nactors;          /* actor: rank * lanes + lane */
    uint32_t *first_unit; /* of each actor; nactors + 1 entries */
    uint32_t *at;         /* each actor's current unit */
    exchange *exchanges;  /* of each unit, in use at roots */
    uint32_t *arrived;    /* of each instance */
    int *ready;           /* actors that can enter their next unit, a stack */
    int nready;
    int *ranks; /* room for those of an exchange */
    int failed; /* no memory */
} order;

static const replay_call *unit_calls(const order *o, const unit *u)
{
    return &o->m->trace->ranks[u->rank].calls[u->first];
}

/* The actor of a rank that runs calls like this one. */
static int actor_of(const order *o, int rank, const replay_call *call)
{
    return rank * o->m->nlanes + o->m->trace->comms[call->comm].lane;
}

static int unit_actor(const order *o, const unit *u)
{
    return actor_of(o, (int)u->rank, unit_calls(o, u));
}

/* ---------------------------------------------------------------------- units */

static uint32_t unit_length(const replay_rank *r, size_t first)
{
    size_t end = first + 1;
    while (r->calls[first].group >= 0 && end < r->count &&
           r->calls[end].group == r->calls[first].group)
        end++;
    return (uint32_t)(end - first);
}

static void make_units(order *o)
{
    const replay_trace *trace = o->m->trace;
    uint32_t count = 0;
    o->units = replay_take(&o->pool, replay_calls(trace), sizeof *o->units);
    if (!o->units)
        return;
    for (int actor = 0; actor < o->nactors; actor++) {
        const int rank = actor / o->m->nlanes;
        const replay_rank *r = &trace->ranks[rank];
        o->first_unit[actor] = o->at[actor] = count;
        for (size_t i = 0; i < r->count;) {
            const uint32_t length = unit_length(r, i);
            if (actor_of(o, rank, &r->calls[i]) == actor) {
                o->units[count] = (unit){.rank = (uint32_t)rank,
                                         .first = (uint32_t)i,
                                         .count = length,
                                         .parent = count,
                                         .next = count};
                count++;
            }
            i += length;
        }
    }
    o->first_unit[o->nactors] = count;
    o->exchanges = replay_take(&o->pool, count, sizeof *o->exchanges);
}

static uint32_t unit_root(const order *o, uint32_t at)
{
    while (o->units[at].parent != at)
        at = o->units[at].parent = o->units[o->units[at].parent].parent;
    return at;
}

/* The unit of a call of an actor. */
static uint32_t unit_of(const order *o, int actor, uint32_t call)
{
    uint32_t low = o->first_unit[actor], high = o->first_unit[actor + 1];
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (o->units[middle].first <= call)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int message_peer(const order *o, const replay_call *call)
{
    return o->m->trace->comms[call->comm].ranks[call->peer];
}

/* Connects the units at both ends of each message. */
static void connect_units(order *o)
{
    for (uint32_t at = 0; at < o->first_unit[o->nactors]; at++) {
        const unit *u = &o->units[at];
        const replay_call *calls = unit_calls(o, u);
        for (uint32_t i = 0; i < u->count; i++) {
            if (calls[i].kind != REPLAY_SEND)
                continue;
            const int actor = actor_of(o, message_peer(o, &calls[i]), &calls[i]);
            const uint32_t other = unit_of(o, actor, o->m->partners[u->rank][u->first + i]);
            const uint32_t a = unit_root(o, at), b = unit_root(o, other);
            if (a == b)
                continue;
            o->units[a].parent = b;
            const uint32_t next = o->units[a].next; /* two circles become one */
            o->units[a].next = o->units[b].next;
            o->units[b].next = next;
        }
    }
}

/* Finds out which exchanges can run as one: messages only, of one communicator, and one unit of
 * each rank. */
static void find_whole(order *o, int may_be_whole)
{
    for (uint32_t at = 0; at < o->first_unit[o->nactors]; at++) {
        const unit *u = &o->units[at];
        const replay_call *calls = unit_calls(o, u);
        exchange *x = &o->exchanges[unit_root(o, at)];
        const unit *root = &o->units[unit_root(o, at)];
        if (!x->units)
            x->is_whole = may_be_whole;
        for (uint32_t i = 0; i < u->count; i++)
            x->is_whole &=
                replay_is_message(&calls[i]) && calls[i].comm == unit_calls(o, root)->comm;
        x->is_whole &= x->last_rank != u->rank + 1;
        x->last_rank = u->rank + 1;
        x->units++;
    }
}

/* ---------------------------------------------------------------------- steps */

static int compare_ranks(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Finds or adds the set of an exchange; ranks are sorted. -1: no memory. */
static int set_of(order *o, int lane, int *ranks, int nranks)
{
    replay_schedule *s = o->s;
    qsort(ranks, (size_t)nranks, sizeof *ranks, compare_ranks);
    for (int i = s->ncomms; i < s->nsets; i++)
        if (s->sets[i]->nranks == nranks && s->sets[i]->lane == lane &&
            !memcmp(s->sets[i]->ranks, ranks, (size_t)nranks * sizeof *ranks))
            return i;
    replay_comm *made = replay_take(&s->pool, 1, sizeof *made);
    int *copy = replay_take(&s->pool, (size_t)nranks, sizeof *copy);
    if (!made || !copy ||
        replay_grow(&s->sets, (size_t)s->nsets, &s->sets_room, sizeof *s->sets) != 0)
        return -1;
    memcpy(copy, ranks, (size_t)nranks * sizeof *copy);
    *made = (replay_comm){.nranks = nranks, .ranks = copy, .lane = (uint8_t)lane};
    snprintf(made->name, sizeof made->name, "exchange-%d", s->nsets - s->ncomms);
    s->sets[s->nsets] = made;
    return s->nsets++;
}

static void step_add(order *o, int actor, replay_step step)
{
    replay_steps *steps = &o->s->lanes[actor];
    if (replay_grow(&steps->list, steps->count, &steps->room, sizeof *steps->list) != 0) {
        o->failed = 1;
        return;
    }
    const replay_call *calls = o->m->trace->ranks[actor / o->m->nlanes].calls;
    replay_step *last = steps->count ? &steps->list[steps->count - 1] : NULL;
    if (last && calls[last->call].group >= 0 && calls[last->call].group == calls[step.call].group &&
        o->at[actor] == unit_of(o, actor, last->call))
        last->is_grouped = 1;
    steps->list[steps->count++] = step;
}

/* One instance of an actor's current unit is complete. */
static void unit_progress(order *o, int actor)
{
    if (--o->units[o->at[actor]].left == 0) {
        o->at[actor]++;
        o->ready[o->nready++] = actor;
    }
}

static void complete_exchange(order *o, uint32_t root)
{
    const uint32_t instance = o->s->instances++;
    uint32_t at = root;
    int n = 0;
    do
        o->ranks[n++] = (int)o->units[at].rank;
    while ((at = o->units[at].next) != root);
    const int set =
        set_of(o, o->m->trace->comms[unit_calls(o, &o->units[root])->comm].lane, o->ranks, n);
    o->failed |= set < 0;
    do {
        unit *u = &o->units[at];
        step_add(o, unit_actor(o, u),
                 (replay_step){u->first, u->count, (uint32_t)set, instance, REPLAY_EXCHANGE, 0});
        u->left = 1;
        unit_progress(o, unit_actor(o, u));
    } while ((at = o->units[at].next) != root);
}

static void complete_message(order *o, int rank, uint32_t call)
{
    const replay_call *c = &o->m->trace->ranks[rank].calls[call];
    const uint32_t partner = o->m->partners[rank][call], instance = o->s->instances++;
    const int peer = message_peer(o, c), mine = actor_of(o, rank, c), its = actor_of(o, peer, c);
    int ranks[2] = {rank, peer};
    const int set = set_of(o, o->m->trace->comms[c->comm].lane, ranks, rank == peer ? 1 : 2);
    replay_step step = {call, 1, (uint32_t)set, instance, REPLAY_EXCHANGE, 0};
    o->failed |= set < 0;
    if (rank == peer) { /* to itself: one step with both ends, which follow each other */
        if ((call > partner ? call - partner : partner - call) != 1)
            o->failed |= 2;
        step.call = call < partner ? call : partner;
        step.ncalls = 2;
        step_add(o, mine, step);
    } else {
        step_add(o, mine, step);
        step.call = partner;
        step_add(o, its, step);
    }
    unit_progress(o, mine);
    unit_progress(o, its);
}

/* Finds an actor's call of an instance in its current unit, which has one. */
static uint32_t unit_find(const order *o, int actor, uint32_t number)
{
    uint32_t call = o->units[o->at[actor]].first;
    while (o->m->numbers[actor / o->m->nlanes][call] != number)
        call++;
    return call;
}

static void complete_collective(order *o, const replay_call *c, uint32_t number)
{
    const replay_comm *comm = &o->m->trace->comms[c->comm];
    const uint32_t instance = o->s->instances++;
    for (int member = 0; member < comm->nranks; member++) {
        const int actor = actor_of(o, comm->ranks[member], c);
        step_add(o, actor,
                 (replay_step){unit_find(o, actor, number), 1, c->comm, instance, c->kind, 0});
    }
    for (int member = 0; member < comm->nranks; member++)
        unit_progress(o, actor_of(o, comm->ranks[member], c));
}

/* ----------------------------------------------------------------- the course */

static void enter_calls(order *o, const unit *u)
{
    const replay_call *calls = unit_calls(o, u);
    const int rank = (int)u->rank;
    for (uint32_t i = 0; i < u->count && !o->failed; i++) {
        const uint32_t number = o->m->numbers[rank][u->first + i];
        const uint32_t needs =
            replay_is_message(&calls[i]) ? 2 : (uint32_t)o->m->trace->comms[calls[i].comm].nranks;
        if (++o->arrived[number] < needs)
            continue;
        if (replay_is_message(&calls[i]))
            complete_message(o, rank, u->first + i);
        else
            complete_collective(o, &calls[i], number);
    }
}

static void enter_unit(order *o, int actor)
{
    const uint32_t at = o->at[actor];
    if (at == o->first_unit[actor + 1])
        return;
    const uint32_t root = unit_root(o, at);
    unit *u = &o->units[at];
    exchange *x = &o->exchanges[root];
    u->left = u->count;
    if (!x->is_whole)
        enter_calls(o, u);
    else if (++x->arrived == x->units)
        complete_exchange(o, root);
}

static int is_complete(const order *o, int *stuck)
{
    for (*stuck = 0; *stuck < o->nactors; ++*stuck)
        if (o->at[*stuck] != o->first_unit[*stuck + 1])
            return 0;
    return 1;
}

static weir_status run_once(order *o, int may_be_whole, int *stuck)
{
    o->nready = 0;
    o->s->instances = 0;
    memset(o->arrived, 0, ((size_t)o->m->instances + 1) * sizeof *o->arrived);
    memset(o->exchanges, 0, (size_t)o->first_unit[o->nactors] * sizeof *o->exchanges);
    find_whole(o, may_be_whole);
    for (int actor = o->nactors - 1; actor >= 0; actor--) {
        o->at[actor] = o->first_unit[actor];
        o->s->lanes[actor].count = 0;
        o->ready[o->nready++] = actor;
    }
    while (o->nready && !o->failed)
        enter_unit(o, o->ready[--o->nready]);
    if (o->failed & 2)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "a rank that sends to itself, with other calls in "
                                                "between: this cannot be replayed");
    if (o->failed)
        return replay_no_memory();
    return is_complete(o, stuck) ? WEIR_OK : WEIR_ERR_INVALID;
}

static weir_status order_open(order *o)
{
    const replay_trace *trace = o->m->trace;
    replay_schedule *s = o->s;
    const size_t nactors = (size_t)trace->nranks * (size_t)o->m->nlanes;
    o->nactors = (int)nactors;
    s->nranks = trace->nranks;
    s->nlanes = o->m->nlanes;
    s->nsets = s->ncomms = trace->ncomms;
    s->sets_room = (size_t)trace->ncomms;
    s->lanes = replay_take(&s->pool, nactors, sizeof *s->lanes);
    s->sets = calloc(s->sets_room, sizeof *s->sets);
    o->first_unit = replay_take(&o->pool, nactors + 1, sizeof *o->first_unit);
    o->at = replay_take(&o->pool, nactors, sizeof *o->at);
    o->ready = replay_take(&o->pool, nactors + 1, sizeof *o->ready);
    o->ranks = replay_take(&o->pool, (size_t)trace->nranks, sizeof *o->ranks);
    o->arrived = replay_take(&o->pool, (size_t)o->m->instances + 1, sizeof *o->arrived);
    if (!o->pool.has_failed)
        make_units(o);
    if (o->pool.has_failed || !s->lanes || !s->sets)
        return replay_no_memory();
    for (int i = 0; i < trace->ncomms; i++)
        s->sets[i] = &trace->comms[i];
    return WEIR_OK;
}

weir_status replay_order(const replay_matching *matching, replay_schedule **schedule)
{
    order o = {.m = matching, .s = calloc(1, sizeof *o.s)};
    int stuck = 0;
    if (!o.s)
        return replay_no_memory();
    weir_status status = order_open(&o);
    if (status == WEIR_OK) {
        connect_units(&o);
        status = run_once(&o, 1, &stuck);
        if (status == WEIR_ERR_INVALID) {
            o.s->runs_message_wise = 1;
            status = run_once(&o, 0, &stuck);
        }
    }
    if (status == WEIR_ERR_INVALID) {
        const replay_call *call = unit_calls(&o, &o.units[o.at[stuck]]);
        status = weiri_fail(WEIR_ERR_INVALID,
                            "ranks wait for each other in a circle: rank %d would wait forever in "
                            "%s on communicator %s (%s:%u); it was called at the same time as "
                            "others, or files are of different runs",
                            stuck / matching->nlanes, replay_kind_name((replay_kind)call->kind),
                            matching->trace->comms[call->comm].name,
                            matching->trace->files[call->file], call->line);
    }
    replay_pool_free(&o.pool);
    if (status == WEIR_OK)
        *schedule = o.s;
    else
        replay_schedule_free(o.s);
    return status;
}

void replay_schedule_free(replay_schedule *schedule)
{
    if (!schedule)
        return;
    for (int i = 0; schedule->lanes && i < schedule->nranks * schedule->nlanes; i++)
        free(schedule->lanes[i].list);
    free(schedule->sets);
    replay_pool_free(&schedule->pool);
    free(schedule);
}
