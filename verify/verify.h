/*
 * Validation of collectives. A benchmark
 *
 *   1. lays its buffers out with weirv_guard_place, fills the input with weirv_fill_input and the
 *      output with weirv_poison,
 *   2. runs the collective,
 *   3. calls weirv_check_exact (expected.h), weirv_check, or both, and adds weirv_guard_check to
 *      result.overruns and weirv_input_changed to result.inputs_changed,
 *   4. calls weirv_reduce_result, after which every rank has the same result.
 *
 * Uses only the public API of weir, and MPI. Number formats are decoded by this folder's code,
 * because the conversions of lib/ are under test.
 */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include <mpi.h>

#include "verify/compare.h"
#include "verify/expected.h"
#include "verify/forensics.h"
#include "verify/pattern.h"
#include "verify/special.h"

/*
 * The MPI oracle. Computes what out should contain with MPI, from inputs that are computed again
 * from the pattern, and compares every element. Works in blocks of a few MiB, however long the
 * buffers are. Collective over mpi, whose ranks are those of the case; blocking.
 *
 *   integers    MPI reduces in the same type; the bits must be equal
 *               (avg: the wrapped sum / nranks, rounded towards zero)
 *   floats      MPI reduces in double; the error must be within weirv_bound_make(..., steps)
 *   movement    MPI moves bytes; the bits must be equal
 *
 * Elements that the call must not write on this rank (reduce on ranks other than the root, gaps
 * between alltoallv's blocks) must still contain poison, or the input for reduce in place. Adds
 * this rank's findings to result. Returns MPI_SUCCESS or MPI's error; MPI_ERR_ARG on every rank if
 * alltoallv's counts do not match pairwise; MPI_ERR_ARG locally if mpi's rank or size is not the
 * case's, which is an error of the caller; MPI_ERR_NO_MEM on every rank.
 */
int weirv_check(MPI_Comm mpi, const weirv_case *c, const void *out, int steps,
                weirv_result *result);

/* The same for long buffers: compares six blocks of each slot only, the first two, the last two,
 * and two that the seed chooses, and everything that must not be written. Benchmarks use it above
 * 4 MiB if the exact oracle compares every element. */
int weirv_check_sampled(MPI_Comm mpi, const weirv_case *c, const void *out, int steps,
                        weirv_result *result);

/* Makes a result global: on every rank, the sums, the worst error, and the first mismatch of the
 * lowest rank that has one. Collective; call it once per result. Returns MPI_SUCCESS or MPI's
 * error. */
int weirv_reduce_result(MPI_Comm mpi, weirv_result *result);

#endif
