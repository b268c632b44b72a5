/* Opening and locking a file: see output_file.h. */
#include "bench/output/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes the name of a process, " (bench_reduce)", or nothing. */
static void output_name_process(long pid, char *name, size_t bytes)
{
    char path[40], text[32] = "";
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *file = fopen(path, "re");
    name[0] = '\0';
    if (file && fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = '\0';
        snprintf(name, bytes, " (%s)", text);
    }
    if (file)
        fclose(file);
}

/* Returns 0 if the file is locked, or cannot be locked at all; -1, with the reason, if another
 * process holds it. */
static int output_lock(int fd, char reason[BENCH_OUTPUT_REASON_BYTES])
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char name[48];
    if (fcntl(fd, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN))
        return 0;
    if (fcntl(fd, F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK) {
        snprintf(reason, BENCH_OUTPUT_REASON_BYTES,
                 "another process was writing it; give each run its own file");
        return -1;
    }
    output_name_process(whole.l_pid, name, sizeof name);
    snprintf(reason, BENCH_OUTPUT_REASON_BYTES,
             "process %ld%s is writing it; give each run its own file", (long)whole.l_pid, name);
    return -1;
}

/* Returns 1 if the path still names the open file, which another run may have replaced. */
static int output_is_current(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

static int output_is_regular(int fd)
{
    struct stat kind;
    return fstat(fd, &kind) == 0 && S_ISREG(kind.st_mode);
}

FILE *bench_output_open(const char *path, char reason[BENCH_OUTPUT_REASON_BYTES])
{
    enum { TRIES = 8 };
    int fd = -1;
    reason[0] = '\0';
    for (int try = 0; fd < 0 && try < TRIES; try++) {
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0664);
        if (fd < 0 || !output_is_regular(fd))
            break;
        if (output_lock(fd, reason) != 0)
            goto close_fd;
        if (!output_is_current(fd, path)) {
            close(fd);
            fd = -1;
            errno = EBUSY;
        } else if (ftruncate(fd, 0) != 0) {
            goto fail;
        }
    }
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file)
        return file;

fail:
    snprintf(reason, BENCH_OUTPUT_REASON_BYTES, "%s; give a file that can be written",
             strerror(errno));
close_fd:
    if (fd >= 0)
        close(fd);
    return NULL;
}

FILE *bench_output_open_new(weiri_new_file *made, const char *path,
                            char reason[BENCH_OUTPUT_REASON_BYTES])
{
    struct stat kind;
    *made = (weiri_new_file){.stream = NULL};
    if (lstat(path, &kind) == 0 && !S_ISREG(kind.st_mode))
        return bench_output_open(path, reason);
    if (bench_output_try(path, reason) != 0)
        return NULL;
    if (weiri_new_file_open(made, path))
        output_lock(fileno(made->stream), reason);
    else
        snprintf(reason, BENCH_OUTPUT_REASON_BYTES, "%s; give a file that can be written",
                 strerror(errno));
    return made->stream;
}

int bench_output_place(weiri_new_file *made, const char *path)
{
    if (!made->stream)
        return 0;
    const int failed = weiri_new_file_place(made, path);
    made->stream = NULL;
    return failed;
}

int bench_output_try(const char *path, char reason[BENCH_OUTPUT_REASON_BYTES])
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    int failed = 0;
    reason[0] = '\0';
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0) {
        snprintf(reason, BENCH_OUTPUT_REASON_BYTES, "%s; give a file that can be written",
                 strerror(errno));
        return -1;
    }
    if (output_is_regular(fd))
        failed = output_lock(fd, reason);
    close(fd);
    return failed;
}
