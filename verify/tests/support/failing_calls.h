/*
 * Calls of the library to malloc and to the system that fail once, or are cut short, by their
 * number. A test that uses it is linked with the wrappers of failing_calls.c (ci/make/tests.mk),
 * which count each function's calls from failing_arm on.
 */
#ifndef VERIFY_TESTS_SUPPORT_FAILING_CALLS_H
#define VERIFY_TESTS_SUPPORT_FAILING_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* The functions; how a call fails: the error number, and what it does instead of failing. */
#define FAILING_CALLS(ROW)                                                                         \
    ROW(malloc, ENOMEM)                                                                            \
    ROW(calloc, ENOMEM)                                                                            \
    ROW(realloc, ENOMEM)                                                                           \
    ROW(strdup, ENOMEM)                                                                            \
    ROW(posix_memalign, ENOMEM)                                                                    \
    ROW(aligned_alloc, ENOMEM)                                                                     \
    ROW(mmap, ENOMEM)                                                                              \
    ROW(memfd_create, EMFILE)                                                                      \
    ROW(open, EMFILE)                                                                              \
    ROW(fopen, EMFILE)                                                                             \
    ROW(socket, EMFILE)                                                                            \
    ROW(socketpair, EMFILE)                                                                        \
    ROW(bind, EADDRINUSE)                                                                          \
    ROW(listen, EADDRINUSE)                                                                        \
    ROW(accept4, ENOBUFS)                                                                          \
    ROW(connect, ENETUNREACH)                                                                      \
    ROW(getsockname, ENOBUFS)                                                                      \
    ROW(setsockopt, ENOBUFS)                                                                       \
    ROW(getsockopt, ENOBUFS)                                                                       \
    ROW(pipe2, EMFILE)                                                                             \
    ROW(fcntl, EMFILE)                                                                             \
    ROW(eventfd, EMFILE)                                                                           \
    ROW(epoll_create1, EMFILE)                                                                     \
    ROW(epoll_ctl, ENOMEM)                                                                         \
    ROW(epoll_wait, EBADF)                                                                         \
    ROW(timerfd_create, EMFILE)                                                                    \
    ROW(poll, ENOMEM)                                                                              \
    ROW(read, EIO)                                                                                 \
    ROW(write, EIO)                                                                                \
    ROW(recv, ECONNRESET)                                                                          \
    ROW(send, ECONNRESET)                                                                          \
    ROW(recvmsg, ECONNRESET)                                                                       \
    ROW(sendmsg, ECONNRESET)                                                                       \
    ROW(ftruncate, ENOSPC)                                                                         \
    ROW(posix_fallocate, ENOSPC)                                                                   \
    ROW(fstat, EIO)                                                                                \
    ROW(pthread_create, EAGAIN)                                                                    \
    ROW(process_vm_readv, EPERM)                                                                   \
    ROW(syscall, EMFILE)

typedef enum failing_call {
#define FAILING_NUMBER(name, number) FAILING_##name,
    FAILING_CALLS(FAILING_NUMBER)
#undef FAILING_NUMBER
        FAILING_COUNT
} failing_call;

typedef enum failing_kind {
    FAILING_FAILS,
    FAILING_INTERRUPTED, /* EINTR, of calls that wait or move data */
    FAILING_SHORT,       /* one byte only is moved */
} failing_kind;

const char *failing_name(failing_call call);
int failing_number(failing_call call);
int failing_has(failing_call call, failing_kind kind);
/* Whether it moves data through a stream. */
int failing_moves(failing_call call);

/* What the wrappers share with the test, in memory of all ranks. */
typedef struct failing_plan {
    failing_call call;
    failing_kind kind;
    uint64_t number;                /* which of its calls, from 1; 0: none */
    uint64_t counts[FAILING_COUNT]; /* since failing_arm */
    const void *only;               /* counts the calls of this place alone; NULL: of all places */
    void (*seen)(failing_call call, const void *site); /* told of every call; may be NULL */
    uint32_t was_hit;
    void *site; /* of the call that failed */
} failing_plan;

/* Begins and ends to count, in this process. */
void failing_arm(failing_plan *plan);
void failing_disarm(void);
/* Blocks of the library's memory that are in use. */
size_t failing_blocks(void);
/* The place that allocated the index-th of those that failing_arm has not seen; NULL: none. Places
 * are offsets in the program, as addr2line takes them. */
void *failing_block_site(int index);
void *failing_place(const void *site);

#endif
