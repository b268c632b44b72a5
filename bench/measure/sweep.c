/* The loops over types, operations, roots and sizes. */
#include "bench/measure/sweep.h"

#include "bench/check/inject.h"
#include "bench/sizes/sizes.h"
#include "bench/measure/trial.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of the table in the making; large. */
typedef struct line {
    bench_row row;
    bench_series series[BENCH_PLACEMENTS];
} line;

typedef struct sweep {
    const bench_run *run;
    bench_candidates *candidates;
    bench_report *report;
    bench_trial trial;
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;
    int root;
    int rounds;
    line *lines; /* rounds of them, which sizes take in turn */
    uint64_t next_seed;
    long failed;
    size_t done; /* sizes, for the progress line */
} sweep;

/* Where standard error is a terminal; a line that the next one overwrites. */
static void show_progress(sweep *s, size_t bytes)
{
    const bench_job *job = s->run->job;
    if (job->rank == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s: size %zu of %zu, %zu bytes \033[K\r", job->program, ++s->done,
                bench_sizes_count(s->run->options), bytes);
}

static void count_failures(sweep *s, const bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++)
            s->failed += bench_result_failed(&row->results[placement][i]);
}

/* What does not fit is refused before a byte of it is written. Collective. */
static weir_status check_room(sweep *s, const bench_row *row)
{
    bench_job *job = s->run->job;
    weir_status status = WEIR_OK;
    if (!bench_buffers_hold(s->trial.buffers, &row->shape, weir_dtype_bytes(row->dtype),
                            (size_t)s->run->options->unalign_elements,
                            row->placements == BENCH_PLACEMENTS))
        status = bench_job_note(job, WEIR_ERR_INTERNAL,
                                "%zu bytes are more than the buffers were made for; this is a "
                                "defect of the benchmark: please report its arguments",
                                row->shape.bytes);
    return bench_job_agree(job, status, "size");
}

static bench_shape shape_of(const sweep *s, size_t bytes)
{
    return bench_shape_make(s->collective, bytes, weir_dtype_bytes(s->dtype), s->run->job->rank,
                            s->run->job->nranks, s->run->dist);
}

/* The size after bytes that is not the same elements again; 0 if the sweep ends there. */
static size_t next_size(sweep *s, size_t bytes)
{
    const size_t count = shape_of(s, bytes).count;
    while ((bytes = bench_sizes_next(s->run->options, bytes)) && shape_of(s, bytes).count == count)
        s->done++;
    return bytes;
}

/* A new line of the table. Collective. */
static weir_status begin_size(sweep *s, line *at, size_t bytes)
{
    bench_row *row = &at->row;
    row->dtype = s->dtype;
    row->op = s->op;
    row->root = s->root;
    row->shape = shape_of(s, bytes);
    memset(row->primary, 0, sizeof row->primary);
    show_progress(s, bytes);
    return check_room(s, row);
}

static weir_status round_size(sweep *s, line *at, int round)
{
    weir_status status = WEIR_OK;
    s->trial.row = &at->row;
    for (int placement = 0; placement < at->row.placements && status == WEIR_OK; placement++) {
        s->trial.in_place = placement == BENCH_IN_PLACE;
        s->trial.series = &at->series[placement];
        s->trial.round = round;
        status = bench_trial_round(&s->trial);
    }
    return status;
}

static void clear_line(line *at)
{
    for (int placement = 0; placement < BENCH_PLACEMENTS; placement++)
        bench_series_free(&at->series[placement]);
    bench_row_clear(&at->row);
}

static void end_size(sweep *s, line *at)
{
    count_failures(s, &at->row);
    if (s->run->job->rank == 0)
        bench_report_row(s->report, &at->row);
    clear_line(at);
}

/* Each step begins a size, and rounds it and the sizes before it that are not yet
 * done: size k has its round v in step k + v. So a size is spread over as many
 * steps as it has rounds, and lines end in the order of sizes. */
static weir_status walk_sizes(sweep *s)
{
    size_t bytes = s->run->options->min_bytes;
    int begun = 0, done = 0, has_more = 1;
    for (int step = 0; has_more || done < begun; step++) {
        if (has_more) {
            weir_status status = begin_size(s, &s->lines[begun++ % s->rounds], bytes);
            if (status != WEIR_OK)
                return status;
            bytes = next_size(s, bytes);
            has_more = bytes != 0;
        }
        for (int k = done; k < begun; k++) {
            weir_status status = round_size(s, &s->lines[k % s->rounds], step - k);
            if (status != WEIR_OK)
                return status;
        }
        if (step - done == s->rounds - 1)
            end_size(s, &s->lines[done++ % s->rounds]);
    }
    return WEIR_OK;
}

static weir_status sweep_sizes(sweep *s)
{
    const bench_options *options = s->run->options;
    for (int cycle = 0; options->cycles == 0 || cycle < options->cycles; cycle++) {
        s->done = 0;
        weir_status status = walk_sizes(s);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* The first and last value of a loop that an option fixes or leaves to all. */
static void loop_bounds(int option, int count, int *first, int *last)
{
    *first = option == BENCH_ALL ? 0 : option;
    *last = option == BENCH_ALL ? count - 1 : option;
}

static weir_status sweep_roots(sweep *s)
{
    int root, last;
    loop_bounds(s->run->options->root, s->run->job->nranks, &root, &last);
    if (!bench_collective_has_root(s->collective))
        root = last = -1;
    for (; root <= last; root++) {
        s->root = root;
        weir_status status = sweep_sizes(s);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

static weir_status sweep_types(sweep *s)
{
    const bench_options *options = s->run->options;
    int type, last_type, op, last_op;
    loop_bounds(options->dtype, WEIR_DTYPE_COUNT, &type, &last_type);
    for (; type <= last_type; type++) {
        loop_bounds(options->op, WEIR_OP_COUNT, &op, &last_op);
        if (!bench_collective_has_op(s->collective))
            op = last_op = WEIR_SUM;
        for (; op <= last_op; op++) {
            s->dtype = (weir_dtype)type;
            s->op = (weir_op)op;
            weir_status status = sweep_roots(s);
            if (status != WEIR_OK)
                return status;
        }
    }
    return WEIR_OK;
}

static void prepare(sweep *s, const bench_buffers *buffers)
{
    const bench_run *run = s->run;
    s->next_seed = run->options->seed;
    s->collective = run->collective;
    for (int i = 0; i < s->rounds; i++) {
        bench_row *row = &s->lines[i].row;
        row->collective = run->collective;
        row->nranks = run->job->nranks;
        row->placements = bench_collective_in_place(run->collective) ? BENCH_PLACEMENTS : 1;
        row->oracles = bench_options_oracles(run->options);
        row->ncandidates = s->candidates->count;
    }
    s->trial.job = run->job;
    s->trial.options = run->options;
    s->trial.buffers = buffers;
    s->trial.candidates = s->candidates->list;
    s->trial.next_seed = &s->next_seed;
    s->trial.determinism = run->options->determinism ? &s->report->determinism : NULL;
}

/* A fault of --inject that changed nothing proves nothing. */
static weir_status check_planted(sweep *s)
{
    bench_job *job = s->run->job;
    long planted = s->trial.planted;
    if (!s->run->options->inject)
        return WEIR_OK;
    MPI_Allreduce(MPI_IN_PLACE, &planted, 1, MPI_LONG, MPI_SUM, job->mpi);
    weir_status status = WEIR_OK;
    if (planted == 0)
        status = bench_job_note(job, WEIR_ERR_INVALID,
                                "--inject %s changed nothing: give other sizes, more ranks, "
                                "a floating type",
                                bench_fault_name((bench_fault)s->run->options->inject));
    return bench_job_agree(job, status, "injection");
}

weir_status bench_sweep(const bench_run *run, const bench_buffers *buffers,
                        bench_candidates *candidates, bench_report *report, long *failed)
{
    sweep *s = calloc(1, sizeof *s);
    int rounds = bench_options_rounds(run->options);
    line *lines = calloc((size_t)rounds, sizeof *lines);
    bench_splits splits = {.job = NULL};
    weir_status status = WEIR_OK;
    if (run->collective == WEIR_COLL_ALLTOALLV)
        status = bench_splits_open(&splits, run->job, run->dist,
                                   strcmp(run->options->counts, "device") == 0);
    if (!s || !lines)
        status = bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for a row of results");
    status = bench_job_agree(run->job, status, "sweep");
    if (status == WEIR_OK) {
        s->run = run;
        s->candidates = candidates;
        s->report = report;
        s->trial.splits = &splits;
        s->rounds = rounds;
        s->lines = lines;
        prepare(s, buffers);
        status = sweep_types(s);
        if (status == WEIR_OK)
            status = check_planted(s);
        *failed = s->failed;
    }
    for (int i = 0; lines && i < rounds; i++)
        clear_line(&lines[i]);
    free(lines);
    bench_splits_close(&splits);
    free(s);
    return status;
}
