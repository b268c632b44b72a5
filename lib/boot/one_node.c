/*
 * A unique id in a file, for the ranks of one node: see one_node.h. Rank 0 writes the file under
 * another name, renames it, and removes it once all ranks have joined. The others read it when it
 * appears. Its name contains the launcher's process, the parent of all ranks, so that a file of an
 * earlier job is not taken for this one's.
 */
#include "boot/one_node.h"

#include "base/config.h"
#include "base/error.h"
#include "boot/deadline.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 192, JOB_BYTES = 65 };

static void one_node_path(const char *job, char path[PATH_BYTES])
{
    char name[JOB_BYTES];
    const size_t length = strlen(job), skipped = length >= JOB_BYTES ? length - JOB_BYTES + 1 : 0;
    snprintf(name, sizeof name, "%s", job + skipped);
    for (char *letter = name; *letter; letter++)
        if (!isalnum((unsigned char)*letter))
            *letter = '_';
    snprintf(path, PATH_BYTES, "%s/weir-boot-%u-%s-%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (unsigned)getuid(), name,
             (long)getppid());
}

/* Reads a complete id from a file that belongs to this user. Returns 0 if there is none yet. */
static int one_node_read(const char *path, weir_unique_id *id)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return 0;
    int is_whole = fstat(file, &about) == 0 && about.st_uid == getuid() && S_ISREG(about.st_mode) &&
                   !(about.st_mode & 077) && read(file, id, sizeof *id) == (ssize_t)sizeof *id;
    close(file);
    return is_whole;
}

static weir_status one_node_write(const char *path, const weir_unique_id *id)
{
    char new_path[PATH_BYTES + 8];
    snprintf(new_path, sizeof new_path, "%s.new", path);
    unlink(path);
    unlink(new_path);
    int file = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = file < 0 ? errno : 0;
    if (!error && write(file, id, sizeof *id) != (ssize_t)sizeof *id)
        error = errno ? errno : EIO;
    if (file >= 0)
        close(file);
    if (!error && rename(new_path, path) != 0)
        error = errno;
    return error ? weiri_fail_errno(WEIR_ERR_SYSTEM, error, "rank 0 could not write %s", path)
                 : WEIR_OK;
}

static weir_status one_node_lead(const char *path, int nranks, weir_boot **boot)
{
    weir_unique_id id;
    weir_status status = weir_unique_id_create(&id);
    if (status == WEIR_OK)
        status = one_node_write(path, &id);
    if (status != WEIR_OK)
        return status;
    status = weir_boot_tcp_create(&id, 0, nranks, boot);
    unlink(path);
    return status;
}

weir_status weiri_boot_one_node_create(const char *job, int rank, int nranks, weir_boot **boot)
{
    enum { NAP_NS = 5000000 };
    char path[PATH_BYTES];
    weir_unique_id id;
    one_node_path(job, path);
    if (rank == 0)
        return one_node_lead(path, nranks, boot);
    const weiri_deadline deadline = weiri_deadline_in(weiri_config_timeout_ms());
    while (!one_node_read(path, &id)) {
        if (weiri_deadline_left_ms(&deadline) == 0)
            return weiri_fail(WEIR_ERR_TIMEOUT,
                              "rank %d of %d: rank 0 left no %s within %d ms; do all ranks run, "
                              "and does the launcher start the program itself, not by a script?",
                              rank, nranks, path, deadline.timeout_ms);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return weir_boot_tcp_create(&id, rank, nranks, boot);
}
