/*
 * Recorded jobs: weir's text is read and written back, impossible calls and missing ranks are
 * refused with file and line, and what is left out is noted.
 */
#include "bench/replay/crew.h"
#include "bench/replay/match.h"
#include "bench/replay/read.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>
#include <unistd.h>

#define READ(text, trace) replay_read_data("job.txt", text, sizeof(text) - 1, trace)

/* Expects that the text is refused with a line that has each part. */
#define EXPECT_REFUSED(text, ...)                                                                  \
    do {                                                                                           \
        const char *const parts[] = {__VA_ARGS__};                                                 \
        replay_trace *none = NULL;                                                                 \
        assert_int_equal(READ(text, &none), WEIR_ERR_INVALID);                                     \
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)                         \
            if (!strstr(weir_last_error(), parts[part]))                                           \
                fail_msg("\"%s\" is not in \"%s\"", parts[part], weir_last_error());               \
    } while (0)

static char *written(const replay_trace *trace)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    assert_int_equal(replay_text_write(trace, to), 0);
    fclose(to);
    return text;
}

static const char whole_job[] = "# weir recording 1\n"
                                "comm world 0-3\n"
                                "comm tp 2,0\n"
                                "place r2 node7 0-3,8\n"
                                "begin 100\n"
                                "0.5 r0 world allreduce bf16 sum 4194304 inplace\n"
                                "0.5 r1 world allreduce bf16 sum 4194304 inplace took=0.25\n"
                                "0.75 r2 world allreduce bf16 sum 4194304 # a remark\n"
                                "- r3 world allreduce bf16 sum 4194304 unregistered buffers=3\n"
                                "1 r0 tp broadcast f32 10 root=1 group=7\n"
                                "1 r2 tp send u8 3 to=1\n"
                                "2 r2 world alltoallv i32 sent=1,2,3,4 received=?\n"
                                "2 r0 world barrier\n"
                                "2 r0 tp recv u8 3 from=0\n";

TEST(text_has_communicators_calls_and_times)
{
    replay_trace *trace = NULL;
    assert_int_equal(READ(whole_job, &trace), WEIR_OK);
    assert_int_equal(trace->nranks, 4);
    assert_int_equal(trace->ncomms, 2);
    assert_int_equal(trace->comms[1].ranks[0], 2);
    assert_int_equal(replay_comm_rank(&trace->comms[1], 0), 1);
    assert_int_equal(replay_calls(trace), 9);
    const replay_call *first = &trace->ranks[0].calls[0], *last = &trace->ranks[2].calls[2];
    assert_int_equal(first->kind, REPLAY_ALLREDUCE);
    assert_int_equal(first->dtype, WEIR_BFLOAT16);
    assert_int_equal(first->count, 4194304);
    assert_int_equal(first->in_place, 1);
    assert_int_equal(first->line, 6);
    assert_null(trace->ranks[1].place);
    assert_string_equal(trace->ranks[2].place, "node7 0-3,8");
    assert_true(first->start_s == 0 && isnan(first->duration_s));
    assert_true(trace->ranks[1].calls[0].duration_s == 0.25F);
    assert_true(isnan(trace->ranks[3].calls[0].start_s));
    assert_true(first->buffers < 0 && !first->unregistered);
    assert_int_equal(trace->ranks[3].calls[0].buffers, 3);
    assert_int_equal(trace->ranks[3].calls[0].unregistered, 1);
    assert_int_equal(trace->ranks[0].calls[1].peer, 1);
    assert_int_equal(trace->ranks[0].calls[1].group, 7);
    assert_true(trace->splits[last->splits + 3] == 4);
    assert_true(trace->splits[last->splits + 4] == REPLAY_UNKNOWN);
    replay_trace_free(trace);
}

TEST(text_that_is_written_reads_as_the_same_calls)
{
    replay_trace *trace = NULL, *again = NULL;
    assert_int_equal(READ(whole_job, &trace), WEIR_OK);
    char *text = written(trace);
    assert_int_equal(replay_read_data("again", text, strlen(text), &again), WEIR_OK);
    char *text_again = written(again);
    assert_string_equal(text, text_again);
    assert_non_null(strstr(text, " 4194304 unregistered buffers=3\n"));
    assert_non_null(strstr(text, "\nplace r2 node7 0-3,8\n"));
    assert_non_null(strstr(text, "0.000000000 r1 world allreduce bfloat16 sum 4194304 inplace "
                                 "took=0.250000000\n"));
    free(text);
    free(text_again);
    replay_trace_free(trace);
    replay_trace_free(again);
}

TEST(impossible_calls_are_refused_with_file_and_line)
{
    EXPECT_REFUSED("comm w 0\n- r0 w allreduce f32 sum -1\n", "job.txt:2:", "count -1");
    EXPECT_REFUSED("comm w 0\n- r0 w allreduce f32 sum 1099511627777\n", "job.txt:2:", "count");
    EXPECT_REFUSED("comm w 0\n- r0 w allreduce f31 sum 1\n", "job.txt:2:", "type f31");
    EXPECT_REFUSED("comm w 0\n- r0 w allreduce f32 xor 1\n", "job.txt:2:", "operation xor");
    EXPECT_REFUSED("comm w 0\n- r0 w allscatter f32 1\n", "job.txt:2:", "call allscatter");
    EXPECT_REFUSED("comm w 0\n- r0 w broadcast f32 1 root=1\n", "job.txt:2:", "ranks 0 to 0");
    EXPECT_REFUSED("comm w 0\n- r0 w broadcast f32 1\n", "job.txt:2:", "rank -1 as root");
    EXPECT_REFUSED("comm w 0\n- r0 w send f32 1 from=0\n", "job.txt:2:", "expected to=RANK");
    EXPECT_REFUSED("comm w 0\n- r0 w allreduce f32 sum 1 buffers=16777216\n",
                   "job.txt:2:", "buffers 16777216: expected a whole number from 0 to 16777215");
    EXPECT_REFUSED("comm w 0\n- r0 v barrier\n", "job.txt:2:", "communicator v");
    EXPECT_REFUSED("comm w 0\n- r1 w barrier\n", "job.txt:2:", "not in communicator w");
    EXPECT_REFUSED("comm w 0\n- r9999 w barrier\n", "job.txt:2:", "rank r9999");
    EXPECT_REFUSED("comm w 0\n- r0 w alltoallv f32 sent=1,2\n", "job.txt:2:", "1 numbers");
    EXPECT_REFUSED("comm w 0\nplace r0 0-3\n", "job.txt:2:", "expected: place rRANK NODE CPUS");
    EXPECT_REFUSED("comm w 0\nplace 0 node7 0-3\n", "job.txt:2:", "rank 0: expected r");
    EXPECT_REFUSED("comm w 0-\n", "job.txt:1:", "expected: comm NAME RANKS");
    EXPECT_REFUSED("comm w 0-1\ncomm w 0-2\n", "job.txt:2:", "3 ranks here and 2 before");
    EXPECT_REFUSED("comm w 0,1\ncomm w 1,0\n", "job.txt:2:", "is rank 1 of the job here");
    EXPECT_REFUSED("comm w 0\n1x r0 w barrier\n", "job.txt:2:", "time 1x");
}

/* A number at its limit is read, the next one refused, with the limit in the message. */
TEST(numbers_of_text_are_read_up_to_the_limits_that_messages_name)
{
    static const struct {
        const char *call;
        unsigned long long limit;
        const char *says;
    } rows[] = {
        {"r0 w allreduce f32 sum %llu", 1ULL << 40, "count %llu"},
        {"r%llu w barrier", WEIR_RANKS_MAX - 1, "a number from 0 to %llu\n"},
        {"r0 w barrier group=%llu", INT32_MAX, "a whole number from 0 to %llu\n"},
        {"r0 w barrier stream=%llu", 255, "a whole number from 0 to %llu\n"},
        {"r0 w broadcast f32 1 root=%llu", WEIR_RANKS_MAX - 1, "a whole number from 0 to %llu\n"},
        {"r0 w send f32 1 to=%llu", WEIR_RANKS_MAX - 1, "a whole number from 0 to %llu\n"},
        {"r0 w recv f32 1 from=%llu", WEIR_RANKS_MAX - 1, "a whole number from 0 to %llu\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int is_count = rows[i].limit == 1ULL << 40;
        for (unsigned long long beyond = 0; beyond < 2; beyond++) {
            char call[96], text[200], says[96], found[1024];
            replay_trace *trace = NULL;
            snprintf(call, sizeof call, rows[i].call, rows[i].limit + beyond);
            snprintf(text, sizeof text, "comm w 0\n- %s\n", call);
            snprintf(says, sizeof says, rows[i].says, rows[i].limit + is_count);
            const weir_status status = replay_read_data("job.txt", text, strlen(text), &trace);
            snprintf(found, sizeof found, "%s\n", status == WEIR_OK ? "" : weir_last_error());
            if (!strstr(found, says) != !beyond)
                fail_msg("\"%s\" %s \"%s\" for %s", says, beyond ? "is not in" : "is in", found,
                         call);
            if (trace)
                replay_trace_free(trace);
        }
    }
}

TEST(a_rank_without_a_recording_is_named)
{
    EXPECT_REFUSED("comm w 0-2\n- r0 w barrier\n- r2 w barrier\n", "communicator w has 3 ranks",
                   "its rank 1 has no calls", "files of all ranks");
    EXPECT_REFUSED("comm w 0,0\n- r0 w barrier\n", "twice");
    EXPECT_REFUSED("comm w 0\n", "no calls");
    EXPECT_REFUSED("what is this\n", "job.txt:", "not a recording");
    EXPECT_REFUSED("- read this\n", "job.txt:", "not a recording");
    EXPECT_REFUSED("1.5 rows of it\n", "job.txt:", "not a recording");
}

TEST(ranks_are_numbered_without_gaps_and_unused_communicators_removed)
{
    replay_trace *trace = NULL;
    assert_int_equal(READ("comm unused 0-9\ncomm w 4,6\n- r4 w barrier\n- r6 w barrier\n", &trace),
                     WEIR_OK);
    assert_int_equal(trace->nranks, 2);
    assert_int_equal(trace->ncomms, 1);
    assert_string_equal(trace->comms[0].name, "w");
    assert_int_equal(trace->comms[0].ranks[1], 1);
    assert_int_equal(trace->ranks[1].calls[0].comm, 0);
    replay_trace_free(trace);
}

TEST(what_is_cut_off_or_jumps_is_noted_once_with_a_count)
{
    char *text = NULL;
    size_t bytes = 0;
    replay_trace *trace = NULL;
    assert_int_equal(READ("comm w 0\n5 r0 w barrier\n1 r0 w barrier\n2 r0 w barrier\n"
                          "6 r0 w barr",
                          &trace),
                     WEIR_OK);
    FILE *to = open_memstream(&text, &bytes);
    replay_notes_print(trace, to);
    fclose(to);
    assert_non_null(strstr(text, "job.txt:5: the line is cut off: left out\n"));
    assert_non_null(strstr(text, "job.txt:3: starts before"));
    assert_int_equal(trace->ranks[0].count, 3);
    free(text);
    replay_trace_free(trace);
}

TEST(streams_have_times_of_their_own)
{
    replay_trace *trace = NULL;
    assert_int_equal(READ("comm v 0\ncomm w 0\n2 r0 v barrier\n1 r0 w barrier stream=1\n", &trace),
                     WEIR_OK);
    assert_int_equal(trace->nnotes, 0);
    assert_true(trace->ranks[0].calls[0].start_s == 1 && trace->ranks[0].calls[1].start_s == 0);
    replay_trace_free(trace);
}

TEST(a_block_of_zeros_ends_a_killed_job)
{
    replay_trace *trace = NULL;
    assert_int_equal(READ("comm w 0\n- r0 w barrier\n\0\0\0\0", &trace), WEIR_OK);
    assert_int_equal(trace->ranks[0].count, 1);
    assert_non_null(strstr(trace->notes[0].text, "ends here"));
    replay_trace_free(trace);
    EXPECT_REFUSED("comm w 0\n- r0 w bar\0rier\n", "job.txt:2:", "byte 0");
}

TEST(a_line_longer_than_the_buffer_is_left_out_and_the_next_one_read)
{
    const size_t bytes = REPLAY_LINE_BYTES + 5000;
    char *text = malloc(bytes + 64);
    replay_trace *trace = NULL;
    int at = sprintf(text, "comm w 0\n- r0 w barrier\n");
    memset(text + at, 'x', bytes);
    sprintf(text + (size_t)at + bytes, "\n- r0 w barrier\n");
    assert_int_equal(replay_read_data("job.txt", text, strlen(text), &trace), WEIR_OK);
    assert_int_equal(trace->ranks[0].count, 2);
    assert_int_equal(trace->ranks[0].calls[1].line, 4);
    assert_int_equal(trace->notes[0].line, 3);
    free(text);
    replay_trace_free(trace);
}

TEST(a_folder_has_a_file_for_each_rank)
{
    char folder[] = "/tmp/replay-XXXXXX", path[64], *paths[] = {folder};
    replay_trace *trace = NULL;
    assert_non_null(mkdtemp(folder));
    for (int rank = 0; rank < 3; rank++) {
        snprintf(path, sizeof path, "%s/%d.txt", folder, rank);
        FILE *to = fopen(path, "w");
        assert_non_null(to);
        if (rank < 2)
            fprintf(to, "comm w 0-1\n%d r%d w barrier\n", 10 + rank, rank);
        fclose(to);
    }
    assert_int_equal(replay_read(paths, 1, &trace), WEIR_OK);
    assert_int_equal(trace->nranks, 2);
    assert_true(trace->ranks[1].calls[0].start_s == 1);
    assert_non_null(strstr(trace->notes[0].text, "empty"));
    replay_trace_free(trace);
    for (int rank = 0; rank < 3; rank++) {
        snprintf(path, sizeof path, "%s/%d.txt", folder, rank);
        unlink(path);
    }
    rmdir(folder);
}

/* ------------------------------------------------------------------ matching */

/* The steps of a rank as text: "allreduce", "exchange3" of so many ranks; a + follows a step that
 * is in a group with the next one. */
static char *steps_of(const replay_schedule *s, int rank, char text[256])
{
    int at = 0;
    *text = 0;
    for (size_t i = 0; i < s->lanes[rank].count; i++) {
        const replay_step *step = &s->lanes[rank].list[i];
        const char *end = step->is_grouped ? "+" : " ";
        if (step->kind == REPLAY_EXCHANGE)
            at += snprintf(text + at, 256 - (size_t)at, "exchange%d:%u%s",
                           s->sets[step->set]->nranks, step->ncalls, end);
        else
            at += snprintf(text + at, 256 - (size_t)at, "%s%s",
                           replay_kind_name((replay_kind)step->kind), end);
    }
    return text;
}

static void match(const char *text, replay_trace **trace, replay_schedule **schedule)
{
    if (replay_read_data("job.txt", text, strlen(text), trace) != WEIR_OK ||
        replay_match(*trace, schedule) != WEIR_OK)
        fail_msg("%s", weir_last_error());
}

static void expect_steps(const char *job, const char *const *steps, int is_message_wise)
{
    char text[256];
    replay_trace *trace = NULL;
    replay_schedule *schedule = NULL;
    match(job, &trace, &schedule);
    for (int rank = 0; rank < trace->nranks; rank++)
        assert_string_equal(steps_of(schedule, rank, text), steps[rank]);
    assert_int_equal(schedule->runs_message_wise, is_message_wise);
    replay_schedule_free(schedule);
    replay_trace_free(trace);
}

TEST(sends_of_a_ring_become_one_exchange)
{
    expect_steps(
        "comm w 0-2\n"
        "- r0 w send f32 8 to=1 group=1\n- r0 w recv f32 8 from=2 group=1\n"
        "- r1 w send f32 8 to=2 group=1\n- r1 w recv u8 32 from=0 group=1\n"
        "- r2 w send f32 8 to=0 group=1\n- r2 w recv f32 8 from=1 group=1\n"
        "- r0 w barrier\n- r1 w barrier\n- r2 w barrier\n",
        (const char *[]){"exchange3:2 barrier ", "exchange3:2 barrier ", "exchange3:2 barrier "},
        0);
}

TEST(calls_of_a_group_keep_their_group)
{
    expect_steps("comm w 0-1\ncomm v 1,0\n"
                 "- r0 w allreduce f32 sum 8 group=1\n- r0 v allreduce f32 sum 8 group=1\n"
                 "- r0 w barrier\n"
                 "- r1 w allreduce f32 sum 8 group=1\n- r1 v allreduce f32 sum 8 group=1\n"
                 "- r1 w barrier\n",
                 (const char *[]){"allreduce+allreduce barrier ", "allreduce+allreduce barrier "},
                 0);
}

TEST(exchanges_that_would_wait_in_a_circle_run_message_by_message)
{
    /* 0 receives from 2 and sends to 1 at once; 2 sends to 0, then to 1; 1 receives from 2 first.
     */
    expect_steps("comm w 0-2\n"
                 "- r0 w recv f32 8 from=2 group=1\n- r0 w send f32 8 to=1 group=1\n"
                 "- r1 w recv f32 8 from=2\n- r1 w recv f32 8 from=0\n"
                 "- r2 w send f32 8 to=0\n- r2 w send f32 8 to=1\n",
                 (const char *[]){"exchange2:1+exchange2:1 ", "exchange2:1 exchange2:1 ",
                                  "exchange2:1 exchange2:1 "},
                 1);
}

/* Expects that a job runs in so many lanes. */
static void expect_lanes(const char *job, int nlanes)
{
    replay_trace *trace = NULL;
    replay_schedule *schedule = NULL;
    match(job, &trace, &schedule);
    assert_int_equal(schedule->nlanes, nlanes);
    for (int i = 0; i < trace->ncomms; i++)
        assert_true(trace->comms[i].lane < nlanes);
    replay_schedule_free(schedule);
    replay_trace_free(trace);
}

/* Rank 1 issued the calls in the other order, which no single order of blocking calls can serve. */
#define CROSSED(of_a, of_b)                                                                        \
    "comm a 0-1\ncomm b 0-1\n"                                                                     \
    "0 r0 a barrier " of_a "\n1 r0 b barrier " of_b "\n"                                           \
    "0 r1 b barrier " of_b "\n1 r1 a barrier " of_a "\n"

TEST(communicators_whose_calls_were_in_flight_together_have_lanes)
{
    char text[256];
    replay_trace *trace = NULL;
    replay_schedule *schedule = NULL;
    expect_lanes(CROSSED("took=1.5", "took=1.5"), 2);
    expect_lanes(CROSSED("stream=3", "stream=0"), 2);
    expect_lanes("comm a 0\ncomm b 0\n0 r0 a barrier took=1\n1 r0 b barrier took=1\n", 1);
    expect_lanes("comm a 0\ncomm b 0\n0 r0 a barrier took=9\n1 r0 a barrier took=1\n", 1);
    expect_lanes("comm a 0\ncomm b 0\ncomm c 0\n0 r0 a barrier took=9\n1 r0 b barrier took=9\n"
                 "2 r0 c barrier took=1\n",
                 3);
    expect_lanes("comm a 0\ncomm b 0\n0 r0 a barrier group=1 took=9\n"
                 "1 r0 b barrier group=1 took=9\n",
                 1);
    match(CROSSED("took=1.5", "took=1.5"), &trace, &schedule);
    assert_int_equal(schedule->lanes[0].count, 1); /* of rank 0, then of rank 1 */
    assert_int_equal(schedule->lanes[2].list[0].set, schedule->lanes[0].list[0].set);
    assert_string_equal(steps_of(schedule, 3, text), "barrier ");
    replay_schedule_free(schedule);
    replay_trace_free(trace);
}

static weir_status count_lane(void *context, int lane)
{
    ((int *)context)[lane]++;
    return lane == 2 ? WEIR_ERR_INVALID : WEIR_OK;
}

TEST(a_crew_runs_every_lane_and_returns_a_failure)
{
    replay_crew *crew = NULL;
    int counts[4] = {0};
    assert_int_equal(replay_crew_open(4, &crew), WEIR_OK);
    for (int run = 0; run < 100; run++)
        assert_int_equal(replay_crew_run(crew, count_lane, counts), WEIR_ERR_INVALID);
    for (int lane = 0; lane < 4; lane++)
        assert_int_equal(counts[lane], 100);
    replay_crew_close(crew);
}

#define EXPECT_MISMATCH(text, expected, ...)                                                       \
    do {                                                                                           \
        const char *const parts[] = {__VA_ARGS__};                                                 \
        replay_trace *trace = NULL;                                                                \
        replay_schedule *schedule = NULL;                                                          \
        assert_int_equal(READ(text, &trace), WEIR_OK);                                             \
        assert_int_equal(replay_match(trace, &schedule), expected);                                \
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)                         \
            if (!strstr(weir_last_error(), parts[part]))                                           \
                fail_msg("\"%s\" is not in \"%s\"", parts[part], weir_last_error());               \
        replay_trace_free(trace);                                                                  \
    } while (0)

TEST(calls_that_do_not_match_are_named_with_both_lines)
{
    EXPECT_MISMATCH("comm w 0-1\n- r0 w barrier\n- r0 w allreduce f32 sum 8\n- r1 w barrier\n"
                    "- r1 w allreduce f32 sum 9\n",
                    WEIR_ERR_MISMATCH, "communicator w, collective 1",
                    "rank 0 calls allreduce float sum 8 (job.txt:3)",
                    "rank 1 calls allreduce float sum 9 (job.txt:5)");
    EXPECT_MISMATCH("comm w 0-1\n- r0 w allreduce f32 sum 8\n- r1 w allreduce f32 max 8\n",
                    WEIR_ERR_MISMATCH, "float max 8 (job.txt:3)");
    EXPECT_MISMATCH("comm w 0-1\n- r0 w reduce f32 sum 8 root=0\n- r1 w reduce f32 sum 8 root=1\n",
                    WEIR_ERR_MISMATCH, "root=1 (job.txt:3)");
    EXPECT_MISMATCH("comm w 0-1\n- r0 w barrier\n- r0 w barrier\n- r1 w barrier\n",
                    WEIR_ERR_MISMATCH, "(job.txt:3)", "rank 1 has ended");
    EXPECT_MISMATCH("comm w 0-1\n- r0 w send f32 8 to=1\n- r1 w barrier\n- r0 w barrier\n",
                    WEIR_ERR_MISMATCH, "rank 0 calls send float 8 to=1 (job.txt:2)",
                    "no rank has the other end");
    EXPECT_MISMATCH("comm w 0-1\n- r0 w send f32 8 to=1\n- r1 w recv f32 7 from=0\n",
                    WEIR_ERR_MISMATCH, "send float 8", "recv float 7 from=0 (job.txt:3)");
    EXPECT_MISMATCH("comm w 0-1\n- r0 w alltoallv u8 sent=1,2\n"
                    "- r1 w alltoallv u8 sent=3,4 received=1,4\n",
                    WEIR_ERR_MISMATCH, "sends 2 elements to rank 1", "expects 1");
    EXPECT_MISMATCH("comm w 0-1\ncomm v 0-1\n- r0 w barrier\n- r0 v barrier\n- r1 v barrier\n"
                    "- r1 w barrier\n",
                    WEIR_ERR_INVALID, "in a circle", "job.txt:3");
}

/* Rank 1 did not get to the second allreduce: rank 0's send after it, and with that what rank 2
 * does after its receive, are left out. */
TEST(the_end_of_a_killed_job_is_left_out_with_a_note)
{
    const char job[] = "comm w 0-2\ncomm p 0,1\ncomm q 0,2\n"
                       "- r0 w barrier\n- r1 w barrier\n- r2 w barrier\n"
                       "- r0 p allreduce f32 sum 8\n- r1 p allreduce f32 sum 8\n"
                       "- r0 p allreduce f32 sum 9\n- r0 q send f32 1 to=1\n"
                       "- r2 q recv f32 1 from=0\n- r2 w barrier\n- r1 p allred";
    char text[256];
    replay_trace *trace = NULL;
    replay_schedule *schedule = NULL;
    match(job, &trace, &schedule);
    assert_string_equal(steps_of(schedule, 0, text), "barrier allreduce ");
    assert_string_equal(steps_of(schedule, 1, text), "barrier allreduce ");
    assert_string_equal(steps_of(schedule, 2, text), "barrier ");
    assert_non_null(strstr(trace->notes[1].text, "4 calls at its end"));
    replay_schedule_free(schedule);
    replay_trace_free(trace);
}

/* Of two receives, the one whose sender did not get to it ends its rank, and only that. */
TEST(a_receive_without_its_send_ends_its_rank_alone)
{
    const char job[] = "comm w 0-2\ncomm p 0,2\n- r0 w barrier\n- r1 w barrier\n- r2 w barrier\n"
                       "- r0 w send f32 1 to=1\n- r1 w recv f32 1 from=0\n"
                       "- r0 p barrier\n- r2 p barrier\n- r2 w recv f32 1 from=1\n- r1 w se";
    char text[256];
    replay_trace *trace = NULL;
    replay_schedule *schedule = NULL;
    match(job, &trace, &schedule);
    assert_string_equal(steps_of(schedule, 0, text), "barrier exchange2:1 barrier ");
    assert_string_equal(steps_of(schedule, 1, text), "barrier exchange2:1 ");
    assert_string_equal(steps_of(schedule, 2, text), "barrier barrier ");
    replay_schedule_free(schedule);
    replay_trace_free(trace);
}

TEST(splits_that_receivers_do_not_know_come_from_the_senders)
{
    replay_trace *trace = NULL;
    replay_schedule *schedule = NULL;
    match("comm w 0-1\n- r0 w alltoallv u8 sent=1,2\n- r1 w alltoallv u8 sent=3,4\n", &trace,
          &schedule);
    const uint64_t *splits = trace->splits + trace->ranks[1].calls[0].splits;
    assert_int_equal(splits[2], 2);
    assert_int_equal(splits[3], 4);
    replay_schedule_free(schedule);
    replay_trace_free(trace);
}

int main(void)
{
    return run_all_tests("bench_replay");
}
