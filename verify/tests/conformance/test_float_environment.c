/*
 * Reductions of ranks whose threads have different floating-point environments: every algorithm, on
 * one node and across nodes, a plan, and a scaled sum of libweir_nccl give the bits that they give
 * if all ranks have the default one, trap nowhere, and leave each rank the environment that it had.
 */
#include "verify/tests/support/float_environments.h"
#include "verify/tests/support/internode_ranks.h"

#include "comm/comm.h"
#include "nccl/weir_nccl.h"
#include "plan/examples/examples.h"
#include <weir/plan.h>

enum { COUNT = 1001, MEMORY_BYTES = 1 << 20 };

static const weir_dtype dtypes[] = {WEIR_INT8,   WEIR_INT32,    WEIR_HALF,     WEIR_FLOAT,
                                    WEIR_DOUBLE, WEIR_BFLOAT16, WEIR_FP8_E4M3, WEIR_FP8_E5M2};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* One rank: its buffers, and what it calls. */
typedef struct caller {
    weir_comm *comm;
    unsigned char *in, *out, *expected; /* in may hold a block for each rank */
    weir_status (*call)(struct caller *with, weir_dtype dtype, weir_op op, size_t count);
    const weir_algo_info *algo;
    weir_executor *executor;
    const weir_plan *plan;
    ncclComm_t nccl;
    ncclRedOp_t scaled[DTYPES];
} caller;

/* Small positive floating-point numbers of every kind: subnormal ones, and such whose sums and
 * products are rounded. Integers vary in their low bits, averages are rounded. */
static void fill(const caller *with, weir_dtype dtype)
{
    const size_t width = weir_dtype_bytes(dtype),
                 count = (size_t)weir_comm_nranks(with->comm) * COUNT;
    const unsigned rank = (unsigned)weir_comm_rank(with->comm);
    const int is_float = dtype >= WEIR_HALF;
    unsigned state = 12345 + rank * 977;
    for (size_t i = 0; i < count; i++)
        for (size_t byte = 0; byte < width; byte++) {
            state = state * 1664525u + 1013904223u;
            const int is_top = byte + 1 == width, is_small = i % 3 == 0;
            const unsigned top = width == 1 ? (is_small ? state >> 30 : state >> 27)
                                 : is_small ? 0
                                            : 0x30 + (state >> 31);
            with->in[i * width + byte] =
                (unsigned char)(is_float && is_top ? top
                                : is_float && is_small && byte + 2 == width && width > 2
                                    ? state >> 29
                                    : state >> 24);
        }
}

static size_t out_bytes(const caller *with, weir_dtype dtype, size_t count)
{
    (void)with;
    return count * weir_dtype_bytes(dtype);
}

/* The same call in the default environment and in each rank's own. */
static void check(caller *with, weir_dtype dtype, weir_op op, size_t count, int *failures)
{
    const int rank = weir_comm_rank(with->comm);
    const size_t bytes = out_bytes(with, dtype, count);
    fill(with, dtype);
    memset(with->out, 0, bytes);
    EXPECT_OK(failures, with->call(with, dtype, op, count));
    memcpy(with->expected, with->out, bytes);
    for (int i = 0; i < (int)FLOAT_ENVIRONMENTS && !*failures; i++) {
        const float_environment *own =
            &float_environments[(i + 3 * rank) % (int)FLOAT_ENVIRONMENTS];
        memset(with->out, 0, bytes);
        float_environment_enter(own);
        const weir_status status = with->call(with, dtype, op, count);
        const int is_kept = float_environment_leave(own);
        EXPECT_OK(failures, status);
        EXPECT(failures, is_kept);
        EXPECT(failures, memcmp(with->out, with->expected, bytes) == 0);
        if (*failures)
            fprintf(stderr, "# rank %d: %s, %s %s, %zu elements: %s\n", rank,
                    weir_comm_last_algo(with->comm), weir_dtype_name(dtype), weir_op_name(op),
                    count, own->name);
    }
}

static int open_caller(caller *with, weir_comm *comm, weir_mem **memory)
{
    with->comm = comm;
    if (weir_mem_alloc(comm, 3 * (size_t)MEMORY_BYTES, memory) != WEIR_OK)
        return 0;
    with->in = weir_mem_pointer(*memory);
    with->out = with->in + MEMORY_BYTES;
    with->expected = with->out + MEMORY_BYTES;
    return 1;
}

/* ------------------------------------------------------------ every algorithm */

static weir_status call_algorithm(caller *with, weir_dtype dtype, weir_op op, size_t count)
{
    weir_call call = WEIR_CALL_INIT;
    call.collective = with->algo->collective;
    call.dtype = dtype;
    call.op = op;
    call.in = with->in;
    call.out = with->out;
    call.count = count;
    call.algo_name = with->algo->name;
    return weir_run(with->comm, &call);
}

static int algorithm_serves(const caller *with)
{
    const weir_algo_info *algo = with->algo;
    const int nranks = weir_comm_nranks(with->comm);
    return (algo->collective == WEIR_COLL_ALLREDUCE ||
            algo->collective == WEIR_COLL_REDUCE_SCATTER || algo->collective == WEIR_COLL_REDUCE) &&
           algo->backend == weir_comm_algo_backend(with->comm) && algo->min_ranks <= nranks &&
           algo->max_ranks >= nranks && (algo->reproducible || nranks == 2);
}

static int every_algorithm(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0, checked = 0;
    size_t count = 0;
    caller with = {.call = call_algorithm};
    weir_mem *memory = NULL;
    const weir_algo_info *algos = weir_algo_list(&count);
    weiri_host_assume_numa(2);
    weir_comm *comm = where->nnodes ? open_internode(boot, where) : open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, open_caller(&with, comm, &memory));
    for (size_t i = 0; i < count && !failures; i++) {
        with.algo = &algos[i];
        if (!algorithm_serves(&with))
            continue;
        checked++;
        for (size_t d = 0; d < DTYPES; d++)
            check(&with, dtypes[d], d % 2 ? WEIR_SUM : WEIR_AVG, d % 3 ? COUNT : 2, &failures);
        check(&with, WEIR_FLOAT, WEIR_PROD, COUNT, &failures);
        check(&with, WEIR_FLOAT, WEIR_MAX, COUNT, &failures);
        check(&with, WEIR_BFLOAT16, WEIR_AVG, COUNT, &failures);
    }
    EXPECT(&failures, checked > 4);
    weir_mem_free(memory);
    weir_comm_destroy(comm);
    return failures;
}

/* ------------------------------------------------------------------- a plan */

static weir_status call_plan(caller *with, weir_dtype dtype, weir_op op, size_t count)
{
    const size_t bytes = count * weir_dtype_bytes(dtype);
    return weir_executor_run(with->executor, with->plan, with->in, with->out, bytes, bytes, dtype,
                             op, NULL);
}

static int a_plan(weir_boot *boot, void *argument)
{
    int failures = 0;
    caller with = {.call = call_plan};
    const weiri_plan_example_options two = {.nranks = 2, .instances = 1};
    weir_plan *plan = NULL;
    weir_mem *memory = NULL;
    weir_comm *comm = open_comm(boot);
    (void)argument;
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, open_caller(&with, comm, &memory));
    EXPECT_OK(&failures,
              weiri_plan_example_make(weiri_plan_example_find("allreduce_ring"), &two, &plan));
    EXPECT_OK(&failures, weir_executor_create(comm, &with.executor));
    with.plan = plan;
    for (size_t d = 0; d < DTYPES && !failures; d++)
        check(&with, dtypes[d], d % 2 ? WEIR_SUM : WEIR_AVG, 1000, &failures);
    weir_executor_destroy(with.executor);
    weir_plan_free(plan);
    weir_mem_free(memory);
    weir_comm_destroy(comm);
    return failures;
}

/* ------------------------------------------------------------- libweir_nccl */

static const ncclDataType_t nccl_types[] = {ncclInt8,       ncclInt32,     ncclFloat16,
                                            ncclFloat32,    ncclFloat64,   ncclBfloat16,
                                            ncclFloat8e4m3, ncclFloat8e5m2};

static weir_status call_scaled(caller *with, weir_dtype dtype, weir_op op, size_t count)
{
    int at = 0;
    (void)op;
    while (dtypes[at] != dtype)
        at++;
    return ncclAllReduce(with->in, with->out, count, nccl_types[at], with->scaled[at], with->nccl,
                         NULL) == ncclSuccess
               ? WEIR_OK
               : WEIR_ERR_SYSTEM;
}

static int scaled_sums(weir_boot *boot, void *argument)
{
    int failures = 0;
    ncclUniqueId ids[2];
    caller with = {.call = call_scaled};
    weir_mem *memory = NULL;
    weir_comm *comm = open_comm(boot); /* whose memory and rank are used */
    (void)argument;
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, open_caller(&with, comm, &memory));
    if (weir_comm_rank(comm) == 0)
        EXPECT(&failures, ncclGetUniqueId(&ids[0]) == ncclSuccess);
    EXPECT_OK(&failures, weir_boot_allgather(boot, ids, sizeof ids[0]));
    EXPECT(&failures, ncclCommInitRank(&with.nccl, 2, ids[0], weir_comm_rank(comm)) == ncclSuccess);
    fill(&with, WEIR_DOUBLE); /* the scalars: the first bytes of each element have any bits */
    for (int d = 0; d < (int)DTYPES && !failures; d++) {
        EXPECT(&failures, ncclRedOpCreatePreMulSum(
                              &with.scaled[d], with.in + 8 + 8 - weir_dtype_bytes(dtypes[d]),
                              nccl_types[d], ncclScalarHostImmediate, with.nccl) == ncclSuccess);
    }
    for (size_t d = 0; d < DTYPES && !failures; d++)
        check(&with, dtypes[d], WEIR_SUM, COUNT, &failures);
    EXPECT(&failures, ncclCommDestroy(with.nccl) == ncclSuccess);
    weir_mem_free(memory);
    weir_comm_destroy(comm);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_RANKS_TEST("every algorithm on 2 ranks", every_algorithm, "aa", 0),
        LAYOUT_RANKS_TEST("every algorithm on 4 ranks of 2 NUMA nodes", every_algorithm, "aaaa", 0),
        LAYOUT_RANKS_TEST("every algorithm on 1 + 1 ranks", every_algorithm, "ab", 2),
        LAYOUT_RANKS_TEST("every algorithm on 2 + 2 ranks", every_algorithm, "aabb", 2),
        RANKS_TEST("a plan", 2, a_plan, NULL),
        RANKS_TEST("scaled sums of libweir_nccl", 2, scaled_sums, NULL),
    };
    return RUN_TESTS("floating-point environments", tests);
}
