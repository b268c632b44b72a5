/*
 * The bootstrap over MPI, for programs that an MPI launcher starts. It is no
 * part of the library, which never needs MPI: a program that uses it links
 * lib/boot/mpi.c and MPI.
 */
#ifndef WEIR_MPI_H
#define WEIR_MPI_H

#include <weir/weir.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a bootstrap of the ranks of comm, which is duplicated and stays the
 * caller's. Collective over comm, blocking; MPI must be initialised, and must
 * not be finalised before weir_boot_destroy. Waits end after WEIR_TIMEOUT_MS.
 * WEIR_ERR_INVALID: MPI is not initialised; WEIR_ERR_SYSTEM: MPI failed, or the
 * launcher started more processes than this MPI sees, which then all take
 * themselves for rank 0 of 1. */
WEIR_API weir_status weir_boot_mpi_create(MPI_Comm comm, weir_boot **boot);

#ifdef __cplusplus
}
#endif

#endif
