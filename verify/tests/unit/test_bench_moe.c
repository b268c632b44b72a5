/*
 * Faults of bench_moe's --inject report whether they changed anything: bytes of a row, or of its
 * scales alone. A fault that writes what is there already has changed nothing.
 */
#include "bench/moe/moe_trial.h"
#include "verify/tests/support/unit_test.h"

#include <string.h>

enum { EXPERTS = 4, TOKENS = 8, HIDDEN = 256, SCALES = 2, ROWS = 2 * TOKENS };

static bench_job job = {.nranks = 2};
static bench_moe_options options;
static bench_moe_trial trial;
static moe_candidate candidate;
static char rows[ROWS + 1][HIDDEN], kept[2 * HIDDEN + SCALES * sizeof(float)];
static float scales[ROWS + 1][SCALES];

/* A candidate that has received fp8 rows, all of which are `byte` with these scales. */
static void receive(bench_moe_fault fault, int byte, float scale)
{
    options.fault = fault;
    memset(rows, byte, sizeof rows);
    memset(kept, byte, sizeof kept);
    for (int row = 0; row <= ROWS; row++)
        for (int i = 0; i < SCALES; i++)
            scales[row][i] = scale;
    memcpy(kept + candidate.info.row_bytes, scales[0], sizeof scales[0]);
}

static int open_trial(char *problem)
{
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    config.experts = EXPERTS;
    config.topk = 1;
    config.max_tokens = TOKENS;
    config.hidden = HIDDEN;
    config.dtype = WEIR_BFLOAT16;
    config.dispatch_dtype = WEIR_FP8_E4M3;
    config.layout = WEIR_MOE_EXPERT_MAJOR;
    config.alignment = 1;
    const weirv_moe_shape shape = {job.nranks, config, WEIRV_MOE_UNIFORM, 0, NULL, 1};
    trial = (bench_moe_trial){
        .job = &job, .options = &options, .tokens = TOKENS, .nranks = job.nranks, .config = config};
    candidate = (moe_candidate){.trial = &trial,
                                .rows = rows[0],
                                .scales = scales[0],
                                .kept = kept,
                                .info = {.scales_per_row = SCALES,
                                         .row_bytes = 2 * (size_t)HIDDEN,
                                         .recv_row_bytes = HIDDEN}};
    return weirv_moe_open(&shape, &trial.oracle, problem);
}

static int inject(void)
{
    return bench_moe_inject_received(&candidate, 0, 0);
}

static const bench_moe_fault written[] = {BENCH_MOE_DROP_TOKEN, BENCH_MOE_WRONG_EXPERT,
                                          BENCH_MOE_STALE_ROW, BENCH_MOE_OVERFLOW};

/* Sets another scale for one row, so that the fault finds another one than it writes. */
static void differ_in_scales(bench_moe_fault fault)
{
    receive(fault, 0, 0);
    int source, token, choice;
    const int first = weirv_moe_row(trial.oracle, 0, job.rank, 0, &source, &token, &choice);
    scales[first][SCALES - 1] = 2;
}

TEST(faults_that_change_scales_alone_have_changed_something)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        differ_in_scales(written[i]);
        if (!inject())
            fail_msg("%s changed nothing", bench_moe_fault_name(written[i]));
    }
}

TEST(faults_that_change_rows_alone_have_changed_something)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        differ_in_scales(written[i]);
        memset(scales, 0, sizeof scales);
        int source, token, choice;
        rows[weirv_moe_row(trial.oracle, 0, job.rank, 0, &source, &token, &choice)][HIDDEN - 1] = 1;
        if (!inject())
            fail_msg("%s changed nothing", bench_moe_fault_name(written[i]));
    }
}

TEST(faults_that_write_what_is_there_have_changed_nothing)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        receive(written[i], 0, 0);
        if (inject())
            fail_msg("%s changed something", bench_moe_fault_name(written[i]));
    }
}

int main(void)
{
    char problem[WEIRV_MOE_MESSAGE];
    if (open_trial(problem) != 0)
        return 3;
    const int failed = run_all_tests("bench_moe");
    weirv_moe_close(trial.oracle);
    return failed;
}
