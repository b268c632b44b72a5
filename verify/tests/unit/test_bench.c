/*
 * The parts of the benchmarks that need no other rank: statistics, sizes, shapes, distributions,
 * number formats of the table, the header, options, peers, cold buffers, records, and the JSON
 * writer.
 */

#include "bench/blocks/blocks_options.h"
#include "bench/check/checks.h"
#include "bench/trial/data.h"
#include "bench/job/cache.h"
#include "bench/sizes/pattern.h"
#include "bench/sizes/dist.h"
#include "bench/options/environment.h"
#include "base/json.h"
#include "base/transports.h"
#include "bench/options/option_values.h"
#include "bench/options/parse.h"
#include "bench/options/paths.h"
#include "bench/options/peers.h"
#include "bench/options/options.h"
#include "bench/statistics/result.h"
#include "bench/moe/moe_options.h"
#include "bench/replay/replay_options.h"
#include "bench/sizes/shape.h"
#include "bench/statistics/stats.h"
#include "bench/output/floor.h"
#include "bench/output/csv.h"
#include "bench/output/table.h"
#include "bench/trial/trial.h"
#include "bench/output/floor.h"
#include "verify/tests/support/unit_test.h"

#include <getopt.h>
#include <math.h>
#include <unistd.h>

TEST(order_statistics_match_hand_computed_values)
{
    double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2}, hundred[200];
    bench_stats stats = bench_stats_make(odd, 5);
    assert_true(stats.median == 3 && stats.min == 1 && stats.max == 5 && stats.mean == 3);
    assert_true(stats.p99 == 5);
    assert_true(fabs(stats.stdev - sqrt(2)) < 1e-12);
    assert_true(bench_stats_make(even, 4).median == 2.5);
    for (int i = 0; i < 200; i++)
        hundred[i] = 200 - i;
    stats = bench_stats_make(hundred, 200);
    assert_true(stats.p99 == 198 && stats.p95 == 190);
    double one[] = {7};
    stats = bench_stats_make(one, 0);
    assert_true(isnan(stats.min) && isnan(stats.high975) && isnan(bench_stats_cv_pct(&stats)));
    stats = bench_stats_make(one, 1);
    assert_true(stats.median == 7 && stats.p99 == 7 && stats.ci_low == 7 && stats.ci_high == 7);
}

/* The binomial sums, computed by hand. n = 10: 2 P(B <= 1) = 22/1024 and 2 P(B <= 2) exceeds 5%,
 * hence the 2nd and the 9th; n = 20: 2 P(B <= 5) = 0.041, the 6th; n = 100: 2 P(B <= 39) = 0.035,
 * the 40th. Below 6 samples no pair reaches 95%. */
TEST(median_interval_ranks_match_the_binomial_sums)
{
    assert_int_equal(bench_stats_median_rank(1, 0.95), 1);
    assert_int_equal(bench_stats_median_rank(5, 0.95), 1);
    assert_int_equal(bench_stats_median_rank(6, 0.95), 1);
    assert_int_equal(bench_stats_median_rank(10, 0.95), 2);
    assert_int_equal(bench_stats_median_rank(20, 0.95), 6);
    assert_int_equal(bench_stats_median_rank(100, 0.95), 40);
    /* Large counts neither underflow nor leave the normal approximation. */
    size_t k = bench_stats_median_rank(20000, 0.95);
    assert_true(fabs((double)k - (10000 - 0.98 * sqrt(20000))) < 2);
}

/* The interval must miss the true median 0.5 in about 5% of 1000 samples of 25 numbers. */
TEST(median_interval_covers_the_median_95_percent_of_the_time)
{
    uint64_t x = 88172645463325252u;
    int missed = 0;
    for (int trial = 0; trial < 1000; trial++) {
        double samples[25];
        for (int i = 0; i < 25; i++)
            samples[i] = test_random_fraction(&x);
        bench_stats stats = bench_stats_make(samples, 25);
        missed += stats.ci_low > 0.5 || stats.ci_high < 0.5;
    }
    assert_in_range(missed, 20, 65);
}

/* The values of --transport are those of weir_transport, by name and by number. */
TEST(the_transport_option_has_the_words_of_the_library)
{
    char words[128] = "";
    for (int i = 0; i < WEIRI_TRANSPORTS; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", i ? "|" : "",
                 weiri_transport_row_of(i)->name);
    const weiri_option *found = NULL;
    for (int i = 0; i < bench_options_table.count; i++)
        if (strcmp(bench_options_table.rows[i].name, "transport") == 0)
            found = &bench_options_table.rows[i];
    assert_non_null(found);
    assert_string_equal(found->value, words);
}

TEST(ratios_are_described_by_their_interval)
{
    const struct {
        bench_ratio ratio;
        const char *text;
        int sign;
    } cases[] = {{{2, 1.01, 3}, "mpi takes 2.00x as long [1.01, 3.00]", 1},
                 {{0.5, 0.4, 0.99}, "weir takes 2.00x as long [1.01, 2.50]", -1},
                 {{1.2, 0.9, 1.4}, "no difference shown [0.90, 1.40]", 0},
                 {{1.2, 1, 1.4}, "no difference shown [1.00, 1.40]", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[80];
        bench_ratio_describe(&cases[i].ratio, "mpi", "weir", text, sizeof text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(bench_ratio_sign(&cases[i].ratio), cases[i].sign);
    }
}

TEST(ratio_of_medians_lies_in_its_interval)
{
    double slow[50], fast[50];
    for (int i = 0; i < 50; i++) {
        slow[i] = 20 + 0.01 * i;
        fast[i] = 10 + 0.01 * i;
    }
    bench_stats above = bench_stats_make(slow, 50), below = bench_stats_make(fast, 50);
    bench_ratio ratio = bench_stats_ratio(&above, &below);
    assert_true(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high);
    assert_true(fabs(ratio.ratio - 20.245 / 10.245) < 1e-9);
    assert_true(ratio.low > 1.9 && ratio.high < 2.05);
}

static bench_options parsed(const char *arguments)
{
    static char text[512];
    static char problem[BENCH_PROBLEM_BYTES];
    char *argv[32] = {(char *)(uintptr_t) "bench"};
    int argc = 1;
    bench_options options;
    snprintf(text, sizeof text, "%s", arguments);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    assert_int_equal(bench_options_parse(argc, argv, WEIR_COLL_ALLREDUCE, &options, problem),
                     WEIR_OK);
    return options;
}

TEST(sizes_and_counts_have_defaults)
{
    bench_options options = parsed("");
    assert_true(options.min_bytes == 8 && options.max_bytes == 16u << 20);
    assert_true(options.step_factor == 4 && options.rank_time == BENCH_RANK_MAX);
    assert_true(options.iterations == 0 && options.warmups == -1 && options.checks == 1);
    options = parsed("-b 64M");
    assert_true(options.min_bytes == 64u << 20 && options.max_bytes == 64u << 20);
    options = parsed("-e 1K");
    assert_true(options.min_bytes == 1024 && options.max_bytes == 1024);
    options = parsed("-b 8 -e 4M");
    assert_true(options.step_factor == 1 && options.step_bytes == 1u << 20);
}

TEST(options_are_parsed_in_all_spellings)
{
    bench_options options = parsed("-b1.5K --maxbytes=2k -f2 --iters 7 -d f8e5m2 -o all -r all "
                                   "--peer mpi --seed 9");
    assert_true(options.min_bytes == 1536 && options.max_bytes == 2048);
    assert_true(options.iterations == 7 && options.dtype == WEIR_FP8_E5M2);
    assert_true(options.op == BENCH_ALL && options.root == BENCH_ALL);
    assert_true(options.npeers == 1 && options.seed == 9);
    assert_true(parsed("--until 2%").until == 0.02 && parsed("--until .5").until == 0.005);
}

TEST(a_floor_comes_from_the_option_else_from_nccl_tests_variable)
{
    char problem[BENCH_PROBLEM_BYTES] = "";
    bench_options options = parsed("");
    assert_null(options.floor_name);
    assert_true(bench_floor_is_met(&options, 0));
    setenv("NCCL_TESTS_MIN_BW", "100", 1); /* of which nccl-tests demands 90% */
    options = parsed("");
    assert_true(bench_floor_is_met(&options, 90.1) && !bench_floor_is_met(&options, 89.9));
    options = parsed("--min-bw 100");
    assert_true(bench_floor_is_met(&options, 100) && !bench_floor_is_met(&options, 99.9));
    assert_string_equal(bench_floor_word(&options, 100), "OK");
    assert_string_equal(bench_floor_word(&options, 99), "FAILED");
    setenv("NCCL_TESTS_MIN_BW", "-1", 1); /* none, as in nccl-tests */
    options = parsed("");
    assert_null(options.floor_name);
    static const char *const bad[] = {"fast", "10GB", "nan", "inf", "0x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("NCCL_TESTS_MIN_BW", bad[i], 1);
        options = (bench_options){.floor_gbs = 0};
        assert_int_equal(bench_floor_of_environment(&options, problem), -1);
        assert_non_null(strstr(problem, "expected a bandwidth"));
    }
    unsetenv("NCCL_TESTS_MIN_BW");
}

static int count_sizes(const bench_options *options)
{
    int count = 1;
    for (size_t size = options->min_bytes; (size = bench_sizes_next(options, size));)
        count++;
    return count;
}

TEST(sizes_are_stepped_by_factor_or_bytes_without_overflow)
{
    bench_options options = parsed("-b 8 -e 100 -f 3");
    size_t expected[] = {8, 24, 72, 0}, size = 8;
    for (int i = 0; i < 4; i++, size = bench_sizes_next(&options, size))
        assert_int_equal(size, expected[i]);
    assert_int_equal(count_sizes(&options), 3);
    assert_int_equal(bench_sizes_last(&options), 72);
    options = parsed("-b 10 -e 100 -i 40");
    assert_int_equal(count_sizes(&options), 3);
    assert_int_equal(bench_sizes_last(&options), 90);
    options = parsed("-b 0 -e 4 -f 2");
    assert_int_equal(count_sizes(&options), 4); /* 0 1 2 4 */
    assert_int_equal(bench_sizes_last(&options), 4);
    options.max_bytes = SIZE_MAX;
    options.step_factor = SIZE_MAX / 2;
    assert_int_equal(bench_sizes_next(&options, 3), 0); /* no overflow */
}

/* Exact to the byte, for either buffer; in place, all blocks are in the second. */
TEST(buffers_hold_shapes_up_to_the_last_byte)
{
    bench_buffers buffers = {.in.room_bytes = weirv_guard_bytes(64, 4),
                             .out.room_bytes = weirv_guard_bytes(64, 4)};
    bench_shape fits = {.send_elements = 16, .recv_elements = 4, .bytes = 64}, more = fits;
    assert_true(bench_buffers_hold(&buffers, &fits, 4, 1, 1));
    assert_false(bench_buffers_hold(&buffers, &fits, 4, 2, 1));
    more.send_elements = 17;
    assert_false(bench_buffers_hold(&buffers, &more, 4, 1, 1));
    more = fits;
    more.bytes = 68;
    assert_true(bench_buffers_hold(&buffers, &more, 4, 1, 0));
    assert_false(bench_buffers_hold(&buffers, &more, 4, 1, 1));
}

TEST(shapes_are_rounded_to_ranks_and_16_bytes)
{
    bench_dist dist;
    assert_int_equal(bench_dist_parse("spread:1", &dist), WEIR_OK);
    bench_shape shape = bench_shape_make(WEIR_COLL_ALLREDUCE, 1023, 4, 0, 8, &dist);
    assert_true(shape.count == 255 && shape.bytes == 1020);
    /* 1000 / 3 ranks = 333 bytes, rounded down to a multiple of 16: 320. */
    shape = bench_shape_make(WEIR_COLL_ALLGATHER, 1000, 4, 0, 3, &dist);
    assert_true(shape.count == 80 && shape.send_elements == 80 && shape.recv_elements == 240);
    assert_true(shape.send_stride_elements == 80 && shape.recv_stride_elements == 0);
    shape = bench_shape_make(WEIR_COLL_REDUCE_SCATTER, 1000, 4, 0, 3, &dist);
    assert_true(shape.send_elements == 240 && shape.recv_elements == 80);
    assert_true(shape.send_stride_elements == 0 && shape.recv_stride_elements == 80);
    assert_true(shape.bytes == 960);
    shape = bench_shape_make(WEIR_COLL_ALLTOALLV, 128, 4, 0, 4, &dist);
    assert_true(shape.count == 8 && shape.bytes == 112);
    shape = bench_shape_make(WEIR_COLL_ALLTOALL, 8, 1, 0, 4, &dist);
    assert_true(shape.count == 0 && shape.bytes == 0);
}

TEST(bus_bandwidth_factors_are_those_of_nccl_tests)
{
    assert_true(bench_bus_factor(WEIR_COLL_ALLREDUCE, 8) == 1.75);
    assert_true(bench_bus_factor(WEIR_COLL_ALLGATHER, 8) == 0.875);
    assert_true(bench_bus_factor(WEIR_COLL_REDUCE_SCATTER, 4) == 0.75);
    assert_true(bench_bus_factor(WEIR_COLL_ALLTOALLV, 2) == 0.5);
    assert_true(bench_bus_factor(WEIR_COLL_BROADCAST, 8) == 1);
    assert_true(bench_bus_factor(WEIR_COLL_ALLREDUCE, 1) == 0);
    assert_true(bench_bus_factor(WEIR_COLL_ALLTOALLV, 1) == 0);
    assert_true(bench_bus_factor(WEIR_COLL_BROADCAST, 1) == 1);
    assert_true(bench_bus_factor(WEIR_COLL_REDUCE, 1) == 1);
    assert_true(bench_bus_factor(WEIR_COLL_SENDRECV, 1) == 1);
}

/* Every rank sends and receives the same total, and pairs agree. */
TEST(ranks_send_and_receive_equal_totals_and_pairs_agree)
{
    bench_dist dist;
    assert_int_equal(bench_dist_parse("spread:0.5", &dist), WEIR_OK);
    for (int n = 1; n <= 9; n++) {
        size_t total = 0;
        for (int peer = 0; peer < n; peer++)
            total += bench_dist_elements(&dist, 0, 1000, 4, 0, peer, n);
        for (int rank = 0; rank < n; rank++) {
            size_t sent = 0, received = 0;
            for (int peer = 0; peer < n; peer++) {
                sent += bench_dist_elements(&dist, 0, 1000, 4, rank, peer, n);
                received += bench_dist_elements(&dist, 0, 1000, 4, peer, rank, n);
            }
            assert_int_equal(sent, total);
            assert_int_equal(received, total);
        }
    }
    assert_int_equal(bench_dist_parse("uniform", &dist), WEIR_OK);
    assert_int_equal(bench_dist_elements(&dist, 0, 8, 4, 0, 3, 4), 8);
    assert_int_equal(bench_dist_parse("spread:1", &dist), WEIR_OK);
    assert_int_equal(bench_dist_elements(&dist, 0, 8, 4, 2, 2, 4), 0);
    assert_int_equal(bench_dist_elements(&dist, 0, 8, 4, 2, 1, 4), 16);
    assert_int_not_equal(bench_dist_parse("spread:nan", &dist), WEIR_OK);
    assert_int_not_equal(bench_dist_parse("spread:", &dist), WEIR_OK);
}

TEST(table_numbers_fit_their_width)
{
    static const struct {
        double value;
        int width;
        const char *text;
    } cases[] = {{7.556, 7, "   7.56"},    {9999.994, 7, "9999.99"}, {12345.67, 7, "12345.7"},
                 {123456.7, 7, " 123457"}, {1234567, 7, "1234567"},  {12345678, 7, "1.2e+07"},
                 {1234.567, 6, "1234.6"},  {1234567, 6, " 1e+06"},   {0, 6, "  0.00"},
                 {NAN, 6, "   nan"}};
    char text[8];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_table_number(cases[i].value, cases[i].width, text);
        assert_string_equal(text, cases[i].text);
    }
}

TEST(json_is_escaped_and_nested)
{
    char text[256] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    weiri_json_writer json = {.file = file};
    assert_non_null(file);
    weiri_json_open_object(&json);
    weiri_json_key(&json, "a\"b");
    weiri_json_open_list(&json);
    weiri_json_add_whole(&json, -1);
    weiri_json_add_real(&json, 0.5);
    weiri_json_add_real(&json, NAN);
    weiri_json_add_text(&json, "tab\t");
    weiri_json_close_list(&json);
    weiri_json_key(&json, "c");
    weiri_json_open_object(&json);
    weiri_json_close_object(&json);
    weiri_json_close_object(&json);
    fclose(file);
    assert_string_equal(text, "{\n\"a\\\"b\": [-1,0.5,null,\"tab\\u0009\"],\n\"c\": {}}");
}

TEST(manifest_path_follows_the_output_path)
{
    static const char *const cases[][2] = {
        {"a.csv", "a.json"},       {"a.b/c", "a.b/c.json"}, {"x/a.b.csv", "x/a.b.json"},
        {"a.json", "a.json.json"}, {".csv", ".csv.json"},   {"../out", "../out.json"},
    };
    char path[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(bench_paths_manifest(cases[i][0], path, sizeof path), 0);
        assert_string_equal(path, cases[i][1]);
    }
    assert_int_equal(bench_paths_manifest("abc.csv", path, 8), -1);
    assert_int_equal(bench_paths_manifest("abc.csv", path, 9), 0);
}

/* Both words of either kind of memory mean the same; files record the first ones. */
/* Writes into text (64 bytes) what results record for --buffers after these arguments. */
static const char *recorded_buffers(const char *arguments, char *text)
{
    const bench_options options = parsed(arguments);
    FILE *to = fmemopen(text, 64, "w");
    assert_non_null(to);
    for (int i = 0; i < bench_options_table.count; i++)
        if (strcmp(bench_options_table.rows[i].name, "buffers") == 0)
            weiri_option_words.write(&bench_options_table.rows[i], &options, to);
    fclose(to);
    return text;
}

TEST(kinds_of_memory_have_two_words)
{
    static const struct {
        const char *words[3], *recorded;
        int buffers;
    } kinds[] = {{{"registered", "weir", NULL}, "weir", BENCH_BUFFERS_WEIR},
                 {{"unregistered", "plain", NULL}, "plain", BENCH_BUFFERS_PLAIN}};
    char argument[64], text[64], problem[BENCH_PROBLEM_BYTES];
    assert_string_equal(recorded_buffers("", text), "weir");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int word = 0; kinds[i].words[word]; word++) {
            snprintf(argument, sizeof argument, "--buffers %s", kinds[i].words[word]);
            bench_options options = parsed(argument);
            assert_int_equal(options.buffers, kinds[i].buffers);
            assert_string_equal(recorded_buffers(argument, text), kinds[i].recorded);
        }
    char *bad[] = {(char *)(uintptr_t) "bench", (char *)(uintptr_t) "--buffers",
                   (char *)(uintptr_t) "malloc"};
    bench_options options;
    assert_int_not_equal(bench_options_parse(3, bad, WEIR_COLL_ALLREDUCE, &options, problem),
                         WEIR_OK);
    assert_non_null(strstr(problem, "one of registered|unregistered"));
}

TEST(operations_of_batches_that_are_unchecked_are_named)
{
    char text[200] = "", problem[BENCH_PROBLEM_BYTES];
    char *words[] = {(char *)(uintptr_t) "bench"};
    bench_options options;
    assert_int_equal(bench_options_parse(1, words, WEIR_COLL_ALLREDUCE, &options, problem),
                     WEIR_OK);
    for (options.batched = 0; options.batched < 2; options.batched++) {
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        bench_checks_write_limits(out, &options);
        fclose(out);
        assert_int_equal(strstr(text, "# Unchecked: of the operations of a timed batch") != NULL,
                         options.batched);
    }
}

TEST(variables_of_nccl_that_change_nothing_are_named)
{
    char text[200];
    assert_int_equal(bench_environment_foreign(1, text, sizeof text), 0);
    assert_int_equal(bench_environment_foreign(0, text, sizeof text), 0);
    setenv("NCCL_TESTS_DEVICE", "1", 1);
    setenv("NCCL_ALGO", "Ring", 1);
    setenv("NCCL_BUFFSIZE", "1", 1);
    setenv("NCCL_PROTO", "", 1); /* empty counts as unset */
    assert_int_equal(bench_environment_foreign(1, text, sizeof text), 1);
    assert_string_equal(text, "NCCL_TESTS_DEVICE (ranks use the GPUs of CUDA_VISIBLE_DEVICES in "
                              "their order)");
    assert_int_equal(bench_environment_foreign(0, text, sizeof text), 2);
    assert_string_equal(text, "NCCL_ALGO (--algo); NCCL_BUFFSIZE");
    unsetenv("NCCL_TESTS_DEVICE");
    unsetenv("NCCL_ALGO");
    unsetenv("NCCL_BUFFSIZE");
    unsetenv("NCCL_PROTO");
}

/* nccl-tests' README: AND 0x7 is MOD 8, OR 0x7 is DIV 8. Its source: the color is the rank combined
 * with the number in C. */
static int color_of(char operation, int rank, int value)
{
    return operation == '&'   ? rank & value
           : operation == '|' ? rank | value
           : operation == '%' ? rank % value
                              : rank / value;
}

TEST(rules_that_divide_ranks_are_those_of_nccl_tests)
{
    static const struct {
        const char *text;
        char operation;
        int value;
    } rules[] = {
        {"AND 0x7", '&', 7}, {"and 7", '&', 7},       {"&0b101", '&', 5}, {"& 0x1", '&', 1},
        {"OR 0x7", '|', 7},  {"or0x3", '|', 3},       {"| 8", '|', 8},    {"MOD 8", '%', 8},
        {"mod:2", '%', 2},   {"%3", '%', 3},          {"DIV 8", '/', 8},  {"Div 0B10", '/', 2},
        {"/4", '/', 4},      {"  MOD  010 ", '%', 8}, {"AND 0", '&', 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        bench_split split = {.operation = BENCH_SPLIT_NONE};
        assert_int_equal(bench_split_read(rules[i].text, &split), 0);
        for (int rank = 0; rank < 64; rank++)
            assert_int_equal(bench_split_color(&split, rank),
                             color_of(rules[i].operation, rank, rules[i].value));
    }
}

TEST(masks_that_divide_ranks_are_hexadecimal)
{
    static const struct {
        const char *text;
        int mask;
    } masks[] = {{"0x7", 7}, {"7", 7}, {"10", 16}, {"f", 15}, {"0X1F", 31}, {"0", 0}};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        bench_split split = {.operation = BENCH_SPLIT_NONE};
        assert_int_equal(bench_split_read_mask(masks[i].text, &split), 0);
        for (int rank = 0; rank < 64; rank++)
            assert_int_equal(bench_split_color(&split, rank), rank & masks[i].mask);
    }
}

TEST(what_is_no_rule_is_refused)
{
    static const char *const bad[] = {"",  "MOD",    "MOD 0",  "DIV 0",  "XOR 3",
                                      "2", "mod x",  "MOD -2", "MOD 2x", "AND 99999999999",
                                      "%", "mod::2", "MOD+2"};
    bench_split split = {.operation = BENCH_SPLIT_DIV, .value = 5};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bench_split_read(bad[i], &split) == 0)
            fail_msg("'%s' is taken for a rule", bad[i]);
    assert_int_not_equal(bench_split_read_mask("g", &split), 0);
    assert_int_not_equal(bench_split_read_mask("-1", &split), 0);
    assert_int_equal(split.value, 5); /* kept */
}

TEST(variables_that_change_peers_are_shown_with_their_values)
{
    static const char *const names[] = {"NCCL_NVLS_ENABLE", "UCX_TLS", "NCCL_ALGO"};
    char text[200], cut[20];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    const int others = bench_environment_of_peers(text, sizeof text);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("UCX_TLS", "sm,self\n# forged", 1);
    setenv("NCCL_ALGO", "", 1);             /* empty counts as unset */
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* weir obeys it as well */
    setenv("NCCL_DEBUG", "WARN", 1);        /* changes no speed */
    assert_int_equal(bench_environment_of_peers(text, sizeof text), others + 2);
    assert_non_null(strstr(text, "NCCL_NVLS_ENABLE=0"));
    assert_non_null(strstr(text, "UCX_TLS=sm,self?#?forged"));
    assert_null(strstr(text, "CUDA_VISIBLE"));
    assert_null(strstr(text, "NCCL_DEBUG"));
    assert_true(bench_environment_of_peers(cut, sizeof cut) >= 1);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("NCCL_DEBUG");
}

/* NCCL reads ~/.nccl.conf unless NCCL_CONF_FILE names a file, even one that is not there. */
TEST(a_file_of_settings_of_nccl_is_shown)
{
    char folder[] = "/tmp/weir-home-XXXXXX", path[64], text[2000];
    const char *before = getenv("HOME");
    char *home = before ? strdup(before) : NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/.nccl.conf", folder);
    setenv("HOME", folder, 1);
    unsetenv("NCCL_CONF_FILE");
    const int others = bench_environment_of_peers(text, sizeof text);
    assert_null(strstr(text, "~/.nccl.conf"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(bench_environment_of_peers(text, sizeof text), others + 1);
    assert_non_null(strstr(text, "~/.nccl.conf"));
    setenv("NCCL_CONF_FILE", "/nowhere", 1);
    bench_environment_of_peers(text, sizeof text);
    assert_null(strstr(text, "~/.nccl.conf"));
    assert_non_null(strstr(text, "NCCL_CONF_FILE=/nowhere"));
    unsetenv("NCCL_CONF_FILE");
    unlink(path);
    rmdir(folder);
    if (home)
        setenv("HOME", home, 1);
    free(home);
}

/* Ignoring these changes nothing that a user may expect: weir obeys them, the kernel or CUDA does,
 * or they change the output of peers. */
TEST(variables_that_do_not_mislead_are_not_named)
{
    static const char *const silent[] = {
        "NCCL_SOCKET_IFNAME", "NCCL_DEBUG",           "NCCL_TOPO_DUMP_FILE",
        "NCCL_TESTS_MIN_BW",  "NCCL_TESTS_SPLIT",     "NCCL_TESTS_SPLIT_MASK",
        "NCCL_CUMEM_ENABLE",  "SLURM_CPU_BIND",       "SLURM_CPU_BIND_TYPE",
        "SLURM_GPUS_ON_NODE", "SLURM_LOCALID",        "SLURM_JOB_ID",
        "SLURM_STEP_GPUS",    "CUDA_VISIBLE_DEVICES", "HWLOC_XMLFILE",
        "OMPI_MCA_pml"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        char text[200];
        setenv(silent[i], "1", 1);
        assert_int_equal(bench_environment_foreign(1, text, sizeof text), 0);
        assert_int_equal(bench_environment_foreign(0, text, sizeof text), 0);
        assert_string_equal(text, "");
        unsetenv(silent[i]);
    }
}

TEST(variables_that_mislead_are_named_with_what_helps)
{
    static const struct {
        const char *name, *named;
        int of_tests;
    } variables[] = {
        {"NCCL_HOSTID", "NCCL_HOSTID (WEIR_HOSTID)", 0},
        {"NCCL_TOPO_FILE", "NCCL_TOPO_FILE (WEIR_IB_HCA for another NIC)", 0},
        {"NCCL_IB_HCA", "NCCL_IB_HCA (WEIR_IB_HCA)", 0},
        {"NCCL_IB_TC", "NCCL_IB_TC", 0},
        {"NCCL_TESTS_OF_LATER", "NCCL_TESTS_OF_LATER", 1}, /* unknown to this version */
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        char text[200];
        setenv(variables[i].name, "1", 1);
        assert_int_equal(bench_environment_foreign(variables[i].of_tests, text, sizeof text), 1);
        assert_string_equal(text, variables[i].named);
        assert_int_equal(bench_environment_foreign(!variables[i].of_tests, text, sizeof text), 0);
        unsetenv(variables[i].name);
    }
    char cut[12];
    setenv("NCCL_HOSTID", "1", 1);
    setenv("NCCL_IB_HCA", "1", 1);
    assert_true(bench_environment_foreign(0, cut, sizeof cut) >= 1);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    unsetenv("NCCL_HOSTID");
    unsetenv("NCCL_IB_HCA");
}

TEST(the_table_of_variables_is_printed)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    bench_environment_help(to);
    fclose(to);
    assert_non_null(strstr(text, "\n  NCCL_ALGO: peers only (--algo)\n"));
    assert_non_null(strstr(text, "\n  CUDA_VISIBLE_DEVICES: obeyed (read by CUDA)\n"));
    assert_non_null(strstr(text, "\n  SLURM_CPU_BIND: not used (weir uses the cores that the "
                                 "kernel allows)\n"));
    free(text);
}

/* Neither secrets nor names that only start like a listed one are recorded. */
TEST(only_listed_environment_variables_are_recorded)
{
    static const char *const recorded[] = {"WEIR_ALGO=ring",
                                           "WEIR_CMA=0",
                                           "WEIR_XPMEM=0",
                                           "WEIR_CONNECT=all",
                                           "WEIR_SOCKET_STREAMS=1",
                                           "WEIR_METRICS=json",
                                           "NCCL_SOCKET_IFNAME=eth0",
                                           "NCCL_PROTO=LL",
                                           "NCCL_TOPO_FILE=/etc/nccl/topo.xml",
                                           "SLURM_CPU_BIND=quiet,mask_cpu:0x3",
                                           "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                                           "UCX_TLS=shm",
                                           "LD_PRELOAD="};
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++)
        assert_true(bench_environment_allows(recorded[i]));
    assert_true(bench_environment_allows("WEIR_ALGORITHM=x")); /* no variable, but set for weir */
    assert_true(bench_environment_allows("WEIR_TIMOUT_MS=5"));
    assert_false(bench_environment_allows("WEIR_BOOT_SECRT=x"));
    assert_false(bench_environment_allows("WEIR_SECRET=x"));
    assert_false(bench_environment_allows("WEIR_BOTSECRET=x"));
    assert_false(bench_environment_allows("WEIRD_ALGO=x"));
    assert_false(bench_environment_allows("WEIR_ALGO"));
    assert_false(bench_environment_allows("WEIR_BOOT_SECRET=x"));
    assert_false(bench_environment_allows("NCCL_COMM_ID=10.0.0.1:5000"));
    assert_false(bench_environment_allows("RANK=3"));
    assert_false(bench_environment_allows("SLURM_JOB_ID=7"));
    assert_false(bench_environment_allows("AWS_SECRET_ACCESS_KEY=x"));
    assert_false(bench_environment_allows("HOME=/root"));
    assert_false(bench_environment_allows(""));
}

/* Operations use every copy of the buffers once before any is used again, with the input filled and
 * the output poisoned; consecutive copies are not neighbours in memory. */
TEST(cold_operations_use_every_copy_once_in_scattered_order)
{
    enum { COPIES = 10, ELEMENTS = 20, STRIDE = 128 };
    static float in[ELEMENTS + COPIES * STRIDE / 4], out[ELEMENTS + COPIES * STRIDE / 4];
    bench_options options = parsed("--cold");
    bench_row row = {.dtype = WEIR_FLOAT, .shape.bytes = 80};
    bench_buffers buffers = {
        .in = {.base = in, .bytes = sizeof in, .first_bytes = 80, .pool_bytes = COPIES * STRIDE},
        .out = {.base = out,
                .bytes = sizeof out,
                .first_bytes = 80,
                .pool_bytes = COPIES * STRIDE + 100},
        .operands = {in, out}};
    bench_trial trial = {.options = &options,
                         .buffers = &buffers,
                         .operands = &buffers.operands,
                         .row = &row,
                         .layout = {.in = in, .out = out}};
    const float *last = NULL;
    int uses[COPIES] = {0};
    row.shape.send_elements = row.shape.recv_elements = ELEMENTS;
    for (int i = 0; i < ELEMENTS; i++)
        in[i] = (float)i;
    bench_cold_place(&trial);
    assert_int_equal(trial.rotation.count, COPIES);
    bench_cold_fill(&trial);
    for (int i = 0; i < COPIES; i++) {
        bench_cold_next(&trial);
        const float *now = trial.operation.call.in;
        assert_memory_equal(now, in, 80);
        assert_true(isnan(*(const float *)trial.operation.call.out));
        assert_true(!last || labs(now - last) > STRIDE / 4);
        uses[(now - in - ELEMENTS) / (STRIDE / 4)]++;
        last = now;
    }
    for (int i = 0; i < COPIES; i++)
        assert_int_equal(uses[i], 1);
    bench_cold_reset(&trial);
    assert_true(trial.operation.call.in == in && trial.operation.call.out == out);
    options.cold = 0;
    bench_cold_place(&trial);
    bench_cold_next(&trial);
    assert_true(trial.operation.call.in == in && trial.operation.call.out == out);
}

TEST(cold_pools_exceed_the_cache_share)
{
    assert_int_equal(bench_cache_sharers(8, 4, 16), 2);
    assert_int_equal(bench_cache_sharers(5, 4, 16), 2);
    assert_int_equal(bench_cache_sharers(8, 16, 16), 8);
    assert_int_equal(bench_cache_sharers(3, 0, 16), 3);
    assert_true(bench_cache_pool_bytes(1, 64) >= 2 * bench_cache_bytes());
    assert_true(bench_cache_pool_bytes(8, (size_t)1 << 40) == (size_t)1 << 40);
}

TEST(results_count_all_that_is_wrong)
{
    bench_result result = {.checked = 1,
                           .check = {.wrong = 1, .overruns = 20, .inputs_changed = 300}};
    assert_int_equal(bench_result_wrong(&result), 321);
    result.checked = 0;
    assert_int_equal(bench_result_wrong(&result), 0);
}

/* All writers show the same: a wrong result has neither times nor bandwidths, and a count. */
TEST(figures_of_a_row_are_computed_once_for_all_writers)
{
    const bench_row row = {
        .collective = WEIR_COLL_ALLREDUCE, .nranks = 4, .shape = {.bytes = 3000}};
    bench_result result = {.ran = 1, .timed = 1, .time_us = 2, .stats = {.median = 3}};
    bench_figures figures = bench_result_figures(&row, &result);
    assert_true(figures.is_usable && !figures.is_wrong && figures.wrong == 0);
    assert_float_equal(figures.algbw_gbs, 1, 1e-9);
    assert_float_equal(figures.busbw_gbs, 1.5, 1e-9);
    assert_float_equal(figures.shown_algbw_gbs, 1.5, 1e-9);
    assert_float_equal(figures.shown_busbw_gbs, 2.25, 1e-9);
    result.checked = 1;
    result.check = (weirv_result){.wrong = 1, .overruns = 2, .inputs_changed = 3};
    figures = bench_result_figures(&row, &result);
    assert_true(figures.is_wrong && !figures.is_usable && figures.wrong == 6);
    assert_true(isnan(figures.algbw_gbs) && isnan(figures.busbw_gbs));
    assert_true(isnan(figures.shown_algbw_gbs) && isnan(figures.shown_busbw_gbs));
    result.check = (weirv_result){.wrong = 0};
    result.timed = 0;
    figures = bench_result_figures(&row, &result);
    assert_true(!figures.is_wrong && !figures.is_usable && isnan(figures.busbw_gbs));
}

TEST(results_fail_on_wrong_data_overruns_and_changed_inputs)
{
    bench_result result = {.checked = 1};
    assert_false(bench_result_failed(&result));
    result.check.overruns = 1;
    assert_true(bench_result_failed(&result));
    result.check = (weirv_result){.inputs_changed = 1};
    assert_true(bench_result_failed(&result));
    result.check = (weirv_result){.wrong = 1};
    assert_true(bench_result_failed(&result));
    result.checked = 0;
    assert_false(bench_result_failed(&result));
}

/* Writes the columns of a record except skipped, and that named twice once more. */
static void fill_record(bench_record *record, int skipped, int twice)
{
    bench_record_begin(record);
    for (int i = 0; i < BENCH_COLUMNS; i++)
        if (i != skipped)
            bench_record_print(record, (bench_column_index)i, "%d", i);
    if (twice >= 0)
        bench_record_put(record, (bench_column_index)twice, "again");
    bench_record_end(record);
}

TEST(a_column_that_is_forgotten_or_written_twice_is_named)
{
    bench_record record;
    fill_record(&record, -1, -1);
    assert_null(record.fault);
    for (int i = 0; i < BENCH_COLUMNS; i++) {
        fill_record(&record, i, -1);
        assert_string_equal(record.fault, bench_columns[i].name);
        assert_string_equal(record.text[i], "");
        fill_record(&record, -1, i);
        assert_string_equal(record.fault, bench_columns[i].name);
    }
}

TEST(a_faulty_record_fails_the_run_when_its_file_is_closed)
{
    char path[] = "/tmp/weir-record-XXXXXX";
    bench_job job = {.program = "test"};
    bench_options options = {.csv_path = path};
    bench_run run = {.job = &job, .options = &options};
    bench_csv csv;
    close(mkstemp(path));
    for (int forgotten = -1; forgotten <= BENCH_COLUMN_SETTINGS;
         forgotten += BENCH_COLUMN_SETTINGS + 1) {
        bench_record first, good;
        fill_record(&first, forgotten, -1);
        fill_record(&good, -1, -1);
        assert_int_equal(bench_csv_open(&csv, &run, path), WEIR_OK);
        bench_csv_record(&csv, &first);
        bench_csv_record(&csv, &good);
        assert_int_equal(bench_csv_close(&csv), forgotten < 0 ? WEIR_OK : WEIR_ERR_INTERNAL);
    }
    assert_non_null(strstr(job.note.text, "the column settings is written never or twice"));
    unlink(path);
}

/* In each pattern, sources and destinations are inverse, and the numbers of pairs are right. */
TEST(patterns_of_sendrecv_have_all_pairs)
{
    static const char all[] = "pingpong,oneway,bothways,shift,bisection,ring";
    for (int n = 2; n <= 7; n++) {
        const int pairs = n * (n - 1) / 2, count = bench_patterns_count(all, n);
        uint64_t seen[BENCH_PATTERNS] = {0};
        assert_int_equal(count, 4 * pairs + n - 1 + 2);
        for (int i = 0; i < count; i++) {
            const bench_pattern pattern = bench_pattern_at(all, n, i);
            int sent = 0;
            for (int rank = 0; rank < n; rank++) {
                const int to = bench_pattern_destination(&pattern, rank, n);
                const int from = bench_pattern_source(&pattern, rank, n);
                assert_true(to < 0 || bench_pattern_source(&pattern, to, n) == rank);
                assert_true(from < 0 || bench_pattern_destination(&pattern, from, n) == rank);
                assert_true(to != rank && from != rank);
                if (to >= 0 && (pattern.kind != BENCH_PATTERN_PINGPONG || rank < to))
                    seen[pattern.kind] |= UINT64_C(1) << (rank * n + to);
                sent += to >= 0;
            }
            assert_int_equal(bench_pattern_has_all(&pattern, n), sent == n);
        }
        assert_int_equal(__builtin_popcountll(seen[BENCH_PATTERN_ONEWAY]), 2 * pairs);
        assert_int_equal(__builtin_popcountll(seen[BENCH_PATTERN_BOTHWAYS]), 2 * pairs);
        assert_int_equal(__builtin_popcountll(seen[BENCH_PATTERN_PINGPONG]), pairs);
        assert_int_equal(__builtin_popcountll(seen[BENCH_PATTERN_SHIFT]), 2 * pairs);
        assert_int_equal(__builtin_popcountll(seen[BENCH_PATTERN_BISECTION]), n / 2 * 2);
    }
    assert_string_equal(bench_pattern_at(all, 4, 0).name, "pingpong:0-1");
    assert_string_equal(bench_pattern_at(all, 4, 6).name, "oneway:0-1");
    assert_string_equal(bench_pattern_at(all, 4, 9).name, "oneway:1-0");
    assert_string_equal(bench_pattern_at(all, 4, 25).name, "shift:2");
    assert_int_equal(bench_patterns_count("oneway", 1), 0);
    assert_true(bench_patterns_are_known("ring") && bench_patterns_are_known("shift,ring"));
    assert_false(bench_patterns_are_known("") || bench_patterns_are_known("ring,") ||
                 bench_patterns_are_known(",ring") || bench_patterns_are_known("rin"));
}

TEST(peers_are_known_by_their_kind)
{
    char words[BENCH_PROBLEM_BYTES];
    const bench_peer mpi = bench_peer_of("mpi"), nccl = bench_peer_of("nccl"),
                     mode = bench_peer_of("nccl:default"), path = bench_peer_of("./libnccl.so"),
                     other = {.text = "other", .kind = BENCH_PEER_NCCL_EP};
    bench_peer_list(words, sizeof words);
    assert_string_equal(words, "mpi, nccl, nccl:default, nccl:symmetric, nccl:zero-cta, copies, "
                               "or a library's path (with a /)");
    assert_int_equal(mpi.needs, BENCH_PEER_NEEDS_MPI);
    assert_int_equal(nccl.needs, BENCH_PEER_NEEDS_GPU);
    assert_int_equal(path.needs, BENCH_PEER_NEEDS_GPU);
    assert_int_equal(bench_peer_of("nccl:").kind, BENCH_PEER_UNKNOWN);
    assert_string_equal(bench_peer_mode("./a:b/peer.so:deep:er"), "deep:er");
    assert_string_equal(bench_peer_mode("./a:b/peer.so"), "");
    assert_int_equal(bench_peer_of("py:peer.py").kind, BENCH_PEER_PYTHON);
    assert_string_equal(bench_peer_of("py:peer.py").path, "peer.py");
    assert_int_equal(bench_peer_of("py:").kind, BENCH_PEER_UNKNOWN);
    assert_true(bench_peer_is_same(&mpi, &mpi));
    assert_true(bench_peer_is_same(&nccl, &mode));
    assert_false(bench_peer_is_same(&nccl, &path));
    assert_false(bench_peer_is_same(&mpi, &nccl));
    assert_false(bench_peer_is_same(&mpi, &other)); /* neither has modes */
}

/* ------------------------------------------------------------------ the header of many ranks */

enum { SEATS = 3, MANY = 100 }; /* ranks of a host, and of the job */

/* 34 hosts, of which every second one is of another kind and the last has one rank. */
static void fill_infos(bench_rank_info *infos)
{
    for (int i = 0; i < MANY; i++) {
        bench_rank_info *one = &infos[i];
        *one = (bench_rank_info){.rank = i, .group = i >= 90, .pid = 500 - i, .device = 7 - i % 3};
        snprintf(one->host, sizeof one->host, "host%d", i / SEATS);
        snprintf(one->machine, sizeof one->machine, "machine %d", i / SEATS % 2);
        snprintf(one->digest, sizeof one->digest, "digest");
        one->node_ranks = i % SEATS ? 0 : i + 1 == MANY ? 1 : SEATS;
        snprintf(one->nvml.driver, sizeof one->nvml.driver, "550");
    }
    infos[91].nvml.problem[0] = 'x';
}

/* On a rank: the header of a job of so many ranks, on so many nodes. */
static char *header_of(weir_comm *comm, const bench_rank_info *infos, int nranks, int nnodes)
{
    bench_job job = {.program = "test", .comm = comm, .nranks = nranks, .nnodes = nnodes};
    bench_options options = {.min_bytes = 8,
                             .max_bytes = 16,
                             .step_bytes = 4,
                             .step_factor = 1,
                             .iterations = 1,
                             .warmups = -1,
                             .rank_time = 3,
                             .algo = "auto"};
    bench_run run = {.job = &job, .options = &options};
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    bench_header_write(file, &run, infos);
    fclose(file);
    return text;
}

/* Whether a header has a line, or not. */
static int header_lacks(const char *text, const char *line, int is_there)
{
    const int found = strstr(text, line) != NULL;
    if (found != is_there)
        printf("# %s: %s", is_there ? "no line" : "a line", line);
    return found != is_there;
}

static int write_headers(weir_boot *boot, void *argument)
{
    static bench_rank_info infos[MANY];
    weir_comm *comm = NULL;
    int bad = 0;
    (void)argument;
    if (weir_comm_create(boot, NULL, &comm) != WEIR_OK)
        return 1;
    fill_infos(infos);
    char *text = header_of(comm, infos, MANY, 34);
    bad |= header_lacks(text, "#  Ranks 0-2 Group  0 Pids 498-500 on      host0 devices 5-7\n", 1);
    bad |=
        header_lacks(text, "#  Ranks 90-92 Group  1 Pids 408-410 on     host30 devices 5-7\n", 1);
    bad |= header_lacks(text, "#  Ranks 93-95 Group  1 ", 1);
    bad |= header_lacks(text, "#  Ranks 96-98 ", 0);
    bad |= header_lacks(text, "#  4 more ranks on 2 more hosts\n", 1);
    bad |= header_lacks(
        text, "# 17 nodes with 3 ranks each: machine 0 (topology digest); first: host0, rank 0\n",
        1);
    bad |= header_lacks(
        text, "# 16 nodes with 3 ranks each: machine 1 (topology digest); first: host1, rank 3\n",
        1);
    bad |= header_lacks(
        text, "# 1 node with 1 rank: machine 1 (topology digest); first: host33, rank 99\n", 1);
    bad |= header_lacks(text, "# Node of rank ", 0);
    bad |= header_lacks(text, "# State of the GPUs: rank 91: x\n", 1);
    bad |= header_lacks(text, "# Ranks: 100 on 34 nodes; ", 1);
    bad |= header_lacks(
        text, "minBytes 8 maxBytes 16 step: 4(bytes) warmup iters: 0 iters: 1 agg iters: 0 ", 1);
    bad |= header_lacks(text, "; 1 iteration; warm-ups until times no longer fall", 1);
    free(text);
    text = header_of(comm, infos, 96, 9); /* as many hosts as have lines */
    bad |= header_lacks(text, " more hosts", 0) | header_lacks(text, "#  Ranks 93-95 ", 1);
    bad |= header_lacks(text, "# 16 nodes with 3 ranks each: machine 0", 1);
    free(text);
    text = header_of(comm, infos, 65, 8);
    bad |=
        header_lacks(text, "#  Ranks 63-64 ", 1) |
        header_lacks(text, "# Node of rank 63: machine 1 (topology digest); host21, 3 ranks\n", 1);
    free(text);
    text = header_of(comm, infos, 64, 1); /* as many ranks as have lines */
    bad |= header_lacks(text, "#  Rank 63 Group  0 Pid    437 on     host21 device  7 [] \n", 1);
    bad |= header_lacks(text, "#  Ranks ", 0) |
           header_lacks(text, "# Node of rank 63: machine 1 (topology digest)\n", 1);
    bad |= header_lacks(text, "# Ranks: 64 on 1 node; ", 1);
    free(text);
    weir_comm_destroy(comm);
    return bad;
}

TEST(headers_of_many_ranks_fold_hosts_and_nodes)
{
    int code = 1;
    assert_int_equal(weir_boot_fork_run(1, write_headers, NULL, 60000, &code), WEIR_OK);
    assert_int_equal(code, 0);
}

/* Ranks with other values of an option would wait for each other in different operations: all
 * options must agree but those that only rank 0 reads, or each rank for itself. */
TEST(options_agree_between_ranks_unless_one_rank_reads_them)
{
    static const char local[] =
        " min-bw report_cputime average per_iter_timing per_iter_skip timeout output_file "
        "report_timestamps memory nthreads ngpus parallel_init stream_null csv ceiling transport "
        "quiet list-algos help-env version help convert model ";
    const weiri_options *const tables[] = {&bench_options_table, &replay_options_table,
                                           &blocks_options_table, &bench_moe_options_table};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (int row = 0; row < tables[i]->count; row++) {
            const weiri_option *option = &tables[i]->rows[row];
            const int agrees = option->flags & (WEIRI_OPTION_SAME | WEIRI_OPTION_SAME_USE);
            char word[48];
            snprintf(word, sizeof word, " %s ", option->name);
            if (!agrees != !!strstr(local, word) && !strstr(option->help, "refused: "))
                fail_msg("table %zu: --%s %s", i, option->name,
                         agrees ? "agrees, but is in the list" : "may differ between ranks");
        }
}

int main(void)
{
    return run_all_tests("bench");
}
