/* The watchdog thread, and how it ends the process: see watch.h. */
#include "bench/job/watch.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_DEADLINE = 4, TICK_MS = 250 };
/* How long after the deadline the thread gives up, so that a call which has passed its own deadline
 * can say what it waited for. Without a communicator a phase may have several waits that are no
 * exchanges, as when the bootstrap connects: the last may have begun a while after the phase. */
enum { GRACE_MS = 250, SETUP_GRACE_MS = 1000 };

static atomic_int watch_gives_up; /* a thread is about to report without a communicator */

static const char *phase_of(const bench_watch *watch)
{
    const char *phase = atomic_load(&watch->phase);
    return phase ? phase : "start";
}

/* Waits until the watchdog has looked whether this process was stopped. */
static void await_tick(const bench_watch *watch)
{
    const struct timespec nap = {.tv_nsec = 5000000l};
    const uint64_t ticks = atomic_load(&watch->ticks), end_ms = weiri_clock_ms() + 4 * TICK_MS;
    if (!watch->started || pthread_equal(pthread_self(), watch->thread))
        return;
    while (atomic_load(&watch->ticks) == ticks && weiri_clock_ms() < end_ms)
        nanosleep(&nap, NULL);
}

/* Ends the process if it was stopped for so long that the other ranks may have given up. A launcher
 * then continues it a second before it terminates it, and in this second the process would report
 * the ranks that have ended as lost. */
static void leave_if_stopped(const bench_watch *watch)
{
    await_tick(watch);
    const uint64_t stopped_ms = atomic_load(&watch->stopped_ms);
    if (!stopped_ms)
        return;
    fprintf(stderr,
            "%s: rank %d was stopped for %llu ms, longer than half of the deadline: "
            "the other ranks may have given up\n",
            watch->program, watch->rank, (unsigned long long)stopped_ms);
    _exit(EXIT_DEADLINE);
}

void bench_watch_failed(bench_watch *watch, const char *text)
{
    atomic_store(&watch->failure, text);
}

void bench_watch_other(bench_watch *watch, weir_comm *comm)
{
    enum { MOST = sizeof watch->others / sizeof *watch->others };
    if (!comm)
        watch->nothers = 0;
    else if (watch->nothers < MOST)
        watch->others[watch->nothers++] = comm;
}

/* What ranks do on communicators that compete with the one that failed. */
static void report_others(const bench_watch *watch, const weir_comm *failed)
{
    for (int i = 0; i <= watch->nothers && watch->nothers; i++) {
        weir_comm *comm = i < watch->nothers ? watch->others[i] : watch->comm;
        if (!comm || comm == failed)
            continue;
        weir_comm_abort(comm);
        weir_comm_report_once(comm, STDERR_FILENO);
    }
}

_Noreturn void bench_watch_give_up(const bench_watch *watch, weir_comm *comm, const char *why)
{
    const char *failure = atomic_load(&watch->failure);
    if (failure && !*failure)
        failure = NULL;
    if (comm && failure)
        fprintf(stderr, "%s: rank %d: %s\n", watch->program, watch->rank, failure);
    if (comm) {
        weir_comm_abort(comm);
        weir_comm_report_once(comm, STDERR_FILENO);
        report_others(watch, comm);
        _exit(EXIT_DEADLINE);
    }
    atomic_store(&watch_gives_up, 1);
    leave_if_stopped(watch);
    bench_setup_report(watch, phase_of(watch), failure ? failure : why);
    _exit(EXIT_DEADLINE);
}

/* Called when this rank has made no progress for stuck_ms. */
static void check_progress(bench_watch *watch, uint64_t stuck_ms)
{
    uint64_t deadline_ms = (uint64_t)watch->deadline_ms;
    pthread_mutex_lock(&watch->mutex);
    weir_comm *comm = watch->comm;
    weir_status status = comm ? weir_comm_check(comm) : WEIR_OK;
    if (status == WEIR_ERR_PEER || status == WEIR_ERR_ABORTED ||
        (status == WEIR_ERR_TIMEOUT && stuck_ms >= deadline_ms))
        bench_watch_give_up(watch, comm, weir_last_error());
    const uint64_t grace_ms = comm ? GRACE_MS : SETUP_GRACE_MS;
    if (stuck_ms >= deadline_ms + grace_ms + atomic_load(&watch->allowed_ms))
        bench_watch_give_up(watch, comm, "did not go on; another rank is stopped, or too slow");
    /* Without a communicator, ranks that wait in different places have different deadlines; the
     * first report must have the states of all. */
    if (!comm && watch->nranks > 1 && !atomic_load(&watch_gives_up) &&
        !atomic_load(&watch->agreed_end) && bench_setup_is_collected())
        bench_watch_give_up(watch, NULL, "waits; another rank has given up");
    pthread_mutex_unlock(&watch->mutex);
}

/* The launcher terminates the job. If that is because a rank died, reports it first; launchers
 * leave a second for that. A rank that was stopped does not know who has ended why: the others may
 * have reported it. */
static void handle_terminate(bench_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    if (watch->comm) {
        weir_status status = weir_comm_check(watch->comm);
        if (status == WEIR_ERR_PEER || status == WEIR_ERR_ABORTED)
            bench_watch_give_up(watch, watch->comm, weir_last_error());
    } else if (!atomic_load(&watch->agreed_end)) {
        leave_if_stopped(watch);
        bench_setup_report_lost(watch, phase_of(watch));
    }
    pthread_mutex_unlock(&watch->mutex);
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &term, NULL);
}

/* Returns for how long this thread has waited for a processor; 0 if the system does not say. */
static uint64_t waited_ms(void)
{
    unsigned long long ran_ns = 0, waited_ns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran_ns, &waited_ns) != 2)
        waited_ns = 0;
    fclose(file);
    return waited_ns / 1000000;
}

/* Sets watch->stopped_ms if this process was stopped for so long that the other ranks may have
 * given up. tick_ms: how long the last tick took; *before_ms: what waited_ms returned before it. */
static void look_for_stop(bench_watch *watch, uint64_t tick_ms, uint64_t *before_ms)
{
    const uint64_t now = waited_ms(), delay_ms = now - *before_ms + TICK_MS;
    *before_ms = now;
    if (tick_ms > delay_ms + (uint64_t)watch->deadline_ms / 2)
        atomic_store(&watch->stopped_ms, tick_ms - delay_ms);
    atomic_fetch_add(&watch->ticks, 1);
}

static void *run_watchdog(void *opaque)
{
    bench_watch *watch = opaque;
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000l};
    uint64_t steps = 0, since_ms = watch->start_ms, last_ms = since_ms, delay_ms = 0;
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    for (;;) {
        const int came = sigtimedwait(&term, NULL, &tick);
        if (atomic_load(&watch->ended))
            return NULL;
        if (came == SIGTERM && atomic_load(&watch->takes_term)) {
            atomic_store(&watch->term_came, 1);
            continue;
        }
        if (came == SIGTERM && bench_setup_is_reporting()) {
            kill(getpid(), SIGTERM); /* stays pending: the report looks for it */
            return NULL;
        }
        uint64_t now = weiri_clock_ms(), seen = atomic_load(&watch->steps);
        look_for_stop(watch, now - last_ms, &delay_ms);
        if (came == SIGTERM)
            handle_terminate(watch);
        /* A tick that comes late was spent stopped, or without a processor: start again. */
        if (seen != steps || now - last_ms > 4 * TICK_MS)
            since_ms = now;
        else
            check_progress(watch, now - since_ms);
        steps = seen;
        last_ms = now;
    }
}

void bench_watch_start(bench_watch *watch, const char *program, int rank, int nranks,
                       int deadline_ms)
{
    sigset_t term, old;
    memset(watch, 0, sizeof *watch);
    watch->program = program;
    watch->deadline_ms = deadline_ms;
    watch->rank = rank;
    watch->nranks = nranks;
    watch->start_ms = weiri_clock_ms();
    pthread_mutex_init(&watch->mutex, NULL);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &old);
    watch->started = pthread_create(&watch->thread, NULL, run_watchdog, watch) == 0;
    if (!watch->started)
        pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void bench_watch_end(bench_watch *watch)
{
    if (!watch->started)
        return;
    atomic_store(&watch->ended, 1);
    pthread_kill(watch->thread, SIGTERM); /* ends its wait */
    pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->mutex);
    watch->started = 0;
}

void bench_watch_take_term(bench_watch *watch, int takes)
{
    atomic_store(&watch->takes_term, takes);
}

int bench_watch_was_terminated(const bench_watch *watch)
{
    return atomic_load(&watch->term_came);
}

void bench_watch_agree_end(bench_watch *watch)
{
    atomic_store(&watch->agreed_end, 1);
}

void bench_watch_comm(bench_watch *watch, weir_comm *comm)
{
    pthread_mutex_lock(&watch->mutex);
    watch->comm = comm;
    pthread_mutex_unlock(&watch->mutex);
}
