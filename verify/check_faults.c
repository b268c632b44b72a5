/*
 * What MPI libraries compute wrongly. What can be tried without harm is tried: MPI_Reduce_local on
 * exact data, for each type and operation. A call that crashes is known by library and version; a
 * row of the table states them, and a text for the run's header. The reference replaces MPI_Reduce
 * by MPI_Allreduce, and unsigned types by signed ones (check_reduce.c).
 */
#include "verify/exact.h"
#include "verify/reference.h"

#include <stdio.h>
#include <string.h>

typedef struct mpi_fault {
    const char *library;   /* how the text of MPI_Get_library_version begins; a version follows */
    int first[2], last[2]; /* versions, both included */
    weirv_mpi_fault fault;
    const char *text;
} mpi_fault;

static const mpi_fault rows[] = {
    {"MPICH Version:",
     {4, 0},
     {4, 0},
     WEIRV_MPI_REDUCE_IN_PLACE,
     "MPI_Reduce with MPI_IN_PLACE at a root other than 0 crashes"},
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

MPI_Datatype weirv_mpi_type(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_INT8:
        return MPI_INT8_T;
    case WEIR_UINT8:
        return MPI_UINT8_T;
    case WEIR_INT32:
        return MPI_INT32_T;
    case WEIR_UINT32:
        return MPI_UINT32_T;
    case WEIR_INT64:
        return MPI_INT64_T;
    case WEIR_UINT64:
        return MPI_UINT64_T;
    case WEIR_FLOAT:
        return MPI_FLOAT;
    case WEIR_DOUBLE:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

MPI_Op weirv_mpi_op(weir_op op)
{
    switch (op) {
    case WEIR_PROD:
        return MPI_PROD;
    case WEIR_MAX:
        return MPI_MAX;
    case WEIR_MIN:
        return MPI_MIN;
    default:
        return MPI_SUM;
    }
}

/* The count covers whole vectors and a remainder of every width. */
static int mpi_try_combination(weir_dtype dtype, weir_op op, MPI_Datatype mpi_type)
{
    enum { COUNT = 1021, SEEDS = 4 };
    uint64_t in[COUNT], out[COUNT], right[COUNT]; /* of at most 8 bytes each */
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        weirv_exact_fill(in, 0, COUNT, dtype, op, 0, 2, seed);
        weirv_exact_fill(out, 0, COUNT, dtype, op, 1, 2, seed);
        weirv_exact_result(right, 0, COUNT, dtype, op, 2, seed);
        if (MPI_Reduce_local(in, out, COUNT, mpi_type, weirv_mpi_op(op)) != MPI_SUCCESS ||
            memcmp(out, right, COUNT * weir_dtype_bytes(dtype)) != 0)
            return 0;
    }
    return 1;
}

int weirv_mpi_combines(weir_dtype dtype, weir_op op, MPI_Datatype mpi_type)
{
    enum { UNKNOWN, RIGHT, WRONG };
    static char known[WEIR_DTYPE_COUNT][WEIR_OP_COUNT];
    op = op == WEIR_AVG ? WEIR_SUM : op;
    if (known[dtype][op] == UNKNOWN)
        known[dtype][op] = mpi_try_combination(dtype, op, mpi_type) ? RIGHT : WRONG;
    return known[dtype][op] == RIGHT;
}

static int orders_unsigned(weir_dtype dtype, weir_op op)
{
    return (dtype == WEIR_UINT8 || dtype == WEIR_UINT32 || dtype == WEIR_UINT64) &&
           (op == WEIR_MAX || op == WEIR_MIN);
}

static int mpi_orders_wrongly(void)
{
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEIR_OP_COUNT; op++)
            if (orders_unsigned((weir_dtype)dtype, (weir_op)op) &&
                !weirv_mpi_combines((weir_dtype)dtype, (weir_op)op,
                                    weirv_mpi_type((weir_dtype)dtype)))
                return 1;
    return 0;
}

int weirv_mpi_has(weirv_mpi_fault fault, const char **text)
{
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (fault == WEIRV_MPI_UNSIGNED_ORDER) {
        if (text)
            *text = "MPI_MAX or MPI_MIN compares unsigned integers as signed";
        return mpi_orders_wrongly();
    }
    if (!library[0])
        MPI_Get_library_version(library, &length);
    return weirv_mpi_fault_is_in(library, fault, text);
}

int weirv_mpi_fault_concerns(weirv_mpi_fault fault, weir_collective collective, weir_dtype dtype,
                             weir_op op)
{
    switch (fault) {
    case WEIRV_MPI_REDUCE_IN_PLACE:
        return collective == WEIR_COLL_REDUCE;
    case WEIRV_MPI_UNSIGNED_ORDER:
        return weirv_is_reduction(collective) && orders_unsigned(dtype, op);
    case WEIRV_MPI_FAULTS:
        break;
    }
    return 0;
}
