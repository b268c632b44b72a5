/* Opening a file of results: a regular one that is not too large, without waiting for a pipe. */
#define _GNU_SOURCE
#include "results/read/load.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *results_open(const char *path, long long most_bytes)
{
    struct stat about;
    FILE *file = NULL;
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return NULL;
    if (fstat(opened, &about) == 0) {
        if (!S_ISREG(about.st_mode))
            errno = ENOTSUP;
        else if (about.st_size > most_bytes)
            errno = EFBIG;
        else
            file = fdopen(opened, "r");
    }
    if (!file) {
        int problem = errno;
        close(opened);
        errno = problem;
    }
    return file;
}

int results_same_file(const char *a, const char *b)
{
    struct stat first, second;
    const int has_first = stat(a, &first) == 0, has_second = stat(b, &second) == 0;
    if (!has_first || !has_second)
        return has_first == has_second && strcmp(a, b) == 0;
    return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}
