/*
 * Plans on the host: sample plans of MSCCL++'s DSL give correct results on their number of ranks,
 * at lengths that are and are not divisible, in and out of place, in repeated calls; wrong calls
 * are rejected before anything runs; two communicators run at a time; dead and silent ranks are
 * reported. Tests of samples are skipped where the files of PLAN_SAMPLES are absent.
 */
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/plan_ranks.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

#include "plan/examples/examples.h"

#include <signal.h>

enum { MEMORY_BYTES = 1 << 21 };

/* Few long calls, as ranks mostly wait for a core; more short calls than packets have flags. */
typedef struct length {
    size_t bytes; /* of the message or, if is_block, of each block */
    int is_block, rounds;
} length;
static const length lengths[] = {
    {1024, 0, 35}, {1 << 20, 0, 1}, {1004, 1, 4}, {52, 1, 4}, {8, 1, 4}};

static int read_sample(const char *name, weir_plan **plan)
{
    char path[128];
    snprintf(path, sizeof path, PLAN_SAMPLES "%s", name);
    if (access(path, R_OK) != 0)
        return 0;
    if (weir_plan_read(path, plan) == WEIR_OK)
        return 1;
    fprintf(stderr, "# %s\n", weir_last_error());
    return 0;
}

static size_t block_of(const plan_rank *with, const weir_plan *plan, const length *of)
{
    return of->is_block || plan_collective(plan) == WEIR_COLL_ALLREDUCE
               ? of->bytes
               : of->bytes / (size_t)with->nranks;
}

/* Runs all lengths, types, operations and placements; calls differ in data and alignment. */
static int use_plan(plan_rank *with, const weir_plan *plan)
{
    int failures = 0;
    const int reduces = plan_collective(plan) == WEIR_COLL_ALLREDUCE;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int variant = 0; variant < (reduces ? 8 : 4); variant++)
            for (int round = 0; round < lengths[l].rounds && !failures; round++) {
                const plan_use use = {.plan = plan,
                                      .block_bytes = block_of(with, plan, &lengths[l]),
                                      .dtype = variant & 1 ? WEIR_INT32 : WEIR_FLOAT,
                                      .op = variant & 4 ? WEIR_MAX : WEIR_SUM,
                                      .in_place = variant >> 1 & 1,
                                      .is_plain = round % 5 == 4 || (variant & 3) == 3,
                                      .skew = round % 3 * 4};
                failures += plan_call(with, &use, round + variant);
            }
    return failures;
}

/* Calls `use` with a sample plan on a rank; returns the failures. */
static int with_sample(weir_boot *boot, const char *name,
                       int (*use)(plan_rank *with, const weir_plan *plan))
{
    plan_rank with = {0};
    weir_plan *plan = NULL;
    int failures = 0;
    EXPECT_OK(&failures, plan_rank_open(&with, boot, MEMORY_BYTES));
    EXPECT(&failures, read_sample(name, &plan));
    if (!failures)
        failures += use(&with, plan);
    weir_plan_free(plan);
    plan_rank_close(&with);
    return failures;
}

/* Runs body on as many ranks as a sample is made for; skips the test if it does not exist. */
static void run_sample(char *name, int (*body)(weir_boot *boot, void *argument))
{
    weir_plan *plan = NULL;
    if (!read_sample(name, &plan))
        skip();
    int nranks = weir_plan_nranks(plan);
    weir_plan_free(plan);
    run_ranks(nranks, body, name);
}

static int sample_body(weir_boot *boot, void *argument)
{
    return with_sample(boot, argument, use_plan);
}

/* The state is the sample's name. */
static void sample_is_right(void **state)
{
    run_sample(*state, sample_body);
}

#define SAMPLE(file) TEST_CASE("sample " file, sample_is_right, file)
SAMPLE("exec_reduce.json")
SAMPLE("exec_transfer_pack.json")
SAMPLE("single_node_allgather_pkt.8.json")
SAMPLE("single_node_allreduce.8.json")
SAMPLE("single_node_allreduce_pipeline.8.json")
SAMPLE("single_node_allreduce_pkt.8.json")
SAMPLE("single_node_alltoall_alltoall.8.json")

/* ------------------------------------------------------------ all types, ops */

enum { TYPED_COUNT = 103 };

/* Elements are 1 or 2, so that products and averages are exact in all types. */
static void fill_typed(char *to, weir_dtype dtype, int rank)
{
    static const unsigned char one[WEIR_DTYPE_COUNT][8] = {
        [WEIR_INT8] = {1},
        [WEIR_UINT8] = {1},
        [WEIR_INT32] = {1},
        [WEIR_UINT32] = {1},
        [WEIR_INT64] = {1},
        [WEIR_UINT64] = {1},
        [WEIR_HALF] = {0, 0x3c},
        [WEIR_FLOAT] = {0, 0, 0x80, 0x3f},
        [WEIR_DOUBLE] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f},
        [WEIR_BFLOAT16] = {0x80, 0x3f},
        [WEIR_FP8_E4M3] = {0x38},
        [WEIR_FP8_E5M2] = {0x3c}};
    static const unsigned char two[WEIR_DTYPE_COUNT][8] = {
        [WEIR_INT8] = {2},
        [WEIR_UINT8] = {2},
        [WEIR_INT32] = {2},
        [WEIR_UINT32] = {2},
        [WEIR_INT64] = {2},
        [WEIR_UINT64] = {2},
        [WEIR_HALF] = {0, 0x40},
        [WEIR_FLOAT] = {0, 0, 0, 0x40},
        [WEIR_DOUBLE] = {0, 0, 0, 0, 0, 0, 0, 0x40},
        [WEIR_BFLOAT16] = {0, 0x40},
        [WEIR_FP8_E4M3] = {0x40},
        [WEIR_FP8_E5M2] = {0x40}};
    size_t bytes = weir_dtype_bytes(dtype);
    for (size_t i = 0; i < TYPED_COUNT; i++)
        memcpy(to + i * bytes, (i + (size_t)rank) % 3 ? one[dtype] : two[dtype], bytes);
}

/* The plan's allreduce gives the bits of the library's. */
static int use_types(plan_rank *with, const weir_plan *plan)
{
    int failures = 0;
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT && !failures; dtype++)
        for (int op = 0; op < WEIR_OP_COUNT && !failures; op++) {
            const uint64_t bytes = TYPED_COUNT * weir_dtype_bytes((weir_dtype)dtype);
            char *in = weir_mem_pointer(with->memory[0]), *out = weir_mem_pointer(with->memory[1]);
            char *expected = with->plain[0];
            fill_typed(in, (weir_dtype)dtype, with->rank);
            EXPECT_OK(&failures, weir_allreduce(with->comm, in, expected, TYPED_COUNT,
                                                (weir_dtype)dtype, (weir_op)op, NULL));
            EXPECT_OK(&failures, weir_executor_run(with->executor, plan, in, out, bytes, bytes,
                                                   (weir_dtype)dtype, (weir_op)op, NULL));
            EXPECT(&failures, memcmp(out, expected, bytes) == 0);
            if (failures)
                fprintf(stderr, "# %s %s\n", weir_dtype_name((weir_dtype)dtype),
                        weir_op_name((weir_op)op));
        }
    return failures;
}

static int typed_body(weir_boot *boot, void *argument)
{
    return with_sample(boot, argument, use_types);
}

static void types_match_the_library(void **state)
{
    run_sample(*state, typed_body);
}

TEST_CASE("all types and operations give the library's bits", types_match_the_library,
          "single_node_allreduce.8.json")
TEST_CASE("all types and operations give the library's bits as packets", types_match_the_library,
          "single_node_allreduce_pkt.8.json")

/* -------------------------------------------------- plans of two ranks */

/* An allreduce of two ranks: each puts one half into the peer's scratch, and reduces the other half
 * into both outputs. OP is replaced by the operation, KEYS by additional keys. */
#define PAIR_RANK(id, peer, own, other)                                                            \
    "{'id':" #id ",'input_chunks':2,'output_chunks':2,'scratch_chunks':2,'channels':["             \
    "{'channel_type':'memory','connected_to':[" #peer "]}],'remote_buffers':["                     \
    "{'rank':" #peer ",'type':'s','access_channel_types':['memory']},"                             \
    "{'rank':" #peer ",'type':'o','access_channel_types':['memory']}],"                            \
    "'threadblocks':[{'id':0,'channels':[{'channel_type':'memory','channel_ids':[0]}],"            \
    "'remote_buffer_refs':[{'access_channel_type':'memory','remote_buffer_ids':[0,1]}],'ops':["    \
    "{'name':'pws','channel_type':'memory','channel_ids':[0],"                                     \
    "'src_buff':[{'type':'i','index':" #other ",'size':1}],"                                       \
    "'dst_buff':[{'buffer_id':0,'index':" #other ",'size':1}]},"                                   \
    "{'name':'wait','channel_type':'memory','channel_ids':[0]},{'name':'nop'},"                    \
    "{'name':'res','channel_type':'memory','reduce_op':'OP',"                                      \
    "'src_buff':[{'type':'i','index':" #own ",'size':1},"                                          \
    "{'type':'s','index':" #own ",'size':1}],"                                                     \
    "'dst_buff':[{'type':'o','index':" #own ",'size':1},"                                          \
    "{'buffer_id':1,'index':" #own ",'size':1}]},{'name':'nop'},"                                  \
    "{'name':'signal','channel_type':'memory','channel_ids':[0]},"                                 \
    "{'name':'wait','channel_type':'memory','channel_ids':[0]}]}]}"
static const char pair_text[] =
    "{'name':'pair','collective':'allreduce','use_double_scratch_buffer':true,KEYS'gpus':"
    "[" PAIR_RANK(0, 1, 0, 1) "," PAIR_RANK(1, 0, 1, 0) "]}";

/* Parses JSON that has ' in place of ". */
static int parse(char *text, weir_plan **plan)
{
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    weir_status status = weir_plan_parse(text, strlen(text), "test", plan);
    if (status != WEIR_OK && status != WEIR_ERR_UNSUPPORTED)
        fprintf(stderr, "# %s\n", weir_last_error());
    return status == WEIR_OK;
}

static int make_pair(const char *keys, const char *op, weir_plan **plan)
{
    char text[4096] = "";
    size_t used = 0;
    for (const char *c = pair_text; *c;) {
        const char *put = strncmp(c, "KEYS", 4) == 0 ? keys : strncmp(c, "OP", 2) == 0 ? op : NULL;
        if (put)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", put);
        else
            text[used++] = *c;
        c += !put ? 1 : put == keys ? 4 : 2;
    }
    return parse(text, plan);
}

/* Opens a rank with the pair's plan for sums; returns the failures. */
static int open_pair(plan_rank *with, weir_boot *boot, weir_plan **plan)
{
    int failures = 0;
    EXPECT_OK(&failures, plan_rank_open(with, boot, 4096));
    EXPECT(&failures, make_pair("", "sum", plan));
    return failures;
}

/* Skips the test if this build cannot read plans. */
static void need_reader(void)
{
    weir_plan *plan = NULL;
    int has = make_pair("", "sum", &plan);
    weir_plan_free(plan);
    if (!has)
        skip();
}

static int rejected(weir_status status, weir_status expected, const char *word)
{
    if (status == expected && strstr(weir_last_error(), word))
        return 1;
    fprintf(stderr, "# expected '%s', got status %d: %s\n", word, status,
            status == WEIR_OK ? "" : weir_last_error());
    return 0;
}

/* Wrong calls are rejected on all ranks before anything runs; then a correct call succeeds. */
static int refusals_body(weir_boot *boot, void *argument)
{
    plan_rank with = {0};
    weir_plan *plan = NULL, *maximum = NULL;
    int failures = 0;
    (void)argument;
    EXPECT_OK(&failures, plan_rank_open(&with, boot, 4096));
    EXPECT(&failures, make_pair("'min_message_size':64,'max_message_size':128,", "sum", &plan));
    EXPECT(&failures, make_pair("", "max", &maximum));
    if (failures)
        return failures;
    char *in = weir_mem_pointer(with.memory[0]), *out = weir_mem_pointer(with.memory[1]);
    weir_executor *executor = with.executor;
    int two = with.nranks == 2;
#define RUN(plan, out, in_bytes, out_bytes, op)                                                    \
    weir_executor_run(executor, plan, in, out, in_bytes, out_bytes, WEIR_FLOAT, op, NULL)
    if (!two)
        EXPECT(&failures, rejected(RUN(plan, out, 64, 64, WEIR_SUM), WEIR_ERR_INVALID, "2 ranks"));
    for (int again = 0; two && again < 2; again++) {
        EXPECT(&failures, rejected(RUN(plan, out, 60, 60, WEIR_SUM), WEIR_ERR_INVALID, "range"));
        EXPECT(&failures, rejected(RUN(plan, out, 132, 132, WEIR_SUM), WEIR_ERR_INVALID, "range"));
        EXPECT(&failures, rejected(RUN(plan, out, 65, 65, WEIR_SUM), WEIR_ERR_INVALID, "element"));
        EXPECT(&failures, rejected(RUN(plan, out, 64, 68, WEIR_SUM), WEIR_ERR_INVALID, "lengths"));
        EXPECT(&failures, rejected(RUN(plan, NULL, 64, 64, WEIR_SUM), WEIR_ERR_INVALID, "NULL"));
        EXPECT(&failures,
               rejected(RUN(maximum, out, 64, 64, WEIR_SUM), WEIR_ERR_INVALID, "with max"));
        EXPECT_OK(&failures, RUN(maximum, out, 0, 0, WEIR_MAX));
        const plan_use good = {plan, 64, WEIR_FLOAT, WEIR_SUM, 0, 0, 0};
        const plan_use best = {maximum, 64, WEIR_FLOAT, WEIR_MAX, 0, 0, 0};
        failures += plan_call(&with, &good, again) + plan_call(&with, &best, again);
    }
#undef RUN
    weir_plan_free(plan);
    weir_plan_free(maximum);
    plan_rank_close(&with);
    return failures;
}

TEST(wrong_calls_are_rejected_before_anything_runs)
{
    need_reader();
    run_ranks(2, refusals_body, NULL);
    run_ranks(3, refusals_body, NULL);
}

/* Ranks that call with different lengths get an error and do not hang. */
static int mismatch_body(weir_boot *boot, void *argument)
{
    plan_rank with = {0};
    weir_plan *plan = NULL;
    int failures = open_pair(&with, boot, &plan);
    (void)argument;
    uint64_t bytes = with.rank ? 64 : 128;
    EXPECT(&failures, rejected(weir_executor_run(with.executor, plan, with.plain[0], with.plain[1],
                                                 bytes, bytes, WEIR_FLOAT, WEIR_SUM, NULL),
                               WEIR_ERR_MISMATCH, "same lengths"));
    weir_plan_free(plan);
    plan_rank_close(&with);
    return failures;
}

TEST(ranks_with_different_lengths_get_an_error)
{
    need_reader();
    run_ranks(2, mismatch_body, NULL);
}

/* A broadcast or reduce where a rank has only one buffer: the other one is not accessed, and an
 * average is divided only on the root. */
static int rooted_body(weir_boot *boot, void *argument)
{
    plan_rank with = {0};
    int failures = 0;
    (void)argument;
    EXPECT_OK(&failures, plan_rank_open(&with, boot, 4096));
    for (int variant = 0; variant < 8 && !failures; variant++) {
        const int reduces = variant & 1, is_plain = variant >> 2 & 1, is_root = with.rank == 0;
        const weiri_plan_example_options how = {.nranks = 2, .in_place = variant >> 1 & 1};
        weir_plan *plan = NULL;
        EXPECT_OK(&failures,
                  weiri_plan_example_make(
                      weiri_plan_example_find(reduces ? "reduce_direct" : "broadcast_direct"), &how,
                      &plan));
        float *in = is_plain ? (void *)with.plain[0] : weir_mem_pointer(with.memory[0]);
        float *out = is_plain ? (void *)with.plain[1] : weir_mem_pointer(with.memory[1]);
        for (int i = 0; i < 5; i++) {
            in[i] = (float)(4 + 8 * with.rank + i);
            out[i] = -1;
        }
        EXPECT_OK(&failures, weir_executor_run(with.executor, plan, reduces || is_root ? in : NULL,
                                               reduces && !is_root ? NULL : out, 20, 20, WEIR_FLOAT,
                                               WEIR_AVG, NULL));
        for (int i = 0; i < 5; i++) {
            const float result = (float)(i + (reduces ? 8 : 4));
            EXPECT(&failures, in[i] == (float)(4 + 8 * with.rank + i));
            EXPECT(&failures, out[i] == (reduces && !is_root ? -1 : result));
        }
        weir_plan_free(plan);
    }
    plan_rank_close(&with);
    return failures;
}

TEST(input_of_broadcast_and_output_of_reduce_may_be_absent)
{
    run_ranks(2, rooted_body, NULL);
}

/* Uses more lengths than an executor keeps contexts for, alternating between two communicators,
 * with plans that are read anew: old contexts are evicted, memory does not grow. */
static int eviction_body(weir_boot *boot, void *argument)
{
    plan_rank with[2] = {{0}, {0}};
    int failures = 0, maps = 0;
    (void)argument;
    for (int i = 0; i < 2; i++)
        EXPECT_OK(&failures, plan_rank_open(&with[i], boot, 8192));
    for (int round = 0; round < 120 && !failures; round++) {
        weir_plan *plan = NULL;
        EXPECT(&failures, make_pair("", "sum", &plan));
        for (int i = 0; i < 2 && !failures; i++) {
            const size_t bytes = 8 + 4 * (size_t)(round % 40);
            const plan_use use = {plan, bytes, WEIR_FLOAT, WEIR_SUM, round & 1, i, 0};
            failures += plan_call(&with[i], &use, round) + plan_call(&with[i], &use, round + 1);
        }
        weir_plan_free(plan);
        if (round == 79)
            maps = count_steady_maps();
    }
    EXPECT(&failures, count_steady_maps() <= maps + 2);
    for (int i = 0; i < 2; i++)
        plan_rank_close(&with[i]);
    return failures;
}

TEST(two_communicators_reuse_and_evict_contexts)
{
    need_reader();
    run_ranks(2, eviction_body, NULL);
}

/* A rank dies while the other waits for it: the error names the dead rank. */
static int death_body(weir_boot *boot, void *argument)
{
    plan_rank with = {0};
    weir_plan *plan = NULL;
    int failures = open_pair(&with, boot, &plan);
    (void)argument;
    const plan_use use = {plan, 64, WEIR_FLOAT, WEIR_SUM, 0, 0, 0};
    failures += plan_call(&with, &use, 0);
    if (with.rank == 1)
        raise(SIGKILL);
    weir_status status =
        weir_executor_run(with.executor, plan, weir_mem_pointer(with.memory[0]),
                          weir_mem_pointer(with.memory[1]), 64, 64, WEIR_FLOAT, WEIR_SUM, NULL);
    EXPECT(&failures, rejected(status, WEIR_ERR_PEER, "rank 1 has died"));
    return failures;
}

TEST(a_dead_rank_is_named)
{
    int codes[2];
    need_reader();
    assert_int_equal(weir_boot_fork_run(2, death_body, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 128 + SIGKILL);
}

/* Rank 0 signals that it has begun, and waits for a signal that rank 1 never sends. %s: the
 * operations of rank 1. */
static const char late_text[] =
    "{'name':'late','collective':'allreduce','gpus':["
    "{'id':0,'input_chunks':1,'output_chunks':1,'channels':["
    "{'channel_type':'memory','connected_to':[1]}],'threadblocks':["
    "{'id':4,'channels':[{'channel_type':'memory','channel_ids':[0]}],'ops':["
    "{'name':'signal','channel_type':'memory','channel_ids':[0]},"
    "{'name':'wait','channel_type':'memory','channel_ids':[0]}]}]},"
    "{'id':1,'input_chunks':1,'output_chunks':1,'channels':["
    "{'channel_type':'memory','connected_to':[0]}],'threadblocks':["
    "{'id':0,'channels':[{'channel_type':'memory','channel_ids':[0]}],'ops':[%s]},"
    "{'id':1,'ops':[]}]}]}";

/* Without the check, a wait ends at the deadline or with the other rank's failure, and the error
 * gives the position in the plan. The argument: the operations of rank 1, none or a barrier that
 * never ends. */
static int deadline_body(weir_boot *boot, void *argument)
{
    char text[1024];
    const char *does = argument;
    weir_comm *comm = NULL;
    weir_executor *executor = NULL;
    weir_plan *plan = NULL;
    int failures = 0;
    float value[2] = {0};
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = 1000;
    config.backend = WEIR_BACKEND_HOST;
    snprintf(text, sizeof text, late_text, does);
    EXPECT_OK(&failures, weir_comm_create(boot, &config, &comm));
    EXPECT_OK(&failures, weir_executor_create(comm, &executor));
    EXPECT(&failures, parse(text, &plan));
    EXPECT(&failures, rejected(weir_executor_run(executor, plan, value, value + 1, sizeof *value,
                                                 sizeof *value, WEIR_FLOAT, WEIR_SUM, NULL),
                               WEIR_ERR_INVALID, *does ? "barrier 0 expects 2" : "thread block 4"));
    weir_executor_set_checks(executor, 0);
    weir_status status = weir_executor_run(executor, plan, value, value + 1, sizeof *value,
                                           sizeof *value, WEIR_FLOAT, WEIR_SUM, NULL);
    const weir_status either = status == WEIR_ERR_TIMEOUT ? status : WEIR_ERR_ABORTED;
    if (weir_comm_rank(comm) == 0) /* aborted by rank 1, or by the deadline if that is late */
        EXPECT(&failures, rejected(status, *does ? either : WEIR_ERR_TIMEOUT,
                                   "thread block 4, op 1 (wait) of test, waiting for rank 1"));
    else if (*does)
        EXPECT(&failures, rejected(status, WEIR_ERR_INVALID, "wait for each other"));
    else
        EXPECT(&failures, status == WEIR_OK);
    for (int i = 0; i < 2000 && weir_comm_check(comm) == WEIR_OK; i++)
        usleep(10000); /* lets the other rank's deadline pass before this one closes */
    weir_plan_free(plan);
    weir_executor_destroy(executor);
    weir_comm_destroy(comm);
    return failures;
}

TEST(waits_end_at_the_deadline_and_report_the_position_in_the_plan)
{
    need_reader();
    run_ranks(2, deadline_body, "");
    run_ranks(2, deadline_body,
              "{'name':'wait','channel_type':'memory','channel_ids':[0]},"
              "{'name':'barrier','barrier_id':0,'num_threadblocks':2}");
}

/* ---------------------------------------------------------- many sources */

enum { SOURCES = 71, SUMMED = 16 };

/* An operation with one source of 2048 and many of 1: in half precision the sum of all is exact,
 * those of the first 64 and of the rest are not. */
static int many_sources_body(weir_boot *boot, void *argument)
{
    char text[2048] = "allreduce 2 i2 o2 s1";
    plan_rank with = {0};
    int failures = 0, wrong = 0;
    (void)argument;
    for (int rank = 0; rank < 2; rank++) {
        sprintf(text + strlen(text), "\n%d.0; re i0+1", rank);
        for (int k = 1; k < SOURCES; k++)
            strcat(text, " i1+1");
        strcat(text, " > o0+1");
    }
    weir_plan *plan = plan_of(text);
    EXPECT_OK(&failures, plan_rank_open(&with, boot, 4096));
    uint16_t *in = weir_mem_pointer(with.memory[0]), *out = weir_mem_pointer(with.memory[1]);
    for (int i = 0; i < SUMMED; i++) {
        in[i] = 0x6800;          /* 2048, of whose successors a half holds each second */
        in[SUMMED + i] = 0x3c00; /* 1 */
    }
    weir_executor_set_checks(with.executor, 0); /* it is no allreduce */
    weir_call call = WEIR_CALL_INIT;
    call.dtype = WEIR_HALF;
    call.in = in;
    call.out = out;
    call.in_bytes = call.out_bytes = 4 * SUMMED;
    EXPECT_OK(&failures, weir_executor_run_call(with.executor, plan, &call));
    for (int i = 0; i < SUMMED; i++)
        wrong += out[i] != 0x6800 + (SOURCES - 1) / 2;
    EXPECT(&failures, wrong == 0);
    call.size = offsetof(weir_call, algo_name); /* of an older header */
    EXPECT_OK(&failures, weir_executor_run_call(with.executor, plan, &call));
    call.size = 0;
    EXPECT(&failures, weir_executor_run_call(with.executor, plan, &call) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_executor_run_call(with.executor, plan, NULL) == WEIR_ERR_INVALID);
    weir_plan_free(plan);
    plan_rank_close(&with);
    return failures;
}

TEST(operations_with_many_sources_round_once)
{
    need_reader();
    run_ranks(2, many_sources_body, NULL);
}

int main(void)
{
    return run_all_tests("plan_run");
}
