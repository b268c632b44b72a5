/*
 * The bootstrap of the launcher that started this process, whichever it is.
 *
 * Launchers nest: mpirun runs inside a Slurm job, and srun starts torchrun on every node. The rows
 * below are in the order in which they are tried, so that an inner launcher comes before those that
 * can be around it; torchrun's own workers come before everything. The benchmarks have the same
 * rows (bench/job/launch.c); what differs is that they connect the ranks of an MPI launcher by MPI.
 */
#include "base/env.h"
#include "base/error.h"
#include "boot/one_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum launcher_kind {
    LAUNCHER_MPI,
    LAUNCHER_PMIX,
    LAUNCHER_SLURM,
    LAUNCHER_TORCHRUN
} launcher_kind;

/* The variables of a launcher. */
typedef struct launcher_row {
    launcher_kind kind;
    const char *rank, *size; /* size NULL: the launcher sets none */
    const char *also;        /* a variable that must be set, too; NULL: none */
    const char *local, *job; /* the ranks of this node, the name of the job; NULL: none */
    const char *name;        /* for messages */
} launcher_row;

static const launcher_row rows[] = {
    {LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", NULL, NULL, "torchrun"},
    {LAUNCHER_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL,
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "Open MPI's mpirun"},
    {LAUNCHER_MPI, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL, "MV2_COMM_WORLD_LOCAL_SIZE",
     "PMI_ID", "MVAPICH's launcher"},
    {LAUNCHER_MPI, "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALNRANKS", "PMI_JOBID", "an MPI launcher"},
    {LAUNCHER_PMIX, "PMIX_RANK", NULL, "PMIX_NAMESPACE", NULL, NULL, "a PMIx launcher"},
    {LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", NULL, NULL,
     "srun"},
    {LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NODELIST", NULL, NULL, "srun"},
    {LAUNCHER_MPI, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL, NULL, NULL, "flux"},
    {LAUNCHER_MPI, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", NULL, NULL, NULL, "jsrun"},
    {LAUNCHER_MPI, "PALS_RANKID", NULL, NULL, NULL, NULL, "PALS"},
    {LAUNCHER_MPI, "ALPS_APP_PE", NULL, NULL, NULL, NULL, "ALPS"},
    {LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE", NULL, NULL, NULL, "torchrun"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const char *launcher_variable(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

/* A number from the environment; -1 if the variable has none. */
static int launcher_number(const char *name)
{
    const char *text = launcher_variable(name);
    char *end = NULL;
    const long number = text ? strtol(text, &end, 10) : -1;
    return text && !*end && number >= 0 && number <= 1 << 20 ? (int)number : -1;
}

/* 1 if the row's launcher started this process. A Slurm step of one task, such as an interactive
 * shell, is no launcher; SLURM_NTASKS, which the shell of a larger job has as well, counts only
 * without the number of the step's tasks. */
static int launcher_applies(const launcher_row *row)
{
    if (!launcher_variable(row->rank) || (row->size && !launcher_variable(row->size)) ||
        (row->also && !launcher_variable(row->also)))
        return 0;
    if (row->kind != LAUNCHER_SLURM)
        return 1;
    const char *step = launcher_variable("SLURM_STEP_NUM_TASKS");
    return launcher_number(step ? "SLURM_STEP_NUM_TASKS" : row->size) != 1;
}

static int launcher_has_pmix(void)
{
    return launcher_variable("PMIX_RANK") && launcher_variable("PMIX_NAMESPACE");
}

/* 1 if all ranks of an MPI launcher are on this node. */
static int launcher_is_one_node(const launcher_row *row)
{
    const int nranks = launcher_number(row->size);
    return nranks > 0 && (nranks == 1 || launcher_number(row->local) == nranks) &&
           launcher_number(row->rank) >= 0;
}

/* 1 if the ranks of the row's launcher can be connected without MPI. */
static int launcher_works(const launcher_row *row)
{
    return row->kind != LAUNCHER_MPI || launcher_has_pmix() || launcher_is_one_node(row);
}

static weir_status launcher_join(const launcher_row *row, weir_boot **boot)
{
    if (row->kind == LAUNCHER_TORCHRUN)
        return weir_boot_torchrun_create(boot);
    if (row->kind == LAUNCHER_SLURM)
        return weir_boot_slurm_create(boot);
    if (row->kind == LAUNCHER_PMIX || !launcher_is_one_node(row))
        return weir_boot_pmix_create(boot);
    const char *job = launcher_variable(row->job);
    return weiri_boot_one_node_create(job ? job : "job", launcher_number(row->rank),
                                      launcher_number(row->size), boot);
}

/* 1 if both rows' variables give this process the same rank and the same number of ranks. */
static int launcher_agrees(const launcher_row *row, const launcher_row *other)
{
    return launcher_number(row->rank) == launcher_number(other->rank) &&
           (!row->size || !other->size ||
            launcher_number(row->size) == launcher_number(other->size));
}

/* RANK and WORLD_SIZE beside another launcher's variables must agree with them. */
static weir_status launcher_check_torchrun(const launcher_row *row)
{
    const launcher_row *torchrun = &rows[ROWS - 1];
    if (row->kind == LAUNCHER_TORCHRUN || !launcher_applies(torchrun) ||
        launcher_agrees(row, torchrun))
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "RANK=%s and WORLD_SIZE=%s (torchrun's) contradict %s=%s%s%s%s%s: unset "
                      "those that are not of this run, or name the launcher by WEIR_LAUNCHER",
                      getenv("RANK"), getenv("WORLD_SIZE"), row->rank, getenv(row->rank),
                      row->size ? " and " : "", row->size ? row->size : "", row->size ? "=" : "",
                      row->size ? getenv(row->size) : "");
}

/* Half of torchrun's variables. */
static weir_status launcher_check_halves(void)
{
    const char *set = launcher_variable("RANK") ? "RANK" : "WORLD_SIZE";
    const char *missing = launcher_variable("RANK") ? "WORLD_SIZE" : "RANK";
    if (!launcher_variable("RANK") == !launcher_variable("WORLD_SIZE"))
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s is set but %s is not: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and "
                      "MASTER_PORT; set all of them, or unset %s",
                      set, missing, set);
}

static weir_status launcher_refuse(const launcher_row *row)
{
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "%s is set, so %s started this process, and its variables do not say that "
                      "all ranks are on this node: connect them by MPI (weir_boot_mpi_create; in "
                      "Python weir.init(MPI.COMM_WORLD)), start the program with srun, torchrun or "
                      "a PMIx launcher, or unset %s",
                      row->rank, row->name, row->rank);
}

/* The bootstrap of the launcher that WEIR_LAUNCHER names, whatever else is set. */
static weir_status launcher_join_named(const char *name, weir_boot **boot)
{
    if (strcmp(name, "none") == 0)
        return WEIR_OK;
    if (strcmp(name, "torchrun") == 0)
        return weir_boot_torchrun_create(boot);
    if (strcmp(name, "slurm") == 0)
        return weir_boot_slurm_create(boot);
    if (strcmp(name, "pmix") == 0)
        return weir_boot_pmix_create(boot);
    if (strcmp(name, "mpi") != 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "WEIR_LAUNCHER=%s: expected auto, none, mpi, pmix, slurm or torchrun",
                          name);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].kind == LAUNCHER_MPI && launcher_applies(&rows[i]))
            return launcher_works(&rows[i]) ? launcher_join(&rows[i], boot)
                                            : launcher_refuse(&rows[i]);
    return weiri_fail(WEIR_ERR_INVALID, "WEIR_LAUNCHER=mpi: the variables of this launcher are not "
                                        "set; unset it, or start the program with mpirun");
}

weir_status weir_boot_launcher_create(weir_boot **boot)
{
    const char *name = weiri_env(WEIRI_ENV_LAUNCHER);
    const launcher_row *useless = NULL;
    if (!boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_launcher_create: boot is required");
    *boot = NULL;
    if (name && strcmp(name, "auto") != 0)
        return launcher_join_named(name, boot);
    for (int i = 0; i < ROWS; i++) {
        if (!launcher_applies(&rows[i]))
            continue;
        weir_status status = launcher_check_torchrun(&rows[i]);
        if (status != WEIR_OK)
            return status;
        /* A launcher around the one that cannot be used knows another job. */
        if (!launcher_works(&rows[i]) || (useless && !launcher_agrees(&rows[i], useless))) {
            useless = useless ? useless : &rows[i];
            continue;
        }
        return launcher_join(&rows[i], boot);
    }
    return useless ? launcher_refuse(useless) : launcher_check_halves();
}
