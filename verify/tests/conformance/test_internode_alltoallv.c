/*
 * Proves that alltoallv across nodes is correct for short blocks, which share a message, and for
 * long ones, which do not: blocks of both kinds in one call, differing between directions and from
 * call to call; and that counts on which the two ends of a pair disagree are reported.
 */
#include "verify/tests/support/internode_ranks.h"

#include "coll/internode/bundle.h"

enum { LADDER = 7, LONG = 40000 }; /* elements: longer than a message */

typedef struct buffers {
    weir_comm *comm;
    int rank, nranks, call;
    size_t most;       /* elements of the longest block that travels together with others */
    int32_t *in, *out; /* a block of LONG for each rank */
} buffers;

static size_t most_together(weir_comm *comm)
{
    weiri_internode_coll x = {.internode = comm->internode};
    weiri_bundles bundles;
    weir_status status = weiri_coll_get(comm, &x.coll);
    if (status == WEIR_OK)
        status = weiri_coll_get(comm->host_comm, &x.host);
    if (status != WEIR_OK)
        return 0;
    weiri_bundles_init(&bundles, &x);
    return bundles.most / sizeof(int32_t);
}

/* ---------------------------------------------------------------- mixed blocks */

/* A sequence of calls: blocks of all kinds, then only the longest short ones, only long ones, only
 * empty ones. Blocks inside a node are all long, so that some nodes are ahead of others. */
static size_t count_between(const buffers *b, int from, int to)
{
    const weiri_internode *net = b->comm->internode;
    const size_t ladder[LADDER] = {0, b->most, LONG, 1, b->most + 1, b->most - 1, 17};
    const size_t last[] = {b->most, LONG, 0};
    if (net->node_of[from] == net->node_of[to])
        return from == to ? 1 : LONG;
    return b->call < LADDER ? ladder[(from * 3 + to * 5 + b->call) % LADDER]
                            : last[b->call - LADDER];
}

static int32_t element(int from, int to, size_t i, int call)
{
    return (int32_t)(((from * 64 + to) * 16 + call) * 65536 + (int)i);
}

static void fill(const buffers *b)
{
    for (int to = 0; to < b->nranks; to++)
        for (size_t i = 0; i < LONG; i++)
            b->in[(size_t)to * LONG + i] = element(b->rank, to, i, b->call);
    memset(b->out, 0xee, (size_t)b->nranks * LONG * sizeof *b->out);
}

/* Counts wrong elements, including those written after the end of a block. */
static size_t count_wrong(const buffers *b)
{
    size_t wrong = 0;
    for (int from = 0; from < b->nranks; from++) {
        const int32_t *block = b->out + (size_t)from * LONG;
        size_t count = count_between(b, from, b->rank);
        for (size_t i = 0; i < count; i++)
            wrong += block[i] != element(from, b->rank, i, b->call);
        for (size_t i = count; i < LONG; i++)
            wrong += block[i] != (int32_t)0xeeeeeeee;
    }
    return wrong;
}

static void check_call(const buffers *b, int *failures)
{
    size_t send[MOST_RANKS], receive[MOST_RANKS], displs[MOST_RANKS];
    fill(b);
    for (int peer = 0; peer < b->nranks; peer++) {
        send[peer] = count_between(b, b->rank, peer);
        receive[peer] = count_between(b, peer, b->rank);
        displs[peer] = (size_t)peer * LONG;
    }
    EXPECT_OK(failures, weir_alltoallv(b->comm, b->in, send, displs, b->out, receive, displs,
                                       WEIR_INT32, NULL));
    EXPECT(failures, count_wrong(b) == 0);
}

static void check_mixed(weir_comm *comm, const layout *where, int *failures)
{
    int n = ranks_of(where);
    int32_t *in = malloc(2 * (size_t)n * LONG * sizeof *in);
    enum { APART = 1000 }; /* in the order of a stream no blocks travel together */
    const size_t most = comm->nlanes ? APART : most_together(comm);
    buffers b = {comm, weir_comm_rank(comm), n, 0, most, in, in + n * LONG};
    EXPECT(failures, in && b.most > 1 && b.most < LONG);
    for (; b.call < LADDER + 3 && !*failures; b.call++)
        check_call(&b, failures);
    free(in);
}

/* -------------------------------------------------------------------- disputes */

/* The last rank sends the victim another count than the victim expects; all other counts agree. */
typedef struct dispute {
    int victim;
    size_t sent, expected, others; /* elements */
} dispute;

static void check_dispute(weir_comm *comm, const dispute *d, int *failures)
{
    int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm), last = n - 1;
    size_t send[MOST_RANKS], receive[MOST_RANKS], displs[MOST_RANKS];
    int32_t *in = calloc(2 * (size_t)n * LONG, sizeof *in), *out = in + n * LONG;
    char text[128];
    for (int peer = 0; peer < n; peer++) {
        send[peer] = rank == last && peer == d->victim ? d->sent : d->others;
        receive[peer] = rank == d->victim && peer == last ? d->expected : d->others;
        displs[peer] = (size_t)peer * LONG;
    }
    weir_status status =
        weir_alltoallv(comm, in, send, displs, out, receive, displs, WEIR_INT32, NULL);
    if (rank == d->victim) {
        snprintf(text, sizeof text,
                 "rank %d: in alltoallv rank %d sends %zu bytes, but %zu are expected; counts must "
                 "match pairwise",
                 rank, last, d->sent * sizeof *in, d->expected * sizeof *in);
        EXPECT(failures, status == WEIR_ERR_MISMATCH);
        EXPECT(failures, boot_last_error_has(text));
        /* In the order of a stream the call has only been enqueued, so a check has the error. */
        EXPECT(failures,
               weir_comm_check(comm) == (comm->nlanes ? WEIR_ERR_MISMATCH : WEIR_ERR_ABORTED));
    }
    free(in);
}

static int check_disputes(weir_boot *boot, void *argument)
{
    static const dispute disputes[] = {
        {0, 1, 0, 1},       {1, 0, 1, 1},          {1, LONG, 1, 1},       {0, LONG, 1, LONG},
        {1, LONG, 1, LONG}, {1, 1, LONG, LONG},    {0, 1, LONG, LONG},    {1, 1, LONG, 1},
        {1, LONG, 0, LONG}, {0, LONG, 9999, LONG}, {1, 9999, LONG, LONG},
    };
    int failures = 0;
    for (size_t i = 0; i < sizeof disputes / sizeof *disputes && !failures; i++) {
        weir_comm *comm = open_internode(boot, argument);
        if (!comm)
            return NO_COMM;
        check_dispute(comm, &disputes[i], &failures);
        weir_comm_destroy(comm);
    }
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TEST("short and long blocks of 2 + 2 ranks", check_mixed, "aabb", 2),
        LAYOUT_TEST("short and long blocks of 1 + 3 ranks", check_mixed, "abbb", 2),
        LAYOUT_TEST("short and long blocks of interleaved ranks of 3 nodes", check_mixed, "abcab",
                    3),
        LAYOUT_TEST("tcp: short and long blocks of 1 + 2 + 3 ranks", check_mixed, "abbccc", 3,
                    "tcp"),
        LAYOUT_TEST("short and long blocks of interleaved ranks with GPUs", check_mixed, "abcab", 3,
                    NULL, 1),
        LAYOUT_TEST("tcp: short and long blocks of 1 + 3 ranks with GPUs", check_mixed, "abbb", 2,
                    "tcp", 1),
        LAYOUT_TEST("tcp: short and long blocks of 3 nodes with a GPU each", check_mixed, "abc", 3,
                    "tcp", 1),
        LAYOUT_RANKS_TEST("counts that differ between nodes are reported", check_disputes, "aabb",
                          2),
        LAYOUT_RANKS_TEST("counts that differ between nodes are reported to ranks with GPUs",
                          check_disputes, "aabb", 2, NULL, 1),
        LAYOUT_RANKS_TEST("counts that differ between nodes with a GPU each are reported",
                          check_disputes, "abc", 3, "tcp", 1),
    };
    return RUN_TESTS("alltoallv across nodes", tests);
}
