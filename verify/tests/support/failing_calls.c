/* See failing_calls.h. The linker replaces the library's calls of NAME by __wrap_NAME. */
#define _GNU_SOURCE
#include "verify/tests/support/failing_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BLOCKS = 1 << 16 };

static failing_plan *plan; /* NULL: nothing is counted */
static struct {
    void *at, *site; /* at: 1 after a block that was freed */
    int is_recent;   /* since failing_arm */
} blocks[BLOCKS];
extern char __executable_start;
static size_t blocks_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *failing_name(failing_call call)
{
#define FAILING_TEXT(name, number) #name,
    static const char *const names[] = {FAILING_CALLS(FAILING_TEXT)};
#undef FAILING_TEXT
    return names[call];
}

int failing_number(failing_call call)
{
#define FAILING_ERRNO(name, number) number,
    static const int numbers[] = {FAILING_CALLS(FAILING_ERRNO)};
#undef FAILING_ERRNO
    return numbers[call];
}

static int may_be_short(failing_call call)
{
    return call == FAILING_read || call == FAILING_write || call == FAILING_recv ||
           call == FAILING_send;
}

int failing_moves(failing_call call)
{
    return may_be_short(call) || call == FAILING_recvmsg || call == FAILING_sendmsg;
}

int failing_has(failing_call call, failing_kind kind)
{
    if (kind == FAILING_SHORT)
        return may_be_short(call);
    return kind == FAILING_FAILS || failing_moves(call) || call == FAILING_poll ||
           call == FAILING_epoll_wait || call == FAILING_accept4;
}

void failing_arm(failing_plan *given)
{
    memset(given->counts, 0, sizeof given->counts);
    given->was_hit = 0;
    plan = given;
}

void failing_disarm(void)
{
    plan = NULL;
}

/* Counts a call. Returns 1 if it is the one that fails; errno is set. */
static int is_due(failing_call call, void *site)
{
    failing_plan *of = plan;
    if (!of)
        return 0;
    if (of->seen)
        of->seen(call, site);
    if (of->only && (call != of->call || failing_place(site) != of->only))
        return 0;
    const uint64_t number = __atomic_add_fetch(&of->counts[call], 1, __ATOMIC_RELAXED);
    if (call != of->call || number != of->number)
        return 0;
    of->was_hit = 1;
    of->site = site;
    errno = of->kind == FAILING_INTERRUPTED ? EINTR : failing_number(call);
    return 1;
}

#define IS_DUE(name) is_due(FAILING_##name, __builtin_return_address(0))

/* -------------------------------------------------------------------- memory */

static size_t block_slot(const void *at)
{
    return (size_t)((uintptr_t)at / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BLOCKS;
}

static void *block_add(void *block, void *site)
{
    if (!block)
        return NULL;
    pthread_mutex_lock(&lock);
    size_t i = block_slot(block);
    while (blocks[i].at && blocks[i].at != (void *)1)
        i = (i + 1) % BLOCKS;
    blocks[i].at = block;
    blocks[i].site = site;
    blocks[i].is_recent = plan != NULL;
    blocks_used++;
    pthread_mutex_unlock(&lock);
    return block;
}

static void block_remove(const void *block)
{
    pthread_mutex_lock(&lock);
    size_t i = block_slot(block);
    while (blocks[i].at && blocks[i].at != block)
        i = (i + 1) % BLOCKS;
    if (block && blocks[i].at == block) {
        blocks[i].at = (void *)1;
        blocks_used--;
    }
    pthread_mutex_unlock(&lock);
}

size_t failing_blocks(void)
{
    return blocks_used;
}

void *failing_place(const void *site)
{
    return site ? (void *)((const char *)site - (uintptr_t)&__executable_start) : NULL;
}

void *failing_block_site(int index)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at && blocks[i].at != (void *)1 && blocks[i].is_recent && index-- == 0)
            return failing_place(blocks[i].site);
    return NULL;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return IS_DUE(malloc) ? NULL : block_add(__real_malloc(bytes), __builtin_return_address(0));
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return IS_DUE(calloc) ? NULL
                          : block_add(__real_calloc(count, bytes), __builtin_return_address(0));
}

void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes)
{
    if (IS_DUE(realloc))
        return NULL;
    block_remove(block);
    return block_add(__real_realloc(block, bytes), __builtin_return_address(0));
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return IS_DUE(strdup) ? NULL : block_add(__real_strdup(text), __builtin_return_address(0));
}

int __real_posix_memalign(void **block, size_t unit, size_t bytes);
int __wrap_posix_memalign(void **block, size_t unit, size_t bytes);
int __wrap_posix_memalign(void **block, size_t unit, size_t bytes)
{
    if (IS_DUE(posix_memalign))
        return ENOMEM;
    int status = __real_posix_memalign(block, unit, bytes);
    if (status == 0)
        block_add(*block, __builtin_return_address(0));
    return status;
}

void *__real_aligned_alloc(size_t unit, size_t bytes);
void *__wrap_aligned_alloc(size_t unit, size_t bytes);
void *__wrap_aligned_alloc(size_t unit, size_t bytes)
{
    return IS_DUE(aligned_alloc)
               ? NULL
               : block_add(__real_aligned_alloc(unit, bytes), __builtin_return_address(0));
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    block_remove(block);
    __real_free(block);
}

/* -------------------------------------------------------------- system calls */

#define WRAP(type, name, failed, parameters, arguments)                                            \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return IS_DUE(name) ? failed : __real_##name arguments;                                    \
    }

/* The same for a call whose length may be cut to one byte. */
#define WRAP_MOVE(type, name, bytes, parameters, arguments)                                        \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        const int due = IS_DUE(name);                                                              \
        if (due && plan->kind == FAILING_SHORT)                                                    \
            bytes = bytes ? 1 : 0;                                                                 \
        return due && plan->kind != FAILING_SHORT ? -1 : __real_##name arguments;                  \
    }

WRAP(void *, mmap, MAP_FAILED,
     (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
     (at, bytes, protection, flags, fd, offset))
WRAP(int, memfd_create, -1, (const char *name, unsigned flags), (name, flags))
WRAP(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
WRAP(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, socketpair, -1, (int domain, int type, int protocol, int *ends),
     (domain, type, protocol, ends))
WRAP(int, bind, -1, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes))
WRAP(int, listen, -1, (int fd, int backlog), (fd, backlog))
WRAP(int, accept4, -1, (int fd, struct sockaddr *from, socklen_t *bytes, int flags),
     (fd, from, bytes, flags))
WRAP(int, connect, -1, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes))
WRAP(int, getsockname, -1, (int fd, struct sockaddr *name, socklen_t *bytes), (fd, name, bytes))
WRAP(int, setsockopt, -1, (int fd, int level, int name, const void *value, socklen_t bytes),
     (fd, level, name, value, bytes))
WRAP(int, getsockopt, -1, (int fd, int level, int name, void *value, socklen_t *bytes),
     (fd, level, name, value, bytes))
WRAP(int, pipe2, -1, (int *ends, int flags), (ends, flags))
WRAP(int, eventfd, -1, (unsigned value, int flags), (value, flags))
WRAP(int, epoll_create1, -1, (int flags), (flags))
WRAP(int, epoll_ctl, -1, (int fd, int operation, int target, struct epoll_event *event),
     (fd, operation, target, event))
WRAP(int, epoll_wait, -1, (int fd, struct epoll_event *events, int most, int timeout_ms),
     (fd, events, most, timeout_ms))
WRAP(int, timerfd_create, -1, (int clock, int flags), (clock, flags))
WRAP(int, poll, -1, (struct pollfd * fds, nfds_t count, int timeout_ms), (fds, count, timeout_ms))
WRAP_MOVE(ssize_t, read, bytes, (int fd, void *to, size_t bytes), (fd, to, bytes))
WRAP_MOVE(ssize_t, write, bytes, (int fd, const void *from, size_t bytes), (fd, from, bytes))
WRAP_MOVE(ssize_t, recv, bytes, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags))
WRAP_MOVE(ssize_t, send, bytes, (int fd, const void *from, size_t bytes, int flags),
          (fd, from, bytes, flags))
WRAP(ssize_t, recvmsg, -1, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, sendmsg, -1, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, ftruncate, -1, (int fd, off_t bytes), (fd, bytes))
WRAP(int, posix_fallocate, ENOSPC, (int fd, off_t from, off_t bytes), (fd, from, bytes))
WRAP(int, fstat, -1, (int fd, struct stat *about), (fd, about))
WRAP(int, pthread_create, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
     (thread, attributes, run, argument))
WRAP(ssize_t, process_vm_readv, -1,
     (pid_t pid, const struct iovec *to, unsigned long nto, const struct iovec *from,
      unsigned long nfrom, unsigned long flags),
     (pid, to, nto, from, nfrom, flags))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return IS_DUE(open) ? -1 : __real_open(path, flags, mode);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    const long argument = va_arg(list, long);
    va_end(list);
    return IS_DUE(fcntl) ? -1 : __real_fcntl(fd, command, argument);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long given[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        given[i] = va_arg(list, long);
    va_end(list);
    return IS_DUE(syscall)
               ? -1
               : __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
