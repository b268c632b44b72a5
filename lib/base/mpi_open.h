/*
 * Opening an MPI library at run time: the library that belongs to the launcher of this process.
 *
 * The candidates, in this order: WEIR_MPI_SO; a library that is in the process already, because the
 * program is linked with it or because of LD_PRELOAD; in the folders of the launcher, which is
 * found among the parents of this process, or of OPAL_PREFIX, I_MPI_ROOT, CRAY_MPICH_DIR and
 * MPI_HOME; where the dynamic linker finds it. A library has one of three ABIs: the standard's of
 * MPI 5.0, MPICH's, or Open MPI's.
 */
#ifndef WEIR_BASE_MPI_OPEN_H
#define WEIR_BASE_MPI_OPEN_H

#include "base/launchers.h"
#include <weir/mpi_library.h>

/* Opens the library for the launcher of the row, once in a process. Calls nothing of MPI that needs
 * MPI_Init. Local. WEIR_ERR_UNSUPPORTED if no library fits the launcher; WEIR_ERR_SYSTEM if a
 * library was chosen (WEIR_MPI_SO, or it is in the process) that cannot be used, or if the process
 * has two MPIs. */
weir_status weiri_mpi_open(const weiri_launcher_row *row);
/* Checks that no other MPI has come into the process since, such as one that a library needs which
 * the process has opened. Local. WEIR_ERR_SYSTEM. */
weir_status weiri_mpi_check_alone(void);
/* Takes the library of the caller, which may be in use already. Local. WEIR_ERR_INVALID if the
 * caller has another weir/mpi_library.h; WEIR_ERR_SYSTEM if another MPI is in use. */
weir_status weiri_mpi_take(const weir_mpi_library *library);
/* The path of the library that weiri_mpi_open opened; empty if it opened none, and "linked by the
 * build" of MPI_LINK=1. Its ABI: "standard", "MPICH", "Open MPI", or "its own" if linked. Local. */
const char *weiri_mpi_file(void);
const char *weiri_mpi_abi(void);
/* The folder above the one of the launcher's program; empty if it cannot be found. Local. */
const char *weiri_mpi_launcher_prefix(void);

/* Defined in programs that are linked with an MPI library for good (make MPI=linked). */
__attribute__((weak)) void weiri_mpi_linked(weir_mpi_library *library);

#endif
