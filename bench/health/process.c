/* Starting programs with a deadline: see process.h. */
#define _GNU_SOURCE /* pipe2 */
#include "bench/health/process.h"

#include "bench/health/health.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Keeps the last complete line of a stream that arrives in pieces. */
typedef struct last_line {
    char current[512], last[512];
    size_t length;
} last_line;

static void last_line_add(last_line *lines, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n') {
            if (lines->length + 1 < sizeof lines->current)
                lines->current[lines->length++] = text[i];
            continue;
        }
        lines->current[lines->length] = '\0';
        if (lines->length)
            memcpy(lines->last, lines->current, lines->length + 1);
        lines->length = 0;
    }
}

/* The child: its own process group, no input, standard error to the pipe. */
static void process_become(char *const argv[], int error_end)
{
    int nothing = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
    }
    dup2(error_end, STDERR_FILENO);
    execv(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Reads until the end of the stream or the deadline. */
static void process_read(int from, double end_s, last_line *lines)
{
    char text[4096];
    for (;;) {
        const double left_s = end_s - weiri_clock_s();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        if (left_s <= 0)
            return;
        const int count = poll(&ready, 1, (int)(left_s * 1e3) + 1);
        if (count < 0 && errno != EINTR)
            return;
        if (count <= 0)
            continue;
        const ssize_t bytes = read(from, text, sizeof text);
        if (bytes <= 0)
            return;
        last_line_add(lines, text, (size_t)bytes);
    }
}

/* Waits for the end of the child until the deadline, then kills its group. Returns 0 if it ended, 1
 * if its code is lost, because this process ignores SIGCHLD, or -1 at the deadline. */
static int process_wait(pid_t child, double end_s, int *status)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    pid_t ended = 0;
    while (ended != child && weiri_clock_s() < end_s) {
        ended = waitpid(child, status, WNOHANG);
        if (ended < 0 && errno != EINTR)
            break;
        if (ended == 0)
            nanosleep(&pause, NULL);
    }
    kill(-child, SIGKILL); /* also what the child left running */
    const int is_lost = ended < 0 && errno != EINTR;
    while (ended != child && !is_lost) {
        ended = waitpid(child, status, 0);
        if (ended < 0 && errno != EINTR)
            break;
    }
    if (is_lost)
        return 1;
    return weiri_clock_s() < end_s ? 0 : -1;
}

int health_process_run(char *const argv[], double deadline_s, char *line, size_t bytes)
{
    int ends[2], status = 0;
    last_line lines = {0};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return HEALTH_NOT_STARTED;
    const pid_t child = fork();
    if (child == 0)
        process_become(argv, ends[1]);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return HEALTH_NOT_STARTED;
    }
    setpgid(child, child);
    const double end_s = weiri_clock_s() + deadline_s;
    process_read(ends[0], end_s, &lines);
    close(ends[0]);
    const int result = process_wait(child, end_s, &status);
    const char *text = strstr(lines.last, ": ");
    snprintf(line, bytes, "%s", text ? text + 2 : lines.last);
    if (result < 0)
        return HEALTH_TIMED_OUT;
    if (result > 0) {
        snprintf(line, bytes, "the exit code of %s is lost: SIGCHLD is ignored (trap - CHLD)",
                 argv[0]);
        return HEALTH_NOT_STARTED;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
