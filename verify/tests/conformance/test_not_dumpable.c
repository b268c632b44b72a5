/*
 * Proves that ranks share memory with processes that are not dumpable, whose /proc/PID/fd peers may
 * not open: these pass their descriptors to processes that know the secret of a key, say so once,
 * and leave neither thread nor descriptor. A rank that stops being dumpable too late is reported
 * by every rank. No process of these tests has CAP_SYS_PTRACE, which would open /proc/PID/fd.
 */
#define _GNU_SOURCE /* struct sockaddr_un, syscall */
#include "verify/tests/support/comm_ranks.h"

#include "transport/mapped/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { BYTES = 1 << 20, ALL = -1 };

/* Takes the right to open every process's files from this process. */
static int drop_trace_capability(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &head, sets) != 0)
        return 0;
    for (int i = 0; i < 2; i++)
        sets[i].inheritable = 0;
    sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    return syscall(SYS_capset, &head, sets) == 0;
}

static int become_not_dumpable(void)
{
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static int can_open_files_of(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const int is_denied = fd < 0 && (errno == EACCES || errno == EPERM);
    if (fd >= 0)
        close(fd);
    return !is_denied;
}

static int count_threads(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2;
}

/* ------------------------------------------------------------------- the log */

static int log_kept = -1;
static FILE *log_file;

static void log_capture(void)
{
    log_file = tmpfile();
    log_kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(fileno(log_file), STDERR_FILENO);
}

/* Ends the capture, and returns how many lines contain the words. */
static int log_end(const char *words, const char *others, int *count_others)
{
    char line[1024];
    int count = 0;
    *count_others = 0;
    dup2(log_kept, STDERR_FILENO);
    close(log_kept);
    rewind(log_file);
    while (fgets(line, sizeof line, log_file)) {
        count += strstr(line, words) != NULL;
        *count_others += strstr(line, others) != NULL;
    }
    fclose(log_file);
    return count;
}

/* -------------------------------------------------------------- communicators */

/* Every rank writes a part of every rank's registered memory. */
static void write_to_all(weir_comm *comm, int *failures)
{
    enum { PART = 5003 };
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    EXPECT_OK(failures, weir_mem_alloc(comm, (size_t)nranks * PART, &mem));
    if (*failures)
        return;
    EXPECT_OK(failures, weir_mem_exchange(comm, mem, mems));
    for (int peer = 0; !*failures && peer < nranks; peer++)
        boot_fill((unsigned char *)weir_mem_pointer(mems[peer]) + (size_t)rank * PART, PART, rank,
                  peer);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    const unsigned char *own = weir_mem_pointer(mem);
    for (int peer = 0; peer < nranks; peer++)
        EXPECT(failures, boot_filled(own + (size_t)peer * PART, PART, peer, rank));
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (int peer = 0; peer < nranks; peer++)
        if (peer != rank && mems[peer])
            weir_mem_free(mems[peer]);
    weir_mem_free(mem);
}

/* Sums unregistered buffers, which the kernel may not copy from these processes. */
static void sum_unregistered(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    const size_t count = BYTES / sizeof(float);
    float *buffer = malloc(BYTES);
    for (size_t i = 0; i < count; i++)
        buffer[i] = (float)(rank + (int)(i % 7));
    EXPECT_OK(failures, weir_allreduce(comm, buffer, buffer, count, WEIR_FLOAT, WEIR_SUM, NULL));
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += buffer[i] != (float)(nranks * (nranks - 1) / 2 + nranks * (int)(i % 7));
    EXPECT(failures, wrong == 0);
    free(buffer);
}

static void use_communicator(weir_boot *boot, int *failures)
{
    weir_comm *comm = open_comm(boot);
    EXPECT(failures, comm != NULL);
    if (!comm)
        return;
    write_to_all(comm, failures);
    sum_unregistered(comm, failures);
    EXPECT_OK(failures, weir_comm_destroy(comm));
}

/* Makes the chosen rank, or all, not dumpable. Returns whether this one is. */
static int prepare(weir_boot *boot, int chosen, int *failures)
{
    const int rank = weir_boot_rank(boot), is_chosen = chosen == ALL || chosen == rank;
    int32_t pids[MOST_RANKS];
    EXPECT(failures, drop_trace_capability());
    EXPECT(failures, !is_chosen || become_not_dumpable());
    pids[rank] = (int32_t)getpid();
    EXPECT_OK(failures, weir_boot_allgather(boot, pids, sizeof *pids));
    for (int peer = 0; peer < weir_boot_nranks(boot); peer++)
        if (peer != rank)
            EXPECT(failures, can_open_files_of(pids[peer]) == !(chosen == ALL || chosen == peer));
    EXPECT_OK(failures, weir_boot_barrier(boot));
    return is_chosen;
}

/* Creates and uses two communicators in turn. A process that is not dumpable says once that it
 * passes descriptors, and rank 0 says once that it cannot read unregistered memory of peers. */
static int communicators(weir_boot *boot, void *argument)
{
    int failures = 0, slow_lines = 0;
    setenv("WEIR_LOG", "info", 1);
    setenv("WEIR_XPMEM", "0", 1);
    const int is_chosen = prepare(boot, *(const int *)argument, &failures);
    const int fds = count_fds();
    log_capture();
    use_communicator(boot, &failures);
    use_communicator(boot, &failures);
    const int lines = log_end("is not dumpable (", "pass through shared memory", &slow_lines);
    EXPECT(&failures, lines == is_chosen);
    EXPECT(&failures, slow_lines == (weir_boot_rank(boot) == 0));
    EXPECT(&failures, count_fds() == fds);
    EXPECT(&failures, SANITISED || count_threads() == 1);
    return failures;
}

/* Rank 1 allocates memory first, and then peers may not open it any more. */
static int too_late(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    EXPECT(&failures, drop_trace_capability());
    weir_comm *comm = open_comm(boot);
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_mem_alloc(comm, 64, &mem));
    EXPECT(&failures, weir_comm_rank(comm) != 1 || become_not_dumpable());
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    EXPECT(&failures, weir_mem_exchange(comm, mem, mems) == WEIR_ERR_UNSUPPORTED);
    EXPECT(&failures, boot_last_error_has("PR_SET_DUMPABLE") || weir_comm_rank(comm) == 1);
    weir_mem_free(mem);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* ------------------------------------------------------------------- segments */

typedef struct owned {
    weiri_segment segment;
    weiri_segment_key key;
} owned;

static owned make_segment(void)
{
    owned made = {.segment = {.fd = -1}};
    assert_int_equal(weiri_transport_shm.segment_create(BYTES, &made.segment, &made.key), WEIR_OK);
    return made;
}

static weir_status map_and_unmap(const weiri_segment_key *key)
{
    weiri_segment mapped = {.fd = -1};
    const weir_status status = weiri_transport_shm.segment_map(key, &mapped);
    if (status == WEIR_OK)
        weiri_transport_shm.segment_destroy(&mapped);
    return status;
}

/* Runs a test in a process that is not dumpable; a failed assertion ends it. */
static void in_child(void (*body)(void))
{
    int code = 0;
    pid_t child = fork();
    if (child == 0) {
        if (!drop_trace_capability() || !become_not_dumpable())
            _exit(99);
        body();
        _exit(0);
    }
    waitpid(child, &code, 0);
    assert_int_equal(code, 0);
}

#define CHECK(condition) ((condition) ? (void)0 : _exit(__LINE__ % 97 + 1))

static void keys_body(void)
{
    owned own = make_segment(), other = make_segment();
    CHECK(weiri_descriptor_is_passed(&own.key));
    CHECK(map_and_unmap(&own.key) == WEIR_OK);
    weiri_segment_key wrong = own.key;
    wrong.handle[32] ^= 1; /* of the secret */
    CHECK(map_and_unmap(&wrong) == WEIR_ERR_UNSUPPORTED);
    wrong = own.key;
    wrong.fd = STDIN_FILENO; /* open, but not offered */
    CHECK(map_and_unmap(&wrong) == WEIR_ERR_PEER);
    wrong = own.key;
    wrong.inode++;
    CHECK(map_and_unmap(&wrong) == WEIR_ERR_PEER);
    weiri_transport_shm.segment_destroy(&own.segment);
    CHECK(map_and_unmap(&own.key) == WEIR_ERR_PEER);
    CHECK(map_and_unmap(&other.key) == WEIR_OK);
    weiri_transport_shm.segment_destroy(&other.segment);
    CHECK(map_and_unmap(&other.key) == WEIR_ERR_PEER);
    owned again = make_segment(); /* after the thread has ended */
    CHECK(map_and_unmap(&again.key) == WEIR_OK);
    weiri_transport_shm.segment_destroy(&again.segment);
}

static void test_keys(void **state)
{
    (void)state;
    in_child(keys_body);
}

/* Returns a connection to the owner of a key. */
static int connect_to(const weiri_segment_key *key)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen((const char *)key->handle);
    memcpy(address.sun_path + 1, key->handle, length);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address,
                  (socklen_t)(sizeof address.sun_family + 1 + length)) == 0);
    return fd;
}

/* Peers that say nothing, or go away, do not keep others from their memory. */
static void silent_peers_body(void)
{
    owned own = make_segment();
    const int silent = connect_to(&own.key), gone = connect_to(&own.key);
    close(gone);
    const double start_s = now_s();
    CHECK(map_and_unmap(&own.key) == WEIR_OK);
    CHECK(now_s() - start_s < 5);
    close(silent);
    weiri_transport_shm.segment_destroy(&own.segment);
}

static void test_silent_peers(void **state)
{
    (void)state;
    in_child(silent_peers_body);
}

/* A stopped owner is waited for until the deadline. */
static void stopped_owner_body(void)
{
    int ends[2], code = 0;
    owned own = {0};
    CHECK(pipe(ends) == 0);
    const pid_t owner = fork();
    if (owner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no stopped process */
        own = make_segment();
        CHECK(write(ends[1], &own.key, sizeof own.key) == (ssize_t)sizeof own.key);
        pause();
    }
    CHECK(read(ends[0], &own.key, sizeof own.key) == (ssize_t)sizeof own.key);
    CHECK(map_and_unmap(&own.key) == WEIR_OK);
    kill(owner, SIGSTOP);
    CHECK(waitpid(owner, &code, WUNTRACED) == owner);
    setenv("WEIR_TIMEOUT_MS", "300", 1);
    CHECK(map_and_unmap(&own.key) == WEIR_ERR_PEER);
    CHECK(boot_last_error_has("timed out"));
    kill(owner, SIGKILL);
    waitpid(owner, &code, 0);
    CHECK(map_and_unmap(&own.key) == WEIR_ERR_PEER);
}

static void test_stopped_owner(void **state)
{
    (void)state;
    in_child(stopped_owner_body);
}

/* A forked child has its own thread and leaves its parent's offers. */
static void forked_child_body(void)
{
    int code = 0;
    owned own = make_segment();
    const pid_t child = fork();
    if (child == 0) {
        owned mine = make_segment();
        CHECK(mine.key.pid == getpid() && map_and_unmap(&mine.key) == WEIR_OK);
        weiri_transport_shm.segment_destroy(&mine.segment);
        _exit(0);
    }
    CHECK(waitpid(child, &code, 0) == child && code == 0);
    CHECK(map_and_unmap(&own.key) == WEIR_OK);
    weiri_transport_shm.segment_destroy(&own.segment);
}

static void test_forked_child(void **state)
{
    (void)state;
    in_child(forked_child_body);
}

int main(void)
{
    static int first = 0, last = 3, all = ALL;
    const struct CMUnitTest tests[] = {
        RANKS_TEST("rank 0 is not dumpable", 4, communicators, &first),
        RANKS_TEST("the last rank is not dumpable", 4, communicators, &last),
        RANKS_TEST("no rank is dumpable", 4, communicators, &all),
        RANKS_TEST("a rank that becomes so too late is reported by all", 3, too_late, NULL),
        AT("only what is offered is passed, to those who know the secret", test_keys, NULL),
        AT("silent peers do not keep others waiting", test_silent_peers, NULL),
        AT("an owner that is stopped or dead is reported", test_stopped_owner, NULL),
        AT("a forked child passes its own descriptors", test_forked_child, NULL),
    };
    return RUN_TESTS("not_dumpable", tests);
}
