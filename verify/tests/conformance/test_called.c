/*
 * Proves that ranks that call different collectives, or with another type, count, operation or
 * root, are named with both calls on every rank (WEIR_CHECK): on one node and on several, whichever
 * rank it is, whether the calls would wait for each other or not; that a report names them; and
 * that calls that may differ raise nothing.
 */
#define _GNU_SOURCE
#include "verify/tests/support/internode_ranks.h"
#include "verify/tests/support/long_part.h"

#include "comm/called.h"

enum { ELEMENTS = 12, LONG_ELEMENTS = 20000, RIGHT_CALLS = 3, DEADLINE_MS = 20000 };

/* A call, and the call that one rank makes instead. */
typedef struct planted {
    const char *name;
    weir_call right, wrong;
    const char *right_text, *wrong_text; /* with ELEMENTS */
} planted;

#define CALL(kind, type, elements, operation, at)                                                  \
    {                                                                                              \
        .collective = WEIR_COLL_##kind, .dtype = WEIR_##type, .count = (elements),                 \
        .op = WEIR_##operation, .root = (at)                                                       \
    }

static const planted all_planted[] = {
    {"collective", CALL(ALLREDUCE, FLOAT, ELEMENTS, SUM, 0),
     CALL(ALLGATHER, FLOAT, ELEMENTS, SUM, 0), "allreduce float 12 sum", "allgather float 12"},
    {"collective that waits for less", CALL(ALLGATHER, FLOAT, ELEMENTS, SUM, 0),
     CALL(BROADCAST, FLOAT, ELEMENTS, SUM, 1), "allgather float 12", "broadcast float 12 root 1"},
    {"pairwise collective", CALL(ALLTOALL, FLOAT, ELEMENTS, SUM, 0),
     CALL(REDUCE_SCATTER, FLOAT, ELEMENTS, SUM, 0), "alltoall float 12",
     "reduce_scatter float 12 sum"},
    {"type", CALL(ALLREDUCE, FLOAT, ELEMENTS, SUM, 0), CALL(ALLREDUCE, INT32, ELEMENTS, SUM, 0),
     "allreduce float 12 sum", "allreduce int32 12 sum"},
    {"count", CALL(ALLGATHER, FLOAT, ELEMENTS, SUM, 0), CALL(ALLGATHER, FLOAT, 6, SUM, 0),
     "allgather float 12", "allgather float 6"},
    {"operation", CALL(ALLREDUCE, FLOAT, ELEMENTS, SUM, 0),
     CALL(ALLREDUCE, FLOAT, ELEMENTS, MAX, 0), "allreduce float 12 sum", "allreduce float 12 max"},
    {"root", CALL(BROADCAST, FLOAT, ELEMENTS, SUM, 0), CALL(BROADCAST, FLOAT, ELEMENTS, SUM, 1),
     "broadcast float 12 root 0", "broadcast float 12 root 1"},
    {"root of a reduction", CALL(REDUCE, FLOAT, ELEMENTS, SUM, 0),
     CALL(REDUCE, FLOAT, ELEMENTS, SUM, 1), "reduce float 12 sum root 0",
     "reduce float 12 sum root 1"},
};
enum { PLANTED = sizeof all_planted / sizeof *all_planted };

typedef struct plant {
    const planted *what;
    const layout *where; /* NULL: one node */
    int bad;             /* the rank that calls wrongly */
    int is_long;         /* LONG_ELEMENTS instead of ELEMENTS */
} plant;

static weir_status run(weir_comm *comm, weir_call call, int is_long, char *buffers, size_t bytes)
{
    call.size = sizeof call;
    call.destination = call.source = -1;
    call.in = buffers;
    call.out = buffers + bytes;
    if (is_long)
        call.count = call.count == ELEMENTS ? LONG_ELEMENTS : LONG_ELEMENTS / 2;
    return weir_run(comm, &call);
}

static weir_comm *open_planted(weir_boot *boot, const layout *where)
{
    setenv("WEIR_CHECK", "1", 1);
    setenv("WEIR_TIMEOUT_MS", "20000", 1);
    weir_comm *comm =
        where ? open_internode(boot, where) : open_comm_with(boot, WEIR_BACKEND_HOST, DEADLINE_MS);
    if (comm && comm->gpu_comm) /* a stand-in, which was attached later */
        comm->gpu_comm->await_calls = weiri_called_await;
    return comm;
}

/* The number that the text of a long call has instead. */
static void expected_text(char *text, size_t size, const char *of, int is_long)
{
    const char *count = strstr(of, is_long ? " 12" : "none");
    const char *half = strstr(of, is_long ? " 6" : "none");
    const char *at = count ? count : half;
    if (at)
        snprintf(text, size, "%.*s %d%s", (int)(at - of), of,
                 count ? LONG_ELEMENTS : LONG_ELEMENTS / 2, at + (count ? 3 : 2));
    else
        snprintf(text, size, "%s", of);
}

/* Makes some right calls, the planted one, and right ones until an error. */
static int one_rank_differs(weir_boot *boot, void *argument)
{
    const plant *p = argument;
    int failures = 0;
    weir_comm *comm = open_planted(boot, p->where);
    if (!comm)
        return NO_COMM;
    const int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm);
    const size_t bytes = sizeof(float) * LONG_ELEMENTS * (size_t)n;
    char *buffers = calloc(2, bytes), right[96], wrong[96], first[256], second[256],
         error[512] = "";
    const double start_s = now_s();
    weir_status status = WEIR_OK;
    for (int i = 0; i < 2 * RIGHT_CALLS && status == WEIR_OK; i++) {
        const int is_wrong = i == RIGHT_CALLS && rank == p->bad;
        status = run(comm, is_wrong ? p->what->wrong : p->what->right, p->is_long, buffers, bytes);
    }
    snprintf(error, sizeof error, "%s", weir_last_error());
    const weir_status destroyed = weir_comm_destroy(comm);
    if (status == WEIR_OK) {
        status = destroyed;
        snprintf(error, sizeof error, "%s", weir_last_error());
    }
    expected_text(right, sizeof right, p->what->right_text, p->is_long);
    expected_text(wrong, sizeof wrong, p->what->wrong_text, p->is_long);
    snprintf(first, sizeof first, "rank %d calls %s as its 4th call, rank ", p->bad, wrong);
    snprintf(second, sizeof second, "%s as its 4th call, rank %d %s", right, p->bad, wrong);
    EXPECT(&failures, status == WEIR_ERR_MISMATCH);
    EXPECT(&failures, strstr(error, first) || strstr(error, second));
    EXPECT(&failures, strstr(error, wrong) && strstr(error, right));
    EXPECT(&failures, now_s() - start_s < 15); /* before the deadline, on a busy machine too */
    if (failures)
        fprintf(stderr, "# rank %d: %s, long %d, planted on rank %d: status %d: %s\n", rank,
                p->what->name, p->is_long, p->bad, (int)status, error);
    free(buffers);
    return failures;
}

static void plant_everywhere(int nranks, const layout *where)
{
    const int is_whole = long_part("short or long calls, in turn, of each kind on each rank");
    for (int what = 0; what < PLANTED; what++)
        for (int bad = 0; bad < nranks; bad++)
            for (int is_long = is_whole ? 0 : (what + bad) % 2; is_long < 2;
                 is_long += is_whole ? 1 : 2)
                run_ranks(nranks, one_rank_differs,
                          &(plant){&all_planted[what], where, bad, is_long});
}

static void test_node(void **state)
{
    plant_everywhere(*(const int *)*state, NULL);
}

static void test_nodes(void **state)
{
    const layout *where = *state;
    plant_everywhere(ranks_of(where), where);
}

/* Each rank takes itself for the root of a broadcast: none of them receives, and the later one is
 * told at its call. */
static int all_are_roots(weir_boot *boot, void *argument)
{
    int failures = 0;
    float data[ELEMENTS] = {0};
    weir_comm *comm = open_planted(boot, argument);
    if (!comm)
        return NO_COMM;
    const int rank = weir_comm_rank(comm);
    if (rank == 0)
        EXPECT_OK(&failures, weir_broadcast(comm, data, data, ELEMENTS, WEIR_FLOAT, rank, NULL));
    weir_boot_barrier(boot);
    if (rank == 1)
        EXPECT(&failures, weir_broadcast(comm, data, data, ELEMENTS, WEIR_FLOAT, rank, NULL) ==
                              WEIR_ERR_MISMATCH);
    EXPECT(&failures,
           rank != 1 || boot_last_error_has("rank 0 calls broadcast float 12 root 0 as its 1st "
                                            "call, rank 1 broadcast float 12 root 1"));
    weir_boot_barrier(boot);
    if (rank == 0)
        EXPECT(&failures, weir_broadcast(comm, data, data, ELEMENTS, WEIR_FLOAT, rank, NULL) ==
                              WEIR_ERR_MISMATCH);
    EXPECT(&failures, weir_comm_destroy(comm) == WEIR_ERR_MISMATCH);
    return failures;
}

/* ------------------------------------------------------------- calls that may differ */

static void legal_calls(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm);
    float in[64] = {0}, out[64];
    size_t counts[8] = {0}, back[8] = {0}, at[8] = {0};
    for (int peer = 0; peer < n; peer++) { /* rank r sends r + 1 elements to each */
        counts[peer] = (size_t)rank + 1;
        back[peer] = (size_t)peer + 1;
        at[peer] = (size_t)peer * 8;
    }
    for (int i = 0; i < 40; i++) {
        EXPECT_OK(failures, weir_alltoallv(comm, in, counts, at, out, back, at, WEIR_FLOAT, NULL));
        EXPECT_OK(failures, weir_sendrecv(comm, in, rank == 0 ? 3 : 0, rank == 0 ? 1 : -1, out,
                                          rank == 1 ? 3 : 0, rank == 1 ? 0 : -1, WEIR_FLOAT, NULL));
        if (rank % 2) /* no elements: no call of the others */
            EXPECT_OK(failures, weir_allreduce(comm, in, out, 0, WEIR_FLOAT, WEIR_SUM, NULL));
        EXPECT_OK(failures,
                  weir_allreduce(comm, rank ? in : out, out, 4, WEIR_FLOAT, WEIR_SUM, NULL));
        EXPECT_OK(failures, weir_broadcast(comm, in, out, 4, WEIR_FLOAT, i % n, NULL));
    }
    EXPECT_OK(failures, weir_comm_check(comm));
}

static int legal(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_comm *comm = open_planted(boot, argument);
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, comm->checks);
    legal_calls(comm, &failures);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* A rank that does not check is not compared with. */
static int unchecked(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    setenv("WEIR_CHECK", weir_boot_rank(boot) == 1 ? "0" : "1", 1);
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    legal_calls(comm, &failures);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* ------------------------------------------------------------------------------ GPUs */

/* What the ranks of GPUs do on the host: they enqueue calls, each of which compares one rank's
 * earlier calls, and later check. */
static int enqueued(weir_boot *boot, void *argument)
{
    const plant *p = argument;
    int failures = 0;
    char text[256];
    weir_status status = WEIR_OK;
    weir_comm *comm = open_planted(boot, NULL);
    if (!comm)
        return NO_COMM;
    const int rank = weir_comm_rank(comm);
    for (int i = 0; i < 60 && status == WEIR_OK; i++) {
        const weir_call *call = i == 3 && rank == p->bad ? &p->what->wrong : &p->what->right;
        weiri_called_enter(comm, call, call->count);
        weiri_comm_enter(comm, call->collective);
        status = weiri_called_compare_next(comm);
    }
    weir_boot_barrier(boot);
    EXPECT(&failures, weir_comm_check(comm) == WEIR_ERR_MISMATCH);
    snprintf(text, sizeof text, "rank %d calls %s as its 4th call", p->bad, p->what->wrong_text);
    if (rank == p->bad)
        snprintf(text, sizeof text, " as its 4th call, rank %d %s", rank, p->what->wrong_text);
    EXPECT(&failures, boot_last_error_has(text));
    weir_comm_destroy(comm);
    return failures;
}

static void test_enqueued(void **state)
{
    (void)state;
    for (int what = 0; what < PLANTED; what++)
        for (int bad = 0; bad < 3; bad++)
            run_ranks(3, enqueued, &(plant){&all_planted[what], NULL, bad, 0});
}

/* -------------------------------------------------------------------------- reports */

static int reported(weir_boot *boot, void *argument)
{
    int failures = 0;
    char text[4096];
    (void)argument;
    weir_comm *comm = open_planted(boot, NULL);
    if (!comm)
        return NO_COMM;
    const int rank = weir_comm_rank(comm);
    float in[8] = {0}, out[32];
    if (rank == 2)
        EXPECT(&failures, weir_allgather(comm, in, out, 8, WEIR_FLOAT, NULL) != WEIR_OK);
    else
        EXPECT(&failures, weir_alltoall(comm, in, out, 2, WEIR_FLOAT, NULL) != WEIR_OK);
    weir_comm_report(comm, text, sizeof text);
    if (!strstr(text, "allgather float 8")) {
        fprintf(stderr, "# %s\n", text);
        failures++;
    }
    weir_comm_destroy(comm);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("calls that differ are named: 2 ranks", test_node, &(int){2}),
        AT("calls that differ are named: 4 ranks", test_node, &(int){4}),
        AT("calls that differ are named: 2 nodes of 2 ranks", test_nodes,
           (&(layout){.nodes = "aabb", .nnodes = 2})),
        AT("calls that differ are named: 3 nodes over tcp", test_nodes,
           (&(layout){.nodes = "abc", .nnodes = 3, .transport = "tcp"})),
        AT("calls that differ are named: uneven nodes over tcp", test_nodes,
           (&(layout){.nodes = "aab", .nnodes = 2, .transport = "tcp"})),
        AT("calls that differ are named: nodes with GPUs", test_nodes,
           (&(layout){.nodes = "aab", .nnodes = 2, .transport = "tcp", .gpus = 1})),
        AT("calls that differ are named: ranks that enqueue", test_enqueued, NULL),
        RANKS_TEST("ranks that are all roots are named at the call", 2, all_are_roots, NULL),
        RANKS_TEST("calls that may differ raise nothing", 4, legal, NULL),
        RANKS_TEST("calls that may differ raise nothing across nodes", 4, legal,
                   (&(layout){.nodes = "aabb", .nnodes = 2, .transport = "tcp"})),
        RANKS_TEST("a rank that does not check is not compared", 3, unchecked, NULL),
        RANKS_TEST("a report names the calls", 4, reported, NULL),
    };
    return RUN_TESTS("called", tests);
}
