/*
 * Proves that unregistered memory of peers is attached through XPMEM where every rank can, that all
 * ranks fall back together where one cannot, and that memory that goes away is reported. The
 * library is the stand-in of verify/tests/support/xpmem_standin.c; with TEST_XPMEM=real it is the
 * installed one, and tests that inject faults are left out. test_coll runs all collectives.
 */
#include "comm/node/xpmem_state.h"
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/xpmem_memory.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { MIB = 1 << 20, BYTES = MIB, COUNT = BYTES / 4, ODD_COUNT = 70001, SOON_S = 10 };

/* ------------------------------------------------------------- what ranks do */

/* Element i of a rank's input in a round. */
static float value_of(int rank, int round, size_t i)
{
    return (float)((int)(i % 1000) + 10 * rank + round);
}

static void fill(float *buffer, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++)
        buffer[i] = value_of(rank, round, i);
}

/* Sums over all ranks: integers, which are exact. */
static int is_sum(const float *buffer, size_t count, int nranks, int round)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int rank = 0; rank < nranks; rank++)
            sum += value_of(rank, round, i);
        if (buffer[i] != sum)
            return 0;
    }
    return 1;
}

/* Allreduce of these buffers: right sums, by this algorithm (NULL: any). */
static void reduce_right(weir_comm *comm, int *failures, float *in, float *out, size_t count,
                         int round, const char *algo)
{
    fill(in, count, weir_comm_rank(comm), round);
    EXPECT_OK(failures,
              weir_allreduce(comm, in, out, count, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT(failures, is_sum(out, count, weir_comm_nranks(comm), round));
    if (algo)
        EXPECT(failures, strcmp(weir_comm_last_algo(comm), algo) == 0);
}

/* Allgather of these buffers: right blocks, by this algorithm (NULL: any). */
static void gather_right(weir_comm *comm, int *failures, float *in, float *out, size_t count,
                         int round, const char *algo)
{
    int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm), right = 1;
    fill(in, count, rank, round);
    EXPECT_OK(failures, weir_allgather(comm, in, out, count, WEIR_FLOAT, NULL));
    for (int peer = 0; peer < nranks; peer++)
        for (size_t i = 0; i < count; i++)
            right &= out[(size_t)peer * count + i] == value_of(peer, round, i);
    EXPECT(failures, right);
    if (algo)
        EXPECT(failures, strcmp(weir_comm_last_algo(comm), algo) == 0);
}

/* Both calls in attached memory, and both in memory of the heap. */
static void calls_right(weir_comm *comm, int *failures, const char *sum_algo,
                        const char *gather_algo)
{
    const size_t n = (size_t)weir_comm_nranks(comm), bytes = n * BYTES;
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(bytes);
    float *heap_in = malloc(BYTES), *heap_out = malloc(bytes);
    EXPECT(failures, in && out && heap_in && heap_out);
    if (in && out && heap_in && heap_out)
        for (int round = 0; round < 3; round++) {
            reduce_right(comm, failures, in, out, COUNT, round, sum_algo);
            gather_right(comm, failures, in, out, COUNT, round, gather_algo);
            reduce_right(comm, failures, heap_in, heap_out, COUNT, round, NULL);
            gather_right(comm, failures, heap_in, heap_out, COUNT, round, NULL);
        }
    xpmem_memory_free(in, BYTES);
    xpmem_memory_free(out, bytes);
    free(heap_in);
    free(heap_out);
}

static void attached_calls(weir_comm *comm, int *failures)
{
    EXPECT(failures, comm->xpmem != NULL);
    calls_right(comm, failures, "fused", "direct");
}

/* -------------------------------------------- ranks that fall back, together */

/* What keeps one rank from using XPMEM. */
typedef struct lacks {
    const char *fault;  /* of the stand-in; NULL: none */
    const char *setting; /* of WEIR_XPMEM; NULL: none */
    int no_library;
    int who;             /* the rank; -1: all */
    const char *log;     /* words of the line of rank 0 */
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
        EXPECT_OK(failures, weir_reduce(comm, buffer, root, ODD_COUNT, WEIR_FLOAT, WEIR_SUM, 0,
                                        NULL));
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
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    if (!comm || !comm->xpmem)
        return NO_COMM;
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(2 * BYTES);
    const double start_s = now_s();
    if (weir_comm_rank(comm) == 1)
        setenv("XPMEM_STANDIN", "attach", 1);
    weir_status status =
        is_sum_call ? weir_allreduce(comm, in, out, COUNT, WEIR_FLOAT, WEIR_SUM, NULL)
                    : weir_allgather(comm, in, out, COUNT, WEIR_FLOAT, NULL);
    EXPECT(&failures,
           status == (weir_comm_rank(comm) == 1 ? WEIR_ERR_SYSTEM : WEIR_ERR_ABORTED));
    if (weir_comm_rank(comm) == 1)
        EXPECT(&failures, boot_last_error_has("rank 1 cannot attach 1048576 bytes of rank 0's"));
    EXPECT(&failures, now_s() - start_s < SOON_S);
    weir_comm_destroy(comm);
    return failures;
}

/* Only whole windows are refused: the pages of the buffer alone are attached. */
static void windows_refused(weir_comm *comm, int *failures)
{
    setenv("XPMEM_STANDIN", "windows", 1);
    setenv("WEIR_CMA", "0", 1);
    attached_calls(comm, failures);
}

/* ------------------------------------------------------- the attachments kept */

static int attachments_of(const weir_comm *comm, int rank)
{
    int count = 0;
    const weiri_attached_peer *peer = &comm->xpmem->peers[rank];
    for (int i = 0; peer->attachments && i < WEIRI_ATTACHMENTS_MAX; i++)
        count += peer->attachments[i].at != NULL;
    return count;
}

/* More buffers far from each other than attachments are kept, twice around. The stand-in's arena
 * has room for buffers in 40 windows. */
static void many_buffers(weir_comm *comm, int *failures)
{
    enum { BUFFERS = 40, SPACING = 48 * MIB, SMALL = 16384 };
    float *in[BUFFERS], *out = xpmem_memory(SMALL);
    char *room = xpmem_is_real() ? mmap(NULL, (size_t)BUFFERS * SPACING, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                 : NULL;
    for (int i = 0; i < BUFFERS; i++) {
        in[i] = room ? (float *)(void *)(room + (size_t)i * SPACING)
                     : xpmem_standin.alloc(SMALL, SPACING);
        EXPECT(failures, in[i] != NULL);
    }
    for (int i = 0; i < 2 * BUFFERS && !*failures; i++)
        reduce_right(comm, failures, in[i % BUFFERS], out, SMALL / 4, i, "fused");
    for (int rank = 0; rank < weir_comm_nranks(comm); rank++)
        EXPECT(failures, attachments_of(comm, rank) ==
                             (rank == weir_comm_rank(comm) ? 0 : WEIRI_ATTACHMENTS_MAX));
    for (int i = 0; i < BUFFERS && !xpmem_is_real(); i++)
        xpmem_standin.free(in[i]);
}

/* The buffers that a call uses are not detached while others are, and stay attached. */
static void attached_once(weir_comm *comm, int *failures)
{
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(comm, failures, in, out, COUNT, 0, "fused");
    const int before = xpmem_is_real() ? 0 : xpmem_standin.count().attaches;
    for (int round = 1; round < 20; round++)
        reduce_right(comm, failures, in, out, COUNT, round, "fused");
    EXPECT(failures, xpmem_is_real() || xpmem_standin.count().attaches == before);
    xpmem_memory_free(in, BYTES);
    xpmem_memory_free(out, BYTES);
}

/* Buffers are freed and allocated again at the same addresses, also with other content there. */
static void freed_between_calls(weir_comm *comm, int *failures)
{
    float *first = NULL, *last = NULL;
    for (int round = 0; round < 30; round++) {
        float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
        first = round ? first : in;
        last = in;
        if (round)
            EXPECT(failures, in[0] == 0 && in[COUNT - 1] == 0);
        reduce_right(comm, failures, in, out, COUNT - (size_t)round, round, "fused");
        gather_right(comm, failures, in, out, COUNT / 8, round, NULL);
        EXPECT_OK(failures, weir_comm_barrier(comm));
        xpmem_memory_free(in, BYTES);
        xpmem_memory_free(out, BYTES);
    }
    EXPECT(failures, first == last); /* else this test proves nothing */
}

/* Inputs in read-only memory, a buffer that ends in the middle of the last page that is mapped, and
 * one on the stack. */
static void unusual_buffers(weir_comm *comm, int *failures)
{
    static float result[2 * 3000];
    float stack[3000];
    const int rank = weir_comm_rank(comm);
    float *read_only = xpmem_memory(16384), *last_page = xpmem_memory(3 * 4096);
    fill(read_only, 4096, rank, 1);
    EXPECT(failures, mprotect(read_only, 16384, PROT_READ) == 0);
    fill(result, 3000, rank, 9);
    EXPECT_OK(failures,
              weir_broadcast(comm, read_only, rank ? result : read_only, 3000, WEIR_FLOAT, 0, NULL));
    EXPECT(failures, rank == 0 || result[2999] == value_of(0, 1, 2999));
    EXPECT_OK(failures, weir_allreduce(comm, read_only, result, 3000, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT(failures, is_sum(result, 3000, weir_comm_nranks(comm), 1));
    reduce_right(comm, failures, last_page, last_page, 3001, 2, "fused");
    reduce_right(comm, failures, last_page + 1, last_page + 1, 2999, 3, "fused");
    if (comm->reads_unregistered || xpmem_is_real())
        reduce_right(comm, failures, stack, stack, 3000, 4, "fused");
    for (int i = 0; i < 4096; i++)
        EXPECT(failures, read_only[i] == value_of(rank, 1, (size_t)i));
    EXPECT(failures, mprotect(read_only, 16384, PROT_READ | PROT_WRITE) == 0);
}

/* Two communicators of the same ranks: what one detaches, the other keeps. */
static int two_communicators(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *first = xpmem_load() ? open_comm(boot) : NULL;
    weir_comm *second = first ? open_comm(boot) : NULL;
    if (!second || !first->xpmem || !second->xpmem)
        return NO_COMM;
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(first, &failures, in, out, COUNT, 0, "fused");
    reduce_right(second, &failures, in, out, COUNT, 1, "fused");
    EXPECT_OK(&failures, weir_comm_destroy(first));
    reduce_right(second, &failures, in, out, COUNT, 2, "fused");
    EXPECT_OK(&failures, weir_comm_destroy(second));
    if (!xpmem_is_real()) {
        const xpmem_standin_counts left = xpmem_standin.count();
        EXPECT(&failures, left.segments == 0 && left.permits == 0 && left.attachments == 0);
    }
    first = open_comm(boot);
    EXPECT(&failures, first && first->xpmem);
    if (first && first->xpmem)
        reduce_right(first, &failures, in, out, COUNT, 3, "fused");
    EXPECT_OK(&failures, weir_comm_destroy(first));
    return failures;
}

/* A child inherits neither the attachments nor a share in the segment. */
static void forked_between_calls(weir_comm *comm, int *failures)
{
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(comm, failures, in, out, COUNT, 0, "fused");
    pid_t child = fork();
    if (child == 0) {
        float *shared = xpmem_memory(BYTES);
        if (shared)
            memset(shared, 1, BYTES);
        _exit(weir_comm_barrier(comm) == WEIR_ERR_INVALID ? 0 : 1);
    }
    reduce_right(comm, failures, in, out, COUNT, 1, "fused");
    int status = 0;
    EXPECT(failures, waitpid(child, &status, 0) == child && status == 0);
    reduce_right(comm, failures, in, out, COUNT, 2, "fused");
}

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
        EXPECT(failures, status == WEIR_ERR_PEER &&
                             boot_last_error_has("a buffer of rank 1 is not memory that other"));
    else
        EXPECT(failures, status == WEIR_ERR_ABORTED);
    EXPECT(failures, now_s() - start_s < SOON_S);
}

static int missing_buffer_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    if (!comm || !comm->xpmem)
        return NO_COMM;
    missing_buffer(comm, &failures);
    weir_comm_destroy(comm);
    return failures;
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

static int outlive_rank(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    if (!comm || !comm->xpmem)
        return NO_COMM;
    outlive(comm, &failures);
    weir_comm_destroy(comm);
    return failures;
}

/* The memory of a root that dies in the call: the pages are gone, and soon the process. */
static int dying_root(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0, rank = weir_boot_rank(boot);
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    if (!comm || !comm->xpmem)
        return NO_COMM;
    char *buffer = xpmem_memory(BYTES);
    memset(buffer, rank, BYTES);
    if (rank == 1) {
        const struct itimerval soon = {.it_value = {.tv_usec = 200000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
        take_away(buffer);
    }
    weir_status status = weir_broadcast(comm, buffer, buffer, BYTES, WEIR_UINT8, 1, NULL);
    EXPECT(&failures, status == WEIR_ERR_PEER && boot_last_error_has("rank 1 has died"));
    weir_comm_destroy(comm);
    return failures;
}

/* Runs ranks of which rank 1 dies: its end is a signal, the others' is 0. */
static void test_death(void **state)
{
    int codes[MOST_RANKS];
    const ranks_test *test = *state;
    if (weir_boot_fork_run(3, test->body, NULL, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (codes[0] != 0 || codes[2] != 0 || codes[1] != 128 + SIGKILL)
        fail_msg("ranks ended with %d, %d, %d", codes[0], codes[1], codes[2]);
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
    volatile char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
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
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    if (!comm || !comm->xpmem)
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

/* ------------------------------------------------------------------- the table */

static int in_comm(weir_boot *boot, void *argument)
{
    const ranks_test *test = argument;
    int failures = 0;
    weir_comm *comm = xpmem_load() ? open_comm(boot) : NULL;
    if (!comm || !comm->xpmem)
        return NO_COMM;
    test->in_comm(comm, &failures);
    if (!failures)
        EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

static void test_attached(void **state)
{
    const ranks_test *test = *state;
    run_ranks(test->nranks, in_comm, *state);
}

#define ATTACHED_TEST(name, nranks, body)                                                          \
    AT(name, test_attached, (&(ranks_test){nranks, NULL, NULL, body}))
#define FALLS_BACK(name, ...) RANKS_TEST(name, 3, fall_back, (&(lacks){__VA_ARGS__}))

int main(void)
{
    static int sum = 1, gather = 0;
    const struct CMUnitTest always[] = {
        ATTACHED_TEST("buffers are attached: allreduce and allgather as in registered memory", 3,
                      attached_calls),
        ATTACHED_TEST("attachments are kept", 2, attached_once),
        ATTACHED_TEST("more buffers than attachments", 3, many_buffers),
        ATTACHED_TEST("buffers freed and allocated again at their addresses", 3,
                      freed_between_calls),
        ATTACHED_TEST("read-only buffers, ends within a page, the stack", 2, unusual_buffers),
        RANKS_TEST("two communicators, and another one after them", 3, two_communicators, NULL),
        ATTACHED_TEST("a child between calls", 2, forked_between_calls),
        RANKS_TEST("a buffer without memory is reported", 2, missing_buffer_rank, NULL),
        AT("ranks outlive one whose memory they access", test_death,
           (&(ranks_test){.body = outlive_rank})),
        AT("a root dies while its memory is read", test_death,
           (&(ranks_test){.body = dying_root})),
        RANKS_TEST("faults that are the program's own go to its handler", 2, keeps_handler, NULL),
    };
    const struct CMUnitTest injected[] = {
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
        ATTACHED_TEST("the pages of a buffer alone are attached", 2, windows_refused),
    };
    if (xpmem_is_real())
        return RUN_TESTS("xpmem", always);
    return RUN_TESTS("xpmem", always) + RUN_TESTS("xpmem", injected);
}
