/*
 * The table of what known versions of MPI libraries compute wrongly. A row states a library, the
 * versions that have been seen to have the fault, and a text for the run's header. The reference
 * replaces MPI_Reduce by MPI_Allreduce, and uint8 by uint32 (check_reduce.c).
 */
#include "verify/reference.h"

#include <stdio.h>
#include <string.h>

typedef struct mpi_fault {
    const char *library; /* how the text of MPI_Get_library_version begins; a version follows */
    int first[2], last[2]; /* versions, both included */
    weirv_mpi_fault fault;
    const char *text;
} mpi_fault;

static const mpi_fault rows[] = {
    {"MPICH Version:", {4, 0}, {4, 0}, WEIRV_MPI_REDUCE_IN_PLACE,
     "MPI_Reduce with MPI_IN_PLACE at a root other than 0 crashes"},
    {"MPICH Version:", {4, 0}, {4, 0}, WEIRV_MPI_UINT8_ORDER,
     "MPI_MAX and MPI_MIN compare MPI_UINT8_T as signed"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int fault_version_is_between(const int version[2], const int first[2], const int last[2])
{
    const int from_first = version[0] != first[0] ? version[0] - first[0] : version[1] - first[1];
    const int to_last = version[0] != last[0] ? last[0] - version[0] : last[1] - version[1];
    return from_first >= 0 && to_last >= 0;
}

int weirv_mpi_fault_is_in(const char *library, weirv_mpi_fault fault, const char **text)
{
    for (int i = 0; i < ROWS; i++) {
        const size_t length = strlen(rows[i].library);
        int version[2];
        if (rows[i].fault != fault || strncmp(library, rows[i].library, length) != 0 ||
            sscanf(library + length, "%d.%d", &version[0], &version[1]) != 2 ||
            !fault_version_is_between(version, rows[i].first, rows[i].last))
            continue;
        if (text)
            *text = rows[i].text;
        return 1;
    }
    return 0;
}

int weirv_mpi_has(weirv_mpi_fault fault, const char **text)
{
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (!library[0])
        MPI_Get_library_version(library, &length);
    return weirv_mpi_fault_is_in(library, fault, text);
}

int weirv_mpi_fault_concerns(weirv_mpi_fault fault, weir_collective collective, weir_dtype dtype,
                             weir_op op)
{
    switch (fault) {
    case WEIRV_MPI_REDUCE_IN_PLACE: return collective == WEIR_COLL_REDUCE;
    case WEIRV_MPI_UINT8_ORDER:
        return weirv_is_reduction(collective) && dtype == WEIR_UINT8 &&
               (op == WEIR_MAX || op == WEIR_MIN);
    case WEIRV_MPI_FAULTS:
        break;
    }
    return 0;
}
