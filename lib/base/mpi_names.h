/*
 * MPI without an mpi.h: the functions and constants that weir uses, under the standard's names, as
 * calls of the library in weiri_mpi. weiri_mpi_open (mpi_open.h) or weir_boot_mpi_create_from fill
 * it in; nothing here may be used before. A process has one MPI.
 */
#ifndef WEIR_BASE_MPI_NAMES_H
#define WEIR_BASE_MPI_NAMES_H

#include <weir/mpi_library.h>

#include <string.h>

_Static_assert(sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "an int handle is the low half of a weir_mpi_handle, see weir/mpi_library.h");

extern weir_mpi_library weiri_mpi;

typedef weir_mpi_handle MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request, MPI_Message;
/* At least as large and as aligned as any library's. */
typedef struct MPI_Status {
    int64_t words[8];
} MPI_Status;

/* Extends the sign of a handle that MPI has written, if MPI's handles are ints. Returns error. */
static inline int weiri_mpi_made(int error, weir_mpi_handle *handle)
{
    int low;
    memcpy(&low, handle, sizeof low);
    *handle = weiri_mpi.handle_bytes == sizeof low ? low : *handle;
    return error;
}

enum { MPI_SUCCESS = 0, MPI_MAX_ERROR_STRING = 512, MPI_MAX_LIBRARY_VERSION_STRING = 8192 };

#define MPI_COMM_WORLD weiri_mpi.COMM_WORLD
#define MPI_ERRORS_RETURN weiri_mpi.ERRORS_RETURN
#define MPI_DATATYPE_NULL weiri_mpi.DATATYPE_NULL
#define MPI_BYTE weiri_mpi.BYTE
#define MPI_INT weiri_mpi.INT
#define MPI_INT8_T weiri_mpi.INT8_T
#define MPI_UINT8_T weiri_mpi.UINT8_T
#define MPI_UINT16_T weiri_mpi.UINT16_T
#define MPI_INT32_T weiri_mpi.INT32_T
#define MPI_UINT32_T weiri_mpi.UINT32_T
#define MPI_INT64_T weiri_mpi.INT64_T
#define MPI_UINT64_T weiri_mpi.UINT64_T
#define MPI_FLOAT weiri_mpi.FLOAT
#define MPI_DOUBLE weiri_mpi.DOUBLE
#define MPI_SUM weiri_mpi.SUM
#define MPI_PROD weiri_mpi.PROD
#define MPI_MAX weiri_mpi.MAX
#define MPI_MIN weiri_mpi.MIN
#define MPI_IN_PLACE ((void *)weiri_mpi.IN_PLACE)
#define MPI_STATUS_IGNORE ((MPI_Status *)weiri_mpi.STATUS_IGNORE)
#define MPI_PROC_NULL ((int)weiri_mpi.PROC_NULL)
#define MPI_THREAD_FUNNELED ((int)weiri_mpi.THREAD_FUNNELED)
#define MPI_ERR_ARG ((int)weiri_mpi.ERR_ARG)
#define MPI_ERR_NO_MEM ((int)weiri_mpi.ERR_NO_MEM)

#define MPI_Init_thread weiri_mpi.Init_thread
#define MPI_Initialized weiri_mpi.Initialized
#define MPI_Finalize weiri_mpi.Finalize
#define MPI_Finalized weiri_mpi.Finalized
#define MPI_Abort weiri_mpi.Abort
#define MPI_Get_library_version weiri_mpi.Get_library_version
#define MPI_Error_string weiri_mpi.Error_string
#define MPI_Comm_rank weiri_mpi.Comm_rank
#define MPI_Comm_size weiri_mpi.Comm_size
#define MPI_Comm_dup(comm, made) weiri_mpi_made(weiri_mpi.Comm_dup(comm, made), made)
#define MPI_Comm_free weiri_mpi.Comm_free
#define MPI_Comm_set_errhandler weiri_mpi.Comm_set_errhandler
#define MPI_Iallgather weiri_mpi.Iallgather
#define MPI_Ibarrier weiri_mpi.Ibarrier
#define MPI_Isend weiri_mpi.Isend
#define MPI_Improbe weiri_mpi.Improbe
#define MPI_Imrecv weiri_mpi.Imrecv
#define MPI_Get_count weiri_mpi.Get_count
#define MPI_Test weiri_mpi.Test
#define MPI_Allreduce weiri_mpi.Allreduce
#define MPI_Reduce weiri_mpi.Reduce
#define MPI_Reduce_local weiri_mpi.Reduce_local
#define MPI_Reduce_scatter_block weiri_mpi.Reduce_scatter_block
#define MPI_Bcast weiri_mpi.Bcast
#define MPI_Allgather weiri_mpi.Allgather
#define MPI_Alltoall weiri_mpi.Alltoall
#define MPI_Alltoallv weiri_mpi.Alltoallv
#define MPI_Sendrecv weiri_mpi.Sendrecv
#define MPI_Type_contiguous(count, type, made)                                                     \
    weiri_mpi_made(weiri_mpi.Type_contiguous(count, type, made), made)
#define MPI_Type_commit weiri_mpi.Type_commit
#define MPI_Type_free weiri_mpi.Type_free
#define MPI_Comm_split(comm, color, key, made)                                                     \
    weiri_mpi_made(weiri_mpi.Comm_split(comm, color, key, made), made)
#define MPI_Irecv weiri_mpi.Irecv
#define MPI_Wait weiri_mpi.Wait
#define MPI_Barrier weiri_mpi.Barrier
#define MPI_Gather weiri_mpi.Gather
#define MPI_Scatter weiri_mpi.Scatter
#define MPI_Type_create_hindexed_block(count, length, places, type, made)                          \
    weiri_mpi_made(weiri_mpi.Type_create_hindexed_block(count, length, places, type, made), made)

#endif
