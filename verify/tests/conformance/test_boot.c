/*
 * Proves that the fork and the TCP bootstrap conform, that both report peers that die, stay silent
 * or disagree, that the runner of forked ranks collects and ends its ranks, whatever the process
 * has inherited, and that a bootstrap object owns its context.
 */
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/long_part.h"

#include <weir/target.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Creates a TCP bootstrap between the ranks of another bootstrap; NULL if it fails. */
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

static int barriers(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_OK(&failures, weir_boot_barrier(boot));
    return failures;
}

/* ----------------------------------------------------------------- faults */

/* One fault, in a bootstrap of either kind. Rank 2 ends by SIGKILL if it is to be killed. */
typedef struct fault {
    int over_tcp, nranks;
    void (*body)(weir_boot *boot, int *failures);
    int kills;
} fault;

static int run_fault(weir_boot *boot, void *argument)
{
    const fault *what = argument;
    weir_boot *used = what->over_tcp ? tcp_over(boot) : boot;
    int failures = 0;
    if (!used)
        return 100;
    what->body(used, &failures);
    if (used != boot)
        weir_boot_destroy(used);
    return failures;
}

static void test_fault(void **state)
{
    fault *what = *state;
    int codes[MOST_RANKS];
    assert_int_equal(weir_boot_fork_run(what->nranks, run_fault, what, LIMIT_MS, codes), WEIR_OK);
    for (int rank = 0; rank < what->nranks; rank++)
        assert_int_equal(codes[rank], what->kills && rank == 2 ? 128 + SIGKILL : 0);
}

/* Rank 2 is killed; all other ranks soon get an error that names it. */
static void peer_killed(weir_boot *boot, int *failures)
{
    if (weir_boot_rank(boot) == 2)
        raise(SIGKILL);
    uint64_t start = weir_clock_ns();
    char data[16] = {0};
    if (weir_boot_rank(boot) == 0)
        EXPECT(failures, weir_boot_recv(boot, data, sizeof data, 2, 3) == WEIR_ERR_PEER);
    else
        EXPECT(failures, weir_boot_barrier(boot) == WEIR_ERR_PEER);
    EXPECT(failures, boot_last_error_has("rank 2 is gone"));
    EXPECT(failures, weir_clock_ns() - start < 5000000000u);
}

/* Ranks 1 and 3 never enter the barrier; a receive has nothing to receive. */
static void peers_silent(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot), value = 0;
    if (rank == 2) {
        EXPECT(failures, weir_boot_recv(boot, &value, sizeof value, 1, 3) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, boot_last_error_has("rank 1 has not answered after 300 ms"));
    }
    if (rank == 0) {
        EXPECT(failures, weir_boot_barrier(boot) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, boot_last_error_has("ranks 1, 2, 3 have not arrived after 300 ms"));
        EXPECT(failures, weir_boot_barrier(boot) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, boot_last_error_has("failed before"));
    } else {
        usleep(800000);
    }
}

static void test_silent_peers(void **state)
{
    setenv("WEIR_TIMEOUT_MS", "300", 1);
    test_fault(state);
    unsetenv("WEIR_TIMEOUT_MS");
}

static void ranks_disagree(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot);
    char all[3 * 16] = {0};
    weir_status status = weir_boot_allgather(boot, all, rank == 2 ? 16 : 8);
    EXPECT(failures, status == WEIR_ERR_MISMATCH);
    EXPECT(failures, boot_last_error_has("8 bytes") && boot_last_error_has("16 bytes"));
    EXPECT(failures, boot_last_error_has("rank 2"));
    /* The streams are still synchronized, so the ranks can agree on the error. */
    EXPECT(failures, weir_boot_agree(boot, status) == WEIR_ERR_MISMATCH);
    EXPECT(failures, boot_last_error_has("rank 0 failed"));
    EXPECT_OK(failures, weir_boot_barrier(boot));
}

/* Rank 0 receives from rank 1, which is in a barrier instead of sending. */
static void receive_during_barrier(weir_boot *boot, int *failures)
{
    int value = 0;
    if (weir_boot_rank(boot) == 0) {
        EXPECT(failures, weir_boot_recv(boot, &value, sizeof value, 1, 3) == WEIR_ERR_MISMATCH);
        EXPECT(failures, boot_last_error_has("rank 1, which is in a barrier"));
    }
    EXPECT_OK(failures, weir_boot_barrier(boot));
}

/* ------------------------------------------------ the runner of forked ranks */

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

/* Rank 0 fails at once, ranks 1 and 2 end 3 and 6 seconds later, rank 3 never. */
static int end_one_by_one(weir_boot *boot, void *argument)
{
    const int rank = weir_boot_rank(boot);
    (void)argument;
    while (rank == 3)
        pause();
    usleep((unsigned)rank * 3000000);
    return rank ? 0 : 7;
}

static void test_runner_waits_while_ranks_end(void **state)
{
    (void)state;
    int codes[4];
    if (!long_part("ranks that end 3 and 6 seconds after a failure"))
        return;
    assert_int_equal(weir_boot_fork_run(4, end_one_by_one, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0], 7);
    assert_int_equal(codes[1], 0);
    assert_int_equal(codes[2], 0);
    assert_int_equal(codes[3], 128 + SIGKILL);
}

static int outlive_a_failure(weir_boot *boot, void *argument)
{
    (void)argument;
    while (weir_boot_rank(boot) == 1)
        pause();
    return weir_boot_rank(boot);
}

static void test_runner_kills_ranks_that_outlive_a_failure(void **state)
{
    (void)state;
    int codes[3];
    uint64_t start = weir_clock_ns();
    assert_int_equal(weir_boot_fork_run(3, outlive_a_failure, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_true(weir_clock_ns() - start >= 5000000000u);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 128 + SIGKILL);
    assert_int_equal(codes[2], 2);
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
        fail_msg("the child outlives the runner");
    }
    close(ends[0]);
}

static void test_runner_refuses_bad_arguments(void **state)
{
    (void)state;
    assert_int_equal(weir_boot_fork_run(0, never_end, NULL, 10, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_fork_run(4097, never_end, NULL, 10, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_fork_run(1, NULL, NULL, 10, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_fork_run(2, never_end, NULL, -1, NULL), WEIR_ERR_INVALID);
}

static int end_after_a_moment(weir_boot *boot, void *argument)
{
    (void)boot, (void)argument;
    usleep(200000);
    return 6;
}

static void test_runner_without_a_limit_waits(void **state)
{
    (void)state;
    int codes[2];
    assert_int_equal(weir_boot_fork_run(2, end_after_a_moment, NULL, 0, codes), WEIR_OK);
    assert_int_equal(codes[0], 6);
    assert_int_equal(codes[1], 6);
}

/* Rank 0 waits 200 ms in vain for rank 1. */
static int set_timeout_applies(weir_boot *boot, void *argument)
{
    int failures = 0, value = 0;
    weir_boot *used = strcmp(argument, "tcp") == 0 ? tcp_over(boot) : boot;
    if (!used)
        return 100;
    EXPECT(&failures, weir_boot_set_timeout(used, 0) == WEIR_ERR_INVALID);
    EXPECT_OK(&failures, weir_boot_set_timeout(used, 200));
    if (weir_boot_rank(used) == 0)
        EXPECT(&failures, weir_boot_recv(used, &value, sizeof value, 1, 3) == WEIR_ERR_TIMEOUT);
    if (weir_boot_rank(used) == 0)
        EXPECT(&failures, boot_last_error_has("after 200 ms"));
    else
        usleep(600000);
    EXPECT_OK(&failures, weir_boot_set_timeout(used, 30000));
    EXPECT_OK(&failures, weir_boot_barrier(used));
    if (used != boot)
        weir_boot_destroy(used);
    return failures;
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

static const weir_boot_ops own_ops = {"own",       own_allgather, own_send, own_recv,
                                      own_barrier, own_destroy,   NULL};

static void test_object_owns_its_context(void **state)
{
    (void)state;
    weir_status answer = WEIR_OK;
    weir_boot *boot = NULL;
    weir_boot_ops partial[6] = {own_ops, own_ops, own_ops, own_ops, own_ops, own_ops};
    partial[0].name = NULL;
    partial[1].allgather = NULL;
    partial[2].send = NULL;
    partial[3].recv = NULL;
    partial[4].barrier = NULL;
    partial[5].destroy = NULL;
    destroyed = 0;
    assert_int_equal(weir_boot_create(&own_ops, &answer, 2, 2, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_create(&own_ops, &answer, -1, 2, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_create(&own_ops, &answer, 0, 0, &boot), WEIR_ERR_INVALID);
    for (int i = 0; i < 6; i++)
        assert_int_equal(weir_boot_create(&partial[i], &answer, 0, 2, &boot), WEIR_ERR_INVALID);
    assert_null(boot);
    assert_int_equal(destroyed, 0);
    assert_int_equal(weir_boot_create(&own_ops, &answer, 1, 2, &boot), WEIR_OK);
    assert_string_equal(weir_boot_name(boot), "own");
    assert_int_equal(weir_boot_agree(boot, WEIR_OK), WEIR_OK);
    assert_int_equal(weir_boot_set_timeout(boot, 100), WEIR_ERR_UNSUPPORTED);
    answer = WEIR_ERR_PEER; /* the exchange itself fails */
    assert_int_equal(weir_boot_agree(boot, WEIR_OK), WEIR_ERR_PEER);
    weir_boot_destroy(boot);
    assert_int_equal(destroyed, 1);
    weir_boot_destroy(NULL);
}

#define CONFORM_TEST(name, body, nranks) RANKS_TEST(name, nranks, body, (&(int){nranks}))
#define FAULT_TEST(name, over_tcp, nranks, ...)                                                    \
    AT(name, test_fault, (&(fault){over_tcp, nranks, __VA_ARGS__}))

/* ------------------------------------------------------ inherited process state */

static int own_code(weir_boot *boot, void *argument)
{
    (void)argument;
    return 7 * weir_boot_rank(boot);
}

static void reap_any(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

/* Codes survive a program that ignores SIGCHLD, as its parent may have done, or reaps every
 * child in a handler. */
static void test_codes_survive_sigchld(void **state)
{
    void (*const handlers[])(int) = {SIG_IGN, reap_any, SIG_DFL};
    (void)state;
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        int codes[3];
        signal(SIGCHLD, handlers[i]);
        const weir_status status = weir_boot_fork_run(3, own_code, NULL, 20000, codes);
        signal(SIGCHLD, SIG_DFL);
        assert_int_equal(status, WEIR_OK);
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(codes[rank], 7 * rank);
    }
}

/* Without standard input, output and error, all objects leave their numbers free. */
static int uses_no_standard_number(weir_boot *boot, void *argument)
{
    const float in = 1;
    float out = 0;
    (void)argument;
    weir_boot *tcp = tcp_over(boot);
    weir_comm *comm = tcp ? open_comm(tcp) : NULL;
    const int works = comm &&
                      weir_allreduce(comm, &in, &out, 1, WEIR_FLOAT, WEIR_SUM, NULL) == WEIR_OK &&
                      out == 2;
    int taken = 0;
    for (int fd = 0; fd < 3; fd++)
        taken |= (fcntl(fd, F_GETFD) != -1) << fd;
    if (comm)
        weir_comm_destroy(comm);
    weir_boot_destroy(tcp);
    return works ? taken : 100;
}

static int run_without_standard_files(weir_boot *outer, void *argument)
{
    int codes[2] = {0};
    (void)outer;
    (void)argument;
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    const weir_status status = weir_boot_fork_run(2, uses_no_standard_number, NULL, 20000, codes);
    return status == WEIR_OK ? codes[0] | codes[1] : 101;
}

static void test_standard_numbers_stay_free(void **state)
{
    int code;
    (void)state;
    assert_int_equal(weir_boot_fork_run(1, run_without_standard_files, NULL, 40000, &code),
                     WEIR_OK);
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONFORM_TEST("fork conforms with 1 rank", fork_conforms, 1),
        CONFORM_TEST("fork conforms with 2 ranks", fork_conforms, 2),
        CONFORM_TEST("fork conforms with 3 ranks", fork_conforms, 3),
        CONFORM_TEST("fork conforms with 5 ranks", fork_conforms, 5),
        CONFORM_TEST("fork conforms with 8 ranks", fork_conforms, 8),
        CONFORM_TEST("tcp conforms with 1 rank", tcp_conforms, 1),
        CONFORM_TEST("tcp conforms with 2 ranks", tcp_conforms, 2),
        CONFORM_TEST("tcp conforms with 3 ranks", tcp_conforms, 3),
        CONFORM_TEST("tcp conforms with 5 ranks", tcp_conforms, 5),
        CONFORM_TEST("tcp conforms with 8 ranks", tcp_conforms, 8),
        FAULT_TEST("fork: a killed peer is named", 0, 4, peer_killed, 1),
        FAULT_TEST("tcp: a killed peer is named", 1, 4, peer_killed, 1),
        AT("fork: silent peers are named", test_silent_peers, (&(fault){0, 4, peers_silent, 0})),
        AT("tcp: silent peers are named", test_silent_peers, (&(fault){1, 4, peers_silent, 0})),
        FAULT_TEST("fork: an allgather of different lengths is reported", 0, 3, ranks_disagree, 0),
        FAULT_TEST("tcp: an allgather of different lengths is reported", 1, 3, ranks_disagree, 0),
        FAULT_TEST("fork: a receive during a barrier is reported", 0, 2, receive_during_barrier, 0),
        FAULT_TEST("tcp: a receive during a barrier is reported", 1, 2, receive_during_barrier, 0),
        RANKS_TEST("fork runs 64 ranks", 64, barriers, NULL),
        AT("exit codes are collected", test_exit_codes_are_collected, NULL),
        AT("exit codes survive an ignored or handled SIGCHLD", test_codes_survive_sigchld, NULL),
        AT("numbers of standard files stay free", test_standard_numbers_stay_free, NULL),
        AT("the runner kills late ranks", test_runner_kills_late_ranks, NULL),
        AT("the runner kills ranks that outlive a failure",
           test_runner_kills_ranks_that_outlive_a_failure, NULL),
        AT("each rank that ends after a failure gives the others more time",
           test_runner_waits_while_ranks_end, NULL),
        AT("children die with the runner", test_children_die_with_the_runner, NULL),
        AT("the runner rejects invalid arguments", test_runner_refuses_bad_arguments, NULL),
        AT("the runner without a limit waits", test_runner_without_a_limit_waits, NULL),
        RANKS_TEST("fork: a timeout that is set applies", 2, set_timeout_applies, "fork"),
        RANKS_TEST("tcp: a timeout that is set applies", 2, set_timeout_applies, "tcp"),
        AT("a bootstrap object owns its context", test_object_owns_its_context, NULL),
    };
    return RUN_TESTS("boot", tests);
}
