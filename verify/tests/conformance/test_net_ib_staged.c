/*
 * Proves that the ib transport conforms with memory that its device cannot access and must stage:
 * the conformance suite with a stand-in for the GPU, on a node with an RDMA device. Of three ranks
 * the first and the last have such memory, and the last one's signalled words are in it, too; the
 * middle one has host memory. So every case occurs: staged source, staged destination, and both,
 * with signals to host memory and to staged memory.
 */
#include "verify/tests/support/staging_standin.h"
#include "transport/net/ib.h"

static void use_standin(weiri_net *net)
{
    weiri_ib_of(net)->stage.ops = standin_ops();
}

static const net_memory words_apart = {WEIRI_NET_CUDA, use_standin, make_room, 1};
static const net_memory words_within = {WEIRI_NET_CUDA, use_standin, make_room, 0};

/* ------------------------------------------------------------------- bodies */

static int conform(weir_boot *boot)
{
    int failures = net_conformance(boot, WEIR_TRANSPORT_IB);
    EXPECT(&failures, failures == NO_NET || !net_memory_used || copies_made > 0);
    return failures;
}

static int repeat_setup(weir_boot *boot)
{
    return net_fault_leaks(boot, WEIR_TRANSPORT_IB, 8);
}

/* Rank 0 puts to staged memory that rank 1 has deregistered: rank 1 reports it, and both ends fail.
 */
static void put_to_deregistered(net_side *side, int *failures)
{
    enum { BYTES = 4096 };
    weiri_net_key keys[NET_RANKS];
    char *gone = side->mem->base + net_destination(0);
    weiri_net_mem *mem = net_share_at(side, gone, BYTES, WEIRI_NET_CUDA, keys, failures);
    EXPECT_OK(failures, net_barrier(side));
    memset(side->own + net_destination(0), NET_CANARY, BYTES);
    side->ops->mem_deregister(mem);
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    if (side->rank == 0) {
        weiri_net_lock(side->net);
        EXPECT_OK(failures, side->ops->put(side->ends[1], side->mem, 0, &keys[1], 0, 64));
        weiri_net_unlock(side->net);
    }
    net_expect_failed(side, 1 - side->rank, failures);
    EXPECT(failures, boot_last_error_has(side->rank == 0 ? "refuses" : "has not registered"));
    EXPECT(failures, net_all_are(side->own + net_destination(0), BYTES, NET_CANARY));
    weir_boot_barrier(side->boot);
}

/* A barrier after which no operation is outstanding; then the ranks stop progressing. */
static void settle(net_side *side, int *failures)
{
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, net_flush(side, side->ends[1 - side->rank]));
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
}

/* No descriptor reports the end of a copy, so arm must not allow sleeping before it. */
static void stay_awake(net_side *side, int *failures)
{
    int descriptor = -1, armed = 0;
    settle(side, failures);
    if (side->rank == 0) {
        const uint64_t before = copies_made;
        EXPECT_OK(failures, net_put(side, 1, 0, 0, 64));
        weiri_net_lock(side->net);
        while (!armed && copies_made == before)
            armed = side->ops->arm(side->net, &descriptor);
        weiri_net_unlock(side->net);
        EXPECT(failures, copies_made != before);
    }
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    settle(side, failures);
}

/* A peer does not progress: operations that fit into its inbox are sent but do not complete, and
 * those that do not fit time out. */
static void fill_inbox(net_side *side, int *failures)
{
    enum { LOOK_MS = 50, DEADLINE_MS = 300 };
    int moved = 0;
    settle(side, failures);
    if (side->rank == 0) {
        const weiri_endpoint *end = side->ends[1];
        const uint64_t done = end->completed;
        double limit_s = now_s() + LOOK_MS * 1e-3;
        EXPECT_OK(failures, net_put(side, 1, 0, 0, 1000));
        while (now_s() < limit_s)
            EXPECT_OK(failures, net_move(side, &moved));
        EXPECT(failures, end->sent == end->posted && end->completed == done);
        side->net->timeout_ms = DEADLINE_MS;
        EXPECT_OK(failures, net_put(side, 1, 0, 0, NET_AREA_BYTES));
        EXPECT(failures, net_await_failure(side) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, boot_last_error_has("rank 1") && end->sent < end->posted);
    }
    weir_boot_barrier(side->boot);
}

/* Signals for which an idle peer has posted no receives stall the device: the slots of the outbox
 * that are filled meanwhile must not be reused before the device has read them. */
static void hold_device(net_side *side, int *failures)
{
    enum { LOOK_MS = 50 };
    int moved = 0;
    settle(side, failures);
    boot_fill(net_source(side), NET_AREA_BYTES, side->rank, 5);
    if (side->rank == 0) {
        double limit_s = now_s() + LOOK_MS * 1e-3;
        for (uint64_t i = 1; i <= WEIRI_IB_RECEIVES + 1; i++)
            EXPECT_OK(failures, net_signal(side, side->ends[1], 1, i));
        EXPECT_OK(failures, net_put(side, 1, 0, 0, NET_AREA_BYTES));
        while (now_s() < limit_s)
            EXPECT_OK(failures, net_move(side, &moved));
    }
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    settle(side, failures);
    const unsigned char *received = side->own + net_destination(0);
    EXPECT(failures, side->rank == 0 || boot_filled(received, NET_AREA_BYTES, 0, 5));
}

/* -------------------------------------------------------------------- tests */

typedef struct subject {
    net_check *fault;
    int (*body)(weir_boot *boot); /* if there is no fault */
    int nranks;
    const net_memory *memories[3]; /* each rank's; NULL: host memory */
} subject;

static int run_body(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    net_memory_used = what->memories[weir_boot_rank(boot)];
    net_brief = 1; /* test_net runs all iterations */
    return what->fault ? net_fault(boot, WEIR_TRANSPORT_IB, what->fault) : what->body(boot);
}

static void test_subject(void **state)
{
    const subject *what = *state;
    net_run_ranks(what->nranks, run_body, *state, 0);
}

int main(int argc, char **argv)
{
    const net_memory *const apart = &words_apart, *const within = &words_within;
    const struct CMUnitTest tests[] = {
        AT("staged and host memory conform", test_subject,
           (&(subject){NULL, conform, 3, {apart, NULL, within}})),
        AT("arm allows no sleep while a copy is outstanding", test_subject,
           (&(subject){stay_awake, NULL, 2, {apart, apart}})),
        AT("a full inbox causes a timeout", test_subject,
           (&(subject){fill_inbox, NULL, 2, {NULL, apart}})),
        AT("a slot is not refilled while the device reads it", test_subject,
           (&(subject){hold_device, NULL, 2, {apart, NULL}})),
        AT("a key of deregistered staged memory is rejected", test_subject,
           (&(subject){put_to_deregistered, NULL, 2, {apart, apart}})),
        AT("8 set-ups leak nothing", test_subject,
           (&(subject){NULL, repeat_setup, 2, {apart, within}})),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return RUN_TESTS("ib_staged", tests);
}
