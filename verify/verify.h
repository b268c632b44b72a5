/*
 * Validation of collectives against MPI. A benchmark
 *
 *   1. lays its buffers out with weirv_guard_place, fills in with
 *      weirv_fill_input and out with weirv_poison,
 *   2. runs the collective,
 *   3. calls weirv_check, and adds weirv_guard_check to result.overruns and
 *      weirv_input_changed to result.inputs_changed,
 *   4. calls weirv_reduce_result, after which every rank knows the same.
 *
 * Only the public API of weir and MPI are used; number formats are decoded by
 * code of this folder alone, since what lib/ does with them is under test.
 */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include <mpi.h>

#include "verify/compare.h"
#include "verify/expected.h"
#include "verify/forensics.h"
#include "verify/guard.h"
#include "verify/pattern.h"
#include "verify/special.h"

/*
 * Computes what out should hold with MPI, from inputs that are written again
 * from the pattern, in blocks of a few MiB however long the buffers are, and
 * compares. Collective over mpi, whose ranks are the case's; blocking.
 *
 *   integers    MPI reduces in the same type; equal bits are demanded
 *               (avg: the wrapped sum / nranks, rounded towards zero)
 *   floats      MPI reduces in double; the error must be within
 *               weirv_bound_make(..., steps)
 *   movement    MPI moves bytes; equal bits are demanded
 *
 * Elements that the call must not write on this rank (reduce off the root,
 * gaps between alltoallv's blocks) must hold poison still; reduce in place off
 * the root: the input. Adds this rank's findings to result. Returns
 * MPI_SUCCESS or MPI's error; MPI_ERR_ARG if alltoallv's counts do not match
 * pairwise (on every rank alike), or where mpi's rank or size is not the case's
 * (a mistake of the caller, found locally); MPI_ERR_NO_MEM (on every rank).
 */
int weirv_check(MPI_Comm mpi, const weirv_case *c, const void *out, int steps,
                weirv_result *result);

/* The same for long buffers: only some blocks of each slot are compared, the
 * first and last two and two that the seed chooses, besides what must not be
 * written. */
int weirv_check_sampled(MPI_Comm mpi, const weirv_case *c, const void *out, int steps,
                        weirv_result *result);

/* Makes a result global: sums, the worst error, and the first mismatch of the
 * lowest rank that has one, on every rank. Collective; call it once a result.
 * Returns MPI_SUCCESS or MPI's error. */
int weirv_reduce_result(MPI_Comm mpi, weirv_result *result);

#endif
