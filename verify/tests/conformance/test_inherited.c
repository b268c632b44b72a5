/*
 * State that a process inherits does not change what the library does. Each row of a table makes a
 * state, starts this program again, which so inherits it, and there runs a job: ranks of one node
 * and of two emulated ones create communicators and use them. The job passes, or, where the row
 * allows it, fails with an error that names the cause; it never ends by a signal, and never hangs.
 * docs/developer/inherited-state.md lists the states.
 */
#define _GNU_SOURCE
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/comma_locale.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    RANKS = 2,
    REPORT = 9, /* the descriptor of the pipe for errors, in the job */
    CANNOT_PREPARE = 77,
    COUNT = 70000, /* longer than a packet, and than a socket's buffer */
    SECOND_LIMIT_MS = 40000,
};

/* ---------------------------------------------------------------------- states */

typedef struct inherited inherited;
struct inherited {
    const char *name;
    int (*prepare)(
        const inherited *row); /* before the program starts; not 0: cannot be made here */
    void (*within)(void);      /* when it has started; NULL: nothing */
    const char *named;         /* in the error of a job that fails; NULL: it passes */
    int resource;              /* of prepare_limit */
    rlim_t limit;
    int call, refusal; /* of prepare_seccomp */
};

static int prepare_nothing(const inherited *row)
{
    (void)row;
    return 0;
}

static int prepare_closed(const inherited *row)
{
    for (int fd = row->call; fd <= STDERR_FILENO; fd++)
        close(fd);
    return 0;
}

static int prepare_ignored(const inherited *row)
{
    (void)row;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    return 0;
}

static int prepare_no_sigchld(const inherited *row)
{
    (void)row;
    return signal(SIGCHLD, SIG_IGN) == SIG_ERR;
}

static int prepare_blocked(const inherited *row)
{
    sigset_t all;
    (void)row;
    sigfillset(&all);
    return sigprocmask(SIG_SETMASK, &all, NULL);
}

static int prepare_umask(const inherited *row)
{
    umask((mode_t)row->call);
    return 0;
}

static int prepare_limit(const inherited *row)
{
    const struct rlimit limit = {row->limit, row->limit};
    return setrlimit(row->resource, &limit);
}

/* Limits of processes do not hold for the superuser. */
static int prepare_few_processes(const inherited *row)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return -1;
    return prepare_limit(row);
}

static int prepare_no_folder(const inherited *row)
{
    char folder[] = "/tmp/weir-inherited-XXXXXX";
    (void)row;
    return !mkdtemp(folder) || chdir(folder) != 0 || rmdir(folder) != 0;
}

static int prepare_no_proc(const inherited *row)
{
    (void)row;
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return -1;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
           mount("none", "/proc", "tmpfs", 0, "size=4k") != 0;
}

/* The job is in another pid namespace than its /proc. */
static int prepare_foreign_proc(const inherited *row)
{
    int status = 0;
    (void)row;
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return -1;
    const pid_t child = fork();
    if (child <= 0)
        return child != 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}

static int prepare_hidepid(const inherited *row)
{
    (void)row;
    if (unshare(CLONE_NEWNS) != 0)
        return -1;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
           mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || setgid(65534) != 0 ||
           setuid(65534) != 0;
}

static int prepare_environment(const inherited *row)
{
    static char *none[] = {NULL};
    (void)row;
    environ = none;
    return 0;
}

static int prepare_nowhere(const inherited *row)
{
    (void)row;
    setenv("TMPDIR", "/nonexistent/tmp", 1);
    setenv("HOME", "/nonexistent", 1);
    setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    setenv("PATH", "", 1);
    setenv("TZ", ":/nonexistent/zone", 1);
    return 0;
}

/* Refuses one system call. */
static int refuse_call(int call, int refusal)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refusal),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static int prepare_seccomp(const inherited *row)
{
    return refuse_call(row->call, row->refusal);
}

static void reap_all(int number)
{
    const int error_number = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = error_number;
}

static void within_reaped(void)
{
    const struct sigaction action = {.sa_handler = reap_all, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
}

static void within_no_zombies(void)
{
    const struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &action, NULL);
}

static void within_comma(void)
{
    comma_locale_set("/tmp/weir-inherited-locale");
}

static void within_metrics(void)
{
    setenv("WEIR_METRICS", "prom,json", 1);
    setenv("WEIR_METRICS_MIN_BYTES", "0", 1);
}

/* clang-format off */
#define REFUSALS(X) \
    X(memfd_create) X(process_vm_readv) X(process_vm_writev) X(pidfd_open) X(getrandom) \
    X(sched_getaffinity) X(sched_setaffinity) X(eventfd2) X(getcpu) X(madvise) X(prctl) X(fchmod) \
    X(setsockopt) X(getsockopt) X(shutdown) X(mlock) X(membarrier) X(get_mempolicy) \
    X(set_mempolicy) X(mbind) X(move_pages) X(sysinfo) X(prlimit64) X(ioctl) X(pipe2) X(readlink) \
    X(sendmsg) X(recvmsg) X(socketpair) X(kill) X(sigaltstack) X(clock_nanosleep) X(flock)
/* clang-format on */

#define ROW_OF_REFUSAL(name)                                                                       \
    {"seccomp: " #name ": EPERM",                                                                  \
     prepare_seccomp,                                                                              \
     NULL,                                                                                         \
     "Operation not permitted",                                                                    \
     0,                                                                                            \
     0,                                                                                            \
     SYS_##name,                                                                                   \
     EPERM},                                                                                       \
        {"seccomp: " #name ": ENOSYS",                                                             \
         prepare_seccomp,                                                                          \
         NULL,                                                                                     \
         "Function not implemented",                                                               \
         0,                                                                                        \
         0,                                                                                        \
         SYS_##name,                                                                               \
         ENOSYS},

static const inherited states[] = {
    {"nothing", prepare_nothing, NULL, NULL, 0, 0, 0, 0},
    {"standard input, output and error are closed", prepare_closed, NULL, NULL, 0, 0, STDIN_FILENO,
     0},
    {"standard error is closed", prepare_closed, NULL, NULL, 0, 0, STDERR_FILENO, 0},
    {"all signals are ignored", prepare_ignored, NULL, NULL, 0, 0, 0, 0},
    {"SIGCHLD is ignored", prepare_no_sigchld, NULL, NULL, 0, 0, 0, 0},
    {"SIGCHLD has a handler that reaps all", prepare_nothing, within_reaped, NULL, 0, 0, 0, 0},
    {"children leave no zombies", prepare_nothing, within_no_zombies, NULL, 0, 0, 0, 0},
    {"all signals are blocked", prepare_blocked, NULL, NULL, 0, 0, 0, 0},
    {"umask 0777", prepare_umask, NULL, NULL, 0, 0, 0777, 0},
    {"umask 0", prepare_umask, NULL, NULL, 0, 0, 0, 0},
    {"a locale with a decimal comma", prepare_nothing, within_comma, NULL, 0, 0, 0, 0},
    {"few open files", prepare_limit, NULL, "ulimit -Hn", RLIMIT_NOFILE, 12, 0, 0},
    {"no files", prepare_limit, NULL, "ulimit -f", RLIMIT_FSIZE, 0, 0, 0},
    {"short files", prepare_limit, within_metrics, NULL, RLIMIT_FSIZE, 8 << 20, 0, 0},
    {"a stack of 64 KiB", prepare_limit, NULL, NULL, RLIMIT_STACK, 64 << 10, 0, 0},
    {"little address space", prepare_limit, NULL, "memory", RLIMIT_AS, 24 << 20, 0, 0},
    {"no locked memory", prepare_limit, NULL, NULL, RLIMIT_MEMLOCK, 0, 0, 0},
    {"no more processes", prepare_few_processes, NULL, "ulimit -u", RLIMIT_NPROC, 0, 0, 0},
    {"no core files", prepare_limit, NULL, NULL, RLIMIT_CORE, 0, 0, 0},
    {"no /proc", prepare_no_proc, NULL, NULL, 0, 0, 0, 0},
    {"/proc of another pid namespace", prepare_foreign_proc, NULL, NULL, 0, 0, 0, 0},
    {"/proc with hidepid, as another user", prepare_hidepid, NULL, NULL, 0, 0, 0, 0},
    {"a working folder that is deleted", prepare_no_folder, NULL, NULL, 0, 0, 0, 0},
    {"an empty environment", prepare_environment, NULL, NULL, 0, 0, 0, 0},
    {"folders that are not there", prepare_nowhere, NULL, NULL, 0, 0, 0, 0},
    REFUSALS(ROW_OF_REFUSAL)
    /* In the thread of unique ids, which logs the reason. */
    {"seccomp: accept4: EPERM", prepare_seccomp, NULL, "rank 0 has not answered", 0, 0, SYS_accept4,
     EPERM},
};
enum { STATES = sizeof states / sizeof *states };

/* --------------------------------------------------------------------- the job */

static int report_failure(const char *what)
{
    dprintf(REPORT, "%s: %s\n", what, weir_last_error());
    return 1;
}

/* Creates a communicator, uses it and destroys it. */
static int use_communicator(weir_boot *boot)
{
    static int in[COUNT], out[COUNT];
    const int rank = weir_boot_rank(boot);
    weir_comm *comm = NULL, *part = NULL;
    weir_mem *mem = NULL;
    int wrong = 0;
    if (weir_comm_create(boot, NULL, &comm) != WEIR_OK)
        return report_failure("create");
    for (int i = 0; i < COUNT; i++)
        in[i] = i + rank;
    weir_status status = weir_mem_alloc(comm, 1 << 16, &mem);
    for (int count = 1; status == WEIR_OK && count <= COUNT; count *= 30) {
        status = weir_allreduce(comm, in, out, (size_t)count, WEIR_INT32, WEIR_SUM, NULL);
        for (int i = 0; i < count; i++)
            wrong += out[i] != 2 * i + 1;
    }
    if (status == WEIR_OK)
        status = weir_comm_split(comm, 0, -rank, NULL, &part);
    if (status == WEIR_OK)
        status = weir_broadcast(part, in, out, 100, WEIR_INT32, 0, NULL);
    wrong += status == WEIR_OK && out[99] != 100;
    if (status == WEIR_OK)
        status = weir_comm_destroy(part);
    if (status != WEIR_OK)
        wrong += report_failure("use");
    weir_mem_free(mem);
    if (weir_comm_destroy(comm) != WEIR_OK && status == WEIR_OK)
        wrong += report_failure("destroy");
    if (wrong)
        dprintf(REPORT, "%d faults\n", wrong);
    return wrong != 0;
}

/* Over TCP, on two emulated nodes. */
static int use_nodes(weir_boot *boot)
{
    const int rank = weir_boot_rank(boot);
    weir_unique_id ids[RANKS];
    weir_boot *tcp = NULL;
    setenv("WEIR_HOSTID", rank ? "b" : "a", 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    weir_status status = weir_unique_id_create(&ids[rank]);
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(boot, ids, sizeof *ids);
    if (status == WEIR_OK)
        status = weir_boot_tcp_create(&ids[0], rank, RANKS, &tcp);
    const int failed = status == WEIR_OK ? use_communicator(tcp) : report_failure("nodes");
    weir_boot_destroy(tcp);
    unsetenv("WEIR_HOSTID");
    unsetenv("WEIR_TRANSPORT");
    return failed;
}

static int job_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    const int failed = use_communicator(boot);
    return failed ? failed : use_nodes(boot);
}

/* This program, started again: the job of a row. */
static int run_job(int row)
{
    int codes[RANKS] = {1, 1};
    alarm(SECOND_LIMIT_MS / 1000);
    setenv("WEIR_TIMEOUT_MS", "10000", 1);
    if (states[row].within)
        states[row].within();
    if (weir_boot_fork_run(RANKS, job_rank, NULL, SECOND_LIMIT_MS / 2, codes) != WEIR_OK)
        return report_failure("fork");
    for (int rank = 0; rank < RANKS; rank++)
        if (codes[rank] > 1)
            dprintf(REPORT, "rank %d ended with %d\n", rank, codes[rank]);
    return codes[0] || codes[1];
}

/* -------------------------------------------------------------------- the table */

static void start_again(const inherited *row)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)(row - states));
    if (row->prepare(row) != 0)
        _exit(CANNOT_PREPARE);
    /* Not by /proc/self/exe, which may be gone. */
    char *const arguments[] = {(char *)(uintptr_t) "inherited", number, NULL};
    fexecve(REPORT + 1, arguments, environ);
    _exit(CANNOT_PREPARE + 1);
}

static int own_program;

/* Returns whether the row holds; prints what is wrong. */
static int row_holds(const inherited *row)
{
    char text[2048] = "";
    int status = 0;
    int report[2]; /* no file, whose size may be limited */
    assert_int_equal(pipe2(report, O_CLOEXEC | O_NONBLOCK), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(own_program, REPORT + 1);
        dup2(report[1], REPORT);
        start_again(row);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    const ssize_t bytes = read(report[0], text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    close(report[0]);
    close(report[1]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_PREPARE) {
        print_message("# left out: %s: it cannot be made here\n", row->name);
        return 1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && row->named && strstr(text, row->named) &&
        !strstr(text, "ended with"))
        return 1;
    print_message("# %s: status %x: %s\n", row->name, (unsigned)status, text);
    return 0;
}

static void test_states(void **state)
{
    (void)state;
    int failed = 0;
    own_program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(own_program >= 0);
    for (int i = 0; i < STATES; i++)
        failed += !row_holds(&states[i]);
    assert_int_equal(failed, 0);
}

/* ------------------------------------------------------- refusals that go away */

static int refused_call;

/* A system call is refused to the thread that runs this, and to no other one. */
static void *use_refused(void *boot)
{
    if (refuse_call(refused_call, EPERM) == 0)
        use_communicator(boot);
    return NULL;
}

/* A communicator whose calls are refused, and then one whose calls are not. */
static int refused_once(weir_boot *boot, void *call)
{
    int failures = 0;
    pthread_t thread;
    const int rank = weir_boot_rank(boot);
    weir_unique_id ids[RANKS];
    weir_boot *first = NULL;
    EXPECT_OK(&failures, weir_unique_id_create(&ids[rank]));
    EXPECT_OK(&failures, weir_boot_allgather(boot, ids, sizeof *ids));
    EXPECT_OK(&failures, weir_boot_tcp_create(&ids[0], rank, RANKS, &first));
    refused_call = *(int *)call;
    EXPECT(&failures, pthread_create(&thread, NULL, use_refused, first) == 0);
    pthread_join(thread, NULL);
    weir_boot_destroy(first);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    EXPECT(&failures, use_communicator(boot) == 0);
    EXPECT(&failures, use_nodes(boot) == 0);
    return failures;
}

#define CALL_OF(name) {SYS_##name, #name},

static void test_refusals_do_not_stick(void **state)
{
    static struct {
        int call;
        const char *name;
    } calls[] = {REFUSALS(CALL_OF)};
    (void)state;
    dup2(STDERR_FILENO, REPORT);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int codes[RANKS] = {1, 1};
        weir_boot_fork_run(RANKS, refused_once, &calls[i].call, LIMIT_MS, codes);
        if (codes[0] || codes[1])
            fail_msg("after %s was refused: codes %d and %d", calls[i].name, codes[0], codes[1]);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return run_job(atoi(argv[1]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_refusals_do_not_stick),
    };
    char metrics[] = "/tmp/weir-inherited-XXXXXX", removal[64];
    if (!mkdtemp(metrics) || setenv("WEIR_METRICS_DIR", metrics, 1) != 0)
        return 1;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(removal, sizeof removal, "rm -r %s", metrics);
    return system(removal) != 0 || failed;
}
