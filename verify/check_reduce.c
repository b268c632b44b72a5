/*
 * The MPI reference of reductions. MPI combines the ranks' patterns block by block: integers in
 * their type, floats in double together with their magnitudes.
 */
#include "verify/check.h"

#include "base/contract.h"
#include "verify/number.h"

#include <math.h>

/* Sums and products wrap. MPI promises that for unsigned types only; their bits equal those of the
 * signed types. 8-bit types are combined in 32 bits and truncated, because Open MPI's vector code
 * saturates them. */
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

static int is_ordered(const weirv_case *c)
{
    return c->op == WEIR_MAX || c->op == WEIR_MIN;
}

static int is_widened(const weirv_case *c)
{
    return weir_dtype_bytes(c->dtype) == 1 && !is_ordered(c);
}

/* Whether this MPI compares the case's unsigned type as signed. The order of unsigned integers is
 * that of signed ones with the top bit flipped, which every MPI compares rightly. */
static int is_flipped(const weirv_case *c)
{
    return weirv_mpi_fault_concerns(WEIRV_MPI_UNSIGNED_ORDER, c->collective, c->dtype, c->op) &&
           !weirv_mpi_combines(c->dtype, c->op, weirv_mpi_type(c->dtype));
}

static weir_dtype flipped_type(weir_dtype dtype)
{
    return dtype == WEIR_UINT8 ? WEIR_INT8 : dtype == WEIR_UINT32 ? WEIR_INT32 : WEIR_INT64;
}

static void flip_top_bits(unsigned char *elements, size_t width, size_t count)
{
    for (size_t i = 1; i <= count; i++)
        elements[i * width - 1] ^= 0x80; /* little-endian */
}

/* Combines w->input over the ranks, in place. count: elements of one slot. */
static int reduce_slots(const weirv_work *w, size_t count, MPI_Datatype type)
{
    const weirv_case *c = w->c;
    MPI_Op op = weirv_mpi_op(c->op);
    if (c->collective == WEIR_COLL_REDUCE_SCATTER)
        return MPI_Reduce_scatter_block(MPI_IN_PLACE, w->input, (int)count, type, op, w->mpi);
    if (c->collective == WEIR_COLL_REDUCE && weirv_mpi_has(WEIRV_MPI_REDUCE_IN_PLACE, NULL))
        return MPI_Allreduce(MPI_IN_PLACE, w->input, (int)count, type, op, w->mpi);
    if (c->collective == WEIR_COLL_REDUCE && c->rank != c->root)
        return MPI_Reduce(w->input, NULL, (int)count, type, op, c->root, w->mpi);
    if (c->collective == WEIR_COLL_REDUCE)
        return MPI_Reduce(MPI_IN_PLACE, w->input, (int)count, type, op, c->root, w->mpi);
    return MPI_Allreduce(MPI_IN_PLACE, w->input, (int)count, type, op, w->mpi);
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
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    return contract->out[weiri_contract_role(contract, c->rank, c->root)] == WEIRI_AFTER_RESULT;
}

/* Writes this rank's slots in the form that reduce_slots() expects. */
static void fill_integers(const weirv_work *w, size_t first, size_t count)
{
    uint32_t *wide = (uint32_t *)w->input;
    for (size_t slot = 0; slot < w->slots; slot++) {
        size_t at = slot * count, index = slot * w->c->count + first;
        void *part = is_widened(w->c) ? w->reference : w->input + at * w->width;
        weirv_work_fill(w, part, index, count, w->c->rank);
        for (size_t i = 0; is_widened(w->c) && i < count; i++)
            wide[at + i] = w->reference[i];
        if (is_flipped(w->c))
            flip_top_bits(part, w->width, count);
    }
}

static int reduce_integers(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    fill_integers(w, first, count);
    weir_dtype dtype = is_flipped(c) ? flipped_type(c->dtype) : c->dtype;
    MPI_Datatype type = is_widened(c) ? MPI_UINT32_T : integer_type(dtype, c->op);
    int error = reduce_slots(w, count, type);
    if (error != MPI_SUCCESS || !has_reduced(c))
        return error;
    unsigned char *answer = is_widened(c) ? w->reference : w->input;
    for (size_t i = 0; is_widened(c) && i < count; i++)
        answer[i] = (unsigned char)((uint32_t *)w->input)[i];
    if (is_flipped(c))
        flip_top_bits(answer, w->width, count);
    if (c->op == WEIR_AVG)
        divide_integers(c->dtype, c->nranks, count, answer);
    weirv_work_compare(w, first, count, answer);
    return MPI_SUCCESS;
}

static void scale(double *values, size_t count, double divisor)
{
    for (size_t i = 0; i < count; i++)
        values[i] /= divisor;
}

static int reduce_floats(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    double *values = (double *)w->input;
    for (size_t slot = 0; slot < w->slots; slot++) {
        double *part = values + slot * w->planes * count;
        weirv_work_fill(w, w->reference, slot * c->count + first, count, c->rank);
        weirv_decode(c->dtype, w->reference, count, part);
        for (size_t i = 0; w->planes == 2 && i < count; i++)
            part[count + i] = fabs(part[i]);
    }
    int error = reduce_slots(w, w->planes * count, MPI_DOUBLE);
    if (error != MPI_SUCCESS || !has_reduced(c))
        return error;
    if (c->op == WEIR_AVG)
        scale(values, w->planes * count, c->nranks);
    weirv_compare_values(c->dtype, c->rank, first, count, w->out + first * w->width, values,
                         w->planes == 2 ? values + count : NULL, w->bound, w->result);
    return MPI_SUCCESS;
}

/* reduce on ranks other than the root: out must be unchanged. */
static void check_untouched(const weirv_work *w)
{
    const weirv_case *c = w->c;
    if (!c->in_place) {
        weirv_compare_poison(c->dtype, c->rank, 0, c->count, w->out, w->result);
        return;
    }
    for (size_t first = 0; first < c->count; first += w->block) {
        size_t count = weirv_work_smaller(w->block, c->count - first);
        weirv_work_fill(w, w->reference, first, count, c->rank);
        weirv_work_compare(w, first, count, w->reference);
    }
}

int weirv_check_reduction(const weirv_work *w)
{
    for (size_t first = 0; first < w->c->count; first = weirv_work_next(w, first, w->c->count)) {
        size_t count = weirv_work_smaller(w->block, w->c->count - first);
        int error = weirv_format_of(w->c->dtype) ? reduce_floats(w, first, count)
                                                 : reduce_integers(w, first, count);
        if (error != MPI_SUCCESS)
            return error;
    }
    if (!has_reduced(w->c))
        check_untouched(w);
    return MPI_SUCCESS;
}
