/*
 * The ib wire with memory that its device cannot reach, staged: the conformance suite, with a
 * stand-in for the GPU, on a machine with an RDMA device. Of three ranks the first and the last
 * have such memory, and the last one's words are in there, too; the middle one has host memory.
 * So from rank to rank there is every case: staged where it comes from, where it goes, and both,
 * with signals beside it and within it.
 */
#include "stage_standin.h"
#include "transport/ib_wire.h"

static void adapt(weiri_wire *wire)
{
    weiri_ib_of(wire)->stage.ops = standin_ops();
}

static const wire_bed words_apart = {WEIRI_WIRE_CUDA, adapt, make_room, 1};
static const wire_bed words_within = {WEIRI_WIRE_CUDA, adapt, make_room, 0};

/* ------------------------------------------------------------------- bodies */

static int conform(weir_boot *boot)
{
    int failures = wire_conformance(boot, WEIR_TRANSPORT_IB);
    EXPECT(&failures, failures == NO_WIRE || !wire_bed_used || copies_made > 0);
    return failures;
}

/* The peer's inbox is full, and nobody empties it. */
static int be_silent(weir_boot *boot)
{
    return wire_fault_silent(boot, WEIR_TRANSPORT_IB);
}

static int come_and_go(weir_boot *boot)
{
    return wire_fault_leaks(boot, WEIR_TRANSPORT_IB, 12);
}

/* Rank 0 puts to staged memory that rank 1 no longer has: rank 1 says so, and both ends fail. */
static int name_what_is_gone(weir_boot *boot)
{
    enum { BYTES = 4096 };
    int failures = 0;
    wire_party party;
    weiri_wire_key keys[WIRE_RANKS];
    if (!wire_fault_open(&party, boot, WEIR_TRANSPORT_IB, &failures))
        return failures ? failures : NO_WIRE;
    char *gone = party.mem->base + wire_landing(0);
    weiri_wire_mem *mem = wire_share_at(&party, gone, BYTES, WEIRI_WIRE_CUDA, keys, &failures);
    EXPECT_OK(&failures, wire_meet(&party));
    memset(party.own + wire_landing(0), WIRE_CANARY, BYTES);
    party.ops->mem_deregister(mem);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (party.rank == 0) {
        weiri_wire_lock(party.wire);
        EXPECT_OK(&failures, party.ops->put(party.ends[1], party.mem, 0, &keys[1], 0, 64));
        weiri_wire_unlock(party.wire);
    }
    wire_expect_failed(&party, 1 - party.rank, &failures);
    EXPECT(&failures, boot_last_error_has(party.rank == 0 ? "refuses" : "has not registered"));
    EXPECT(&failures, wire_all_are(party.own + wire_landing(0), BYTES, WIRE_CANARY));
    weir_boot_barrier(boot);
    wire_party_close(&party);
    return failures;
}

/* A copy that has begun tells no descriptor when it ends: until then nobody may sleep. */
static int stay_awake(weir_boot *boot)
{
    int failures = 0, descriptor = -1;
    wire_party party;
    if (!wire_fault_open(&party, boot, WEIR_TRANSPORT_IB, &failures))
        return failures ? failures : NO_WIRE;
    const int peer = 1 - party.rank;
    EXPECT_OK(&failures, wire_meet(&party));
    EXPECT_OK(&failures, wire_flush(&party, party.ends[peer]));
    EXPECT_OK(&failures, wire_put(&party, peer, 0, 0, 64));
    weiri_wire_lock(party.wire);
    EXPECT(&failures, !party.ops->arm(party.wire, &descriptor));
    weiri_wire_unlock(party.wire);
    EXPECT_OK(&failures, wire_meet(&party));
    weir_boot_barrier(boot);
    wire_party_close(&party);
    return failures;
}

/* -------------------------------------------------------------------- tests */

typedef struct subject {
    int (*body)(weir_boot *boot);
    int nranks;
    const wire_bed *beds[3]; /* each rank's; NULL: host memory */
} subject;

static int run_body(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    wire_bed_used = what->beds[weir_boot_rank(boot)];
    wire_brief = 1; /* test_wires has done it all */
    return what->body(boot);
}

static void test_subject(void **state)
{
    const subject *what = *state;
    int codes[MOST_RANKS];
    if (weir_boot_fork_run(what->nranks, run_body, *state, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (codes[0] == NO_WIRE)
        skip();
    for (int rank = 0; rank < what->nranks; rank++)
        if (codes[rank] != 0)
            fail_msg("rank %d of %d ended with %d", rank, what->nranks, codes[rank]);
}

int main(int argc, char **argv)
{
    const wire_bed *const apart = &words_apart, *const within = &words_within;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        AT("staged and host memory conform", test_subject,
           (&(subject){conform, 3, {apart, NULL, within}})),
        AT("a put wakes whoever has to see its copy end", test_subject,
           (&(subject){stay_awake, 2, {apart, apart}})),
        AT("a full inbox runs into the deadline", test_subject,
           (&(subject){be_silent, 2, {NULL, apart}})),
        AT("a key of staged memory that is gone is refused", test_subject,
           (&(subject){name_what_is_gone, 2, {apart, apart}})),
        AT("12 set-ups leave nothing behind", test_subject,
           (&(subject){come_and_go, 2, {apart, within}})),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("ib_staged", tests, NULL, NULL);
}
