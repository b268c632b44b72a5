/* Files without a name: see new_file.h. */
#define _GNU_SOURCE /* O_TMPFILE, linkat */
#include "base/new_file.h"

#include "base/fd.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { TRIES = 16 };

int weiri_temporary_folder(char *path, size_t bytes, const char *name)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp"};
    errno = ENAMETOOLONG;
    for (int i = 0; i < 2; i++) {
        if (!places[i] || !places[i][0])
            continue;
        const int length = snprintf(path, bytes, "%s/%s-XXXXXX", places[i], name);
        if (length > 0 && (size_t)length < bytes && mkdtemp(path))
            return 0;
    }
    return -1;
}

/* Chooses another name next to path. Returns 0, or -1 with errno. */
static int new_file_choose_name(weiri_new_file *made, const char *path)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return -1;
    const int length = snprintf(made->temporary, sizeof made->temporary, "%s.%016llx", path,
                                (unsigned long long)number);
    if (length > 0 && (size_t)length < sizeof made->temporary)
        return 0;
    made->temporary[0] = '\0';
    errno = ENAMETOOLONG;
    return -1;
}

/* A file without a name in path's folder, that can get one. */
static int new_file_open_nameless(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 1;
    if (length >= (int)sizeof folder || access("/proc/self/fd", X_OK) != 0)
        return -1;
    snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".");
    return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0664);
}

static int new_file_open_named(weiri_new_file *made, const char *path)
{
    int fd = -1;
    for (int try = 0; fd < 0 && try < TRIES; try++) {
        if (new_file_choose_name(made, path) != 0)
            return -1;
        fd = open(made->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0664);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        made->temporary[0] = '\0';
    return fd;
}

FILE *weiri_new_file_open(weiri_new_file *made, const char *path)
{
    *made = (weiri_new_file){.stream = NULL};
    int fd = weiri_fd_raise(new_file_open_nameless(path));
    if (fd < 0)
        fd = weiri_fd_raise(new_file_open_named(made, path));
    made->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0 && !made->stream) {
        weiri_new_file_drop(made);
        close(fd);
    }
    return made->stream;
}

/* Gives a file without a name one. */
static int new_file_name(weiri_new_file *made, const char *path)
{
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fileno(made->stream));
    for (int try = 0; try < TRIES; try++) {
        if (new_file_choose_name(made, path) != 0)
            return -1;
        if (linkat(AT_FDCWD, own, AT_FDCWD, made->temporary, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        made->temporary[0] = '\0';
        if (errno != EEXIST)
            break;
    }
    return -1;
}

int weiri_new_file_place(weiri_new_file *made, const char *path)
{
    if (!made->temporary[0] && new_file_name(made, path) != 0)
        return -1;
    if (rename(made->temporary, path) != 0) {
        weiri_new_file_drop(made);
        return -1;
    }
    made->temporary[0] = '\0';
    return 0;
}

void weiri_new_file_drop(weiri_new_file *made)
{
    const int reason = errno;
    if (made->temporary[0])
        unlink(made->temporary);
    made->temporary[0] = '\0';
    errno = reason;
}
