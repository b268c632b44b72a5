/*
 * Runs a program in a new process group, so that killing it at the deadline also kills its
 * children.
 */
#define _GNU_SOURCE
#include "algo/process.h"

#include "base/error.h"
#include <weir/target.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The environment with English messages, because output is searched for "error". The caller frees
 * the array; its strings belong to the environment. */
static char **english_environment(void)
{
    static char english[] = "LC_ALL=C";
    size_t count = 0, used = 0;
    while (environ && environ[count])
        count++;
    char **made = calloc(count + 2, sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        if (strncmp(environ[i], "LC_", 3) != 0 && strncmp(environ[i], "LANG=", 5) != 0)
            made[used++] = environ[i];
    if (made)
        made[used] = english;
    return made;
}

static int process_describe_child(posix_spawn_file_actions_t *actions,
                                  posix_spawnattr_t *attributes, int to)
{
    sigset_t none;
    sigemptyset(&none);
    int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(actions, to, 1);
    error = error ? error : posix_spawn_file_actions_adddup2(actions, to, 2);
    error = error ? error : posix_spawnattr_setpgroup(attributes, 0);
    error = error ? error : posix_spawnattr_setsigmask(attributes, &none);
    error = error ? error
                  : posix_spawnattr_setflags(attributes,
                                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    return error;
}

/* Returns 0 or an errno. */
static int process_start(const char *const *argv, int to, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment = english_environment();
    if (!environment)
        return ENOMEM;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        goto free_environment;
    error = posix_spawnattr_init(&attributes);
    if (error)
        goto destroy_actions;
    error = process_describe_child(&actions, &attributes, to);
    if (!error) /* posix_spawnp does not write to argv */
        error = posix_spawnp(child, argv[0], &actions, &attributes, (char *const *)(void *)argv,
                             environment);
    posix_spawnattr_destroy(&attributes);
destroy_actions:
    posix_spawn_file_actions_destroy(&actions);
free_environment:
    free(environment);
    return error;
}

/* Reads until end of file; what does not fit is discarded. Returns 0, or -1 at the deadline. */
static int process_drain(int from, uint64_t deadline_ns, char *output, size_t bytes)
{
    size_t used = 0;
    char rest[512];
    output[0] = '\0';
    for (;;) {
        uint64_t now_ns = weir_clock_ns();
        if (now_ns >= deadline_ns)
            return -1;
        struct pollfd ready = {.fd = from, .events = POLLIN};
        uint64_t left_ms = (deadline_ns - now_ns) / 1000000 + 1;
        if (poll(&ready, 1, left_ms > 60000 ? 60000 : (int)left_ms) <= 0)
            continue;
        size_t room = bytes - 1 - used;
        ssize_t got = read(from, room ? output + used : rest, room ? room : sizeof rest);
        if (got == 0 || (got < 0 && errno != EINTR))
            return 0;
        if (got > 0 && room) {
            used += (size_t)got;
            output[used] = '\0';
        }
    }
}

typedef enum process_end {
    PROCESS_ENDED,
    PROCESS_LOST, /* another part of this process has its exit code */
    PROCESS_LATE, /* and has been killed */
} process_end;

/* Waits until the program ends. */
static process_end process_reap(pid_t child, uint64_t deadline_ns, int is_late, int *state)
{
    enum { NAP_US = 500 };
    while (!is_late) {
        const pid_t ended = waitpid(child, state, WNOHANG);
        if (ended == child)
            return PROCESS_ENDED;
        if (ended < 0 && errno != EINTR)
            return PROCESS_LOST;
        is_late = weir_clock_ns() >= deadline_ns;
        if (!is_late)
            usleep(NAP_US);
    }
    kill(-child, SIGKILL);
    while (waitpid(child, state, 0) < 0 && errno == EINTR)
        continue;
    return PROCESS_LATE;
}

weir_status weiri_process_run(const char *const *argv, int timeout_ms, char *output, size_t bytes,
                              int *exit_code)
{
    int ends[2], state = 0;
    pid_t child = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot start %s", argv[0]);
    int error = process_start(argv, ends[1], &child);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error, "cannot start %s", argv[0]);
    }
    uint64_t deadline_ns = weir_clock_ns() + (uint64_t)timeout_ms * 1000000;
    int late = process_drain(ends[0], deadline_ns, output, bytes) != 0;
    const process_end end = process_reap(child, deadline_ns, late, &state);
    close(ends[0]);
    if (end == PROCESS_LATE)
        return weiri_fail(WEIR_ERR_TIMEOUT, "%s did not end within %d ms and was killed", argv[0],
                          timeout_ms);
    if (end == PROCESS_LOST)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "%s ended, but its exit code is unknown: this process ignores SIGCHLD, "
                          "or reaps every child; set SIGCHLD to SIG_DFL",
                          argv[0]);
    if (!WIFEXITED(state))
        return weiri_fail(WEIR_ERR_SYSTEM, "%s was killed by signal %d", argv[0], WTERMSIG(state));
    if (WEXITSTATUS(state) == 127 && !*output)
        return weiri_fail(WEIR_ERR_SYSTEM, "cannot start %s: no such program", argv[0]);
    *exit_code = WEXITSTATUS(state);
    return WEIR_OK;
}
