/* The rows of launchers, and how their variables are read: see launchers.h. */
#include "base/launchers.h"

#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const weiri_launcher_row weiri_launchers[] = {
    {WEIRI_LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", NULL, NULL, "torchrun",
     WEIRI_MPI_ANY},
    {WEIRI_LAUNCHER_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL,
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "Open MPI's mpirun", WEIRI_MPI_OPENMPI},
    {WEIRI_LAUNCHER_MPI, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL,
     "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_ID", "MVAPICH's launcher", WEIRI_MPI_MPICH},
    {WEIRI_LAUNCHER_MPI, "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALNRANKS", "PMI_JOBID",
     "an MPI launcher", WEIRI_MPI_MPICH},
    {WEIRI_LAUNCHER_PMIX, "PMIX_RANK", NULL, "PMIX_NAMESPACE", NULL, NULL, "a PMIx launcher",
     WEIRI_MPI_OPENMPI},
    {WEIRI_LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", NULL,
     NULL, "srun", WEIRI_MPI_ANY},
    {WEIRI_LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NODELIST", NULL, NULL,
     "srun", WEIRI_MPI_ANY},
    {WEIRI_LAUNCHER_MPI, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL, NULL, NULL, "flux",
     WEIRI_MPI_ANY},
    {WEIRI_LAUNCHER_MPI, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", NULL, NULL, NULL, "jsrun",
     WEIRI_MPI_OPENMPI},
    {WEIRI_LAUNCHER_MPI, "PALS_RANKID", NULL, NULL, NULL, NULL, "PALS", WEIRI_MPI_MPICH},
    {WEIRI_LAUNCHER_MPI, "ALPS_APP_PE", NULL, NULL, NULL, NULL, "ALPS", WEIRI_MPI_MPICH},
    {WEIRI_LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE", NULL, NULL, NULL, "torchrun", WEIRI_MPI_ANY},
};
const int weiri_nlaunchers = sizeof weiri_launchers / sizeof weiri_launchers[0];

const char *weiri_launcher_kind_name(weiri_launcher_kind kind)
{
    static const char *const names[] = {"mpi", "pmix", "slurm", "torchrun"};
    return names[kind];
}

const char *weiri_launcher_variable(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

int weiri_launcher_number(const char *name)
{
    const char *text = weiri_launcher_variable(name);
    char *end = NULL;
    const long number = text ? strtol(text, &end, 10) : -1;
    return text && !*end && number >= 0 && number <= 1 << 20 ? (int)number : -1;
}

/* SLURM_NTASKS, which the shell of a larger job has as well, counts only without the number of the
 * step's tasks. */
int weiri_launcher_applies(const weiri_launcher_row *row)
{
    if (!weiri_launcher_variable(row->rank) || (row->size && !weiri_launcher_variable(row->size)) ||
        (row->also && !weiri_launcher_variable(row->also)))
        return 0;
    if (row->kind != WEIRI_LAUNCHER_SLURM)
        return 1;
    const char *step = weiri_launcher_variable("SLURM_STEP_NUM_TASKS");
    return weiri_launcher_number(step ? "SLURM_STEP_NUM_TASKS" : row->size) != 1;
}

int weiri_launcher_agrees(const weiri_launcher_row *row, const weiri_launcher_row *other)
{
    return weiri_launcher_number(row->rank) == weiri_launcher_number(other->rank) &&
           (!row->size || !other->size ||
            weiri_launcher_number(row->size) == weiri_launcher_number(other->size));
}

const weiri_launcher_row *weiri_launcher_of_process(void)
{
    const char *name = weiri_env(WEIRI_ENV_LAUNCHER);
    const int any = !name || strcmp(name, "auto") == 0;
    for (int i = 0; i < weiri_nlaunchers; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (weiri_launcher_applies(row) &&
            (any || strcmp(name, weiri_launcher_kind_name(row->kind)) == 0))
            return row;
    }
    return NULL;
}

int weiri_launcher_contradiction(const weiri_launcher_row *row,
                                 char problem[WEIRI_LAUNCHER_PROBLEM_BYTES])
{
    const weiri_launcher_row *torchrun = &weiri_launchers[weiri_nlaunchers - 1];
    if (row->kind == WEIRI_LAUNCHER_TORCHRUN || !weiri_launcher_applies(torchrun) ||
        weiri_launcher_agrees(row, torchrun))
        return 0;
    snprintf(problem, WEIRI_LAUNCHER_PROBLEM_BYTES,
             "RANK=%s and WORLD_SIZE=%s (torchrun's) contradict %s=%s%s%s%s%s: unset those that "
             "are not of this run, or name the launcher by WEIR_LAUNCHER=torchrun or %s (%s)",
             getenv("RANK"), getenv("WORLD_SIZE"), row->rank, getenv(row->rank),
             row->size ? " and " : "", row->size ? row->size : "", row->size ? "=" : "",
             row->size ? getenv(row->size) : "", weiri_launcher_kind_name(row->kind), row->name);
    return 1;
}

int weiri_launcher_half(char problem[WEIRI_LAUNCHER_PROBLEM_BYTES])
{
    const char *rank = weiri_launcher_variable("RANK");
    const char *size = weiri_launcher_variable("WORLD_SIZE");
    const char *set = rank ? "RANK" : "WORLD_SIZE", *missing = rank ? "WORLD_SIZE" : "RANK";
    if (!rank == !size)
        return 0;
    snprintf(problem, WEIRI_LAUNCHER_PROBLEM_BYTES,
             "%s is set but %s is not: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and "
             "MASTER_PORT; set all of them, or unset %s",
             set, missing, set);
    return 1;
}
