/*
 * Connections, semaphores and memory channels: the conformance suite over every
 * transport of this build, and what set-up refuses, at both ends.
 */
#include "verify/tests/conformance/channel_conformance.h"

enum { TAG = 3, MOST_SEMAPHORES = 1024 };

/* A transport and a number of ranks to judge it with. */
typedef struct subject {
    weir_transport transport;
    int nranks, rounds; /* of ping-pong */
} subject;

/* -------------------------------------------------------------- conformance */

static int conforms(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = 20000;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
        return NO_COMM;
    int failures = channel_conformance(comm, what->transport, what->rounds);
    weir_comm_destroy(comm);
    EXPECT(&failures, count_maps("memfd:weir") == 0);
    return failures;
}

static void test_conforms(void **state)
{
    const subject *what = *state;
    run_ranks(what->nranks, conforms, *state);
}

/* ------------------------------------------------------------------ refusals */

static int refuse_peers(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    weir_conn *conn = NULL;
    if (!comm)
        return NO_COMM;
    int strangers[] = {weir_comm_rank(comm), -1, weir_comm_nranks(comm), 1 << 20};
    for (int i = 0; i < 4; i++) {
        EXPECT(&failures, weir_connect(comm, strangers[i], TAG, WEIR_TRANSPORT_AUTO, &conn) ==
                              WEIR_ERR_INVALID);
        EXPECT(&failures, boot_last_error_has("expected a peer of 0..1"));
    }
    EXPECT(&failures, weir_connect(NULL, 0, TAG, WEIR_TRANSPORT_AUTO, &conn) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_sem_create(NULL, &(weir_sem *){NULL}) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_memchan_create(NULL, NULL, NULL, NULL, &(weir_memchan *){NULL}) ==
                          WEIR_ERR_INVALID);
    EXPECT(&failures, conn == NULL);
    weir_conn_free(NULL);
    weir_sem_free(NULL);
    weir_memchan_free(NULL);
    weir_comm_destroy(comm);
    return failures;
}

static void test_strangers_are_refused(void **state)
{
    (void)state;
    run_ranks(2, refuse_peers, NULL);
}

/* Rank 1 asks for a transport that is not there, or another one than rank 0: both ends
 * hear of it, and their next connection is made. */
static int refuse_transport(weir_boot *boot, void *argument)
{
    static const weir_transport absent[] = {WEIR_TRANSPORT_CUDA_IPC, (weir_transport)99,
                                            WEIR_TRANSPORT_TCP};
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    for (int i = 0; i < 3; i++) {
        weir_conn *conn = NULL;
        weir_status status = absent[i] == WEIR_TRANSPORT_TCP ? WEIR_ERR_MISMATCH
                                                             : WEIR_ERR_UNSUPPORTED;
        EXPECT(&failures, weir_connect(comm, 1 - rank, TAG, rank ? absent[i] : WEIR_TRANSPORT_SHM,
                                       &conn) == status);
        EXPECT(&failures,
               boot_last_error_has(status == WEIR_ERR_MISMATCH ? "chose different transports"
                                   : rank                      ? "use shm"
                                                               : "rank 1 could not connect"));
        EXPECT(&failures, conn == NULL);
        EXPECT_OK(&failures, weir_connect(comm, 1 - rank, TAG, WEIR_TRANSPORT_SHM, &conn));
        weir_conn_free(conn);
    }
    weir_comm_destroy(comm);
    return failures;
}

static void test_absent_transport_is_refused_at_both_ends(void **state)
{
    (void)state;
    run_ranks(2, refuse_transport, NULL);
}

/* Ranks 0 and 1 use up their semaphores; rank 2, which has all of its own,
 * hears at once that rank 0 has none left. */
static int use_up_semaphores(weir_boot *boot, void *argument)
{
    static weir_sem *sems[MOST_SEMAPHORES + 1];
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0;
    weir_comm *comm = open_comm(boot);
    weir_conn *pairs = NULL, *third = NULL;
    if (!comm)
        return NO_COMM;
    if (rank < 2) {
        EXPECT_OK(&failures, weir_connect(comm, 1 - rank, TAG, WEIR_TRANSPORT_AUTO, &pairs));
        for (int i = 0; i < MOST_SEMAPHORES && !failures; i++)
            EXPECT_OK(&failures, weir_sem_create(pairs, &sems[i]));
        EXPECT(&failures, weir_sem_create(pairs, &sems[MOST_SEMAPHORES]) == WEIR_ERR_NO_MEMORY);
        EXPECT(&failures, boot_last_error_has("more than 1024 semaphores"));
    }
    if (rank != 1) {
        EXPECT_OK(&failures, weir_connect(comm, 2 - rank, TAG, WEIR_TRANSPORT_AUTO, &third));
        EXPECT(&failures, weir_sem_create(third, &sems[MOST_SEMAPHORES]) == WEIR_ERR_NO_MEMORY);
        EXPECT(&failures, boot_last_error_has(rank ? "rank 0 could not create its end"
                                                   : "more than 1024 semaphores"));
    }
    EXPECT(&failures, sems[MOST_SEMAPHORES] == NULL);
    for (int i = 0; i < MOST_SEMAPHORES; i++)
        weir_sem_free(sems[i]);
    weir_conn_free(third);
    weir_conn_free(pairs);
    weir_comm_destroy(comm);
    return failures;
}

static void test_lack_of_semaphores_is_told_to_both_ends(void **state)
{
    (void)state;
    run_ranks(3, use_up_semaphores, NULL);
}

/* --------------------------------------------------------------------- abort */

static int abort_ends_wait(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    pair with = {.comm = comm, .rank = weir_comm_rank(comm), .peer = 1 - weir_comm_rank(comm)};
    if (pair_open(&with, WEIR_TRANSPORT_AUTO) != WEIR_OK)
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

static void test_abort_ends_waits_of_channels(void **state)
{
    (void)state;
    run_ranks(2, abort_ends_wait, NULL);
}

static subject shm[] = {
    {WEIR_TRANSPORT_SHM, 2, 100000},
    {WEIR_TRANSPORT_SHM, 3, 1000},
    {WEIR_TRANSPORT_SHM, 5, 1000},
    {WEIR_TRANSPORT_SHM, 8, 200},
    {WEIR_TRANSPORT_AUTO, 2, 1000},
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        AT("shm: channels of 2 ranks conform", test_conforms, &shm[0]),
        AT("shm: channels of 3 ranks conform", test_conforms, &shm[1]),
        AT("shm: channels of 5 ranks conform", test_conforms, &shm[2]),
        AT("shm: channels of 8 ranks conform", test_conforms, &shm[3]),
        AT("auto: channels of 2 ranks conform", test_conforms, &shm[4]),
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_absent_transport_is_refused_at_both_ends),
        cmocka_unit_test(test_lack_of_semaphores_is_told_to_both_ends),
        cmocka_unit_test(test_abort_ends_waits_of_channels),
    };
    return cmocka_run_group_tests_name("channels", tests, NULL, NULL);
}
