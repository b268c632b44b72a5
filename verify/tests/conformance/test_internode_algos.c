/*
 * Proves that every algorithm across nodes is correct: for each row "net" of the algorithm table,
 * on 2 to 8 emulated nodes, even and uneven, in the order of nodes and interleaved, numbers of
 * nodes that are powers of two and others: counts from 1 to several messages, in place and out of
 * place, every root, and sequences of calls with late ranks. And that the cost model selects by
 * size, and takes its values from a tuning file; and that ranks which share cores have other rows.
 * Nodes are emulated as in test_internode.c.
 */
#define _GNU_SOURCE
#include "verify/tests/support/internode_ranks.h"

#include "coll/internode/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20001, ROUNDS = 4, GUARD = 64 /* elements beyond the longest buffer */ };
static const size_t counts[ROUNDS] = {1, 3, 401, MOST};

typedef struct state {
    weir_comm *comm;
    const weir_algo_info *algo;
    int rank, nranks;
    int32_t *in, *out;
    size_t count;
    int call; /* makes the data of each call different */
} state;

static int32_t element(const state *s, int rank, size_t i)
{
    return (int32_t)((i * 7 + (size_t)rank * 13 + (size_t)s->call * 29) % 1009);
}

static int32_t sum_at(const state *s, size_t i)
{
    int32_t sum = 0;
    for (int rank = 0; rank < s->nranks; rank++)
        sum += element(s, rank, i);
    return sum;
}

static int32_t largest_at(const state *s, size_t i)
{
    int32_t largest = 0;
    for (int rank = 0; rank < s->nranks; rank++)
        largest = element(s, rank, i) > largest ? element(s, rank, i) : largest;
    return largest;
}

/* Elements of the call's input and output on this rank. */
static size_t blocks_in(const state *s)
{
    weir_collective c = s->algo->collective;
    int all = c == WEIR_COLL_REDUCE_SCATTER || c == WEIR_COLL_ALLTOALL || c == WEIR_COLL_ALLTOALLV;
    return all ? (size_t)s->nranks : 1;
}

static size_t blocks_out(const state *s)
{
    weir_collective c = s->algo->collective;
    int all = c == WEIR_COLL_ALLGATHER || c == WEIR_COLL_ALLTOALL || c == WEIR_COLL_ALLTOALLV;
    return all ? (size_t)s->nranks : 1;
}

/* What alltoallv sends from one rank to another. */
static size_t split(const state *s, int from, int to)
{
    return (size_t)((from + 2 * to + s->call) % 4) * s->count / 3;
}

static weir_status run_alltoallv(const state *s, const int32_t *in, int32_t *out)
{
    size_t lengths[2][MOST_RANKS], displs[2][MOST_RANKS];
    for (int peer = 0; peer < s->nranks; peer++) {
        lengths[0][peer] = split(s, s->rank, peer);
        lengths[1][peer] = split(s, peer, s->rank);
        displs[0][peer] = displs[1][peer] = (size_t)peer * s->count;
    }
    return weir_alltoallv(s->comm, in, lengths[0], displs[0], out, lengths[1], displs[1],
                          WEIR_INT32, NULL);
}

static weir_status run_call(const state *s, const int32_t *in, int32_t *out, weir_op op, int root)
{
    switch (s->algo->collective) {
    case WEIR_COLL_ALLREDUCE:
        return weir_allreduce(s->comm, in, out, s->count, WEIR_INT32, op, NULL);
    case WEIR_COLL_REDUCE_SCATTER:
        return weir_reduce_scatter(s->comm, in, out, s->count, WEIR_INT32, op, NULL);
    case WEIR_COLL_REDUCE:
        return weir_reduce(s->comm, in, s->rank == root ? out : NULL, s->count, WEIR_INT32, op,
                           root, NULL);
    case WEIR_COLL_ALLGATHER:
        return weir_allgather(s->comm, in, out, s->count, WEIR_INT32, NULL);
    case WEIR_COLL_BROADCAST:
        return weir_broadcast(s->comm, s->rank == root ? in : NULL, out, s->count, WEIR_INT32, root,
                              NULL);
    case WEIR_COLL_ALLTOALL:
        return weir_alltoall(s->comm, in, out, s->count, WEIR_INT32, NULL);
    case WEIR_COLL_ALLTOALLV:
        return run_alltoallv(s, in, out);
    default:
        return weir_sendrecv(s->comm, in, s->count, (s->rank + 1) % s->nranks, out, s->count,
                             (s->rank + s->nranks - 1) % s->nranks, WEIR_INT32, NULL);
    }
}

/* What element i of the output must be; *known is 0 where nothing is written. */
static int32_t expected(const state *s, size_t i, weir_op op, int root, int *known)
{
    size_t block = i / s->count, at = i % s->count, own = (size_t)s->rank * s->count;
    *known = 1;
    switch (s->algo->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
        i += own;
        break;
    case WEIR_COLL_ALLGATHER:
        return element(s, (int)block, at);
    case WEIR_COLL_ALLTOALL:
        return element(s, (int)block, own + at);
    case WEIR_COLL_ALLTOALLV:
        *known = at < split(s, (int)block, s->rank);
        return element(s, (int)block, own + at);
    case WEIR_COLL_BROADCAST:
        return element(s, root, i);
    case WEIR_COLL_SENDRECV:
        return element(s, (s->rank + s->nranks - 1) % s->nranks, i);
    default:
        *known = s->algo->collective != WEIR_COLL_REDUCE || s->rank == root;
        break;
    }
    int32_t sum = sum_at(s, i);
    return op == WEIR_MAX ? largest_at(s, i) : op == WEIR_AVG ? sum / s->nranks : sum;
}

/* Where the input and the output of a call in place are, within out. */
static void place_buffers(const state *s, int32_t **in, int32_t **out)
{
    size_t own = (size_t)s->rank * s->count;
    *in = *out = s->out;
    if (s->algo->collective == WEIR_COLL_ALLGATHER)
        *in += own;
    if (s->algo->collective == WEIR_COLL_REDUCE_SCATTER)
        *out += own;
}

/* Elements that a call changed outside of its output: in an input of its own, next to the output,
 * and beyond it. */
static size_t changed_elsewhere(const state *s, const int32_t *in, const int32_t *out, int in_place)
{
    const size_t inputs = blocks_in(s) * s->count, outputs = blocks_out(s) * s->count;
    size_t changed = 0;
    for (size_t i = 0; i < inputs && !in_place; i++)
        changed += in[i] != element(s, s->rank, i);
    for (size_t i = 0; i < (size_t)s->nranks * s->count + GUARD; i++) {
        const int32_t *at = &s->out[i];
        const int is_used =
            (at >= out && at < out + outputs) || (in_place && at >= in && at < in + inputs);
        changed += !is_used && *at != (int32_t)0xeeeeeeee;
    }
    if (changed)
        printf("# %s %s: rank %d of %d, %zu elements, in place %d: %zu changed elsewhere\n",
               weir_collective_name(s->algo->collective), s->algo->name, s->rank, s->nranks,
               s->count, in_place, changed);
    return changed;
}

static void check_call(state *s, weir_op op, int root, int in_place, int *failures)
{
    int32_t *in = s->in, *out = s->out;
    size_t wrong = 0, first = SIZE_MAX;
    s->call++;
    if (in_place)
        place_buffers(s, &in, &out);
    memset(s->out, 0xee, ((size_t)s->nranks * s->count + GUARD) * sizeof *s->out);
    for (size_t i = 0; i < blocks_in(s) * s->count; i++)
        in[i] = element(s, s->rank, i);
    if ((s->call + s->rank) % 11 == 0)
        usleep(1000); /* a late rank */
    EXPECT_OK(failures, run_call(s, in, out, op, root));
    for (size_t i = 0; i < blocks_out(s) * s->count; i++) {
        int known = 0;
        int32_t right = expected(s, i, op, root, &known);
        if (out[i] == (known ? right : (int32_t)0xeeeeeeee) ||
            (!known && s->algo->collective == WEIR_COLL_REDUCE))
            continue;
        wrong++;
        first = i < first ? i : first;
    }
    if (wrong)
        printf("# %s %s: rank %d of %d, %zu elements, op %d, root %d, in place %d: %zu wrong, "
               "first %zu\n",
               weir_collective_name(s->algo->collective), s->algo->name, s->rank, s->nranks,
               s->count, (int)op, root, in_place, wrong, first);
    EXPECT(failures, wrong == 0);
    EXPECT(failures, changed_elsewhere(s, in, out, in_place) == 0);
}

static int is_pairwise(const weir_algo_info *algo)
{
    return algo->collective == WEIR_COLL_ALLTOALL || algo->collective == WEIR_COLL_ALLTOALLV ||
           algo->collective == WEIR_COLL_SENDRECV;
}

/* Every root if the collective has one; else three operations, or one call. Of long messages, the
 * first two of these. */
static void check_count(state *s, int *failures)
{
    static const weir_op ops[] = {WEIR_SUM, WEIR_AVG, WEIR_MAX};
    weir_collective c = s->algo->collective;
    int rooted = c == WEIR_COLL_BROADCAST || c == WEIR_COLL_REDUCE;
    int reduces = c == WEIR_COLL_ALLREDUCE || c == WEIR_COLL_REDUCE_SCATTER;
    int repeats = rooted ? s->nranks : reduces ? 3 : 2;
    repeats = s->count == MOST && repeats > 2 ? 2 : repeats;
    for (int i = 0; i < repeats && !*failures; i++)
        for (int in_place = 0; in_place < (is_pairwise(s->algo) ? 1 : 2); in_place++)
            check_call(s, ops[i % 3], rooted ? i : 0, in_place, failures);
    EXPECT(failures, strcmp(weir_comm_last_algo(s->comm), s->algo->name) == 0);
}

static int check_algorithms(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0;
    size_t rows = 0;
    const weir_algo_info *table = weir_algo_list(&rows);
    weir_comm *comm = open_internode(boot, where);
    if (!comm)
        return NO_COMM;
    size_t bytes = ((size_t)ranks_of(where) * MOST + GUARD) * sizeof(int32_t);
    state s = {
        comm, NULL, weir_comm_rank(comm), weir_comm_nranks(comm), malloc(bytes), malloc(bytes),
        0,    0};
    EXPECT(&failures, s.in && s.out);
    for (size_t row = 0; row < rows && !failures; row++) {
        s.algo = &table[row];
        if (s.algo->backend != WEIR_ALGO_INTERNODE)
            continue;
        EXPECT_OK(&failures, weir_comm_set_algo(comm, s.algo->collective, s.algo->name));
        for (int round = 0; round < ROUNDS && !failures; round++) {
            s.count = counts[round];
            check_count(&s, &failures);
        }
    }
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    free(s.in);
    free(s.out);
    weir_comm_destroy(comm);
    return failures;
}

/* Whether this rank cannot end the call right if the last rank never begins it. */
static int needs_last(const state *s)
{
    const int is_next = s->rank == 0; /* receives from the last one */
    if (s->algo->collective == WEIR_COLL_SENDRECV || s->algo->collective == WEIR_COLL_REDUCE)
        return is_next;
    return 1;
}

/* The last rank makes no call: those that need its data end with an error, whatever the algorithm,
 * and none says that all is well. A communicator for each, as the error ends it. */
static int check_absent(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    static int32_t in[8 * 401], out[8 * 401];
    int failures = 0;
    size_t rows = 0;
    const weir_algo_info *table = weir_algo_list(&rows);
    setenv("WEIR_TIMEOUT_MS", "250", 1);
    for (size_t row = 0; row < rows && !failures; row++) {
        if (table[row].backend != WEIR_ALGO_INTERNODE)
            continue;
        EXPECT_OK(&failures, weir_boot_set_timeout(boot, 20000));
        weir_comm *comm = open_internode(boot, where);
        if (!comm)
            return NO_COMM;
        state s = {.comm = comm, .algo = &table[row], .count = 401, .in = in, .out = out};
        s.rank = weir_comm_rank(comm);
        s.nranks = weir_comm_nranks(comm);
        EXPECT_OK(&failures, weir_comm_set_algo(comm, s.algo->collective, s.algo->name));
        if (s.rank < s.nranks - 1) {
            const weir_status status =
                run_call(&s, in, out, WEIR_SUM,
                         s.algo->collective == WEIR_COLL_BROADCAST ? s.nranks - 1 : 0);
            if (needs_last(&s) && status == WEIR_OK)
                printf("# %s %s: rank %d has no error\n", weir_collective_name(s.algo->collective),
                       s.algo->name, s.rank);
            EXPECT(&failures, !needs_last(&s) || status != WEIR_OK);
            /* Of two ranks, nobody else can have ended the call: its own wait reports why. */
            EXPECT(&failures, s.nranks > 2 || !needs_last(&s) || status == WEIR_ERR_TIMEOUT);
        }
        EXPECT_OK(&failures, weir_boot_barrier(boot));
        weir_comm_destroy(comm);
    }
    return failures;
}

/* A rank that passes another count than its peers: all ranks end with an error. */
static void check_mismatch(weir_comm *comm, const layout *where, int *failures)
{
    static const char *const names[] = {"doubling", "halving", "ring"};
    static int32_t in[400], out[400];
    int rank = weir_comm_rank(comm);
    const char *name = names[where->nnodes - 2];
    EXPECT_OK(failures, weir_comm_set_algo(comm, WEIR_COLL_ALLREDUCE, name));
    size_t count = rank == ranks_of(where) - 1 ? 200 : 400;
    weir_status status = weir_allreduce(comm, in, out, count, WEIR_INT32, WEIR_SUM, NULL);
    if (status == WEIR_OK)
        status = weir_comm_barrier(comm);
    EXPECT(failures, status == WEIR_ERR_MISMATCH || status == WEIR_ERR_ABORTED);
}

/* The algorithm that serves an allreduce of so many bytes. */
static const char *selected(weir_comm *comm, size_t bytes, int *failures)
{
    char *buffer = calloc(bytes, 1);
    EXPECT_OK(failures, weir_allreduce(comm, buffer, buffer, bytes, WEIR_UINT8, WEIR_MAX, NULL));
    free(buffer);
    return weir_comm_last_algo(comm);
}

/* Short and long calls on 8 nodes, with the built-in values. */
static void check_selection(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    EXPECT(failures, strcmp(selected(comm, 8, failures), "doubling") == 0);
    EXPECT(failures, strcmp(selected(comm, 4 << 20, failures), "halving") == 0);
}

/* A file with the text as its only line is the tuning table. */
static weir_status open_tuned(weir_boot *boot, const layout *where, const char *text,
                              weir_comm **comm)
{
    char path[64];
    int32_t one = 1, sum = 0;
    snprintf(path, sizeof path, "/tmp/weir-cost-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        return WEIR_ERR_SYSTEM;
    setenv("WEIR_TUNING", path, 1);
    *comm = open_internode(boot, where);
    weir_status status =
        *comm ? weir_allreduce(*comm, &one, &sum, 1, WEIR_INT32, WEIR_SUM, NULL) : WEIR_ERR_SYSTEM;
    remove(path);
    return status;
}

/* A network without latency needs no short paths; a wrong line is named. */
static int check_cost_lines(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_comm *comm = NULL;
    EXPECT_OK(&failures, open_tuned(boot, argument, "cost 0.001 0 0.1 0 100\n", &comm));
    EXPECT(&failures, comm && strcmp(weir_comm_last_algo(comm), "doubling") != 0);
    weir_comm_destroy(comm);
    comm = NULL;
    EXPECT(&failures, open_tuned(boot, argument, "cost 30 15 0 8 4\n", &comm) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has(":1: expected 'cost latency_us"));
    weir_comm_destroy(comm);
    return failures;
}

/* The model's own times for a shape give its values again, where they determine them; the fitted
 * values select what the true ones do. */
static void check_fit(weir_comm *comm, const layout *where, int *failures)
{
    static const char *const algos[] = {"packet", "rails", "doubling", "halving", "ring", "trees"};
    enum { ALGOS = sizeof algos / sizeof *algos, SIZES = 18 };
    const weir_net_cost slow = {300, 40, 0.2, 20, 3};
    const weiri_net_shape shape = {where->nnodes, 1, 0, comm->crowding};
    weir_net_time times[ALGOS * SIZES];
    weir_net_cost got = {0, 0, 0, 0, 0}, untouched = got;
    double deviation = 1;
    for (int i = 0; i < ALGOS * SIZES; i++) {
        weir_net_time *time = &times[i];
        *time = (weir_net_time){WEIR_COLL_ALLREDUCE, algos[i % ALGOS], (size_t)8 << i / ALGOS, 0};
        time->us = weiri_internode_cost_us(&slow, shape, time->collective, time->algo, time->bytes);
    }
    EXPECT_OK(failures, weir_net_cost_fit(comm, times, ALGOS * SIZES, &got, &deviation));
    EXPECT(failures, deviation < 0.02);
    EXPECT(failures, got.latency_us > 0.95 * slow.latency_us);
    EXPECT(failures, got.latency_us < 1.05 * slow.latency_us);
    EXPECT(failures, got.message_us > 0.9 * slow.message_us);
    EXPECT(failures, got.message_us < 1.1 * slow.message_us);
    EXPECT(failures, got.network_gbs > 0.9 * slow.network_gbs);
    EXPECT(failures, got.network_gbs < 1.1 * slow.network_gbs);
    EXPECT(failures, got.phase_us > 0 && got.memory_gbs > 0);
    for (size_t bytes = 8; bytes < 64 << 20; bytes *= 8)
        EXPECT(failures, weiri_internode_cheapest(&got, shape, WEIR_COLL_ALLREDUCE, bytes) ==
                             weiri_internode_cheapest(&slow, shape, WEIR_COLL_ALLREDUCE, bytes));
    /* Half of the times are those of a network that is twice as fast: a visible deviation. */
    for (int i = 0; i < ALGOS * SIZES; i += 2)
        times[i].us /= 2;
    EXPECT_OK(failures, weir_net_cost_fit(comm, times, ALGOS * SIZES, &got, &deviation));
    EXPECT(failures, deviation > 0.1);
    got = untouched;
    times[0] = (weir_net_time){WEIR_COLL_ALLREDUCE, "nothing", 8, 5};
    EXPECT(failures, weir_net_cost_fit(comm, times, 1, &got, NULL) == WEIR_ERR_INVALID);
    times[0] = (weir_net_time){WEIR_COLL_ALLREDUCE, "ring", 8, 0};
    EXPECT(failures, weir_net_cost_fit(comm, times, 1, &got, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, memcmp(&got, &untouched, sizeof got) == 0);
    EXPECT(failures, weir_net_cost_fit(NULL, times, 1, &got, NULL) == WEIR_ERR_INVALID);
}

/* The algorithm for a call of 512 KiB by 16 nodes of 2 ranks, with the built-in values of tcp. */
static const char *cheapest(weir_collective collective, double crowding)
{
    const weiri_net_shape shape = {16, 2, 0, crowding};
    return weiri_internode_cheapest(weiri_net_cost_of(WEIR_TRANSPORT_TCP), shape, collective,
                                    512 << 10)
        ->info.name;
}

/* Where ranks share cores, their work counts rather than the latencies on the longest path. */
static void check_crowded(void **unused)
{
    (void)unused;
    assert_string_equal(cheapest(WEIR_COLL_ALLGATHER, 1), "rails");
    assert_string_equal(cheapest(WEIR_COLL_REDUCE_SCATTER, 1), "rails");
    assert_string_equal(cheapest(WEIR_COLL_BROADCAST, 1), "scatter");
    assert_string_equal(cheapest(WEIR_COLL_ALLGATHER, 16), "bruck");
    assert_string_equal(cheapest(WEIR_COLL_REDUCE_SCATTER, 16), "halving");
    assert_string_equal(cheapest(WEIR_COLL_BROADCAST, 16), "binomial");
    assert_string_equal(cheapest(WEIR_COLL_BROADCAST, 0), "scatter");
}

/* On more nodes than the tuning table has rows for, an algorithm without a form is never selected.
 * The sizes of alltoallv and sendrecv are not those of all ranks, so these have none. */
static void check_forms(void **unused)
{
    (void)unused;
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    const weiri_net_shape shape = {16, 2, 0, 1};
    for (size_t i = 0; i < rows; i++) {
        const weir_algo_info *row = &list[i];
        if (row->backend != WEIR_ALGO_INTERNODE || row->collective == WEIR_COLL_ALLTOALLV ||
            row->collective == WEIR_COLL_SENDRECV)
            continue;
        const double us = weiri_internode_cost_us(weiri_net_cost_of(WEIR_TRANSPORT_TCP), shape,
                                                  row->collective, row->name, 1024);
        if (!isfinite(us))
            fail_msg("%s of %s has no form in coll/internode/cost.c", row->name,
                     weir_collective_name(row->collective));
    }
}

/* The algorithm that serves an alltoall of so many bytes. */
static const char *selected_alltoall(weir_comm *comm, const layout *where, size_t bytes,
                                     int *failures)
{
    char *in = calloc(bytes, 1), *out = calloc(bytes, 1);
    EXPECT_OK(failures,
              weir_alltoall(comm, in, out, bytes / (size_t)ranks_of(where), WEIR_UINT8, NULL));
    free(in);
    free(out);
    return weir_comm_last_algo(comm);
}

/* Where ranks of a node share a core, a message for each pair costs so much that the leaders'
 * messages serve longer calls; a node of one rank has nothing to gather. */
static int check_shared_rows(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0, has_leaders = where->nnodes < ranks_of(where);
    share_a_core(&failures);
    weir_comm *comm = open_internode(boot, where);
    EXPECT(&failures, comm && comm->crowding == ranks_of(where));
    if (!comm)
        return failures;
    const char *word = selected_alltoall(comm, where, 64 << 10, &failures);
    EXPECT(&failures, strcmp(word, has_leaders ? "packet" : "pairs") == 0);
    word = selected_alltoall(comm, where, 128 << 10, &failures);
    EXPECT(&failures, strcmp(word, "pairs") == 0);
    word = selected(comm, 16 << 10, &failures);
    EXPECT(&failures, strcmp(word, has_leaders ? "packet" : "rails") == 0);
    word = selected(comm, 32 << 10, &failures);
    EXPECT(&failures, strcmp(word, "rails") == 0);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    weir_comm_destroy(comm);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("the cost model counts work where ranks share cores", check_crowded, NULL),
        AT("the cost model has a form for every algorithm", check_forms, NULL),
        LAYOUT_RANKS_TEST("every algorithm on 1 + 1 ranks", check_algorithms, "ab", 2),
        LAYOUT_RANKS_TEST("every algorithm on 2 + 2 + 2 ranks", check_algorithms, "aabbcc", 3),
        LAYOUT_RANKS_TEST("every algorithm on interleaved ranks of 4 nodes", check_algorithms,
                          "abcddbca", 4),
        LAYOUT_RANKS_TEST("every algorithm on 1 + 2 + 1 + 3 + 1 ranks", check_algorithms,
                          "abbcddde", 5),
        LAYOUT_RANKS_TEST("every algorithm on 7 interleaved nodes", check_algorithms, "gabcdefg",
                          7),
        LAYOUT_RANKS_TEST("every algorithm on 8 nodes", check_algorithms, "abcdefgh", 8),
        LAYOUT_RANKS_TEST("every algorithm on 1 + 1 nodes, a rank of which is absent", check_absent,
                          "ab", 2),
        LAYOUT_RANKS_TEST("every algorithm on 3 nodes, a rank of which is absent", check_absent,
                          "abc", 3),
        LAYOUT_RANKS_TEST("tcp: every algorithm on 6 nodes", check_algorithms, "aabcdef", 6, "tcp"),
        LAYOUT_TEST("the cost model selects by size", check_selection, "abcdefgh", 8),
        LAYOUT_RANKS_TEST("a tuning file has the cost model's values", check_cost_lines, "abcdefgh",
                          8),
        LAYOUT_RANKS_TEST("alltoall of 2 + 2 ranks that share a core", check_shared_rows, "aabb",
                          2),
        LAYOUT_RANKS_TEST("alltoall of 1 + 1 ranks that share a core", check_shared_rows, "ab", 2),
        LAYOUT_TEST("the cost model's values are fitted to times", check_fit, "abcdefgh", 8),
        LAYOUT_TEST("doubling: another count on one rank is an error", check_mismatch, "ab", 2),
        LAYOUT_TEST("halving: another count on one rank is an error", check_mismatch, "abc", 3),
        LAYOUT_TEST("ring: another count on one rank is an error", check_mismatch, "abcd", 4),
    };
    return RUN_TESTS("algorithms across nodes", tests);
}
