/* The guard of MPI_Init: see mpi_guard.h. */
#include "bench/job/mpi_guard.h"

#include "base/mpi_open.h"
#include "bench/job/launch.h"
#include "bench/job/watch.h"

#include <weir/weir.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

static struct {
    volatile pid_t process; /* 0: MPI_Init does not run; children of MPI_Init may exit */
    int rank, code;
    char line[2 * PATH_MAX + 512];
    int launcher, library; /* the ends at which the relay reads and writes; -1: none */
    int socket;            /* the library's, while the relay runs */
    volatile int speaks_pmi1;
    pthread_t relay;
} guard = {.launcher = -1, .library = -1};

static const int guard_signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { SIGNALS = sizeof guard_signals / sizeof *guard_signals };

/* Tells the launcher, by the protocol of PMI 1, that this process has ended MPI, so that its end
 * does not terminate the other ranks, whose signal would be the job's exit code. */
static void guard_finalize(void)
{
    static const char line[] = "cmd=finalize\n";
    char answer[64];
    struct pollfd launcher = {.fd = guard.launcher, .events = POLLIN};
    if (guard.speaks_pmi1 && write(guard.launcher, line, strlen(line)) > 0 &&
        poll(&launcher, 1, 1000) > 0 && read(guard.launcher, answer, sizeof answer) < 0)
        return;
}

/* One rank of the node prints the line. It ends last, and if other ranks still wait for this one,
 * the launcher then terminates them. A library that has asked to abort exits as well. */
static _Noreturn void guard_leave(void)
{
    static atomic_flag is_left = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&is_left))
        pause();
    if (bench_setup_claim_refusal(guard.rank == 0)) {
        const ssize_t written = write(STDERR_FILENO, guard.line, strlen(guard.line));
        (void)written;
        bench_setup_hold_refusal();
    } else {
        guard_finalize();
    }
    _exit(guard.code);
}

static void guard_exit(void)
{
    if (guard.process == getpid())
        guard_leave();
}

/* A library may keep this handler, and call it after MPI_Init. */
static void guard_signal(int number)
{
    guard_exit();
    signal(number, SIG_DFL);
    raise(number);
}

/* Returns 0 if an end is closed. */
static int guard_pass(int from, int to)
{
    char text[4096];
    const ssize_t bytes = read(from, text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (from == guard.library && strstr(text, "cmd=abort"))
        guard_leave();
    guard.speaks_pmi1 |= from == guard.library && strncmp(text, "cmd=", 4) == 0;
    for (ssize_t sent = 0, now; sent < bytes; sent += now)
        if ((now = write(to, text + sent, (size_t)(bytes - sent))) < 0)
            return 0;
    return bytes > 0;
}

static void *guard_relay(void *unused)
{
    struct pollfd ends[2] = {{.fd = guard.launcher, .events = POLLIN},
                             {.fd = guard.library, .events = POLLIN}};
    int is_open = 1;
    while (is_open && (poll(ends, 2, -1) >= 0 || errno == EINTR))
        for (int from = 0; from < 2 && is_open; from++)
            if (ends[from].revents)
                is_open = guard_pass(ends[from].fd, ends[!from].fd);
    shutdown(guard.library, SHUT_RDWR);
    return unused;
}

/* Puts the relay between library and launcher. Without it, as when descriptors have run out, only
 * the exit code may be another. */
static void guard_insert_relay(void)
{
    int pair[2];
    const char *number = getenv("PMI_FD");
    guard.socket = number ? atoi(number) : -1;
    const int launcher = fcntl(guard.socket, F_DUPFD_CLOEXEC, 0);
    if (launcher < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        guard.launcher = launcher;
        guard.library = pair[1];
        if (pthread_create(&guard.relay, NULL, guard_relay, NULL) == 0) {
            dup2(pair[0], guard.socket);
            close(pair[0]);
            return;
        }
        close(pair[0]);
        close(pair[1]);
    }
    guard.launcher = -1;
    close(launcher);
}

/* MPI_Init has its answers, so nothing is on its way. */
static void guard_remove_relay(void)
{
    dup2(guard.launcher, guard.socket);
    shutdown(guard.library, SHUT_RDWR);
    pthread_join(guard.relay, NULL);
    close(guard.library);
    close(guard.launcher);
}

void bench_mpi_guard_begin(const char *program, int rank)
{
    static int is_registered;
    weiri_job_identity identity;
    const char *prefix = weiri_mpi_launcher_prefix();
    bench_launch_identity(&identity); /* before MPI_Init */
    guard.rank = rank;
    guard.code = weir_status_exit_code(WEIR_ERR_SYSTEM);
    snprintf(guard.line, sizeof guard.line,
             "%s: rank %d: MPI_Init of %s ended the process, which a launcher%s%s%s started; if "
             "they are of different MPIs, name the launcher's library by WEIR_MPI_SO, else see "
             "MPI's own message\n",
             program, rank, weiri_mpi_file(), *prefix ? " in " : "", prefix, *prefix ? "/bin" : "");
    if (!is_registered)
        is_registered = atexit(guard_exit) == 0;
    for (int i = 0; i < SIGNALS; i++)
        signal(guard_signals[i], guard_signal);
    guard_insert_relay();
    guard.process = getpid();
}

void bench_mpi_guard_end(void)
{
    guard.process = 0;
    if (guard.launcher >= 0)
        guard_remove_relay();
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(guard_signals[i], NULL, &now) == 0 && now.sa_handler == guard_signal)
            signal(guard_signals[i], SIG_DFL);
    }
}
