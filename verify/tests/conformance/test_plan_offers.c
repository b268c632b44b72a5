/*
 * Plans of a tuning table on GPU communicators: which calls they serve, on all ranks or on none,
 * also if one rank's stream is being captured, its GPU cannot run a plan or a type, or it is alone
 * in place. A stand-in for the GPU's executor runs the plans in host memory and injects these
 * faults; the decisions are the library's. Runs on forked ranks.
 */
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

#include "base/error.h"
#include "coll/planned.h"
#include "comm/gpu/gpu.h"
#include "plan/execute/executor.h"

enum { RANKS = 2, LONG_BYTES = 3 << 20, NOT_SERVED = 2 };

/* Each rank puts its block to the other one's output. */
#define PUTS                                                                                       \
    "allgather 2 i1 o2 s0\n"                                                                       \
    "0.0; copy i0+1 > o0+1; rlxsignal @m1; rlxwait @m1; nop; put i0+1 > 1:o0+1 @m1; nop; "         \
    "signal @m1; wait @m1\n"                                                                       \
    "1.0; copy i0+1 > o1+1; rlxsignal @m0; rlxwait @m0; nop; put i0+1 > 0:o1+1 @m0; nop; "         \
    "signal @m0; wait @m0"
/* The same in place. */
#define PUTS_IN_PLACE                                                                              \
    "allgather 2 i1 o2 s0 inplace\n"                                                               \
    "0.0; rlxsignal @m1; rlxwait @m1; nop; put o0+1 > 1:o0+1 @m1; nop; signal @m1; wait @m1\n"     \
    "1.0; rlxsignal @m0; rlxwait @m0; nop; put o1+1 > 0:o1+1 @m0; nop; signal @m0; wait @m0"

static char folder[] = "/tmp/weir-offers-XXXXXX";

/* What a rank's stand-in does wrong. */
static struct {
    int captures, prepare_fails, fit_fails;
    int prepared;
} fault;

/* ------------------------------------------------------------- the stand-in */

static int standin_captures(const weir_comm *comm, weir_stream stream)
{
    (void)comm, (void)stream;
    return fault.captures;
}

static weir_status standin_enter(const weir_comm *comm, int *before)
{
    (void)comm;
    *before = 0;
    return WEIR_OK;
}

static void standin_leave(const weir_comm *comm, int before)
{
    (void)comm, (void)before;
}

static void standin_know(weir_comm *comm, int rank, int region, void *base)
{
    (void)comm, (void)rank, (void)region, (void)base;
}

static struct weiri_gpu gpu = {.ops = &(weiri_gpu_ops){.captures = standin_captures,
                                                       .enter = standin_enter,
                                                       .leave = standin_leave,
                                                       .know = standin_know}};

static weir_status standin_open(weir_executor *executor)
{
    return weiri_executor_host.open(executor);
}

static weir_status standin_prepare(weir_executor *executor, const weir_plan *plan,
                                   weiri_plan_context *context)
{
    fault.prepared++;
    weir_status status =
        fault.prepare_fails ? weiri_fail(WEIR_ERR_UNSUPPORTED, "too many thread blocks") : WEIR_OK;
    status = weir_boot_agree(executor->comm->boot, status);
    return status == WEIR_OK ? weiri_executor_host.prepare(executor, plan, context) : status;
}

static weir_status standin_fit(weir_executor *executor, const weiri_plan_context *context,
                               const weir_call *call)
{
    (void)executor, (void)context, (void)call;
    return fault.fit_fails ? weiri_fail(WEIR_ERR_UNSUPPORTED, "no kernel of this type") : WEIR_OK;
}

static weir_status standin_settle(weir_executor *executor)
{
    (void)executor;
    return weiri_fail(WEIR_ERR_INTERNAL, "ordinary calls must not wait for the device");
}

static weir_status standin_run(weir_executor *executor, weiri_plan_context *context,
                               const weir_call *call)
{
    return weiri_executor_host.run(executor, context, call);
}

static void standin_release(weir_executor *executor, weiri_plan_context *context)
{
    weiri_executor_host.release(executor, context);
}

static void standin_close(weir_executor *executor)
{
    weiri_executor_host.close(executor);
}

/* Replaces the library's. */
const weiri_executor_ops *weiri_executor_cuda(void)
{
    static const weiri_executor_ops ops = {.open = standin_open,
                                           .prepare = standin_prepare,
                                           .fit = standin_fit,
                                           .run = standin_run,
                                           .settle = standin_settle,
                                           .release = standin_release,
                                           .close = standin_close};
    return &ops;
}

/* --------------------------------------------------------------------- calls */

typedef struct gpu_rank {
    weir_comm *comm;
    weiri_coll *coll;
    weiri_planned *row;
    int rank;
    weir_mem *mem; /* symmetric */
    char *plain[2];
    int failures;
} gpu_rank;

static void write_file(const char *name, const char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_table(const char *text, const char *collective)
{
    char row[128], *json = NULL;
    size_t bytes = 0;
    weir_plan *plan = plan_of(text);
    for (int rank = 0; rank < RANKS; rank++) /* a proxy would take the GPU for a real one */
        plan->gpus[rank].nlinks[WEIRI_PLAN_PORT] = 0;
    assert_int_equal(weir_plan_print(plan, &json, &bytes), WEIR_OK);
    write_file("plan.json", json, bytes);
    free(json);
    weir_plan_free(plan);
    snprintf(row, sizeof row, "%s %d cuda - plan:plan.json\n", collective, RANKS);
    write_file("table", row, strlen(row));
    snprintf(row, sizeof row, "%s/table", folder);
    setenv("WEIR_TUNING", row, 1);
}

static int rank_open(gpu_rank *r, weir_boot *boot)
{
    memset(r, 0, sizeof *r);
    memset(&fault, 0, sizeof fault);
    r->comm = open_comm(boot);
    if (!r->comm)
        return NO_COMM;
    r->comm->gpu = &gpu;
    r->rank = weir_comm_rank(r->comm);
    for (int i = 0; i < 2; i++)
        r->plain[i] = calloc(1, RANKS * LONG_BYTES);
    if (weiri_coll_get(r->comm, &r->coll) != WEIR_OK || !r->coll->planned ||
        weir_mem_alloc(r->comm, 3 * RANKS * LONG_BYTES, &r->mem) != WEIR_OK ||
        weir_mem_symmetric(r->mem) != WEIR_OK) {
        fprintf(stderr, "# rank %d: %s\n", r->rank, weir_last_error());
        return NO_COMM;
    }
    r->row = r->coll->planned;
    return 0;
}

static int rank_close(gpu_rank *r)
{
    r->comm->gpu = NULL;
    weir_mem_free(r->mem);
    EXPECT_OK(&r->failures, weir_comm_destroy(r->comm));
    free(r->plain[0]);
    free(r->plain[1]);
    return r->failures;
}

/* An allgather. Returns 1 if the plan served it, with the right result; 0 if its result is wrong;
 * NOT_SERVED; or a negative status. weiri_planned_look must predict it. */
static int gather_in(gpu_rank *r, char *in, char *out, size_t bytes, weir_dtype dtype)
{
    weir_call call = WEIR_CALL_INIT;
    call.collective = WEIR_COLL_ALLGATHER;
    call.in = in;
    call.out = out;
    call.dtype = dtype;
    call.count = bytes / weir_dtype_bytes(dtype);
    memset(out, 0xee, RANKS * bytes);
    for (size_t i = 0; i < bytes; i++)
        in[i] = (char)(r->rank * 91 + (int)(i * 7 + i / 256));
    const weiri_task task = {.call = &call,
                             .elements = call.count,
                             .count_bytes = bytes,
                             .element_bytes = weir_dtype_bytes(dtype)};
    const weiri_planned_use use = weiri_planned_look(r->coll, r->row, &task);
    int served = 0;
    weir_status status = weiri_planned_run(r->coll, r->row, &task, &served);
    if (status != WEIR_OK) {
        fprintf(stderr, "# rank %d: %s\n", r->rank, weir_last_error());
        return status;
    }
    EXPECT(&r->failures, use == WEIRI_PLANNED_WAITS || (use == WEIRI_PLANNED_SERVES) == served);
    for (int from = 0; from < RANKS && served; from++)
        for (size_t i = 0; i < bytes; i++)
            if (out[(size_t)from * bytes + i] != (char)(from * 91 + (int)(i * 7 + i / 256)))
                return 0;
    return served ? 1 : NOT_SERVED;
}

static int gather(gpu_rank *r, size_t bytes, int in_place)
{
    char *out = r->plain[1];
    return gather_in(r, in_place ? out + (size_t)r->rank * bytes : r->plain[0], out, bytes,
                     WEIR_UINT8);
}

/* In symmetric memory. */
static int gather_symmetric(gpu_rank *r, size_t bytes, int in_place)
{
    char *base = weir_mem_pointer(r->mem), *out = base + RANKS * LONG_BYTES;
    return gather_in(r, in_place ? out + (size_t)r->rank * bytes : base, out, bytes, WEIR_UINT8);
}

/* ------------------------------------------------------------------- the cases */

/* Any buffers, in place on all ranks, on one, or on none: one context per length. */
static int any_buffers_body(weir_boot *boot, void *argument)
{
    static const size_t lengths[] = {16, 1000, 4096, 1 << 19};
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    for (size_t i = 0; i < 4 * sizeof lengths / sizeof *lengths; i++) {
        const int place = (int)(i % 4);
        const int in_place = place == 1 || (place >= 2 && r.rank == place - 2);
        EXPECT(&r.failures, gather(&r, lengths[i / 4], in_place) == 1);
    }
    EXPECT(&r.failures, r.coll->executor && r.coll->executor->ncontexts == 4);
    EXPECT(&r.failures, fault.prepared == 4);
    return rank_close(&r);
}

/* Above the length of staging buffers, a plan that reaches peers' outputs serves symmetric memory
 * only. */
static int long_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    EXPECT(&r.failures, gather(&r, LONG_BYTES, 0) == NOT_SERVED);
    EXPECT(&r.failures, fault.prepared == 0);
    EXPECT(&r.failures, gather_symmetric(&r, LONG_BYTES, 0) == 1);
    EXPECT(&r.failures, gather_symmetric(&r, LONG_BYTES, 1) == 1);
    EXPECT(&r.failures, gather(&r, LONG_BYTES, 0) == NOT_SERVED);
    EXPECT(&r.failures, gather_symmetric(&r, LONG_BYTES, 0) == 1);
    EXPECT(&r.failures, fault.prepared == 2); /* in place and not */
    return rank_close(&r);
}

/* What a plan does through scratch needs no mapped buffers at any length. */
static int scratch_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    EXPECT(&r.failures, gather(&r, LONG_BYTES, 0) == 1);
    EXPECT(&r.failures, gather(&r, LONG_BYTES, r.rank == 1) == 1);
    EXPECT(&r.failures, fault.prepared == 1);
    return rank_close(&r);
}

/* While one rank captures, calls without a context pass on all ranks, and others are served. */
static int capture_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    EXPECT(&r.failures, gather(&r, 1024, 0) == 1);
    fault.captures = r.rank == 1;
    EXPECT(&r.failures, gather(&r, 1024, 0) == 1);
    EXPECT(&r.failures, gather(&r, 2048, 0) == NOT_SERVED);
    EXPECT(&r.failures, gather(&r, 2048, 0) == NOT_SERVED);
    fault.captures = 0;
    EXPECT(&r.failures, gather(&r, 2048, 0) == 1);
    return rank_close(&r);
}

/* A plan that one rank's GPU cannot run is skipped on all ranks from then on. */
static int unfit_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    fault.prepare_fails = r.rank == 1;
    EXPECT(&r.failures, gather(&r, 1024, 0) == NOT_SERVED);
    fault.prepare_fails = 0;
    EXPECT(&r.failures, gather(&r, 1024, 0) == NOT_SERVED);
    EXPECT(&r.failures, fault.prepared == 1 && r.row->state == WEIRI_PLANNED_SKIPPED);
    return rank_close(&r);
}

/* So is one whose kernel of a type cannot run there; known types are not checked again. */
static int type_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    EXPECT(&r.failures, gather(&r, 1024, 0) == 1);
    fault.fit_fails = r.rank == 0;
    EXPECT(&r.failures, gather(&r, 1024, 0) == 1);
    EXPECT(&r.failures, gather_in(&r, r.plain[0], r.plain[1], 1024, WEIR_FLOAT) == NOT_SERVED);
    fault.fit_fails = 0;
    EXPECT(&r.failures, gather(&r, 1024, 0) == NOT_SERVED);
    return rank_close(&r);
}

/* Contexts are kept: a new length finds no room once there are as many as there may be. */
static int room_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    for (size_t i = 1; i <= WEIRI_PLAN_CONTEXTS_MAX; i++)
        EXPECT(&r.failures, gather(&r, 16 * i, 0) == 1);
    EXPECT(&r.failures, gather(&r, 16 * (WEIRI_PLAN_CONTEXTS_MAX + 1), 0) == NOT_SERVED);
    EXPECT(&r.failures, gather(&r, 16, 0) == 1);
    EXPECT(&r.failures, fault.prepared == WEIRI_PLAN_CONTEXTS_MAX);
    return rank_close(&r);
}

/* Ranks that call with different lengths get an error. */
static int mismatch_body(weir_boot *boot, void *argument)
{
    gpu_rank r;
    (void)argument;
    if (rank_open(&r, boot))
        return NO_COMM;
    EXPECT(&r.failures, gather(&r, 1024 + 16 * (size_t)r.rank, 0) == WEIR_ERR_MISMATCH);
    return rank_close(&r);
}

static int put_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int take_down(void **state)
{
    char path[64];
    (void)state;
    unsetenv("WEIR_TUNING");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "table" : "plan.json");
        unlink(path);
    }
    rmdir(folder);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return 0;
}

static void run_with(const char *plan, ranks_body *body)
{
    write_table(plan, "allgather");
    run_ranks(RANKS, body, NULL);
}

TEST_WITH(short_calls_have_any_buffers, put_up, take_down)
{
    run_with(PUTS, any_buffers_body);
}

TEST_WITH(short_calls_have_any_buffers_with_a_plan_in_place, put_up, take_down)
{
    run_with(PUTS_IN_PLACE, any_buffers_body);
}

TEST_WITH(long_calls_that_peers_reach_need_symmetric_memory, put_up, take_down)
{
    run_with(PUTS, long_body);
}

TEST_WITH(long_calls_through_scratch_have_any_buffers, put_up, take_down)
{
    run_with("allgather 2 i1 o2 s1\n"
             "0.0; put i0+1 > 1:s0+1; copy i0+1 > o0+1; nop; signal @m1; wait @m1; nop; "
             "copy s0+1 > o1+1; nop; signal @m1; wait @m1\n"
             "1.0; put i0+1 > 0:s0+1; copy i0+1 > o1+1; nop; signal @m0; wait @m0; nop; "
             "copy s0+1 > o0+1; nop; signal @m0; wait @m0",
             scratch_body);
}

TEST_WITH(a_capture_on_one_rank_is_agreed_on, put_up, take_down)
{
    run_with(PUTS, capture_body);
}

TEST_WITH(a_plan_that_one_rank_cannot_run_is_skipped, put_up, take_down)
{
    run_with(PUTS, unfit_body);
}

TEST_WITH(a_type_that_one_rank_cannot_run_ends_the_plan, put_up, take_down)
{
    run_with(PUTS, type_body);
}

TEST_WITH(contexts_are_kept, put_up, take_down)
{
    run_with(PUTS, room_body);
}

TEST_WITH(different_lengths_are_reported, put_up, take_down)
{
    run_with(PUTS, mismatch_body);
}

int main(void)
{
    return run_all_tests("plan_offers");
}
