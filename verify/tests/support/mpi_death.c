/*
 * A library to preload that kills a rank of an MPI job with SIGKILL while it sets up, or stops it
 * with SIGSTOP if DEATH_STOPS is set: rank DEATH_RANK dies in its DEATH_CALL-th call of
 * MPI_Iallgather, which the bootstrap over MPI makes, or if DEATH_WAITS is set when it first tests
 * whether that call is complete, which it then is not; with DEATH_CALL=0 at the end of
 * MPI_Init_thread. If SLOW_MS is set, all ranks sleep so long in their calls of MPI_Iallgather from
 * number SLOW_FROM to number SLOW_TO.
 */
#include <mpi.h>

#include <signal.h>
#include <stdlib.h>
#include <time.h>

static int number(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : -1;
}

static void die_at(int call)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == number("DEATH_RANK") && call == number("DEATH_CALL"))
        raise(getenv("DEATH_STOPS") ? SIGSTOP : SIGKILL);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int error = PMPI_Init_thread(argc, argv, required, provided);
    die_at(0);
    return error;
}

static int exchanges; /* calls of MPI_Iallgather */

int MPI_Iallgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request *request)
{
    exchanges++;
    if (exchanges >= number("SLOW_FROM") && exchanges <= number("SLOW_TO")) {
        const int ms = number("SLOW_MS");
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
    }
    if (!getenv("DEATH_WAITS"))
        die_at(exchanges);
    return PMPI_Iallgather(in, in_count, in_type, out, out_count, out_type, comm, request);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    static int waits_of;
    if (getenv("DEATH_WAITS") && waits_of != exchanges) {
        waits_of = exchanges;
        die_at(exchanges);
        *done = 0;
        return MPI_SUCCESS;
    }
    return PMPI_Test(request, done, status);
}
