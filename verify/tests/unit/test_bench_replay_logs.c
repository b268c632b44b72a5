/*
 * Recordings that name processes: logs of NCCL and RCCL, and Inspector's JSON. Samples read as the
 * calls that they tell of; launchers' tags, splits and addresses that are used again are
 * understood; torn lines, gaps and what cannot be known are noted.
 */
#include "verify/tests/support/replay_samples.h"

#include <math.h>

/* Lines of a log, of a process with one GPU. */
#define INIT(process, comm, rank, nranks, id)                                                      \
    process " [0] NCCL INFO ncclCommInitRank comm " comm " rank " rank " nranks " nranks           \
            " cudaDev 0 nvmlDev 0 busId 1000 commId " id " - Init COMPLETE\n"
#define CALL(process, name, buffers, arguments, comm, nranks)                                      \
    process " [0] NCCL INFO " name ": opCount 1f " buffers " " arguments " comm " comm             \
            " [nranks=" nranks "] stream (nil)\n"
#define BUFFERS(send, receive) "sendbuff " send " recvbuff " receive
#define SUM "count 8 datatype 7 op 0 root 0"
#define ONE INIT("a:1:1", "0x5", "0", "1", "0x77")
#define APART BUFFERS("0x10", "0x900")

TEST(a_log_reads_as_its_calls)
{
    expect_sample(SAMPLES "nccl-tagged.log", SAMPLES "nccl-tagged.want");
}

TEST(inspectors_files_read_as_their_calls)
{
    expect_sample(SAMPLES "inspector-nccl", SAMPLES "inspector-nccl.want");
    expect_sample(SAMPLES "inspector-weir", SAMPLES "inspector-weir.want");
}

TEST(what_launchers_put_before_lines_is_skipped)
{
    static const char *const before[] = {"",
                                         "[1,0]<stdout>:",
                                         "0: ",
                                         "0:",
                                         "[default0]:",
                                         "[0] ",
                                         "Fri Jan  2 03:04:05 2026[1,0]<stderr>:",
                                         "2026-01-02T03:04:05.678901234Z stdout F ",
                                         "(Worker pid=615, ip=10.72.7.6) ",
                                         "Jan 02 03:04:05 lab-1 slurm[77]: ",
                                         "[2026-01-02 03:04:05] "};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "%slab-1.site:41:42 [3] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 1 "
                 "cudaDev 3 busId 1000 commId 0x77 - Init COMPLETE\n"
                 "%slab-1.site:41:49 [3] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x8 "
                 "count 3 datatype 7 op 2 root 0 comm 0x5 [nranks=1] stream 0x9\n",
                 before[i], before[i]);
        replay_trace *trace = read_text("log", text);
        assert_int_equal(replay_calls(trace), 1);
        assert_int_equal(trace->ranks[0].calls[0].op, WEIR_MAX);
        assert_true(isnan(trace->ranks[0].calls[0].start_s)); /* seconds are no use */
        replay_trace_free(trace);
    }
}

TEST(stamps_with_fractions_of_seconds_give_times)
{
    replay_trace *trace =
        read_text("log", ONE "[2026-01-02 03:04:59.500] " CALL(
                             "a:1:1", "AllReduce", APART, SUM, "0x5",
                             "1") "[2026-01-02 03:05:00.750] " CALL("a:1:1", "AllReduce", APART,
                                                                    SUM, "0x5", "1"));
    assert_true(fabs(trace->ranks[0].calls[1].start_s - 1.25) < 1e-9);
    replay_trace_free(trace);
}

TEST(buffers_tell_what_is_in_place)
{
    static const struct {
        const char *name, *buffers;
        int rank, in_place;
    } cases[] = {
        {"AllReduce", BUFFERS("0x100", "0x100"), 1, 1},
        {"AllReduce", BUFFERS("0x100", "0x200"), 1, 0},
        {"AllGather", BUFFERS("0x120", "0x100"), 1, 1},
        {"AllGather", BUFFERS("0x100", "0x100"), 1, 0},
        {"ReduceScatter", BUFFERS("0x100", "0x120"), 1, 1},
        {"ReduceScatter", BUFFERS("0x100", "0x100"), 0, 1},
        {"Gather", BUFFERS("0x100", "0x100"), 0, 1},
        {"Gather", BUFFERS("0x120", "0x100"), 1, 0}, /* not the root */
        {"Send", BUFFERS("0x100", "(nil)"), 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 INIT("a:1:1", "0x5", "0", "2", "0x77")
                     INIT("b:1:1", "0x6", "1", "2",
                          "0x77") "%s:1:1 [0] NCCL INFO %s: opCount 0 %s " SUM
                                  " comm %s [nranks=2] stream 0x1\n" CALL("%s:1:1", "AllReduce",
                                                                          APART, SUM, "%s", "2"),
                 cases[i].rank ? "b" : "a", cases[i].name, cases[i].buffers,
                 cases[i].rank ? "0x6" : "0x5", cases[i].rank ? "a" : "b",
                 cases[i].rank ? "0x5" : "0x6");
        replay_trace *trace = read_text("log", text);
        assert_int_equal(trace->ranks[cases[i].rank].calls[0].in_place, cases[i].in_place);
        replay_trace_free(trace);
    }
}

TEST(ranks_are_those_of_the_largest_communicator)
{
    /* Processes appear in another order than their ranks; one has two GPUs. */
    replay_trace *trace = read_text(
        "log", INIT("b:9:1", "0x1", "0", "1",
                    "0x55") "a:7:1 [0] NCCL INFO comm 0x2 rank 2 nranks 3 cudaDev 0 busId 1 commId "
                            "0x66 - Init COMPLETE\n"
                            "a:7:1 [0] NCCL INFO comm 0x3 rank 1 nranks 3 cudaDev 1 busId 1 commId "
                            "0x66 - Init COMPLETE\n" INIT("b:9:1", "0x2", "0", "3", "0x66")
                                CALL("a:7:1", "AllReduce", APART, "count 2 datatype 7 op 0 root 0",
                                     "0x2", "3") CALL("a:7:2", "AllReduce", APART,
                                                      "count 1 datatype 7 op 0 root 0", "0x3", "3")
                                    CALL("b:9:1", "AllReduce", APART,
                                         "count 10 datatype 7 op 0 root 0", "0x2", "3"));
    assert_int_equal(trace->nranks, 3);
    assert_int_equal(trace->ranks[0].calls[0].count, 10);
    assert_int_equal(trace->ranks[1].calls[0].count, 1);
    assert_int_equal(trace->ranks[2].calls[0].count, 2);
    replay_trace_free(trace);
}

/* A split: rank 0 took no part in the one before it, which its log does not have. */
#define SPLIT(process, comm, rank, parent, count)                                                  \
    process " [0] NCCL INFO ncclCommSplit comm " comm " rank " rank                                \
            " nranks 2 cudaDev 0 nvmlDev 0 busId 1 parent " parent count                           \
            " color 5 key 0 - Init COMPLETE\n"

TEST(splits_are_known_by_parent_count_and_color)
{
    static const char *const counts[] = {" splitCount 2", " childCount 2"};
    for (int i = 0; i < 2; i++) {
        char text[4096];
        snprintf(text, sizeof text,
                 INIT("a:1:1", "0x5", "0", "2", "0x77")
                     INIT("b:1:1", "0x6", "1", "2",
                          "0x77") "b:1:1 [0] NCCL INFO ncclCommSplit comm 0x7 rank 0 nranks 1 "
                                  "cudaDev 0 nvmlDev 0 busId 1 parent 0x6 splitCount 1 color 5 key "
                                  "0 - Init COMPLETE\n" SPLIT("a:1:1", "0x8", "0", "0x5", "%s")
                                      SPLIT("b:1:1", "0x9", "1", "0x6", "%s")
                                          CALL("a:1:1", "AllReduce", APART, SUM, "0x8", "2")
                                              CALL("b:1:1", "AllReduce", APART, SUM, "0x9", "2"),
                 counts[i], counts[i]);
        replay_trace *trace = read_text("log", text);
        assert_int_equal(trace->ncomms, 1);
        assert_string_equal(trace->comms[0].name, "0x77/2.5");
        replay_trace_free(trace);
    }
}

TEST(an_address_that_is_used_again_is_the_new_communicator)
{
    replay_trace *trace = read_text("log", ONE CALL("a:1:1", "AllReduce", APART, SUM, "0x5", "1")
                                               INIT("a:1:1", "0x5", "0", "1", "0x88")
                                                   CALL("a:1:1", "Send", APART, SUM, "0x5", "1"));
    assert_int_equal(trace->ncomms, 2);
    assert_string_equal(trace->comms[trace->ranks[0].calls[1].comm].name, "0x88");
    replay_trace_free(trace);
}

TEST(calls_of_rccl_are_read)
{
    replay_trace *trace = read_text(
        "log", ONE "a:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x7 acc (nil) "
                   "count 9 datatype 6 op 0 root 0 comm 0x5 [nranks=1] stream (nil) task 0 "
                   "globalrank 0\n" CALL("a:1:1", "mscclFuncAllGather", APART, SUM, "0x5", "1")
                       CALL("a:1:1", "mscclpp_ncclAllReduce", APART, SUM, "0x5", "1")
                           CALL("a:1:1", "AllToAllPivot", APART, SUM, "0x5", "1")
                               CALL("a:1:1", "mscclFuncAllToAllv", APART, SUM, "0x5", "1"));
    assert_int_equal(trace->ranks[0].count, 4);
    assert_int_equal(trace->ranks[0].calls[0].count, 9);
    assert_int_equal(trace->ranks[0].calls[1].kind, REPLAY_ALLGATHER);
    assert_int_equal(trace->ranks[0].calls[3].kind, REPLAY_ALLTOALL);
    expect_note(trace, "mscclFuncAllToAllv, which is not known", 6, 1);
    replay_trace_free(trace);
}

TEST(lines_that_cannot_be_used_are_noted)
{
    replay_trace *trace = read_text(
        "log",
        ONE CALL("a:1:1", "AllReduce", APART, SUM, "0x5",
                 "1") "a:1:1 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x1 recvbuff 0x2 cou\n"
                      "a:1:1 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x1 recvb" CALL(
                          "b:2:2", "Scan", APART, SUM, "0x5", "1") CALL("a:1:1", "AllReduce", APART,
                                                                        SUM, "0x6", "1")
                          CALL("a:1:1", "AllReduce", APART, SUM, "0x5", "2") CALL(
                              "a:1:1", "AllReduce", APART, "count -1 datatype 7 op 0 root 0", "0x5",
                              "1") CALL("a:1:1", "AllReduce", APART,
                                        "count 99999999999999999999 datatype 7 op 0 root 0", "0x5",
                                        "1") CALL("a:1:1", "AllReduce", APART,
                                                  "count 1 datatype 12 op 0 root 0", "0x5", "1")
                              CALL("a:1:1", "AllReduce", APART, "count 1 datatype 7 op 5 root 0",
                                   "0x5",
                                   "1") "a:1:1 [0] NCCL INFO ncclCommSplit comm 0x9 rank 0 nranks "
                                        "1 cudaDev 0 nvmlDev 0 busId 1 parent 0x8 color 0 key 0 - "
                                        "Init COMPLETE\n"
                                        "a:1:1 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x1");
    assert_int_equal(trace->ranks[0].count, 2);
    expect_note(trace, "torn", 3, 3);
    expect_note(trace, "Scan, which is not known", 4, 1);
    expect_note(trace, "NCCL_DEBUG_SUBSYS=INIT,COLL", 5, 2);
    expect_note(trace, "type, operation or number", 7, 3);
    expect_note(trace, "ncclRedOpCreatePreMulSum", 10, 1);
    expect_note(trace, "a split of a communicator", 11, 1);
    expect_note(trace, "the file ends within a line", 12, 1);
    replay_trace_free(trace);
    expect_refused("log", "x\na:1:1 [0] NCCL INFO Using network Socket\n", "no calls");
    expect_refused("log",
                   INIT("a:1:1", "0x5", "0", "2", "0x77")
                       CALL("a:1:1", "AllReduce", APART, SUM, "0x5", "2"),
                   "rank 1");
    expect_refused("log",
                   INIT("a:1:1", "0x5", "0", "2", "0x77") INIT("a:1:1", "0x6", "1", "2", "0x77"),
                   "has ranks 0 and 1");
}

/* ---------------------------------------------------------------- Inspector */

#define INSPECTED(comm, rank, version, writer, pid, perf)                                          \
    "{\"header\":{\"id\":\"" comm "\",\"rank\":" rank ",\"n_ranks\":2,\"nnodes\":1},\"metadata\":" \
    "{\"inspector_output_format_version\":\"" version "\",\"rec_mechanism\":\"" writer             \
    "\",\"dump_timestamp_us\":1748030377748202,\"hostname\":\"h\",\"pid\":" pid "}," perf "}\n"
#define COLL(name, number, bytes)                                                                  \
    "\"coll_perf\":{\"coll\":\"" name "\",\"coll_sn\":" number ",\"coll_msg_size_bytes\":" bytes   \
    ",\"coll_exec_time_us\":61974,\"coll_algobw_gbs\":277.21}"
#define OF(version, perf) INSPECTED("0x7", "0", version, "nccl_profiler_interface", "1", perf)
#define OTHER                                                                                      \
    INSPECTED("0x7", "1", "v4.0", "nccl_profiler_interface", "2", COLL("AllGather", "1", "4"))

TEST(what_inspector_lacks_or_lost_is_noted)
{
    replay_trace *trace = read_text(
        "log",
        OTHER OF("v4.3", COLL("AllReduce", "4", "10")) OF("v4.3", COLL("AllReduce", "5", "8"))
            OF("v4.3", COLL("AllReduce", "8", "8")) OF("v4.2", COLL("Broadcast", "1", "8"))
                OF("v4.1", "\"dump_stats\":{\"num_dropped_coll\":3,\"num_dropped_p2p\":0}") OF(
                    "v4.0", COLL("AllReduce", "6", "8")) OF("v4.0", COLL("All2Allv", "6", "8"))
                    OF("v4.0", COLL("Sort", "6", "8")) OF("v4.0", COLL("AllReduce", "9", "-8"))
                        OF("v4.0",
                           "\"p2p_perf\":{\"p2p\":\"Send\",\"p2p_sn\":1,\"p2p_msg_size_bytes\":8}")
                            INSPECTED("", "0", "v4.0", "x", "1", COLL("AllReduce", "1", "8")));
    const replay_call *calls = trace->ranks[0].calls;
    assert_int_equal(trace->ranks[0].count, 5);
    assert_int_equal(calls[0].dtype, WEIR_UINT8);
    assert_int_equal(calls[0].count, 10);
    assert_int_equal(calls[1].dtype, WEIR_FLOAT);
    assert_int_equal(calls[1].count, 2);
    assert_true(fabsf(calls[1].duration_s - 0.061974F) < 1e-7F);
    expect_note(trace, "neither types nor operations", 0, 4);
    expect_note(trace, "does not record roots", 0, 1);
    expect_note(trace, "have a gap", 4, 1);
    expect_note(trace, "Inspector lost calls", 6, 1);
    expect_note(trace, "is less than that of the call before", 7, 1);
    expect_note(trace, "split sizes: left out", 8, 1);
    expect_note(trace, "a call that is not known", 9, 1);
    expect_note(trace, "negative, missing or huge size", 10, 2);
    expect_note(trace, "without a communicator", 12, 1);
    replay_trace_free(trace);
}

TEST(inspectors_files_that_are_cut_give_what_they_have)
{
    static const char text[] =
        OTHER OF("v4.0", COLL("AllGather", "1", "4")) OF("v4.0", COLL("AllGather", "2", "4"));
    for (size_t cut = 2; cut < 200; cut++) {
        replay_trace *trace = NULL;
        assert_int_equal(replay_read_data("log", text, sizeof text - 1 - cut, &trace), WEIR_OK);
        assert_int_equal(trace->ranks[0].count, 1);
        expect_note(trace, "the file ends within", 3, 1);
        replay_trace_free(trace);
    }
}

TEST(a_process_with_several_gpus_is_refused)
{
    expect_refused("log",
                   OF("v4.0", COLL("AllGather", "1", "4"))
                       INSPECTED("0x7", "1", "v4.0", "x", "1", COLL("AllGather", "1", "4")),
                   "log:2: h:1 has ranks 0 and 1 of communicator 0x7");
}

TEST(other_versions_of_inspector_are_refused)
{
    static const char *const others[] = {"v5.0", "v4.4", "v4.10", "4.0"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[512], line[80];
        snprintf(
            text, sizeof text, OTHER "%s%s%s",
            "{\"header\":{\"id\":\"0x7\"},\"metadata\":{\"inspector_output_format_version\":\"",
            others[i], "\"}}\n");
        snprintf(line, sizeof line, "log:2: Inspector's format %s; v4.0 to v4.3 can be read",
                 others[i]);
        expect_refused("log", text, line);
    }
}

TEST(files_of_two_formats_are_refused)
{
    char log[] = SAMPLES "nccl-tagged.log", inspector[] = SAMPLES "inspector-nccl";
    char *paths[] = {inspector, log};
    replay_trace *trace = NULL;
    assert_int_equal(replay_read(paths, 2, &trace), WEIR_ERR_INVALID);
    assert_non_null(strstr(
        weir_last_error(),
        "nccl-tagged.log: a log of NCCL, but the files before it are NCCL Inspector's JSON"));
}

int main(void)
{
    return run_all_tests("recordings that name processes");
}
