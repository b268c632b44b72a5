/* The communicator of a job that MPI started, for files that call MPI: *_mpi.c. */
#ifndef BENCH_JOB_MPI_COMM_H
#define BENCH_JOB_MPI_COMM_H

#include "bench/job/mpi.h"

#include "base/mpi_names.h"

struct bench_mpi {
    MPI_Comm comm;  /* a duplicate of MPI_COMM_WORLD */
    MPI_Comm group; /* of this rank's group; of one group `comm` itself */
    int has_threads;
};

#endif
