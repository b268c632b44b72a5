/*
 * libweir_nccl with ranks that are threads of one process, on host memory: collectives, messages,
 * parts, one-sided calls, creation in the background, and an abort by another thread. Under a
 * thread sanitizer (BUILD=tsan) it checks that what the ranks of a process share is protected:
 * handles, ids, errors, registrations, jobs, the monitor.
 */
#include "nccl/rma/rma.h"
#include "nccl/weir_nccl.h"
#include <weir/weir.h>
#include "verify/tests/support/entries.h"
#include "verify/tests/support/unit_test.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { RANKS = 3, MOST = 20000, TURNS = 5 };

typedef struct thread_rank {
    int rank, nranks;
    ncclUniqueId id;
    ncclResult_t created; /* of the latest communicator */
    void (*body)(struct thread_rank *r, ncclComm_t comm);
} thread_rank;

static atomic_int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            atomic_fetch_add(&failures, 1);                                                        \
            printf("# %s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,                   \
                   ncclGetLastError(NULL));                                                        \
        }                                                                                          \
    } while (0)
#define EXPECT_OK(call) EXPECT((call) == ncclSuccess)

/* Sums count elements of the value `mine` over the ranks, and checks that each is `sum`. */
static void expect_sum(ncclComm_t comm, int mine, size_t count, int sum)
{
    int32_t *values = calloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = mine;
    EXPECT_OK(ncclAllReduce(values, values, count, ncclInt32, ncclSum, comm, NULL));
    size_t right = 0;
    while (right < count && values[right] == sum)
        right++;
    EXPECT(right == count);
    free(values);
}

static void *run_rank(void *argument)
{
    thread_rank *r = argument;
    ncclComm_t comm = NULL;
    EXPECT_OK(ncclCommInitRank(&comm, r->nranks, r->id, r->rank));
    if (comm) {
        r->body(r, comm);
        EXPECT_OK(ncclCommDestroy(comm));
    }
    return NULL;
}

/* Runs a communicator of so many threads. */
static void run_threads(int nranks, void (*body)(thread_rank *r, ncclComm_t comm))
{
    pthread_t threads[2 * RANKS];
    thread_rank ranks[2 * RANKS];
    ncclUniqueId id;
    EXPECT_OK(ncclGetUniqueId(&id));
    for (int i = 0; i < nranks; i++) {
        ranks[i] = (thread_rank){.rank = i, .nranks = nranks, .id = id, .body = body};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < nranks; i++)
        pthread_join(threads[i], NULL);
}

/* ---------------------------------------------------------------- collectives */

static void call_collectives(thread_rank *r, ncclComm_t comm)
{
    const int sum = r->nranks * (r->nranks + 1) / 2;
    for (int turn = 0; turn < TURNS; turn++) {
        expect_sum(comm, r->rank + 1, 7, sum);
        expect_sum(comm, r->rank + 1, MOST, sum);
    }
}

TEST(threads_call_collectives)
{
    run_threads(RANKS, call_collectives);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

static void call_messages(thread_rank *r, ncclComm_t comm)
{
    const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
    int32_t *out = calloc(MOST, sizeof *out), *in = calloc(MOST, sizeof *in);
    for (int turn = 0; turn < TURNS; turn++) {
        out[0] = out[MOST - 1] = 100 * turn + r->rank;
        EXPECT_OK(ncclGroupStart());
        EXPECT_OK(ncclSend(out, MOST, ncclInt32, next, comm, NULL));
        EXPECT_OK(ncclRecv(in, MOST, ncclInt32, before, comm, NULL));
        EXPECT_OK(ncclGroupEnd());
        EXPECT(in[0] == 100 * turn + before && in[MOST - 1] == in[0]);
    }
    free(out);
    free(in);
}

TEST(threads_send_messages)
{
    run_threads(RANKS, call_messages);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

static void call_part(thread_rank *r, ncclComm_t comm)
{
    ncclComm_t part = NULL;
    EXPECT_OK(ncclCommSplit(comm, r->rank == 0, r->rank, &part, NULL));
    if (part) {
        expect_sum(part, 1, 7, r->rank == 0 ? 1 : r->nranks - 1);
        EXPECT_OK(ncclCommDestroy(part));
    }
    expect_sum(comm, 1, 7, r->nranks);
}

TEST(threads_divide_a_communicator)
{
    run_threads(RANKS, call_part);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

/* ------------------------------------------------------------ one-sided calls */

static void call_onesided(thread_rank *r, ncclComm_t comm)
{
    const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
    void *memory = NULL, *handle = NULL;
    ncclWindow_t window = NULL;
    EXPECT_OK(ncclMemAlloc(&memory, 1 << 16));
    EXPECT_OK(ncclCommRegister(comm, memory, 1 << 16, &handle));
    const weiri_registration *registered = weiri_registration_find(comm, handle);
    EXPECT(registered && registered->mem && weir_mem_pointer(registered->mem) == memory);
    EXPECT_OK(ncclCommDeregister(comm, handle));
    EXPECT_OK(ncclCommWindowRegister(comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
    for (int turn = 0; window && turn < TURNS; turn++) {
        int32_t value = 100 * turn + r->rank;
        ncclWaitSignalDesc_t from = {1, before, 0, 0};
        EXPECT_OK(ncclPutSignal(&value, 1, ncclInt32, next, window, 64, 0, 0, 0, comm, NULL));
        EXPECT_OK(ncclWaitSignal(1, &from, comm, NULL));
        EXPECT(((int32_t *)memory)[16] == 100 * turn + before);
        expect_sum(comm, 1, 1, r->nranks); /* all have read */
    }
    EXPECT_OK(ncclCommWindowDeregister(comm, window));
    EXPECT_OK(ncclMemFree(memory));
}

TEST(threads_put_and_signal)
{
    run_threads(RANKS, call_onesided);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

/* ------------------------------------------------- creation in the background */

static void *run_background(void *argument)
{
    thread_rank *r = argument;
    ncclConfig_t config = {.size = offsetof(ncclConfig_t, cgaClusterSize), /* no more than this */
                           .magic = NCCL_CONFIG_MAGIC,
                           .version = 21400,
                           .blocking = 0};
    ncclComm_t comm = NULL;
    ncclResult_t result = ncclCommInitRankConfig(&comm, r->nranks, r->id, r->rank, &config);
    EXPECT(result == ncclSuccess || result == ncclInProgress);
    while (ncclCommGetAsyncError(comm, &r->created) == ncclSuccess && r->created == ncclInProgress)
        usleep(100);
    EXPECT(r->created == ncclSuccess);
    expect_sum(comm, 1, 7, r->nranks);
    EXPECT_OK(ncclCommFinalize(comm));
    do
        EXPECT_OK(ncclCommGetAsyncError(comm, &r->created));
    while (r->created == ncclInProgress);
    EXPECT_OK(ncclCommDestroy(comm));
    return NULL;
}

TEST(threads_create_in_the_background)
{
    pthread_t threads[2 * RANKS];
    thread_rank ranks[2 * RANKS];
    ncclUniqueId ids[2];
    for (int i = 0; i < 2 * RANKS; i++) { /* two communicators at the same time */
        if (i % RANKS == 0)
            EXPECT_OK(ncclGetUniqueId(&ids[i / RANKS]));
        ranks[i] = (thread_rank){.rank = i % RANKS, .nranks = RANKS, .id = ids[i / RANKS]};
        assert_int_equal(pthread_create(&threads[i], NULL, run_background, &ranks[i]), 0);
    }
    for (int i = 0; i < 2 * RANKS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

/* ------------------------------------------------------------------- an abort */

static void *run_stuck(void *comm)
{
    int32_t value = 1;
    EXPECT(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL) == ncclRemoteError);
    return NULL;
}

static void *run_aborted(void *argument)
{
    const thread_rank *r = argument;
    ncclComm_t comm = NULL;
    EXPECT_OK(ncclCommInitRank(&comm, r->nranks, r->id, r->rank));
    if (r->rank == 0 && comm) {
        pthread_t stuck;
        assert_int_equal(pthread_create(&stuck, NULL, run_stuck, comm), 0);
        usleep(50000); /* usually it waits by now */
        EXPECT_OK(ncclCommAbort(comm));
        pthread_join(stuck, NULL);
    } else if (comm) {
        ncclResult_t error = ncclSuccess;
        while (ncclCommGetAsyncError(comm, &error) == ncclSuccess && error == ncclSuccess)
            usleep(100);
        EXPECT(error == ncclRemoteError);
        EXPECT_OK(ncclCommAbort(comm));
    }
    return NULL;
}

TEST(an_abort_by_another_thread_ends_a_call)
{
    pthread_t threads[RANKS];
    thread_rank ranks[RANKS];
    ncclUniqueId id;
    EXPECT_OK(ncclGetUniqueId(&id));
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (thread_rank){.rank = i, .nranks = RANKS, .id = id};
        assert_int_equal(pthread_create(&threads[i], NULL, run_aborted, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

/* -------------------------------------------------------- no memory on one rank */

/* Which of the calling thread's next allocations fails; 0: none. The linker passes the library's
 * calls here. Allocations before a rank communicates do not count, nor do those of the bootstrap,
 * without which nothing can be agreed. */
static _Thread_local int fails_at, counts;

#define WRAP(type, name, parameters)                                                               \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters

static int is_refused(void)
{
    return counts && fails_at > 0 && --fails_at == 0;
}

WRAP(void *, calloc, (size_t count, size_t bytes))
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

WRAP(void *, malloc, (size_t bytes))
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

WRAP(weir_status, weir_boot_agree, (weir_boot * boot, weir_status mine))
{
    counts = 0;
    weir_status status = __real_weir_boot_agree(boot, mine);
    counts = 1;
    return status;
}

WRAP(weir_status, weir_boot_allgather, (weir_boot * boot, void *all, size_t bytes))
{
    counts = 0;
    weir_status status = __real_weir_boot_allgather(boot, all, bytes);
    counts = 1;
    return status;
}

WRAP(weir_status, weiri_boot_tcp_create,
     (const weir_unique_id *id, int rank, int nranks, int timeout_ms, weir_boot **boot))
{
    counts = 0;
    return __real_weiri_boot_tcp_create(id, rank, nranks, timeout_ms, boot);
}

static _Thread_local int creates_no_id;
WRAP(weir_status, weir_unique_id_create, (weir_unique_id * id))
{
    return creates_no_id ? WEIR_ERR_SYSTEM : __real_weir_unique_id_create(id);
}

/* What a rank creates while it has no memory. */
enum { CREATES, DIVIDES, GROWS, REGISTERS };

typedef struct poor_rank {
    thread_rank base;
    int fails_at; /* which allocation of rank 1 fails */
    int creates;
    int had_memory;
    ncclResult_t result;
    char memory[64]; /* of a window */
} poor_rank;

static void *run_poor(void *argument)
{
    poor_rank *r = argument;
    ncclComm_t comm = NULL, made = NULL;
    ncclWindow_t window = NULL;
    const int which = r->base.rank == 1 ? r->fails_at : 0;
    counts = 0;
    fails_at = r->creates == CREATES ? which : 0;
    r->result = ncclCommInitRank(&comm, r->base.nranks, r->base.id, r->base.rank);
    counts = 1;
    if (comm && r->creates != CREATES)
        fails_at = which;
    if (comm && r->creates == DIVIDES)
        r->result = ncclCommSplit(comm, 0, r->base.rank, &made, NULL);
    if (comm && r->creates == GROWS) /* fails on all ranks: no rank has an id */
        r->result = ncclCommGrow(comm, 3, NULL, -1, &made, NULL);
    if (comm && r->creates == REGISTERS)
        r->result = ncclCommWindowRegister(comm, r->memory, sizeof r->memory, &window, 0);
    r->had_memory = fails_at > 0;
    fails_at = counts = 0;
    if (window)
        EXPECT_OK(ncclCommWindowDeregister(comm, window));
    if (made)
        EXPECT_OK(ncclCommDestroy(made));
    if (comm)
        EXPECT_OK(ncclCommDestroy(comm));
    return NULL;
}

/* Fails one allocation after the other of rank 1, from `first` on, until none is left: all ranks
 * must have the same result each time. */
static void run_without_memory(int creates, int first, ncclResult_t with_memory)
{
    int had_memory = 0;
    for (int which = first; !had_memory; which++) {
        pthread_t threads[2];
        poor_rank ranks[2];
        ncclUniqueId id;
        EXPECT_OK(ncclGetUniqueId(&id));
        for (int i = 0; i < 2; i++) {
            ranks[i] = (poor_rank){
                .base = {.rank = i, .nranks = 2, .id = id}, .fails_at = which, .creates = creates};
            assert_int_equal(pthread_create(&threads[i], NULL, run_poor, &ranks[i]), 0);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        had_memory = ranks[1].had_memory;
        EXPECT(ranks[0].result == ranks[1].result);
        if (creates == REGISTERS && ranks[0].result == ncclSuccess)
            continue; /* memory that peers cannot map is staged */
        EXPECT(ranks[0].result == (had_memory ? with_memory : ncclSystemError));
    }
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

TEST(all_ranks_fail_if_one_has_no_memory_to_create)
{
    run_without_memory(CREATES, 1, ncclSuccess);
}

/* The first allocation is that of the request, before the rank communicates. */
TEST(all_ranks_fail_if_one_has_no_memory_to_divide)
{
    run_without_memory(DIVIDES, 2, ncclSuccess);
}

TEST(all_ranks_fail_if_one_has_no_memory_to_grow)
{
    run_without_memory(GROWS, 2, ncclInvalidUsage);
}

TEST(all_ranks_fail_if_one_has_no_memory_to_register_a_window)
{
    run_without_memory(REGISTERS, 3, ncclSuccess);
}

static void shrink_without_id(thread_rank *r, ncclComm_t comm)
{
    ncclComm_t made = NULL;
    int excluded = 1;
    if (r->rank == excluded)
        return;
    creates_no_id = r->rank == 0;
    EXPECT(ncclCommShrink(comm, &excluded, 1, &made, NULL, 0) != ncclSuccess);
    EXPECT(r->rank == 0 || strstr(ncclGetLastError(NULL), "rank 0 could not create the id"));
    creates_no_id = 0;
}

TEST(all_ranks_fail_if_one_cannot_create_the_id_of_a_smaller_communicator)
{
    run_threads(RANKS, shrink_without_id);
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

/* Returns the lowest number of descriptors that this process has until it has at most `enough`, for
 * at most `limit_ms`. The thread that serves ids closes its descriptor late on a busy machine. */
static int lowest_descriptors(int enough, int limit_ms)
{
    int lowest = INT_MAX;
    for (int i = 0; i < limit_ms && lowest > enough; i++) {
        const int count = count_entries("/proc/self/fd");
        lowest = count < lowest ? count : lowest;
        usleep(1000);
    }
    return lowest;
}

/* An id at which a communicator was to grow, and which nobody used, listens no longer. */
TEST(the_id_of_a_growth_ends_with_its_communicator)
{
    int before = 0;
    for (int turn = 0; turn < 3; turn++) {
        ncclUniqueId id, of_growth;
        ncclComm_t comm = NULL;
        EXPECT_OK(ncclGetUniqueId(&id));
        EXPECT_OK(ncclCommInitRank(&comm, 1, id, 0));
        if (turn > 0)
            EXPECT_OK(ncclCommGetUniqueId(comm, &of_growth));
        EXPECT_OK(ncclCommDestroy(comm));
        if (turn == 0)
            before = lowest_descriptors(0, 200);
        assert_in_range(lowest_descriptors(before, 10000), 0, before);
    }
    assert_int_equal(atomic_exchange(&failures, 0), 0);
}

int main(void)
{
    setenv("WEIR_BACKEND", "host", 1); /* also where there are GPUs */
    return run_all_tests("nccl_threads");
}
