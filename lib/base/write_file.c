#define _GNU_SOURCE /* realpath */
/* Files that are replaced at once: see write_file.h. */
#include "base/write_file.h"

#include "base/file_signal.h"
#include "base/new_file.h"

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

/* Writes to a stream all that there is to write. Returns 0, or -1 with errno. */
static int write_all(FILE *to, void (*form)(const void *context, FILE *to), const void *context)
{
    form(context, to);
    if (ferror(to))
        find_reason(to);
    else if (fflush(to) == 0)
        return 0;
    return -1;
}

/* Writes to what path names as it is. */
static int write_to(const char *path, void (*form)(const void *context, FILE *to),
                    const void *context)
{
    FILE *to = fopen(path, "we");
    if (!to)
        return -1;
    const int failed = write_all(to, form, context), reason = errno;
    if (fclose(to) != 0 && !failed)
        return -1;
    errno = reason;
    return failed;
}

/* Writes another file, with the permissions of the one that it replaces. */
static int replace_by(const char *path, const struct stat *was,
                      void (*form)(const void *context, FILE *to), const void *context)
{
    weiri_new_file made;
    FILE *to = weiri_new_file_open(&made, path);
    if (!to && was && errno == EACCES) /* a file that may be written, in a folder that may not */
        return write_to(path, form, context);
    if (!to)
        return -1;
    if (was && fchmod(fileno(to), was->st_mode & 0777) != 0)
        errno = 0; /* the file has the permissions of a new one */
    const int failed = write_all(to, form, context) != 0 || fsync(fileno(to)) != 0 ||
                       weiri_new_file_place(&made, path) != 0;
    const int reason = errno;
    fclose(to);
    weiri_new_file_drop(&made);
    errno = reason;
    return failed ? -1 : 0;
}

static int write_by_kind(const char *path, void (*form)(const void *context, FILE *to),
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
    return write_to(path, form, context);
}

int weiri_write_file(const char *path, void (*form)(const void *context, FILE *to),
                     const void *context)
{
    weiri_file_signal held;
    weiri_file_signal_hold(&held);
    const int failed = write_by_kind(path, form, context);
    weiri_file_signal_release(&held);
    return failed;
}

int weiri_write_refuses_path(int error)
{
    return error == ENOENT || error == EACCES || error == EISDIR || error == ENOTDIR ||
           error == ENAMETOOLONG || error == EROFS || error == EPERM || error == ELOOP;
}
