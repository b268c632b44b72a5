/*
 * Proves that weir_boot_launcher_create follows the launcher that docs/user/launching.md names,
 * when the variables of several are set, and that it refuses what only MPI can connect. The
 * launchers' variables are set by hand.
 */
#include "verify/tests/conformance/boot_conformance.h"
#include "verify/tests/support/comm_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Removes every variable of a launcher, also those of the one that started this test. */
static void forget_launchers(void)
{
    static const char *const words[] = {"RANK=", "WORLD_SIZE=", "MASTER_", "TORCHELASTIC_", "OMPI_",
                                        "PMI",   "MPI_",        "MV2_",    "SLURM_",        "FLUX_",
                                        "JSM_",  "PALS_",       "ALPS_",   "WEIR_LAUNCHER="};
    for (char **entry = environ; *entry;) {
        size_t word = 0;
        const size_t words_count = sizeof words / sizeof *words;
        while (word < words_count && strncmp(*entry, words[word], strlen(words[word])) != 0)
            word++;
        if (word == words_count) {
            entry++;
            continue;
        }
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        unsetenv(name);
        entry = environ;
    }
}

/* Sets the variables of a list "A=1 B=2", and those alone. */
static void launch_by(const char *variables)
{
    char list[512];
    forget_launchers();
    snprintf(list, sizeof list, "%s", variables);
    for (char *at = list, *entry; (entry = strsep(&at, " "));) {
        char *value = strchr(entry, '=');
        if (!value)
            continue;
        *value = '\0';
        setenv(entry, value + 1, 1);
    }
}

#define OPEN_MPI(rank, size)                                                                       \
    "OMPI_COMM_WORLD_RANK=" #rank " OMPI_COMM_WORLD_SIZE=" #size                                   \
    " OMPI_COMM_WORLD_LOCAL_SIZE=" #size " "
#define HYDRA(rank, size, local) "PMI_RANK=" #rank " PMI_SIZE=" #size " MPI_LOCALNRANKS=" #local " "
#define STEP(rank, size)                                                                           \
    "SLURM_PROCID=" #rank " SLURM_STEP_NUM_TASKS=" #size                                           \
    " SLURM_NTASKS=4 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=9 SLURM_STEP_ID=0 "
#define PMIX "PMIX_RANK=0 PMIX_NAMESPACE=n WEIR_PMIX_SO=/no/libpmix.so "
#define TORCHRUN(rank, size) "RANK=" #rank " WORLD_SIZE=" #size " "

/* What happens for an environment: a status, and words of the error line. Without an address
 * torchrun's variables are an error that names it, and without libpmix so are those of PMIx, so
 * that the launcher that was chosen shows. */
typedef struct launch_case {
    const char *variables;
    weir_status status;
    const char *words; /* NULL: no bootstrap, or with nranks > 0 one of nranks ranks */
    int nranks;
} launch_case;

static const launch_case cases[] = {
    {"", WEIR_OK, NULL, 0},
    /* A shell of Slurm, a script of sbatch, and what surrounds them. */
    {STEP(0, 1), WEIR_OK, NULL, 0},
    {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=9", WEIR_OK, NULL, 0},
    {STEP(0, 1) OPEN_MPI(0, 1), WEIR_OK, NULL, 1},
    {STEP(2, 3) OPEN_MPI(0, 1), WEIR_OK, NULL, 1},
    {STEP(2, 3) HYDRA(0, 1, 1), WEIR_OK, NULL, 1},
    {STEP(2, 3) PMIX, WEIR_ERR_SYSTEM, "PMIx", 0},
    {STEP(x, 3), WEIR_ERR_INVALID, "SLURM_PROCID=x", 0},
    {STEP(2, 3) "TORCHELASTIC_RUN_ID=r " TORCHRUN(0, 2), WEIR_ERR_INVALID, "MASTER_ADDR", 0},
    {OPEN_MPI(2, 3) "TORCHELASTIC_RUN_ID=r " TORCHRUN(0, 2), WEIR_ERR_INVALID, "MASTER_ADDR", 0},
    /* Variables that a script exports. */
    {TORCHRUN(0, 2), WEIR_ERR_INVALID, "MASTER_ADDR", 0},
    {OPEN_MPI(0, 1) TORCHRUN(0, 1), WEIR_OK, NULL, 1},
    {OPEN_MPI(0, 1) TORCHRUN(0, 2), WEIR_ERR_INVALID, "contradict OMPI_COMM_WORLD_RANK=0", 0},
    {STEP(2, 3) TORCHRUN(1, 3), WEIR_ERR_INVALID, "contradict SLURM_PROCID=2", 0},
    {STEP(0, 1) TORCHRUN(0, 2), WEIR_ERR_INVALID, "MASTER_ADDR", 0},
    {PMIX TORCHRUN(1, 3), WEIR_ERR_INVALID, "contradict PMIX_RANK=0", 0},
    {"RANK=0", WEIR_ERR_INVALID, "RANK is set but WORLD_SIZE is not", 0},
    /* Ranks of an MPI launcher on several nodes. */
    {HYDRA(0, 4, 2), WEIR_ERR_UNSUPPORTED, "PMI_RANK is set", 0},
    {HYDRA(0, 4, 2) PMIX, WEIR_ERR_SYSTEM, "PMIx", 0},
    {HYDRA(2, 4, 2) STEP(1, 2), WEIR_ERR_UNSUPPORTED, "PMI_RANK is set", 0},
    {"PMI_RANK=x PMI_SIZE=3 " STEP(x, 3), WEIR_ERR_INVALID, "SLURM_PROCID=x", 0},
    {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", WEIR_ERR_UNSUPPORTED, "flux", 0},
    {"PALS_RANKID=0", WEIR_ERR_UNSUPPORTED, "PALS", 0},
    /* WEIR_LAUNCHER. */
    {"WEIR_LAUNCHER=none " OPEN_MPI(0, 1), WEIR_OK, NULL, 0},
    {"WEIR_LAUNCHER=auto " OPEN_MPI(0, 1), WEIR_OK, NULL, 1},
    {"WEIR_LAUNCHER=mpi " OPEN_MPI(0, 1) TORCHRUN(3, 8), WEIR_OK, NULL, 1},
    {"WEIR_LAUNCHER=mpi", WEIR_ERR_INVALID, "not set", 0},
    {"WEIR_LAUNCHER=torchrun " OPEN_MPI(0, 1), WEIR_ERR_INVALID, "RANK is not set", 0},
    {"WEIR_LAUNCHER=slurm " OPEN_MPI(0, 1), WEIR_ERR_INVALID, "SLURM_STEP_NODELIST", 0},
    {"WEIR_LAUNCHER=pmix " OPEN_MPI(0, 1) "WEIR_PMIX_SO=/no/libpmix.so", WEIR_ERR_SYSTEM, "PMIx",
     0},
    {"WEIR_LAUNCHER=lsf", WEIR_ERR_INVALID, "expected auto, none, mpi", 0},
};

static void test_the_launcher_that_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const launch_case *one = &cases[i];
        weir_boot *boot = NULL;
        launch_by(one->variables);
        const weir_status status = weir_boot_launcher_create(&boot);
        const int nranks = boot ? weir_boot_nranks(boot) : 0;
        if (status != one->status || nranks != one->nranks ||
            (one->words && !strstr(weir_last_error(), one->words)))
            fail_msg("%s: status %d, %d ranks, \"%s\"", one->variables, (int)status, nranks,
                     status == WEIR_OK ? "" : weir_last_error());
        weir_boot_destroy(boot);
    }
    forget_launchers();
    assert_int_equal(weir_boot_launcher_create(NULL), WEIR_ERR_INVALID);
}

/* The ranks of an MPI launcher on one node find each other through a file, inside of a Slurm step,
 * and leave no file. */
static int one_node_conforms(weir_boot *outer, void *argument)
{
    weir_boot *boot = NULL;
    char number[16];
    int failures = 0;
    (void)argument;
    launch_by(STEP(0, 1) OPEN_MPI(0, 3) "PMIX_NAMESPACE=../a/job");
    snprintf(number, sizeof number, "%d", weir_boot_rank(outer));
    setenv("OMPI_COMM_WORLD_RANK", number, 1);
    EXPECT_OK(&failures, weir_boot_launcher_create(&boot));
    if (!boot)
        return 100;
    failures += boot_conformance(boot, weir_boot_rank(outer), 3, "tcp");
    weir_boot_destroy(boot);
    return failures;
}

static void test_ranks_of_one_node(void **state)
{
    (void)state;
    int codes[3];
    char left[96];
    assert_int_equal(weir_boot_fork_run(3, one_node_conforms, NULL, 60000, codes), WEIR_OK);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(codes[rank], 0);
    snprintf(left, sizeof left, "! ls /dev/shm /tmp | grep '^weir-boot-.*-%ld'", (long)getpid());
    assert_int_equal(system(left), 0);
}

/* Rank 0 never comes. */
static void test_a_missing_rank_0_is_named(void **state)
{
    (void)state;
    weir_boot *boot = NULL;
    launch_by(OPEN_MPI(1, 2));
    setenv("WEIR_TIMEOUT_MS", "200", 1);
    assert_int_equal(weir_boot_launcher_create(&boot), WEIR_ERR_TIMEOUT);
    unsetenv("WEIR_TIMEOUT_MS");
    assert_non_null(strstr(weir_last_error(), "rank 1 of 2: rank 0 left no "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("the launcher that counts", test_the_launcher_that_counts, NULL),
        AT("ranks of one node find each other by a file", test_ranks_of_one_node, NULL),
        AT("rank 0 that never comes is named", test_a_missing_rank_0_is_named, NULL),
    };
    return RUN_TESTS("boot_launcher", tests);
}
