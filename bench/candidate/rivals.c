/* Competing calls: see rivals.h. */
#include "bench/candidate/rivals.h"

#include "bench/gpu/compute.h"
#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"
#include "bench/options/faults.h"
#include "bench/sizes/shape.h"
#include "bench/statistics/bootstrap.h"
#include "verify/verify.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Iterations that a block keeps; those alone are fewer, as their times vary less. */
enum { KEPT = 4096, ALONE_LEAST = 5, ALONE_MOST = 100 };

typedef struct rival {
    bench_job *job;
    const bench_with *with;
    weir_comm *comm;
    bench_gpu *gpu; /* with a stream of its own; NULL on the host */
    bench_note note;
    void *mirror;           /* GPU: a place on the host for one buffer */
    bench_compute *compute; /* of --beside; NULL: a call */
    weir_mem *in, *out;
    weir_call call;
    weirv_case data;
    pthread_t thread;
    int has_thread, flips; /* flips: --inject flip-bit@timed, on one rank */
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    long begun, done, limit;
    int ends, count; /* count: of times_us since the last start */
    double times_us[KEPT];
} rival;

struct bench_rivals {
    bench_job *job;
    int count;
    rival list[BENCH_WITH_MAX];
};

/* ---------------------------------------------------------------------- the thread */

/* One call, complete on return. A failure ends the process. */
static void rival_call(rival *r)
{
    weir_status status = r->compute ? bench_compute_run(r->compute) : weir_run(r->comm, &r->call);
    if (status == WEIR_OK && r->gpu && !r->compute)
        status = bench_gpu_sync(r->gpu);
    if (status != WEIR_OK)
        bench_watch_give_up(&r->job->watch, r->comm,
                            *r->note.text ? r->note.text : weir_last_error());
}

static void *rival_run(void *opaque)
{
    rival *r = opaque;
    if (r->gpu && bench_gpu_enter(r->gpu) != WEIR_OK)
        bench_watch_give_up(&r->job->watch, r->comm, r->note.text);
    pthread_mutex_lock(&r->mutex);
    while (!r->ends) {
        if (r->begun >= r->limit) {
            pthread_cond_wait(&r->changed, &r->mutex);
            continue;
        }
        const long number = ++r->begun;
        pthread_mutex_unlock(&r->mutex);
        weir_comm_note(r->comm, r->with->text, (uint64_t)number);
        const double began_us = weiri_clock_us();
        rival_call(r);
        const double took_us = weiri_clock_us() - began_us;
        pthread_mutex_lock(&r->mutex);
        if (r->count < KEPT)
            r->times_us[r->count++] = took_us;
        r->done++;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

static void rival_allow(rival *r, long limit)
{
    pthread_mutex_lock(&r->mutex);
    r->limit = limit;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

/* Forbids new iterations. Returns how many have begun. */
static long rival_pause(rival *r)
{
    pthread_mutex_lock(&r->mutex);
    const long begun = r->limit = r->begun;
    pthread_mutex_unlock(&r->mutex);
    return begun;
}

/* Waits until so many iterations are complete; a hang ends the process. */
static void rival_wait(rival *r, long done)
{
    pthread_mutex_lock(&r->mutex);
    while (r->done < done)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

/* ------------------------------------------------------------------------- opening */

static void rival_describe(rival *r, const bench_options *options, int index)
{
    enum { APART = 48 };
    const int rank = weir_comm_rank(r->comm), nranks = weir_comm_nranks(r->comm);
    const bench_shape shape =
        bench_shape_make(r->with->collective, r->with->bytes, sizeof(float), rank, nranks, NULL);
    r->data =
        (weirv_case){.collective = r->with->collective,
                     .dtype = WEIR_FLOAT,
                     .op = WEIR_SUM,
                     .rank = rank,
                     .nranks = nranks,
                     .count = shape.count,
                     .exact = 1,
                     .seed = options->seed + ((uint64_t)(index + 1) << APART) +
                             ((uint64_t)bench_split_color(&r->with->split, r->job->rank) << 32)};
    r->call = (weir_call)WEIR_CALL_INIT;
    r->call.collective = r->with->collective;
    r->call.dtype = WEIR_FLOAT;
    r->call.op = WEIR_SUM;
    r->call.count = shape.count;
    r->call.in_bytes = shape.send_elements * sizeof(float);
    r->call.out_bytes = shape.recv_elements * sizeof(float);
}

/* A failure of the GPU is for the next agreement of the ranks. */
static weir_status rival_keep_failure(const rival *r, weir_status status)
{
    return status == WEIR_OK ? status : bench_job_note(r->job, status, "%s", r->note.text);
}

/* A buffer as the host sees it. rival_push copies it to the GPU; rival_pull from there, and returns
 * it. */
static void *rival_place(const rival *r, const weir_mem *mem)
{
    return r->gpu ? r->mirror : weir_mem_pointer(mem);
}

static weir_status rival_push(const rival *r, const weir_mem *mem, size_t bytes)
{
    return r->gpu ? rival_keep_failure(
                        r, bench_gpu_push(r->gpu, weir_mem_pointer(mem), r->mirror, bytes))
                  : WEIR_OK;
}

static void *rival_pull(const rival *r, const weir_mem *mem, size_t bytes, weir_status *status)
{
    if (r->gpu && *status == WEIR_OK)
        *status =
            rival_keep_failure(r, bench_gpu_pull(r->gpu, r->mirror, weir_mem_pointer(mem), bytes));
    return rival_place(r, mem);
}

static weir_status rival_poison(const rival *r)
{
    if (r->compute)
        return WEIR_OK;
    weirv_poison(rival_place(r, r->out), r->call.out_bytes);
    return rival_push(r, r->out, r->call.out_bytes);
}

/* Buffers, and on a GPU a stream. Local. */
static weir_status rival_allocate(rival *r)
{
    weir_status status = WEIR_OK;
    const size_t more = r->call.in_bytes > r->call.out_bytes ? r->call.in_bytes : r->call.out_bytes;
    if (bench_gpu_serves(r->comm))
        status = bench_gpu_open(r->comm, &r->note, &r->gpu);
    if (status == WEIR_OK && r->with->computes != BENCH_COMPUTE_NONE)
        return rival_keep_failure(r, bench_compute_open(r->gpu, &r->note, r->with, &r->compute));
    if (status == WEIR_OK && r->gpu)
        status = bench_gpu_mirror_alloc(r->gpu, more, &r->mirror);
    if (status != WEIR_OK)
        return rival_keep_failure(r, status);
    status = weir_mem_alloc(r->comm, r->call.in_bytes, &r->in);
    if (status == WEIR_OK)
        status = weir_mem_alloc(r->comm, r->call.out_bytes, &r->out);
    if (status != WEIR_OK)
        return status;
    r->call.in = weir_mem_pointer(r->in);
    r->call.out = weir_mem_pointer(r->out);
    r->call.stream = bench_gpu_stream(r->gpu);
    weirv_fill_input(&r->data, rival_place(r, r->in));
    return rival_push(r, r->in, r->call.in_bytes);
}

/* Collective over all ranks. */
static weir_status rival_open(rival *r, const bench_options *options, int index)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    bench_job *job = r->job;
    config.timeout_ms = job->timeout_ms;
    config.backend = weir_comm_backend(job->all);
    config.device = weir_comm_device(job->all);
    weir_status status = weir_comm_split(job->all, bench_split_color(&r->with->split, job->rank),
                                         job->rank, &config, &r->comm);
    if (status != WEIR_OK)
        return status;
    if (r->with->computes == BENCH_COMPUTE_NONE)
        rival_describe(r, options, index);
    if (!r->call.count && r->with->computes == BENCH_COMPUTE_NONE)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--with %s: %zu bytes have no element among %d ranks; give a larger "
                              "size",
                              r->with->text, r->with->bytes, weir_comm_nranks(r->comm));
    status = rival_allocate(r);
    if (status != WEIR_OK)
        return status;
    r->has_thread = pthread_create(&r->thread, NULL, rival_run, r) == 0;
    bench_watch_other(&job->watch, r->comm);
    return r->has_thread
               ? WEIR_OK
               : bench_job_note(job, WEIR_ERR_SYSTEM, "no thread for --with %s", r->with->text);
}

weir_status bench_rivals_open(bench_job *job, const bench_options *options, bench_rivals **rivals)
{
    bench_rivals *made = calloc(1, sizeof *made);
    weir_status status =
        made ? WEIR_OK : bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for --with");
    status = bench_job_agree(job, status, "--with");
    *rivals = made;
    if (status != WEIR_OK)
        return status;
    made->job = job;
    for (int i = 0; i < options->nrivals && status == WEIR_OK; i++) {
        rival *r = &made->list[made->count++];
        *r = (rival){.job = job,
                     .with = &options->rivals[i],
                     .flips = job->rank == 0 && options->inject == BENCH_FAULT_FLIP_BIT &&
                              options->inject_timed};
        pthread_mutex_init(&r->mutex, NULL);
        pthread_cond_init(&r->changed, NULL);
        status = bench_job_agree(job, rival_open(r, options, i), "--with");
    }
    return status;
}

void bench_rivals_close(bench_rivals *rivals)
{
    for (int i = 0; rivals && i < rivals->count; i++) {
        rival *r = &rivals->list[i];
        pthread_mutex_lock(&r->mutex);
        r->ends = 1;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->mutex);
        if (r->has_thread)
            pthread_join(r->thread, NULL);
        bench_compute_close(r->compute);
        weir_mem_free(r->in);
        weir_mem_free(r->out);
        if (r->mirror)
            bench_gpu_mirror_free(r->gpu, r->mirror);
        bench_gpu_close(r->gpu);
        if (r->comm)
            (void)weir_comm_destroy(r->comm);
        pthread_mutex_destroy(&r->mutex);
        pthread_cond_destroy(&r->changed);
    }
    if (rivals)
        bench_watch_other(&rivals->job->watch, NULL);
    free(rivals);
}

/* ----------------------------------------------------------------- alone and together */

weir_status bench_rivals_start(bench_rivals *rivals)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < rivals->count; i++) {
        rival *r = &rivals->list[i];
        if (status == WEIR_OK)
            status = rival_poison(r);
        r->count = 0;
        rival_allow(r, LONG_MAX);
    }
    return status;
}

/* Ends together what all ranks have begun. Collective. */
static void rival_stop(rival *r)
{
    const double begun = (double)rival_pause(r);
    const long all = (long)bench_exchange_fold(r->job, BENCH_FOLD_MAX, begun);
    rival_allow(r, all);
    rival_wait(r, all);
}

/* Adds a block's times. Returns -1 without memory. */
static int rival_keep(const rival *r, bench_rival_times *times, int kind)
{
    const int count = times->count[kind] + r->count;
    double *us = realloc(times->us[kind], (size_t)(count ? count : 1) * sizeof *us);
    if (!us)
        return -1;
    times->us[kind] = us;
    memcpy(us + times->count[kind], r->times_us, (size_t)r->count * sizeof *us);
    times->count[kind] = count;
    if (times->blocks < BENCH_ROUNDS_MAX)
        times->ends[kind][times->blocks] = count;
    return 0;
}

/* Collective. */
static void rival_run_alone(rival *r)
{
    const int few = r->count < ALONE_LEAST ? ALONE_LEAST : r->count;
    const long until = r->done + (few < ALONE_MOST ? few : ALONE_MOST);
    bench_job_phase(r->job, "competing calls alone", 0);
    bench_job_barrier(r->job);
    r->count = 0;
    rival_allow(r, until);
    rival_wait(r, until);
}

/* Steps: one call of the candidate and one computation that begin together, until both have ended.
 * Collective. */
static weir_status rival_run_steps(rival *r, bench_candidate *candidate)
{
    weir_status status = WEIR_OK;
    double times_us[ALONE_LEAST];
    for (int i = 0; i < ALONE_LEAST && status == WEIR_OK; i++) {
        bench_job_barrier(r->job);
        const double began_us = weiri_clock_us();
        const long until = r->done + 1;
        rival_allow(r, until);
        status = candidate->ops->run(candidate);
        if (status == WEIR_OK && r->job->gpu)
            status = bench_gpu_sync(r->job->gpu);
        rival_wait(r, until);
        times_us[i] = weiri_clock_us() - began_us;
        status = bench_job_agree(r->job, status, "--beside");
    }
    memcpy(r->times_us, times_us, sizeof times_us);
    r->count = ALONE_LEAST;
    return status;
}

/* What is wrong on this rank. */
static uint64_t rival_check(const rival *r, weir_status *status)
{
    weirv_result found = {0};
    if (r->compute)
        return 0;
    unsigned char *out = rival_pull(r, r->out, r->call.out_bytes, status);
    if (r->flips)
        *out ^= 1;
    weirv_check_exact(&r->data, out, &found);
    if (found.has_first)
        fprintf(stderr, "%s: rank %d: wrong data in --with %s: element %zu: got %s, expected %s\n",
                r->job->program, r->job->rank, r->with->text, found.first.index, found.first.got,
                found.first.expected);
    return found.wrong +
           weirv_input_changed(&r->data, rival_pull(r, r->in, r->call.in_bytes, status));
}

weir_status bench_rivals_stop(bench_rivals *rivals, bench_candidate *candidate,
                              bench_result *result)
{
    bench_job *job = rivals->job;
    uint64_t wrong = 0;
    int failed = 0;
    weir_status status = WEIR_OK;
    for (int i = 0; i < rivals->count; i++)
        rival_stop(&rivals->list[i]);
    if (!result->rivals)
        result->rivals = calloc(BENCH_WITH_MAX, sizeof *result->rivals);
    result->nrivals = result->rivals ? rivals->count : 0;
    for (int i = 0; i < rivals->count; i++) {
        rival *r = &rivals->list[i];
        bench_rival_times *times = result->rivals ? &result->rivals[i] : NULL;
        const int before = times ? times->count[BENCH_RIVAL_TOGETHER] : 0;
        failed |= !times || rival_keep(r, times, BENCH_RIVAL_TOGETHER) != 0;
        rival_run_alone(r);
        failed |= !times || rival_keep(r, times, BENCH_RIVAL_ALONE) != 0;
        if (r->compute && status == WEIR_OK)
            status = rival_run_steps(r, candidate);
        if (r->compute)
            failed |= !times || rival_keep(r, times, BENCH_RIVAL_STEP) != 0;
        if (times) {
            times->text = r->with->text;
            /* A block too short for one iteration joins the next: no round is empty. */
            times->blocks +=
                times->blocks < BENCH_ROUNDS_MAX && times->count[BENCH_RIVAL_TOGETHER] > before;
        }
        wrong += rival_check(r, &status);
    }
    result->own_wrong += wrong;
    wrong = (uint64_t)bench_exchange_fold(job, BENCH_FOLD_SUM, (double)wrong);
    result->check.wrong += result->checked ? wrong : 0;
    if (failed)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for times");
    return bench_job_agree(job, status, "--with");
}

/* ---------------------------------------------------------------------- statistics */

/* On rank 0: the slowest rank's times replace its own. Collective. */
static void take_slowest(const bench_job *job, bench_rival_times *times, int kind)
{
    bench_exchange_reduce(job, BENCH_FOLD_MAX, times->us[kind], times->count[kind],
                          times->us[kind]);
}

static bench_sequence sequence_of(const bench_rival_times *times, int kind)
{
    return (bench_sequence){.samples = times->us[kind],
                            .count = (size_t)times->count[kind],
                            .ends = times->ends[kind],
                            .rounds = times->blocks};
}

/* On rank 0. Returns -1 without memory. */
static int summarise_rival(bench_rival_times *times)
{
    const bench_sequence alone = sequence_of(times, BENCH_RIVAL_ALONE);
    const bench_sequence together = sequence_of(times, BENCH_RIVAL_TOGETHER);
    const bench_sequence step = sequence_of(times, BENCH_RIVAL_STEP);
    const size_t longer = alone.count > together.count ? alone.count : together.count;
    const size_t most = step.count > longer ? step.count : longer;
    double *scratch = malloc((most ? most : 1) * sizeof *scratch);
    bench_interval interval;
    if (!scratch)
        return -1;
    times->stats[BENCH_RIVAL_ALONE] = bench_stats_series(&alone, 1e-3, scratch);
    times->stats[BENCH_RIVAL_TOGETHER] = bench_stats_series(&together, 1e-3, scratch);
    if (step.count)
        times->stats[BENCH_RIVAL_STEP] = bench_stats_series(&step, 1e-3, scratch);
    free(scratch);
    if (step.count) {
        times->step =
            bench_stats_ratio(&times->stats[BENCH_RIVAL_STEP], &times->stats[BENCH_RIVAL_ALONE]);
        if (bench_bootstrap_ratio(&step, &alone, &interval) == 0) {
            times->step.low = interval.low;
            times->step.high = interval.high;
        }
    }
    times->ratio =
        bench_stats_ratio(&times->stats[BENCH_RIVAL_TOGETHER], &times->stats[BENCH_RIVAL_ALONE]);
    if (bench_bootstrap_ratio(&together, &alone, &interval) == 0) {
        times->ratio.low = interval.low;
        times->ratio.high = interval.high;
    }
    return 0;
}

weir_status bench_rivals_collect(bench_job *job, bench_result *result)
{
    int failed = 0;
    for (int i = 0; i < result->nrivals; i++) {
        bench_rival_times *times = &result->rivals[i];
        take_slowest(job, times, BENCH_RIVAL_ALONE);
        take_slowest(job, times, BENCH_RIVAL_TOGETHER);
        if (times->count[BENCH_RIVAL_STEP])
            take_slowest(job, times, BENCH_RIVAL_STEP);
        if (job->rank == 0 && times->count[BENCH_RIVAL_TOGETHER] > 0)
            failed |= summarise_rival(times) != 0;
    }
    return bench_job_agree(
        job, failed ? bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for times") : WEIR_OK,
        "--with");
}
