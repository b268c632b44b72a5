/*
 * What every wire must do. net_conformance() is called by every rank of a
 * bootstrap; it returns how many expectations failed, each of which it has printed
 * on standard error. The faults below it (net_fault_*) are run on their own, each
 * in ranks that end after it, since an endpoint that failed stays failed.
 *
 * Every rank registers one memory: words that peers signal, then an area that is the
 * source of its puts, then an area for each rank that is the destination of that
 * rank's. All ranks run the same checks in step; they meet by signals of the wire
 * itself. Who waits progresses the wire, and sleeps on its descriptor now and then.
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
    NET_EXTRA_WORDS = 1024, /* behind those of meetings, in bytes */
    NET_AREA_BYTES = 4 << 20,
    NET_CANARY = 0xee,
    NET_TIMEOUT_MS = 20000,
    NO_NET = 101, /* exit code of ranks that have none: the test is skipped */
};

typedef struct net_party {
    weir_boot *boot;
    int rank, nranks;
    const weiri_net_ops *ops;
    weiri_net *net;
    weiri_endpoint *ends[NET_RANKS];
    unsigned char *own, *words;       /* as a rule the words are where own begins */
    weiri_net_mem *mem, *words_mem;  /* words_mem: NULL, they are in mem */
    weiri_net_key keys[NET_RANKS];  /* of everybody's memory */
    weiri_net_key word_keys[NET_RANKS];
    uint64_t epoch;                  /* meetings so far */
} net_party;

/* What a test may put in the place of plain host memory, for what all ranks share first. */
typedef struct net_bed {
    weiri_net_place place;
    void (*adapt)(weiri_net *net); /* a wire that was just opened */
    /* Memory as the test sees it, and where it is registered. It stays the bed's. */
    unsigned char *(*room)(size_t bytes, void **registered);
    int words_apart; /* words that peers signal are in host memory, as those of channels are */
} net_bed;

static const net_bed *net_bed_used; /* NULL: host memory */
static int net_brief;                /* fewer rounds of the same, alike on all ranks */

/* ------------------------------------------------------------------- set-up */

/* Runs body in nranks ranks. All end with 0, or all have no wire, which skips the test; the
 * last with its signal if it is to be killed. */
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

static inline size_t net_landing(int from)
{
    return NET_WORDS_BYTES + (size_t)NET_AREA_BYTES * (size_t)(1 + from);
}

static inline unsigned char *net_source(const net_party *party)
{
    return party->own + NET_WORDS_BYTES;
}

/* One more endpoint to every peer. The peers connect in an order of each rank's own. */
static inline void net_connect_all(net_party *party, weiri_endpoint **ends, int *failures)
{
    int rank = party->rank, nranks = party->nranks;
    weiri_net_address *all = calloc((size_t)(nranks * nranks), sizeof *all);
    for (int peer = 0; peer < nranks; peer++)
        if (peer != rank)
            EXPECT_OK(failures, party->ops->endpoint_create(party->net, peer, &ends[peer],
                                                            &all[rank * nranks + peer]));
    EXPECT_OK(failures, weir_boot_allgather(party->boot, all, (size_t)nranks * sizeof *all));
    for (int i = 1; i < nranks && !*failures; i++) {
        int peer = (rank + i) % nranks;
        EXPECT_OK(failures,
                  party->ops->endpoint_connect(ends[peer], &all[peer * nranks + rank]));
        EXPECT(failures, ends[peer]->net == party->net && ends[peer]->peer == peer);
        EXPECT(failures, ends[peer]->posted == 0 && ends[peer]->completed == 0);
    }
    free(all);
}

static inline weiri_net_mem *net_share_at(net_party *party, void *base, size_t bytes,
                                            weiri_net_place place, weiri_net_key *keys,
                                            int *failures)
{
    weiri_net_mem *mem = NULL;
    EXPECT_OK(failures, party->ops->mem_register(party->net, base, bytes, place, &mem));
    if (mem)
        keys[party->rank] = mem->key;
    EXPECT_OK(failures, weir_boot_allgather(party->boot, keys, sizeof *keys));
    return mem;
}

static inline weiri_net_mem *net_share(net_party *party, void *base, size_t bytes,
                                         weiri_net_key *keys, int *failures)
{
    return net_share_at(party, base, bytes, WEIRI_NET_HOST, keys, failures);
}

/* Memory that all wires of this process have one after the other, since to make it takes an
 * emulated machine long; in large pages where there are. */
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

/* Registers the words, if they have a memory of their own, and tells where they are. */
static inline void net_share_words(net_party *party, int *failures)
{
    static uint64_t apart[NET_WORDS_BYTES / sizeof(uint64_t)];
    party->words = party->own;
    if (party->mem)
        party->word_keys[party->rank] = party->mem->key;
    if (net_bed_used && net_bed_used->words_apart) {
        party->words = memset(apart, 0, sizeof apart);
        party->words_mem =
            net_share(party, apart, sizeof apart, party->word_keys, failures);
    } else {
        EXPECT_OK(failures, weir_boot_allgather(party->boot, party->word_keys,
                                                sizeof *party->word_keys));
    }
}

/* Whether all ranks have a wire now; sets it up. Collective. */
static inline int net_party_open(net_party *party, weir_boot *boot, weir_transport transport,
                                  int timeout_ms, int *failures)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot), alike = 1;
    *party = (net_party){
        .boot = boot, .rank = rank, .nranks = nranks, .ops = weiri_net_ops_of(transport)};
    weir_status statuses[NET_RANKS] = {WEIR_OK};
    statuses[rank] = party->ops ? party->ops->open(rank, nranks, timeout_ms, &party->net)
                                : WEIR_ERR_UNSUPPORTED;
    if (party->ops && statuses[rank] != WEIR_OK)
        fprintf(stderr, "# no wire: %s\n", weir_last_error());
    EXPECT_OK(failures, weir_boot_allgather(boot, statuses, sizeof *statuses));
    for (int i = 0; i < nranks; i++)
        alike &= statuses[i] == WEIR_OK;
    if (!alike) {
        EXPECT(failures, statuses[rank] == WEIR_OK || statuses[rank] == WEIR_ERR_UNSUPPORTED);
        return 0;
    }
    EXPECT(failures, party->ops->transport == transport && party->net->ops == party->ops);
    EXPECT(failures, party->net->rank == rank && party->net->nranks == nranks);
    const net_bed *bed = net_bed_used;
    if (bed)
        bed->adapt(party->net);
    net_connect_all(party, party->ends, failures);
    size_t bytes = net_landing(nranks);
    void *registered = party->own = bed ? NULL : net_room(bytes);
    if (bed)
        party->own = bed->room(bytes, &registered);
    memset(party->own, 0, NET_WORDS_BYTES);
    party->mem = net_share_at(party, registered, bytes, bed ? bed->place : WEIRI_NET_HOST,
                               party->keys, failures);
    net_share_words(party, failures);
    return 1;
}

static inline void net_party_close(net_party *party)
{
    if (party->net) {
        for (int peer = 0; peer < party->nranks; peer++)
            if (party->ends[peer])
                party->ops->endpoint_destroy(party->ends[peer]);
        if (party->words_mem)
            party->ops->mem_deregister(party->words_mem);
        if (party->mem)
            party->ops->mem_deregister(party->mem);
        party->ops->close(party->net);
    }
}

/* -------------------------------------------------------------------- moves */

static inline weir_status net_move(net_party *party, int *moved)
{
    weiri_net_lock(party->net);
    weir_status status = party->ops->progress(party->net, moved);
    weiri_net_unlock(party->net);
    return status;
}

/* Sleeps until there is something to do, at most 100 ms. */
static inline void net_sleep(net_party *party)
{
    struct pollfd one = {.fd = -1, .events = POLLIN};
    weiri_net_lock(party->net);
    int armed = party->ops->arm(party->net, &one.fd);
    weiri_net_unlock(party->net);
    if (armed)
        poll(&one, 1, 100);
}

/* Progresses until the value at word is at least so high. */
static inline weir_status net_await(net_party *party, const uint64_t *word, uint64_t value)
{
    double limit_s = now_s() + NET_TIMEOUT_MS * 1e-3;
    for (int idle = 0; weir_load_acquire(word) < value;) {
        int moved = 0;
        weir_status status = net_move(party, &moved);
        if (status != WEIR_OK)
            return status;
        idle = moved ? 0 : idle + 1;
        if (idle > 20)
            net_sleep(party);
        if (now_s() > limit_s)
            return WEIR_ERR_TIMEOUT;
    }
    return WEIR_OK;
}

/* Until the peer has all that was posted, which takes both sides' progress: so a meeting
 * must come after it, before a rank stops for anything else. */
static inline weir_status net_flush(net_party *party, const weiri_endpoint *end)
{
    return net_await(party, &end->completed, end->posted);
}

static inline weir_status net_put(net_party *party, int peer, size_t at, size_t to,
                                   size_t bytes)
{
    weiri_net_lock(party->net);
    weir_status status = party->ops->put(party->ends[peer], party->mem, NET_WORDS_BYTES + at,
                                         &party->keys[peer], net_landing(party->rank) + to,
                                         bytes);
    weiri_net_unlock(party->net);
    return status;
}

/* Sets one of this rank's words at the peer. */
static inline weir_status net_signal(net_party *party, weiri_endpoint *end, int extra,
                                      uint64_t value)
{
    uint64_t to = (uint64_t)(extra ? NET_EXTRA_WORDS : 0) + 8 * (uint64_t)party->rank;
    weiri_net_lock(party->net);
    weir_status status = party->ops->signal(end, &party->word_keys[end->peer], to, value);
    weiri_net_unlock(party->net);
    return status;
}

static inline const uint64_t *net_word(const net_party *party, int from, int extra)
{
    return (const uint64_t *)(const void *)(party->words + (extra ? NET_EXTRA_WORDS : 0)) + from;
}

/* All ranks meet; what any of them put to us before is here after. */
static inline weir_status net_barrier(net_party *party)
{
    weir_status status = WEIR_OK;
    party->epoch++;
    for (int peer = 0; peer < party->nranks && status == WEIR_OK; peer++)
        if (peer != party->rank)
            status = net_signal(party, party->ends[peer], 0, party->epoch);
    for (int peer = 0; peer < party->nranks && status == WEIR_OK; peer++)
        if (peer != party->rank)
            status = net_await(party, net_word(party, peer, 0), party->epoch);
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

/* Everybody puts so many bytes to everybody, all at once; they arrive whole, with
 * nothing around them touched. */
static inline void net_check_put(net_party *party, size_t bytes, int round, int *failures)
{
    size_t from = bytes % 13, to = 32 + bytes % 17;
    boot_fill(net_source(party) + from, bytes, party->rank, round);
    for (int peer = 0; peer < party->nranks; peer++)
        memset(party->own + net_landing(peer), NET_CANARY, bytes + 128);
    EXPECT_OK(failures, net_barrier(party));
    for (int peer = 0; peer < party->nranks; peer++)
        if (peer != party->rank)
            EXPECT_OK(failures, net_put(party, peer, from, to, bytes));
    EXPECT_OK(failures, net_barrier(party));
    for (int peer = 0; peer < party->nranks; peer++) {
        const unsigned char *at = party->own + net_landing(peer) + to;
        EXPECT(failures, peer == party->rank || boot_filled(at, bytes, peer, round));
        EXPECT(failures, net_all_are(at - 32, 32, NET_CANARY));
        EXPECT(failures, peer == party->rank || net_all_are(at + bytes, 32, NET_CANARY));
        if (peer != party->rank)
            EXPECT_OK(failures, net_flush(party, party->ends[peer]));
    }
    EXPECT_OK(failures, net_barrier(party));
}

static inline void net_check_sizes(net_party *party, int *failures)
{
    static const size_t large[] = {255,   4095,   4096,   16384,       65535,
                                   65537, 100003, 262144, (1 << 20) + 5, (3 << 20) + 17};
    for (size_t bytes = 0; bytes <= 70 && !*failures; bytes += net_brief ? 7 : 1)
        net_check_put(party, bytes, (int)bytes, failures);
    for (size_t i = 0; i < sizeof large / sizeof *large && !*failures; i++)
        net_check_put(party, large[i], (int)i, failures);
}

/* Puts of many lengths, each with a signal right behind it, and no waiting: whoever
 * sees a signal sees all that was put before it. */
static inline void net_check_order(net_party *party, int *failures)
{
    enum { ROUNDS = 12, SLOT = NET_AREA_BYTES / ROUNDS };
    static const size_t lengths[] = {SLOT, 8, 65536, 300000, 1, 131073};
    const int right = (party->rank + 1) % party->nranks;
    const int left = (party->rank + party->nranks - 1) % party->nranks;
    for (int slot = 0; slot < ROUNDS; slot++)
        boot_fill(net_source(party) + slot * SLOT, SLOT, party->rank, slot);
    memset(party->own + net_landing(left), 0, NET_AREA_BYTES);
    uint64_t before = *net_word(party, left, 1);
    EXPECT_OK(failures, net_barrier(party));
    for (int slot = 0; slot < ROUNDS; slot++) {
        EXPECT_OK(failures, net_put(party, right, (size_t)slot * SLOT, (size_t)slot * SLOT,
                                     lengths[slot % 6]));
        EXPECT_OK(failures, net_signal(party, party->ends[right], 1, before + 1 + (unsigned)slot));
    }
    for (int slot = 0; slot < ROUNDS && !*failures; slot++) {
        const unsigned char *at = party->own + net_landing(left) + slot * SLOT;
        EXPECT_OK(failures,
                  net_await(party, net_word(party, left, 1), before + 1 + (unsigned)slot));
        EXPECT(failures, boot_filled(at, lengths[slot % 6], left, slot));
    }
    EXPECT_OK(failures, net_barrier(party));
}

/* Puts to one place, long and short ones in turn: the last one stays. */
static inline void net_check_overwriting(net_party *party, int *failures)
{
    enum { LONG = 700000, SHORT = 500 };
    const int right = (party->rank + 1) % party->nranks;
    const int left = (party->rank + party->nranks - 1) % party->nranks;
    const unsigned char *at = party->own + net_landing(left);
    const int rounds = net_brief ? 3 : 20;
    for (int round = 0; round < rounds && !*failures; round++) {
        unsigned char *source = net_source(party);
        boot_fill(source, LONG, party->rank, round);
        boot_fill(source + LONG, LONG, party->rank, round + 1);
        boot_fill(source + 2 * LONG, SHORT, party->rank, round + 2);
        EXPECT_OK(failures, net_barrier(party));
        EXPECT_OK(failures, net_put(party, right, 2 * LONG, 1000, SHORT));
        EXPECT_OK(failures, net_put(party, right, 0, 0, LONG));
        EXPECT_OK(failures, net_put(party, right, LONG, 0, LONG));
        EXPECT_OK(failures, net_put(party, right, 2 * LONG, LONG / 2, SHORT));
        EXPECT_OK(failures, net_barrier(party));
        EXPECT(failures, boot_filled(at, LONG / 2, left, round + 1));
        EXPECT(failures, boot_filled(at + LONG / 2, SHORT, left, round + 2));
        EXPECT_OK(failures, net_flush(party, party->ends[right]));
    }
}

/* Thousands of small puts and signals that nobody waits for. */
static inline void net_check_many(net_party *party, int *failures)
{
    enum { EACH = 24 };
    const int nranks = party->nranks, rank = party->rank, count = net_brief ? 800 : 8000;
    const size_t all_bytes = (size_t)count * EACH;
    boot_fill(net_source(party), all_bytes, rank, 7);
    for (int peer = 0; peer < nranks; peer++)
        memset(party->own + net_landing(peer), 0, all_bytes);
    uint64_t before = *net_word(party, (rank + 1) % nranks, 1);
    EXPECT_OK(failures, net_barrier(party));
    for (int i = 0; i < count && !*failures; i++)
        for (int peer = 0; peer < nranks; peer++) {
            if (peer == rank)
                continue;
            EXPECT_OK(failures, net_put(party, peer, (size_t)i * EACH, (size_t)i * EACH, EACH));
            if (i % 3 == 0)
                EXPECT_OK(failures, net_signal(party, party->ends[peer], 1,
                                                before + 1 + (unsigned)i));
        }
    EXPECT_OK(failures, net_barrier(party));
    for (int peer = 0; peer < nranks && !*failures; peer++) {
        if (peer == rank)
            continue;
        EXPECT(failures, boot_filled(party->own + net_landing(peer), all_bytes, peer, 7));
        EXPECT(failures, *net_word(party, peer, 1) == before + 1 + ((unsigned)count - 1) / 3 * 3);
        EXPECT_OK(failures, net_flush(party, party->ends[peer]));
        EXPECT(failures, party->ends[peer]->completed == party->ends[peer]->posted);
        EXPECT(failures, party->ends[peer]->sent == party->ends[peer]->posted);
    }
    EXPECT_OK(failures, net_barrier(party));
    /* Words of all ranks start alike in the next check. */
    for (int peer = 0; peer < nranks; peer++)
        if (peer != rank)
            EXPECT_OK(failures, net_signal(party, party->ends[peer], 1, before + (unsigned)count));
    EXPECT_OK(failures, net_barrier(party));
}

/* Short exchanges to and fro: no signal is late, none is lost. */
static inline void net_check_ping_pong(net_party *party, int rounds, int *failures)
{
    const int partner = party->rank ^ 1, paired = partner < party->nranks;
    const uint64_t *word = net_word(party, paired ? partner : 0, 1);
    uint64_t value = *word;
    EXPECT_OK(failures, net_barrier(party));
    if (paired) {
        weiri_endpoint *end = party->ends[partner];
        volatile unsigned char *landed = party->own + net_landing(partner);
        for (int round = 0; round < rounds && !*failures; round++) {
            value++;
            if (party->rank > partner) {
                EXPECT_OK(failures, net_await(party, word, value));
                EXPECT(failures, *landed == (unsigned char)(round + partner));
            }
            net_source(party)[0] = (unsigned char)(round + party->rank);
            EXPECT_OK(failures, net_put(party, partner, 0, 0, 1));
            EXPECT_OK(failures, net_signal(party, end, 1, value));
            if (party->rank < partner) {
                EXPECT_OK(failures, net_await(party, word, value));
                EXPECT(failures, *landed == (unsigned char)(round + partner));
            }
            EXPECT_OK(failures, net_flush(party, end));
        }
    }
    EXPECT_OK(failures, net_barrier(party));
}

/* Several endpoints to one peer are independent, each in order for itself. */
static inline void net_check_endpoints(net_party *party, int *failures)
{
    weiri_endpoint *more[NET_RANKS] = {NULL};
    const int nranks = party->nranks, rank = party->rank;
    net_connect_all(party, more, failures);
    uint64_t before = *net_word(party, (rank + 1) % nranks, 1);
    EXPECT_OK(failures, net_barrier(party));
    boot_fill(net_source(party), 100000, rank, 3);
    for (int peer = 0; peer < nranks && !*failures; peer++) {
        if (peer == rank)
            continue;
        weiri_net_lock(party->net);
        EXPECT_OK(failures, party->ops->put(more[peer], party->mem, NET_WORDS_BYTES,
                                            &party->keys[peer], net_landing(rank), 100000));
        weiri_net_unlock(party->net);
        EXPECT_OK(failures, net_put(party, peer, 0, 200000, 50000));
        EXPECT_OK(failures, net_signal(party, more[peer], 1, before + 1));
    }
    for (int peer = 0; peer < nranks && !*failures; peer++) {
        if (peer == rank)
            continue;
        EXPECT_OK(failures, net_await(party, net_word(party, peer, 1), before + 1));
        EXPECT(failures, boot_filled(party->own + net_landing(peer), 100000, peer, 3));
        EXPECT_OK(failures, net_flush(party, more[peer]));
    }
    EXPECT_OK(failures, net_barrier(party));
    for (int peer = 0; peer < nranks; peer++)
        if (more[peer])
            party->ops->endpoint_destroy(more[peer]);
    EXPECT_OK(failures, net_barrier(party));
}

/* Memories come and go, many at once, odd in length and place. */
static inline void net_check_memories(net_party *party, int *failures)
{
    enum { COUNT = 9, ROUNDS = 3, MOST_BYTES = 9001 };
    const int right = (party->rank + 1) % party->nranks;
    const int left = (party->rank + party->nranks - 1) % party->nranks;
    static unsigned char room[COUNT][MOST_BYTES];
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        weiri_net_key keys[COUNT][NET_RANKS];
        weiri_net_mem *mems[COUNT];
        memset(room, NET_CANARY, sizeof room);
        for (int i = 0; i < COUNT; i++)
            mems[i] = net_share(party, room[i] + 1, 1000 * (size_t)i + 1, keys[i], failures);
        boot_fill(net_source(party), MOST_BYTES, party->rank, round);
        weiri_net_lock(party->net);
        for (int i = COUNT - 1; i >= 0 && !*failures; i--)
            EXPECT_OK(failures, party->ops->put(party->ends[right], party->mem, NET_WORDS_BYTES,
                                                &keys[i][right], 0, 1000 * (size_t)i + 1));
        weiri_net_unlock(party->net);
        EXPECT_OK(failures, net_barrier(party));
        for (int i = 0; i < COUNT && !*failures; i++) {
            EXPECT(failures, boot_filled(room[i] + 1, 1000 * (size_t)i + 1, left, round));
            EXPECT(failures, room[i][0] == NET_CANARY);
            EXPECT(failures, i == COUNT - 1 || room[i][1000 * i + 2] == NET_CANARY);
        }
        EXPECT_OK(failures, net_flush(party, party->ends[right]));
        EXPECT_OK(failures, net_barrier(party));
        for (int i = 0; i < COUNT; i++)
            if (mems[i])
                party->ops->mem_deregister(mems[i]);
    }
}

/* What leaves the own memory is refused before it is posted. A put of nothing, at its very
 * end, completes without one that follows. */
static inline void net_check_refusals(net_party *party, int *failures)
{
    const int peer = (party->rank + 1) % party->nranks;
    weiri_endpoint *end = party->ends[peer];
    const uint64_t posted = end->posted, whole = party->mem->bytes;
    const struct {
        uint64_t at, bytes;
    } wrong[] = {{whole, 1}, {whole - 7, 8}, {0, whole + 1}, {UINT64_MAX, 2}, {1, UINT64_MAX}};
    weiri_net_lock(party->net);
    for (int i = 0; i < 5; i++)
        EXPECT(failures, party->ops->put(end, party->mem, wrong[i].at, &party->keys[peer], 0,
                                         wrong[i].bytes) == WEIR_ERR_INVALID);
    EXPECT(failures, end->posted == posted);
    EXPECT_OK(failures, party->ops->put(end, party->mem, whole, &party->keys[peer], whole, 0));
    weiri_net_unlock(party->net);
    EXPECT_OK(failures, net_flush(party, end));
    EXPECT(failures, end->posted == posted + 1);
    EXPECT_OK(failures, net_barrier(party));
}

/* With nothing under way an armed wire sleeps, and a peer's signal wakes it. */
static inline void net_check_sleep(net_party *party, int *failures)
{
    enum { NAP_MS = 100 };
    EXPECT_OK(failures, net_barrier(party));
    EXPECT_OK(failures, weir_boot_barrier(party->boot));
    struct pollfd one = {.fd = -1, .events = POLLIN};
    int armed = 0, moved, quiet = 0;
    double limit_s = now_s() + 5;
    while (!quiet && now_s() < limit_s) { /* what is left of the meeting comes first */
        EXPECT_OK(failures, net_move(party, &moved));
        weiri_net_lock(party->net);
        armed = party->ops->arm(party->net, &one.fd);
        weiri_net_unlock(party->net);
        quiet = armed && poll(&one, 1, NAP_MS) == 0;
    }
    EXPECT(failures, quiet);
    EXPECT_OK(failures, weir_boot_barrier(party->boot));
    if (party->rank == 0)
        for (int peer = 1; peer < party->nranks; peer++)
            EXPECT_OK(failures, net_signal(party, party->ends[peer], 0, party->epoch));
    else
        EXPECT(failures, poll(&one, 1, NET_TIMEOUT_MS) == 1);
    EXPECT_OK(failures, net_barrier(party));
}

static inline int net_conformance(weir_boot *boot, weir_transport transport)
{
    int failures = 0;
    net_party party;
    if (!net_party_open(&party, boot, transport, NET_TIMEOUT_MS, &failures)) {
        net_party_close(&party);
        return failures ? failures : NO_NET;
    }
    void (*const checks[])(net_party *, int *) = {
        net_check_sizes,     net_check_order,    net_check_overwriting, net_check_many,
        net_check_endpoints, net_check_memories, net_check_refusals,    net_check_sleep};
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !failures; i++)
        checks[i](&party, &failures);
    if (!failures)
        net_check_ping_pong(&party, net_brief ? 100 : 500, &failures);
    weir_boot_barrier(boot);
    net_party_close(&party);
    return failures;
}

/* ------------------------------------------------------------------- faults */

/* How long a fault may take to be noticed, beyond the wire's own deadline. */
enum { NET_FAULT_TIMEOUT_MS = 1500, NET_FAULT_GRACE_S = 10 };

/* Progresses until the wire fails; what it fails with, WEIR_OK if it does not. */
static inline weir_status net_await_failure(net_party *party)
{
    double limit_s = now_s() + NET_FAULT_TIMEOUT_MS * 1e-3 + NET_FAULT_GRACE_S;
    weir_status status = WEIR_OK;
    for (int idle = 0; status == WEIR_OK && now_s() < limit_s; idle++) {
        int moved = 0;
        status = net_move(party, &moved);
        if (status == WEIR_OK && !moved && idle > 20)
            net_sleep(party);
    }
    return status;
}

/* The failure names the peer, and stays. */
static inline void net_expect_failed(net_party *party, int peer, int *failures)
{
    char name[32];
    int moved = 0;
    snprintf(name, sizeof name, "rank %d", peer);
    weir_status status = net_await_failure(party);
    EXPECT(failures, status == WEIR_ERR_PEER || status == WEIR_ERR_TIMEOUT ||
                         status == WEIR_ERR_SYSTEM);
    EXPECT(failures, boot_last_error_has(name));
    EXPECT(failures, party->ends[peer]->failed == status);
    EXPECT(failures, net_move(party, &moved) != WEIR_OK ||
                         net_signal(party, party->ends[peer], 0, 1) != WEIR_OK ||
                         net_await_failure(party) != WEIR_OK);
}

/* Opens for a fault; NO_NET if there is none. */
static inline int net_fault_open(net_party *party, weir_boot *boot, weir_transport transport,
                                  int *failures)
{
    if (net_party_open(party, boot, transport, NET_FAULT_TIMEOUT_MS, failures))
        return 1;
    net_party_close(party);
    return 0;
}

/* Rank 1 is killed amid transfers: rank 0 fails, and says who is gone. Returns the code
 * to end with; rank 1 does not return. */
static inline int net_fault_killed(weir_boot *boot, weir_transport transport)
{
    int failures = 0;
    net_party party;
    if (!net_fault_open(&party, boot, transport, &failures))
        return failures ? failures : NO_NET;
    EXPECT_OK(&failures, net_barrier(&party));
    if (party.rank == 1) {
        usleep(100000); /* rank 0 has met by then */
        raise(SIGKILL);
    }
    for (int i = 0; i < 8; i++)
        net_put(&party, 1, 0, 0, NET_AREA_BYTES);
    net_signal(&party, party.ends[1], 0, party.epoch + 1);
    net_expect_failed(&party, 1, &failures);
    net_party_close(&party);
    return failures;
}

/* The way between the ranks is cut amid exchanges: both sides fail, in bounds. */
static inline int net_fault_cut(weir_boot *boot, weir_transport transport)
{
    int failures = 0;
    net_party party;
    if (!net_fault_open(&party, boot, transport, &failures))
        return failures ? failures : NO_NET;
    const int peer = 1 - party.rank;
    double start_s = now_s();
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && now_s() - start_s < NET_FAULT_GRACE_S) {
        status = net_put(&party, peer, 0, 0, NET_AREA_BYTES / 4);
        if (status == WEIR_OK)
            status = net_barrier(&party);
    }
    EXPECT(&failures, status == WEIR_ERR_PEER || status == WEIR_ERR_TIMEOUT);
    net_expect_failed(&party, peer, &failures);
    fprintf(stderr, "# %.1f s: %s\n", now_s() - start_s, weir_last_error());
    net_party_close(&party);
    return failures;
}

/* Rank 1 lives but does not progress: rank 0's deadline passes, in bounds. */
static inline int net_fault_silent(weir_boot *boot, weir_transport transport)
{
    int failures = 0;
    net_party party;
    if (!net_fault_open(&party, boot, transport, &failures))
        return failures ? failures : NO_NET;
    EXPECT_OK(&failures, net_barrier(&party));
    if (party.rank == 0) {
        for (int i = 0; i < 8; i++)
            net_put(&party, 1, 0, 0, NET_AREA_BYTES);
        /* Devices perform puts without the peer's thread; what it has room for ends somewhere. */
        for (int i = 0; i < 2000; i++)
            net_signal(&party, party.ends[1], 1, (uint64_t)i);
        double start_s = now_s();
        EXPECT(&failures, net_await_failure(&party) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, now_s() - start_s >= 0.9 * NET_FAULT_TIMEOUT_MS * 1e-3);
        EXPECT(&failures, boot_last_error_has("rank 1"));
    }
    weir_boot_barrier(boot);
    net_party_close(&party);
    return failures;
}

/* Rank 0 names memory that rank 1 no longer has: refused at once, or both ends fail. */
static inline int net_fault_stale_key(weir_boot *boot, weir_transport transport)
{
    int failures = 0;
    net_party party;
    unsigned char room[4096];
    weiri_net_key keys[NET_RANKS];
    if (!net_fault_open(&party, boot, transport, &failures))
        return failures ? failures : NO_NET;
    weiri_net_mem *mem = net_share(&party, room, sizeof room, keys, &failures);
    EXPECT_OK(&failures, net_barrier(&party));
    memset(room, NET_CANARY, sizeof room);
    party.ops->mem_deregister(mem);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (party.rank == 0) {
        weiri_net_lock(party.net);
        weir_status status = party.ops->put(party.ends[1], party.mem, 0, &keys[1], 0, 64);
        weiri_net_unlock(party.net);
        EXPECT_OK(&failures, status);
    }
    net_expect_failed(&party, 1 - party.rank, &failures);
    EXPECT(&failures, net_all_are(room, sizeof room, NET_CANARY));
    weir_boot_barrier(boot);
    net_party_close(&party);
    return failures;
}

/* Rank 0 writes beyond rank 1's memory: refused here, or both ends fail. */
static inline int net_fault_beyond(weir_boot *boot, weir_transport transport)
{
    int failures = 0;
    net_party party;
    if (!net_fault_open(&party, boot, transport, &failures))
        return failures ? failures : NO_NET;
    EXPECT_OK(&failures, net_barrier(&party));
    int told = 1;
    if (party.rank == 0) {
        weiri_net_lock(party.net);
        told = party.ops->put(party.ends[1], party.mem, 0, &party.keys[1], party.mem->bytes - 7,
                              8) == WEIR_ERR_INVALID;
        weiri_net_unlock(party.net);
        weir_boot_send(boot, &told, sizeof told, 1, 0);
    } else {
        weir_boot_recv(boot, &told, sizeof told, 0, 0);
    }
    if (!told)
        net_expect_failed(&party, 1 - party.rank, &failures);
    weir_boot_barrier(boot);
    net_party_close(&party);
    return failures;
}

/* Set-ups and tear-downs leave what a process holds as it was. */
static inline int net_fault_leaks(weir_boot *boot, weir_transport transport, int rounds)
{
    int failures = 0, fds = 0, maps = 0;
    for (int round = 0; round < rounds && !failures; round++) {
        net_party party;
        if (!net_party_open(&party, boot, transport, NET_TIMEOUT_MS, &failures)) {
            net_party_close(&party);
            return failures ? failures : NO_NET;
        }
        EXPECT_OK(&failures, net_put(&party, 1 - party.rank, 0, 0, 1000));
        EXPECT_OK(&failures, net_flush(&party, party.ends[1 - party.rank]));
        EXPECT_OK(&failures, net_barrier(&party));
        weir_boot_barrier(boot);
        net_party_close(&party);
        if (round == 4) { /* by then whatever is made once has been */
            fds = count_fds();
            maps = count_steady_maps();
        }
    }
    EXPECT(&failures, count_fds() == fds && count_steady_maps() == maps);
    return failures;
}

#endif
