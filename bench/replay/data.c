/* The data of a step: see measure.h. On a GPU they are written and checked in the host's mirror. */
#include "bench/replay/measure.h"

#include "bench/gpu/gpu.h"
#include "verify/verify.h"

#include <string.h>

enum { CHUNK_ELEMENTS = 1024 };

static uint64_t seed_of(const replay_work *work, size_t seed, int member)
{
    return (seed * 0x9e3779b97f4a7c15u) ^ ((uint64_t)work->step->instance << 16) ^ (uint64_t)member;
}

static weirv_case case_of(const replay_plan *plan, const replay_work *work, size_t seed)
{
    const replay_kind kind = (replay_kind)work->step->kind;
    return (weirv_case){.collective = replay_step_collective(kind),
                        .dtype = (weir_dtype)work->dtype,
                        .op = (weir_op)work->call->op,
                        .root = replay_kind_has_root(kind) ? work->call->peer : 0,
                        .rank = work->rank,
                        .nranks = replay_work_set(plan, work)->nranks,
                        .count = kind == REPLAY_BARRIER ? 1 : work->call->count,
                        .seed = seed_of(work, seed, 0),
                        .in_place = work->in_place,
                        .exact = replay_kind_has_op(kind)};
}

static size_t width_of(const replay_work *work)
{
    return weir_dtype_bytes((weir_dtype)work->dtype);
}

/* The beginning of what the call uses, and its place on the host. */
static char *base_of(const replay_work *work)
{
    return work->in < work->out ? work->in : work->out;
}

static size_t bytes_of(const replay_work *work)
{
    char *end = work->out + work->out_elements * width_of(work) + REPLAY_GUARD_BYTES;
    char *in_end = work->in + work->in_elements * width_of(work);
    return (size_t)((end > in_end ? end : in_end) - base_of(work));
}

static char *host_place(const replay_plan *plan, const replay_work *work, char *place)
{
    return plan->mirror ? plan->mirror + (place - base_of(work)) : place;
}

/* After the output; in place, after the longer of both buffers, unless the output ends before. */
static int has_guard(const replay_work *work)
{
    return work->out + work->out_elements * width_of(work) >=
           work->in + work->in_elements * width_of(work) * (size_t)work->in_place;
}

weir_status replay_data_fill(const replay_plan *plan, const replay_work *work, size_t seed)
{
    const weirv_case c = case_of(plan, work, seed);
    const size_t width = width_of(work), n = (size_t)c.nranks;
    char *in = host_place(plan, work, work->in), *out = host_place(plan, work, work->out);
    if (work->step->kind == REPLAY_BARRIER)
        return WEIR_OK;
    weirv_poison(out, work->out_elements * width + REPLAY_GUARD_BYTES);
    if (!work->splits)
        weirv_fill_input(&c, in);
    for (size_t i = 0; work->splits && i < n; i++)
        weirv_fill(in + work->splits[n + i] * width, 0, work->splits[i], c.dtype, WEIR_MAX,
                   work->rank, seed_of(work, seed, (int)i));
    return plan->mirror
               ? bench_gpu_push(plan->job->gpu, base_of(work), plan->mirror, bytes_of(work))
               : WEIR_OK;
}

/* Compares the block of each rank. */
static void check_pairs(const replay_work *work, const weirv_case *c, size_t seed, const char *out,
                        weirv_result *result)
{
    uint64_t expected[CHUNK_ELEMENTS];
    const size_t width = width_of(work), n = (size_t)c->nranks;
    for (size_t from = 0; from < n; from++) {
        const size_t count = work->splits[2 * n + from], at = work->splits[3 * n + from];
        for (size_t done = 0, part; done < count; done += part) {
            part = count - done < CHUNK_ELEMENTS ? count - done : CHUNK_ELEMENTS;
            weirv_fill(expected, done, part, c->dtype, WEIR_MAX, (int)from,
                       seed_of(work, seed, work->rank));
            weirv_compare_bits(c->dtype, work->rank, at + done, part, out + (at + done) * width,
                               expected, result);
        }
    }
}

weir_status replay_data_check(const replay_plan *plan, const replay_work *work, size_t seed,
                              char *result_at, int flips, uint64_t *wrong, char *message,
                              size_t bytes)
{
    const weirv_case c = case_of(plan, work, seed);
    char *out = host_place(plan, work, result_at);
    weirv_result result = {0};
    weir_status status = WEIR_OK;
    if (work->step->kind == REPLAY_BARRIER)
        return WEIR_OK;
    if (plan->mirror)
        status = bench_gpu_pull(plan->job->gpu, plan->mirror, base_of(work), bytes_of(work));
    if (status != WEIR_OK)
        return status;
    if (flips)
        *out ^= 1;
    if (work->splits)
        check_pairs(work, &c, seed, out, &result);
    else
        weirv_check_exact(&c, out, &result);
    if (has_guard(work) && result_at == work->out)
        weirv_compare_poison(WEIR_UINT8, work->rank, 0, REPLAY_GUARD_BYTES,
                             out + work->out_elements * width_of(work), &result);
    *wrong += result.wrong;
    if (result.wrong && !*message) {
        char what[120];
        weirv_describe(&result, what, sizeof what);
        snprintf(message, bytes, "%s (%s:%u): %s", replay_step_name(work->step->kind),
                 plan->trace->files[work->call->file], work->call->line, what);
    }
    return WEIR_OK;
}
