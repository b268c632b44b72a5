/*
 * MPI as the benchmarks use it: the launcher of a job, whose ranks it connects by weir's bootstrap;
 * and beside that the reference of verification and a peer, which need its communicator
 * (mpi_comm.h). The library is opened when the launcher is found (launch.h). A job that
 * another launcher started has no bench_mpi.
 */
#ifndef BENCH_JOB_MPI_H
#define BENCH_JOB_MPI_H

#include <weir/weir.h>

typedef struct bench_mpi bench_mpi;

/* Before bench_mpi_start: MPI will be called by several threads at once; else by one. */
void bench_mpi_use_threads(void);
/* Whether the library allows this. Local. */
int bench_mpi_has_threads(const bench_mpi *mpi);
/* Starts MPI. Collective over the ranks that the launcher started; blocks without a deadline. If
 * MPI_Init fails, the process ends: mpi_guard.h says how, and what program and rank are. */
bench_mpi *bench_mpi_start(const char *program, int rank);
/* Creates a bootstrap of all ranks. Collective. */
weir_status bench_mpi_boot(bench_mpi *mpi, weir_boot **boot);
/* Gives the ranks of each color a communicator of their own, in the order of key. Collective. */
void bench_mpi_divide(bench_mpi *mpi, int color, int key);
/* Ends MPI; NULL is allowed. Collective. */
void bench_mpi_end(bench_mpi *mpi);
/* Writes what the library calls itself, as one or more lines; empty if mpi is NULL. Local. */
void bench_mpi_version(const bench_mpi *mpi, char *text, size_t bytes);

#endif
