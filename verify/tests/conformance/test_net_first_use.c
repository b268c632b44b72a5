/*
 * Proves that prepared endpoints of the tcp transport connect when they are first used: whoever
 * uses them first, at once from both sides, in any order, next to connections of strangers; and
 * that a peer that has ended, does not respond, has another secret or cannot open files is
 * reported. Each rank owns an array of words, one for each peer, which that peer signals.
 */
#include "transport/net/tcp.h"
#include "verify/tests/conformance/net_conformance.h"

#include <sys/resource.h>
#include <sys/socket.h>

enum { SOON_MS = 700, NETS = 40 };

typedef struct first_use {
    weir_boot *boot;
    int rank, n;
    weiri_net *net;
    weiri_endpoint *ends[NET_RANKS];
    uint64_t words[NET_RANKS];
    weiri_net_mem *mem;
    weiri_net_key keys[NET_RANKS];
    weiri_net_address all[NET_RANKS];
    int used; /* calls of the network's callback */
} first_use;

static const weiri_net_ops *const ops = &weiri_net_tcp;

static weiri_tcp_net *tcp_of(const first_use *u)
{
    return (weiri_tcp_net *)u->net;
}

static weir_status count_use(void *context, weiri_endpoint *endpoint)
{
    first_use *u = context;
    (void)endpoint;
    u->used++;
    return WEIR_OK;
}

static void prepare(first_use *u, int *failures)
{
    for (int peer = 0; peer < u->n && !*failures; peer++)
        if (peer != u->rank)
            EXPECT_OK(failures, ops->endpoint_prepare(u->net, peer, &u->all[peer], &u->ends[peer]));
    EXPECT_OK(failures, weir_boot_barrier(u->boot));
}

static void open_net(first_use *u, weir_boot *boot, int timeout_ms, int *failures)
{
    *u = (first_use){.boot = boot, .rank = weir_boot_rank(boot), .n = weir_boot_nranks(boot)};
    EXPECT_OK(failures, ops->open(u->rank, u->n, timeout_ms, &u->net));
    u->net->used = count_use;
    u->net->context = u;
    EXPECT_OK(failures, ops->address(u->net, &u->all[u->rank]));
    EXPECT_OK(failures,
              ops->mem_register(u->net, u->words, sizeof u->words, WEIRI_NET_HOST, &u->mem));
    u->keys[u->rank] = u->mem->key;
    EXPECT_OK(failures, weir_boot_allgather(boot, u->keys, sizeof *u->keys));
    EXPECT_OK(failures, weir_boot_allgather(boot, u->all, sizeof *u->all));
}

static void open_all(first_use *u, weir_boot *boot, int timeout_ms, int *failures)
{
    open_net(u, boot, timeout_ms, failures);
    prepare(u, failures);
}

static void close_all(first_use *u)
{
    weir_boot_barrier(u->boot);
    ops->close(u->net);
}

static weir_status say(const first_use *u, int peer, uint64_t value)
{
    return ops->signal(u->ends[peer], &u->keys[peer], 8 * (uint64_t)u->rank, value);
}

/* Progresses until a word is reached, the network fails, or so much time has passed. */
static weir_status drive(const first_use *u, const uint64_t *word, uint64_t value, int limit_ms)
{
    const double limit_s = now_s() + limit_ms * 1e-3;
    while (weir_load_acquire(word) < value) {
        int moved = 0;
        struct pollfd one = {.fd = -1, .events = POLLIN};
        weir_status status = ops->progress(u->net, &moved);
        if (status != WEIR_OK)
            return status;
        if (now_s() > limit_s)
            return WEIR_ERR_TIMEOUT;
        if (!moved && ops->arm(u->net, &one.fd))
            poll(&one, 1, 20);
    }
    return WEIR_OK;
}

static const uint64_t never;

/* ------------------------------------------------------------ who uses it first */

/* Rank 0 or rank 1 (the argument) uses the endpoint, twice, long before the other one makes
 * progress. Nothing is open before. */
static int one_uses_it(weir_boot *boot, void *argument)
{
    const int first = *(int *)argument;
    int failures = 0;
    first_use u;
    open_all(&u, boot, NET_TIMEOUT_MS, &failures);
    const int files = count_fds();
    EXPECT(&failures, !tcp_of(&u)->endpoints && u.used == 0);
    if (u.rank == first) {
        EXPECT_OK(&failures, say(&u, 1 - first, 1));
        EXPECT_OK(&failures, say(&u, 1 - first, 2));
        EXPECT(&failures, u.ends[1 - first]->is_connecting && u.ends[1 - first]->sent == 0);
        EXPECT(&failures, count_fds() == files + 1);
        EXPECT_OK(&failures, drive(&u, &u.ends[1 - first]->completed, 2, NET_TIMEOUT_MS));
    } else {
        usleep(300000);
        EXPECT(&failures, u.used == 0);
        EXPECT_OK(&failures, drive(&u, &u.words[first], 2, NET_TIMEOUT_MS));
        ops->arm(u.net, &(int){0}); /* acknowledges */
    }
    EXPECT(&failures, u.used == 1 && !u.ends[1 - u.rank]->is_connecting);
    EXPECT(&failures, count_fds() == files + 4); /* streams */
    close_all(&u);
    return failures;
}

/* All ranks use all endpoints at once, in many networks: each pair gets one connection per stream,
 * none is refused, and all signals arrive. */
static int all_use_them(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    for (int i = 0; i < NETS && !failures; i++) {
        first_use u;
        open_all(&u, boot, NET_TIMEOUT_MS, &failures);
        const int files = count_fds();
        for (int peer = 0; peer < u.n; peer++)
            if (peer != u.rank)
                EXPECT_OK(&failures, say(&u, peer, 7 + (uint64_t)i));
        for (int peer = 0; peer < u.n && !failures; peer++)
            if (peer != u.rank) {
                EXPECT_OK(&failures, drive(&u, &u.words[peer], 7 + (uint64_t)i, NET_TIMEOUT_MS));
                EXPECT_OK(&failures, drive(&u, &u.ends[peer]->sent, 1, NET_TIMEOUT_MS));
            }
        drive(&u, &never, 1, 50); /* calls that crossed end */
        EXPECT(&failures, u.used == u.n - 1 && tcp_of(&u)->guests.refused == 0);
        EXPECT(&failures, count_fds() == files + 4 * (u.n - 1));
        for (const weiri_tcp_endpoint *end = tcp_of(&u)->endpoints; end; end = end->next)
            EXPECT(&failures, end->state == WEIRI_TCP_CONNECTED && !end->call);
        close_all(&u);
    }
    return failures;
}

/* Rank 0 waits for rank 2 alone, which signals it only after rank 1 was connected by rank 0. */
static int accept_while_waiting(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, word = 0;
    first_use u;
    open_all(&u, boot, NET_TIMEOUT_MS, &failures);
    if (u.rank == 0)
        EXPECT_OK(&failures, drive(&u, &u.words[2], 1, NET_TIMEOUT_MS));
    if (u.rank == 1) {
        EXPECT_OK(&failures, say(&u, 0, 1));
        EXPECT_OK(&failures, drive(&u, &u.ends[0]->completed, 1, NET_TIMEOUT_MS));
        EXPECT_OK(&failures, weir_boot_send(boot, &word, sizeof word, 2, 0));
    }
    if (u.rank == 2) {
        EXPECT_OK(&failures, weir_boot_recv(boot, &word, sizeof word, 1, 0));
        EXPECT_OK(&failures, say(&u, 0, 1));
        EXPECT_OK(&failures, drive(&u, &u.ends[0]->sent, 1, NET_TIMEOUT_MS));
    }
    EXPECT(&failures, u.used == (u.rank == 0 ? 2 : 1));
    close_all(&u);
    return failures;
}

/* ------------------------------------------------------------------ strangers */

static int call_port(const first_use *u, int rank)
{
    weiri_tcp_address of;
    struct sockaddr_storage name;
    memcpy(&of, u->all[rank].bytes, sizeof of);
    const socklen_t bytes = weiri_address_to_socket(&of.listens, &name);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&name, bytes) == 0 ? fd : -1;
}

/* Before rank 1 calls, strangers do, with malformed and with nothing; and rank 2, which has another
 * secret: it is refused. Rank 1 is served. */
static int strangers(weir_boot *boot, void *argument)
{
    static const char malformed[] = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n";
    (void)argument;
    int failures = 0, fds[2] = {-1, -1};
    first_use u;
    open_net(&u, boot, NET_TIMEOUT_MS, &failures);
    if (u.rank == 2)
        u.all[0].bytes[offsetof(weiri_tcp_address, key) + 3] ^= 1;
    prepare(&u, &failures);
    if (u.rank == 1) {
        fds[0] = call_port(&u, 0);
        fds[1] = call_port(&u, 0);
        EXPECT(&failures, send(fds[0], malformed, sizeof malformed, 0) == sizeof malformed);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (u.rank == 0) {
        EXPECT_OK(&failures, drive(&u, &u.words[1], 1, NET_TIMEOUT_MS));
        const double limit_s = now_s() + 10;
        while (tcp_of(&u)->guests.refused < 2 && now_s() < limit_s)
            drive(&u, &never, 1, 10);
        EXPECT(&failures, tcp_of(&u)->guests.refused == 2 && u.used == 1);
        EXPECT(&failures, tcp_of(&u)->guests.count == 1); /* it may still say who it is */
    } else {
        EXPECT_OK(&failures, say(&u, 0, 1));
        weir_status status = drive(&u, &u.ends[0]->sent, 1, NET_TIMEOUT_MS);
        EXPECT(&failures, status == (u.rank == 1 ? WEIR_OK : WEIR_ERR_REFUSED));
        EXPECT(&failures, u.rank == 1 || boot_last_error_has("wrong secret"));
    }
    close_all(&u);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return failures;
}

/* Rank 0 closes the first connections unanswered, as one with too many guests does: rank 1 calls
 * again. Then an address of another kind, and of another rank, is rejected. */
static int calls_are_repeated(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    first_use u;
    weiri_endpoint *unused = NULL;
    open_all(&u, boot, NET_TIMEOUT_MS, &failures);
    if (u.rank == 0) {
        for (int closed = 0; closed < 3;) {
            int fd = accept(tcp_of(&u)->listener, NULL, NULL);
            closed += fd >= 0;
            if (fd >= 0)
                close(fd);
        }
        EXPECT_OK(&failures, drive(&u, &u.words[1], 1, NET_TIMEOUT_MS));
    } else {
        EXPECT_OK(&failures, say(&u, 0, 1));
        EXPECT_OK(&failures, drive(&u, &u.ends[0]->sent, 1, NET_TIMEOUT_MS));
    }
    EXPECT(&failures, ops->endpoint_prepare(u.net, 1 - u.rank, &u.all[1 - u.rank], &unused) ==
                          WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("exists already"));
    EXPECT(&failures,
           ops->endpoint_prepare(u.net, 1 - u.rank, &u.all[u.rank], &unused) == WEIR_ERR_MISMATCH);
    u.all[0].bytes[0] ^= 1;
    EXPECT(&failures,
           u.rank == 0 || ops->endpoint_prepare(u.net, 0, &u.all[0], &unused) == WEIR_ERR_INVALID);
    EXPECT(&failures, !unused);
    close_all(&u);
    return failures;
}

/* ------------------------------------------------------------------- failures */

/* Rank 1 ends before rank 0 uses the endpoint. */
static int peer_has_ended(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    first_use u;
    open_all(&u, boot, NET_TIMEOUT_MS, &failures);
    if (u.rank == 1)
        ops->close(u.net);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (u.rank == 1)
        return failures;
    const double start_s = now_s();
    say(&u, 1, 1);
    EXPECT(&failures, drive(&u, &u.ends[1]->sent, 1, NET_TIMEOUT_MS) == WEIR_ERR_PEER);
    EXPECT(&failures, boot_last_error_has("rank 1 has ended") && now_s() - start_s < 5);
    EXPECT(&failures, say(&u, 1, 2) == WEIR_ERR_PEER);
    ops->close(u.net);
    return failures;
}

/* Rank 1 listens, but makes no progress. */
static int peer_does_not_respond(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    first_use u;
    open_all(&u, boot, SOON_MS, &failures);
    if (u.rank == 0) {
        const double start_s = now_s();
        EXPECT_OK(&failures, ops->endpoint_begin(u.ends[1]));
        EXPECT(&failures, drive(&u, &never, 1, NET_TIMEOUT_MS) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 0 has no connection to rank 1 at "));
        EXPECT(&failures, now_s() - start_s < 0.001 * SOON_MS + 2);
        EXPECT(&failures, u.ends[1]->failed == WEIR_ERR_TIMEOUT && u.ends[1]->is_connecting);
    }
    close_all(&u);
    return failures;
}

/* No more files can be opened, at the rank that calls (0) or at the called one (1): with a higher
 * hard limit, the process takes more; else that rank says so. */
static int files_are_short(weir_boot *boot, void *argument)
{
    const int shorter = *(int *)argument;
    int failures = 0;
    struct rlimit before, few;
    for (int hard = 0; hard < 2; hard++) {
        first_use u;
        open_all(&u, boot, NET_TIMEOUT_MS, &failures);
        int spare = dup(0); /* the lowest free number, below which all are open */
        EXPECT(&failures, getrlimit(RLIMIT_NOFILE, &before) == 0);
        few = (struct rlimit){(rlim_t)spare, hard ? (rlim_t)spare : before.rlim_max};
        close(spare);
        if (u.rank == shorter)
            EXPECT(&failures, setrlimit(RLIMIT_NOFILE, &few) == 0);
        weir_boot_barrier(boot);
        if (u.rank == 0) {
            weir_status status = say(&u, 1, 1);
            if (status == WEIR_OK)
                status = drive(&u, &u.ends[1]->sent, 1, hard ? 1000 : NET_TIMEOUT_MS);
            EXPECT(&failures, status == (!hard     ? WEIR_OK
                                         : shorter ? WEIR_ERR_TIMEOUT
                                                   : WEIR_ERR_SYSTEM));
        } else {
            EXPECT(&failures, drive(&u, &u.words[0], 1, hard && shorter == 0 ? 500 : 3000) ==
                                  (!hard     ? WEIR_OK
                                   : shorter ? WEIR_ERR_SYSTEM
                                             : WEIR_ERR_TIMEOUT));
        }
        EXPECT(&failures, !hard || u.rank != shorter ||
                              boot_last_error_has("files that are allowed are open; raise"));
        weir_boot_barrier(boot);
        ops->close(u.net);
    }
    return failures;
}

/* What a peer costs that is never connected. */
static void test_size(void **state)
{
    (void)state;
    assert_true(sizeof(weiri_tcp_endpoint) <= 640);
}

int main(void)
{
    static int zero = 0, one = 1;
    const struct CMUnitTest tests[] = {
        RANKS_TEST("the lower rank uses an endpoint first", 2, one_uses_it, &zero),
        RANKS_TEST("the higher rank uses an endpoint first", 2, one_uses_it, &one),
        RANKS_TEST("two ranks call each other at once", 2, all_use_them, NULL),
        RANKS_TEST("five ranks call each other at once", 5, all_use_them, NULL),
        RANKS_TEST("a rank that waits for another accepts", 3, accept_while_waiting, NULL),
        RANKS_TEST("strangers are refused next to a call", 3, strangers, NULL),
        RANKS_TEST("a call that is cut off is repeated", 2, calls_are_repeated, NULL),
        RANKS_TEST("a peer that has ended is named", 2, peer_has_ended, NULL),
        RANKS_TEST("a peer that does not respond is named", 2, peer_does_not_respond, NULL),
        RANKS_TEST("the caller cannot open files", 2, files_are_short, &zero),
        RANKS_TEST("the called rank cannot open files", 2, files_are_short, &one),
        AT("an unused endpoint takes few bytes", test_size, NULL),
    };
    return RUN_TESTS("first_use", tests);
}
