/*
 * Finds waits that are missing, too short, or for the wrong epoch: every algorithm of the host, on
 * one node and between nodes, plans, expert parallelism and algorithm objects, with ranks that are
 * late at chosen places (support/late_ranks.h) while the others run ahead. Each pair of them
 * follows each other, with each rank late, as the root and not, without barriers. Lengths, places
 * and kinds of memory are random; data differ in each round. The input is overwritten as soon as
 * its call has returned, and every element of an output is checked, once more two rounds later. The
 * seed determines what is tried; `test_late_ranks SEED ROUNDS` tries something else.
 */
#define _GNU_SOURCE
#include "verify/tests/support/internode_ranks.h"
#include "verify/tests/support/late_ranks.h"

#include "coll/coll.h"
#include "plan/examples/examples.h"
#include <weir/algo.h>
#include <weir/moe.h>
#include <weir/plan.h>

enum {
    LONG_COUNT = 33000, /* of calls that two ranks share, and of several messages between nodes */
    RANKS_MOST = 5,
    BUFFER_COUNT = 2 * LONG_COUNT,
    BUFFER_BYTES = 4 * BUFFER_COUNT,
    FAR = 1 << 20, /* between the rounds of one turn, whose data differ */
    BURST = 40,    /* calls: more than a sender may be ahead of its readers */
    ROWS_MOST = 64,
    PLANS_MOST = 12,
    PLAN_COUNT = 480,
    KEYS = 3,
    MOE_TOKENS = 5,
    MOE_TOPK = 2,
    MOE_LOCAL = 2, /* experts of a rank */
    MOE_HIDDEN = 8,
    MOE_ROWS = RANKS_MOST * MOE_TOKENS * MOE_TOPK,
    JOB_LIMIT_MS = 280000,
};

static uint64_t seed = 1;
static int rounds_asked;

typedef struct job {
    const char *name, *nodes; /* one letter per rank */
    const char *transport;
    int rounds; /* 0: all pairs */
    int scratch_kib;
    int shares_cores, rotates; /* where slots and messages are: as if ranks shared cores, or in
                                  parts that rotate; else two ranks trade them */
    int ndomains;              /* NUMA nodes that ranks seem to be on in turn; 0: one */
    int has_others;            /* plans, expert parallelism, algorithm objects, too */
    late_board *board;
} job;

/* A call, equal on all ranks but for the kind of its memory. */
typedef struct trial {
    uint32_t round;
    weir_collective collective;
    const char *algo;
    size_t count;
    int root, shift, in_place, is_barrier, calls;
} trial;

typedef struct late_rank {
    weir_comm *comm;
    int rank, n;
    char *plain[3];
    weir_mem *registered[3]; /* an input and two outputs that alternate */
    const weir_algo_info *rows[ROWS_MOST];
    int nrows, nkinds; /* kinds of rounds: rows, and behind them the others */
    size_t piece_count;
    trial earlier[2];
    const uint32_t *earlier_out[2]; /* NULL: none */
    weir_executor *executor;
    weir_plan *plans[PLANS_MOST];
    int nplans;
    weir_moe *moe;
    weir_algo *algo;
    int context, context_made;
} late_rank;

/* --------------------------------------------------------------------- data */

static uint32_t value(uint32_t round, int rank, size_t i)
{
    return (uint32_t)(i + 1) * 2654435761u + (uint32_t)rank * 0x9e3779b9u + round * 0x85ebca6bu;
}

static uint32_t sum(uint32_t round, int n, size_t i)
{
    uint32_t total = 0;
    for (int rank = 0; rank < n; rank++)
        total += value(round, rank, i);
    return total;
}

/* Elements that one rank sends to another in an alltoallv: none to some. */
static size_t split(const trial *t, int from, int to)
{
    const uint32_t drawn = (t->round * 7 + (uint32_t)from * 3 + (uint32_t)to * 5) % 8;
    return t->count * drawn / 7;
}

static size_t split_begin(const trial *t, int from, int to)
{
    size_t at = 0;
    for (int peer = 0; peer < to; peer++)
        at += split(t, from, peer);
    return at;
}

static int has_many_in(weir_collective c)
{
    return c == WEIR_COLL_REDUCE_SCATTER || c == WEIR_COLL_ALLTOALL || c == WEIR_COLL_ALLTOALLV;
}

static int count_wrong(const uint32_t *out, size_t count, uint32_t round, int rank, size_t first)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += out[i] != value(round, rank, first + i);
    return wrong;
}

static int count_wrong_sums(const late_rank *r, const uint32_t *out, const trial *t, size_t first)
{
    const uint32_t base = sum(t->round, r->n, 0), step = sum(t->round, r->n, 1) - base;
    int wrong = 0;
    for (size_t i = 0; i < t->count; i++)
        wrong += out[i] != base + (uint32_t)(first + i) * step;
    return wrong;
}

/* Elements of this rank's output that are wrong. */
static int trial_wrong(const late_rank *r, const trial *t, const uint32_t *out)
{
    int wrong = 0;
    size_t at = 0;
    switch (t->collective) {
    case WEIR_COLL_ALLREDUCE:
        return count_wrong_sums(r, out, t, 0);
    case WEIR_COLL_REDUCE:
        return r->rank == t->root ? count_wrong_sums(r, out, t, 0) : 0;
    case WEIR_COLL_REDUCE_SCATTER:
        return count_wrong_sums(r, out, t, (size_t)r->rank * t->count);
    case WEIR_COLL_BROADCAST:
        return count_wrong(out, t->count, t->round, t->root, 0);
    case WEIR_COLL_SENDRECV:
        return count_wrong(out, t->count, t->round, (r->rank + r->n - t->shift) % r->n, 0);
    default:
        for (int peer = 0; peer < r->n; peer++) {
            const int is_v = t->collective == WEIR_COLL_ALLTOALLV;
            const size_t count = is_v ? split(t, peer, r->rank) : t->count;
            const size_t first = is_v ? split_begin(t, peer, r->rank)
                                 : t->collective == WEIR_COLL_ALLTOALL ? (size_t)r->rank * t->count
                                                                       : 0;
            wrong += count_wrong(out + at, count, t->round, peer, first);
            at += count;
        }
        return wrong;
    }
}

static void say_wrong(const late_rank *r, const char *what, uint32_t round, int wrong)
{
    fprintf(stderr, "# rank %d of %d, round %u: %s: %d elements are wrong\n", r->rank, r->n, round,
            what, wrong);
    late_fail();
}

static void trial_check(const late_rank *r, const trial *t, const uint32_t *out, const char *when)
{
    char text[160];
    const int wrong = trial_wrong(r, t, out);
    if (!wrong)
        return;
    snprintf(text, sizeof text, "%s/%s of %zu, root %d, %s%s", weir_collective_name(t->collective),
             t->algo ? t->algo : "auto", t->count, t->root, t->in_place ? "in place, " : "", when);
    say_wrong(r, text, t->round, wrong);
}

static void check_status(const late_rank *r, weir_status status, const char *what, uint32_t round)
{
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "# rank %d, round %u: %s: %s\n", r->rank, round, what, weir_last_error());
    late_fail();
}

/* ------------------------------------------------------------ collective calls */

/* The ends of lanes, of cache lines and of chunks, up to a piece, and several pieces. */
static size_t draw_count(const late_rank *r, uint64_t *random)
{
    static const size_t ends[] = {1, 12, 14, 142, 512, 2048};
    const uint64_t kind = late_random(random) % 8;
    const size_t drawn = (size_t)(late_random(random) >> 8);
    if (kind < 2)
        return ends[drawn % (sizeof ends / sizeof *ends)] + (drawn >> 8) % 3;
    if (kind < 4)
        return 1 + drawn % r->piece_count;
    return r->piece_count + drawn % (3 * r->piece_count / 2);
}

static trial draw_trial(const late_rank *r, const weir_algo_info *row, int root, uint64_t *random,
                        uint32_t round)
{
    const weir_collective c = row->collective;
    trial t = {.round = round, .collective = c, .algo = row->name, .root = root};
    if (late_random(random) % 16 == 0)
        t.algo = NULL;
    t.count = draw_count(r, random);
    if (!weiri_contract_of((int)c)->in_has_blocks && !weiri_contract_of((int)c)->out_has_blocks &&
        late_random(random) % 32 == 0)
        t.count += LONG_COUNT;
    t.shift = 1 + (int)(late_random(random) % (uint64_t)(r->n - 1));
    t.in_place = late_random(random) % 3 == 0 && c != WEIR_COLL_ALLTOALL &&
                 c != WEIR_COLL_ALLTOALLV && c != WEIR_COLL_SENDRECV;
    t.is_barrier = late_random(random) % 32 == 0;
    t.calls = 1;
    if ((c == WEIR_COLL_BROADCAST || c == WEIR_COLL_REDUCE) && t.count <= 2 * r->piece_count &&
        late_random(random) % 8 == 0)
        t.calls = BURST;
    return t;
}

/* Calls weir_run with the splits of an alltoallv. */
static weir_status run_splits(const late_rank *r, const trial *t, weir_call *call)
{
    size_t counts[2][RANKS_MOST], begins[2][RANKS_MOST], at = 0;
    for (int peer = 0; peer < r->n; peer++) {
        counts[0][peer] = split(t, r->rank, peer);
        begins[0][peer] = split_begin(t, r->rank, peer);
        counts[1][peer] = split(t, peer, r->rank);
        begins[1][peer] = at;
        at += counts[1][peer];
    }
    const weir_splits splits = {counts[0], begins[0], counts[1], begins[1]};
    call->splits = &splits;
    return weir_run(r->comm, call);
}

static weir_status run_trial(const late_rank *r, const trial *t, const uint32_t *in, uint32_t *out)
{
    weir_call call = WEIR_CALL_INIT;
    call.collective = t->collective;
    call.algo_name = t->algo;
    call.dtype = WEIR_UINT32;
    call.op = WEIR_SUM;
    call.root = t->root;
    call.in = in;
    call.out = out;
    call.count = t->count;
    if (t->collective == WEIR_COLL_ALLTOALLV)
        return run_splits(r, t, &call);
    if (t->collective == WEIR_COLL_SENDRECV) {
        call.recv_count = t->count;
        call.destination = (r->rank + t->shift) % r->n;
        call.source = (r->rank + r->n - t->shift) % r->n;
    }
    return weir_run(r->comm, &call);
}

static void *buffer_of(const late_rank *r, int which, int registered)
{
    return registered ? weir_mem_pointer(r->registered[which]) : r->plain[which];
}

static void run_and_check(late_rank *r, const trial *t, uint32_t *in, uint32_t *out)
{
    const size_t many = has_many_in(t->collective) ? (size_t)r->n : 1;
    for (size_t i = 0; i < many * t->count; i++)
        in[i] = value(t->round, r->rank, i);
    check_status(r, run_trial(r, t, in, out), t->algo ? t->algo : "auto", t->round);
    trial_check(r, t, out, "at once");
}

static void collective_round(late_rank *r, const weir_algo_info *row, int root, uint64_t *random,
                             uint32_t round)
{
    trial t = draw_trial(r, row, root, random, round);
    const uint64_t kinds = late_random(random) >> (2 * r->rank);
    const int parity = (int)(round & 1);
    uint32_t *out =
        buffer_of(r, 1 + parity, late_random(random) % 4 == 0 ? kinds & 1 : kinds >> 40 & 1);
    uint32_t *in = buffer_of(r, 0, kinds >> 41 & 1);
    if (r->earlier_out[parity])
        trial_check(r, &r->earlier[parity], r->earlier_out[parity], "two rounds later");
    if (t.is_barrier)
        check_status(r, weir_comm_barrier(r->comm), "barrier", round);
    if (t.in_place) {
        const size_t own = (size_t)r->rank * t.count;
        in = out + (t.collective == WEIR_COLL_ALLGATHER ? own : 0);
        out += t.collective == WEIR_COLL_REDUCE_SCATTER ? own : 0;
    }
    for (int call = 1; call < t.calls; call++, t.round += FAR)
        run_and_check(r, &t, t.in_place ? in : buffer_of(r, 0, kinds >> call % 40 & 1), out);
    run_and_check(r, &t, in, out);
    r->earlier[parity] = t;
    r->earlier_out[parity] = out;
}

/* --------------------------------------------------------------------- plans */

static void plans_open(late_rank *r, int *failures)
{
    size_t count;
    const weiri_plan_example *all = weiri_plan_examples(&count);
    const weiri_plan_example_options with = {.nranks = r->n, .unit_bytes = 256};
    EXPECT_OK(failures, weir_executor_create(r->comm, &r->executor));
    for (size_t i = 0; i < count && r->nplans < PLANS_MOST; i++) {
        const int is_usable = all[i].collective == WEIR_COLL_ALLREDUCE ||
                              all[i].collective == WEIR_COLL_ALLGATHER ||
                              all[i].collective == WEIR_COLL_BROADCAST;
        if (!is_usable || strstr(all[i].name, "switch") || strstr(all[i].name, "hier") ||
            weiri_plan_example_make(&all[i], &with, &r->plans[r->nplans]) != WEIR_OK)
            continue;
        r->nplans++;
    }
    EXPECT(failures, r->nplans >= 3);
}

static weir_collective plan_collective(const weir_plan *plan)
{
    int c = 0;
    while (strcmp(weir_collective_name((weir_collective)c), weir_plan_collective(plan)) != 0)
        c++;
    return (weir_collective)c;
}

static void plan_round(late_rank *r, uint64_t random, uint32_t round)
{
    const weir_plan *plan = r->plans[random % (uint64_t)r->nplans];
    const weir_collective collective = plan_collective(plan);
    const int gathers = collective == WEIR_COLL_ALLGATHER;
    const trial t = {.round = round,
                     .collective = collective,
                     .algo = weir_plan_name(plan),
                     .count = PLAN_COUNT};
    uint32_t *in = buffer_of(r, 0, random >> 20 & 1), *out = buffer_of(r, 1, random >> 20 & 1);
    const size_t out_bytes = sizeof *out * PLAN_COUNT * (gathers ? (size_t)r->n : 1);
    r->earlier_out[0] = NULL;
    for (size_t i = 0; i < PLAN_COUNT; i++)
        in[i] = value(round, r->rank, i);
    check_status(r,
                 weir_executor_run(r->executor, plan, in, out, sizeof *in * PLAN_COUNT, out_bytes,
                                   WEIR_UINT32, WEIR_SUM, NULL),
                 t.algo, round);
    trial_check(r, &t, out, "as a plan");
}

/* -------------------------------------------------------- expert parallelism */

static int moe_expert(const late_rank *r, uint32_t round, int rank, int token, int choice)
{
    const int all = MOE_LOCAL * r->n;
    return (int)((round + (uint32_t)(rank * 3 + token * (1 + rank))) % (uint32_t)all +
                 (uint32_t)choice) %
           all;
}

static float moe_value(uint32_t round, int rank, int token, int h)
{
    return (float)(value(round, rank, (size_t)(token * MOE_HIDDEN + h)) >> 20);
}

static void moe_open(late_rank *r, int *failures)
{
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    config.experts = MOE_LOCAL * r->n;
    config.topk = MOE_TOPK;
    config.max_tokens = MOE_TOKENS;
    config.hidden = MOE_HIDDEN;
    config.dtype = WEIR_FLOAT;
    EXPECT_OK(failures, weir_moe_create(r->comm, &config, &r->moe));
}

/* Checks the rows that this rank's experts received, and makes their outputs of them. */
static int moe_rows_wrong(const late_rank *r, uint32_t round, float (*rows)[MOE_HIDDEN])
{
    int wrong = 0, at = 0;
    for (int local = 0; local < MOE_LOCAL; local++)
        for (int from = 0; from < r->n; from++)
            for (int i = 0; i < MOE_TOKENS * MOE_TOPK; i++) {
                const int expert = r->rank * MOE_LOCAL + local, token = i / MOE_TOPK;
                if (moe_expert(r, round, from, token, i % MOE_TOPK) != expert)
                    continue;
                for (int h = 0; h < MOE_HIDDEN; h++) {
                    wrong += rows[at][h] != moe_value(round, from, token, h);
                    rows[at][h] *= (float)(1 + expert);
                }
                at++;
            }
    return wrong;
}

static int moe_sums_wrong(const late_rank *r, uint32_t round, float (*out)[MOE_HIDDEN])
{
    int wrong = 0;
    for (int token = 0; token < MOE_TOKENS; token++)
        for (int h = 0; h < MOE_HIDDEN; h++) {
            int factor = 0;
            for (int choice = 0; choice < MOE_TOPK; choice++)
                factor += 1 + moe_expert(r, round, r->rank, token, choice);
            wrong += out[token][h] != (float)factor * moe_value(round, r->rank, token, h);
        }
    return wrong;
}

typedef float moe_rows[MOE_ROWS][MOE_HIDDEN];

static void moe_dispatch(late_rank *r, int handle, uint32_t round, moe_rows rows)
{
    float x[MOE_TOKENS][MOE_HIDDEN];
    int32_t experts[MOE_TOKENS * MOE_TOPK];
    weir_moe_dispatch_args d = WEIR_MOE_DISPATCH_ARGS_INIT;
    for (int i = 0; i < MOE_TOKENS * MOE_TOPK; i++)
        experts[i] = moe_expert(r, round, r->rank, i / MOE_TOPK, i % MOE_TOPK);
    for (int i = 0; i < MOE_TOKENS * MOE_HIDDEN; i++)
        x[i / MOE_HIDDEN][i % MOE_HIDDEN] =
            moe_value(round, r->rank, i / MOE_HIDDEN, i % MOE_HIDDEN);
    d.handle = handle;
    d.tokens = MOE_TOKENS;
    d.x = x;
    d.topk_experts = experts;
    d.rows = rows;
    d.rows_bytes = sizeof(moe_rows);
    check_status(r, weir_moe_dispatch(r->moe, &d), "dispatch", round);
    const int wrong = moe_rows_wrong(r, round, rows);
    if (wrong)
        say_wrong(r, "dispatch", round, wrong);
}

static void moe_combine(late_rank *r, int handle, uint32_t round, moe_rows rows)
{
    float out[MOE_TOKENS][MOE_HIDDEN];
    weir_moe_combine_args c = WEIR_MOE_COMBINE_ARGS_INIT;
    c.handle = handle;
    c.rows = rows;
    c.out = out;
    c.out_bytes = sizeof out;
    check_status(r, weir_moe_combine(r->moe, &c), "combine", round);
    memset(rows, 0, sizeof(moe_rows));
    const int wrong = moe_sums_wrong(r, round, out);
    if (wrong)
        say_wrong(r, "combine", round, wrong);
}

/* Two routings at a time: calls follow those of their kind, and one replaces another's routing. */
static void moe_round(late_rank *r, uint64_t random, uint32_t round)
{
    static moe_rows rows[2];
    const int first = (int)(random & 1);
    moe_dispatch(r, first, round + 2 * FAR, rows[0]);
    moe_dispatch(r, first, round, rows[0]);
    moe_dispatch(r, !first, round + FAR, rows[1]);
    moe_combine(r, first, round, rows[0]);
    moe_combine(r, !first, round + FAR, rows[1]);
}

/* --------------------------------------------------------- algorithm objects */

static weir_status algo_key(void *state, weir_comm *comm, const weir_call *call, weir_algo_key *key)
{
    (void)state;
    (void)comm;
    key->words[0] = call->count % KEYS;
    return WEIR_OK;
}

static weir_status algo_context(void *state, weir_comm *comm, const weir_call *call, void **context)
{
    int *made = malloc(sizeof *made);
    (void)state;
    (void)comm;
    *made = (int)(call->count % KEYS);
    *context = made;
    return WEIR_OK;
}

static weir_status algo_launch(void *state, void *context, weir_comm *comm, const weir_call *call)
{
    weir_call inner = *call;
    (void)state;
    if (*(int *)context != (int)(call->count % KEYS))
        return WEIR_ERR_MISMATCH;
    inner.algo = NULL;
    return weir_run(comm, &inner);
}

static void algo_free(void *state, void *context)
{
    (void)state;
    free(context);
}

static const weir_algo_ops algo_ops = {.context_key = algo_key,
                                       .context_create = algo_context,
                                       .launch = algo_launch,
                                       .context_destroy = algo_free,
                                       .contexts_max = KEYS};

/* The root needs no other rank, and so votes again while others have not counted its vote. */
static void algo_round(late_rank *r, uint64_t random, int root, uint32_t round)
{
    uint32_t *in = buffer_of(r, 0, 0), *out = buffer_of(r, 1, 0);
    r->earlier_out[0] = NULL;
    for (uint32_t again = 0; again < KEYS; again++) {
        const trial t = {.round = round + again * FAR,
                         .collective = WEIR_COLL_BROADCAST,
                         .algo = "an object",
                         .count = KEYS + (random + again) % KEYS,
                         .root = root};
        weir_call call = WEIR_CALL_INIT;
        for (size_t i = 0; i < t.count; i++)
            in[i] = value(t.round, r->rank, i);
        call.collective = t.collective;
        call.dtype = WEIR_UINT32;
        call.in = in;
        call.out = out;
        call.count = t.count;
        call.root = root;
        call.algo = r->algo;
        check_status(r, weir_run(r->comm, &call), t.algo, t.round);
        trial_check(r, &t, out, "at once");
    }
}

/* ---------------------------------------------------------------------- jobs */

/* What is made in the first call, by messages of the bootstrap, is made before ranks take turns. */
static void others_open(late_rank *r, int *failures)
{
    r->nkinds = r->nrows + 3;
    plans_open(r, failures);
    moe_open(r, failures);
    EXPECT_OK(failures, weir_algo_create("late", WEIR_COLL_BROADCAST, &algo_ops, NULL, &r->algo));
    for (uint32_t i = 0; i < PLANS_MOST && !*failures; i++) {
        plan_round(r, i, i);
        plan_round(r, i + (1u << 20), i);
        moe_round(r, i, i);
        algo_round(r, i, 0, i);
    }
}

static void rank_open(late_rank *r, weir_boot *boot, int *failures)
{
    size_t count;
    weiri_coll *coll = NULL;
    const weir_algo_info *all = weir_algo_list(&count);
    const int nnodes = weir_comm_nnodes(r->comm);
    r->rank = weir_boot_rank(boot);
    r->n = weir_boot_nranks(boot);
    for (size_t i = 0; i < count; i++)
        if (all[i].backend == (nnodes > 1 ? WEIR_ALGO_INTERNODE : WEIR_ALGO_HOST) &&
            all[i].min_ranks <= r->n && r->nrows < ROWS_MOST)
            r->rows[r->nrows++] = &all[i];
    r->nkinds = r->nrows;
    EXPECT_OK(failures, weiri_coll_get(weiri_comm_node(r->comm), &coll));
    r->piece_count = coll->piece_bytes / 4;
    if (r->piece_count > (size_t)(BUFFER_COUNT * 2 / 5 / r->n))
        r->piece_count = (size_t)(BUFFER_COUNT * 2 / 5 / r->n);
    for (int i = 0; i < 3; i++) {
        r->plain[i] = malloc(BUFFER_BYTES);
        EXPECT(failures, r->plain[i] != NULL);
        EXPECT_OK(failures, weir_mem_alloc(r->comm, BUFFER_BYTES, &r->registered[i]));
    }
}

static void rank_close(late_rank *r)
{
    weir_algo_destroy(r->algo);
    weir_moe_free(r->moe);
    for (int i = 0; i < r->nplans; i++)
        weir_plan_free(r->plans[i]);
    weir_executor_destroy(r->executor);
    for (int i = 0; i < 3; i++) {
        free(r->plain[i]);
        weir_mem_free(r->registered[i]);
    }
}

/* Round 2p and round 2p + 1 are a pair of kinds, with a late rank and a root. */
static void one_round(late_rank *r, uint32_t round)
{
    const uint64_t n = (uint64_t)r->n, kinds = (uint64_t)r->nkinds;
    uint64_t pair = round / 2 * UINT64_C(1000003) % (kinds * kinds * n * 2);
    uint64_t random = seed * UINT64_C(0x632be59bd9b4e019) + round;
    const int kind = (int)((round % 2 ? pair : pair / kinds) % kinds);
    pair /= kinds * kinds;
    const int late = (int)(pair % n);
    const int other = (late + 1 + (int)(late_random(&random) % (n - 1))) % r->n;
    const int root = pair / n ? other : late;
    late_round(late_random(&random), late);
    if (kind < r->nrows)
        collective_round(r, r->rows[kind], root, &random, round + 100);
    else if (kind == r->nrows)
        plan_round(r, late_random(&random), round + 100);
    else if (kind == r->nrows + 1)
        moe_round(r, late_random(&random), round + 100);
    else
        algo_round(r, late_random(&random), root, round + 100);
}

static void pretend(weir_comm *node, const job *j)
{
    node->oversubscribed = j->shares_cores;
    if (!j->ndomains || node->nranks < j->ndomains)
        return;
    node->ndomains = j->ndomains;
    for (int rank = 0; rank < node->nranks; rank++)
        node->domain_of[rank] = (unsigned char)(rank % j->ndomains);
}

static weir_comm *job_comm(const job *j, weir_boot *boot)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    const char name[2] = {j->nodes[weir_boot_rank(boot)], '\0'};
    config.backend = WEIR_BACKEND_HOST;
    config.scratch_bytes = (size_t)j->scratch_kib << 10;
    net_shm_register();
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", j->transport ? j->transport : "auto", 1);
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
        fprintf(stderr, "# no communicator: %s\n", weir_last_error());
    else
        pretend(weiri_comm_node(comm), j);
    return comm;
}

static int run_job(weir_boot *boot, void *argument)
{
    const job *j = argument;
    int failures = 0;
    late_rank r = {.comm = job_comm(j, boot)};
    if (!r.comm)
        return NO_COMM;
    rank_open(&r, boot, &failures);
    if (j->has_others && !failures)
        others_open(&r, &failures);
    EXPECT_OK(&failures, weir_comm_barrier(r.comm));
    if (failures)
        return failures;
    share_a_core(&failures);
    late_begin(j->board, r.rank);
    const int all = 4 * r.n * r.nkinds * r.nkinds;
    const int rounds = rounds_asked ? rounds_asked : j->rounds ? j->rounds : all;
    for (int round = 0; round < rounds; round++)
        one_round(&r, (uint32_t)round);
    late_end();
    rank_close(&r);
    EXPECT_OK(&failures, weir_comm_destroy(r.comm));
    return failures;
}

static void test_job(void **state)
{
    job *j = *state;
    const double begin_s = now_s();
    j->board = late_board_create((int)strlen(j->nodes), j->rotates);
    assert_non_null(j->board);
    run_ranks_within(JOB_LIMIT_MS, (int)strlen(j->nodes), run_job, j);
    late_board_destroy(j->board);
    print_message("# %.1f s\n", now_s() - begin_s);
}

#define JOB(name, nodes, ...) AT(name, test_job, (&(job){name, nodes, __VA_ARGS__}))

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB("2 ranks that share a core", "aa", .scratch_kib = 128, .shares_cores = 1),
        JOB("2 ranks that trade their slots", "aa", .scratch_kib = 128),
        JOB("2 ranks whose slots rotate", "aa", .scratch_kib = 256, .rotates = 1),
        JOB("3 ranks that share a core, with plans, experts and algorithm objects", "aaa",
            .scratch_kib = 128, .shares_cores = 1, .ndomains = 2, .has_others = 1),
        JOB("4 ranks whose slots rotate, with the same", "aaaa", .rounds = 8000, .scratch_kib = 96,
            .rotates = 1, .ndomains = 2, .has_others = 1),
        JOB("3 ranks on 2 nodes", "aab", .rounds = 5000, .scratch_kib = 128, .transport = "shm",
            .shares_cores = 1),
        JOB("5 ranks on 3 nodes, over tcp", "abacb", .rounds = 3000, .scratch_kib = 128,
            .transport = "tcp", .shares_cores = 1),
    };
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : seed;
    rounds_asked = argc > 2 ? atoi(argv[2]) : 0;
    return RUN_TESTS("late ranks", tests);
}
