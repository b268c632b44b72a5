/* Opening a file of results: a regular one that is not too large, without waiting for a pipe. */
#define _GNU_SOURCE
#include "results/read/load.h"

#include <errno.h>
#include <fcntl.h>
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
