/*
 * --tune: rows of a tuning table are those of the fastest algorithms and plans; plans are named
 * relative to the table's folder if they are below it, and those that are no candidates never. A
 * line for each plan says where it was selected, or how much slower it was.
 */
#include "bench/output/tune.h"
#include "comm/comm.h"
#include "verify/tests/support/unit_test.h"

#include <sys/stat.h>
#include <unistd.h>

typedef struct measured {
    const char *algo, *file;
    double us[2]; /* at 1 KiB and at 64 KiB */
} measured;

/* What bench_tune_close printed. */
static char printed[8192];

static void close_tune(bench_tune *tune)
{
    FILE *kept = stdout;
    stdout = fmemopen(printed, sizeof printed, "w");
    assert_non_null(stdout);
    const weir_status status = bench_tune_close(tune);
    fclose(stdout);
    stdout = kept;
    assert_int_equal(status, WEIR_OK);
}

static void expect_line(const char *line)
{
    if (!strstr(printed, line))
        fail_msg("expected '%s' in:\n%s", line, printed);
}

/* Tunes with these times, on 4 ranks of so many nodes, and returns the table that is written. */
static const char *tuned_on(int nnodes, bench_buffers_word buffers, const measured *list, int count,
                            const char *folder)
{
    static char text[8192];
    char path[128];
    bench_tune *tune = NULL;
    weir_comm comm = {.nranks = 4};
    bench_job job = {
        .program = "test", .comm = nnodes > 1 ? NULL : &comm, .nranks = 4, .nnodes = nnodes};
    bench_options options = {.tune_path = path, .buffers = buffers};
    bench_run run = {.job = &job, .options = &options, .collective = WEIR_COLL_ALLGATHER};
    snprintf(path, sizeof path, "%s/table", folder);
    assert_int_equal(bench_tune_open(&run, &tune), WEIR_OK);
    for (int size = 0; size < 2; size++) {
        bench_row *row = calloc(1, sizeof *row);
        assert_non_null(row);
        row->shape.bytes = size ? 65536 : 1024;
        row->placements = 1;
        row->ncandidates = count;
        for (int i = 0; i < count; i++) {
            bench_result *result = &row->results[BENCH_OUT_OF_PLACE][i];
            snprintf(result->algo, sizeof result->algo, "%s", list[i].algo);
            result->plan_file = list[i].file;
            result->ran = result->timed = list[i].us[size] > 0;
            result->stats.median = list[i].us[size];
            result->figures = bench_result_figures(row, result);
        }
        bench_tune_row(tune, row);
        free(row);
    }
    close_tune(tune);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(path);
    return text;
}

static const char *tuned(const measured *list, int count, const char *folder)
{
    return tuned_on(2, BENCH_BUFFERS_WEIR, list, count, folder);
}

static void expect_row(const char *table, const char *limit, const char *word)
{
    char row[512];
    snprintf(row, sizeof row, "allgather       4 net    %-12s %-8s ", limit, word);
    if (!strstr(table, row))
        fail_msg("expected '%s' in:\n%s", row, table);
}

TEST(rows_name_plans_by_their_files)
{
    char folder[] = "/tmp/weir-test-XXXXXX", below[64];
    assert_non_null(mkdtemp(folder));
    snprintf(below, sizeof below, "%s/plans/ring.json", folder);
    const measured list[] = {{"packet", NULL, {3, 9}},
                             {"plan:ring", below, {2, 8}},
                             {"plan:ring", "/elsewhere/ring.json", {4, 5}}};
    const char *table = tuned(list, 3, folder);
    expect_row(table, "33280", "plan:plans/ring.json");
    expect_row(table, "-", "plan:/elsewhere/ring.json");
    expect_line("# plan:plans/ring.json : selected for 1024 B\n");
    expect_line("# plan:/elsewhere/ring.json : selected for 65536 B\n");
    rmdir(folder);
}

TEST(plans_that_are_no_candidates_or_did_not_run_are_not_named)
{
    char folder[] = "/tmp/weir-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const measured list[] = {{"plan:auto", NULL, {1, 1}}, /* served a call of "auto" */
                             {"packet", NULL, {3, 9}},
                             {"rails", NULL, {4, 8}},
                             {"plan:short", "/plans/short.json", {2, 0}}}; /* outside its range */
    const char *table = tuned(list, 4, folder);
    expect_row(table, "33280", "plan:/plans/short.json");
    expect_row(table, "-", "rails");
    assert_null(strstr(table, "auto"));
    assert_null(strstr(printed, "auto"));
    rmdir(folder);
}

TEST(plans_that_were_not_selected_are_reported_with_their_best_size)
{
    char folder[] = "/tmp/weir-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const measured list[] = {{"packet:1x64", NULL, {100, 1000}},
                             {"plan:best", "/plans/best.json", {110, 900}},
                             {"plan:near", "/plans/near.json", {112, 1800}},
                             {"plan:lost", "/plans/lost.json", {150, 915}},
                             {"", "/plans/never.json", {0, 0}}};
    tuned(list, 5, folder);
    expect_line("# plan:/plans/best.json : selected for 65536 B\n");
    expect_line("# plan:/plans/near.json : not selected: at best 12.0% slower than packet:1x64, "
                "for 1024 B\n");
    expect_line("# plan:/plans/lost.json : not selected: at best 1.7% slower than "
                "plan:/plans/best.json, for 65536 B\n");
    expect_line("# plan:/plans/never.json : not selected: it has no correct result");
    const measured close[] = {{"packet", NULL, {100, 900}},
                              {"plan:close", "/plans/close.json", {99.5, 1000}},
                              {"plan:all", "/plans/all.json", {90, 800}}};
    tuned(close, 2, folder);
    expect_line("# plan:/plans/close.json : not selected: at best 0.5% faster than packet, for "
                "1024 B, too little for a row\n");
    tuned(close, 3, folder);
    expect_line("# plan:/plans/all.json : selected for 1024 to 65536 B\n");
    rmdir(folder);
}

/* The table refuses such rows. */
TEST(rows_of_unregistered_memory_name_nothing_that_needs_mapped_memory)
{
    char folder[] = "/tmp/weir-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const measured list[] = {{"direct", NULL, {1, 1}},
                             {"plan:ring", "/plans/ring.json", {1, 1}},
                             {"packet", NULL, {3, 9}},
                             {"cma", NULL, {4, 8}}};
    const char *table = tuned_on(1, BENCH_BUFFERS_PLAIN, list, 4, folder);
    assert_non_null(strstr(table, "33280        packet "));
    assert_non_null(strstr(table, "-            cma "));
    assert_null(strstr(table, "direct"));
    assert_null(strstr(table, "plan"));
    table = tuned_on(1, BENCH_BUFFERS_WEIR, list, 1, folder);
    assert_non_null(strstr(table, "-            direct "));
    rmdir(folder);
}

int main(void)
{
    return run_all_tests("tune");
}
