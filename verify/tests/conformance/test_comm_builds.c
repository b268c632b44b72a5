/*
 * Proves that ranks with different builds of the library form no communicator, and that every rank
 * gets the same status and a line that names the builds and their ranks; and that ranks of one
 * build among them can still form one. A rank's build is what the test makes of weiri_build_id_own,
 * which the linker replaces.
 */
#define _GNU_SOURCE
#include "verify/tests/support/internode_ranks.h"

#include "base/build_id.h"
#include "boot/part.h"

static weiri_build_id build;
static int has_other_build;

const weiri_build_id *__real_weiri_build_id_own(void);
const weiri_build_id *__wrap_weiri_build_id_own(void);
const weiri_build_id *__wrap_weiri_build_id_own(void)
{
    return has_other_build ? &build : __real_weiri_build_id_own();
}

/* Ranks of one job: for each rank a letter of its build, '0' for this one's. */
typedef struct job_case {
    const char *name;
    const char *builds;
    const char *nodes;     /* of each rank, one letter per rank; NULL: one node */
    const char *wanted[4]; /* parts of every rank's line; none: the communicator is created */
} job_case;

static const weiri_build_id others[] = {
    {"0.2.0", "0123456789abcdef"},      /* A: another version */
    {WEIR_VERSION, "fedcba9876543210"}, /* B: other sources */
    {WEIR_VERSION "-\x1b[31m and more than fit",
     "not terminated, 32 bytes long..."}, /* C: odd texts */
};

static void take_build(char letter)
{
    has_other_build = letter != '0';
    if (has_other_build)
        build = others[letter - 'A'];
}

static int expect_case(weir_boot *boot, const job_case *job)
{
    int failures = 0;
    weir_comm *comm = NULL;
    const weir_status status = weir_comm_create(boot, NULL, &comm);
    EXPECT(&failures, status == (job->wanted[0] ? WEIR_ERR_MISMATCH : WEIR_OK));
    EXPECT(&failures, !comm == (status != WEIR_OK));
    for (int i = 0; i < 4 && job->wanted[i]; i++)
        if (!strstr(weir_last_error(), job->wanted[i])) {
            fprintf(stderr, "# no '%s' in: %s\n", job->wanted[i], weir_last_error());
            failures++;
        }
    weir_comm_destroy(comm);
    return failures;
}

static int run_case(weir_boot *boot, void *argument)
{
    const job_case *job = argument;
    const int rank = weir_boot_rank(boot);
    if (job->nodes) {
        const char node[] = {job->nodes[rank], '\0'};
        setenv("WEIR_HOSTID", node, 1);
        setenv("WEIR_TRANSPORT", "tcp", 1);
    }
    take_build(job->builds[rank]);
    int failures = expect_case(boot, job);
    /* The bootstrap is as before: with equal builds the communicator is created. */
    take_build('0');
    const job_case equal = {.builds = job->builds, .wanted = {NULL}};
    return failures + expect_case(boot, &equal);
}

static void test_builds(void **state)
{
    (void)state;
    static const job_case cases[] = {
        {"one build", "000", NULL, {NULL}},
        {"another version",
         "0A",
         NULL,
         {"different builds of weir", " on rank 0; 0.2.0 (sources 0123456789abcdef) on rank 1"}},
        {"rank 0 has another version",
         "A00",
         NULL,
         {"0.2.0 (sources 0123456789abcdef) on rank 0; ", " on ranks 1, 2"}},
        {"other sources", "0B", NULL, {WEIR_VERSION " (sources fedcba9876543210) on rank 1"}},
        {"the middle rank of three",
         "0B0",
         NULL,
         {" on ranks 0, 2; ", "(sources fedcba9876543210) on rank 1"}},
        {"three builds",
         "AB0A",
         NULL,
         {"on ranks 0, 3; ", "on rank 1; ", "on rank 2; start all ranks"}},
        {"two nodes",
         "00BB",
         "aabb",
         {"on ranks 0, 1; ", "(sources fedcba9876543210) on ranks 2, 3"}},
        {"one rank of a node", "0A00", "aabb", {"on ranks 0, 2, 3; ", "on rank 1"}},
        {"equal builds on two nodes", "0000", "aabb", {NULL}},
        {"texts that are not printable, or too long",
         "0C",
         NULL,
         {"0.1.0-\\x1b[31m", "32 bytes long...) on rank 1"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("# %s\n", cases[i].name);
        run_ranks((int)strlen(cases[i].builds), run_case, (void *)(uintptr_t)&cases[i]);
    }
}

/* Ranks 0 and 2 of three, with rank 1 or without it. */
static int part_of_job(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    const int rank = weir_boot_rank(boot), members[] = {2, 0}, *with_odd = (const int[]){1, 0};
    static const job_case equal = {.wanted = {NULL}};
    static const job_case differ = {.wanted = {"on rank 0; ", "on rank 1; start"}};
    take_build(rank == 1 ? 'A' : '0');
    weir_boot *part = NULL;
    if (rank != 1) {
        EXPECT_OK(&failures, weiri_boot_part_create(boot, members, 2, &part));
        failures += expect_case(part, &equal);
        weir_boot_destroy(part);
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    if (rank != 2) {
        EXPECT_OK(&failures, weiri_boot_part_create(boot, with_odd, 2, &part));
        failures += expect_case(part, &differ);
        weir_boot_destroy(part);
    }
    return failures;
}

static void test_part_of_a_job(void **state)
{
    (void)state;
    run_ranks(3, part_of_job, NULL);
}

/* A rank of a build that sends something else first. */
static int foreign_first_message(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    char words[2 * 100] = {0};
    if (weir_boot_rank(boot) == 1) {
        EXPECT(&failures, weir_boot_allgather(boot, words, 100) == WEIR_ERR_MISMATCH);
        return failures;
    }
    weir_comm *comm = NULL;
    EXPECT(&failures, weir_comm_create(boot, NULL, &comm) == WEIR_ERR_MISMATCH);
    EXPECT(&failures, strstr(weir_last_error(), "could not compare builds") != NULL);
    return failures;
}

static void test_foreign_first_message(void **state)
{
    (void)state;
    run_ranks(2, foreign_first_message, NULL);
}

/* The record's layout is for ever. */
static void test_own_build(void **state)
{
    (void)state;
    const weiri_build_id *own = __real_weiri_build_id_own();
    assert_int_equal(sizeof *own, 64);
    assert_ptr_equal(own->version, own);
    assert_ptr_equal(own->sources, (const char *)own + 32);
    assert_string_equal(own->version, WEIR_VERSION);
    assert_int_equal(strspn(own->sources, "0123456789abcdef"), 16);
    assert_int_equal(strlen(own->sources), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_build),
        cmocka_unit_test(test_builds),
        cmocka_unit_test(test_part_of_a_job),
        cmocka_unit_test(test_foreign_first_message),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
