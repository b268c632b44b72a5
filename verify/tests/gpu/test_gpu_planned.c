/*
 * Plans of a tuning table serve ordinary calls on GPUs: from unregistered and from symmetric
 * memory, in place on all ranks, on one, or on none, at short, odd and long lengths, and replayed
 * from graphs. Calls that a plan cannot serve (captured before the plan has run with their length,
 * averages, long ones in other memory) give right results too, by another algorithm. Needs two
 * GPUs, or WEIR_ALLOW_SHARED_GPU=1 and GPUS.
 */
#include "verify/tests/support/gpu_ranks.h"

#include "coll/coll.h"
#include "plan/examples/examples.h"

enum { ROOM_BYTES = 64 << 20, LONG_COUNT = 1 << 19, REPLAYS = 20 };
enum { OUT, IN_PLACE, MIXED, PLACES }; /* MIXED: rank 0 alone is in place */

/* A rank's buffers: unregistered ones, and two in one symmetric region; of int32. */
typedef struct planned_rank {
    char folder[32], name[32];
    weir_comm *comm;
    cudaStream_t stream;
    weir_mem *mem;
    int32_t *plain[2], *symmetric[2], *host;
    int rank, nranks, round;
} planned_rank;

static int planned_fails(const planned_rank *r, const char *what)
{
    fprintf(stderr, "# rank %d of %d, %s: %s: %s; %s\n", r->rank, r->nranks, r->name, what,
            weir_last_error(), cudaGetErrorString(cudaGetLastError()));
    return 1;
}

static int write_text(const planned_rank *r, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    FILE *file = fopen(path, "we");
    if (!file)
        return 1;
    fputs(text, file);
    return fclose(file) != 0;
}

/* Writes the plan and a table with it, in a folder of this rank. */
static int write_table(planned_rank *r, const weiri_plan_example *example, int nranks)
{
    const weiri_plan_example_options with = {.nranks = nranks, .instances = 2};
    char *json = NULL, row[128];
    size_t bytes = 0;
    weir_plan *plan = NULL;
    strcpy(r->folder, "/tmp/weir-planned-XXXXXX");
    snprintf(row, sizeof row, "%s %d cuda - plan:plan.json\n",
             weir_collective_name(example->collective), nranks);
    int failures = !mkdtemp(r->folder) ||
                   weiri_plan_example_make(example, &with, &plan) != WEIR_OK ||
                   weir_plan_print(plan, &json, &bytes) != WEIR_OK ||
                   write_text(r, "plan.json", json) || write_text(r, "table", row);
    free(json);
    weir_plan_free(plan);
    snprintf(row, sizeof row, "%s/table", r->folder);
    setenv("WEIR_TUNING", row, 1);
    return failures;
}

static int planned_open(planned_rank *r, weir_boot *boot, const weiri_plan_example *example)
{
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "plan:%.26s", example->name);
    if (write_table(r, example, weir_boot_nranks(boot)) || !(r->comm = open_gpu_comm(boot, 30000)))
        return planned_fails(r, "no table or communicator");
    r->rank = weir_comm_rank(r->comm);
    r->nranks = weir_comm_nranks(r->comm);
    r->host = malloc(ROOM_BYTES);
    if (!r->host || cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking) ||
        weir_mem_alloc(r->comm, 2 * (size_t)ROOM_BYTES, &r->mem) != WEIR_OK ||
        weir_mem_symmetric(r->mem) != WEIR_OK)
        return planned_fails(r, "no memory");
    for (int i = 0; i < 2; i++) {
        r->symmetric[i] = (int32_t *)((char *)weir_mem_pointer(r->mem) + i * (size_t)ROOM_BYTES);
        if (cudaMalloc((void **)&r->plain[i], ROOM_BYTES) != cudaSuccess)
            return planned_fails(r, "no memory");
    }
    return 0;
}

static int planned_close(planned_rank *r)
{
    static const char *const names[] = {"plan.json", "table"};
    int failures = cudaStreamSynchronize(r->stream) != cudaSuccess ? planned_fails(r, "end") : 0;
    weir_mem_free(r->mem);
    failures += weir_comm_destroy(r->comm) != WEIR_OK;
    for (int i = 0; i < 2; i++) {
        char path[64];
        cudaFree(r->plain[i]);
        snprintf(path, sizeof path, "%s/%s", r->folder, names[i]);
        unlink(path);
    }
    rmdir(r->folder);
    free(r->host);
    return failures;
}

/* --------------------------------------------------------------------- calls */

typedef struct planned_call {
    weir_call call;
    size_t in_count, out_count, own; /* elements; own: of this rank's block in the longer buffer */
} planned_call;

static planned_call planned_make(const planned_rank *r, weir_collective collective, size_t count,
                                 int symmetric, int place)
{
    int32_t *const *at = symmetric ? r->symmetric : r->plain;
    const size_t n = (size_t)r->nranks;
    planned_call made = {.call = WEIR_CALL_INIT, .in_count = count, .out_count = count};
    if (collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_REDUCE_SCATTER)
        made.in_count = n * count;
    if (collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_ALLGATHER)
        made.out_count = n * count;
    made.call.collective = collective;
    made.call.count = count;
    made.call.dtype = WEIR_INT32;
    made.call.stream = r->stream;
    made.call.in = at[0];
    made.call.out = at[1];
    if (collective == WEIR_COLL_ALLTOALL || place == OUT || (place == MIXED && r->rank != 0))
        return made;
    if (made.in_count > made.out_count)
        made.call.out = (int32_t *)at[0] + (size_t)r->rank * count;
    else
        made.call.in =
            (int32_t *)at[1] + (made.out_count > made.in_count ? (size_t)r->rank * count : 0);
    return made;
}

static int32_t value_of(int rank, size_t i, int round)
{
    return (int32_t)(mix_bits((uint64_t)rank << 40 | (uint64_t)round << 32 | i) % 1000);
}

static int32_t expected_of(const planned_rank *r, const planned_call *of, size_t i)
{
    const size_t count = of->call.count;
    int32_t sum = 0;
    switch (of->call.collective) {
    case WEIR_COLL_ALLGATHER:
        return value_of((int)(i / count), i % count, r->round);
    case WEIR_COLL_ALLTOALL:
        return value_of((int)(i / count), (size_t)r->rank * count + i % count, r->round);
    case WEIR_COLL_BROADCAST:
        return value_of(0, i, r->round);
    case WEIR_COLL_REDUCE_SCATTER:
        i += (size_t)r->rank * count;
        break;
    default:
        break;
    }
    for (int rank = 0; rank < r->nranks; rank++)
        sum += value_of(rank, i, r->round);
    return sum;
}

static int fill(planned_rank *r, const planned_call *of)
{
    r->round++;
    for (size_t i = 0; i < of->in_count; i++)
        r->host[i] = value_of(r->rank, i, r->round);
    const int is_apart = of->call.in != of->call.out && of->in_count >= of->out_count;
    if ((is_apart && cudaMemsetAsync(of->call.out, 0x77, of->out_count * 4, r->stream)) ||
        cudaMemcpyAsync((void *)(uintptr_t)of->call.in, r->host, of->in_count * 4,
                        cudaMemcpyDefault, r->stream) ||
        cudaStreamSynchronize(r->stream))
        return planned_fails(r, "filling");
    return 0;
}

static int check(planned_rank *r, const planned_call *of)
{
    const int has_result = of->call.collective != WEIR_COLL_REDUCE || r->rank == 0;
    if (cudaMemcpyAsync(r->host, of->call.out, of->out_count * 4, cudaMemcpyDefault, r->stream) ||
        cudaStreamSynchronize(r->stream) || weir_comm_check(r->comm) != WEIR_OK)
        return planned_fails(r, "running");
    for (size_t i = 0; i < of->out_count && has_result; i++)
        if (r->host[i] != expected_of(r, of, i)) {
            fprintf(stderr, "# %s, count %zu, by %s: element %zu of rank %d is %d, expected %d\n",
                    r->name, of->call.count, weir_comm_last_algo(r->comm), i, r->rank,
                    (int)r->host[i], (int)expected_of(r, of, i));
            return 1;
        }
    return 0;
}

/* Runs the call and checks its result, and whether the plan served it. */
static int run_one(planned_rank *r, const planned_call *of, int by_plan)
{
    if (fill(r, of))
        return 1;
    if (weir_run(r->comm, &of->call) != WEIR_OK)
        return planned_fails(r, "calling");
    if ((strcmp(weir_comm_last_algo(r->comm), r->name) == 0) != by_plan) {
        fprintf(stderr, "# rank %d: %s, count %zu: served by %s\n", r->rank, r->name,
                of->call.count, weir_comm_last_algo(r->comm));
        return 1;
    }
    return check(r, of);
}

/* Captures the call and replays the graph. */
static int run_captured(planned_rank *r, const planned_call *of, int by_plan)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    if (fill(r, of) || cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeGlobal))
        return planned_fails(r, "capturing");
    const weir_status status = weir_run(r->comm, &of->call);
    if (cudaStreamEndCapture(r->stream, &graph) || status != WEIR_OK ||
        cudaGraphInstantiate(&ready, graph, 0))
        return planned_fails(r, "a captured call");
    int failures = (strcmp(weir_comm_last_algo(r->comm), r->name) == 0) != by_plan;
    if (failures)
        fprintf(stderr, "# captured: served by %s\n", weir_comm_last_algo(r->comm));
    for (int i = 0; i < REPLAYS && !failures; i++)
        if (cudaGraphLaunch(ready, r->stream) != cudaSuccess)
            failures = planned_fails(r, "a replay");
    failures = failures || check(r, of);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    return failures;
}

/* ------------------------------------------------------------------- the cases */

static int run_captures(planned_rank *r, weir_collective collective)
{
    const planned_call first = planned_make(r, collective, 5000, 0, OUT);
    const planned_call second = planned_make(r, collective, 5001, 0, OUT);
    return run_captured(r, &first, 0) || run_one(r, &first, 1) || run_captured(r, &first, 1) ||
           run_captured(r, &second, 0) || run_one(r, &first, 1);
}

static int run_average(planned_rank *r)
{
    planned_call average = planned_make(r, WEIR_COLL_ALLREDUCE, 100, 0, OUT);
    average.call.op = WEIR_AVG;
    return weir_run(r->comm, &average.call) != WEIR_OK ||
           strcmp(weir_comm_last_algo(r->comm), r->name) == 0;
}

/* Long calls: in symmetric memory; elsewhere if no peer reaches the buffers (packets). */
static int run_long(planned_rank *r, weir_collective collective, int any_memory)
{
    int failures = 0;
    for (int i = 0; i < 4 && !failures; i++) {
        const planned_call of =
            planned_make(r, collective, LONG_COUNT / (size_t)(i < 2 ? 1 : r->nranks), i % 2, OUT);
        failures = run_one(r, &of, any_memory || i % 2);
    }
    return failures;
}

static int planned_body(weir_boot *boot, void *argument)
{
    static const size_t counts[] = {1, 4, 255, 2048, 10007, 16384};
    const weiri_plan_example *example = weiri_plan_example_find(argument);
    const weir_collective collective = example->collective;
    planned_rank r;
    if (planned_open(&r, boot, example))
        return NO_COMM;
    int failures = 0;
    for (size_t i = 0; i < 2 * PLACES * sizeof counts / sizeof *counts && !failures; i++) {
        const int place = (int)(i % PLACES);
        const planned_call of =
            planned_make(&r, collective, counts[i / PLACES / 2], i / PLACES % 2, place);
        failures = run_one(&r, &of, 1);
    }
    failures = failures || run_captures(&r, collective);
    if (collective == WEIR_COLL_ALLREDUCE)
        failures = failures || run_average(&r);
    if (strcmp(example->name, "allgather_direct") == 0)
        failures = failures || run_long(&r, collective, 0);
    if (strcmp(example->name, "allgather_packets") == 0)
        failures = failures || run_long(&r, collective, 1);
    return failures + planned_close(&r);
}

#define PLAN_TEST(name) AT(name, test_on_gpus, (&(ranks_test){0, planned_body, name, NULL}))

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST("allreduce_oneshot"),     PLAN_TEST("allreduce_direct"),
        PLAN_TEST("allgather_packets"),     PLAN_TEST("allgather_direct"),
        PLAN_TEST("reduce_scatter_direct"), PLAN_TEST("alltoall_direct"),
        PLAN_TEST("broadcast_direct"),      PLAN_TEST("reduce_direct"),
    };
    return RUN_TESTS("planned", tests);
}
