/*
 * Proves that connections, semaphores and memory channels conform over every transport that maps
 * memory, that set-up errors reach both ends, and that an abort ends waits.
 */
#include "verify/tests/conformance/channel_conformance.h"

#include <sys/resource.h>

enum { TAG = 3, MOST_SEMAPHORES = 1024 };

/* A transport, and the number of ranks that use it. */
typedef struct subject {
    weir_transport transport;
    int nranks, rounds; /* of ping-pong */
} subject;

/* -------------------------------------------------------------- conformance */

static int channels_conform(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, 20000);
    if (!comm)
        return NO_COMM;
    int failures = channel_conformance(comm, what->transport, what->rounds);
    weir_comm_destroy(comm);
    EXPECT(&failures, count_maps("memfd:weir") == 0);
    return failures;
}

/* ------------------------------------------------------------------ refusals */

static void refuse_peers(weir_comm *comm, int *failures)
{
    weir_conn *conn = NULL;
    int invalid[] = {weir_comm_rank(comm), -1, weir_comm_nranks(comm), 1 << 20};
    for (int i = 0; i < 4; i++) {
        EXPECT(failures,
               weir_connect(comm, invalid[i], TAG, WEIR_TRANSPORT_AUTO, &conn) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has("expected a peer of 0..1"));
    }
    EXPECT(failures, weir_connect(NULL, 0, TAG, WEIR_TRANSPORT_AUTO, &conn) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_sem_create(NULL, &(weir_sem *){NULL}) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_memchan_create(NULL, NULL, NULL, NULL, &(weir_memchan *){NULL}) ==
                         WEIR_ERR_INVALID);
    EXPECT(failures, conn == NULL);
    weir_conn_free(NULL);
    weir_sem_free(NULL);
    weir_memchan_free(NULL);
}

/* Rank 1 asks for a transport that is absent, or for another one than rank 0 does: both ends get an
 * error, and their next connection succeeds. */
static void refuse_transport(weir_comm *comm, int *failures)
{
    static const weir_transport absent[] = {WEIR_TRANSPORT_CUDA_IPC, (weir_transport)99,
                                            WEIR_TRANSPORT_TCP};
    int rank = weir_comm_rank(comm);
    for (int i = 0; i < 3; i++) {
        weir_conn *conn = NULL;
        weir_status status =
            absent[i] == WEIR_TRANSPORT_TCP ? WEIR_ERR_MISMATCH : WEIR_ERR_UNSUPPORTED;
        EXPECT(failures, weir_connect(comm, 1 - rank, TAG, rank ? absent[i] : WEIR_TRANSPORT_SHM,
                                      &conn) == status);
        EXPECT(failures,
               boot_last_error_has(status == WEIR_ERR_MISMATCH ? "chose different transports"
                                   : rank                      ? "use shm"
                                                               : "rank 1 could not connect"));
        EXPECT(failures, conn == NULL);
        EXPECT_OK(failures, weir_connect(comm, 1 - rank, TAG, WEIR_TRANSPORT_SHM, &conn));
        weir_conn_free(conn);
    }
}

/* Ranks 0 and 1 use up their semaphores. Rank 2, which still has all of its semaphores, gets an
 * error at once because rank 0 has none left. */
static void use_up_semaphores(weir_comm *comm, int *failures)
{
    static weir_sem *sems[MOST_SEMAPHORES + 1];
    int rank = weir_comm_rank(comm);
    weir_conn *pairs = NULL, *third = NULL;
    if (rank < 2) {
        EXPECT_OK(failures, weir_connect(comm, 1 - rank, TAG, WEIR_TRANSPORT_AUTO, &pairs));
        for (int i = 0; i < MOST_SEMAPHORES && !*failures; i++)
            EXPECT_OK(failures, weir_sem_create(pairs, &sems[i]));
        EXPECT(failures, weir_sem_create(pairs, &sems[MOST_SEMAPHORES]) == WEIR_ERR_NO_MEMORY);
        EXPECT(failures, boot_last_error_has("more than 1024 semaphores"));
    }
    if (rank != 1) {
        EXPECT_OK(failures, weir_connect(comm, 2 - rank, TAG, WEIR_TRANSPORT_AUTO, &third));
        EXPECT(failures, weir_sem_create(third, &sems[MOST_SEMAPHORES]) == WEIR_ERR_NO_MEMORY);
        EXPECT(failures, boot_last_error_has(rank ? "rank 0 could not create its end"
                                                  : "more than 1024 semaphores"));
    }
    EXPECT(failures, sems[MOST_SEMAPHORES] == NULL);
    for (int i = 0; i < MOST_SEMAPHORES; i++)
        weir_sem_free(sems[i]);
    weir_conn_free(third);
    weir_conn_free(pairs);
}

/* Rank 0 runs out of descriptors when it maps the counters of rank 1: both ends get an error, and
 * their next semaphore works. Rank 0 has memory for its counters from a semaphore with rank 2. */
static void fail_to_map_semaphore(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm);
    struct rlimit files, none;
    weir_conn *pairs = NULL, *third = NULL;
    weir_sem *sem = NULL, *spare = NULL;
    EXPECT(failures, getrlimit(RLIMIT_NOFILE, &files) == 0);
    const int next = dup(0); /* the lowest that is free */
    close(next);
    none = files;
    none.rlim_cur = (rlim_t)next;
    if (rank != 1) {
        EXPECT_OK(failures, weir_connect(comm, 2 - rank, TAG, WEIR_TRANSPORT_SHM, &third));
        EXPECT_OK(failures, weir_sem_create(third, &spare));
    }
    if (rank < 2) {
        EXPECT_OK(failures, weir_connect(comm, 1 - rank, TAG, WEIR_TRANSPORT_SHM, &pairs));
        EXPECT(failures, rank == 1 || setrlimit(RLIMIT_NOFILE, &none) == 0);
        EXPECT(failures, weir_sem_create(pairs, &sem) < 0 && sem == NULL);
        EXPECT(failures, boot_last_error_has(rank ? "rank 0 could not create its end"
                                                  : "Too many open files"));
        EXPECT(failures, setrlimit(RLIMIT_NOFILE, &files) == 0);
        EXPECT_OK(failures, weir_sem_create(pairs, &sem));
    }
    weir_sem_free(sem);
    weir_sem_free(spare);
    weir_conn_free(third);
    weir_conn_free(pairs);
}

/* --------------------------------------------------------------------- abort */

static int abort_ends_wait(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    pair with = {.comm = comm, .rank = weir_boot_rank(boot), .peer = 1 - weir_boot_rank(boot)};
    if (!comm || pair_open(&with, WEIR_TRANSPORT_AUTO) != WEIR_OK)
        return NO_COMM;
    double start_s = now_s();
    if (with.rank == 1) {
        usleep(50000);
        weir_comm_abort(comm);
    } else {
        uint64_t seen = *with.data->sem.expected;
        EXPECT(&failures, weir_wait(with.data) == WEIR_ERR_ABORTED);
        EXPECT(&failures, *with.data->sem.expected == seen);
        with.epoch = 1;
        EXPECT(&failures, packets_receive(&with, with.packets, 0, 8, 1) == WEIR_ERR_ABORTED);
        EXPECT(&failures, now_s() - start_s < 10);
    }
    pair_close(&with);
    weir_comm_destroy(comm);
    return failures;
}

/* What LL128 lines carry of the last bytes of a message: these, then zeros. */
static void test_bytes_past_the_end_are_zeros(void **state)
{
    _Alignas(8) char bytes[24];
    (void)state;
    memset(bytes, 0x7f, sizeof bytes);
    for (size_t at = 0; at < 8; at++)
        for (size_t left = 1; left <= 9; left++)
            assert_true(weir_long_load(bytes + at, left) ==
                        UINT64_C(0x7f7f7f7f7f7f7f7f) >> (left < 8 ? 64 - 8 * left : 0));
}

#define CONFORMS(name, transport, nranks, rounds)                                                  \
    RANKS_TEST(name, nranks, channels_conform, (&(subject){transport, nranks, rounds}))

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONFORMS("shm: channels of 2 ranks conform", WEIR_TRANSPORT_SHM, 2, 100000),
        CONFORMS("shm: channels of 3 ranks conform", WEIR_TRANSPORT_SHM, 3, 1000),
        CONFORMS("shm: channels of 5 ranks conform", WEIR_TRANSPORT_SHM, 5, 1000),
        CONFORMS("shm: channels of 8 ranks conform", WEIR_TRANSPORT_SHM, 8, 200),
        CONFORMS("auto: channels of 2 ranks conform", WEIR_TRANSPORT_AUTO, 2, 1000),
        COMM_TEST("connections to ranks that do not exist are rejected", 2, refuse_peers),
        COMM_TEST("a transport that is absent or differs is rejected at both ends", 2,
                  refuse_transport),
        COMM_TEST("both ends report that no semaphores are left", 3, use_up_semaphores),
        COMM_TEST("both ends report that one could not map a semaphore", 3, fail_to_map_semaphore),
        RANKS_TEST("an abort ends the waits of channels", 2, abort_ends_wait, NULL),
        cmocka_unit_test(test_bytes_past_the_end_are_zeros),
    };
    return RUN_TESTS("channels", tests);
}
