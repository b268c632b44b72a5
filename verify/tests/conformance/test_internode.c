/*
 * Proves that communicators across nodes work: placement, every collective over even, ragged and
 * interleaved nodes, memory, and failures. The nodes are emulated on one: ranks with different
 * values of WEIR_HOSTID, joined by the network over shared memory (support/net_shm.c).
 */
#include "coll/coll.h"
#include "comm/internode/internode.h"
#include "verify/tests/support/internode_ranks.h"

#include <weir/target.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- placement */

static void check_places(weir_comm *comm, const layout *where, int *failures)
{
    int rank = weir_boot_rank(weir_comm_boot(comm)), mates = 0, before = 0;
    for (int other = 0; other < ranks_of(where); other++) {
        int mate = where->nodes[other] == where->nodes[rank];
        mates += mate;
        before += mate && other < rank;
        const weiri_endpoint *end = comm->internode->peers[other].endpoint;
        EXPECT(failures, mate ? !end : end && end->shares_kernel);
    }
    EXPECT(failures, weir_comm_rank(comm) == rank && weir_comm_nranks(comm) == ranks_of(where));
    EXPECT(failures, weir_comm_nnodes(comm) == where->nnodes);
    EXPECT(failures, weir_comm_local_nranks(comm) == mates);
    EXPECT(failures, weir_comm_local_rank(comm) == before);
    EXPECT(failures, weir_comm_transport(comm) == WEIR_TRANSPORT_SHM);
    EXPECT(failures, weir_comm_backend(comm) == WEIR_BACKEND_HOST);
    for (int i = 0; i < 20; i++)
        EXPECT_OK(failures, weir_comm_barrier(comm));
    EXPECT_OK(failures, weir_comm_check(comm));
}

/* ----------------------------------------------------------------- collectives */

enum { MOST = 150000 }; /* elements of a rank: several messages */

/* Element i of a rank's buffer in a round; small, so that sums are exact. */
static int32_t element(int rank, size_t i, int round)
{
    return (int32_t)((i * 7 + (size_t)rank * 13 + (size_t)round * 29) % 1000);
}

static int32_t sum_at(int nranks, size_t i, int round)
{
    int32_t sum = 0;
    for (int rank = 0; rank < nranks; rank++)
        sum += element(rank, i, round);
    return sum;
}

typedef struct buffers {
    weir_comm *comm;
    int rank, nranks, round;
    int32_t *in, *out;
    size_t count;
} buffers;

static void fill(const buffers *b, size_t elements)
{
    for (size_t i = 0; i < elements; i++)
        b->in[i] = element(b->rank, i, b->round);
    memset(b->out, 0xee, (size_t)b->nranks * b->count * sizeof *b->out);
}

static void check_reductions(const buffers *b, int *failures)
{
    size_t n = (size_t)b->nranks, wrong = 0, first = (size_t)b->rank * b->count;
    int root = b->round % b->nranks;
    fill(b, b->count);
    EXPECT_OK(failures,
              weir_allreduce(b->comm, b->in, b->out, b->count, WEIR_INT32, WEIR_SUM, NULL));
    for (size_t i = 0; i < b->count; i++)
        wrong += b->out[i] != sum_at(b->nranks, i, b->round);
    EXPECT_OK(failures,
              weir_reduce(b->comm, b->in, b->out, b->count, WEIR_INT32, WEIR_AVG, root, NULL));
    for (size_t i = 0; b->rank == root && i < b->count; i++)
        wrong += b->out[i] != sum_at(b->nranks, i, b->round) / b->nranks;
    fill(b, n * b->count);
    EXPECT_OK(failures, weir_reduce_scatter(b->comm, b->in, b->in + first, b->count, WEIR_INT32,
                                            WEIR_SUM, NULL));
    for (size_t i = 0; i < b->count; i++)
        wrong += b->in[first + i] != sum_at(b->nranks, first + i, b->round);
    EXPECT(failures, wrong == 0);
}

static void check_moves(const buffers *b, int *failures)
{
    size_t n = (size_t)b->nranks, wrong = 0, first = (size_t)b->rank * b->count;
    int root = b->round % b->nranks;
    fill(b, n * b->count);
    EXPECT_OK(failures, weir_allgather(b->comm, b->in, b->out, b->count, WEIR_INT32, NULL));
    for (size_t i = 0; i < n * b->count; i++)
        wrong += b->out[i] != element((int)(i / b->count), i % b->count, b->round);
    EXPECT_OK(failures, weir_alltoall(b->comm, b->in, b->out, b->count, WEIR_INT32, NULL));
    for (size_t i = 0; i < n * b->count; i++)
        wrong += b->out[i] != element((int)(i / b->count), first + i % b->count, b->round);
    EXPECT_OK(failures, weir_broadcast(b->comm, b->rank == root ? b->in : NULL, b->out, b->count,
                                       WEIR_INT32, root, NULL));
    for (size_t i = 0; i < b->count; i++)
        wrong += b->out[i] != element(root, i, b->round);
    int to = (b->rank + 1) % b->nranks, from = (b->rank + b->nranks - 1) % b->nranks;
    EXPECT_OK(failures, weir_sendrecv(b->comm, b->in, b->count, to, b->out, b->count, from,
                                      WEIR_INT32, NULL));
    for (size_t i = 0; i < b->count; i++)
        wrong += b->out[i] != element(from, i, b->round);
    EXPECT(failures, wrong == 0);
}

/* Rank r sends rank p (r + p) % 3 * count / 3 elements. */
static void check_alltoallv(const buffers *b, int *failures)
{
    size_t counts[2][MOST_RANKS], displs[2][MOST_RANKS], wrong = 0;
    fill(b, (size_t)b->nranks * b->count);
    for (int peer = 0; peer < b->nranks; peer++) {
        counts[0][peer] = counts[1][peer] = (size_t)((b->rank + peer) % 3) * b->count / 3;
        displs[0][peer] = displs[1][peer] = (size_t)peer * b->count;
    }
    EXPECT_OK(failures, weir_alltoallv(b->comm, b->in, counts[0], displs[0], b->out, counts[1],
                                       displs[1], WEIR_INT32, NULL));
    for (int peer = 0; peer < b->nranks; peer++)
        for (size_t i = 0; i < counts[1][peer]; i++)
            wrong += b->out[displs[1][peer] + i] !=
                     element(peer, (size_t)b->rank * b->count + i, b->round);
    EXPECT(failures, wrong == 0);
}

/* Lets the ranks of a node of two trade their slots (coll.h) although they may outnumber the cores,
 * where ranks do not. */
static void let_node_trade(weir_comm *comm, int *failures)
{
    weiri_coll *host = NULL;
    EXPECT_OK(failures, weiri_coll_get(comm->host_comm, &host));
    if (host)
        host->trades = host->nranks == 2;
}

static int check_collectives(weir_boot *boot, void *argument)
{
    static const size_t counts[] = {1, 3, 100, 5000, 40001, MOST};
    const layout *where = argument;
    int failures = 0;
    weir_comm *comm = open_internode(boot, where);
    if (!comm)
        return NO_COMM;
    let_node_trade(comm, &failures);
    size_t bytes = (size_t)ranks_of(where) * MOST * sizeof(int32_t);
    weir_mem *in = NULL, *out = NULL;
    EXPECT_OK(&failures, weir_mem_alloc(comm, bytes, &in));
    EXPECT_OK(&failures, weir_mem_alloc(comm, bytes, &out));
    buffers b = {comm, weir_comm_rank(comm), weir_comm_nranks(comm), 0, NULL, NULL, 0};
    for (int round = 0; round < 6 && !failures; round++) {
        /* Registered and unregistered memory in alternation. */
        int32_t *unregistered = malloc(2 * bytes);
        b.in = round % 2 ? unregistered : weir_mem_pointer(in);
        b.out = round % 2 ? unregistered + bytes / sizeof *b.out : weir_mem_pointer(out);
        b.round = round;
        b.count = counts[round];
        for (int again = 0; again < (round < 4 ? 12 : 1) && !failures; again++) {
            check_reductions(&b, &failures);
            check_moves(&b, &failures);
            check_alltoallv(&b, &failures);
        }
        free(unregistered);
    }
    weir_mem_free(in);
    weir_mem_free(out);
    weir_comm_destroy(comm);
    EXPECT(&failures, standin.pins == 0 && !where->gpus == !standin.late);
    return failures;
}

/* With this many ranks a message between nodes has no word for each pair: one round of small
 * sizes. */
static void check_crowd(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    static int32_t in[64 * 3], out[64 * 3];
    const buffers b = {comm, weir_comm_rank(comm), weir_comm_nranks(comm), 0, in, out, 3};
    check_reductions(&b, failures);
    check_moves(&b, failures);
}

/* --------------------------------------------------------------- memory, errors */

static void check_memory(weir_comm *comm, const layout *where, int *failures)
{
    int rank = weir_comm_rank(comm), n = ranks_of(where), seen = 0;
    weir_mem *mine = NULL, *all[MOST_RANKS];
    EXPECT_OK(failures, weir_mem_alloc(comm, 4096, &mine));
    EXPECT_OK(failures, weir_mem_write(mine, 100, &rank, sizeof rank));
    EXPECT_OK(failures, weir_mem_exchange(comm, mine, all));
    for (int peer = 0; peer < n && !*failures; peer++) {
        int mate = where->nodes[peer] == where->nodes[rank];
        EXPECT(failures, (weir_mem_pointer(all[peer]) != NULL) == mate);
        EXPECT(failures, weir_mem_read(all[peer], 100, &seen, sizeof seen) ==
                             (mate ? WEIR_OK : WEIR_ERR_UNSUPPORTED));
        EXPECT(failures, !mate || seen == peer);
    }
    for (int peer = 0; peer < n && !*failures; peer++)
        if (peer != rank)
            weir_mem_free(all[peer]);
    weir_comm_barrier(comm);
    weir_mem_free(mine);
}

/* What fails among the ranks of a node names them by their numbers in the job. */
static void check_numbers(weir_comm *comm, const layout *where, int *failures)
{
    weir_comm *node = comm->host_comm;
    const int own = weir_comm_rank(comm);
    char text[64];
    (void)where;
    EXPECT(failures, weiri_comm_fail_aborted(node, "a call") == WEIR_ERR_ABORTED);
    snprintf(text, sizeof text, "rank %d: a call: the communicator was aborted", own);
    EXPECT(failures, boot_last_error_has(text));
    EXPECT(failures,
           weiri_region_map(node, node->rank, (weiri_desc){.generation = 0}) == WEIR_ERR_INVALID);
    snprintf(text, sizeof text, "rank %d has no region", own);
    EXPECT(failures, boot_last_error_has(text));
}

/* The last rank aborts, which ends the waits of all others. It aborts when all have left the first
 * barrier, since a call during which the communicator is aborted fails. */
static void check_abort(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    EXPECT_OK(failures, weir_comm_barrier(comm));
    EXPECT_OK(failures, weir_boot_barrier(weir_comm_boot(comm)));
    if (weir_comm_rank(comm) == weir_comm_nranks(comm) - 1) {
        weir_comm_abort(comm);
    } else {
        double start_s = now_s();
        EXPECT(failures, weir_comm_barrier(comm) == WEIR_ERR_ABORTED);
        EXPECT(failures, now_s() - start_s < 10);
    }
}

/* The last rank dies; the others name it, and their report covers all ranks. It dies when all have
 * left the barrier: its call can return before all that it sends there has left. */
static int check_death(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0, last = ranks_of(where) - 1;
    char text[8192], named[64];
    pid_t pids[MOST_RANKS] = {0};
    weir_comm *comm = open_internode(boot, where);
    if (!comm)
        return NO_COMM;
    pids[weir_comm_rank(comm)] = getpid();
    EXPECT_OK(&failures, weir_boot_allgather(boot, pids, sizeof *pids));
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (weir_comm_rank(comm) == last)
        raise(SIGKILL);
    int32_t one = 1, sum = 0;
    EXPECT(&failures,
           weir_allreduce(comm, &one, &sum, 1, WEIR_INT32, WEIR_SUM, NULL) == WEIR_ERR_PEER);
    snprintf(named, sizeof named, "rank %d has died", last);
    EXPECT(&failures, boot_last_error_has(named));
    EXPECT(&failures, weir_comm_check(comm) != WEIR_OK);
    weir_comm_report(comm, text, sizeof text);
    snprintf(named, sizeof named, "rank %d is dead", last);
    EXPECT(&failures, strstr(text, named) != NULL);
    for (int rank = 0; rank <= last; rank++) {
        snprintf(named, sizeof named, "  rank %d (pid %d", rank, (int)pids[rank]);
        EXPECT(&failures, strstr(text, named) != NULL);
    }
    /* Every rank has the records of all others, also of ranks to which it is not connected. */
    EXPECT(&failures, !where->first_use || strstr(text, "no answer") == NULL);
    weir_comm_destroy(comm);
    return failures;
}

static void test_death(void **state)
{
    layout_test *test = *state;
    const int n = ranks_of(&test->where);
    run_ranks_killed(n, n - 1, test->body, &test->where);
}

/* Rank 0 sends to rank 1, which computes for longer than the deadline before it receives. That is
 * no failure, because rank 0 does not wait meanwhile. */
static int check_patience(weir_boot *boot, void *argument)
{
    int failures = 0;
    int32_t sent = 17, got = 0;
    setenv("WEIR_TIMEOUT_MS", "700", 1);
    weir_comm *comm = open_internode(boot, argument);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    if (weir_comm_rank(comm) == 0) {
        EXPECT_OK(&failures, weir_sendrecv(comm, &sent, 1, 1, NULL, 0, -1, WEIR_INT32, NULL));
        for (double start_s = now_s(); !failures && now_s() - start_s < 1.2;)
            EXPECT_OK(&failures, weir_comm_check(comm));
    } else {
        usleep(1300000);
        EXPECT_OK(&failures, weir_sendrecv(comm, NULL, 0, -1, &got, 1, 0, WEIR_INT32, NULL));
        EXPECT(&failures, got == sent);
    }
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    weir_comm_destroy(comm);
    return failures;
}

/* Repeated creation and destruction leaks no descriptors or mappings. */
static int repeat_create(weir_boot *boot, void *argument)
{
    int failures = 0, fds = 0, maps = 0;
    for (int round = 0; round < 40 && !failures; round++) {
        weir_comm *comm = open_internode(boot, argument);
        int32_t one = 1, sum = 0;
        EXPECT(&failures, comm != NULL);
        if (comm)
            EXPECT_OK(&failures, weir_allreduce(comm, &one, &sum, 1, WEIR_INT32, WEIR_SUM, NULL));
        EXPECT(&failures, sum == ranks_of(argument));
        weir_comm_destroy(comm);
        if (round == 4) {
            fds = count_fds();
            maps = count_steady_maps();
        }
    }
    EXPECT(&failures, count_fds() == fds && count_steady_maps() == maps);
    return failures;
}

/* Rows of communicators whose connections are made when first used. */
#define FIRST_USE "tcp", 0, 1
#define DEATH_TEST(name, ...)                                                                      \
    AT(name, test_death, (&(layout_test){{.nodes = __VA_ARGS__}, check_death, NULL}))

int main(void)
{
    static const char crowd[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbb";
    const struct CMUnitTest tests[] = {
        LAYOUT_TEST("placement of 2 + 2 ranks", check_places, "aabb", 2),
        LAYOUT_TEST("placement of interleaved ranks of 3 nodes", check_places, "abcab", 3),
        LAYOUT_RANKS_TEST("collectives of 1 + 1 ranks", check_collectives, "ab", 2),
        LAYOUT_RANKS_TEST("collectives of 2 + 2 ranks", check_collectives, "aabb", 2),
        LAYOUT_RANKS_TEST("collectives of 1 + 3 ranks", check_collectives, "abbb", 2),
        LAYOUT_RANKS_TEST("collectives of interleaved ranks of 3 nodes", check_collectives, "abcab",
                          3),
        LAYOUT_RANKS_TEST("collectives of 1 + 2 + 3 ranks", check_collectives, "abbccc", 3),
        LAYOUT_RANKS_TEST("tcp: collectives of 4 nodes of one rank", check_collectives, "abcd", 4,
                          "tcp"),
        LAYOUT_TEST("small collectives of 40 + 22 ranks", check_crowd, crowd, 2),
        LAYOUT_RANKS_TEST("collectives of 2 + 2 ranks with GPUs", check_collectives, "aabb", 2,
                          NULL, 1),
        LAYOUT_RANKS_TEST("collectives of interleaved ranks with GPUs", check_collectives, "abcab",
                          3, NULL, 1),
        LAYOUT_RANKS_TEST("tcp: collectives of 1 + 2 + 3 ranks with GPUs", check_collectives,
                          "abbccc", 3, "tcp", 1),
        LAYOUT_TEST("memory of other nodes cannot be accessed", check_memory, "abcab", 3),
        LAYOUT_TEST("failures within a node name ranks of the job", check_numbers, "abcab", 3),
        LAYOUT_TEST("an abort reaches the other node", check_abort, "abbb", 2),
        LAYOUT_TEST("an abort reaches all of 3 nodes", check_abort, "abbccc", 3),
        DEATH_TEST("a dead rank is named on both nodes", "aabb", 2),
        DEATH_TEST("a dead rank is named on all of 3 nodes", "abbccc", 3),
        DEATH_TEST("tcp: a dead rank is named on all of 6 nodes", "abcdef", 6, "tcp"),
        LAYOUT_RANKS_TEST("shm: a rank that computes past the deadline is not reported as dead",
                          check_patience, "ab", 2),
        LAYOUT_RANKS_TEST("tcp: a rank that computes past the deadline is not reported as dead",
                          check_patience, "ab", 2, "tcp"),
        LAYOUT_RANKS_TEST("40 communicators leak nothing", repeat_create, "aabb", 2),
        LAYOUT_RANKS_TEST("first use: collectives of 2 + 2 ranks", check_collectives, "aabb", 2,
                          FIRST_USE),
        LAYOUT_RANKS_TEST("first use: collectives of interleaved ranks of 3 nodes",
                          check_collectives, "abcab", 3, FIRST_USE),
        LAYOUT_RANKS_TEST("first use: collectives of 1 + 2 + 3 ranks", check_collectives, "abbccc",
                          3, FIRST_USE),
        LAYOUT_RANKS_TEST("first use: collectives of 5 nodes of one rank", check_collectives,
                          "abcde", 5, FIRST_USE),
        LAYOUT_RANKS_TEST("first use: collectives of 1 + 2 + 3 ranks with GPUs", check_collectives,
                          "abbccc", 3, "tcp", 1, 1),
        LAYOUT_TEST("first use: small collectives of 40 + 22 ranks", check_crowd, crowd, 2,
                    FIRST_USE),
        LAYOUT_TEST("first use: an abort reaches all of 3 nodes", check_abort, "abbccc", 3,
                    FIRST_USE),
        DEATH_TEST("first use: a dead rank is named on both nodes", "aabb", 2, FIRST_USE),
        DEATH_TEST("first use: a dead rank is named on all of 3 nodes", "abbccc", 3, FIRST_USE),
        DEATH_TEST("first use: a dead rank is named on all of 6 nodes", "abcdef", 6, FIRST_USE),
        LAYOUT_RANKS_TEST("first use: a rank that computes past the deadline is not dead",
                          check_patience, "ab", 2, FIRST_USE),
        LAYOUT_RANKS_TEST("first use: 40 communicators leak nothing", repeat_create, "aabb", 2,
                          FIRST_USE),
    };
    return RUN_TESTS("across nodes", tests);
}
