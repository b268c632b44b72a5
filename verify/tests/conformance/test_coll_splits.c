/*
 * Proves that weir_alltoallv_device on the host gives correct data for splits that change, and that
 * wrong counts are reported on the rank that has them, change nothing outside of the buffers, and
 * let no rank wait until its deadline.
 */
#include "verify/tests/support/comm_ranks.h"

#include <weir/weir.h>

#include <stdlib.h>

enum { ROOM = 60000, CANARY = 0xA5 };

/* Arrays of nranks numbers. */
typedef struct splits {
    uint64_t send[MOST_RANKS], send_at[MOST_RANKS], recv[MOST_RANKS], recv_at[MOST_RANKS];
} splits;

typedef struct test_rank {
    weir_comm *comm;
    int rank, nranks;
    int32_t *in, *out;
    splits s;
} test_rank;

static int test_rank_open(test_rank *r, weir_boot *boot)
{
    memset(r, 0, sizeof *r);
    r->comm = open_comm(boot);
    r->in = malloc(ROOM * sizeof *r->in);
    r->out = malloc(ROOM * sizeof *r->out);
    r->rank = weir_boot_rank(boot);
    r->nranks = weir_boot_nranks(boot);
    return r->comm && r->in && r->out;
}

static void test_rank_close(test_rank *r)
{
    weir_comm_destroy(r->comm);
    free(r->in);
    free(r->out);
}

static uint64_t count_of(int from, int to, int round)
{
    static const uint64_t counts[] = {0, 1, 12, 13, 300, 4096, 0, 9000};
    return counts[(unsigned)(from * 7 + to * 13 + round * 29) % 8];
}

static int32_t value_of(int from, int to, int round, uint64_t i)
{
    return from * 1000003 + to * 10007 + round * 101 + (int32_t)i;
}

/* Contiguous blocks; the displacements of empty ones are arbitrary and must be ignored. */
static void make_splits(test_rank *r, int round)
{
    uint64_t sent = 0, received = 0;
    for (int peer = 0; peer < r->nranks; peer++) {
        uint64_t send = count_of(r->rank, peer, round), recv = count_of(peer, r->rank, round);
        r->s.send[peer] = send;
        r->s.recv[peer] = recv;
        r->s.send_at[peer] = send ? sent : UINT64_MAX - 3;
        r->s.recv_at[peer] = recv ? received : UINT64_MAX / 2;
        for (uint64_t i = 0; i < send; i++)
            r->in[sent + i] = value_of(r->rank, peer, round, i);
        sent += send;
        received += recv;
    }
    memset(r->out, CANARY, ROOM * sizeof *r->out);
}

static weir_status call_alltoallv(const test_rank *r, size_t out_bytes)
{
    return weir_alltoallv_device(r->comm, r->in, ROOM * sizeof *r->in, r->s.send, r->s.send_at,
                                 r->out, out_bytes, r->s.recv, r->s.recv_at, WEIR_INT32, NULL);
}

/* Counts wrong elements of the output, including those after the blocks. */
static uint64_t wrong_elements(const test_rank *r, int round)
{
    uint64_t at = 0, wrong = 0;
    int32_t canary;
    memset(&canary, CANARY, sizeof canary);
    for (int peer = 0; peer < r->nranks; peer++)
        for (uint64_t i = 0; i < r->s.recv[peer]; i++)
            wrong += r->out[at++] != value_of(peer, r->rank, round, i);
    while (at < ROOM)
        wrong += r->out[at++] != canary;
    return wrong;
}

static int splits_that_change(weir_boot *boot, void *argument)
{
    test_rank r;
    int failures = 0;
    (void)argument;
    EXPECT(&failures, test_rank_open(&r, boot));
    for (int round = 0; round < 40 && !failures; round++) {
        make_splits(&r, round);
        EXPECT(&failures, call_alltoallv(&r, ROOM * sizeof *r.out) == WEIR_OK);
        EXPECT(&failures, wrong_elements(&r, round) == 0);
    }
    test_rank_close(&r);
    return failures;
}

static void test_splits_that_change(void **state)
{
    (void)state;
    static const int nranks[] = {1, 2, 3, 5};
    for (size_t i = 0; i < sizeof nranks / sizeof *nranks; i++)
        run_ranks(nranks[i], splits_that_change, NULL);
}

/* The faults: rank 1's arrays are wrong. */
enum { SEND_BEYOND, SEND_WRAPS, RECV_BEYOND, RECV_FAR, RECV_OTHER, SELF_OTHER, FAULTS };

static const struct {
    weir_status status;
    const char *words; /* of rank 1's error */
} expected[FAULTS] = {
    [SEND_BEYOND] = {WEIR_ERR_INVALID, "sent to rank 0"},
    [SEND_WRAPS] = {WEIR_ERR_INVALID, "sent to rank 0"},
    [RECV_BEYOND] = {WEIR_ERR_INVALID, "received from rank 0"},
    [RECV_FAR] = {WEIR_ERR_INVALID, "received from rank 0"},
    [RECV_OTHER] = {WEIR_ERR_MISMATCH, "rank 0 sends 48 bytes"},
    [SELF_OTHER] = {WEIR_ERR_MISMATCH, "for itself differ"},
};

static void plant_fault(splits *s, int fault)
{
    switch (fault) {
    case SEND_BEYOND:
        s->send_at[0] = ROOM - s->send[0] + 1;
        break;
    case SEND_WRAPS:
        s->send[0] += (uint64_t)1 << 62;
        break;
    case RECV_BEYOND:
        s->recv_at[0] = ROOM - s->recv[0] + 1;
        break;
    case RECV_FAR:
        s->recv_at[0] = UINT64_MAX - s->recv[0] + 1;
        break;
    case RECV_OTHER:
        s->recv[0]++;
        break;
    default:
        s->recv[1]++;
    }
}

static int wrong_splits(weir_boot *boot, void *argument)
{
    enum { ROUND = 3, FEW_S = 10 };
    test_rank r;
    int failures = 0, fault = *(const int *)argument;
    EXPECT(&failures, test_rank_open(&r, boot));
    make_splits(&r, ROUND);
    for (int peer = 0; peer < r.nranks; peer++) {
        r.s.send[peer] = r.s.recv[peer] = 12;
        r.s.send_at[peer] = r.s.recv_at[peer] = 12 * (uint64_t)peer;
    }
    if (r.rank == 1)
        plant_fault(&r.s, fault);
    double began_s = now_s();
    weir_status status = call_alltoallv(&r, ROOM * sizeof *r.out);
    if (r.rank == 1) {
        EXPECT(&failures, status == expected[fault].status);
        EXPECT(&failures, strstr(weir_last_error(), expected[fault].words) != NULL);
    } else {
        EXPECT(&failures,
               status == WEIR_OK || status == WEIR_ERR_ABORTED || status == WEIR_ERR_MISMATCH);
    }
    EXPECT(&failures, now_s() - began_s < FEW_S);
    weir_boot_barrier(boot);
    EXPECT(&failures, weir_comm_check(r.comm) == WEIR_ERR_ABORTED);
    weir_boot_barrier(boot);
    for (uint64_t i = 12 * (uint64_t)r.nranks; i < ROOM; i++)
        EXPECT(&failures, ((unsigned char *)&r.out[i])[0] == CANARY);
    test_rank_close(&r);
    return failures;
}

static void test_wrong_splits(void **state)
{
    (void)state;
    for (int fault = 0; fault < FAULTS; fault++)
        run_ranks(3, wrong_splits, &fault);
}

/* Calls with invalid arguments are rejected, and the next call is correct. */
static int bad_calls(weir_boot *boot, void *argument)
{
    test_rank r;
    int failures = 0;
    (void)argument;
    EXPECT(&failures, test_rank_open(&r, boot));
    make_splits(&r, 0);
    const size_t all = ROOM * sizeof *r.out;
    const struct {
        const void *in;
        size_t in_bytes;
        const uint64_t *send;
        void *out;
    } bad[] = {
        {r.in, all, NULL, r.out},
        {NULL, all, r.s.send, r.out},
        {r.in, all, r.s.send, r.in},
        {r.in, SIZE_MAX, r.s.send, r.out},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(&failures, weir_alltoallv_device(r.comm, bad[i].in, bad[i].in_bytes, bad[i].send,
                                                r.s.send_at, bad[i].out, all, r.s.recv, r.s.recv_at,
                                                WEIR_INT32, NULL) == WEIR_ERR_INVALID);
    EXPECT(&failures, call_alltoallv(&r, all) == WEIR_OK);
    EXPECT(&failures, wrong_elements(&r, 0) == 0);
    test_rank_close(&r);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("splits that change", test_splits_that_change, NULL),
        AT("wrong splits are reported", test_wrong_splits, NULL),
        RANKS_TEST("invalid calls are rejected", 2, bad_calls, NULL),
    };
    return RUN_TESTS("alltoallv_device", tests);
}
