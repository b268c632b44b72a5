/*
 * Prints how fast plans run on the host compared with the hand-written algorithm of the same
 * schedule. Run by hand:
 *
 *   plan_speed [RANKS]      2 ranks by default; give each rank a core
 *
 * Both are called in alternating blocks of calls (A B B A) on the same memory; the time of a block
 * is rank 0's. Columns: microseconds per call of each in its fastest blocks, their ratio (above 1
 * the plan is faster), the plan's additional time, and the median ratio of neighbouring blocks.
 * Takes a few seconds.
 */
#define _GNU_SOURCE
#include "plan/examples/examples.h"
#include "verify/tests/perf/times.h"
#include <weir/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 150, LARGEST_BYTES = 8 << 20, WHOLE_MS = 120000 };

typedef struct pairing {
    const char *plan, *algo; /* an example's name, and the table's */
    int instances;
    size_t bytes;
} pairing;

static const pairing pairings[] = {
    {"allreduce_direct", "fused", 1, 8192},       {"allreduce_direct", "fused", 1, 65536},
    {"allreduce_direct", "fused", 1, 1 << 20},    {"allreduce_direct", "fused", 4, 1 << 20},
    {"allreduce_direct", "fused", 1, 8 << 20},    {"allreduce_oneshot", "packet", 1, 512},
    {"allreduce_oneshot", "packet", 1, 8192},     {"allreduce_twoshot", "packet2", 1, 8192},
    {"allreduce_twoshot", "packet2", 1, 1 << 20},
};

typedef struct bench {
    weir_comm *comm;
    weir_executor *executor;
    weir_plan *plan;
    char *in, *out;
    size_t bytes;
    int calls; /* of a block */
} bench;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static weir_status call(const bench *b, int is_plan)
{
    if (is_plan)
        return weir_executor_run(b->executor, b->plan, b->in, b->out, b->bytes, b->bytes,
                                 WEIR_FLOAT, WEIR_SUM, NULL);
    return weir_allreduce(b->comm, b->in, b->out, b->bytes / sizeof(float), WEIR_FLOAT, WEIR_SUM,
                          NULL);
}

/* Microseconds a call; negative: it failed. */
static double time_block(void *context, int is_plan)
{
    const bench *b = context;
    if (weir_comm_barrier(b->comm) != WEIR_OK)
        return -1;
    double begin = now_us();
    for (int i = 0; i < b->calls; i++)
        if (call(b, is_plan) != WEIR_OK) {
            fprintf(stderr, "%s\n", weir_last_error());
            return -1;
        }
    return (now_us() - begin) / b->calls;
}

/* A block takes less than a scheduler's turn. */
static int count_calls(size_t bytes, int nranks)
{
    const int shared = nranks > sysconf(_SC_NPROCESSORS_ONLN);
    size_t calls = ((size_t)1 << (shared ? 16 : 21)) / (bytes + 8192);
    return calls ? (int)calls : 1;
}

static int measure(bench *b, const pairing *of)
{
    double fastest_us[2];
    times_ratio ratio;
    b->calls = count_calls(of->bytes, weir_comm_nranks(b->comm));
    if (times_pair(time_block, b, PAIRS, fastest_us, &ratio))
        return 1;
    const double plan = fastest_us[1], algo = fastest_us[0];
    if (weir_comm_rank(b->comm) == 0)
        printf("%-18s x%d %-8s %9zu %10.2f %10.2f %8.2f %9.2f %8.2f\n", of->plan, of->instances,
               of->algo, of->bytes, plan, algo, algo / plan, plan - algo, ratio.median);
    fflush(stdout);
    return 0;
}

static int run_pairing(bench *b, const pairing *of)
{
    const weiri_plan_example_options with = {.nranks = weir_comm_nranks(b->comm),
                                             .instances = of->instances};
    weir_status status =
        weiri_plan_example_make(weiri_plan_example_find(of->plan), &with, &b->plan);
    if (status == WEIR_OK)
        status = weir_comm_set_algo(b->comm, WEIR_COLL_ALLREDUCE, of->algo);
    b->bytes = of->bytes;
    int failed = status != WEIR_OK || measure(b, of);
    weir_plan_free(b->plan);
    return failed;
}

static int body(weir_boot *boot, void *argument)
{
    bench b = {0};
    weir_mem *in = NULL, *out = NULL;
    (void)argument;
    times_bind(weir_boot_rank(boot));
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_status status = weir_comm_create(boot, &config, &b.comm);
    if (status == WEIR_OK)
        status = weir_executor_create(b.comm, &b.executor);
    if (status == WEIR_OK)
        status = weir_mem_alloc(b.comm, LARGEST_BYTES, &in);
    if (status == WEIR_OK)
        status = weir_mem_alloc(b.comm, LARGEST_BYTES, &out);
    int failed = status != WEIR_OK;
    b.in = failed ? NULL : weir_mem_pointer(in);
    b.out = failed ? NULL : weir_mem_pointer(out);
    for (size_t i = 0; i < sizeof pairings / sizeof *pairings && !failed; i++)
        failed = run_pairing(&b, &pairings[i]);
    if (failed)
        fprintf(stderr, "rank %d: %s\n", weir_boot_rank(boot), weir_last_error());
    weir_executor_destroy(b.executor);
    weir_mem_free(in);
    weir_mem_free(out);
    weir_comm_destroy(b.comm);
    fflush(stdout);
    return failed;
}

int main(int argc, char **argv)
{
    int nranks = argc > 1 ? atoi(argv[1]) : 2, codes[64] = {0}, failed = 0;
    if (nranks < 2 || nranks > 64) {
        fprintf(stderr, "usage: plan_speed [RANKS]; 2 to 64 ranks\n");
        return 2;
    }
    printf("%-21s %-8s %9s %10s %10s %8s %9s %8s\n", "plan", "algo", "bytes", "plan us", "algo us",
           "ratio", "extra us", "median");
    fflush(stdout);
    if (weir_boot_fork_run(nranks, body, NULL, WHOLE_MS, codes) != WEIR_OK)
        failed = 1;
    for (int rank = 0; rank < nranks; rank++)
        failed |= codes[rank] != 0;
    return failed;
}
