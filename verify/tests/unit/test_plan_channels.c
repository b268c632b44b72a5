/*
 * Plans over each kind of channel give correct results on the host: ports on one node and between
 * emulated nodes, switch channels, packets over both, groups of thread blocks, barriers, semaphores
 * and loops, at lengths that are and are not divisible. The plans are generated here as JSON.
 */
#include "verify/tests/support/net_shm.h"
#include "verify/tests/support/plan_ranks.h"
#include "verify/tests/support/unit_test.h"

enum { TEXT_BYTES = 1 << 15, LARGEST_BYTES = 65536 };

typedef struct text {
    char at[TEXT_BYTES];
    size_t used;
} text;

__attribute__((format(printf, 2, 3))) static void append(text *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    to->used += (size_t)vsnprintf(to->at + to->used, TEXT_BYTES - to->used, format, arguments);
    va_end(arguments);
}

/* The k-th peer of a rank in ascending order. */
static int peer_at(int rank, int k)
{
    return k < rank ? k : k + 1;
}

static void add_peers(text *to, int rank, int nranks)
{
    for (int k = 0; k < nranks - 1; k++)
        append(to, "%s%d", k ? "," : "", peer_at(rank, k));
}

static void add_numbers(text *to, int count)
{
    for (int i = 0; i < count; i++)
        append(to, "%s%d", i ? "," : "", i);
}

typedef struct shape {
    const char *name, *collective, *keys; /* keys: additional keys of the document */
    int nranks, in_chunks, out_chunks, scratch_chunks, nblocks;
    const char *switch_buffer;
    void (*ops)(text *to, int rank, int nranks, int block);
} shape;

static void add_block(text *to, const shape *of, int rank, int block)
{
    const int peers = of->nranks - 1;
    append(to, "%s{'id':%d,'channels':[{'channel_type':'memory','channel_ids':[", block ? "," : "",
           block);
    add_numbers(to, peers);
    append(to, "]},{'channel_type':'port','channel_ids':[");
    add_numbers(to, peers);
    append(to, "]},{'channel_type':'switch','channel_ids':[0]}],'remote_buffer_refs':["
               "{'access_channel_type':'memory','remote_buffer_ids':[");
    add_numbers(to, 3 * peers);
    append(to, "]},{'access_channel_type':'port','remote_buffer_ids':[");
    add_numbers(to, 3 * peers);
    append(to, "]}],'ops':[{'name':'nop'}");
    of->ops(to, rank, of->nranks, block);
    append(to, "]}");
}

/* buffer_id 3 k + b is buffer b (0 i, 1 o, 2 s) of the k-th peer. */
static void add_rank(text *to, const shape *of, int rank)
{
    append(to, "%s{'id':%d,'input_chunks':%d,'output_chunks':%d,'scratch_chunks':%d,'channels':[",
           rank ? "," : "", rank, of->in_chunks, of->out_chunks, of->scratch_chunks);
    append(to, "{'channel_type':'memory','connected_to':[");
    add_peers(to, rank, of->nranks);
    append(to, "]},{'channel_type':'port','connected_to':[");
    add_peers(to, rank, of->nranks);
    append(to, "]},{'channel_type':'switch','buffer_type':'%s','rank_groups':[{'size':1,'ranks':[",
           of->switch_buffer);
    add_numbers(to, of->nranks);
    append(to, "]}]}],'semaphores':[{'init_value':0},{'init_value':1}],'remote_buffers':[");
    for (int id = 0; id < 3 * (of->nranks - 1); id++)
        append(to, "%s{'rank':%d,'type':'%c','access_channel_types':['memory','port']}",
               id ? "," : "", peer_at(rank, id / 3), "ios"[id % 3]);
    append(to, "],'threadblocks':[");
    for (int block = 0; block < of->nblocks; block++)
        add_block(to, of, rank, block);
    append(to, "]}");
}

/* 0 if the plan cannot be read. */
static int make(const shape *of, weir_plan **plan)
{
    static text made;
    made.used = 0;
    append(&made, "{'name':'%s','collective':'%s',%s'gpus':[", of->name, of->collective, of->keys);
    for (int rank = 0; rank < of->nranks; rank++)
        add_rank(&made, of, rank);
    append(&made, "]}");
    for (char *c = made.at; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    weir_status status = weir_plan_parse(made.at, made.used, of->name, plan);
    if (status != WEIR_OK)
        fprintf(stderr, "# %s\n", weir_last_error());
    return status == WEIR_OK;
}

/* ---------------------------------------------------------- parts of plans */

static void add_fence(text *to)
{
    append(to, ",{'name':'nop'}");
}

/* Signals all peers, or waits for all, with fences before and after. */
static void add_all(text *to, const char *name, const char *type, int nranks)
{
    add_fence(to);
    append(to, ",{'name':'%s','channel_type':'%s','channel_ids':[", name, type);
    add_numbers(to, nranks - 1);
    append(to, "]}");
    add_fence(to);
}

static void add_barrier(text *to, const char *type, int nranks)
{
    add_all(to, "signal", type, nranks);
    add_all(to, "wait", type, nranks);
}

/* A move of one chunk between places in this rank's memory. */
static void add_local(text *to, const char *name, char from, int i, char there, int j)
{
    append(to,
           ",{'name':'%s','src_buff':[{'type':'%c','index':%d,'size':1}],"
           "'dst_buff':[{'type':'%c','index':%d,'size':1}]}",
           name, from, i, there, j);
}

/* A put of one chunk to buffer b (0 i, 1 o, 2 s) of the k-th peer. */
static void add_put(text *to, const char *name, const char *type, char from, int i, int k, int b,
                    int j)
{
    append(to,
           ",{'name':'%s','channel_type':'%s','channel_ids':[%d],"
           "'src_buff':[{'type':'%c','index':%d,'size':1}],"
           "'dst_buff':[{'buffer_id':%d,'index':%d,'size':1}]}",
           name, type, k, from, i, 3 * k + b, j);
}

/* ------------------------------------------------------------------- plans */

/* Every rank puts each chunk to the rank that reduces it, and puts its reduced chunk to all. */
static void port_allreduce(text *to, int rank, int nranks, int block)
{
    (void)block;
    for (int k = 0; k < nranks - 1; k++)
        add_put(to, k ? "put" : "pws", "port", 'i', peer_at(rank, k), k, 2, rank);
    for (int k = 1; k < nranks - 1; k++)
        append(to, ",{'name':'signal','channel_type':'port','channel_ids':[%d]}", k);
    add_all(to, "wait", "port", nranks);
    append(to, ",{'name':'re','src_buff':[{'type':'i','index':%d,'size':1}", rank);
    for (int k = 0; k < nranks - 1; k++)
        append(to, ",{'type':'s','index':%d,'size':1}", peer_at(rank, k));
    append(to, "],'dst_buff':[{'type':'o','index':%d,'size':1}]}", rank);
    add_fence(to);
    for (int k = 0; k < nranks - 1; k++)
        add_put(to, "pwsf", "port", 'o', rank, k, 1, rank);
    add_all(to, "wait", "port", nranks);
    add_all(to, "flush", "port", nranks);
}

/* The proxy puts packets. */
static void port_packets(text *to, int rank, int nranks, int block)
{
    (void)block;
    add_local(to, "cpkt", 'o', rank, 's', nranks);
    add_fence(to);
    for (int k = 0; k < nranks - 1; k++)
        add_put(to, "ppkt", "port", 's', nranks, k, 2, rank);
    for (int k = 0; k < nranks - 1; k++)
        add_local(to, "upkt", 's', peer_at(rank, k), 'o', peer_at(rank, k));
}

static void group_allgather(text *to, int rank, int nranks, int block)
{
    (void)block;
    add_barrier(to, "memory", nranks);
    append(to,
           ",{'name':'gstore','channel_type':'switch','src_buff':[{'type':'i','index':0,"
           "'size':1}],'dst_buff':[{'switch_channel_id':0,'index':%d,'size':1}]}",
           rank);
    add_barrier(to, "memory", nranks);
}

static void group_reduce_scatter(text *to, int rank, int nranks, int block)
{
    (void)block;
    add_barrier(to, "memory", nranks);
    append(to,
           ",{'name':'glre','channel_type':'switch','src_buff':[{'switch_channel_id':0,"
           "'index':%d,'size':2}],'dst_buff':[{'type':'o','index':0,'size':2}]}",
           2 * rank);
    add_barrier(to, "memory", nranks);
}

static void group_packets(text *to, int rank, int nranks, int block)
{
    (void)block;
    add_local(to, "cpkt", 'o', rank, 's', nranks);
    append(to,
           ",{'name':'gstorepkt','channel_type':'switch','src_buff':[{'type':'s','index':%d,"
           "'size':1}],'dst_buff':[{'switch_channel_id':0,'index':%d,'size':1}]}",
           nranks, rank);
    for (int k = 0; k < nranks - 1; k++)
        add_local(to, "upkt", 's', peer_at(rank, k), 'o', peer_at(rank, k));
}

/* Three thread blocks divide the reduction of all inputs; two of them first copy, in a loop, under
 * a semaphore that admits one at a time. */
static void blocks_allreduce(text *to, int rank, int nranks, int block)
{
    if (block < 2) {
        append(to, ",{'name':'pipeline','iter_context':{'unit_size':48,'num_chunks':2},'ops':["
                   "{'name':'sem_acquire','semaphore_ids':[1]},{'name':'nop'}");
        append(to,
               ",{'name':'copy','src_buff':[{'type':'i','index':%d,'size':2}],"
               "'dst_buff':[{'type':'s','index':%d,'size':2}]}",
               2 * block, 2 * block);
        add_fence(to);
        append(to, ",{'name':'sem_release','semaphore_ids':[1]}]}");
        append(to, ",{'name':'sem_release','semaphore_ids':[0]}");
    } else {
        append(to, ",{'name':'sem_acquire','semaphore_ids':[0,0]}");
        add_barrier(to, "memory", nranks);
    }
    append(to, ",{'name':'barrier','barrier_id':5,'num_threadblocks':3}");
    append(to,
           ",{'name':'rre','channel_type':'memory','tbg_info':{'tb_id':%d,'tbg_size':3},"
           "'src_buff':[{'type':'s','index':0,'size':4}",
           block);
    for (int k = 0; k < nranks - 1; k++)
        append(to, ",{'buffer_id':%d,'index':0,'size':4}", 3 * k + 2);
    append(to, "],'dst_buff':[{'type':'o','index':0,'size':4}]}");
    append(to, ",{'name':'barrier','barrier_id':5,'num_threadblocks':3}");
    (void)rank;
    if (block == 2)
        add_barrier(to, "memory", nranks);
}

/* One rank alone. */
static void copy_alone(text *to, int rank, int nranks, int block)
{
    (void)rank, (void)nranks, (void)block;
    add_local(to, "copy", 'i', 0, 'o', 0);
}

#define DOUBLE "'use_double_scratch_buffer':true,"
static const shape shapes[] = {
    {"port allreduce", "allreduce", DOUBLE, 3, 3, 3, 3, 1, "i", port_allreduce},
    {"port packets", "allgather", DOUBLE "'inplace':true,", 3, 1, 3, 4, 1, "i", port_packets},
    {"group store", "allgather", "", 3, 1, 3, 0, 1, "o", group_allgather},
    {"group reduce", "reduce_scatter", "'inplace':true,", 3, 6, 2, 0, 1, "i", group_reduce_scatter},
    {"group packets", "allgather", DOUBLE "'inplace':true,", 3, 1, 3, 4, 1, "s", group_packets},
    {"blocks", "allreduce", "", 3, 4, 4, 4, 3, "i", blocks_allreduce},
    {"alone", "allreduce", "", 1, 1, 1, 0, 1, "i", copy_alone},
};

/* ------------------------------------------------------------------- ranks */

typedef struct subject {
    const shape *of;
    int nhosts;            /* emulated nodes */
    const char *transport; /* between them; NULL: one node */
    weir_status expected;
} subject;

static int use_plan(plan_rank *with, const weir_plan *plan, weir_status expected)
{
    static const size_t lengths[] = {8, 52, 1004, 3 * 1024, LARGEST_BYTES};
    int failures = 0;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int round = 0; round < 12 && !failures; round++) {
            const plan_use use = {.plan = plan,
                                  .block_bytes = lengths[l],
                                  .dtype = round & 1 ? WEIR_INT32 : WEIR_FLOAT,
                                  .op = round & 4 ? WEIR_MAX : WEIR_SUM,
                                  .in_place = round >> 1 & 1,
                                  .is_plain = round % 3 == 2,
                                  .skew = round % 5 * 4};
            if (expected == WEIR_OK)
                failures += plan_call(with, &use, round);
            else
                EXPECT(&failures,
                       weir_executor_run(with->executor, plan, with->plain[0], with->plain[1], 8, 8,
                                         WEIR_FLOAT, WEIR_SUM, NULL) == expected);
        }
    return failures;
}

static int subject_body(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    plan_rank with = {0};
    weir_plan *plan = NULL;
    char host[32];
    int failures = 0;
    if (what->transport) {
        snprintf(host, sizeof host, "host%d", weir_boot_rank(boot) % what->nhosts);
        net_shm_register();
        setenv("WEIR_HOSTID", host, 1);
        setenv("WEIR_TRANSPORT", what->transport, 1);
    }
    EXPECT_OK(&failures, plan_rank_open(&with, boot, 3 * LARGEST_BYTES));
    EXPECT(&failures, make(what->of, &plan));
    if (!failures)
        failures += use_plan(&with, plan, what->expected);
    weir_plan_free(plan);
    plan_rank_close(&with);
    return failures;
}

static void plan_gives_right_results(void **state)
{
    const subject *what = *state;
    weir_plan *plan = NULL;
    if (weir_plan_parse("{}", 2, "test", &plan) == WEIR_ERR_UNSUPPORTED)
        skip();
    run_ranks(what->of->nranks, subject_body, *state);
}

static subject subjects[] = {
    {&shapes[0], 1, NULL, WEIR_OK},  {&shapes[1], 1, NULL, WEIR_OK},
    {&shapes[2], 1, NULL, WEIR_OK},  {&shapes[3], 1, NULL, WEIR_OK},
    {&shapes[4], 1, NULL, WEIR_OK},  {&shapes[5], 1, NULL, WEIR_OK},
    {&shapes[0], 2, "tcp", WEIR_OK}, {&shapes[1], 3, "tcp", WEIR_OK},
    {&shapes[0], 3, "shm", WEIR_OK}, {&shapes[5], 2, "shm", WEIR_ERR_UNSUPPORTED},
    {&shapes[6], 1, NULL, WEIR_OK},
};
#define SUBJECT(name, i) TEST_CASE(name, plan_gives_right_results, &subjects[i])
SUBJECT("ports: put, signal, flush", 0)
SUBJECT("ports: packets", 1)
SUBJECT("switch: store to the group", 2)
SUBJECT("switch: reduce over the group", 3)
SUBJECT("switch: packets to the group", 4)
SUBJECT("thread blocks: parts, barriers, semaphores, loops", 5)
SUBJECT("ports between two nodes over tcp", 6)
SUBJECT("ports: packets between three nodes over tcp", 7)
SUBJECT("ports between three nodes over shared memory", 8)
SUBJECT("memory channels between nodes are rejected", 9)
SUBJECT("one rank alone", 10)

int main(void)
{
    return run_all_tests("plan_channels");
}
