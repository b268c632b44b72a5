/*
 * Simulated collectives across nodes: the library's algorithms, selection and messages, for up to
 * 4096 ranks in one process. Each rank is an actor of SimGrid (sim_net.cc) with a communicator
 * whose network transport is the simulation: put and signal become messages on a platform file, and
 * waits become waits for messages. Replaced, by the linker (--wrap), are the waits, and the phases
 * within a node, which need processes and shared memory: ranks copy and reduce each other's buffers
 * here, and the time of the same traffic on the platform's links within the node is simulated.
 *
 * With --check every element of every result is compared (with --corrupt, one is wrong). Otherwise
 * messages have heads but no data, so that long ones fit into memory. Times are of one call, from a
 * barrier to the last rank's end.
 */
#include "base/fork.h"
#include "coll/coll.h"
#include "coll/internode/cost.h"
#include "comm/internode/internode.h"
#include "compute/copy.h"
#include "compute/reduce.h"
#include "verify/tests/sim/sim_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREA_BYTES = 1 << 20, SIZES_MOST = 32 };

/* ------------------------------------------------------------------- options */

typedef struct options {
    int nnodes, per_node, checks;
    int corrupts;         /* one element of rank 1's input is wrong, which --check must find */
    const char *platform; /* fat-tree, dragonfly, rail */
    const char *collective, *algo;
    size_t first, last, factor, slot_bytes;
    weir_net_cost cost; /* also of the platform that is written */
} options;

static options opt = {.nnodes = 8,
                      .per_node = 8,
                      .platform = "rail",
                      .collective = "allreduce",
                      .first = 8,
                      .last = 1 << 20,
                      .factor = 32,
                      .slot_bytes = 64 << 10,
                      .cost = {2, 0.5, 50, 3, 400}};

static int nranks;

/* --------------------------------------------------------------------- ranks */

typedef struct node_posts {
    const char *in;
    char *out;
    const weiri_pair *pairs;
} node_posts;

/* A rank: its communicators, its window, and a put that awaits its signal. */
typedef struct sim_rank {
    weir_comm parent, host;
    weiri_internode internode;
    weiri_net net; /* one each, because it is locked while a message is sent */
    weiri_net_mem mem;
    weiri_where where;
    const char *put_from;
    char *put_to;
    size_t put_bytes;
    node_posts post;
} sim_rank;

static sim_rank *ranks;
static weiri_endpoint *endpoints; /* to each rank; all ranks use the same ones */
static weiri_node *nodes;
static int *node_of, *place_of;
static char *buffer_in, *buffer_out;   /* without --check: of all ranks */
static weiri_internode_links no_links; /* messages need no flush */

static sim_rank *self(void)
{
    return &ranks[sim_self()];
}

static int node_rank(int place)
{
    return nodes[node_of[sim_self()]].ranks[place];
}

/* ----------------------------------------------------- the network transport */

/* What travels: data for the receiver's window, and a word that is set after them. */
typedef struct sim_message {
    char *to;
    uint64_t *word, value;
    size_t bytes;
    char data[];
} sim_message;

static weir_status sim_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                           const weiri_net_key *key, uint64_t to, uint64_t bytes)
{
    (void)endpoint;
    (void)key;
    sim_rank *r = self();
    r->put_from = mem->base + at;
    r->put_to = (char *)(uintptr_t)to;
    r->put_bytes = bytes;
    return WEIR_OK;
}

/* Sends the put before it, if there is one, and the word. */
static weir_status sim_signal(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                              uint64_t value)
{
    (void)key;
    sim_rank *r = self();
    size_t kept = opt.checks || r->put_bytes < sizeof(weiri_internode_head)
                      ? r->put_bytes
                      : sizeof(weiri_internode_head);
    sim_message *message = malloc(sizeof *message + kept);
    *message = (sim_message){r->put_to, (uint64_t *)(uintptr_t)to, value, kept};
    memcpy(message->data, r->put_from, kept);
    if (r->put_bytes)
        sim_sleep(opt.cost.message_us * 1e-6);
    double bytes = (double)r->put_bytes + 16;
    r->put_bytes = 0;
    sim_send(endpoint->peer, message, bytes);
    return WEIR_OK;
}

static weir_status sim_progress(weiri_net *of, int *moved)
{
    (void)of;
    (void)moved;
    return WEIR_OK;
}

static const weiri_net_ops sim_ops = {
    .transport = WEIR_TRANSPORT_IB, .put = sim_put, .signal = sim_signal, .progress = sim_progress};

/* Receives one message. */
static void sim_deliver(void)
{
    sim_message *message = sim_receive();
    if (message->bytes)
        sim_sleep(opt.cost.message_us * 1e-6);
    memcpy(message->to, message->data, message->bytes);
    *message->word = message->value;
    free(message);
}

/* ------------------------------------------- what replaces the library's waits */

weir_status __wrap_weiri_comm_idle_for(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                                       uint64_t target, int peer, const char *phase);
weir_status __wrap_weiri_comm_wait_slow(weir_comm *comm, const uint64_t *word, uint64_t target,
                                        int peer, const char *phase);

weir_status __wrap_weiri_comm_idle_for(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                                       uint64_t target, int peer, const char *phase)
{
    (void)comm;
    (void)waiter;
    (void)peer;
    (void)phase;
    if (*word < target)
        sim_deliver();
    return WEIR_OK;
}

/* For a rank of the same node, whose stores are no messages: polls. */
weir_status __wrap_weiri_comm_wait_slow(weir_comm *comm, const uint64_t *word, uint64_t target,
                                        int peer, const char *phase)
{
    (void)comm;
    (void)peer;
    (void)phase;
    while (*(const volatile uint64_t *)word < target)
        sim_sleep(opt.cost.phase_us * 1e-6);
    return WEIR_OK;
}

/* Data, and the time that memory takes for them. */
void __real_weiri_reduce(void *dst, const void *const *src, int nsrc, size_t count,
                         weir_dtype dtype, weir_op op, uint64_t divisor, int streaming);
void __wrap_weiri_reduce(void *dst, const void *const *src, int nsrc, size_t count,
                         weir_dtype dtype, weir_op op, uint64_t divisor, int streaming);
void __real_weiri_copy(void *to, const void *from, size_t bytes);
void __wrap_weiri_copy(void *to, const void *from, size_t bytes);

void __wrap_weiri_reduce(void *dst, const void *const *src, int nsrc, size_t count,
                         weir_dtype dtype, weir_op op, uint64_t divisor, int streaming)
{
    double bytes = (double)(nsrc - 1) * (double)(count * weir_dtype_bytes(dtype));
    if (opt.checks)
        __real_weiri_reduce(dst, src, nsrc, count, dtype, op, divisor, streaming);
    sim_sleep(bytes / opt.cost.memory_gbs * 1e-9);
}

void __wrap_weiri_copy(void *to, const void *from, size_t bytes)
{
    if (opt.checks)
        __real_weiri_copy(to, from, bytes);
}

/* -------------------------------- what replaces the phases within a node */

/* All ranks of the node post their buffers; then each does its part with everyone's, and sends the
 * bytes that it would move to a neighbour. */
static void phase_begin(const void *in, void *out, const weiri_pair *pairs)
{
    self()->post = (node_posts){in, out, pairs};
    sim_node_barrier();
}

static weir_status phase_end(double bytes)
{
    if (opt.per_node > 1) {
        sim_sleep(opt.cost.phase_us * 1e-6);
        if (bytes > 0)
            sim_move_in_node(node_rank((self()->host.rank + 1) % opt.per_node), bytes);
        sim_node_barrier();
    }
    return WEIR_OK;
}

static void phase_copy(void *to, const void *from, size_t bytes)
{
    if (opt.checks && to != from && bytes)
        memmove(to, from, bytes);
}

static void phase_reduce(char *out, size_t offset, size_t count, weir_dtype dtype, weir_op op)
{
    const void **parts = calloc((size_t)opt.per_node, sizeof *parts);
    for (int place = 0; place < opt.per_node; place++)
        parts[place] = ranks[node_rank(place)].post.in + offset;
    if (opt.checks)
        __real_weiri_reduce(out, parts, opt.per_node, count, dtype, op, 1, 0);
    free(parts);
}

static double phase_share(void)
{
    return (double)(opt.per_node - 1) / opt.per_node;
}

weir_status __wrap_weir_reduce(weir_comm *comm, const void *in, void *out, size_t count,
                               weir_dtype dtype, weir_op op, int root, weir_stream stream);
weir_status __wrap_weir_reduce_scatter(weir_comm *comm, const void *in, void *out, size_t count,
                                       weir_dtype dtype, weir_op op, weir_stream stream);
weir_status __wrap_weir_allgather(weir_comm *comm, const void *in, void *out, size_t count,
                                  weir_dtype dtype, weir_stream stream);
weir_status __wrap_weir_broadcast(weir_comm *comm, const void *in, void *out, size_t count,
                                  weir_dtype dtype, int root, weir_stream stream);
weir_status __wrap_weiri_coll_run(weiri_coll *coll, const weir_call *call, size_t size_bytes);

weir_status __wrap_weir_reduce(weir_comm *comm, const void *in, void *out, size_t count,
                               weir_dtype dtype, weir_op op, int root, weir_stream stream)
{
    (void)stream;
    if (!count)
        return WEIR_OK;
    phase_begin(in, out, NULL);
    if (comm->rank == root)
        phase_reduce(out, 0, count, dtype, op);
    return phase_end((double)(count * weir_dtype_bytes(dtype)));
}

weir_status __wrap_weir_reduce_scatter(weir_comm *comm, const void *in, void *out, size_t count,
                                       weir_dtype dtype, weir_op op, weir_stream stream)
{
    (void)stream;
    size_t bytes = count * weir_dtype_bytes(dtype);
    phase_begin(in, out, NULL);
    phase_reduce(out, (size_t)comm->rank * bytes, count, dtype, op);
    return phase_end(phase_share() * (double)bytes * opt.per_node);
}

weir_status __wrap_weir_allgather(weir_comm *comm, const void *in, void *out, size_t count,
                                  weir_dtype dtype, weir_stream stream)
{
    (void)comm;
    (void)stream;
    size_t bytes = count * weir_dtype_bytes(dtype);
    phase_begin(in, out, NULL);
    for (int place = 0; place < opt.per_node; place++)
        phase_copy((char *)out + (size_t)place * bytes, ranks[node_rank(place)].post.in, bytes);
    return phase_end(phase_share() * (double)bytes * opt.per_node);
}

weir_status __wrap_weir_broadcast(weir_comm *comm, const void *in, void *out, size_t count,
                                  weir_dtype dtype, int root, weir_stream stream)
{
    (void)comm;
    (void)stream;
    size_t bytes = count * weir_dtype_bytes(dtype);
    if (!count)
        return WEIR_OK;
    phase_begin(in, out, NULL);
    phase_copy(out, ranks[node_rank(root)].post.in, bytes);
    return phase_end((double)bytes);
}

/* Blocks of pairs within the node. */
weir_status __wrap_weiri_coll_run(weiri_coll *coll, const weir_call *call, size_t size_bytes)
{
    (void)call;
    (void)size_bytes;
    double sent = 0;
    phase_begin(NULL, NULL, coll->pairs);
    for (int place = 0; place < opt.per_node; place++) {
        const weiri_pair *pair = &coll->pairs[place];
        const weiri_pair *peer = &ranks[node_rank(place)].post.pairs[coll->rank];
        if (pair->receives)
            phase_copy(pair->to, peer->from, pair->recv_bytes);
        if (pair->sends && place != coll->rank)
            sent += (double)pair->send_bytes;
    }
    return phase_end(sent);
}

/* ------------------------------------------------------------ communicators */

static char *reserve(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "sim: cannot reserve %zu bytes of address space\n", bytes);
        exit(3);
    }
    return memory;
}

static size_t ring_bytes(void)
{
    return WEIRI_INTERNODE_SLOTS * (sizeof(weiri_internode_head) + opt.slot_bytes);
}

/* A window is address space only; pages appear where messages are. */
static size_t window_bytes(void)
{
    return (size_t)nranks * (sizeof(weiri_internode_words) + 2 * ring_bytes());
}

static char *inbox_of(int rank, int peer)
{
    return ranks[rank].internode.window + (size_t)nranks * sizeof(weiri_internode_words) +
           (size_t)peer * 2 * ring_bytes();
}

static void rank_connect(int rank)
{
    weiri_internode *internode = &ranks[rank].internode;
    for (int peer = 0; peer < nranks; peer++) {
        if (node_of[peer] == node_of[rank])
            continue;
        weiri_internode_peer *to = &internode->peers[peer];
        to->endpoint = &endpoints[peer];
        to->words = (weiri_internode_words *)(void *)internode->window + peer;
        to->inbox = inbox_of(rank, peer);
        to->outbox = to->inbox + ring_bytes();
        to->stride = weiri_internode_stride(internode);
        to->inbox_there = (uint64_t)(uintptr_t)inbox_of(peer, rank);
        to->words_there =
            (uint64_t)(uintptr_t)((weiri_internode_words *)(void *)ranks[peer].internode.window +
                                  rank);
    }
}

static void rank_create(int rank)
{
    sim_rank *r = &ranks[rank];
    weiri_internode *internode = &r->internode;
    r->net.ops = &sim_ops;
    pthread_mutex_init(&r->net.lock, NULL);
    *internode = (weiri_internode){.parent = &r->parent,
                                   .local = &r->host,
                                   .net = &r->net,
                                   .nnodes = opt.nnodes,
                                   .node = node_of[rank],
                                   .nodes = nodes,
                                   .node_of = node_of,
                                   .place_of = place_of,
                                   .fewest = opt.per_node,
                                   .most = opt.per_node,
                                   .nremote = nranks - opt.per_node,
                                   .slot_bytes = opt.slot_bytes,
                                   .links = &no_links,
                                   .window = reserve(window_bytes()),
                                   .mem = &r->mem};
    r->mem.base = internode->window;
    internode->peers =
        (weiri_internode_peer *)(void *)reserve((size_t)nranks * sizeof *internode->peers);
    r->parent.rank = rank;
    r->parent.nranks = nranks;
    r->parent.nnodes = opt.nnodes;
    r->parent.local_rank = r->host.rank = place_of[rank];
    r->parent.local_nranks = r->host.nranks = opt.per_node;
    r->parent.host_comm = &r->host;
    r->parent.internode = internode;
    r->host.parent = &r->parent;
    r->host.parent_ranks = nodes[node_of[rank]].ranks;
    r->parent.where = r->host.where = &r->where;
    r->parent.forks = r->host.forks = weiri_fork_count();
    weiri_comm_count_nothing(&r->parent);
    weiri_comm_count_nothing(&r->host);
    r->host.area_bytes = AREA_BYTES;
}

/* The areas of a node's ranks are memory of this process. */
static void node_create(int node)
{
    weiri_peer *peers = calloc((size_t)opt.per_node, sizeof *peers);
    for (int place = 0; place < opt.per_node; place++)
        peers[place].area = reserve(AREA_BYTES);
    for (int place = 0; place < opt.per_node; place++)
        ranks[nodes[node].ranks[place]].host.peers = peers;
}

static void create_all(void)
{
    nranks = opt.nnodes * opt.per_node;
    ranks = calloc((size_t)nranks, sizeof *ranks);
    endpoints = calloc((size_t)nranks, sizeof *endpoints);
    nodes = calloc((size_t)opt.nnodes, sizeof *nodes);
    node_of = calloc((size_t)nranks, sizeof *node_of);
    place_of = calloc((size_t)nranks, sizeof *place_of);
    for (int node = 0; node < opt.nnodes; node++) {
        nodes[node].count = opt.per_node;
        nodes[node].ranks = calloc((size_t)opt.per_node, sizeof *nodes[node].ranks);
        for (int place = 0; place < opt.per_node; place++)
            nodes[node].ranks[place] = node * opt.per_node + place;
    }
    for (int rank = 0; rank < nranks; rank++) {
        node_of[rank] = rank / opt.per_node;
        place_of[rank] = rank % opt.per_node;
        endpoints[rank] = (weiri_endpoint){.peer = rank};
    }
    for (int rank = 0; rank < nranks; rank++)
        rank_create(rank);
    for (int rank = 0; rank < nranks; rank++)
        rank_connect(rank);
    for (int node = 0; node < opt.nnodes; node++)
        node_create(node);
}

/* --------------------------------------------------------------- measurement */

static double ended_s, started_s;
static long wrong;
static const char *served_by;

/* Elements are small whole numbers, so that sums are exact. */
static int32_t element(int rank, size_t i)
{
    return (int32_t)((i * 7 + (size_t)rank * 13) % 1009);
}

static int is_collective(const char *name)
{
    return strcmp(opt.collective, name) == 0;
}

static int32_t expected(int rank, size_t i, size_t count)
{
    size_t block = i / count, at = i % count, own = (size_t)rank * count;
    int64_t sum = 0;
    if (is_collective("allgather"))
        return element((int)block, at);
    if (is_collective("alltoall"))
        return element((int)block, own + at);
    if (is_collective("broadcast"))
        return element(0, i);
    for (int peer = 0; peer < nranks; peer++)
        sum += element(peer, is_collective("reduce_scatter") ? own + i : i);
    return (int32_t)sum;
}

static size_t blocks(int outputs)
{
    int many = is_collective("alltoall") ||
               (outputs ? is_collective("allgather") : is_collective("reduce_scatter"));
    return many ? (size_t)nranks : 1;
}

static void check(int rank, const int32_t *out, size_t count)
{
    if (is_collective("reduce") && rank != 0)
        return;
    for (size_t i = 0; i < blocks(1) * count; i++)
        wrong += out[i] != expected(rank, i, count);
}

static weir_collective collective_of(const char *name)
{
    for (int c = 0; c < WEIR_COLL_COUNT; c++)
        if (strcmp(weir_collective_name((weir_collective)c), name) == 0)
            return (weir_collective)c;
    fprintf(stderr, "sim: unknown collective '%s'\n", name);
    exit(2);
}

/* The call's count: bytes is the size by which the tuning table is ordered. */
static size_t count_of(size_t bytes)
{
    size_t most = blocks(0) > blocks(1) ? blocks(0) : blocks(1);
    size_t count = bytes / sizeof(int32_t) / most;
    return count ? count : 1;
}

/* One call of all ranks. */
static void measure(int rank, size_t bytes, const char *algo)
{
    weir_call call = WEIR_CALL_INIT;
    size_t count = count_of(bytes);
    int32_t *in = (int32_t *)(void *)buffer_in, *out = (int32_t *)(void *)buffer_out;
    if (opt.checks) {
        in = malloc(blocks(0) * count * sizeof *in);
        out = malloc(blocks(1) * count * sizeof *out);
        for (size_t i = 0; i < blocks(0) * count; i++)
            in[i] = element(rank, i) + (opt.corrupts && rank == 1 && i == 0);
    }
    call.collective = collective_of(opt.collective);
    call.in = in;
    call.out = out;
    call.count = count;
    call.dtype = WEIR_INT32;
    call.algo_name = algo;
    sim_barrier();
    started_s = sim_now_s();
    ended_s = 0;
    sim_barrier();
    weir_status status = weir_run(&ranks[rank].parent, &call);
    if (status != WEIR_OK) {
        fprintf(stderr, "sim: rank %d: %s\n", rank, weir_last_error());
        exit(1);
    }
    ended_s = sim_now_s() > ended_s ? sim_now_s() : ended_s;
    served_by = weir_comm_last_algo(&ranks[rank].parent);
    sim_barrier();
    if (opt.checks) {
        check(rank, out, count);
        free(in);
        free(out);
    }
}

static void print_row(const char *algo, const char *chosen, size_t bytes)
{
    const weiri_net_shape shape = {opt.nnodes, opt.per_node, 0, 1};
    size_t blocks_most = blocks(0) > blocks(1) ? blocks(0) : blocks(1);
    size_t size = count_of(bytes) * sizeof(int32_t) * blocks_most;
    double us = (ended_s - started_s) * 1e6;
    double model_us =
        weiri_internode_cost_us(&opt.cost, shape, collective_of(opt.collective), algo, size);
    printf("%s,%s,%d,%d,%zu,%s,%.2f,%.2f,%.3f,%d\n", opt.platform, opt.collective, nranks,
           opt.nnodes, size, algo, us, model_us, us / model_us, strcmp(algo, chosen) == 0);
    fflush(stdout);
}

/* The algorithm that the library's list for the communicator has for a size. */
static const char *chosen_for(const weiri_coll *coll, size_t bytes)
{
    const weiri_choice *choice = coll->tuned[collective_of(opt.collective)];
    while (bytes > choice->max_bytes)
        choice++;
    return choice->name;
}

/* Algorithms whose tables are of fixed size, up to the largest communicator of this build. The
 * others have no such limit, and are simulated beyond it. */
static int serves(const weir_algo_info *algo)
{
    static const char *const limited[] = {"packet", "rails", "pairs"};
    int is_limited = 0;
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++)
        is_limited |= strcmp(algo->name, limited[i]) == 0;
    return !is_limited || nranks <= algo->max_ranks;
}

static void rank_main(int rank)
{
    size_t rows = 0, most = blocks(0) > blocks(1) ? blocks(0) : blocks(1);
    const weir_algo_info *table = weir_algo_list(&rows);
    weiri_coll *coll = NULL;
    if (weiri_coll_get(&ranks[rank].parent, &coll) != WEIR_OK) {
        fprintf(stderr, "sim: rank %d: %s\n", rank, weir_last_error());
        exit(3);
    }
    for (size_t row = 0; row < rows; row++) {
        if (table[row].backend != WEIR_ALGO_INTERNODE ||
            table[row].collective != collective_of(opt.collective) || !serves(&table[row]) ||
            (opt.algo && strcmp(opt.algo, table[row].name) != 0))
            continue;
        for (size_t bytes = opt.first; bytes <= opt.last; bytes *= opt.factor) {
            measure(rank, bytes, table[row].name);
            if (rank == 0)
                print_row(table[row].name,
                          chosen_for(coll, count_of(bytes) * sizeof(int32_t) * most), bytes);
            sim_barrier();
        }
    }
}

/* ----------------------------------------------------------------- platforms */

static void host_of(int rank, char name[32])
{
    if (strcmp(opt.platform, "rail") == 0)
        snprintf(name, 32, "r%d-%d", place_of[rank], node_of[rank]);
    else
        snprintf(name, 32, "n-%d", node_of[rank]);
}

static void inner_host_of(int rank, char name[32])
{
    snprintf(name, 32, "v-%d", rank);
}

/* Divides n into two factors, the second one at most `most`. */
static int factor_of(int n, int most)
{
    int factor = most;
    while (n % factor)
        factor--;
    return factor;
}

static void write_inner(FILE *file)
{
    fprintf(file,
            "<cluster id=\"inner\" prefix=\"v-\" suffix=\"\" radical=\"0-%d\" speed=\"1Gf\" "
            "bw=\"%gGBps\" lat=\"%gus\" router_id=\"inner-switch\"/>\n",
            nranks - 1, opt.cost.memory_gbs, opt.cost.phase_us / 8);
}

/* One switch for each rail, on which each node has one port, and a spine between the switches. */
static void write_rails(FILE *file)
{
    for (int rail = 0; rail < opt.per_node; rail++)
        fprintf(file,
                "<cluster id=\"rail%d\" prefix=\"r%d-\" suffix=\"\" radical=\"0-%d\" speed=\"1Gf\" "
                "bw=\"%gGBps\" lat=\"%gus\" router_id=\"switch%d\"/>\n",
                rail, rail, opt.nnodes - 1, opt.cost.network_gbs, opt.cost.latency_us / 2, rail);
    fprintf(file, "<link id=\"spine\" bandwidth=\"%gGBps\" latency=\"%gus\"/>\n",
            opt.cost.network_gbs * opt.nnodes, opt.cost.latency_us / 2);
    for (int from = 0; from < opt.per_node; from++)
        for (int to = from + 1; to < opt.per_node; to++)
            fprintf(file,
                    "<zoneRoute src=\"rail%d\" dst=\"rail%d\" gw_src=\"switch%d\" "
                    "gw_dst=\"switch%d\"><link_ctn id=\"spine\"/></zoneRoute>\n",
                    from, to, from, to);
}

/* Clusters of nodes with one port each; a path has about four links. */
static void write_cluster(FILE *file)
{
    char shape[96];
    int leaf = factor_of(opt.nnodes, 16), rest = opt.nnodes / leaf;
    if (strcmp(opt.platform, "fat-tree") == 0) {
        snprintf(shape, sizeof shape, "FAT_TREE\" topo_parameters=\"2;%d,%d;1,%d;1,1", leaf, rest,
                 leaf);
    } else {
        int router = factor_of(opt.nnodes, 4), chassis = factor_of(opt.nnodes / router, 8),
            groups = opt.nnodes / router / chassis;
        snprintf(shape, sizeof shape, "DRAGONFLY\" topo_parameters=\"%d,2;1,2;%d,2;%d", groups,
                 chassis, router);
    }
    fprintf(file,
            "<cluster id=\"net\" prefix=\"n-\" suffix=\"\" radical=\"0-%d\" speed=\"1Gf\" "
            "bw=\"%gGBps\" lat=\"%gus\" sharing_policy=\"SPLITDUPLEX\" topology=\"%s\"/>\n",
            opt.nnodes - 1, opt.cost.network_gbs, opt.cost.latency_us / 4, shape);
}

static void write_platform(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(3);
    }
    fprintf(file, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                  "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
                  "<zone id=\"world\" routing=\"Full\">\n");
    write_inner(file);
    if (strcmp(opt.platform, "rail") == 0)
        write_rails(file);
    else
        write_cluster(file);
    fprintf(file, "</zone>\n</platform>\n");
    fclose(file);
}

/* ------------------------------------------------------------------- options */

static const char usage[] =
    "usage: sim [--platform rail|fat-tree|dragonfly] [--nodes N] [--per-node R]\n"
    "           [--collective NAME] [--algo NAME] [-b BYTES] [-e BYTES] [-f FACTOR]\n"
    "           [--cost LATENCY_US,MESSAGE_US,NETWORK_GBS,PHASE_US,MEMORY_GBS] [--slot BYTES]\n"
    "           [--check | --corrupt] [--write-platform]\n"
    "Simulates a collective with each algorithm across nodes. Rows: platform, collective, ranks,\n"
    "nodes, bytes, algorithm, simulated us, us of the cost model, their ratio, 1 if selected.\n";

static int option_parse(const char *name, const char *value)
{
    weir_net_cost *c = &opt.cost;
    if (strcmp(name, "--platform") == 0)
        opt.platform = value;
    else if (strcmp(name, "--nodes") == 0)
        opt.nnodes = atoi(value);
    else if (strcmp(name, "--per-node") == 0)
        opt.per_node = atoi(value);
    else if (strcmp(name, "--collective") == 0)
        opt.collective = value;
    else if (strcmp(name, "--algo") == 0)
        opt.algo = value;
    else if (strcmp(name, "-b") == 0)
        opt.first = strtoull(value, NULL, 10);
    else if (strcmp(name, "-e") == 0)
        opt.last = strtoull(value, NULL, 10);
    else if (strcmp(name, "-f") == 0)
        opt.factor = strtoull(value, NULL, 10);
    else if (strcmp(name, "--slot") == 0)
        opt.slot_bytes = strtoull(value, NULL, 10) / 4096 * 4096;
    else if (strcmp(name, "--cost") == 0)
        return sscanf(value, "%lf,%lf,%lf,%lf,%lf", &c->latency_us, &c->message_us, &c->network_gbs,
                      &c->phase_us, &c->memory_gbs) == 5;
    else
        return 0;
    return 1;
}

static int options_are_valid(void)
{
    const char *const known[] = {"rail", "fat-tree", "dragonfly"};
    int found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= strcmp(opt.platform, known[i]) == 0;
    return found && opt.nnodes > 1 && opt.per_node > 0 && opt.first > 0 && opt.factor > 1 &&
           opt.slot_bytes >= 4096;
}

/* The library takes the cost model's values from a tuning file. */
static void use_costs(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(3);
    }
    fprintf(file, "cost %g %g %g %g %g\n", opt.cost.latency_us, opt.cost.message_us,
            opt.cost.network_gbs, opt.cost.phase_us, opt.cost.memory_gbs);
    fclose(file);
    setenv("WEIR_TUNING", path, 1);
}

int main(int argc, char **argv)
{
    char platform[64], costs[64];
    int writes = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            opt.checks = 1;
        else if (strcmp(argv[i], "--corrupt") == 0)
            opt.checks = opt.corrupts = 1;
        else if (strcmp(argv[i], "--write-platform") == 0)
            writes = 1;
        else if (i + 1 == argc || !option_parse(argv[i], argv[i + 1])) {
            fputs(usage, stderr);
            return 2;
        } else
            i++;
    }
    if (!options_are_valid()) {
        fputs(usage, stderr);
        return 2;
    }
    snprintf(platform, sizeof platform, "/tmp/weir-sim-%d.xml", (int)getpid());
    snprintf(costs, sizeof costs, "/tmp/weir-sim-%d.tuning", (int)getpid());
    create_all();
    write_platform(writes ? "/dev/stdout" : platform);
    if (writes)
        return 0;
    use_costs(costs);
    size_t most = opt.last * 2 + (size_t)nranks * sizeof(int32_t);
    buffer_in = reserve(most);
    buffer_out = reserve(most);
    const sim_platform on = {platform, host_of, inner_host_of};
    sim_run(&on, nranks, opt.per_node, rank_main);
    remove(platform);
    remove(costs);
    if (wrong)
        fprintf(stderr, "sim: %ld elements are wrong\n", wrong);
    return wrong != 0;
}
