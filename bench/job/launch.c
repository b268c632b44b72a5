/*
 * Finding the launcher in the environment: see launch.h.
 *
 * Launchers nest: mpirun runs inside a Slurm job, and srun starts torchrun on every node. The rows
 * below are in the order in which they are tried, so that an inner launcher comes before those that
 * can be around it; torchrun's own workers come before everything. RANK and WORLD_SIZE that a
 * script exports by hand must not contradict the launcher.
 */
#include "bench/job/launch.h"

#include "base/env.h"
#include "bench/job/mpi.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The variables of a launcher. */
typedef struct launch_row {
    bench_launcher launcher;
    const char *rank, *size; /* size NULL: the launcher sets none */
    const char *also;        /* a variable that must be set, too; NULL: none */
    const char *name;        /* for messages */
} launch_row;

static const launch_row rows[] = {
    {BENCH_LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "torchrun"},
    {BENCH_LAUNCHER_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL,
     "Open MPI's mpirun"},
    {BENCH_LAUNCHER_MPI, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL, "MVAPICH's launcher"},
    {BENCH_LAUNCHER_MPI, "PMI_RANK", "PMI_SIZE", NULL, "an MPI launcher"},
    {BENCH_LAUNCHER_PMIX, "PMIX_RANK", NULL, "PMIX_NAMESPACE", "a PMIx launcher"},
    {BENCH_LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "srun"},
    {BENCH_LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NODELIST", "srun"},
    {BENCH_LAUNCHER_MPI, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL, "flux"},
    {BENCH_LAUNCHER_MPI, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", NULL, "jsrun"},
    {BENCH_LAUNCHER_MPI, "PALS_RANKID", NULL, NULL, "PALS"},
    {BENCH_LAUNCHER_MPI, "ALPS_APP_PE", NULL, NULL, "ALPS"},
    {BENCH_LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE", NULL, "torchrun"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const char *bench_launcher_name(bench_launcher launcher)
{
    static const char *const names[] = {"mpi", "pmix", "slurm", "torchrun", "fork"};
    return names[launcher];
}

__attribute__((format(printf, 2, 3)))
static int launch_refuse(char *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, BENCH_PROBLEM_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

static const char *launch_variable(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

/* A number from the environment; fallback if the variable has none. */
static int launch_number(const char *name, int fallback)
{
    const char *text = launch_variable(name);
    char *end = NULL;
    long number = text ? strtol(text, &end, 10) : -1;
    return text && !*end && number >= 0 && number <= 1 << 20 ? (int)number : fallback;
}

/* 1 if the row's launcher started this process as one of several. A step of one task, such as an
 * interactive shell of Slurm, is none, also if its job has more. */
static int launch_row_applies(const launch_row *row)
{
    if (!launch_variable(row->rank) || (row->size && !launch_variable(row->size)) ||
        (row->also && !launch_variable(row->also)))
        return 0;
    return row->launcher != BENCH_LAUNCHER_SLURM ||
           launch_number("SLURM_STEP_NUM_TASKS", launch_number(row->size, 1)) > 1;
}

/* 1 if this build can use the row's launcher. */
static int launch_row_works(const launch_row *row)
{
    return row->launcher != BENCH_LAUNCHER_MPI || bench_mpi_is_built();
}

static void launch_by(const launch_row *row, int named, bench_launch *launch)
{
    launch->launcher = row->launcher;
    /* An MPI library knows PMIx, and brings the reference and the peer. */
    if (row->launcher == BENCH_LAUNCHER_PMIX && bench_mpi_is_built() && !named)
        launch->launcher = BENCH_LAUNCHER_MPI;
    launch->variable = row->rank;
    launch->rank = launch_number(row->rank, 0);
    launch->nranks = launch_number(row->size, launch_number("SLURM_STEP_NUM_TASKS", 1));
    if (launch->rank >= launch->nranks)
        launch->nranks = launch->rank + 1;
}

/* RANK and WORLD_SIZE beside another launcher's variables must agree with them. */
static int launch_contradicts(const launch_row *row, const bench_launch *launch, char *problem)
{
    if (row->launcher == BENCH_LAUNCHER_TORCHRUN || !launch_variable("RANK") ||
        !launch_variable("WORLD_SIZE"))
        return 0;
    int rank = launch_number("RANK", -1), nranks = launch_number("WORLD_SIZE", -1);
    if (rank == launch->rank && (!row->size || nranks == launch->nranks))
        return 0;
    return launch_refuse(problem,
                         "RANK=%s and WORLD_SIZE=%s (torchrun's) contradict %s=%s%s%s%s%s (%s): "
                         "unset those that are not of this run, or name the launcher by "
                         "WEIR_LAUNCHER=torchrun or %s",
                         getenv("RANK"), getenv("WORLD_SIZE"), row->rank, getenv(row->rank),
                         row->size ? " and " : "", row->size ? row->size : "",
                         row->size ? "=" : "", row->size ? getenv(row->size) : "", row->name,
                         bench_launcher_name(launch->launcher));
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
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(name, bench_launcher_name(rows[i].launcher)) != 0)
            continue;
        known = 1;
        if (!launch_row_applies(&rows[i]) || !launch_row_works(&rows[i]))
            continue;
        launch_by(&rows[i], 1, launch);
        return 0;
    }
    if (!known)
        return launch_refuse(problem,
                             "WEIR_LAUNCHER=%s: expected auto, none, mpi, pmix, slurm or torchrun",
                             name);
    return launch_refuse(problem, "WEIR_LAUNCHER=%s: %s; unset it, or start the program with %s",
                         name,
                         strcmp(name, "mpi") == 0 && !bench_mpi_is_built()
                             ? "this build has no MPI"
                             : "the variables of this launcher are not set",
                         name);
}

/* Half of torchrun's variables. */
static int launch_check_torchrun(char *problem)
{
    const char *set = launch_variable("RANK") ? "RANK" : "WORLD_SIZE";
    const char *missing = launch_variable("RANK") ? "WORLD_SIZE" : "RANK";
    if (!launch_variable("RANK") == !launch_variable("WORLD_SIZE"))
        return 0;
    return launch_refuse(problem,
                         "%s is set but %s is not: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and "
                         "MASTER_PORT; set all of them, or unset %s",
                         set, missing, set);
}

static int launch_refuse_mpi(const launch_row *row, bench_launch *launch, char *problem)
{
    launch->variable = row->rank;
    launch->rank = launch_number(row->rank, 0);
    return launch_refuse(problem,
                         "%s is set, so %s started this process, which needs a build with MPI: "
                         "install an MPI and build again; or start the program with srun, "
                         "torchrun, a PMIx launcher, or itself with -g; or unset %s",
                         row->rank, row->name, row->rank);
}

int bench_launch_find(const bench_options *options, bench_launch *launch, char *problem)
{
    const launch_row *useless = NULL;
    *launch = (bench_launch){.nranks = 1};
    launch->launcher = bench_mpi_is_built() && options->ngpus == 1 ? BENCH_LAUNCHER_MPI
                                                                    : BENCH_LAUNCHER_FORK;
    int named = launch_find_named(launch, problem);
    for (int i = 0; i < ROWS && named == 1; i++) {
        if (!launch_row_applies(&rows[i]))
            continue;
        if (launch_row_works(&rows[i])) {
            launch_by(&rows[i], 0, launch);
            return launch_contradicts(&rows[i], launch, problem);
        }
        useless = useless ? useless : &rows[i];
    }
    if (named != 1)
        return named;
    return useless ? launch_refuse_mpi(useless, launch, problem) : launch_check_torchrun(problem);
}

static const char *launch_started_by(const bench_launch *launch)
{
    for (int i = 0; launch->variable && i < ROWS; i++)
        if (strcmp(rows[i].rank, launch->variable) == 0)
            return rows[i].name;
    return "no launcher";
}

int bench_launch_check_ngpus(const bench_launch *launch, const bench_options *options,
                             char *problem)
{
    if (options->ngpus == 1 || !launch->variable)
        return 0;
    return launch_refuse(problem,
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
            return launch_refuse(problem, "--peer %s: MPI did not start these ranks; %s",
                                 options->peers[i].text, why);
    if (options->verify == BENCH_VERIFY_MPI)
        return launch_refuse(problem,
                             "--verify mpi: MPI did not start these ranks; %s, or give --verify "
                             "exact",
                             why);
    if (options->verify == BENCH_VERIFY_BOTH) {
        options->verify = BENCH_VERIFY_EXACT;
        options->words.verify = "exact";
    }
    return 0;
}

bench_launch bench_launch_of_fork(const bench_launch *launch, weir_boot *boot)
{
    bench_launch forked = *launch;
    forked.boot = boot;
    forked.rank = weir_boot_rank(boot);
    forked.nranks = weir_boot_nranks(boot);
    return forked;
}

int bench_launch_fork(const char *program, int nranks,
                      int (*body)(weir_boot *boot, void *argument), void *argument)
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
