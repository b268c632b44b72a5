/*
 * Proves that messages between two ranks of different nodes arrive whatever their lengths are, with
 * no more signals for credit and passes of progress than are needed, and that waits for them end at
 * the deadline. The nodes are emulated on one.
 */
#include "comm/internode/internode.h"
#include "verify/tests/support/internode_ranks.h"

#include <unistd.h>

enum { LONGEST = 300000 }; /* elements: several messages */

/* Element i of the block that a rank sends in a call. */
static int32_t element(int rank, size_t i, int call)
{
    return (int32_t)(i * 7 + (size_t)rank * 13 + (size_t)call * 29);
}

typedef struct pair {
    weir_comm *comm;
    int rank, other;
    int32_t *in, *out;
    int *failures;
} pair;

static int pair_open(pair *of, weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm);
    *of = (pair){.comm = comm, .rank = rank, .other = 1 - rank, .failures = failures};
    of->in = malloc(LONGEST * sizeof *of->in);
    of->out = malloc(LONGEST * sizeof *of->out);
    EXPECT(failures, of->in && of->out);
    return of->in && of->out;
}

static void pair_close(pair *of)
{
    free(of->in);
    free(of->out);
}

/* A call in which this rank sends count elements, receives them, or both. */
static void pair_call(pair *of, int call, size_t count, int sends, int receives)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        of->in[i] = element(of->rank, i, call);
        of->out[i] = -1;
    }
    EXPECT_OK(of->failures,
              weir_sendrecv(of->comm, of->in, sends ? count : 0, sends ? of->other : -1, of->out,
                            receives ? count : 0, receives ? of->other : -1, WEIR_INT32, NULL));
    for (size_t i = 0; i < count; i++)
        wrong += of->out[i] != (receives ? element(of->other, i, call) : -1);
    EXPECT(of->failures, wrong == 0);
    const weiri_internode_peer *peer = &of->comm->internode->peers[of->other];
    const size_t ring = weiri_internode_ring(peer);
    EXPECT(of->failures, peer->sent_at % ring + peer->stride <= ring); /* a long one would fit */
    EXPECT(of->failures, peer->taken_at % ring + peer->stride <= ring);
}

/* Lengths around those of a line, a shared slot and a message, in changing order; one way, in which
 * the sender runs ahead, and both ways. */
static void check_lengths(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    enum { CALLS = 600 };
    pair of;
    if (pair_open(&of, comm, failures)) {
        const size_t message = comm->internode->slot_bytes / sizeof *of.in;
        const size_t counts[] = {1,           15,   16,   17,   500,        2031,
                                 2032,        2033, 2047, 2048, 3000,       message,
                                 message + 1, 4,    9,    100,  message * 2};
        for (int call = 0; call < CALLS && !*failures; call++) {
            const size_t at = (size_t)call * 5 + (size_t)call / 17;
            const int both = call / 100 % 2;
            pair_call(&of, call, counts[at % (sizeof counts / sizeof *counts)],
                      both || of.rank == 0, both || of.rank == 1);
        }
    }
    pair_close(&of);
}

/* How often the peer's signals have raised the credit of this rank, in calls of one element or of a
 * whole slot. */
static void credit_expect(pair *of, size_t count, int both, int signals)
{
    enum { CALLS = 20 };
    const uint64_t *consumed = &of->comm->internode->peers[of->other].words->consumed;
    const uint64_t before = weir_load_acquire(consumed);
    for (int call = 0; call < CALLS; call++)
        pair_call(of, call, count, both || of->rank == 0, both || of->rank == 1);
    EXPECT_OK(of->failures, weir_comm_barrier(of->comm));
    EXPECT(of->failures, (weir_load_acquire(consumed) > before) == signals);
}

/* Where messages go both ways, their heads carry the credit; else a signal does after half a ring,
 * which many short messages share. */
static void check_credit(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    enum { SLOT = 2048 };
    pair of;
    if (pair_open(&of, comm, failures)) {
        credit_expect(&of, 1, 1, 0);
        credit_expect(&of, SLOT, 1, 0);
        credit_expect(&of, SLOT, 0, of.rank == 0);
        credit_expect(&of, SLOT, 1, 0); /* so that the heads have carried what was not signalled */
        credit_expect(&of, 1, 0, 0);
    }
    pair_close(&of);
}

/* A rank without room finds the credit in the latest message that it has not taken yet: rank 1
 * takes too few messages for a signal before each one that it sends. */
static void check_latest_credit(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    enum { SLOT = 2048, MESSAGES = WEIRI_INTERNODE_SLOTS + 5, ANSWERS = 2, BEFORE_EACH = 3 };
    pair of;
    if (pair_open(&of, comm, failures) && of.rank == 0) {
        for (int call = 0; call < MESSAGES; call++)
            pair_call(&of, call, SLOT, 1, 0);
        for (int call = 0; call < ANSWERS; call++)
            pair_call(&of, call, 1, 0, 1);
    } else if (of.out) {
        for (int call = 0; call < ANSWERS * BEFORE_EACH; call++) {
            pair_call(&of, call, SLOT, 0, 1);
            if (call % BEFORE_EACH == BEFORE_EACH - 1)
                pair_call(&of, call / BEFORE_EACH, 1, 1, 0);
        }
        /* As rank 0 cannot go on without the credit of the second answer, the rest is not taken
         * before all of it is there. */
        const weiri_internode_peer *peer = &comm->internode->peers[of.other];
        for (int naps = 0; weir_load_acquire(&peer->words->arrived) < MESSAGES && naps < 5000;
             naps++) {
            weiri_internode_poll(comm->internode);
            usleep(1000);
        }
        EXPECT(failures, weir_load_acquire(&peer->words->arrived) == MESSAGES);
        for (int call = ANSWERS * BEFORE_EACH; call < MESSAGES; call++)
            pair_call(&of, call, SLOT, 0, 1);
    }
    pair_close(&of);
}

static int passes; /* of progress */

static weir_status count_pass(weiri_net *net, int *moved)
{
    passes++;
    return weiri_net_tcp.progress(net, moved);
}

/* How often rank 0 looks at the network in reductions to rank 1, to which it only sends. */
static int passes_of_sender(pair *of, size_t count, int calls)
{
    size_t wrong = 0;
    EXPECT_OK(of->failures, weir_comm_barrier(of->comm));
    const int before = passes;
    for (int call = 0; call < calls; call++) {
        for (size_t i = 0; i < count; i++)
            of->in[i] = element(of->rank, i, call);
        EXPECT_OK(of->failures,
                  weir_reduce(of->comm, of->in, of->out, count, WEIR_INT32, WEIR_SUM, 1, NULL));
        for (size_t i = 0; of->rank == 1 && i < count; i++)
            wrong += of->out[i] != element(0, i, call) + element(1, i, call);
    }
    EXPECT(of->failures, wrong == 0);
    return passes - before;
}

/* A rank that only sends short messages does not look at the network before there is no room. */
static void check_short_sends(weir_comm *comm, const layout *where, int *failures)
{
    (void)where;
    /* FEW calls find room even if the ring is half full. */
    enum { FEW = 3, MANY = 2000, SHORT = 16, LONG = 4096 };
    weiri_net *net = comm->internode->net;
    weiri_net_ops counting = *net->ops;
    counting.progress = count_pass;
    net->ops = &counting;
    pair of;
    if (pair_open(&of, comm, failures)) {
        const int few = passes_of_sender(&of, SHORT, FEW);
        EXPECT(failures, of.rank == 1 || few == 0);
        const int many = passes_of_sender(&of, SHORT, MANY);
        EXPECT(failures, of.rank == 1 || many > 0);
        const int of_long = passes_of_sender(&of, LONG, FEW);
        EXPECT(failures, of.rank == 1 || of_long >= FEW);
        EXPECT_OK(failures, weir_comm_barrier(comm));
    }
    pair_close(&of);
    net->ops = &weiri_net_tcp;
}

/* Rank 0 waits for something that does not come, and names a word that has its value already. */
static int check_deadline(weir_boot *boot, void *argument)
{
    int failures = 0;
    setenv("WEIR_TIMEOUT_MS", "700", 1);
    weir_comm *comm = open_internode(boot, argument);
    if (!comm)
        return NO_COMM;
    if (weir_comm_rank(comm) == 0) {
        const uint64_t word = 5;
        weiri_waiter waiter = {.polls = {0, 0}};
        weir_status status = WEIR_OK;
        for (double start_s = now_s(); status == WEIR_OK && now_s() - start_s < 5;)
            status = weiri_comm_idle_for(comm->host_comm, &waiter, &word, word, 1, "a test");
        EXPECT(&failures, status == WEIR_ERR_TIMEOUT);
    } else {
        usleep(1500000);
    }
    weir_comm_destroy(comm);
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TEST("shm: messages of all lengths arrive", check_lengths, "ab", 2),
        LAYOUT_TEST("tcp: messages of all lengths arrive", check_lengths, "ab", 2, "tcp"),
        LAYOUT_TEST("credit needs few signals, and none where messages go both ways", check_credit,
                    "ab", 2),
        LAYOUT_TEST("shm: the latest message has the credit", check_latest_credit, "ab", 2),
        LAYOUT_TEST("tcp: the latest message has the credit", check_latest_credit, "ab", 2, "tcp"),
        LAYOUT_TEST("tcp: short messages are sent without looking for arrivals", check_short_sends,
                    "ab", 2, "tcp"),
        LAYOUT_RANKS_TEST("a wait that names a word that has come ends at the deadline",
                          check_deadline, "ab", 2, "tcp"),
    };
    return RUN_TESTS("messages across nodes", tests);
}
