/*
 * The TCP bootstrap under attack and misconfiguration: connections that send nothing, garbage or
 * the wrong secret; ranks that are missing, duplicate, dead or disagree about their number; and
 * every kind of rendezvous: addresses, unique ids of any process, and torchrun's and Slurm's
 * variables.
 */
#include <weir/target.h>
#include "base/mac.h"
#include "boot/handshake.h"
#include "boot/socket.h"
#include "boot/tcp.h"
#include "boot/unique_id.h"
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/unit_test.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHORT_MS = 400 };

/* A test whose body runs on each of nranks forked ranks and returns its failed expectations. */
#define TEST_ON_RANKS(name, nranks)                                                                \
    static int name##_body(weir_boot *boot, void *argument);                                       \
    TEST(name)                                                                                     \
    {                                                                                              \
        run_ranks(nranks, name##_body, NULL);                                                      \
    }                                                                                              \
    static int name##_body(weir_boot *boot, void *argument __attribute__((unused)))

/* Distributes a new id of rank `maker` to all ranks. */
static weir_unique_id share_id_of(weir_boot *boot, int maker, int *failures)
{
    weir_unique_id ids[MOST_RANKS] = {{{0}}};
    if (weir_boot_rank(boot) == maker)
        EXPECT_OK(failures, weir_unique_id_create(&ids[maker]));
    EXPECT_OK(failures, weir_boot_allgather(boot, ids, sizeof ids[0]));
    return ids[maker];
}

static weir_unique_id share_id(weir_boot *boot, int *failures)
{
    return share_id_of(boot, 0, failures);
}

/* Distributes an address with a port that was free a moment ago to all ranks. */
static void share_address(weir_boot *boot, const char *format, int is_ipv6, char text[64],
                          int *failures)
{
    int ports[MOST_RANKS] = {0};
    if (weir_boot_rank(boot) == 0) {
        weiri_address address = {.ip = {127, 0, 0, 1}};
        int fd = -1;
        if (is_ipv6)
            address = (weiri_address){.is_ipv6 = 1, .ip = {[15] = 1}};
        EXPECT_OK(failures, weiri_socket_listen(&address, &fd));
        EXPECT_OK(failures, weiri_socket_address(fd, &address));
        close(fd);
        ports[0] = address.port;
    }
    EXPECT_OK(failures, weir_boot_allgather(boot, ports, sizeof ports[0]));
    snprintf(text, 64, format, ports[0]);
}

static int connect_to(const weir_unique_id *id, int *failures)
{
    weiri_rendezvous_point point;
    int fd = -1;
    weiri_deadline deadline = weiri_deadline_in(LIMIT_MS);
    EXPECT_OK(failures, weiri_unique_id_decode(id, &point));
    weiri_socket_call call = {.rank = 9, .to = &point.address};
    EXPECT_OK(failures, weiri_socket_connect(&call, &deadline, &fd));
    return fd;
}

/* ---------------------------------------------- unauthenticated connections */

/* Whether the peer closes the connection within 10 seconds. */
static int is_closed_by_peer(int fd)
{
    char bytes[256];
    uint64_t end = weir_clock_ns() + 10000000000u;
    while (weir_clock_ns() < end) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return 1;
        usleep(1000);
    }
    return 0;
}

/* Connects before rank 1 does: silent connections, one that sends garbage, one that sends part of a
 * hello, one that closes, and one that sends a hello with a wrong MAC. None may join or delay. */
static void open_unauthenticated(const weir_unique_id *id, int *failures)
{
    enum { CONNECTIONS = 8 };
    int fds[CONNECTIONS];
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n";
    weiri_hello hello = {.magic = 0x3169486872696577u, .rank = 1, .nranks = 2};
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = connect_to(id, failures);
    EXPECT(failures, send(fds[0], garbage, sizeof garbage - 1, MSG_NOSIGNAL) > 0);
    EXPECT(failures, send(fds[1], &hello, 20, MSG_NOSIGNAL) == 20);
    EXPECT(failures, send(fds[2], &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
    EXPECT(failures, send(fds[3], "abc", 3, MSG_NOSIGNAL) == 3);
    close(fds[4]);
    EXPECT(failures, is_closed_by_peer(fds[0]));
    EXPECT(failures, is_closed_by_peer(fds[2]));
    /* The others stay open, to delay the bootstrap if that is possible. */
}

TEST_ON_RANKS(unauthenticated_connections_neither_join_nor_delay, 3)
{
    int failures = 0, rank = weir_boot_rank(boot), go = 0;
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    if (rank == 2) {
        open_unauthenticated(&id, &failures);
        EXPECT_OK(&failures, weir_boot_send(boot, &go, sizeof go, 1, 0));
        EXPECT_OK(&failures, weir_boot_barrier(boot));
        return failures;
    }
    if (rank == 1)
        EXPECT_OK(&failures, weir_boot_recv(boot, &go, sizeof go, 2, 0));
    uint64_t start = weir_clock_ns();
    EXPECT_OK(&failures, weir_boot_tcp_create(&id, rank, 2, &tcp));
    if (rank == 1)
        EXPECT(&failures, weir_clock_ns() - start < 5000000000u);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (tcp)
        failures += boot_conformance(tcp, rank, 2, "tcp");
    weir_boot_destroy(tcp);
    return failures;
}

/* Rank 2 joins as rank 1 with one bit of the secret changed; then the true rank 1 joins. */
TEST_ON_RANKS(a_wrong_secret_is_rejected, 3)
{
    int failures = 0, rank = weir_boot_rank(boot), go = 0;
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    if (rank == 2) {
        weiri_rendezvous_point point;
        EXPECT_OK(&failures, weiri_unique_id_decode(&id, &point));
        point.key[7] ^= 1;
        weiri_unique_id_encode(&point, &id);
        EXPECT(&failures, weir_boot_tcp_create(&id, 1, 2, &tcp) == WEIR_ERR_REFUSED);
        EXPECT(&failures, boot_last_error_has("wrong secret"));
        EXPECT_OK(&failures, weir_boot_send(boot, &go, sizeof go, 1, 0));
        return failures;
    }
    if (rank == 1)
        EXPECT_OK(&failures, weir_boot_recv(boot, &go, sizeof go, 2, 0));
    EXPECT_OK(&failures, weir_boot_tcp_create(&id, rank, 2, &tcp));
    weir_boot_destroy(tcp);
    return failures;
}

/* A process without the secret listens in place of rank 0 and accepts every hello. */
TEST_ON_RANKS(a_rank_0_without_the_secret_is_detected, 2)
{
    int failures = 0, rank = weir_boot_rank(boot), listener = -1;
    weir_unique_id ids[2] = {{{0}}};
    weir_boot *tcp = NULL;
    if (rank == 0) {
        weiri_rendezvous_point point = {.address = {.ip = {127, 0, 0, 1}},
                                        .key = "the true secret"};
        EXPECT_OK(&failures, weiri_socket_listen(&point.address, &listener));
        EXPECT_OK(&failures, weiri_socket_address(listener, &point.address));
        weiri_unique_id_encode(&point, &ids[0]);
    }
    EXPECT_OK(&failures, weir_boot_allgather(boot, ids, sizeof ids[0]));
    if (rank == 1) {
        EXPECT(&failures, weir_boot_tcp_create(&ids[0], 1, 2, &tcp) == WEIR_ERR_REFUSED);
        EXPECT(&failures, boot_last_error_has("does not know this job's secret"));
    } else {
        weiri_job job = {.rank = 0, .nranks = 2, .key = "a wrong secret"};
        weiri_challenge challenge;
        weiri_hello hello;
        weiri_reply reply;
        int fd;
        while ((fd = accept(listener, NULL, NULL)) < 0)
            usleep(1000);
        EXPECT_OK(&failures, weiri_challenge_make(&job, &challenge));
        EXPECT(&failures, send(fd, &challenge, sizeof challenge, 0) == sizeof challenge);
        EXPECT(&failures, recv(fd, &hello, sizeof hello, MSG_WAITALL) == sizeof hello);
        weiri_reply_make(&job, &challenge, &hello, WEIR_OK, "", &reply);
        EXPECT(&failures, send(fd, &reply, sizeof reply, 0) == sizeof reply);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    return failures;
}

/* Strangers that send nothing get a part of the descriptors only. The process with the id can open
 * files, the oldest strangers lose their place, and the ranks join. */
TEST_ON_RANKS(silent_connections_do_not_exhaust_the_descriptors, 3)
{
    enum { FILES = 80, STRANGERS = 70 };
    int failures = 0, rank = weir_boot_rank(boot), fds[STRANGERS], more[FILES / 2];
    if (rank == 0)
        EXPECT(&failures, setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES, FILES}) == 0);
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    if (rank == 2) {
        for (int i = 0; i < STRANGERS; i++)
            fds[i] = connect_to(&id, &failures);
        EXPECT(&failures, is_closed_by_peer(fds[0]));
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    for (int i = 0; rank == 0 && i < FILES / 2; i++)
        EXPECT(&failures, (more[i] = dup(0)) >= 0);
    for (int i = 0; rank == 0 && i < FILES / 2; i++)
        close(more[i]);
    if (rank < 2)
        EXPECT_OK(&failures, weir_boot_tcp_create(&id, rank, 2, &tcp));
    EXPECT_OK(&failures, weir_boot_barrier(boot)); /* until then the strangers stay connected */
    weir_boot_destroy(tcp);
    return failures;
}

/* Opens connections that send garbage until the peer has closed each. */
static void open_garbage(const weir_unique_id *id, int count, int *failures)
{
    for (int i = 0; i < count; i++) {
        int fd = connect_to(id, failures);
        EXPECT(failures, send(fd, "garbage!", 8, MSG_NOSIGNAL) == 8);
        EXPECT(failures, is_closed_by_peer(fd));
        close(fd);
    }
}

enum { GARBAGE = 60 };

/* In another process, whose log shows warnings: its id gets connections that send garbage. */
static int refuse_garbage(void)
{
    int failures = 0;
    weir_unique_id id;
    weir_boot *tcp = NULL;
    EXPECT_OK(&failures, weir_unique_id_create(&id));
    open_garbage(&id, GARBAGE, &failures);
    EXPECT_OK(&failures, weir_boot_tcp_create(&id, 0, 1, &tcp));
    weir_boot_destroy(tcp);
    return failures;
}

/* The log gets a few lines, and at the end the number of further ones. */
TEST(refused_connections_are_logged_as_a_number)
{
    int lines = 0, counted = 0, n = 0;
    char line[512], command[PATH_MAX + 64] = "WEIR_LOG=warn exec ";
    ssize_t length = readlink("/proc/self/exe", command + strlen(command), PATH_MAX);
    assert_true(length > 0);
    strcat(command, " refuse-garbage 2>&1");
    FILE *text = popen(command, "re");
    assert_non_null(text);
    while (fgets(line, sizeof line, text)) {
        lines++;
        counted += sscanf(line, "weir warn: rank 0 refused %d more connections", &n) == 1 ? n : 1;
    }
    assert_int_equal(pclose(text), 0);
    assert_int_equal(counted, GARBAGE);
    assert_in_range(lines, 2, 8);
}

/* ------------------------------------------------------ misconfigured ranks */

/* Rank 0 speaks the next version of the protocol, or something else; or another rank answers. */
TEST(who_answers_in_place_of_rank_0_is_named)
{
    static const weiri_challenge challenges[] = {
        {.magic = 0x3268634372696577u, .nranks = 2},
        {.magic = 0x3168634372696578u, .nranks = 2},
        {.magic = 0x3168634372696577u, .rank = 3, .nranks = 4},
    };
    static const weir_status wanted[] = {WEIR_ERR_MISMATCH, WEIR_ERR_REFUSED, WEIR_ERR_REFUSED};
    static const char *const reasons[] = {"rank 0 at ", "is not a rank of weir",
                                          "rank 1 expected rank 0 at 127.0.0.1:1, but rank 3 of 4 "
                                          "answers; another job may use this port"};
    const weiri_job job = {.rank = 1, .nranks = 2, .timeout_ms = 1000};
    const weiri_address nowhere = {.ip = {127, 0, 0, 1}, .port = 1};
    for (int i = 0; i < 3; i++) {
        const weiri_deadline deadline = weiri_deadline_in(1000);
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        assert_int_equal(send(pair[0], &challenges[i], sizeof challenges[i], 0),
                         sizeof challenges[i]);
        assert_int_equal(weiri_handshake_call(&job, pair[1], 0, &nowhere, &nowhere, &deadline),
                         wanted[i]);
        assert_true(boot_last_error_has(reasons[i]));
        close(pair[0]);
        close(pair[1]);
    }
}

/* Of 5 ranks, 2 and 4 never join. All others get their names. */
TEST_ON_RANKS(missing_ranks_are_named, 5)
{
    int failures = 0, rank = weir_boot_rank(boot);
    setenv("WEIR_TIMEOUT_MS", "400", 1);
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    if (rank != 2 && rank != 4) {
        EXPECT(&failures, weir_boot_tcp_create(&id, rank, 5, &tcp) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("ranks 2, 4 have not joined"));
        EXPECT(&failures, boot_last_error_has("after 400 ms"));
    }
    EXPECT(&failures, tcp == NULL);
    return failures;
}

static void *shut_soon(void *boot)
{
    usleep(200000);
    weiri_boot_tcp_shut(boot);
    return NULL;
}

/* Rank 1 is late by twice WEIR_TIMEOUT_MS, when it joins and in an allgather; then it does not
 * enter a barrier, and another thread of rank 0 ends the wait. */
TEST_ON_RANKS(a_late_rank_is_waited_for_until_the_bootstrap_is_shut, 2)
{
    enum { PATIENCE_MS = 20000 };
    int failures = 0, rank = weir_boot_rank(boot), all[2] = {1, 1};
    setenv("WEIR_TIMEOUT_MS", "400", 1);
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    pthread_t thread;
    usleep(rank ? 2 * SHORT_MS * 1000 : 0);
    EXPECT_OK(&failures, weiri_boot_tcp_create(&id, rank, 2, PATIENCE_MS, &tcp));
    usleep(rank ? 2 * SHORT_MS * 1000 : 0);
    EXPECT_OK(&failures, weir_boot_allgather(tcp, all, sizeof *all));
    if (rank == 0 && pthread_create(&thread, NULL, shut_soon, tcp) == 0) {
        const uint64_t started_ns = weir_clock_ns();
        EXPECT(&failures, weir_boot_barrier(tcp) == WEIR_ERR_PEER);
        EXPECT(&failures, weir_clock_ns() - started_ns < 5000000000u);
        pthread_join(thread, NULL);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    weir_boot_destroy(tcp);
    return failures;
}

/* There is no rank 0. With an address, that is known only after the deadline. */
TEST_ON_RANKS(a_missing_rank_0_is_named, 2)
{
    int failures = 0, rank = weir_boot_rank(boot);
    char address[64];
    weir_boot *tcp = NULL;
    setenv("WEIR_TIMEOUT_MS", "400", 1);
    share_address(boot, "127.0.0.1:%d", 0, address, &failures);
    if (rank == 1) {
        uint64_t start = weir_clock_ns();
        EXPECT(&failures, weir_boot_tcp_create_at(address, 1, 2, &tcp) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 0 at 127.0.0.1:"));
        EXPECT(&failures, weir_clock_ns() - start >= SHORT_MS * 1000000u);
    }
    return failures;
}

/* With the id of a process that has ended, it is known at once that there is no rank 0. */
TEST(an_id_of_a_dead_process_fails_at_once)
{
    weiri_rendezvous_point point = {.address = {.ip = {127, 0, 0, 1}}, .key = "whatever"};
    weir_unique_id id;
    weir_boot *tcp = NULL;
    int fd;
    assert_int_equal(weiri_socket_listen(&point.address, &fd), WEIR_OK);
    assert_int_equal(weiri_socket_address(fd, &point.address), WEIR_OK);
    close(fd);
    weiri_unique_id_encode(&point, &id);
    assert_int_equal(weir_boot_tcp_create(&id, 1, 2, &tcp), WEIR_ERR_PEER);
    assert_true(boot_last_error_has("nothing listens at 127.0.0.1:"));
}

/* Two processes claim to be rank 1; all get the error. */
TEST_ON_RANKS(a_duplicate_rank_is_rejected, 3)
{
    int failures = 0, rank = weir_boot_rank(boot), go = 0;
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    if (rank == 2) { /* joins after rank 1 */
        EXPECT_OK(&failures, weir_boot_recv(boot, &go, sizeof go, 1, 0));
        usleep(100000);
    }
    if (rank == 1)
        EXPECT_OK(&failures, weir_boot_send(boot, &go, sizeof go, 2, 0));
    EXPECT(&failures, weir_boot_tcp_create(&id, rank ? 1 : 0, 3, &tcp) == WEIR_ERR_MISMATCH);
    EXPECT(&failures, boot_last_error_has("two processes say that they are rank 1"));
    return failures;
}

/* The connections to a port of this machine that the kernel has established. */
static int connections_to(int port)
{
    FILE *table = fopen("/proc/net/tcp", "r");
    char line[512];
    int count = 0;
    while (table && fgets(line, sizeof line, table)) {
        unsigned remote = 0, state = 0;
        if (sscanf(line, "%*u: %*8x:%*4x %*8x:%4x %2x", &remote, &state) == 2)
            count += remote == (unsigned)port && state == 1;
    }
    if (table)
        fclose(table);
    return count;
}

/* Waits until a second connection to the port exists. Returns the last time when it did not yet;
 * before_ns: such a time. */
static uint64_t await_second_connection(const char *address, uint64_t before_ns,
                                        const weiri_deadline *deadline)
{
    while (weiri_deadline_left_ms(deadline) > 0) {
        const uint64_t now_ns = weir_clock_ns();
        if (connections_to(atoi(strrchr(address, ':') + 1)) >= 2)
            break;
        before_ns = now_ns;
        usleep(1000);
    }
    return before_ns;
}

static int connect_to_address(const char *address, int *failures)
{
    int fd = -1;
    weiri_named_address named;
    const weiri_deadline deadline = weiri_deadline_in(LIMIT_MS);
    const weiri_socket_call call = {.rank = 1, .to = &named.address, .patient = 1};
    EXPECT_OK(failures, weiri_named_address_parse(address, &named));
    EXPECT_OK(failures, weiri_socket_connect(&call, &deadline, &fd));
    return fd;
}

/* Rank 1 speaks the next version of the protocol, and then something else. */
TEST_ON_RANKS(another_version_of_the_protocol_is_named, 2)
{
    static const uint64_t hellos[] = {0x3269486872696577u, 0x3269486872696578u};
    static const char *const reasons[] = {"it speaks another version of weir's protocol",
                                          "it does not speak weir's protocol"};
    int failures = 0, rank = weir_boot_rank(boot);
    setenv("WEIR_TIMEOUT_MS", "700", 1);
    for (int i = 0; i < 2; i++) {
        char address[64];
        weir_boot *tcp = NULL;
        const weiri_hello hello = {.magic = hellos[i], .rank = 1, .nranks = 2};
        share_address(boot, "127.0.0.1:%d", 0, address, &failures);
        if (rank == 1) {
            const int fd = connect_to_address(address, &failures);
            EXPECT(&failures, send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
            EXPECT(&failures, is_closed_by_peer(fd));
            close(fd);
        } else {
            EXPECT(&failures, weir_boot_tcp_create_at(address, 0, 2, &tcp) == WEIR_ERR_TIMEOUT);
            EXPECT(&failures, boot_last_error_has(reasons[i]));
        }
        EXPECT_OK(&failures, weir_boot_barrier(boot));
    }
    return failures;
}

/* Claims to be rank 1 once the true one has connected. Returns 0, without a verdict, if that took
 * longer than rank 0 waits for processes that are late. */
static int claim_rank_1(weir_boot *boot, const char *address, int *failures)
{
    enum { IN_TIME_MS = 80, CONNECTED_MS = 1000 }; /* rank 0 waits 100 ms */
    int fd = -1, go = 0;
    weiri_named_address named;
    weiri_job job = {.rank = 1, .nranks = 2};
    weiri_deadline deadline = weiri_deadline_in(LIMIT_MS);
    const weiri_socket_call call = {.rank = 1, .to = &named.address, .patient = 1};
    static const uint8_t known[WEIRI_KEY_BYTES] = "weir boot secret";
    EXPECT_OK(failures, weiri_named_address_parse(address, &named));
    weiri_mac(known, "", 0, job.key);
    EXPECT_OK(failures, weiri_socket_connect(&call, &deadline, &fd));
    const uint64_t start_ns = weir_clock_ns();
    EXPECT_OK(failures, weir_boot_send(boot, &go, sizeof go, 1, 0));
    const weiri_deadline connected = weiri_deadline_in(CONNECTED_MS);
    const uint64_t before_ns = await_second_connection(address, start_ns, &connected);
    usleep(20000); /* rank 1 has connected, and says who it is */
    const weir_status status =
        weiri_handshake_call(&job, fd, 0, &named.address, &named.address, &deadline);
    const int in_time = weir_clock_ns() - before_ns < IN_TIME_MS * UINT64_C(1000000);
    close(fd);
    EXPECT(failures, !in_time || (status == WEIR_ERR_MISMATCH &&
                                  boot_last_error_has("two processes say that they are rank 1")));
    return in_time;
}

/* Rank 2 connects and claims to be rank 1 while the true rank 1, the last one, joins. Its error
 * says that the rank is taken; the job starts. Where the machine is too busy, it tries again. */
TEST_ON_RANKS(a_process_that_claims_a_taken_rank_learns_it, 3)
{
    enum { MOST_ATTEMPTS = 20 };
    int failures = 0, rank = weir_boot_rank(boot), go = 0, in_time[3] = {0};
    for (int attempt = 0; !failures && !in_time[2] && attempt < MOST_ATTEMPTS; attempt++) {
        char address[64];
        weir_boot *tcp = NULL;
        share_address(boot, "127.0.0.1:%d", 0, address, &failures);
        if (rank == 1)
            EXPECT_OK(&failures, weir_boot_recv(boot, &go, sizeof go, 2, 0));
        if (rank < 2)
            EXPECT_OK(&failures, weir_boot_tcp_create_at(address, rank, 2, &tcp));
        else
            in_time[2] = claim_rank_1(boot, address, &failures);
        EXPECT_OK(&failures, weir_boot_allgather(boot, in_time, sizeof *in_time));
        weir_boot_destroy(tcp);
    }
    EXPECT(&failures, in_time[2]);
    return failures;
}

TEST_ON_RANKS(different_numbers_of_ranks_are_reported, 2)
{
    int failures = 0, rank = weir_boot_rank(boot);
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    EXPECT(&failures, weir_boot_tcp_create(&id, rank, rank ? 7 : 2, &tcp) == WEIR_ERR_MISMATCH);
    EXPECT(&failures, boot_last_error_has("says 7 ranks, rank 0 says 2"));
    return failures;
}

/* Rank 1 joins and is killed while rank 2 is missing. */
static int killed_while_joining(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot);
    weir_unique_id id = share_id(boot, &failures);
    weir_boot *tcp = NULL;
    if (rank == 1)
        alarm(1); /* by then it waits for rank 2 within the call */
    if (rank < 2) {
        uint64_t start = weir_clock_ns();
        EXPECT(&failures, weir_boot_tcp_create(&id, rank, 3, &tcp) == WEIR_ERR_PEER);
        EXPECT(&failures,
               boot_last_error_has("rank 1 joined rank 0 and ended before all ranks had joined"));
        EXPECT(&failures, weir_clock_ns() - start < 10000000000u);
    }
    return failures;
}

TEST(death_while_joining_is_reported)
{
    int codes[3];
    assert_int_equal(weir_boot_fork_run(3, killed_while_joining, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 128 + SIGALRM);
}

/* --------------------------------------------------- ids of other processes */

typedef struct id_use {
    int maker, nranks; /* of 3 processes; the first nranks of them are the ranks */
    int late;          /* the rank that joins last */
} id_use;

static int join_by_id_of(weir_boot *boot, void *argument)
{
    const id_use *how = argument;
    int failures = 0, rank = weir_boot_rank(boot);
    weir_unique_id id = share_id_of(boot, how->maker, &failures);
    weir_boot *tcp = NULL;
    if (rank < how->nranks) {
        usleep(rank == how->late ? 200000 : 0);
        EXPECT_OK(&failures, weir_boot_tcp_create(&id, rank, how->nranks, &tcp));
        if (tcp)
            failures += boot_conformance(tcp, rank, how->nranks, "tcp");
        weir_boot_destroy(tcp);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    EXPECT(&failures, weir_boot_tcp_create(&id, rank, how->nranks + 1, &tcp) == WEIR_ERR_PEER);
    EXPECT(&failures, boot_last_error_has("at the unique id's address"));
    return failures;
}

static void ranks_join_by_an_id_of_any_process(void **state)
{
    run_ranks(3, join_by_id_of, *state);
}

static id_use by_root = {0, 3, 1}, by_last = {2, 3, 2}, by_none = {2, 2, 1}, early = {1, 3, 0};
TEST_CASE("join by an id of rank 0", ranks_join_by_an_id_of_any_process, &by_root)
TEST_CASE("join by an id of the last rank", ranks_join_by_an_id_of_any_process, &by_last)
TEST_CASE("join by an id of no rank", ranks_join_by_an_id_of_any_process, &by_none)
TEST_CASE("join by an id, rank 0 last", ranks_join_by_an_id_of_any_process, &early)

/* The process that created the id, rank 2, ends while rank 1 waits for rank 0. */
TEST_ON_RANKS(death_of_the_process_that_created_the_id_is_detected, 3)
{
    int failures = 0, rank = weir_boot_rank(boot);
    weir_unique_id id = share_id_of(boot, 2, &failures);
    weir_boot *tcp = NULL;
    uint64_t start = weir_clock_ns();
    if (rank == 2)
        usleep(300000);
    if (rank == 1) {
        EXPECT(&failures, weir_boot_tcp_create(&id, 1, 2, &tcp) == WEIR_ERR_PEER);
        EXPECT(&failures, boot_last_error_has("at the unique id's address"));
        EXPECT(&failures, weir_clock_ns() - start < 10000000000u);
    }
    return failures;
}

/* Rank 0 is missing while the creator of the id lives; then rank 0 dies before all have joined. */
static int root_is_late_or_dies(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot);
    weir_unique_id id = share_id_of(boot, 2, &failures);
    weir_boot *tcp = NULL;
    if (rank == 1) {
        setenv("WEIR_TIMEOUT_MS", "400", 1);
        EXPECT(&failures, weir_boot_tcp_create(&id, 1, 3, &tcp) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 0 has not joined yet"));
        unsetenv("WEIR_TIMEOUT_MS");
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    uint64_t start = weir_clock_ns();
    if (rank == 0)
        alarm(1); /* by then both wait for rank 2 */
    if (rank < 2) {
        EXPECT(&failures, weir_boot_tcp_create(&id, rank, 3, &tcp) == WEIR_ERR_PEER);
        EXPECT(&failures, weir_clock_ns() - start < 10000000000u);
    }
    if (rank == 2)
        usleep(1500000); /* the id's process outlives rank 0 */
    return failures;
}

TEST(a_late_or_dead_rank_0_is_reported_to_the_others)
{
    int codes[3];
    assert_int_equal(weir_boot_fork_run(3, root_is_late_or_dies, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0], 128 + SIGALRM);
    assert_int_equal(codes[1], 0);
    assert_int_equal(codes[2], 0);
}

/* Two processes claim to be rank 0. The second gets an error, the first is not affected. */
TEST_ON_RANKS(a_second_rank_0_is_rejected, 3)
{
    int failures = 0, rank = weir_boot_rank(boot);
    weir_unique_id id = share_id_of(boot, 1, &failures);
    weir_boot *tcp = NULL;
    if (rank == 2) { /* rank 0 has joined and waits for rank 1 */
        usleep(500000);
        EXPECT(&failures, weir_boot_tcp_create(&id, 0, 2, &tcp) == WEIR_ERR_MISMATCH);
        EXPECT(&failures, boot_last_error_has("two processes say that they are rank 0"));
    }
    if (rank == 1)
        EXPECT_OK(&failures, weir_boot_recv(boot, &rank, sizeof rank, 2, 0));
    if (rank == 2)
        EXPECT_OK(&failures, weir_boot_send(boot, &(int){1}, sizeof rank, 1, 0));
    if (rank < 2)
        EXPECT_OK(&failures, weir_boot_tcp_create(&id, rank, 2, &tcp));
    weir_boot_destroy(tcp);
    return failures;
}

/* Whether the process has so many descriptors and threads within 5 seconds. */
static int reaches_counts(int files, int threads)
{
    for (int i = 0; i < 5000; i++) {
        if (count_entries("/proc/self/fd") == files && count_entries("/proc/self/task") == threads)
            return 1;
        usleep(1000);
    }
    return 0;
}

static void *return_argument(void *argument)
{
    return argument;
}

/* A thread sanitizer starts another thread beside the first one, which is then not counted. */
static void start_first_thread(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, return_argument, NULL), 0);
    pthread_join(thread, NULL);
}

/* One thread and one descriptor serve all unused ids. Neither used nor cancelled ids, nor ranks
 * that timed out, leave descriptors or threads. */
TEST(ids_leave_no_descriptors_and_threads)
{
    enum { IDS = 20 };
    start_first_thread();
    const int files = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    weir_unique_id ids[IDS];
    weir_boot *tcp = NULL;
    for (int i = 0; i < IDS; i++) {
        assert_int_equal(weir_unique_id_create(&ids[i]), WEIR_OK);
        assert_int_equal(weiri_boot_tcp_create(&ids[i], 1, 2, 2, &tcp), WEIR_ERR_TIMEOUT);
    }
    assert_true(reaches_counts(files + 1, threads + 1));
    for (int i = 0; i < IDS; i++) {
        if (i % 2)
            weiri_boot_tcp_cancel(&ids[i]);
        else
            assert_int_equal(weir_boot_tcp_create(&ids[i], 0, 1, &tcp), WEIR_OK);
        if (i % 2 == 0)
            weir_boot_destroy(tcp);
        if (i < IDS - 1)
            assert_int_equal(weir_boot_tcp_create(&ids[i], 0, 1, &tcp), WEIR_ERR_REFUSED);
    }
    assert_true(reaches_counts(files, threads));
    assert_int_equal(weir_boot_tcp_create(&ids[1], 0, 1, &tcp), WEIR_ERR_PEER);
}

/* --------------------------------------------------------------- rendezvous */

typedef struct place {
    const char *format;
    int is_ipv6;
    const char *secret;
} place;

static int join_at_address(weir_boot *boot, void *argument)
{
    place *where = argument;
    int failures = 0, rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    char address[64];
    weir_boot *tcp = NULL;
    share_address(boot, where->format, where->is_ipv6, address, &failures);
    if (where->secret)
        setenv("WEIR_BOOT_SECRET", where->secret, 1);
    if (rank == 0)
        usleep(100000); /* the others connect first, and retry */
    EXPECT_OK(&failures, weir_boot_tcp_create_at(address, rank, nranks, &tcp));
    if (tcp)
        failures += boot_conformance(tcp, rank, nranks, "tcp");
    weir_boot_destroy(tcp);
    return failures;
}

static int has_ipv6(void)
{
    weiri_address address = {.is_ipv6 = 1, .ip = {[15] = 1}};
    int fd = -1;
    weir_status status = weiri_socket_listen(&address, &fd);
    if (status == WEIR_OK)
        close(fd);
    return status == WEIR_OK;
}

static void ranks_join_at_an_address(void **state)
{
    place *where = *state;
    if (where->is_ipv6 && !has_ipv6()) {
        print_message("# this machine has no IPv6\n");
        skip();
    }
    run_ranks(3, join_at_address, where);
}

static place plain = {"127.0.0.1:%d", 0, NULL}, with_interface = {"lo:127.0.0.1:%d", 0, NULL};
static place ipv6 = {"lo:[::1]:%d", 1, NULL}, secret = {"127.0.0.1:%d", 0, "sesame"};
TEST_CASE("join at ip:port", ranks_join_at_an_address, &plain)
TEST_CASE("join at interface:ip:port", ranks_join_at_an_address, &with_interface)
TEST_CASE("join at interface:[ipv6]:port", ranks_join_at_an_address, &ipv6)
TEST_CASE("join at ip:port with a secret", ranks_join_at_an_address, &secret)

/* Another process listens on rank 0's port: an error at first; then the port becomes free. */
TEST_ON_RANKS(a_port_in_use_is_reported_and_retried, 2)
{
    int failures = 0, rank = weir_boot_rank(boot), listener = -1, go = 0;
    char address[64];
    weiri_named_address endpoint;
    weir_boot *tcp = NULL;
    share_address(boot, "127.0.0.1:%d", 0, address, &failures);
    EXPECT_OK(&failures, weiri_named_address_parse(address, &endpoint));
    if (rank == 1)
        EXPECT_OK(&failures, weiri_socket_listen(&endpoint.address, &listener));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (rank == 0) {
        EXPECT(&failures, weir_boot_tcp_create_at(address, 0, 1, &tcp) == WEIR_ERR_SYSTEM);
        EXPECT(&failures, boot_last_error_has("choose a free port"));
        EXPECT_OK(&failures, weir_boot_send(boot, &go, sizeof go, 1, 0));
        EXPECT_OK(&failures, weir_boot_tcp_create_at(address, 0, 1, &tcp));
    } else {
        EXPECT_OK(&failures, weir_boot_recv(boot, &go, sizeof go, 0, 0));
        usleep(100000);
        close(listener);
    }
    weir_boot_destroy(tcp);
    return failures;
}

TEST_ON_RANKS(different_secrets_in_the_environment_are_rejected, 2)
{
    int failures = 0, rank = weir_boot_rank(boot);
    char address[64];
    weir_boot *tcp = NULL;
    share_address(boot, "127.0.0.1:%d", 0, address, &failures);
    setenv("WEIR_BOOT_SECRET", rank ? "sesame" : "poppy", 1);
    setenv("WEIR_TIMEOUT_MS", "1500", 1);
    weir_status status = weir_boot_tcp_create_at(address, rank, 2, &tcp);
    if (rank == 0) {
        EXPECT(&failures, status == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 1 has not joined"));
        EXPECT(&failures, boot_last_error_has("connections refused: 1"));
    } else {
        EXPECT(&failures, status == WEIR_ERR_REFUSED);
        EXPECT(&failures, boot_last_error_has("WEIR_BOOT_SECRET"));
    }
    return failures;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int join_by_torchrun(weir_boot *boot, void *argument)
{
    int by_port = *(int *)argument, failures = 0, port = 0; /* of rank 0 */
    char text[64];
    weir_boot *tcp = NULL;
    share_address(boot, "%d", 0, text, &failures);
    sscanf(text, "%d", &port);
    set_number("RANK", weir_boot_rank(boot));
    set_number("WORLD_SIZE", weir_boot_nranks(boot));
    set_number(by_port ? "WEIR_BOOT_PORT" : "MASTER_PORT", by_port ? port : port - 1);
    setenv("MASTER_ADDR", "localhost", 1);
    EXPECT_OK(&failures, weir_boot_torchrun_create(&tcp));
    if (tcp) {
        EXPECT(&failures, weir_boot_rank(tcp) == weir_boot_rank(boot));
        EXPECT_OK(&failures, weir_boot_barrier(tcp));
    }
    weir_boot_destroy(tcp);
    return failures;
}

static void ranks_join_by_torchrun(void **state)
{
    run_ranks(3, join_by_torchrun, *state);
}

static int after_store = 0, at_port = 1;
TEST_CASE("join by torchrun's environment", ranks_join_by_torchrun, &after_store)
TEST_CASE("join by torchrun's environment at WEIR_BOOT_PORT", ranks_join_by_torchrun, &at_port)

TEST_ON_RANKS(wrong_torchrun_variables_are_named, 1)
{
    (void)boot;
    int failures = 0;
    weir_boot *tcp = NULL;
    unsetenv("RANK");
    unsetenv("MASTER_ADDR");
    EXPECT(&failures, weir_boot_torchrun_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("RANK is not set"));
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "two", 1);
    EXPECT(&failures, weir_boot_torchrun_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("WORLD_SIZE=two"));
    setenv("WORLD_SIZE", "2", 1);
    EXPECT(&failures, weir_boot_torchrun_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("MASTER_ADDR"));
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "65535", 1);
    EXPECT(&failures, weir_boot_torchrun_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("MASTER_PORT=65535"));
    setenv("MASTER_PORT", "29500", 1);
    EXPECT(&failures, weir_boot_torchrun_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("rank 2 of 2"));
    EXPECT(&failures, boot_last_error_has("bootstrap from torchrun's environment"));
    return failures;
}

/* How rank 0's port reaches the ranks. */
typedef enum slurm_port { SLURM_RESERVED, SLURM_GIVEN } slurm_port;

static int join_by_slurm(weir_boot *boot, void *argument)
{
    slurm_port by = *(slurm_port *)argument;
    int failures = 0, port = 0;
    char text[64], ports[80];
    weir_boot *tcp = NULL;
    share_address(boot, "%d", 0, text, &failures);
    sscanf(text, "%d", &port);
    snprintf(ports, sizeof ports, "%d-%d", by == SLURM_RESERVED ? port : 1, port + 3);
    set_number("SLURM_PROCID", weir_boot_rank(boot));
    set_number("SLURM_NTASKS", weir_boot_nranks(boot) + 1); /* of the job, not of the step */
    set_number("SLURM_STEP_NUM_TASKS", weir_boot_nranks(boot));
    setenv("SLURM_STEP_NODELIST", "local[host,07-09]suffix[1-2],other[3-4]", 1);
    setenv("SLURM_STEP_RESV_PORTS", ports, 1);
    if (by == SLURM_GIVEN)
        set_number("WEIR_BOOT_PORT", port);
    EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_SYSTEM);
    EXPECT(&failures, boot_last_error_has("SLURM_STEP_NODELIST=localhostsuffix1"));
    setenv("SLURM_STEP_NODELIST", "local[host,07-09],other[3-4]", 1);
    EXPECT_OK(&failures, weir_boot_slurm_create(&tcp));
    if (tcp) {
        EXPECT(&failures, weir_boot_rank(tcp) == weir_boot_rank(boot));
        EXPECT(&failures, weir_boot_nranks(tcp) == weir_boot_nranks(boot));
        EXPECT_OK(&failures, weir_boot_barrier(tcp));
    }
    weir_boot_destroy(tcp);
    return failures;
}

static void ranks_join_by_slurm(void **state)
{
    run_ranks(3, join_by_slurm, *state);
}

static slurm_port reserved = SLURM_RESERVED, given = SLURM_GIVEN;
TEST_CASE("join by Slurm's variables at a reserved port", ranks_join_by_slurm, &reserved)
TEST_CASE("join by Slurm's variables at WEIR_BOOT_PORT", ranks_join_by_slurm, &given)

TEST_ON_RANKS(wrong_slurm_variables_are_named, 1)
{
    (void)boot;
    static const char *const malformed[] = {"node[", "node[]", "[1-", ",b"};
    int failures = 0;
    weir_boot *tcp = NULL;
    unsetenv("SLURM_STEP_NODELIST");
    EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("SLURM_STEP_NODELIST="));
    EXPECT(&failures, boot_last_error_has("srun"));
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        setenv("SLURM_STEP_NODELIST", malformed[i], 1);
        EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_INVALID);
        EXPECT(&failures, boot_last_error_has("expected a list of hosts"));
    }
    setenv("SLURM_STEP_NODELIST", "localhost", 1);
    EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("SLURM_PROCID is not set"));
    setenv("SLURM_PROCID", "2", 1);
    setenv("SLURM_NTASKS", "2", 1);
    EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("SLURM_JOB_ID is not set"));
    setenv("SLURM_JOB_ID", "4000000", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("rank 2 of 2"));
    return failures;
}

/* What srun --distribution=arbitrary sets if rank 0 runs on the second node, and rank 1 on the
 * first. */
TEST_ON_RANKS(slurm_root_on_another_node_is_named, 1)
{
    (void)boot;
    static const char *const tasks[][3] = {{"0", "1", "0"}, {"1", "0", "1"}};
    int failures = 0;
    weir_boot *tcp = NULL;
    setenv("SLURM_STEP_NODELIST", "localhost,other", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        setenv("SLURM_PROCID", tasks[i][0], 1);
        setenv("SLURM_NODEID", tasks[i][1], 1);
        setenv("SLURM_GTIDS", tasks[i][2], 1);
        EXPECT(&failures, weir_boot_slurm_create(&tcp) == WEIR_ERR_INVALID);
        EXPECT(&failures, boot_last_error_has("rank 0 does not run on the first node"));
        EXPECT(&failures, boot_last_error_has("--distribution=block"));
    }
    return failures;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "refuse-garbage") == 0)
        return refuse_garbage();
    setenv("WEIR_LOG", "error", 0); /* hides the warnings of expected rejections */
    return run_all_tests("boot_tcp");
}
