/*
 * The bootstrap over MPI, for programs that use MPI anyway. libweir itself does not need MPI: this
 * header passes it the MPI library that the program is compiled for and linked with, whichever it
 * is.
 */
#ifndef WEIR_MPI_H
#define WEIR_MPI_H

#include <weir/mpi_library.h>
#include <weir/target.h>

#include <mpi.h>

WEIR_C_CASTS_BEGIN

/* Fills in library for the program's MPI. Local. */
static inline void weir_mpi_library_fill(weir_mpi_library *library)
{
    library->bytes = sizeof *library;
    library->handle_bytes = sizeof(MPI_Comm);
#define WEIR_MPI_TAKE(name) library->name = (weir_mpi_handle)MPI_##name;
    WEIR_MPI_CONSTANTS(WEIR_MPI_TAKE)
#undef WEIR_MPI_TAKE
#define WEIR_MPI_TAKE(name, arguments) library->name = (int(*) arguments)(void (*)(void))MPI_##name;
    WEIR_MPI_FUNCTIONS(WEIR_MPI_TAKE)
#undef WEIR_MPI_TAKE
}

/* Creates a bootstrap of the ranks of an MPI communicator, which is duplicated and stays the
 * caller's. Collective over comm, blocking. Release with weir_boot_destroy, before MPI_Finalize.
 * MPI must be initialised with MPI_Init or MPI_Init_thread, as an MPI session alone has no
 * MPI_COMM_WORLD; the bootstrap calls it from the threads that use the bootstrap. Waits end after
 * WEIR_TIMEOUT_MS. WEIR_ERR_INVALID if MPI is not initialised; WEIR_ERR_SYSTEM if MPI reports an
 * error, if the launcher belongs to another MPI than the program, so that every process would be
 * rank 0 of 1, or if weir uses another MPI library in this process. */
static inline weir_status weir_boot_mpi_create(MPI_Comm comm, weir_boot **boot)
{
    weir_mpi_library library;
    weir_mpi_library_fill(&library);
    return weir_boot_mpi_create_from(&library, (weir_mpi_handle)comm, boot);
}

WEIR_C_CASTS_END

#endif
