/*
 * Every number that a comparison prints or writes, in text, Markdown, JSON, JUnit, CTRF,
 * Prometheus' format, HTML and CSV, equals what is computed here from the times alone: medians,
 * bandwidths, ratios, counts, exit codes.
 */

#include "results/judge/compare.h"
#include "results/judge/expect.h"
#include "results/output/page.h"
#include "results/output/print.h"
#include "verify/tests/support/unit_test.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

enum { GIVEN = 5, RUNS = 3, TEXT_BYTES = 512 };

/* Rows with the times of three runs of each side; 0: the run's results were wrong; a first time of
 * -1: the side has no such row. */
static const struct given {
    const char *collective, *dtype, *redop, *placement;
    int ranks;
    unsigned long long bytes;
    double factor; /* of the bus bandwidth, by hand */
    double a[RUNS], b[RUNS];
    const char *verdict, *reason;
} given[GIVEN] = {
    {"allreduce",
     "float",
     "sum",
     "out",
     4,
     3000000,
     1.5,
     {10, 11, 12},
     {20, 21, 22.5},
     "regressed",
     ""},
    {"allreduce",
     "float",
     "sum",
     "out",
     4,
     6000000,
     1.5,
     {400, 410, 421},
     {205, 200, 210},
     "improved",
     ""},
    {"allgather",
     "half",
     "none",
     "in",
     4,
     4096,
     0.75,
     {5, 5.1, 5.2},
     {0, 4.8, 4.9},
     "regressed",
     "wrong results in B"},
    {"allgather", "half", "none", "in", 4, 8192, 0.75, {-1}, {7, 7.5, 8}, "missing in A", ""},
    {"broadcast", "int32", "none", "out", 4, 512, 1, {3, 3.5, 4}, {-1}, "missing in B", ""},
};

static double middle(double a, double b, double c)
{
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* The median of the right runs of a side; NaN: none. */
static double median_of(const double *times)
{
    if (times[0] < 0)
        return NAN;
    return times[0] > 0 ? middle(times[0], times[1], times[2]) : sqrt(times[1] * times[2]);
}

static double busbw_of(const struct given *row, double median_us)
{
    return (double)row->bytes / (median_us * 1e-6) / 1e9 * row->factor;
}

/* Of B's time to A's; NaN if a side has none, or wrong results. */
static double ratio_of(const struct given *row)
{
    return row->b[0] > 0 ? median_of(row->b) / median_of(row->a) : NAN;
}

typedef struct judged {
    results_set a, b;
    results_comparison comparison;
    results_rules rules;
    results_expectations expected;
    results_expectation list[3];
    results_report report;
    results_about about_a, about_b;
    size_t rows_a, rows_b;
} judged;

static void add(judged *j, int is_b, const struct given *row, int run)
{
    results_set *set = is_b ? &j->b : &j->a;
    const double time = is_b ? row->b[run] : row->a[run];
    results_row one = results_row_make(is_b ? "b.csv" : "a.csv", run + 2, RESULTS_OWN_CSV);
    one.text[RESULTS_SCHEMA] = "5";
    one.text[RESULTS_RUN_ID] = results_keep_printed(set, "%c%d", is_b ? 'b' : 'a', run);
    one.text[RESULTS_HOST] = "node";
    one.text[RESULTS_COLLECTIVE] = row->collective;
    one.text[RESULTS_BACKEND] = "host";
    one.text[RESULTS_NRANKS] = results_keep_printed(set, "%d", row->ranks);
    one.text[RESULTS_NNODES] = "1";
    one.text[RESULTS_CONTENDER] = "weir";
    one.text[RESULTS_ALGO] = "ring";
    one.text[RESULTS_DTYPE] = row->dtype;
    one.text[RESULTS_REDOP] = row->redop;
    one.text[RESULTS_ROOT] = "-1";
    one.text[RESULTS_PLACEMENT] = row->placement;
    one.text[RESULTS_BYTES] = results_keep_printed(set, "%llu", row->bytes);
    one.text[RESULTS_MEDIAN_US] = time > 0 ? results_keep_printed(set, "%.3f", time) : "";
    one.text[RESULTS_VERIFY] = time > 0 ? "pass" : "fail";
    one.text[RESULTS_WRONG] = time > 0 ? "0" : "3";
    assert_int_equal(results_add(set, &one), 0);
}

static void judged_make(judged *j)
{
    *j = (judged){.rules = results_rules_default()};
    results_set_init(&j->a, 0, NULL);
    results_set_init(&j->b, 0, NULL);
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < GIVEN; i++) {
            if (given[i].a[0] >= 0)
                add(j, 0, &given[i], run);
            if (given[i].b[0] >= 0)
                add(j, 1, &given[i], run);
        }
    j->list[0] = (results_expectation){.text = "allreduce 3000000 >= 900 GB/s",
                                       .path = "floors",
                                       .line = 1,
                                       .collective = "allreduce",
                                       .bytes = 3000000,
                                       .value = 900};
    j->list[1] = (results_expectation){.text = "allreduce 6000000 <= 500 us",
                                       .path = "floors",
                                       .line = 2,
                                       .collective = "allreduce",
                                       .bytes = 6000000,
                                       .value = 500,
                                       .is_time = 1};
    j->list[2] = (results_expectation){.text = "allreduce 3000000 algbw >= 142 GB/s",
                                       .path = "floors",
                                       .line = 3,
                                       .collective = "allreduce",
                                       .bytes = 3000000,
                                       .value = 142,
                                       .is_algbw = 1};
    j->expected = (results_expectations){.list = j->list, .count = 3};
    assert_int_equal(results_match(&j->a, &j->b, &j->rules, &j->comparison), 0);
    results_judge(&j->comparison, &j->rules);
    results_expect_check(&j->expected, &j->comparison);
    results_about_read(&j->a, &j->about_a);
    results_about_read(&j->b, &j->about_b);
    j->report = (results_report){.a = &j->a,
                                 .b = &j->b,
                                 .name_a = "before",
                                 .name_b = "after",
                                 .comparison = &j->comparison,
                                 .rules = &j->rules,
                                 .expectations = &j->expected,
                                 .about_a = &j->about_a,
                                 .about_b = &j->about_b,
                                 .exit_code = 1,
                                 .output = "d/night.prom"};
}

static void judged_free(judged *j)
{
    results_set_free(&j->a);
    results_set_free(&j->b);
}

static const results_pair *pair_of(const judged *j, const struct given *row)
{
    for (size_t i = 0; i < j->comparison.count; i++)
        if (j->comparison.pairs[i].example->bytes == row->bytes)
            return &j->comparison.pairs[i];
    fail_msg("no pair of %llu bytes", row->bytes);
    return NULL;
}

static char *printed(const judged *j, void (*print)(FILE *file, const results_report *report))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    print(file, &j->report);
    fclose(file);
    return text;
}

/* Checks that a text is a number, rounded to so many decimals; "-" or "" for NaN. */
static void expect_number(const char *what, const char *text, double value, int decimals)
{
    const char *dot = strchr(text, '.');
    char *end;
    const double got = strtod(text, &end);
    if (isnan(value) ? text[0] && strcmp(text, "-") != 0
                     : end == text || *end || (dot ? (int)strlen(dot + 1) : 0) != decimals ||
                           fabs(got - value) > 0.501 * pow(10, -decimals))
        fail_msg("%s is '%s', expected %.6f with %d decimals", what, text, value, decimals);
}

static void expect_close(const char *what, double got, double value)
{
    if (isnan(value) ? !isnan(got) : !(fabs(got - value) <= 1e-6 * fabs(value)))
        fail_msg("%s is %.9g, expected %.9g", what, got, value);
}

TEST(medians_ratios_and_bandwidths_are_those_of_the_times)
{
    judged j;
    judged_make(&j);
    for (int i = 0; i < GIVEN; i++) {
        const results_pair *pair = pair_of(&j, &given[i]);
        const double a = median_of(given[i].a), b = median_of(given[i].b);
        expect_close("A's median", pair->a.median_us, a);
        expect_close("B's median", pair->b.median_us, b);
        expect_close("A's bandwidth", pair->a.busbw_gbs, busbw_of(&given[i], a));
        expect_close("B's bandwidth", pair->b.busbw_gbs, busbw_of(&given[i], b));
        expect_close("the ratio", pair->ratio, ratio_of(&given[i]));
        assert_int_equal(pair->a.starts, given[i].a[0] < 0 ? 0 : RUNS);
        assert_int_equal(pair->b.starts, given[i].b[0] < 0   ? 0
                                         : given[i].b[0] > 0 ? RUNS
                                                             : RUNS - 1);
        assert_string_equal(results_verdict_name(pair->verdict), given[i].verdict);
        assert_string_equal(pair->reason, given[i].reason);
        if (!isnan(ratio_of(&given[i])))
            assert_true(pair->low < pair->ratio && pair->ratio < pair->high && pair->p > 0 &&
                        pair->p < 1);
    }
    assert_int_equal(j.comparison.wrong, 1);
    assert_int_equal(j.comparison.starts_a, RUNS);
    judged_free(&j);
}

/* The line of a text that begins with blanks and the number of bytes. */
static const char *line_of(const char *text, unsigned long long bytes, char *line)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", bytes);
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        const char *first = at + strspn(at, " ");
        if (strncmp(first, number, strlen(number)) == 0 && first[strlen(number)] == ' ') {
            snprintf(line, TEXT_BYTES, "%.*s", (int)strcspn(first, "\n"), first);
            return line;
        }
    }
    fail_msg("no line of %llu bytes in\n%s", bytes, text);
    return NULL;
}

static int decimals_of(double value)
{
    return isnan(value) || value < 100 ? 2 : 1;
}

TEST(the_text_has_the_numbers)
{
    judged j;
    judged_make(&j);
    char *text = printed(&j, results_print_text), line[TEXT_BYTES];
    for (int i = 0; i < GIVEN; i++) {
        const results_pair *pair = pair_of(&j, &given[i]);
        char words[13][64], rest[256] = "";
        double low = NAN, high = NAN;
        const double a = median_of(given[i].a), b = median_of(given[i].b);
        sscanf(line_of(text, given[i].bytes, line),
               "%63s %63s %63s %63s %63s %63s %63s %63s %63s %63s %63s "
               "%63s %63s %255[^\n]",
               words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7],
               words[8], words[9], words[10], words[11], words[12], rest);
        assert_string_equal(words[1], given[i].collective);
        assert_string_equal(words[2], given[i].dtype);
        assert_string_equal(words[3], given[i].redop);
        expect_number("ranks", words[4], given[i].ranks, 0);
        assert_string_equal(words[5], given[i].placement);
        expect_number("A us", words[8], a, decimals_of(a));
        expect_number("B us", words[9], b, decimals_of(b));
        expect_number("A GB/s", words[10], busbw_of(&given[i], a),
                      decimals_of(busbw_of(&given[i], a)));
        expect_number("B GB/s", words[11], busbw_of(&given[i], b),
                      decimals_of(busbw_of(&given[i], b)));
        expect_number("B/A", words[12], ratio_of(&given[i]), 3);
        if (!isnan(ratio_of(&given[i]))) {
            sscanf(rest, "[%lf, %lf]", &low, &high);
            if (!(fabs(low - pair->low) < 6e-4 && fabs(high - pair->high) < 6e-4))
                fail_msg("interval %.4f, %.4f of %.6f, %.6f in %s", low, high, pair->low,
                         pair->high, line);
        }
        assert_non_null(strstr(line, given[i].verdict));
    }
    assert_non_null(strstr(text, "# A: before: 12 rows, 3 runs, host node\n"));
    assert_non_null(strstr(text, "# B: after: 12 rows, 3 runs, host node\n"));
    assert_non_null(strstr(text,
                           "# Verdict: regressed (2 regressed, 1 improved, 0 inconclusive, 0 no "
                           "difference, 1 missing in A, 1 missing in B)\n"));
    assert_non_null(
        strstr(text, "# expected allreduce 3000000 >= 900 GB/s: unmet (214.3, float sum, 4 "));
    assert_non_null(
        strstr(text, "# expected allreduce 6000000 <= 500 us: met (205, float sum, 4 ranks"));
    assert_null(strstr(text, "nan"));
    free(text);
    judged_free(&j);
}

/* Takes the cells of a table's row apart, in place. Returns their number. */
static int cells_of(char *line, const char *mark, char **cells, int most)
{
    int count = 0;
    for (char *at = line, *end; count < most && (end = strstr(at, mark)) != NULL;
         at = end + strlen(mark)) {
        *end = '\0';
        cells[count++] = at;
    }
    return count;
}

TEST(the_markdown_has_the_numbers)
{
    judged j;
    judged_make(&j);
    char *text = printed(&j, results_print_markdown);
    for (int i = 0; i < GIVEN; i++) {
        char start[64], line[TEXT_BYTES], *cells[16], expected[96] = "";
        const results_pair *pair = pair_of(&j, &given[i]);
        const double a = median_of(given[i].a), b = median_of(given[i].b);
        snprintf(start, sizeof start, "\n| %llu | ", given[i].bytes);
        const char *at = strstr(text, start);
        assert_non_null(at);
        snprintf(line, sizeof line, "%.*s ", (int)strcspn(at + 1, "\n"), at + 1);
        assert_int_equal(cells_of(line, " | ", cells, 16), 13);
        expect_number("ranks", cells[4], given[i].ranks, 0);
        expect_number("A us", cells[7], a, 2);
        expect_number("B us", cells[8], b, 2);
        expect_number("A GB/s", cells[9], busbw_of(&given[i], a), 2);
        expect_number("B GB/s", cells[10], busbw_of(&given[i], b), 2);
        if (!isnan(ratio_of(&given[i])))
            snprintf(expected, sizeof expected, "%.3f (%.3f to %.3f)", b / a, pair->low,
                     pair->high);
        assert_string_equal(cells[11], expected);
    }
    free(text);
    judged_free(&j);
}

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static json_t *parsed(const judged *j, void (*print)(FILE *file, const results_report *report))
{
    char *text = printed(j, print);
    json_t *top = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    assert_non_null(top);
    return top;
}

TEST(the_json_has_the_numbers)
{
    judged j;
    judged_make(&j);
    json_t *top = parsed(&j, results_print_json), *row;
    size_t i;
    assert_true(real(top, "schema") == 1 && real(top, "problems") == 0);
    expect_close("min_effect", real(top, "min_effect"), 0.03);
    expect_close("alpha", real(top, "alpha"), 0.05);
    assert_string_equal(json_string_value(json_object_get(top, "verdict")), "regressed");
    assert_int_equal(json_array_size(json_object_get(top, "rows")), GIVEN);
    json_array_foreach(json_object_get(top, "rows"), i, row)
    {
        int k = 0;
        while (k < GIVEN && given[k].bytes != (unsigned long long)real(row, "bytes"))
            k++;
        assert_true(k < GIVEN);
        const results_pair *pair = pair_of(&j, &given[k]);
        const json_t *a = json_object_get(row, "a"), *b = json_object_get(row, "b");
        const double us_a = median_of(given[k].a), us_b = median_of(given[k].b);
        expect_close("a.median_us", real(a, "median_us"), us_a);
        expect_close("b.median_us", real(b, "median_us"), us_b);
        expect_close("a.busbw_gbs", real(a, "busbw_gbs"), busbw_of(&given[k], us_a));
        expect_close("b.busbw_gbs", real(b, "busbw_gbs"), busbw_of(&given[k], us_b));
        assert_true(real(a, "starts") == pair->a.starts && real(b, "starts") == pair->b.starts);
        assert_int_equal(json_is_true(json_object_get(b, "failed")), given[k].b[0] == 0);
        assert_true(real(row, "nranks") == given[k].ranks);
        expect_close("ratio", real(row, "ratio"), ratio_of(&given[k]));
        expect_close("low", real(row, "low"), pair->low);
        expect_close("high", real(row, "high"), pair->high);
        expect_close("p", real(row, "p"), pair->p);
        expect_close("p_corrected", real(row, "p_corrected"), pair->p_corrected);
        assert_string_equal(json_string_value(json_object_get(row, "verdict")), given[k].verdict);
        assert_string_equal(json_string_value(json_object_get(row, "reason")), pair->reason);
        assert_true(real(row, "pairs") == pair->paired);
        static const struct {
            const char *key;
            int text;
        } words[] = {{"collective", RESULTS_COLLECTIVE}, {"dtype", RESULTS_DTYPE},
                     {"redop", RESULTS_REDOP},           {"placement", RESULTS_PLACEMENT},
                     {"contender", RESULTS_CONTENDER},   {"algo", RESULTS_ALGO}};
        for (int w = 0; w < (pair->a.starts > 0 ? 6 : 4); w++)
            assert_string_equal(json_string_value(json_object_get(w < 4 ? row : a, words[w].key)),
                                (w < 4 ? pair->example : pair->a.rows[0])->text[words[w].text]);
    }
    row = json_array_get(json_object_get(top, "expected"), 0);
    expect_close("got", real(row, "got"), busbw_of(&given[0], 21));
    assert_true(real(row, "line") == 1);
    row = json_array_get(json_object_get(top, "expected"), 2);
    expect_close("algbw", real(row, "got"), 3e6 / 21e-6 / 1e9);
    json_decref(top);
    judged_free(&j);
}

/* Of 8 checks, a row, an expectation and the wrong row failed; a row and two expectations passed.
 */
TEST(ctrf_has_the_numbers)
{
    static const struct {
        const char *key;
        int count;
    } sums[] = {{"tests", 8},   {"passed", 3}, {"failed", 3},
                {"skipped", 2}, {"other", 0},  {"pending", 0}};
    judged j;
    judged_make(&j);
    json_t *top = parsed(&j, results_print_ctrf), *test;
    const json_t *results = json_object_get(top, "results"),
                 *summary = json_object_get(results, "summary");
    size_t i, found = 0;
    for (i = 0; i < sizeof sums / sizeof *sums; i++)
        assert_true(real(summary, sums[i].key) == sums[i].count);
    json_array_foreach(json_object_get(results, "tests"), i, test)
    {
        const json_t *extra = json_object_get(test, "extra"),
                     *suite = json_object_get(test, "suite");
        const char *name = json_string_value(json_object_get(test, "name"));
        assert_true(json_array_size(suite) == 1 && json_is_string(json_array_get(suite, 0)));
        assert_true(real(test, "duration") == 0);
        for (int k = 0; k < 2; k++) {
            char id[64];
            snprintf(id, sizeof id, "allreduce, %llu bytes, ", given[k].bytes);
            if (strncmp(name, id, strlen(id)) != 0)
                continue;
            expect_close("value", real(extra, "value"),
                         median_of(given[k].b) / median_of(given[k].a));
            expect_close("expected", real(extra, "expected"), 1.03);
            found++;
        }
        if (strcmp(name, j.list[1].text) == 0) {
            expect_close("value", real(extra, "value"), 205);
            expect_close("expected", real(extra, "expected"), 500);
            found++;
        }
    }
    assert_int_equal(found, 3);
    json_decref(top);
    judged_free(&j);
}

/* The value of the only sample of a metric that has all of the texts in its labels. */
static double sample(const char *text, const char *metric, const char *one, const char *other)
{
    double value = NAN;
    int found = 0;
    char line[1024];
    for (const char *at = text; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (strncmp(line, metric, strlen(metric)) != 0 || line[strlen(metric)] != '{' ||
            !strstr(line, one) || !strstr(line, other))
            continue;
        value = strtod(strrchr(line, ' '), NULL);
        found++;
    }
    assert_int_equal(found, 1);
    return value;
}

TEST(metrics_have_the_numbers)
{
    judged j;
    judged_make(&j);
    char *text = printed(&j, results_print_prometheus);
    static const char output[] = "output=\"night\"";
    assert_true(sample(text, "weir_compare_failed", output, "") == 3);
    assert_true(sample(text, "weir_compare_exit_code", output, "") == 1);
    assert_true(sample(text, "weir_compare_duration_seconds", output, "") == 0);
    assert_true(sample(text, "weir_compare_ok", "check=\"allreduce, 3000000 ", output) == 0);
    assert_true(sample(text, "weir_compare_ok", "check=\"allreduce, 6000000 ", output) == 1);
    expect_close("value", sample(text, "weir_compare_value", "check=\"allreduce, 3000000 ", output),
                 21.0 / 11);
    for (int i = 0; i < GIVEN; i++) {
        char bytes[64];
        const double b = median_of(given[i].b);
        snprintf(bytes, sizeof bytes, ",bytes=\"%llu\",nranks=\"4\",", given[i].bytes);
        if (isnan(b)) {
            assert_null(strstr(text, bytes));
            continue;
        }
        expect_close("latency", sample(text, "weir_latency_seconds", bytes, output), b * 1e-6);
        expect_close("bandwidth", sample(text, "weir_busbw_gbs", bytes, output),
                     busbw_of(&given[i], b));
    }
    free(text);
    judged_free(&j);
}

TEST(junit_has_the_numbers)
{
    judged j;
    judged_make(&j);
    char *text = printed(&j, results_print_junit);
    assert_non_null(
        strstr(text, "<testsuite name=\"weir-compare\" tests=\"8\" failures=\"3\" skipped=\"2\" "
                     "time=\"0.000\" hostname=\"node\">"));
    assert_non_null(
        strstr(text, "<failure message=\"regressed: 1.909, expected &lt;= 1.030; B/A 1.909 ("));
    assert_non_null(
        strstr(text, "A 11.00 us, 409.09 GB/s; B 21.00 us, 214.29 GB/s\" type=\"regressed\"/>"));
    assert_non_null(strstr(text, "improved: 0.500, expected &lt;= 1.030; B/A 0.500 ("));
    assert_non_null(strstr(text, "A 410.00 us, 21.95 GB/s; B 205.00 us, 43.90 GB/s</system-out>"));
    assert_non_null(strstr(text, "unmet: 214.29 GB/s, expected &gt;= 900.00 GB/s"));
    assert_non_null(strstr(text, "met: 205.00 us, expected &lt;= 500.00 us"));
    free(text);
    judged_free(&j);
}

TEST(the_page_has_the_numbers)
{
    judged j;
    judged_make(&j);
    char *text = NULL;
    size_t bytes = 0;
    const results_manifest none = {.count = 0};
    const results_machine machine = {NULL, NULL};
    results_page page = {.file = open_memstream(&text, &bytes),
                         .report = &j.report,
                         .manifest_a = &none,
                         .manifest_b = &none,
                         .machine = &machine};
    assert_int_equal(results_page_write(&page), 0);
    fclose(page.file);
    for (int i = 0; i < GIVEN; i++) {
        char start[64], line[TEXT_BYTES], *cells[16];
        const double a = median_of(given[i].a), b = median_of(given[i].b);
        snprintf(start, sizeof start, "<tr><td class=\"n\">%llu</td>", given[i].bytes);
        const char *at = strstr(text, start);
        assert_non_null(at);
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        const double numbers[] = {a, b, busbw_of(&given[i], a), busbw_of(&given[i], b)};
        assert_true(cells_of(line, "</td>", cells, 16) >= 9);
        for (int k = 0; k < 4; k++)
            expect_number("a cell", strrchr(cells[3 + k], '>') + 1, numbers[k], 2);
        if (!isnan(ratio_of(&given[i])))
            expect_close("B/A", strtod(strrchr(cells[7], '>') + 1, NULL), round(b / a * 1e3) / 1e3);
    }
    assert_non_null(
        strstr(text, "2 regressed, 1 improved, 0 inconclusive, 0 no difference, 1 missing in A"));
    assert_non_null(strstr(text, "<td>12 (0 lines that could not be used)</td>"));
    free(text);
    judged_free(&j);
}

/* The value of a row in a plot: bandwidth, time, or ratio; NaN: none. */
static double drawn(const struct given *row, int plot, int is_b)
{
    const double time_us = median_of(is_b ? row->b : row->a);
    return plot == 2 ? (is_b ? ratio_of(row) : NAN) : plot == 1 ? time_us : busbw_of(row, time_us);
}

/* The plots' script: after each label, the lines "size value low high" of its plot. */
TEST(the_plots_have_the_numbers)
{
    static const char *const labels[] = {"'busbw, GB/s'", "'time, us'", "'time of B / time of A'"};
    judged j;
    judged_make(&j);
    char *script = NULL, folder[] = "/tmp/weir_plots_XXXXXX", path[64], *rest = NULL;
    size_t bytes = 0;
    results_plots plots = {.script = open_memstream(&script, &bytes)};
    const results_machine machine = {NULL, NULL};
    const results_page page = {.report = &j.report, .plots = &plots, .machine = &machine};
    results_group groups[GIVEN];
    assert_non_null(mkdtemp(folder));
    snprintf(plots.folder, sizeof plots.folder, "%s", folder);
    assert_int_equal(results_groups_make(&page, groups, GIVEN), 3);
    fclose(plots.script);
    int plot = -1, found[3] = {0};
    for (char *line = strtok_r(script, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        double x, y, low, high;
        for (int i = 0; strncmp(line, "set ylabel ", 11) == 0 && i < 3; i++)
            plot = strcmp(line + 11, labels[i]) == 0 ? i : plot;
        if (sscanf(line, "%lf %lf %lf %lf", &x, &y, &low, &high) != 4)
            continue;
        assert_true(low <= y && y <= high);
        for (int i = 0; i < 2 * GIVEN; i++)
            found[plot] += x == (double)given[i / 2].bytes &&
                           fabs(y / drawn(&given[i / 2], plot, i % 2) - 1) < 1e-7;
    }
    assert_true(found[0] == 8 && found[1] == 8 && found[2] == 2);
    for (int i = 0; i < plots.count; i++) {
        snprintf(path, sizeof path, "%s/%d.points", folder, i);
        unlink(path);
    }
    rmdir(folder);
    free(script);
    judged_free(&j);
}

TEST(a_csv_has_the_numbers_as_they_were_read)
{
    judged j;
    judged_make(&j);
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    results_print_csv(file, &j.b);
    fclose(file);
    assert_non_null(strstr(
        text, "\n5,b1,,node,allreduce,host,,4,1,weir,ring,float,sum,-1,out,3000000,,,21.000,,"));
    assert_non_null(strstr(
        text, "\n5,b0,,node,allgather,host,,4,1,weir,ring,half,none,-1,in,4096,,,,,,,,,,,fail,3,"));
    free(text);
    judged_free(&j);
}

/* Two pairs that differ in one cell. */
typedef struct apart_pairs {
    results_row rows[2];
    results_pair pairs[2];
    results_comparison comparison;
} apart_pairs;

static void apart_make(apart_pairs *made, results_column column, const char *first,
                       const char *second)
{
    *made = (apart_pairs){.comparison = {.pairs = made->pairs, .count = 2}};
    for (int i = 0; i < 2; i++) {
        results_row *row = &made->rows[i];
        *row = results_row_make("a.csv", i + 2, RESULTS_OWN_CSV);
        row->text[RESULTS_COLLECTIVE] = "moe";
        row->text[RESULTS_DIST] = "even/rank/padded-a-a16/bf16/plain/graph";
        row->text[RESULTS_LAYOUT] = "rank";
        row->text[RESULTS_TOKENS] = "128";
        row->text[RESULTS_HIDDEN] = "7168";
        row->text[RESULTS_EXPERTS] = "64";
        row->text[RESULTS_TOPK] = "8";
        row->text[RESULTS_DISPATCH_DTYPE] = "bf16";
        row->text[column] = i ? second : first;
        made->pairs[i].example = row;
    }
}

static void expect_apart(results_column column, const char *first, const char *second, int of_curve,
                         const char *text_of_first, const char *text_of_second)
{
    apart_pairs made;
    char text[256];
    apart_make(&made, column, first, second);
    results_pair_apart(&made.comparison, &made.pairs[0], "; ", of_curve, text, sizeof text);
    assert_string_equal(text, text_of_first);
    results_pair_apart(&made.comparison, &made.pairs[1], "; ", of_curve, text, sizeof text);
    assert_string_equal(text, text_of_second);
}

TEST(what_sets_rows_apart_is_named_and_nothing_else)
{
    const char *const dist = "even/rank/padded-a-a16/bf16/plain/graph";
    for (int of_curve = 0; of_curve < 2; of_curve++) {
        expect_apart(RESULTS_LAYOUT, "rank", "rank", of_curve, "", "");
        expect_apart(RESULTS_LAYOUT, "rank", "expert", of_curve, "; layout rank",
                     "; layout expert");
        expect_apart(RESULTS_HIDDEN, "7168", "716", of_curve, "; hidden 7168", "; hidden 716");
        expect_apart(RESULTS_EXPERTS, "64", "32", of_curve, "; experts 64", "; experts 32");
        expect_apart(RESULTS_TOPK, "8", "4", of_curve, "; topk 8", "; topk 4");
        expect_apart(RESULTS_DISPATCH_DTYPE, "bf16", "fp8", of_curve, "; dispatch bf16",
                     "; dispatch fp8");
        expect_apart(RESULTS_DIST, dist, "zipf/rank/padded-a-a16/bf16/plain/graph", of_curve,
                     "; even", "; zipf");
        expect_apart(RESULTS_DIST, dist, "even/rank/padded-a-a8/bf16/plain/graph", of_curve,
                     "; alignment 16", "; alignment 8");
        expect_apart(RESULTS_DIST, dist, "even/rank/padded-a-a16/bf16/weir/graph", of_curve,
                     "; memory plain", "; memory weir");
        expect_apart(RESULTS_DIST, dist, "even/rank/padded-a-a16/bf16/plain", of_curve, "; graph",
                     "");
        expect_apart(RESULTS_DIST, dist, "zipf/rank/padded-a-a8/bf16/plain/graph", of_curve,
                     "; even, alignment 16", "; zipf, alignment 8");
    }
    expect_apart(RESULTS_TOKENS, "128", "256", 0, "; tokens 128", "; tokens 256");
    expect_apart(RESULTS_TOKENS, "128", "256", 1, "", ""); /* the sizes of the curve */
}

TEST(only_rows_of_one_group_are_set_apart)
{
    static const int columns[] = {RESULTS_COLLECTIVE, RESULTS_DTYPE, RESULTS_REDOP,
                                  RESULTS_PLACEMENT};
    apart_pairs made;
    char text[256];
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        apart_make(&made, RESULTS_TOPK, "8", "4");
        assert_true(results_same_group(&made.rows[0], &made.rows[1]));
        made.rows[1].text[columns[i]] = "other";
        assert_false(results_same_group(&made.rows[0], &made.rows[1]));
        for (int k = 0; k < 2; k++) {
            results_pair_apart(&made.comparison, &made.pairs[k], "; ", 0, text, sizeof text);
            assert_string_equal(text, "");
        }
    }
    apart_make(&made, RESULTS_TOPK, "8", "4");
    made.rows[1].nranks++;
    assert_false(results_same_group(&made.rows[0], &made.rows[1]));
    /* A distribution of other benchmarks has no parts. */
    apart_make(&made, RESULTS_DIST, "even/1-a2", "even/1-a3");
    made.rows[0].text[RESULTS_TOKENS] = made.rows[1].text[RESULTS_TOKENS] = "";
    results_pair_apart(&made.comparison, &made.pairs[0], "; ", 0, text, sizeof text);
    assert_string_equal(text, "; even/1-a2");
}

/* Links of 100 GB/s and 2 us: 1 MB takes 2 + 10 us at least, 40% of 30 us. */
TEST(a_row_is_a_percentage_of_the_measured_links)
{
    double gbs[] = {0, 100, 100, 0}, us[] = {0, 2, 3, 0};
    weiri_links links = {.backend = "cuda", .endpoints = 2, .gbs = gbs, .us = us, .nsizes = 1};
    results_machine machine = {.links = &links};
    results_row row = results_row_make("a.csv", 2, RESULTS_OWN_CSV);
    links.bytes[0] = 1e6;
    links.together_gbs[0] = 100;
    row.text[RESULTS_BACKEND] = "cuda";
    row.nnodes = 1;
    assert_true(fabs(results_machine_pct(&machine, &row, 30, 1e6 / 30e3) - 40) < 1e-9);
    assert_true(fabs(results_machine_pct(&machine, &row, 4, 2e5 / 4e3) - 100) < 1e-9);
    row.nnodes = 2;
    assert_true(isnan(results_machine_pct(&machine, &row, 30, 33)));
    row.nnodes = 1;
    row.text[RESULTS_BACKEND] = "host";
    assert_true(isnan(results_machine_pct(&machine, &row, 30, 33)));
    row.text[RESULTS_BACKEND] = "";
    assert_true(isnan(results_machine_pct(&machine, &row, 0, 33)));
    machine.links = NULL;
    assert_true(isnan(results_machine_pct(&machine, &row, 30, 33)));
}

int main(void)
{
    return run_all_tests("results_output");
}
