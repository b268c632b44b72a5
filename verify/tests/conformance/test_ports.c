/*
 * Proves that port channels conform over every transport, for callers on the host, and that the
 * proxy serves many producers on a small FIFO, executes what was pushed before a stop, and reports
 * a full FIFO, producers and handlers that never return, wrong triggers and a dead peer.
 */
#include "chan/port.h"
#include "verify/tests/conformance/port_conformance.h"

#include <pthread.h>
#include <signal.h>

/* -------------------------------------------------------------- conformance */

enum { NO_NETWORK = 101 }; /* exit code of ranks without a device of this transport */

static int ports_conform(weir_boot *boot, void *argument)
{
    weir_transport transport = *(weir_transport *)argument;
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, 20000);
    weir_conn *conn = NULL;
    if (!comm)
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
    if (weir_boot_fork_run(2, ports_conform, *state, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (codes[0] == NO_NETWORK && codes[1] == NO_NETWORK)
        skip();
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

/* ---------------------------------------------------------- custom triggers */

enum { PRODUCERS = 6, EACH = 3000 };

/* The triggers that the handler has received from each producer. */
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

/* Pushes triggers; waits for some of them and leaves the others in the queue. */
static void *push_triggers(void *opaque)
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

/* A FIFO of few slots wraps thousands of times while producers compete for it. The proxy is stopped
 * while triggers are outstanding, and executes all of them. */
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
        pthread_create(&threads[i], NULL, push_triggers, &producers[i]);
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

/* ----------------------------------------------------------- ends and faults */

/* A proxy of a communicator with one rank; its handler notes triggers in seen by default. */
typedef struct proxy_test {
    weir_comm *comm;
    weir_proxy *proxy;
    const weir_fifo_dev *fifo;
    weir_fifo_dev impatient; /* the same FIFO, for waits that must end by their deadline */
    record seen;
} proxy_test;

/* A zero or NULL means the default. */
typedef struct proxy_settings {
    unsigned fifo_slots;
    int stop_timeout_ms;
    weir_trigger_handler handler;
    int without_handler;
} proxy_settings;

static int proxy_test_open(proxy_test *t, weir_boot *boot, const proxy_settings *settings)
{
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    if (settings->fifo_slots)
        config.fifo_slots = settings->fifo_slots;
    if (settings->stop_timeout_ms)
        config.stop_timeout_ms = settings->stop_timeout_ms;
    if (!settings->without_handler)
        config.handler = settings->handler ? settings->handler : note_trigger;
    config.argument = &t->seen;
    memset(t, 0, sizeof *t);
    if (!(t->comm = open_comm(boot)) || weir_proxy_create(t->comm, &config, &t->proxy) != WEIR_OK)
        return NO_COMM;
    t->fifo = weir_proxy_fifo(t->proxy);
    t->impatient = *t->fifo;
    t->impatient.guard.timeout_ns = 50000000;
    return 0;
}

static void proxy_test_close(proxy_test *t)
{
    weir_proxy_free(t->proxy);
    weir_comm_destroy(t->comm);
}

typedef struct proxy_case {
    void (*body)(proxy_test *t, int *failures);
    proxy_settings settings;
} proxy_case;

static int run_proxy_case(weir_boot *boot, void *argument)
{
    const proxy_case *c = argument;
    int failures = 0;
    proxy_test t;
    if (proxy_test_open(&t, boot, &c->settings))
        return NO_COMM;
    c->body(&t, &failures);
    proxy_test_close(&t);
    return failures;
}

static void *abort_soon(void *comm)
{
    usleep(30000);
    weir_comm_abort(comm);
    return NULL;
}

static const weir_trigger custom = {.op = WEIR_TRIGGER_CUSTOM};

/* While the proxy is not running, a push to a full FIFO waits until its deadline or an abort, and
 * takes no ticket. Triggers that were pushed before are executed once the proxy starts. */
static void no_room(proxy_test *t, int *failures)
{
    uint64_t ticket = 99;
    pthread_t thread;
    for (uint64_t i = 0; i < 4; i++) {
        EXPECT_OK(failures, weir_fifo_push(t->fifo, &custom, &ticket));
        EXPECT(failures, ticket == i);
    }
    EXPECT(failures, weir_fifo_push(&t->impatient, &custom, &ticket) == WEIR_ERR_TIMEOUT);
    EXPECT(failures, ticket == 3 && *t->fifo->head == 4);
    EXPECT(failures, weir_fifo_wait(&t->impatient, 3) == WEIR_ERR_TIMEOUT);
    EXPECT_OK(failures, weir_proxy_start(t->proxy));
    EXPECT_OK(failures, weir_fifo_wait(t->fifo, 3));
    EXPECT_OK(failures, weir_proxy_stop(t->proxy));
    EXPECT(failures, t->seen.total == 4);
    for (int i = 0; i < 4; i++)
        EXPECT_OK(failures, weir_fifo_push(t->fifo, &custom, &ticket));
    pthread_create(&thread, NULL, abort_soon, t->comm);
    EXPECT(failures, weir_fifo_push(t->fifo, &custom, &ticket) == WEIR_ERR_ABORTED);
    pthread_join(thread, NULL);
}

/* A FIFO of more slots than 2^20 is refused. */
static int too_many_slots(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    weir_proxy *proxy = NULL;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    (void)argument;
    config.fifo_slots = (1 << 20) + 1;
    EXPECT(&failures, weir_proxy_create(comm, &config, &proxy) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("fifo_slots is 1048577") && proxy == NULL);
    config.fifo_slots = 1 << 20;
    EXPECT_OK(&failures, weir_proxy_create(comm, &config, &proxy));
    weir_proxy_free(proxy);
    weir_comm_destroy(comm);
    return failures;
}

/* A stop executes all outstanding triggers first; the proxy can then be started again. */
static void stop_drains(proxy_test *t, int *failures)
{
    uint64_t ticket = 0;
    for (uint64_t round = 1; round <= 20; round++) {
        for (int i = 0; i < 64; i++)
            EXPECT_OK(failures, weir_fifo_push(t->fifo, &custom, &ticket));
        EXPECT_OK(failures, weir_proxy_start(t->proxy));
        EXPECT_OK(failures, weir_proxy_stop(t->proxy));
        EXPECT(failures, t->seen.total == 64 * round);
    }
    EXPECT(failures,
           weir_proxy_start(t->proxy) == WEIR_OK && weir_proxy_start(t->proxy) == WEIR_ERR_INVALID);
}

/* A producer takes a ticket and never fills its slot: later triggers cannot be executed, and the
 * stop reports that at its deadline. */
static void producer_dies(proxy_test *t, int *failures)
{
    uint64_t ticket = 0;
    EXPECT_OK(failures, weir_proxy_start(t->proxy));
    EXPECT_OK(failures, weir_fifo_push(t->fifo, &custom, &ticket));
    EXPECT_OK(failures, weir_fifo_wait(t->fifo, ticket));
    EXPECT_OK(failures, weir_fifo_reserve(t->fifo, &ticket));
    EXPECT_OK(failures, weir_fifo_push(t->fifo, &custom, &ticket));
    EXPECT(failures, weir_fifo_wait(&t->impatient, ticket) == WEIR_ERR_TIMEOUT);
    double start_s = now_s();
    EXPECT(failures, weir_proxy_stop(t->proxy) == WEIR_ERR_TIMEOUT);
    EXPECT(failures, boot_last_error_has("2 triggers were not executed within 50 ms"));
    EXPECT(failures, boot_last_error_has("ticket 1") && boot_last_error_has("never filled it"));
    EXPECT(failures, now_s() - start_s < 10 && t->seen.total == 1);
}

static void *commit_late(void *argument)
{
    proxy_test *t = argument;
    usleep(100000);
    weir_fifo_commit(t->fifo, 0, &custom);
    return NULL;
}

/* A producer has taken a ticket and fills its slot after the stop has begun: the stop waits. */
static void producer_is_late(proxy_test *t, int *failures)
{
    uint64_t ticket = 99;
    pthread_t thread;
    EXPECT_OK(failures, weir_proxy_start(t->proxy));
    EXPECT_OK(failures, weir_fifo_reserve(t->fifo, &ticket));
    EXPECT(failures, ticket == 0);
    EXPECT(failures, pthread_create(&thread, NULL, commit_late, t) == 0);
    EXPECT_OK(failures, weir_proxy_stop(t->proxy));
    EXPECT(failures, t->seen.total == 1);
    pthread_join(thread, NULL);
}

static uint64_t handler_entered;

static weir_status never_return(void *argument, const weir_trigger *trigger)
{
    (void)argument, (void)trigger;
    weir_store_release(&handler_entered, 1);
    while (pause())
        ;
    return WEIR_OK;
}

static void handler_hangs(proxy_test *t, int *failures)
{
    uint64_t ticket = 0;
    EXPECT_OK(failures, weir_proxy_start(t->proxy));
    EXPECT_OK(failures, weir_fifo_push(t->fifo, &custom, &ticket));
    while (!weir_load_acquire(&handler_entered))
        usleep(1000);
    EXPECT(failures, weir_proxy_stop(t->proxy) == WEIR_ERR_TIMEOUT);
    EXPECT(failures, boot_last_error_has("has not returned within 50 ms"));
    weir_proxy_free(t->proxy); /* its thread still uses it, and the communicator */
    t->proxy = NULL;
    t->comm = NULL;
}

static weir_status refuse_trigger(void *argument, const weir_trigger *trigger)
{
    (void)argument;
    return trigger->bytes ? WEIR_ERR_INVALID : WEIR_OK;
}

/* A failure ends the proxy and the waits of all ranks, and its reason is kept. */
static int wrong_triggers(weir_boot *boot, void *argument)
{
    static const struct {
        weir_trigger trigger;
        proxy_settings settings;
        const char *reason;
    } wrong[] = {
        {{.op = WEIR_TRIGGER_PUT, .chan = 5}, {.without_handler = 1}, "port channel 5"},
        {{.op = WEIR_TRIGGER_FLUSH, .chan = UINT32_MAX},
         {.without_handler = 1},
         "port channel 4294967295"},
        {{.op = 64}, {.without_handler = 1}, "kind 0x40"},
        {{.op = WEIR_TRIGGER_CUSTOM}, {.without_handler = 1}, "no handler"},
        {{.op = WEIR_TRIGGER_CUSTOM, .bytes = 1},
         {.handler = refuse_trigger},
         "the trigger handler failed"},
    };
    int failures = 0;
    (void)argument;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        proxy_test t;
        uint64_t ticket = 0;
        if (proxy_test_open(&t, boot, &wrong[i].settings))
            return NO_COMM;
        EXPECT_OK(&failures, weir_proxy_start(t.proxy));
        EXPECT_OK(&failures, weir_fifo_push(t.fifo, &wrong[i].trigger, &ticket));
        double limit_s = now_s() + 10;
        while (weir_proxy_status(t.proxy) == WEIR_OK && now_s() < limit_s)
            usleep(1000);
        EXPECT(&failures, weir_proxy_status(t.proxy) == WEIR_ERR_INVALID);
        EXPECT(&failures, boot_last_error_has(wrong[i].reason));
        EXPECT(&failures, weir_fifo_wait(t.fifo, ticket + 1) == WEIR_ERR_ABORTED);
        EXPECT(&failures, weir_proxy_stop(t.proxy) == WEIR_ERR_INVALID);
        proxy_test_close(&t);
    }
    return failures;
}

/* Puts that would leave either memory, and triggers of no known kind, end the waits of both ranks
 * and write nothing. */
static int beyond_memory(weir_boot *boot, void *argument)
{
    enum { ALL = WEIR_TRIGGER_PUT | WEIR_TRIGGER_SIGNAL | WEIR_TRIGGER_FLUSH };
    static const char beyond[] = "exceeds the memory";
    const struct {
        uint64_t to, from, bytes;
        uint32_t op;
        const char *reason;
    } bad[] = {{2 * PORT_HALF, 0, 1, ALL, beyond},
               {0, 2 * PORT_HALF - 7, 8, ALL, beyond},
               {UINT64_MAX - 7, 0, 16, ALL, beyond},
               {0, UINT64_MAX, 1, ALL, beyond},
               {8, 8, UINT64_MAX, ALL, beyond},
               {0, 0, 8, ALL | 64, "a trigger of kind 0x47 for port channel"},
               {0, 0, 8, 0, "a trigger of kind 0 for port channel"}};
    int failures = 0;
    uint64_t ticket = 0;
    (void)argument;
    for (size_t i = 0; i < sizeof bad / sizeof *bad && !failures; i++) {
        weir_comm *comm = open_comm(boot);
        port_pair with;
        port_pair_start(&with, comm, WEIR_TRANSPORT_AUTO, &failures);
        if (failures)
            return failures;
        weir_comm_barrier(comm); /* set-up has ended on both ranks before either aborts */
        if (with.rank == 0) {
            EXPECT_OK(&failures, weir_port_push(with.port, bad[i].op, bad[i].to, bad[i].from,
                                                bad[i].bytes, &ticket));
            EXPECT(&failures, weir_port_await_flush(with.port, ticket) == WEIR_ERR_ABORTED);
        } else
            EXPECT(&failures, weir_port_wait(with.port) == WEIR_ERR_ABORTED);
        EXPECT(&failures,
               weir_proxy_status(with.proxy) == (with.rank ? WEIR_OK : WEIR_ERR_INVALID));
        EXPECT(&failures, with.rank || boot_last_error_has(bad[i].reason));
        with.port = NULL; /* nothing to flush */
        port_close(&with);
        weir_proxy_free(with.proxy);
        weir_comm_destroy(comm);
    }
    return failures;
}

/* Repeated set-up and tear-down leak no descriptors or mappings. */
static int repeat_setup(weir_boot *boot, void *argument)
{
    enum { ROUNDS = 25 };
    int failures = 0, fds = 0, maps = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    for (int round = 0; round < ROUNDS && !failures; round++) {
        port_pair with;
        port_pair_start(&with, comm, *(weir_transport *)argument, &failures);
        if (!failures)
            EXPECT_OK(&failures, port_barrier(&with));
        port_close(&with);
        EXPECT_OK(&failures, weir_proxy_stop(with.proxy));
        weir_proxy_free(with.proxy);
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

/* Rank 1 dies, and its proxy with it. Over a network rank 0's proxy detects that and ends rank 0's
 * waits long before their deadline. */
static int peer_dies(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    port_pair with;
    (void)argument;
    if (!comm)
        return NO_COMM;
    port_pair_start(&with, comm, WEIR_TRANSPORT_TCP, &failures);
    EXPECT_OK(&failures, port_barrier(&with));
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
    EXPECT(&failures,
           weir_proxy_status(with.proxy) == WEIR_ERR_PEER && boot_last_error_has("rank 1"));
    weir_proxy_free(with.proxy);
    return failures;
}

static void test_peer_dies(void **state)
{
    (void)state;
    run_ranks_killed(2, 1, peer_dies, NULL);
}

/* The processor time of a proxy's thread, in seconds. */
static double proxy_cpu_s(const weir_proxy *proxy)
{
    struct timespec used;
    clockid_t clock;
    if (pthread_getcpuclockid(proxy->thread, &clock) || clock_gettime(clock, &used))
        return 1e9;
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* The smallest fraction of a core that the thread used in several windows, which excludes
 * disturbances by other processes. */
static double idle_share(const weir_proxy *proxy)
{
    enum { WINDOWS = 5, WINDOW_US = 150000 };
    double least = 1;
    for (int i = 0; i < WINDOWS; i++) {
        double used_before_s = proxy_cpu_s(proxy), begin_s = now_s();
        usleep(WINDOW_US);
        double share = (proxy_cpu_s(proxy) - used_before_s) / (now_s() - begin_s);
        least = share < least ? share : least;
    }
    return least;
}

/* An idle proxy takes less than 1% of a core, whether it sleeps until it is woken or naps, as the
 * proxies of kernels do, and still executes triggers promptly. */
static int proxy_idles(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    for (int naps = 0; naps < 2 && !failures; naps++) {
        proxy_test t;
        uint64_t ticket = 0;
        if (proxy_test_open(&t, boot, &(proxy_settings){0}))
            return NO_COMM;
        t.proxy->naps = naps;
        EXPECT_OK(&failures, weir_proxy_start(t.proxy));
        usleep(naps ? 100000 : 1000);
        EXPECT_OK(&failures, weir_fifo_push(t.fifo, &custom, &ticket));
        EXPECT_OK(&failures, weir_fifo_wait(t.fifo, ticket));
        usleep(naps ? 200000 : 100000); /* its naps have reached their full length */
        double share = idle_share(t.proxy);
        printf("# %s: %.2f%% of a core\n", naps ? "naps" : "sleeps", 100 * share);
        EXPECT(&failures, share < 0.01);
        EXPECT_OK(&failures, weir_fifo_push(t.fifo, &custom, &ticket));
        EXPECT_OK(&failures, weir_fifo_wait(t.fifo, ticket));
        EXPECT_OK(&failures, weir_proxy_stop(t.proxy));
        EXPECT(&failures, t.seen.total == 2);
        proxy_test_close(&t);
    }
    return failures;
}

static weir_transport shm = WEIR_TRANSPORT_SHM, tcp = WEIR_TRANSPORT_TCP, ib = WEIR_TRANSPORT_IB;
static unsigned one = 1, few = 8, default_slots = 0;

#define PROXY_TEST(name, ...) RANKS_TEST(name, 1, run_proxy_case, (&(proxy_case){__VA_ARGS__}))

/* With a word, such as "ib:", only the tests whose name begins with it. */
int main(int argc, char **argv)
{
    char pattern[32];
    const struct CMUnitTest tests[] = {
        AT("shm: port channels conform", test_conforms, &shm),
        AT("tcp: port channels conform", test_conforms, &tcp),
        AT("ib: port channels conform", test_conforms, &ib),
        RANKS_TEST("many producers, 1 slot", 1, many_producers, &one),
        RANKS_TEST("many producers, 8 slots", 1, many_producers, &few),
        RANKS_TEST("many producers, the default FIFO", 1, many_producers, &default_slots),
        PROXY_TEST("a push to a full FIFO ends at a deadline or an abort and takes no ticket",
                   no_room, {.fifo_slots = 3}),
        PROXY_TEST("a stop executes what was pushed", stop_drains, {.fifo_slots = 64}),
        PROXY_TEST("a stop names the producer that never filled its slot", producer_dies,
                   {.stop_timeout_ms = 50}),
        PROXY_TEST("a stop waits for a producer that fills its slot late", producer_is_late,
                   {.stop_timeout_ms = 20000}),
        PROXY_TEST("a handler that hangs does not block the stop", handler_hangs,
                   {.stop_timeout_ms = 50, .handler = never_return}),
        RANKS_TEST("wrong triggers end the proxy with their reason", 1, wrong_triggers, NULL),
        RANKS_TEST("more slots than a FIFO can have are refused", 1, too_many_slots, NULL),
        RANKS_TEST("puts beyond the memory are rejected", 2, beyond_memory, NULL),
        RANKS_TEST("shm: 25 set-ups leak nothing", 2, repeat_setup, &shm),
        RANKS_TEST("tcp: 25 set-ups leak nothing", 2, repeat_setup, &tcp),
        AT("a dead peer ends the waits for it", test_peer_dies, NULL),
        RANKS_TEST("an idle proxy takes less than 1% of a core", 1, proxy_idles, NULL),
    };
    if (argc > 1) {
        snprintf(pattern, sizeof pattern, "%s*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    return RUN_TESTS("ports", tests);
}
