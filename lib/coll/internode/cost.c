/*
 * The cost model of the algorithms across nodes: see cost.h. Sources of the closed forms:
 *
 *   halving, doubling, binomial, scatter, pairwise   Thakur, Rabenseifner, Gropp: Optimization of
 *                          collective communication operations in MPICH, 2005
 *   allreduce ring         Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of
 *                          workstations, 2009
 *   trees                  Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth
 *                          broadcast, reduction and scan, 2009
 *   bruck                  Bruck et al.: Efficient algorithms for all-to-all communications in
 *                          multiport message-passing systems, 1997
 *   allgather ring         Chan et al.: Collective communication: theory, practice, and
 *                          experience, 2007
 */
#include "coll/internode/cost.h"

#include "base/transports.h"
#include "comm/internode/internode.h"

#include <math.h>
#include <string.h>

const weir_net_cost *weiri_net_cost_of(weir_transport transport)
{
    return &weiri_transport_row_of((int)transport)->cost;
}

weiri_net_shape weiri_net_shape_of(const weir_comm *comm)
{
    const weiri_internode *internode = comm->internode;
    return (weiri_net_shape){internode->nnodes, internode->fewest, comm->gpu_comm != NULL,
                             comm->crowding};
}

/* What the closed forms are made of; times in microseconds. */
typedef struct terms {
    double n, r;               /* nodes, ranks of a node */
    double power;              /* the largest power of two that is not above n */
    double steps, whole_steps; /* log2 of power, and of n rounded up */
    double fold;               /* 1: n is no power of two */
    double bytes;              /* of the call */
    double block;              /* of a collective with a block for each rank */
    double a, o, b, c, phase;  /* latency, occupation; per byte: network, memory; a node's phase */
    double crowding;           /* ranks for each core */
} terms;

/* Ranks that share cores wait for each other's work, so a call takes as long as the work of all
 * ranks divided by the cores: `crowding` times the work of one rank. Latencies pass while other
 * ranks work. Forms in which all ranks do the same work are therefore computed with a latency of a
 * / crowding, and multiplied by crowding. If few ranks work at a time, each of them has a core: see
 * uneven(). */

static terms terms_of(const weir_net_cost *cost, weiri_net_shape shape, size_t bytes)
{
    terms t = {.n = shape.nnodes, .r = shape.ranks_per_node, .power = 1, .bytes = (double)bytes};
    while (t.power * 2 <= t.n) {
        t.power *= 2;
        t.steps++;
    }
    t.fold = t.power < t.n;
    t.whole_steps = t.steps + t.fold;
    t.block = t.bytes / (t.n * t.r);
    t.crowding = shape.crowding > 1 ? shape.crowding : 1;
    t.a = cost->latency_us / t.crowding;
    t.o = cost->message_us;
    t.b = 1e-3 / cost->network_gbs;
    t.c = 1e-3 / cost->memory_gbs;
    t.phase = shape.ranks_per_node > 1 ? cost->phase_us : 0;
    return t;
}

/* The time in which a rank sends `messages` messages to different ranks and receives as many. */
static double flood(const terms *t, double messages, double message_bytes)
{
    return t->a + messages * (2 * t->o + message_bytes * t->b);
}

/* One step, in which a rank sends a message and receives one. */
static double step(const terms *t, double message_bytes)
{
    return t->a + 2 * t->o + message_bytes * t->b;
}

/* A form whose path takes so long, on which one rank after the other works, while ranks work for
 * `work` in the mean. Divided by the crowding, as all forms. */
static double uneven(const terms *t, double path, double work)
{
    return t->crowding > 1 ? fmax(path / t->crowding, work) : path;
}

/* The mean work of a rank, if each node but one receives `bytes` once from another. */
static double mean_transfer(const terms *t, double per_byte)
{
    return (t->n - 1) / (t->n * t->r) * (2 * t->o + t->bytes * per_byte);
}

/* Two phases within the node that move the whole data once each. */
static double two_phases(const terms *t)
{
    return 2 * (t->phase + (t->r > 1 ? t->bytes * t->c : 0));
}

/* Also of reduce: its root alone keeps the result. */
static double allreduce_packet(const terms *t)
{
    return 2 * t->phase + flood(t, t->n - 1, t->r * t->bytes) + t->n * t->r * t->bytes * t->c;
}

static double allreduce_rails(const terms *t)
{
    return two_phases(t) + flood(t, t->n - 1, t->bytes / t->r) + t->n * t->bytes / t->r * t->c;
}

static double allreduce_doubling(const terms *t)
{
    return two_phases(t) + (t->steps + 2 * t->fold) * (step(t, t->bytes) + t->bytes * t->c);
}

static double allreduce_halving(const terms *t)
{
    double rail = t->bytes / t->r, moved = 2 * (t->power - 1) / t->power * rail;
    return two_phases(t) + 2 * t->steps * step(t, 0) + moved * (t->b + t->c) +
           2 * t->fold * (step(t, rail) + rail * t->c);
}

static double allreduce_ring(const terms *t)
{
    double block = t->bytes / t->r / t->n;
    return two_phases(t) + 2 * (t->n - 1) * (step(t, block) + block * t->c);
}

static double allreduce_trees(const terms *t)
{
    double rail = t->bytes / t->r, depth = t->whole_steps, chunk = rail / 16;
    double more = rail / 2 / 8192; /* messages that follow the first one, at most 8 */
    return two_phases(t) + 2 * depth * (step(t, chunk) + chunk * t->c) +
           (more < 8 ? more : 8) * 4 * t->o + 2 * rail * (t->b + t->c);
}

static double reduce_scatter_packet(const terms *t)
{
    return 2 * t->phase + flood(t, t->n - 1, t->r * t->r * t->block) + t->r * t->bytes * t->c;
}

static double reduce_scatter_rails(const terms *t)
{
    return t->n * t->phase + t->bytes * t->c + flood(t, t->n - 1, t->block) +
           t->n * t->block * t->c;
}

static double reduce_scatter_halving(const terms *t)
{
    double moved = (t->power - 1) / t->power * t->bytes;
    return 2 * t->phase + 2 * t->bytes * t->c + t->steps * step(t, 0) + moved * (t->b + t->c) +
           t->fold * (2 * step(t, 0) + t->bytes * (t->b + t->c));
}

static double allgather_packet(const terms *t)
{
    return 2 * t->phase + flood(t, t->n - 1, t->r * t->block) + 2 * t->bytes * t->c;
}

static double allgather_rails(const terms *t)
{
    return t->n * t->phase + flood(t, t->n - 1, t->block) + 2 * t->bytes * t->c;
}

static double allgather_bruck(const terms *t)
{
    return 2 * t->phase + t->whole_steps * step(t, 0) + (t->n - 1) * t->r * t->block * t->b +
           3 * t->bytes * t->c;
}

static double allgather_ring(const terms *t)
{
    return t->n * t->phase + (t->n - 1) * step(t, t->block) + 2 * t->bytes * t->c;
}

static double broadcast_rails(const terms *t)
{
    double rails = t->bytes > 131072 ? t->r : 1; /* chunks are sent in rotation */
    double path = 2 * t->phase + flood(t, t->n - 1, t->bytes / rails) + 2 * t->bytes * t->c;
    return uneven(t, path, 2 * t->phase + mean_transfer(t, t->b) + 2 * t->bytes * t->c);
}

static double broadcast_binomial(const terms *t)
{
    double path = t->phase + t->whole_steps * step(t, t->bytes) + t->bytes * t->c;
    return uneven(t, path, t->phase + mean_transfer(t, t->b) + t->bytes * t->c);
}

static double broadcast_scatter(const terms *t)
{
    double rail = t->bytes / t->r;
    return two_phases(t) + (t->whole_steps + t->n - 1) * step(t, 0) +
           2 * (t->n - 1) / t->n * rail * (t->b + t->c);
}

static double reduce_rails(const terms *t)
{
    double path = t->phase + flood(t, t->n - 1, t->bytes) + t->n * t->bytes * t->c;
    return uneven(t, path, t->phase + mean_transfer(t, t->b + t->c));
}

static double reduce_binomial(const terms *t)
{
    double path = t->phase + t->whole_steps * (step(t, t->bytes) + t->bytes * t->c);
    return uneven(t, path, t->phase + mean_transfer(t, t->b + t->c));
}

static double alltoall_packet(const terms *t)
{
    return 2 * t->phase + flood(t, t->n - 1, t->r * t->r * t->block) + 2 * t->r * t->bytes * t->c;
}

static double alltoall_bruck(const terms *t)
{
    double bundle = t->r * t->r * t->block;
    return 2 * t->phase + t->whole_steps * (step(t, t->n / 2 * bundle) + t->n * bundle * t->c) +
           4 * t->r * t->bytes * t->c;
}

static double alltoall_pairs(const terms *t)
{
    return t->phase + flood(t, (t->n - 1) * t->r, t->block) + 2 * t->bytes * t->c;
}

static double alltoall_pairwise(const terms *t)
{
    return t->phase + (t->n - 1) * t->r * step(t, t->block) + 2 * t->bytes * t->c;
}

typedef struct form {
    weir_collective collective;
    const char *algo;
    double (*us)(const terms *t);
} form;

static const form forms[] = {
    {WEIR_COLL_ALLREDUCE, "packet", allreduce_packet},
    {WEIR_COLL_ALLREDUCE, "rails", allreduce_rails},
    {WEIR_COLL_ALLREDUCE, "doubling", allreduce_doubling},
    {WEIR_COLL_ALLREDUCE, "halving", allreduce_halving},
    {WEIR_COLL_ALLREDUCE, "ring", allreduce_ring},
    {WEIR_COLL_ALLREDUCE, "trees", allreduce_trees},
    {WEIR_COLL_REDUCE_SCATTER, "packet", reduce_scatter_packet},
    {WEIR_COLL_REDUCE_SCATTER, "rails", reduce_scatter_rails},
    {WEIR_COLL_REDUCE_SCATTER, "halving", reduce_scatter_halving},
    {WEIR_COLL_ALLGATHER, "packet", allgather_packet},
    {WEIR_COLL_ALLGATHER, "rails", allgather_rails},
    {WEIR_COLL_ALLGATHER, "bruck", allgather_bruck},
    {WEIR_COLL_ALLGATHER, "ring", allgather_ring},
    {WEIR_COLL_BROADCAST, "rails", broadcast_rails},
    {WEIR_COLL_BROADCAST, "binomial", broadcast_binomial},
    {WEIR_COLL_BROADCAST, "scatter", broadcast_scatter},
    {WEIR_COLL_REDUCE, "packet", allreduce_packet},
    {WEIR_COLL_REDUCE, "rails", reduce_rails},
    {WEIR_COLL_REDUCE, "binomial", reduce_binomial},
    {WEIR_COLL_ALLTOALL, "packet", alltoall_packet},
    {WEIR_COLL_ALLTOALL, "bruck", alltoall_bruck},
    {WEIR_COLL_ALLTOALL, "pairs", alltoall_pairs},
    {WEIR_COLL_ALLTOALL, "pairwise", alltoall_pairwise},
};

double weiri_internode_cost_us(const weir_net_cost *cost, weiri_net_shape shape,
                               weir_collective collective, const char *algo, size_t bytes)
{
    const terms t = terms_of(cost, shape, bytes);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].collective == collective && strcmp(forms[i].algo, algo) == 0)
            return t.crowding * forms[i].us(&t);
    return INFINITY;
}

const weiri_algo *weiri_internode_cheapest(const weir_net_cost *cost, weiri_net_shape shape,
                                           weir_collective collective, size_t bytes)
{
    /* A byte that is copied between a GPU and the host, in and out. */
    const double staging_us = 2 * 1e-3 / 20;
    const weiri_algo *best = NULL;
    double best_us = INFINITY;
    for (size_t i = 0; i < weiri_algo_table_rows; i++) {
        const weiri_algo *algo = weiri_algo_table[i];
        if (algo->info.backend != WEIR_ALGO_INTERNODE || algo->info.collective != collective)
            continue;
        double us = weiri_internode_cost_us(cost, shape, collective, algo->info.name, bytes);
        if (shape.gpus && bytes < algo->gpu_phases_from)
            us += (double)bytes * staging_us;
        if (us < best_us) {
            best_us = us;
            best = algo;
        }
    }
    return best;
}
