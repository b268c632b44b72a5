/* Names of output files: see paths.h. */
#include "bench/options/paths.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Finds the folder of a path, and the name after it. -1: there is no such folder. */
static int split_path(const char *path, struct stat *folder, const char **name)
{
    const char *slash = strrchr(path, '/');
    char text[PATH_MAX] = ".";
    *name = slash ? slash + 1 : path;
    if (slash && snprintf(text, sizeof text, "%.*s/", (int)(slash - path), path) >= PATH_MAX)
        return -1;
    return stat(text, folder);
}

int bench_paths_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    const char *name_a, *name_b;
    int has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a && has_b)
        return S_ISREG(of_a.st_mode) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
    return !has_a && !has_b && split_path(a, &of_a, &name_a) == 0 &&
           split_path(b, &of_b, &name_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino && strcmp(name_a, name_b) == 0;
}

int bench_paths_manifest(const char *csv_path, char *path, size_t bytes)
{
    static const char suffix[] = ".json";
    const char *slash = strrchr(csv_path, '/');
    const char *name = slash ? slash + 1 : csv_path;
    const char *dot = strrchr(name, '.');
    size_t stem = strlen(csv_path);
    if (dot && dot != name && strcmp(dot, suffix) != 0)
        stem = (size_t)(dot - csv_path);
    if (stem + sizeof suffix > bytes)
        return -1;
    memcpy(path, csv_path, stem);
    memcpy(path + stem, suffix, sizeof suffix);
    return 0;
}
