/*
 * Helpers for tests of communicators: they run a body in forked ranks, which must all end with 0,
 * open a communicator in each rank, put ranks on one core, and count what a process holds. A body
 * counts its failed expectations with EXPECT.
 */
#ifndef VERIFY_TESTS_SUPPORT_COMM_RANKS_H
#define VERIFY_TESTS_SUPPORT_COMM_RANKS_H

#include "verify/tests/conformance/boot_conformance.h"
#include "verify/tests/support/entries.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || (defined(__SANITIZE_THREAD__) && !defined(WEIR_ORDER_CHECKER))
#define SANITISED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITISED 1
#endif
#endif
#ifndef SANITISED
#define SANITISED 0
#endif

enum { LIMIT_MS = SANITISED ? 240000 : 60000, MOST_RANKS = 64, NO_COMM = 100 };

typedef int ranks_body(weir_boot *boot, void *argument); /* returns its failures */
typedef void comm_body(weir_comm *comm, int *failures);

static inline void run_ranks_until(int limit_ms, int nranks, int killed, ranks_body *body,
                                   void *argument)
{
    int codes[MOST_RANKS];
    if (weir_boot_fork_run(nranks, body, argument, limit_ms, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    for (int rank = 0; rank < nranks; rank++)
        if (codes[rank] != (rank == killed ? 128 + SIGKILL : 0))
            fail_msg("rank %d of %d ended with %d", rank, nranks, codes[rank]);
}

/* Runs body in nranks ranks, each of which must end with code 0 before the limit. */
static inline void run_ranks_within(int limit_ms, int nranks, ranks_body *body, void *argument)
{
    run_ranks_until(limit_ms, nranks, -1, body, argument);
}

/* The same, but this rank must be ended by SIGKILL. */
static inline void run_ranks_killed(int nranks, int killed, ranks_body *body, void *argument)
{
    run_ranks_until(LIMIT_MS, nranks, killed, body, argument);
}

static inline void run_ranks(int nranks, ranks_body *body, void *argument)
{
    run_ranks_within(LIMIT_MS, nranks, body, argument);
}

/* Creates a communicator with this backend and deadline (0: the default one), otherwise with the
 * default configuration. Returns NULL, after printing the reason, if it fails. */
static inline weir_comm *open_comm_with(weir_boot *boot, weir_backend backend, int timeout_ms)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = backend;
    config.timeout_ms = timeout_ms;
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
        fprintf(stderr, "# no communicator: %s\n", weir_last_error());
    return comm;
}

static inline weir_comm *open_comm(weir_boot *boot)
{
    return open_comm_with(boot, WEIR_BACKEND_HOST, 0);
}

/* ------------------------------------------------- rows of a cmocka table */

/* One test: nranks ranks run either body(boot, argument), or in_comm with a communicator of the
 * host backend, whose destruction must then succeed. */
typedef struct ranks_test {
    int nranks;
    ranks_body *body;
    void *argument;
    comm_body *in_comm;
} ranks_test;

static inline int run_comm_body(weir_boot *boot, void *argument)
{
    const ranks_test *test = argument;
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    test->in_comm(comm, &failures);
    if (!failures)
        EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static inline void run_comm_ranks(int nranks, comm_body *body)
{
    run_ranks(nranks, run_comm_body, &(ranks_test){.in_comm = body});
}

static inline void test_ranks(void **state)
{
    const ranks_test *test = *state;
    if (test->in_comm)
        run_comm_ranks(test->nranks, test->in_comm);
    else
        run_ranks(test->nranks, test->body, test->argument);
}

/* Rows: a name in words, and a test function with its state or what the ranks run. */
#define AT(name, test, value)                                                                      \
    {                                                                                              \
        name, test, NULL, NULL, value                                                              \
    }
#define RANKS_TEST(name, nranks, body, argument)                                                   \
    AT(name, test_ranks, (&(ranks_test){nranks, body, argument, NULL}))
#define COMM_TEST(name, nranks, body)                                                              \
    AT(name, test_ranks, (&(ranks_test){nranks, NULL, NULL, body}))

/* The end of main(): runs the table and prints TAP. */
#define RUN_TESTS(name, tests)                                                                     \
    (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests_name(name, tests, NULL, NULL))

/* The same for rows [first, end). */
#define RUN_SOME_TESTS(name, tests, first, end)                                                    \
    (cmocka_set_message_output(CM_OUTPUT_TAP),                                                     \
     _cmocka_run_group_tests(name, (tests) + (first), (end) - (first), NULL, NULL))

/* -------------------------------------------------------- cores, times, counts */

#ifdef _GNU_SOURCE /* declares sched_setaffinity */
/* Has the communicators that are created next share one core. */
static inline void share_a_core(int *failures)
{
    cpu_set_t cores, one;
    int core = 0;
    EXPECT(failures, sched_getaffinity(0, sizeof cores, &cores) == 0);
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &cores))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    EXPECT(failures, sched_setaffinity(0, sizeof one, &one) == 0);
}
#endif

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Counts the mappings of this process whose line in /proc/self/maps contains the word. */
static inline int count_maps(const char *word)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, word) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* Counts the mappings whose number must not grow: all except those of the heap. With a sanitizer,
 * which maps memory itself, only those of the library. */
static inline int count_steady_maps(void)
{
    return SANITISED ? count_maps("memfd:weir") : count_maps("") - count_maps("[heap]");
}

static inline int count_fds(void)
{
    return count_entries("/proc/self/fd");
}

#endif
