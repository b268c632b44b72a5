/* The MPI library that a program is linked with (make MPI_LINK=1), instead of one that is opened.
 */
#include "base/mpi_open.h"
#include <weir/mpi.h>

void weiri_mpi_linked(weir_mpi_library *library)
{
    weir_mpi_library_fill(library);
}
