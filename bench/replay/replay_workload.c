/* The workload of bench_replay, one point: the whole recording. See bench/workload.h. */
#include "bench/workload.h"

#include "base/write_file.h"
#include "bench/job/exchange.h"
#include "bench/replay/read.h"
#include "bench/replay/replay_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct replay_run {
    bench_report *report;
    replay_plan plan;
    replay_measurement measurement;
    int has_run;
    long wrong;
} replay_run;

static replay_options options;
static replay_trace *trace;
static replay_schedule *schedule;

/* ------------------------------------------------------------------ recording */

/* The kind of memory that most calls use is that of rows. */
static void choose_buffers(void)
{
    size_t unregistered = 0;
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++)
            unregistered += trace->ranks[rank].calls[i].unregistered;
    const int is_plain = options.buffers == REPLAY_BUFFERS_RECORDED
                             ? 2 * unregistered > replay_calls(trace)
                             : options.buffers == REPLAY_BUFFERS_UNREGISTERED;
    options.common.buffers = is_plain ? BENCH_BUFFERS_PLAIN : BENCH_BUFFERS_WEIR;
}

/* Reads the recording before ranks are forked, so that they share its memory. */
static weir_status read_recording(char *problem)
{
    bench_launch launch;
    char refusal[BENCH_PROBLEM_BYTES] = "";
    weir_status status = replay_read(options.files, options.nfiles, &trace);
    if (status == WEIR_OK && options.nranks && options.nranks != trace->nranks)
        status = replay_scale(trace, options.nranks);
    if (status == WEIR_OK && !options.convert)
        status = replay_match(trace, &schedule);
    if (status != WEIR_OK) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s", weir_last_error());
        return status;
    }
    choose_buffers();
    if (schedule && schedule->nlanes > 1)
        bench_mpi_use_threads();
    if (!options.ngpus_given && bench_launch_find(&launch, refusal) == 0 && !launch.variable)
        options.common.ngpus = trace->nranks;
    return WEIR_OK;
}

static weir_status replay_parse(weir_collective collective, int argc, char **argv, char *problem)
{
    (void)collective;
    weir_status status = replay_options_parse(argc, argv, &options, problem);
    if (status != WEIR_OK || options.common.action != BENCH_ACTION_RUN)
        return status;
    status = read_recording(problem);
    if (options.convert)
        options.common.action = BENCH_ACTION_LIST_ALGOS; /* ends after replay_inform */
    return status;
}

static void write_text(const void *context, FILE *to)
{
    replay_text_write(context, to);
}

static void replay_inform(const bench_run *run)
{
    if (options.common.action != BENCH_ACTION_LIST_ALGOS) {
        replay_options_help(stdout);
        return;
    }
    replay_notes_print(trace, stderr);
    if (strcmp(options.convert, "-") == 0) {
        write_text(trace, stdout);
        return;
    }
    if (weiri_write_file(options.convert, write_text, trace) == 0)
        return;
    fprintf(stderr, "%s: --convert %s: %s\n", run->job->program, options.convert, strerror(errno));
    exit(weir_status_exit_code(weiri_write_refuses_path(errno) ? WEIR_ERR_INVALID
                                                               : WEIR_ERR_SYSTEM));
}

/* The cpus of the recorded rank, if it ran on this node; else NULL. */
static const char *recorded_cpus(const bench_job *job)
{
    const char *place = trace->ranks[job->rank].place;
    const size_t length = strlen(job->host);
    return !options.nranks && place && !strncmp(place, job->host, length) && place[length] == ' '
               ? place + length + 1
               : NULL;
}

static void replay_check(bench_run *run, char *problem)
{
    run->job->has_threads = schedule && schedule->nlanes > 1;
    run->job->wanted_cpus = recorded_cpus(run->job);
    if (run->job->nranks != trace->nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "the recording has %d ranks, and this job %d: start %d, or give --ranks %d", //
                 trace->nranks, run->job->nranks, trace->nranks, run->job->nranks);
}

/* ---------------------------------------------------------------------- set-up */

/* Checks that all ranks have read the same calls, whose files may be others on each node.
 * Collective; agreed. */
static weir_status check_same(bench_job *job)
{
    const uint64_t prime = 1099511628211u, most = ((uint64_t)1 << 52) - 1; /* FNV-1a; a double's */
    uint64_t hash = 14695981039346656037u;
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++) {
            const replay_call *call = &trace->ranks[rank].calls[i];
            hash = (hash ^ call->count ^ (uint64_t)call->kind << 48 ^ (uint64_t)call->comm << 32 ^
                    (uint64_t)(uint32_t)call->peer << 16 ^ (uint64_t)call->dtype << 8 ^ call->op) *
                   prime;
        }
    double all[] = {(double)(hash & most), -(double)(hash & most)};
    bench_exchange_reduce(job, BENCH_FOLD_MAX, all, 2, all);
    weir_status status = WEIR_OK;
    if (job->rank == 0 && all[0] + all[1] != 0)
        status = bench_job_note(job, WEIR_ERR_INVALID,
                                "ranks have read different recordings under these names; give all "
                                "nodes the same files");
    return bench_job_agree(job, status, "recording");
}

/* Checks options against the backend, and --gaps against the recorded times. Collective; agreed. */
static weir_status check_options(bench_job *job)
{
    const replay_rank *mine = &trace->ranks[job->rank];
    weir_status status = WEIR_OK;
    for (size_t i = 0; options.gaps && i < mine->count && status == WEIR_OK; i++)
        if (!(mine->calls[i].start_s >= 0) || !(mine->calls[i].duration_s >= 0))
            status = bench_job_note(job, WEIR_ERR_INVALID,
                                    "--gaps: %s:%u has no time or no duration; leave out --gaps",
                                    trace->files[mine->calls[i].file], mine->calls[i].line);
    if (options.timeline && job->gpu)
        status = bench_job_note(job, WEIR_ERR_UNSUPPORTED,
                                "--timeline: calls on GPUs are asynchronous, so the host does not "
                                "see when they run; add --backend host, or leave it out");
    return bench_job_agree(job, status, "options");
}

static weir_status replay_open(bench_run *run, bench_report *report, void **state)
{
    bench_job *job = run->job;
    replay_run *replay = calloc(1, sizeof *replay);
    weir_status status = WEIR_OK;
    if (!replay)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for results");
    status = bench_job_agree(job, status, "results");
    if (status != WEIR_OK) {
        free(replay);
        return status;
    }
    *state = replay;
    replay->report = report;
    if (job->rank == 0)
        replay_notes_print(trace, stderr);
    status = check_same(job);
    if (status == WEIR_OK)
        status = check_options(job);
    if (status == WEIR_OK)
        status = replay_plan_open(&replay->plan, job, &options, trace, schedule);
    return status == WEIR_OK ? replay_measure_open(&replay->measurement, &options, &replay->plan)
                             : status;
}

/* ---------------------------------------------------------------------- points */

static void replay_begin(void *state)
{
    replay_output_begin(&((replay_run *)state)->plan, &options);
}

static weir_status replay_next(void *state, void **point)
{
    replay_run *replay = state;
    const bench_job *job = replay->plan.job;
    *point = replay->has_run++ ? NULL : replay;
    weir_status status = job->rank == 0 ? bench_report_check(replay->report) : WEIR_OK;
    return bench_job_agree(replay->plan.job, status, "output");
}

static weir_status replay_point(void *point)
{
    replay_run *replay = point;
    weir_status status = replay_measure(&replay->measurement);
    return status == WEIR_OK && options.timeline
               ? replay_timeline_write(&replay->measurement, options.timeline)
               : status;
}

static void replay_row(void *state)
{
    replay_run *replay = state;
    const replay_measurement *m = &replay->measurement;
    if (m->job->rank == 0)
        replay_output_rows(replay->report, m);
    for (int i = 0; i < m->count; i++)
        for (int index = 0; index < m->plan->nclasses; index++)
            replay->report->failed += (long)m->subjects[i].wrong[index];
}

static void replay_end(void *state)
{
    replay_output_end(((replay_run *)state)->report);
}

static void replay_close(bench_run *run, void *state)
{
    replay_run *replay = state;
    (void)run;
    if (replay) {
        replay_measure_close(&replay->measurement);
        replay_plan_close(&replay->plan);
    }
    free(replay);
    replay_schedule_free(schedule);
    replay_trace_free(trace);
    free(options.files);
}

const bench_workload bench_replay = {
    .table = &replay_options_table,
    .options = &options.common,
    .parse = replay_parse,
    .inform = replay_inform,
    .check = replay_check,
    .open = replay_open,
    .begin = replay_begin,
    .next = replay_next,
    .point = replay_point,
    .row = replay_row,
    .end = replay_end,
    .close = replay_close,
};
