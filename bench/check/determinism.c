/* Repeats of a call, and the comparison of their outputs: see checks.h. */
#include "bench/check/checks.h"

#include "bench/job/exchange.h"
#include "bench/trial/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One candidate under test. */
typedef struct repeats {
    bench_trial *trial;
    bench_candidate *candidate;
    unsigned char *first; /* the output of the first repeat */
    size_t elements, width;
    /* elements that differ from the first repeat, from rank 0, from messages of other sizes */
    weirv_result by_repeat, by_rank, by_size;
} repeats;

/* 1 if the collective gives every rank the same result. */
static int has_common_result(weir_collective collective)
{
    return collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_ALLGATHER ||
           collective == WEIR_COLL_BROADCAST;
}

/* 1 if weir promises equal bits: for collectives that only move data, and for reductions by
 * algorithms that its table calls reproducible. */
static int is_promised(const repeats *r, const bench_result *result)
{
    const weir_algo_info *info = bench_candidate_info(r->candidate, result->algo);
    if (result->peer || result->is_users)
        return 0;
    return !weirv_is_reduction(r->trial->row->collective) || (info && info->reproducible);
}

static weir_status run_repeat(const repeats *r, int repeat)
{
    bench_trial *trial = r->trial;
    const bench_fault fault = (bench_fault)trial->options->inject;
    const int is_planted =
        (fault == BENCH_FAULT_UNSTABLE_BIT && repeat == 1) ||
        (fault == BENCH_FAULT_RANK_BIT && has_common_result(trial->row->collective));
    const weir_status status = repeat == 0 ? bench_trial_reset(trial, r->candidate)
                                           : bench_trial_fill(trial, r->candidate);
    bench_job_phase(trial->job, "repeat of a call", (uint64_t)repeat);
    return bench_determinism_call(trial, r->candidate, status, repeat % trial->job->nranks,
                                  is_planted);
}

static void compare_bits(const repeats *r, size_t at, size_t count, const void *expected,
                         const void *out, weirv_result *found)
{
    weirv_compare_bits(r->trial->row->dtype, r->trial->job->rank, at, count,
                       (const unsigned char *)out + at * r->width, expected, found);
}

/* Compares the first repeat's output with rank 0's. */
static void compare_ranks(repeats *r)
{
    enum { PART_BYTES = 32 << 10 };
    static uint64_t part[PART_BYTES / sizeof(uint64_t)];
    const bench_job *job = r->trial->job;
    for (size_t at = 0, count; at < r->elements; at += count) {
        count = PART_BYTES / r->width;
        count = r->elements - at < count ? r->elements - at : count;
        if (job->rank == 0)
            memcpy(part, r->first + at * r->width, count * r->width);
        bench_exchange_broadcast(job, part, count * r->width, 0);
        compare_bits(r, at, count, part, r->first, &r->by_rank);
    }
}

static weir_status run_repeats(repeats *r)
{
    bench_job *job = r->trial->job;
    weir_status status = run_repeat(r, 0);
    const void *out = bench_trial_result(r->trial, r->candidate);
    if (status == WEIR_OK)
        memcpy(r->first, out, r->elements * r->width);
    /* NOLINTNEXTLINE(*-unix.Malloc): the caller frees the copy */
    for (int repeat = 1; repeat < BENCH_REPEATS && status == WEIR_OK; repeat++) {
        status = run_repeat(r, repeat);
        bench_job_phase_bytes(job, "comparison of repeats", r->trial->row->shape.bytes);
        if (status == WEIR_OK)
            compare_bits(r, 0, r->elements, r->first, out, &r->by_repeat);
    }
    if (status != WEIR_OK)
        return status;
    bench_job_phase_bytes(job, "comparison of ranks", r->trial->row->shape.bytes);
    if (has_common_result(r->trial->row->collective))
        compare_ranks(r);
    status = weirv_reduce_result(job->boot, &r->by_repeat);
    if (status == WEIR_OK)
        status = weirv_reduce_result(job->boot, &r->by_rank);
    return bench_job_agree(job, status, "determinism");
}

/* ---------------------------------------------------------------- findings */

static bench_determinism_row *find_findings(bench_determinism *found, const char *name)
{
    int i = 0;
    while (i < found->nrows && strcmp(found->rows[i].name, name) != 0)
        i++;
    if (i == BENCH_DETERMINISM_ROWS)
        return NULL;
    if (i == found->nrows) {
        found->rows[i] = (bench_determinism_row){.results = 0};
        snprintf(found->rows[i].name, sizeof found->rows[i].name, "%s", name);
        found->nrows++;
    }
    return &found->rows[i];
}

/* "float sum, 64 bytes, in place: rank 2, element 5: got 1, in the first repeat 2". */
static void describe_difference(const repeats *r, char *text, size_t bytes)
{
    const bench_row *row = r->trial->row;
    const weirv_result *found = r->by_repeat.wrong ? &r->by_repeat
                                : r->by_rank.wrong ? &r->by_rank
                                                   : &r->by_size;
    snprintf(text, bytes, "%s %s, %zu bytes, %s: rank %d, element %zu: got %s, %s %s",
             weir_dtype_name(row->dtype), bench_row_op_name(row), row->shape.bytes,
             r->trial->in_place ? "in place" : "out of place", found->first.rank,
             found->first.index, found->first.got,
             r->by_repeat.wrong ? "in the first repeat"
             : r->by_rank.wrong ? "on rank 0"
                                : "at another size or place",
             found->first.expected);
}

static void add_to_check(const weirv_result *found, weirv_result *check)
{
    check->wrong += found->wrong;
    if (!found->has_first || check->has_first)
        return;
    check->has_first = 1;
    check->first = found->first;
}

static void record_findings(repeats *r, bench_result *result)
{
    bench_trial *trial = r->trial;
    bench_determinism *found = trial->determinism;
    const char *name = *result->algo ? result->algo : result->candidate;
    bench_determinism_row *row = find_findings(found, name);
    char first[sizeof row->first] = "";
    int compares = has_common_result(trial->row->collective) && trial->job->nranks > 1 &&
                   trial->job->ngroups == 1; /* groups have other data */
    found->nranks = compares ? trial->job->nranks : 0;
    found->embeds = weirv_is_reduction(trial->row->collective);
    result->determinism = (bench_determinism_outcome){.tried = 1,
                                                      .differing_repeats = r->by_repeat.wrong > 0,
                                                      .differing_ranks = r->by_rank.wrong > 0,
                                                      .differing_sizes = r->by_size.wrong > 0};
    if (r->by_repeat.wrong || r->by_rank.wrong || r->by_size.wrong)
        describe_difference(r, first, sizeof first);
    if (row) {
        row->results++;
        row->differing_repeats += r->by_repeat.wrong > 0;
        row->differing_ranks += r->by_rank.wrong > 0;
        row->differing_sizes += r->by_size.wrong > 0;
        if (!row->first[0])
            memcpy(row->first, first, sizeof first);
    }
    if (!bench_embedded_is_promised(trial, r->candidate, result))
        r->by_size.wrong = 0;
    if (!(r->by_repeat.wrong || r->by_rank.wrong || r->by_size.wrong) || !is_promised(r, result))
        return;
    bench_job_say(trial->job, "not the same bits: %s %s, %s", result->candidate, result->algo,
                  first);
    result->checked = 1;
    add_to_check(&r->by_repeat, &result->check);
    add_to_check(&r->by_rank, &result->check);
    add_to_check(&r->by_size, &result->check);
}

weir_status bench_determinism_try(bench_trial *trial, bench_candidate *candidate,
                                  bench_result *result)
{
    bench_job *job = trial->job;
    repeats r = {.trial = trial, .candidate = candidate};
    weir_status status = WEIR_OK;
    int exact = trial->data.exact;
    r.elements = weirv_recv_elements(&trial->data);
    r.width = weir_dtype_bytes(trial->row->dtype);
    r.first = malloc(r.elements * r.width + 1);
    if (!r.first)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY,
                                "no memory for a copy of %zu bytes; "
                                "give a smaller -e",
                                r.elements * r.width);
    status = bench_job_agree(job, status, "determinism");
    trial->data.exact = 0;
    if (status == WEIR_OK)
        status = run_repeats(&r);
    if (status == WEIR_OK && weirv_is_reduction(trial->row->collective))
        status = bench_embedded_try(trial, candidate, result, &r.by_size);
    trial->data.exact = exact;
    free(r.first);
    if (status == WEIR_OK)
        record_findings(&r, result);
    return status;
}
