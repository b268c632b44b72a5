/*
 * Conformance suite of network transports (lib/transport/net/net.h). Every rank of a bootstrap
 * calls net_conformance(), which returns the number of failed expectations, each printed on
 * standard error. The fault tests (net_fault_*) run separately, each in new ranks, since a failed
 * endpoint never recovers.
 *
 * Every rank registers one memory: words that peers signal, then the source area of its puts, then
 * one destination area for each rank. All ranks run the same checks in step, and synchronise by
 * signals of the network under test. A rank that waits makes progress on the network, and
 * sometimes sleeps on its descriptor.
 */
#ifndef VERIFY_TESTS_CONFORMANCE_NET_CONFORMANCE_H
#define VERIFY_TESTS_CONFORMANCE_NET_CONFORMANCE_H

#include <weir/target.h>
#include "verify/tests/support/comm_ranks.h"
#include "transport/net/net.h"

#include <poll.h>
#include <signal.h>

enum {
    NET_RANKS = 8,
    NET_WORDS_BYTES = 4096,
    NET_EXTRA_WORDS = 1024, /* offset after the words of barriers, in bytes */
    NET_AREA_BYTES = 4 << 20,
    NET_CANARY = 0xee,
    NET_TIMEOUT_MS = 20000,
    NO_NET = 101, /* exit code of ranks without such a network: the test is skipped */
};

struct net_side;
typedef void net_check(struct net_side *side, int *failures);

typedef struct net_side {
    weir_boot *boot;
    int rank, nranks;
    const weiri_net_ops *ops;
    weiri_net *net;
    weiri_endpoint *ends[NET_RANKS];
    unsigned char *own, *words;     /* the words are normally at the start of own */
    weiri_net_mem *mem, *words_mem; /* words_mem: NULL, they are in mem */
    weiri_net_key keys[NET_RANKS];  /* of every rank's memory */
    weiri_net_key word_keys[NET_RANKS];
    uint64_t epoch; /* barriers so far */
} net_side;

/* Replaces host memory by another kind for the memory that all ranks share first. */
typedef struct net_memory {
    weiri_net_place place;
    void (*adapt)(weiri_net *net); /* called with a network that was just opened */
    /* Returns memory at the test's address, and the address to register. The callee owns it. */
    unsigned char *(*room)(size_t bytes, void **registered);
    int words_apart; /* words that peers signal are in host memory, as those of channels are */
} net_memory;

static const net_memory *net_memory_used; /* NULL: host memory */
static int net_brief;                     /* fewer iterations, the same on all ranks */
static int net_first_use;                 /* prepared endpoints, which connect on first use */

/* ------------------------------------------------------------------- set-up */

/* Runs body in nranks ranks. All must end with 0; the last one by SIGKILL if it is to be killed. If
 * there is no such network, the test is skipped. */
static inline void net_run_ranks(int nranks, int (*body)(weir_boot *boot, void *argument),
                                 void *argument, int last_is_killed)
{
    int codes[MOST_RANKS];
    if (weir_boot_fork_run(nranks, body, argument, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (codes[0] == NO_NET)
        skip();
    for (int rank = 0; rank < nranks; rank++) {
        int killed = last_is_killed && rank == nranks - 1;
        if (codes[rank] != (killed ? 128 + SIGKILL : 0))
            fail_msg("rank %d of %d ended with %d", rank, nranks, codes[rank]);
    }
}

static inline size_t net_destination(int from)
{
    return NET_WORDS_BYTES + (size_t)NET_AREA_BYTES * (size_t)(1 + from);
}

static inline unsigned char *net_source(const net_side *side)
{
    return side->own + NET_WORDS_BYTES;
}

/* Creates one more endpoint to every peer. Each rank connects to its peers in a different order. */
static inline void net_connect_all(net_side *side, weiri_endpoint **ends, int *failures)
{
    int rank = side->rank, nranks = side->nranks;
    weiri_net_address *all = calloc((size_t)(nranks * nranks), sizeof *all);
    for (int peer = 0; peer < nranks; peer++)
        if (peer != rank)
            EXPECT_OK(failures, side->ops->endpoint_create(side->net, peer, &ends[peer],
                                                           &all[rank * nranks + peer]));
    EXPECT_OK(failures, weir_boot_allgather(side->boot, all, (size_t)nranks * sizeof *all));
    for (int i = 1; i < nranks && !*failures; i++) {
        int peer = (rank + i) % nranks;
        EXPECT_OK(failures, side->ops->endpoint_connect(ends[peer], &all[peer * nranks + rank]));
        EXPECT(failures, ends[peer]->net == side->net && ends[peer]->peer == peer);
        EXPECT(failures, ends[peer]->posted == 0 && ends[peer]->completed == 0);
    }
    free(all);
}

/* Prepares an endpoint to every peer, for net_first_use. */
static inline void net_prepare_all(net_side *side, weiri_endpoint **ends, int *failures)
{
    weiri_net_address all[NET_RANKS];
    EXPECT_OK(failures, side->ops->address(side->net, &all[side->rank]));
    EXPECT_OK(failures, weir_boot_allgather(side->boot, all, sizeof *all));
    for (int peer = 0; peer < side->nranks && !*failures; peer++)
        if (peer != side->rank) {
            EXPECT_OK(failures,
                      side->ops->endpoint_prepare(side->net, peer, &all[peer], &ends[peer]));
            EXPECT(failures, ends[peer]->net == side->net && ends[peer]->peer == peer);
            EXPECT(failures, !ends[peer]->is_connecting && ends[peer]->posted == 0);
        }
    EXPECT_OK(failures, weir_boot_barrier(side->boot)); /* all are prepared */
}

static inline weiri_net_mem *net_share_at(net_side *side, void *base, size_t bytes,
                                          weiri_net_place place, weiri_net_key *keys, int *failures)
{
    weiri_net_mem *mem = NULL;
    EXPECT_OK(failures, side->ops->mem_register(side->net, base, bytes, place, &mem));
    if (mem)
        keys[side->rank] = mem->key;
    EXPECT_OK(failures, weir_boot_allgather(side->boot, keys, sizeof *keys));
    return mem;
}

static inline weiri_net_mem *net_share(net_side *side, void *base, size_t bytes,
                                       weiri_net_key *keys, int *failures)
{
    return net_share_at(side, base, bytes, WEIRI_NET_HOST, keys, failures);
}

/* Memory that is reused by all networks of this process, since allocating it is slow in a virtual
 * machine; in huge pages if available. */
static inline unsigned char *net_room(size_t bytes)
{
    enum { LARGE = 2 << 20 };
    static unsigned char *room;
    static size_t room_bytes;
    if (room_bytes < bytes) {
        free(room);
        room_bytes = (bytes + LARGE - 1) / LARGE * LARGE;
        room = aligned_alloc(LARGE, room_bytes);
        memset(room, 0, room_bytes);
    }
    return room;
}

/* Registers the words if they have separate memory, and exchanges their keys. */
static inline void net_share_words(net_side *side, int *failures)
{
    static uint64_t apart[NET_WORDS_BYTES / sizeof(uint64_t)];
    side->words = side->own;
    if (side->mem)
        side->word_keys[side->rank] = side->mem->key;
    if (net_memory_used && net_memory_used->words_apart) {
        side->words = memset(apart, 0, sizeof apart);
        side->words_mem = net_share(side, apart, sizeof apart, side->word_keys, failures);
    } else {
        EXPECT_OK(failures,
                  weir_boot_allgather(side->boot, side->word_keys, sizeof *side->word_keys));
    }
}

/* Opens the network and connects all ranks. Collective. Returns whether all ranks succeeded. */
static inline int net_side_open(net_side *side, weir_boot *boot, weir_transport transport,
                                int timeout_ms, int *failures)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot), all_opened = 1;
    *side = (net_side){
        .boot = boot, .rank = rank, .nranks = nranks, .ops = weiri_net_ops_of(transport)};
    weir_status statuses[NET_RANKS] = {WEIR_OK};
    statuses[rank] =
        side->ops ? side->ops->open(rank, nranks, timeout_ms, &side->net) : WEIR_ERR_UNSUPPORTED;
    if (side->ops && statuses[rank] != WEIR_OK)
        fprintf(stderr, "# no network: %s\n", weir_last_error());
    EXPECT_OK(failures, weir_boot_allgather(boot, statuses, sizeof *statuses));
    for (int i = 0; i < nranks; i++)
        all_opened &= statuses[i] == WEIR_OK;
    if (!all_opened) {
        EXPECT(failures, statuses[rank] == WEIR_OK || statuses[rank] == WEIR_ERR_UNSUPPORTED);
        return 0;
    }
    EXPECT(failures, side->ops->transport == transport && side->net->ops == side->ops);
    EXPECT(failures, side->net->rank == rank && side->net->nranks == nranks);
    const net_memory *test_memory = net_memory_used;
    if (test_memory)
        test_memory->adapt(side->net);
    if (net_first_use)
        net_prepare_all(side, side->ends, failures);
    else
        net_connect_all(side, side->ends, failures);
    size_t bytes = net_destination(nranks);
    void *registered = side->own = test_memory ? NULL : net_room(bytes);
    if (test_memory)
        side->own = test_memory->room(bytes, &registered);
    memset(side->own, 0, NET_WORDS_BYTES);
    side->mem =
        net_share_at(side, registered, bytes, test_memory ? test_memory->place : WEIRI_NET_HOST,
                     side->keys, failures);
    net_share_words(side, failures);
    return 1;
}

static inline void net_side_close(net_side *side)
{
    if (side->net) {
        for (int peer = 0; peer < side->nranks; peer++)
            if (side->ends[peer])
                side->ops->endpoint_destroy(side->ends[peer]);
        if (side->words_mem)
            side->ops->mem_deregister(side->words_mem);
        if (side->mem)
            side->ops->mem_deregister(side->mem);
        side->ops->close(side->net);
    }
}

/* -------------------------------------------------------------------- moves */

static inline weir_status net_move(net_side *side, int *moved)
{
    weiri_net_lock(side->net);
    weir_status status = side->ops->progress(side->net, moved);
    weiri_net_unlock(side->net);
    return status;
}

/* Sleeps until there is something to do, at most 100 ms. */
static inline void net_sleep(net_side *side)
{
    struct pollfd one = {.fd = -1, .events = POLLIN};
    weiri_net_lock(side->net);
    int armed = side->ops->arm(side->net, &one.fd);
    weiri_net_unlock(side->net);
    if (armed)
        poll(&one, 1, 100);
}

/* Progresses until the value at word is at least so high. */
static inline weir_status net_await(net_side *side, const uint64_t *word, uint64_t value)
{
    double limit_s = now_s() + NET_TIMEOUT_MS * 1e-3;
    for (int idle = 0; weir_load_acquire(word) < value;) {
        int moved = 0;
        weir_status status = net_move(side, &moved);
        if (status != WEIR_OK)
            return status;
        idle = moved ? 0 : idle + 1;
        if (idle > 20)
            net_sleep(side);
        if (now_s() > limit_s)
            return WEIR_ERR_TIMEOUT;
    }
    return WEIR_OK;
}

/* Waits until the peer has everything that was posted. Both sides must make progress for that, so a
 * barrier must follow before a rank does anything else. */
static inline weir_status net_flush(net_side *side, const weiri_endpoint *end)
{
    return net_await(side, &end->completed, end->posted);
}

static inline weir_status net_put(net_side *side, int peer, size_t at, size_t to, size_t bytes)
{
    weiri_net_lock(side->net);
    weir_status status = side->ops->put(side->ends[peer], side->mem, NET_WORDS_BYTES + at,
                                        &side->keys[peer], net_destination(side->rank) + to, bytes);
    weiri_net_unlock(side->net);
    return status;
}

/* Sets one of this rank's words at the peer. */
static inline weir_status net_signal(net_side *side, weiri_endpoint *end, int extra, uint64_t value)
{
    uint64_t to = (uint64_t)(extra ? NET_EXTRA_WORDS : 0) + 8 * (uint64_t)side->rank;
    weiri_net_lock(side->net);
    weir_status status = side->ops->signal(end, &side->word_keys[end->peer], to, value);
    weiri_net_unlock(side->net);
    return status;
}

static inline const uint64_t *net_word(const net_side *side, int from, int extra)
{
    return (const uint64_t *)(const void *)(side->words + (extra ? NET_EXTRA_WORDS : 0)) + from;
}

/* Barrier; afterwards all data that any rank put to this rank before it have arrived. */
static inline weir_status net_barrier(net_side *side)
{
    weir_status status = WEIR_OK;
    side->epoch++;
    for (int peer = 0; peer < side->nranks && status == WEIR_OK; peer++)
        if (peer != side->rank)
            status = net_signal(side, side->ends[peer], 0, side->epoch);
    for (int peer = 0; peer < side->nranks && status == WEIR_OK; peer++)
        if (peer != side->rank)
            status = net_await(side, net_word(side, peer, 0), side->epoch);
    return status;
}

static inline int net_all_are(const unsigned char *bytes, size_t count, int value)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

/* ------------------------------------------------------------------- checks */

/* All ranks put the given number of bytes to all others at once; the data arrive completely, and
 * nothing around them changes. */
static inline void net_check_put(net_side *side, size_t bytes, int round, int *failures)
{
    size_t from = bytes % 13, to = 32 + bytes % 17;
    boot_fill(net_source(side) + from, bytes, side->rank, round);
    for (int peer = 0; peer < side->nranks; peer++)
        memset(side->own + net_destination(peer), NET_CANARY, bytes + 128);
    EXPECT_OK(failures, net_barrier(side));
    for (int peer = 0; peer < side->nranks; peer++)
        if (peer != side->rank)
            EXPECT_OK(failures, net_put(side, peer, from, to, bytes));
    EXPECT_OK(failures, net_barrier(side));
    for (int peer = 0; peer < side->nranks; peer++) {
        const unsigned char *at = side->own + net_destination(peer) + to;
        EXPECT(failures, peer == side->rank || boot_filled(at, bytes, peer, round));
        EXPECT(failures, net_all_are(at - 32, 32, NET_CANARY));
        EXPECT(failures, peer == side->rank || net_all_are(at + bytes, 32, NET_CANARY));
        if (peer != side->rank)
            EXPECT_OK(failures, net_flush(side, side->ends[peer]));
    }
    EXPECT_OK(failures, net_barrier(side));
}

static inline void net_check_sizes(net_side *side, int *failures)
{
    static const size_t large[] = {255,   4095,   4096,   16384,         65535,
                                   65537, 100003, 262144, (1 << 20) + 5, (3 << 20) + 17};
    for (size_t bytes = 0; bytes <= 70 && !*failures; bytes += net_brief ? 7 : 1)
        net_check_put(side, bytes, (int)bytes, failures);
    for (size_t i = 0; i < sizeof large / sizeof *large && !*failures; i++)
        net_check_put(side, large[i], (int)i, failures);
}

/* Puts of many lengths, each followed by a signal, without waiting: a rank that sees a signal
 * sees all data put before it. */
static inline void net_check_order(net_side *side, int *failures)
{
    enum { ROUNDS = 12, SLOT = NET_AREA_BYTES / ROUNDS };
    static const size_t lengths[] = {SLOT, 8, 65536, 300000, 1, 131073};
    const int right = (side->rank + 1) % side->nranks;
    const int left = (side->rank + side->nranks - 1) % side->nranks;
    for (int slot = 0; slot < ROUNDS; slot++)
        boot_fill(net_source(side) + slot * SLOT, SLOT, side->rank, slot);
    memset(side->own + net_destination(left), 0, NET_AREA_BYTES);
    uint64_t before = *net_word(side, left, 1);
    EXPECT_OK(failures, net_barrier(side));
    for (int slot = 0; slot < ROUNDS; slot++) {
        EXPECT_OK(failures, net_put(side, right, (size_t)slot * SLOT, (size_t)slot * SLOT,
                                    lengths[slot % 6]));
        EXPECT_OK(failures, net_signal(side, side->ends[right], 1, before + 1 + (unsigned)slot));
    }
    for (int slot = 0; slot < ROUNDS && !*failures; slot++) {
        const unsigned char *at = side->own + net_destination(left) + slot * SLOT;
        EXPECT_OK(failures, net_await(side, net_word(side, left, 1), before + 1 + (unsigned)slot));
        EXPECT(failures, boot_filled(at, lengths[slot % 6], left, slot));
    }
    EXPECT_OK(failures, net_barrier(side));
}

/* Long and short puts to one place in alternation: the last one prevails. */
static inline void net_check_overwriting(net_side *side, int *failures)
{
    enum { LONG = 700000, SHORT = 500 };
    const int right = (side->rank + 1) % side->nranks;
    const int left = (side->rank + side->nranks - 1) % side->nranks;
    const unsigned char *at = side->own + net_destination(left);
    const int rounds = net_brief ? 3 : 20;
    for (int round = 0; round < rounds && !*failures; round++) {
        unsigned char *source = net_source(side);
        boot_fill(source, LONG, side->rank, round);
        boot_fill(source + LONG, LONG, side->rank, round + 1);
        boot_fill(source + 2 * LONG, SHORT, side->rank, round + 2);
        EXPECT_OK(failures, net_barrier(side));
        EXPECT_OK(failures, net_put(side, right, 2 * LONG, 1000, SHORT));
        EXPECT_OK(failures, net_put(side, right, 0, 0, LONG));
        EXPECT_OK(failures, net_put(side, right, LONG, 0, LONG));
        EXPECT_OK(failures, net_put(side, right, 2 * LONG, LONG / 2, SHORT));
        EXPECT_OK(failures, net_barrier(side));
        EXPECT(failures, boot_filled(at, LONG / 2, left, round + 1));
        EXPECT(failures, boot_filled(at + LONG / 2, SHORT, left, round + 2));
        EXPECT_OK(failures, net_flush(side, side->ends[right]));
    }
}

/* Thousands of small puts and signals without waits in between. */
static inline void net_check_many(net_side *side, int *failures)
{
    enum { EACH = 24 };
    const int nranks = side->nranks, rank = side->rank, count = net_brief ? 800 : 8000;
    const size_t all_bytes = (size_t)count * EACH;
    boot_fill(net_source(side), all_bytes, rank, 7);
    for (int peer = 0; peer < nranks; peer++)
        memset(side->own + net_destination(peer), 0, all_bytes);
    uint64_t before = *net_word(side, (rank + 1) % nranks, 1);
    EXPECT_OK(failures, net_barrier(side));
    for (int i = 0; i < count && !*failures; i++)
        for (int peer = 0; peer < nranks; peer++) {
            if (peer == rank)
                continue;
            EXPECT_OK(failures, net_put(side, peer, (size_t)i * EACH, (size_t)i * EACH, EACH));
            if (i % 3 == 0)
                EXPECT_OK(failures,
                          net_signal(side, side->ends[peer], 1, before + 1 + (unsigned)i));
        }
    EXPECT_OK(failures, net_barrier(side));
    for (int peer = 0; peer < nranks && !*failures; peer++) {
        if (peer == rank)
            continue;
        EXPECT(failures, boot_filled(side->own + net_destination(peer), all_bytes, peer, 7));
        EXPECT(failures, *net_word(side, peer, 1) == before + 1 + ((unsigned)count - 1) / 3 * 3);
        EXPECT_OK(failures, net_flush(side, side->ends[peer]));
        EXPECT(failures, side->ends[peer]->completed == side->ends[peer]->posted);
        EXPECT(failures, side->ends[peer]->sent == side->ends[peer]->posted);
    }
    EXPECT_OK(failures, net_barrier(side));
    /* The words of all ranks are equal at the start of the next check. */
    for (int peer = 0; peer < nranks; peer++)
        if (peer != rank)
            EXPECT_OK(failures, net_signal(side, side->ends[peer], 1, before + (unsigned)count));
    EXPECT_OK(failures, net_barrier(side));
}

/* Short ping-pong exchanges: no signal is late or lost. */
static inline void net_check_ping_pong(net_side *side, int rounds, int *failures)
{
    const int partner = side->rank ^ 1, paired = partner < side->nranks;
    const uint64_t *word = net_word(side, paired ? partner : 0, 1);
    uint64_t value = *word;
    EXPECT_OK(failures, net_barrier(side));
    if (paired) {
        weiri_endpoint *end = side->ends[partner];
        volatile unsigned char *received = side->own + net_destination(partner);
        for (int round = 0; round < rounds && !*failures; round++) {
            value++;
            if (side->rank > partner) {
                EXPECT_OK(failures, net_await(side, word, value));
                EXPECT(failures, *received == (unsigned char)(round + partner));
            }
            net_source(side)[0] = (unsigned char)(round + side->rank);
            EXPECT_OK(failures, net_put(side, partner, 0, 0, 1));
            EXPECT_OK(failures, net_signal(side, end, 1, value));
            if (side->rank < partner) {
                EXPECT_OK(failures, net_await(side, word, value));
                EXPECT(failures, *received == (unsigned char)(round + partner));
            }
            EXPECT_OK(failures, net_flush(side, end));
        }
    }
    EXPECT_OK(failures, net_barrier(side));
}

/* Several endpoints to one peer are independent, and each keeps its own order. */
static inline void net_check_endpoints(net_side *side, int *failures)
{
    weiri_endpoint *more[NET_RANKS] = {NULL};
    const int nranks = side->nranks, rank = side->rank;
    net_connect_all(side, more, failures);
    uint64_t before = *net_word(side, (rank + 1) % nranks, 1);
    EXPECT_OK(failures, net_barrier(side));
    boot_fill(net_source(side), 100000, rank, 3);
    for (int peer = 0; peer < nranks && !*failures; peer++) {
        if (peer == rank)
            continue;
        weiri_net_lock(side->net);
        EXPECT_OK(failures, side->ops->put(more[peer], side->mem, NET_WORDS_BYTES,
                                           &side->keys[peer], net_destination(rank), 100000));
        weiri_net_unlock(side->net);
        EXPECT_OK(failures, net_put(side, peer, 0, 200000, 50000));
        EXPECT_OK(failures, net_signal(side, more[peer], 1, before + 1));
    }
    for (int peer = 0; peer < nranks && !*failures; peer++) {
        if (peer == rank)
            continue;
        EXPECT_OK(failures, net_await(side, net_word(side, peer, 1), before + 1));
        EXPECT(failures, boot_filled(side->own + net_destination(peer), 100000, peer, 3));
        EXPECT_OK(failures, net_flush(side, more[peer]));
    }
    EXPECT_OK(failures, net_barrier(side));
    for (int peer = 0; peer < nranks; peer++)
        if (more[peer])
            side->ops->endpoint_destroy(more[peer]);
    EXPECT_OK(failures, net_barrier(side));
}

/* Many memories of odd lengths and addresses are registered and deregistered. */
static inline void net_check_memories(net_side *side, int *failures)
{
    enum { COUNT = 9, ROUNDS = 3, MOST_BYTES = 9001 };
    const int right = (side->rank + 1) % side->nranks;
    const int left = (side->rank + side->nranks - 1) % side->nranks;
    static unsigned char room[COUNT][MOST_BYTES];
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        weiri_net_key keys[COUNT][NET_RANKS];
        weiri_net_mem *mems[COUNT];
        memset(room, NET_CANARY, sizeof room);
        for (int i = 0; i < COUNT; i++)
            mems[i] = net_share(side, room[i] + 1, 1000 * (size_t)i + 1, keys[i], failures);
        boot_fill(net_source(side), MOST_BYTES, side->rank, round);
        weiri_net_lock(side->net);
        for (int i = COUNT - 1; i >= 0 && !*failures; i--)
            EXPECT_OK(failures, side->ops->put(side->ends[right], side->mem, NET_WORDS_BYTES,
                                               &keys[i][right], 0, 1000 * (size_t)i + 1));
        weiri_net_unlock(side->net);
        EXPECT_OK(failures, net_barrier(side));
        for (int i = 0; i < COUNT && !*failures; i++) {
            EXPECT(failures, boot_filled(room[i] + 1, 1000 * (size_t)i + 1, left, round));
            EXPECT(failures, room[i][0] == NET_CANARY);
            EXPECT(failures, i == COUNT - 1 || room[i][1000 * i + 2] == NET_CANARY);
        }
        EXPECT_OK(failures, net_flush(side, side->ends[right]));
        EXPECT_OK(failures, net_barrier(side));
        for (int i = 0; i < COUNT; i++)
            if (mems[i])
                side->ops->mem_deregister(mems[i]);
    }
}

/* A put beyond the local memory is refused before it is posted. An empty put at its very end
 * completes without a following operation. */
static inline void net_check_refusals(net_side *side, int *failures)
{
    const int peer = (side->rank + 1) % side->nranks;
    weiri_endpoint *end = side->ends[peer];
    const uint64_t posted = end->posted, whole = side->mem->bytes;
    const struct {
        uint64_t at, bytes;
    } wrong[] = {{whole, 1}, {whole - 7, 8}, {0, whole + 1}, {UINT64_MAX, 2}, {1, UINT64_MAX}};
    weiri_net_lock(side->net);
    for (int i = 0; i < 5; i++)
        EXPECT(failures, side->ops->put(end, side->mem, wrong[i].at, &side->keys[peer], 0,
                                        wrong[i].bytes) == WEIR_ERR_INVALID);
    EXPECT(failures, end->posted == posted);
    EXPECT_OK(failures, side->ops->put(end, side->mem, whole, &side->keys[peer], whole, 0));
    weiri_net_unlock(side->net);
    EXPECT_OK(failures, net_flush(side, end));
    EXPECT(failures, end->posted == posted + 1);
    EXPECT_OK(failures, net_barrier(side));
}

/* Without outstanding operations an armed network sleeps, and a peer's signal wakes it. Not for the
 * network over shared memory (net_shm.h), which has no descriptor to sleep on. */
static inline void net_check_sleep(net_side *side, int *failures)
{
    enum { NAP_MS = 100 };
    if (side->ops->transport == WEIR_TRANSPORT_SHM)
        return;
    EXPECT_OK(failures, net_barrier(side));
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    struct pollfd one = {.fd = -1, .events = POLLIN};
    int armed = 0, moved, quiet = 0;
    double limit_s = now_s() + 5;
    while (!quiet && now_s() < limit_s) { /* first handles the rest of the barrier */
        EXPECT_OK(failures, net_move(side, &moved));
        weiri_net_lock(side->net);
        armed = side->ops->arm(side->net, &one.fd);
        weiri_net_unlock(side->net);
        quiet = armed && poll(&one, 1, NAP_MS) == 0;
    }
    EXPECT(failures, quiet);
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    if (side->rank == 0)
        for (int peer = 1; peer < side->nranks; peer++)
            EXPECT_OK(failures, net_signal(side, side->ends[peer], 0, side->epoch));
    else
        EXPECT(failures, poll(&one, 1, NET_TIMEOUT_MS) == 1);
    EXPECT_OK(failures, net_barrier(side));
}

static inline void net_check_all(net_side *side, int *failures)
{
    net_check *const checks[] = {net_check_sizes,    net_check_order,     net_check_overwriting,
                                 net_check_many,     net_check_endpoints, net_check_memories,
                                 net_check_refusals, net_check_sleep};
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !*failures; i++)
        checks[i](side, failures);
    if (!*failures)
        net_check_ping_pong(side, net_brief ? 100 : 500, failures);
    weir_boot_barrier(side->boot);
}

/* Opens the network, runs a check, and closes it. Returns the failures, or NO_NET. */
static inline int net_run(weir_boot *boot, weir_transport transport, int timeout_ms,
                          net_check *check)
{
    int failures = 0;
    net_side side;
    if (net_side_open(&side, boot, transport, timeout_ms, &failures))
        check(&side, &failures);
    else if (!failures)
        failures = NO_NET;
    net_side_close(&side);
    return failures;
}

static inline int net_conformance(weir_boot *boot, weir_transport transport)
{
    return net_run(boot, transport, NET_TIMEOUT_MS, net_check_all);
}

/* ------------------------------------------------------------------- faults */

/* How long a fault may remain unnoticed, beyond the network's own deadline. */
enum { NET_FAULT_TIMEOUT_MS = 1500, NET_FAULT_GRACE_S = 10 };

/* Makes progress until the network fails; returns its status, or WEIR_OK if it does not fail. */
static inline weir_status net_await_failure(net_side *side)
{
    double limit_s = now_s() + NET_FAULT_TIMEOUT_MS * 1e-3 + NET_FAULT_GRACE_S;
    weir_status status = WEIR_OK;
    for (int idle = 0; status == WEIR_OK && now_s() < limit_s; idle++) {
        int moved = 0;
        status = net_move(side, &moved);
        if (status == WEIR_OK && !moved && idle > 20)
            net_sleep(side);
    }
    return status;
}

/* Expects that the failure names the peer and persists. */
static inline void net_expect_failed(net_side *side, int peer, int *failures)
{
    char name[32];
    int moved = 0;
    snprintf(name, sizeof name, "rank %d", peer);
    weir_status status = net_await_failure(side);
    EXPECT(failures,
           status == WEIR_ERR_PEER || status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_SYSTEM);
    EXPECT(failures, boot_last_error_has(name));
    EXPECT(failures, side->ends[peer]->failed == status);
    EXPECT(failures, net_move(side, &moved) != WEIR_OK ||
                         net_signal(side, side->ends[peer], 0, 1) != WEIR_OK ||
                         net_await_failure(side) != WEIR_OK);
}

/* Opens the network for a fault test; if it fails, closes it and returns 0. */
static inline int net_fault_open(net_side *side, weir_boot *boot, weir_transport transport,
                                 int *failures)
{
    if (net_side_open(side, boot, transport, NET_FAULT_TIMEOUT_MS, failures))
        return 1;
    net_side_close(side);
    return 0;
}

static inline int net_fault(weir_boot *boot, weir_transport transport, net_check *fault)
{
    return net_run(boot, transport, NET_FAULT_TIMEOUT_MS, fault);
}

/* Rank 1 is killed during transfers: rank 0 fails and names it. Rank 1 does not return. */
static inline void net_fault_killed(net_side *side, int *failures)
{
    EXPECT_OK(failures, net_barrier(side));
    if (side->rank == 1) {
        usleep(100000); /* by then rank 0 has left the barrier */
        raise(SIGKILL);
    }
    for (int i = 0; i < 8; i++)
        net_put(side, 1, 0, 0, NET_AREA_BYTES);
    net_signal(side, side->ends[1], 0, side->epoch + 1);
    net_expect_failed(side, 1, failures);
}

/* The path between the ranks is cut during exchanges: both sides fail in time. */
static inline void net_fault_cut(net_side *side, int *failures)
{
    const int peer = 1 - side->rank;
    double start_s = now_s();
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && now_s() - start_s < NET_FAULT_GRACE_S) {
        status = net_put(side, peer, 0, 0, NET_AREA_BYTES / 4);
        if (status == WEIR_OK)
            status = net_barrier(side);
    }
    EXPECT(failures, status == WEIR_ERR_PEER || status == WEIR_ERR_TIMEOUT);
    net_expect_failed(side, peer, failures);
    fprintf(stderr, "# %.1f s: %s\n", now_s() - start_s, weir_last_error());
}

/* Rank 1 is alive but makes no progress: rank 0's deadline passes, in time. */
static inline void net_fault_silent(net_side *side, int *failures)
{
    EXPECT_OK(failures, net_barrier(side));
    if (side->rank == 0) {
        for (int i = 0; i < 8; i++)
            net_put(side, 1, 0, 0, NET_AREA_BYTES);
        /* Devices perform puts without the peer's thread; its room for signals is limited. */
        for (int i = 0; i < 2000; i++)
            net_signal(side, side->ends[1], 1, (uint64_t)i);
        double start_s = now_s();
        EXPECT(failures, net_await_failure(side) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, now_s() - start_s >= 0.9 * NET_FAULT_TIMEOUT_MS * 1e-3);
        EXPECT(failures, boot_last_error_has("rank 1"));
    }
    weir_boot_barrier(side->boot);
}

/* Rank 0 uses a key of memory that rank 1 has deregistered: refused at once, or both ends fail. */
static inline void net_fault_stale_key(net_side *side, int *failures)
{
    unsigned char room[4096];
    weiri_net_key keys[NET_RANKS];
    weiri_net_mem *mem = net_share(side, room, sizeof room, keys, failures);
    EXPECT_OK(failures, net_barrier(side));
    memset(room, NET_CANARY, sizeof room);
    side->ops->mem_deregister(mem);
    EXPECT_OK(failures, weir_boot_barrier(side->boot));
    if (side->rank == 0) {
        weiri_net_lock(side->net);
        weir_status status = side->ops->put(side->ends[1], side->mem, 0, &keys[1], 0, 64);
        weiri_net_unlock(side->net);
        EXPECT_OK(failures, status);
    }
    net_expect_failed(side, 1 - side->rank, failures);
    EXPECT(failures, net_all_are(room, sizeof room, NET_CANARY));
    weir_boot_barrier(side->boot);
}

/* Rank 0 puts beyond rank 1's memory: refused at once, or both ends fail. */
static inline void net_fault_beyond(net_side *side, int *failures)
{
    EXPECT_OK(failures, net_barrier(side));
    int rejected = 1;
    if (side->rank == 0) {
        weiri_net_lock(side->net);
        rejected = side->ops->put(side->ends[1], side->mem, 0, &side->keys[1], side->mem->bytes - 7,
                                  8) == WEIR_ERR_INVALID;
        weiri_net_unlock(side->net);
        weir_boot_send(side->boot, &rejected, sizeof rejected, 1, 0);
    } else {
        weir_boot_recv(side->boot, &rejected, sizeof rejected, 0, 0);
    }
    if (!rejected)
        net_expect_failed(side, 1 - side->rank, failures);
    weir_boot_barrier(side->boot);
}

/* Repeated set-up and tear-down leak no descriptors or mappings. */
static inline int net_fault_leaks(weir_boot *boot, weir_transport transport, int rounds)
{
    int failures = 0, fds = 0, maps = 0;
    for (int round = 0; round < rounds && !failures; round++) {
        net_side side;
        if (!net_side_open(&side, boot, transport, NET_TIMEOUT_MS, &failures)) {
            net_side_close(&side);
            return failures ? failures : NO_NET;
        }
        EXPECT_OK(&failures, net_put(&side, 1 - side.rank, 0, 0, 1000));
        EXPECT_OK(&failures, net_flush(&side, side.ends[1 - side.rank]));
        EXPECT_OK(&failures, net_barrier(&side));
        weir_boot_barrier(boot);
        net_side_close(&side);
        if (round == 4) { /* after everything that is created only once */
            fds = count_fds();
            maps = count_steady_maps();
        }
    }
    EXPECT(&failures, count_fds() == fds && count_steady_maps() == maps);
    return failures;
}

#endif
