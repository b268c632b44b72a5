/*
 * The bootstrap over MPI, for programs started by an MPI launcher. It is not part of libweir, which
 * does not need MPI: programs that use it link libweir_mpi.a and MPI (pkg-config weir-mpi).
 */
#ifndef WEIR_MPI_H
#define WEIR_MPI_H

#include <weir/weir.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a bootstrap of the ranks of an MPI communicator, which is duplicated and stays the
 * caller's. Collective over comm, blocking. Release with weir_boot_destroy, before MPI_Finalize.
 * MPI must be initialised; the bootstrap calls it from the threads that use the bootstrap. Waits
 * end after WEIR_TIMEOUT_MS. WEIR_ERR_INVALID if MPI is not initialised; WEIR_ERR_SYSTEM if MPI
 * reports an error, or if the launcher belongs to another MPI than the program, so that every
 * process would be rank 0 of 1. */
WEIR_API weir_status weir_boot_mpi_create(MPI_Comm comm, weir_boot **boot);

#ifdef __cplusplus
}
#endif

#endif
