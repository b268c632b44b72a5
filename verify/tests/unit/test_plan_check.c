/*
 * The plan checker accepts correct plans, and rejects each mutant, a plan with one fault, for that
 * fault and its place. Plans are written in the short form of plan_text.h; a mutant is the text of
 * a correct plan with one part replaced. Sample plans of MSCCL++'s DSL, if present, are checked as
 * they are and without each one of their operations.
 */
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

#include "plan/check/check.h"
#include "plan/examples/examples.h"

#include <sys/resource.h>
#include <time.h>

static void print_report(const weir_plan_report *report)
{
    for (unsigned i = 0; i < report->nviolations; i++) {
        const weir_plan_violation *at = &report->violations[i];
        print_message("# %s: rank %d, block %d, op %d: %s\n", weir_plan_fault_name(at->fault),
                      at->rank, (int)at->block, (int)at->op, at->text);
    }
}

static int has(const weir_plan_report *report, weir_plan_fault fault, int rank, int block, int op,
               const char *word)
{
    for (unsigned i = 0; i < report->nviolations; i++) {
        const weir_plan_violation *at = &report->violations[i];
        if (at->fault == fault && at->rank == rank && (int)at->block == block &&
            (int)at->op == op && strstr(at->text, word))
            return 1;
    }
    return 0;
}

/* ------------------------------------------------------------ correct plans */

TEST(correct_plans_are_accepted)
{
    static weir_plan_report report;
    for (size_t i = 0; i < sizeof right_plans / sizeof *right_plans; i++) {
        weir_plan *plan = plan_of(right_plans[i]);
        if (weir_plan_check(plan, &report) != WEIR_OK) {
            print_report(&report);
            fail_msg("%s\n%s", weir_last_error(), right_plans[i]);
        }
        assert_int_equal(report.nviolations, 0);
        assert_int_equal(report.all_lengths, 1);
        assert_int_equal(report.proves_result, strcmp(weir_plan_collective(plan), "custom") != 0);
        weir_plan_free(plan);
    }
}

/* What follows a pipeline, or lies between two, handles its chunk once, whatever the turns were. */
TEST(operations_after_a_pipeline_handle_whole_chunks)
{
    weir_plan_report report;
    weir_plan *right =
        plan_of("allreduce 1 i1 o1 s2\n"
                "0.0; pipeline 16*1; copy i0+1 > s0+1; nop; end; copy s0+1 > s1+1; nop; "
                "pipeline 32*1; copy s1+1 > s0+1; nop; end; copy s0+1 > o0+1");
    weir_plan *wrong = plan_of("allreduce 1 i1 o1 s2\n"
                               "0.0; pipeline 16*1; copy i0+1 > s0+1; nop; end; copy s1+1 > o0+1");
    assert_int_equal(weir_plan_check(right, &report), WEIR_OK);
    assert_int_equal(report.proves_result, 1);
    assert_int_not_equal(weir_plan_check(wrong, &report), WEIR_OK);
    weir_plan_free(right);
    weir_plan_free(wrong);
}

/* Blocks that exclude each other in each turn are proved for every length. Blocks that release a
 * semaphore for others do not exclude each other: such a plan is proved for the lengths tried. */
TEST(a_semaphore_that_is_no_exclusion_limits_the_lengths)
{
    static const char *const plans[] = {
        "custom 1 i2 o2 s0; sem 1\n"
        "0.0; pipeline 16*1; sem_acquire $0; nop; copy i0+1 > o0+1; nop; sem_release $0; end\n"
        "0.1; pipeline 16*1; sem_acquire $0; nop; copy i1+1 > o1+1; nop; sem_release $0; end",
        "custom 1 i2 o2 s0; sem 1\n"
        "0.0; pipeline 16*1; copy i0+1 > o0+1; nop; end; sem_release $0\n"
        "0.1; pipeline 16*1; copy i1+1 > o1+1; nop; end; sem_release $0\n"
        "0.2; sem_acquire $0; nop\n"
        "0.3; sem_acquire $0; nop"};
    static weir_plan_report report;
    for (int i = 0; i < 2; i++) {
        weir_plan *plan = plan_of(plans[i]);
        if (weir_plan_check(plan, &report) != WEIR_OK)
            fail_msg("%s\n%s", weir_last_error(), plans[i]);
        assert_int_equal(report.all_lengths, i == 0);
        weir_plan_free(plan);
    }
}

TEST(the_stricter_model_rejects_what_only_executors_order)
{
    static const char *const words[] = {"a nop is missing", "a second time in a launch",
                                        "expects 2 thread blocks, but 4 of the rank use it"};
    static weir_plan_report report;
    for (size_t i = 0; i < UNSTRICT_PLANS; i++) {
        weir_plan *plan = plan_of(unstrict_plans[i]);
        if (weir_plan_check(plan, &report) != WEIR_OK)
            fail_msg("%s\n%s", weir_last_error(), unstrict_plans[i]);
        assert_int_equal(weir_plan_check_strict(plan, &report), WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), words[i]));
        weir_plan_free(plan);
    }
    for (size_t i = 0; i < sizeof right_plans / sizeof *right_plans; i++) {
        weir_plan *plan = plan_of(right_plans[i]);
        if (weir_plan_check_strict(plan, NULL) != WEIR_OK)
            fail_msg("%s\n%s", weir_last_error(), right_plans[i]);
        weir_plan_free(plan);
    }
}

/* ------------------------------------------------------------------ mutants */

typedef struct mutant {
    const char *what, *text, *from, *to; /* `to` replaces the first `from` of text */
    weir_plan_fault fault;
    int rank, block, op;
    const char *word; /* of the message */
} mutant;

enum { NOWHERE = -1 };

static const mutant mutants[] = {
    {"dropped wait", HANDSHAKE, "signal @m1; wait @m1; nop;", "signal @m1; nop;",
     WEIR_PLAN_FAULT_RACE, 1, 0, 0, "no signal and wait order them"},
    {"dropped last wait", HANDSHAKE, "nop; signal @m1; wait @m1\n", "nop; signal @m1\n",
     WEIR_PLAN_FAULT_BALANCE, 1, 0, 8, "signals memory channel 0 from rank 1 to rank 0 2 times"},
    {"dropped signal", HANDSHAKE, "signal @m1; wait @m1; nop;", "wait @m1; nop;",
     WEIR_PLAN_FAULT_DEADLOCK, 1, 0, 7,
     "signal 2 of memory channel 0 from rank 0, which no thread"},
    {"no nop after a copy", HANDSHAKE, "s0+2; nop; signal @m1;", "s0+2; signal @m1;",
     WEIR_PLAN_FAULT_RACE, 1, 0, 5, "scratch chunk 0 of rank 0"},
    {"no nop after a wait", HANDSHAKE, "wait @m1; nop; rre", "wait @m1; rre", WEIR_PLAN_FAULT_RACE,
     0, 0, 4, "scratch chunk 0 of rank 1"},
    {"relaxed wait", HANDSHAKE, "wait @m1; nop; rre", "rlxwait @m1; nop; rre", WEIR_PLAN_FAULT_RACE,
     0, 0, 5, "scratch chunk 0 of rank 1"},
    {"relaxed signal", HANDSHAKE, "signal @m1; wait", "rlxsignal @m1; wait", WEIR_PLAN_FAULT_RACE,
     1, 0, 5, "scratch chunk 0 of rank 0"},
    {"swapped chunk", HANDSHAKE, "i1+1 1:s1+1", "i1+1 1:s0+1", WEIR_PLAN_FAULT_RESULT, 0, 0, 6,
     "output chunk 1 of rank 0: input chunks 1 and 0"},
    {"reduction of what nothing wrote", HANDSHAKE, "1.0; copy i0+2 > s0+2", "1.0; copy i0+1 > s0+1",
     WEIR_PLAN_FAULT_RESULT, 0, 0, 6,
     "it is made from scratch chunk 1 of rank 1, which nothing has written"},
    {"swapped output", HANDSHAKE, "rre i1+1 1:s1+1 > o1+1", "rre i0+1 1:s0+1 > o1+1",
     WEIR_PLAN_FAULT_RESULT, 0, 0, 6, "it is input chunk 0 of rank 0 where chunk 1 is expected"},
    {"double reduce", HANDSHAKE, "rre i0+1 1:s0+1", "rre i0+1 1:s0+1 1:s0+1",
     WEIR_PLAN_FAULT_RESULT, 0, 0, 5,
     "output chunk 0 of rank 0: the contribution of rank 1 is "
     "there twice"},
    {"missing contribution", HANDSHAKE, "rre i0+1 1:s0+1 > o0+1", "copy i0+1 > o0+1",
     WEIR_PLAN_FAULT_RESULT, 0, 0, 5, "the contribution of rank 1 is missing"},
    {"nothing written", HANDSHAKE, "rre i0+1 1:s0+1 > o0+1;", "", WEIR_PLAN_FAULT_RESULT, 0,
     NOWHERE, NOWHERE, "output chunk 0 of rank 0: nothing is written there"},
    {"early scratch reuse", HANDSHAKE, "> o1+1; nop; signal",
     "> o1+1; copy i1+1 > s0+1; nop; signal", WEIR_PLAN_FAULT_RACE, 0, 0, 7,
     "scratch chunk 0 of rank 0"},
    {"wrong channel", HANDSHAKE, "nop; signal @m1; wait", "nop; signal @m1/1; wait",
     WEIR_PLAN_FAULT_DEADLOCK, 1, 0, 7, "signal 2 of memory channel 0 from rank 0"},
    {"writes the input", HANDSHAKE, "> o1+1; nop", "> i1+1; nop", WEIR_PLAN_FAULT_RESULT, 0, 0, 6,
     "writes input chunk 1"},
    {"reads what is not there", HANDSHAKE, "copy i0+2 > s0+2", "copy i0+1 > s0+1",
     WEIR_PLAN_FAULT_RESULT, 1, 0, 5, "scratch chunk 1 of rank 0, which nothing has written"},
    {"single scratch", PACKETS, " double", "", WEIR_PLAN_FAULT_RACE, 0, 0, 0,
     "nothing orders it after the previous launch"},
    {"packets never sent", PACKETS, "0.0; ppkt i0+1 > 1:s0+1;", "0.0;", WEIR_PLAN_FAULT_DEADLOCK, 1,
     0, 1, "packets in scratch chunk 0 of rank 1, which no thread block provides"},
    {"packets sent twice", PACKETS, "ppkt i0+1 > 1:s0+1;", "ppkt i0+1 i0+1 > 1:s0+1 1:s0+1;",
     WEIR_PLAN_FAULT_RACE, 0, 0, 0, "a second time in a launch"},
    {"packets read as data", PACKETS, "repkt i0+1 s0+1 >", "re i0+1 s0+1 >", WEIR_PLAN_FAULT_RACE,
     1, 0, 0, "may still be reading"},
    {"packets copied as data", UNPACKED, "upkt", "copy", WEIR_PLAN_FAULT_RESULT, 0, 0, 2,
     "packets in scratch chunk 0 of rank 0 are read as data"},
    {"data unpacked", UNPACKED, "cpkt", "copy", WEIR_PLAN_FAULT_DEADLOCK, 0, 0, 2,
     "packets in scratch chunk 0 of rank 0, which no thread block provides"},
    {"packets wait for each other", PACKETS, "ppkt i0+1 > 1:s0+1; repkt i0+1 s0+1 > o0+1",
     "repkt i0+1 s0+1 > o0+1; nop; ppkt o0+1 > 1:s0+1", WEIR_PLAN_FAULT_RESULT, 1, 0, 1,
     "rank 1 is there twice"},
    {"packets back into what is being sent", TWO_SHOTS, "0.1; upkt s1+1 > i1+1",
     "0.1; upkt s1+1 > i0+1", WEIR_PLAN_FAULT_RACE, 0, 0, 1,
     "no barrier, semaphore or signal orders them"},
    {"semaphore released twice", SEMAPHORES, "sem_release $0", "sem_release $0 0",
     WEIR_PLAN_FAULT_BALANCE, 0, 0, 5, "releases semaphore 0 2 times and acquires it 1 time:"},
    {"semaphore never released", SEMAPHORES, "; sem_release $0", "", WEIR_PLAN_FAULT_DEADLOCK, 0, 1,
     0, "release 1 of semaphore 0, which no thread block provides"},
    {"semaphore that is open", SEMAPHORES, "sem 0 0", "sem 1 0", WEIR_PLAN_FAULT_RACE, 1, 0, 0,
     "scratch chunk 0 of rank 0"},
    {"no trailing handshake", SEMAPHORES, "copy s0+1 > o1+1; nop; signal @m1/1; wait @m1/1",
     "nop; signal @m1/1; wait @m1/1; nop; copy s0+1 > o1+1", WEIR_PLAN_FAULT_RACE, 1, 0, 0,
     "nothing orders it after the previous launch"},
    {"barrier for one", BARRIERS, "barrier #0/2", "barrier #0/1", WEIR_PLAN_FAULT_BARRIER, 0, 1, 1,
     "barrier 0 expects 2 thread blocks, but 1 of"},
    {"barrier that one passes by", BARRIERS, "s1+1; barrier #0/2", "s1+1", WEIR_PLAN_FAULT_BARRIER,
     0, 0, 1, "1 of the rank use"},
    {"barrier left out", BARRIERS, "barrier #0/2; signal @m1; wait @m1; nop;",
     "nop; signal @m1; wait @m1; nop;", WEIR_PLAN_FAULT_BARRIER, 0, 1, 1, "2 thread blocks"},
    {"put without a signal after it", PORTS, "put s0+1 > 1:s1+1 @p1; nop; signal @p1; flush @p1",
     "signal @p1; put s0+1 > 1:s1+1 @p1; nop; flush @p1", WEIR_PLAN_FAULT_RACE, 1, 0, 9,
     "may still be writing: the put may still be under way"},
    {"put without flush", PORTS,
     "flush @p1; wait @p1; nop; copy s1+1 > o1+1; nop; signal @m1; "
     "wait @m1\n",
     "wait @p1; nop; copy s1+1 > s0+1; copy s1+1 > o1+1; nop; signal @m1; wait @m1\n",
     WEIR_PLAN_FAULT_RACE, 0, 0, 8, "may still be reading: the put may still be under way"},
    {"relaxed wait for a put over a port", PORTS, "wait @p1; nop; copy", "rlxwait @p1; nop; copy",
     WEIR_PLAN_FAULT_RACE, 0, 0, 9, "may still be writing: the put may still be under way"},
    {"relaxed signal of a put over a port", PORTS, "nop; signal @p1", "nop; rlxsignal @p1",
     WEIR_PLAN_FAULT_RACE, 1, 0, 9, "may still be writing: the put may still be under way"},
    {"no nop after a wait for a put over a port", PORTS_FUSED, "wait @p1; nop;", "wait @p1;",
     WEIR_PLAN_FAULT_RACE, 0, 0, 5, "may still be writing: the put may still be under way"},
    {"signal over another channel than the put", PORTS, "signal @p1; flush @p1; wait @p1",
     "signal @m1/1; flush @p1; wait @p1", WEIR_PLAN_FAULT_DEADLOCK, 1, 0, 7,
     "port channel 0 from rank 0"},
    {"put beside the fence", PORTS_FUSED, "s0+1; nop; pwsf", "s0+1; pwsf", WEIR_PLAN_FAULT_RACE, 0,
     0, 2, "a nop is missing between them"},
    {"broadcast of another rank's", BROADCAST, "put i0+1 i0+1 > 0:o0+1 2:o0+1 @m0 m2",
     "put i0+1 > 0:o0+1 @m0", WEIR_PLAN_FAULT_RESULT, 2, NOWHERE, NOWHERE,
     "output chunk 0 of rank 2"},
    {"writes before the peer has begun", BROADCAST, "rlxwait @m0 m2; nop; put", "put",
     WEIR_PLAN_FAULT_RACE, 1, 0, 0, "the caller may still be writing"},
    {"reads while the caller writes again", REDUCE, "0.0; rlxsignal @m2; wait @m2",
     "0.0; rlxsignal @m2; rlxwait @m2", WEIR_PLAN_FAULT_RACE, 2, 0, 2,
     "may still be reading input chunk 0 of rank 0 when the launch of that rank has ended"},
    {"end is signalled without order", BROADCAST, "copy i0+1 > o0+1; nop; signal @m0 m2",
     "copy i0+1 > o0+1; nop; rlxsignal @m0 m2", WEIR_PLAN_FAULT_RACE, 1, 0, 2,
     "may still be writing output chunk 0 of rank 2 when the launch of that rank has ended"},
    {"reduce without one", REDUCE, "rre i0+1 0:i0+1 1:i0+1", "rre i0+1 0:i0+1",
     WEIR_PLAN_FAULT_RESULT, 2, 0, 2, "rank 1 is missing"},
    {"cyclic waits", HANDSHAKE, "signal @m1; wait @m1\n", "wait @m1; signal @m1\n",
     WEIR_PLAN_FAULT_DEADLOCK, 0, 0, 8, "a cycle"},
    {"wrong peer", RING, "put o2+1 > 1:o2+1", "put o2+1 > 2:o2+1", WEIR_PLAN_FAULT_RESULT, 1,
     NOWHERE, NOWHERE, "output chunk 2 of rank 1"},
    {"pipeline without acquire", PIPELINE, "sem_acquire $0; nop; re", "re", WEIR_PLAN_FAULT_RACE, 0,
     0, 4, "no barrier, semaphore or signal orders them"},
    {"pipeline that hurries ahead", PIPELINE, "pipeline 1024*1; sem_acquire $0; nop; re",
     "sem_acquire $0; nop; pipeline 1024*1; re", WEIR_PLAN_FAULT_DEADLOCK, 0, 1, 0,
     "release 1 of semaphore 0"},
    {"pipeline that falls short", PIPELINE,
     "allreduce 2 i1 o1 s1; sem 0 0\n0.0; rlxsignal @m1; "
     "rlxwait @m1; nop; pipeline 1024*1; get 1:i0+1",
     "allreduce 2 i1 o1 s1; sem 0 0\n0.0; "
     "rlxsignal @m1; rlxwait @m1; nop; pipeline 2048*1; get 1:i0+1",
     WEIR_PLAN_FAULT_DEADLOCK, 0, 1, 1, "release 2 of semaphore 0"},
    {"group without a part", GROUPS, "> o2+2 %1/2", "> o2+2 %0/2", WEIR_PLAN_FAULT_RACE, 0, 1, 3,
     "output chunk 2 of rank 0"},
    {"group of three of which two come", GROUPS, "> o2+2 %0/2", "> o2+2 %0/3",
     WEIR_PLAN_FAULT_RESULT, 0, NOWHERE, NOWHERE, "nothing is written there"},
    {"switch that reads early", SWITCHES, "rlxsignal @m1; rlxwait @m1; nop; glres", "glres",
     WEIR_PLAN_FAULT_RACE, 0, 0, 0, "input chunk 0 of rank 1, which the caller"},
    {"switch that stores the wrong chunk", SWITCHES, "> g0i1+1", "> g0i0+1", WEIR_PLAN_FAULT_RACE,
     0, 0, 3, "input chunk 0 of rank 0"},
    {"one of two releases", GATHER, "sem_acquire $0; sem_acquire $0; nop; copy s0+2 > o0+2",
     "sem_acquire $0; nop; copy s0+2 > o0+2; nop; sem_acquire $0", WEIR_PLAN_FAULT_RACE, 0, 2, 2,
     "scratch chunk"},
    {"through a chunk that may be shorter", SLOTS, "s0+1; nop; copy s0+1 > o0+1; copy i1+1",
     "o1+1; nop; copy o1+1 > o0+1; nop; copy i1+1", WEIR_PLAN_FAULT_RESULT, 0, 0, 2,
     "output chunk 0 of rank 0: it went through chunk 1 of a block"},
    {"packets order no other data", MIXED, "wait @m1; nop; upkt s0+1 > o3+1; copy s1+1 > o2+1",
     "upkt s0+1 > o3+1; nop; copy s1+1 > o2+1; wait @m1", WEIR_PLAN_FAULT_RACE, 0, 0, 7,
     "no signal and wait order them"},
    {"opposite order of two semaphores", EXCLUSION,
     "sem_acquire $0; nop; copy i0+1 > s0+1; nop; "
     "sem_release $0",
     "sem_acquire $0; sem_acquire $1; nop; copy i0+1 > s0+1; nop; "
     "sem_release $0 1",
     WEIR_PLAN_FAULT_DEADLOCK, 0, 0, 0, "in any order"},
    {"exclusion is no order", EXCLUSION, "copy i1+1 > s1+1", "copy i1+1 > s0+1",
     WEIR_PLAN_FAULT_RACE, 0, 1, 2, "no barrier, semaphore or signal orders them"},
    {"operation that conflicts with itself", GATHER, "copy i0+1 > s0+1; nop",
     "copy i0+1 i1+1 > i1+1 s0+1; nop", WEIR_PLAN_FAULT_RACE, 0, 0, 0,
     "both are accesses of one operation"},
    {"packet operations whose threads divide a chunk differently", UNFENCED_PACKETS,
     "upkt s1+1 > o0+1", "upkt s1+1 > o0+1 %0/2", WEIR_PLAN_FAULT_RACE, 0, 0, 3,
     "a nop is missing between them"},
    {"packets, then data, without a fence", UNFENCED_PACKETS, "cpkt o0+1 > s1+1; upkt s1+1 > o0+1",
     "copy o0+1 > i0+1", WEIR_PLAN_FAULT_RACE, 0, 0, 2, "a nop is missing between them"},
    {"packets that another block overwrites", PACKETS_ONTO_THEMSELVES, "0.1; upkt s1+1 > o1+1",
     "0.1; upkt s1+1 > o1+1; cpkt o1+1 > s0+1", WEIR_PLAN_FAULT_RACE, 0, 1, 1,
     "a second time in a launch"},
    {"a packet stored onto another one", PACKETS_ONTO_THEMSELVES, "gstorepkt s0+1 > g0s0+1",
     "gstorepkt s0+1 > g0s1+1", WEIR_PLAN_FAULT_RACE, 1, 0, 0, "a second time in a launch"},
    {"operation that writes a chunk twice", TWO_PORTS, "copy i0+1 > s0+1; copy",
     "copy i0+1 i0+1 > s0+1 s0+1; copy", WEIR_PLAN_FAULT_RACE, 0, 0, 0,
     "both are accesses of one operation"},
    {"operation that sends a chunk twice", "custom 2 i2 o2 s2\n0.0; nop; signal @m1\n1.0; wait @m0",
     "nop", "res i0+1 i1+1 > o0+1 1:s0+1 1:s0+1; nop", WEIR_PLAN_FAULT_RACE, 0, 0, 0,
     "both are accesses of one operation"},
    {"read that nothing proves to the caller",
     "allreduce 2 i2 o2 s3\n"
     "0.0; ppkt i1+1 > 1:s0+1; respkt i0+1 s0+1 > o0+1 1:s1+1\n"
     "0.1; upkt s1+1 > o1+1\n"
     "1.0; ppkt i0+1 > 0:s0+1; respkt i1+1 s0+1 > o1+1 0:s1+1; nop\n"
     "1.1; upkt s1+1 > o0+1",
     "; nop", "; nop; get 0:i1+1 > s2+1", WEIR_PLAN_FAULT_RACE, 1, 0, 3,
     "may still be reading input chunk 1 of rank 0"},
    {"flush by another thread than the put's", TWO_PORTS, "flush @p1 p2", "flush @p2 p1",
     WEIR_PLAN_FAULT_RACE, 0, 0, 8, "may still be reading: the put may still be under way"},
    {"a barrier that a third block may enter first", BARRIER_OF_TWO_PAIRS, "sem_acquire $1; nop",
     "nop; nop", WEIR_PLAN_FAULT_BARRIER, 0, 3, 3, "nothing orders this entry after that of"},
};

/* The plan's text with the first `from` replaced by `to`; the caller frees it. */
static char *mutated(const mutant *row)
{
    const char *at = strstr(row->text, row->from);
    if (!at)
        fail_msg("%s: '%s' is not in the plan", row->what, row->from);
    size_t before = (size_t)(at - row->text), room = strlen(row->text) + strlen(row->to) + 1;
    char *text = malloc(room);
    assert_non_null(text);
    snprintf(text, room, "%.*s%s%s", (int)before, row->text, row->to, at + strlen(row->from));
    return text;
}

/* What the text recommends for some of the mutants: the correction that they lack. */
static const struct {
    const char *what, *fix;
} fixes[] = {
    {"dropped wait", "on rank 1, before op 0, add wait(data_sync=SyncType.after) (weir_plan_wait"},
    {"dropped last wait", "add wait (weir_plan_wait) on rank 0"},
    {"dropped signal", "add signal() on rank 0 (weir_plan_signal) on its memory channel to rank 1"},
    {"no nop after a copy", "add a nop before rank 0, thread block 0, op 1 (signal)"},
    {"no nop after a wait", "add a nop after rank 0, thread block 0, op 3 (wait)"},
    {"relaxed wait", "make the wait non-relaxed, rank 0, thread block 0, op 3 (rlxwait)"},
    {"relaxed signal", "make the signal to rank 1 non-relaxed, rank 0, thread block 0, op 2"},
    {"missing contribution", "add chunk 0 of rank 1 to the reduction"},
    {"double reduce", "leave out one of the sources"},
    {"single scratch", "set use_double_scratch_buffer (double_scratch)"},
    {"packets copied as data", "unpack_packets (weir_plan_unpack_packets)"},
    {"semaphore never released", "add a release (weir_plan_release)"},
    {"barrier for one", "rank.barrier([...]) (weir_plan_group, weir_plan_barrier)"},
    {"put without a signal after it", "signal() on the same port channel after op 4"},
    {"relaxed wait for a put over a port",
     "make the wait non-relaxed, rank 0, thread block 0, op 7 (rlxwait)"},
    {"relaxed signal of a put over a port",
     "make the signal to rank 1 non-relaxed, rank 0, thread block 0, op 5"},
    {"no nop after a wait for a put over a port",
     "add a nop after rank 0, thread block 0, op 4 (wait)"},
    {"put without flush", "add flush(data_sync=SyncType.after) on the port channel to rank 1 "
                          "(weir_plan_flush, WEIR_PLAN_AFTER) after op 3"},
    {"put beside the fence",
     "add a nop before op 2: rank.barrier([0]) (weir_plan_barrier(b, 0, 0))"},
    {"writes before the peer has begun",
     "let rank 0 begin with signal(relaxed=True) to rank 1 (weir_plan_relaxed_signal)"},
    {"reads while the caller writes again",
     "make the wait non-relaxed, rank 0, thread block 0, op 1 (rlxwait)"},
    {"end is signalled without order", "make the signal to rank 2 non-relaxed, rank 1"},
    {"pipeline without acquire", "release in one thread block, acquire in the other"},
    {"pipeline without acquire", "(at lengths of 1 pipeline turn; tried: 2 of "},
    {"writes the input", "(at every length); fix: write to scratch of rank 0"},
};

/* Every violation ends with the lengths and a correction; that of a row in `fixes` is expected. */
static int count_missing_fixes(const char *what, const weir_plan_report *report)
{
    int missing = 0;
    for (unsigned i = 0; i < report->nviolations; i++) {
        const char *text = report->violations[i].text, *fix = strstr(text, "); fix: ");
        missing += !fix || !fix[strlen("); fix: ")] || strlen(text) == WEIR_PLAN_TEXT_MAX - 1;
    }
    for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++)
        if (strcmp(fixes[i].what, what) == 0 && !strstr(report->violations[0].text, fixes[i].fix)) {
            print_message("# %s: expected: ...%s...\n", what, fixes[i].fix);
            missing++;
        }
    return missing;
}

TEST(fixes_are_of_mutants)
{
    for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++) {
        int found = 0;
        for (size_t k = 0; k < sizeof mutants / sizeof *mutants; k++)
            found |= strcmp(fixes[i].what, mutants[k].what) == 0;
        if (!found)
            fail_msg("no mutant '%s'", fixes[i].what);
    }
}

TEST(mutants_are_rejected_for_their_fault_and_place)
{
    static weir_plan_report report;
    int wrong = 0;
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        const mutant *row = &mutants[i];
        char *text = mutated(row);
        weir_plan *plan = plan_of(text);
        memset(&report, 0, sizeof report);
        weir_status status = weir_plan_check(plan, &report);
        if (status != WEIR_ERR_INVALID ||
            !has(&report, row->fault, row->rank, row->block, row->op, row->word) ||
            count_missing_fixes(row->what, &report)) {
            print_message("# %s: status %d; expected %s at rank %d, block %d, op %d: ...%s...\n",
                          row->what, (int)status, weir_plan_fault_name(row->fault), row->rank,
                          row->block, row->op, row->word);
            print_report(&report);
            wrong++;
        }
        weir_plan_free(plan);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------ fixes, applied */

/* Plans with a race on each of two ranks, the fixes offered for them, and the plan with both. */
static const struct {
    const char *text, *fixes[2], *repaired;
} repairs[] = {
    /* the only waits precede the puts, so that no change of them orders the puts */
    {SWAP_THAT_ENDS("", ""),
     {"; fix: after op 4 in thread block 0 of rank 0 add signal(data_sync=SyncType.before) to "
      "rank 1 (weir_plan_signal, WEIR_PLAN_BEFORE), and on rank 1, before the end, wait(",
      "; fix: after op 4 in thread block 0 of rank 1 add signal(data_sync=SyncType.before) to "
      "rank 0 (weir_plan_signal, WEIR_PLAN_BEFORE), and on rank 0, before the end, wait("},
     SWAP},
    {SWAP_THAT_ENDS("; nop; signal @m1; rlxwait @m1", "; nop; signal @m0; rlxwait @m0"),
     {"; fix: make the wait non-relaxed, rank 1, thread block 0, op 7 (rlxwait)",
      "; fix: make the wait non-relaxed, rank 0, thread block 0, op 7 (rlxwait)"},
     SWAP},
    {SWAP_THAT_ENDS("; nop; rlxsignal @m1; wait @m1", "; nop; rlxsignal @m0; wait @m0"),
     {"; fix: make the signal to rank 1 non-relaxed, rank 0, thread block 0, op 6 (rlxsignal)",
      "; fix: make the signal to rank 0 non-relaxed, rank 1, thread block 0, op 6 (rlxsignal)"},
     SWAP},
    {SWAP_THAT_ENDS("; signal @m1; wait @m1", "; signal @m0; wait @m0"),
     {"; fix: add a nop before rank 0, thread block 0, op 5 (signal)",
      "; fix: add a nop before rank 1, thread block 0, op 5 (signal)"},
     SWAP},
    {SWAP_THAT_ENDS("; rlxsignal @m1; rlxwait @m1", "; rlxsignal @m0; rlxwait @m0"),
     {"; fix: replace rank 0, thread block 0, op 5 (rlxsignal) by signal(data_sync="
      "SyncType.before) (weir_plan_signal, WEIR_PLAN_BEFORE), and rank 1, thread block 0, op 6 "
      "(rlxwait) by wait(",
      "; fix: replace rank 1, thread block 0, op 5 (rlxsignal) by signal(data_sync="
      "SyncType.before) (weir_plan_signal, WEIR_PLAN_BEFORE), and rank 0, thread block 0, op 6 "
      "(rlxwait) by wait("},
     SWAP},
    /* the last wait is for another channel than the last signal's */
    {SWAP_THAT_ENDS("; nop; rlxsignal @m1/1; rlxsignal @m1; rlxwait @m1; rlxwait @m1/1",
                    "; nop; rlxsignal @m0/1; rlxsignal @m0; rlxwait @m0; rlxwait @m0/1"),
     {"and rank 1, thread block 0, op 8 (rlxwait) by wait(",
      "and rank 0, thread block 0, op 8 (rlxwait) by wait("},
     SWAP_THAT_ENDS("; nop; rlxsignal @m1/1; signal @m1; wait @m1; rlxwait @m1/1",
                    "; nop; rlxsignal @m0/1; signal @m0; wait @m0; rlxwait @m0/1")},
};

TEST(plans_with_the_fixes_that_were_offered_are_accepted)
{
    static weir_plan_report report;
    for (size_t i = 0; i < sizeof repairs / sizeof *repairs; i++) {
        weir_plan *plan = plan_of(repairs[i].text);
        assert_int_equal(weir_plan_check(plan, &report), WEIR_ERR_INVALID);
        assert_int_equal(report.nviolations, 2);
        for (int at = 0; at < 2; at++)
            if (!strstr(report.violations[at].text, repairs[i].fixes[at]))
                fail_msg("expected ...%s...\nfound %s", repairs[i].fixes[at],
                         report.violations[at].text);
        weir_plan_free(plan);
        plan = plan_of(repairs[i].repaired);
        if (weir_plan_check(plan, NULL) != WEIR_OK)
            fail_msg("%s\n%s", weir_last_error(), repairs[i].repaired);
        weir_plan_free(plan);
    }
}

/* The operation that a fix says to make non-relaxed; NULL: it says something else. */
static weiri_plan_op *relaxed_op_of_fix(weir_plan *plan, const char *text)
{
    const char *fix = strstr(text, "; fix: make the "), *at = fix ? strstr(fix, ", rank ") : NULL;
    int rank, block, op;
    if (!at || sscanf(at, ", rank %d, thread block %d, op %d", &rank, &block, &op) != 3)
        return NULL;
    return &plan->gpus[rank].ops[plan->gpus[rank].blocks[block].first_op + (uint32_t)op];
}

static void strengthen(weiri_plan_op *op)
{
    op->kind = op->kind == WEIRI_PLAN_RELAXED_WAIT_OP ? WEIRI_PLAN_WAIT_OP : WEIRI_PLAN_SIGNAL_OP;
}

/* Applies each fix of the plan that makes an operation non-relaxed, alone, and expects that its
 * violation is gone. Returns how many there were. */
static int apply_fixes(weir_plan *plan)
{
    static weir_plan_report report, after;
    int applied = 0;
    if (weir_plan_check(plan, &report) == WEIR_OK)
        return 0;
    for (unsigned i = 0; i < report.nviolations; i++) {
        const weir_plan_violation *at = &report.violations[i];
        weiri_plan_op *op = relaxed_op_of_fix(plan, at->text);
        if (!op)
            continue;
        const weiri_plan_op saved = *op;
        const size_t length = (size_t)(strstr(at->text, " (at ") - at->text);
        strengthen(op);
        memset(&after, 0, sizeof after);
        weir_plan_check(plan, &after);
        *op = saved;
        applied++;
        for (unsigned k = 0; k < after.nviolations; k++)
            if (after.violations[k].op == at->op && after.violations[k].rank == at->rank &&
                strncmp(after.violations[k].text, at->text, length) == 0)
                fail_msg("%s\nremains with that fix", at->text);
    }
    return applied;
}

static int relax(weiri_plan_op *op)
{
    if (op->kind != WEIRI_PLAN_SIGNAL_OP && op->kind != WEIRI_PLAN_WAIT_OP)
        return 0;
    op->kind =
        op->kind == WEIRI_PLAN_WAIT_OP ? WEIRI_PLAN_RELAXED_WAIT_OP : WEIRI_PLAN_RELAXED_SIGNAL_OP;
    return 1;
}

/* The i-th operation of all ranks together; NULL: there are fewer. */
static weiri_plan_op *op_of_any_rank(weir_plan *plan, uint32_t i)
{
    for (int rank = 0; rank < plan->nranks; i -= plan->gpus[rank++].nops)
        if (i < plan->gpus[rank].nops)
            return &plan->gpus[rank].ops[i];
    return NULL;
}

/* The plan with any one or two signals or waits relaxed. */
static int apply_fixes_of_relaxed(weir_plan *plan)
{
    weiri_plan_op *first, *second;
    int applied = 0;
    for (uint32_t i = 0; (first = op_of_any_rank(plan, i)); i++)
        for (uint32_t j = i; (second = op_of_any_rank(plan, j)); j++) {
            const weiri_plan_op saved[] = {*first, *second};
            if (relax(first) && (i == j || relax(second)))
                applied += apply_fixes(plan);
            *first = saved[0];
            *second = saved[1];
        }
    return applied;
}

/* Rank 0 puts its block to where rank 1 stores its own: the races alone would not say that the
 * place is wrong. What nothing writes is reported as well, and only that. */
TEST(a_race_by_a_wrong_place_also_shows_the_place_that_lacks_its_data)
{
    static weir_plan_report report;
    weir_plan *plan = plan_of(
        "allgather 2 i1 o2 s0\n"
        "0.0; copy i0+1 > o0+1; rlxsignal @m1; rlxwait @m1; nop; put i0+1 > 1:o1+1 @m1; nop; "
        "signal @m1; wait @m1\n"
        "1.0; copy i0+1 > o1+1; rlxsignal @m0; rlxwait @m0; nop; put i0+1 > 0:o1+1 @m0; nop; "
        "signal @m0; wait @m0");
    assert_int_equal(weir_plan_check(plan, &report), WEIR_ERR_INVALID);
    int races = 0, results = 0;
    for (unsigned i = 0; i < report.nviolations; i++) {
        races += report.violations[i].fault == WEIR_PLAN_FAULT_RACE;
        results += report.violations[i].fault == WEIR_PLAN_FAULT_RESULT;
    }
    assert_true(races > 0);
    assert_int_equal(results, 1);
    assert_true(has(&report, WEIR_PLAN_FAULT_RESULT, 1, NOWHERE, NOWHERE,
                    "output chunk 0 of rank 1: nothing is written there"));
    weir_plan_free(plan);
}

TEST(making_an_operation_non_relaxed_as_advised_orders_the_accesses)
{
    int applied = 0;
    for (size_t i = 0; i < RIGHT_PLANS; i++) {
        weir_plan *plan = plan_of(right_plans[i]);
        applied += apply_fixes_of_relaxed(plan);
        weir_plan_free(plan);
    }
    print_message("# %d fixes applied\n", applied);
    assert_true(applied > 100);
}

/* -------------------------------------------------------- plans of the DSL */

static weir_plan *sample(const char *name)
{
    char path[256];
    weir_plan *plan = NULL;
    snprintf(path, sizeof path, PLAN_SAMPLES "%s.json", name);
    if (weir_plan_read(path, &plan) == WEIR_ERR_SYSTEM) {
        print_message("# %s does not exist\n", path);
        skip();
    } else if (!plan) {
        fail_msg("%s", weir_last_error());
    }
    return plan;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

TEST(samples_are_accepted)
{
    for (size_t i = 0; i < PLAN_SAMPLE_COUNT; i++) {
        double begin = now_ms();
        weir_plan *plan = sample(plan_sample_names[i]);
        weir_plan_report report;
        double read = now_ms();
        if (weir_plan_check(plan, &report) != WEIR_OK)
            fail_msg("%s", weir_last_error());
        print_message("# %s: read in %.1f ms, checked in %.1f ms\n", plan_sample_names[i],
                      read - begin, now_ms() - read);
        assert_true(report.proves_result);
        weir_plan_free(plan);
    }
}

/* A copy of the operations and blocks of a rank, from which one operation is removed. */
typedef struct left_out {
    weiri_plan_gpu gpu;
    weiri_plan_op *ops;
    weiri_plan_block *blocks;
} left_out;

static left_out leave_out(weiri_plan_gpu *gpu, uint32_t block, uint32_t at)
{
    left_out saved = {*gpu, malloc(gpu->nops * sizeof *gpu->ops),
                      malloc(gpu->nblocks * sizeof *gpu->blocks)};
    assert_true(saved.ops && saved.blocks);
    memcpy(saved.ops, gpu->ops, gpu->nops * sizeof *gpu->ops);
    memcpy(saved.blocks, gpu->blocks, gpu->nblocks * sizeof *gpu->blocks);
    for (uint32_t i = gpu->blocks[block].first_op; i < at; i++)
        if (gpu->ops[i].kind == WEIRI_PLAN_PIPELINE_OP && at <= i + gpu->ops[i].nops)
            gpu->ops[i].nops--;
    memmove(&gpu->ops[at], &gpu->ops[at + 1], (gpu->nops - at - 1) * sizeof *gpu->ops);
    gpu->nops--;
    gpu->blocks[block].nops--;
    for (uint32_t i = block + 1; i < gpu->nblocks; i++)
        gpu->blocks[i].first_op--;
    return saved;
}

static void put_back(weiri_plan_gpu *gpu, left_out *saved)
{
    *gpu = saved->gpu;
    memcpy(gpu->ops, saved->ops, gpu->nops * sizeof *gpu->ops);
    memcpy(gpu->blocks, saved->blocks, gpu->nblocks * sizeof *gpu->blocks);
    free(saved->ops);
    free(saved->blocks);
}

/* Checks that every operation of a rank is needed, except some fences; returns how many fences are
 * needed. */
static int need_all(weir_plan *plan, int rank)
{
    weiri_plan_gpu *gpu = &plan->gpus[rank];
    int fences = 0;
    for (uint32_t block = 0; block < gpu->nblocks; block++)
        for (uint32_t i = 0; i < gpu->blocks[block].nops; i++) {
            uint32_t at = gpu->blocks[block].first_op + i;
            weiri_plan_kind kind = gpu->ops[at].kind;
            if (kind == WEIRI_PLAN_PIPELINE_OP)
                continue;
            left_out saved = leave_out(gpu, block, at);
            weir_status status = weir_plan_check(plan, NULL);
            put_back(gpu, &saved);
            if (status != WEIR_ERR_INVALID && kind != WEIRI_PLAN_NOP_OP)
                fail_msg("%s: rank %d, thread block %u is accepted without op %u (%s)", plan->file,
                         rank, block, i, weiri_plan_kind_name(kind));
            fences += status == WEIR_ERR_INVALID && kind == WEIRI_PLAN_NOP_OP;
        }
    return fences;
}

TEST(samples_without_any_one_operation_are_rejected)
{
    static const int fences_needed[PLAN_SAMPLE_COUNT] = {5, 0, 0, 16, 5, 0, 42}; /* by a rank */
    for (size_t i = 0; i < PLAN_SAMPLE_COUNT; i++) {
        weir_plan *plan = sample(plan_sample_names[i]);
        int fences = need_all(plan, 1);
        if (fences != fences_needed[i])
            fail_msg("%s: %d fences of rank 1 are needed, expected %d", plan_sample_names[i],
                     fences, fences_needed[i]);
        assert_int_equal(weir_plan_check(plan, NULL), WEIR_OK);
        weir_plan_free(plan);
    }
}

/* -------------------------------------------------------------- a large plan */

/* 16 ranks, 2.5 MB of JSON. The limit is many times the usual time, for busy machines. */
TEST(a_large_plan_is_read_and_checked_in_time)
{
    enum { LEAST_BYTES = 2500 * 1000, LIMIT_MS = 20000 };
    const weiri_plan_example *example = weiri_plan_example_find("allreduce_ring");
    weiri_plan_example_options with = {.nranks = 16, .instances = 1};
    weir_plan *plan = NULL, *read = NULL;
    char *text = NULL;
    size_t bytes = 0;
    weir_plan_free(plan_of(right_plans[0])); /* skips the test if plans cannot be read */
    assert_non_null(example);
    while (bytes < LEAST_BYTES) {
        weir_plan_free(plan);
        free(text);
        if (weiri_plan_example_make(example, &with, &plan) != WEIR_OK)
            fail_msg("%s", weir_last_error());
        assert_int_equal(weir_plan_print(plan, &text, &bytes), WEIR_OK);
        with.instances++;
    }
    double begin = now_ms();
    assert_int_equal(weir_plan_parse(text, bytes, "large", &read), WEIR_OK);
    double middle = now_ms();
    if (weir_plan_check(read, NULL) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    double end = now_ms();
    print_message("# %zu bytes, %d ranks of %u thread blocks: read in %.0f ms, checked in %.0f "
                  "ms\n",
                  bytes, read->nranks, read->gpus[0].nblocks, middle - begin, end - middle);
    assert_true(end - begin < LIMIT_MS);
    weir_plan_free(plan);
    weir_plan_free(read);
    free(text);
}

/* Checks an example, or if that is NULL a plan, and prints how much time and memory it took. */
static void check_in_time(const char *example, int nranks, int instances, weir_plan *plan)
{
#ifdef __SANITIZE_THREAD__
    enum { LIMIT_MS = 200000 };
#else
    enum { LIMIT_MS = 10000 };
#endif
    const weiri_plan_example_options with = {.nranks = nranks, .instances = instances};
    static weir_plan_report report;
    struct rusage used;
    if (example &&
        weiri_plan_example_make(weiri_plan_example_find(example), &with, &plan) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    const clock_t begin = clock();
    if (weir_plan_check(plan, &report) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    const double ms = (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC;
    getrusage(RUSAGE_SELF, &used);
    print_message("# %s, %d ranks of %u thread blocks: checked in %.0f ms; at most %ld MiB\n",
                  example ? example : "groups of six sizes", plan->nranks, plan->gpus[0].nblocks,
                  ms, used.ru_maxrss >> 10);
    assert_int_equal(report.all_lengths, 1);
    assert_true(ms < LIMIT_MS);
    assert_true(used.ru_maxrss < 1 << 20);
    weir_plan_free(plan);
}

/* Each of six chunks is copied by a group of another size. */
static weir_plan *six_groups(void)
{
    static const int sizes[] = {3, 4, 5, 7, 8, 12};
    static char text[8192];
    int block = 0;
    strcpy(text, "custom 1 i6 o6 s0");
    for (int i = 0; i < 6; i++)
        for (int part = 0; part < sizes[i]; part++)
            sprintf(text + strlen(text), "\n0.%d; copy i%d+1 > o%d+1 %%%d/%d", block++, i, i, part,
                    sizes[i]);
    return plan_of(text);
}

TEST(plans_of_many_ranks_blocks_and_groups_are_checked_in_time)
{
    check_in_time("alltoall_direct", 64, 2, NULL);
    check_in_time("alltoall_direct", 72, 1, NULL);
    check_in_time(NULL, 0, 0, six_groups());
}

/* A limit of the checker is not a lack of memory: executors run such plans unchecked. */
TEST(too_many_clocks_are_unsupported)
{
    weiri_clocks clocks = {.nchains = 1 << 28};
    weiri_clock *made[64];
    int count = 0;
    while (count < 64 && (made[count] = weiri_clock_new(&clocks)))
        count++;
    assert_true(count < 64);
    assert_int_equal(clocks.failed, WEIR_ERR_UNSUPPORTED);
    while (count)
        weiri_clock_drop(&clocks, made[--count]);
    weiri_clocks_free(&clocks);
}

int main(void)
{
    return run_all_tests("plan_check");
}
