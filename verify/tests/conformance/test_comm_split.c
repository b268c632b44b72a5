/*
 * weir_comm_split: membership and order of the new communicators, that they work beside their
 * parent and after it, over several nodes, and its errors.
 */
#include "verify/tests/support/comm_ranks.h"

#include "comm/comm.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static const weir_comm_config *host_config(void)
{
    static weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    return &config;
}

/* The sum over comm's ranks of each one's rank in the parent. */
static int64_t sum_of(weir_comm *comm, int64_t mine)
{
    int64_t sum = -1;
    return weir_allreduce(comm, &mine, &sum, 1, WEIR_INT64, WEIR_SUM, NULL) == WEIR_OK ? sum : -1;
}

static void halves(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    weir_comm *half = NULL;
    EXPECT_OK(failures, weir_comm_split(comm, rank % 2, 0, host_config(), &half));
    EXPECT(failures, weir_comm_nranks(half) == (nranks + 1 - rank % 2) / 2);
    EXPECT(failures, weir_comm_rank(half) == rank / 2);
    int64_t expected = 0, all = (int64_t)nranks * (nranks - 1) / 2;
    for (int other = rank % 2; other < nranks; other += 2)
        expected += other;
    EXPECT(failures, sum_of(half, rank) == expected);
    EXPECT(failures, sum_of(comm, rank) == all);
    EXPECT_OK(failures, weir_comm_barrier(half));
    EXPECT_OK(failures, weir_comm_destroy(half));
}

/* Keys in reverse, two of them equal: the equal ones keep the parent's order. */
static void reversed(weir_comm *comm, int *failures)
{
    static const int keys[] = {7, 3, 3, -2}, places[] = {3, 1, 2, 0};
    const int rank = weir_comm_rank(comm);
    weir_comm *sorted = NULL;
    EXPECT_OK(failures, weir_comm_split(comm, 9, keys[rank], host_config(), &sorted));
    EXPECT(failures, weir_comm_rank(sorted) == places[rank]);
    EXPECT(failures, weir_comm_nranks(sorted) == 4);
    EXPECT_OK(failures, weir_comm_destroy(sorted));
}

static int without_last(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot), last = weir_boot_nranks(boot) - 1;
    weir_comm *comm = open_comm(boot), *rest = comm;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures,
              weir_comm_split(comm, rank == last ? WEIR_SPLIT_NONE : 0, 0, host_config(), &rest));
    EXPECT(&failures, (rest == NULL) == (rank == last));
    /* The new one outlives its parent. */
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    if (rest)
        EXPECT(&failures, sum_of(rest, 1) == last);
    EXPECT_OK(&failures, weir_comm_destroy(rest));
    return failures;
}

/* Two splits of a grid, and one of a split one, with memory exchanged in each. */
static void grid(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm);
    weir_comm *row = NULL, *column = NULL, *one = NULL;
    weir_mem *mem = NULL, *mems[2] = {NULL};
    EXPECT_OK(failures, weir_comm_split(comm, rank / 2, rank, host_config(), &row));
    EXPECT_OK(failures, weir_comm_split(comm, rank % 2, rank, host_config(), &column));
    EXPECT_OK(failures, weir_comm_split(row, rank % 2, 0, host_config(), &one));
    EXPECT(failures, sum_of(row, rank) == (rank / 2 ? 5 : 1));
    EXPECT(failures, sum_of(column, rank) == (rank % 2 ? 4 : 2));
    EXPECT(failures, weir_comm_nranks(one) == 1);
    EXPECT_OK(failures, weir_mem_alloc(column, sizeof rank, &mem));
    EXPECT_OK(failures, weir_mem_write(mem, 0, &rank, sizeof rank));
    EXPECT_OK(failures, weir_mem_exchange(column, mem, mems));
    EXPECT_OK(failures, weir_comm_barrier(column));
    int peer = -1;
    EXPECT_OK(failures, weir_mem_read(mems[1 - weir_comm_rank(column)], 0, &peer, sizeof peer));
    EXPECT(failures, peer == (rank + 2) % 4);
    EXPECT_OK(failures, weir_comm_barrier(column));
    weir_mem_free(mems[1 - weir_comm_rank(column)]);
    weir_mem_free(mem);
    EXPECT_OK(failures, weir_comm_destroy(one));
    EXPECT_OK(failures, weir_comm_destroy(column));
    EXPECT_OK(failures, weir_comm_destroy(row));
}

/* Two nodes of two ranks: a group within each, and one across both. A network transport that the
 * environment names connects nodes, and is no obstacle to a group within one. */
static void across(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm);
    setenv("WEIR_HOSTID", rank / 2 ? "b" : "a", 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    weir_comm *within = NULL, *between = NULL;
    EXPECT_OK(failures, weir_comm_split(comm, rank / 2, 0, host_config(), &within));
    EXPECT_OK(failures, weir_comm_split(comm, rank % 2, 0, host_config(), &between));
    EXPECT(failures, weir_comm_nnodes(within) == 1 && weir_comm_nnodes(between) == 2);
    EXPECT(failures, weir_comm_transport(within) == WEIR_TRANSPORT_SHM);
    EXPECT(failures, weir_comm_transport(between) == WEIR_TRANSPORT_TCP);
    EXPECT(failures, sum_of(within, rank) == (rank / 2 ? 5 : 1));
    EXPECT(failures, sum_of(between, rank) == (rank % 2 ? 4 : 2));
    EXPECT_OK(failures, weir_comm_destroy(between));
    EXPECT_OK(failures, weir_comm_destroy(within));
}

static void failing(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm);
    weir_comm *made = comm;
    EXPECT(failures, weir_comm_split(NULL, 0, 0, NULL, &made) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_comm_split(comm, 0, 0, NULL, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures,
           weir_comm_split(comm, rank == 2 ? -2 : 0, 0, host_config(), &made) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("rank 2 passed color -2") && made == comm);
    /* What fails for one color does not affect the other. */
    weir_comm_config small = *host_config();
    small.scratch_bytes = rank % 2 ? 1 : 0;
    const weir_status status = weir_comm_split(comm, rank % 2, 0, &small, &made);
    EXPECT(failures, status == (rank % 2 ? WEIR_ERR_INVALID : WEIR_OK));
    EXPECT(failures, (made == comm) == rank % 2);
    if (made != comm)
        EXPECT_OK(failures, weir_comm_destroy(made));
    EXPECT(failures, sum_of(comm, 1) == 4);
}

/* An abort of the child leaves the parent alone; destroy then reports it. */
static void aborting(weir_comm *comm, int *failures)
{
    weir_comm *child = NULL;
    EXPECT_OK(failures, weir_comm_split(comm, 0, 0, host_config(), &child));
    weir_comm_abort(child);
    EXPECT(failures, weir_comm_destroy(child) == WEIR_ERR_ABORTED);
    EXPECT(failures, boot_last_error_has("weir_comm_destroy"));
    EXPECT_OK(failures, weir_comm_barrier(comm));
}

/* A bootstrap over another one, whose operations end late. */
typedef struct late_boot {
    weir_boot *inner;
    int late_ms;
} late_boot;

static weir_status late_end(const late_boot *late, weir_status status)
{
    usleep((useconds_t)late->late_ms * 1000);
    return status;
}

static weir_status late_allgather(void *late, void *all, size_t bytes)
{
    return late_end(late, weir_boot_allgather(((late_boot *)late)->inner, all, bytes));
}

static weir_status late_send(void *late, const void *data, size_t bytes, int peer, int tag)
{
    return late_end(late, weir_boot_send(((late_boot *)late)->inner, data, bytes, peer, tag));
}

static weir_status late_recv(void *late, void *data, size_t bytes, int peer, int tag)
{
    return late_end(late, weir_boot_recv(((late_boot *)late)->inner, data, bytes, peer, tag));
}

static weir_status late_barrier(void *late)
{
    return late_end(late, weir_boot_barrier(((late_boot *)late)->inner));
}

static void late_destroy(void *late)
{
    (void)late;
}

/* Rank 1 has its new communicator, and aborts the old one, before rank 0 returns from the split,
 * which therefore fails on rank 0 alone: rank 1 does not wait for it until the deadline. */
static int aborting_parent(weir_boot *inner, void *argument)
{
    static const weir_boot_ops ops = {.name = "late",
                                      .allgather = late_allgather,
                                      .send = late_send,
                                      .recv = late_recv,
                                      .barrier = late_barrier,
                                      .destroy = late_destroy};
    const int rank = weir_boot_rank(inner);
    int failures = 0;
    late_boot late = {.inner = inner};
    weir_boot *boot = NULL;
    weir_comm *child = NULL;
    (void)argument;
    EXPECT_OK(&failures, weir_boot_create(&ops, &late, rank, 2, &boot));
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    late.late_ms = rank == 0 ? 50 : 0;
    const weir_status status = weir_comm_split(comm, 0, 0, host_config(), &child);
    late.late_ms = 0;
    EXPECT(&failures, status == (rank == 0 ? WEIR_ERR_ABORTED : WEIR_OK));
    EXPECT(&failures,
           rank == 1 || boot_last_error_has("weir_comm_split: the communicator was aborted"));
    if (rank == 1) {
        int64_t in = 1, sum = 0;
        weir_comm_abort(comm);
        EXPECT(&failures,
               weir_allreduce(child, &in, &sum, 1, WEIR_INT64, WEIR_SUM, NULL) == WEIR_ERR_ABORTED);
        weir_comm_destroy(child);
    }
    weir_comm_destroy(comm);
    weir_boot_destroy(boot);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMM_TEST("colors form groups", 5, halves),
        COMM_TEST("keys order ranks and equal keys keep the order", 4, reversed),
        RANKS_TEST("no color joins nothing and child outlives parent", 4, without_last, NULL),
        COMM_TEST("rows columns and a split of a split", 4, grid),
        COMM_TEST("groups within and across nodes", 4, across),
        COMM_TEST("errors", 4, failing),
        COMM_TEST("abort of the child leaves the parent", 3, aborting),
        RANKS_TEST("abort of the parent while it is divided", 2, aborting_parent, NULL),
    };
    return RUN_TESTS("comm_split", tests);
}
