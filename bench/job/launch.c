/* Finding the launcher in the environment, by the rows of base/launchers.h: see launch.h. */
#include "bench/job/launch.h"

#include "base/env.h"
#include "base/launchers.h"
#include "base/mpi_open.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Opens the MPI library of the row's launcher. Returns 1 if there is one; launch->no_mpi gets the
 * reason if not. */
static int launch_opens_mpi(const weiri_launcher_row *row, bench_launch *launch)
{
    const weir_status status = weiri_mpi_open(row);
    if (status == WEIR_OK)
        return 1;
    if (!*launch->no_mpi)
        snprintf(launch->no_mpi, sizeof launch->no_mpi, "%s", weir_last_error());
    launch->is_refused |= status != WEIR_ERR_UNSUPPORTED;
    return 0;
}

/* 1 if the row's launcher can be used. */
static int launch_row_works(const weiri_launcher_row *row, bench_launch *launch)
{
    return row->kind != WEIRI_LAUNCHER_MPI || launch_opens_mpi(row, launch);
}

static void launch_by(const weiri_launcher_row *row, int named, bench_launch *launch)
{
    launch->launcher = (bench_launcher)row->kind;
    /* An MPI library knows PMIx, and brings the reference and the peer. */
    if (row->kind == WEIRI_LAUNCHER_PMIX && !named && launch_opens_mpi(row, launch))
        launch->launcher = BENCH_LAUNCHER_MPI;
    launch->variable = row->rank;
    launch->rank = launch_number(row->rank, 0);
    launch->nranks = launch_number(row->size, launch_number("SLURM_STEP_NUM_TASKS", 1));
    if (launch->rank >= launch->nranks)
        launch->nranks = launch->rank + 1;
}

static int launch_refuse_mpi(const weiri_launcher_row *row, bench_launch *launch, char *problem)
{
    launch->variable = row->rank;
    launch->rank = launch_number(row->rank, 0);
    launch->is_refused = 1;
    return bench_refuse(problem, "%s started this process (%s=%d): %s", row->name, row->rank,
                        launch->rank, launch->no_mpi);
}

/* The launcher that WEIR_LAUNCHER names. Returns 0, 1 if it leaves the choice open, or -1. */
static int launch_find_named(bench_launch *launch, char *problem)
{
    const char *name = weiri_env(WEIRI_ENV_LAUNCHER);
    if (!name || strcmp(name, "auto") == 0)
        return 1;
    if (strcmp(name, "none") == 0)
        return 0;
    const weiri_launcher_row *useless = NULL;
    int known = 0;
    for (int i = 0; i < weiri_nlaunchers; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (strcmp(name, weiri_launcher_kind_name(row->kind)) != 0)
            continue;
        known = 1;
        if (!weiri_launcher_applies(row))
            continue;
        if (launch_row_works(row, launch)) {
            launch_by(row, 1, launch);
            return 0;
        }
        useless = row;
    }
    if (useless)
        return launch_refuse_mpi(useless, launch, problem);
    if (!known)
        return bench_refuse(
            problem, "WEIR_LAUNCHER=%s: expected auto, none, mpi, pmix, slurm or torchrun", name);
    return bench_refuse(problem,
                        "WEIR_LAUNCHER=%s: the variables of this launcher are not set; unset it, "
                        "or start the program with %s",
                        name, name);
}

int bench_launch_find(bench_launch *launch, char *problem)
{
    const weiri_launcher_row *useless = NULL;
    *launch = (bench_launch){.launcher = BENCH_LAUNCHER_FORK, .nranks = 1};
    int named = launch_find_named(launch, problem);
    for (int i = 0; i < weiri_nlaunchers && named == 1; i++) {
        const weiri_launcher_row *row = &weiri_launchers[i];
        if (!weiri_launcher_applies(row))
            continue;
        if (launch_row_works(row, launch)) {
            launch_by(row, 0, launch);
            if (launch->is_refused)
                return launch_refuse_mpi(row, launch, problem);
            return weiri_launcher_contradiction(row, problem) ? -1 : 0;
        }
        useless = useless ? useless : row;
        if (launch->is_refused)
            break;
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
    char why[sizeof launch->no_mpi + 64];
    snprintf(why, sizeof why, "%s%s", *launch->no_mpi ? "" : "start the ranks with mpirun",
             launch->no_mpi);
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

static weiri_job_identity launch_known_identity;

static void launch_find_identity(void)
{
    int row = 0;
    while (row < weiri_nlaunchers && !weiri_launcher_applies(&weiri_launchers[row]))
        row++;
    const int has_launcher = row < weiri_nlaunchers && !launch_is_forked;
    weiri_job_identity_find(has_launcher ? &weiri_launchers[row] : NULL, &launch_known_identity);
}

void bench_launch_identity(weiri_job_identity *identity)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, launch_find_identity);
    *identity = launch_known_identity;
}

/* Shared with the ranks, which write their process ids; NULL: SIGTERM is not passed on. */
static struct launch_children {
    volatile sig_atomic_t term_came;
    int count;
    pid_t pids[WEIR_RANKS_MAX];
} * launch_children;

static void launch_pass_term(int number)
{
    launch_children->term_came = 1;
    for (int i = 0; i < launch_children->count; i++)
        if (launch_children->pids[i] > 0)
            kill(launch_children->pids[i], number);
}

void bench_launch_pass_term(int nranks)
{
    const struct sigaction action = {.sa_handler = launch_pass_term, .sa_flags = SA_RESTART};
    void *shared = mmap(NULL, sizeof *launch_children, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return;
    launch_children = shared;
    launch_children->count = nranks;
    sigaction(SIGTERM, &action, NULL);
}

void bench_launch_note_child(int rank)
{
    if (!launch_children)
        return;
    signal(SIGTERM, SIG_DFL);
    launch_children->pids[rank] = getpid();
    if (launch_children->term_came)
        raise(SIGTERM);
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
