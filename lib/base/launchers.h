/*
 * The variables by which a process learns its rank from its launcher: what
 * weir_boot_launcher_create and the benchmarks (bench/job/launch.c) know of launchers. They differ
 * in what they do with it: the benchmarks connect the ranks of an MPI launcher by MPI. All
 * functions are local.
 *
 * Launchers nest: mpirun runs inside a Slurm job, and srun starts torchrun on every node. The rows
 * are in the order in which they are tried, so that an inner launcher comes before those that can
 * be around it; torchrun's own workers come before everything. RANK and WORLD_SIZE that a script
 * exports by hand must not contradict the launcher.
 */
#ifndef WEIR_BASE_LAUNCHERS_H
#define WEIR_BASE_LAUNCHERS_H

#include <stddef.h>

typedef enum weiri_launcher_kind {
    WEIRI_LAUNCHER_MPI,      /* mpirun of any MPI */
    WEIRI_LAUNCHER_PMIX,     /* prterun, srun --mpi=pmix */
    WEIRI_LAUNCHER_SLURM,    /* srun without a PMI */
    WEIRI_LAUNCHER_TORCHRUN, /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT */
} weiri_launcher_kind;

/* The MPI libraries whose processes a launcher can connect. */
typedef enum weiri_launcher_mpi {
    WEIRI_MPI_ANY,
    WEIRI_MPI_OPENMPI,
    WEIRI_MPI_MPICH /* and those derived from it */
} weiri_launcher_mpi;

/* The variables of a launcher. */
typedef struct weiri_launcher_row {
    weiri_launcher_kind kind;
    const char *rank, *size; /* size NULL: the launcher sets none */
    const char *also;        /* a variable that must be set, too; NULL: none */
    const char *local, *job; /* the ranks of this node, the name of the job; NULL: none */
    const char *name;        /* for messages */
    weiri_launcher_mpi mpi;
} weiri_launcher_row;

extern const weiri_launcher_row weiri_launchers[];
extern const int weiri_nlaunchers;

/* "mpi", "pmix", "slurm" or "torchrun", as WEIR_LAUNCHER names them. */
const char *weiri_launcher_kind_name(weiri_launcher_kind kind);
/* A variable; NULL if name is NULL, or the variable is not set or empty. */
const char *weiri_launcher_variable(const char *name);
/* A number from the environment; -1 if the variable has none. */
int weiri_launcher_number(const char *name);
/* 1 if the row's launcher started this process. A Slurm step of one task, such as an interactive
 * shell, is no launcher, also if its job has more. */
int weiri_launcher_applies(const weiri_launcher_row *row);
/* 1 if both rows' variables give this process the same rank and the same number of ranks. */
int weiri_launcher_agrees(const weiri_launcher_row *row, const weiri_launcher_row *other);

/* The row of the launcher that started this process: the first that applies, of the kind that
 * WEIR_LAUNCHER names if it does. NULL: none. */
const weiri_launcher_row *weiri_launcher_of_process(void);

enum { WEIRI_LAUNCHER_PROBLEM_BYTES = 512 };
/* Writes a line about RANK and WORLD_SIZE that contradict the row's variables. Returns 0 if they do
 * not. */
int weiri_launcher_contradiction(const weiri_launcher_row *row,
                                 char problem[WEIRI_LAUNCHER_PROBLEM_BYTES]);
/* Writes a line about one of RANK and WORLD_SIZE without the other. Returns 0 if there is none. */
int weiri_launcher_half(char problem[WEIRI_LAUNCHER_PROBLEM_BYTES]);

#endif
