/*
 * Every protocol in shared memory orders its accesses: barriers, semaphores, memory channels,
 * packets, port channels with their proxies, and each collective algorithm of the host. Built with
 * BUILD=order, order_checker.c watches all accesses and delays the sight of stores; other builds
 * only check the data. Without the checker a missing release or acquire is not found on x86.
 */
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/order_checker.h"
#include <weir/device.h>
#include <weir/port_device.h>

enum { HALF = 1 << 19, PACKETS_AT = HALF, AREA = 2 * HALF, ROUNDS = 12, TAG = 4 };

/* Runs body in so many ranks, and demands that all accesses were ordered. */
static void run_ordered(int nranks, comm_body *body)
{
    (void)order_checker_faults();
    run_comm_ranks(nranks, body);
    assert_int_equal(order_checker_faults(), 0);
}

/* ------------------------------------------------------------- barrier, collectives */

/* Ranks read each other's memory between two barriers, and write it after them. */
static void barriers(weir_comm *comm, int *failures)
{
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    EXPECT_OK(failures, weir_mem_alloc(comm, AREA, &mem));
    EXPECT_OK(failures, weir_mem_exchange(comm, mem, mems));
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        for (int peer = 0; peer < nranks; peer++)
            ((int *)weir_mem_pointer(mems[peer]))[rank] = round + rank;
        EXPECT_OK(failures, weir_comm_barrier(comm));
        for (int peer = 0; peer < nranks; peer++)
            for (int from = 0; from < nranks; from++)
                EXPECT(failures, ((int *)weir_mem_pointer(mems[peer]))[from] == round + from);
        EXPECT_OK(failures, weir_comm_barrier(comm));
    }
    for (int peer = 0; peer < nranks; peer++)
        weir_mem_free(mems[peer]);
}

static void run_algo(weir_comm *comm, const weir_algo_info *info, int *in, int *out, int *failures)
{
    static const size_t counts[] = {1, 40, 700, 9000};
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        weir_call call = WEIR_CALL_INIT;
        call.collective = info->collective;
        call.algo_name = info->name;
        call.dtype = WEIR_INT32;
        call.in = in;
        call.out = out;
        call.count = call.recv_count = counts[round % 4];
        call.destination = (rank + 1) % nranks;
        call.source = (rank + nranks - 1) % nranks;
        for (size_t i = 0; i < call.count * (size_t)nranks; i++)
            in[i] = rank + round;
        EXPECT_OK(failures, weir_run(comm, &call));
        const int sum = nranks * (nranks - 1) / 2 + nranks * round;
        const int expected =
            info->collective == WEIR_COLL_ALLREDUCE || info->collective == WEIR_COLL_REDUCE_SCATTER
                ? sum
            : info->collective == WEIR_COLL_REDUCE   ? (rank ? out[0] : sum)
            : info->collective == WEIR_COLL_SENDRECV ? call.source + round
                                                     : round;
        EXPECT(failures, out[0] == expected && out[call.count - 1] == expected);
    }
    if (*failures)
        fprintf(stderr, "# %s of %d ranks is wrong\n", info->name, nranks);
}

static void collectives(weir_comm *comm, int *failures)
{
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    weir_mem *in = NULL, *out = NULL;
    EXPECT_OK(failures, weir_mem_alloc(comm, AREA, &in));
    EXPECT_OK(failures, weir_mem_alloc(comm, AREA, &out));
    for (size_t i = 0; i < rows && !*failures; i++)
        if (list[i].backend == WEIR_ALGO_HOST && list[i].collective != WEIR_COLL_ALLTOALLV)
            run_algo(comm, &list[i], weir_mem_pointer(in), weir_mem_pointer(out), failures);
    weir_mem_free(in);
    weir_mem_free(out);
}

/* ----------------------------------------------------------------- channels */

typedef struct pair {
    weir_conn *conn;
    weir_sem *sem;
    weir_mem *mem, *peers;
    unsigned char *own;
    int peer;
} pair;

static void pair_open(pair *with, weir_comm *comm, int *failures)
{
    *with = (pair){.peer = 1 - weir_comm_rank(comm)};
    EXPECT_OK(failures, weir_connect(comm, with->peer, TAG, WEIR_TRANSPORT_SHM, &with->conn));
    EXPECT_OK(failures, weir_mem_alloc(comm, AREA, &with->mem));
    EXPECT_OK(failures, weir_sem_create(with->conn, &with->sem));
    EXPECT_OK(failures, weir_mem_send(comm, with->mem, with->peer, TAG));
    EXPECT_OK(failures, weir_mem_recv(comm, with->peer, TAG, &with->peers));
    with->own = weir_mem_pointer(with->mem);
}

static void pair_close(pair *with)
{
    weir_sem_free(with->sem);
    weir_mem_free(with->peers);
    weir_mem_free(with->mem);
    weir_conn_free(with->conn);
}

/* The value of a round, in each byte of the first quarter; the peer's arrives in the second. */
static void fill(const pair *with, int round)
{
    memset(with->own, 2 * round + with->peer + 1, HALF / 4);
}

static int has_arrived(const pair *with, size_t bytes, int round)
{
    for (size_t i = 0; i < bytes; i++)
        if (with->own[HALF / 4 + i] != (unsigned char)(2 * round + (1 - with->peer) + 1))
            return 0;
    return 1;
}

static void exchange(weir_memchan_dev *chan, const pair *with, int round, int *failures)
{
    static const size_t lengths[] = {8, 121, 5000};
    const size_t bytes = lengths[round % 3];
    const uint32_t flag = (uint32_t)round + 1;
    fill(with, round);
    switch (round / 3 % 4) {
    case 0:
        weir_put(chan, HALF / 4, 0, bytes, 0, 1);
        weir_signal(chan);
        EXPECT_OK(failures, weir_wait(chan));
        break;
    case 1:
        weir_put(chan, HALF / 4, 0, bytes, 0, 1);
        weir_signal(chan);
        while (!weir_poll(chan))
            weir_relax();
        break;
    case 2:
        weir_put_packets(chan, PACKETS_AT, 0, bytes, 0, 1, flag);
        EXPECT_OK(failures, weir_get_packets(chan, HALF / 4, 0, bytes, 0, 1, flag));
        break;
    default:
        weir_put_packets128(chan, PACKETS_AT + HALF / 2, 0, bytes, 0, 1, flag);
        EXPECT_OK(failures, weir_get_packets128(chan, HALF / 4, HALF / 2, bytes, 0, 1, flag));
    }
    EXPECT(failures, has_arrived(with, bytes, round));
    weir_signal(chan);
    EXPECT_OK(failures, weir_wait(chan));
}

static void channels(weir_comm *comm, int *failures)
{
    pair with;
    weir_mem *packets = NULL;
    weir_memchan *chan = NULL;
    pair_open(&with, comm, failures);
    EXPECT_OK(failures, weir_mem_register(comm, with.own + PACKETS_AT, HALF, &packets));
    EXPECT_OK(failures, weir_memchan_create(with.sem, with.peers, with.mem, packets, &chan));
    for (int round = 0; round < 6 * ROUNDS && !*failures; round++)
        exchange(weir_memchan_device(chan), &with, round, failures);
    weir_memchan_free(chan);
    weir_mem_free(packets);
    pair_close(&with);
}

/* A put and a signal through the proxy, and the reuse of its source after a flush. */
static void ports(weir_comm *comm, int *failures)
{
    pair with;
    weir_proxy *proxy = NULL;
    weir_portchan *chan = NULL;
    EXPECT_OK(failures, weir_proxy_create(comm, NULL, &proxy));
    EXPECT_OK(failures, weir_proxy_start(proxy));
    pair_open(&with, comm, failures);
    EXPECT_OK(failures, weir_portchan_create(proxy, with.sem, with.peers, with.mem, &chan));
    weir_portchan_dev *port = weir_portchan_device(chan);
    for (int round = 0; round < 2 * ROUNDS && !*failures; round++) {
        fill(&with, round);
        EXPECT_OK(failures, weir_port_put_with_signal(port, HALF / 4, 0, 3000));
        if (round % 2)
            EXPECT_OK(failures, weir_port_wait(port));
        else
            while (!weir_port_poll(port))
                weir_relax();
        EXPECT(failures, has_arrived(&with, 3000, round));
        EXPECT_OK(failures, weir_port_flush(port));
        EXPECT_OK(failures, weir_comm_barrier(comm));
    }
    weir_portchan_free(chan);
    pair_close(&with);
    EXPECT_OK(failures, weir_proxy_stop(proxy));
    weir_proxy_free(proxy);
}

/* ------------------------------------------------------------- planted faults */

static int fault_planted;

/* Rank 0 announces data by a relaxed store (fault 0), or rank 1 reads them after a relaxed load
 * (1), or rank 0 overwrites them without waiting (2). */
static void faulty(weir_comm *comm, int *failures)
{
    pair with;
    weir_memchan *made = NULL;
    pair_open(&with, comm, failures);
    EXPECT_OK(failures, weir_memchan_create(with.sem, with.peers, with.mem, NULL, &made));
    weir_memchan_dev *chan = weir_memchan_device(made);
    static volatile int sum; /* so that the reads are not left out */
    if (with.peer == 1) {
        fill(&with, 0);
        weir_put(chan, HALF / 4, 0, 64, 0, 1);
        if (fault_planted == 0)
            weir_signal_relaxed(chan);
        else
            weir_signal(chan);
        if (fault_planted == 2)
            weir_put(chan, HALF / 4, 0, 64, 0, 1);
    } else {
        while (!(fault_planted == 1 ? weir_poll_relaxed(chan) : weir_poll(chan)))
            weir_relax();
        for (int i = 0; i < 64; i++)
            sum += with.own[HALF / 4 + i];
        (void)sum;
    }
    EXPECT_OK(failures, weir_comm_barrier(comm));
    weir_memchan_free(made);
    pair_close(&with);
}

/* Two relaxed stores whose order matters: the second is seen without the first. */
static void reordered(weir_comm *comm, int *failures)
{
    pair with;
    int out_of_order = 0;
    pair_open(&with, comm, failures);
    uint64_t *own = (uint64_t *)(void *)with.own, *theirs = weir_mem_pointer(with.peers);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (uint64_t round = 1; round <= 50; round++) {
        if (with.peer == 1) {
            weir_store_relaxed(theirs, round);
            weir_store_relaxed(theirs + 64, round);
        } else {
            while (weir_load_acquire(own + 64) < round)
                weir_relax();
            out_of_order += weir_load_relaxed(own) != round;
        }
        EXPECT_OK(failures, weir_comm_barrier(comm));
    }
    EXPECT(failures, (out_of_order > 0) == (with.peer == 0 && ORDER_CHECKED));
    pair_close(&with);
}

static void test_faults_are_found(void **state)
{
    (void)state;
    if (!ORDER_CHECKED)
        skip();
    for (fault_planted = 0; fault_planted < 3; fault_planted++) {
        (void)order_checker_faults();
        run_comm_ranks(2, faulty);
        if (order_checker_faults() == 0)
            fail_msg("fault %d was not found", fault_planted);
    }
    run_comm_ranks(2, reordered);
}

static void test_barriers(void **state)
{
    (void)state;
    run_ordered(3, barriers);
}

static void test_collectives(void **state)
{
    (void)state;
    run_ordered(2, collectives);
    run_ordered(3, collectives);
}

static void test_channels(void **state)
{
    (void)state;
    run_ordered(2, channels);
}

static void test_ports(void **state)
{
    (void)state;
    run_ordered(2, ports);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("planted faults of memory order are found", test_faults_are_found, NULL),
        AT("barriers order the accesses of all ranks", test_barriers, NULL),
        AT("signals and packets order what they announce", test_channels, NULL),
        AT("port channels order what they carry", test_ports, NULL),
        AT("host algorithms order their accesses", test_collectives, NULL),
    };
    return RUN_TESTS("order", tests);
}
