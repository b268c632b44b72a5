/*
 * Proves that jobs of more ranks than cores work: every host algorithm of every collective with
 * 100, 129 and 256 ranks, and every algorithm across 16 and 64 emulated nodes over tcp; and that a
 * lost rank ends all others in time, with a report that names it and that stays short. Most of them
 * run only if TEST_LONG is 1. An argument selects tests by a pattern.
 */
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/long_part.h"

#include "comm/comm.h"

#include <signal.h>
#include <sys/resource.h>

enum {
    RANKS_MOST = 256,
    SHORT_MS = 1000,
    NODES_MS = 5000,
    LIMIT_LONG_MS = 240000,
    EXTRA_S = 5,
    TEXT_BYTES = 65536
};

/* Ends the test unless all ranks but one (-1: all) have ended with code 0. */
static void run_many(int nranks, ranks_body *body, void *argument, int lost)
{
    int codes[RANKS_MOST];
    assert_int_equal(weir_boot_fork_run(nranks, body, argument, LIMIT_LONG_MS, codes), WEIR_OK);
    for (int rank = 0; rank < nranks; rank++)
        if (rank != lost && codes[rank] != 0)
            fail_msg("rank %d of %d ended with %d", rank, nranks, codes[rank]);
}

/* ----------------------------------------------------------- collectives */

typedef struct buffers {
    weir_comm *comm;
    int rank, n, *in, *out;
    size_t count;
} buffers;

static int value_of(int rank, size_t i)
{
    return rank * 1009 + (int)i * 7 + 1;
}

/* The expected element i of block b of an output; 0 if the rank has no output. */
static int expected_value(const buffers *b, const weir_call *call, size_t block, size_t i)
{
    int sum = 0;
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
    case WEIR_COLL_REDUCE:
    case WEIR_COLL_REDUCE_SCATTER:
        for (int rank = 0; rank < b->n; rank++)
            sum += value_of(rank, call->collective == WEIR_COLL_REDUCE_SCATTER
                                      ? (size_t)b->rank * b->count + i
                                      : i);
        return sum;
    case WEIR_COLL_ALLGATHER:
        return value_of((int)block, i);
    case WEIR_COLL_ALLTOALL:
    case WEIR_COLL_ALLTOALLV:
        return value_of((int)block, (size_t)b->rank * b->count + i);
    case WEIR_COLL_BROADCAST:
        return value_of(call->root, i);
    default:
        return value_of((b->rank + b->n - 1) % b->n, i); /* sendrecv */
    }
}

static int has_blocks(weir_collective collective)
{
    return collective == WEIR_COLL_ALLGATHER || collective == WEIR_COLL_ALLTOALL ||
           collective == WEIR_COLL_ALLTOALLV;
}

static void check_call(const buffers *b, weir_call *call, int *failures)
{
    size_t blocks = has_blocks(call->collective) ? (size_t)b->n : 1, wrong = 0;
    for (size_t i = 0; i < (size_t)b->n * b->count; i++) {
        b->in[i] = value_of(b->rank, i);
        b->out[i] = -1;
    }
    EXPECT_OK(failures, weir_run(b->comm, call));
    if (call->collective == WEIR_COLL_REDUCE && b->rank != call->root)
        return;
    for (size_t block = 0; block < blocks; block++)
        for (size_t i = 0; i < b->count; i++)
            wrong += b->out[block * b->count + i] != expected_value(b, call, block, i);
    if (wrong)
        fprintf(stderr, "# rank %d of %d, %s %s: %zu elements are wrong\n", b->rank, b->n,
                weir_collective_name(call->collective), call->algo_name, wrong);
    EXPECT(failures, wrong == 0);
}

static void check_algos(const buffers *b, const weir_splits *splits, int *failures)
{
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (list[i].backend != weir_comm_algo_backend(b->comm))
            continue;
        weir_call call = WEIR_CALL_INIT;
        call.collective = list[i].collective;
        call.algo_name = list[i].name;
        call.dtype = WEIR_INT32;
        call.in = b->in;
        call.out = b->out;
        call.count = call.recv_count = b->count;
        call.root = b->n / 2;
        call.splits = call.collective == WEIR_COLL_ALLTOALLV ? splits : NULL;
        if (call.collective == WEIR_COLL_SENDRECV) {
            call.destination = (b->rank + 1) % b->n;
            call.source = (b->rank + b->n - 1) % b->n;
        }
        check_call(b, &call, failures);
    }
}

static void every_algorithm(weir_comm *comm, int *failures)
{
    static const size_t counts[] = {1, 53};
    size_t n = (size_t)weir_comm_nranks(comm);
    weir_mem *mem[2] = {NULL, NULL};
    size_t *numbers = calloc(2 * n, sizeof *numbers);
    for (int i = 0; i < 2; i++) {
        size_t bytes = n * counts[i] * sizeof(int);
        EXPECT_OK(failures, weir_mem_alloc(comm, bytes, &mem[0]));
        EXPECT_OK(failures, weir_mem_alloc(comm, bytes, &mem[1]));
        if (*failures)
            return;
        const buffers b = {comm,
                           weir_comm_rank(comm),
                           (int)n,
                           weir_mem_pointer(mem[0]),
                           weir_mem_pointer(mem[1]),
                           counts[i]};
        for (size_t peer = 0; peer < n; peer++) {
            numbers[peer] = counts[i];
            numbers[n + peer] = peer * counts[i];
        }
        const weir_splits splits = {numbers, numbers + n, numbers, numbers + n};
        check_algos(&b, &splits, failures);
        EXPECT_OK(failures, weir_comm_barrier(comm));
        weir_mem_free(mem[0]);
        weir_mem_free(mem[1]);
    }
    free(numbers);
}

static int run_every_algorithm(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    every_algorithm(comm, &failures);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_every_algorithm(void **state)
{
    run_many(*(int *)*state, run_every_algorithm, NULL, -1);
}

typedef struct nodes {
    int count, each;     /* emulated nodes, and ranks of each */
    const char *connect; /* when they connect: all, first-use */
} nodes;

/* Each node is emulated by its WEIR_HOSTID; between nodes data go through sockets of this host. */
static void emulate_node(const weir_boot *boot, int each, const char *connect)
{
    char name[32];
    snprintf(name, sizeof name, "scale-%d", weir_boot_rank(boot) / each);
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    setenv("WEIR_SOCKET_IFNAME", "lo", 1);
    setenv("WEIR_CONNECT", connect, 1);
}

static int run_on_nodes(weir_boot *boot, void *argument)
{
    const nodes *of = argument;
    emulate_node(boot, of->each, of->connect);
    return run_every_algorithm(boot, NULL);
}

static void test_nodes(void **state)
{
    nodes *of = *state;
    run_many(of->count * of->each, run_on_nodes, of, -1);
}

/* ----------------------------------------------------------- a lost rank */

typedef struct loss {
    int rank, silent; /* the rank that is killed, or stays away from the call */
    int nranks, each; /* ranks, and ranks of a node; 0: all are on one, and wait for the lost one */
    int timeout_ms;
} loss;

/* The report names the rank, and stays short. On several nodes many ranks wait for ranks that wait,
 * and their records come from other nodes. */
static void check_report(const loss *of, const char *text, int *failures)
{
    char waits[64], dead[64];
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    snprintf(waits, sizeof waits, "  ranks 0-%d wait for rank %d\n", of->rank - 1, of->rank);
    snprintf(dead, sizeof dead, "): rank %d is dead", of->rank);
    EXPECT(failures, of->each || strstr(text, waits) != NULL);
    EXPECT(failures, of->silent || strstr(text, dead) != NULL);
    EXPECT(failures, !of->each || strstr(text, "; waits in allreduce for rank ") != NULL);
    EXPECT(failures, lines < (of->each ? 54 : 10));
    if (*failures)
        fprintf(stderr, "%s", text);
}

static int lose_last(weir_boot *boot, void *argument)
{
    const loss *of = argument;
    int rank = weir_boot_rank(boot), failures = 0;
    float value = 1;
    static char text[TEXT_BYTES];
    if (of->each)
        emulate_node(boot, of->each, "first-use");
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, of->timeout_ms);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_allreduce(comm, &value, &value, 1, WEIR_FLOAT, WEIR_SUM, NULL));
    if (rank == of->rank && !of->silent)
        raise(SIGKILL);
    if (rank == of->rank) {
        usleep((useconds_t)(of->timeout_ms + 6000) * 1000);
        _exit(0);
    }
    double start_s = now_s();
    weir_status status = weir_allreduce(comm, &value, &value, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    EXPECT(&failures, of->silent ? status != WEIR_OK : status == WEIR_ERR_PEER);
    EXPECT(&failures, now_s() - start_s < of->timeout_ms / 1000.0 + EXTRA_S);
    if (rank == 0) {
        EXPECT(&failures, weir_comm_report(comm, text, sizeof text) < (int)sizeof text);
        check_report(of, text, &failures);
    }
    weir_comm_destroy(comm);
    return failures;
}

static void test_lost_rank(void **state)
{
    const loss *of = *state;
    run_many(of->nranks, lose_last, *state, of->rank);
}

/* ---------------------------------------------------- not enough descriptors */

static int nothing(weir_boot *boot, void *argument)
{
    (void)boot, (void)argument;
    return 0;
}

static int start_with_few_descriptors(weir_boot *boot, void *argument)
{
    (void)boot, (void)argument;
    int failures = 0;
    const struct rlimit few = {200, 200};
    EXPECT(&failures, setrlimit(RLIMIT_NOFILE, &few) == 0);
    EXPECT(&failures, weir_boot_fork_run(256, nothing, NULL, LIMIT_MS, NULL) == WEIR_ERR_SYSTEM);
    EXPECT(&failures, boot_last_error_has("256 forked ranks need 512 open files, 200 are allowed"));
    return failures;
}

static void test_few_descriptors(void **state)
{
    (void)state;
    run_many(1, start_with_few_descriptors, NULL, -1);
}

int main(int argc, char **argv)
{
    static int n65 = 65, n100 = 100, n129 = 129, n256 = 256;
    static loss last = {255, 0, 256, 0, SHORT_MS}, late = {255, 1, 256, 0, SHORT_MS};
    static loss member = {125, 0, 128, 8, NODES_MS}, leader = {120, 0, 128, 8, NODES_MS};
    static loss alone = {63, 0, 64, 1, NODES_MS}, late_alone = {40, 1, 64, 1, NODES_MS};
    enum { LONG = 13 }; /* the last ones */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_descriptors),
        AT("every algorithm with 65 ranks", test_every_algorithm, &n65),
        AT("every algorithm across 12 nodes with a rank each", test_nodes,
           (&(nodes){12, 1, "all"})),
        AT("first use: every algorithm across 12 nodes with a rank each", test_nodes,
           (&(nodes){12, 1, "first-use"})),
        AT("every algorithm with 100 ranks", test_every_algorithm, &n100),
        AT("every algorithm with 129 ranks", test_every_algorithm, &n129),
        AT("every algorithm with 256 ranks", test_every_algorithm, &n256),
        AT("every algorithm across 16 nodes with 8 ranks each", test_nodes,
           (&(nodes){16, 8, "all"})),
        AT("every algorithm across 64 nodes with a rank each", test_nodes,
           (&(nodes){64, 1, "all"})),
        AT("first use: every algorithm across 16 nodes with 8 ranks each", test_nodes,
           (&(nodes){16, 8, "auto"})),
        AT("first use: every algorithm across 64 nodes with a rank each", test_nodes,
           (&(nodes){64, 1, "first-use"})),
        AT("a killed rank of 256 ends all, and is reported", test_lost_rank, &last),
        AT("a late rank of 256 is reported at the deadline", test_lost_rank, &late),
        AT("first use: a killed rank of 16 nodes is reported", test_lost_rank, &member),
        AT("first use: a killed leader of 16 nodes is reported", test_lost_rank, &leader),
        AT("first use: a killed rank of 64 nodes is reported", test_lost_rank, &alone),
        AT("first use: a late rank of 64 nodes is reported", test_lost_rank, &late_alone),
    };
    size_t count = sizeof tests / sizeof *tests;
    if (!long_part("100 to 256 ranks, 16 and 64 nodes, a lost rank of 256"))
        count -= LONG;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("scale", tests, count, NULL, NULL);
}
