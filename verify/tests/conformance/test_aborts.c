/*
 * After a deadline or an abort no call returns WEIR_OK: a call that is repeated after it timed out,
 * on any rank, on one node and on two; a set-up function that waits for a rank which idles, or
 * which aborts; and a call during which the communicator is aborted.
 */
#include "verify/tests/support/internode_ranks.h"
#include "verify/tests/support/long_part.h"

#include "coll/coll.h"
#include "moe/group.h"
#include "plan/examples/examples.h"
#include <weir/algo.h>
#include <weir/blocks.h>
#include <weir/moe.h>

#include <pthread.h>
#include <weir/plan.h>

enum { TIMEOUT_MS = 500, LATE_MS = 1200, SLACK_MS = 2000, MOST = 100000 };

static void nap_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static weir_comm *open_late(weir_boot *boot, const layout *where)
{
    weir_comm *comm = NULL;
    char name[2] = {where->nodes[weir_boot_rank(boot)], '\0'};
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    net_shm_register();
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", where->nnodes ? where->transport : "shm", 1);
    config.backend = WEIR_BACKEND_HOST;
    config.timeout_ms = TIMEOUT_MS;
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
        fprintf(stderr, "# no communicator: %s\n", weir_last_error());
    return comm;
}

/* ---------------------------------------------------------------- the calls */

/* What the calls of a rank need. */
typedef struct caller {
    weir_comm *comm;
    int rank, nranks;
    float *in, *out; /* MOST */
    size_t count;
    weir_executor *executor;
    weir_plan *plan;
    weir_moe *group;
} caller;

static weir_status call_allreduce(caller *with)
{
    return weir_allreduce(with->comm, with->in, with->out, with->count, WEIR_FLOAT, WEIR_SUM, NULL);
}

static weir_status call_alltoall(caller *with)
{
    return weir_alltoall(with->comm, with->in, with->out, with->count / 4, WEIR_FLOAT, NULL);
}

static weir_status call_sendrecv(caller *with)
{
    const int to = (with->rank + 1) % with->nranks;
    const int from = (with->rank + with->nranks - 1) % with->nranks;
    return weir_sendrecv(with->comm, with->in, with->count, to, with->out, with->count, from,
                         WEIR_FLOAT, NULL);
}

static weir_status call_barrier(caller *with)
{
    return weir_comm_barrier(with->comm);
}

static weir_status call_plan(caller *with)
{
    const size_t bytes = with->count * sizeof(float);
    return weir_executor_run(with->executor, with->plan, with->in, with->out, bytes, bytes,
                             WEIR_FLOAT, WEIR_SUM, NULL);
}

static weir_status call_moe(caller *with)
{
    static const int32_t experts[2] = {0, 1};
    weir_moe_dispatch_args args = WEIR_MOE_DISPATCH_ARGS_INIT;
    const weir_moe_info info = weir_moe_get_info(with->group);
    args.tokens = 2;
    args.x = with->in;
    args.topk_experts = experts;
    args.topk_dtype = WEIR_INT32;
    args.rows = with->out;
    args.rows_bytes = info.recv_bytes;
    args.expert_counts = (int32_t *)(with->out + MOST / 2);
    args.source_counts = (int32_t *)(with->out + MOST / 2 + 64);
    return weir_moe_dispatch(with->group, &args);
}

typedef struct repeated_call {
    layout where;
    weir_status (*call)(caller *with);
    size_t count;
} repeated_call;

static int open_caller(caller *with, weir_comm *comm, size_t count, int *failures)
{
    const weiri_plan_example_options options = {.nranks = weir_comm_nranks(comm), .instances = 1};
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    *with = (caller){.comm = comm,
                     .rank = weir_comm_rank(comm),
                     .nranks = weir_comm_nranks(comm),
                     .in = calloc(MOST, sizeof(float)),
                     .out = calloc(MOST, sizeof(float)),
                     .count = count};
    config.max_tokens = 2;
    config.hidden = 64;
    config.experts = 2 * with->nranks;
    config.topk = 1;
    EXPECT_OK(failures, weir_moe_create(comm, &config, &with->group));
    if (with->nranks > 1) {
        EXPECT_OK(failures, weiri_plan_example_make(weiri_plan_example_find("allreduce_ring"),
                                                    &options, &with->plan));
        if (!comm->internode)
            EXPECT_OK(failures, weir_executor_create(comm, &with->executor));
    }
    return !*failures;
}

static void close_caller(caller *with)
{
    weir_executor_destroy(with->executor);
    weir_plan_free(with->plan);
    weir_moe_free(with->group);
    weir_comm_destroy(with->comm);
    free(with->in);
    free(with->out);
}

/* --------------------------------------------- a call repeated after its deadline */

/* The last rank is late. The others repeat the call, which has timed out, while it makes it; and
 * it, too, goes on. */
static int repeat_body(weir_boot *boot, void *argument)
{
    const repeated_call *test = argument;
    int failures = 0;
    caller with;
    weir_comm *comm = open_late(boot, &test->where);
    if (!comm || !open_caller(&with, comm, test->count, &failures))
        return NO_COMM;
    const int is_late = with.rank == with.nranks - 1;
    EXPECT_OK(&failures, test->call(&with));
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (is_late)
        nap_ms(LATE_MS);
    for (int i = 0; i < 4; i++) {
        const weir_status status = test->call(&with);
        /* Across nodes long data may delay the news. */
        const int may_time_out = i == 0 && (!is_late || test->where.nnodes);
        EXPECT(&failures,
               status == WEIR_ERR_ABORTED || (may_time_out && status == WEIR_ERR_TIMEOUT));
        if (!is_late)
            nap_ms(LATE_MS / 3); /* calls while the late rank does */
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    close_caller(&with);
    return failures;
}

static void test_repeated(void **state)
{
    const repeated_call *test = *state;
    run_ranks(ranks_of(&test->where), repeat_body, *state);
}

/* ------------------------------------------------------------ waits of set-up */

/* A function that waits for rank 1, which does not call it; begin is what all ranks call before. */
typedef struct setup_wait {
    const char *name;
    weir_status (*call)(weir_comm *comm, weir_mem *mem, weir_conn *conn);
    int on_one_node; /* only there */
} setup_wait;

static weir_status wait_connect(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_conn *made = NULL;
    (void)mem;
    (void)conn;
    return weir_connect(comm, 1, 1, WEIR_TRANSPORT_AUTO, &made);
}

static weir_status wait_sem(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_sem *made = NULL;
    (void)comm;
    (void)mem;
    return weir_sem_create(conn, &made);
}

static weir_status wait_recv(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_mem *got = NULL;
    (void)mem;
    (void)conn;
    return weir_mem_recv(comm, 1, 3, &got);
}

static weir_status wait_exchange(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_mem *all[2];
    (void)conn;
    return weir_mem_exchange(comm, mem, all);
}

static weir_status wait_symmetric(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    (void)comm;
    (void)conn;
    return weir_mem_symmetric(mem);
}

static weir_status wait_split(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_comm *made = NULL;
    (void)mem;
    (void)conn;
    return weir_comm_split(comm, 0, 0, NULL, &made);
}

static weir_status wait_moe(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    weir_moe *made = NULL;
    (void)mem;
    (void)conn;
    config.max_tokens = 4;
    config.hidden = 64;
    config.experts = 2;
    config.topk = 1;
    return weir_moe_create(comm, &config, &made);
}

static weir_status wait_executor(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_executor *executor = NULL;
    (void)mem;
    (void)conn;
    return weir_executor_create(comm, &executor);
}

static weir_executor *made_before;

static weir_status wait_plan(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    const weiri_plan_example_options two = {.nranks = 2, .instances = 1};
    weir_plan *plan = NULL;
    float *data = weir_mem_pointer(mem);
    (void)comm;
    (void)conn;
    weir_status status =
        weiri_plan_example_make(weiri_plan_example_find("allreduce_ring"), &two, &plan);
    if (status == WEIR_OK)
        status = weir_executor_run(made_before, plan, data, data + 64, 256, 256, WEIR_FLOAT,
                                   WEIR_SUM, NULL);
    weir_plan_free(plan);
    return status;
}

static weir_status context_key(void *state, weir_comm *comm, const weir_call *call,
                               weir_algo_key *key)
{
    (void)state;
    (void)comm;
    (void)call;
    (void)key;
    return WEIR_OK;
}

static weir_status context_create(void *state, weir_comm *comm, const weir_call *call,
                                  void **context)
{
    (void)state;
    (void)comm;
    (void)call;
    *context = NULL;
    return WEIR_OK;
}

static void context_destroy(void *state, void *context)
{
    (void)state;
    (void)context;
}

static weir_status launch_nothing(void *state, void *context, weir_comm *comm,
                                  const weir_call *call)
{
    (void)state;
    (void)context;
    (void)comm;
    (void)call;
    return WEIR_OK;
}

static weir_status wait_context(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    static const weir_algo_ops ops = {.context_key = context_key,
                                      .context_create = context_create,
                                      .context_destroy = context_destroy,
                                      .launch = launch_nothing};
    weir_algo *algo = NULL;
    weir_call call = WEIR_CALL_INIT;
    (void)conn;
    call.dtype = WEIR_FLOAT;
    call.in = weir_mem_pointer(mem);
    call.out = (float *)weir_mem_pointer(mem) + 64;
    call.count = 64;
    weir_status status = weir_algo_create("nothing", WEIR_COLL_ALLREDUCE, &ops, NULL, &algo);
    return status == WEIR_OK ? weir_algo_execute(algo, comm, &call) : status;
}

static weir_status wait_compile(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_kernel *made = NULL;
    (void)mem;
    (void)conn;
    return weir_kernel_compile(comm, "lib/algo/examples/allgather.cu", "allgather", &made);
}

static weir_blocks *blocks_before;

static weir_status wait_blocks(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    weir_blocks *made = NULL;
    (void)conn;
    return weir_blocks_create(comm, mem, NULL, &made);
}

/* Rank 1 stores no tag. */
static weir_status wait_tag(weir_comm *comm, weir_mem *mem, weir_conn *conn)
{
    (void)comm;
    (void)mem;
    (void)conn;
    return weir_blocks_wait(blocks_before, 1, 0, 1, 0);
}

static const setup_wait setup_waits[] = {
    {"connect", wait_connect, 0},
    {"sem_create", wait_sem, 0},
    {"mem_recv", wait_recv, 0},
    {"mem_exchange", wait_exchange, 0},
    {"symmetric", wait_symmetric, 1},
    {"split", wait_split, 0},
    {"moe_create", wait_moe, 0},
    {"executor", wait_executor, 1},
    {"plan", wait_plan, 1},
    {"context", wait_context, 0},
    {"kernel_compile", wait_compile, 0},
    {"blocks_create", wait_blocks, 0},
    {"blocks_wait", wait_tag, 0},
};

/* How a function is called. */
typedef struct waiting {
    const layout *where;
    const setup_wait *test;
    int aborts;
} waiting;

/* Rank 1 idles until after the deadline, or aborts soon. */
static int setup_body(weir_boot *boot, void *argument)
{
    const waiting *with = argument;
    int failures = 0;
    weir_comm *comm = open_late(boot, with->where);
    weir_mem *mem = NULL;
    weir_conn *conn = NULL;
    const int rank = weir_boot_rank(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_mem_alloc(comm, 4096, &mem));
    EXPECT_OK(&failures, weir_connect(comm, 1 - rank, 7, WEIR_TRANSPORT_AUTO, &conn));
    if (!with->where->nnodes)
        EXPECT_OK(&failures, weir_executor_create(comm, &made_before));
    EXPECT_OK(&failures, weir_blocks_create(comm, mem, NULL, &blocks_before));
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    const double begin_s = now_s();
    if (rank == 0) {
        const weir_status status = with->test->call(comm, mem, conn);
        const double took_ms = (now_s() - begin_s) * 1e3;
        EXPECT(&failures, status == (with->aborts ? WEIR_ERR_ABORTED : WEIR_ERR_TIMEOUT));
        EXPECT(&failures, took_ms < TIMEOUT_MS + SLACK_MS);
        EXPECT(&failures, with->aborts || took_ms > TIMEOUT_MS / 2);
        if (failures)
            fprintf(stderr, "# %s: status %d after %.0f ms\n", with->test->name, status, took_ms);
        return failures;
    }
    nap_ms(with->aborts ? TIMEOUT_MS / 5 : TIMEOUT_MS + SLACK_MS);
    if (with->aborts)
        weir_comm_abort(comm);
    nap_ms(TIMEOUT_MS);
    return failures;
}

static void test_setup(void **state)
{
    const layout *where = *state;
    for (size_t i = 0; i < sizeof setup_waits / sizeof *setup_waits; i++)
        for (int aborts = 0; aborts < 2; aborts++)
            if (!where->nnodes || !setup_waits[i].on_one_node)
                run_ranks(2, setup_body, &(waiting){where, &setup_waits[i], aborts});
}

/* weir_comm_create waits for a rank that does not call it. */
static int create_body(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    (void)argument;
    config.backend = WEIR_BACKEND_HOST;
    config.timeout_ms = TIMEOUT_MS;
    if (weir_boot_rank(boot) == 1) {
        nap_ms(TIMEOUT_MS + SLACK_MS / 2);
        return 0;
    }
    const double begin_s = now_s();
    EXPECT(&failures, weir_comm_create(boot, &config, &comm) == WEIR_ERR_TIMEOUT && !comm);
    EXPECT(&failures, (now_s() - begin_s) * 1e3 < TIMEOUT_MS + SLACK_MS / 4);
    return failures;
}

/* ------------------------------------------------- aborted while a call is under way */

static weir_comm *to_abort;

static weir_status launch_abort(void *state, void *context, weir_comm *comm, const weir_call *call)
{
    weir_comm_abort(comm);
    return launch_nothing(state, context, comm, call);
}

static weir_status run_abort(weiri_coll *coll, const weiri_task *task)
{
    (void)task;
    weir_comm_abort(coll->comm);
    return WEIR_OK;
}

static weir_status moe_abort(weir_moe *group, const moe_call *call, int phases)
{
    (void)group;
    (void)call;
    (void)phases;
    weir_comm_abort(to_abort);
    return WEIR_OK;
}

typedef enum aborted_call {
    IN_COLLECTIVE,
    IN_ALGORITHM,
    IN_DISPATCH,
    IN_COMBINE,
    IN_SEND,
    IN_COMPLETE,
    ABORTED_CALLS
} aborted_call;

static weir_status call_aborted_moe(caller *with, aborted_call which)
{
    weir_moe_combine_args args = WEIR_MOE_COMBINE_ARGS_INIT;
    moe_ops ops = *with->group->ops;
    const moe_ops *right = with->group->ops;
    weir_status status = WEIR_OK;
    to_abort = with->comm;
    args.rows = with->out;
    args.out = with->in;
    args.out_bytes = MOST * sizeof(float);
    if (which != IN_DISPATCH)
        status = call_moe(with);
    if (status == WEIR_OK && which == IN_COMPLETE)
        status = weir_moe_combine_send(with->group, &args);
    if (status != WEIR_OK)
        return status;
    ops.run[0] = ops.run[1] = moe_abort;
    with->group->ops = &ops;
    status = which == IN_DISPATCH  ? call_moe(with)
             : which == IN_COMBINE ? weir_moe_combine(with->group, &args)
             : which == IN_SEND    ? weir_moe_combine_send(with->group, &args)
                                   : weir_moe_combine_complete(with->group);
    with->group->ops = right;
    return status;
}

static weir_status call_aborted(caller *with, aborted_call which)
{
    static const weiri_algo row = {.info = {.collective = WEIR_COLL_ALLREDUCE, .name = "abort"},
                                   .run = run_abort};
    static const weir_algo_ops ops = {.launch = launch_abort};
    weir_call call = WEIR_CALL_INIT;
    weiri_coll *coll = NULL;
    weir_algo *algo = NULL;
    weir_status status = WEIR_OK;
    call.dtype = WEIR_FLOAT;
    call.in = with->in;
    call.out = with->out;
    call.count = 8;
    switch (which) {
    case IN_COLLECTIVE:
        status = weiri_coll_get(with->comm, &coll);
        coll->choices[WEIR_COLL_ALLREDUCE][0] =
            (weiri_choice){.max_bytes = UINT64_MAX, .algo = &row, .name = "abort"};
        return status == WEIR_OK ? weir_run(with->comm, &call) : status;
    case IN_ALGORITHM:
        status = weir_algo_create("abort", WEIR_COLL_ALLREDUCE, &ops, NULL, &algo);
        status = status == WEIR_OK ? weir_algo_execute(algo, with->comm, &call) : status;
        weir_algo_destroy(algo);
        return status;
    default:
        return call_aborted_moe(with, which);
    }
}

static int during_body(weir_boot *boot, void *argument)
{
    const layout where = {.nodes = "aa"};
    int failures = 0;
    (void)argument;
    for (int which = 0; which < ABORTED_CALLS && !failures; which++) {
        caller with;
        weir_comm *comm = open_late(boot, &where);
        if (!comm || !open_caller(&with, comm, 64, &failures))
            return NO_COMM;
        EXPECT_OK(&failures, weir_boot_barrier(boot));
        const weir_status status = call_aborted(&with, (aborted_call)which);
        EXPECT(&failures, status == WEIR_ERR_ABORTED);
        if (failures)
            fprintf(stderr, "# call %d: status %d\n", which, status);
        EXPECT_OK(&failures, weir_boot_barrier(boot));
        close_caller(&with);
    }
    return failures;
}

/* ------------------------------------------------------------------ at random */

/* A generator by Marsaglia (Xorshift RNGs, 2003). */
static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x >> 11;
}

/* An abort at a random moment of random calls. */
typedef struct random_aborts {
    layout where;
    int first, count; /* seeds; a long run has ten times as many */
} random_aborts;

typedef struct abort_later {
    weir_comm *comm;
    unsigned after_us;
} abort_later;

static void *abort_after_a_while(void *argument)
{
    const abort_later *what = argument;
    usleep(what->after_us);
    weir_comm_abort(what->comm);
    return NULL;
}

static weir_status call_split(caller *with)
{
    weir_comm *part = NULL;
    float sum = 0, one = 1;
    weir_status status = weir_comm_split(with->comm, with->rank % 2, 0, NULL, &part);
    if (status != WEIR_OK)
        return status;
    status = weir_allreduce(part, &one, &sum, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    weir_comm_destroy(part);
    return status;
}

static weir_status call_exchange(caller *with)
{
    weir_mem *own = NULL, *all[8] = {NULL};
    weir_status status = weir_mem_alloc(with->comm, 4096, &own);
    if (status == WEIR_OK && !with->comm->internode)
        status = weir_mem_exchange(with->comm, own, all);
    for (int rank = 0; rank < with->nranks; rank++)
        if (all[rank] != own)
            weir_mem_free(all[rank]);
    weir_mem_free(own);
    return status;
}

static weir_status call_at_random(caller *with, uint64_t *x)
{
    static weir_status (*const calls[])(caller *) = {call_allreduce, call_alltoall, call_sendrecv,
                                                     call_barrier,   call_moe,      call_split,
                                                     call_exchange,  call_plan};
    static const size_t counts[] = {1, 40, 3000, 20000, MOST};
    with->count = counts[next_random(x) % 5];
    return calls[next_random(x) % (with->executor ? 8 : 7)](with);
}

/* Every rank makes the same calls until one fails. Each ends soon after the abort, with ABORTED, or
 * with the deadline, or the end of a rank, that it saw first; what follows is aborted. */
static int random_body(weir_boot *boot, void *argument)
{
    enum { CALLS = 400, LATEST_US = 3000 };
    const random_aborts *test = argument;
    int failures = 0, calls = 0;
    uint64_t x = (uint64_t)test->first * 0x9e3779b97f4a7c15u + 1;
    caller with;
    weir_comm *comm = open_late(boot, &test->where);
    if (!comm || !open_caller(&with, comm, 1, &failures))
        return NO_COMM;
    const int aborter = (int)(next_random(&x) % (uint64_t)with.nranks);
    abort_later later = {comm, (unsigned)(next_random(&x) % LATEST_US)};
    pthread_t thread;
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (with.rank == aborter)
        EXPECT(&failures, pthread_create(&thread, NULL, abort_after_a_while, &later) == 0);
    const double begin_s = now_s();
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && calls++ < CALLS)
        status = call_at_random(&with, &x);
    const double took_s = now_s() - begin_s;
    if (with.rank == aborter)
        pthread_join(thread, NULL);
    EXPECT(&failures, status == WEIR_OK || status == WEIR_ERR_ABORTED ||
                          status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_PEER);
    EXPECT(&failures, took_s < (TIMEOUT_MS + LATE_MS + SLACK_MS) / 1000.0);
    if (with.rank == aborter)
        EXPECT(&failures, call_allreduce(&with) == WEIR_ERR_ABORTED);
    if (failures)
        fprintf(stderr, "# seed %d, rank %d: call %d ended with %d after %.2f s: %s\n", test->first,
                with.rank, calls, status, took_s, weir_last_error());
    close_caller(&with);
    return failures;
}

static void test_random_aborts(void **state)
{
    random_aborts test = *(random_aborts *)*state;
    if (!is_long_run())
        long_part("nine of ten random aborts");
    for (int i = test.count * (is_long_run() ? 10 : 1); i > 0; i--, test.first++)
        run_ranks(ranks_of(&test.where), random_body, &test);
}

#define REPEATED(name, call, count, ...)                                                           \
    AT(name, test_repeated, (&(repeated_call){{.nodes = __VA_ARGS__}, call, count}))
#define TCP "ab", .nnodes = 2, .transport = "tcp"
#define TCP_NODES .nodes = TCP

int main(void)
{
    static layout one_node = {.nodes = "aa"}, two_nodes = {TCP_NODES};
    const struct CMUnitTest tests[] = {
        REPEATED("repeated: allreduce, 1 element", call_allreduce, 1, "aa"),
        REPEATED("repeated: allreduce, 3000 elements", call_allreduce, 3000, "aaa"),
        REPEATED("repeated: allreduce, 100000 elements", call_allreduce, 100000, "aa"),
        REPEATED("repeated: alltoall", call_alltoall, 3000, "aa"),
        REPEATED("repeated: send and receive", call_sendrecv, 1, "aa"),
        REPEATED("repeated: long send and receive", call_sendrecv, 100000, "aa"),
        REPEATED("repeated: barrier", call_barrier, 0, "aaa"),
        REPEATED("repeated: plan", call_plan, 3000, "aa"),
        REPEATED("repeated: moe", call_moe, 0, "aa"),
        REPEATED("repeated on two nodes: allreduce, 1 element", call_allreduce, 1, TCP),
        REPEATED("repeated on two nodes: allreduce, 100000 elements", call_allreduce, 100000, TCP),
        REPEATED("repeated on two nodes: alltoall", call_alltoall, 3000, TCP),
        REPEATED("repeated on two nodes: send and receive", call_sendrecv, 3000, TCP),
        REPEATED("repeated on two nodes: barrier", call_barrier, 0, TCP),
        REPEATED("repeated on two nodes: moe", call_moe, 0, TCP),
        AT("set-up waits on one node", test_setup, &one_node),
        AT("set-up waits on two nodes", test_setup, &two_nodes),
        RANKS_TEST("the creation of a communicator waits until its deadline", 2, create_body, NULL),
        RANKS_TEST("an abort during a call", 2, during_body, NULL),
        AT("random aborts on one node", test_random_aborts,
           (&(random_aborts){{.nodes = "aaa"}, 1, 25})),
        AT("random aborts on two nodes", test_random_aborts,
           (&(random_aborts){{TCP_NODES}, 1001, 10})),
    };
    return RUN_TESTS("aborts", tests);
}
