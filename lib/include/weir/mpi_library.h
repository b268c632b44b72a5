/*
 * An MPI library as weir calls it: addresses of functions, and values of constants. <weir/mpi.h>
 * fills the structure in from the program's mpi.h; programs need nothing of this header. The lists
 * only grow at their ends, and the functions are last, so that older programs find their members.
 */
#ifndef WEIR_MPI_LIBRARY_H
#define WEIR_MPI_LIBRARY_H

#include <weir/weir.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An MPI_Comm, MPI_Datatype, MPI_Op, MPI_Errhandler, MPI_Request or MPI_Message: a pointer, or an
 * int with its sign. A function that takes an int by value may be called with it, because the
 * calling conventions of 64-bit Linux pass both in one register or slot of 8 bytes. */
typedef intptr_t weir_mpi_handle;

/* X(name) for MPI_name */
/* clang-format off */
#define WEIR_MPI_CONSTANTS(X) \
    X(COMM_WORLD) X(ERRORS_RETURN) X(DATATYPE_NULL) X(BYTE) X(INT) X(INT8_T) X(UINT8_T) \
    X(UINT16_T) X(INT32_T) X(UINT32_T) X(INT64_T) X(UINT64_T) X(FLOAT) X(DOUBLE) \
    X(SUM) X(PROD) X(MAX) X(MIN) \
    X(IN_PLACE) X(STATUS_IGNORE) X(PROC_NULL) X(THREAD_FUNNELED) X(ERR_ARG) X(ERR_NO_MEM)
/* clang-format on */

/* X(name, arguments) for MPI_name, with the standard's arguments */
#define WEIR_MPI_FUNCTIONS(X)                                                                      \
    X(Initialized, (int *))                                                                        \
    X(Finalized, (int *))                                                                          \
    X(Get_library_version, (char *, int *))                                                        \
    X(Error_string, (int, char *, int *))                                                          \
    X(Comm_rank, (weir_mpi_handle, int *))                                                         \
    X(Comm_size, (weir_mpi_handle, int *))                                                         \
    X(Comm_dup, (weir_mpi_handle, weir_mpi_handle *))                                              \
    X(Comm_free, (weir_mpi_handle *))                                                              \
    X(Comm_set_errhandler, (weir_mpi_handle, weir_mpi_handle))                                     \
    X(Iallgather, (const void *, int, weir_mpi_handle, void *, int, weir_mpi_handle,               \
                   weir_mpi_handle, weir_mpi_handle *))                                            \
    X(Ibarrier, (weir_mpi_handle, weir_mpi_handle *))                                              \
    X(Isend, (const void *, int, weir_mpi_handle, int, int, weir_mpi_handle, weir_mpi_handle *))   \
    X(Improbe, (int, int, weir_mpi_handle, int *, weir_mpi_handle *, void *))                      \
    X(Imrecv, (void *, int, weir_mpi_handle, weir_mpi_handle *, weir_mpi_handle *))                \
    X(Get_count, (const void *, weir_mpi_handle, int *))                                           \
    X(Test, (weir_mpi_handle *, int *, void *))                                                    \
    X(Init_thread, (int *, char ***, int, int *))                                                  \
    X(Finalize, (void))                                                                            \
    X(Abort, (weir_mpi_handle, int))                                                               \
    X(Allreduce, (const void *, void *, int, weir_mpi_handle, weir_mpi_handle, weir_mpi_handle))   \
    X(Reduce, (const void *, void *, int, weir_mpi_handle, weir_mpi_handle, int, weir_mpi_handle)) \
    X(Reduce_local, (const void *, void *, int, weir_mpi_handle, weir_mpi_handle))                 \
    X(Reduce_scatter_block,                                                                        \
      (const void *, void *, int, weir_mpi_handle, weir_mpi_handle, weir_mpi_handle))              \
    X(Bcast, (void *, int, weir_mpi_handle, int, weir_mpi_handle))                                 \
    X(Allgather,                                                                                   \
      (const void *, int, weir_mpi_handle, void *, int, weir_mpi_handle, weir_mpi_handle))         \
    X(Alltoall,                                                                                    \
      (const void *, int, weir_mpi_handle, void *, int, weir_mpi_handle, weir_mpi_handle))         \
    X(Alltoallv, (const void *, const int *, const int *, weir_mpi_handle, void *, const int *,    \
                  const int *, weir_mpi_handle, weir_mpi_handle))                                  \
    X(Sendrecv, (const void *, int, weir_mpi_handle, int, int, void *, int, weir_mpi_handle, int,  \
                 int, weir_mpi_handle, void *))                                                    \
    X(Type_contiguous, (int, weir_mpi_handle, weir_mpi_handle *))                                  \
    X(Type_commit, (weir_mpi_handle *))                                                            \
    X(Type_free, (weir_mpi_handle *))                                                              \
    X(Comm_split, (weir_mpi_handle, int, int, weir_mpi_handle *))                                  \
    X(Irecv, (void *, int, weir_mpi_handle, int, int, weir_mpi_handle, weir_mpi_handle *))         \
    X(Wait, (weir_mpi_handle *, void *))                                                           \
    X(Barrier, (weir_mpi_handle))                                                                  \
    X(Gather,                                                                                      \
      (const void *, int, weir_mpi_handle, void *, int, weir_mpi_handle, int, weir_mpi_handle))    \
    X(Scatter,                                                                                     \
      (const void *, int, weir_mpi_handle, void *, int, weir_mpi_handle, int, weir_mpi_handle))    \
    X(Type_create_hindexed_block, (int, int, const intptr_t *, weir_mpi_handle, weir_mpi_handle *))

typedef struct weir_mpi_library {
    size_t bytes;        /* of this structure */
    size_t handle_bytes; /* of an MPI_Comm: 4 or 8 */
#define WEIR_MPI_MEMBER(name) weir_mpi_handle name;
    WEIR_MPI_CONSTANTS(WEIR_MPI_MEMBER)
#undef WEIR_MPI_MEMBER
#define WEIR_MPI_MEMBER(name, arguments) int(*name) arguments;
    WEIR_MPI_FUNCTIONS(WEIR_MPI_MEMBER)
#undef WEIR_MPI_MEMBER
} weir_mpi_library;

/* What weir_boot_mpi_create (<weir/mpi.h>) calls. The structure is copied. */
WEIR_API weir_status weir_boot_mpi_create_from(const weir_mpi_library *library,
                                               weir_mpi_handle comm, weir_boot **boot);

#ifdef __cplusplus
}
#endif

#endif
