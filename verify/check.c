/*
 * The MPI reference: see reference.h. Each collective is repeated by MPI on inputs
 * written again from the pattern, block by block: a block is filled, combined
 * or moved, compared, and forgotten. All ranks walk through the same blocks,
 * whatever they find.
 */
#include "verify/check.h"

#include "verify/hash.h"
#include "verify/number.h"

#include <stdlib.h>

/* A side of a block: large enough for MPI's large-message algorithms, small
 * enough for a cache. Of sampled checks, where a few blocks are to cost little
 * beside one call, a window. */
enum { BLOCK_BYTES = 2 << 20, WINDOW_BYTES = 256 << 10 };

void weirv_work_fill(const weirv_work *w, void *buffer, size_t first, size_t count, int rank)
{
    weirv_fill_part(w->c, buffer, first, count, rank);
}

void weirv_work_compare(const weirv_work *w, size_t index, size_t count, const void *expected)
{
    weirv_compare_bits(w->c->dtype, w->c->rank, index, count, w->out + index * w->width, expected,
                       w->result);
}

size_t weirv_work_next(const weirv_work *w, size_t first, size_t count)
{
    size_t next = first / w->block + 1, blocks = (count + w->block - 1) / w->block;
    if (w->sampled && blocks > 4 && next > 1 && next < blocks - 2) {
        size_t one = 2 + weirv_mix64(w->c->seed) % (blocks - 4);
        size_t other = 2 + weirv_mix64(w->c->seed + 1) % (blocks - 4);
        size_t low = one < other ? one : other, high = one < other ? other : one;
        next = next <= low ? low : next <= high ? high : blocks - 2;
    }
    return next < blocks ? next * w->block : count;
}

/* Sizes of blocks; memory for them. The same on every rank, memory aside. */
static int prepare(weirv_work *w)
{
    const weirv_case *c = w->c;
    int one_slot = c->collective == WEIR_COLL_ALLREDUCE || c->collective == WEIR_COLL_REDUCE ||
                   c->collective == WEIR_COLL_BROADCAST || c->collective == WEIR_COLL_SENDRECV;
    int adds = c->op == WEIR_SUM || c->op == WEIR_AVG;
    int in_double = weirv_is_reduction(c->collective) && weirv_format_of(c->dtype);
    size_t longest = c->collective == WEIR_COLL_ALLTOALLV ? w->largest : c->count;
    w->planes = in_double && adds ? 2 : 1;
    size_t input_bytes = in_double ? w->planes * sizeof(double) : w->width;
    if (weirv_is_reduction(c->collective) && input_bytes < sizeof(uint32_t))
        input_bytes = sizeof(uint32_t); /* see integer_type */
    w->slots = one_slot ? 1 : (size_t)c->nranks;
    w->block = (w->sampled ? WINDOW_BYTES : BLOCK_BYTES) / (w->slots * input_bytes);
    w->block = weirv_work_smaller(w->block ? w->block : 1, longest ? longest : 1);
    w->input = malloc(w->slots * w->block * input_bytes);
    w->reference = malloc(w->slots * w->block * w->width);
    return w->input && w->reference ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int fits(MPI_Comm mpi, const weirv_case *c)
{
    int nranks = 0, rank = -1;
    MPI_Comm_size(mpi, &nranks);
    MPI_Comm_rank(mpi, &rank);
    return nranks == c->nranks && rank == c->rank;
}

/* The worst of the ranks' errors, so that all go on or none does. */
static int agree(MPI_Comm mpi, int error)
{
    int worst = error;
    int failed = MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MAX, mpi);
    return failed != MPI_SUCCESS ? failed : worst;
}

static int run(const weirv_work *w)
{
    if (weirv_is_reduction(w->c->collective))
        return weirv_check_reduction(w);
    if (w->c->collective == WEIR_COLL_ALLTOALLV)
        return weirv_check_alltoallv(w);
    return weirv_check_movement(w);
}

static int check(MPI_Comm mpi, const weirv_case *c, const void *out, int steps, int sampled,
                 weirv_result *result)
{
    weirv_work w = {.mpi = mpi, .c = c, .out = out, .result = result, .sampled = sampled};
    w.width = weir_dtype_bytes(c->dtype);
    w.slots = (size_t)c->nranks;
    w.bound = weirv_bound_make(c->dtype, c->op, c->nranks, steps);
    int matched = 1, error = MPI_SUCCESS;
    if (!fits(mpi, c))
        return MPI_ERR_ARG;
    if (c->collective == WEIR_COLL_ALLTOALLV)
        error = weirv_work_exchange_counts(&w, &matched);
    if (error != MPI_SUCCESS || !matched)
        return matched ? error : MPI_ERR_ARG;
    error = agree(mpi, prepare(&w));
    if (error == MPI_SUCCESS)
        error = run(&w);
    free(w.reference);
    free(w.input);
    return error;
}

int weirv_check(MPI_Comm mpi, const weirv_case *c, const void *out, int steps, weirv_result *result)
{
    return check(mpi, c, out, steps, 0, result);
}

int weirv_check_sampled(MPI_Comm mpi, const weirv_case *c, const void *out, int steps,
                        weirv_result *result)
{
    return check(mpi, c, out, steps, 1, result);
}
