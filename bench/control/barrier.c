/*
 * The workload of bench_barrier: barriers of all ranks, or of each group of ranks, weir's and MPI's
 * (bench/workload.h). What is checked: no rank leaves a barrier before the last rank has entered
 * it.
 *
 * - Each rank in turn is late. The others announce themselves over the bootstrap; the late rank
 * waits LATE_US once all have, then enters. A rank that leaves within LATE_US of its announcement
 * did not wait. Each rank reads its own clock only, so that this works across nodes.
 * - Every timed barrier, if the ranks share a clock: no rank may end before another one starts.
 */
#include "bench/control/control.h"

#include "bench/job/exchange.h"
#include "bench/job/mpi_comm.h"
#include "bench/measure/point.h"
#include "bench/measure/timed.h"
#include "bench/options/faults.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { LATE_US = 20000, LATE_RANKS = 16, CANDIDATES = 2, FAULTY_ITERATION = 2 };

typedef struct barrier_candidate {
    bench_job *job;
    int is_mpi, is_timed; /* is_timed: the probe is over */
    char name[64], message[160];
    uint64_t operations, iterations, wrong;
    int has_dropped, owed; /* the fault left a barrier out; it has not been made up for */
    bench_slowness slowness;
    uint64_t own_wrong; /* of this rank */
    bench_part *groups; /* on rank 0, if there are several; owned */
} barrier_candidate;

static barrier_candidate candidates[CANDIDATES];
static bench_row all; /* its results are the candidates' */
static bench_series series;

#define AT(member) offsetof(bench_options, member)
static const weiri_option own[] = {
    {'c', "check", "N", &weiri_option_int, AT(checks), .high = 1000, .initial = "1",
     .flags = WEIRI_OPTION_SAME | WEIRI_OPTION_EXPLAINED, .manifest = "checks",
     .help = "before and after the timing, let each of up to 16 ranks be late in N barriers "
             "(default: 1; 0: no checks, not even of timed barriers)"},
    {0, "peer", "mpi", &bench_option_peer, 0, .flags = WEIRI_OPTION_SAME, .manifest = "peers",
     .help = "also measure MPI_Barrier"},
    {0, "inject", "list|FAULT|slow:PERCENT|slow-rank:RANK:PERCENT", &bench_option_inject, 0,
     .flags = WEIRI_OPTION_SAME, .manifest = "inject_slow_percent",
     .help = "skip-signal: the last rank does not enter a checked barrier; drop-rank: rank 0 "
             "leaves a checked barrier at once; drop-rank@timed: rank 0 leaves the second timed "
             "barrier at once; slow: barriers of weir take PERCENT longer, on all ranks or on one"},
};
static const int faults[] = {BENCH_FAULT_DROP_RANK, BENCH_FAULT_SKIP_SIGNAL, BENCH_FAULT_NONE};

/* -------------------------------------------------------------------- calls */

static weir_status barrier_call(barrier_candidate *c)
{
    if (!c->is_mpi)
        return weir_comm_barrier(c->job->comm);
    if (MPI_Barrier(c->job->mpi->group) != MPI_SUCCESS)
        return bench_job_note(c->job, WEIR_ERR_SYSTEM, "MPI_Barrier failed");
    return WEIR_OK;
}

static int has_fault(const barrier_candidate *c, bench_fault fault, int is_timed, int rank)
{
    return (bench_fault)control_options.inject == fault &&
           control_options.inject_timed == is_timed && !c->is_mpi && c->job->rank == rank;
}

static weir_status barrier_operation(void *context)
{
    barrier_candidate *c = context;
    bench_job_phase(c->job, "timed loop", ++c->operations);
    if (c->is_timed && c->iterations == FAULTY_ITERATION && !c->has_dropped &&
        has_fault(c, BENCH_FAULT_DROP_RANK, 1, 0)) {
        c->owed = c->has_dropped = 1;
        return WEIR_OK;
    }
    const int is_slow = !c->is_mpi && bench_slowness_applies(&control_options, c->job->rank);
    const double began_us = is_slow ? weiri_clock_us() : 0;
    weir_status status = barrier_call(c);
    if (status == WEIR_OK && is_slow)
        bench_slow_down(&c->slowness, &control_options, c->operations, began_us);
    return status;
}

/* After a block, and before each iteration: makes up for the fault. */
static void barrier_settle(void *context)
{
    barrier_candidate *c = context;
    if (c->owed)
        (void)barrier_call(c); /* a failure aborts the communicator */
    c->owed = 0;
}

/* Before each iteration: in the faulty one the last rank of rank 0's group is late, so that the
 * fault shows. */
static void barrier_next(void *context)
{
    barrier_candidate *c = context;
    barrier_settle(c);
    if (c->is_timed && ++c->iterations == FAULTY_ITERATION &&
        has_fault(c, BENCH_FAULT_DROP_RANK, 1, c->job->rank) && c->job->group == 0 &&
        c->job->group_rank == c->job->group_nranks - 1)
        usleep(LATE_US);
}

static weir_status barrier_begin_block(void *context)
{
    barrier_candidate *c = context;
    c->operations = 0;
    c->slowness = (bench_slowness){0, 0};
    return WEIR_OK;
}

/* ------------------------------------------------------------------- checks */

/* One barrier in which a rank of each group is late, unless the group has fewer ranks. Returns 1 if
 * this rank did not wait for it. */
static int leaves_early(barrier_candidate *c, int late, weir_status *status)
{
    bench_job *job = c->job;
    const double announced_us = weiri_clock_us();
    bench_job_barrier(job);
    const double began_us = weiri_clock_us();
    while (job->group_rank == late && weiri_clock_us() < began_us + LATE_US)
        usleep(LATE_US);
    bench_job_phase(job, "a checked barrier", (uint64_t)late);
    double left_us = weiri_clock_us();
    if (!has_fault(c, BENCH_FAULT_SKIP_SIGNAL, 0, job->nranks - 1))
        *status = barrier_call(c);
    if (!has_fault(c, BENCH_FAULT_DROP_RANK, 0, 0))
        left_us = weiri_clock_us();
    const double waited_us = left_us - announced_us;
    if (job->group_rank == late || late >= job->group_nranks || *status != WEIR_OK ||
        waited_us > 0.99 * LATE_US)
        return 0;
    if (!*c->message)
        snprintf(
            c->message, sizeof c->message,
            "left a barrier %.0f us after it had announced itself, when rank %d, which was %d us "
            "late, had not entered it",
            waited_us, bench_job_rank_of(job, late), LATE_US);
    return 1;
}

/* Collective; agreed. */
static weir_status check_late_ranks(bench_job *job)
{
    int most = 0;
    weir_status status = WEIR_OK;
    for (int i = 0; i < job->ngroups; i++)
        most = job->groups[i].nranks > most ? job->groups[i].nranks : most;
    const int step = (most + LATE_RANKS - 1) / LATE_RANKS;
    for (int i = 0; i < all.ncandidates; i++)
        for (int n = 0; n < control_options.checks; n++)
            for (int late = 0; late < most && status == WEIR_OK && !candidates[i].wrong;
                 late += step)
                all.results[0][i].check.wrong +=
                    (uint64_t)leaves_early(&candidates[i], late, &status);
    return bench_job_agree(job, status, "check");
}

/* Looks for a rank that ended a timed barrier before another one of its group started it.
 * Collective; agreed. */
static weir_status check_timed(bench_job *job, int member)
{
    const double *ends_us = series.ends_us[member], *times_us = series.times_us[member];
    const size_t n = (size_t)series.count;
    const int index = series.members[member];
    const size_t all_bytes = (size_t)job->ngroups * n * sizeof(double);
    double *started_us = malloc(n * sizeof *started_us), *all_us = malloc(all_bytes);
    weir_status status = started_us && all_us ? WEIR_OK : bench_series_no_memory(job, series.count);
    status = bench_job_agree(job, status, "check of timed barriers");
    for (size_t i = 0; i < n && status == WEIR_OK; i++)
        started_us[i] = ends_us[i] - times_us[i];
    if (status == WEIR_OK) {
        bench_exchange_reduce_groups(job, BENCH_FOLD_MAX, started_us, series.count, all_us);
        bench_exchange_broadcast(job, all_us, all_bytes, 0);
        const double *last_us = all_us + (size_t)job->group * n;
        for (size_t i = 0; i < n; i++)
            if (ends_us[i] < last_us[i] && !all.results[0][index].check.wrong++)
                snprintf(candidates[index].message, sizeof candidates[index].message,
                         "left timed barrier %zu %.2f us before another rank entered it", i + 1,
                         last_us[i] - ends_us[i]);
    }
    free(started_us);
    free(all_us);
    return status;
}

/* Gives every rank the errors so far of all. Collective. */
static void share_wrong(const bench_job *job)
{
    /* One peer at most, which gcc 14 does not see. */
    for (int i = 0; i < all.ncandidates && i < CANDIDATES; i++) {
        barrier_candidate *c = &candidates[i];
        uint64_t found = all.results[0][i].check.wrong;
        c->own_wrong += found;
        control_share_wrong(job, c->name, c->message, &found);
        c->wrong += found;
        all.results[0][i].check.wrong = 0;
        *c->message = '\0';
    }
}

/* ------------------------------------------------------------------- timing */

/* Times one round of all members. Collective; agreed. */
static weir_status time_round(bench_trial *trial, const bench_barrier *barrier,
                              bench_subject *subjects)
{
    const int iterations = bench_series_next_iterations(&series);
    bench_timing timing = bench_iterations_timing(trial, iterations);
    timing.order = series.planned == 1 ? BENCH_BOTH_WAYS
                   : series.rounds % 2 ? BENCH_BACKWARD
                                       : BENCH_FORWARD;
    weir_status status = bench_series_reserve(trial->job, &series, iterations);
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < series.nmembers; i++) {
        subjects[i].wall_us = series.times_us[i] + series.count;
        subjects[i].end_us = series.wants_ends ? series.ends_us[i] + series.count : NULL;
    }
    status = bench_engine_run(&timing, barrier, subjects, series.nmembers);
    for (int i = 0; i < series.nmembers; i++) {
        series.unsteady[i] |= subjects[i].unsteady;
        if (subjects[i].warmups > series.warmups[i])
            series.warmups[i] = subjects[i].warmups;
    }
    bench_series_end_round(&series, iterations);
    return status;
}

/* Times the candidates that no check has found wrong. Collective; agreed. */
static weir_status time_all(bench_trial *trial)
{
    const bench_barrier barrier = bench_timed_barrier(trial->job);
    bench_subject subjects[CANDIDATES];
    series.wants_ends = bench_job_has_common_clock(trial->job);
    for (int i = 0; i < all.ncandidates; i++) {
        if (candidates[i].wrong)
            continue;
        subjects[series.nmembers] = (bench_subject){.context = &candidates[i],
                                                    .begin = barrier_begin_block,
                                                    .next = barrier_next,
                                                    .end = barrier_settle,
                                                    .run = barrier_operation};
        series.members[series.nmembers++] = i;
    }
    if (!series.nmembers)
        return WEIR_OK;
    weir_status status = bench_iterations_plan(trial, &barrier, subjects, series.nmembers);
    for (int i = 0; i < all.ncandidates; i++)
        candidates[i].is_timed = 1;
    for (int round = 0; round < series.planned && status == WEIR_OK; round++)
        status = time_round(trial, &barrier, subjects);
    for (int i = 0; i < series.nmembers && status == WEIR_OK; i++)
        if (control_options.checks && series.wants_ends)
            status = check_timed(trial->job, i);
    if (status != WEIR_OK)
        return status;
    share_wrong(trial->job); /* all ranks must collect the same results */
    return bench_collect(trial);
}

/* ------------------------------------------------------------------ program */

static weir_status open_candidates(bench_job *job)
{
    weir_status status = WEIR_OK;
    all = (bench_row){.nranks = job->nranks, .placements = 1};
    all.ncandidates = 1 + control_options.npeers;
    for (int i = 0; i < all.ncandidates; i++) {
        barrier_candidate *c = &candidates[i];
        *c = (barrier_candidate){.job = job, .is_mpi = i > 0, .name = "weir"};
        if (c->is_mpi)
            status = control_open_mpi(job, c->name, sizeof c->name);
        all.results[0][i] = (bench_result){.candidate = c->name, .peer = c->is_mpi, .checked = 1};
    }
    return bench_job_agree(job, status, "peer");
}

/* A fault of --inject that no check has found is an error. Collective; agreed. */
static weir_status check_planted(bench_job *job)
{
    weir_status status = WEIR_OK;
    if (control_options.inject != BENCH_FAULT_NONE && !candidates[0].wrong)
        status = bench_job_note(job, WEIR_ERR_INVALID, "--inject %s%s changed nothing: %s",
                                bench_fault_name((bench_fault)control_options.inject),
                                control_options.inject_timed ? "@timed" : "",
                                control_options.inject != BENCH_FAULT_DROP_RANK
                                    ? "give it without @timed"
                                    : "give -n 2 or more, on one node");
    return bench_job_agree(job, status, "injection");
}

/* Collective; agreed. */
static weir_status collect_groups(bench_job *job, barrier_candidate *c, const bench_result *result)
{
    weir_status status = WEIR_OK;
    if (job->ngroups == 1)
        return WEIR_OK;
    c->groups = calloc((size_t)job->ngroups, sizeof *c->groups);
    if (!c->groups)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for groups");
    status = bench_job_agree(job, status, "groups");
    if (status == WEIR_OK)
        bench_parts_put_wrong(job, c->own_wrong, c->groups);
    for (int i = 0; i < job->ngroups && status == WEIR_OK && result->groups; i++)
        c->groups[i].stats = result->groups[i].stats;
    return status;
}

static weir_status barrier_measure(control_run *run)
{
    static const bench_pattern ring = {BENCH_PATTERN_RING, 0, 0, "ring"};
    bench_job *job = run->job;
    bench_trial trial = {
        .job = job, .options = &control_options, .row = &all, .series = &series, .pattern = &ring};
    weir_status status = open_candidates(job);
    if (status == WEIR_OK)
        status = check_late_ranks(job);
    if (status != WEIR_OK)
        return status;
    share_wrong(job);
    status = time_all(&trial);
    if (status == WEIR_OK)
        status = check_late_ranks(job);
    if (status != WEIR_OK)
        return status;
    share_wrong(job);
    status = check_planted(job);
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < all.ncandidates && status == WEIR_OK; i++) {
        bench_result *result = &all.results[0][i];
        status = collect_groups(job, &candidates[i], result);
        result->check.wrong = candidates[i].wrong;
        result->figures.is_usable = result->timed && !candidates[i].wrong;
        run->rows[run->nrows++] = (control_row){.phase = "",
                                                .candidate = result->candidate,
                                                .is_peer = result->peer,
                                                .is_checked = control_options.checks > 0,
                                                .iterations = result->iterations,
                                                .wrong = candidates[i].wrong,
                                                .stats = result->stats,
                                                .first_us = NAN,
                                                .late = &result->late,
                                                .groups = candidates[i].groups};
    }
    run->remarks = &all;
    return status;
}

static void barrier_close(void)
{
    for (int i = 0; i < CANDIDATES; i++)
        free(candidates[i].groups);
    bench_row_clear(&all);
    bench_series_free(&series);
}

static const char *const shared[] = {
    "iters",     "visits", "warmup_iters", "ngpus",   "timeout", "csv", "backend",
    "transport", "split",  "help-env",     "version", "help",    NULL};
const control_program control_barrier = {
    .name = "bench_barrier",
    .collective = "barrier",
    .purpose = "Measures and checks the barrier of all ranks.",
    .notes =
        "# Timing: back to back, the slowest rank's time; each rank is late in turn in barriers\n"
        "# before and after, and on one node the order of all timed barriers is checked\n",
    .mode = "back-to-back",
    .shared = shared,
    .own = own,
    .own_count = sizeof own / sizeof own[0],
    .faults = faults,
    .can_slow = 1,
    .no_vendor =
        "NCCL has no barrier, and its collectives return before they have run; leave it out",
    .measure = barrier_measure,
    .close = barrier_close,
};
