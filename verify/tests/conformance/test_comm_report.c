/*
 * Proves that reports describe ranks that run, wait, are stopped or dead, that a report is printed
 * once, and that a rank that does not take part in set-up is named.
 */
#include "verify/tests/support/internode_ranks.h"

#include "comm/comm.h"
#include "comm/report_text.h"
#include <weir/device.h>

#include <signal.h>
#include <sys/mman.h>

enum { TEXT_BYTES = 8192, DEADLINE_MS = 300, TAG = 3 };

static weir_comm *open_short(weir_boot *boot)
{
    return open_comm_with(boot, WEIR_BACKEND_HOST, DEADLINE_MS);
}

/* The line of a rank in a report; "" if it is not at the expected position. */
static const char *line_of(const char *report, int rank)
{
    static char line[512];
    const char *at = report;
    for (int i = 0; i <= rank && at; i++) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    char start[32];
    snprintf(start, sizeof start, "  rank %d (pid ", rank);
    if (!at || strncmp(at, start, strlen(start)) != 0)
        return "";
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static int report_has(weir_comm *comm, int rank, const char *words)
{
    char text[TEXT_BYTES];
    weir_comm_report(comm, text, sizeof text);
    if (strstr(rank < 0 ? text : line_of(text, rank), words))
        return 1;
    fprintf(stderr, "# expected \"%s\" of rank %d in:\n%s", words, rank, text);
    return 0;
}

/* ---------------------------------------------------------------- all is well */

static void running(weir_comm *comm, int *failures)
{
    int rank = weir_comm_rank(comm);
    double value = rank;
    char small[40];
    weir_comm_note(NULL, "nowhere", 1);
    EXPECT(failures, report_has(comm, rank, "no collective yet; in no long wait"));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(failures, weir_allreduce(comm, &value, &value, 1, WEIR_DOUBLE, WEIR_SUM, NULL));
    weir_comm_note(comm, "a phase with a very long name indeed", 10 + (uint64_t)rank);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (int other = 0; other < weir_comm_nranks(comm); other++) {
        char words[128];
        snprintf(words, sizeof words,
                 "): a phase with a very long name in, iteration %d; allreduce, call 3; ",
                 10 + other);
        EXPECT(failures, report_has(comm, other, words));
    }
    EXPECT(failures, report_has(comm, -1, "4 ranks stand (deadline 30000 ms): all run"));
    EXPECT_OK(failures, weir_comm_check(comm));
    memset(small, 'x', sizeof small);
    EXPECT(failures, weir_comm_report(comm, small, sizeof small) > 200);
    EXPECT(failures, small[sizeof small - 1] == '\0');
    EXPECT_OK(failures, weir_comm_barrier(comm));
}

/* ----------------------------------------------------------------- lost ranks */

/* Rank 2 is killed or stopped by a signal; rank 0 kills it at the end. */
static int lost(weir_boot *boot, void *argument)
{
    int signal_number = *(int *)argument, rank = weir_boot_rank(boot), failures = 0;
    int stopped = signal_number == SIGSTOP;
    char head[64];
    pid_t pids[4] = {0};
    pids[rank] = getpid();
    weir_comm *comm = open_short(boot);
    if (!comm || weir_boot_allgather(boot, pids, sizeof *pids) != WEIR_OK)
        return NO_COMM;
    weir_comm_note(comm, "the test", 5);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    if (rank == 2)
        raise(signal_number);
    EXPECT(&failures, weir_comm_barrier(comm) != WEIR_OK);
    snprintf(head, sizeof head, " rank 2 is %s\n", stopped ? "stopped" : "dead");
    EXPECT(&failures, report_has(comm, -1, head));
    EXPECT(&failures, report_has(comm, 2,
                                 stopped ? "): stopped (state T); last seen in the test"
                                         : "): dead; last seen in the test"));
    EXPECT(&failures, report_has(comm, rank,
                                 "the test, iteration 5; no collective yet; waits in "
                                 "barrier for rank 2: expected 2, seen 1"));
    EXPECT(&failures, weir_comm_check(comm) == (stopped ? WEIR_ERR_ABORTED : WEIR_ERR_PEER));
    if (rank == 0) { /* the other ranks have reported before rank 2 changes */
        usleep(2 * DEADLINE_MS * 1000);
        kill(pids[2], SIGKILL);
    }
    weir_comm_destroy(comm);
    return failures;
}

static void test_lost_rank_is_described(void **state)
{
    run_ranks_killed(4, 2, lost, *state);
}

/* Rank 3 sends rank 1 one element more than rank 1 expects. */
static int other_counts(weir_boot *boot, void *argument)
{
    (void)argument;
    enum { N = 4 };
    int rank = weir_boot_rank(boot), failures = 0;
    int32_t in[N + 1] = {0}, out[N + 1] = {0};
    size_t sends[N] = {1, 1, 1, 1}, to[N] = {0, 1, 2, 3}, receives[N] = {1, 1, 1, 1};
    const size_t from[N] = {0, 1, 2, 3};
    weir_comm *comm = open_short(boot);
    if (!comm)
        return NO_COMM;
    if (rank == 3) {
        sends[1] = 2;
        to[2]++, to[3]++;
    }
    weir_status status = weir_alltoallv(comm, in, sends, to, out, receives, from, WEIR_INT32, NULL);
    EXPECT(&failures, rank != 1 || status == WEIR_ERR_MISMATCH);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    EXPECT(&failures, report_has(comm, -1, "ms): rank 1 gave up: ranks disagree\n"));
    EXPECT(&failures, report_has(comm, 1, "; gave up: ranks disagree (WEIR_ERR_MISMATCH)"));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    weir_comm_destroy(comm);
    return failures;
}

/* Rank 2 waits for rank 1, which is elsewhere, and the others for one of the two. */
static int awaited_by_all(weir_boot *boot, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0, got = 0;
    weir_comm *comm = open_short(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    if (rank == 1) {
        EXPECT_OK(&failures, weir_boot_barrier(boot));
    } else {
        EXPECT(&failures, weir_sendrecv(comm, NULL, 0, -1, &got, 1, rank == 2 ? 1 : 2, WEIR_INT32,
                                        NULL) != WEIR_OK);
        EXPECT(&failures,
               report_has(comm, -1, "all run; 3 ranks wait for rank 1, which does not answer\n"));
        EXPECT_OK(&failures, weir_boot_barrier(boot));
    }
    weir_comm_destroy(comm);
    return failures;
}

/* Ranks 0 to 2 wait for each other, rank 3 for one of them. */
static int awaited_in_a_circle(weir_boot *boot, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0, got = 0;
    weir_comm *comm = open_short(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT(&failures, weir_sendrecv(comm, NULL, 0, -1, &got, 1, rank == 3 ? 0 : (rank + 1) % 3,
                                    WEIR_INT32, NULL) != WEIR_OK);
    EXPECT(&failures, report_has(comm, -1,
                                 "all run; 3 ranks wait for each other in a circle: rank "
                                 "0 for rank 1, rank 1 for rank 2, rank 2 for rank 0\n"));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    weir_comm_destroy(comm);
    return failures;
}

/* The first line of the report of ranks that wait as given: awaits[rank], or -1. */
static const char *first_line_of(int nranks, const int *awaits)
{
    static char text[TEXT_BYTES];
    weiri_where *where = calloc((size_t)nranks, sizeof *where);
    weiri_report_rank *ranks = calloc((size_t)nranks, sizeof *ranks);
    for (int rank = 0; rank < nranks; rank++) {
        where[rank].wait.kind = awaits[rank] == -1 ? WEIR_WAIT_NONE : WEIR_WAIT_SEMAPHORE;
        where[rank].wait.peer = (uint64_t)awaits[rank];
        ranks[rank] = (weiri_report_rank){.node = -1, .answered = 1, .where = &where[rank]};
    }
    const weiri_report report = {.nranks = nranks, .timeout_ms = 5, .ranks = ranks};
    weiri_report_print(&report, text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    free(ranks);
    free(where);
    const char *cause = strstr(text, "all run; ");
    return cause ? cause + 9 : text;
}

static void test_circle_of_waits_is_printed(void **state)
{
    (void)state;
    enum { MANY = 40 };
    int ring[MANY], stuck[MANY];
    for (int rank = 0; rank < MANY; rank++) {
        ring[rank] = (rank + MANY - 1) % MANY;
        stuck[rank] = rank < 30 ? rank + 1 : rank == 30 ? 29 : -1;
    }
    assert_string_equal(first_line_of(2, (int[]){1, 0}),
                        "2 ranks wait for each other in a circle: rank 0 for rank 1, rank 1 for "
                        "rank 0");
    assert_string_equal(first_line_of(5, (int[]){1, 3, -1, 4, 1}), /* from its lowest rank on */
                        "3 ranks wait for each other in a circle: rank 1 for rank 3, rank 3 for "
                        "rank 4, rank 4 for rank 1");
    assert_string_equal(first_line_of(3, (int[]){-1, 1, -1}), "rank 1 waits for itself");
    assert_string_equal(first_line_of(MANY, ring),
                        "40 ranks wait for each other in a circle: rank 0 for rank 39, rank 39 for "
                        "rank 38, rank 38 for rank 37, rank 37 for rank 36, rank 36 for rank 35, "
                        "rank 35 for rank 34, rank 34 for rank 33, rank 33 for rank 32, ...");
    assert_string_equal(first_line_of(MANY, stuck),
                        "2 ranks wait for each other in a circle: rank 29 for rank 30, rank 30 for "
                        "rank 29");
    /* No circle: a chain, two chains, and a peer that is no rank. */
    assert_string_equal(first_line_of(3, (int[]){1, 2, -1}), "2 ranks wait for rank 2");
    assert_string_equal(first_line_of(4, (int[]){1, -1, 3, -1}), "one is slow or stuck");
    assert_string_equal(first_line_of(2, (int[]){1, 2}), "1 rank waits for rank 1");
}

/* ----------------------------------------------------------- semaphores, once */

static int await_semaphore(weir_boot *boot, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0;
    weir_comm *comm = open_short(boot);
    weir_conn *conn = NULL;
    weir_sem *sem = NULL;
    weir_mem *mem = NULL, *theirs = NULL;
    weir_memchan *chan = NULL;
    if (!comm || weir_mem_alloc(comm, 64, &mem) != WEIR_OK)
        return NO_COMM;
    EXPECT_OK(&failures, weir_mem_send(comm, mem, 1 - rank, TAG));
    EXPECT_OK(&failures, weir_mem_recv(comm, 1 - rank, TAG, &theirs));
    EXPECT_OK(&failures, weir_connect(comm, 1 - rank, TAG, WEIR_TRANSPORT_AUTO, &conn));
    EXPECT_OK(&failures, weir_sem_create(conn, &sem));
    EXPECT_OK(&failures, weir_memchan_create(sem, theirs, mem, NULL, &chan));
    weir_memchan_dev *dev = weir_memchan_device(chan);
    if (rank == 1) {
        weir_sem_signal(&dev->sem);
    } else {
        EXPECT(&failures, weir_sem_wait(&dev->sem, &dev->guard) == 0);
        EXPECT(&failures, weir_sem_wait(&dev->sem, &dev->guard) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, report_has(comm, 0,
                                     "waits in a semaphore for rank 1: expected 2, "
                                     "seen 1"));
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    weir_memchan_free(chan);
    weir_sem_free(sem);
    weir_conn_free(conn);
    weir_mem_free(theirs);
    weir_mem_free(mem);
    weir_comm_destroy(comm);
    return failures;
}

/* All ranks try to print to a pipe; shared memory counts how many did. */
typedef struct printing {
    int pipe[2];
    int *printed;
    const layout *where;
} printing;

static int print_once(weir_boot *boot, void *argument)
{
    printing *p = argument;
    weir_comm *comm = open_internode(boot, p->where);
    if (!comm)
        return NO_COMM;
    if (weir_comm_rank(comm) == 0)
        weir_comm_abort(comm);
    if (weir_comm_report_once(comm, p->pipe[1]))
        __atomic_add_fetch(p->printed, 1, __ATOMIC_RELAXED);
    weir_comm_destroy(comm);
    return 0;
}

/* Returns how many ranks printed. */
static int print_all(const layout *where)
{
    const int nranks = ranks_of(where);
    char text[TEXT_BYTES], first[40];
    printing p = {.where = where};
    assert_int_equal(pipe(p.pipe), 0);
    p.printed =
        mmap(NULL, sizeof *p.printed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p.printed != MAP_FAILED);
    run_ranks(nranks, print_once, &p);
    const int printed = *p.printed;
    close(p.pipe[1]);
    ssize_t length = read(p.pipe[0], text, sizeof text - 1);
    assert_true(length > 0);
    text[length] = '\0';
    close(p.pipe[0]);
    munmap(p.printed, sizeof *p.printed);
    snprintf(first, sizeof first, "weir: where %d ranks stand", nranks);
    assert_int_equal(strncmp(text, first, strlen(first)), 0);
    for (int rank = 0; rank < nranks; rank++)
        assert_true(*line_of(text, rank) != '\0');
    return printed;
}

/* Ranks of other nodes wait 0.7 s for the one that prints, which may be too little on a busy
 * machine. */
static void test_report_is_printed_once(void **state)
{
    const layout *where = *state;
    int printed = 0;
    for (int i = 0; i < (where->nnodes > 1 ? 4 : 1) && printed != 1; i++)
        printed = print_all(where);
    assert_int_equal(printed, 1);
}

/* --------------------------------------------------------------------- set-up */

static int late_for_setup(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = NULL;
    if (weir_boot_rank(boot) == 1) {
        usleep(4 * DEADLINE_MS * 1000);
        return 0;
    }
    double start_s = now_s();
    EXPECT(&failures, weir_comm_create(boot, NULL, &comm) == WEIR_ERR_TIMEOUT);
    EXPECT(&failures, boot_last_error_has("rank 1") && !comm);
    EXPECT(&failures, now_s() - start_s < 10);
    return failures;
}

static void test_rank_missing_at_setup_is_named(void **state)
{
    (void)state;
    setenv("WEIR_TIMEOUT_MS", "300", 1);
    run_ranks(4, late_for_setup, NULL);
    unsetenv("WEIR_TIMEOUT_MS");
}

/* ------------------------------------------------------------------ kernels */

/* Both ranks' kernels have left where they waited. Rank 1's ended by its deadline, rank 0's by
 * the abort that rank 1 gave when it found that out. */
static int by_kernel(weir_boot *boot, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0;
    weir_comm *comm = open_short(boot);
    if (!comm)
        return NO_COMM;
    weir_guard guard = comm->guard;
    guard.peer = 1 - rank;
    weir_wait_note(&guard, WEIR_WAIT_SEMAPHORE, 7, 6);
    EXPECT_OK(&failures, weir_comm_check(comm));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (rank == 1) {
        weir_store_release((uint64_t *)guard.abort_word, WEIR_ABORTED_BY_KERNEL);
        EXPECT(&failures, weir_comm_check(comm) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("deadline of 300 ms passed in a kernel; it waits for "
                                              "rank 0: expected 7, seen 6"));
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (rank == 0) {
        EXPECT(&failures, weir_comm_check(comm) == WEIR_ERR_ABORTED);
        EXPECT(&failures, boot_last_error_has("the communicator was aborted"));
    }
    weir_comm_destroy(comm);
    return failures;
}

int main(void)
{
    static int by_stop = SIGSTOP, by_kill = SIGKILL;
    const struct CMUnitTest tests[] = {
        COMM_TEST("ranks that run are described", 4, running),
        AT("a stopped rank is described", test_lost_rank_is_described, &by_stop),
        AT("a killed rank is described", test_lost_rank_is_described, &by_kill),
        RANKS_TEST("a rank whose counts differ is named", 4, other_counts, NULL),
        RANKS_TEST("a rank for which all wait is named", 4, awaited_by_all, NULL),
        RANKS_TEST("ranks that wait in a circle are named", 4, awaited_in_a_circle, NULL),
        cmocka_unit_test(test_circle_of_waits_is_printed),
        RANKS_TEST("semaphore is described", 2, await_semaphore, NULL),
        AT("a report is printed once", test_report_is_printed_once,
           (&(layout){.nodes = "aaaaa", .nnodes = 1})),
        AT("a report is printed once across nodes", test_report_is_printed_once,
           (&(layout){.nodes = "abbcc", .nnodes = 3, .transport = "tcp"})),
        AT("a report is printed once by nodes that have no connections yet",
           test_report_is_printed_once,
           (&(layout){.nodes = "aabbbcc", .nnodes = 3, .transport = "tcp", .first_use = 1})),
        RANKS_TEST("kernels that gave up and that were ended", 2, by_kernel, NULL),
        cmocka_unit_test(test_rank_missing_at_setup_is_named),
    };
    return RUN_TESTS("comm report", tests);
}
