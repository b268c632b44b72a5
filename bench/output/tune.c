/*
 * Selects the algorithm for each size: see tune.h. A row of the tuning table covers all sizes
 * between two bounds, and times are noisy, so the selection is the path through all sizes with the
 * smallest sum of logarithms of time plus a penalty for each change: it changes only where that
 * pays.
 */
#include "bench/output/tune.h"

#include "bench/output/tune_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 128, PATH_BYTES = BENCH_TUNE_PATH_BYTES };

/* A change must make a size faster by this logarithm: 1.5%. */
static const double change_penalty = 0.015;

/* The scores of one size: the mean over placements of the logarithm of the median. */
typedef struct tuned_size {
    size_t bytes;
    double score[BENCH_CANDIDATES_MAX];
    double median_us[BENCH_CANDIDATES_MAX]; /* out of place */
    int chosen;
} tuned_size;

struct bench_tune {
    const bench_run *run;
    char names[BENCH_CANDIDATES_MAX][32]; /* of algorithms, "packet:16x64" */
    char *files[BENCH_CANDIDATES_MAX];    /* of plans; NULL: an algorithm */
    int count, nsizes;
    tuned_size sizes[SIZES_MAX];
};

weir_status bench_tune_open(const bench_run *run, bench_tune **tune)
{
    *tune = NULL;
    if (!run->options->tune_path)
        return WEIR_OK;
    weir_status status = bench_tune_check_path(run->job, run->options->tune_path);
    if (status != WEIR_OK)
        return status;
    *tune = calloc(1, sizeof **tune);
    if (!*tune)
        return bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for the tuner");
    (*tune)->run = run;
    return WEIR_OK;
}

static int is_entry(const bench_tune *tune, int i, const bench_result *result)
{
    const char *file = tune->files[i], *other = result->plan_file;
    if (file && other)
        return strcmp(file, other) == 0;
    return !file && !other && strcmp(tune->names[i], result->algo) == 0;
}

/* The index of an algorithm or plan, added if it is new; -1 if there is no room, or if weir's
 * selection served the call with a plan that is no candidate. */
static int find_algorithm(bench_tune *tune, const bench_result *result)
{
    int i = 0;
    if (!result->plan_file && strncmp(result->algo, "plan:", 5) == 0)
        return -1;
    while (i < tune->count && !is_entry(tune, i, result))
        i++;
    if (i == BENCH_CANDIDATES_MAX)
        return -1;
    if (i == tune->count) {
        tune->files[i] = result->plan_file ? strdup(result->plan_file) : NULL;
        if (result->plan_file && !tune->files[i])
            return -1;
        snprintf(tune->names[tune->count++], sizeof tune->names[i], "%s", result->algo);
    }
    return i;
}

static const char *cores_word(const bench_run *run)
{
    if (run->job->nnodes > 1)
        return "net";
    if (run->job->gpu)
        return "cuda";
    int shares = weir_comm_shares_cores(run->job->comm);
    if (run->options->buffers == BENCH_BUFFERS_PLAIN)
        return shares ? "plain-shared" : "plain-own";
    return shares ? "shared" : "own";
}

/* Whether a row of the table may name what a result measured. Algorithms that need mapped memory do
 * run on other memory, in another way. */
static int is_eligible(const bench_tune *tune, const bench_result *result)
{
    if (result->peer || !(result->ran || result->plan_file))
        return 0;
    if (strncmp(cores_word(tune->run), "plain", 5) != 0)
        return 1;
    const weir_algo_info *info =
        weir_algo_info_find(WEIR_ALGO_HOST, tune->run->collective, result->algo);
    return !result->plan_file && !(info && info->needs_mapped);
}

void bench_tune_row(bench_tune *tune, const bench_row *row)
{
    if (!tune || tune->nsizes == SIZES_MAX || row->shape.bytes == 0)
        return;
    tuned_size *size = &tune->sizes[tune->nsizes++];
    size->bytes = row->shape.bytes;
    for (int i = 0; i < BENCH_CANDIDATES_MAX; i++)
        size->score[i] = INFINITY;
    for (int i = 0; i < row->ncandidates; i++) {
        const bench_result *out = &row->results[BENCH_OUT_OF_PLACE][i];
        double sum = 0;
        for (int placement = 0; placement < row->placements; placement++) {
            const bench_result *result = &row->results[placement][i];
            int usable = result->figures.is_usable;
            sum += usable ? log(result->stats.median) : INFINITY;
        }
        int at = is_eligible(tune, out) ? find_algorithm(tune, out) : -1;
        if (at < 0 || sum / row->placements >= size->score[at])
            continue;
        size->score[at] = sum / row->placements;
        size->median_us[at] = out->stats.median;
    }
}

/* The cheapest path: cost[i] is the cost of the best path that ends at i, from[k][i] its
 * predecessor. */
static void choose_path(bench_tune *tune)
{
    double cost[BENCH_CANDIDATES_MAX] = {0}, next[BENCH_CANDIDATES_MAX];
    static int from[SIZES_MAX][BENCH_CANDIDATES_MAX];
    int best = 0;
    for (int k = 0; k < tune->nsizes; k++) {
        for (int i = 0; i < tune->count; i++) {
            int stays = cost[i] <= cost[best] + change_penalty;
            from[k][i] = stays ? i : best;
            next[i] = (stays ? cost[i] : cost[best] + change_penalty) + tune->sizes[k].score[i];
        }
        best = 0;
        for (int i = 0; i < tune->count; i++) {
            cost[i] = next[i];
            best = cost[i] < cost[best] ? i : best;
        }
    }
    for (int k = tune->nsizes - 1; k >= 0; k--) {
        tune->sizes[k].chosen = best;
        best = from[k][best];
    }
}

/* The word of a row: "packet", its grid apart, or "plan:FILE", relative to the table's folder if it
 * is below that. */
static void row_words(const bench_tune *tune, int chosen, char *word, const char **grid)
{
    const char *plan = tune->files[chosen], *table = tune->run->options->tune_path;
    char folder[PATH_BYTES];
    *grid = "";
    if (!plan) {
        snprintf(word, PATH_BYTES, "%s", tune->names[chosen]);
        char *colon = strchr(word, ':');
        if (colon) {
            *colon = '\0';
            *grid = colon + 1;
        }
        return;
    }
    const char *slash = strrchr(table, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - table) + 1 : 1,
             slash ? table : ".");
    char *whole = realpath(folder, NULL);
    size_t length = whole ? strlen(whole) : 0;
    int below = length > 1 && strncmp(plan, whole, length) == 0 && plan[length] == '/';
    snprintf(word, PATH_BYTES, "plan:%s", below ? plan + length + 1 : plan);
    free(whole);
}

static void write_rows(const bench_tune *tune, FILE *file)
{
    const bench_run *run = tune->run;
    for (int k = 0; k < tune->nsizes; k++) {
        const tuned_size *size = &tune->sizes[k];
        int last = k + 1 == tune->nsizes;
        if (!last && tune->sizes[k + 1].chosen == size->chosen)
            continue;
        char limit[24] = "-", word[PATH_BYTES];
        const char *grid;
        row_words(tune, size->chosen, word, &grid);
        if (!last) /* the middle between this size and the next */
            snprintf(limit, sizeof limit, "%zu", (size->bytes + tune->sizes[k + 1].bytes) / 2);
        fprintf(file, "%-14s %2d %-6s %-12s %-8s %-8s # %zu B: %.2f us\n",
                weir_collective_name(run->collective), run->job->nranks, cores_word(run), limit,
                word, grid, size->bytes, size->median_us[size->chosen]);
    }
}

/* Writes the line "cost" that fits the measured times best, if the cost model selects between nodes
 * and knows one of the algorithms. Returns 1 if there is one; file may be NULL. */
static int write_cost(const bench_tune *tune, FILE *file)
{
    static weir_net_time times[SIZES_MAX * BENCH_CANDIDATES_MAX];
    const bench_job *job = tune->run->job;
    weir_net_cost cost;
    double deviation;
    size_t count = 0;
    if (job->nnodes < 2 || !job->comm)
        return 0;
    for (int k = 0; k < tune->nsizes; k++)
        for (int i = 0; i < tune->count; i++)
            if (isfinite(tune->sizes[k].score[i]) && !tune->files[i])
                times[count++] = (weir_net_time){tune->run->collective, tune->names[i],
                                                 tune->sizes[k].bytes, tune->sizes[k].median_us[i]};
    if (weir_net_cost_fit(job->comm, times, count, &cost, &deviation) != WEIR_OK)
        return 0;
    if (file)
        fprintf(file,
                "cost %.4g %.4g %.4g %.4g %.4g # %s, %d ranks on %d nodes, %zu times; typical "
                "deviation %.0f%%\n",
                cost.latency_us, cost.message_us, cost.network_gbs, cost.phase_us, cost.memory_gbs,
                weir_collective_name(tune->run->collective), job->nranks, job->nnodes, count,
                100 * deviation);
    return 1;
}

static int is_replaced(const void *context, const char *line)
{
    const bench_tune *tune = context;
    char collective[24], cores[16];
    int ranks;
    if (sscanf(line, "%23s", collective) == 1 && strcmp(collective, "cost") == 0)
        return write_cost(tune, NULL);
    return sscanf(line, "%23s %d %15s", collective, &ranks, cores) == 3 &&
           strcmp(collective, weir_collective_name(tune->run->collective)) == 0 &&
           ranks == tune->run->job->nranks && strcmp(cores, cores_word(tune->run)) == 0;
}

static void add_rows(const void *tune, FILE *to)
{
    write_cost(tune, to);
    write_rows(tune, to);
}

static weir_status write_file(const bench_tune *tune)
{
    static const bench_tune_rows rows = {
        "# collective  max_ranks  cores  max_bytes  algorithm  [blocks x threads]\n", is_replaced,
        add_rows};
    const char *path = tune->run->options->tune_path;
    const weir_status status = bench_tune_rewrite(tune->run->job, path, &rows, tune);
    if (status == WEIR_OK)
        printf("# %-20s : %s\n", "Tuning table", path);
    return status;
}

/* Prints the sizes for which the plan was selected. Returns 0 if there are none. */
static int print_selected(const bench_tune *tune, int plan)
{
    const char *separator = "selected for ";
    int found = 0;
    for (int k = 0, last; k < tune->nsizes; k = last + 1) {
        const tuned_size *sizes = tune->sizes;
        for (last = k; last + 1 < tune->nsizes && sizes[last + 1].chosen == sizes[k].chosen;)
            last++;
        if (sizes[k].chosen != plan)
            continue;
        printf("%s%zu", separator, sizes[k].bytes);
        if (last > k)
            printf(" to %zu", sizes[last].bytes);
        printf(" B");
        separator = ", ";
        found = 1;
    }
    return found;
}

/* Prints how the plan's time was at best beside that of what was selected. */
static void print_lost(const bench_tune *tune, int plan)
{
    const tuned_size *best = NULL;
    double least = INFINITY;
    for (int k = 0; k < tune->nsizes; k++) {
        const tuned_size *size = &tune->sizes[k];
        double slower = size->score[plan] - size->score[size->chosen];
        if (isfinite(slower) && slower < least) {
            least = slower;
            best = size;
        }
    }
    if (!best) {
        printf("not selected: it has no correct result in all placements of a size");
        return;
    }
    char word[PATH_BYTES];
    const char *grid;
    row_words(tune, best->chosen, word, &grid);
    printf("not selected: at best %.1f%% %s than %s%s%s, for %zu B%s", 100 * fabs(expm1(least)),
           least < 0 ? "faster" : "slower", word, *grid ? ":" : "", grid, best->bytes,
           least < 0 ? ", too little for a row" : "");
}

static void print_plans(const bench_tune *tune)
{
    char word[PATH_BYTES];
    const char *grid;
    for (int i = 0; i < tune->count; i++) {
        if (!tune->files[i])
            continue;
        row_words(tune, i, word, &grid);
        printf("# %-20s : ", word);
        if (!print_selected(tune, i))
            print_lost(tune, i);
        putchar('\n');
    }
}

weir_status bench_tune_close(bench_tune *tune)
{
    weir_status status = WEIR_OK;
    if (!tune)
        return status;
    choose_path(tune);
    if (tune->nsizes && tune->count)
        status = write_file(tune);
    if (status == WEIR_OK)
        print_plans(tune);
    for (int i = 0; i < tune->count; i++)
        free(tune->files[i]);
    free(tune);
    return status;
}
