/*
 * The proxy and its port channels, for callers on the host: the conformance suite over
 * mapped memory; many producers on a small FIFO; and what ends badly: no room, a stop
 * with work left, producers and handlers that never come back, wrong triggers.
 */
#include "chan/port.h"
#include "verify/tests/conformance/port_conformance.h"

#include <pthread.h>
#include <signal.h>

/* -------------------------------------------------------------- conformance */

enum { NO_NETWORK = 101 }; /* exit code of ranks whose machine has none such */

static int conforms(weir_boot *boot, void *argument)
{
    weir_transport transport = *(weir_transport *)argument;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = 20000;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_conn *conn = NULL;
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
        return NO_COMM;
    weir_status status = weir_connect(comm, 1 - weir_comm_rank(comm), 1, transport, &conn);
    weir_conn_free(conn);
    int failures =
        status == WEIR_ERR_UNSUPPORTED && transport == WEIR_TRANSPORT_IB
            ? NO_NETWORK
            : port_conformance(comm, transport, transport == WEIR_TRANSPORT_IB ? 200 : 3000);
    weir_comm_destroy(comm);
    if (failures != NO_NETWORK)
        EXPECT(&failures, count_maps("memfd:weir") == 0);
    return failures;
}

static void test_conforms(void **state)
{
    int codes[2];
    if (weir_boot_fork_run(2, conforms, *state, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (codes[0] == NO_NETWORK && codes[1] == NO_NETWORK)
        skip();
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

/* ---------------------------------------------------------- custom triggers */

enum { PRODUCERS = 6, EACH = 3000 };

/* What the handler has seen of each producer. */
typedef struct record {
    uint64_t next[PRODUCERS], wrong, total;
} record;

static weir_status note_trigger(void *argument, const weir_trigger *trigger)
{
    record *seen = argument;
    uint64_t i = trigger->bytes;
    seen->total++;
    if (trigger->chan >= PRODUCERS || i != seen->next[trigger->chan] ||
        trigger->to != (i << 32 | trigger->chan) || trigger->from != ~(i << 7) >> 1)
        seen->wrong++;
    else
        seen->next[trigger->chan]++;
    return WEIR_OK;
}

typedef struct producer {
    const weir_fifo_dev *fifo;
    uint32_t number;
    int status;
} producer;

/* Waits for some of its triggers, and leaves others in the queue. */
static void *produce(void *opaque)
{
    producer *self = opaque;
    for (uint64_t i = 0; i < EACH && !self->status; i++) {
        weir_trigger trigger = {WEIR_TRIGGER_CUSTOM, self->number, i << 32 | self->number,
                                ~(i << 7) >> 1, i};
        uint64_t ticket = 0;
        self->status = weir_fifo_push(self->fifo, &trigger, &ticket);
        if (!self->status && i % 97 == 0)
            self->status = weir_fifo_wait(self->fifo, ticket);
    }
    return NULL;
}

/* A FIFO of few slots wraps thousands of times among producers that all want it; the
 * proxy is stopped while much is under way, and carries out everything. */
static int many_producers(weir_boot *boot, void *argument)
{
    int failures = 0;
    record seen = {.total = 0};
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.fifo_slots = *(unsigned *)argument;
    config.handler = note_trigger;
    config.argument = &seen;
    weir_proxy *proxy = NULL;
    pthread_t threads[PRODUCERS];
    producer producers[PRODUCERS];
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_proxy_create(comm, &config, &proxy));
    EXPECT_OK(&failures, weir_proxy_start(proxy));
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (producer){weir_proxy_fifo(proxy), i, 0};
        pthread_create(&threads[i], NULL, produce, &producers[i]);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        EXPECT_OK(&failures, producers[i].status);
    }
    EXPECT_OK(&failures, weir_proxy_stop(proxy));
    EXPECT(&failures, seen.total == (uint64_t)PRODUCERS * EACH && seen.wrong == 0);
    weir_proxy_free(proxy);
    weir_comm_destroy(comm);
    return failures;
}

static void test_many_producers(void **state)
{
    run_ranks(1, many_producers, *state);
}

/* ----------------------------------------------------------- ends and faults */

/* A proxy of a communicator of one. */
typedef struct bench {
    weir_comm *comm;
    weir_proxy *proxy;
    const weir_fifo_dev *fifo;
    weir_fifo_dev hasty; /* the same, for waits that are to end by their deadline */
} bench;

static int bench_open(bench *b, weir_boot *boot, const weir_proxy_config *config)
{
    memset(b, 0, sizeof *b);
    if (!(b->comm = open_comm(boot)) ||
        weir_proxy_create(b->comm, config, &b->proxy) != WEIR_OK)
        return NO_COMM;
    b->fifo = weir_proxy_fifo(b->proxy);
    b->hasty = *b->fifo;
    b->hasty.guard.timeout_ns = 50000000;
    return 0;
}

static void bench_close(bench *b)
{
    weir_proxy_free(b->proxy);
    weir_comm_destroy(b->comm);
}

static void *abort_soon(void *comm)
{
    usleep(30000);
    weir_comm_abort(comm);
    return NULL;
}

static const weir_trigger custom = {.op = WEIR_TRIGGER_CUSTOM};

/* Nobody takes triggers: who finds no room waits, until its deadline or an abort, and
 * takes no ticket. What was pushed before is carried out once the proxy starts. */
static int no_room(weir_boot *boot, void *argument)
{
    int failures = 0;
    record seen = {.total = 0};
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.fifo_slots = 3;
    config.handler = note_trigger;
    config.argument = &seen;
    bench b;
    uint64_t ticket = 99;
    pthread_t thread;
    (void)argument;
    if (bench_open(&b, boot, &config))
        return NO_COMM;
    for (uint64_t i = 0; i < 4; i++) {
        EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
        EXPECT(&failures, ticket == i);
    }
    EXPECT(&failures, weir_fifo_push(&b.hasty, &custom, &ticket) == WEIR_ERR_TIMEOUT);
    EXPECT(&failures, ticket == 3 && *b.fifo->head == 4);
    EXPECT(&failures, weir_fifo_wait(&b.hasty, 3) == WEIR_ERR_TIMEOUT);
    EXPECT_OK(&failures, weir_proxy_start(b.proxy));
    EXPECT_OK(&failures, weir_fifo_wait(b.fifo, 3));
    EXPECT_OK(&failures, weir_proxy_stop(b.proxy));
    EXPECT(&failures, seen.total == 4);
    for (int i = 0; i < 4; i++)
        EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
    pthread_create(&thread, NULL, abort_soon, b.comm);
    EXPECT(&failures, weir_fifo_push(b.fifo, &custom, &ticket) == WEIR_ERR_ABORTED);
    pthread_join(thread, NULL);
    bench_close(&b);
    return failures;
}

/* Stopped with work left: all of it is done first; it starts again and goes on. */
static int stop_drains(weir_boot *boot, void *argument)
{
    int failures = 0;
    record seen = {.total = 0};
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.fifo_slots = 64;
    config.handler = note_trigger;
    config.argument = &seen;
    bench b;
    uint64_t ticket = 0;
    (void)argument;
    if (bench_open(&b, boot, &config))
        return NO_COMM;
    for (uint64_t round = 1; round <= 20; round++) {
        for (int i = 0; i < 64; i++)
            EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
        EXPECT_OK(&failures, weir_proxy_start(b.proxy));
        EXPECT_OK(&failures, weir_proxy_stop(b.proxy));
        EXPECT(&failures, seen.total == 64 * round);
    }
    EXPECT(&failures,
           weir_proxy_start(b.proxy) == WEIR_OK && weir_proxy_start(b.proxy) == WEIR_ERR_INVALID);
    bench_close(&b);
    return failures;
}

/* A producer that dies between its ticket and its slot: those behind it cannot be
 * reached, and the stop says so by its deadline. */
static int producer_dies(weir_boot *boot, void *argument)
{
    int failures = 0;
    record seen = {.total = 0};
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.stop_timeout_ms = 50;
    config.handler = note_trigger;
    config.argument = &seen;
    bench b;
    uint64_t ticket = 0;
    (void)argument;
    if (bench_open(&b, boot, &config))
        return NO_COMM;
    EXPECT_OK(&failures, weir_proxy_start(b.proxy));
    EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
    EXPECT_OK(&failures, weir_fifo_wait(b.fifo, ticket));
    EXPECT_OK(&failures, weir_fifo_reserve(b.fifo, &ticket));
    EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
    EXPECT(&failures, weir_fifo_wait(&b.hasty, ticket) == WEIR_ERR_TIMEOUT);
    double start_s = now_s();
    EXPECT(&failures, weir_proxy_stop(b.proxy) == WEIR_ERR_TIMEOUT);
    EXPECT(&failures, boot_last_error_has("2 triggers were not executed within 50 ms"));
    EXPECT(&failures, boot_last_error_has("ticket 1") && boot_last_error_has("never filled it"));
    EXPECT(&failures, now_s() - start_s < 10 && seen.total == 1);
    bench_close(&b);
    return failures;
}

static weir_status never_return(void *argument, const weir_trigger *trigger)
{
    (void)trigger;
    weir_store_release(argument, 1);
    while (pause())
        ;
    return WEIR_OK;
}

static int handler_hangs(weir_boot *boot, void *argument)
{
    int failures = 0;
    static uint64_t entered;
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.stop_timeout_ms = 50;
    config.handler = never_return;
    config.argument = &entered;
    bench b;
    uint64_t ticket = 0;
    (void)argument;
    if (bench_open(&b, boot, &config))
        return NO_COMM;
    EXPECT_OK(&failures, weir_proxy_start(b.proxy));
    EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
    while (!weir_load_acquire(&entered))
        usleep(1000);
    EXPECT(&failures, weir_proxy_stop(b.proxy) == WEIR_ERR_TIMEOUT);
    EXPECT(&failures, boot_last_error_has("has not returned within 50 ms"));
    weir_proxy_free(b.proxy); /* which its thread still uses */
    return failures;
}

static weir_status refuse_trigger(void *argument, const weir_trigger *trigger)
{
    (void)argument;
    return trigger->bytes ? WEIR_ERR_INVALID : WEIR_OK;
}

/* A failure ends the proxy and the waits of all ranks, and keeps its reason. */
static int expect_failure(weir_boot *boot, const weir_trigger *trigger,
                          weir_trigger_handler handler, const char *word)
{
    int failures = 0;
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.handler = handler;
    bench b;
    uint64_t ticket = 0;
    if (bench_open(&b, boot, &config))
        return NO_COMM;
    EXPECT_OK(&failures, weir_proxy_start(b.proxy));
    EXPECT_OK(&failures, weir_fifo_push(b.fifo, trigger, &ticket));
    double limit_s = now_s() + 10;
    while (weir_proxy_status(b.proxy) == WEIR_OK && now_s() < limit_s)
        usleep(1000);
    EXPECT(&failures, weir_proxy_status(b.proxy) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has(word));
    EXPECT(&failures, weir_fifo_wait(b.fifo, ticket + 1) == WEIR_ERR_ABORTED);
    EXPECT(&failures, weir_proxy_stop(b.proxy) == WEIR_ERR_INVALID);
    bench_close(&b);
    return failures;
}

static int wrong_triggers(weir_boot *boot, void *argument)
{
    const weir_trigger put = {.op = WEIR_TRIGGER_PUT, .chan = 5};
    const weir_trigger far = {.op = WEIR_TRIGGER_FLUSH, .chan = UINT32_MAX};
    const weir_trigger odd = {.op = 64};
    const weir_trigger refused = {.op = WEIR_TRIGGER_CUSTOM, .bytes = 1};
    (void)argument;
    return expect_failure(boot, &put, NULL, "port channel 5") +
           expect_failure(boot, &far, NULL, "port channel 4294967295") +
           expect_failure(boot, &odd, NULL, "kind 0x40") +
           expect_failure(boot, &custom, NULL, "no handler") +
           expect_failure(boot, &refused, refuse_trigger, "the trigger handler failed");
}

/* Puts that would leave either memory end both ranks' waits, and write nothing. */
static int beyond_memory(weir_boot *boot, void *argument)
{
    const struct {
        uint64_t to, from, bytes;
    } bad[] = {{2 * PORT_HALF, 0, 1},
               {0, 2 * PORT_HALF - 7, 8},
               {UINT64_MAX - 7, 0, 16},
               {0, UINT64_MAX, 1},
               {8, 8, UINT64_MAX}};
    int failures = 0;
    (void)argument;
    for (size_t i = 0; i < sizeof bad / sizeof *bad && !failures; i++) {
        weir_comm *comm = open_comm(boot);
        weir_proxy *proxy = NULL;
        EXPECT_OK(&failures, weir_proxy_create(comm, NULL, &proxy));
        EXPECT_OK(&failures, weir_proxy_start(proxy));
        port_pair with = {.comm = comm,
                          .proxy = proxy,
                          .rank = weir_comm_rank(comm),
                          .peer = 1 - weir_comm_rank(comm)};
        EXPECT_OK(&failures, port_open(&with, WEIR_TRANSPORT_AUTO));
        if (failures)
            return failures;
        weir_comm_barrier(comm); /* the peer has all of it, too, though it may see the abort */
        if (with.rank == 0)
            EXPECT(&failures,
                   weir_port_put_with_signal_and_flush(with.port, bad[i].to, bad[i].from,
                                                       bad[i].bytes) == WEIR_ERR_ABORTED);
        else
            EXPECT(&failures, weir_port_wait(with.port) == WEIR_ERR_ABORTED);
        EXPECT(&failures, weir_proxy_status(proxy) == (with.rank ? WEIR_OK : WEIR_ERR_INVALID));
        EXPECT(&failures, with.rank || boot_last_error_has("exceeds the memory"));
        with.port = NULL; /* nothing to flush */
        port_close(&with);
        weir_proxy_free(proxy);
        weir_comm_destroy(comm);
    }
    return failures;
}

/* What setting up makes, tearing down takes away: descriptors, mappings. */
static int come_and_go(weir_boot *boot, void *argument)
{
    enum { ROUNDS = 25 };
    int failures = 0, fds = 0, maps = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    for (int round = 0; round < ROUNDS && !failures; round++) {
        weir_proxy *proxy = NULL;
        EXPECT_OK(&failures, weir_proxy_create(comm, NULL, &proxy));
        EXPECT_OK(&failures, weir_proxy_start(proxy));
        port_pair with = {.comm = comm,
                          .proxy = proxy,
                          .rank = weir_comm_rank(comm),
                          .peer = 1 - weir_comm_rank(comm)};
        EXPECT_OK(&failures, port_open(&with, *(weir_transport *)argument));
        if (!failures)
            EXPECT_OK(&failures, port_meet(&with));
        port_close(&with);
        EXPECT_OK(&failures, weir_proxy_stop(proxy));
        weir_proxy_free(proxy);
        EXPECT_OK(&failures, weir_comm_barrier(comm));
        if (round == 2) {
            fds = count_fds();
            maps = count_maps("memfd:weir");
        }
    }
    EXPECT(&failures, count_fds() <= fds && count_maps("memfd:weir") <= maps);
    weir_comm_destroy(comm);
    return failures;
}

static void test_come_and_go(void **state)
{
    run_ranks(2, come_and_go, *state);
}

/* Rank 1 dies, its proxy and all. Over a network rank 0's proxy finds out, and ends its
 * waits long before their deadline. */
static int peer_dies(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    weir_proxy *proxy = NULL;
    (void)argument;
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_proxy_create(comm, NULL, &proxy));
    EXPECT_OK(&failures, weir_proxy_start(proxy));
    port_pair with = {.comm = comm,
                      .proxy = proxy,
                      .rank = weir_comm_rank(comm),
                      .peer = 1 - weir_comm_rank(comm)};
    EXPECT_OK(&failures, port_open(&with, WEIR_TRANSPORT_TCP));
    EXPECT_OK(&failures, port_meet(&with));
    if (failures)
        return failures;
    if (with.rank == 1) {
        weir_port_flush(with.port); /* rank 0 has its signal */
        raise(SIGKILL);
    }
    double start_s = now_s();
    EXPECT(&failures, weir_port_wait(with.port) == WEIR_ERR_ABORTED);
    EXPECT(&failures, weir_port_flush(with.port) == WEIR_ERR_ABORTED);
    EXPECT(&failures, now_s() - start_s < 10);
    EXPECT(&failures, weir_proxy_status(proxy) == WEIR_ERR_PEER && boot_last_error_has("rank 1"));
    weir_proxy_free(proxy);
    return failures;
}

static void test_peer_dies(void **state)
{
    int codes[2];
    (void)state;
    if (weir_boot_fork_run(2, peer_dies, NULL, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 128 + SIGKILL);
}

/* Seconds of a processor that a proxy's thread has taken. */
static double used_s(const weir_proxy *proxy)
{
    struct timespec used;
    clockid_t clock;
    if (pthread_getcpuclockid(proxy->thread, &clock) || clock_gettime(clock, &used))
        return 1e9;
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* The least share of a core that it took in several windows: what the machine's other
 * work adds to some does not count. */
static double idle_share(const weir_proxy *proxy)
{
    enum { WINDOWS = 5, WINDOW_US = 150000 };
    double least = 1;
    for (int i = 0; i < WINDOWS; i++) {
        double used_before_s = used_s(proxy), begin_s = now_s();
        usleep(WINDOW_US);
        double share = (used_s(proxy) - used_before_s) / (now_s() - begin_s);
        least = share < least ? share : least;
    }
    return least;
}

/* An idle proxy takes less than 1% of a core, be it woken or one that naps, as those of
 * kernels do; and is there when it is needed. */
static int idles(weir_boot *boot, void *argument)
{
    int failures = 0;
    record seen = {.total = 0};
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.handler = note_trigger;
    config.argument = &seen;
    (void)argument;
    for (int naps = 0; naps < 2 && !failures; naps++) {
        bench b;
        uint64_t ticket = 0;
        if (bench_open(&b, boot, &config))
            return NO_COMM;
        b.proxy->naps = naps;
        EXPECT_OK(&failures, weir_proxy_start(b.proxy));
        usleep(naps ? 100000 : 1000);
        EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
        EXPECT_OK(&failures, weir_fifo_wait(b.fifo, ticket));
        usleep(naps ? 200000 : 100000); /* its naps have grown */
        double share = idle_share(b.proxy);
        printf("# %s: %.2f%% of a core\n", naps ? "naps" : "sleeps", 100 * share);
        EXPECT(&failures, share < 0.01);
        EXPECT_OK(&failures, weir_fifo_push(b.fifo, &custom, &ticket));
        EXPECT_OK(&failures, weir_fifo_wait(b.fifo, ticket));
        EXPECT_OK(&failures, weir_proxy_stop(b.proxy));
        bench_close(&b);
    }
    EXPECT(&failures, seen.total == 4);
    return failures;
}

static int (*alone[])(weir_boot *, void *) = {no_room,       stop_drains,    producer_dies,
                                              handler_hangs, wrong_triggers, idles};
static int (*in_pairs[])(weir_boot *, void *) = {beyond_memory};

static void run_alone(void **state)
{
    run_ranks(1, *(int (**)(weir_boot *, void *)) * state, NULL);
}

static void run_pair(void **state)
{
    run_ranks(2, *(int (**)(weir_boot *, void *)) * state, NULL);
}

static weir_transport shm = WEIR_TRANSPORT_SHM, tcp = WEIR_TRANSPORT_TCP, ib = WEIR_TRANSPORT_IB;
static unsigned tiny = 1, small = 8, whole = 0;

/* With a word, such as "ib:", only the tests whose name begins with it. */
int main(int argc, char **argv)
{
    char pattern[32];
    const struct CMUnitTest tests[] = {
        AT("shm: port channels conform", test_conforms, &shm),
        AT("tcp: port channels conform", test_conforms, &tcp),
        AT("ib: port channels conform", test_conforms, &ib),
        AT("many producers, 1 slot", test_many_producers, &tiny),
        AT("many producers, 8 slots", test_many_producers, &small),
        AT("many producers, the usual FIFO", test_many_producers, &whole),
        AT("no room: deadline, abort, no ticket taken", run_alone, &alone[0]),
        AT("a stop carries out what was pushed", run_alone, &alone[1]),
        AT("a producer that dies is named by the stop", run_alone, &alone[2]),
        AT("a handler that hangs does not hold up the stop", run_alone, &alone[3]),
        AT("wrong triggers end the proxy with their reason", run_alone, &alone[4]),
        AT("puts beyond memory are refused", run_pair, &in_pairs[0]),
        AT("shm: nothing is left behind", test_come_and_go, &shm),
        AT("tcp: nothing is left behind", test_come_and_go, &tcp),
        cmocka_unit_test(test_peer_dies),
        AT("an idle proxy takes less than 1% of a core", run_alone, &alone[5]),
    };
    if (argc > 1) {
        snprintf(pattern, sizeof pattern, "%s*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    return RUN_TESTS("ports", tests);
}
