/*
 * Helpers for tests that run plans: a rank with a communicator and an executor, and one call whose
 * every output element is compared with its expected value.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_RANKS_H
#define VERIFY_TESTS_SUPPORT_PLAN_RANKS_H

#include "verify/tests/support/comm_ranks.h"
#include <weir/plan.h>

enum { PLAN_MARGIN = 64, PLAN_CANARY = 0x5a, NO_PLANS = 77 };

typedef struct plan_rank {
    weir_comm *comm;
    weir_executor *executor;
    int rank, nranks;
    weir_mem *memory[2]; /* registered input and output */
    char *plain[2];      /* unregistered input and output */
    size_t memory_bytes;
} plan_rank;

/* How a plan is called. */
typedef struct plan_use {
    const weir_plan *plan;
    size_t block_bytes; /* of the collective's blocks; of allreduce the whole */
    weir_dtype dtype;   /* float or int32 */
    weir_op op;
    int in_place, is_plain;
    size_t skew; /* bytes by which buffers are off their alignment */
} plan_use;

static inline weir_status plan_rank_open(plan_rank *with, weir_boot *boot, size_t bytes)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_status status = weir_comm_create(boot, &config, &with->comm);
    if (status == WEIR_OK)
        status = weir_executor_create(with->comm, &with->executor);
    if (status != WEIR_OK)
        return status;
    with->rank = weir_comm_rank(with->comm);
    with->nranks = weir_comm_nranks(with->comm);
    with->memory_bytes = bytes + 4 * PLAN_MARGIN;
    for (int i = 0; i < 2 && status == WEIR_OK; i++) {
        status = weir_mem_alloc(with->comm, with->memory_bytes, &with->memory[i]);
        with->plain[i] = malloc(with->memory_bytes);
    }
    return status;
}

static inline void plan_rank_close(plan_rank *with)
{
    weir_executor_destroy(with->executor);
    for (int i = 0; i < 2; i++) {
        weir_mem_free(with->memory[i]);
        free(with->plain[i]);
    }
    weir_comm_destroy(with->comm);
}

/* A rank's input: small integers, so that sums are exact; different in each round. */
static inline int plan_value(int rank, size_t i, int round)
{
    return (int)(((size_t)rank * 5 + i * 3 + i / 251 + (size_t)round * 11) % 17) - 3;
}

static inline void plan_store(void *at, size_t i, weir_dtype dtype, int value)
{
    if (dtype == WEIR_FLOAT)
        ((float *)at)[i] = (float)value;
    else
        ((int32_t *)at)[i] = value;
}

static inline int plan_equals(const void *at, size_t i, weir_dtype dtype, int value)
{
    return dtype == WEIR_FLOAT ? ((const float *)at)[i] == (float)value
                               : ((const int32_t *)at)[i] == value;
}

/* What element i of this rank's output has to be. */
static inline int plan_expected(const plan_rank *with, const plan_use *use, int collective,
                                size_t i, int round)
{
    const size_t block = use->block_bytes / 4;
    int value;
    if (collective == WEIR_COLL_ALLGATHER)
        return plan_value((int)(i / block), i % block, round);
    if (collective == WEIR_COLL_ALLTOALL)
        return plan_value((int)(i / block), (size_t)with->rank * block + i % block, round);
    if (collective == WEIR_COLL_BROADCAST)
        return plan_value(0, i, round);
    if (collective == WEIR_COLL_REDUCE_SCATTER)
        i += (size_t)with->rank * block;
    value = plan_value(0, i, round);
    for (int rank = 1; rank < with->nranks; rank++) {
        int other = plan_value(rank, i, round);
        value = use->op == WEIR_SUM ? value + other : value > other ? value : other;
    }
    return value;
}

static inline int plan_collective(const weir_plan *plan)
{
    for (int i = 0; i < WEIR_COLL_COUNT; i++)
        if (strcmp(weir_plan_collective(plan), weir_collective_name((weir_collective)i)) == 0)
            return i;
    return -1;
}

/* One call: 0, or 1 and said why. */
static inline int plan_call(plan_rank *with, const plan_use *use, int round)
{
    const int collective = plan_collective(use->plan);
    const size_t n = (size_t)with->nranks, block = use->block_bytes;
    const int in_long = collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_REDUCE_SCATTER;
    const int out_long = collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_ALLGATHER;
    const size_t in_bytes = in_long ? n * block : block, out_bytes = out_long ? n * block : block;
    char *in = use->is_plain ? with->plain[0] : weir_mem_pointer(with->memory[0]);
    char *out = use->is_plain ? with->plain[1] : weir_mem_pointer(with->memory[1]);
    in += PLAN_MARGIN + use->skew;
    out += PLAN_MARGIN + use->skew;
    memset(out - PLAN_MARGIN, PLAN_CANARY, out_bytes + 2 * PLAN_MARGIN);
    if (use->in_place && in_bytes > out_bytes)
        out = in + (size_t)with->rank * block;
    else if (use->in_place)
        in = out + (out_bytes > in_bytes ? (size_t)with->rank * block : 0);
    for (size_t i = 0; i < in_bytes / 4; i++)
        plan_store(in, i, use->dtype, plan_value(with->rank, i, round));
    weir_status status = weir_executor_run(with->executor, use->plan, in, out, in_bytes, out_bytes,
                                           use->dtype, use->op, NULL);
    if (status != WEIR_OK) {
        fprintf(stderr, "# rank %d: %s\n", with->rank, weir_last_error());
        return 1;
    }
    const int has_result = collective != WEIR_COLL_REDUCE || with->rank == 0;
    for (size_t i = 0; has_result && i < out_bytes / 4; i++)
        if (!plan_equals(out, i, use->dtype, plan_expected(with, use, collective, i, round))) {
            fprintf(stderr,
                    "# rank %d: %s, %zu bytes a block, %s %s, in place %d, plain %d, round %d: "
                    "element %zu is wrong, expected %d\n",
                    with->rank, weir_plan_name(use->plan), block, weir_dtype_name(use->dtype),
                    weir_op_name(use->op), use->in_place, use->is_plain, round, i,
                    plan_expected(with, use, collective, i, round));
            return 1;
        }
    for (size_t i = 0; !use->in_place && i < PLAN_MARGIN; i++)
        if (out[-1 - (ptrdiff_t)i] != PLAN_CANARY || out[out_bytes + i] != PLAN_CANARY) {
            fprintf(stderr, "# rank %d: %s wrote outside of its output\n", with->rank,
                    weir_plan_name(use->plan));
            return 1;
        }
    return 0;
}

#endif
