/*
 * Proves that weir_boot_launcher_create follows the launcher that docs/user/launching.md names,
 * when the variables of several are set, and that it refuses what only MPI can connect. The
 * launchers' variables are set by hand.
 *
 * With the arguments "join TAG ROUNDS" this program serves jobs_apart.sh instead: it joins the job
 * of its environment again and again, and checks that every rank has the same tag.
 */
#include "verify/tests/conformance/boot_conformance.h"
#include "verify/tests/support/comm_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The ranks of an MPI launcher on one node find each other, inside of a Slurm step, and leave no
 * file. */
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
    assert_non_null(strstr(weir_last_error(), "rank 1 of 2: rank 0 has not come within 200 ms"));
}

/* Rank 2 of 3 never comes: both others report it, rank 1 with rank 0's reason. */
static int one_rank_is_missing(weir_boot *outer, void *argument)
{
    weir_boot *boot = NULL;
    char number[16];
    int failures = 0;
    (void)argument;
    launch_by(OPEN_MPI(0, 3));
    snprintf(number, sizeof number, "%d", weir_boot_rank(outer));
    setenv("OMPI_COMM_WORLD_RANK", number, 1);
    setenv("WEIR_TIMEOUT_MS", "300", 1);
    EXPECT(&failures, weir_boot_launcher_create(&boot) == WEIR_ERR_TIMEOUT);
    EXPECT(&failures, strstr(weir_last_error(), "rank 2 has not come within 300 ms") != NULL);
    return failures;
}

static void test_a_missing_rank_is_named_by_all(void **state)
{
    (void)state;
    int codes[2];
    assert_int_equal(weir_boot_fork_run(2, one_rank_is_missing, NULL, 60000, codes), WEIR_OK);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

/* Rank 1 ends while rank 2 is still to come: rank 0 does not wait for the deadline. */
static int one_rank_ends(weir_boot *outer, void *argument)
{
    weir_boot *boot = NULL;
    int failures = 0;
    (void)argument;
    launch_by(OPEN_MPI(0, 3));
    if (weir_boot_rank(outer) == 1) {
        setenv("OMPI_COMM_WORLD_RANK", "1", 1);
        alarm(1);
        weir_boot_launcher_create(&boot);
        return 1;
    }
    EXPECT(&failures, weir_boot_launcher_create(&boot) == WEIR_ERR_PEER);
    EXPECT(&failures, strstr(weir_last_error(), "rank 1 ended while the ranks joined") != NULL);
    return failures;
}

static void test_a_rank_that_ends_is_noticed(void **state)
{
    (void)state;
    int codes[2];
    assert_int_equal(weir_boot_fork_run(2, one_rank_ends, NULL, 60000, codes), WEIR_OK);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 128 + SIGALRM);
}

/* Two jobs of torchrun or srun that use one port, as in two containers with the host's network: a
 * rank of one is refused by rank 0 of the other, which then times out. */
static int other_job_calls(weir_boot *outer, void *argument)
{
    const char *const *jobs = argument;
    const int rank = weir_boot_rank(outer);
    weir_boot *boot = NULL;
    int failures = 0;
    launch_by(jobs[rank]);
    setenv("WEIR_TIMEOUT_MS", rank == 0 ? "1500" : "1000", 1);
    const weir_status status = weir_boot_launcher_create(&boot);
    EXPECT(&failures, status == (rank == 0 ? WEIR_ERR_TIMEOUT : WEIR_ERR_REFUSED));
    weir_boot_destroy(boot);
    return failures;
}

static void test_jobs_at_one_port_stay_apart(void **state)
{
    (void)state;
    static const char *const jobs[][2] = {
        {TORCHRUN(0, 2) "MASTER_ADDR=127.0.0.1 MASTER_PORT=29631 TORCHELASTIC_RUN_ID=a",
         TORCHRUN(1, 2) "MASTER_ADDR=127.0.0.1 MASTER_PORT=29631 TORCHELASTIC_RUN_ID=b"},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=9 "
         "SLURM_STEP_ID=0 WEIR_BOOT_PORT=29633",
         "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=9 "
         "SLURM_STEP_ID=1 WEIR_BOOT_PORT=29633"},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        int codes[2];
        assert_int_equal(weir_boot_fork_run(2, other_job_calls, (void *)jobs[i], 60000, codes),
                         WEIR_OK);
        assert_int_equal(codes[0], 0);
        assert_int_equal(codes[1], 0);
    }
}

static int join_rounds(const char *tag, int rounds)
{
    char all[64][16] = {{0}};
    for (int round = 0; round < rounds; round++) {
        weir_boot *boot = NULL;
        weir_status status = weir_boot_launcher_create(&boot);
        const int rank = status == WEIR_OK && boot ? weir_boot_rank(boot) : 0;
        const int nranks = status == WEIR_OK && boot ? weir_boot_nranks(boot) : 0;
        if (nranks < 1 || nranks > 64) {
            fprintf(stderr, "%s: round %d: %d ranks: %s\n", tag, round, nranks, weir_last_error());
            return 3;
        }
        snprintf(all[rank], sizeof all[rank], "%s", tag);
        status = weir_boot_allgather(boot, all, sizeof all[0]);
        for (int i = 0; i < nranks && status == WEIR_OK; i++)
            if (strcmp(all[i], tag) != 0) {
                fprintf(stderr, "%s: round %d: rank %d is of job %s\n", tag, round, i, all[i]);
                return 1;
            }
        weir_boot_destroy(boot);
        if (status != WEIR_OK) {
            fprintf(stderr, "%s: round %d: %s\n", tag, round, weir_last_error());
            return 4;
        }
    }
    puts(tag);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "join") == 0)
        return join_rounds(argv[2], atoi(argv[3]));
    const struct CMUnitTest tests[] = {
        AT("the launcher that counts", test_the_launcher_that_counts, NULL),
        AT("ranks of one node find each other", test_ranks_of_one_node, NULL),
        AT("rank 0 that never comes is named", test_a_missing_rank_0_is_named, NULL),
        AT("a rank that never comes is named by all", test_a_missing_rank_is_named_by_all, NULL),
        AT("a rank that ends is noticed", test_a_rank_that_ends_is_noticed, NULL),
        AT("jobs at one port stay apart", test_jobs_at_one_port_stay_apart, NULL),
    };
    return RUN_TESTS("boot_launcher", tests);
}
