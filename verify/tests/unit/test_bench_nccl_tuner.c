/*
 * NCCL's tuner: what the plug-in answers in each version of the interface, which tables are
 * refused, and which rows --tune-nccl writes. Times are simulated: on a noisy machine no setting
 * that is as fast as NCCL's choice gets a row in 1,000 tables, and a setting that is faster does.
 */
#include "bench/output/tune_nccl.h"
#include "bench/candidate/nccl_tuner.h"
#include "bench/tuner/plugin.c"
#include "verify/tests/support/test_files.h"

#include <math.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the plug-in */

static char logged[512];

__attribute__((format(printf, 5, 6))) static void
keep_log(int level, unsigned long subsystem, const char *file, int line, const char *format, ...)
{
    va_list arguments;
    assert_true(level == LOG_INFO || level == LOG_WARN);
    assert_true(subsystem == TUNING && file && line > 0);
    va_start(arguments, format);
    vsnprintf(logged, sizeof logged, format, arguments);
    va_end(arguments);
}

/* Asks a version of the interface; costs are of 7 algorithms and 3 protocols, tree/ll impossible.
 */
static int ask(int version, void *context, int collective, size_t bytes, float costs[7][3],
               int *channels)
{
    for (int i = 0; i < 21; i++)
        costs[i / 3][i % 3] = i ? 10 : -1;
    *channels = 99;
    if (version == 3)
        return ncclTunerPlugin_v3.ask(context, collective, bytes, 1, (float **)costs, 7, 3,
                                      channels);
    if (version == 4)
        return ncclTunerPlugin_v4.ask(context, collective, bytes, 1, (float **)costs, 7, 3, 1,
                                      channels);
    const tuner_v6 *plugin = version == 5 ? &ncclTunerPlugin_v5 : &ncclTunerPlugin_v6;
    return plugin->ask(context, collective, bytes, 1, (float **)costs, 7, 3, 1, channels);
}

static void *begin(int version)
{
    void *context = NULL;
    if (version < 5)
        assert_int_equal((version == 3 ? ncclTunerPlugin_v3.init
                                       : ncclTunerPlugin_v4.init)(8, 1, keep_log, &context),
                         0);
    else
        assert_int_equal((version == 5 ? &ncclTunerPlugin_v5 : &ncclTunerPlugin_v6)
                             ->init(&context, 7, 8, 1, keep_log, NULL, NULL),
                         0);
    return context;
}

TEST(every_version_of_the_interface_follows_the_table)
{
    static const char table[] = "# comment\n\nallreduce,1024,4096,ring,ll128,8,1,8\n"
                                "allreduce,0,4294967295,tree,ll,2,-1,-1,-1,-1\n"
                                "broadcast, 0 ,10,ring,simple,-1,1,8,-1,1\r\n"
                                "reduce,0,99,ring,simple,4,2,8\n";
    char path[32];
    test_file_temporary(table, sizeof table - 1, path);
    setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    for (int version = 3; version <= 6; version++) {
        float costs[7][3];
        int channels;
        void *context = begin(version);
        assert_string_equal(logged, "weir's tuner has 4 rows");
        assert_int_equal(ask(version, context, 4, 4096, costs, &channels), 0);
        assert_true(costs[1][1] == 0 && costs[1][2] == 10 && channels == 8);
        /* A row whose setting is impossible changes nothing, nor does a call without a row. */
        assert_int_equal(ask(version, context, 4, 4097, costs, &channels), 0);
        assert_true(costs[0][0] == -1 && costs[1][1] == 10 && channels == 0);
        assert_int_equal(ask(version, context, 2, 4096, costs, &channels), 0);
        assert_true(costs[1][1] == 10 && channels == 0);
        /* For other numbers of nodes. */
        assert_int_equal(ask(version, context, 1, 50, costs, &channels), 0);
        assert_true(costs[1][2] == 10 && channels == 0);
        assert_int_equal(ask(version, context, 0, 10, costs, &channels), 0);
        assert_true(costs[1][2] == 0 && channels == 0);
        assert_int_equal(ncclTunerPlugin_v6.end(context), 0);
    }
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    unlink(path);
}

TEST(the_control_forces_a_setting_and_says_whether_it_was_possible)
{
    float costs[7][3];
    int channels;
    void *context = begin(5);
    bench_tuner_control = (tuner_control){.is_in_control = 1, .forces = 1, .setting = {1, 0, 16}};
    ask(5, context, 4, 8, costs, &channels);
    assert_true(costs[1][0] == 0 && channels == 16 && bench_tuner_control.applied);
    bench_tuner_control = (tuner_control){.is_in_control = 1, .forces = 1, .setting = {0, 0, 16}};
    ask(5, context, 4, 8, costs, &channels);
    assert_true(costs[0][0] == -1 && channels == 0);
    assert_true(bench_tuner_control.asked && !bench_tuner_control.applied);
    bench_tuner_control = (tuner_control){.is_in_control = 1};
    ask(5, context, 4, 8, costs, &channels);
    assert_true(channels == 0 && bench_tuner_control.asked && !bench_tuner_control.applied);
    bench_tuner_control = (tuner_control){0};
    ncclTunerPlugin_v5.end(context);
}

TEST(a_line_that_is_no_row_is_refused_with_its_number)
{
    static const struct {
        const char *text, *problem;
    } cases[] = {
        {"allreduce,0,1,ring,ll,1,1", ":1: expected collective,min bytes"},
        {"allreduce,0,1,ring,ll,1,1,1,1,1,1", ":1: expected collective,min bytes"},
        {"# a\nalltoall,0,1,ring,ll,1,1,1", ":2: expected broadcast"},
        {"allreduce,0,1,rings,ll,1,1,1", ":1: expected tree, ring"},
        {"allreduce,0,1,ring,LL,1,1,1", ":1: expected tree, ring"},
        {"allreduce,2,1,ring,ll,1,1,1", ":1: expected two sizes"},
        {"allreduce,-2,1,ring,ll,1,1,1", ":1: expected two sizes"},
        {"allreduce,0,99999999999999999999999,ring,ll,1,1,1", ":1: expected two sizes"},
        {"allreduce,0,1,ring,ll,0,1,1", ":1: expected whole numbers"},
        {"allreduce,0,1,ring,ll,1,1,x", ":1: expected whole numbers"},
    };
    char path[32], problem[256], lengthy[400];
    tuner_table table;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_file_temporary(cases[i].text, strlen(cases[i].text), path);
        assert_int_equal(bench_tuner_read(path, &table, problem, sizeof problem), -1);
        if (!strstr(problem, cases[i].problem))
            fail_msg("expected %s in %s", cases[i].problem, problem);
        unlink(path);
    }
    memset(lengthy, '#', sizeof lengthy);
    test_file_temporary(lengthy, sizeof lengthy, path);
    assert_int_equal(bench_tuner_read(path, &table, problem, sizeof problem), -1);
    unlink(path);
}

TEST(names_of_settings_are_read_back)
{
    bench_nccl_setting settings[BENCH_NCCL_SETTINGS_MAX];
    const int count = bench_nccl_settings(WEIR_COLL_ALLREDUCE, settings);
    assert_true(count > 50 && count <= BENCH_NCCL_SETTINGS_MAX);
    assert_int_equal(bench_nccl_settings(WEIR_COLL_ALLTOALL, settings), 0);
    for (int i = 0; i < bench_nccl_settings(WEIR_COLL_ALLREDUCE, settings); i++) {
        tuner_setting read;
        char name[32];
        bench_nccl_setting_name(&settings[i].setting, name, sizeof name);
        assert_int_equal(bench_nccl_setting_read(name, &read), 0);
        assert_memory_equal(&read, &settings[i].setting, sizeof read);
    }
    tuner_setting none;
    assert_int_equal(bench_nccl_setting_read("nccl:2.28.3:symmetric", &none), -1);
    assert_int_equal(bench_nccl_setting_read("ring/ll1", &none), -1);
}

/* ----------------------------------------------------------------- the table */

enum { ROUNDS = 16, TIMES = 6, SETTINGS = 12, SIZES = 4 };

static unsigned long long seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* A time on a noisy machine: spread in a round, rounds that differ, bursts that hit a candidate's
 * whole round or one iteration, and a clock of 0.5 us steps. */
static void simulate(bench_result *result, double us, double shared[ROUNDS])
{
    result->slowest_us = calloc(ROUNDS * TIMES, sizeof *result->slowest_us);
    assert_non_null(result->slowest_us);
    for (int round = 0; round < ROUNDS; round++) {
        const double own = 0.02 * normal() + (uniform() < 0.05 ? uniform() : 0);
        result->round_ends[round] = (round + 1) * TIMES;
        for (int i = 0; i < TIMES; i++) {
            const double burst = uniform() < 0.02 ? 5 * uniform() : 0;
            const double time = us * exp(shared[round] + own + 0.05 * normal()) * (1 + burst);
            result->slowest_us[round * TIMES + i] = floor(2 * time + 0.5) / 2;
        }
    }
    result->rounds = ROUNDS;
    result->iterations = ROUNDS * TIMES;
    result->ran = result->timed = 1;
    result->peer = 1;
    result->stats.median = us;
}

typedef struct simulation {
    const char *names[SETTINGS]; /* of algorithms; NULL: from here on none */
    double speed[SETTINGS];      /* times as fast as the default; 0: as fast */
    const char *old;             /* the file before; NULL: none */
    int is_incomplete;
    int lacks; /* 1: settings have not run out of place, 2: not in place */
} simulation;

static void add_row(bench_tune_nccl *tune, const simulation *s, size_t bytes)
{
    static char candidates[SETTINGS][64];
    double shared[ROUNDS];
    bench_row *row = calloc(1, sizeof *row);
    assert_non_null(row);
    row->shape.bytes = bytes;
    row->placements = 2;
    row->collective = WEIR_COLL_ALLREDUCE;
    row->nranks = 8;
    for (int placement = 0; placement < 2; placement++) {
        int count = 0;
        for (int round = 0; round < ROUNDS; round++)
            shared[round] = 0.1 * normal();
        bench_result *own = &row->results[placement][count++];
        own->candidate = "nccl:2.28.3";
        simulate(own, 50, shared);
        for (; count <= SETTINGS && s->names[count - 1]; count++) {
            bench_result *result = &row->results[placement][count];
            const char *name = s->names[count - 1];
            const double speed = s->speed[count - 1];
            tuner_setting setting;
            if (bench_nccl_setting_read(name, &setting) == 0)
                snprintf(result->algo, sizeof result->algo, "%s", name);
            snprintf(candidates[count - 1], sizeof candidates[0], "nccl:2.28.3:%s", name);
            result->candidate = candidates[count - 1];
            simulate(result, 50 / (speed > 0 ? speed : 1), shared);
            result->ran = s->lacks != placement + 1;
        }
        row->ncandidates = count;
        for (int i = 0; i < count; i++)
            row->results[placement][i].figures =
                bench_result_figures(row, &row->results[placement][i]);
    }
    bench_tune_nccl_row(tune, row);
    bench_row_clear(row);
    free(row);
}

static char printed[8192], json[8192];

/* Returns the table that is written, of SIZES sizes from 1 KiB on. */
static const char *tuned(const simulation *s)
{
    static char text[16384];
    char folder[] = "/dev/shm/weir-test-XXXXXX", path[64], beside[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.csv", folder);
    snprintf(beside, sizeof beside, "%s/a.json", folder);
    if (s->old) {
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fputs(s->old, file);
        fclose(file);
    }
    bench_job job = {.program = "test", .nranks = 8, .nnodes = 1};
    bench_options options = {.tune_nccl_path = path};
    bench_run run = {.job = &job, .options = &options, .collective = WEIR_COLL_ALLREDUCE};
    bench_tune_nccl *tune = NULL;
    assert_int_equal(bench_tune_nccl_open(&run, &tune), WEIR_OK);
    for (int k = 0; k < SIZES; k++)
        add_row(tune, s, (size_t)1024 << 2 * k);
    FILE *kept = stdout;
    stdout = fmemopen(printed, sizeof printed, "w");
    assert_non_null(stdout);
    const weir_status status = bench_tune_nccl_close(tune, !s->is_incomplete);
    fclose(stdout);
    stdout = kept;
    assert_int_equal(status, WEIR_OK);
    text[0] = json[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    file = fopen(beside, "re");
    if (file) {
        json[fread(json, 1, sizeof json - 1, file)] = '\0';
        fclose(file);
    }
    unlink(path);
    unlink(beside);
    rmdir(folder);
    return text;
}

static int count_rows(const char *table)
{
    int count = 0;
    for (const char *at = table; (at = strstr(at, "\nallreduce,")); at++)
        count++;
    return count;
}

static const simulation equal_settings = {
    .names = {"ring/ll", "ring/ll/1", "ring/ll/2", "ring/ll128", "ring/ll128/8", "ring/simple/16",
              "tree/ll", "tree/ll128", "tree/simple/32", "nvls/simple", "symmetric", "zero-cta"}};

TEST(a_noisy_machine_gives_no_row_to_settings_that_are_not_faster_in_1000_tables)
{
    int rows = 0, modes = 0;
    for (int i = 0; i < 1000; i++) {
        seed = 1000 + (unsigned)i;
        const char *table = tuned(&equal_settings);
        rows += count_rows(table);
        modes += strstr(printed, "no row can ask for it") != NULL;
    }
    assert_int_equal(rows, 0);
    assert_int_equal(modes, 0);
    assert_non_null(
        strstr(printed, "certainly faster at 0 of 4 sizes (48 comparisons, 16 rounds)"));
}

/* A gain of half a percent is none: rows have at least 1%. */
TEST(a_setting_that_is_hardly_faster_gets_no_row)
{
    simulation s = {.names = {"ring/ll/2"}, .speed = {1.005}};
    for (int i = 0; i < 50; i++) {
        seed = 77 + (unsigned)i;
        assert_int_equal(count_rows(tuned(&s)), 0);
    }
}

TEST(a_setting_that_ran_in_one_placement_only_gets_no_row)
{
    simulation s = {.names = {"ring/ll/2"}, .speed = {3}};
    seed = 5;
    assert_int_equal(count_rows(tuned(&s)), 1);
    for (s.lacks = 1; s.lacks <= 2; s.lacks++)
        assert_int_equal(count_rows(tuned(&s)), 0);
}

TEST(a_setting_that_is_faster_gets_one_row_for_all_its_sizes)
{
    simulation s = equal_settings;
    int found = 0;
    s.speed[4] = 1.6;
    for (int i = 0; i < 20; i++) {
        seed = 5 + (unsigned)i;
        const char *table = tuned(&s);
        assert_true(count_rows(table) <= SIZES);
        found += strstr(table, "\nallreduce,1024,65536,ring,ll128,8,1,8,-1,-1\n") != NULL;
        if (strstr(table, "allreduce,") && strstr(table, ",tree,"))
            fail_msg("a row of a setting that is not faster:\n%s", table);
    }
    assert_true(found >= 15);
    assert_non_null(strstr(json, "\"bytesPerRank\": \"[128,8192]\""));
    assert_non_null(strstr(json, "\"nLocalRanks\": 8"));
    assert_non_null(strstr(json, "\"algorithm\": \"ring\""));
    assert_non_null(strstr(json, "\"channels\": 8"));
}

TEST(a_mode_that_is_faster_is_named_and_has_no_row)
{
    simulation s = equal_settings;
    s.speed[11] = 2;
    seed = 3;
    const char *table = tuned(&s);
    assert_int_equal(count_rows(table), 0);
    assert_non_null(
        strstr(printed, "1024 B: nccl:2.28.3:zero-cta takes 25.00 us instead of 50.00 us"));
    assert_non_null(
        strstr(table, "# weir: allreduce, 1 node, 8 ranks: 1024 B: nccl:2.28.3:zero-cta"));
}

TEST(other_rows_are_kept_and_those_of_the_run_replaced)
{
    static const char old[] = "# mine\nbroadcast,0,9,ring,ll,1,1,8,-1,-1\n"
                              "# weir: allreduce, 1 node, 8 ranks: 8 B: 1.00 us\n"
                              "allreduce,0,9,tree,ll,1,1,8,-1,-1\nallreduce,0,9,tree,ll,1,2,8\n";
    simulation s = {.names = {"ring/simple"}, .speed = {2}, .old = old};
    seed = 9;
    const char *table = tuned(&s);
    static const char start[] = "# mine\nbroadcast,0,9,ring,ll,1,1,8,-1,-1\n"
                                "allreduce,0,9,tree,ll,1,2,8\n# weir: allreduce, 1 node, 8 ranks: "
                                "1024 B: ";
    if (strncmp(table, start, sizeof start - 1) != 0)
        fail_msg("%s", table);
    assert_null(strstr(table, "8 B: 1.00 us"));
    s.is_incomplete = 1;
    assert_string_equal(tuned(&s), old);
}

TEST(a_file_that_is_no_table_is_refused_before_anything_is_measured)
{
    char path[32];
    bench_job job = {.program = "test", .nranks = 8, .nnodes = 1};
    bench_options options = {.tune_nccl_path = path};
    bench_run run = {.job = &job, .options = &options, .collective = WEIR_COLL_ALLREDUCE};
    bench_tune_nccl *tune = NULL;
    test_file_temporary("allreduce 4 own 16K packet\n", 27, path);
    assert_int_equal(bench_tune_nccl_open(&run, &tune), WEIR_ERR_INVALID);
    assert_null(tune);
    assert_non_null(strstr(job.note.text, ":1: expected collective,min bytes"));
    unlink(path);
}

TEST(students_t_is_exceeded_with_the_probabilities_of_the_tables)
{
    assert_true(fabs(bench_student_tail(1, 12.706) - 0.025) < 1e-5);
    assert_true(fabs(bench_student_tail(2, 4.303) - 0.025) < 1e-5);
    assert_true(fabs(bench_student_tail(5, 2.5706) - 0.025) < 1e-5);
    assert_true(fabs(bench_student_tail(15, 4.073) - 0.0005) < 1e-6);
    assert_true(fabs(bench_student_tail(10, -1.812) - 0.95) < 1e-4);
    assert_true(fabs(bench_student_tail(15, 0) - 0.5) < 1e-12);
    assert_true(bench_student_tail(15, 9) < 2e-7 && bench_student_tail(15, 9) > 5e-8);
}

int main(void)
{
    return run_all_tests("nccl_tuner");
}
