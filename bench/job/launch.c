/* Finding the launcher in the environment, by the rows of base/launchers.h: see launch.h. */
#include "bench/job/launch.h"

#include "base/env.h"
#include "base/launchers.h"
#include "bench/job/mpi.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)BENCH_LAUNCHER_MPI == (int)WEIRI_LAUNCHER_MPI &&
                   (int)BENCH_LAUNCHER_PMIX == (int)WEIRI_LAUNCHER_PMIX &&
                   (int)BENCH_LAUNCHER_SLURM == (int)WEIRI_LAUNCHER_SLURM &&
                   (int)BENCH_LAUNCHER_TORCHRUN == (int)WEIRI_LAUNCHER_TORCHRUN,
               "a bench_launcher is a weiri_launcher_kind or BENCH_LAUNCHER_FORK");
_Static_assert((int)BENCH_PROBLEM_BYTES >= (int)WEIRI_LAUNCHER_PROBLEM_BYTES,
               "the lines of base/launchers.h fit");

const char *bench_launcher_name(bench_launcher launcher)
{
    return launcher == BENCH_LAUNCHER_FORK
               ? "fork"
               : weiri_launcher_kind_name((weiri_launcher_kind)launcher);
}

/* A number from the environment; fallback if the variable has none. */
static int launch_number(const char *name, int fallback)
{
    const int number = weiri_launcher_number(name);
    return number < 0 ? fallback : number;
}

/* 1 if this build can use the row's launcher. */
static int launch_row_works(const weiri_launcher_row *row)
{
    return row->kind != WEIRI_LAUNCHER_MPI || bench_mpi_is_built();
}

static void launch_by(const weiri_launcher_row *row, int named, bench_launch *launch)
{
    launch->launcher = (bench_launcher)row->kind;
    /* An MPI library knows PMIx, and brings the reference and the peer. */
    if (row->kind == WEIRI_LAUNCHER_PMIX && bench_mpi_is_built() && !named)
        launch->launcher = BENCH_LAUNCHER_MPI;
    launch->variable = row->rank;
    launch->rank = launch_number(row->rank, 0);
    launch->nranks = launch_number(row->size, launch_number("SLURM_STEP_NUM_TASKS", 1));
    if (launch->rank >= launch->nranks)
        launch->nranks = launch->rank + 1;
}

/* The launcher that WEIR_LAUNCHER names. Returns 0, 1 if it leaves the choice open, or -1. */
static int launch_find_named(bench_launch *launch, char *problem)
{
    const char *name = weiri_env(WEIRI_ENV_LAUNCHER);
    if (!name || strcmp(name, "auto") == 0)
        return 1;
    if (strcmp(name, "none") == 0)
        return 0;
    int known = 0;
    for (int i = 0; i < weiri_nlaunchers; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (strcmp(name, weiri_launcher_kind_name(row->kind)) != 0)
            continue;
        known = 1;
        if (!weiri_launcher_applies(row) || !launch_row_works(row))
            continue;
        launch_by(row, 1, launch);
        return 0;
    }
    if (!known)
        return bench_refuse(
            problem, "WEIR_LAUNCHER=%s: expected auto, none, mpi, pmix, slurm or torchrun", name);
    return bench_refuse(problem, "WEIR_LAUNCHER=%s: %s; unset it, or start the program with %s",
                        name,
                        strcmp(name, "mpi") == 0 && !bench_mpi_is_built()
                            ? "this build has no MPI"
                            : "the variables of this launcher are not set",
                        name);
}

static int launch_refuse_mpi(const weiri_launcher_row *row, bench_launch *launch, char *problem)
{
    launch->variable = row->rank;
    launch->rank = launch_number(row->rank, 0);
    return bench_refuse(problem,
                        "%s is set, so %s started this process, which needs a build with MPI: "
                        "install an MPI and build again; or start the program with srun, "
                        "torchrun, a PMIx launcher, or itself with -g; or unset %s",
                        row->rank, row->name, row->rank);
}

int bench_launch_find(const bench_options *options, bench_launch *launch, char *problem)
{
    const weiri_launcher_row *useless = NULL;
    *launch = (bench_launch){.nranks = 1};
    launch->launcher =
        bench_mpi_is_built() && options->ngpus == 1 ? BENCH_LAUNCHER_MPI : BENCH_LAUNCHER_FORK;
    int named = launch_find_named(launch, problem);
    for (int i = 0; i < weiri_nlaunchers && named == 1; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (!weiri_launcher_applies(row))
            continue;
        if (launch_row_works(row)) {
            launch_by(row, 0, launch);
            return weiri_launcher_contradiction(row, problem) ? -1 : 0;
        }
        useless = useless ? useless : row;
    }
    if (named != 1)
        return named;
    if (useless)
        return launch_refuse_mpi(useless, launch, problem);
    return weiri_launcher_half(problem) ? -1 : 0;
}

static const char *launch_started_by(const bench_launch *launch)
{
    for (int i = 0; launch->variable && i < weiri_nlaunchers; i++)
        if (strcmp(weiri_launchers[i].rank, launch->variable) == 0)
            return weiri_launchers[i].name;
    return "no launcher";
}

int bench_launch_check_ngpus(const bench_launch *launch, const bench_options *options,
                             char *problem)
{
    if (options->ngpus == 1 || !launch->variable)
        return 0;
    return bench_refuse(problem,
                        "-g %d under a launcher (%s, %s is set): -g starts ranks without one; "
                        "leave -g out and start %d times as many ranks with the launcher, or "
                        "set WEIR_LAUNCHER=none",
                        options->ngpus, launch_started_by(launch), launch->variable,
                        options->ngpus);
}

int bench_launch_check(const bench_launch *launch, bench_options *options, char *problem)
{
    if (launch->launcher == BENCH_LAUNCHER_MPI)
        return 0;
    const char *why = bench_mpi_is_built() ? "start the ranks with mpirun"
                                           : "build with MPI and start the ranks with mpirun";
    for (int i = 0; i < options->npeers; i++)
        if (options->peers[i].needs & BENCH_PEER_NEEDS_MPI)
            return bench_refuse(problem, "--peer %s: MPI did not start these ranks; %s",
                                options->peers[i].text, why);
    if (options->verify == BENCH_VERIFY_MPI)
        return bench_refuse(problem,
                            "--verify mpi: MPI did not start these ranks; %s, or give --verify "
                            "exact",
                            why);
    if (options->verify == BENCH_VERIFY_BOTH)
        options->verify = BENCH_VERIFY_EXACT;
    return 0;
}

/* 1 in a process that bench_launch_fork forked. */
static int launch_is_forked;

bench_launch bench_launch_of_fork(const bench_launch *launch, weir_boot *boot)
{
    bench_launch forked = *launch;
    launch_is_forked = 1;
    forked.boot = boot;
    forked.rank = weir_boot_rank(boot);
    forked.nranks = weir_boot_nranks(boot);
    return forked;
}

void bench_launch_identity(weiri_job_identity *identity)
{
    int row = 0;
    while (row < weiri_nlaunchers && !weiri_launcher_applies(&weiri_launchers[row]))
        row++;
    const int has_launcher = row < weiri_nlaunchers && !launch_is_forked;
    weiri_job_identity_find(has_launcher ? &weiri_launchers[row] : NULL, identity);
}

int bench_launch_fork(const char *program, int nranks, int (*body)(weir_boot *boot, void *argument),
                      void *argument)
{
    enum { LONGEST_MS = 0x7fffffff, SIGNALLED = 128, SIGNALS = 64 };
    int codes[WEIR_RANKS_MAX] = {0}, worst = 0, killed = 0;
    weir_status status = weir_boot_fork_run(nranks, body, argument, LONGEST_MS, codes);
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: -g %d: %s\n", program, nranks, weir_last_error());
        return weir_status_exit_code(status);
    }
    for (int rank = 0; rank < nranks; rank++) {
        int signal = codes[rank] - SIGNALLED;
        if (signal > 0 && signal <= SIGNALS) {
            fprintf(stderr, "%s: rank %d was ended by signal %d (%s)\n", program, rank, signal,
                    strsignal(signal));
            killed = 1;
        } else if (codes[rank] > worst) {
            worst = codes[rank];
        }
    }
    return killed && !worst ? weir_status_exit_code(WEIR_ERR_PEER) : worst;
}
