/* The SQLite store in a build without SQLite: every function reports that. */
#include "results/store/history.h"

static const char why[] =
    "this build has no SQLite: apt-get install libsqlite3-dev, and build again";

int results_sqlite_read(results_set *set, const char *path, const char *run)
{
    (void)run;
    results_note(set, path, 0, "%s", why);
    return -1;
}

int results_sqlite_runs(results_set *set, const char *path, const char ***names, size_t *count)
{
    *names = NULL;
    *count = 0;
    return results_sqlite_read(set, path, NULL);
}

int results_sqlite_find(const char *path, const char *word, char *run, size_t bytes)
{
    (void)path;
    (void)word;
    snprintf(run, bytes, "%s", why);
    return -1;
}

int results_sqlite_accept(const char *path, const char *run, char *reason, size_t bytes)
{
    return results_sqlite_find(path, run, reason, bytes);
}

int results_sqlite_add(const results_set *set, const char *path, const char *run, char *reason,
                       size_t bytes)
{
    (void)set;
    return results_sqlite_find(path, run, reason, bytes);
}
