/*
 * The same few elements, over and over, in messages of all sizes: see checks.h. What an element
 * becomes is remembered for each type and operation, so that messages of other sizes, in other
 * memory and by other algorithms are compared with it. The number of elements is prime: equal ones
 * lie at every place of vectors, packets, chunks and shares.
 */
#include "bench/check/checks.h"

#include "bench/job/exchange.h"
#include "bench/trial/data.h"

#include <stdlib.h>
#include <string.h>

enum { SEED = 61, PART = 4096 };

/* The results of one type and operation, for all that must agree. */
static bench_embedded *embedded_of(bench_determinism *found, const char *group,
                                   const weirv_case *data)
{
    bench_embedded *at = found->embedded;
    while (at && (at->dtype != data->dtype || at->op != data->op || strcmp(at->group, group) != 0))
        at = at->next;
    if (at)
        return at;
    at = calloc(1, sizeof *at);
    if (!at)
        return NULL;
    at->dtype = data->dtype;
    at->op = data->op;
    snprintf(at->group, sizeof at->group, "%s", group);
    at->next = found->embedded;
    return found->embedded = at;
}

/* Which of the embedded elements the first one of this rank's output is made of. */
static size_t first_place(const weirv_case *data)
{
    return data->collective == WEIR_COLL_REDUCE_SCATTER
               ? (size_t)data->rank * data->count % BENCH_EMBEDDED_ELEMENTS
               : 0;
}

/* The elements of this rank's output; 0 where it has none. */
static size_t output_elements(const weirv_case *data)
{
    return data->collective == WEIR_COLL_REDUCE && data->rank != data->root
               ? 0
               : weirv_recv_elements(data);
}

/* Adds elements of this rank's output that are not known yet. */
static void learn_own(bench_embedded_values *values, const weirv_case *data,
                      const unsigned char *out)
{
    const size_t width = weir_dtype_bytes(data->dtype), elements = output_elements(data);
    for (size_t i = 0; i < elements && i < BENCH_EMBEDDED_ELEMENTS; i++) {
        const size_t place = (first_place(data) + i) % BENCH_EMBEDDED_ELEMENTS;
        if (!values->known[place])
            memcpy(values->bits[place], out + i * width, width);
        values->known[place] = 1;
    }
}

static int knows_all(const bench_embedded_values *values)
{
    return !memchr(values->known, 0, sizeof values->known);
}

/* Takes what is not known yet from the outputs of the ranks in turn; all ranks know the same
 * afterwards. */
static void learn(const bench_job *job, bench_embedded_values *values, const weirv_case *data,
                  const unsigned char *out)
{
    for (int rank = 0; rank < job->nranks && !knows_all(values); rank++) {
        if (rank == job->rank)
            learn_own(values, data, out);
        bench_exchange_broadcast(job, values, sizeof *values, rank);
    }
}

static void compare(const bench_embedded_values *values, const weirv_case *data,
                    const unsigned char *out, weirv_result *differing)
{
    static uint64_t expected[PART];
    const size_t width = weir_dtype_bytes(data->dtype), elements = output_elements(data);
    for (size_t at = 0, count; at < elements; at += count) {
        count = elements - at < PART ? elements - at : PART;
        for (size_t i = 0; i < count; i++)
            memcpy((unsigned char *)expected + i * width,
                   values->bits[(first_place(data) + at + i) % BENCH_EMBEDDED_ELEMENTS], width);
        weirv_compare_bits(data->dtype, data->rank, at, count, out + at * width, expected,
                           differing);
    }
}

/* What all algorithms of weir that combine in rank order must agree on, and other ones, which are
 * compared with themselves. */
static const char *group_of(const bench_trial *trial, bench_candidate *candidate,
                            const bench_result *result)
{
    return bench_embedded_is_promised(trial, candidate, result) ? "rank order"
           : *result->algo                                      ? result->algo
                                                                : result->candidate;
}

int bench_embedded_is_promised(const bench_trial *trial, bench_candidate *candidate,
                               const bench_result *result)
{
    const weir_algo_info *info = bench_candidate_info(candidate, result->algo);
    const weir_comm *comm = trial->job->comm;
    return !result->peer && !result->is_users && info &&
           (!info->in_order || weir_comm_is_invariant(comm) ||
            (weir_comm_nranks(comm) == 2 && weir_comm_nnodes(comm) == 1));
}

weir_status bench_embedded_try(bench_trial *trial, bench_candidate *candidate,
                               const bench_result *result, weirv_result *differing)
{
    bench_job *job = trial->job;
    const weirv_case before = trial->data;
    trial->data.period = BENCH_EMBEDDED_ELEMENTS;
    trial->data.seed = SEED;
    bench_job_phase_bytes(job, "the same elements at every size", trial->row->shape.bytes);
    weir_status status =
        bench_determinism_call(trial, candidate, bench_trial_fill(trial, candidate), -1,
                               trial->options->inject == BENCH_FAULT_SIZE_BIT);
    bench_embedded *known =
        embedded_of(trial->determinism, group_of(trial, candidate, result), &trial->data);
    if (status == WEIR_OK && !known)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for the results of elements");
    status = bench_job_agree(job, status, "determinism");
    if (status == WEIR_OK) {
        const unsigned char *out = bench_trial_result(trial, candidate);
        learn(job, &known->values, &trial->data, out);
        compare(&known->values, &trial->data, out, differing);
        status = weirv_reduce_result(job->boot, differing);
    }
    trial->data = before;
    return bench_job_agree(job, status, "determinism");
}
