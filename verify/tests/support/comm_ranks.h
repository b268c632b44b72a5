/*
 * What tests of communicators share: forked ranks that must all end with 0, a
 * communicator in each of them, and counts of what a process holds. Bodies of
 * ranks count failed expectations with EXPECT and return that count.
 */
#ifndef VERIFY_TESTS_SUPPORT_COMM_RANKS_H
#define VERIFY_TESTS_SUPPORT_COMM_RANKS_H

#include "verify/tests/conformance/boot_conformance.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITISED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITISED 1
#endif
#endif
#ifndef SANITISED
#define SANITISED 0
#endif

enum { LIMIT_MS = 60000, MOST_RANKS = 64, NO_COMM = 100 };

/* A row of a cmocka table: a name in words, a test, and what it is given. */
#define AT(name, test, value) {name, test, NULL, NULL, value}

/* Runs body in nranks ranks, each of which must end with code 0 before the limit. */
static inline void run_ranks_within(int limit_ms, int nranks,
                                    int (*body)(weir_boot *boot, void *argument), void *argument)
{
    int codes[MOST_RANKS];
    if (weir_boot_fork_run(nranks, body, argument, limit_ms, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    for (int rank = 0; rank < nranks; rank++)
        if (codes[rank] != 0)
            fail_msg("rank %d of %d ended with %d", rank, nranks, codes[rank]);
}

static inline void run_ranks(int nranks, int (*body)(weir_boot *boot, void *argument),
                             void *argument)
{
    run_ranks_within(LIMIT_MS, nranks, body, argument);
}

/* A communicator of the host backend, otherwise with the default configuration; NULL, and said
 * why, if none. */
static inline weir_comm *open_comm(weir_boot *boot)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
        fprintf(stderr, "# no communicator: %s\n", weir_last_error());
    return comm;
}

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Mappings of this process whose line in /proc/self/maps has the word. */
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

/* Mappings that must not grow in number: all but the heap's, which may be several, or, where
 * a sanitizer makes some of its own, the library's. */
static inline int count_steady_maps(void)
{
    return SANITISED ? count_maps("memfd:weir") : count_maps("") - count_maps("[heap]");
}

/* Open descriptors of this process, the one that counts them included. */
static inline int count_fds(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2;
}

#endif
