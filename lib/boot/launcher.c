/* The bootstrap of the launcher that started this process, whichever it is (launchers.h). */
#include "base/env.h"
#include "base/error.h"
#include "base/launchers.h"
#include "base/mpi_names.h"
#include "base/mpi_open.h"
#include "boot/one_node.h"

#include <string.h>

/* 1 if all ranks of an MPI launcher are on this node. */
static int launcher_is_one_node(const weiri_launcher_row *row)
{
    const int nranks = weiri_launcher_number(row->size);
    return nranks > 0 && (nranks == 1 || weiri_launcher_number(row->local) == nranks) &&
           weiri_launcher_number(row->rank) >= 0;
}

/* 1 if the ranks of the row's launcher can be connected without MPI. */
static int launcher_works(const weiri_launcher_row *row)
{
    return row->kind != WEIRI_LAUNCHER_MPI ||
           (weiri_launcher_variable("PMIX_RANK") && weiri_launcher_variable("PMIX_NAMESPACE")) ||
           launcher_is_one_node(row);
}

static weir_status launcher_join(const weiri_launcher_row *row, weir_boot **boot)
{
    if (row->kind == WEIRI_LAUNCHER_TORCHRUN)
        return weir_boot_torchrun_create(boot);
    if (row->kind == WEIRI_LAUNCHER_SLURM)
        return weir_boot_slurm_create(boot);
    if (row->kind == WEIRI_LAUNCHER_PMIX || !launcher_is_one_node(row))
        return weir_boot_pmix_create(boot);
    return weiri_boot_one_node_create(row, weiri_launcher_number(row->rank),
                                      weiri_launcher_number(row->size), boot);
}

/* Connects the ranks by MPI if the program has started MPI; else only MPI could connect them. */
static weir_status launcher_join_by_mpi(const weiri_launcher_row *row, weir_boot **boot)
{
    int is_started = 0;
    if (weiri_mpi_open(row) == WEIR_OK)
        MPI_Initialized(&is_started);
    if (is_started)
        return weir_boot_mpi_create_from(&weiri_mpi, MPI_COMM_WORLD, boot);
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
    for (int i = 0; i < weiri_nlaunchers; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (row->kind == WEIRI_LAUNCHER_MPI && weiri_launcher_applies(row))
            return launcher_works(row) ? launcher_join(row, boot) : launcher_join_by_mpi(row, boot);
    }
    return weiri_fail(WEIR_ERR_INVALID, "WEIR_LAUNCHER=mpi: the variables of this launcher are not "
                                        "set; unset it, or start the program with mpirun");
}

weir_status weir_boot_launcher_create(weir_boot **boot)
{
    const char *name = weiri_env(WEIRI_ENV_LAUNCHER);
    const weiri_launcher_row *useless = NULL;
    char problem[WEIRI_LAUNCHER_PROBLEM_BYTES];
    if (!boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_launcher_create: boot is required");
    *boot = NULL;
    if (name && strcmp(name, "auto") != 0)
        return launcher_join_named(name, boot);
    for (int i = 0; i < weiri_nlaunchers; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (!weiri_launcher_applies(row))
            continue;
        if (weiri_launcher_contradiction(row, problem))
            return weiri_fail(WEIR_ERR_INVALID, "%s", problem);
        /* A launcher around the one that cannot be used knows another job. */
        if (launcher_works(row) && (!useless || weiri_launcher_agrees(row, useless)))
            return launcher_join(row, boot);
        useless = useless ? useless : row;
    }
    if (useless)
        return launcher_join_by_mpi(useless, boot);
    return weiri_launcher_half(problem) ? weiri_fail(WEIR_ERR_INVALID, "%s", problem) : WEIR_OK;
}
