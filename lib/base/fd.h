/*
 * Descriptors that the library opens. A process may start without standard input, output or error;
 * the kernel then gives one of their numbers to the next file or socket, and what the program
 * prints would go into it.
 */
#ifndef WEIR_BASE_FD_H
#define WEIR_BASE_FD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { WEIRI_FD_FIRST = 3 };

/* Returns a descriptor of the same file that is none of 0 to 2 and is closed on exec: fd itself, or
 * a copy, and fd is closed. Takes the result of socket, open, accept4, eventfd, ... as it is: with
 * fd -1 it returns -1, and errno is unchanged. -1 and errno if there is no descriptor left. */
static inline int weiri_fd_raise(int fd)
{
    if (fd < 0 || fd >= WEIRI_FD_FIRST)
        return fd;
    const int raised = fcntl(fd, F_DUPFD_CLOEXEC, WEIRI_FD_FIRST);
    const int error_number = errno;
    close(fd);
    errno = error_number;
    return raised;
}

#endif
