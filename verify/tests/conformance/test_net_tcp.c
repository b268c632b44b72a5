/*
 * Proves that the tcp transport refuses unauthenticated connections to its port, and rejects
 * invalid frames from a peer: the test writes frames into a stream that the transport itself never
 * sends.
 */
#include "transport/net/tcp.h"
#include "verify/tests/conformance/net_conformance.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { PEER_HAS_BYTES = NET_WORDS_BYTES + 3 * NET_AREA_BYTES };

/* -------------------------------------------------- unauthenticated connections */

static int connect_to(const weiri_address *to)
{
    struct sockaddr_storage name;
    socklen_t bytes = weiri_address_to_socket(to, &name);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Before rank 1 connects, three others do: one sends malformed data, one nothing, one the wrong
 * secret. Rank 1 is accepted nevertheless. */
static int connect_unauthenticated(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot), fds[2] = {-1, -1};
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    weiri_net *net = NULL;
    weiri_endpoint *end = NULL, *other = NULL;
    weiri_net_address all[2], unused;
    EXPECT_OK(&failures, ops->open(rank, 2, NET_TIMEOUT_MS, &net));
    EXPECT_OK(&failures, ops->endpoint_create(net, 1 - rank, &end, &all[rank]));
    EXPECT_OK(&failures, ops->endpoint_create(net, 1 - rank, &other, &unused));
    EXPECT_OK(&failures, weir_boot_allgather(boot, all, sizeof *all));
    if (rank == 1 && !failures) {
        static const char rubbish[] = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n";
        weiri_tcp_address peers;
        weiri_net_address forged = all[0];
        memcpy(&peers, all[0].bytes, sizeof peers);
        fds[0] = connect_to(&peers.listens);
        fds[1] = connect_to(&peers.listens);
        EXPECT(&failures, fds[0] >= 0 && fds[1] >= 0);
        EXPECT(&failures, send(fds[0], rubbish, sizeof rubbish, 0) == sizeof rubbish);
        peers.key[3] ^= 1;
        memcpy(forged.bytes, &peers, sizeof peers);
        EXPECT(&failures, ops->endpoint_connect(other, &forged) == WEIR_ERR_REFUSED);
        EXPECT(&failures, boot_last_error_has("wrong secret"));
    }
    EXPECT_OK(&failures, ops->endpoint_connect(end, &all[1 - rank]));
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    weir_boot_barrier(boot);
    ops->close(net);
    return failures;
}

/* Rank 1 proves the key that rank 0 made for it, but says that it is rank 2: it is refused, and
 * both ends say why. */
static int connect_as_another_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot);
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    weiri_net *net = NULL;
    weiri_endpoint *end = NULL;
    weiri_net_address all[2], unused;
    EXPECT_OK(&failures, ops->open(rank == 0 ? 0 : 2, 3, 2000, &net));
    EXPECT_OK(&failures,
              ops->endpoint_create(net, rank == 0 ? 1 : 0, &end, rank == 0 ? &all[0] : &unused));
    EXPECT_OK(&failures, weir_boot_allgather(boot, all, sizeof *all));
    if (rank == 1) {
        EXPECT(&failures, ops->endpoint_connect(end, &all[0]) == WEIR_ERR_MISMATCH);
        EXPECT(&failures,
               boot_last_error_has("says that it is rank 2 of 3; rank 0 expected rank 1"));
    } else {
        weiri_net_address peers = all[0];
        weiri_tcp_address address;
        memcpy(&address, peers.bytes, sizeof address);
        address.rank = 1;
        memcpy(peers.bytes, &address, sizeof address);
        EXPECT(&failures, ops->endpoint_connect(end, &peers) == WEIR_ERR_MISMATCH);
        EXPECT(&failures,
               boot_last_error_has("says that it is rank 2 of 3; rank 0 expected rank 1"));
    }
    weir_boot_barrier(boot);
    ops->close(net);
    return failures;
}

/* Rank 1 never connects: rank 0 names it, and the address where it was awaited. Another rank's
 * address is rejected at once. */
static int peer_never_connects(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot);
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    weiri_net *net = NULL;
    weiri_endpoint *end = NULL;
    weiri_net_address all[2], rubbish = {{0}};
    EXPECT_OK(&failures, ops->open(rank, 2, 300, &net));
    EXPECT_OK(&failures, ops->endpoint_create(net, 1 - rank, &end, &all[rank]));
    EXPECT_OK(&failures, weir_boot_allgather(boot, all, sizeof *all));
    EXPECT(&failures, ops->endpoint_connect(end, &all[rank]) == WEIR_ERR_MISMATCH);
    EXPECT(&failures, ops->endpoint_connect(end, &rubbish) == WEIR_ERR_INVALID);
    if (rank == 0) {
        EXPECT(&failures, ops->endpoint_connect(end, &all[1]) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 1 has not called rank 0 at "));
        EXPECT(&failures, boot_last_error_has("WEIR_SOCKET_IFNAME"));
    }
    weir_boot_barrier(boot);
    ops->close(net);
    return failures;
}

/* ----------------------------------------------------------------- send buffers */

/* Rank 0's connections. Rank 1 does not know that the peer shares its kernel. */
typedef struct send_buffer_case {
    const char *congestion_control;
    int shares_kernel;
    int is_limited; /* expected */
} send_buffer_case;

enum { CONGESTION_NAME_BYTES = 16 };

static int set_congestion_control(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

/* Rank 0 accepts the connections, which inherit the congestion control of its listener. */
static int limit_send_buffers(weir_boot *boot, void *argument)
{
    const send_buffer_case *what = argument;
    enum { LIMIT = 2 * (64 << 10) /* the kernel doubles it */ };
    int failures = 0, rank = weir_boot_rank(boot);
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    weiri_net *net = NULL;
    weiri_endpoint *end = NULL;
    weiri_net_address all[2];
    EXPECT_OK(&failures, ops->open(rank, 2, NET_TIMEOUT_MS, &net));
    EXPECT_OK(&failures, ops->endpoint_create(net, 1 - rank, &end, &all[rank]));
    if (rank == 0) {
        int listener = ((weiri_tcp_net *)net)->listener;
        EXPECT(&failures, set_congestion_control(listener, what->congestion_control) == 0);
        end->shares_kernel = what->shares_kernel;
    }
    EXPECT_OK(&failures, weir_boot_allgather(boot, all, sizeof *all));
    EXPECT_OK(&failures, ops->endpoint_connect(end, &all[1 - rank]));
    const weiri_tcp_endpoint *tcp = (const weiri_tcp_endpoint *)end;
    EXPECT(&failures, tcp->nstreams > 1);
    for (int i = 0; i < tcp->nstreams; i++) {
        int fd = tcp->streams[i]->fd, bytes = 0;
        char name[CONGESTION_NAME_BYTES] = "";
        socklen_t length = sizeof bytes, name_length = sizeof name;
        EXPECT(&failures, getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0);
        EXPECT(&failures, (bytes == LIMIT) == (rank == 0 && what->is_limited));
        EXPECT(&failures, getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_length) == 0);
        EXPECT(&failures, rank == 1 || strcmp(name, what->congestion_control) == 0);
    }
    weir_boot_barrier(boot);
    ops->close(net);
    return failures;
}

static void test_send_buffers_with_bbr(void **state)
{
    (void)state;
    static send_buffer_case cases[] = {{"bbr", 1, 1}, {"bbr", 0, 0}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const int error = set_congestion_control(fd, "bbr") == 0 ? 0 : errno;
    close(fd);
    if (error == ENOENT || error == EPERM) {
        print_message("# the congestion control bbr is not available: %s\n", strerror(error));
        skip();
    }
    assert_int_equal(error, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_ranks(2, limit_send_buffers, &cases[i]);
}

/* ------------------------------------------------------------ impossible frames */

/* A frame that rank 1 writes into its first stream, and rank 0's error. Its memory is 1 for rank
 * 0's memory, 0 for one that does not exist. */
typedef struct wrong_frame {
    weiri_tcp_frame frame;
    size_t bytes; /* length of the frame and of the arbitrary bytes after it */
    int hangs_up;
    const char *expected;
} wrong_frame;

static const wrong_frame wrong_frames[] = {
    {{WEIRI_TCP_PUT, 0, 0, 0, 8}, 32, 0, "has not registered"},
    {{WEIRI_TCP_SIGNAL, 0, 0, 0, 8}, 32, 0, "has not registered"},
    {{WEIRI_TCP_PUT, 0, 1, PEER_HAS_BYTES - 7, 8}, 32, 0, "check offsets and lengths"},
    {{WEIRI_TCP_PUT, 0, 1, 8, UINT64_MAX}, 32, 0, "check offsets and lengths"},
    {{WEIRI_TCP_PUT, 0, 1, UINT64_MAX, 8}, 32, 0, "check offsets and lengths"},
    {{WEIRI_TCP_SIGNAL, 0, 1, PEER_HAS_BYTES, 1}, 32, 0, "check offsets and lengths"},
    {{WEIRI_TCP_SIGNAL, 0, 1, 4, 1}, 32, 0, "not a multiple of 8"},
    {{WEIRI_TCP_PUT, 0, 1, 0, 0}, 32, 0, "a put of nothing"},
    {{WEIRI_TCP_PUT, 3, 1, 0, 8}, 32, 0, "an invalid frame"},
    {{0x20544547, 0, 0, 0, 0}, 32, 0, "an invalid frame"},
    {{WEIRI_TCP_ACK, 99, 0, 0, 0}, 32, 0, "an invalid frame"},
    {{WEIRI_TCP_BYE, 0, 0, 0, UINT64_MAX}, 32, 0, "an invalid frame"},
    {{WEIRI_TCP_ACK, 4, 0, 0, 0}, 64, 0, "an acknowledgement of frames that were not sent"},
    {{WEIRI_TCP_PUT, 0, 1, 0, 4096}, 20, 1, "is gone"},   /* cut off in its header */
    {{WEIRI_TCP_PUT, 0, 1, 0, 4096}, 2000, 1, "is gone"}, /* and in its payload */
};

static const wrong_frame *frame_to_send;

static void send_wrong_frame(net_side *side, int *failures)
{
    const wrong_frame *what = frame_to_send;
    EXPECT(failures, side->mem->bytes == PEER_HAS_BYTES);
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures,
              weir_boot_barrier(side->boot)); /* the barrier ends before the frame arrives */
    if (side->rank == 1) {
        unsigned char data[4096];
        int fd = ((weiri_tcp_endpoint *)side->ends[0])->streams[0]->fd;
        weiri_tcp_frame frame = what->frame;
        weiri_tcp_key key;
        memcpy(&key, side->keys[0].bytes, sizeof key);
        frame.memory = frame.memory ? key.id : 77;
        memset(data, 0xff, sizeof data);
        memcpy(data, &frame, sizeof frame);
        EXPECT(failures, send(fd, data, what->bytes, 0) == (ssize_t)what->bytes);
        if (what->hangs_up)
            shutdown(fd, SHUT_RDWR);
    }
    weir_status status = net_await_failure(side);
    EXPECT(failures, status == WEIR_ERR_SYSTEM || status == WEIR_ERR_PEER);
    EXPECT(failures, boot_last_error_has(side->rank ? "rank 0 at " : "rank 1 at "));
    EXPECT(failures, (side->rank == 1 && what->hangs_up) || boot_last_error_has(what->expected));
    EXPECT(failures, side->rank == 0 || what->hangs_up || boot_last_error_has("failed: "));
    weir_boot_barrier(side->boot);
}

static int run_tcp_check(weir_boot *boot, void *argument)
{
    net_check *const *check = argument;
    return net_fault(boot, WEIR_TRANSPORT_TCP, *check);
}

static void test_wrong_frames(void **state)
{
    static net_check *check = send_wrong_frame;
    (void)state;
    for (size_t i = 0; i < sizeof wrong_frames / sizeof *wrong_frames; i++) {
        frame_to_send = &wrong_frames[i];
        run_ranks(2, run_tcp_check, &check);
    }
}

/* ------------------------------------------------------------ acknowledgements */

/* Rank 0 acknowledges three signals before it writes to its socket: the acknowledgements arrive in
 * order, whatever else waits for the socket. */
static void acknowledge_late(net_side *side, int *failures)
{
    weiri_endpoint *end = side->ends[1 - side->rank];
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    for (uint64_t value = 1; value <= 3; value++) {
        int moved = 0;
        if (side->rank == 1) {
            EXPECT_OK(failures, net_signal(side, end, 1, value));
            EXPECT_OK(failures, net_move(side, &moved));
        }
        double limit_s = now_s() + 5;
        while (side->rank == 0 && *net_word(side, 1, 1) < value && now_s() < limit_s)
            EXPECT_OK(failures, weiri_tcp_read(((weiri_tcp_endpoint *)end)->streams[0], &moved));
        if (side->rank == 0)
            weiri_tcp_acknowledge((weiri_tcp_endpoint *)end);
        EXPECT_OK(failures, weir_boot_barrier(side->boot));
    }
    EXPECT(failures, *net_word(side, 1, 1) == (side->rank == 0 ? 3 : 0));
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, net_flush(side, end));
    EXPECT_OK(failures, net_barrier(side));
    weir_boot_barrier(side->boot);
}

/* An acknowledgement is queued in front of waiting frames, but never inside of a frame whose first
 * bytes are written, and replaces one that still waits. */
static void test_acknowledgement_in_queue(void **state)
{
    (void)state;
    static weiri_tcp_stream stream;
    weiri_tcp_endpoint end = {.nstreams = 1, .streams = {&stream}};
    const weiri_tcp_key key = {.id = 7};
    stream.endpoint = &end;
    for (int written = 0; written < 2; written++) {
        stream.count = stream.head = 0;
        for (uint64_t value = 1; value <= 3; value++)
            assert_int_equal(weiri_tcp_queue_signal(&end, &key, 0, value), WEIR_OK);
        stream.head_sent = written ? 4 : 0;
        for (uint64_t done = 1; done <= 2; done++) {
            stream.frames_done = done;
            end.owed_frames = 1;
            weiri_tcp_acknowledge(&end);
            assert_int_equal(stream.count, 4);
            assert_int_equal(end.owed_frames, 0);
        }
        uint64_t value = 1;
        for (size_t i = 0; i < stream.count; i++) {
            const weiri_tcp_item *item = &stream.items[(stream.head + i) & (stream.capacity - 1)];
            const int is_ack = i == (size_t)written;
            assert_int_equal(item->frame.kind, is_ack ? WEIRI_TCP_ACK : WEIRI_TCP_SIGNAL);
            assert_int_equal(is_ack ? item->counts[0] : item->frame.value, is_ack ? 2 : value++);
        }
    }
    free(stream.items);
    free(end.ops);
}

/* ------------------------------------------------------------------- settings */

static void test_bad_settings(void **state)
{
    (void)state;
    weiri_net *net = NULL;
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    setenv("WEIR_SOCKET_STREAMS", "9", 1);
    assert_int_equal(ops->open(0, 2, 1000, &net), WEIR_ERR_INVALID);
    assert_true(boot_last_error_has("WEIR_SOCKET_STREAMS=9: expected a number from 1 to 8"));
    unsetenv("WEIR_SOCKET_STREAMS");
    setenv("WEIR_SOCKET_IFNAME", "nic77", 1);
    assert_int_equal(ops->open(0, 2, 1000, &net), WEIR_ERR_SYSTEM);
    assert_true(boot_last_error_has("WEIR_SOCKET_IFNAME"));
    assert_true(boot_last_error_has("'nic77' is not up"));
    unsetenv("WEIR_SOCKET_IFNAME");
    assert_null(net);
}

/* Jobs of many ranks have one connection per peer instead of four. */
static void test_streams_of_many_ranks(void **state)
{
    (void)state;
    weiri_net *net = NULL;
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    assert_int_equal(ops->open(0, 64, 1000, &net), WEIR_OK);
    assert_int_equal(net->descriptors_each, 4);
    ops->close(net);
    assert_int_equal(ops->open(64, 65, 1000, &net), WEIR_OK);
    assert_int_equal(net->descriptors_each, 1);
    ops->close(net);
}

int main(void)
{
    static net_check *late = acknowledge_late;
    static send_buffer_case reno = {"reno", 1, 0};
    const struct CMUnitTest tests[] = {
        RANKS_TEST("unauthenticated connections are rejected", 2, connect_unauthenticated, NULL),
        RANKS_TEST("a peer that proves the key as another rank is refused", 2,
                   connect_as_another_rank, NULL),
        RANKS_TEST("a peer that never connects is named", 2, peer_never_connects, NULL),
        AT("send buffers of bbr are limited only between peers of one kernel",
           test_send_buffers_with_bbr, NULL),
        RANKS_TEST("send buffers of other congestion controls are not limited", 2,
                   limit_send_buffers, &reno),
        AT("wrong frames fail the endpoint with their reason", test_wrong_frames, NULL),
        RANKS_TEST("acknowledgements stay in order", 2, run_tcp_check, &late),
        AT("an acknowledgement never enters a written frame", test_acknowledgement_in_queue, NULL),
        AT("invalid settings are rejected", test_bad_settings, NULL),
        AT("many ranks have one connection per peer", test_streams_of_many_ranks, NULL),
    };
    return RUN_TESTS("tcp_wire", tests);
}
