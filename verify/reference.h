/* The reference of verification that MPI computes, for ranks that MPI started. */
#ifndef VERIFY_REFERENCE_H
#define VERIFY_REFERENCE_H

#include "verify/verify.h"

#include "base/mpi_names.h"

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

/* ------------------------------------------------------------- faults of MPIs */

/* What some MPI versions compute wrongly (check_faults.c). The reference avoids it, so that it is
 * not reported as wrong data. */
typedef enum weirv_mpi_fault {
    WEIRV_MPI_REDUCE_IN_PLACE, /* MPI_Reduce with MPI_IN_PLACE crashes */
    WEIRV_MPI_UNSIGNED_ORDER,  /* MPI_MAX or MPI_MIN compares an unsigned type as signed */
    WEIRV_MPI_FAULTS
} weirv_mpi_fault;

/* Returns 1 if this MPI has the fault; *text (may be NULL) then gets what the fault is. Local; one
 * thread at a time. */
int weirv_mpi_has(weirv_mpi_fault fault, const char **text);
/* The same for the library with this text of MPI_Get_library_version, for faults that are known by
 * version. Pure. */
int weirv_mpi_fault_is_in(const char *library, weirv_mpi_fault fault, const char **text);
/* Returns 1 if the fault concerns calls of this kind. Pure. */
int weirv_mpi_fault_concerns(weirv_mpi_fault fault, weir_collective collective, weir_dtype dtype,
                             weir_op op);
/* Returns 1 if MPI_Reduce_local combines exact data (exact.h) of this type and operation rightly;
 * avg: as sum. mpi_type: MPI's type of the same elements. Tries each pair of type and operation
 * once; MPI must be initialised. Local; one thread at a time. */
int weirv_mpi_combines(weir_dtype dtype, weir_op op, MPI_Datatype mpi_type);
/* MPI's type of the same elements, and its operation (avg: MPI_SUM); MPI_DATATYPE_NULL for types
 * that MPI's standard lacks. Pure. */
MPI_Datatype weirv_mpi_type(weir_dtype dtype);
MPI_Op weirv_mpi_op(weir_op op);

#endif
