/*
 * What a candidate opens, it closes: file descriptors, memory, processes and threads of peers in
 * Python and of competing calls are as many after the third time as after the first.
 */
#include "bench/candidate/candidate.h"
#include "bench/candidate/rivals.h"
#include "bench/job/launch.h"
#include "verify/tests/support/entries.h"
#include "verify/tests/support/unit_test.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 3, LIMIT_MS = 60000, BYTES = 4096 };

/* What this process has. */
typedef struct holdings {
    int files, threads, shared, children;
} holdings;

static holdings take_stock(void)
{
    holdings found = {count_entries("/proc/self/fd"), count_entries("/proc/self/task"), 0, 0};
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        found.shared += strstr(line, "memfd:weir-peer") != NULL;
    if (maps)
        fclose(maps);
    found.children = waitpid(-1, NULL, WNOHANG) == 0 || errno != ECHILD;
    return found;
}

/* Opens a candidate, and closes it. Returns 0 if it took part. */
typedef int visit(bench_job *job, const bench_options *options);

static int visit_python(bench_job *job, const bench_options *options)
{
    static char in[BYTES], out[BYTES];
    const bench_buffers buffers = {.in = {.base = in, .bytes = BYTES},
                                   .out = {.base = out, .bytes = BYTES}};
    const bench_peer peer = {.text = "py:peer_sum.py", .path = "verify/tests/support/peer_sum.py"};
    bench_candidate *candidate = NULL;
    (void)options;
    if (bench_candidate_python_open(job, &buffers, &peer, &candidate) != WEIR_OK)
        return 1;
    const holdings open = take_stock();
    const int is_right = strcmp(candidate->name, "pysum:3") == 0 && candidate->peer &&
                         open.shared == 2 && open.children;
    candidate->ops->close(candidate);
    return !is_right;
}

static int visit_rivals(bench_job *job, const bench_options *options)
{
    bench_rivals *rivals = NULL;
    bench_result result = {.checked = 1};
    const weir_status opened = bench_rivals_open(job, options, &rivals);
    weir_status status = opened;
    if (opened == WEIR_OK) {
        bench_rivals_start(rivals);
        status = bench_rivals_stop(rivals, NULL, &result); /* calls need no candidate */
    }
    bench_rivals_close(rivals);
    const bench_rival_times *times = result.rivals;
    const int is_right = times && times->count[BENCH_RIVAL_ALONE] >= 5 && result.nrivals == 1;
    for (int kind = 0; times && kind < BENCH_RIVAL_KINDS; kind++)
        free(times->us[kind]);
    free(result.rivals);
    return status != WEIR_OK || !is_right || result.own_wrong || result.check.wrong;
}

/* On a rank: opens and closes several times, and compares what the process has. */
static int visit_often(weir_boot *boot, void *argument)
{
    bench_options options = {.backend = WEIR_BACKEND_HOST, .nrivals = 1};
    const bench_launch launch = {.launcher = BENCH_LAUNCHER_FORK,
                                 .rank = weir_boot_rank(boot),
                                 .nranks = weir_boot_nranks(boot),
                                 .boot = boot};
    static bench_job job;
    visit *const *one = argument;
    holdings first, now;
    int failed = 0;
    options.rivals[0] =
        (bench_with){.text = "allgather 64", .collective = WEIR_COLL_ALLGATHER, .bytes = 64};
    if (bench_job_start(&job, "test", LIMIT_MS / 1000, &launch) != WEIR_OK ||
        bench_job_connect(&job, WEIR_BACKEND_HOST) != WEIR_OK)
        return 2;
    for (int i = 0; i < TIMES && !failed; i++) {
        failed = (*one)(&job, &options);
        now = take_stock();
        if (i == 0)
            first = now;
    }
    if (!failed && memcmp(&first, &now, sizeof now) != 0) {
        printf("# rank %d: %d files, %d threads, %d maps, %d children; now %d, %d, %d, %d\n",
               job.rank, first.files, first.threads, first.shared, first.children, now.files,
               now.threads, now.shared, now.children);
        failed = 3;
    }
    if (!failed && (now.shared || now.children))
        failed = 4;
    bench_job_end(&job);
    return failed;
}

static void run(visit *one)
{
    int codes[2] = {1, 1};
    assert_int_equal(weir_boot_fork_run(2, visit_often, &one, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

TEST(peers_in_python_leave_nothing_open)
{
    if (system("command -v python3 >/dev/null") != 0)
        skip();
    run(visit_python);
}

TEST(competing_calls_leave_nothing_open)
{
    run(visit_rivals);
}

int main(void)
{
    return run_all_tests("bench_candidates");
}
