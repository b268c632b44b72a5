/*
 * MPI_Init, and an MPI library that ends the process in it: by exit, by a signal, or by asking the
 * launcher to abort the job. Each becomes one line that names library and launcher, and exit code
 * 3. Without the guard a launcher of MPICH's family would end with a part of MPI's error code.
 *
 * A library asks such a launcher over the socket whose number is in PMI_FD. While MPI_Init runs, a
 * thread stands between the two and passes on all but the request to abort; then the library gets
 * its socket back. An abort over PMIx, as of Open MPI's libraries, is not seen: it ends with the
 * launcher's own code.
 */
#ifndef BENCH_JOB_MPI_GUARD_H
#define BENCH_JOB_MPI_GUARD_H

/* Begins before MPI_Init, and ends after it. program: as in the line; rank: what the launcher's
 * variables say. One rank of a node prints. Local; once in a process. */
void bench_mpi_guard_begin(const char *program, int rank);
void bench_mpi_guard_end(void);

#endif
