/*
 * Simulated collectives within one machine: the library's host algorithms on up to 64 ranks in one
 * process, on a recorded topology. For each algorithm it prints the bytes that ranks load from and
 * store to memory of other NUMA nodes, what must cross at least, and an estimated time.
 *
 * With --check every element of every result is compared, and the bytes that ranks access in each
 * other's memory are compared with the algorithm's closed form. Otherwise only addresses and
 * lengths are followed, so that long buffers need no memory.
 */
#include "base/fork.h"
#include "coll/coll.h"
#include "compute/copy.h"
#include "verify/tests/sim/host/clock.h"
#include "verify/tests/sim/host/memory.h"
#include "verify/tests/sim/host/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in comm/node/node_comm.c. */
enum { FEW_RANKS = 16, FEW_RANKS_AREA_BYTES = (2 << 20) + (128 << 10), AREA_BYTES = 1 << 20 };
enum { SIZES_MOST = 16, WARM_BYTES = 4 << 20 };

static struct {
    const char *topology, *values, *only, *algo;
    int nranks, checks, keeps_nothing, root, prints_matrix;
    size_t sizes[SIZES_MOST];
    int nsizes;
} opt = {.topology = "topo/machines/2-node-64-core.xml", .values = "xeon", .nranks = 32};

typedef struct rank_state {
    weir_comm comm;
    weiri_where where;
    char *in, *out;
} rank_state;

static rank_state ranks[SIM_RANKS_MAX];
static weiri_peer peers[SIM_RANKS_MAX];
static weir_call call; /* of the current simulation; in and out are each rank's */
static int ncalls;
static double begun_ns[SIM_RANKS_MAX], ended_ns[SIM_RANKS_MAX];
static long wrong;

/* -------------------------------------------------------------------- buffers */

static size_t blocks(int is_output)
{
    weir_collective blocked = is_output ? WEIR_COLL_ALLGATHER : WEIR_COLL_REDUCE_SCATTER;
    return call.collective == WEIR_COLL_ALLTOALL || call.collective == blocked ? (size_t)opt.nranks
                                                                               : 1;
}

static size_t buffer_bytes(int is_output)
{
    return blocks(is_output) * call.count * sizeof(int32_t);
}

static size_t size_bytes(void)
{
    return buffer_bytes(buffer_bytes(1) > buffer_bytes(0));
}

enum { PERIOD = 1009 }; /* of the elements of each rank's input */

static int32_t element(int rank, size_t i)
{
    return (int32_t)((i * 7 + (size_t)rank * 13) % PERIOD);
}

/* The sum of all ranks' elements i. */
static int32_t element_sum(size_t i)
{
    static int32_t sums[PERIOD];
    static int are_known;
    for (size_t at = 0; !are_known && at < PERIOD; at++)
        for (int rank = 0; rank < opt.nranks; rank++)
            sums[at] += element(rank, at);
    are_known = 1;
    return sums[i % PERIOD];
}

static int32_t expected(int rank, size_t i)
{
    const size_t block = i / call.count, at = i % call.count, own = (size_t)rank * call.count;
    if (call.collective == WEIR_COLL_ALLGATHER)
        return element((int)block, at);
    if (call.collective == WEIR_COLL_ALLTOALL)
        return element((int)block, own + at);
    if (call.collective == WEIR_COLL_BROADCAST)
        return element(call.root, i);
    return element_sum(call.collective == WEIR_COLL_REDUCE_SCATTER ? own + i : i);
}

static void check_result(int rank)
{
    const int32_t *out = (const int32_t *)(const void *)ranks[rank].out;
    if (call.collective == WEIR_COLL_REDUCE && rank != call.root)
        return;
    for (size_t i = 0; i < buffer_bytes(1) / sizeof *out; i++)
        wrong += out[i] != expected(rank, i);
}

/* --------------------------------------------------------------- communicators */

static size_t area_bytes(void)
{
    return opt.nranks <= FEW_RANKS ? FEW_RANKS_AREA_BYTES : AREA_BYTES;
}

static void rank_create(int rank)
{
    static const uint64_t never_aborted = 0;
    rank_state *r = &ranks[rank];
    memset(r, 0, sizeof *r);
    r->comm.guard.abort_word = &never_aborted;
    r->comm.rank = r->comm.local_rank = rank;
    r->comm.nranks = r->comm.local_nranks = opt.nranks;
    r->comm.nnodes = 1;
    r->comm.peers = peers;
    r->comm.area_bytes = area_bytes();
    r->comm.reads_unregistered = 1;
    r->comm.ndomains = sim.machine.nnodes;
    for (int peer = 0; peer < opt.nranks; peer++)
        r->comm.domain_of[peer] = (unsigned char)sim.machine.node_of[peer];
    r->comm.where = &r->where;
    r->comm.forks = weiri_fork_count();
    weiri_comm_count_nothing(&r->comm);
    r->in = peers[rank].area + area_bytes();
    r->out = r->in + (buffer_bytes(0) + 4095) / 4096 * 4096;
}

static void ranks_create(void)
{
    sim_memory_create(&sim.machine, area_bytes() + buffer_bytes(0) + buffer_bytes(1) + 8192);
    for (int rank = 0; rank < opt.nranks; rank++)
        peers[rank].area = sim_memory_of(rank);
    for (int rank = 0; rank < opt.nranks; rank++)
        rank_create(rank);
}

static void ranks_destroy(void)
{
    for (int rank = 0; rank < opt.nranks; rank++)
        if (ranks[rank].comm.coll)
            ranks[rank].comm.coll_destroy(ranks[rank].comm.coll);
}

/* ---------------------------------------------------------------- measurement */

/* A rank stores its input, as a program does before each call: no peer has it in its caches. */
static void fill_input(int rank)
{
    int32_t *in = (int32_t *)(void *)ranks[rank].in;
    sim_access access = sim_access_begin();
    sim_access_store(&access, in, buffer_bytes(0), SIM_STORE_CACHED);
    sim_access_end(&access);
    for (size_t i = 0; sim.moves_data && i < buffer_bytes(0) / sizeof *in; i++)
        in[i] = element(rank, i);
}

/* The ranks wait for each other, without cost. */
static void barrier(void)
{
    static int arrived, waiting[SIM_RANKS_MAX];
    static double last_ns;
    const int self = sim_clock_self();
    last_ns = arrived && last_ns > sim_clock_now_ns() ? last_ns : sim_clock_now_ns();
    waiting[arrived++] = self;
    if (arrived < opt.nranks) {
        sim_clock_block();
        return;
    }
    for (int i = 0; i < arrived; i++)
        if (waiting[i] != self)
            sim_clock_wake(waiting[i], last_ns);
    arrived = 0;
    sim_clock_advance_to(last_ns);
}

static void rank_main(int rank)
{
    weir_call own = call;
    own.in = ranks[rank].in;
    own.out = ranks[rank].out;
    for (int i = 0; i < ncalls; i++) {
        fill_input(rank);
        barrier();
        if (rank == 0 || i == 0)
            sim_memory_clear_counts();
        barrier();
        begun_ns[rank] = sim_clock_now_ns();
        if (weir_run(&ranks[rank].comm, &own) != WEIR_OK) {
            fprintf(stderr, "host_sim: rank %d: %s\n", rank, weir_last_error());
            exit(1);
        }
        ended_ns[rank] = sim_clock_now_ns();
        barrier();
    }
    if (sim.moves_data)
        check_result(rank);
}

/* Simulates the call with an algorithm (NULL: the tuning table's choice). Returns the time in us of
 * the last call, from its begin to the last rank's end. */
static double simulate(const char *algo, char served[32])
{
    call.algo_name = algo;
    ranks_create();
    ncalls = size_bytes() <= WARM_BYTES && !opt.checks ? 4 : 1;
    sim_clock_run(opt.nranks, rank_main);
    snprintf(served, 32, "%s", weir_comm_last_algo(&ranks[0].comm));
    ranks_destroy();
    double last_ns = 0;
    for (int rank = 0; rank < opt.nranks; rank++)
        last_ns = ended_ns[rank] > last_ns ? ended_ns[rank] : last_ns;
    return (last_ns - begun_ns[0]) / 1000;
}

/* Bytes loaded from and stored to memory of other ranks, or of other NUMA nodes. */
static uint64_t accessed(int only_far)
{
    const sim_counts *counts = sim_memory_counts();
    uint64_t bytes = 0;
    for (int rank = 0; rank < opt.nranks; rank++)
        for (int owner = 0; owner < opt.nranks; owner++)
            if (rank != owner &&
                (!only_far || sim.machine.node_of[rank] != sim.machine.node_of[owner]))
                bytes += counts->loaded[rank][owner] + counts->stored[rank][owner];
    return bytes;
}

static uint64_t crossed_with_caches(void)
{
    uint64_t bytes = 0;
    for (int from = 0; from < sim.machine.nnodes; from++)
        for (int to = 0; to < sim.machine.nnodes; to++)
            bytes += sim_memory_counts()->link[from][to];
    return bytes;
}

/* The busiest link, and the busiest node's memory. */
static void busiest(uint64_t *link, uint64_t *memory)
{
    const sim_counts *counts = sim_memory_counts();
    *link = *memory = 0;
    for (int from = 0; from < sim.machine.nnodes; from++) {
        *memory = counts->memory[from] > *memory ? counts->memory[from] : *memory;
        for (int to = 0; to < sim.machine.nnodes; to++)
            *link = counts->link[from][to] > *link ? counts->link[from][to] : *link;
    }
}

static void print_matrix(void)
{
    for (int rank = 0; rank < opt.nranks; rank++)
        for (int owner = 0; owner < opt.nranks; owner++)
            printf("# rank %d, memory of rank %d: %llu loaded, %llu stored\n", rank, owner,
                   (unsigned long long)sim_memory_counts()->loaded[rank][owner],
                   (unsigned long long)sim_memory_counts()->stored[rank][owner]);
}

/* Compares the counts with the closed form. Returns whether they agree. */
static int counts_agree(const char *algo)
{
    uint64_t closed = sim_expected_bytes(call.collective, algo, size_bytes(), opt.nranks);
    if (closed == UINT64_MAX || closed == accessed(0))
        return 1;
    printf("# %s %s %zu: ranks access %llu bytes of each other's memory, expected %llu\n",
           weir_collective_name(call.collective), algo, size_bytes(),
           (unsigned long long)accessed(0), (unsigned long long)closed);
    return 0;
}

/* --------------------------------------------------------------------- rows */

/* The tuning table's choices for registered and for unregistered memory. */
static void find_selected(char selected[2][32])
{
    sim.faults_made = 1; /* faults are for the rows */
    for (int registered = 0; registered < 2; registered++) {
        sim.is_registered = registered;
        simulate(NULL, selected[registered]);
    }
}

static const char *topology_name(void)
{
    const char *slash = strrchr(opt.topology, '/');
    return slash ? slash + 1 : opt.topology;
}

static int print_row(const weir_algo_info *algo, char selected[2][32])
{
    char served[32];
    uint64_t link, memory;
    sim.is_registered = algo->needs_mapped;
    wrong = sim.faults_made = 0;
    double us = simulate(algo->name, served);
    if (strcmp(served, algo->name) != 0)
        return 1; /* it does not serve this call */
    busiest(&link, &memory);
    uint64_t least = sim_least_crossing(call.collective, size_bytes()), far = accessed(1);
    printf("%s,%d,%d,%s,%zu,%s,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%.2f,%d,%d\n", topology_name(),
           opt.nranks, sim.machine.nnodes, weir_collective_name(call.collective), size_bytes(),
           algo->name, (unsigned long long)accessed(0), (unsigned long long)far,
           (unsigned long long)crossed_with_caches(), (unsigned long long)least,
           (unsigned long long)link, (unsigned long long)memory,
           (unsigned long long)sim_memory_counts()->far_lines, us,
           strcmp(selected[1], algo->name) == 0, strcmp(selected[0], algo->name) == 0);
    if (opt.prints_matrix)
        print_matrix();
    fflush(stdout);
    if (opt.checks && wrong)
        printf("# %s %s %zu: %ld wrong elements\n", weir_collective_name(call.collective),
               algo->name, size_bytes(), wrong);
    return !opt.checks || (counts_agree(algo->name) && !wrong);
}

static int simulate_size(weir_collective collective, size_t bytes)
{
    size_t rows = 0;
    int right = 1;
    char selected[2][32];
    const weir_algo_info *table = weir_algo_list(&rows);
    call = (weir_call)WEIR_CALL_INIT;
    call.collective = collective;
    call.dtype = WEIR_INT32;
    call.root = opt.root;
    call.count = 1;
    call.count = bytes / sizeof(int32_t) / (blocks(0) > blocks(1) ? blocks(0) : blocks(1));
    call.count += call.count == 0;
    find_selected(selected);
    for (size_t row = 0; row < rows; row++)
        if (table[row].backend == WEIR_ALGO_HOST && table[row].collective == collective &&
            (!opt.algo || strcmp(opt.algo, table[row].name) == 0))
            right &= print_row(&table[row], selected);
    return right;
}

static int simulate_all(void)
{
    static const weir_collective simulated[] = {WEIR_COLL_ALLREDUCE, WEIR_COLL_REDUCE_SCATTER,
                                                WEIR_COLL_ALLGATHER, WEIR_COLL_BROADCAST,
                                                WEIR_COLL_REDUCE,    WEIR_COLL_ALLTOALL};
    int right = 1;
    printf("topology,ranks,nodes,collective,bytes,algo,accessed,accessed_far,crossed,least,"
           "busiest_link,busiest_memory,far_lines,estimate_us,selected,selected_plain\n");
    for (size_t i = 0; i < sizeof simulated / sizeof *simulated; i++)
        for (int size = 0; size < opt.nsizes; size++)
            if (!opt.only || strcmp(opt.only, weir_collective_name(simulated[i])) == 0)
                right &= simulate_size(simulated[i], opt.sizes[size]);
    return right;
}

/* ------------------------------------------------------------------- options */

static void usage(void)
{
    fprintf(stderr, "usage: host_sim [-t topology.xml] [-v xeon|epyc] [-n ranks] [-C collective] "
                    "[-A algorithm] [-r root] [-b bytes]... [-u (caches keep nothing)] [-c "
                    "(check)] [-m (matrix)] [-f wrong-source|uncounted]\n");
    exit(2);
}

static void add_size(const char *text)
{
    char *end = NULL;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (!bytes || *end || opt.nsizes == SIZES_MOST)
        usage();
    opt.sizes[opt.nsizes++] = (size_t)bytes;
}

static void parse(int argc, char **argv)
{
    static const char *const usual[] = {"1024", "65536", "1048576", "67108864"};
    for (int letter; (letter = getopt(argc, argv, "t:v:n:C:A:r:b:f:ucm")) != -1;)
        switch (letter) {
        case 't':
            opt.topology = optarg;
            break;
        case 'v':
            opt.values = optarg;
            break;
        case 'n':
            opt.nranks = atoi(optarg);
            break;
        case 'C':
            opt.only = optarg;
            break;
        case 'A':
            opt.algo = optarg;
            break;
        case 'r':
            opt.root = atoi(optarg);
            break;
        case 'b':
            add_size(optarg);
            break;
        case 'f':
            sim.fault = optarg;
            break;
        case 'u':
            opt.keeps_nothing = 1;
            break;
        case 'c':
            opt.checks = sim.moves_data = 1;
            break;
        case 'm':
            opt.prints_matrix = 1;
            break;
        default:
            usage();
        }
    for (size_t i = 0, none = opt.nsizes == 0; none && i < 4; i++)
        add_size(usual[i]);
    if (optind != argc)
        usage();
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    sim_machine_load(&sim.machine, opt.topology, opt.nranks, opt.values);
    if (opt.keeps_nothing)
        sim.machine.cache_bytes = 0;
    if (opt.root < 0 || opt.root >= opt.nranks)
        usage();
    weiri_copy_assume_streams_to_peers(sim.machine.values.is_amd);
    return simulate_all() ? 0 : 1;
}
