/*
 * Proves that ranks of several nodes that connect when they first use a connection (WEIR_CONNECT)
 * have few connections and no memory for peers they have not used; and that a rank that has died
 * before, cannot open files, or disagrees about WEIR_CONNECT ends the others' waits and is named.
 * test_internode.c and test_scale.c have the collectives.
 */
#define _GNU_SOURCE
#include "verify/tests/support/internode_ranks.h"

#include "comm/comm.h"
#include "comm/internode/internode.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { SOON_MS = 3000, EXTRA_S = 2, LATE_S = 20 };

static weir_comm *open_first_use(weir_boot *boot, const char *nodes, int timeout_ms)
{
    char name[2] = {nodes[weir_boot_rank(boot)], '\0'};
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    setenv("WEIR_CONNECT", "first-use", 1);
    return open_comm_with(boot, WEIR_BACKEND_HOST, timeout_ms);
}

/* --------------------------------------------------- connections and memory */

/* Whether a page of the boxes of a peer has memory. */
static int has_boxes(const weiri_internode *internode, int rank, int *failures)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const weiri_internode_peer *peer = &internode->peers[rank];
    unsigned char in_memory = 0;
    char *middle = peer->inbox + (peer->outbox - peer->inbox);
    middle -= (uintptr_t)middle % page;
    EXPECT(failures, mincore(middle, page, &in_memory) == 0);
    return in_memory & 1;
}

/* 12 nodes: a leader is connected to those at distances 1, 2, 4, 8, which are 8 of them, before and
 * after calls that need no more; a message to another one connects it. */
static int few_connections(weir_boot *boot, void *argument)
{
    (void)argument;
    enum { NEAR = 8 }; /* +-1, +-2, +-4; +8 and -4, -8 and +4 are the same */
    int failures = 0, rank = weir_boot_rank(boot), n = weir_boot_nranks(boot);
    int32_t got = -1;
    weir_comm *comm = open_first_use(boot, "abcdefghijkl", 0);
    if (!comm)
        return NO_COMM;
    const weiri_internode *internode = comm->internode;
    const int far = (rank + n / 2) % n, links = internode->links->count;
    EXPECT(&failures, internode->is_first_use && links == NEAR - 2);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT(&failures, internode->links->count == links);
    EXPECT(&failures, !has_boxes(internode, far, &failures));
    EXPECT(&failures, has_boxes(internode, (rank + 1) % n, &failures));
    EXPECT(&failures, !internode->peers[far].is_used);
    EXPECT(&failures, internode->peers[far].endpoint->shares_kernel);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    EXPECT_OK(&failures, weir_sendrecv(comm, &rank, 1, far, &got, 1, far, WEIR_INT32, NULL));
    EXPECT(&failures, got == far && has_boxes(internode, far, &failures));
    EXPECT(&failures, internode->links->count == links + 1);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* Two communicators, and sends of which the receivers wait for others first. */
static int crosswise(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot), n = weir_boot_nranks(boot);
    weir_comm *comm = open_first_use(boot, "aabbcc", 0), *second = NULL;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_split(comm, rank % 2, rank, NULL, &second));
    for (int distance = 1; distance < n && !failures; distance++)
        for (int round = 0; round < 3; round++) {
            const int to = (rank + distance) % n, from = (rank + n - distance) % n;
            int32_t sent = rank * 100 + round, got = -1, one = 1, sum = 0;
            EXPECT_OK(&failures,
                      weir_sendrecv(comm, &sent, 1, to, &got, 1, from, WEIR_INT32, NULL));
            EXPECT(&failures, got == from * 100 + round);
            EXPECT_OK(&failures, weir_allreduce(second, &one, &sum, 1, WEIR_INT32, WEIR_SUM, NULL));
            EXPECT(&failures, sum == n / 2);
        }
    EXPECT_OK(&failures, weir_comm_destroy(second));
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* ------------------------------------------------------------------ failures */

/* Ranks of which one dies before the others run in_comm. */
typedef struct death {
    const char *nodes;
    int dead;
    comm_body *in_comm;
} death;

/* How many ranks have outlived the dead one and looked at the others: shared by all. */
static int *survivors;

/* Ranks that have left say nothing about themselves any more, and pass on nothing of others, so
 * each waits for the others, and progresses its connections. */
static void await_survivors(weir_comm *comm, int expected, int *failures)
{
    const double start_s = now_s();
    __atomic_add_fetch(survivors, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(survivors, __ATOMIC_ACQUIRE) < expected && now_s() - start_s < LATE_S) {
        weir_comm_check(comm);
        usleep(1000);
    }
    EXPECT(failures, __atomic_load_n(survivors, __ATOMIC_ACQUIRE) == expected);
}

static int outlive(weir_boot *boot, void *argument)
{
    const death *what = argument;
    int failures = 0;
    weir_comm *comm = open_first_use(boot, what->nodes, 20000);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    /* The others may still wait for what the rank has sent in the barrier. */
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (weir_boot_rank(boot) == what->dead)
        raise(SIGKILL);
    what->in_comm(comm, &failures);
    await_survivors(comm, weir_boot_nranks(boot) - 1, &failures);
    weir_comm_destroy(comm);
    return failures;
}

static void test_death(void **state)
{
    const death *what = *state;
    survivors =
        mmap(NULL, sizeof *survivors, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(survivors != MAP_FAILED);
    run_ranks_killed((int)strlen(what->nodes), what->dead, outlive, *state);
    munmap(survivors, sizeof *survivors);
}

/* Only rank 1, which was never connected to the dead rank 3, is in a call. */
static void dead_before_use(weir_comm *comm, int *failures)
{
    const double start_s = now_s();
    int32_t got = 0;
    if (weir_comm_rank(comm) != 1) {
        usleep(4000000);
        EXPECT(failures, weir_comm_check(comm) == WEIR_ERR_PEER);
        return;
    }
    EXPECT(failures, !comm->internode->peers[3].is_used);
    EXPECT(failures,
           weir_sendrecv(comm, NULL, 0, -1, &got, 1, 3, WEIR_INT32, NULL) == WEIR_ERR_PEER);
    EXPECT(failures, boot_last_error_has("rank 3 has died"));
    EXPECT(failures, now_s() - start_s < 10);
}

/* Reports until all survivors have answered. A report waits for half a second; on a busy machine a
 * rank that has not run for longer than that answers the next one. */
static void report_all(weir_comm *comm, char *text, size_t bytes)
{
    const double start_s = now_s();
    do
        weir_comm_report(comm, text, bytes);
    while (strstr(text, "answer") && now_s() - start_s < LATE_S);
}

/* The leader of the middle node dies. All others name it, and know where all others stand, also
 * those that only knew others by that leader. */
static void dead_leader(weir_comm *comm, int *failures)
{
    int32_t one = 1, sum = 0;
    char text[4096];
    EXPECT(failures,
           weir_allreduce(comm, &one, &sum, 1, WEIR_INT32, WEIR_SUM, NULL) == WEIR_ERR_PEER);
    EXPECT(failures, boot_last_error_has("rank 2 has died"));
    report_all(comm, text, sizeof text);
    EXPECT(failures, strstr(text, "): rank 2 is dead\n") != NULL);
    EXPECT(failures, strstr(text, "answer") == NULL);
    if (*failures)
        fprintf(stderr, "%s", text);
}

/* After an abort, all answer: counts the ranks that nevertheless replace their leader. */
static int replace_nobody(weir_boot *boot, void *argument)
{
    int *replacing = argument, failures = 0;
    char text[4096];
    weir_comm *comm = open_first_use(boot, "aaabbb", 20000);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (weir_comm_rank(comm) == 4)
        weir_comm_abort(comm);
    const double start_s = now_s();
    while (weir_comm_check(comm) == WEIR_OK && now_s() - start_s < LATE_S)
        usleep(1000);
    report_all(comm, text, sizeof text);
    __atomic_add_fetch(replacing, comm->internode->replaces_leader, __ATOMIC_RELAXED);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    weir_comm_destroy(comm);
    return failures;
}

/* On a busy machine, a leader may answer too late: one of four runs has to be without. */
static void test_leaders_that_answer(void **state)
{
    int *replacing =
        mmap(NULL, sizeof *replacing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(replacing != MAP_FAILED);
    (void)state;
    for (int i = 0; i < 4 && (i == 0 || *replacing); i++) {
        *replacing = 0;
        run_ranks(6, replace_nobody, replacing);
    }
    assert_int_equal(*replacing, 0);
    munmap(replacing, sizeof *replacing);
}

/* How often words are in a text. */
static int occurrences(const char *text, const char *words)
{
    int count = 0;
    while ((text = strstr(text, words)) != NULL) {
        count++;
        text++;
    }
    return count;
}

/* Where a wait for several peers at once has failed, the report still says what each waits for. */
static void dead_in_alltoallv(weir_comm *comm, int *failures)
{
    enum { N = 4 };
    const int32_t in[N] = {0};
    int32_t out[N];
    const size_t counts[N] = {1, 1, 1, 1}, places[N] = {0, 1, 2, 3};
    char text[4096];
    EXPECT(failures, weir_alltoallv(comm, in, counts, places, out, counts, places, WEIR_INT32,
                                    NULL) == WEIR_ERR_PEER);
    report_all(comm, text, sizeof text);
    EXPECT(failures, occurrences(text, "; waits in alltoallv for rank ") == N - 1);
    if (*failures)
        fprintf(stderr, "%s", text);
}

/* Rank 1 sends to rank 3; the argument is the one of them that cannot open files. */
static int files_are_short(weir_boot *boot, void *argument)
{
    const int shorter = *(int *)argument;
    int failures = 0, rank = weir_boot_rank(boot), spare;
    int32_t value = 7, sum = 0;
    weir_comm *comm = open_first_use(boot, "aabb", SOON_MS);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    if (rank == shorter) {
        spare = dup(0);
        const struct rlimit few = {(rlim_t)spare, (rlim_t)spare};
        close(spare);
        EXPECT(&failures, setrlimit(RLIMIT_NOFILE, &few) == 0);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    const double start_s = now_s();
    weir_status status = WEIR_OK;
    if (rank == 1)
        status = weir_sendrecv(comm, &value, 1, 3, NULL, 0, -1, WEIR_INT32, NULL);
    else if (rank == 3)
        status = weir_sendrecv(comm, NULL, 0, -1, &value, 1, 1, WEIR_INT32, NULL);
    else
        status = weir_allreduce(comm, &value, &sum, 1, WEIR_INT32, WEIR_SUM, NULL);
    EXPECT(&failures, status != WEIR_OK);
    EXPECT(&failures, rank != shorter || boot_last_error_has("files that are allowed are open"));
    EXPECT(&failures, rank == shorter || boot_last_error_has("aborted"));
    EXPECT(&failures, now_s() - start_s < 0.001 * SOON_MS + EXTRA_S);
    weir_comm_destroy(comm);
    return failures;
}

static int create_fails(weir_boot *boot, const char *connect, weir_status expected,
                        const char *text)
{
    int failures = 0;
    weir_comm *comm = NULL;
    setenv("WEIR_HOSTID", weir_boot_rank(boot) ? "b" : "a", 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    setenv("WEIR_CONNECT", connect, 1);
    EXPECT(&failures, weir_comm_create(boot, NULL, &comm) == expected);
    EXPECT(&failures, boot_last_error_has(text));
    return failures;
}

static int unknown_value(weir_boot *boot, void *argument)
{
    (void)argument;
    return create_fails(boot, "never", WEIR_ERR_INVALID,
                        "WEIR_CONNECT=never: expected auto, all or first-use");
}

static int different_values(weir_boot *boot, void *argument)
{
    (void)argument;
    return create_fails(boot, weir_boot_rank(boot) ? "all" : "first-use", WEIR_ERR_MISMATCH,
                        "WEIR_CONNECT differs between rank 0 and rank 1");
}

/* With few ranks, and over a network that cannot do it, all ranks connect at once. */
static int at_once(weir_boot *boot, void *argument)
{
    int failures = 0;
    setenv("WEIR_HOSTID", weir_boot_rank(boot) ? "b" : "a", 1);
    setenv("WEIR_TRANSPORT", argument ? "shm" : "tcp", 1);
    setenv("WEIR_CONNECT", argument ? "first-use" : "auto", 1);
    net_shm_register();
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, !comm->internode->is_first_use && comm->internode->links->count == 1);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

int main(void)
{
    static int one = 1, three = 3;
    const struct CMUnitTest tests[] = {
        RANKS_TEST("ranks have few connections, and no memory for others", 12, few_connections,
                   NULL),
        RANKS_TEST("all ranks send to all, in two communicators", 6, crosswise, NULL),
        AT("a rank that died before its first message is named", test_death,
           (&(death){"aabb", 3, dead_before_use})),
        AT("a dead leader is named, and all others know of each other", test_death,
           (&(death){"aabbbcc", 2, dead_leader})),
        AT("leaders that answer are not replaced", test_leaders_that_answer, NULL),
        AT("a report says what the ranks of a failed alltoallv wait for", test_death,
           (&(death){"aabb", 3, dead_in_alltoallv})),
        RANKS_TEST("a sender that cannot open files ends all", 4, files_are_short, &one),
        RANKS_TEST("a receiver that cannot open files ends all", 4, files_are_short, &three),
        RANKS_TEST("an unknown WEIR_CONNECT is rejected", 2, unknown_value, NULL),
        RANKS_TEST("different values of WEIR_CONNECT are rejected", 2, different_values, NULL),
        RANKS_TEST("few ranks connect at once", 2, at_once, NULL),
        RANKS_TEST("a network without first use connects at once", 2, at_once, &one),
    };
    return RUN_TESTS("first use", tests);
}
