/*
 * Proves that communicators of 1 to 16 ranks report their properties, that their barrier separates
 * phases, that long waits leave cores to others, that creation is quick, uses the memory that it
 * states and leaks nothing, and that creation with invalid settings fails on every rank. Failing
 * ranks are in test_comm_faults.c.
 */
#define _GNU_SOURCE
#include "verify/tests/support/comm_ranks.h"

/* --------------------------------------------------------------- properties */

static int getters(weir_boot *boot, void *argument)
{
    int rank = weir_boot_rank(boot), nranks = *(int *)argument, failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, weir_comm_rank(comm) == rank);
    EXPECT(&failures, weir_comm_nranks(comm) == nranks);
    EXPECT(&failures, weir_comm_nnodes(comm) == 1);
    EXPECT(&failures, weir_comm_local_nranks(comm) == nranks);
    EXPECT(&failures, weir_comm_local_rank(comm) == rank);
    EXPECT(&failures, weir_comm_boot(comm) == boot);
    EXPECT(&failures, weir_comm_transport(comm) == WEIR_TRANSPORT_SHM);
    weir_comm_abort(NULL);
    EXPECT(&failures, weir_comm_scratch_bytes(comm) >= 1 << 20);
    for (int i = 0; i < 5; i++)
        EXPECT_OK(&failures, weir_comm_barrier(comm));
    weir_comm_destroy(comm);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    return failures;
}

/* ------------------------------------------------------------------ barrier */

/* Every rank counts rounds in memory that its peers read; in each round one rank is late. Returns
 * how often a peer's count differed from the round. */
static int count_rounds(weir_comm *comm, weir_mem **mems, int with_barrier)
{
    enum { ROUNDS = 60, LATE_US = 1000 };
    int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm), wrong = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        if (round % nranks == rank)
            usleep(LATE_US);
        __atomic_store_n((int *)weir_mem_pointer(mems[rank]), round, __ATOMIC_RELAXED);
        if (with_barrier && weir_comm_barrier(comm) != WEIR_OK)
            return ROUNDS;
        for (int peer = 0; peer < nranks; peer++) {
            const int *theirs = weir_mem_pointer(mems[peer]);
            wrong += __atomic_load_n(theirs, __ATOMIC_RELAXED) != round;
        }
        if (with_barrier && weir_comm_barrier(comm) != WEIR_OK)
            return ROUNDS;
    }
    return wrong;
}

static void barrier(weir_comm *comm, int *failures)
{
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    EXPECT_OK(failures, weir_mem_alloc(comm, sizeof(int), &mem));
    if (*failures)
        return;
    EXPECT_OK(failures, weir_mem_exchange(comm, mem, mems));
    EXPECT(failures, count_rounds(comm, mems, 1) == 0);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    /* Without barriers, counts differ: the check above can fail. */
    EXPECT(failures, count_rounds(comm, mems, 0) > 0);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (int peer = 0; peer < weir_comm_nranks(comm); peer++)
        weir_mem_free(mems[peer]);
}

/* -------------------------------------------------------------------- costs */

static int set_up_quickly(weir_boot *boot, void *argument)
{
    enum { TRIES = 3 };
    double most_s = *(double *)argument, best_s = 1e9;
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot), failures = 0;
    for (int i = 0; i < TRIES; i++) {
        double took_s[MOST_RANKS] = {0};
        EXPECT_OK(&failures, weir_boot_barrier(boot));
        double start_s = now_s();
        weir_comm *comm = open_comm(boot);
        if (!comm)
            return NO_COMM;
        took_s[rank] = now_s() - start_s;
        EXPECT_OK(&failures, weir_boot_allgather(boot, took_s, sizeof *took_s));
        for (int peer = 1; peer < nranks; peer++)
            took_s[0] = took_s[peer] > took_s[0] ? took_s[peer] : took_s[0];
        best_s = took_s[0] < best_s ? took_s[0] : best_s;
        weir_comm_destroy(comm);
    }
    EXPECT(&failures, best_s < most_s);
    return failures;
}

static void test_set_up_of_8_ranks_is_quick(void **state)
{
    (void)state;
    double most_s = SANITISED ? 5.0 : 0.5;
    run_ranks(8, set_up_quickly, &most_s);
}

static double thread_cpu_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* Ranks that share a core and wait long for another one leave the core to other programs. */
static int wait_for_late_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    enum { LATE_US = 600000 };
    int failures = 0;
    share_a_core(&failures);
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    const double before_s = thread_cpu_s();
    if (weir_comm_rank(comm) == 0)
        usleep(LATE_US);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT(&failures, thread_cpu_s() - before_s < 1e-6 * LATE_US / 5);
    weir_comm_destroy(comm);
    return failures;
}

/* This process's share of the library's memory in bytes; a shared page is divided among the
 * processes that map it. */
static uint64_t shared_bytes(void)
{
    char line[512];
    uint64_t total = 0, kilobytes;
    int ours = 0;
    unsigned long begin, end;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            ours = strstr(line, "memfd:weir") != NULL;
        else if (ours && sscanf(line, "Pss: %lu kB", &kilobytes) == 1)
            total += kilobytes * 1024;
    }
    if (file)
        fclose(file);
    return total;
}

/* Measured after a collective, which allocates what it needs at the first call. */
static void memory_held(weir_comm *comm, int *failures)
{
    enum { COUNT = 1 << 18 };
    static float in[COUNT], out[COUNT];
    int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    uint64_t held[MOST_RANKS][2] = {{0}}, measured = 0, stated = 0;
    EXPECT_OK(failures, weir_allreduce(comm, in, out, COUNT, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT_OK(failures, weir_boot_barrier(weir_comm_boot(comm)));
    held[rank][0] = shared_bytes();
    held[rank][1] = weir_comm_scratch_bytes(comm);
    EXPECT_OK(failures, weir_boot_allgather(weir_comm_boot(comm), held, sizeof *held));
    for (int peer = 0; peer < nranks; peer++) {
        measured += held[peer][0];
        stated += held[peer][1];
    }
    EXPECT(failures, stated <= 64 << 20 && measured <= 64 << 20);
    /* Page counts are rounded down to kilobytes for every mapping. */
    EXPECT(failures, measured <= stated + (1 << 20) && measured >= stated / 2);
}

static int many_rounds(weir_boot *boot, void *argument)
{
    enum { ROUNDS = 200, WARM = 5 };
    (void)argument;
    int failures = 0, maps = 0, fds = 0;
    for (int round = 0; round < ROUNDS; round++) {
        weir_comm *comm = open_comm(boot);
        weir_mem *mem = NULL;
        if (!comm)
            return NO_COMM;
        EXPECT_OK(&failures, weir_mem_alloc(comm, 100, &mem));
        EXPECT_OK(&failures, weir_comm_barrier(comm));
        weir_mem_free(mem);
        weir_comm_destroy(comm);
        if (round == WARM) {
            maps = count_steady_maps();
            fds = count_fds();
        }
    }
    EXPECT(&failures, count_maps("memfd:weir") == 0);
    EXPECT(&failures, count_steady_maps() <= maps + 2);
    EXPECT(&failures, count_fds() == fds);
    return failures;
}

/* ---------------------------------------------------------------- refusals */

/* A creation that must fail with the same error on every rank. */
typedef struct refusal {
    int rank; /* the rank with the invalid setting; -1: all */
    const char *variable, *value;
    size_t scratch_bytes;
    weir_status status;
    const char *says[2];
    int max_blocks; /* of the rank with the invalid setting */
} refusal;

/* WEIR_TRANSPORT names what connects nodes: a job of several nodes must be able to split by node.
 */
static int keeps_shared_memory(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    setenv("WEIR_TRANSPORT", "tcp", 1);
    weir_comm *comm = open_comm(boot);
    EXPECT(&failures, comm != NULL);
    EXPECT(&failures, weir_comm_transport(comm) == WEIR_TRANSPORT_SHM);
    EXPECT(&failures, weir_comm_destroy(comm) == WEIR_OK);
    unsetenv("WEIR_TRANSPORT");
    return failures;
}

static int create_fails(weir_boot *boot, void *argument)
{
    const refusal *what = argument;
    int failures = 0, here = what->rank < 0 || what->rank == weir_boot_rank(boot);
    weir_comm *untouched = (weir_comm *)(void *)&failures, *comm = untouched;
    if (here && what->variable)
        setenv(what->variable, what->value, 1);
    double start_s = now_s();
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    config.scratch_bytes = here ? what->scratch_bytes : 0;
    config.max_blocks = here ? what->max_blocks : 0;
    EXPECT(&failures, weir_comm_create(boot, &config, &comm) == what->status);
    for (int i = 0; i < 2; i++)
        EXPECT(&failures, boot_last_error_has(what->says[i]));
    EXPECT(&failures, comm == untouched);
    EXPECT(&failures, now_s() - start_s < 10);
    /* No rank hangs, nothing leaks, and the next creation succeeds. */
    EXPECT(&failures, count_maps("memfd:weir") == 0);
    if (what->variable)
        unsetenv(what->variable);
    comm = open_comm(boot);
    EXPECT(&failures, comm != NULL);
    weir_comm_destroy(comm);
    return failures;
}

/* What the message above names as the least is enough, for long calls as well. */
static int least_scratch(weir_boot *boot, void *argument)
{
    enum { ELEMENTS = 30000 };
    static int32_t in[ELEMENTS], out[ELEMENTS];
    int failures = 0;
    size_t wrong = 0;
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    (void)argument;
    config.backend = WEIR_BACKEND_HOST;
    config.scratch_bytes = 60160;
    EXPECT(&failures, weir_comm_create(boot, &config, &comm) == WEIR_OK);
    for (int i = 0; i < ELEMENTS; i++)
        in[i] = i + weir_boot_rank(boot);
    if (comm)
        EXPECT(&failures,
               weir_allreduce(comm, in, out, ELEMENTS, WEIR_INT32, WEIR_SUM, NULL) == WEIR_OK);
    for (int i = 0; i < ELEMENTS; i++)
        wrong += out[i] != 3 * i + 3;
    EXPECT(&failures, wrong == 0);
    weir_comm_destroy(comm);
    return failures;
}

/* A bootstrap of one process that acts for many ranks, which all contribute the same data. */
typedef struct echo {
    int rank, nranks;
} echo;

static weir_status echo_allgather(void *context, void *all, size_t bytes)
{
    const echo *who = context;
    for (int rank = 0; rank < who->nranks; rank++)
        if (rank != who->rank)
            memcpy((char *)all + (size_t)rank * bytes, (char *)all + (size_t)who->rank * bytes,
                   bytes);
    return WEIR_OK;
}
static weir_status echo_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    (void)context, (void)data, (void)bytes, (void)peer, (void)tag;
    return WEIR_OK;
}
static weir_status echo_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    (void)context, (void)data, (void)bytes, (void)peer, (void)tag;
    return WEIR_OK;
}
static weir_status echo_barrier(void *context)
{
    (void)context;
    return WEIR_OK;
}
static void echo_destroy(void *context)
{
    (void)context;
}

static const weir_boot_ops echo_ops = {"echo",       echo_allgather, echo_send, echo_recv,
                                       echo_barrier, echo_destroy,   NULL};

static void test_too_many_ranks(void **state)
{
    (void)state;
    echo who = {3, 4097};
    weir_boot *boot = NULL;
    weir_comm *comm = NULL;
    assert_int_equal(weir_boot_create(&echo_ops, &who, who.rank, who.nranks, &boot), WEIR_OK);
    assert_int_equal(weir_comm_create(boot, NULL, &comm), WEIR_ERR_UNSUPPORTED);
    assert_true(boot_last_error_has("4097 ranks: at most 4096"));
    assert_null(comm);
    weir_boot_destroy(boot);
}

static void test_config_of_another_version(void **state)
{
    (void)state;
    struct {
        weir_comm_config known;
        uint64_t unknown;
    } newer = {WEIR_COMM_CONFIG_INIT, 0};
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    echo who = {0, 1};
    weir_boot *boot = NULL;
    weir_comm *comm = NULL;
    assert_int_equal(weir_boot_create(&echo_ops, &who, who.rank, who.nranks, &boot), WEIR_OK);
    assert_int_equal(config.backend, WEIR_BACKEND_AUTO);
    assert_int_equal(config.device, -1);
    config.size = 0;
    assert_int_equal(weir_comm_create(boot, &config, &comm), WEIR_ERR_INVALID);
    assert_true(boot_last_error_has("weir_comm_config: size is 0"));
    /* An older caller's structure ends before the fields that it does not know. */
    config.size = offsetof(weir_comm_config, timeout_ms);
    config.backend = (weir_backend)77;
    assert_int_equal(weir_comm_create(boot, &config, &comm), WEIR_OK);
    assert_int_equal(weir_comm_destroy(comm), WEIR_OK);
    /* A newer caller may leave unknown fields at 0. */
    newer.known.size = sizeof newer;
    newer.known.backend = WEIR_BACKEND_HOST;
    assert_int_equal(weir_comm_create(boot, &newer.known, &comm), WEIR_OK);
    assert_int_equal(weir_comm_destroy(comm), WEIR_OK);
    newer.unknown = 1;
    assert_int_equal(weir_comm_create(boot, &newer.known, &comm), WEIR_ERR_INVALID);
    assert_true(boot_last_error_has("must be 0"));
    weir_boot_destroy(boot);
}

static void test_missing_arguments_are_refused(void **state)
{
    (void)state;
    echo who = {0, 1};
    weir_boot *boot = NULL;
    weir_comm *comm = NULL;
    assert_int_equal(weir_boot_create(&echo_ops, &who, who.rank, who.nranks, &boot), WEIR_OK);
    assert_int_equal(weir_comm_create(NULL, NULL, &comm), WEIR_ERR_INVALID);
    assert_int_equal(weir_comm_create(boot, NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_comm_destroy(NULL), WEIR_OK);
    weir_boot_destroy(boot);
}

#define CREATE_FAILS(name, ...) RANKS_TEST(name, 3, create_fails, (&(refusal){__VA_ARGS__}))
#define PROPERTIES(name, nranks) RANKS_TEST(name, nranks, getters, (&(int){nranks}))

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROPERTIES("properties of 1 rank", 1),
        PROPERTIES("properties of 2 ranks", 2),
        PROPERTIES("properties of 3 ranks", 3),
        PROPERTIES("properties of 5 ranks", 5),
        PROPERTIES("properties of 8 ranks", 8),
        PROPERTIES("properties of 16 ranks", 16),
        COMM_TEST("the barrier separates phases of 2 ranks", 2, barrier),
        COMM_TEST("the barrier separates phases of 5 ranks", 5, barrier),
        cmocka_unit_test(test_set_up_of_8_ranks_is_quick),
        RANKS_TEST("long waits leave a shared core to others", 3, wait_for_late_rank, NULL),
        COMM_TEST("memory of 8 ranks is what is stated", 8, memory_held),
        RANKS_TEST("200 communicators leave nothing", 3, many_rounds, NULL),
        CREATE_FAILS("an unknown transport is rejected", -1, "WEIR_TRANSPORT", "bogus", 0,
                     WEIR_ERR_INVALID, {"WEIR_TRANSPORT=bogus", "expected auto, shm"}, 0),
        RANKS_TEST("a transport between nodes leaves shared memory inside one", 3,
                   keeps_shared_memory, NULL),
        CREATE_FAILS("different scratch_bytes are rejected", 1, NULL, NULL, 2 << 20,
                     WEIR_ERR_MISMATCH, {"scratch_bytes differs", "2097152"}, 0),
        CREATE_FAILS("the largest scratch_bytes is rejected", 0, NULL, NULL, SIZE_MAX,
                     WEIR_ERR_NO_MEMORY, {"rank 0 failed", "scratch_bytes"}, 0),
        CREATE_FAILS("too small a scratch_bytes is rejected", 1, NULL, NULL, 40 << 10,
                     WEIR_ERR_INVALID, {"rank 1 failed", "3 ranks need at least"}, 0),
        CREATE_FAILS("one byte less than the least scratch_bytes is rejected", 1, NULL, NULL,
                     53248 + 3 * 2304 - 1, WEIR_ERR_INVALID,
                     {"scratch_bytes is 60159; 3 ranks need at least 60160", ""}, 0),
        RANKS_TEST("the least scratch_bytes serves", 3, least_scratch, NULL),
        CREATE_FAILS("an absurd scratch_bytes is rejected", -1, NULL, NULL, (size_t)1 << 50,
                     WEIR_ERR_NO_MEMORY, {"rank 0 failed", "no room for"}, 0),
        CREATE_FAILS("a negative max_blocks is rejected", 2, NULL, NULL, 0, WEIR_ERR_INVALID,
                     {"rank 2 failed", "max_blocks is -1"}, -1),
        CREATE_FAILS("different max_blocks are rejected", 1, NULL, NULL, 0, WEIR_ERR_MISMATCH,
                     {"max_blocks differs", "8"}, 8),
        CREATE_FAILS("max_blocks of one rank's environment is rejected", 2, "WEIR_MAX_BLOCKS", "4",
                     0, WEIR_ERR_MISMATCH, {"max_blocks differs", "WEIR_MAX_BLOCKS"}, 0),
        CREATE_FAILS("an unknown policy of blocks is rejected", 2, "WEIR_BLOCK_POLICY", "few", 0,
                     WEIR_ERR_INVALID, {"WEIR_BLOCK_POLICY=few", "efficiency"}, 0),
        CREATE_FAILS("different policies of blocks are rejected", 2, "WEIR_BLOCK_POLICY", "zero", 0,
                     WEIR_ERR_MISMATCH, {"block_policy differs", "WEIR_BLOCK_POLICY"}, 0),
        CREATE_FAILS("no blocks at all are rejected", -1, "WEIR_MAX_BLOCKS", "0", 0,
                     WEIR_ERR_INVALID, {"WEIR_MAX_BLOCKS=0: expected a number from 1", "from 1"},
                     0),
        cmocka_unit_test(test_too_many_ranks),
        cmocka_unit_test(test_config_of_another_version),
        cmocka_unit_test(test_missing_arguments_are_refused),
    };
    return RUN_TESTS("comm", tests);
}
