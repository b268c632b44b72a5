/*
 * Proves that calls between nodes on GPU buffers follow a stream, can be captured and replayed with
 * other data, next to calls outside of graphs, and that aborts, deadlines, lost nodes and
 * different captures end a replay. The kernel and the threads are the real ones; the GPU is a
 * stand-in (device_standin.h), whose stream runs when the test says so.
 */
#include "boot/part.h"
#include "coll/coll.h"
#include "verify/tests/support/internode_ranks.h"

#include "verify/tests/support/unit_test.h"

#include <sys/resource.h>

enum { N = 300000, DEADLINE_MS = 1500 };

static char capturing; /* its address is the stream that is captured */

static void *device_of(const void *seen)
{
    return standin_address(seen);
}

static void fill(int32_t *in, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)(i % 1000) + rank * 7 + round * 100;
}

static size_t wrong_sums(const int32_t *out, size_t count, int nranks, int round)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong +=
            out[i] != nranks * ((int32_t)(i % 1000) + round * 100) + 7 * nranks * (nranks - 1) / 2;
    return wrong;
}

static int is_clear(const int32_t *out, size_t count)
{
    size_t i = 0;
    while (i < count && out[i] == -1)
        i++;
    return i == count;
}

/* A call returns before it has read its input or written its output, and uses what earlier work of
 * the stream has left. */
static void check_order(weir_comm *comm, const layout *where, int *failures)
{
    static const size_t counts[] = {2, 5000, N};
    const int n = ranks_of(where), rank = weir_comm_rank(comm);
    EXPECT(failures, standin_clear());
    int32_t *in = standin_alloc(N * sizeof *in), *out = standin_alloc(N * sizeof *out);
    standin.is_late = 1;
    for (int round = 0; round < 3; round++) {
        const size_t count = counts[round];
        fill(in, count, rank, 50);
        memset(out, 0xff, count * sizeof *out);
        EXPECT_OK(failures, weir_allreduce(comm, device_of(in), device_of(out), count, WEIR_INT32,
                                           WEIR_SUM, NULL));
        EXPECT(failures, is_clear(out, count));
        fill(in, count, rank, round);
        standin_sync();
        EXPECT(failures, wrong_sums(out, count, n, round) == 0);
    }
    const weir_call call = {
        .size = sizeof call, .collective = WEIR_COLL_ALLREDUCE, .dtype = WEIR_INT32, .count = 1};
    EXPECT(failures, comm->nlanes > 0 && !weiri_coll_waits(comm, &call));
    EXPECT_OK(failures, weir_comm_check(comm));
}

/* -------------------------------------------------------- blocks that stay on the GPU */

/* Every rank has the blocks of all ranks at the end, of which its own was filled after the call. */
static void check_allgather(weir_comm *comm, size_t count, int in_place, int *failures)
{
    const int n = weir_comm_nranks(comm), rank = weir_comm_rank(comm);
    size_t wrong = 0;
    EXPECT(failures, standin_clear());
    int32_t *out = standin_alloc((size_t)n * count * sizeof *out);
    int32_t *in = in_place ? out + (size_t)rank * count : standin_alloc(count * sizeof *in);
    memset(out, 0xff, (size_t)n * count * sizeof *out);
    EXPECT_OK(failures,
              weir_allgather(comm, device_of(in), device_of(out), count, WEIR_INT32, NULL));
    fill(in, count, rank, in_place);
    standin_sync();
    for (int peer = 0; peer < n; peer++)
        for (size_t i = 0; i < count; i++)
            wrong +=
                out[(size_t)peer * count + i] != (int32_t)(i % 1000) + peer * 7 + in_place * 100;
    EXPECT(failures, wrong == 0);
}

static void check_broadcast(weir_comm *comm, size_t count, int root, int in_place, int *failures)
{
    const int is_root = weir_comm_rank(comm) == root;
    size_t wrong = 0;
    EXPECT(failures, standin_clear());
    int32_t *out = standin_alloc(count * sizeof *out);
    int32_t *in = in_place ? out : is_root ? standin_alloc(count * sizeof *in) : NULL;
    memset(out, 0xff, count * sizeof *out);
    EXPECT_OK(failures,
              weir_broadcast(comm, device_of(in), device_of(out), count, WEIR_INT32, root, NULL));
    if (is_root)
        fill(in, count, root, 1);
    standin_sync();
    for (size_t i = 0; i < count; i++)
        wrong += out[i] != (int32_t)(i % 1000) + root * 7 + 100;
    EXPECT(failures, wrong == 0);
}

static void check_own_blocks(weir_comm *comm, const layout *where, int *failures)
{
    static const size_t counts[] = {1, 1000, N, N + N / 2};
    standin.is_late = 1;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            check_allgather(comm, counts[i], in_place, failures);
            for (int root = 0; root < ranks_of(where); root++)
                check_broadcast(comm, counts[i], root, in_place, failures);
        }
    EXPECT_OK(failures, weir_comm_check(comm));
}

/* ---------------------------------------------------------------------- set-up */

/* limits.md states the memory; threads of lanes that have nothing to do sleep, unless a graph may
 * be replayed at any time. */
static void check_idle(weir_comm *comm, const layout *where, int *failures)
{
    enum { MIB = 1 << 20, MOST_WAKES = 60, IDLE_US = 600000, SETTLE_US = 100000 };
    struct rusage before, after;
    EXPECT(failures, standin_clear());
    const int32_t *in = standin_alloc(N * sizeof *in), *out = standin_alloc(N * sizeof *in);
    for (int round = 0; round < 2; round++) {
        EXPECT_OK(failures, weir_allreduce(comm, device_of(in), device_of(out), N, WEIR_INT32,
                                           WEIR_SUM, NULL));
        usleep(SETTLE_US);
        getrusage(RUSAGE_SELF, &before);
        usleep(IDLE_US);
        getrusage(RUSAGE_SELF, &after);
        EXPECT(failures, after.ru_nvcsw - before.ru_nvcsw < MOST_WAKES);
    }
    EXPECT(failures, standin.pinned_bytes > 0 && standin.pinned_bytes < 33 * MIB);
    (void)where;
}

/* A graph keeps the algorithm of its capture. */
static void check_algorithm(weir_comm *comm, const layout *where, int *failures)
{
    EXPECT(failures, standin_clear());
    const int32_t *in = standin_alloc(400), *out = standin_alloc(400);
    weir_call call = {.size = sizeof call,
                      .collective = WEIR_COLL_ALLREDUCE,
                      .dtype = WEIR_INT32,
                      .destination = -1,
                      .source = -1,
                      .in = device_of(in),
                      .out = device_of(out),
                      .count = 100,
                      .algo_name = "rails",
                      .stream = (weir_stream)&capturing};
    standin.captured = call.stream;
    EXPECT_OK(failures, weir_run(comm, &call));
    call.algo_name = "packet";
    call.stream = NULL;
    EXPECT_OK(failures, weir_run(comm, &call));
    EXPECT(failures, strcmp(weir_comm_last_algo(comm->lanes[0]), "packet") == 0);
    standin_replay();
    EXPECT(failures, strcmp(weir_comm_last_algo(comm->lanes[0]), "rails") == 0);
    standin_drop_graph();
    (void)where;
}

/* Where a node has several GPUs, these reduce and gather among themselves, and calls block. */
static void check_no_lanes(weir_comm *comm, const layout *where, int *failures)
{
    int32_t in = weir_comm_rank(comm), sum = 0;
    const weir_call call = {
        .size = sizeof call, .collective = WEIR_COLL_ALLREDUCE, .dtype = WEIR_INT32, .count = 1};
    EXPECT(failures, comm->gpu_comm != NULL && comm->nlanes == 0);
    EXPECT(failures, weiri_coll_waits(comm, &call));
    EXPECT_OK(failures, weir_allreduce(comm, &in, &sum, 1, WEIR_INT32, WEIR_SUM, NULL));
    EXPECT(failures, sum == ranks_of(where) * (ranks_of(where) - 1) / 2);
}

/* Counts in device memory, which change between replays. */
typedef struct splits {
    uint64_t *send, *send_at, *recv, *recv_at;
} splits;

static splits alloc_splits(int n)
{
    const size_t bytes = (size_t)n * sizeof(uint64_t);
    return (splits){standin_alloc(bytes), standin_alloc(bytes), standin_alloc(bytes),
                    standin_alloc(bytes)};
}

static void check_replay(weir_comm *comm, const layout *where, int *failures)
{
    const int n = ranks_of(where), rank = weir_comm_rank(comm);
    const int to = (rank + 1) % n, from = (rank + n - 1) % n;
    const weir_stream stream = (weir_stream)&capturing;
    EXPECT(failures, standin_clear());
    int32_t *in = standin_alloc(N * sizeof *in), *sum = standin_alloc(N * sizeof *in),
            *got = standin_alloc(N * sizeof *in), *other = standin_alloc(100 * sizeof *in);
    standin.captured = stream;
    EXPECT_OK(failures,
              weir_allreduce(comm, device_of(in), device_of(sum), N, WEIR_INT32, WEIR_SUM, stream));
    EXPECT_OK(failures, weir_sendrecv(comm, device_of(in), N, to, device_of(got), N, from,
                                      WEIR_INT32, stream));
    for (int round = 0; round < 4; round++) {
        fill(in, N, rank, round);
        memset(sum, 0xff, N * sizeof *sum);
        memset(got, 0xff, N * sizeof *got);
        standin_replay();
        size_t wrong = wrong_sums(sum, N, n, round);
        for (size_t i = 0; i < N; i++)
            wrong += got[i] != (int32_t)(i % 1000) + from * 7 + round * 100;
        EXPECT(failures, wrong == 0);
        EXPECT_OK(failures, weir_allreduce(comm, device_of(in), device_of(other), 100, WEIR_INT32,
                                           WEIR_SUM, NULL));
        EXPECT(failures, wrong_sums(other, 100, n, round) == 0);
    }
    standin_drop_graph();
}

/* weir_alltoallv_device takes its counts when the stream reaches it. */
static void check_splits(weir_comm *comm, const layout *where, int *failures)
{
    enum { ROOM = 40000 };
    const int n = ranks_of(where), rank = weir_comm_rank(comm);
    const weir_stream stream = (weir_stream)&capturing;
    const size_t bytes = (size_t)n * ROOM * sizeof(int32_t);
    EXPECT(failures, standin_clear());
    int32_t *in = standin_alloc(bytes), *out = standin_alloc(bytes);
    const splits s = alloc_splits(n);
    standin.captured = stream;
    EXPECT_OK(failures,
              weir_alltoallv_device(comm, device_of(in), bytes, device_of(s.send),
                                    device_of(s.send_at), device_of(out), bytes, device_of(s.recv),
                                    device_of(s.recv_at), WEIR_INT32, stream));
    for (int round = 0; round < 4; round++) {
        size_t wrong = 0;
        fill(in, bytes / sizeof *in, rank, round);
        memset(out, 0xff, bytes);
        for (int peer = 0; peer < n; peer++) {
            s.send[peer] = s.recv[peer] = (uint64_t)((rank + peer + round) % 3) * ROOM / 2;
            s.send_at[peer] = s.recv_at[peer] = (uint64_t)peer * ROOM;
        }
        standin_replay();
        for (int peer = 0; peer < n; peer++)
            for (size_t i = 0; i < s.recv[peer]; i++)
                wrong += out[(size_t)peer * ROOM + i] !=
                         (int32_t)(((size_t)rank * ROOM + i) % 1000) + peer * 7 + round * 100;
        EXPECT(failures, wrong == 0);
    }
    standin_drop_graph();
}

/* -------------------------------------------------------------------- failures */

static weir_comm *open_soon(weir_boot *boot, const layout *where)
{
    char milliseconds[16];
    snprintf(milliseconds, sizeof milliseconds, "%d", DEADLINE_MS);
    setenv("WEIR_TIMEOUT_MS", milliseconds, 1);
    return open_internode(boot, where);
}

/* The next communicator works. */
static void check_next(weir_boot *boot, const layout *where, int *failures)
{
    int32_t one = 1, sum = 0;
    standin.used = 0; /* host memory is allowed */
    weir_comm *comm = open_internode(boot, where);
    EXPECT(failures, comm != NULL);
    if (comm)
        EXPECT_OK(failures, weir_allreduce(comm, &one, &sum, 1, WEIR_INT32, WEIR_SUM, NULL));
    EXPECT(failures, sum == ranks_of(where));
    weir_comm_destroy(comm);
}

/* Checks the communicator until it has failed, or the deadline and 2 s have passed. */
static weir_status await_failure(weir_comm *comm, uint64_t start_ns, int *failures)
{
    weir_status status = weir_comm_check(comm);
    while (status == WEIR_OK && weir_clock_ns() - start_ns < (DEADLINE_MS + 2000) * 1000000ull) {
        usleep(1000);
        status = weir_comm_check(comm);
    }
    EXPECT(failures, status != WEIR_OK);
    EXPECT(failures, weir_clock_ns() - start_ns < (DEADLINE_MS + 2000) * 1000000ull);
    return status;
}

/* The last rank does not replay its graph: it aborts, or stays away. Every rank reports, in time.
 */
static int replay_alone(weir_boot *boot, const layout *where, int aborts)
{
    int failures = 0;
    weir_comm *comm = open_soon(boot, where);
    if (!comm)
        return NO_COMM;
    const int rank = weir_comm_rank(comm), is_last = rank == ranks_of(where) - 1;
    EXPECT(&failures, standin_clear());
    int32_t *in = standin_alloc(N * sizeof *in), *out = standin_alloc(N * sizeof *in);
    standin.captured = (weir_stream)&capturing;
    EXPECT_OK(&failures, weir_allreduce(comm, device_of(in), device_of(out), N, WEIR_INT32,
                                        WEIR_SUM, standin.captured));
    standin_replay();
    weir_boot_barrier(boot);
    const uint64_t start_ns = weir_clock_ns();
    if (!is_last)
        standin_replay();
    else if (aborts)
        weir_comm_abort(comm);
    const weir_status status = await_failure(comm, start_ns, &failures);
    if (!is_last && !aborts) {
        EXPECT(&failures, status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_ABORTED);
        EXPECT(&failures, strstr(weir_last_error(), "allreduce") != NULL);
    }
    standin_drop_graph();
    weir_comm_destroy(comm);
    weir_boot_barrier(boot);
    check_next(boot, where, &failures);
    return failures;
}

/* Captures an allreduce of N elements. */
static void capture_sum(weir_comm *comm, int *failures)
{
    EXPECT(failures, standin_clear());
    const int32_t *in = standin_alloc(N * sizeof *in), *out = standin_alloc(N * sizeof *in);
    standin.captured = (weir_stream)&capturing;
    EXPECT_OK(failures, weir_allreduce(comm, device_of(in), device_of(out), N, WEIR_INT32, WEIR_SUM,
                                       standin.captured));
}

static void *kill_self(void *unused)
{
    usleep(2000);
    raise(SIGKILL);
    return unused;
}

/* Has this process be killed in the middle of what it does next. */
static void kill_soon(void)
{
    static pthread_t killer;
    static int is_coming;
    if (!is_coming++ && pthread_create(&killer, NULL, kill_self, NULL) != 0)
        abort();
}

/* The last rank is killed while all ranks replay. The others name it, and form a communicator. */
static int death_in_replay(weir_boot *boot, void *argument)
{
    enum { SURVIVORS = 2, KILLED_AFTER_US = 200000 };
    const int survivors[SURVIVORS] = {0, 1};
    const layout rest = {.nodes = "ab", .nnodes = 2, .transport = "tcp", .gpus = 1};
    int failures = 0;
    weir_boot *part = NULL;
    weir_comm *comm = open_soon(boot, argument);
    if (!comm)
        return NO_COMM;
    capture_sum(comm, &failures);
    standin_replay();
    const uint64_t start_ns = weir_clock_ns();
    while (weir_comm_check(comm) == WEIR_OK) {
        if (weir_comm_rank(comm) == SURVIVORS &&
            weir_clock_ns() - start_ns > KILLED_AFTER_US * 1000ull)
            kill_soon();
        standin_replay();
    }
    const weir_status status = await_failure(comm, start_ns, &failures);
    EXPECT(&failures, status == WEIR_ERR_PEER);
    EXPECT(&failures, strstr(weir_last_error(), "rank 2 has died") != NULL);
    standin_drop_graph();
    weir_comm_destroy(comm);
    EXPECT_OK(&failures, weiri_boot_part_create(boot, survivors, SURVIVORS, &part));
    if (part)
        check_next(part, &rest, &failures);
    weir_boot_destroy(part);
    return failures;
}

/* The last rank's process is stopped for longer than the deadline, as if its network stalled. */
static int stall_in_replay(weir_boot *boot, void *argument)
{
    int failures = 0;
    pid_t pids[MOST_RANKS];
    weir_comm *comm = open_soon(boot, argument);
    if (!comm)
        return NO_COMM;
    const int rank = weir_comm_rank(comm), last = ranks_of(argument) - 1;
    pids[rank] = getpid();
    EXPECT_OK(&failures, weir_boot_allgather(boot, pids, sizeof *pids));
    capture_sum(comm, &failures);
    standin_replay();
    weir_boot_barrier(boot);
    if (rank == last)
        raise(SIGSTOP);
    const uint64_t start_ns = weir_clock_ns();
    if (rank != last)
        standin_replay();
    const weir_status status = await_failure(comm, start_ns, &failures);
    if (rank != last) {
        EXPECT(&failures, status == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, strstr(weir_last_error(), "allreduce") != NULL);
        kill(pids[last], SIGCONT);
    }
    standin_drop_graph();
    weir_comm_destroy(comm);
    weir_boot_barrier(boot);
    check_next(boot, argument, &failures);
    return failures;
}

/* ---------------------------------------------------------------- wrong counts */

/* At a replay, the last rank's counts exceed its buffer, or its counts for itself differ. */
static int replay_wrong_counts(weir_boot *boot, const layout *where, int is_own)
{
    enum { ROOM = 100 };
    const weir_status expected = is_own ? WEIR_ERR_MISMATCH : WEIR_ERR_INVALID;
    int failures = 0;
    weir_comm *comm = open_soon(boot, where);
    if (!comm)
        return NO_COMM;
    const int n = ranks_of(where), rank = weir_comm_rank(comm), is_last = rank == n - 1;
    const size_t bytes = (size_t)n * ROOM * sizeof(int32_t);
    EXPECT(&failures, standin_clear());
    const int32_t *in = standin_alloc(bytes), *out = standin_alloc(bytes);
    const splits s = alloc_splits(n);
    standin.captured = (weir_stream)&capturing;
    EXPECT_OK(&failures,
              weir_alltoallv_device(comm, device_of(in), bytes, device_of(s.send),
                                    device_of(s.send_at), device_of(out), bytes, device_of(s.recv),
                                    device_of(s.recv_at), WEIR_INT32, standin.captured));
    if (is_last && is_own)
        s.send[rank] = 1;
    else if (is_last)
        s.send[0] = (uint64_t)n * ROOM + 1;
    weir_boot_barrier(boot);
    const uint64_t start_ns = weir_clock_ns();
    standin_replay();
    const weir_status status = await_failure(comm, start_ns, &failures);
    if (is_last) {
        char whose[32];
        snprintf(whose, sizeof whose, "rank %d: ", rank);
        EXPECT(&failures, status == expected);
        EXPECT(&failures, strncmp(weir_last_error(), whose, strlen(whose)) == 0);
    }
    standin_drop_graph();
    weir_comm_destroy(comm);
    weir_boot_barrier(boot);
    check_next(boot, where, &failures);
    return failures;
}

static int counts_beyond(weir_boot *boot, void *argument)
{
    return replay_wrong_counts(boot, argument, 0);
}

static int counts_of_own(weir_boot *boot, void *argument)
{
    return replay_wrong_counts(boot, argument, 1);
}

/* ------------------------------------------------------------- different captures */

/* What the last rank has captured in place of an allreduce of N elements. */
typedef enum other { OTHER_COUNT, OTHER_COLLECTIVE, OTHER_PAIRS } other;

static int replay_different(weir_boot *boot, const layout *where, other which)
{
    static const char *const names[] = {"allreduce int32 1000 sum", "allgather", "alltoall int32"};
    int failures = 0;
    setenv("WEIR_CHECK", "1", 1);
    weir_comm *comm = open_soon(boot, where);
    if (!comm)
        return NO_COMM;
    capture_sum(comm, &failures);
    if (weir_comm_rank(comm) == ranks_of(where) - 1) {
        standin_drop_graph();
        int32_t *in = standin_alloc(2 * N), *out = standin_alloc(4 * N);
        const weir_call call = {.size = sizeof call,
                                .collective = which == OTHER_COUNT        ? WEIR_COLL_ALLREDUCE
                                              : which == OTHER_COLLECTIVE ? WEIR_COLL_ALLGATHER
                                                                          : WEIR_COLL_ALLTOALL,
                                .dtype = WEIR_INT32,
                                .destination = -1,
                                .source = -1,
                                .in = device_of(in),
                                .out = device_of(out),
                                .count = 1000,
                                .stream = standin.captured};
        EXPECT_OK(&failures, weir_run(comm, &call));
    }
    weir_boot_barrier(boot);
    const uint64_t start_ns = weir_clock_ns();
    standin_replay();
    EXPECT(&failures, await_failure(comm, start_ns, &failures) == WEIR_ERR_MISMATCH);
    EXPECT(&failures, strstr(weir_last_error(), "allreduce int32 300000 sum") != NULL);
    EXPECT(&failures, strstr(weir_last_error(), names[which]) != NULL);
    standin_drop_graph();
    weir_comm_destroy(comm);
    weir_boot_barrier(boot);
    check_next(boot, where, &failures);
    return failures;
}

static int different_counts(weir_boot *boot, void *argument)
{
    return replay_different(boot, argument, OTHER_COUNT);
}

static int different_collectives(weir_boot *boot, void *argument)
{
    return replay_different(boot, argument, OTHER_COLLECTIVE);
}

static int different_pairs(weir_boot *boot, void *argument)
{
    return replay_different(boot, argument, OTHER_PAIRS);
}

static int abort_in_replay(weir_boot *boot, void *argument)
{
    return replay_alone(boot, argument, 1);
}

static int deadline_in_replay(weir_boot *boot, void *argument)
{
    return replay_alone(boot, argument, 0);
}

static void test_death(void **state)
{
    layout where = {.nodes = "abc", .nnodes = 3, .transport = "tcp", .gpus = 1};
    (void)state;
    run_ranks_killed(3, 2, death_in_replay, &where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TEST("calls follow the stream: 2 nodes", check_order, "ab", 2, "tcp", 1),
        LAYOUT_TEST("calls follow the stream: 3 nodes", check_order, "abc", 3, NULL, 1),
        LAYOUT_TEST("nodes with several GPUs have no lanes", check_no_lanes, "aab", 2, NULL, 1),
        LAYOUT_TEST("a graph is replayed with other data: 2 nodes", check_replay, "ab", 2, "tcp",
                    1),
        LAYOUT_TEST("counts in device memory are read at each replay", check_splits, "abc", 3,
                    "tcp", 1),
        LAYOUT_RANKS_TEST("an abort ends a replay", abort_in_replay, "ab", 2, "tcp", 1),
        LAYOUT_TEST("a rank's own block stays on its GPU: 2 nodes", check_own_blocks, "ab", 2,
                    "tcp", 1),
        LAYOUT_TEST("a rank's own block stays on its GPU: 3 nodes", check_own_blocks, "abc", 3,
                    NULL, 1),
        LAYOUT_TEST("memory is bounded, and idle threads sleep", check_idle, "ab", 2, "tcp", 1),
        LAYOUT_TEST("a graph keeps its algorithm", check_algorithm, "ab", 2, "tcp", 1),
        LAYOUT_RANKS_TEST("counts beyond the buffer are reported", counts_beyond, "ab", 2, "tcp",
                          1),
        LAYOUT_RANKS_TEST("counts of a rank for itself that differ are reported", counts_of_own,
                          "ab", 2, "tcp", 1),
        AT("a node that is lost ends a replay", test_death, NULL),
        LAYOUT_RANKS_TEST("a network that stalls ends a replay at the deadline", stall_in_replay,
                          "ab", 2, "tcp", 1),
        LAYOUT_RANKS_TEST("captures of different counts are named", different_counts, "ab", 2,
                          "tcp", 1),
        LAYOUT_RANKS_TEST("captures of different collectives are named", different_collectives,
                          "ab", 2, "tcp", 1),
        LAYOUT_RANKS_TEST("captures of which one is between pairs are named", different_pairs, "ab",
                          2, "tcp", 1),
        LAYOUT_RANKS_TEST("a rank that stays away ends a replay at the deadline",
                          deadline_in_replay, "ab", 2, "tcp", 1),
    };
    return RUN_TESTS("internode_gpus", tests);
}
