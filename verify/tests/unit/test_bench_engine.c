/*
 * The timing engine calls its subjects, barriers and agreements in the documented order. Scripted
 * subjects log one letter per call: ( begin, a b c an operation, | barrier, ) end and agreement, <
 * the maximum of warm-up times, ! a synchronised start.
 */

#include "base/clock.h"
#include "bench/measure/engine.h"
#include "bench/measure/timed.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>
#include <time.h>

typedef struct scripted {
    char *log; /* shared by all subjects and the barrier */
    char letter;
    int runs, fail_at;
} scripted;

static void append(char *log, char letter)
{
    size_t length = strlen(log);
    if (length < 250)
        log[length] = letter;
}

static weir_status scripted_begin(void *context)
{
    append(((scripted *)context)->log, '(');
    return WEIR_OK;
}

static weir_status scripted_run(void *context)
{
    scripted *subject = context;
    append(subject->log, subject->letter);
    return ++subject->runs == subject->fail_at ? WEIR_ERR_PEER : WEIR_OK;
}

static void scripted_barrier(void *context)
{
    append(context, '|');
}

static weir_status scripted_agree(void *context, weir_status mine)
{
    append(context, ')');
    return mine;
}

/* The warm-up times of the slowest rank, ended by 0; the last is repeated. */
static const double *scripted_times;

static double scripted_largest(void *context, double mine)
{
    append(context, '<');
    (void)mine;
    return scripted_times[1] > 0 ? *scripted_times++ : *scripted_times;
}

static void scripted_start(void *context)
{
    append(context, '!');
}

static bench_barrier scripted_barriers(char *log)
{
    return (bench_barrier){log, scripted_barrier, scripted_agree, scripted_largest, scripted_start};
}

static weir_status play(bench_timing timing, int nsubjects, int fail_at, char *log)
{
    static double times[3][16];
    scripted scripts[3];
    bench_subject subjects[3];
    bench_barrier barrier = scripted_barriers(log);
    memset(log, 0, 256);
    for (int i = 0; i < nsubjects; i++) {
        scripts[i] = (scripted){.log = log, .letter = (char)('a' + i), .fail_at = fail_at};
        subjects[i] =
            (bench_subject){.context = &scripts[i], .begin = scripted_begin, .run = scripted_run};
        subjects[i].wall_us = times[i];
    }
    weir_status status = bench_engine_run(&timing, &barrier, subjects, nsubjects);
    for (int i = 0; status == WEIR_OK && i < nsubjects; i++)
        for (int k = 0; k < timing.iterations; k++)
            assert_true(times[i][k] >= 0 && times[i][k] < 1e6);
    return status;
}

TEST(subjects_are_interleaved_in_both_orders)
{
    char log[256];
    assert_int_equal(play((bench_timing){.iterations = 4, .warmups = 1, .aggregate = 1}, 3, 0, log),
                     WEIR_OK);
    assert_string_equal(log, "(|aaa)(|bbb)(|ccc)(|ccc)(|bbb)(|aaa)");
    play((bench_timing){.iterations = 1, .aggregate = 2}, 2, 0, log);
    assert_string_equal(log, "(|bb)(|aa)");
    play((bench_timing){.iterations = 3, .aggregate = 1}, 1, 0, log);
    assert_string_equal(log, "(|a)(|aa)");
    play((bench_timing){.iterations = 2, .aggregate = 1, .order = BENCH_FORWARD}, 3, 0, log);
    assert_string_equal(log, "(|aa)(|bb)(|cc)");
    play((bench_timing){.iterations = 2, .aggregate = 1, .order = BENCH_BACKWARD}, 3, 0, log);
    assert_string_equal(log, "(|cc)(|bb)(|aa)");
}

TEST(barriers_isolate_operations_or_iterations)
{
    bench_timing timing = {.iterations = 2, .aggregate = 2, .isolation = BENCH_BARRIER_OPERATION};
    char log[256];
    play(timing, 1, 0, log);
    assert_string_equal(log, "(|)|a|a|)(|)|a|a|)");
    timing.isolation = BENCH_BARRIER_ITERATION;
    play(timing, 1, 0, log);
    assert_string_equal(log, "(|)|aa|)(|)|aa|)");
}

/* Pairs of warm-ups continue while the slowest rank's times fall, until two pairs do not
 * improve. */
TEST(warm_ups_end_when_times_stop_falling)
{
    static const double flat[] = {5, 0}, falling[] = {9, 7, 5, 5.2, 4.9, 0};
    static const double noisy[] = {5, 50, 6, 0};
    bench_timing timing = {.iterations = 1, .aggregate = 1, .warmups = BENCH_WARMUPS_STEADY};
    char log[256];
    scripted_times = flat;
    play(timing, 1, 0, log);
    assert_string_equal(log, "(|aa<)aa<)aa<)aa)");
    scripted_times = falling;
    play(timing, 1, 0, log);
    assert_string_equal(log, "(|aa<)aa<)aa<)aa<)aa<)aa)");
    scripted_times = noisy;
    play(timing, 1, 0, log);
    assert_string_equal(log, "(|aa<)aa<)aa<)aa)");
    scripted_times = flat; /* a failed warm-up ends the run at its agreement */
    assert_int_equal(play(timing, 1, 3, log), WEIR_ERR_PEER);
    assert_string_equal(log, "(|aa<)a<)");
}

/* Times that halve forever never settle: the warm-ups end after a limit, which is reported. */
TEST(warm_ups_that_never_settle_are_reported)
{
    bench_timing timing = {.iterations = 1, .aggregate = 1, .warmups = BENCH_WARMUPS_STEADY};
    double times[64], wall_us[1];
    char log[256] = "";
    scripted script = {.log = log, .letter = 'a'};
    bench_subject subject = {.context = &script, .run = scripted_run, .wall_us = wall_us};
    bench_barrier barrier = scripted_barriers(log);
    for (int i = 0; i < 64; i++)
        times[i] = ldexp(1, -i);
    scripted_times = times;
    assert_int_equal(bench_engine_run(&timing, &barrier, &subject, 1), WEIR_OK);
    assert_true(subject.unsteady && subject.warmups == 60);
    times[0] = 5;
    times[1] = 0;
    scripted_times = times;
    assert_int_equal(bench_engine_run(&timing, &barrier, &subject, 1), WEIR_OK);
    assert_true(!subject.unsteady && subject.warmups == 6);
}

/* One pair suffices if it is as fast as the warm time of an earlier call. */
TEST(later_rounds_reuse_the_warm_time)
{
    bench_timing timing = {.iterations = 1, .aggregate = 1, .warmups = BENCH_WARMUPS_STEADY};
    double times[] = {5, 0}, wall_us[1];
    char log[256] = "";
    scripted script = {.log = log, .letter = 'a'};
    bench_subject subject = {.context = &script, .run = scripted_run, .wall_us = wall_us};
    bench_barrier barrier = scripted_barriers(log);
    scripted_times = times;
    bench_engine_run(&timing, &barrier, &subject, 1);
    assert_true(subject.warm_us == 5 && subject.warmups == 6);
    times[0] = 5.2;
    bench_engine_run(&timing, &barrier, &subject, 1);
    assert_true(subject.warm_us == 5 && subject.warmups == 2 && !subject.unsteady);
    times[0] = 6;
    bench_engine_run(&timing, &barrier, &subject, 1);
    assert_true(subject.warm_us == 5 && subject.warmups == 6);
}

/* Every operation has a synchronised start, in which a failed rank still takes part. */
TEST(operations_start_at_the_same_time_on_all_ranks)
{
    bench_timing timing = {.iterations = 2, .aggregate = 2, .isolation = BENCH_SYNCHRONISED};
    char log[256];
    play(timing, 1, 0, log);
    assert_string_equal(log, "(|)|!a!a)(|)|!a!a)");
    play(timing, 1, 1, log);
    assert_string_equal(log, "(|)|!a!)");
}

/* A failed rank runs nothing more but enters every barrier, and the run ends. */
TEST(a_failed_rank_runs_nothing_more_and_enters_every_barrier)
{
    bench_timing timing = {.iterations = 4, .aggregate = 1, .isolation = BENCH_BARRIER_OPERATION};
    char log[256];
    assert_int_equal(play(timing, 1, 1, log), WEIR_ERR_PEER);
    assert_string_equal(log, "(|)|a||)");
    timing.isolation = BENCH_BACK_TO_BACK;
    assert_int_equal(play(timing, 2, 1, log), WEIR_ERR_PEER);
    assert_string_equal(log, "(|a)");
}

/* ------------------------------------------------------------- accounting */

enum { PAUSE_US = 2000 };

static void pause_a_while(void *context)
{
    struct timespec pause = {.tv_nsec = PAUSE_US * 1000};
    (void)context;
    nanosleep(&pause, NULL);
}

static weir_status pause_before_block(void *context)
{
    pause_a_while(context);
    return WEIR_OK;
}

static weir_status do_nothing(void *context)
{
    (void)context;
    return WEIR_OK;
}

/* Two blocks of two iterations: two calls each of begin and end, and four of next. */
TEST(time_outside_the_operations_is_counted_separately)
{
    static const bench_isolation kinds[] = {BENCH_BACK_TO_BACK, BENCH_BARRIER_OPERATION,
                                            BENCH_BARRIER_ITERATION, BENCH_SYNCHRONISED};
    char log[256] = "";
    bench_barrier barrier = scripted_barriers(log);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bench_timing timing = {.iterations = 4, .aggregate = 1, .isolation = kinds[i]};
        double wall_us[4], shortest_us = 1e9;
        bench_subject subject = {.begin = pause_before_block,
                                 .next = pause_a_while,
                                 .end = pause_a_while,
                                 .run = do_nothing,
                                 .wall_us = wall_us};
        assert_int_equal(bench_engine_run(&timing, &barrier, &subject, 1), WEIR_OK);
        assert_true(subject.aside_us >= 8 * PAUSE_US);
        for (int k = 0; k < 4; k++)
            shortest_us = wall_us[k] < shortest_us ? wall_us[k] : shortest_us;
        assert_true(shortest_us < PAUSE_US);
    }
}

static weir_status pause_in_batch(void *context, int operations, double *us)
{
    pause_a_while(context);
    *us = PAUSE_US / operations;
    return WEIR_OK;
}

static weir_status pause_in_operation(void *context)
{
    pause_a_while(context);
    return WEIR_OK;
}

/* The clock at the end of an iteration lies between the operations before and after it. */
static weir_status run_untimed(void *context)
{
    *(double *)context += 1e9; /* far more than the call takes */
    return WEIR_OK;
}

/* Every loop leaves out what a subject counts as untimed. */
TEST(untimed_time_is_left_out)
{
    const bench_isolation loops[] = {BENCH_BACK_TO_BACK, BENCH_BARRIER_OPERATION,
                                     BENCH_BARRIER_ITERATION, BENCH_SYNCHRONISED};
    char log[256] = "";
    const bench_barrier barrier = scripted_barriers(log);
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        double untimed_us = 0, wall_us[2];
        const bench_timing timing = {.iterations = 2, .aggregate = 2, .isolation = loops[i]};
        bench_subject subject = {.context = &untimed_us,
                                 .run = run_untimed,
                                 .untimed_us = &untimed_us,
                                 .wall_us = wall_us};
        assert_int_equal(bench_engine_run(&timing, &barrier, &subject, 1), WEIR_OK);
        for (int k = 0; k < 2; k++)
            assert_true(wall_us[k] < -0.9e9 && wall_us[k] > -1.1e9);
    }
}

TEST(the_end_of_every_iteration_is_recorded)
{
    static const bench_isolation kinds[] = {BENCH_BACK_TO_BACK, BENCH_BARRIER_OPERATION,
                                            BENCH_BARRIER_ITERATION, BENCH_SYNCHRONISED,
                                            BENCH_BATCHES};
    char log[256] = "";
    bench_barrier barrier = scripted_barriers(log);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bench_timing timing = {.iterations = 4, .aggregate = 2, .isolation = kinds[i]};
        double wall_us[4], end_us[4] = {0};
        bench_subject subject = {.run = pause_in_operation,
                                 .run_batch = pause_in_batch,
                                 .wall_us = wall_us,
                                 .end_us = end_us};
        const double begin_us = weiri_clock_us();
        assert_int_equal(bench_engine_run(&timing, &barrier, &subject, 1), WEIR_OK);
        const int pauses = kinds[i] == BENCH_BATCHES ? 1 : 2;
        for (int k = 0; k < 4; k++)
            assert_true(end_us[k] - (k ? end_us[k - 1] : begin_us) >= pauses * PAUSE_US);
        assert_true(end_us[3] <= weiri_clock_us());
    }
}

/* ------------------------------------------------------------------ CPU time */

static double thread_cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What operations have used; more than they mean to where a hypervisor takes the processor away, of
 * which the thread's clock knows nothing. */
typedef struct burnt {
    double us;
    int operations;
} burnt;

static weir_status burn_1000_us(void *context)
{
    burnt *all = context;
    const double begin_us = thread_cpu_us();
    double now_us = begin_us;
    while (now_us < begin_us + 1000)
        now_us = thread_cpu_us();
    all->us += now_us - begin_us;
    all->operations++;
    return WEIR_OK;
}

TEST(cpu_time_is_that_of_one_operation)
{
    static const bench_order orders[] = {BENCH_FORWARD, BENCH_BACKWARD, BENCH_BOTH_WAYS};
    char log[256] = "";
    double times[4];
    bench_barrier barrier = scripted_barriers(log);
    burnt all;
    bench_subject subject = {.run = burn_1000_us, .context = &all, .wall_us = times};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        all = (burnt){0, 0};
        bench_timing timing = {.iterations = 4, .aggregate = 5, .order = orders[i]};
        assert_int_equal(bench_engine_run(&timing, &barrier, &subject, 1), WEIR_OK);
        assert_int_equal(all.operations, 20);
        const double used_us = all.us / all.operations;
        assert_true(subject.cpu_us >= 1000 && subject.cpu_us < used_us + 500);
        for (int k = 0; k < 4; k++)
            assert_true(times[k] >= 1000);
    }
}

/* Batches of operations of 10 us, each followed by a computation that takes a factor longer than it
 * should. Returns the last delay, us. */
static double delay_after(int batches, double factor, double others_us)
{
    bench_slowness slowness = {0, 0};
    double delay_us = 0;
    for (int i = 0; i < batches; i++) {
        const double took_us = 10 + fmax(delay_us * factor, i ? others_us : 0);
        delay_us = bench_slow_batch(&slowness, took_us, delay_us, 1000);
    }
    return delay_us;
}

TEST(a_slow_down_of_batches_does_not_grow_under_load)
{
    assert_true(fabs(delay_after(200, 1, 0) - 100) < 1e-9);
    assert_true(fabs(delay_after(200, 1.5, 0) - 100) < 1e-9); /* a busy GPU */
    assert_true(fabs(delay_after(200, 1, 300) - 100) < 1e-9); /* another rank's longer delay */
}

int main(void)
{
    return run_all_tests("bench_engine");
}
