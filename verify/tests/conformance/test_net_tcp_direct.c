/*
 * Proves that the tcp transport sends from memory that is not registered, receives where the
 * receiver redirects a put, whenever that ends, and no longer reads the memory of a failed call.
 */
#include "base/error.h"
#include "transport/net/tcp.h"
#include "verify/tests/conformance/net_conformance.h"

#include <sys/mman.h>
#include <sys/socket.h>

/* ------------------------------------------------------------- redirected puts */

enum { LANDED_BYTES = 20000, LANDING_ROUNDS = 3 };

/* Rank 1 writes the first part of a put's frame, or the rest of it, past the transport. */
static void send_frame_part(net_side *side, const unsigned char *data, int is_rest, int *failures)
{
    weiri_tcp_stream *stream = ((weiri_tcp_endpoint *)side->ends[0])->streams[0];
    const size_t half = LANDED_BYTES / 2;
    weiri_tcp_key key;
    memcpy(&key, side->keys[0].bytes, sizeof key);
    const weiri_tcp_frame frame = {
        .kind = WEIRI_TCP_PUT, .memory = key.id, .to = net_destination(1), .value = LANDED_BYTES};
    if (!is_rest)
        EXPECT(failures, send(stream->fd, &frame, sizeof frame, 0) == sizeof frame);
    EXPECT(failures, send(stream->fd, data + (is_rest ? half : 0), half, 0) == (ssize_t)half);
    if (is_rest) { /* else the peer acknowledges a frame that was not sent */
        stream->frames_sent++;
        stream->frames_written++;
    }
}

/* Rank 1 puts from memory that is not registered. Rank 0 redirects: round 0 as it should, round 1
 * with another length, which has no effect, round 2 until half of the data have arrived. */
static void redirect_puts(net_side *side, int *failures)
{
    static unsigned char data[LANDED_BYTES];
    weiri_endpoint *end = side->ends[1 - side->rank];
    unsigned char *memory = side->own + net_destination(1);
    for (int round = 0; round < LANDING_ROUNDS && !*failures; round++) {
        const uint64_t at = net_destination(1), value = (uint64_t)round + 1;
        EXPECT_OK(failures, net_barrier(side));
        memset(data, NET_CANARY, sizeof data);
        memset(memory, NET_CANARY, sizeof data);
        weiri_net_lock(side->net);
        if (side->rank == 0)
            side->ops->land(end, side->mem, at, LANDED_BYTES - (round == 1), (char *)data);
        else
            boot_fill(data, LANDED_BYTES, 1, round);
        weiri_net_unlock(side->net);
        EXPECT_OK(failures, net_barrier(side));
        EXPECT_OK(failures, weir_boot_barrier(side->boot));
        int landed = 0, moved = 0;
        if (side->rank == 1 && round == 2) {
            send_frame_part(side, data, 0, failures);
        } else if (side->rank == 1) {
            weiri_net_lock(side->net);
            EXPECT_OK(failures,
                      side->ops->put_from(end, (char *)data, &side->keys[0], at, LANDED_BYTES));
            weiri_net_unlock(side->net);
        }
        const weiri_tcp_stream *stream = ((weiri_tcp_endpoint *)end)->streams[0];
        for (double limit_s = now_s() + 5; side->rank == 0 && round == 2 && now_s() < limit_s &&
                                           stream->payload_left != LANDED_BYTES / 2;)
            EXPECT_OK(failures, net_move(side, &moved));
        if (side->rank == 0 && round == 2)
            landed = side->ops->landed(end, side->mem, at);
        EXPECT_OK(failures, weir_boot_barrier(side->boot));
        if (side->rank == 1 && round == 2)
            send_frame_part(side, data, 1, failures);
        if (side->rank == 1)
            EXPECT_OK(failures, net_signal(side, end, 1, value));
        if (side->rank == 0) {
            EXPECT_OK(failures, net_await(side, net_word(side, 1, 1), value));
            if (round < 2)
                landed = side->ops->landed(end, side->mem, at);
            EXPECT(failures, landed == (round == 0));
            EXPECT(failures, boot_filled(round ? memory : data, LANDED_BYTES, 1, round));
            EXPECT(failures, net_all_are(round ? data + (round == 2) * LANDED_BYTES / 2 : memory,
                                         LANDED_BYTES / 2, NET_CANARY));
            EXPECT(failures, !side->ops->landed(end, side->mem, at));
        }
        EXPECT_OK(failures, net_barrier(side));
    }
    EXPECT_OK(failures, net_barrier(side));
    weir_boot_barrier(side->boot);
}

/* Rank 0 redirects a put to memory whose second half cannot be written: that part is dropped, and
 * what follows the put arrives. */
static void redirect_nowhere(net_side *side, int *failures)
{
    enum { LENGTH = 128 << 10 }; /* one frame */
    static char data[LENGTH];
    weiri_endpoint *end = side->ends[1 - side->rank];
    char *there = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(failures, there != MAP_FAILED && !mprotect(there + LENGTH / 2, LENGTH / 2, PROT_NONE));
    EXPECT_OK(failures, net_barrier(side));
    weiri_net_lock(side->net);
    if (side->rank == 0)
        side->ops->land(end, side->mem, net_destination(1), LENGTH, there);
    weiri_net_unlock(side->net);
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    if (side->rank == 1) {
        weiri_net_lock(side->net);
        EXPECT_OK(failures,
                  side->ops->put_from(end, data, &side->keys[0], net_destination(1), LENGTH));
        weiri_net_unlock(side->net);
        EXPECT_OK(failures, net_signal(side, end, 1, 1));
    } else {
        EXPECT_OK(failures, net_await(side, net_word(side, 1, 1), 1));
        EXPECT(failures, side->ops->landed(end, side->mem, net_destination(1)));
        EXPECT(failures, side->net->lacks_memory);
    }
    EXPECT_OK(failures, net_barrier(side));
    weir_boot_barrier(side->boot);
}

/* Rank 1 reads nothing, so that rank 0's sockets fill up: memory that could not be sent is not used
 * after forget, which fails the endpoint. Without such memory it does nothing. */
static void forget_unsent(net_side *side, int *failures)
{
    weiri_endpoint *end = side->ends[1 - side->rank];
    int moved = 0;
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    if (side->rank == 0) {
        char *data = calloc(1, NET_AREA_BYTES);
        side->ops->forget(end);
        EXPECT(failures, end->failed == WEIR_OK);
        for (int i = 0; i < 8; i++)
            EXPECT_OK(failures, side->ops->put_from(end, data, &side->keys[1], net_destination(0),
                                                    NET_AREA_BYTES));
        EXPECT_OK(failures, net_move(side, &moved));
        weiri_fail(WEIR_ERR_TIMEOUT, "the call failed");
        side->ops->forget(end);
        free(data);
        EXPECT(failures, end->failed == WEIR_ERR_ABORTED);
        EXPECT(failures, ((weiri_tcp_endpoint *)end)->streams[0]->count == 0);
        EXPECT(failures, net_move(side, &moved) == WEIR_ERR_ABORTED);
        EXPECT(failures, boot_last_error_has("the call failed"));
    }
    weir_boot_barrier(side->boot);
}

static int run_tcp_check(weir_boot *boot, void *argument)
{
    net_check *const *check = argument;
    return net_fault(boot, WEIR_TRANSPORT_TCP, *check);
}

int main(void)
{
    static net_check *redirect = redirect_puts, *forget = forget_unsent,
                     *nowhere = redirect_nowhere;
    const struct CMUnitTest tests[] = {
        RANKS_TEST("puts arrive where the receiver redirects them", 2, run_tcp_check, &redirect),
        RANKS_TEST("puts are dropped where they cannot be stored", 2, run_tcp_check, &nowhere),
        RANKS_TEST("memory of a failed call is no longer read", 2, run_tcp_check, &forget),
    };
    return RUN_TESTS("tcp_direct", tests);
}
