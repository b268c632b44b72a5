/*
 * The reference of data movement: MPI moves the patterns as bytes, block by
 * block.
 */
#include "verify/check.h"

#include "base/contract.h"

#include <stdlib.h>

static int move_broadcast(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    if (c->rank == c->root)
        weirv_work_fill(w, w->reference, first, count, c->root);
    int error = MPI_Bcast(w->reference, (int)(count * w->width), MPI_BYTE, c->root, w->mpi);
    if (error == MPI_SUCCESS)
        weirv_work_compare(w, first, count, w->reference);
    return error;
}

static int move_sendrecv(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    const int to = weirv_sendrecv_destination(c, c->rank);
    const int from = weirv_sendrecv_source(c, c->rank), bytes = (int)(count * w->width);
    weirv_work_fill(w, w->input, first, count, c->rank);
    int error =
        MPI_Sendrecv(w->input, bytes, MPI_BYTE, to < 0 ? MPI_PROC_NULL : to, 0, w->reference, bytes,
                     MPI_BYTE, from < 0 ? MPI_PROC_NULL : from, 0, w->mpi, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS && from >= 0)
        weirv_work_compare(w, first, count, w->reference);
    return error;
}

/* What came from each rank, side by side in reference, against its place in out. */
static void compare_slots(const weirv_work *w, size_t first, size_t count)
{
    for (size_t slot = 0; slot < w->slots; slot++)
        weirv_work_compare(w, slot * w->c->count + first, count,
                           w->reference + slot * count * w->width);
}

static int move_allgather(const weirv_work *w, size_t first, size_t count)
{
    int bytes = (int)(count * w->width);
    weirv_work_fill(w, w->input, first, count, w->c->rank);
    int error = MPI_Allgather(w->input, bytes, MPI_BYTE, w->reference, bytes, MPI_BYTE, w->mpi);
    if (error == MPI_SUCCESS)
        compare_slots(w, first, count);
    return error;
}

static int move_alltoall(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    int bytes = (int)(count * w->width);
    for (size_t slot = 0; slot < w->slots; slot++)
        weirv_work_fill(w, w->input + slot * count * w->width, slot * c->count + first, count,
                        c->rank);
    int error = MPI_Alltoall(w->input, bytes, MPI_BYTE, w->reference, bytes, MPI_BYTE, w->mpi);
    if (error == MPI_SUCCESS)
        compare_slots(w, first, count);
    return error;
}

/* On ranks other than the root, everything must be as before. */
static int move_gather(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    const int bytes = (int)(count * w->width);
    weirv_work_fill(w, w->input, first, count, c->rank);
    int error =
        MPI_Gather(w->input, bytes, MPI_BYTE, w->reference, bytes, MPI_BYTE, c->root, w->mpi);
    for (size_t slot = 0; c->rank != c->root && slot < w->slots; slot++)
        weirv_expected(c, slot * c->count + first, count, w->reference + slot * count * w->width);
    if (error == MPI_SUCCESS)
        compare_slots(w, first, count);
    return error;
}

static int move_scatter(const weirv_work *w, size_t first, size_t count)
{
    const weirv_case *c = w->c;
    const int bytes = (int)(count * w->width);
    for (size_t slot = 0; c->rank == c->root && slot < w->slots; slot++)
        weirv_work_fill(w, w->input + slot * count * w->width, slot * c->count + first, count,
                        c->root);
    int error =
        MPI_Scatter(w->input, bytes, MPI_BYTE, w->reference, bytes, MPI_BYTE, c->root, w->mpi);
    if (error == MPI_SUCCESS)
        weirv_work_compare(w, first, count, w->reference);
    return error;
}

static int move(const weirv_work *w, size_t first, size_t count)
{
    switch ((int)w->c->collective) {
    case WEIR_COLL_BROADCAST:
        return move_broadcast(w, first, count);
    case WEIR_COLL_SENDRECV:
        return move_sendrecv(w, first, count);
    case WEIR_COLL_ALLGATHER:
        return move_allgather(w, first, count);
    case WEIRI_COLL_GATHER:
        return move_gather(w, first, count);
    case WEIRI_COLL_SCATTER:
        return move_scatter(w, first, count);
    default:
        return move_alltoall(w, first, count);
    }
}

int weirv_check_movement(const weirv_work *w)
{
    int error = MPI_SUCCESS;
    for (size_t first = 0; error == MPI_SUCCESS && first < w->c->count;
         first = weirv_work_next(w, first, w->c->count))
        error = move(w, first, weirv_work_smaller(w->block, w->c->count - first));
    return error;
}

/* -------------------------------------------------------------- alltoallv */

/* Ends the job: there is no memory for a few bytes a rank, and peers wait in MPI. */
static _Noreturn void give_up(const weirv_work *w)
{
    MPI_Abort(w->mpi, 3);
    exit(3);
}

/* Elements of a pair's count that lie in the block starting at first. */
static size_t part_of(size_t count, size_t first, size_t block)
{
    return count > first ? weirv_work_smaller(block, count - first) : 0;
}

/* One block of every pair: rank r's part lies at slot r of input and reference. */
static int move_pairs(const weirv_work *w, size_t first, int *bytes)
{
    const weirv_case *c = w->c;
    int *send_bytes = bytes, *recv_bytes = bytes + w->slots, *at = bytes + 2 * w->slots;
    for (size_t r = 0; r < w->slots; r++) {
        size_t sent = part_of(c->send_counts[r], first, w->block);
        at[r] = (int)(r * w->block * w->width);
        send_bytes[r] = (int)(sent * w->width);
        recv_bytes[r] = (int)(part_of(c->recv_counts[r], first, w->block) * w->width);
        weirv_work_fill(w, w->input + at[r], c->send_displs[r] + first, sent, c->rank);
    }
    int error = MPI_Alltoallv(w->input, send_bytes, at, MPI_BYTE, w->reference, recv_bytes, at,
                              MPI_BYTE, w->mpi);
    for (size_t r = 0; error == MPI_SUCCESS && r < w->slots; r++)
        if (recv_bytes[r])
            weirv_work_compare(w, c->recv_displs[r] + first, (size_t)recv_bytes[r] / w->width,
                               w->reference + at[r]);
    return error;
}

/* Checks the elements of out that are in no block of recv_counts. */
static void check_gaps(const weirv_work *w)
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

int weirv_check_alltoallv(const weirv_work *w)
{
    int *bytes = malloc(3 * w->slots * sizeof *bytes);
    if (!bytes)
        give_up(w);
    int error = MPI_SUCCESS;
    for (size_t first = 0; error == MPI_SUCCESS && first < w->largest;
         first = weirv_work_next(w, first, w->largest))
        error = move_pairs(w, first, bytes);
    free(bytes);
    if (error == MPI_SUCCESS)
        check_gaps(w);
    return error;
}

/* Whether both ranks of every pair have the same count, and the largest count. */
int weirv_work_exchange_counts(weirv_work *w, int *matched)
{
    const weirv_case *c = w->c;
    uint64_t *mine = malloc(2 * w->slots * sizeof *mine), *theirs = mine + w->slots;
    if (!mine)
        give_up(w);
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
