/*
 * A stand-in for libxpmem.so.0, for machines without the kernel module. Memory from its arena,
 * which is a memfd of the process, is attached by mapping that file through /proc; so peers access
 * the same pages, and what the owner frees and allocates again at an address appears there, as with
 * the module. Of other memory it attaches single pages only, as copies: enough for a word that does
 * not change. Anything else is refused, as the module refuses memory without pages.
 *
 * XPMEM_STANDIN injects a fault: "device" (there is no /dev/xpmem), "make", "get", "attach" (all
 * refused), "windows" (ranges of 32 MiB and more are refused). A test calls the other functions,
 * which it finds by dlsym; they are not libxpmem's.
 */
#define _GNU_SOURCE
#include "verify/tests/support/xpmem_standin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCKS = 256, ATTACHMENTS = 4096 };
#define ARENA_BYTES ((size_t)2 << 30)
#define ARENA_ALIGNMENT ((size_t)64 << 20)
#define LARGE_BYTES ((size_t)32 << 20)

typedef struct block {
    size_t at, bytes; /* within the arena; bytes 0: unused */
} block;

static struct {
    int pid, fd;
    char *base;
    block blocks[BLOCKS];
} arena;

static struct {
    char *at;
    size_t bytes;
} attached[ATTACHMENTS];

static xpmem_standin_counts counts;

static int has_fault(const char *name)
{
    const char *fault = getenv("XPMEM_STANDIN");
    return fault && strcmp(fault, name) == 0;
}

/* ---------------------------------------------------------------- the arena */

static void arena_name(int pid, char *name, size_t bytes)
{
    snprintf(name, bytes, "xpmem_standin.%d", pid);
}

/* Makes the arena of this process: addresses without access, until they are allocated. */
static int arena_open(void)
{
    char name[64];
    if (arena.pid == (int)getpid())
        return 1;
    memset(&arena, 0, sizeof arena);
    memset(&counts, 0, sizeof counts);
    arena_name((int)getpid(), name, sizeof name);
    arena.fd = memfd_create(name, MFD_CLOEXEC);
    char *room = mmap(NULL, ARENA_BYTES + ARENA_ALIGNMENT, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena.fd < 0 || room == MAP_FAILED || ftruncate(arena.fd, (off_t)ARENA_BYTES) != 0)
        return 0;
    arena.base =
        (char *)(((uintptr_t)room + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT);
    if (mmap(arena.base, ARENA_BYTES, PROT_NONE, MAP_SHARED | MAP_FIXED, arena.fd, 0) == MAP_FAILED)
        return 0;
    arena.pid = (int)getpid();
    return 1;
}

/* Whether a range of the arena is unused. */
static int arena_is_free(size_t at, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++)
        if (arena.blocks[i].bytes && at < arena.blocks[i].at + arena.blocks[i].bytes &&
            arena.blocks[i].at < at + bytes)
            return 0;
    return 1;
}

void *xpmem_standin_alloc(size_t bytes, size_t spacing)
{
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    spacing = spacing ? spacing : PAGE;
    for (int i = 0; arena_open() && i < BLOCKS; i++) {
        if (arena.blocks[i].bytes)
            continue;
        for (size_t at = 0; at + bytes <= ARENA_BYTES; at += spacing) {
            if (!arena_is_free(at, bytes))
                continue;
            arena.blocks[i] = (block){at, bytes};
            if (mprotect(arena.base + at, bytes, PROT_READ | PROT_WRITE) != 0)
                return NULL;
            return arena.base + at;
        }
    }
    return NULL;
}

void xpmem_standin_free(void *pointer)
{
    for (int i = 0; i < BLOCKS; i++) {
        block *each = &arena.blocks[i];
        if (!each->bytes || arena.base + each->at != (char *)pointer)
            continue;
        (void)fallocate(arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)each->at,
                        (off_t)each->bytes);
        mprotect(pointer, each->bytes, PROT_NONE);
        each->bytes = 0;
    }
}

int xpmem_standin_vanish(void)
{
    return ftruncate(arena.fd, 0);
}

xpmem_standin_counts xpmem_standin_count(void)
{
    return counts;
}

/* ------------------------------------------------------- libxpmem's functions */

int xpmem_version(void)
{
    if (has_fault("device")) {
        errno = ENOENT;
        return -1;
    }
    return 0x26005;
}

int64_t xpmem_make(void *address, size_t bytes, int permit_type, void *mode)
{
    if (has_fault("make") || address || bytes != SIZE_MAX || permit_type != 1 ||
        mode != (void *)0600 || !arena_open()) {
        errno = ENOMEM;
        return -1;
    }
    counts.segments++;
    return getpid();
}

int xpmem_remove(int64_t segment)
{
    if (segment != getpid() || counts.segments == 0) {
        errno = EINVAL;
        return -1;
    }
    counts.segments--;
    return 0;
}

int64_t xpmem_get(int64_t segment, int flags, int permit_type, void *mode)
{
    if (has_fault("get") || flags != 2 || permit_type != 1 || mode ||
        kill((pid_t)segment, 0) != 0) {
        errno = EACCES;
        return -1;
    }
    counts.permits++;
    return segment;
}

int xpmem_release(int64_t permit)
{
    (void)permit;
    counts.permits--;
    return 0;
}

/* The address of a process's arena, or 0. */
static uintptr_t arena_find(int pid)
{
    char path[64], name[64], line[512];
    uintptr_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    arena_name(pid, name, sizeof name);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned long start, end, offset;
        if (strstr(line, name) && sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3)
            found = start - offset;
    }
    if (file)
        fclose(file);
    return found;
}

/* Opens a process's arena, or returns -1. */
static int arena_open_of(int pid)
{
    char path[320], target[128] = "", name[64];
    int fd = -1;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    arena_name(pid, name, sizeof name);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && fd < 0 && (entry = readdir(folder))) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, name))
            fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (folder)
        closedir(folder);
    return fd;
}

static void *copy_page(int pid, uintptr_t address)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ssize_t got = fd < 0 || at == MAP_FAILED ? -1 : pread(fd, at, PAGE, (off_t)address);
    if (fd >= 0)
        close(fd);
    if (got == PAGE)
        return at;
    if (at != MAP_FAILED)
        munmap(at, PAGE);
    return MAP_FAILED;
}

static void *map_arena(int pid, uintptr_t offset, size_t bytes)
{
    int fd = arena_open_of(pid);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        madvise(at, bytes, MADV_DONTFORK);
    return at;
}

static void *keep(void *at, size_t bytes)
{
    for (int i = 0; at != MAP_FAILED && i < ATTACHMENTS; i++)
        if (!attached[i].at) {
            attached[i].at = at;
            attached[i].bytes = bytes;
            counts.attachments++;
            counts.attaches++;
            return at;
        }
    errno = ENOMEM;
    return MAP_FAILED;
}

void *xpmem_attach(xpmem_standin_address from, size_t bytes, void *wanted)
{
    const uintptr_t start = (uintptr_t)from.offset, base = arena_find((int)from.permit);
    if (!has_fault("attach") && !wanted && start % PAGE == 0) {
        bytes = (bytes + PAGE - 1) / PAGE * PAGE;
        if (base && start >= base && start + bytes <= base + ARENA_BYTES &&
            !(has_fault("windows") && bytes >= LARGE_BYTES))
            return keep(map_arena((int)from.permit, start - base, bytes), bytes);
        if (bytes == PAGE)
            return keep(copy_page((int)from.permit, start), bytes);
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Async-signal-safe, as libxpmem's is. */
int xpmem_detach(void *at)
{
    for (int i = 0; i < ATTACHMENTS; i++)
        if (at && attached[i].at == at) {
            counts.attachments--;
            attached[i].at = NULL;
            return munmap(at, attached[i].bytes);
        }
    errno = EINVAL;
    return -1;
}
