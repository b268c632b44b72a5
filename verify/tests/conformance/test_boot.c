/*
 * The bootstrap object; the conformance tests over the fork and the TCP
 * bootstrap; what the two do when a peer dies, stays silent or disagrees; and
 * the runner of forked ranks itself.
 */
#include "verify/tests/conformance/boot_conformance.h"

#include <weir/target.h>

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIMIT_MS = 60000, MOST_RANKS = 64 };

/* Runs body in nranks ranks, each of which must end with code 0. */
static void run_ranks(int nranks, int (*body)(weir_boot *boot, void *argument), void *argument)
{
    int codes[MOST_RANKS];
    if (weir_boot_fork_run(nranks, body, argument, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    for (int rank = 0; rank < nranks; rank++)
        if (codes[rank] != 0)
            fail_msg("rank %d of %d ended with %d", rank, nranks, codes[rank]);
}

/* A TCP bootstrap among the ranks of another one; NULL if it fails. */
static weir_boot *tcp_over(weir_boot *boot)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    weir_unique_id *ids = calloc((size_t)nranks, sizeof *ids);
    weir_boot *tcp = NULL;
    int failures = 0;
    if (rank == 0)
        EXPECT_OK(&failures, weir_unique_id_create(&ids[0]));
    EXPECT_OK(&failures, weir_boot_allgather(boot, ids, sizeof *ids));
    EXPECT_OK(&failures, weir_boot_tcp_create(&ids[0], rank, nranks, &tcp));
    free(ids);
    return tcp;
}

/* ------------------------------------------------------------- conformance */

static int fork_conforms(weir_boot *boot, void *argument)
{
    return boot_conformance(boot, weir_boot_rank(boot), *(int *)argument, "fork");
}

static int tcp_conforms(weir_boot *boot, void *argument)
{
    weir_boot *tcp = tcp_over(boot);
    if (!tcp)
        return 100;
    int failures = boot_conformance(tcp, weir_boot_rank(boot), *(int *)argument, "tcp");
    weir_boot_destroy(tcp);
    return failures;
}

static void test_fork_conforms(void **state)
{
    run_ranks(*(int *)*state, fork_conforms, *state);
}

static void test_tcp_conforms(void **state)
{
    run_ranks(*(int *)*state, tcp_conforms, *state);
}

static int barriers(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_OK(&failures, weir_boot_barrier(boot));
    return failures;
}

static void test_fork_runs_64_ranks(void **state)
{
    (void)state;
    run_ranks(64, barriers, NULL);
}

/* ----------------------------------------------------------------- faults */

/* What a fault test is told: which bootstrap it is to spoil. */
typedef struct fault {
    int over_tcp;
} fault;

static weir_boot *boot_of(weir_boot *boot, const fault *what)
{
    return what->over_tcp ? tcp_over(boot) : boot;
}

static void done_with(weir_boot *used, weir_boot *boot)
{
    if (used != boot)
        weir_boot_destroy(used);
}

/* Rank 2 is killed; everybody else learns who it was, and soon. */
static int peer_killed(weir_boot *boot, void *argument)
{
    weir_boot *used = boot_of(boot, argument);
    int failures = 0;
    if (!used)
        return 100;
    if (weir_boot_rank(boot) == 2)
        raise(SIGKILL);
    uint64_t start = weir_clock_ns();
    char data[16] = {0};
    if (weir_boot_rank(boot) == 0)
        EXPECT(&failures, weir_boot_recv(used, data, sizeof data, 2, 3) == WEIR_ERR_PEER);
    else
        EXPECT(&failures, weir_boot_barrier(used) == WEIR_ERR_PEER);
    EXPECT(&failures, boot_last_error_has("rank 2 is gone"));
    EXPECT(&failures, weir_clock_ns() - start < 5000000000u);
    done_with(used, boot);
    return failures;
}

static void test_killed_peer_is_named(void **state)
{
    int codes[4];
    assert_int_equal(weir_boot_fork_run(4, peer_killed, *state, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[2], 128 + SIGKILL);
    assert_int_equal(codes[0] + codes[1] + codes[3], 0);
}

/* Ranks 1 and 3 never enter the barrier; a receive has nothing to receive. */
static int peers_silent(weir_boot *boot, void *argument)
{
    weir_boot *used = boot_of(boot, argument);
    int rank = weir_boot_rank(boot), value = 0, failures = 0;
    if (!used)
        return 100;
    if (rank == 2) {
        EXPECT(&failures, weir_boot_recv(used, &value, sizeof value, 1, 3) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 1 has not answered after 300 ms"));
    }
    if (rank == 0) {
        EXPECT(&failures, weir_boot_barrier(used) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("ranks 1, 2, 3 have not arrived after 300 ms"));
        EXPECT(&failures, weir_boot_barrier(used) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("failed before"));
    } else {
        usleep(800000);
    }
    done_with(used, boot);
    return failures;
}

static void test_silent_peers_are_named(void **state)
{
    setenv("WEIR_TIMEOUT_MS", "300", 1);
    run_ranks(4, peers_silent, *state);
    unsetenv("WEIR_TIMEOUT_MS");
}

static int ranks_disagree(weir_boot *boot, void *argument)
{
    weir_boot *used = boot_of(boot, argument);
    int rank = weir_boot_rank(boot), failures = 0;
    if (!used)
        return 100;
    char all[3 * 16] = {0};
    weir_status status = weir_boot_allgather(used, all, rank == 2 ? 16 : 8);
    EXPECT(&failures, status == WEIR_ERR_MISMATCH);
    EXPECT(&failures, boot_last_error_has("8 bytes") && boot_last_error_has("16 bytes"));
    EXPECT(&failures, boot_last_error_has("rank 2"));
    /* The streams are in step: the ranks can agree on what happened. */
    EXPECT(&failures, weir_boot_agree(used, status) == WEIR_ERR_MISMATCH);
    EXPECT(&failures, boot_last_error_has("rank 0 failed"));
    EXPECT_OK(&failures, weir_boot_barrier(used));
    done_with(used, boot);
    return failures;
}

static void test_allgather_of_different_bytes_is_told(void **state)
{
    run_ranks(3, ranks_disagree, *state);
}

/* Rank 0 receives what rank 1 never sends: it is in a barrier. */
static int receive_meets_barrier(weir_boot *boot, void *argument)
{
    weir_boot *used = boot_of(boot, argument);
    int value = 0, failures = 0;
    if (!used)
        return 100;
    if (weir_boot_rank(boot) == 0) {
        EXPECT(&failures, weir_boot_recv(used, &value, sizeof value, 1, 3) == WEIR_ERR_MISMATCH);
        EXPECT(&failures, boot_last_error_has("rank 1, which is in a barrier"));
    }
    EXPECT_OK(&failures, weir_boot_barrier(used));
    done_with(used, boot);
    return failures;
}

static void test_receive_that_meets_a_barrier_is_told(void **state)
{
    run_ranks(2, receive_meets_barrier, *state);
}

/* -------------------------------------------------- the runner of forks */

static int codes_by_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    if (weir_boot_rank(boot) == 1)
        raise(SIGUSR1);
    return weir_boot_rank(boot) * 10;
}

static void test_exit_codes_are_collected(void **state)
{
    (void)state;
    int codes[3] = {-1, -1, -1};
    assert_int_equal(weir_boot_fork_run(3, codes_by_rank, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 128 + SIGUSR1);
    assert_int_equal(codes[2], 20);
    assert_int_equal(weir_boot_fork_run(3, codes_by_rank, NULL, LIMIT_MS, NULL), WEIR_OK);
}

static int never_end(weir_boot *boot, void *argument)
{
    (void)argument;
    while (weir_boot_rank(boot) != 0)
        pause();
    return 5;
}

static void test_runner_kills_late_ranks(void **state)
{
    (void)state;
    int codes[3];
    assert_int_equal(weir_boot_fork_run(3, never_end, NULL, 300, codes), WEIR_ERR_TIMEOUT);
    assert_true(boot_last_error_has("ranks 1, 2 of 3 have not ended after 300 ms"));
    assert_int_equal(codes[0], 5);
    assert_int_equal(codes[1], 128 + SIGKILL);
    assert_int_equal(codes[2], 128 + SIGKILL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* all reaped */
}

/* The child of a runner that is killed must not outlive it: it holds the pipe
 * open for as long as it lives. */
static int hold_pipe(weir_boot *boot, void *argument)
{
    (void)boot;
    int *pipe_ends = argument;
    close(pipe_ends[0]);
    pid_t own = getpid();
    if (write(pipe_ends[1], &own, sizeof own) != sizeof own)
        return 1;
    for (;;)
        pause();
}

static void test_children_die_with_the_runner(void **state)
{
    (void)state;
    int ends[2];
    pid_t child = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t runner = fork();
    if (runner == 0) {
        weir_boot_fork_run(1, hold_pipe, ends, LIMIT_MS, NULL);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &child, sizeof child), sizeof child);
    kill(runner, SIGKILL);
    assert_int_equal(waitpid(runner, NULL, 0), runner);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    if (poll(&end, 1, 10000) != 1) {
        kill(child, SIGKILL);
        fail_msg("the child lives on");
    }
    close(ends[0]);
}

static void test_runner_refuses_bad_arguments(void **state)
{
    (void)state;
    assert_int_equal(weir_boot_fork_run(0, never_end, NULL, 10, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_fork_run(65, never_end, NULL, 10, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_fork_run(1, NULL, NULL, 10, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_fork_run(1, never_end, NULL, 0, NULL), WEIR_ERR_INVALID);
}

/* -------------------------------------------------------------- the object */

static int destroyed;

static weir_status own_allgather(void *context, void *all, size_t bytes)
{
    (void)all, (void)bytes;
    return *(weir_status *)context;
}
static weir_status own_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    (void)context, (void)data, (void)bytes, (void)peer, (void)tag;
    return WEIR_OK;
}
static weir_status own_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    (void)context, (void)data, (void)bytes, (void)peer, (void)tag;
    return WEIR_OK;
}
static weir_status own_barrier(void *context)
{
    (void)context;
    return WEIR_OK;
}
static void own_destroy(void *context)
{
    (void)context;
    destroyed++;
}

static const weir_boot_ops own_ops = {"own",    own_allgather, own_send,
                                      own_recv, own_barrier,   own_destroy};

static void test_object_owns_its_context(void **state)
{
    (void)state;
    weir_status answer = WEIR_OK;
    weir_boot *boot = NULL;
    weir_boot_ops partial = own_ops;
    partial.barrier = NULL;
    destroyed = 0;
    assert_int_equal(weir_boot_create(&own_ops, &answer, 2, 2, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_create(&own_ops, &answer, -1, 2, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_create(&own_ops, &answer, 0, 0, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_create(&partial, &answer, 0, 2, &boot), WEIR_ERR_INVALID);
    assert_null(boot);
    assert_int_equal(destroyed, 0);
    assert_int_equal(weir_boot_create(&own_ops, &answer, 1, 2, &boot), WEIR_OK);
    assert_string_equal(weir_boot_name(boot), "own");
    assert_int_equal(weir_boot_agree(boot, WEIR_OK), WEIR_OK);
    answer = WEIR_ERR_PEER; /* the exchange itself fails */
    assert_int_equal(weir_boot_agree(boot, WEIR_OK), WEIR_ERR_PEER);
    weir_boot_destroy(boot);
    assert_int_equal(destroyed, 1);
    weir_boot_destroy(NULL);
}

static fault over_fork = {0}, over_tcp = {1};
static int counts[] = {1, 2, 3, 5, 8};

#define AT(name, test, value) {name, test, NULL, NULL, value}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        AT("fork conforms with 1 rank", test_fork_conforms, &counts[0]),
        AT("fork conforms with 2 ranks", test_fork_conforms, &counts[1]),
        AT("fork conforms with 3 ranks", test_fork_conforms, &counts[2]),
        AT("fork conforms with 5 ranks", test_fork_conforms, &counts[3]),
        AT("fork conforms with 8 ranks", test_fork_conforms, &counts[4]),
        AT("tcp conforms with 1 rank", test_tcp_conforms, &counts[0]),
        AT("tcp conforms with 2 ranks", test_tcp_conforms, &counts[1]),
        AT("tcp conforms with 3 ranks", test_tcp_conforms, &counts[2]),
        AT("tcp conforms with 5 ranks", test_tcp_conforms, &counts[3]),
        AT("tcp conforms with 8 ranks", test_tcp_conforms, &counts[4]),
        AT("fork: a killed peer is named", test_killed_peer_is_named, &over_fork),
        AT("tcp: a killed peer is named", test_killed_peer_is_named, &over_tcp),
        AT("fork: silent peers are named", test_silent_peers_are_named, &over_fork),
        AT("tcp: silent peers are named", test_silent_peers_are_named, &over_tcp),
        AT("fork: an allgather of different bytes is told",
           test_allgather_of_different_bytes_is_told, &over_fork),
        AT("tcp: an allgather of different bytes is told",
           test_allgather_of_different_bytes_is_told, &over_tcp),
        AT("fork: a receive that meets a barrier is told",
           test_receive_that_meets_a_barrier_is_told, &over_fork),
        AT("tcp: a receive that meets a barrier is told",
           test_receive_that_meets_a_barrier_is_told, &over_tcp),
        cmocka_unit_test(test_fork_runs_64_ranks),
        cmocka_unit_test(test_exit_codes_are_collected),
        cmocka_unit_test(test_runner_kills_late_ranks),
        cmocka_unit_test(test_children_die_with_the_runner),
        cmocka_unit_test(test_runner_refuses_bad_arguments),
        cmocka_unit_test(test_object_owns_its_context),
    };
    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
