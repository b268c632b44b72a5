/* Treats each state that a process inherits: see program.h. */
#define _GNU_SOURCE /* O_CLOEXEC, NSIG */
#include "programs/program.h"

#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens /dev/null in place of a descriptor that is not open, so that no socket or file of the
 * program gets its number, and output for it. Standard output is opened for reading: a write to it
 * still fails, and is reported. */
static void begin_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        const int opened = open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
        if (opened < 0 || opened == fd)
            continue;
        dup2(opened, fd);
        close(opened);
    }
}

/* Lets writes wait for a slow reader. Without it, a parent that made the pipe non-blocking would
 * get a part of the output. */
static void begin_blocking_output(void)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        const int flags = fcntl(fd, F_GETFL);
        if (flags >= 0 && flags & O_NONBLOCK)
            fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
}

/* Whether a user has a reason to start a program with this signal ignored: nohup, a job in the
 * background, and the stops of a terminal. */
static int signal_may_be_ignored(int number)
{
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM ||
           number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static void begin_signals(void)
{
    struct sigaction action;
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        if (!signal_may_be_ignored(number) && sigaction(number, NULL, &action) == 0 &&
            action.sa_handler == SIG_IGN)
            signal(number, SIG_DFL);
    /* What cannot be written fails with EFBIG and EPIPE, as on a full disk, and is reported. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* clears SA_NOCLDWAIT, with which no child can be waited for */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void weiri_program_begin(void)
{
    begin_descriptors();
    begin_blocking_output();
    begin_signals();
    /* No file that the program creates is world-writable, and all can be read and written by the
     * user. */
    umask((umask(S_IWOTH) | S_IWOTH) & ~(mode_t)S_IRWXU);
    /* A library that was loaded with the program, such as one linked with -ffast-math, may have
     * switched to flush-to-zero, which threads inherit. */
    fesetenv(FE_DFL_ENV);
}
