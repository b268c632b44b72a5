/*
 * Proves that all ranks do without XPMEM where one of them lacks it, and say why; that buffers
 * which cannot be attached are copied, or the error reported; and that memory which goes away while
 * peers access it ends their calls with an error that names the rank. The faults are injected by
 * the stand-in of verify/tests/support/xpmem_standin.c; with TEST_XPMEM=real only those tests run
 * that need none.
 */
#include "verify/tests/support/xpmem_ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

/* ------------------------------------------------------- memory that is not there */

/* Takes the pages from this process's buffer: nobody can access it any more. */
static void take_away(void *buffer)
{
    if (xpmem_is_real())
        munmap(buffer, BYTES);
    else
        xpmem_standin.vanish();
}

/* A root that neither reads nor writes its buffer, which is not there: the rank that copies from it
 * ends with an error, and so does the root. */
static void missing_buffer(weir_comm *comm, int *failures)
{
    char *buffer = xpmem_memory(BYTES);
    const double start_s = now_s();
    const int rank = weir_comm_rank(comm);
    memset(buffer, rank, BYTES);
    EXPECT_OK(failures, weir_broadcast(comm, buffer, buffer, BYTES, WEIR_UINT8, 1, NULL));
    EXPECT_OK(failures, weir_comm_barrier(comm));
    if (rank == 1)
        take_away(buffer);
    weir_status status = weir_broadcast(comm, buffer, buffer, BYTES, WEIR_UINT8, 1, NULL);
    if (rank == 0)
        EXPECT(failures, status == WEIR_ERR_ABORTED &&
                             boot_last_error_has("aborted because of a bad buffer of rank 1") &&
                             boot_last_error_has("with WEIR_XPMEM=0 it may be a device driver's"));
    else
        EXPECT(failures, status == WEIR_ERR_INVALID && boot_last_error_has("rank 1: bad buffer"));
    EXPECT(failures, now_s() - start_s < SOON_S);
}

static void die(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

/* Rank 1 dies while the others access its memory in call after call. */
static void outlive(weir_comm *comm, int *failures)
{
    float *in = xpmem_memory(16 * MIB), *out = xpmem_memory(16 * MIB);
    const double start_s = now_s();
    weir_status status = WEIR_OK;
    if (weir_comm_rank(comm) == 1) {
        const struct itimerval soon = {.it_value = {.tv_usec = 300000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    while (status == WEIR_OK)
        status = weir_allreduce(comm, in, out, 4 * MIB, WEIR_FLOAT, WEIR_SUM, NULL);
    EXPECT(failures, status == WEIR_ERR_PEER && boot_last_error_has("rank 1 has died"));
    EXPECT(failures, now_s() - start_s < SOON_S);
}

/* The memory of a root that dies in the call: the pages are gone, and soon the process. */
static void dying_root(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm);
    char *buffer = xpmem_memory(BYTES);
    memset(buffer, rank, BYTES);
    if (rank == 1) {
        const struct itimerval soon = {.it_value = {.tv_usec = 200000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
        take_away(buffer);
    }
    weir_status status = weir_broadcast(comm, buffer, buffer, BYTES, WEIR_UINT8, 1, NULL);
    EXPECT(failures, status == WEIR_ERR_PEER && boot_last_error_has("rank 1 has died"));
}

/* The argument's in_comm breaks the communicator, so that its destruction may fail. */
static int in_broken_comm(weir_boot *boot, void *argument)
{
    const ranks_test *test = argument;
    int failures = 0;
    weir_comm *comm = open_attached(boot);
    if (!comm)
        return NO_COMM;
    test->in_comm(comm, &failures);
    weir_comm_destroy(comm);
    return failures;
}

static void test_broken(void **state)
{
    const ranks_test *test = *state;
    run_ranks(test->nranks, in_broken_comm, *state);
}

/* Runs ranks of which rank 1 dies. */
static void test_death(void **state)
{
    const ranks_test *test = *state;
    run_ranks_killed(test->nranks, 1, in_broken_comm, *state);
}

/* --------------------------------------------- the program's handler of SIGBUS */

static sigjmp_buf after_fault;

static void own_handler(int number)
{
    siglongjmp(after_fault, number);
}

/* Accesses a page beyond the end of a file. Returns the signal. */
static int cause_fault(void)
{
    FILE *file = tmpfile();
    volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    int number = sigsetjmp(after_fault, 1);
    if (number == 0)
        page[0] = 1;
    fclose(file);
    return number;
}

/* A fault that has nothing to do with attached memory goes to the program, as before and after. */
static int keeps_handler(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    struct sigaction now;
    signal(SIGBUS, own_handler);
    weir_comm *comm = open_attached(boot);
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler != own_handler);
    EXPECT(&failures, cause_fault() == SIGBUS);
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(comm, &failures, in, out, COUNT, 0, "fused");
    EXPECT(&failures, cause_fault() == SIGBUS);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    EXPECT(&failures, sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == own_handler);
    return failures;
}

/* -------------------------------------------- ranks that fall back, together */

/* What keeps one rank from using XPMEM. */
typedef struct lacks {
    const char *fault;   /* of the stand-in; NULL: none */
    const char *setting; /* of WEIR_XPMEM; NULL: none */
    int no_library;
    int who;         /* the rank; -1: all */
    const char *log; /* words of the line of rank 0 */
} lacks;

/* Keeps what is written to standard error in a file until capture_end, which returns it. */
static int captured_from = -1;
static FILE *captured;

static void capture_begin(void)
{
    fflush(stderr);
    captured_from = dup(2);
    captured = tmpfile();
    if (captured)
        dup2(fileno(captured), 2);
}

static void capture_end(char *text, size_t bytes)
{
    fflush(stderr);
    dup2(captured_from, 2);
    close(captured_from);
    ssize_t length = captured ? pread(fileno(captured), text, bytes - 1, 0) : 0;
    text[length > 0 ? length : 0] = '\0';
    if (captured)
        fclose(captured);
}

static int count_words(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

/* Two communicators; all ranks fall back, and rank 0 logs the reason once. */
static int fall_back(weir_boot *boot, void *argument)
{
    const lacks *what = argument;
    int failures = 0, rank = weir_boot_rank(boot);
    int is_concerned = what->who < 0 || what->who == rank;
    char text[8192];
    setenv("WEIR_LOG", "info", 1);
    if (is_concerned && what->fault)
        setenv("XPMEM_STANDIN", what->fault, 1);
    if (is_concerned && what->setting)
        setenv("WEIR_XPMEM", what->setting, 1);
    if (!(is_concerned && what->no_library) && !xpmem_load())
        return NO_COMM;
    capture_begin();
    weir_comm *first = open_comm(boot), *second = open_comm(boot);
    capture_end(text, sizeof text);
    if (!first || !second)
        return NO_COMM;
    EXPECT(&failures, !first->xpmem && !second->xpmem);
    EXPECT(&failures, count_words(text, "XPMEM is not used") == (rank == 0));
    EXPECT(&failures, rank != 0 || strstr(text, what->log));
    if (failures && rank == 0)
        fprintf(stderr, "# logged: %s\n", text);
    if (what->no_library)
        xpmem_load(); /* for its memory */
    calls_right(first, &failures, NULL, NULL);
    calls_right(second, &failures, NULL, NULL);
    weir_comm_destroy(first);
    weir_comm_destroy(second);
    const xpmem_standin_counts left = xpmem_standin.count();
    EXPECT(&failures, left.segments == 0 && left.permits == 0 && left.attachments == 0);
    return failures;
}

static int wrong_setting(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    if (weir_boot_rank(boot) == 0)
        setenv("WEIR_XPMEM", "2", 1);
    EXPECT(&failures, weir_comm_create(boot, &config, &comm) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("WEIR_XPMEM"));
    return failures;
}

/* --------------------------------------------- attachments that are refused */

/* Rank 1 cannot attach anything after creation: it alone uses system calls. */
static void refused_by_one(weir_comm *comm, int *failures)
{
    EXPECT(failures, comm->xpmem != NULL);
    if (weir_comm_rank(comm) == 1)
        setenv("XPMEM_STANDIN", "attach", 1);
    if (comm->reads_unregistered)
        calls_right(comm, failures, "fused", "direct");
}

/* Rank 0's buffers are in the heap, which the stand-in does not attach; the others are in place. */
static void refused_for_one_buffer(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    float *buffer = rank == 0 ? malloc(ODD_COUNT * 4) : xpmem_memory(ODD_COUNT * 4);
    float *root = rank == 0 ? malloc(ODD_COUNT * 4) : NULL;
    for (int round = 0; comm->reads_unregistered && round < 3; round++) {
        reduce_right(comm, failures, buffer, buffer, ODD_COUNT, round, "fused");
        fill(buffer, ODD_COUNT, rank, round);
        EXPECT_OK(failures,
                  weir_reduce(comm, buffer, root, ODD_COUNT, WEIR_FLOAT, WEIR_SUM, 0, NULL));
        EXPECT(failures, rank || is_sum(root, ODD_COUNT, nranks, round));
        fill(buffer, ODD_COUNT, rank, round);
        EXPECT_OK(failures, weir_broadcast(comm, buffer, buffer, ODD_COUNT, WEIR_FLOAT, 0, NULL));
        EXPECT(failures, buffer[ODD_COUNT - 1] == value_of(0, round, ODD_COUNT - 1));
    }
    free(root);
    if (rank == 0)
        free(buffer);
}

/* Where the kernel may not copy either, all ranks end with an error. */
static int refused_without_copies(weir_boot *boot, void *argument)
{
    int failures = 0, is_sum_call = *(int *)argument;
    setenv("WEIR_CMA", "0", 1);
    weir_comm *comm = open_attached(boot);
    if (!comm)
        return NO_COMM;
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(2 * BYTES);
    const double start_s = now_s();
    if (weir_comm_rank(comm) == 1)
        setenv("XPMEM_STANDIN", "attach", 1);
    weir_status status = is_sum_call
                             ? weir_allreduce(comm, in, out, COUNT, WEIR_FLOAT, WEIR_SUM, NULL)
                             : weir_allgather(comm, in, out, COUNT, WEIR_FLOAT, NULL);
    EXPECT(&failures, status == (weir_comm_rank(comm) == 1 ? WEIR_ERR_SYSTEM : WEIR_ERR_ABORTED));
    if (weir_comm_rank(comm) == 1)
        EXPECT(&failures, boot_last_error_has("rank 1 cannot attach 1048576 bytes of rank 0's"));
    EXPECT(&failures, now_s() - start_s < SOON_S);
    weir_comm_destroy(comm);
    return failures;
}

/* ------------------------------------------------------------------- the table */

#define BREAKS(name, test, nranks, body) AT(name, test, (&(ranks_test){nranks, NULL, NULL, body}))
#define FALLS_BACK(name, ...) RANKS_TEST(name, 3, fall_back, (&(lacks){__VA_ARGS__}))

int main(void)
{
    static int sum = 1, gather = 0;
    const struct CMUnitTest tests[] = {
        BREAKS("a buffer without memory is reported", test_broken, 2, missing_buffer),
        BREAKS("ranks outlive one whose memory they access", test_death, 3, outlive),
        BREAKS("a root dies while its memory is read", test_death, 3, dying_root),
        RANKS_TEST("faults that are the program's own go to its handler", 2, keeps_handler, NULL),
        /* The rest needs the stand-in. */
        FALLS_BACK("no library", NULL, NULL, 1, -1, "rank 0 has no usable libxpmem.so.0"),
        FALLS_BACK("no library on one rank", NULL, NULL, 1, 2,
                   "rank 2 has no usable libxpmem.so.0"),
        FALLS_BACK("no device", "device", NULL, 0, -1,
                   "rank 0 cannot open /dev/xpmem (No such file or directory)"),
        FALLS_BACK("no segment on one rank", "make", NULL, 0, 1,
                   "rank 1 cannot make a segment (xpmem_make: Cannot allocate memory)"),
        FALLS_BACK("no permit on one rank", "get", NULL, 0, 2,
                   "rank 2 cannot attach another rank's memory"),
        FALLS_BACK("switched off on one rank", NULL, "0", 0, 1, "rank 1 has WEIR_XPMEM=0"),
        RANKS_TEST("WEIR_XPMEM has the values 0 and 1", 2, wrong_setting, NULL),
        ATTACHED_TEST("a rank that cannot attach copies", 3, refused_by_one),
        ATTACHED_TEST("a buffer that cannot be attached is copied", 3, refused_for_one_buffer),
        RANKS_TEST("it can be neither attached nor copied: allreduce", 2, refused_without_copies,
                   &sum),
        RANKS_TEST("it can be neither attached nor copied: allgather", 2, refused_without_copies,
                   &gather),
    };
    const size_t count = sizeof tests / sizeof *tests;
    return RUN_SOME_TESTS("xpmem faults", tests, 0, xpmem_is_real() ? 4 : count);
}
