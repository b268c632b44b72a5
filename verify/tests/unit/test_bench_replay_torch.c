/*
 * Recordings of PyTorch: what its profiler wrote reads as the calls that were made, in order of
 * time and not of the file; what it cut, and what no call can have, is left out with a note.
 */
#include "verify/tests/support/replay_samples.h"

#include <math.h>
#include <unistd.h>

/* An event of the profiler: a call with these parameters, at a time in microseconds. */
#define EVENT(ts, arguments)                                                                       \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", \"pid\": 1, "          \
    "\"tid\": 1,\n \"ts\": " ts ", \"dur\": 3.25, \"args\": {" arguments "}},\n"
#define CALL(name, type, in, out, more) CALL_IN("0", name, type, in, out, more)
#define CALL_IN(group, name, type, in, out, more)                                                  \
    "\"Collective name\": \"" name "\", \"dtype\": \"" type "\", \"In msg nelems\": " in           \
    ", \"Out msg nelems\": " out ", \"Process Group Name\": \"" group "\", " more
#define GROUP(rank, size, ranks)                                                                   \
    "\"Rank\": " rank ", \"Group size\": " size ", \"Process Group Ranks\": \"" ranks "\""
#define ONE GROUP("0", "1", "[0]")
#define HEAD(rank)                                                                                 \
    "{\"schemaVersion\": 1, \"deviceProperties\": [], \"distributedInfo\": {\"backend\": "         \
    "\"nccl\", \"rank\": " rank ", \"world_size\": 1},\n\"baseTimeNanoseconds\": "                 \
    "1790857026000000000, \"traceEvents\": [\n"
#define TAIL "{\"ph\": \"M\", \"name\": \"process_name\"}], \"traceName\": \"a\\\\b\\\"c\"}\n"

TEST(what_the_profiler_wrote_reads_as_the_calls_that_were_made)
{
    expect_sample(SAMPLES "torch-profiler", SAMPLES "torch-profiler.want");
}

TEST(what_the_observer_wrote_reads_as_the_calls_that_were_made)
{
    expect_sample(SAMPLES "torch-observer", SAMPLES "torch-observer.want");
}

TEST(what_chakra_converted_reads_as_the_same_calls)
{
    replay_trace *trace = NULL;
    char name[] = SAMPLES "../../fuzz/corpus/replay/chakra", *paths[] = {name};
    const weir_status status = replay_read(paths, 1, &trace);
    if (status == WEIR_ERR_UNSUPPORTED) {
        assert_non_null(strstr(weir_last_error(), "has no protobuf-c"));
        skip();
    }
    assert_int_equal(status, WEIR_OK);
    assert_int_equal(replay_calls(trace), 5);
    replay_trace_free(trace);
    expect_sample(SAMPLES "chakra", SAMPLES "chakra.want");
    /* Only a file that was cut between two nodes, of which it has 10, looks whole. */
    char bytes[1 << 13];
    FILE *file = fopen(name, "re");
    assert_non_null(file);
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    int looks_whole = 0, read = 0;
    for (size_t cut = 64; cut < length; cut++) {
        trace = NULL;
        if (replay_read_data("cut.et", bytes, cut, &trace) != WEIR_OK)
            continue;
        int notes = 0;
        for (int i = 0; i < trace->nnotes; i++)
            notes += strstr(trace->notes[i].text, "the file ends within a node") != NULL;
        assert_int_equal(trace->is_cut, notes);
        looks_whole += !notes;
        read++;
        replay_trace_free(trace);
    }
    assert_in_range(looks_whole, 1, 10);
    assert_true(read > 500);
}

TEST(packed_files_read_as_unpacked_ones)
{
    char folder[] = "/tmp/weir-replay-XXXXXX", command[512];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cp " SAMPLES "torch-profiler/*.json %s && gzip %s/rank2.json", folder, folder);
    assert_int_equal(system(command), 0);
    replay_trace *trace = NULL;
    char *paths[] = {folder};
    const weir_status status = replay_read(paths, 1, &trace);
    const int has_zlib = status == WEIR_OK || !strstr(weir_last_error(), "has no zlib");
    if (status == WEIR_OK)
        expect_sample(folder, SAMPLES "torch-profiler.want");
    replay_trace_free(trace);
    /* A packed file that was cut gives what is before the cut. */
    snprintf(command, sizeof command,
             "cd %s && head -c -200 rank2.json.gz >cut && mv cut rank2.json.gz", folder);
    assert_int_equal(system(command), 0);
    trace = NULL;
    const weir_status of_cut = replay_read(paths, 1, &trace);
    const int has_note = of_cut == WEIR_OK && trace->nnotes > 0 &&
                         strstr(trace->notes[trace->nnotes - 1].text, "ends within");
    replay_trace_free(trace);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!has_zlib)
        skip();
    assert_int_equal(status, WEIR_OK);
    assert_true(has_note);
}

TEST(calls_are_in_order_of_time)
{
    replay_trace *trace = read_text(
        "trace.json",
        HEAD("0") EVENT("5099325691231.593", CALL("allreduce", "Float", "3", "3", ONE))
            EVENT("5099325691231.592", CALL("allreduce", "Float", "2", "2", ONE))
                EVENT("5099325691230.7", CALL("_allgather_base", "Half", "1", "1", ONE))
                    EVENT("5099325691231.593", CALL("barrier", "Byte", "0", "0", ONE)) TAIL);
    const replay_call *calls = trace->ranks[0].calls;
    assert_int_equal(trace->ranks[0].count, 4);
    assert_int_equal(calls[0].kind, REPLAY_ALLGATHER);
    assert_int_equal(calls[1].count, 2);
    assert_int_equal(calls[2].count, 3);
    assert_int_equal(calls[3].kind, REPLAY_BARRIER); /* at the time of the one before it */
    assert_int_equal(calls[1].in_place, 1);
    assert_int_equal(calls[0].in_place, 0);
    assert_true(fabs(calls[1].start_s - 0.000000892) < 1e-10);
    assert_int_equal(calls[0].line, 7);
    replay_trace_free(trace);
}

/* The limit of ranks includes the last one. */
TEST(groups_alternate_and_may_have_the_last_rank)
{
    char text[4096], last[16];
    snprintf(last, sizeof last, "[%d]", REPLAY_RANKS_MAX - 1);
    snprintf(
        text, sizeof text,
        HEAD("%d") EVENT("1", CALL_IN("a", "allreduce", "Float", "1", "1", GROUP("0", "1", "%s")))
            EVENT("2", CALL_IN("b", "allreduce", "Float", "2", "2", GROUP("0", "1", "%s")))
                EVENT("3", CALL_IN("a", "allreduce", "Float", "3", "3", GROUP("0", "1", "%s")))
                    TAIL,
        REPLAY_RANKS_MAX - 1, last, last, last);
    replay_trace *trace = read_text("trace.json", text);
    assert_int_equal(trace->ncomms, 2);
    assert_int_equal(trace->nranks, 1); /* numbered without gaps */
    const replay_call *calls = trace->ranks[0].calls;
    assert_int_equal(trace->ranks[0].count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].comm, i % 2);
        assert_int_equal(calls[i].count, i + 1);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trace->comms[i].nranks, 1);
        assert_int_equal(trace->comms[i].ranks[0], 0);
    }
    replay_trace_free(trace);
}

TEST(times_may_begin_at_zero)
{
    replay_trace *trace = read_text(
        "trace.json",
        "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [\n" EVENT(
            "0", CALL("allreduce", "Float", "1", "1", ONE))
            EVENT("5", CALL("allreduce", "Float", "2", "2", ONE)) TAIL);
    const replay_call *calls = trace->ranks[0].calls;
    assert_true(calls[0].start_s == 0 && fabs(calls[1].start_s - 5e-6) < 1e-12);
    replay_trace_free(trace);
}

TEST(clocks_that_jump_are_noted)
{
    replay_trace *trace = read_text(
        "trace.json",
        "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [\n" EVENT(
            "5000", CALL("allreduce", "Float", "1", "1", ONE ", \"Record function id\": 7"))
            EVENT("2500.5", CALL("allreduce", "Float", "2", "2", ONE ", \"Record function id\": 9"))
                TAIL);
    assert_int_equal(trace->ranks[0].calls[0].count, 2);
    expect_note(trace, "the clock jumps", 2, 1);
    replay_trace_free(trace);
    trace = read_text("trace.json", HEAD("0") EVENT("5.5", CALL("allreduce", "Float", "1", "1",
                                                                ONE ", \"Record function id\": 7"))
                                        EVENT("5.0", CALL("allreduce", "Float", "2", "2",
                                                          ONE ", \"Record function id\": 9")) TAIL);
    for (int i = 0; i < trace->nnotes; i++)
        assert_null(strstr(trace->notes[i].text, "clock")); /* two threads within 1 ms */
    replay_trace_free(trace);
    expect_refused("trace.json",
                   HEAD("4294967296") EVENT("1", CALL("broadcast", "Float", "1", "1", ONE)) TAIL,
                   "of which rank from 0 to 4095");
}

TEST(kernels_give_the_time_of_calls)
{
    replay_trace *trace = read_text(
        "trace.json",
        HEAD("0") "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
                  "\"ncclDevKernel_AllReduce_Sum_f32_RING_LL("
                  "ncclDevKernelArgsStorage<4096ul>)\", \"ts\": 9.5, \"dur\": 12.5, \"args\": "
                  "{\"External "
                  "id\": 77, \"stream\": 20}},\n" EVENT(
                      "5.0", CALL("allreduce", "Float", "3", "3", ONE ", \"External id\": 77"))
                      EVENT("6.0", CALL("allreduce", "Float", "3", "3",
                                        ONE ", \"External id\": 78")) TAIL);
    assert_true(fabsf(trace->ranks[0].calls[0].duration_s - 12.5e-6F) < 1e-9F);
    assert_true(isnan(trace->ranks[0].calls[1].duration_s));
    replay_trace_free(trace);
}

TEST(split_sizes_are_rows_and_truncated_ones_are_left_out)
{
    replay_trace *trace = read_text(
        "trace.json",
        HEAD("0") EVENT("1", CALL("all_to_allv", "Int", "12", "8",
                                  ONE ", \"In split size\": \"[3]\", \"Out split size\": \"[2]\""))
            EVENT("2", CALL("all_to_allv", "Int", "12", "12",
                            ONE ", \"In split size\": \"[3, ...]\", \"Out split size\": \"[3]\""))
                EVENT("3", CALL("all_to_allv", "Int", "12", "12",
                                ONE ", \"In split size\": \"[5]\", \"Out split size\": \"[3]\""))
                    EVENT("4", CALL("all_to_all", "Int", "12", "13", ONE)) TAIL);
    assert_int_equal(trace->ranks[0].count, 1);
    assert_int_equal(trace->splits[trace->ranks[0].calls[0].splits], 12);
    assert_int_equal(trace->splits[trace->ranks[0].calls[0].splits + 1], 8);
    expect_note(trace, "only the first 30 split sizes", 5, 1);
    expect_note(trace, "split sizes do not fit", 7, 1);
    expect_note(trace, "do not divide by the ranks", 9, 1);
    replay_trace_free(trace);
}

TEST(an_alltoall_of_different_sizes_is_an_alltoallv)
{
    replay_trace *trace = read_text(
        "trace.json",
        HEAD("0") EVENT("1", CALL("all_to_all", "Int", "12", "12",
                                  ONE ", \"In split size\": \"[12]\", \"Out split size\": \"[]\""))
            EVENT("2", CALL("all_to_all", "Int", "12", "12",
                            ONE ", \"In split size\": \"[]\", \"Out split size\": \"[]\""))
                EVENT("3",
                      CALL("all_to_all", "Int", "12", "12",
                           ONE ", \"In split size\": \"[]\", \"Out split size\": \"[1, ...]\""))
                    TAIL);
    assert_int_equal(trace->ranks[0].count, 2);
    assert_int_equal(trace->ranks[0].calls[0].kind, REPLAY_ALLTOALLV);
    assert_int_equal(trace->ranks[0].calls[1].kind, REPLAY_ALLTOALL);
    expect_note(trace, "only the first 30 split sizes", 7, 1);
    replay_trace_free(trace);
}

TEST(long_groups_are_found_by_stride_or_in_the_list_of_groups)
{
    /* The group "0" is [5, 3, 0], which no stride describes; the event has its beginning only. */
    static const char head[] =
        "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, "
        "\"pg_config\": [{\"pg_name\": \"9\", \"ranks\": [5, 0, 3]}, {\"pg_name\": \"0\", "
        "\"pg_size\": 3, \"ranks\": [5, 3, 0]}]}, \"traceEvents\": [\n" EVENT(
            "1", CALL("allreduce", "Float", "3", "3", GROUP("%d", "3", "[5, ...]"))) TAIL;
    char folder[] = "/tmp/weir-replay-XXXXXX", path[64], *paths[] = {folder};
    static const int ranks[] = {5, 3, 0};
    replay_trace *trace = NULL;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fprintf(file, head, ranks[i], i);
        fclose(file);
    }
    assert_int_equal(replay_read(paths, 1, &trace), WEIR_OK);
    assert_int_equal(trace->nranks, 3); /* numbered without gaps */
    assert_int_equal(trace->comms[0].ranks[0], 2);
    assert_int_equal(trace->comms[0].ranks[1], 1);
    assert_int_equal(trace->comms[0].ranks[2], 0);
    replay_trace_free(trace);
    /* Without one of the files the job is not whole. */
    unlink(path);
    assert_int_equal(replay_read(paths, 1, &trace), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "communicator 0@5 has 3 ranks"));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

TEST(impossible_calls_are_left_out_with_a_note)
{
    replay_trace *trace = read_text(
        "trace.json",
        HEAD("0") EVENT("1", CALL("allreduce", "Float", "1", "1", ONE))
            EVENT("2", CALL("allreduce", "ComplexFloat", "1", "1", ONE))
                EVENT("3", CALL("allreduce", "Float", "-1", "1", ONE))
                    EVENT("4", CALL("allreduce", "Float", "1099511627777", "1", ONE)) EVENT(
                        "5", CALL("allreduce", "Float", "99999999999999999999", "1", ONE))
                        EVENT("6", CALL("allshuffle", "Float", "1", "1", ONE)) EVENT(
                            "7", CALL("allreduce", "Float", "1", "1", GROUP("0", "4097", "[0]")))
                            EVENT("8", CALL("broadcast", "Float", "1", "1", GROUP("1", "1", "[0]")))
                                EVENT("9", CALL("_allgather_base", "Float", "2", "3", ONE))
                                    EVENT("\"never\"", CALL("allreduce", "Float", "1", "1", ONE))
                                        EVENT("11", "\"Input type\": [\"TensorList\"]")
                                            EVENT("12", CALL("wait", "Float", "0", "0", ONE)) TAIL);
    assert_int_equal(trace->ranks[0].count, 1);
    expect_note(trace, "type ComplexFloat", 5, 1);
    expect_note(trace, "negative or missing number", 7, 2);
    expect_note(trace, "more than 2^40", 9, 1);
    expect_note(trace, "a call of allshuffle", 13, 1);
    expect_note(trace, "no known size", 15, 1);
    expect_note(trace, "without its root", 17, 1);
    expect_note(trace, "parts that differ", 19, 1);
    expect_note(trace, "without a time", 21, 1);
    expect_note(trace, "before 2.3", 23, 1);
    replay_trace_free(trace);
}

TEST(files_that_are_cut_give_what_they_have)
{
    static const char text[] = HEAD("0") EVENT("1", CALL("allreduce", "Float", "1", "1", ONE))
        EVENT("2", CALL("allreduce", "Float", "1", "1", ONE)) TAIL;
    const char *const second = strstr(strstr(text, "record_param_comms") + 1, "{\"ph\"");
    for (const char *end = second + 1; end < strstr(second, "{\"ph\": \"M\"") - 4; end++) {
        replay_trace *trace = NULL;
        assert_int_equal(replay_read_data("cut.json", text, (size_t)(end - text), &trace), WEIR_OK);
        assert_int_equal(trace->ranks[0].count, 1);
        expect_note(trace, "the file ends within", end > strchr(second, '\n') ? 6 : 5, 1);
        replay_trace_free(trace);
    }
}

/* A node of an execution trace: a call with these tensors, and what follows its name. */
#define TENSOR(storage, elements) "[5, " storage ", 0, " elements ", 4, \"cuda:0\"]"
#define NODE(id, name, in, out, rest)                                                              \
    "{\"id\": " id                                                                                 \
    ", \"name\": \"record_param_comms\", \"ctrl_deps\": 2, \"inputs\": {\"values\": [" in          \
    ", [7, false], [\"0\", \"a [b] \\\"c\"], 0, \"" name "\", " rest                               \
    "], \"shapes\": [[]], \"types\": "                                                             \
    "[\"GenericList[Tensor(float)]\"]}, \"outputs\": {\"values\": [" out "], \"types\": "          \
    "[\"Tensor(float)\"]}},\n"
#define TRACE(schema) "{\"schema\": \"" schema "\", \"pid\": 1, \"nodes\": [\n"
#define NODES_END "{\"id\": 99, \"name\": \"aten::add\"}]}\n"

TEST(nodes_of_execution_traces_tell_sizes_and_what_is_in_place)
{
    replay_trace *trace = read_text(
        "et.json",
        TRACE("1.1.1-chakra.0.0.4") NODE("12", "scatter", "[]", TENSOR("3", "40"),
                                         "[], [], 0, 1, 1")
            NODE("9", "_allgather_base", TENSOR("3", "40"), TENSOR("3", "40"), "[], [], 0, 1, 1")
                NODE("10", "_allgather_base", TENSOR("3", "40"), TENSOR("4", "40"),
                     "[], [], 0, 1, 1")
                    NODE("11", "allreduce_coalesced",
                         "[" TENSOR("3", "40") ", " TENSOR("4", "2") "]", "[]", "[], [], 0, 1, 1")
                        NODE("13", "all_to_allv", TENSOR("3", "40"), TENSOR("3", "20"),
                             "[8], [5], 0, 1, 1") NODES_END);
    const replay_call *calls = trace->ranks[0].calls;
    assert_int_equal(trace->ranks[0].count, 5);
    assert_int_equal(calls[0].in_place, 1);
    assert_int_equal(calls[1].in_place, 0);
    assert_int_equal(calls[2].count, 42);
    assert_int_equal(calls[3].kind, REPLAY_SCATTER);
    assert_int_equal(calls[3].count, 40);
    assert_int_equal(trace->splits[calls[4].splits], 40);
    assert_int_equal(trace->splits[calls[4].splits + 1], 20);
    assert_int_equal(calls[3].line, 2);
    expect_note(trace, "one call of all its elements", 5, 1);
    replay_trace_free(trace);
}

TEST(nodes_that_cannot_be_used_are_noted)
{
    static char text[1 << 19];
    int length =
        snprintf(text, sizeof text, "%s",
                 TRACE("1.0") NODE("1", "allreduce", TENSOR("3", "40"), "[]", "[], [], 0, 1, 1")
                     NODE("2", "allreduce", TENSOR("3", "-40"), "[]", "[], [], 0, 1, 1")
                         NODE("3", "allreduce", TENSOR("3", "40"), "[]",
                              "[], [], 0, 1") "{\"id\": 4, \"name\": \"record_param_comms\", "
                                              "\"inputs\": [141, 0, 0, \"wait\", [], []]},\n"
                                              "{\"id\": 5, \"name\": \"record_param_comms\", "
                                              "\"inputs\": {\"values\": [");
    while (length < 200000)
        length += snprintf(text + length, sizeof text - (size_t)length, TENSOR("3", "40") ", ");
    snprintf(text + length, sizeof text - (size_t)length, "1]}},\n" NODES_END);
    replay_trace *trace = read_text("et.json", text);
    assert_int_equal(trace->ranks[0].count, 1);
    expect_note(trace, "negative or missing number", 3, 1);
    expect_note(trace, "before 2.3", 4, 2);
    expect_note(trace, "more than 128 KiB", 6, 1);
    replay_trace_free(trace);
}

TEST(traces_without_usable_calls_say_why)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {HEAD("0") "{\"name\": \"c10d::allreduce_\", \"ts\": 1}," TAIL, "not over gloo"},
        {HEAD("0") TAIL, "no calls with parameters"},
        {HEAD("1") EVENT("1", CALL("allreduce", "Float", "1", "1", ONE)) TAIL,
         "is of rank 1, its calls that they are of rank 0"},
        {"{\"schemaVersion\": 1, \"deviceProperties\": [], \"traceEvents\": [" EVENT(
             "1", CALL("broadcast", "Float", "1", "1", ONE)) TAIL,
         "of which rank from 0"},
        {HEAD("0") "}}", "a bracket closes what was not opened"},
        {HEAD("0") EVENT("1", CALL("allreduce", "Float", "1", "1", GROUP("0", "2", "[0, 1]")))
             EVENT("2", CALL("allreduce", "Float", "1", "1", GROUP("1", "2", "[0, 1]"))) TAIL,
         "a call of rank 1, after calls of rank 0; each rank's calls"},
        {HEAD("0") EVENT("1", CALL("allreduce", "Float", "1", "1", GROUP("0", "2", "[0, 100000]")))
             TAIL,
         "rank 100000 in group 0@0; ranks from 0 to "},
        {HEAD("0") EVENT("1", CALL("allreduce", "Float", "1", "1", GROUP("0", "2", "[0, -1]")))
             TAIL,
         "rank -1 in group 0@0; ranks from 0 to "},
        {"{\"schemaVersion\": 2, \"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [" EVENT(
             "1", CALL("allreduce", "Float", "1", "1", ONE)) TAIL,
         "none.json:1: schemaVersion 2; version 1 can be read"},
        {TRACE("2.0.1") NODE("1", "allreduce", TENSOR("3", "40"), "[]", "[], [], 0, 1, 1")
             NODES_END,
         "none.json:1: schema 2.0.1; version 1 can be read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        replay_trace *trace = NULL;
        assert_int_equal(
            replay_read_data("none.json", cases[i].text, strlen(cases[i].text), &trace),
            WEIR_ERR_INVALID);
        if (!strstr(weir_last_error(), cases[i].part))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].part, weir_last_error());
    }
}

int main(void)
{
    return run_all_tests("recordings of PyTorch");
}
