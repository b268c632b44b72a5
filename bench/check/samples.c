/* Checks of timed iterations: see samples.h. */
#include "bench/check/samples.h"

#include "base/contract.h"
#include "bench/candidate/quantized.h"
#include "bench/check/fused.h"
#include "bench/check/quantized.h"
#include "bench/job/exchange.h"
#include "verify/hash.h"

#include <string.h>

enum { WINDOW = 16 };

void bench_samples_open(bench_samples *samples, bench_trial *trial, bench_candidate *candidate,
                        unsigned char *records)
{
    int knows = (trial->row->oracles & BENCH_ORACLE_EXACT) != 0;
    int repeats = trial->options->batched || trial->options->aggregate > 1;
    int repeats_in_place = trial->in_place && repeats;
    *samples = (bench_samples){.trial = trial, .candidate = candidate, .records = records};
    samples->active =
        records && knows && !repeats_in_place && !(trial->options->cold && trial->row->shape.bytes);
}

/* In place, a peer's result may lie elsewhere, on some ranks only: these do everything but record
 * it, so that the other ranks can be checked, and the timed loops of all candidates are equal. */
static int lies_in_out(const bench_samples *samples)
{
    const void *result = samples->candidate->ops->result(samples->candidate);
    return result == samples->trial->operation.call.out;
}

/* An entry of the record starts with the step of its iteration. */
enum { STEP_BYTES = 8 };

static weirv_case case_of(const bench_samples *samples, uint64_t iteration, int step)
{
    weirv_case c = samples->trial->data;
    c.seed ^= iteration << 32;
    if (c.collective == WEIR_COLL_ALLTOALLV)
        bench_splits_point(samples->trial->splits, step, &c, NULL);
    return c;
}

static size_t entry_bytes(const bench_samples *samples)
{
    const weirv_case *c = &samples->trial->data;
    return STEP_BYTES + (size_t)c->nranks * WINDOW * weir_dtype_bytes(c->dtype);
}

/* The window in block s of the input or output: returns its length, 0 for none, and its first
 * element. */
static size_t find_window(const weirv_case *c, int is_input, int s, size_t *at)
{
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    int many = is_input ? contract->in_has_blocks : contract->out_has_blocks;
    size_t first = (size_t)s * c->count, count = c->count;
    if (c->collective == WEIR_COLL_ALLTOALLV) {
        first = is_input ? c->send_displs[s] : c->recv_displs[s];
        count = is_input ? c->send_counts[s] : c->recv_counts[s];
    }
    if (count == 0 || (s > 0 && !many) ||
        (!is_input && !weiri_contract_writes(contract, c->rank, c->root)))
        return 0;
    size_t length = count < WINDOW ? count : WINDOW;
    *at = first + weirv_mix64(c->seed) % (count - length + 1);
    return length;
}

/* Writes c's data into the input windows of `window`. */
static void fill_windows(const bench_samples *samples, const weirv_case *window,
                         const weirv_case *c)
{
    const bench_trial *trial = samples->trial;
    size_t width = weir_dtype_bytes(c->dtype), at;
    for (int s = 0; s < c->nranks; s++) {
        size_t count = find_window(window, 1, s, &at);
        if (count == 0)
            continue;
        char *place = (char *)trial->layout.in + at * width;
        weirv_fill_part(c, place, at, count, c->rank);
        bench_buffers_push(trial->buffers, trial->operands, place, count * width);
    }
}

static void record_windows(bench_samples *samples)
{
    const bench_trial *trial = samples->trial;
    weirv_case c = case_of(samples, samples->iterations, samples->step);
    size_t width = weir_dtype_bytes(c.dtype), at;
    unsigned char *entry = samples->records + samples->entries++ * entry_bytes(samples);
    memcpy(entry, &samples->step, sizeof samples->step);
    entry += STEP_BYTES;
    for (int s = 0; s < c.nranks; s++) {
        size_t count = find_window(&c, 0, s, &at);
        if (count == 0)
            continue;
        char *place = (char *)trial->layout.out + at * width;
        bench_buffers_pull(trial->buffers, trial->operands, place, count * width);
        memcpy(entry + (size_t)s * WINDOW * width, place, count * width);
    }
}

/* Computes what a window should hold with c's data. */
static void expected_window(const weirv_case *c, size_t at, size_t count, unsigned char *expected)
{
    size_t width = weir_dtype_bytes(c->dtype);
    for (size_t done = 0; done < count;)
        done += weirv_expected(c, at + done, count - done, expected + done * width);
}

/* 1 if each element is from the block's data or, where windows overlap, from the previous
 * iteration. */
static int is_stale(const bench_samples *samples, uint64_t iteration, int step, size_t at,
                    size_t count, const unsigned char *got)
{
    weirv_case before = case_of(samples, iteration - 1, step);
    size_t width = weir_dtype_bytes(before.dtype);
    uint64_t base[WINDOW], last[WINDOW];
    int same = 1;
    expected_window(&samples->trial->data, at, count, (unsigned char *)base);
    expected_window(&before, at, count, (unsigned char *)last);
    for (size_t i = 0; i < count * width && same; i += width)
        same = memcmp(got + i, (char *)base + i, width) == 0 ||
               memcmp(got + i, (char *)last + i, width) == 0;
    return same;
}

static void compare_entry(bench_samples *samples, uint64_t iteration, const unsigned char *entry)
{
    int step = 0;
    memcpy(&step, entry, sizeof step);
    weirv_case c = case_of(samples, iteration, step);
    size_t width = weir_dtype_bytes(c.dtype), at;
    uint64_t expected[WINDOW];
    int steps = c.collective == WEIR_COLL_ALLTOALLV ? samples->trial->splits->dist->nsteps : 1;
    entry += STEP_BYTES;
    for (int s = 0; s < c.nranks; s++) {
        const unsigned char *got = entry + (size_t)s * WINDOW * width;
        size_t count = find_window(&c, 0, s, &at);
        int had_first = samples->found.has_first;
        if (count == 0)
            continue;
        if (bench_candidate_is_quantized(samples->candidate)) {
            const bench_quantized_window window = {&c, at, count};
            bench_quantized_check_window(samples->trial, samples->candidate, &window, got,
                                         &samples->found);
            samples->first_iteration = had_first ? samples->first_iteration : iteration;
            continue;
        }
        expected_window(&c, at, count, (unsigned char *)expected);
        weirv_compare_bits(c.dtype, c.rank, at, count, got, expected, &samples->found);
        if (had_first || !samples->found.has_first)
            continue;
        samples->first_iteration = iteration;
        /* With several steps the previous iteration had other blocks. */
        samples->first_is_stale = steps == 1 && is_stale(samples, iteration, step, at, count, got);
    }
}

static void compare_records(bench_samples *samples)
{
    uint64_t first = samples->iterations + 1 - samples->entries;
    for (size_t i = 0; i < samples->entries; i++)
        compare_entry(samples, first + i, samples->records + i * entry_bytes(samples));
    samples->entries = 0;
}

/* --fuse: ends an iteration, and checks it at once. */
static void close_fused(bench_samples *samples)
{
    const int had_first = samples->found.has_first;
    if (!samples->open)
        return;
    samples->status =
        bench_fused_close_iteration(samples->trial, samples->candidate, samples->iterations,
                                    samples->operations, &samples->found);
    if (!had_first && samples->found.has_first)
        samples->first_iteration = samples->iterations;
    samples->open = 0;
}

static void next_fused(bench_samples *samples, int operations)
{
    close_fused(samples);
    samples->operations = operations;
    samples->iterations++;
    if (samples->status == WEIR_OK)
        samples->status = bench_fused_open_iteration(samples->candidate);
    samples->open = samples->status == WEIR_OK;
}

/* Ends an iteration: records its output windows, and restores the input. */
static void close_window(bench_samples *samples)
{
    weirv_case c = case_of(samples, samples->iterations, samples->step);
    if (!samples->open)
        return;
    if (lies_in_out(samples))
        record_windows(samples);
    if ((samples->entries + 1) * entry_bytes(samples) > BENCH_SAMPLES_BYTES)
        compare_records(samples);
    if (!samples->trial->in_place)
        fill_windows(samples, &c, &samples->trial->data);
    samples->open = 0;
}

void bench_samples_next(bench_samples *samples, int step, int operations)
{
    if (!samples->active || (!samples->trial->in_place && !lies_in_out(samples)) ||
        entry_bytes(samples) > BENCH_SAMPLES_BYTES)
        return;
    if (samples->trial->options->fuse) {
        next_fused(samples, operations);
        return;
    }
    close_window(samples);
    samples->iterations++;
    samples->step = step;
    weirv_case c = case_of(samples, samples->iterations, step);
    fill_windows(samples, &c, &c);
    samples->open = 1;
}

void bench_samples_end(bench_samples *samples)
{
    const weirv_case *base = &samples->trial->data;
    weirv_case c = case_of(samples, samples->iterations, samples->step);
    size_t width = weir_dtype_bytes(c.dtype), at;
    if (samples->trial->options->fuse)
        close_fused(samples);
    if (!samples->open)
        return;
    close_window(samples);
    compare_records(samples);
    for (int s = 0; s < c.nranks && !samples->trial->in_place; s++) {
        size_t count = find_window(&c, 0, s, &at);
        unsigned char *place = (unsigned char *)samples->trial->layout.out + at * width;
        if (count == 0)
            continue;
        expected_window(base, at, count, place);
        bench_buffers_push(samples->trial->buffers, samples->trial->operands, place, count * width);
    }
}

int bench_samples_is_second(const bench_samples *samples)
{
    return samples->open && samples->iterations == 2;
}

weirv_case bench_samples_case(const bench_samples *samples, size_t *at)
{
    weirv_case c = case_of(samples, samples->iterations, samples->step);
    for (int s = 0; s < c.nranks; s++)
        if (find_window(&c, 0, s, at))
            break;
    return c;
}

weir_status bench_samples_collect(bench_samples *samples, bench_result *result)
{
    const bench_trial *trial = samples->trial;
    weirv_result *check = &result->check;
    char which[256];
    bench_job *job = trial->job;
    weirv_result found = samples->found;
    found.first.rank = job->rank; /* not that of the group */
    result->own_wrong += found.wrong;
    uint64_t first[2] = {samples->first_iteration, (uint64_t)samples->first_is_stale};
    if (!samples->active)
        return WEIR_OK;
    weir_status status = bench_job_agree(
        job, samples->status != WEIR_OK ? samples->status : weirv_reduce_result(job->boot, &found),
        "checks of timed iterations");
    if (status != WEIR_OK || !found.has_first)
        return status;
    bench_exchange_broadcast(job, first, sizeof first, found.first.rank);
    bench_row_describe(trial->row, trial->in_place, result, which, sizeof which);
    bench_job_say(job,
                  "wrong data: timed iteration %llu of %s: rank %d, element %zu: got %s, "
                  "expected %s%s",
                  (unsigned long long)first[0], which, found.first.rank, found.first.index,
                  found.first.got, found.first.expected,
                  first[1] ? ": equals the previous iteration" : "");
    check->wrong += found.wrong;
    if (!check->has_first)
        check->first = found.first;
    check->has_first = 1;
    return WEIR_OK;
}
