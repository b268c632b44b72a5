/*
 * Buffers of a call that overlap: only the placements of a call in place are accepted, by every
 * collective, algorithm object, plan and function of libweir_nccl, with a message that says what is
 * right. Nothing is written, the communicator can be used afterwards, and calls of zero elements
 * are accepted wherever their buffers lie.
 */
#include "verify/tests/support/internode_ranks.h"

#include "base/contract.h"
#include "nccl/weir_nccl.h"
#include "plan/examples/examples.h"
#include <weir/algo.h>
#include <weir/plan.h>

enum { RANKS = 3, COUNT = 1000, BLOCK = COUNT * 4, MEMORY_BYTES = 1 << 20, FAR = 1 << 19 };

/* One rank: memory with a pattern, which refused calls keep. */
typedef struct caller {
    weir_comm *comm;
    int rank, nranks;
    char *memory;
    int *failures;
} caller;

static int refused(weir_status status, const char *text)
{
    if (status == WEIR_ERR_INVALID && strstr(weir_last_error(), text))
        return 1;
    fprintf(stderr, "# status %d, \"%s\"; expected \"%s\"\n", status,
            status == WEIR_OK ? "" : weir_last_error(), text);
    return 0;
}

static void memory_fill(const caller *with)
{
    for (size_t i = 0; i < MEMORY_BYTES / sizeof(int32_t); i++)
        ((int32_t *)(void *)with->memory)[i] = (int32_t)i;
}

static int memory_is_kept(const caller *with)
{
    size_t i = 0;
    while (i < MEMORY_BYTES / sizeof(int32_t) && ((int32_t *)(void *)with->memory)[i] == (int32_t)i)
        i++;
    return i == MEMORY_BYTES / sizeof(int32_t);
}

/* A call with its buffers so many bytes from a place within the memory. */
static weir_call call_at(const caller *with, int collective, long in, long out, size_t count)
{
    weir_call call = WEIR_CALL_INIT;
    call.collective = (weir_collective)collective;
    call.dtype = WEIR_INT32;
    call.in = with->memory + MEMORY_BYTES / 4 + in;
    call.out = with->memory + MEMORY_BYTES / 4 + out;
    call.count = count;
    return call;
}

/* ------------------------------------------------------ buffers of equal blocks */

static const int even[] = {WEIR_COLL_ALLREDUCE, WEIR_COLL_REDUCE_SCATTER, WEIR_COLL_ALLGATHER,
                           WEIR_COLL_BROADCAST, WEIR_COLL_REDUCE,         WEIR_COLL_ALLTOALL};

/* How far the output is from the input in place. */
static long in_place_at(const weiri_contract *contract, int rank)
{
    return (long)BLOCK *
           (weiri_contract_out_block(contract, rank) - weiri_contract_in_block(contract, rank));
}

/* Every distance at which buffers touch, in steps of a third of a block; each end by one byte. A
 * rank at which a call is valid takes no part. */
static void refuse_distances(const caller *with, int collective)
{
    const weiri_contract *contract = weiri_contract_of(collective);
    const int reads = weiri_contract_reads(contract, with->rank, 0);
    const int writes = weiri_contract_writes(contract, with->rank, 0);
    const long in_bytes = contract->in_has_blocks ? with->nranks * BLOCK : BLOCK;
    const long out_bytes = contract->out_has_blocks ? with->nranks * BLOCK : BLOCK;
    char right[64];
    snprintf(right, sizeof right, "or %s", contract->place);
    for (long at = 1 - out_bytes; at < in_bytes; at += BLOCK / 4) {
        const int is_in_place = at == in_place_at(contract, with->rank);
        const weir_call call = call_at(with, collective, 0, at, COUNT);
        if (!reads || !writes || (is_in_place && contract->in_place == WEIRI_IN_PLACE_CALLS))
            continue;
        EXPECT(with->failures,
               refused(weir_run(with->comm, &call), contract->in_place == WEIRI_IN_PLACE_CALLS
                                                        ? right
                                                        : "use two that do not overlap"));
    }
    const weir_call last = call_at(with, collective, 0, in_bytes - 1, COUNT);
    if (reads && writes)
        EXPECT(with->failures, refused(weir_run(with->comm, &last), "overlap"));
}

static void accept_neighbours(const caller *with, int collective)
{
    const weiri_contract *contract = weiri_contract_of(collective);
    const long in_bytes = contract->in_has_blocks ? with->nranks * BLOCK : BLOCK;
    const long out_bytes = contract->out_has_blocks ? with->nranks * BLOCK : BLOCK;
    const long places[] = {in_bytes, -out_bytes, in_place_at(contract, with->rank)};
    const int nplaces = contract->in_place == WEIRI_IN_PLACE_CALLS ? 3 : 2;
    for (int i = 0; i < nplaces; i++) {
        const weir_call call = call_at(with, collective, 0, places[i], COUNT);
        EXPECT_OK(with->failures, weir_run(with->comm, &call));
    }
    for (long at = -8; at <= 8; at += 4) {
        const weir_call none = call_at(with, collective, 0, at, 0);
        EXPECT_OK(with->failures, weir_run(with->comm, &none));
    }
}

static void check_even(const caller *with)
{
    for (size_t i = 0; i < sizeof even / sizeof *even; i++) {
        memory_fill(with);
        refuse_distances(with, even[i]);
        EXPECT(with->failures, memory_is_kept(with));
        accept_neighbours(with, even[i]);
    }
    if (with->rank > 0) { /* the mistakes that are made most; rank 0's call would be right */
        const weir_call gather = call_at(with, WEIR_COLL_ALLGATHER, 0, 0, COUNT);
        const weir_call scatter = call_at(with, WEIR_COLL_REDUCE_SCATTER, 0, 0, COUNT);
        EXPECT(with->failures, refused(weir_run(with->comm, &gather),
                                       "weir_allgather: in and out are the same buffer; use two "
                                       "that do not overlap, or in == out + rank * count"));
        EXPECT(with->failures, refused(weir_run(with->comm, &scatter),
                                       "weir_reduce_scatter: in and out are the same buffer; use "
                                       "two that do not overlap, or out == in + rank * count"));
    }
}

/* Where the input is not used, or the output is not written, they may lie anywhere. */
static void accept_unused(const caller *with)
{
    const long at = with->rank == 0 ? FAR / 2 : 4;
    const weir_call broadcast = call_at(with, WEIR_COLL_BROADCAST, 0, at, COUNT);
    const weir_call reduce = call_at(with, WEIR_COLL_REDUCE, 0, at, COUNT);
    EXPECT_OK(with->failures, weir_run(with->comm, &broadcast));
    EXPECT_OK(with->failures, weir_run(with->comm, &reduce));
}

/* -------------------------------------------------- blocks of different lengths */

/* Blocks of 2 elements; the output's are so many elements after those of the input. */
static weir_status call_splits(const caller *with, size_t after, size_t count, int on_device)
{
    size_t counts[RANKS], sent[RANKS], received[RANKS];
    uint64_t wide[3][RANKS];
    int32_t *data = (int32_t *)(void *)with->memory;
    for (int peer = 0; peer < with->nranks; peer++) {
        counts[peer] = count;
        sent[peer] = (size_t)peer * 4;
        received[peer] = (size_t)peer * 4 + after;
        wide[0][peer] = count;
        wide[1][peer] = sent[peer];
        wide[2][peer] = received[peer];
    }
    if (on_device)
        return weir_alltoallv_device(with->comm, data, 64, wide[0], wide[1], data + after, 64,
                                     wide[0], wide[1], WEIR_INT32, NULL);
    return weir_alltoallv(with->comm, data, counts, sent, data, counts, received, WEIR_INT32, NULL);
}

static void check_uneven(const caller *with)
{
    const int next = (with->rank + 1) % with->nranks;
    const int previous = (with->rank + with->nranks - 1) % with->nranks;
    int32_t *data = (int32_t *)(void *)with->memory;
    memory_fill(with);
    EXPECT(with->failures,
           refused(call_splits(with, 0, 2, 0), "weir_alltoallv: in and out are the"));
    EXPECT(with->failures, refused(call_splits(with, 1, 2, 0), "weir_alltoallv: in and out"));
    EXPECT(with->failures, refused(call_splits(with, 9, 2, 0), "weir_alltoallv: in and out"));
    EXPECT(with->failures, refused(call_splits(with, 0, 2, 1), "same buffer; use two"));
    EXPECT(with->failures, refused(call_splits(with, 15, 2, 1), "overlap; use two"));
    EXPECT(with->failures, refused(weir_sendrecv(with->comm, data, 10, next, data + 9, 10, previous,
                                                 WEIR_INT32, NULL),
                                   "weir_sendrecv: in and out overlap; use two"));
    EXPECT(with->failures,
           refused(weir_sendrecv(with->comm, data, 10, next, data, 10, previous, WEIR_INT32, NULL),
                   "same buffer"));
    EXPECT(with->failures, memory_is_kept(with));
    EXPECT_OK(with->failures, call_splits(with, 2, 2, 0)); /* into the gaps */
    EXPECT_OK(with->failures, call_splits(with, 0, 0, 0));
    EXPECT_OK(with->failures, call_splits(with, 16, 2, 1));
    EXPECT_OK(with->failures,
              weir_sendrecv(with->comm, data, 10, next, data + 10, 10, previous, WEIR_INT32, NULL));
    EXPECT_OK(with->failures,
              weir_sendrecv(with->comm, data, 0, next, data, 0, previous, WEIR_INT32, NULL));
}

/* ------------------------------------------------------------ plans, algorithms */

static weir_status launch_nothing(void *state, void *context, weir_comm *comm,
                                  const weir_call *call)
{
    (void)state;
    (void)context;
    (void)comm;
    (void)call;
    return WEIR_OK;
}

static void check_algorithms(const caller *with)
{
    static const weir_algo_ops ops = {.launch = launch_nothing};
    for (size_t i = 0; i < sizeof even / sizeof *even; i++) {
        weir_algo *algo = NULL;
        const weir_call shifted = call_at(with, even[i], 0, 4, COUNT);
        const weir_call in_place =
            call_at(with, even[i], 0, in_place_at(weiri_contract_of(even[i]), with->rank), COUNT);
        const int is_used = even[i] != WEIR_COLL_BROADCAST && even[i] != WEIR_COLL_REDUCE;
        EXPECT_OK(with->failures,
                  weir_algo_create("nothing", (weir_collective)even[i], &ops, NULL, &algo));
        if (is_used || with->rank == 0)
            EXPECT(with->failures, refused(weir_algo_execute(algo, with->comm, &shifted),
                                           "algorithm nothing: in and out overlap"));
        EXPECT_OK(with->failures, weir_algo_execute(algo, with->comm, &in_place));
        weir_algo_destroy(algo);
    }
}

static void check_plans(const caller *with)
{
    static const char *const names[] = {"allreduce_ring", "allgather_ring", "reduce_scatter_ring"};
    weir_executor *executor = NULL;
    EXPECT_OK(with->failures, weir_executor_create(with->comm, &executor));
    for (size_t i = 0; i < 6 && !*with->failures; i++) {
        const weiri_plan_example *example = weiri_plan_example_find(names[i / 2]);
        const weiri_plan_example_options options = {
            .nranks = with->nranks, .instances = 1, .in_place = (int)i % 2};
        weir_plan *plan = NULL;
        EXPECT_OK(with->failures, weiri_plan_example_make(example, &options, &plan));
        const weiri_contract *contract = weiri_contract_of((int)example->collective);
        const size_t in = (size_t)(contract->in_has_blocks ? with->nranks : 1) * BLOCK;
        const size_t out = (size_t)(contract->out_has_blocks ? with->nranks : 1) * BLOCK;
        char *at = with->memory, *in_place = at + FAR / 2 + in_place_at(contract, with->rank);
        EXPECT(with->failures, refused(weir_executor_run(executor, plan, at, at + 8, in, out,
                                                         WEIR_INT32, WEIR_SUM, NULL),
                                       contract->place));
        EXPECT_OK(with->failures, weir_executor_run(executor, plan, at + FAR / 2, in_place, in, out,
                                                    WEIR_INT32, WEIR_SUM, NULL));
        EXPECT_OK(with->failures, weir_executor_run(executor, plan, at, at + in, in, out,
                                                    WEIR_INT32, WEIR_SUM, NULL));
        weir_plan_free(plan);
    }
    weir_executor_destroy(executor);
}

/* ----------------------------------------------------------------- libweir_nccl */

static int nccl_refused(ncclResult_t result, const char *text)
{
    if (result == ncclInvalidArgument && strstr(ncclGetLastError(NULL), text))
        return 1;
    fprintf(stderr, "# result %d, \"%s\"; expected \"%s\"\n", result, ncclGetLastError(NULL), text);
    return 0;
}

static void check_nccl(weir_boot *boot, const caller *with)
{
    ncclUniqueId ids[RANKS];
    ncclComm_t comm = NULL;
    char *at = with->memory;
    const size_t own = (size_t)with->rank * BLOCK;
    if (with->rank == 0)
        EXPECT(with->failures, ncclGetUniqueId(&ids[0]) == ncclSuccess);
    EXPECT_OK(with->failures, weir_boot_allgather(boot, ids, sizeof ids[0]));
    EXPECT(with->failures,
           ncclCommInitRank(&comm, with->nranks, ids[0], with->rank) == ncclSuccess);
    EXPECT(with->failures, nccl_refused(ncclAllGather(at, at + 4, COUNT, ncclInt32, comm, NULL),
                                        "in == out + rank * count"));
    EXPECT(with->failures,
           nccl_refused(ncclReduceScatter(at + 4, at, COUNT, ncclInt32, ncclSum, comm, NULL),
                        "out == in + rank * count"));
    EXPECT(with->failures, nccl_refused(ncclAlltoAll(at, at + 4, COUNT, ncclInt32, comm, NULL),
                                        "use two that do not overlap"));
    EXPECT(with->failures, ncclAlltoAll(at, at, COUNT, ncclInt32, comm, NULL) == ncclSuccess);
    if (with->rank == 1) { /* the root */
        EXPECT(with->failures, nccl_refused(ncclGather(at, at, COUNT, ncclInt32, 1, comm, NULL),
                                            "ncclGather: in and out are the same buffer"));
        EXPECT(with->failures,
               nccl_refused(ncclScatter(at, at + 4, COUNT, ncclInt32, 1, comm, NULL),
                            "ncclScatter: in and out overlap"));
    }
    EXPECT(with->failures,
           ncclGather(at + own, at, COUNT, ncclInt32, 1, comm, NULL) == ncclSuccess);
    EXPECT(with->failures,
           ncclScatter(at, at + own, COUNT, ncclInt32, 1, comm, NULL) == ncclSuccess);
    EXPECT(with->failures, ncclCommDestroy(comm) == ncclSuccess);
}

static int overlap_body(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0;
    weir_mem *memory = NULL;
    weir_comm *comm = where->nnodes ? open_internode(boot, where) : open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_mem_alloc(comm, MEMORY_BYTES, &memory));
    caller with = {comm, weir_comm_rank(comm), weir_comm_nranks(comm), NULL, &failures};
    for (int is_registered = 0; is_registered < 2 && !failures; is_registered++) {
        with.memory = is_registered ? weir_mem_pointer(memory) : malloc(MEMORY_BYTES);
        check_even(&with);
        accept_unused(&with);
        check_uneven(&with);
        check_algorithms(&with);
        if (!where->nnodes)
            check_plans(&with);
        check_nccl(boot, &with);
        if (!is_registered)
            free(with.memory);
    }
    weir_mem_free(memory);
    weir_comm_destroy(comm);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_RANKS_TEST("overlapping buffers on one node", overlap_body, "aaa", 0),
        LAYOUT_RANKS_TEST("overlapping buffers on two nodes", overlap_body, "aab", 2),
    };
    return RUN_TESTS("overlapping buffers", tests);
}
