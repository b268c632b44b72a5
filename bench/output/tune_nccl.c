/*
 * Which of NCCL's settings are certainly faster than its own choice: see tune_nccl.h. Both are
 * measured in the same rounds. The logarithms of the ratios of a round's medians are a sample,
 * whose mean is tested for a gain of more than 1% by Student's t. There are many settings and
 * sizes, so the probability of an error is divided by their number: a table without any true gain
 * has a row with a probability of 1 in 10,000 at most.
 */
#include "bench/output/tune_nccl.h"

#include "base/json.h"
#include "base/words.h"
#include "base/write_file.h"
#include "bench/candidate/nccl_tuner.h"
#include "bench/options/paths.h"
#include "bench/output/tune_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES_MAX = 128, LINE_BYTES = 1024 };

static const double least_gain = 0.01, false_rows = 1e-4;
/* Settings as good as this logarithm do not break a row in two. */
static const double change_penalty = 0.015;
/* Times vary by this much, whatever few rounds show: clocks have steps. */
static const double least_deviation = 0.002;

typedef struct nccl_gain {
    double mean;    /* of the logarithms of default / setting */
    double chance;  /* of such a mean without a gain of more than 1%; 1: not measured */
    double time_us; /* median, out of place */
} nccl_gain;

typedef struct nccl_size {
    size_t bytes;
    nccl_gain gains[BENCH_CANDIDATES_MAX];
    double default_us;
    int chosen; /* -1: NCCL's choice */
} nccl_size;

struct bench_tune_nccl {
    const bench_run *run;
    int collective; /* NCCL's number */
    char mark[96];  /* "# weir: allreduce, 1 node, 8 ranks: ", of comments for the rows */
    struct tried {
        char name[64]; /* of a setting, "ring/ll/8"; of a mode, "nccl:2.28:zero-cta" */
        int is_setting;
        tuner_setting setting;
    } tried[BENCH_CANDIDATES_MAX];
    int count, nsizes, rounds;
    long tested;
    long helps, hurts, same, without; /* results of --verify-nccl */
    nccl_size sizes[SIZES_MAX];
};

/* ------------------------------------------------------------------- the test */

/* The median of a round's times. */
static double round_median(const bench_result *result, int round, double *scratch)
{
    const int first = round ? result->round_ends[round - 1] : 0;
    const int count = result->round_ends[round] - first;
    memcpy(scratch, result->slowest_us + first, (size_t)count * sizeof *scratch);
    return bench_stats_make(scratch, (size_t)count).median;
}

/* The logarithm of a round's ratio, a mean over placements. */
static double round_gain(const bench_row *row, int fallback, int candidate, int round,
                         double *scratch)
{
    double sum = 0;
    for (int placement = 0; placement < row->placements; placement++)
        sum += log(round_median(&row->results[placement][fallback], round, scratch) /
                   round_median(&row->results[placement][candidate], round, scratch));
    return sum / row->placements;
}

static int is_comparable(const bench_row *row, int fallback, int candidate)
{
    for (int placement = 0; placement < row->placements; placement++) {
        const bench_result *a = &row->results[placement][fallback];
        const bench_result *b = &row->results[placement][candidate];
        if (!b->ran || !a->figures.is_usable || !b->figures.is_usable || a->rounds < 2 ||
            a->rounds != b->rounds || !a->slowest_us || !b->slowest_us)
            return 0;
    }
    return 1;
}

static nccl_gain test_gain(const bench_row *row, int fallback, int candidate)
{
    const bench_result *result = &row->results[BENCH_OUT_OF_PLACE][candidate];
    nccl_gain gain = {.chance = 1, .time_us = result->stats.median};
    if (!is_comparable(row, fallback, candidate))
        return gain;
    const int n = result->rounds;
    double *gains = calloc((size_t)n + (size_t)result->iterations, sizeof *gains);
    for (int round = 0; gains && round < n; round++)
        gains[round] = round_gain(row, fallback, candidate, round, gains + n);
    if (gains) {
        const bench_stats stats = bench_stats_make(gains, (size_t)n);
        const double deviation = stats.stdev * sqrt(n / (n - 1.)); /* of a sample */
        const double error = fmax(deviation, least_deviation) / sqrt(n);
        gain.mean = stats.mean;
        gain.chance = bench_student_tail(n - 1, (gain.mean - log1p(least_gain)) / error);
    }
    free(gains);
    return gain;
}

/* -------------------------------------------------------------------- results */

/* "nccl:2.28.3": neither a setting nor a mode. */
static int is_default(const bench_result *result)
{
    const char *colon = strchr(result->candidate, ':');
    return result->peer && colon && !strchr(colon + 1, ':');
}

static int find_default(const bench_row *row)
{
    for (int i = 0; i < row->ncandidates; i++)
        if (is_default(&row->results[BENCH_OUT_OF_PLACE][i]))
            return i;
    return -1;
}

/* The name of a setting, or of a mode of the same library; NULL: neither. */
static const char *name_of(const bench_row *row, int fallback, int candidate)
{
    const bench_result *results = row->results[BENCH_OUT_OF_PLACE];
    const char *family = results[fallback].candidate, *name = results[candidate].candidate;
    tuner_setting setting;
    if (candidate == fallback || !results[candidate].peer || !results[candidate].ran ||
        strncmp(name, family, strlen(family)) != 0)
        return NULL;
    return bench_nccl_setting_read(results[candidate].algo, &setting) == 0 ? results[candidate].algo
                                                                           : name;
}

static int find_name(bench_tune_nccl *tune, const char *name)
{
    int i = 0;
    while (i < tune->count && strcmp(tune->tried[i].name, name) != 0)
        i++;
    if (i == tune->count && i < BENCH_CANDIDATES_MAX) {
        struct tried *made = &tune->tried[tune->count++];
        snprintf(made->name, sizeof made->name, "%s", name);
        made->is_setting = bench_nccl_setting_read(name, &made->setting) == 0;
    }
    return i < BENCH_CANDIDATES_MAX ? i : -1;
}

static void add_size(bench_tune_nccl *tune, const bench_row *row, int fallback)
{
    nccl_size *size = &tune->sizes[tune->nsizes++];
    const bench_result *shown = &row->results[BENCH_OUT_OF_PLACE][fallback];
    size->bytes = row->shape.bytes;
    size->default_us = shown->stats.median;
    tune->rounds = shown->rounds;
    for (int i = 0; i < BENCH_CANDIDATES_MAX; i++)
        size->gains[i].chance = 1;
    for (int i = 0; i < row->ncandidates; i++) {
        const char *name = name_of(row, fallback, i);
        const int at = name ? find_name(tune, name) : -1;
        if (at < 0)
            continue;
        size->gains[at] = test_gain(row, fallback, i);
        tune->tested++;
    }
}

/* Prints a line for each placement of a size that the table has a row for. */
static void verify_size(bench_tune_nccl *tune, const bench_row *row, int fallback)
{
    static const char *const places[] = {"out of place", "in place"};
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            const bench_result *table = &row->results[placement][i];
            const bench_result *own = &row->results[placement][fallback];
            const size_t length = strlen(table->candidate);
            char text[160];
            if (length < 6 || strcmp(table->candidate + length - 6, ":table") != 0)
                continue;
            if (strcmp(table->algo, "table") != 0 || !own->figures.is_usable ||
                !table->figures.is_usable) {
                tune->without++;
                continue;
            }
            const bench_ratio ratio = bench_result_ratio(table, own);
            const int sign = bench_ratio_sign(&ratio);
            *(sign > 0 ? &tune->hurts : sign < 0 ? &tune->helps : &tune->same) += 1;
            bench_ratio_describe(&ratio, "the table", "NCCL's choice", text, sizeof text);
            printf("#   %s, %zu B: %s\n", places[placement], row->shape.bytes, text);
        }
}

void bench_tune_nccl_row(bench_tune_nccl *tune, const bench_row *row)
{
    const int fallback = tune && row->shape.bytes ? find_default(row) : -1;
    if (fallback < 0)
        return;
    if (tune->run->options->verify_nccl_path)
        verify_size(tune, row, fallback);
    else if (tune->nsizes < SIZES_MAX)
        add_size(tune, row, fallback);
}

/* ---------------------------------------------------------------- the choice */

static int is_certain(const bench_tune_nccl *tune, int size, int i)
{
    return tune->sizes[size].gains[i].chance * (double)tune->tested < false_rows;
}

static void choose_settings(bench_tune_nccl *tune)
{
    int last = -1;
    for (int k = 0; k < tune->nsizes; k++) {
        nccl_size *size = &tune->sizes[k];
        int best = -1;
        for (int i = 0; i < tune->count; i++)
            if (tune->tried[i].is_setting && is_certain(tune, k, i) &&
                (best < 0 || size->gains[i].mean > size->gains[best].mean))
                best = i;
        const int stays = best >= 0 && last >= 0 && is_certain(tune, k, last) &&
                          size->gains[last].mean > size->gains[best].mean - change_penalty;
        size->chosen = stays ? last : best;
        last = size->chosen;
    }
}

/* ------------------------------------------------------------------- the table */

static int is_replaced(const void *context, const char *line)
{
    const bench_tune_nccl *tune = context;
    char copy[LINE_BYTES];
    const char *problem;
    tuner_row row;
    snprintf(copy, sizeof copy, "%s", line);
    return strncmp(line, tune->mark, strlen(tune->mark)) == 0 ||
           (bench_tuner_parse(copy, &row, &problem) == 1 && row.collective == tune->collective &&
            row.nodes == tune->run->job->nnodes && row.ranks == tune->run->job->nranks);
}

/* Modes, such as another policy for CTAs, have no place in a table: programs ask for them. */
static void write_modes(const bench_tune_nccl *tune, FILE *to)
{
    for (int k = 0; k < tune->nsizes; k++)
        for (int i = 0; i < tune->count; i++)
            if (!tune->tried[i].is_setting && is_certain(tune, k, i))
                fprintf(to, "%s%zu B: %s takes %.2f us instead of %.2f us; no row can ask for it\n",
                        tune->mark, tune->sizes[k].bytes, tune->tried[i].name,
                        tune->sizes[k].gains[i].time_us, tune->sizes[k].default_us);
}

static void write_rows(const void *context, FILE *to)
{
    const bench_tune_nccl *tune = context;
    write_modes(tune, to);
    for (int k = 0, last; k < tune->nsizes; k = last + 1) {
        const nccl_size *size = &tune->sizes[k];
        for (last = k; last + 1 < tune->nsizes && tune->sizes[last + 1].chosen == size->chosen;)
            last++;
        if (size->chosen < 0)
            continue;
        for (int i = k; i <= last; i++)
            fprintf(to, "%s%zu B: %.2f us instead of %.2f us (%d rounds)\n", tune->mark,
                    tune->sizes[i].bytes, tune->sizes[i].gains[size->chosen].time_us,
                    tune->sizes[i].default_us, tune->rounds);
        const tuner_setting *setting = &tune->tried[size->chosen].setting;
        fprintf(to, "%s,%zu,%zu,%s,%s,%d,%d,%d,-1,-1\n", bench_tuner_collectives[tune->collective],
                size->bytes, tune->sizes[last].bytes, bench_tuner_algorithms[setting->algorithm],
                bench_tuner_protocols[setting->protocol], setting->channels, tune->run->job->nnodes,
                tune->run->job->nranks);
    }
}

/* The whole table as ncclx reads it, whose sizes are those of a rank's part. */
static void write_json(const void *context, FILE *to)
{
    const tuner_table *table = context;
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INDENTED};
    weiri_json_open_object(&json);
    weiri_json_put_list(&json, "rules");
    for (int i = 0; i < table->count; i++) {
        const tuner_row *row = &table->rows[i];
        const unsigned long long ranks = row->ranks > 0 ? (unsigned long long)row->ranks : 1;
        char range[64];
        if (row->ranks <= 0 || row->nodes <= 0)
            continue; /* sizes of a part need the number of ranks */
        snprintf(range, sizeof range, "[%llu,%llu]", row->min_bytes / ranks,
                 row->max_bytes / ranks);
        weiri_json_open_object(&json);
        weiri_json_put_object(&json, "filter");
        weiri_json_put_text(&json, "collective", bench_tuner_collectives[row->collective]);
        weiri_json_put_text(&json, "bytesPerRank", range);
        weiri_json_put_whole(&json, "nNodes", row->nodes);
        weiri_json_put_whole(&json, "nLocalRanks", row->ranks / row->nodes);
        weiri_json_close_object(&json);
        weiri_json_put_object(&json, "config");
        weiri_json_put_text(&json, "algorithm", bench_tuner_algorithms[row->setting.algorithm]);
        weiri_json_put_text(&json, "protocol", bench_tuner_protocols[row->setting.protocol]);
        if (row->setting.channels > 0)
            weiri_json_put_whole(&json, "channels", row->setting.channels);
        weiri_json_close_object(&json);
        weiri_json_close_object(&json);
    }
    weiri_json_close_list(&json);
    weiri_json_close_object(&json);
    fputc('\n', to);
}

static weir_status write_json_beside(const bench_tune_nccl *tune, const char *path)
{
    char beside[BENCH_TUNE_PATH_BYTES], problem[BENCH_TUNE_PATH_BYTES + 512];
    tuner_table table;
    if (bench_tuner_read(path, &table, problem, sizeof problem) != 0)
        return bench_job_note(tune->run->job, WEIR_ERR_SYSTEM, "--tune-nccl %.600s", problem);
    int failed = bench_paths_manifest(path, beside, sizeof beside);
    if (!failed && weiri_write_file(beside, write_json, &table) != 0)
        failed = bench_job_note(tune->run->job, WEIR_ERR_SYSTEM, "cannot write %.600s: %s", beside,
                                strerror(errno));
    bench_tuner_free(&table);
    return failed ? WEIR_ERR_SYSTEM : WEIR_OK;
}

static weir_status write_table(const bench_tune_nccl *tune)
{
    static const bench_tune_rows rows = {
        "# For NCCL_TUNER_CONFIG_FILE, with NCCL_TUNER_PLUGIN=libnccl-tuner-weir.so\n"
        "# collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks,operations,"
        "registered\n",
        is_replaced, write_rows};
    const char *path = tune->run->options->tune_nccl_path;
    const weir_status status = bench_tune_rewrite(tune->run->job, path, &rows, tune);
    return status ? status : write_json_beside(tune, path);
}

/* --------------------------------------------------------------- open and close */

/* An old file is such a table, and a new one can be written. */
static weir_status check_path(const bench_run *run, const char *path)
{
    char problem[BENCH_TUNE_PATH_BYTES + 512], temporary[BENCH_TUNE_PATH_BYTES];
    tuner_table table = {0};
    if (access(path, F_OK) == 0 && bench_tuner_read(path, &table, problem, sizeof problem) != 0)
        return bench_job_note(run->job, WEIR_ERR_INVALID, "--tune-nccl %.600s; give another file",
                              problem);
    bench_tuner_free(&table);
    FILE *file = bench_tune_open_new(path, temporary, problem);
    if (!file)
        return bench_job_note(run->job, WEIR_ERR_INVALID, "--tune-nccl %s.new: %.160s", path,
                              problem);
    unlink(temporary);
    fclose(file);
    return WEIR_OK;
}

weir_status bench_tune_nccl_open(const bench_run *run, bench_tune_nccl **tune)
{
    const char *path = run->options->tune_nccl_path;
    const bench_job *job = run->job;
    const int collective = bench_nccl_tuner_collective(run->collective);
    *tune = NULL;
    if (!path && !run->options->verify_nccl_path)
        return WEIR_OK;
    const weir_status status = path ? check_path(run, path) : WEIR_OK;
    if (status)
        return status;
    *tune = calloc(1, sizeof **tune);
    if (!*tune)
        return bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for the tuner");
    (*tune)->run = run;
    (*tune)->collective = collective;
    snprintf((*tune)->mark, sizeof(*tune)->mark, "# weir: %s, %d node%s, %d rank%s: ",
             collective < 0 ? "" : bench_tuner_collectives[collective], job->nnodes,
             weiri_s(job->nnodes), job->nranks, weiri_s(job->nranks));
    return WEIR_OK;
}

static void print_outcome(const bench_tune_nccl *tune)
{
    const char *path = tune->run->options->tune_nccl_path;
    int sizes = 0;
    if (!path) {
        printf(
            "# %-20s : helps %ld results, hurts %ld, no difference shown in %ld, no row for %ld\n",
            "NCCL's tuner table", tune->helps, tune->hurts, tune->same, tune->without);
        return;
    }
    for (int k = 0; k < tune->nsizes; k++)
        sizes += tune->sizes[k].chosen >= 0;
    printf("# %-20s : %s: a setting is certainly faster at %d of %d sizes (%ld comparisons, %d "
           "rounds)\n",
           "NCCL's tuner table", path, sizes, tune->nsizes, tune->tested, tune->rounds);
    if (tune->nsizes && tune->rounds < 2)
        printf("#   one round cannot be compared: give more iterations (-n) or --visits\n");
    write_modes(tune, stdout);
}

weir_status bench_tune_nccl_close(bench_tune_nccl *tune, int is_complete)
{
    weir_status status = WEIR_OK;
    if (!tune)
        return status;
    choose_settings(tune);
    if (is_complete && tune->run->options->tune_nccl_path)
        status = write_table(tune);
    if (is_complete && status == WEIR_OK)
        print_outcome(tune);
    free(tune);
    return status;
}
