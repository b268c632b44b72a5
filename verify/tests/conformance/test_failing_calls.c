/*
 * Every allocation and every system call of a rank fails once, is interrupted, or is cut short,
 * while ranks create a communicator, call collectives, split, exchange memory, run a plan, expert
 * parallelism and channels, and destroy everything. The rank must end with an error whose text has
 * the cause, or go on with right data. All other ranks must end. No rank may crash, hang, have
 * wrong data, or leave memory, descriptors or threads behind. Interrupted and short calls must not
 * be noticed. A short run takes the first call of each place in the code, and a sample of all
 * calls; `test_failing_calls FUNCTION NUMBER JOB RANK` takes one.
 */
#define _GNU_SOURCE
#include "verify/tests/support/failing_calls.h"
#include "verify/tests/support/internode_ranks.h"
#include "verify/tests/support/long_part.h"

#include "plan/examples/examples.h"
#include <weir/moe.h>
#include <weir/plan.h>
#include <weir/port_device.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

enum {
    DEADLINE_MS = 1000,
    CALL_LIMIT_MS = 12000,
    COUNT = 3000,
    TEXT_BYTES = 512,
    PLACES = 1024,
    /* How a rank ends. */
    ENDED_WELL = 0,
    ENDED_BY_ERROR = 10,
    ENDED_WITHOUT_CAUSE,
    ENDED_WITH_WRONG_DATA,
    ENDED_WITH_LEAK,
};

typedef struct job {
    const char *nodes; /* of each rank, a letter */
    const char *connect;
    int uses_tcp_boot;
    uint64_t samples; /* calls of a function that a short run takes */
} job;

/* A place in the code that calls a function. */
typedef struct place {
    failing_call call;
    const void *at;
} place;

/* Memory that the ranks share with the test. */
typedef struct board {
    failing_plan plan;
    int armed_rank, is_quiet, nplaces;
    place places[PLACES]; /* that called a function on the armed rank */
    weir_unique_id id;
    int has_id;
    char text[TEXT_BYTES]; /* of the armed rank */
} board;

static board *shared;
static const job *current;

/* ------------------------------------------------------------- what ranks do */

/* Channels of two ranks to each other. */
typedef struct channels {
    weir_conn *conn;
    weir_sem *sem, *port_sem;
    weir_mem *mem, *peer_mem;
    weir_memchan *memchan;
    weir_switchchan *switchchan;
    weir_proxy *proxy;
    weir_portchan *port;
} channels;

typedef struct objects {
    weir_boot *boot;
    channels channels;
    weir_comm *comm, *part;
    weir_mem *mem, *mems[8];
    weir_executor *executor;
    weir_plan *plan;
    weir_moe *moe;
    int is_wrong;
} objects;

static weir_status use_collectives(objects *o, weir_comm *comm)
{
    static uint32_t in[COUNT], out[COUNT];
    const int n = weir_comm_nranks(comm), rank = weir_comm_rank(comm);
    weir_status status = WEIR_OK;
    for (size_t count = 1; status == WEIR_OK && count <= COUNT; count = count * 50 + 7) {
        for (size_t i = 0; i < count; i++)
            in[i] = (uint32_t)(i * 3 + (size_t)rank);
        status = weir_allreduce(comm, in, out, count, WEIR_UINT32, WEIR_SUM, NULL);
        for (size_t i = 0; status == WEIR_OK && i < count; i++)
            o->is_wrong |= out[i] != (uint32_t)(i * 3 * (size_t)n + (size_t)(n * (n - 1) / 2));
    }
    if (status == WEIR_OK)
        status = weir_sendrecv(comm, in, 100, (rank + 1) % n, out, 100, (rank + n - 1) % n,
                               WEIR_UINT32, NULL);
    for (uint32_t i = 0; status == WEIR_OK && i < 100; i++)
        o->is_wrong |= out[i] != i * 3 + (uint32_t)((rank + n - 1) % n);
    return status;
}

static weir_status use_splits(objects *o)
{
    static uint32_t in[512], out[512];
    size_t counts[8], at[8];
    const int n = weir_comm_nranks(o->comm), rank = weir_comm_rank(o->comm);
    for (int peer = 0; peer < n; peer++) {
        counts[peer] = 50;
        at[peer] = (size_t)peer * 50;
    }
    for (int i = 0; i < n * 50; i++)
        in[i] = (uint32_t)(i + rank * 1000);
    weir_status status =
        weir_alltoallv(o->comm, in, counts, at, out, counts, at, WEIR_UINT32, NULL);
    for (int i = 0; status == WEIR_OK && i < n * 50; i++)
        o->is_wrong |= out[i] != (uint32_t)(rank * 50 + i % 50 + i / 50 * 1000);
    return status;
}

static weir_status use_memory(objects *o)
{
    weir_status status = weir_mem_alloc(o->comm, 1 << 16, &o->mem);
    if (status == WEIR_OK && weir_comm_nnodes(o->comm) == 1)
        status = weir_mem_exchange(o->comm, o->mem, o->mems);
    uint32_t *words = status == WEIR_OK ? weir_mem_pointer(o->mem) : NULL;
    for (int i = 0; words && i < COUNT; i++)
        words[i] = 5;
    if (status == WEIR_OK)
        status = weir_allreduce(o->comm, words, words, COUNT, WEIR_UINT32, WEIR_SUM, NULL);
    for (int i = 0; status == WEIR_OK && i < COUNT; i++)
        o->is_wrong |= words[i] != 5u * (uint32_t)weir_comm_nranks(o->comm);
    return status;
}

static weir_status use_plan(objects *o)
{
    static uint32_t in[480], out[480];
    const int n = weir_comm_nranks(o->comm);
    const weiri_plan_example_options with = {.nranks = n, .unit_bytes = 256};
    weir_status status =
        weiri_plan_example_make(weiri_plan_example_find("allreduce_ring"), &with, &o->plan);
    if (status == WEIR_OK)
        status = weir_executor_create(o->comm, &o->executor);
    for (int i = 0; i < 480; i++)
        in[i] = (uint32_t)i;
    if (status == WEIR_OK)
        status = weir_executor_run(o->executor, o->plan, in, out, sizeof in, sizeof out,
                                   WEIR_UINT32, WEIR_SUM, NULL);
    for (int i = 0; status == WEIR_OK && i < 480; i++)
        o->is_wrong |= out[i] != (uint32_t)(i * n);
    return status;
}

static weir_status use_moe(objects *o)
{
    float x[4][8], rows[32][8], back[4][8];
    int32_t experts[4];
    const int n = weir_comm_nranks(o->comm);
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    weir_moe_dispatch_args d = WEIR_MOE_DISPATCH_ARGS_INIT;
    weir_moe_combine_args c = WEIR_MOE_COMBINE_ARGS_INIT;
    config.experts = n;
    config.topk = 1;
    config.max_tokens = 4;
    config.hidden = 8;
    config.dtype = WEIR_FLOAT;
    weir_status status = weir_moe_create(o->comm, &config, &o->moe);
    for (int i = 0; i < 32; i++)
        x[i / 8][i % 8] = (float)(i + weir_comm_rank(o->comm));
    for (int i = 0; i < 4; i++)
        experts[i] = i % n;
    d.tokens = 4;
    d.x = x;
    d.topk_experts = experts;
    d.rows = rows;
    c.rows = rows;
    d.rows_bytes = sizeof rows;
    c.out = back;
    c.out_bytes = sizeof back;
    if (status == WEIR_OK)
        status = weir_moe_dispatch(o->moe, &d);
    if (status == WEIR_OK)
        status = weir_moe_combine(o->moe, &c);
    o->is_wrong |= status == WEIR_OK && memcmp(x, back, sizeof x) != 0;
    return status;
}

static weir_status open_port(weir_comm *comm, channels *c)
{
    weir_status status = weir_sem_create(c->conn, &c->port_sem);
    if (status == WEIR_OK)
        status = weir_proxy_create(comm, NULL, &c->proxy);
    if (status == WEIR_OK)
        status = weir_proxy_start(c->proxy);
    return status == WEIR_OK
               ? weir_portchan_create(c->proxy, c->port_sem, c->peer_mem, c->mem, &c->port)
               : status;
}

static weir_status open_mapped(weir_comm *comm, channels *c)
{
    weir_mem *both[2] = {c->mem, c->peer_mem};
    weir_status status = weir_sem_create(c->conn, &c->sem);
    if (status == WEIR_OK)
        status = weir_memchan_create(c->sem, c->peer_mem, c->mem, NULL, &c->memchan);
    return status == WEIR_OK ? weir_switchchan_create(comm, both, 2, &c->switchchan) : status;
}

static weir_status open_channels(weir_comm *comm, int peer, channels *c)
{
    weir_status status = weir_connect(comm, peer, 3, WEIR_TRANSPORT_AUTO, &c->conn);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, 8192, &c->mem);
    if (status == WEIR_OK)
        status = weir_mem_send(comm, c->mem, peer, 3);
    if (status == WEIR_OK)
        status = weir_mem_recv(comm, peer, 3, &c->peer_mem);
    if (status == WEIR_OK)
        status = open_port(comm, c);
    return status == WEIR_OK && weir_comm_nnodes(comm) == 1 ? open_mapped(comm, c) : status;
}

/* Each end puts a page over its port and reads the other's. Calls of a port leave no text: the
 * proxy has the cause, or a barrier of the communicator, which has then been aborted. */
static weir_status use_channels(objects *o)
{
    channels *c = &o->channels;
    const int peer = 1 - weir_comm_rank(o->comm);
    weir_status status = open_channels(o->comm, peer, c);
    if (status != WEIR_OK)
        return status;
    unsigned char *own = weir_mem_pointer(c->mem);
    memset(own, weir_comm_rank(o->comm) + 1, 4096);
    weir_portchan_dev *port = weir_portchan_device(c->port);
    const int ended =
        weir_port_put_with_signal_and_flush(port, 4096, 0, 4096) || weir_port_wait(port);
    if (ended)
        status = weir_proxy_status(c->proxy);
    else
        o->is_wrong |= own[4096] != peer + 1 || own[8191] != peer + 1;
    return status == WEIR_OK ? weir_comm_barrier(o->comm) : status;
}

static void close_channels(channels *c)
{
    weir_portchan_free(c->port);
    weir_proxy_free(c->proxy);
    weir_switchchan_free(c->switchchan);
    weir_memchan_free(c->memchan);
    weir_sem_free(c->port_sem);
    weir_sem_free(c->sem);
    weir_mem_free(c->peer_mem);
    weir_mem_free(c->mem);
    weir_conn_free(c->conn);
}

static weir_status use_all(objects *o, weir_boot *boot)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    const int rank = weir_boot_rank(boot), n = weir_boot_nranks(boot);
    weir_status status = WEIR_OK;
    config.backend = WEIR_BACKEND_HOST;
    config.timeout_ms = DEADLINE_MS;
    if (current->uses_tcp_boot)
        status = weir_boot_tcp_create(&shared->id, rank, n, &o->boot);
    if (status == WEIR_OK)
        status = weir_comm_create(o->boot ? o->boot : boot, &config, &o->comm);
    if (status == WEIR_OK)
        status = use_collectives(o, o->comm);
    if (status == WEIR_OK)
        status = weir_comm_split(o->comm, rank % 2, rank, NULL, &o->part);
    if (status == WEIR_OK)
        status = use_collectives(o, o->part);
    if (status == WEIR_OK)
        status = use_splits(o);
    if (status == WEIR_OK)
        status = use_memory(o);
    if (status == WEIR_OK && weir_comm_nnodes(o->comm) == 1)
        status = use_plan(o);
    if (status == WEIR_OK)
        status = use_moe(o);
    if (status == WEIR_OK && n == 2)
        status = use_channels(o);
    return status;
}

/* Releases everything. A rank that has failed ends the others' waits first. */
static weir_status release_all(objects *o, weir_status status)
{
    if (status != WEIR_OK && o->comm)
        weir_comm_abort(o->comm);
    if (status != WEIR_OK && o->part)
        weir_comm_abort(o->part);
    close_channels(&o->channels);
    weir_moe_free(o->moe);
    weir_executor_destroy(o->executor);
    weir_plan_free(o->plan);
    for (int i = 0; i < 8; i++)
        if (o->mems[i] != o->mem)
            weir_mem_free(o->mems[i]);
    weir_mem_free(o->mem);
    weir_status ended = o->part ? weir_comm_destroy(o->part) : WEIR_OK;
    if (o->comm && ended == WEIR_OK)
        ended = weir_comm_destroy(o->comm);
    else if (o->comm)
        weir_comm_destroy(o->comm);
    weir_boot_destroy(o->boot);
    return status == WEIR_OK ? ended : status;
}

/* ------------------------------------------------------------- how they end */

static int has_cause(const char *text)
{
    static const char *const ended[] = {"has died", "is gone", "has ended", "aborted", "hung up"};
    const failing_call call = shared->plan.call;
    if (failing_number(call) == ENOMEM && strstr(text, "memory"))
        return 1;
    if (failing_number(call) == EMFILE && strstr(text, "files"))
        return 1;
    if (strstr(text, strerror(failing_number(call))))
        return 1;
    /* A stream that fails looks like a peer that has ended. */
    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
        if (failing_moves(call) && strstr(text, ended[i]))
            return 1;
    return 0;
}

static int judge(int is_armed, weir_status status, const objects *o, const char *text, int leaked,
                 size_t blocks)
{
    if (is_armed)
        snprintf(shared->text, sizeof shared->text,
                 "%d %s; %d descriptors, threads and mappings, %zu blocks (%p, %p)", status, text,
                 leaked, blocks, failing_block_site(0), failing_block_site(1));
    if (o->is_wrong)
        return ENDED_WITH_WRONG_DATA;
    if (leaked > 0 || blocks > 0)
        return ENDED_WITH_LEAK;
    if (status == WEIR_OK)
        return ENDED_WELL;
    if (is_armed && shared->plan.was_hit && !has_cause(text))
        return ENDED_WITHOUT_CAUSE;
    return *text ? ENDED_BY_ERROR : ENDED_WITHOUT_CAUSE;
}

/* Descriptors, threads, and mappings of shared memory. */
static int count_held(void)
{
    char line[512];
    int mappings = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        mappings += strstr(line, "memfd:weir") != NULL;
    if (maps)
        fclose(maps);
    return count_fds() + count_entries("/proc/self/task") + mappings;
}

static int run_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    objects o = {0};
    char name[2] = {current->nodes[weir_boot_rank(boot)], '\0'}, text[TEXT_BYTES] = "";
    const int is_armed = weir_boot_rank(boot) == shared->armed_rank;
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", "auto", 1);
    setenv("WEIR_CONNECT", current->connect, 1);
    setenv("WEIR_TIMEOUT_MS", "1000", 1);
    if (shared->is_quiet) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        close(null);
    }
    const int held = count_held();
    const size_t blocks = failing_blocks();
    if (is_armed)
        failing_arm(&shared->plan);
    weir_status status = use_all(&o, boot);
    if (status != WEIR_OK)
        snprintf(text, sizeof text, "%s", weir_last_error());
    const weir_status released = release_all(&o, status);
    if (status == WEIR_OK && released != WEIR_OK)
        snprintf(text, sizeof text, "%s", weir_last_error());
    failing_disarm();
    return judge(is_armed, released, &o, text, count_held() - held, failing_blocks() - blocks);
}

/* --------------------------------------------------------------------- places */

static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

/* Adds a place to a list, unless it is there. Returns 1 if it was not. */
static int place_add(place *places, int *count, place one)
{
    for (int i = 0; i < *count; i++)
        if (places[i].call == one.call && places[i].at == one.at)
            return 0;
    if (*count == PLACES)
        return 0;
    places[(*count)++] = one;
    return 1;
}

/* Called on the armed rank for every call of a function. */
static void note_place(failing_call call, const void *site)
{
    pthread_mutex_lock(&noting);
    place_add(shared->places, &shared->nplaces, (place){call, failing_place(site)});
    pthread_mutex_unlock(&noting);
}

/* ------------------------------------------------------------------ the test */

static const char *ending(int code)
{
    static const char *const texts[] = {"", "gave no cause", "had wrong data", "left things"};
    static char text[40];
    if (code > ENDED_BY_ERROR && code <= ENDED_WITH_LEAK)
        return texts[code - ENDED_BY_ERROR];
    snprintf(text, sizeof text, "ended with %d", code);
    return text;
}

enum { LACKS_CAUSE = 1, FAILED = 2 };

/* Runs the ranks once. Returns 0, or LACKS_CAUSE or FAILED, or both, and says why, if one did not
 * end as it must. */
static int run_once(const job *j)
{
    int codes[8], n = (int)strlen(j->nodes), failures = 0;
    current = j;
    shared->is_quiet = 1;
    shared->plan.was_hit = 0;
    shared->text[0] = '\0';
    if (j->uses_tcp_boot && weir_unique_id_create(&shared->id) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (weir_boot_fork_run(n, run_rank, NULL, CALL_LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    const int must_pass = !shared->plan.number || shared->plan.kind != FAILING_FAILS;
    for (int rank = 0; rank < n; rank++) {
        if (codes[rank] == ENDED_WELL || (codes[rank] == ENDED_BY_ERROR && !must_pass))
            continue;
        failures |= codes[rank] == ENDED_WITHOUT_CAUSE ? LACKS_CAUSE : FAILED;
        print_message("# rank %d of %s (%s%s) %s; %s %s of rank %d, call %llu at %p: %s\n", rank,
                      j->nodes, j->connect, j->uses_tcp_boot ? ", tcp bootstrap" : "",
                      ending(codes[rank]),
                      shared->plan.kind == FAILING_FAILS         ? "failing"
                      : shared->plan.kind == FAILING_INTERRUPTED ? "interrupted"
                                                                 : "short",
                      failing_name(shared->plan.call), shared->armed_rank,
                      (unsigned long long)shared->plan.number, failing_place(shared->plan.site),
                      shared->text);
    }
    return failures;
}

/* Runs the ranks, and again if only a cause was missing: on a busy machine the deadline of another
 * rank may come first. Returns 1 if they fail. */
static int run_patiently(const job *j)
{
    int failures = run_once(j);
    for (int again = 0; again < 2 && failures == LACKS_CAUSE; again++)
        failures = run_once(j);
    return failures != 0;
}

/* Every place that no job before has had, at its first call. */
static int run_places(const job *j)
{
    static place tried[PLACES];
    static int ntried;
    int failures = 0, count = 0;
    for (int i = 0; i < shared->nplaces; i++) {
        if (!place_add(tried, &ntried, shared->places[i]))
            continue;
        shared->plan.call = shared->places[i].call;
        shared->plan.kind = FAILING_FAILS;
        shared->plan.only = shared->places[i].at;
        shared->plan.number = 1;
        failures += run_patiently(j);
        count++;
    }
    shared->plan.only = NULL;
    print_message("# %d places\n", count);
    return failures;
}

/* The calls of one function, all or a sample in equal steps. */
static int run_calls(const job *j, failing_call call, failing_kind kind, uint64_t count)
{
    int failures = 0;
    const uint64_t samples = is_long_run() || count < j->samples ? count : j->samples;
    for (uint64_t i = 0; i < samples; i++) {
        shared->plan.call = call;
        shared->plan.kind = kind;
        shared->plan.number = 1 + i * count / samples + (uint64_t)(call + kind) % (count / samples);
        failures += run_patiently(j);
    }
    return failures;
}

static int run_job(const job *j)
{
    int failures = 0;
    uint64_t counts[FAILING_COUNT];
    shared->armed_rank = 1;
    shared->plan.number = 0;
    shared->nplaces = 0;
    shared->plan.seen = note_place;
    if (run_once(j))
        return 1;
    shared->plan.seen = NULL;
    memcpy(counts, shared->plan.counts, sizeof counts);
    for (int call = 0; call < FAILING_COUNT; call++)
        for (int kind = FAILING_FAILS; kind <= FAILING_SHORT; kind++)
            if (counts[call] && failing_has((failing_call)call, (failing_kind)kind))
                failures += run_calls(j, (failing_call)call, (failing_kind)kind, counts[call]);
    return failures + run_places(j);
}

static void test_job(void **state)
{
    const double begin_s = now_s();
    if (!is_long_run())
        long_part("all calls; a short run takes each place once, and some of each function");
    const int failures = run_job(*state);
    print_message("# %.1f s\n", now_s() - begin_s);
    assert_int_equal(failures, 0);
}

#define JOB(name, ...) AT(name, test_job, (&(job){__VA_ARGS__}))
static const struct CMUnitTest tests[] = {
    JOB("2 ranks", "aa", "auto", 0, 1),
    JOB("3 ranks, tcp bootstrap", "aaa", "auto", 1, 1),
    JOB("2 nodes, tcp", "ab", "auto", 0, 1),
    JOB("3 nodes that connect when first used", "abc", "first-use", 0, 1),
};

static int run_one(const char *function, uint64_t number, int which, int rank)
{
    shared->armed_rank = rank;
    if (run_once(tests[which].initial_state))
        return 1;
    shared->plan.number = number;
    for (int call = 0; call < FAILING_COUNT; call++)
        if (strcmp(failing_name((failing_call)call), function) == 0)
            shared->plan.call = (failing_call)call;
    const int failed = run_once(tests[which].initial_state);
    printf("%s: %s\n", failed ? "failed" : "passed", shared->text);
    return failed;
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    if (argc > 4)
        return run_one(argv[1], strtoull(argv[2], NULL, 0), atoi(argv[3]), atoi(argv[4]));
    return RUN_TESTS("failing calls", tests);
}
