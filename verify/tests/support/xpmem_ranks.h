/*
 * Ranks whose unregistered memory peers can attach, for tests: they load the stand-in for libxpmem
 * before they create a communicator, or with TEST_XPMEM=real use the installed library and the
 * kernel module; and they check results of collectives in such memory and in that of the heap.
 */
#ifndef VERIFY_TESTS_SUPPORT_XPMEM_RANKS_H
#define VERIFY_TESTS_SUPPORT_XPMEM_RANKS_H

#include "comm/node/xpmem_state.h"
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/xpmem_memory.h"

enum { MIB = 1 << 20, BYTES = MIB, COUNT = BYTES / 4, ODD_COUNT = 70001, SOON_S = 10 };

/* ------------------------------------------------------------- what ranks do */

/* Element i of a rank's input in a round. */
static inline float value_of(int rank, int round, size_t i)
{
    return (float)((int)(i % 1000) + 10 * rank + round);
}

static inline void fill(float *buffer, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++)
        buffer[i] = value_of(rank, round, i);
}

/* Sums over all ranks: integers, which are exact. */
static inline int is_sum(const float *buffer, size_t count, int nranks, int round)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int rank = 0; rank < nranks; rank++)
            sum += value_of(rank, round, i);
        if (buffer[i] != sum)
            return 0;
    }
    return 1;
}

/* Allreduce of these buffers: right sums, by this algorithm (NULL: any). */
static inline void reduce_right(weir_comm *comm, int *failures, float *in, float *out, size_t count,
                                int round, const char *algo)
{
    fill(in, count, weir_comm_rank(comm), round);
    EXPECT_OK(failures, weir_allreduce(comm, in, out, count, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT(failures, is_sum(out, count, weir_comm_nranks(comm), round));
    if (algo)
        EXPECT(failures, strcmp(weir_comm_last_algo(comm), algo) == 0);
}

/* Allgather of these buffers: right blocks, by this algorithm (NULL: any). */
static inline void gather_right(weir_comm *comm, int *failures, float *in, float *out, size_t count,
                                int round, const char *algo)
{
    int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm), right = 1;
    fill(in, count, rank, round);
    EXPECT_OK(failures, weir_allgather(comm, in, out, count, WEIR_FLOAT, NULL));
    for (int peer = 0; peer < nranks; peer++)
        for (size_t i = 0; i < count; i++)
            right &= out[(size_t)peer * count + i] == value_of(peer, round, i);
    EXPECT(failures, right);
    if (algo)
        EXPECT(failures, strcmp(weir_comm_last_algo(comm), algo) == 0);
}

/* Reduce_scatter of a buffer with count elements: this rank's sums. */
static inline void scatter_right(weir_comm *comm, int *failures, float *in, float *out,
                                 size_t count, int round)
{
    const size_t nranks = (size_t)weir_comm_nranks(comm), each = count / nranks;
    const size_t first = each * (size_t)weir_comm_rank(comm);
    int right = 1;
    fill(in, count, weir_comm_rank(comm), round);
    EXPECT_OK(failures, weir_reduce_scatter(comm, in, out, each, WEIR_FLOAT, WEIR_SUM, NULL));
    for (size_t i = 0; i < each; i++) {
        float sum = 0;
        for (size_t rank = 0; rank < nranks; rank++)
            sum += value_of((int)rank, round, first + i);
        right &= out[i] == sum;
    }
    EXPECT(failures, right);
}

/* These calls in attached memory, and in memory of the heap. */
static inline void calls_right(weir_comm *comm, int *failures, const char *sum_algo,
                               const char *gather_algo)
{
    const size_t n = (size_t)weir_comm_nranks(comm), bytes = n * BYTES;
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(bytes);
    float *heap_in = malloc(BYTES), *heap_out = malloc(bytes);
    EXPECT(failures, in && out && heap_in && heap_out);
    if (in && out && heap_in && heap_out)
        for (int round = 0; round < 3; round++) {
            reduce_right(comm, failures, in, out, COUNT, round, sum_algo);
            gather_right(comm, failures, in, out, COUNT, round, gather_algo);
            scatter_right(comm, failures, in, out, COUNT, round);
            reduce_right(comm, failures, heap_in, heap_out, COUNT, round, NULL);
            gather_right(comm, failures, heap_in, heap_out, COUNT, round, NULL);
        }
    xpmem_memory_free(in, BYTES);
    xpmem_memory_free(out, bytes);
    free(heap_in);
    free(heap_out);
}

static inline void attached_calls(weir_comm *comm, int *failures)
{
    EXPECT(failures, comm->xpmem != NULL);
    calls_right(comm, failures, "fused", "direct");
}

/* A communicator that uses XPMEM; NULL: there is none. */
static inline weir_comm *open_attached(weir_boot *boot)
{
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    return comm && comm->xpmem ? comm : NULL;
}

static inline int in_comm(weir_boot *boot, void *argument)
{
    const ranks_test *test = argument;
    int failures = 0;
    weir_comm *comm = open_attached(boot);
    if (!comm)
        return NO_COMM;
    test->in_comm(comm, &failures);
    if (!failures)
        EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static inline void test_attached(void **state)
{
    const ranks_test *test = *state;
    run_ranks(test->nranks, in_comm, *state);
}

#define ATTACHED_TEST(name, nranks, body)                                                          \
    AT(name, test_attached, (&(ranks_test){nranks, NULL, NULL, body}))
#endif
