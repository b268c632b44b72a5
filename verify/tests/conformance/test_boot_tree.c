/*
 * Proves that the bootstrap of more than 64 ranks, a tree of meshes, is a bootstrap, of forked
 * ranks and over TCP: exchanges, messages, few sockets, a lost rank named by all; and that over TCP
 * strangers at a rank's port, and forged greetings, neither reach it nor delay others.
 */
#include "verify/tests/support/comm_ranks.h"

#include "boot/part.h"
#include "boot/tree.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

enum { RANKS_MOST = 256, SHORT_MS = 1000, LIMIT_LONG_MS = 240000, EXTRA_S = 5 };
enum { SOCKETS_MOST = WEIRI_TREE_DEPTH * (WEIRI_TREE_GROUP - 1) }; /* of a rank in a tree */

typedef struct tree_kind {
    const char *kind; /* "fork" or "tcp" */
    int nranks;
} tree_kind;

/* Ends the test unless all ranks but one (-1: all) have ended with code 0. */
static void run_many(int nranks, ranks_body *body, void *argument, int lost)
{
    int codes[RANKS_MOST];
    assert_int_equal(weir_boot_fork_run(nranks, body, argument, LIMIT_LONG_MS, codes), WEIR_OK);
    for (int rank = 0; rank < nranks; rank++)
        if (rank != lost && codes[rank] != 0)
            fail_msg("rank %d of %d ended with %d", rank, nranks, codes[rank]);
}

/* The bootstrap over TCP of forked ranks, by a unique id of rank 0. */
static weir_boot *tcp_over(weir_boot *boot, int *failures)
{
    const int rank = weir_boot_rank(boot), n = weir_boot_nranks(boot);
    weir_unique_id *ids = calloc((size_t)n, sizeof *ids);
    weir_boot *tcp = NULL;
    if (rank == 0)
        EXPECT_OK(failures, weir_unique_id_create(&ids[0]));
    EXPECT_OK(failures, weir_boot_allgather(boot, ids, sizeof *ids));
    EXPECT_OK(failures, weir_boot_tcp_create(&ids[0], rank, n, &tcp));
    free(ids);
    return tcp;
}

/* Follows the meshes upwards from a rank; returns 1 if they end in that of rank 0. */
static int reaches_root(int rank, int nranks)
{
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    for (int steps = 0; steps < WEIRI_TREE_DEPTH; steps++) {
        int count = weiri_tree_levels(rank, nranks, levels);
        rank = levels[count - 1].first;
        if (rank == 0)
            return 1;
    }
    return 0;
}

static void test_tree_of_any_number_of_ranks(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 64, 65, 100, 129, 255, 256, 257, 1000, 4095, 4096};
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int n = numbers[i], rank = 0; rank < n; rank++) {
            int count = weiri_tree_levels(rank, n, levels), sockets = 0;
            for (int level = 0; level < count; level++) {
                const weiri_tree_level *at = &levels[level];
                assert_int_equal(weiri_tree_member(at, at->index), rank);
                assert_true(weiri_tree_member(at, at->count - 1) < n);
                sockets += at->count - 1;
            }
            assert_true(sockets <= (n <= WEIRI_TREE_MESH ? WEIRI_TREE_MESH - 1 : SOCKETS_MOST));
            assert_true(reaches_root(rank, n));
        }
}

static void check_exchanges(weir_boot *boot, int *failures)
{
    static const size_t sizes[] = {1, 24, 1000};
    int rank = weir_boot_rank(boot), n = weir_boot_nranks(boot);
    for (int round = 0; round < 3; round++) {
        size_t bytes = sizes[round];
        unsigned char *all = calloc((size_t)n, bytes);
        boot_fill(all + (size_t)rank * bytes, bytes, rank, round);
        EXPECT_OK(failures, weir_boot_allgather(boot, all, bytes));
        for (int peer = 0; peer < n; peer++)
            EXPECT(failures, boot_filled(all + (size_t)peer * bytes, bytes, peer, round));
        free(all);
    }
}

/* Messages to the neighbours and to a distant rank, in both directions, and of another length. */
static void check_messages(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot), n = weir_boot_nranks(boot);
    const int steps[] = {1, n - 1, n / 2};
    for (int i = 0; i < 3; i++) {
        int to = (rank + steps[i]) % n, from = (rank + n - steps[i]) % n, got[2] = {-1, -1};
        int sent[2] = {rank, i};
        EXPECT_OK(failures, weir_boot_send(boot, sent, sizeof sent, to, i));
        EXPECT_OK(failures, weir_boot_barrier(boot));
        EXPECT_OK(failures, weir_boot_recv(boot, got, sizeof got, from, i));
        EXPECT(failures, got[0] == from && got[1] == i);
    }
    if (rank == 0)
        EXPECT_OK(failures, weir_boot_send(boot, &n, sizeof n, n - 1, 9));
    if (rank == n - 1) {
        char wrong;
        EXPECT(failures, weir_boot_recv(boot, &wrong, 1, 0, 9) == WEIR_ERR_MISMATCH);
    }
}

/* The bootstrap under test: the forked one, or the one of TCP over it. */
static weir_boot *boot_of_kind(weir_boot *boot, const char *kind, int *failures)
{
    return strcmp(kind, "tcp") == 0 ? tcp_over(boot, failures) : boot;
}

static int use_tree(weir_boot *forked, void *argument)
{
    int rank = weir_boot_rank(forked), failures = 0, before = count_fds();
    EXPECT(&failures, before < 64); /* 45 sockets at most, and those of the process */
    weir_boot *boot = boot_of_kind(forked, ((tree_kind *)argument)->kind, &failures);
    if (!boot)
        return NO_COMM;
    EXPECT(&failures, boot == forked || count_fds() - before <= SOCKETS_MOST + 1); /* it listens */
    check_exchanges(boot, &failures);
    EXPECT_OK(&failures, weir_boot_agree(boot, WEIR_OK));
    weir_status mine = rank == 64 ? WEIR_ERR_NO_MEMORY : WEIR_OK;
    EXPECT(&failures, weir_boot_agree(boot, mine) == WEIR_ERR_NO_MEMORY);
    EXPECT(&failures, boot_last_error_has("rank 64 failed"));
    check_messages(boot, &failures);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (boot != forked)
        weir_boot_destroy(boot);
    return failures;
}

static void test_tree_is_a_bootstrap(void **state)
{
    tree_kind *of = *state;
    run_many(of->nranks, use_tree, of, -1);
}

typedef struct loss {
    const char *kind;
    int rank, silent; /* the rank that is killed, or stays away from the barrier */
} loss;

static int lose_in_tree(weir_boot *forked, void *argument)
{
    const loss *of = argument;
    int rank = weir_boot_rank(forked), failures = 0;
    char name[32];
    weir_boot *boot = boot_of_kind(forked, of->kind, &failures);
    if (!boot)
        return NO_COMM;
    snprintf(name, sizeof name, "rank %d", of->rank);
    EXPECT_OK(&failures, weir_boot_set_timeout(boot, SHORT_MS));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (rank == of->rank && !of->silent)
        raise(SIGKILL);
    if (rank == of->rank) {
        usleep((SHORT_MS + 2000) * 1000);
        return failures;
    }
    double start_s = now_s();
    EXPECT(&failures, weir_boot_barrier(boot) == (of->silent ? WEIR_ERR_TIMEOUT : WEIR_ERR_PEER));
    EXPECT(&failures, boot_last_error_has(name));
    EXPECT(&failures, now_s() - start_s < SHORT_MS / 1000.0 + EXTRA_S);
    return failures;
}

static void test_loss_in_tree_is_named(void **state)
{
    run_many(100, lose_in_tree, *state, ((loss *)*state)->rank);
}

/* ------------------------------------------------------- a part of the ranks */

static int use_part(weir_boot *boot, void *argument)
{
    const int count = *(int *)argument, step = weir_boot_nranks(boot) / count;
    const int rank = weir_boot_rank(boot), index = rank / step;
    int members[RANKS_MOST], failures = 0, before = count_fds();
    weir_boot *part;
    if (rank % step != 0 || index >= count)
        return 0;
    for (int i = 0; i < count; i++)
        members[i] = i * step;
    EXPECT_OK(&failures, weiri_boot_part_create(boot, members, count, &part));
    check_exchanges(part, &failures);
    EXPECT_OK(&failures, weir_boot_barrier(part));
    weir_status mine = index == count - 1 ? WEIR_ERR_NO_MEMORY : WEIR_OK;
    EXPECT(&failures, weir_boot_agree(part, mine) == WEIR_ERR_NO_MEMORY);
    EXPECT(&failures, count_fds() - before <= 12); /* two for each of at most 6 others */
    weir_boot_destroy(part);
    return failures;
}

static void test_part(void **state)
{
    run_many(100, use_part, *state, -1);
}

/* -------------------------------------------------- strangers at a rank's port */

enum { HOST = 5, STRANGER = 6, CALLER = 7, SILENT = 40 };

/* The port at which this process listens for messages. */
static int listening_port(void)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in at;
        socklen_t bytes = sizeof at, size = sizeof(int);
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&at, &bytes) == 0 && at.sin_family == AF_INET)
            return ntohs(at.sin_port);
    }
    return 0;
}

static int connect_to_port(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ? fd : -1;
}

/* As many silent connections as fill the list of those that have not greeted, and some that claim
 * to be CALLER, with a MAC that is not the job's. */
static void be_a_stranger(int port, int *failures)
{
    struct {
        int32_t from, to;
        uint8_t mac[16];
        char message[64];
    } forged = {.from = CALLER, .to = HOST};
    for (int i = 0; i < 3; i++) {
        int fd = connect_to_port(port);
        EXPECT(failures, fd >= 0 && write(fd, &forged, sizeof forged) == sizeof forged);
    }
    for (int i = 0; i < SILENT; i++)
        EXPECT(failures, connect_to_port(port) >= 0);
}

static int meet_strangers(weir_boot *forked, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(forked), failures = 0, port = 0, got = 0;
    setenv("WEIR_SOCKET_IFNAME", "lo", 1);
    weir_boot *boot = tcp_over(forked, &failures);
    if (!boot)
        return NO_COMM;
    if (rank == HOST) {
        port = listening_port();
        EXPECT_OK(&failures, weir_boot_send(forked, &port, sizeof port, STRANGER, 1));
    }
    if (rank == STRANGER) {
        EXPECT_OK(&failures, weir_boot_recv(forked, &port, sizeof port, HOST, 1));
        be_a_stranger(port, &failures);
    }
    EXPECT_OK(&failures, weir_boot_barrier(forked));
    double start_s = now_s();
    if (rank == CALLER)
        EXPECT_OK(&failures, weir_boot_send(boot, &rank, sizeof rank, HOST, 2));
    if (rank == HOST) {
        EXPECT_OK(&failures, weir_boot_recv(boot, &got, sizeof got, CALLER, 2));
        EXPECT(&failures, got == CALLER);
        EXPECT(&failures, now_s() - start_s < EXTRA_S);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    weir_boot_destroy(boot);
    return failures;
}

static void test_strangers(void **state)
{
    (void)state;
    run_many(65, meet_strangers, NULL, -1);
}

int main(void)
{
    static tree_kind fork100 = {"fork", 100}, fork129 = {"fork", 129}, tcp65 = {"tcp", 65},
                     tcp100 = {"tcp", 100};
    static int one = 1, two = 2, n37 = 37, n64 = 64;
    static loss killed = {"fork", 77, 0}, leader = {"fork", 16, 0}, silent = {"fork", 77, 1};
    static loss tcp_killed = {"tcp", 77, 0}, tcp_silent = {"tcp", 16, 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_of_any_number_of_ranks),
        AT("the bootstrap of 100 forked ranks", test_tree_is_a_bootstrap, &fork100),
        AT("the bootstrap of 129 forked ranks", test_tree_is_a_bootstrap, &fork129),
        AT("the bootstrap of 65 ranks over TCP", test_tree_is_a_bootstrap, &tcp65),
        AT("the bootstrap of 100 ranks over TCP", test_tree_is_a_bootstrap, &tcp100),
        AT("the bootstrap of one of 100 ranks", test_part, &one),
        AT("the bootstrap of 2 of 100 ranks", test_part, &two),
        AT("the bootstrap of 37 of 100 ranks", test_part, &n37),
        AT("the bootstrap of 64 of 100 ranks", test_part, &n64),
        AT("a killed rank of a tree is named by all", test_loss_in_tree_is_named, &killed),
        AT("a killed leader of a tree is named by all", test_loss_in_tree_is_named, &leader),
        AT("a silent rank of a tree is named by all", test_loss_in_tree_is_named, &silent),
        AT("a killed rank is named by all over TCP", test_loss_in_tree_is_named, &tcp_killed),
        AT("a silent leader is named by all over TCP", test_loss_in_tree_is_named, &tcp_silent),
        cmocka_unit_test(test_strangers),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("boot_tree", tests, NULL, NULL);
}
