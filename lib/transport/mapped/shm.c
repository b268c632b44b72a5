/*
 * Host memory shared by the ranks of one node. A segment is a memfd, which a peer opens through
 * /proc/PID/fd, or gets from the owner if that is not dumpable (descriptor.h). It has no name in
 * any file system, so nothing stays behind however a rank ends, and the size of /dev/shm does not
 * matter. The inode in the key distinguishes a segment from a later one with the same descriptor.
 */
#define _GNU_SOURCE
#include "transport/transport.h"

#include "base/fd.h"
#include "base/error.h"
#include "transport/mapped/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/* Backs memory of a segment, so that no later store into it can fail. fd is -1 in a mapping, whose
 * owner then has backed everything if the system cannot do that in a mapping. */
static int shm_populate(int fd, void *base, size_t bytes)
{
    if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno != EINVAL)
        return errno;
    return fd < 0 ? 0 : posix_fallocate(fd, 0, (off_t)bytes);
}

/* Returns 1 if the system can back a part of a mapping: it then accepts an empty one. */
static int shm_can_back_parts(void *base)
{
    return madvise(base, 0, MADV_POPULATE_WRITE) == 0;
}

static weir_status shm_fail_no_memory(size_t bytes, int error_number)
{
    if (error_number == EFBIG)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                "%zu bytes of shared memory exceed the limit of file sizes; raise "
                                "'ulimit -f'",
                                bytes);
    return weiri_fail_errno(WEIR_ERR_NO_MEMORY, error_number,
                            "no room for %zu bytes of shared memory; use smaller buffers or fewer "
                            "ranks, or raise the container's memory limit",
                            bytes);
}

static int shm_exceeds_limit(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

/* Creates the file of a segment with mode 0600. It is 0777 at first: the kernel lets only those
 * open it who may trace this process, but a descriptor that is passed on by mistake should not give
 * more rights. */
static weir_status shm_create_file(size_t bytes, int *fd)
{
    weir_status status = WEIR_OK;
    int made = weiri_fd_raise(memfd_create("weir", MFD_CLOEXEC));
    if (made < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot create shared memory (memfd)%s",
                                errno == EMFILE ? "; raise 'ulimit -n'" : "");
    if (fchmod(made, S_IRUSR | S_IWUSR) != 0)
        status =
            weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot restrict access to shared memory");
    else if (shm_exceeds_limit(bytes)) /* SIGXFSZ would end the program */
        status = shm_fail_no_memory(bytes, EFBIG);
    else if (ftruncate(made, (off_t)bytes) < 0)
        status = shm_fail_no_memory(bytes, errno);
    if (status == WEIR_OK)
        *fd = made;
    else
        close(made);
    return status;
}

/* Creates a segment without memory. bytes is a multiple of the page size. */
static weir_status shm_create(size_t bytes, int huge_pages, weiri_segment *segment,
                              weiri_segment_key *key)
{
    int fd = -1;
    struct stat info = {0};
    if (bytes > shm_available_bytes())
        return shm_fail_no_memory(bytes, ENOMEM);
    weir_status status = shm_create_file(bytes, &fd);
    if (status != WEIR_OK)
        return status;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        status = shm_fail_no_memory(bytes, errno);
    else if (fstat(fd, &info) < 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot inspect shared memory");
    weiri_segment_key made = {.kind = WEIRI_SEGMENT_MEMFD,
                              .pid = (int32_t)getpid(),
                              .fd = fd,
                              .huge_pages = huge_pages,
                              .inode = info.st_ino,
                              .bytes = bytes};
    if (status == WEIR_OK && weiri_descriptor_needs_passing())
        status = weiri_descriptor_offer(&made);
    if (status != WEIR_OK) {
        if (base != MAP_FAILED)
            munmap(base, bytes);
        close(fd);
        return status;
    }
    if (huge_pages)
        madvise(base, bytes, MADV_HUGEPAGE);
    *segment = (weiri_segment){.ops = &weiri_transport_shm, .base = base, .bytes = bytes, .fd = fd};
    *key = made;
    return WEIR_OK;
}

static void shm_segment_destroy(weiri_segment *segment)
{
    if (segment->base)
        munmap(segment->base, segment->bytes);
    if (segment->base && segment->fd >= 0) {
        weiri_descriptor_withdraw(segment->fd);
        close(segment->fd);
    }
    *segment = (weiri_segment){.fd = -1};
}

static weir_status shm_segment_back(const weiri_segment *segment, size_t offset, size_t bytes)
{
    int error_number = shm_populate(segment->fd, (char *)segment->base + offset, bytes);
    return error_number ? shm_fail_no_memory(bytes, error_number) : WEIR_OK;
}

static weir_status shm_segment_create(size_t bytes, weiri_segment *segment, weiri_segment_key *key)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    weiri_segment made;
    weiri_segment_key of;
    if (bytes > SIZE_MAX - page)
        return shm_fail_no_memory(bytes, ENOMEM);
    size_t rounded = (bytes + page - 1) / page * page;
    weir_status status = shm_create(rounded, rounded >= HUGE_PAGE_BYTES, &made, &of);
    if (status != WEIR_OK)
        return status;
    status = shm_segment_back(&made, 0, rounded);
    if (status != WEIR_OK) {
        shm_segment_destroy(&made);
        return status;
    }
    *segment = made;
    *key = of;
    return WEIR_OK;
}

static weir_status shm_segment_reserve(size_t part_bytes, int parts, weiri_segment *segment,
                                       weiri_segment_key *key)
{
    const size_t count = (size_t)parts;
    weiri_segment made;
    weiri_segment_key of;
    if (part_bytes > SIZE_MAX / count)
        return shm_fail_no_memory(SIZE_MAX, ENOMEM);
    weir_status status = shm_create(part_bytes * count, part_bytes >= HUGE_PAGE_BYTES, &made, &of);
    if (status == WEIR_OK && !shm_can_back_parts(made.base)) {
        status = shm_segment_back(&made, 0, made.bytes);
        if (status != WEIR_OK)
            shm_segment_destroy(&made);
    }
    if (status != WEIR_OK)
        return status;
    *segment = made;
    *key = of;
    return WEIR_OK;
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
                                "one user in one container, and do not call prctl(PR_SET_DUMPABLE) "
                                "after memory was allocated",
                                (int)key->pid);
    return weiri_fail_errno(WEIR_ERR_PEER, error_number,
                            "cannot open the shared memory of process %d; it has ended, freed it, "
                            "or runs in another container",
                            (int)key->pid);
}

/* Opens the file of a peer's segment; -1 with errno on failure. */
static int shm_open_file(const weiri_segment_key *key)
{
    char path[64];
    if (weiri_descriptor_is_passed(key))
        return weiri_descriptor_take(key);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)key->pid, (int)key->fd);
    return weiri_fd_raise(open(path, O_RDWR | O_CLOEXEC));
}

static weir_status shm_segment_map(const weiri_segment_key *key, weiri_segment *segment)
{
    int fd = shm_open_file(key);
    if (fd < 0)
        return shm_fail_open(key, errno);
    struct stat info;
    weir_status status = WEIR_OK;
    void *base = MAP_FAILED;
    if (fstat(fd, &info) < 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                                  "cannot query the shared memory of process %d", (int)key->pid);
    else if (info.st_ino != key->inode || (uint64_t)info.st_size != key->bytes)
        status =
            weiri_fail(WEIR_ERR_PEER, "process %d has freed that shared memory", (int)key->pid);
    else if ((base = mmap(NULL, key->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
             MAP_FAILED)
        status = shm_fail_no_memory(key->bytes, errno);
    close(fd);
    if (status != WEIR_OK)
        return status;
    if (key->huge_pages)
        madvise(base, key->bytes, MADV_HUGEPAGE);
    *segment =
        (weiri_segment){.ops = &weiri_transport_shm, .base = base, .bytes = key->bytes, .fd = -1};
    return WEIR_OK;
}

const weiri_transport_ops weiri_transport_shm = {
    .transport = WEIR_TRANSPORT_SHM,
    .segment_create = shm_segment_create,
    .segment_map = shm_segment_map,
    .segment_destroy = shm_segment_destroy,
    .segment_reserve = shm_segment_reserve,
    .segment_back = shm_segment_back,
    .outlives_owner = 1,
};
