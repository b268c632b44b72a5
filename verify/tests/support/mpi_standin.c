/*
 * A stand-in for an MPI library, of which each process is a job of one rank: NAME is how it begins
 * the text of its version. MPI_Init does what STANDIN_INIT says: exit, signal, error (it
 * returns one), or abort (it asks the launcher over PMI_FD). Compiled twice and linked into one
 * library: with -DOTHERS for the functions that do nothing.
 */
#include <weir/mpi_library.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided);
int MPI_Get_library_version(char *text, int *length);
int MPI_Initialized(int *flag);
int MPI_Comm_size(weir_mpi_handle comm, int *size);

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    enum { CODE = 77 };
    const char *what = getenv("STANDIN_INIT"), *launcher = getenv("PMI_FD");
    (void)argc, (void)argv, (void)wanted, (void)provided;
    if (what && strcmp(what, "abort") == 0 && launcher)
        dprintf(atoi(launcher), "cmd=init pmi_version=1\n"), usleep(100000),
            dprintf(atoi(launcher), "cmd=abort exitcode=%d\n", CODE);
    if (what && strcmp(what, "signal") == 0)
        raise(SIGSEGV);
    if (what && strcmp(what, "error") == 0)
        return CODE;
    if (what)
        exit(CODE);
    return 0;
}

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
