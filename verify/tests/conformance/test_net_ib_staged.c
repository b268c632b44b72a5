/*
 * Proves that the ib transport conforms with memory that its device cannot access and must stage:
 * the conformance suite with a stand-in for the GPU, on a node with an RDMA device. Of three ranks
 * the first and the last have such memory, and the last one's signalled words are in it, too; the
 * middle one has host memory. So every case occurs: staged source, staged destination, and both,
 * with signals to host memory and to staged memory.
 */
#include "verify/tests/support/staging_standin.h"
#include "transport/net/ib.h"

static void adapt(weiri_net *net)
{
    weiri_ib_of(net)->stage.ops = standin_ops();
}

static const net_memory words_apart = {WEIRI_NET_CUDA, adapt, make_room, 1};
static const net_memory words_within = {WEIRI_NET_CUDA, adapt, make_room, 0};

/* ------------------------------------------------------------------- bodies */

static int conform(weir_boot *boot)
{
    int failures = net_conformance(boot, WEIR_TRANSPORT_IB);
    EXPECT(&failures, failures == NO_NET || !net_memory_used || copies_made > 0);
    return failures;
}

static int come_and_go(weir_boot *boot)
{
    return net_fault_leaks(boot, WEIR_TRANSPORT_IB, 8);
}

/* Rank 0 puts to staged memory that rank 1 no longer has: rank 1 says so, and both ends fail. */
static int name_what_is_gone(weir_boot *boot)
{
    enum { BYTES = 4096 };
    int failures = 0;
    net_side side;
    weiri_net_key keys[NET_RANKS];
    if (!net_fault_open(&side, boot, WEIR_TRANSPORT_IB, &failures))
        return failures ? failures : NO_NET;
    char *gone = side.mem->base + net_destination(0);
    weiri_net_mem *mem = net_share_at(&side, gone, BYTES, WEIRI_NET_CUDA, keys, &failures);
    EXPECT_OK(&failures, net_barrier(&side));
    memset(side.own + net_destination(0), NET_CANARY, BYTES);
    side.ops->mem_deregister(mem);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (side.rank == 0) {
        weiri_net_lock(side.net);
        EXPECT_OK(&failures, side.ops->put(side.ends[1], side.mem, 0, &keys[1], 0, 64));
        weiri_net_unlock(side.net);
    }
    net_expect_failed(&side, 1 - side.rank, &failures);
    EXPECT(&failures, boot_last_error_has(side.rank == 0 ? "refuses" : "has not registered"));
    EXPECT(&failures, net_all_are(side.own + net_destination(0), BYTES, NET_CANARY));
    weir_boot_barrier(boot);
    net_side_close(&side);
    return failures;
}

/* The ranks meet, with nothing under way between them any more, and stop progressing. */
static void settle(net_side *side, int *failures)
{
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, net_flush(side, side->ends[1 - side->rank]));
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
}

static int open_quietly(net_side *side, weir_boot *boot, int *failures)
{
    if (!net_fault_open(side, boot, WEIR_TRANSPORT_IB, failures))
        return 0;
    settle(side, failures);
    return 1;
}

/* No descriptor tells that a copy has ended: until then nobody may sleep. */
static int stay_awake(weir_boot *boot)
{
    int failures = 0, descriptor = -1, armed = 0;
    net_side side;
    if (!open_quietly(&side, boot, &failures))
        return failures ? failures : NO_NET;
    if (side.rank == 0) {
        const uint64_t before = copies_made;
        EXPECT_OK(&failures, net_put(&side, 1, 0, 0, 64));
        weiri_net_lock(side.net);
        while (!armed && copies_made == before)
            armed = side.ops->arm(side.net, &descriptor);
        weiri_net_unlock(side.net);
        EXPECT(&failures, copies_made != before);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    settle(&side, &failures);
    net_side_close(&side);
    return failures;
}

/* A peer that does not progress: what is in its inbox is sent, but not complete, and what has
 * no room there runs into the deadline. */
static int fill_inbox(weir_boot *boot)
{
    enum { LOOK_MS = 50, DEADLINE_MS = 300 };
    int failures = 0, moved = 0;
    net_side side;
    if (!open_quietly(&side, boot, &failures))
        return failures ? failures : NO_NET;
    if (side.rank == 0) {
        const weiri_endpoint *end = side.ends[1];
        const uint64_t done = end->completed;
        double limit_s = now_s() + LOOK_MS * 1e-3;
        EXPECT_OK(&failures, net_put(&side, 1, 0, 0, 1000));
        while (now_s() < limit_s)
            EXPECT_OK(&failures, net_move(&side, &moved));
        EXPECT(&failures, end->sent == end->posted && end->completed == done);
        side.net->timeout_ms = DEADLINE_MS;
        EXPECT_OK(&failures, net_put(&side, 1, 0, 0, NET_AREA_BYTES));
        EXPECT(&failures, net_await_failure(&side) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("rank 1") && end->sent < end->posted);
    }
    weir_boot_barrier(boot);
    net_side_close(&side);
    return failures;
}

/* The device is held up by signals that a peer at rest has no receives for: the slots of the
 * outbox, which are filled meanwhile, wait for it. */
static int hold_device(weir_boot *boot)
{
    enum { LOOK_MS = 50 };
    int failures = 0, moved = 0;
    net_side side;
    if (!open_quietly(&side, boot, &failures))
        return failures ? failures : NO_NET;
    boot_fill(net_source(&side), NET_AREA_BYTES, side.rank, 5);
    if (side.rank == 0) {
        double limit_s = now_s() + LOOK_MS * 1e-3;
        for (uint64_t i = 1; i <= WEIRI_IB_RECEIVES + 1; i++)
            EXPECT_OK(&failures, net_signal(&side, side.ends[1], 1, i));
        EXPECT_OK(&failures, net_put(&side, 1, 0, 0, NET_AREA_BYTES));
        while (now_s() < limit_s)
            EXPECT_OK(&failures, net_move(&side, &moved));
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    settle(&side, &failures);
    const unsigned char *landed = side.own + net_destination(0);
    EXPECT(&failures, side.rank == 0 || boot_filled(landed, NET_AREA_BYTES, 0, 5));
    net_side_close(&side);
    return failures;
}

/* -------------------------------------------------------------------- tests */

typedef struct subject {
    int (*body)(weir_boot *boot);
    int nranks;
    const net_memory *memories[3]; /* each rank's; NULL: host memory */
} subject;

static int run_body(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    net_memory_used = what->memories[weir_boot_rank(boot)];
    net_brief = 1; /* test_net has done it all */
    return what->body(boot);
}

static void test_subject(void **state)
{
    const subject *what = *state;
    net_run_ranks(what->nranks, run_body, *state, 0);
}

int main(int argc, char **argv)
{
    const net_memory *const apart = &words_apart, *const within = &words_within;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        AT("staged and host memory conform", test_subject,
           (&(subject){conform, 3, {apart, NULL, within}})),
        AT("nobody sleeps while a copy is under way", test_subject,
           (&(subject){stay_awake, 2, {apart, apart}})),
        AT("a full inbox runs into the deadline", test_subject,
           (&(subject){fill_inbox, 2, {NULL, apart}})),
        AT("a slot is not filled while the device reads it", test_subject,
           (&(subject){hold_device, 2, {apart, NULL}})),
        AT("a key of staged memory that is gone is refused", test_subject,
           (&(subject){name_what_is_gone, 2, {apart, apart}})),
        AT("8 set-ups leave nothing behind", test_subject,
           (&(subject){come_and_go, 2, {apart, within}})),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("ib_staged", tests, NULL, NULL);
}
