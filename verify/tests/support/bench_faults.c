/*
 * A library to preload that makes MPI_Allreduce or arithmetic give wrong results, to test what a
 * benchmark does with wrong data. BENCH_FAULT selects the fault:
 *
 *   peer        results of type float: the peer library that is measured is wrong
 *   peer-late   the same in place, but not the first two times, before the timed loop
 *   reference   blocks of type double, in place: the reference of verification is wrong, so weir's
 *               results appear wrong
 *   late        the same, but not the first two times, before the timed loop: as if only the timed
 *               iterations had left wrong data
 *   flush       MPI_Init leaves a processor that treats subnormal numbers as 0
 *   flush-load  the same when the library is loaded, before main
 *
 * All but the last two make one element wrong, by far more than any rounding: index 1 on the last
 * rank.
 */
#include <mpi.h>

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static int wants(const char *fault)
{
    const char *value = getenv("BENCH_FAULT");
    return value && strcmp(value, fault) == 0;
}

#if defined(__x86_64__)
static void flush(void)
{
    enum { ZERO_INPUTS = 0x40, ZERO_RESULTS = 0x8000 };
    _mm_setcsr(_mm_getcsr() | ZERO_INPUTS | ZERO_RESULTS);
}

__attribute__((constructor)) static void flush_at_load(void)
{
    if (wants("flush-load"))
        flush();
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    const int error = PMPI_Init_thread(argc, argv, wanted, provided);
    if (wants("flush"))
        flush();
    return error;
}
#endif

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int references, peers_in_place;
    int rank = 0, nranks = 0;
    int error = PMPI_Allreduce(in, out, count, type, op, comm);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &nranks);
    if (rank != nranks - 1 || count < 2)
        return error;
    peers_in_place += type == MPI_FLOAT && in == MPI_IN_PLACE;
    if (type == MPI_FLOAT &&
        (wants("peer") || (wants("peer-late") && in == MPI_IN_PLACE && peers_in_place > 2)))
        ((float *)out)[1] += 1;
    if (type != MPI_DOUBLE || in != MPI_IN_PLACE)
        return error;
    references++;
    if (wants("reference") || (wants("late") && references > 2))
        ((double *)out)[1] += 1e9;
    return error;
}
