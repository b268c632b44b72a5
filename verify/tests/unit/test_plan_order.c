/*
 * The order that each operation of a plan needs. A row is a correct plan in the short form of
 * plan_text.h, with marks. The plan needs what is in brackets: "[nop;]" may not be missing, and
 * "[signal|rlxsignal]" may not be what follows the bar. Of what is in braces, all may not be
 * missing together. The checker must accept the plan with all that is marked, and report a race
 * without any part of it. Every operation has a row for every type of channel that it accepts.
 */
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

/* Rank 0 sends, and ends when rank 1 has used what it received. */
#define SENDS(chunks, ops) "custom 2 " chunks "\n0.0; " ops "; [wait|rlxwait] @m1\n"
/* Rank 1 uses what rank 0 has signalled over a channel; what has arrived as packets. */
#define RECEIVES(channel, ops) "1.0; [wait|rlxwait] @" channel "; [nop;] " RECEIVES_PACKETS_BY(ops)
#define RECEIVES_PACKETS_BY(ops) ops "; [nop;] [signal|rlxsignal] @m0"
#define RECEIVES_PACKETS "1.0; " RECEIVES_PACKETS_BY("upkt s1+1 > o0+1")
#define SENT "copy i0+1 > s0+1; [nop;] " /* what an operation reads, */
#define REUSED "copy i0+1 > s0+1"        /* which is written again after it; */
#define USED "[nop;] copy s1+1 > o0+1"   /* what it has written */

static const struct {
    const char *name;
    char channel; /* first letter of its type; '-': none */
    const char *text;
} rows[] = {
    /* within a thread block */
    {"nop", '-', "custom 1 i1 o1 s1\n0.0; copy i0+1 > s0+1; [nop;] copy s0+1 > o0+1"},
    {"copy", '-', "custom 1 i1 o1 s2\n0.0; " SENT "copy s0+1 > s1+1; " USED},
    {"copy", '-', "custom 1 i1 o1 s2\n0.0; " SENT "copy s0+1 > s1+1; [nop;] " REUSED},
    {"re", '-', "custom 1 i1 o1 s2\n0.0; " SENT "re i0+1 s0+1 > s1+1; " USED},
    {"cpkt", '-', "custom 1 i1 o1 s2\n0.0; " SENT "cpkt s0+1 > s1+1; [nop;] " REUSED},
    {"upkt", '-', "custom 1 i1 o1 s2\n0.0; cpkt i0+1 > s0+1; upkt s0+1 > s1+1; " USED},
    {"repkt", '-',
     "custom 1 i1 o1 s3\n0.0; cpkt i0+1 > s2+1; " SENT "repkt s0+1 s2+1 > s1+1; " USED},
    {"recpkt", '-',
     "custom 1 i1 o1 s4\n0.0; cpkt i0+1 > s2+1; " SENT "recpkt s0+1 s2+1 > s1+1 s3+1; " USED},
    {"pipeline", '-',
     "custom 1 i1 o1 s2\n0.0; pipeline 16*1; " SENT "copy s0+1 > s1+1; " USED "; end"},
    {"pipeline", '-', "custom 1 i1 o1 s2\n0.0; pipeline 16*1; copy i0+1 > s1+1; end; " USED},

    /* between thread blocks */
    {"barrier", '-',
     "custom 1 i1 o1 s1\n0.0; copy i0+1 > s0+1; {barrier #0/2}\n"
     "0.1; {barrier #0/2;} copy s0+1 > o0+1"},
    {"sem_release", '-',
     "custom 1 i1 o1 s1; sem 0\n0.0; copy i0+1 > s0+1; [nop;] sem_release $0\n"
     "0.1; sem_acquire $0; nop; copy s0+1 > o0+1"},
    {"sem_acquire", '-',
     "custom 1 i1 o1 s1; sem 0\n0.0; copy i0+1 > s0+1; nop; sem_release $0\n"
     "0.1; [sem_acquire $0;] [nop;] copy s0+1 > o0+1"},

    /* signals; a flush of a memory channel is no fence */
    {"signal", 'm',
     SENDS("i1 o1 s1", SENT "[signal|rlxsignal] @m1") RECEIVES("m0", "get 0:s0+1 > o0+1")},
    {"wait", 'm', SENDS("i1 o1 s1", SENT "signal @m1") RECEIVES("m0", "get 0:s0+1 > o0+1")},
    {"rlxsignal", 'm',
     SENDS("i1 o1 s0",
           "rlxsignal @m1") "1.0; rlxwait @m0; [nop;] " RECEIVES_PACKETS_BY("get 0:i0+1 > o0+1")},
    {"rlxwait", 'm',
     SENDS("i1 o1 s0",
           "rlxsignal @m1") "1.0; [rlxwait @m0;] [nop;] " RECEIVES_PACKETS_BY("get 0:i0+1 > o0+1")},
    {"flush", 'm',
     SENDS("i1 o1 s2", "put i0+1 > 1:s1+1; flush @m1; [nop;] signal @m1")
         RECEIVES("m0", "copy s1+1 > o0+1")},
    {"signal", 'p',
     SENDS("i1 o1 s1", SENT "[signal|rlxsignal] @p1") RECEIVES("p0", "get 0:s0+1 > o0+1")},
    {"wait", 'p', SENDS("i1 o1 s1", SENT "signal @p1") RECEIVES("p0", "get 0:s0+1 > o0+1")},
    {"rlxsignal", 'p',
     SENDS("i1 o1 s0",
           "rlxsignal @p1") "1.0; rlxwait @p0; [nop;] " RECEIVES_PACKETS_BY("get 0:i0+1 > o0+1")},
    {"rlxwait", 'p',
     SENDS("i1 o1 s0",
           "rlxsignal @p1") "1.0; [rlxwait @p0;] [nop;] " RECEIVES_PACKETS_BY("get 0:i0+1 > o0+1")},
    {"flush", 'p',
     SENDS("i1 o1 s2", SENT "put s0+1 > 1:s1+1 @p1; signal @p1; [flush @p1;] [nop;] " REUSED)
         RECEIVES("p0", "copy s1+1 > o0+1")},

    /* over memory channels; pws and pwsf fence what precedes their signal */
    {"put", 'm',
     SENDS("i1 o1 s2", SENT "put s0+1 > 1:s1+1; [nop;] [signal|rlxsignal] @m1")
         RECEIVES("m0", "copy s1+1 > o0+1")},
    {"pws", 'm',
     SENDS("i1 o1 s3", SENT "copy i0+1 > s2+1; pws s0+1 > 1:s1+1 @m1")
         RECEIVES("m0", "copy s1+1 > o0+1; get 0:s2+1 > s2+1")},
    {"pwsf", 'm',
     SENDS("i1 o1 s3", SENT "copy i0+1 > s2+1; pwsf s0+1 > 1:s1+1 @m1")
         RECEIVES("m0", "copy s1+1 > o0+1; get 0:s2+1 > s2+1")},
    {"get", 'm', SENDS("i1 o1 s2", SENT "signal @m1") RECEIVES("m0", "get 0:s0+1 > o0+1")},
    {"get", 'm',
     SENDS("i1 o1 s2", SENT "signal @m1") "1.0; wait @m0; nop; get 0:s0+1 > s1+1; " USED
                                          "; signal @m0"},
    {"res", 'm',
     SENDS("i1 o1 s2", SENT "res i0+1 s0+1 > o0+1 1:s1+1; [nop;] signal @m1")
         RECEIVES("m0", "copy s1+1 > o0+1")},
    {"res", 'm',
     SENDS("i1 o1 s3", SENT "res i0+1 s0+1 > s2+1 1:s1+1; [nop;] copy s2+1 > o0+1; signal @m1")
         RECEIVES("m0", "copy s1+1 > o0+1")},
    {"rre", 'm', SENDS("i1 o1 s2", SENT "signal @m1") RECEIVES("m0", "rre i0+1 0:s0+1 > o0+1")},
    {"rre", 'm',
     SENDS("i1 o1 s2", SENT "signal @m1") "1.0; wait @m0; nop; rre i0+1 0:s0+1 > s1+1; " USED
                                          "; signal @m0"},
    {"rres", 'm',
     "custom 2 i1 o1 s2\n0.0; " SENT "signal @m1; [wait|rlxwait] @m1; " USED "\n"
     "1.0; wait @m0; [nop;] rres i0+1 0:s0+1 > o0+1 0:s1+1; [nop;] signal @m0"},
    {"ppkt", 'm', SENDS("i1 o1 s2", SENT "ppkt s0+1 > 1:s1+1; [nop;] " REUSED) RECEIVES_PACKETS},
    {"rppkt", 'm',
     SENDS("i1 o1 s2", "cpkt i0+1 > s0+1; rppkt s0+1 > 1:s1+1; [nop;] " REUSED) RECEIVES_PACKETS},
    {"respkt", 'm',
     SENDS("i1 o1 s4", "cpkt i0+1 > s2+1; " SENT "respkt s0+1 s2+1 > s3+1 1:s1+1; [nop;] "
                       "copy s3+1 > o0+1") RECEIVES_PACKETS},
    {"recspkt", 'm',
     SENDS("i1 o1 s5", "cpkt i0+1 > s2+1; " SENT "recspkt s0+1 s2+1 > s3+1 s4+1 1:s1+1; [nop;] "
                       "copy s3+1 > o0+1") RECEIVES_PACKETS},

    /* over ports: their signals are no fences, neither before them nor after, nor is a flush */
    {"put", 'p',
     SENDS("i1 o1 s2",
           SENT "put s0+1 > 1:s1+1 @p1; [signal|rlxsignal] @p1; flush @p1; [nop;] " REUSED)
         RECEIVES("p0", "copy s1+1 > o0+1")},
    {"put", 'p',
     SENDS("i1 o1 s3", "copy i0+1 > s0+1; put i0+1 > 1:s1+1 @p1; signal @p1; flush @p1; [nop;] "
                       "copy s0+1 > s2+1") RECEIVES("p0", "copy s1+1 > o0+1")},
    {"pws", 'p',
     SENDS("i1 o1 s2", SENT "pws s0+1 > 1:s1+1 @p1; [flush @p1;] [nop;] " REUSED)
         RECEIVES("p0", "copy s1+1 > o0+1")},
    {"pws", 'p',
     SENDS("i1 o1 s3", SENT "pws i0+1 > 1:s1+1 @p1; flush @p1")
         RECEIVES("p0", "copy s1+1 > o0+1; get 0:s0+1 > s2+1")},
    {"pws", 'p',
     SENDS("i1 o1 s3",
           "copy i0+1 > s0+1; pws i0+1 > 1:s1+1 @p1; [nop;] copy s0+1 > s2+1; flush @p1")
         RECEIVES("p0", "copy s1+1 > o0+1")},
    {"pwsf", 'p',
     SENDS("i1 o1 s2", SENT "[pwsf|pws] s0+1 > 1:s1+1 @p1; [nop;] " REUSED)
         RECEIVES("p0", "copy s1+1 > o0+1")},
    {"pwsf", 'p',
     SENDS("i1 o1 s3", SENT "pwsf i0+1 > 1:s1+1 @p1")
         RECEIVES("p0", "copy s1+1 > o0+1; get 0:s0+1 > s2+1")},
    {"pwsf", 'p',
     SENDS("i1 o1 s3", "copy i0+1 > s0+1; pwsf i0+1 > 1:s1+1 @p1; [nop;] copy s0+1 > s2+1")
         RECEIVES("p0", "copy s1+1 > o0+1")},
    {"ppkt", 'p',
     SENDS("i1 o1 s2",
           "cpkt i0+1 > s0+1; [nop;] ppkt s0+1 > 1:s1+1 @p1; [flush @p1;] [nop;] " REUSED)
         RECEIVES_PACKETS},
    {"rppkt", 'p',
     SENDS("i1 o1 s2", "cpkt i0+1 > s0+1; rppkt s0+1 > 1:s1+1 @p1; [flush @p1;] [nop;] " REUSED)
         RECEIVES_PACKETS},

    /* over switch channels */
    {"glres", 's',
     "custom 2 i1 o1 s0\n0.0; [rlxwait @m1;] [nop;] glres g0i0+1 > g0i0+1; [nop;] "
     "[signal|rlxsignal] @m1\n1.0; rlxsignal @m0; [wait|rlxwait] @m0"},
    {"glre", 's',
     "custom 2 i1 o1 s2\n0.0; copy i0+1 > s0+1; [wait|rlxwait] @m1; [nop;] glre g0s0+1 > "
     "s1+1; " USED
     "; [signal|rlxsignal] @m1\n1.0; copy i0+1 > s0+1; [nop;] signal @m0; [wait|rlxwait] @m0"},
    {"gstore", 's',
     SENDS("i1 o1 s2", SENT "gstore s0+1 > g0s1+1; [nop;] signal @m1")
         RECEIVES("m0", "copy s1+1 > o0+1")},
    {"gstorepkt", 's',
     SENDS("i1 o1 s2", "cpkt i0+1 > s0+1; gstorepkt s0+1 > g0s1+1; [nop;] " REUSED)
         RECEIVES_PACKETS},
};
enum { ROWS = sizeof rows / sizeof *rows, ALL = 1000, IN_BRACES };

/* Copies a row's text without the bracket number `left_out`, or without what is IN_BRACES.
 * Returns whether that is marked. */
static int leave_out(const char *text, int left_out, char *plan)
{
    int mark = 0, is_out = 0, was_out = 0, is_weaker = 0;
    for (; *text; text++) {
        if (*text == '[' || *text == '{') {
            is_out = *text == '{' ? left_out == IN_BRACES : left_out == mark;
            mark += *text == '[';
            was_out |= is_out;
        } else if (*text == ']' || *text == '}') {
            is_out = is_weaker = 0;
        } else if (*text == '|') {
            is_weaker = 1;
        } else if (is_out == is_weaker) {
            *plan++ = *text;
        }
    }
    *plan = 0;
    return was_out;
}

static int has_race(const weir_plan_report *report)
{
    int races = 0;
    for (unsigned i = 0; i < report->nviolations; i++)
        races += report->violations[i].fault == WEIR_PLAN_FAULT_RACE;
    return races > 0;
}

/* Returns 1 if the checker accepts the plan, or without what is left out finds no race. */
static int is_misjudged(size_t row, int left_out)
{
    static weir_plan_report report;
    char text[1024];
    if (!leave_out(rows[row].text, left_out, text) && left_out != ALL)
        return 0;
    weir_plan *plan = plan_of(text);
    memset(&report, 0, sizeof report);
    const weir_status status = weir_plan_check(plan, &report);
    const int is_wrong = left_out == ALL ? status != WEIR_OK || !report.all_lengths
                                         : status != WEIR_ERR_INVALID || !has_race(&report);
    if (is_wrong)
        print_message("# %s of channel %c, part %d left out: %s\n%s\n", rows[row].name,
                      rows[row].channel, left_out,
                      status == WEIR_OK ? "accepted" : weir_last_error(), text);
    weir_plan_free(plan);
    return is_wrong;
}

TEST(what_an_operation_needs_may_not_be_left_out)
{
    char text[1024];
    int wrong = 0, parts = 0;
    for (size_t row = 0; row < ROWS; row++) {
        wrong += is_misjudged(row, ALL) + is_misjudged(row, IN_BRACES);
        for (int i = 0; leave_out(rows[row].text, i, text); i++, parts++)
            wrong += is_misjudged(row, i);
    }
    print_message("# %d rows, %d parts\n", (int)ROWS, parts);
    assert_int_equal(wrong, 0);
}

/* Whether the row's plan has the operation over the type of channel. */
static int has_op(size_t row, weiri_plan_kind kind, weiri_plan_channel channel)
{
    char text[1024];
    int found = 0;
    leave_out(rows[row].text, ALL, text);
    weir_plan *plan = plan_of(text);
    for (int rank = 0; rank < plan->nranks; rank++)
        for (uint32_t i = 0; i < plan->gpus[rank].nops; i++) {
            const weiri_plan_op *op = &plan->gpus[rank].ops[i];
            found |= op->kind == kind && op->channel == channel;
        }
    weir_plan_free(plan);
    return found;
}

TEST(every_operation_has_a_row_for_every_type_of_channel)
{
    static const char letters[] = "mps-";
    int missing = 0;
    for (int kind = 0; kind < WEIRI_PLAN_KINDS; kind++)
        for (int channel = 0; channel <= WEIRI_PLAN_NO_CHANNEL; channel++) {
            const weiri_plan_trait *trait = &weiri_plan_traits[kind];
            const char *accepted = *trait->channels ? trait->channels : "-";
            int found = !strchr(accepted, letters[channel]);
            for (size_t row = 0; row < ROWS && !found; row++)
                found = rows[row].channel == letters[channel] &&
                        strcmp(rows[row].name, trait->name) == 0 &&
                        has_op(row, (weiri_plan_kind)kind, (weiri_plan_channel)channel);
            if (!found)
                print_message("# no row of %s, channel %c\n", trait->name, letters[channel]);
            missing += !found;
        }
    assert_int_equal(missing, 0);
}

int main(void)
{
    return run_all_tests("plan_order");
}
