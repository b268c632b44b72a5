/*
 * Host memory shared by the ranks of one node. A segment is a memfd, which a peer opens through
 * /proc/PID/fd. It has no name in any file system, so nothing stays behind however a rank ends,
 * and the size of /dev/shm does not matter. The inode in the key distinguishes a segment from a
 * later one with the same descriptor.
 */
#define _GNU_SOURCE
#include "transport/transport.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Bytes of memory that the kernel can provide without swapping; SIZE_MAX if unknown. */
static size_t shm_available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file)
        return SIZE_MAX;
    char line[128];
    size_t kilobytes = SIZE_MAX / 1024;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1)
            break;
    fclose(file);
    return kilobytes * 1024;
}

/* Backs the whole segment with memory, so that no later store into it can fail. Large segments use
 * huge pages if the system allows them. */
static int shm_populate(int fd, void *base, size_t bytes)
{
    if (bytes >= HUGE_PAGE_BYTES)
        madvise(base, bytes, MADV_HUGEPAGE);
    if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno != EINVAL)
        return errno;
    return posix_fallocate(fd, 0, (off_t)bytes);
}

static weir_status shm_fail_no_memory(size_t bytes, int error_number)
{
    return weiri_fail_errno(WEIR_ERR_NO_MEMORY, error_number,
                            "no room for %zu bytes of shared memory; use smaller buffers or fewer "
                            "ranks, or raise the container's memory limit",
                            bytes);
}

static weir_status shm_segment_create(size_t bytes, weiri_segment *segment, weiri_segment_key *key)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > shm_available_bytes() || bytes > SIZE_MAX - page)
        return shm_fail_no_memory(bytes, ENOMEM);
    size_t rounded = (bytes + page - 1) / page * page;
    weir_status status = WEIR_ERR_SYSTEM;
    int fd = memfd_create("weir", MFD_CLOEXEC);
    if (fd < 0)
        return weiri_fail_errno(status, errno, "cannot create shared memory (memfd)%s",
                                errno == EMFILE ? "; raise 'ulimit -n'" : "");
    /* Its mode is 0777 at first. The kernel lets only those open it who may trace this process, but
     * a descriptor that is passed on by mistake should not give more rights. */
    if (fchmod(fd, S_IRUSR | S_IWUSR) != 0) {
        status = weiri_fail_errno(status, errno, "cannot restrict access to shared memory");
        goto close_fd;
    }
    if (ftruncate(fd, (off_t)rounded) < 0) {
        status = shm_fail_no_memory(rounded, errno);
        goto close_fd;
    }
    void *base = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error_number = base == MAP_FAILED ? errno : shm_populate(fd, base, rounded);
    if (error_number) {
        status = shm_fail_no_memory(rounded, error_number);
        goto unmap;
    }
    struct stat info;
    if (fstat(fd, &info) < 0) {
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot inspect shared memory");
        goto unmap;
    }
    *segment =
        (weiri_segment){.ops = &weiri_transport_shm, .base = base, .bytes = rounded, .fd = fd};
    *key = (weiri_segment_key){.kind = WEIRI_SEGMENT_MEMFD,
                               .pid = (int32_t)getpid(),
                               .fd = fd,
                               .inode = info.st_ino,
                               .bytes = rounded};
    return WEIR_OK;
unmap:
    if (base != MAP_FAILED)
        munmap(base, rounded);
close_fd:
    close(fd);
    return status;
}

static weir_status shm_fail_open(const weiri_segment_key *key, int error_number)
{
    if (error_number == EMFILE || error_number == ENFILE)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                "cannot open the shared memory of process %d; raise 'ulimit -n'",
                                (int)key->pid);
    if (error_number == EACCES || error_number == EPERM)
        return weiri_fail_errno(WEIR_ERR_UNSUPPORTED, error_number,
                                "cannot open the shared memory of process %d; run all ranks as "
                                "one user in one container",
                                (int)key->pid);
    return weiri_fail_errno(WEIR_ERR_PEER, error_number,
                            "cannot open the shared memory of process %d; it has ended, freed it, "
                            "or runs in another container",
                            (int)key->pid);
}

static weir_status shm_segment_map(const weiri_segment_key *key, weiri_segment *segment)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)key->pid, (int)key->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return shm_fail_open(key, errno);
    struct stat info;
    weir_status status = WEIR_OK;
    void *base = MAP_FAILED;
    if (fstat(fd, &info) < 0 || info.st_ino != key->inode || (uint64_t)info.st_size != key->bytes)
        status =
            weiri_fail(WEIR_ERR_PEER, "process %d has freed that shared memory", (int)key->pid);
    else if ((base = mmap(NULL, key->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
             MAP_FAILED)
        status = shm_fail_no_memory(key->bytes, errno);
    close(fd);
    if (status != WEIR_OK)
        return status;
    if (key->bytes >= HUGE_PAGE_BYTES)
        madvise(base, key->bytes, MADV_HUGEPAGE);
    *segment =
        (weiri_segment){.ops = &weiri_transport_shm, .base = base, .bytes = key->bytes, .fd = -1};
    return WEIR_OK;
}

static void shm_segment_destroy(weiri_segment *segment)
{
    if (segment->base)
        munmap(segment->base, segment->bytes);
    if (segment->base && segment->fd >= 0)
        close(segment->fd);
    *segment = (weiri_segment){.fd = -1};
}

const weiri_transport_ops weiri_transport_shm = {
    .transport = WEIR_TRANSPORT_SHM,
    .segment_create = shm_segment_create,
    .segment_map = shm_segment_map,
    .segment_destroy = shm_segment_destroy,
    .outlives_owner = 1,
};
