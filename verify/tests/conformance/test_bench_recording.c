/*
 * WEIR_RECORD: what four ranks on three communicators call is read back call by call, in order,
 * with sizes, types, roots, counts, groups and durations, and every call matches its partners. A
 * job that is killed leaves its calls; calls under NCCL's interface keep their groups; a file that
 * cannot grow ends the recording, not the job.
 */
#include "bench/replay/match.h"
#include "bench/replay/read.h"
#include "nccl/weir_nccl.h"
#include "verify/tests/support/unit_test.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 4, WORDS = 1000, MANY = 9000 /* lines, more than fit NAME.tail */ };

static char folder[64];

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != WEIR_OK) {                                                                   \
            fprintf(stderr, "%s\n", weir_last_error());                                            \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int make_comm(weir_boot *boot, weir_comm **comm)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    TRY(weir_comm_create(boot, &config, comm));
    return 0;
}

/* What a rank sends to the next one: numbers with two and with three digits. */
static size_t ring_count(int rank)
{
    return 95 + 3 * (size_t)rank;
}

/* The calls of each rank, which the test below expects: the order is that of `expected`. */
static int call_everything(weir_boot *boot, void *argument)
{
    const int rank = weir_boot_rank(boot);
    const int to = (rank + 1) % RANKS, from = (rank + RANKS - 1) % RANKS;
    static float in[RANKS * WORDS], out[RANKS * WORDS];
    const size_t sent[RANKS] = {1, 2, 3, 4}, at[RANKS] = {0, 1, 3, 6};
    const size_t mine = (size_t)rank + 1, received[RANKS] = {mine, mine, mine, mine};
    const size_t places[RANKS] = {0, mine, 2 * mine, 3 * mine};
    weir_comm *world, *pair;
    (void)argument;
    if (make_comm(boot, &world))
        return 1;
    TRY(weir_comm_split(world, rank / 2, -rank, NULL, &pair));
    TRY(weir_allreduce(world, in, in, WORDS, WEIR_FLOAT, WEIR_SUM, NULL));
    TRY(weir_allreduce(pair, in, out, 7, WEIR_BFLOAT16, WEIR_MAX, NULL));
    TRY(weir_reduce_scatter(world, in, out, 9, WEIR_INT32, WEIR_MIN, NULL));
    TRY(weir_sendrecv(world, in, 5, to, out, 5, from, WEIR_DOUBLE, NULL));
    TRY(weir_broadcast(pair, in, out, 11, WEIR_UINT8, 1, NULL));
    TRY(weir_alltoallv(world, in, sent, at, out, received, places, WEIR_FLOAT, NULL));
    TRY(weir_sendrecv(world, in, ring_count(rank), to, out, ring_count(from), from, WEIR_FLOAT,
                      NULL));
    TRY(weir_sendrecv(world, in, 6, rank == 0 ? 3 : -1, out, 6, rank == 3 ? 0 : -1, WEIR_FLOAT,
                      NULL));
    TRY(weir_comm_barrier(world));
    TRY(weir_comm_destroy(pair));
    TRY(weir_comm_destroy(world));
    return 0;
}

static void set_up(void)
{
    char pattern[sizeof folder + 8];
    strcpy(folder, "/tmp/weir-record-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(pattern, sizeof pattern, "%s/%%r.txt", folder);
    setenv("WEIR_RECORD", pattern, 1);
    setenv("WEIR_LAUNCHER", "none", 1);
}

static void tear_down(void)
{
    char command[128];
    unsetenv("WEIR_RECORD");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static replay_trace *read_folder(void)
{
    replay_trace *trace = NULL;
    char *paths[] = {folder};
    if (replay_read(paths, 1, &trace) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return trace;
}

typedef struct call {
    replay_kind kind;
    weir_dtype dtype;
    int is_world, peer;
    uint64_t count;
} call;

static void expect_calls(const replay_trace *trace, int rank, const call *expected, size_t count)
{
    assert_int_equal(trace->ranks[rank].count, count);
    double last = 0;
    for (size_t i = 0; i < count; i++) {
        const replay_call *got = &trace->ranks[rank].calls[i];
        assert_int_equal(got->kind, expected[i].kind);
        assert_int_equal(trace->comms[got->comm].nranks, expected[i].is_world ? RANKS : 2);
        assert_true(got->start_s >= last && got->duration_s >= 0);
        last = got->start_s;
        if (got->kind == REPLAY_BARRIER)
            continue;
        assert_int_equal(got->dtype, expected[i].dtype);
        assert_int_equal(got->count, expected[i].count);
        assert_int_equal(got->peer, expected[i].peer);
    }
}

TEST(recorded_calls_are_read_back_in_order)
{
    set_up();
    assert_int_equal(weir_boot_fork_run(RANKS, call_everything, NULL, 60000, NULL), WEIR_OK);
    replay_trace *trace = read_folder();
    assert_int_equal(trace->nranks, RANKS);
    assert_int_equal(trace->ncomms, 3);
    for (int rank = 0; rank < RANKS; rank++) {
        const int to = (rank + 1) % RANKS, from = (rank + RANKS - 1) % RANKS;
        const call expected[] = {{REPLAY_ALLREDUCE, WEIR_FLOAT, 1, -1, WORDS},
                                 {REPLAY_ALLREDUCE, WEIR_BFLOAT16, 0, -1, 7},
                                 {REPLAY_REDUCE_SCATTER, WEIR_INT32, 1, -1, 9},
                                 {REPLAY_SEND, WEIR_DOUBLE, 1, to, 5},
                                 {REPLAY_RECV, WEIR_DOUBLE, 1, from, 5},
                                 {REPLAY_BROADCAST, WEIR_UINT8, 0, 1, 11},
                                 {REPLAY_ALLTOALLV, WEIR_FLOAT, 1, -1, 0},
                                 {REPLAY_SEND, WEIR_FLOAT, 1, to, ring_count(rank)},
                                 {REPLAY_RECV, WEIR_FLOAT, 1, from, ring_count(from)},
                                 {REPLAY_BARRIER, 0, 1, -1, 0}};
        const size_t count = sizeof expected / sizeof *expected;
        call with_message[sizeof expected / sizeof *expected + 1];
        memcpy(with_message, expected, sizeof expected);
        with_message[count] = expected[count - 1];
        with_message[count - 1] = rank == 0 ? (call){REPLAY_SEND, WEIR_FLOAT, 1, 3, 6}
                                            : (call){REPLAY_RECV, WEIR_FLOAT, 1, 0, 6};
        if (rank == 0 || rank == 3)
            expect_calls(trace, rank, with_message, count + 1);
        else
            expect_calls(trace, rank, expected, count);
    }
    const replay_call *calls = trace->ranks[1].calls;
    assert_int_equal(calls[0].in_place, 1);
    assert_int_equal(calls[1].in_place, 0);
    assert_int_equal(calls[1].op, WEIR_MAX);
    assert_true(calls[3].group >= 0 && calls[3].group == calls[4].group);
    assert_int_equal(trace->splits[calls[6].splits + 3], 4);
    assert_int_equal(trace->splits[calls[6].splits + RANKS], 2);
    replay_schedule *schedule = NULL;
    assert_int_equal(replay_match(trace, &schedule), WEIR_OK);
    assert_int_equal(trace->nnotes, 0);
    replay_schedule_free(schedule);
    replay_trace_free(trace);
    tear_down();
}

/* Splits keep the order of keys: the rank of the job that is last in its pair is its first. */
TEST(recorded_communicators_have_ranks_of_the_job)
{
    set_up();
    assert_int_equal(weir_boot_fork_run(RANKS, call_everything, NULL, 60000, NULL), WEIR_OK);
    replay_trace *trace = read_folder();
    for (int i = 0; i < trace->ncomms; i++)
        if (trace->comms[i].nranks == 2)
            assert_int_equal(trace->comms[i].ranks[0], trace->comms[i].ranks[1] + 1);
    replay_trace_free(trace);
    tear_down();
}

/* One buffer in memory of the communicator twice, then one that is not. */
static int call_in_memory(weir_boot *boot, void *argument)
{
    static float plain[WORDS];
    weir_comm *world;
    weir_mem *mem;
    (void)argument;
    if (make_comm(boot, &world))
        return 1;
    TRY(weir_mem_alloc(world, sizeof plain, &mem));
    float *data = weir_mem_pointer(mem);
    TRY(weir_allreduce(world, data, data, WORDS, WEIR_FLOAT, WEIR_SUM, NULL));
    TRY(weir_allreduce(world, data, data, WORDS, WEIR_FLOAT, WEIR_SUM, NULL));
    TRY(weir_allreduce(world, plain, plain, WORDS, WEIR_FLOAT, WEIR_SUM, NULL));
    weir_mem_free(mem);
    TRY(weir_comm_destroy(world));
    return 0;
}

TEST(recorded_calls_have_the_memory_that_they_used)
{
    char host[65] = "";
    set_up();
    assert_int_equal(weir_boot_fork_run(2, call_in_memory, NULL, 60000, NULL), WEIR_OK);
    replay_trace *trace = read_folder();
    const replay_call *calls = trace->ranks[1].calls;
    assert_int_equal(trace->ranks[1].count, 3);
    assert_true(calls[0].buffers >= 0 && calls[0].buffers == calls[1].buffers);
    assert_true(calls[2].buffers >= 0 && calls[0].buffers != calls[2].buffers);
    assert_int_equal(calls[0].unregistered, 0);
    assert_int_equal(calls[1].unregistered, 0);
    assert_int_equal(calls[2].unregistered, 1);
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    assert_ptr_equal(strstr(trace->ranks[1].place, host), trace->ranks[1].place);
    replay_trace_free(trace);
    tear_down();
}

#define TRY_NCCL(call) TRY((call) == ncclSuccess ? WEIR_OK : WEIR_ERR_SYSTEM)

/* A group with an exchange and an allreduce, then a gather, of two ranks of libweir_nccl. */
static int call_nccl(weir_boot *boot, void *argument)
{
    const int rank = weir_boot_rank(boot), peer = 1 - rank;
    ncclUniqueId ids[2];
    ncclComm_t comm;
    float in[8] = {1}, out[16], sum = 1;
    (void)argument;
    setenv("WEIR_BACKEND", "host", 1);
    TRY_NCCL(ncclGetUniqueId(&ids[rank]));
    TRY(weir_boot_allgather(boot, ids, sizeof ids[0]));
    TRY_NCCL(ncclCommInitRank(&comm, 2, ids[0], rank));
    TRY_NCCL(ncclGroupStart());
    TRY_NCCL(ncclSend(in, 8, ncclFloat, peer, comm, NULL));
    TRY_NCCL(ncclAllReduce(&sum, &sum, 1, ncclFloat, ncclSum, comm, NULL));
    TRY_NCCL(ncclRecv(out, 8, ncclFloat, peer, comm, NULL));
    TRY_NCCL(ncclGroupEnd());
    TRY_NCCL(ncclGather(in, out, 8, ncclFloat, 1, comm, NULL));
    TRY_NCCL(ncclCommDestroy(comm));
    return 0;
}

TEST(calls_under_nccls_interface_keep_their_groups)
{
    int codes[2] = {-1, -1};
    char text[2][256];
    set_up();
    assert_int_equal(weir_boot_fork_run(2, call_nccl, NULL, 60000, codes), WEIR_OK);
    assert_true(codes[0] == 0 && codes[1] == 0);
    replay_trace *trace = read_folder();
    for (int rank = 0; rank < 2; rank++) {
        int at = 0, first = trace->ranks[rank].calls[0].group, groups = 0;
        for (size_t i = 0; i < trace->ranks[rank].count; i++) {
            const replay_call *got = &trace->ranks[rank].calls[i];
            groups += got->group != first;
            first = got->group;
            at += snprintf(text[rank] + at, sizeof text[rank] - (size_t)at, "%s %d.%d ",
                           replay_kind_name((replay_kind)got->kind), got->peer, groups);
        }
    }
    assert_string_equal(text[0], "allreduce -1.0 send 1.0 recv 1.0 send 1.1 ");
    assert_string_equal(text[1], "allreduce -1.0 send 0.0 recv 0.0 recv 0.1 recv 1.1 send 1.1 ");
    replay_schedule *schedule = NULL;
    if (replay_match(trace, &schedule) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    replay_schedule_free(schedule);
    replay_trace_free(trace);
    tear_down();
}

static int call_until_killed(weir_boot *boot, void *argument)
{
    float value = 1;
    weir_comm *world;
    (void)argument;
    if (make_comm(boot, &world))
        return 1;
    for (int i = 0; i < MANY; i++)
        TRY(weir_allreduce(world, &value, &value, 1, WEIR_FLOAT, WEIR_SUM, NULL));
    TRY(weir_boot_barrier(boot));
    raise(SIGKILL);
    return 1;
}

TEST(a_killed_job_leaves_its_calls)
{
    set_up();
    const mode_t before = umask(0); /* others may not write the files all the same */
    weir_boot_fork_run(2, call_until_killed, NULL, 60000, NULL);
    umask(before);
    char command[200];
    snprintf(command, sizeof command, "ls %s/1.txt.tail && ! find %s -type f -perm -o=w | grep .",
             folder, folder);
    assert_int_equal(system(command), 0);
    replay_trace *trace = read_folder();
    assert_int_equal(trace->ranks[0].count, MANY);
    assert_int_equal(trace->ranks[1].count, MANY);
    assert_non_null(strstr(trace->notes[0].text, "ends here"));
    replay_trace_free(trace);
    /* Killed after the newest lines went to the file, before NAME.tail began again. */
    snprintf(command, sizeof command,
             "cd %s && for f in 0.txt 1.txt; do tr -d '\\0' <$f.tail | tail -n +3 >>$f; done",
             folder);
    assert_int_equal(system(command), 0);
    trace = read_folder();
    assert_int_equal(trace->ranks[0].count, MANY);
    assert_int_equal(trace->nnotes, 0);
    replay_trace_free(trace);
    tear_down();
}

static void *call_in_thread(void *context)
{
    float value = 1;
    weir_status status = weir_allreduce(context, &value, &value, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    return status == WEIR_OK ? context : NULL;
}

/* The second communicator is called by a thread of its own. */
static int call_in_two_threads(weir_boot *boot, void *argument)
{
    pthread_t thread;
    weir_comm *comms[2];
    void *ended = NULL;
    (void)argument;
    if (make_comm(boot, &comms[0]) || make_comm(boot, &comms[1]) || !call_in_thread(comms[0]) ||
        pthread_create(&thread, NULL, call_in_thread, comms[1]) != 0)
        return 1;
    pthread_join(thread, &ended);
    TRY(weir_comm_destroy(comms[1]));
    TRY(weir_comm_destroy(comms[0]));
    return !ended;
}

TEST(threads_are_recorded_and_replayed_in_lanes_of_their_own)
{
    int codes[2] = {-1, -1};
    replay_schedule *schedule = NULL;
    set_up();
    assert_int_equal(weir_boot_fork_run(2, call_in_two_threads, NULL, 60000, codes), WEIR_OK);
    assert_int_equal(codes[0] | codes[1], 0);
    replay_trace *trace = read_folder();
    assert_int_equal(trace->ranks[1].calls[0].stream, 0);
    assert_int_equal(trace->ranks[1].calls[1].stream, 1);
    assert_int_equal(replay_match(trace, &schedule), WEIR_OK);
    assert_int_equal(schedule->nlanes, 2);
    replay_schedule_free(schedule);
    replay_trace_free(trace);
    tear_down();
}

/* The limit of a file's size serves as a full disk: it has no room for the second block. */
static int call_beyond_limit(weir_boot *boot, void *argument)
{
    const struct rlimit limit = {3 << 19, 3 << 19};
    float value = 1;
    weir_comm *world;
    (void)argument;
    signal(SIGXFSZ, SIG_IGN);
    if (make_comm(boot, &world) || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    for (int i = 0; i < 30000; i++)
        TRY(weir_allreduce(world, &value, &value, 1, WEIR_FLOAT, WEIR_SUM, NULL));
    TRY(weir_comm_destroy(world));
    return 0;
}

TEST(a_full_disk_ends_the_recording_and_not_the_job)
{
    int codes[1] = {-1};
    set_up();
    setenv("WEIR_LOG", "error", 1);
    assert_int_equal(weir_boot_fork_run(1, call_beyond_limit, NULL, 60000, codes), WEIR_OK);
    unsetenv("WEIR_LOG");
    assert_int_equal(codes[0], 0);
    replay_trace *trace = read_folder();
    assert_true(trace->ranks[0].count > 5000 && trace->ranks[0].count < 30000);
    assert_int_equal(trace->nnotes, 0);
    replay_trace_free(trace);
    tear_down();
}

int main(void)
{
    return run_all_tests("recording");
}
