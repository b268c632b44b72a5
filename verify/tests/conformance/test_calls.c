/*
 * Calls that must fail, and do so at once or at their deadline: missing arguments, unknown types, a
 * peer that is silent, gone, or aborts on another node; and state that a later call relies on:
 * messages that came early, the mappings of symmetric memory, buffers of which only one is
 * registered. Runs on forked ranks.
 */
#include "verify/tests/support/internode_ranks.h"

#include "base/log.h"
#include "coll/algos.h"
#include "comm/comm.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 400, LATE_MS = 1500 };

static void sleep_ms(int ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ----------------------------------------------------------- missing arguments */

static void without_arguments(weir_comm *comm, int *failures)
{
    weir_mem *mem = NULL;
    weir_proxy *proxy = NULL;
    weir_memchan *chan = NULL;
    weir_sem *sem = (weir_sem *)&mem; /* never used */
    float in = 1, out = 0;
    EXPECT_OK(failures, weir_mem_alloc(comm, 4096, &mem));
    EXPECT(failures,
           weir_allreduce(comm, &in, &out, 1, (weir_dtype)99, WEIR_SUM, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures,
           weir_allreduce(comm, &in, &out, 1, WEIR_FLOAT, (weir_op)99, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, out == 0);
    EXPECT(failures, weir_memchan_create(NULL, mem, mem, NULL, &chan) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_memchan_create(sem, NULL, mem, NULL, &chan) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_memchan_create(sem, mem, NULL, NULL, &chan) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_memchan_create(sem, mem, mem, NULL, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_proxy_create(NULL, NULL, &proxy) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_proxy_create(comm, NULL, NULL) == WEIR_ERR_INVALID);
    weir_mem_free(mem);
}

/* ------------------------------------------------------------------ a silent peer */

/* Rank 1 takes no part in time; rank 0's call ends at its deadline, and says so. */
static int late_exchange_body(weir_boot *boot, void *argument)
{
    int failures = 0;
    int32_t all[2] = {0, 0};
    (void)argument;
    EXPECT_OK(&failures, weir_boot_set_timeout(boot, TIMEOUT_MS));
    if (weir_boot_rank(boot) == 1) {
        sleep_ms(LATE_MS);
        return failures;
    }
    const double begin = now_s();
    EXPECT(&failures, weir_boot_allgather(boot, all, sizeof *all) == WEIR_ERR_TIMEOUT);
    EXPECT(&failures, now_s() - begin < LATE_MS / 1000.0);
    return failures;
}

static int late_handle_body(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_mem *mem = NULL;
    (void)argument;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_boot_set_timeout(boot, TIMEOUT_MS));
    if (weir_boot_rank(boot) == 0)
        EXPECT(&failures, weir_mem_recv(comm, 1, 3, &mem) == WEIR_ERR_TIMEOUT && !mem);
    else
        sleep_ms(LATE_MS);
    weir_comm_abort(comm);
    weir_comm_destroy(comm);
    return failures;
}

/* Rank 1 ends without a word; rank 0 finds out long before the deadline. */
static int gone_body(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, 20000);
    if (!comm)
        return NO_COMM;
    if (weir_boot_rank(boot) == 1)
        _exit(0);
    const double begin = now_s();
    EXPECT(&failures, weir_comm_barrier(comm) == WEIR_ERR_PEER);
    EXPECT(&failures, now_s() - begin < 10);
    weir_comm_destroy(comm);
    return failures;
}

/* An abort reaches ranks of other nodes, and those of the same node. */
static void abort_across_nodes(weir_comm *comm, const layout *where, int *failures)
{
    float in = 1, out;
    (void)where;
    EXPECT_OK(failures, weir_allreduce(comm, &in, &out, 1, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT_OK(failures, weir_boot_barrier(weir_comm_boot(comm))); /* all have left the call */
    const double begin = now_s();
    if (weir_comm_rank(comm) == 0)
        weir_comm_abort(comm);
    else
        EXPECT(failures, weir_comm_barrier(comm) == WEIR_ERR_ABORTED);
    EXPECT(failures, now_s() - begin < 5);
    /* Neither a later call of the aborting rank nor one of the others is admitted. */
    weir_comm *part = NULL;
    weir_mem *mem = NULL;
    weir_conn *conn = NULL;
    const int peer = (weir_comm_rank(comm) + 1) % weir_comm_nranks(comm);
    EXPECT(failures,
           weir_allreduce(comm, &in, &out, 1, WEIR_FLOAT, WEIR_SUM, NULL) == WEIR_ERR_ABORTED);
    EXPECT(failures,
           weir_allreduce(comm, &in, &out, 0, WEIR_FLOAT, WEIR_SUM, NULL) == WEIR_ERR_ABORTED);
    EXPECT(failures, weir_comm_barrier(comm) == WEIR_ERR_ABORTED);
    EXPECT(failures, weir_comm_split(comm, 0, 0, NULL, &part) == WEIR_ERR_ABORTED);
    EXPECT(failures, weir_mem_alloc(comm, 64, &mem) == WEIR_ERR_ABORTED);
    EXPECT(failures, weir_connect(comm, peer, 1, WEIR_TRANSPORT_AUTO, &conn) == WEIR_ERR_ABORTED);
    EXPECT(failures, !part && !mem && !conn);
}

static void test_abort_across_nodes(void **state)
{
    layout_test test = {{.nodes = "aab", .nnodes = 2}, NULL, abort_across_nodes};
    (void)state;
    run_ranks(3, run_layout_body, &test);
}

/* A mapping whose owner has ended: the reason is that, not this process's limit of files. */
static void memory_of_an_ended_process_has_the_right_reason(void **state)
{
    (void)state;
    weiri_segment_key key = {
        .kind = WEIRI_SEGMENT_MEMFD, .pid = 0x7ffffff0, .fd = 3, .bytes = 4096, .inode = 1};
    weiri_segment segment;
    assert_int_equal(weiri_transport_shm.segment_map(&key, &segment), WEIR_ERR_PEER);
    assert_null(strstr(weir_last_error(), "ulimit"));
}

/* --------------------------------------------------------- what later calls rely on */

/* Messages that arrive before they are received: twice in a row, so that the list of kept ones is
 * empty in between. */
static int early_messages_body(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    EXPECT_OK(&failures, weir_boot_set_timeout(boot, 5000));
    for (int round = 0; round < 3 && !failures; round++) {
        int32_t sent[2] = {7 + round, 9 + round}, got[2] = {0, 0};
        if (weir_boot_rank(boot) == 1)
            for (int i = 0; i < 2; i++)
                EXPECT_OK(&failures, weir_boot_send(boot, &sent[i], sizeof *sent, 0, 5 + i));
        EXPECT_OK(&failures, weir_boot_barrier(boot)); /* keeps them */
        if (weir_boot_rank(boot) == 0)
            for (int i = 0; i < 2; i++)
                EXPECT_OK(&failures, weir_boot_recv(boot, &got[i], sizeof *got, 1, 5 + i));
        EXPECT(&failures, weir_boot_rank(boot) == 1 || memcmp(sent, got, sizeof sent) == 0);
    }
    return failures;
}

/* Lines of forked ranks name their rank. */
static int log_body(weir_boot *boot, void *argument)
{
    char line[128] = "", name[32] = "/tmp/weir-calls-XXXXXX", expected[16];
    int failures = 0, fd = mkstemp(name), kept = dup(STDERR_FILENO);
    (void)argument;
    unlink(name);
    dup2(fd, STDERR_FILENO);
    weiri_log(WEIRI_LOG_WARN, "a line");
    dup2(kept, STDERR_FILENO);
    EXPECT(&failures, pread(fd, line, sizeof line - 1, 0) > 0);
    snprintf(expected, sizeof expected, "weir[%d]", weir_boot_rank(boot));
    EXPECT(&failures, strstr(line, expected) != NULL);
    close(fd);
    close(kept);
    return failures;
}

/* Each rank has other regions before the symmetric one; it maps that of every peer. */
static int symmetric_body(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_mem *others[3] = {NULL, NULL, NULL}, *mem = NULL;
    (void)argument;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    for (int i = 0; i < comm->rank; i++)
        EXPECT_OK(&failures, weir_mem_alloc(comm, 4096, &others[i]));
    EXPECT_OK(&failures, weir_mem_alloc(comm, 8192, &mem));
    EXPECT_OK(&failures, weir_mem_symmetric(mem));
    const weiri_desc own = weiri_region_describe(comm, weir_mem_pointer(mem), 8192);
    const weiri_desc *all = comm->regions[own.region].symmetric;
    EXPECT(&failures, all && own.region == (uint32_t)comm->rank);
    for (int rank = 0; all && rank < comm->nranks; rank++)
        EXPECT(&failures, all[rank].region == (uint32_t)rank &&
                              (rank == comm->rank ||
                               (all[rank].region < comm->peers[rank].nmappings &&
                                comm->peers[rank].mappings[all[rank].region].generation ==
                                    all[rank].generation)));
    weir_mem_free(mem);
    for (int i = 0; i < comm->rank; i++)
        weir_mem_free(others[i]);
    EXPECT_OK(&failures, weir_comm_destroy(comm));
    return failures;
}

/* Algorithms that map both buffers serve calls of which one is registered, by another way. */
static void half_registered(weir_comm *comm, int *failures)
{
    enum { COUNT = 70001 };
    weir_mem *mem = NULL;
    float *plain = calloc(COUNT, sizeof *plain);
    EXPECT_OK(failures, weir_mem_alloc(comm, COUNT * sizeof *plain, &mem));
    EXPECT_OK(failures, weir_comm_set_algo(comm, WEIR_COLL_ALLREDUCE, "fused"));
    for (int i = 0; i < 4 && plain && mem; i++) {
        float *in = i % 2 ? plain : weir_mem_pointer(mem);
        float *out = i % 2 ? weir_mem_pointer(mem) : plain;
        for (int k = 0; k < COUNT; k++)
            in[k] = (float)(k % 100 + weir_comm_rank(comm));
        EXPECT_OK(failures, weir_allreduce(comm, in, out, COUNT, WEIR_FLOAT, WEIR_SUM, NULL));
        int wrong = 0;
        for (int k = 0; k < COUNT; k++)
            wrong += out[k] != (float)(2 * (k % 100) + 1);
        EXPECT(failures, wrong == 0);
        EXPECT_OK(failures, weir_comm_barrier(comm));
    }
    weir_mem_free(mem);
    free(plain);
}

/* ------------------------------------------------- what monitoring records of a call */

enum { MONITORED = 60, MONITORED_PIECE = 24 };

/* An algorithm that runs a call in pieces, as those do that stage data through host memory. */
static weir_status run_in_pieces(weiri_coll *coll, const weiri_task *task)
{
    weir_status status = WEIR_OK;
    for (size_t at = 0; at < task->elements && status == WEIR_OK; at += MONITORED_PIECE) {
        const size_t left = task->elements - at;
        weir_call call = *task->call;
        call.in = weiri_in_at(task, at * sizeof(float));
        call.out = weiri_out_at(task, at * sizeof(float));
        call.count = left < MONITORED_PIECE ? left : MONITORED_PIECE;
        const weiri_task piece = weiri_task_part(task, &call);
        status = weiri_host_allreduce_packet_row.run(coll, &piece);
    }
    return status;
}

/* Whether a file of the folder has a word. */
static int folder_has(const char *folder, const char *word)
{
    char command[256];
    snprintf(command, sizeof command, "grep -qs '%s' '%s'/*", word, folder);
    return system(command) == 0;
}

static int monitored_body(weir_boot *boot, void *argument)
{
    static const weiri_algo in_pieces = {
        .info = {.collective = WEIR_COLL_ALLREDUCE, .name = "pieces"}, .run = run_in_pieces};
    const weiri_choice choice = {.max_bytes = UINT64_MAX, .algo = &in_pieces, .name = "pieces"};
    const char *folder = argument;
    int failures = 0;
    float in[MONITORED] = {1}, out[MONITORED];
    weir_call call = WEIR_CALL_INIT;
    setenv("WEIR_METRICS", "json", 1);
    setenv("WEIR_METRICS_DIR", folder, 1);
    setenv("WEIR_METRICS_MIN_BYTES", "0", 1);
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    weiri_coll *coll = NULL;
    EXPECT_OK(&failures, weiri_coll_get(comm, &coll));
    coll->choices[WEIR_COLL_ALLREDUCE][0] = choice;
    call.dtype = WEIR_FLOAT;
    call.in = in;
    call.out = out;
    call.count = MONITORED;
    EXPECT_OK(&failures, weir_run(comm, &call));
    EXPECT(&failures, out[0] == 2);
    EXPECT_OK(&failures, weir_comm_destroy(comm)); /* writes the metrics */
    EXPECT(&failures, folder_has(folder, "\"coll_msg_size_bytes\": 240,.*\"coll_algo\": "
                                         "\"pieces\""));
    return failures;
}

static void calls_in_pieces_are_monitored_as_a_whole(void **state)
{
    char folder[] = "/tmp/weir_test_calls.XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    run_ranks(2, monitored_body, folder);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMM_TEST("calls without arguments are refused", 1, without_arguments),
        RANKS_TEST("an exchange with a silent rank ends at its deadline", 2, late_exchange_body,
                   NULL),
        RANKS_TEST("a handle that is not sent is missed at the deadline", 2, late_handle_body,
                   NULL),
        RANKS_TEST("a rank that has ended is reported before the deadline", 2, gone_body, NULL),
        AT("an abort reaches other nodes", test_abort_across_nodes, NULL),
        AT("memory of an ended process", memory_of_an_ended_process_has_the_right_reason, NULL),
        RANKS_TEST("messages that arrive early are kept", 2, early_messages_body, NULL),
        RANKS_TEST("log lines of forked ranks name the rank", 2, log_body, NULL),
        RANKS_TEST("symmetric memory of every peer is mapped", 3, symmetric_body, NULL),
        COMM_TEST("one registered buffer of two", 2, half_registered),
        AT("a call that runs in pieces is monitored as a whole",
           calls_in_pieces_are_monitored_as_a_whole, NULL),
    };
    return RUN_TESTS("calls", tests);
}
