/*
 * A stand-in for an MPI library, of which each process is a job of one rank: NAME is how it begins
 * the text of its version. Compiled twice and linked into one library: with -DOTHERS for the
 * functions that do nothing.
 */
#include <weir/mpi_library.h>

#include <string.h>

#ifdef OTHERS

#define STUB(name, arguments)                                                                      \
    __attribute__((weak)) int MPI_##name(void);                                                    \
    int MPI_##name(void)                                                                           \
    {                                                                                              \
        return 0;                                                                                  \
    }
WEIR_MPI_FUNCTIONS(STUB)

#else

#ifndef NAME
#define NAME "a stand-in"
#endif

int MPI_Get_library_version(char *text, int *length);
int MPI_Initialized(int *flag);
int MPI_Comm_size(weir_mpi_handle comm, int *size);

int MPI_Get_library_version(char *text, int *length)
{
    strcpy(text, NAME);
    *length = (int)strlen(text);
    return 0;
}

int MPI_Initialized(int *flag)
{
    *flag = 1;
    return 0;
}

int MPI_Comm_size(weir_mpi_handle comm, int *size)
{
    (void)comm;
    *size = 1;
    return 0;
}

#endif
