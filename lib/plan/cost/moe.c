/* Estimates of dispatch and combine: see moe.h. */
#include "plan/cost/moe.h"

#include "base/error.h"
#include <weir/moe.h>

#include <math.h>

/* The division of ranks, and what uniform routing makes of it. */
typedef struct moe_fleet {
    const weiri_plan_model *model;
    const weiri_moe_shape *shape;
    int nodes, here; /* ranks of a node */
    int limited;     /* nodes that have a token's experts */
    double per_rank; /* choices of a token that a rank has */
    double by_rank;  /* probability that a rank has any */
    double by_node;  /* probability that a node has any */
} moe_fleet;

const char *weiri_moe_crossing_name(weiri_moe_crossing crossing)
{
    static const char *const names[WEIRI_MOE_CROSSINGS] = {"choice", "rank", "node", "weir"};
    return crossing >= 0 && crossing < WEIRI_MOE_CROSSINGS ? names[crossing] : "unknown";
}

/* ------------------------------------------------------------------- routing */

/* The probability that `topk` of `experts` include one of `some`. */
static double moe_any_of(int some, int experts, int topk)
{
    double none = 1;
    for (int i = 0; i < topk; i++)
        none *= experts - i > 0 ? fmax(0, experts - some - i) / (experts - i) : 0;
    return 1 - none;
}

static void moe_route(moe_fleet *f)
{
    const weiri_moe_shape *s = f->shape;
    const int each = s->experts / s->ranks;
    const int reachable = each * f->here * f->limited; /* experts that a token can choose */
    const double chosen = (double)f->limited / f->nodes;
    f->per_rank = (double)s->topk / s->ranks;
    f->by_rank = chosen * moe_any_of(each, reachable, s->topk);
    f->by_node = chosen * moe_any_of(each * f->here, reachable, s->topk);
}

/* The mean of the largest of n standard normal numbers, by the limit of its distribution. */
static double moe_largest_normal(int n)
{
    const double euler = 0.5772156649, pi = 3.1415926536;
    if (n < 2)
        return 0;
    const double scale = sqrt(2 * log(n));
    return scale - (log(log(n)) + log(4 * pi)) / (2 * scale) + euler / scale;
}

/* Rows of the busiest rank by those of a mean one: the tokens of all ranks choose independently. */
static double moe_busiest(const moe_fleet *f, weiri_moe_crossing crossing)
{
    const weiri_moe_shape *s = f->shape;
    const double share = 1.0 / s->ranks, experts = s->experts;
    const double trials = (double)s->ranks * s->tokens;
    double mean = f->by_rank, variance = f->by_rank * (1 - f->by_rank);
    if (crossing == WEIRI_MOE_BY_CHOICE) {
        mean = f->per_rank;
        variance =
            experts > 1 ? s->topk * share * (1 - share) * (experts - s->topk) / (experts - 1) : 0;
    }
    return 1 + moe_largest_normal(s->ranks) * sqrt(fmax(0, variance) / trials) / mean;
}

/* --------------------------------------------------------------------- loads */

static double moe_row_bytes(const weiri_moe_shape *s, weiri_moe_phase phase)
{
    if (phase == WEIRI_MOE_DISPATCH && s->fp8)
        return s->hidden + 4.0 * ((s->hidden + WEIR_MOE_SCALE_BLOCK - 1) / WEIR_MOE_SCALE_BLOCK);
    return 2.0 * s->hidden;
}

/* Rows that a mean rank gets from others of its node, and from other nodes. */
static void moe_rows(const moe_fleet *f, weiri_moe_crossing crossing, double *link, double *net)
{
    const double tokens = f->shape->tokens, others = f->here - 1, away = f->shape->ranks - f->here;
    const double rows = crossing == WEIRI_MOE_BY_CHOICE ? f->per_rank : f->by_rank;
    *link = tokens * rows * others;
    *net = tokens * rows * away;
    if (crossing == WEIRI_MOE_BY_NODE) {
        *link = tokens * f->by_rank * others * f->nodes;
        *net = tokens * f->by_node * (f->nodes - 1);
    }
}

/* Reads and writes of a rank's memory: a dispatch reads its tokens, casts them, and writes a row
 * for each choice; a combine reads the outputs of all choices and writes one row for each token. */
static double moe_memory_bytes(const weiri_moe_shape *s, weiri_moe_phase phase)
{
    const double tokens = s->tokens, row = 2.0 * s->hidden, sent = moe_row_bytes(s, phase);
    if (phase == WEIRI_MOE_COMBINE)
        return tokens * s->topk * row + tokens * row;
    return tokens * row + tokens * s->topk * sent + (s->fp8 ? 2 * tokens * sent : 0);
}

static void moe_bound(weiri_moe_estimate *e, weiri_load_kind kind, double bytes, double gbs)
{
    const double us = gbs > 0 ? bytes / gbs / 1e3 : 0;
    if (us <= e->bound_us)
        return;
    e->bound_us = us;
    e->bound = kind;
}

static void moe_loads(const moe_fleet *f, weiri_moe_phase phase, weiri_moe_estimate *e)
{
    const weiri_moe_shape *s = f->shape;
    const weiri_plan_model *m = f->model;
    const double row = moe_row_bytes(s, phase), tokens = s->tokens;
    double link, net;
    moe_rows(f, e->crossing, &link, &net);
    e->busiest = moe_busiest(f, e->crossing);
    e->link_bytes = link * row * e->busiest;
    e->net_bytes = net * row * e->busiest;
    e->memory_bytes = moe_memory_bytes(s, phase) * e->busiest;
    e->counted_bytes[WEIRI_MOE_BY_CHOICE] = tokens * s->topk * row;
    e->counted_bytes[WEIRI_MOE_BY_RANK] = tokens * s->ranks * f->by_rank * row;
    e->counted_bytes[WEIRI_MOE_BY_NODE] = tokens * f->nodes * f->by_node * row;
    e->bound = WEIRI_LOAD_MEMORY;
    e->bound_us = 0;
    moe_bound(e, WEIRI_LOAD_MEMORY, e->memory_bytes, m->memory_gbs);
    moe_bound(e, WEIRI_LOAD_NODE, e->memory_bytes / e->busiest * f->here, m->machine_gbs);
    moe_bound(e, WEIRI_LOAD_IN, e->link_bytes, m->link_gbs);
    if (f->here > 1)
        moe_bound(e, WEIRI_LOAD_PAIR, e->link_bytes / (f->here - 1), m->pair_gbs);
    moe_bound(e, WEIRI_LOAD_NET_IN, e->net_bytes, m->net_gbs);
}

/* Steps of a call: launch; count choices, and as all thread blocks have to be done, a barrier;
 * publish; in dispatch, place rows; move rows. Between nodes a port and the network come in
 * between, and a forwarded row takes another step and signal. */
static double moe_latency_us(const moe_fleet *f, weiri_moe_phase phase, weiri_moe_crossing crossing)
{
    const weiri_plan_model *m = f->model;
    double us = m->launch_us + m->op_us + m->barrier_us + m->op_us;
    if (phase == WEIRI_MOE_DISPATCH)
        us += m->op_us + m->barrier_us;
    if (f->shape->ranks > 1)
        us += m->signal_us;
    if (f->nodes > 1)
        us += m->port_us + m->net_us;
    if (f->nodes > 1 && crossing == WEIRI_MOE_BY_NODE)
        us += m->op_us + m->signal_us;
    return us;
}

/* ------------------------------------------------------------------- estimate */

/* Divides the ranks of the shape. */
static weir_status moe_divide(moe_fleet *f)
{
    const weiri_plan_model *m = f->model;
    const weiri_moe_shape *s = f->shape;
    if (s->ranks > m->ranks)
        return weiri_fail(WEIR_ERR_INVALID, "%d ranks, but the topology %s has %d", s->ranks,
                          m->name, m->ranks);
    if (s->experts % s->ranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%d experts cannot be divided evenly among %d ranks; use a multiple of "
                          "%d",
                          s->experts, s->ranks, s->ranks);
    if (s->ranks > m->node_ranks && s->ranks % m->node_ranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%d ranks do not fill nodes of %d ranks; use a multiple of %d", s->ranks,
                          m->node_ranks, m->node_ranks);
    f->here = s->ranks < m->node_ranks ? s->ranks : m->node_ranks;
    f->nodes = s->ranks / f->here;
    f->limited = s->groups && s->groups < f->nodes ? s->groups : f->nodes;
    if (s->topk > s->experts / f->nodes * f->limited)
        return weiri_fail(WEIR_ERR_INVALID, "top-%d, but a token can choose among %d experts only",
                          s->topk, s->experts / f->nodes * f->limited);
    return WEIR_OK;
}

weir_status weiri_moe_estimate_phase(const weiri_plan_model *model, const weiri_moe_shape *shape,
                                     weiri_moe_phase phase, weiri_moe_crossing crossing,
                                     weiri_moe_estimate *estimate)
{
    moe_fleet f = {.model = model, .shape = shape};
    weir_status status = moe_divide(&f);
    if (status != WEIR_OK)
        return status;
    moe_route(&f);
    if (crossing == WEIRI_MOE_BY_WEIR)
        crossing = phase == WEIRI_MOE_COMBINE ? WEIRI_MOE_BY_CHOICE
                   : f.nodes > 1              ? WEIRI_MOE_BY_NODE
                                              : WEIRI_MOE_BY_RANK;
    *estimate = (weiri_moe_estimate){.crossing = crossing};
    moe_loads(&f, phase, estimate);
    estimate->latency_us = moe_latency_us(&f, phase, crossing);
    estimate->us = estimate->latency_us + estimate->bound_us;
    return WEIR_OK;
}
