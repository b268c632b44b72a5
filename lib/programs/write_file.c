#define _GNU_SOURCE /* realpath */
/* Files that are replaced at once: see write_file.h. */
#include "programs/write_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Finds why a stream failed: by writing again what then fails for the same reason. */
static void find_reason(FILE *to)
{
    clearerr(to);
    errno = 0;
    if (fputc('\n', to) != EOF)
        fflush(to);
    if (errno == 0)
        errno = EIO;
}

/* Writes the report to a stream and ends it. Returns 0, or -1 with errno. */
static int write_by(FILE *to, void (*form)(const void *context, FILE *to), const void *context,
                    int is_kept)
{
    int failed = 0, reason = 0;
    if (!to)
        return -1;
    form(context, to);
    if (ferror(to) || fflush(to) != 0 || (is_kept && fsync(fileno(to)) != 0)) {
        failed = 1;
        if (ferror(to))
            find_reason(to);
        reason = errno;
    }
    if (fclose(to) != 0 && !failed)
        return -1;
    errno = reason;
    return failed ? -1 : 0;
}

/* Writes another file beside it, with the permissions of the one that it replaces, and renames it.
 */
static int replace_by(const char *path, const struct stat *was,
                      void (*form)(const void *context, FILE *to), const void *context)
{
    char temporary[PATH_MAX];
    const int length = snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return -1;
    }
    FILE *to = fopen(temporary, "we");
    if (!to && was && errno == EACCES) /* a file that may be written, in a folder that may not */
        return write_by(fopen(path, "we"), form, context, 0);
    if (to && was && fchmod(fileno(to), was->st_mode & 0777) != 0)
        errno = 0; /* the file has the permissions of a new one */
    int failed = write_by(to, form, context, 1);
    if (!failed)
        failed = rename(temporary, path);
    if (failed) {
        const int reason = errno;
        if (to)
            unlink(temporary);
        errno = reason;
    }
    return failed ? -1 : 0;
}

int weiri_write_file(const char *path, void (*form)(const void *context, FILE *to),
                     const void *context)
{
    struct stat what;
    char target[PATH_MAX];
    if (strcmp(path, "/dev/stdout") == 0) {
        form(context, stdout);
        return ferror(stdout) ? -1 : 0;
    }
    if (lstat(path, &what) != 0)
        return replace_by(path, NULL, form, context);
    if (S_ISREG(what.st_mode))
        return replace_by(path, &what, form, context);
    /* A link stays: the file that it leads to is replaced. */
    if (S_ISLNK(what.st_mode) && realpath(path, target) && lstat(target, &what) == 0 &&
        S_ISREG(what.st_mode))
        return replace_by(target, &what, form, context);
    return write_by(fopen(path, "we"), form, context, 0);
}

int weiri_write_refuses_path(int error)
{
    return error == ENOENT || error == EACCES || error == EISDIR || error == ENOTDIR ||
           error == ENAMETOOLONG || error == EROFS || error == EPERM || error == ELOOP;
}
