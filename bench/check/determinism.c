/* Repeats, comparisons, and what they say: see determinism.h. */
#include "bench/check/determinism.h"

#include "bench/check/inject.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One contender under test. */
typedef struct repeats {
    bench_trial *trial;
    bench_candidate *contender;
    unsigned char *first; /* what the first repeat left */
    size_t elements, width;
    weirv_result by_repeat, by_rank; /* elements with other bits than then, than on rank 0 */
} repeats;

/* Whether every rank's result is the same by the collective's meaning. */
static int is_common(weir_collective collective)
{
    return collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_ALLGATHER ||
           collective == WEIR_COLL_BROADCAST;
}

/* Whether weir promises the same bits: of what moves data only, and of reductions by its table. */
static int is_promised(const repeats *r, const bench_result *result)
{
    const weir_algo_info *info = bench_candidate_info(r->contender, result->algo);
    if (result->peer || result->is_users)
        return 0;
    return !weirv_is_reduction(r->trial->row->collective) || (info && info->reproducible);
}

/* In each repeat another rank comes last. */
static void come_late(const bench_job *job, int turn)
{
    const struct timespec late = {.tv_nsec = 100000};
    if (turn % job->nranks == job->rank)
        nanosleep(&late, NULL);
}

static weir_status plant(repeats *r, int turn)
{
    bench_trial *trial = r->trial;
    bench_fault fault = (bench_fault)trial->options->inject;
    int planted = (fault == BENCH_FAULT_UNSTABLE_BIT && turn == 1) ||
                  (fault == BENCH_FAULT_RANK_BIT && is_common(trial->row->collective));
    if (!planted || r->contender->peer)
        return WEIR_OK;
    return bench_trial_inject(trial, r->contender, fault, &trial->data,
                              bench_inject_place(&trial->data));
}

static weir_status run_repeat(repeats *r, int turn)
{
    bench_trial *trial = r->trial;
    bench_candidate *contender = r->contender;
    weir_status status = turn == 0 ? bench_trial_reset(trial, contender)
                                   : bench_trial_fill(trial, contender);
    if (status == WEIR_OK)
        status = contender->ops->prepare(contender, &trial->operation);
    bench_job_barrier(trial->job);
    bench_job_phase(trial->job, "repeat of a call", (uint64_t)turn);
    come_late(trial->job, turn);
    if (status == WEIR_OK)
        status = contender->ops->run(contender);
    if (status == WEIR_OK)
        status = bench_trial_wait(trial, contender);
    if (status == WEIR_OK)
        status = plant(r, turn);
    if (status == WEIR_OK)
        status = bench_trial_pull(trial, contender);
    return bench_job_agree(trial->job, status, weir_collective_name(trial->row->collective));
}

static void compare(const repeats *r, size_t at, size_t count, const void *expected,
                    const void *out, weirv_result *found)
{
    weirv_compare_bits(r->trial->row->dtype, r->trial->job->rank, at, count,
                       (const unsigned char *)out + at * r->width, expected, found);
}

/* The first repeats' results, with rank 0's. */
static int compare_ranks(repeats *r)
{
    enum { PART_BYTES = 32 << 10 };
    uint64_t part[PART_BYTES / sizeof(uint64_t)];
    const bench_job *job = r->trial->job;
    int error = MPI_SUCCESS;
    for (size_t at = 0, count; at < r->elements && error == MPI_SUCCESS; at += count) {
        count = PART_BYTES / r->width;
        count = r->elements - at < count ? r->elements - at : count;
        if (job->rank == 0)
            memcpy(part, r->first + at * r->width, count * r->width);
        error = MPI_Bcast(part, (int)(count * r->width), MPI_BYTE, 0, job->mpi);
        compare(r, at, count, part, r->first, &r->by_rank);
    }
    return error;
}

static weir_status run_repeats(repeats *r)
{
    bench_job *job = r->trial->job;
    weir_status status = run_repeat(r, 0);
    const void *out = bench_trial_result(r->trial, r->contender);
    memcpy(r->first, out, r->elements * r->width);
    for (int turn = 1; turn < BENCH_REPEATS && status == WEIR_OK; turn++) {
        status = run_repeat(r, turn);
        bench_job_phase_bytes(job, "comparison of repeats", r->trial->row->shape.bytes);
        if (status == WEIR_OK)
            compare(r, 0, r->elements, r->first, out, &r->by_repeat);
    }
    if (status != WEIR_OK)
        return status;
    bench_job_phase_bytes(job, "comparison of ranks", r->trial->row->shape.bytes);
    int error = is_common(r->trial->row->collective) ? compare_ranks(r) : MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        error = weirv_reduce_result(job->mpi, &r->by_repeat);
    if (error == MPI_SUCCESS)
        error = weirv_reduce_result(job->mpi, &r->by_rank);
    if (error != MPI_SUCCESS)
        status = bench_job_note(job, WEIR_ERR_SYSTEM, "MPI error %d", error);
    return bench_job_agree(job, status, "determinism");
}

/* ---------------------------------------------------------------- findings */

static bench_determinism_row *find_row(bench_determinism *found, const char *name)
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
static void describe(const repeats *r, char *text, size_t bytes)
{
    const bench_row *row = r->trial->row;
    const weirv_result *found = r->by_repeat.wrong ? &r->by_repeat : &r->by_rank;
    snprintf(text, bytes, "%s %s, %zu bytes, %s: rank %d, element %zu: got %s, %s %s",
             weir_dtype_name(row->dtype), bench_row_op_name(row), row->shape.bytes,
             r->trial->in_place ? "in place" : "out of place", found->first.rank,
             found->first.index, found->first.got,
             r->by_repeat.wrong ? "in the first repeat" : "on rank 0", found->first.expected);
}

static void blame(const weirv_result *found, weirv_result *check)
{
    check->wrong += found->wrong;
    if (!found->has_first || check->has_first)
        return;
    check->has_first = 1;
    check->first = found->first;
}

static void note(const repeats *r, bench_result *result)
{
    bench_trial *trial = r->trial;
    bench_determinism *found = trial->determinism;
    const char *name = *result->algo ? result->algo : result->contender;
    bench_determinism_row *row = find_row(found, name);
    char first[sizeof row->first] = "";
    int compares = is_common(trial->row->collective) && trial->job->nranks > 1;
    found->nranks = compares ? trial->job->nranks : 0;
    result->sameness = (bench_sameness){.tried = 1,
                                        .unlike_repeats = r->by_repeat.wrong > 0,
                                        .unlike_ranks = r->by_rank.wrong > 0};
    if (r->by_repeat.wrong || r->by_rank.wrong)
        describe(r, first, sizeof first);
    if (row) {
        row->results++;
        row->unlike_repeats += r->by_repeat.wrong > 0;
        row->unlike_ranks += r->by_rank.wrong > 0;
        if (!row->first[0])
            memcpy(row->first, first, sizeof first);
    }
    if (!first[0] || !is_promised(r, result))
        return;
    bench_job_say(trial->job, "not the same bits: %s %s, %s", result->contender, result->algo,
                  first);
    result->checked = 1;
    blame(&r->by_repeat, &result->check);
    blame(&r->by_rank, &result->check);
}

weir_status bench_determinism_try(bench_trial *trial, bench_candidate *contender,
                                  bench_result *result)
{
    bench_job *job = trial->job;
    repeats r = {.trial = trial, .contender = contender};
    weir_status status = WEIR_OK;
    int exact = trial->data.exact;
    r.elements = weirv_recv_elements(&trial->data);
    r.width = weir_dtype_bytes(trial->row->dtype);
    r.first = malloc(r.elements * r.width + 1);
    if (!r.first)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for a copy of %zu bytes; "
                                "give a smaller -e", r.elements * r.width);
    status = bench_job_agree(job, status, "determinism");
    trial->data.exact = 0;
    if (status == WEIR_OK)
        status = run_repeats(&r);
    trial->data.exact = exact;
    free(r.first);
    if (status == WEIR_OK)
        note(&r, result);
    return status;
}

/* ----------------------------------------------------------------- writers */

static void write_row(const bench_determinism *found, const bench_determinism_row *row, FILE *out)
{
    fprintf(out, "# %-20s : %s: ", "Determinism", row->name);
    if (row->unlike_repeats)
        fprintf(out, "other bits in repeats of %ld of %ld results", row->unlike_repeats,
                row->results);
    else
        fprintf(out, "same bits in %d repeats", BENCH_REPEATS);
    if (found->nranks && row->unlike_ranks)
        fprintf(out, "%s on the ranks in %ld of %ld results",
                row->unlike_repeats ? " and" : "; other bits", row->unlike_ranks, row->results);
    else if (found->nranks)
        fprintf(out, "%s on %d ranks", row->unlike_repeats ? "; same bits" : " and",
                found->nranks);
    fprintf(out, "%s%s\n", row->first[0] ? "; first in " : "", row->first);
}

void bench_determinism_write(const bench_determinism *found, FILE *out)
{
    for (int i = 0; i < found->nrows; i++)
        write_row(found, &found->rows[i], out);
}

void bench_determinism_put(bench_json *json, const bench_determinism *found)
{
    if (!found->nrows)
        return;
    bench_json_key(json, "determinism");
    bench_json_open_list(json);
    for (int i = 0; i < found->nrows; i++) {
        const bench_determinism_row *row = &found->rows[i];
        bench_json_open_object(json);
        bench_json_put_text(json, "algorithm", row->name);
        bench_json_put_whole(json, "repeats", BENCH_REPEATS);
        bench_json_put_whole(json, "ranks_compared", found->nranks);
        bench_json_put_whole(json, "results", row->results);
        bench_json_put_whole(json, "unlike_repeats", row->unlike_repeats);
        bench_json_put_whole(json, "unlike_ranks", row->unlike_ranks);
        bench_json_put_text(json, "first", row->first);
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
}
