/*
 * The MPI reference: see verify.h. Each collective is repeated by MPI on inputs
 * written again from the pattern, block by block: a block is filled, combined
 * or moved, compared, and forgotten. All ranks walk through the same blocks,
 * whatever they find.
 */
#include "verify/verify.h"

#include "verify/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A side of a block: large enough for MPI's large-message algorithms, small
 * enough for a cache. */
enum { BLOCK_BYTES = 2 << 20 };

/* One check. A block has up to block elements for each of the slots (the ranks
 * that the collective tells apart, else 1). Floating reductions carry a second
 * plane, the magnitudes, behind the values of every slot. */
typedef struct work {
    MPI_Comm mpi;
    const weirv_case *c;
    const unsigned char *out;
    weirv_result *result;
    weirv_bound bound;
    size_t width;  /* bytes of an element */
    size_t slots;  /* parts of a block */
    size_t planes; /* numbers an element has in a floating reduction */
    size_t block;  /* elements of a slot */
    size_t largest; /* alltoallv: the largest count of any pair of ranks */
    unsigned char *near, *far; /* this rank's side of a block, and MPI's answer */
} work;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void fill(const work *w, void *buffer, size_t first, size_t count, int rank)
{
    weirv_fill(buffer, first, count, w->c->dtype, weirv_pattern_op(w->c), rank, w->c->seed);
}

static void compare_bits(const work *w, size_t index, size_t count, const void *expected)
{
    weirv_compare_bits(w->c->dtype, w->c->rank, index, count, w->out + index * w->width, expected,
                       w->result);
}

/* ------------------------------------------------------------- reductions */

/* Sums and products wrap, which MPI promises for unsigned types alone; their
 * bits are the signed ones' too. 8-bit ones are made in 32 bits and cut: Open
 * MPI's vector code saturates them. */
static MPI_Datatype integer_type(weir_dtype dtype, weir_op op)
{
    int ordered = op == WEIR_MAX || op == WEIR_MIN;
    switch (dtype) {
    case WEIR_INT8:
        return ordered ? MPI_INT8_T : MPI_UINT32_T;
    case WEIR_UINT8:
        return ordered ? MPI_UINT8_T : MPI_UINT32_T;
    case WEIR_INT32:
        return ordered ? MPI_INT32_T : MPI_UINT32_T;
    case WEIR_UINT32:
        return MPI_UINT32_T;
    case WEIR_INT64:
        return ordered ? MPI_INT64_T : MPI_UINT64_T;
    default:
        return MPI_UINT64_T;
    }
}

static int is_widened(const weirv_case *c)
{
    return weir_dtype_bytes(c->dtype) == 1 && c->op != WEIR_MAX && c->op != WEIR_MIN;
}

static MPI_Op mpi_op(weir_op op)
{
    switch (op) {
    case WEIR_PROD:
        return MPI_PROD;
    case WEIR_MAX:
        return MPI_MAX;
    case WEIR_MIN:
        return MPI_MIN;
    default:
        return MPI_SUM;
    }
}

/* Combines near over the ranks, in place; count is a slot's. */
static int combine(const work *w, size_t count, MPI_Datatype type)
{
    const weirv_case *c = w->c;
    MPI_Op op = mpi_op(c->op);
    if (c->collective == WEIR_COLL_REDUCE_SCATTER)
        return MPI_Reduce_scatter_block(MPI_IN_PLACE, w->near, (int)count, type, op, w->mpi);
    if (c->collective == WEIR_COLL_REDUCE && c->rank != c->root)
        return MPI_Reduce(w->near, NULL, (int)count, type, op, c->root, w->mpi);
    if (c->collective == WEIR_COLL_REDUCE)
        return MPI_Reduce(MPI_IN_PLACE, w->near, (int)count, type, op, c->root, w->mpi);
    return MPI_Allreduce(MPI_IN_PLACE, w->near, (int)count, type, op, w->mpi);
}

static void divide_integers(weir_dtype dtype, int nranks, size_t count, void *elements)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == WEIR_INT8)
            ((int8_t *)elements)[i] = (int8_t)(((int8_t *)elements)[i] / nranks);
        else if (dtype == WEIR_UINT8)
            ((uint8_t *)elements)[i] = (uint8_t)(((uint8_t *)elements)[i] / nranks);
        else if (dtype == WEIR_INT32)
            ((int32_t *)elements)[i] /= nranks;
        else if (dtype == WEIR_UINT32)
            ((uint32_t *)elements)[i] /= (uint32_t)nranks;
        else if (dtype == WEIR_INT64)
            ((int64_t *)elements)[i] /= nranks;
        else
            ((uint64_t *)elements)[i] /= (uint64_t)nranks;
    }
}

static int has_reduced(const weirv_case *c)
{
    return c->collective != WEIR_COLL_REDUCE || c->rank == c->root;
}

/* This rank's slots as combine() takes them. */
static void fill_integers(const work *w, size_t first, size_t count)
{
    uint32_t *wide = (uint32_t *)w->near;
    for (size_t slot = 0; slot < w->slots; slot++) {
        size_t at = slot * count, index = slot * w->c->count + first;
        void *part = is_widened(w->c) ? w->far : w->near + at * w->width;
        fill(w, part, index, count, w->c->rank);
        for (size_t i = 0; is_widened(w->c) && i < count; i++)
            wide[at + i] = w->far[i];
    }
}

static int reduce_integers(const work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    fill_integers(w, first, count);
    int error = combine(w, count, integer_type(c->dtype, c->op));
    if (error != MPI_SUCCESS || !has_reduced(c))
        return error;
    unsigned char *answer = is_widened(c) ? w->far : w->near;
    for (size_t i = 0; is_widened(c) && i < count; i++)
        answer[i] = (unsigned char)((uint32_t *)w->near)[i];
    if (c->op == WEIR_AVG)
        divide_integers(c->dtype, c->nranks, count, answer);
    compare_bits(w, first, count, answer);
    return MPI_SUCCESS;
}

static void scale(double *values, size_t count, double divisor)
{
    for (size_t i = 0; i < count; i++)
        values[i] /= divisor;
}

static int reduce_floats(const work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    double *values = (double *)w->near;
    for (size_t slot = 0; slot < w->slots; slot++) {
        double *part = values + slot * w->planes * count;
        fill(w, w->far, slot * c->count + first, count, c->rank);
        weirv_decode(c->dtype, w->far, count, part);
        for (size_t i = 0; w->planes == 2 && i < count; i++)
            part[count + i] = fabs(part[i]);
    }
    int error = combine(w, w->planes * count, MPI_DOUBLE);
    if (error != MPI_SUCCESS || !has_reduced(c))
        return error;
    if (c->op == WEIR_AVG)
        scale(values, w->planes * count, c->nranks);
    weirv_compare_values(c->dtype, c->rank, first, count, w->out + first * w->width, values,
                         w->planes == 2 ? values + count : NULL, w->bound, w->result);
    return MPI_SUCCESS;
}

/* reduce off the root: out is untouched. */
static void check_untouched(const work *w)
{
    const weirv_case *c = w->c;
    if (!c->in_place) {
        weirv_compare_poison(c->dtype, c->rank, 0, c->count, w->out, w->result);
        return;
    }
    for (size_t first = 0; first < c->count; first += w->block) {
        size_t count = smaller(w->block, c->count - first);
        fill(w, w->far, first, count, c->rank);
        compare_bits(w, first, count, w->far);
    }
}

static int check_reduction(const work *w)
{
    for (size_t first = 0; first < w->c->count; first += w->block) {
        size_t count = smaller(w->block, w->c->count - first);
        int error = weirv_format_of(w->c->dtype) ? reduce_floats(w, first, count)
                                                 : reduce_integers(w, first, count);
        if (error != MPI_SUCCESS)
            return error;
    }
    if (!has_reduced(w->c))
        check_untouched(w);
    return MPI_SUCCESS;
}

/* ---------------------------------------------------------- data movement */

static int move_broadcast(const work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    if (c->rank == c->root)
        fill(w, w->far, first, count, c->root);
    int error = MPI_Bcast(w->far, (int)(count * w->width), MPI_BYTE, c->root, w->mpi);
    if (error == MPI_SUCCESS)
        compare_bits(w, first, count, w->far);
    return error;
}

static int move_sendrecv(const work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    int to = (c->rank + 1) % c->nranks, from = (c->rank + c->nranks - 1) % c->nranks;
    int bytes = (int)(count * w->width);
    fill(w, w->near, first, count, c->rank);
    int error = MPI_Sendrecv(w->near, bytes, MPI_BYTE, to, 0, w->far, bytes, MPI_BYTE, from, 0,
                             w->mpi, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS)
        compare_bits(w, first, count, w->far);
    return error;
}

/* What came from each rank, side by side in far, against its place in out. */
static void compare_slots(const work *w, size_t first, size_t count)
{
    for (size_t slot = 0; slot < w->slots; slot++)
        compare_bits(w, slot * w->c->count + first, count, w->far + slot * count * w->width);
}

static int move_allgather(const work *w, size_t first, size_t count)
{
    int bytes = (int)(count * w->width);
    fill(w, w->near, first, count, w->c->rank);
    int error = MPI_Allgather(w->near, bytes, MPI_BYTE, w->far, bytes, MPI_BYTE, w->mpi);
    if (error == MPI_SUCCESS)
        compare_slots(w, first, count);
    return error;
}

static int move_alltoall(const work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    int bytes = (int)(count * w->width);
    for (size_t slot = 0; slot < w->slots; slot++)
        fill(w, w->near + slot * count * w->width, slot * c->count + first, count, c->rank);
    int error = MPI_Alltoall(w->near, bytes, MPI_BYTE, w->far, bytes, MPI_BYTE, w->mpi);
    if (error == MPI_SUCCESS)
        compare_slots(w, first, count);
    return error;
}

static int move(const work *w, size_t first, size_t count)
{
    switch (w->c->collective) {
    case WEIR_COLL_BROADCAST:
        return move_broadcast(w, first, count);
    case WEIR_COLL_SENDRECV:
        return move_sendrecv(w, first, count);
    case WEIR_COLL_ALLGATHER:
        return move_allgather(w, first, count);
    default:
        return move_alltoall(w, first, count);
    }
}

static int check_movement(const work *w)
{
    int error = MPI_SUCCESS;
    for (size_t first = 0; error == MPI_SUCCESS && first < w->c->count; first += w->block)
        error = move(w, first, smaller(w->block, w->c->count - first));
    return error;
}

/* -------------------------------------------------------------- alltoallv */

/* Elements of a pair's count that lie in the block starting at first. */
static size_t part_of(size_t count, size_t first, size_t block)
{
    return count > first ? smaller(block, count - first) : 0;
}

/* One block of every pair: rank r's part lies at slot r of near and far. */
static int move_pairs(const work *w, size_t first, int *bytes)
{
    const weirv_case *c = w->c;
    int *send_bytes = bytes, *recv_bytes = bytes + w->slots, *at = bytes + 2 * w->slots;
    for (size_t r = 0; r < w->slots; r++) {
        size_t sent = part_of(c->send_counts[r], first, w->block);
        at[r] = (int)(r * w->block * w->width);
        send_bytes[r] = (int)(sent * w->width);
        recv_bytes[r] = (int)(part_of(c->recv_counts[r], first, w->block) * w->width);
        fill(w, w->near + at[r], c->send_displs[r] + first, sent, c->rank);
    }
    int error = MPI_Alltoallv(w->near, send_bytes, at, MPI_BYTE, w->far, recv_bytes, at, MPI_BYTE,
                              w->mpi);
    for (size_t r = 0; error == MPI_SUCCESS && r < w->slots; r++)
        if (recv_bytes[r])
            compare_bits(w, c->recv_displs[r] + first, (size_t)recv_bytes[r] / w->width,
                         w->far + at[r]);
    return error;
}

/* Elements of out that lie in no block of recv_counts. */
static void check_gaps(const work *w)
{
    const weirv_case *c = w->c;
    size_t end = weirv_recv_elements(c), at = 0;
    while (at < end) {
        size_t next = end, after = at;
        for (int r = 0; r < c->nranks; r++) {
            size_t from = c->recv_displs[r], to = from + c->recv_counts[r];
            if (from <= at && to > after)
                after = to;
            if (from > at && c->recv_counts[r] && from < next)
                next = from;
        }
        if (after == at) {
            weirv_compare_poison(c->dtype, c->rank, at, next - at, w->out + at * w->width,
                                 w->result);
            after = next;
        }
        at = after;
    }
}

static int check_alltoallv(const work *w)
{
    int *bytes = malloc(3 * w->slots * sizeof *bytes);
    if (!bytes)
        MPI_Abort(w->mpi, 3); /* a few bytes a rank, and peers wait in MPI */
    int error = MPI_SUCCESS;
    for (size_t first = 0; error == MPI_SUCCESS && first < w->largest; first += w->block)
        error = move_pairs(w, first, bytes);
    free(bytes);
    if (error == MPI_SUCCESS)
        check_gaps(w);
    return error;
}

/* Whether every pair of ranks means the same count, and the largest of them. */
static int exchange_counts(work *w, int *matched)
{
    const weirv_case *c = w->c;
    uint64_t *mine = malloc(2 * w->slots * sizeof *mine), *theirs = mine + w->slots;
    if (!mine)
        MPI_Abort(w->mpi, 3);
    for (size_t r = 0; r < w->slots; r++)
        mine[r] = c->send_counts[r];
    int error = MPI_Alltoall(mine, 1, MPI_UINT64_T, theirs, 1, MPI_UINT64_T, w->mpi);
    uint64_t agreed[2] = {0, 0}; /* the largest count; whether one differs */
    for (size_t r = 0; error == MPI_SUCCESS && r < w->slots; r++) {
        agreed[0] = mine[r] > agreed[0] ? mine[r] : agreed[0];
        agreed[1] |= theirs[r] != c->recv_counts[r];
    }
    free(mine);
    if (error == MPI_SUCCESS)
        error = MPI_Allreduce(MPI_IN_PLACE, agreed, 2, MPI_UINT64_T, MPI_MAX, w->mpi);
    w->largest = (size_t)agreed[0];
    *matched = !agreed[1];
    return error;
}

/* ----------------------------------------------------------------- set-up */

/* Sizes of blocks; memory for them. The same on every rank, memory aside. */
static int prepare(work *w)
{
    const weirv_case *c = w->c;
    int one_slot = c->collective == WEIR_COLL_ALLREDUCE || c->collective == WEIR_COLL_REDUCE ||
                   c->collective == WEIR_COLL_BROADCAST || c->collective == WEIR_COLL_SENDRECV;
    int adds = c->op == WEIR_SUM || c->op == WEIR_AVG;
    int in_double = weirv_is_reduction(c->collective) && weirv_format_of(c->dtype);
    size_t longest = c->collective == WEIR_COLL_ALLTOALLV ? w->largest : c->count;
    w->planes = in_double && adds ? 2 : 1;
    size_t near_bytes = in_double ? w->planes * sizeof(double) : w->width;
    if (weirv_is_reduction(c->collective) && near_bytes < sizeof(uint32_t))
        near_bytes = sizeof(uint32_t); /* see integer_type */
    w->slots = one_slot ? 1 : (size_t)c->nranks;
    w->block = BLOCK_BYTES / (w->slots * near_bytes);
    w->block = smaller(w->block ? w->block : 1, longest ? longest : 1);
    w->near = malloc(w->slots * w->block * near_bytes);
    w->far = malloc(w->slots * w->block * w->width);
    return w->near && w->far ? MPI_SUCCESS : MPI_ERR_NO_MEM;
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

static int run(const work *w)
{
    if (weirv_is_reduction(w->c->collective))
        return check_reduction(w);
    if (w->c->collective == WEIR_COLL_ALLTOALLV)
        return check_alltoallv(w);
    return check_movement(w);
}

int weirv_check(MPI_Comm mpi, const weirv_case *c, const void *out, int steps,
                weirv_result *result)
{
    work w = {.mpi = mpi, .c = c, .out = out, .result = result};
    w.width = weir_dtype_bytes(c->dtype);
    w.slots = (size_t)c->nranks;
    w.bound = weirv_bound_make(c->dtype, c->op, c->nranks, steps);
    int matched = 1, error = MPI_SUCCESS;
    if (!fits(mpi, c))
        return MPI_ERR_ARG;
    if (c->collective == WEIR_COLL_ALLTOALLV)
        error = exchange_counts(&w, &matched);
    if (error != MPI_SUCCESS || !matched)
        return matched ? error : MPI_ERR_ARG;
    error = agree(mpi, prepare(&w));
    if (error == MPI_SUCCESS)
        error = run(&w);
    free(w.far);
    free(w.near);
    return error;
}

int weirv_reduce_result(MPI_Comm mpi, weirv_result *result)
{
    int nranks = 0, rank = 0;
    MPI_Comm_size(mpi, &nranks);
    MPI_Comm_rank(mpi, &rank);
    uint64_t counts[3] = {result->wrong, result->overruns, result->inputs_changed};
    int first_rank = result->has_first ? rank : nranks;
    int error = MPI_Allreduce(MPI_IN_PLACE, counts, 3, MPI_UINT64_T, MPI_SUM, mpi);
    if (error == MPI_SUCCESS)
        error = MPI_Allreduce(MPI_IN_PLACE, &result->worst_error, 1, MPI_DOUBLE, MPI_MAX, mpi);
    if (error == MPI_SUCCESS)
        error = MPI_Allreduce(MPI_IN_PLACE, &first_rank, 1, MPI_INT, MPI_MIN, mpi);
    if (error == MPI_SUCCESS && first_rank < nranks)
        error = MPI_Bcast(&result->first, (int)sizeof result->first, MPI_BYTE, first_rank, mpi);
    if (error != MPI_SUCCESS)
        return error;
    result->wrong = counts[0];
    result->overruns = counts[1];
    result->inputs_changed = counts[2];
    result->has_first = first_rank < nranks;
    return MPI_SUCCESS;
}
