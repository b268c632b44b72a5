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

static int halves(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    weir_comm *comm = open_comm(boot), *half = NULL;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, rank % 2, 0, host_config(), &half));
    EXPECT(&failures, weir_comm_nranks(half) == (nranks + 1 - rank % 2) / 2);
    EXPECT(&failures, weir_comm_rank(half) == rank / 2);
    int64_t expected = 0, all = (int64_t)nranks * (nranks - 1) / 2;
    for (int other = rank % 2; other < nranks; other += 2)
        expected += other;
    EXPECT(&failures, sum_of(half, rank) == expected);
    EXPECT(&failures, sum_of(comm, rank) == all);
    EXPECT_OK(&failures, weir_comm_barrier(half));
    EXPECT_OK(&failures, weir_comm_destroy(half));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_colors_form_groups(void **state)
{
    run_ranks(5, halves, *state);
}

/* Keys in reverse, two of them equal: the equal ones keep the parent's order. */
static int reversed(weir_boot *boot, void *argument)
{
    (void)argument;
    static const int keys[] = {7, 3, 3, -2}, places[] = {3, 1, 2, 0};
    int failures = 0;
    const int rank = weir_boot_rank(boot);
    weir_comm *comm = open_comm(boot), *sorted = NULL;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, 9, keys[rank], host_config(), &sorted));
    EXPECT(&failures, weir_comm_rank(sorted) == places[rank]);
    EXPECT(&failures, weir_comm_nranks(sorted) == 4);
    EXPECT_OK(&failures, weir_comm_destroy(sorted));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_keys_order_ranks_and_equal_keys_keep_the_order(void **state)
{
    run_ranks(4, reversed, *state);
}

static int without_last(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot), last = weir_boot_nranks(boot) - 1;
    weir_comm *comm = open_comm(boot), *rest = comm;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, rank == last ? WEIR_SPLIT_NONE : 0, 0,
                                         host_config(), &rest));
    EXPECT(&failures, (rest == NULL) == (rank == last));
    /* The new one outlives its parent. */
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    if (rest)
        EXPECT(&failures, sum_of(rest, 1) == last);
    EXPECT_OK(&failures, weir_comm_destroy(rest));
    return failures;
}

static void test_no_color_joins_nothing_and_child_outlives_parent(void **state)
{
    run_ranks(4, without_last, *state);
}

/* Two splits of a grid, and one of a split one, with memory exchanged in each. */
static int grid(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot);
    weir_comm *comm = open_comm(boot), *row = NULL, *column = NULL, *one = NULL;
    weir_mem *mem = NULL, *mems[2] = {NULL};
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, rank / 2, rank, host_config(), &row));
    EXPECT_OK(&failures, weir_comm_split(comm, rank % 2, rank, host_config(), &column));
    EXPECT_OK(&failures, weir_comm_split(row, rank % 2, 0, host_config(), &one));
    EXPECT(&failures, sum_of(row, rank) == (rank / 2 ? 5 : 1));
    EXPECT(&failures, sum_of(column, rank) == (rank % 2 ? 4 : 2));
    EXPECT(&failures, weir_comm_nranks(one) == 1);
    EXPECT_OK(&failures, weir_mem_alloc(column, sizeof rank, &mem));
    EXPECT_OK(&failures, weir_mem_write(mem, 0, &rank, sizeof rank));
    EXPECT_OK(&failures, weir_mem_exchange(column, mem, mems));
    EXPECT_OK(&failures, weir_comm_barrier(column));
    int peer = -1;
    EXPECT_OK(&failures,
              weir_mem_read(mems[1 - weir_comm_rank(column)], 0, &peer, sizeof peer));
    EXPECT(&failures, peer == (rank + 2) % 4);
    EXPECT_OK(&failures, weir_comm_barrier(column));
    weir_mem_free(mems[1 - weir_comm_rank(column)]);
    weir_mem_free(mem);
    EXPECT_OK(&failures, weir_comm_destroy(one));
    EXPECT_OK(&failures, weir_comm_destroy(column));
    EXPECT_OK(&failures, weir_comm_destroy(row));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_rows_columns_and_a_split_of_a_split(void **state)
{
    run_ranks(4, grid, *state);
}

/* Two nodes of two ranks: a group within each, and one across both. */
static int across(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot);
    setenv("WEIR_HOSTID", rank / 2 ? "b" : "a", 1);
    weir_comm *comm = open_comm(boot), *within = NULL, *between = NULL;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, rank / 2, 0, host_config(), &within));
    EXPECT_OK(&failures, weir_comm_split(comm, rank % 2, 0, host_config(), &between));
    EXPECT(&failures, weir_comm_nnodes(within) == 1 && weir_comm_nnodes(between) == 2);
    EXPECT(&failures, sum_of(within, rank) == (rank / 2 ? 5 : 1));
    EXPECT(&failures, sum_of(between, rank) == (rank % 2 ? 4 : 2));
    EXPECT_OK(&failures, weir_comm_destroy(between));
    EXPECT_OK(&failures, weir_comm_destroy(within));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_groups_within_and_across_nodes(void **state)
{
    run_ranks(4, across, *state);
}

static int failing(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot);
    weir_comm *comm = open_comm(boot), *made = comm;
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, weir_comm_split(NULL, 0, 0, NULL, &made) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_comm_split(comm, 0, 0, NULL, NULL) == WEIR_ERR_INVALID);
    EXPECT(&failures,
           weir_comm_split(comm, rank == 2 ? -2 : 0, 0, host_config(), &made) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("rank 2 passed color -2") && made == comm);
    /* What fails for one color does not affect the other. */
    weir_comm_config small = *host_config();
    small.scratch_bytes = rank % 2 ? 1 : 0;
    const weir_status status = weir_comm_split(comm, rank % 2, 0, &small, &made);
    EXPECT(&failures, status == (rank % 2 ? WEIR_ERR_INVALID : WEIR_OK));
    EXPECT(&failures, (made == comm) == rank % 2);
    if (made != comm)
        EXPECT_OK(&failures, weir_comm_destroy(made));
    EXPECT(&failures, sum_of(comm, 1) == 4);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_errors(void **state)
{
    run_ranks(4, failing, *state);
}

/* An abort of the child leaves the parent alone; destroy then reports it. */
static int aborting(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot), *child = NULL;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, 0, 0, host_config(), &child));
    weir_comm_abort(child);
    EXPECT(&failures, weir_comm_destroy(child) == WEIR_ERR_ABORTED);
    EXPECT(&failures, boot_last_error_has("weir_comm_destroy"));
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_abort_of_the_child_leaves_the_parent(void **state)
{
    run_ranks(3, aborting, *state);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colors_form_groups),
        cmocka_unit_test(test_keys_order_ranks_and_equal_keys_keep_the_order),
        cmocka_unit_test(test_no_color_joins_nothing_and_child_outlives_parent),
        cmocka_unit_test(test_rows_columns_and_a_split_of_a_split),
        cmocka_unit_test(test_groups_within_and_across_nodes),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_abort_of_the_child_leaves_the_parent),
    };
    return cmocka_run_group_tests_name("comm_split", tests, NULL, NULL);
}
