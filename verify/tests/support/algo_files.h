/*
 * Helpers for tests of kernels compiled at run time: a temporary folder, which also contains the
 * kernel cache, and files in it.
 */
#ifndef VERIFY_TESTS_SUPPORT_ALGO_FILES_H
#define VERIFY_TESTS_SUPPORT_ALGO_FILES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "verify/tests/support/comm_ranks.h"

#include <ftw.h>
#include <sys/stat.h>

static char work_folder[64];

static inline int algo_remove_one(const char *path, const struct stat *about, int kind,
                                  struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void algo_remove(const char *folder)
{
    nftw(folder, algo_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes the path of a file in the folder to path[512], and returns it. */
static inline const char *algo_path(char *path, const char *name)
{
    snprintf(path, 512, "%s/%s", work_folder, name);
    return path;
}

static inline void algo_write(const char *name, const char *text)
{
    char path[512];
    FILE *file = fopen(algo_path(path, name), "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

/* Group set-up: creates the folder and makes it the cache's. */
static inline int algo_folder_open(void **state)
{
    (void)state;
    snprintf(work_folder, sizeof work_folder, "/tmp/weir-test-algo-XXXXXX");
    if (!mkdtemp(work_folder))
        return -1;
    return setenv("XDG_CACHE_HOME", work_folder, 1);
}

static inline int algo_folder_close(void **state)
{
    (void)state;
    algo_remove(work_folder);
    return 0;
}

#endif
