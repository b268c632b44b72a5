/*
 * Proves that when a rank aborts, is late, is killed or lacks resources, every rank of the
 * communicator soon gets the same error, which names the rank.
 *
 * With the argument "hold" this program serves no_traces.sh instead: its ranks hold all kinds of
 * memory, print "rank pid", and wait for rank 1, which never calls.
 */
#include "comm/comm.h"
#include "verify/tests/support/comm_ranks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { TAG = 7, SOON_S = 10 };

/* ----------------------------------------------------------- failing waits */

/* What an aborting rank wrote before may still be on its way: a wait goes on for 100 ms. */
static int wait_outlasts_abort(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const uint64_t never = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    weir_comm_abort(comm);
    const double start_s = now_s();
    EXPECT(&failures, weiri_comm_wait_slow(comm, &never, 1, 0, "test") == WEIR_ERR_ABORTED);
    EXPECT(&failures, now_s() - start_s >= 0.1 && now_s() - start_s < SOON_S);
    weir_comm_destroy(comm);
    return failures;
}

/* Rank 1 aborts while the others wait for it. */
static int abort_ends_waits(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    double start_s = now_s();
    if (weir_comm_rank(comm) == 1) {
        usleep(50000);
        weir_comm_abort(comm);
    } else {
        EXPECT(&failures, weir_comm_barrier(comm) == WEIR_ERR_ABORTED);
        EXPECT(&failures, boot_last_error_has("the communicator was aborted; in barrier, waiting "
                                              "for rank"));
    }
    EXPECT(&failures, now_s() - start_s < SOON_S);
    weir_comm_destroy(comm); /* does not block */
    EXPECT(&failures, now_s() - start_s < SOON_S);
    EXPECT(&failures, count_maps("memfd:weir") == 0);
    return failures;
}

/* What the ranks of the next test share besides the communicator: all enter the first barrier,
 * whose deadline is short, at the same time, and the others make no call before rank 0's deadline
 * has passed, however late a loaded machine runs them. The bootstrap does not serve for that,
 * because its deadline may be the same. */
typedef struct deadline_steps {
    _Atomic int ready, passed;
    int configured_ms;
} deadline_steps;

enum { DEADLINE_MS = 400, DEADLINE_RANKS = 3 };

/* The other ranks call, if at all, after rank 0's deadline: rank 0 gets a timeout, they find the
 * communicator aborted. */
static int deadline(weir_boot *boot, void *argument)
{
    deadline_steps *steps = argument;
    int failures = 0;
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, steps->configured_ms);
    if (!comm)
        return NO_COMM;
    steps->ready++;
    while (steps->ready < DEADLINE_RANKS)
        usleep(100);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    double start_s = now_s();
    if (weir_comm_rank(comm) == 0) {
        EXPECT(&failures, weir_comm_barrier(comm) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 0: deadline of 400 ms passed; in barrier, "
                                              "waiting for rank 1: expected 2, seen 1"));
        EXPECT(&failures, now_s() - start_s >= DEADLINE_MS * 1e-3);
        EXPECT(&failures, now_s() - start_s < SOON_S);
        steps->passed = 1;
    } else {
        while (!steps->passed && now_s() - start_s < SOON_S)
            usleep(1000);
        if (weir_comm_rank(comm) == 2)
            EXPECT(&failures, weir_comm_barrier(comm) == WEIR_ERR_ABORTED);
    }
    weir_comm_destroy(comm);
    return failures;
}

static void run_deadline(int configured_ms)
{
    deadline_steps *steps =
        mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(steps != MAP_FAILED);
    steps->configured_ms = configured_ms;
    run_ranks(DEADLINE_RANKS, deadline, steps);
    munmap(steps, sizeof *steps);
}

static void test_configured_deadline(void **state)
{
    (void)state;
    run_deadline(DEADLINE_MS);
}

static void test_deadline_of_the_environment(void **state)
{
    (void)state;
    setenv("WEIR_TIMEOUT_MS", "400", 1);
    run_deadline(0);
    unsetenv("WEIR_TIMEOUT_MS");
}

static weir_status wait_in_barrier(weir_comm *comm)
{
    return weir_comm_barrier(comm);
}

static weir_status wait_in_allreduce(weir_comm *comm)
{
    static float data[100000];
    return weir_allreduce(comm, data, data, sizeof data / sizeof *data, WEIR_FLOAT, WEIR_SUM, NULL);
}

/* The call in which ranks wait when rank 2 is killed. */
typedef struct waiting_call {
    weir_status (*call)(weir_comm *comm);
} waiting_call;

static int killed(weir_boot *boot, void *argument)
{
    const waiting_call *where = argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, where->call(comm));
    if (weir_comm_rank(comm) == 2) {
        usleep(50000);
        raise(SIGKILL);
    }
    double start_s = now_s();
    EXPECT(&failures, where->call(comm) == WEIR_ERR_PEER);
    EXPECT(&failures, boot_last_error_has("rank 2 has died; in "));
    EXPECT(&failures, now_s() - start_s < SOON_S);
    weir_comm_destroy(comm);
    return failures;
}

static void test_killed_rank_is_named_by_all(void **state)
{
    run_ranks_killed(4, 2, killed, *state);
}

/* ---------------------------------------------------------- lack of resources */

/* The resource that a rank lacks when the communicator is created. */
typedef struct shortage {
    int rank, resource;
    rlim_t spare; /* descriptors, or bytes, beyond those in use */
    weir_status status;
    const char *says;
} shortage;

enum { SCRATCH_BYTES = 16 << 20 };

static rlim_t in_use(int resource)
{
    unsigned long pages = 0;
    if (resource == RLIMIT_NOFILE) {
        int next = dup(0);
        close(next);
        return (rlim_t)next;
    }
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static int run_short(weir_boot *boot, void *argument)
{
    const shortage *what = argument;
    int failures = 0, fds = count_fds();
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.scratch_bytes = SCRATCH_BYTES;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    struct rlimit before, during;
    setenv("WEIR_XPMEM", "0", 1); /* libxpmem keeps a descriptor */
    EXPECT(&failures, getrlimit(what->resource, &before) == 0);
    during = before;
    during.rlim_cur = in_use(what->resource) + what->spare;
    if (weir_boot_rank(boot) == what->rank)
        EXPECT(&failures, setrlimit(what->resource, &during) == 0);
    double start_s = now_s();
    weir_status status = weir_comm_create(boot, &config, &comm);
    EXPECT(&failures, setrlimit(what->resource, &before) == 0);
    EXPECT(&failures, status == what->status);
    EXPECT(&failures, boot_last_error_has(what->rank ? "rank 1 failed" : "rank 0 failed"));
    EXPECT(&failures, boot_last_error_has(what->says));
    EXPECT(&failures, now_s() - start_s < SOON_S);
    EXPECT(&failures, comm == NULL);
    EXPECT(&failures, count_maps("memfd:weir") == 0 && count_fds() == fds);
    comm = open_comm(boot); /* with the resource, creation succeeds */
    EXPECT(&failures, comm != NULL);
    weir_comm_destroy(comm);
    return failures;
}

static void test_shortage_reaches_all(void **state)
{
    run_ranks(3, run_short, *state);
}

/* Rank 0 creates the scratch memory of all ranks, which the others map. */
static shortage no_descriptor = {1, RLIMIT_NOFILE, 0, WEIR_ERR_SYSTEM, "raise 'ulimit -n'"};
static shortage no_file = {0, RLIMIT_NOFILE, 0, WEIR_ERR_SYSTEM, "cannot create shared memory"};
static shortage no_memory = {0, RLIMIT_AS, SCRATCH_BYTES / 2 * 3, WEIR_ERR_NO_MEMORY,
                             "no room for"};
static shortage own_memory = {1, RLIMIT_AS, SCRATCH_BYTES / 2 * 3, WEIR_ERR_NO_MEMORY,
                              "cannot reach rank"};

/* The name says that a test is skipped, because cmocka 1.1 counts a skip as a failure. */
#if SANITISED
#define WHERE_LIMITED " # SKIP the sanitizer's address space cannot be limited"
#else
#define WHERE_LIMITED ""
#endif

static void test_shortage_of_memory_reaches_all(void **state)
{
    if (!SANITISED)
        run_ranks(3, run_short, *state);
}

/* -------------------------------------------------------------- forked children */

static int with_own_comm(weir_boot *boot, void *argument)
{
    (void)argument;
    weir_comm *comm = open_comm(boot);
    int failures = comm == NULL;
    if (comm)
        EXPECT_OK(&failures, weir_comm_barrier(comm));
    weir_comm_destroy(comm);
    return failures;
}

/* Everything fails at once, except on a communicator of the child's own. */
static int use_in_child(weir_comm *comm, weir_boot *boot, weir_mem *mem)
{
    int failures = 0, all[2] = {0}, codes[2];
    float data = 1;
    weir_mem *more = NULL;
    weir_comm *part = NULL;
    weir_conn *conn = NULL;
    EXPECT(&failures, weir_comm_barrier(comm) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("was forked from the one that created this "
                                          "communicator"));
    EXPECT(&failures,
           weir_allreduce(comm, &data, &data, 1, WEIR_FLOAT, WEIR_SUM, NULL) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_mem_alloc(comm, 64, &more) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_mem_write(mem, 0, &data, sizeof data) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_connect(comm, 1, TAG, WEIR_TRANSPORT_AUTO, &conn) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_comm_split(comm, 0, 0, NULL, &part) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_comm_check(comm) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_boot_allgather(boot, all, sizeof *all) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("was forked from the one that created this bootstrap"));
    EXPECT(&failures, weir_boot_send(boot, all, sizeof *all, 1, TAG) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_boot_barrier(boot) == WEIR_ERR_INVALID);
    EXPECT_OK(&failures, weir_boot_fork_run(2, with_own_comm, NULL, LIMIT_MS, codes));
    EXPECT(&failures, codes[0] == 0 && codes[1] == 0);
    weir_comm_abort(comm);
    weir_mem_free(mem);
    EXPECT(&failures, weir_comm_destroy(comm) == WEIR_ERR_INVALID);
    weir_boot_destroy(boot);
    return failures;
}

/* A child of rank 0 uses its parent's objects; both ranks go on as if it had not. */
static int fork_after_creation(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, state = 0;
    float data = 1;
    weir_comm *comm = open_comm(boot);
    weir_mem *mem = NULL;
    if (!comm || weir_mem_alloc(comm, 64, &mem) != WEIR_OK)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    if (weir_comm_rank(comm) == 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(use_in_child(comm, boot, mem));
        EXPECT(&failures, waitpid(child, &state, 0) == child && state == 0);
    }
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT_OK(&failures, weir_allreduce(comm, &data, &data, 1, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT(&failures, data == 2);
    weir_mem_free(mem);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* ------------------------------------------------------- for no_traces.sh */

static int hold(weir_boot *boot, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0;
    weir_comm *comm = open_comm(boot);
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    weir_conn *conn = NULL;
    weir_sem *sem = NULL;
    if (!comm || weir_mem_alloc(comm, 1 << 20, &mem) != WEIR_OK)
        return NO_COMM;
    EXPECT_OK(&failures, weir_mem_exchange(comm, mem, mems));
    EXPECT_OK(&failures, weir_connect(comm, rank ^ 1, TAG, WEIR_TRANSPORT_AUTO, &conn));
    EXPECT_OK(&failures, weir_sem_create(conn, &sem));
    EXPECT_OK(&failures, wait_in_allreduce(comm));
    printf("%d %ld\n", rank, (long)getpid());
    fflush(stdout);
    while (rank == 1)
        pause();
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    return failures;
}

static int run_victims(void)
{
    enum { VICTIMS = 4 };
    return weir_boot_fork_run(VICTIMS, hold, NULL, LIMIT_MS, NULL) == WEIR_OK ? 0 : 1;
}

static waiting_call in_barrier = {wait_in_barrier}, in_allreduce = {wait_in_allreduce};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "hold") == 0)
        return run_victims();
    const struct CMUnitTest tests[] = {
        RANKS_TEST("a wait goes on for a moment after an abort", 1, wait_outlasts_abort, NULL),
        RANKS_TEST("an abort ends every wait", 5, abort_ends_waits, NULL),
        AT("a missed deadline that was configured is reported", test_configured_deadline, NULL),
        AT("a missed deadline of the environment is reported", test_deadline_of_the_environment,
           NULL),
        AT("a rank killed in a barrier is named by all", test_killed_rank_is_named_by_all,
           &in_barrier),
        AT("a rank killed in an allreduce is named by all", test_killed_rank_is_named_by_all,
           &in_allreduce),
        AT("a rank without a descriptor is named by all", test_shortage_reaches_all,
           &no_descriptor),
        AT("a rank 0 without a descriptor is named by all", test_shortage_reaches_all, &no_file),
        AT("a rank 0 without memory is named by all" WHERE_LIMITED,
           test_shortage_of_memory_reaches_all, &no_memory),
        AT("a rank with memory for itself alone is named by all" WHERE_LIMITED,
           test_shortage_of_memory_reaches_all, &own_memory),
        RANKS_TEST("a forked child cannot use its parent's objects", 2, fork_after_creation, NULL),
    };
    return RUN_TESTS("comm faults", tests);
}
