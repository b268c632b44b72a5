/* The order of sizes, rounds, and combinations of type, operation and root: see sweep.h. */
#include "bench/measure/sweep.h"

#include "bench/job/exchange.h"
#include "bench/measure/pace.h"
#include "bench/options/faults.h"
#include "bench/sizes/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct range {
    int first, last;
} range;

/* A line of the table while it is measured; large. */
typedef struct line {
    bench_row row;
    bench_series series[BENCH_PLACEMENTS];
} line;

struct bench_sweep {
    const bench_run *run;
    bench_candidates *candidates;
    bench_report *report;
    bench_trial trial;
    bench_splits splits;
    weir_collective collective;
    range dtypes, ops, roots, patterns;
    int dtype, op, root, pattern_index, cycle; /* the current combination */
    const char *pattern_list;                  /* of sendrecv */
    bench_pattern pattern;                     /* the current one */
    int *sources;                              /* of each rank in it */
    int rounds;
    line *lines;            /* as many as rounds; size k uses line k modulo rounds */
    int step, begun, ended; /* the current step of the walk; sizes that have begun, and ended */
    size_t bytes;           /* the size that the next step begins, */
    int has_more;           /* if there is one */
    int at;                 /* the current round: size at / placements, placement at modulo
                               placements */
    uint64_t next_seed;
    int served[BENCH_CANDIDATES_MAX]; /* 1: the candidate has made a call */
    char refusals[BENCH_CANDIDATES_MAX][sizeof((bench_result *)0)->refusal]; /* the last one */
    int is_walking;  /* 1: the sweep has begun */
    bench_pace pace; /* on rank 0 */
};

static void count_failures(bench_sweep *s, const bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++)
            s->report->failed += bench_result_failed(&row->results[placement][i]);
}

/* Ends the run before a size that does not fit, or whose row could not be written, as the rows
 * before it could not. Collective; agreed. */
static weir_status check_room(bench_sweep *s, const bench_row *row)
{
    bench_job *job = s->run->job;
    weir_status status = job->rank == 0 ? bench_report_check(s->report) : WEIR_OK;
    if (!bench_buffers_hold(s->trial.buffers, &row->shape, weir_dtype_bytes(row->dtype),
                            (size_t)s->run->options->unalign_elements,
                            row->placements == BENCH_PLACEMENTS))
        status = bench_job_note(job, WEIR_ERR_INTERNAL,
                                "%zu bytes are more than the buffers were made for; this is a "
                                "defect of the benchmark: please report its arguments",
                                row->shape.bytes);
    return bench_job_agree(job, status, "size");
}

static bench_shape shape_of(const bench_sweep *s, size_t bytes)
{
    return bench_shape_make(s->collective, bytes, weir_dtype_bytes((weir_dtype)s->dtype),
                            s->run->job->group_rank, s->run->job->group_nranks, s->run->dist);
}

/* The count parameter of the first group, for decisions that all ranks make. */
static size_t count_of(const bench_sweep *s, size_t bytes)
{
    const int uneven = s->collective == WEIR_COLL_ALLTOALLV; /* with the count of alltoall */
    return bench_shape_make(uneven ? WEIR_COLL_ALLTOALL : s->collective, bytes,
                            weir_dtype_bytes((weir_dtype)s->dtype), 0,
                            s->run->job->groups[0].nranks, NULL)
        .count;
}

/* The next size with another number of elements; 0 after the last one. */
static size_t next_size(bench_sweep *s, size_t bytes)
{
    const size_t count = count_of(s, bytes);
    while ((bytes = bench_sizes_next(s->run->options, bytes)) && count_of(s, bytes) == count)
        bench_pace_skip(&s->pace, bytes, s->rounds * s->lines[0].row.placements);
    return bytes;
}

/* Starts a line of the table. Collective; agreed. */
static weir_status begin_size(bench_sweep *s, line *at, size_t bytes)
{
    bench_row *row = &at->row;
    row->dtype = (weir_dtype)s->dtype;
    row->op = (weir_op)s->op;
    row->root = s->root;
    row->pattern = s->collective == WEIR_COLL_SENDRECV ? &s->pattern : NULL;
    row->asked_bytes = bytes;
    row->shape = shape_of(s, bytes);
    memset(row->primary, 0, sizeof row->primary);
    return check_room(s, row);
}

static void clear_line(line *at)
{
    for (int placement = 0; placement < BENCH_PLACEMENTS; placement++)
        bench_series_free(&at->series[placement]);
    bench_row_clear(&at->row);
}

/* Notes which candidates made a call, and why the others did not. */
static void note_served(bench_sweep *s, const bench_row *row)
{
    for (int i = 0; i < row->ncandidates; i++)
        for (int placement = 0; placement < row->placements; placement++) {
            const bench_result *result = &row->results[placement][i];
            s->served[i] |= result->ran;
            if (!result->ran && *result->algo && *result->refusal)
                memcpy(s->refusals[i], result->refusal, sizeof result->refusal);
        }
}

/* Points the trial at one placement of a line. Line k has its round r in step k + r. */
static void select_trial(bench_sweep *s, int k, int placement, int step)
{
    line *at = &s->lines[k % s->rounds];
    s->trial.row = &at->row;
    s->trial.series = &at->series[placement];
    s->trial.in_place = placement == BENCH_IN_PLACE;
    s->trial.round = step - k;
}

/* The values that an option fixes, or leaves open with "all". */
static range range_of(int option, int count)
{
    return option == BENCH_ALL ? (range){0, count - 1} : (range){option, option};
}

static void set_ranges(bench_sweep *s)
{
    const bench_options *options = s->run->options;
    s->dtypes = range_of(options->dtype, WEIR_DTYPE_COUNT);
    s->ops =
        range_of(bench_collective_has_op(s->collective) ? options->op : WEIR_SUM, WEIR_OP_COUNT);
    s->roots = bench_collective_has_root(s->collective)
                   ? range_of(options->root, bench_job_least_nranks(s->run->job))
                   : (range){-1, -1};
    s->pattern_list = s->run->options->pattern ? s->run->options->pattern : "ring";
    const int npatterns = bench_patterns_count(s->pattern_list, s->run->job->group_nranks);
    s->patterns = (range){0, s->collective == WEIR_COLL_SENDRECV ? npatterns - 1 : 0};
    s->pattern_index = 0;
    s->dtype = s->dtypes.first;
    s->op = s->ops.first;
    s->root = s->roots.first;
}

static double count_combinations(const bench_sweep *s)
{
    const range all[] = {s->dtypes, s->ops, s->roots, s->patterns};
    double count = s->run->options->cycles;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        count *= all[i].last - all[i].first + 1;
    return count;
}

/* Moves to the next value, or returns 0 and starts again. */
static int advance(int *value, range values)
{
    int more = *value < values.last;
    *value = more ? *value + 1 : values.first;
    return more;
}

/* The next combination of type, operation, root, pattern and cycle; cycles change fastest. Returns
 * 0 after the last one. -N 0 repeats the first one until the program is stopped. */
static int next_combination(bench_sweep *s)
{
    const int cycles = s->run->options->cycles;
    if (cycles == 0 || ++s->cycle < cycles)
        return 1;
    s->cycle = 0;
    return advance(&s->pattern_index, s->patterns) || advance(&s->root, s->roots) ||
           advance(&s->op, s->ops) || advance(&s->dtype, s->dtypes);
}

/* Makes the pattern of the combination. */
static void set_pattern(bench_sweep *s)
{
    const int nranks = s->run->job->group_nranks;
    s->pattern = bench_pattern_at(s->pattern_list, nranks, s->pattern_index);
    for (int rank = 0; rank < nranks; rank++)
        s->sources[rank] = bench_pattern_source(&s->pattern, rank, nranks);
}

static void prepare_sweep(bench_sweep *s, const bench_buffers *buffers)
{
    const bench_run *run = s->run;
    s->next_seed = run->options->seed;
    s->collective = run->collective;
    int has_in_place = !run->options->fuse && !run->options->wire &&
                       bench_collective_in_place(run->collective, run->options->plan != NULL);
    for (int i = 0; i < s->rounds; i++) {
        bench_row *row = &s->lines[i].row;
        row->collective = run->collective;
        row->nranks = run->job->group_nranks;
        row->placements = has_in_place ? BENCH_PLACEMENTS : 1;
        row->oracles = bench_options_oracles(run->options);
        row->ncandidates = s->candidates->count;
    }
    s->trial.job = run->job;
    s->trial.options = run->options;
    s->trial.buffers = buffers;
    s->trial.candidates = s->candidates->list;
    s->trial.next_seed = &s->next_seed;
    s->trial.pattern = &s->pattern;
    s->trial.sources = s->sources;
    s->trial.determinism = run->options->determinism ? &s->report->determinism : NULL;
}

/* A fault of --inject that changed nothing anywhere is an error. Collective; agreed. */
static weir_status check_planted(bench_sweep *s)
{
    bench_job *job = s->run->job;
    if (!s->run->options->inject)
        return WEIR_OK;
    weir_status status = WEIR_OK;
    if (bench_exchange_fold(job, BENCH_FOLD_SUM, (double)s->trial.planted) == 0)
        status = bench_job_note(job, WEIR_ERR_INVALID,
                                "--inject %s changed nothing: give other sizes, more ranks, "
                                "a floating type",
                                bench_fault_name((bench_fault)s->run->options->inject));
    return bench_job_agree(job, status, "injection");
}

/* Algorithms of --algo of which none served a call are an error. Collective; agreed. */
static weir_status check_served(const bench_sweep *s)
{
    bench_job *job = s->run->job;
    const char *refusal = NULL;
    int served = 0;
    for (int i = 0; i < s->candidates->count; i++) {
        served |= s->served[i] && !s->candidates->list[i]->peer;
        refusal = !refusal && *s->refusals[i] ? s->refusals[i] : refusal;
    }
    weir_status status = WEIR_OK;
    if (!served && refusal)
        status =
            bench_job_note(job, WEIR_ERR_INVALID, "--algo: %s; give another algorithm%s", refusal,
                           job->nranks > 1 ? " or other --buffers" : ", or start more ranks");
    return bench_job_agree(job, status, "algorithms");
}

/* ------------------------------------------------------------------ the walk */

/* Every step begins a size, and has one round of it and of each earlier size that is not finished.
 * So the rounds of a size are spread over as many steps, and lines end in the order of sizes.
 * Collective; agreed. */
static weir_status begin_step(bench_sweep *s)
{
    weir_status status = WEIR_OK;
    s->step++;
    if (s->has_more) {
        status = begin_size(s, &s->lines[s->begun++ % s->rounds], s->bytes);
        s->bytes = next_size(s, s->bytes);
        s->has_more = s->bytes != 0;
    }
    s->at = s->ended * s->lines[0].row.placements;
    return status;
}

/* Begins the walk of the first combination, or of the next one after a walk that is over. Returns 0
 * after the last one. */
static int next_walk(bench_sweep *s)
{
    if (s->is_walking && !next_combination(s))
        return 0;
    if (!s->is_walking && s->run->job->rank == 0)
        bench_pace_begin(&s->pace, s->run, count_combinations(s),
                         s->rounds * s->lines[0].row.placements);
    s->is_walking = 1;
    set_pattern(s);
    /* The walk starts with the smallest size. */
    s->step = -1;
    s->begun = s->ended = s->at = 0;
    s->bytes = s->run->options->min_bytes;
    s->has_more = 1;
    return 1;
}

weir_status bench_sweep_next(bench_sweep *s, bench_trial **trial)
{
    const int placements = s->lines[0].row.placements;
    const int is_over = s->step >= 0 && !s->has_more && s->ended == s->begun;
    weir_status status = WEIR_OK;
    *trial = NULL;
    if ((is_over || !s->is_walking) && !next_walk(s)) {
        status = check_planted(s);
        return status == WEIR_OK ? check_served(s) : status;
    }
    if (s->at == s->begun * placements)
        status = begin_step(s);
    if (status != WEIR_OK)
        return status;
    select_trial(s, s->at / placements, s->at % placements, s->step);
    *trial = &s->trial;
    return WEIR_OK;
}

void bench_sweep_row(bench_sweep *s)
{
    const int is_first = s->run->job->rank == 0;
    line *at = &s->lines[s->ended % s->rounds];
    if (is_first)
        bench_pace_round(&s->pace, s->trial.row->shape.bytes);
    const int is_step_over = ++s->at == s->begun * at->row.placements;
    if (!is_step_over || s->step - s->ended < s->rounds - 1)
        return;
    s->ended++;
    count_failures(s, &at->row);
    note_served(s, &at->row);
    if (is_first) {
        weiri_progress_clear(&s->pace.progress);
        bench_report_row(s->report, &at->row);
    }
    clear_line(at);
}

weir_status bench_sweep_open(const bench_run *run, const bench_buffers *buffers,
                             bench_candidates *candidates, bench_report *report,
                             bench_sweep **sweep)
{
    const bench_options *options = run->options;
    const int rounds = bench_options_rounds(options);
    bench_sweep *s = calloc(1, sizeof *s);
    line *lines = calloc((size_t)rounds, sizeof *lines);
    int *sources = calloc((size_t)run->job->group_nranks, sizeof *sources);
    weir_status status = WEIR_OK;
    if (!s || !lines || !sources)
        status = bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for a row of results");
    status = bench_job_agree(run->job, status, "sweep");
    if (status != WEIR_OK) {
        free(s);
        free(lines);
        free(sources);
        return status;
    }
    *sweep = s;
    s->run = run;
    s->candidates = candidates;
    s->report = report;
    s->rounds = rounds;
    s->lines = lines;
    s->sources = sources;
    s->step = -1;
    s->trial.splits = &s->splits;
    prepare_sweep(s, buffers);
    set_ranges(s);
    if (bench_collective_call(run->collective) != WEIR_COLL_ALLTOALLV)
        return WEIR_OK;
    status =
        bench_splits_open(&s->splits, run->job, run->dist, options->counts == BENCH_COUNTS_DEVICE);
    return bench_job_agree(run->job, status, "sweep");
}

void bench_sweep_close(bench_sweep *s)
{
    if (!s)
        return;
    if (s->run->job->rank == 0)
        weiri_progress_clear(&s->pace.progress);
    for (int i = 0; i < s->rounds; i++)
        clear_line(&s->lines[i]);
    free(s->lines);
    free(s->sources);
    bench_splits_close(&s->splits);
    free(s);
}
