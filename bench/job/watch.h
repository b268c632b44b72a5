/*
 * The watchdog of a rank: a thread that ends the process when the job cannot continue. Four times
 * a second it checks whether the rank has made progress; if not, it asks the communicator whether
 * a peer has died or is stopped. A rank that is stuck where weir cannot see it (inside MPI, at
 * start or end) thus ends within its deadline and a few seconds, and reports where it stood.
 */
#ifndef BENCH_JOB_WATCH_H
#define BENCH_JOB_WATCH_H

#include <weir/weir.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct bench_watch {
    const char *program;
    int deadline_ms;
    int rank, nranks; /* as the launcher says; 0 of 1 if it does not */
    uint64_t start_ms;
    pthread_t thread;
    int started;
    atomic_int ended;
    atomic_int agreed_end;            /* all ranks end, as they have agreed */
    atomic_int takes_term, term_came; /* a SIGTERM is only noted; one was */
    atomic_uint_fast64_t steps;       /* how often the rank has reported progress */
    atomic_uint_fast64_t allowed_ms;  /* beyond the deadline, for the current step */
    atomic_uint_fast64_t ticks;       /* how often the thread has looked */
    atomic_uint_fast64_t stopped_ms;  /* of a long stop of the process; 0: there was none */
    _Atomic(const char *) phase;
    pthread_mutex_t mutex; /* protects comm */
    weir_comm *comm;       /* NULL before it is created and after it is destroyed */
    weir_comm *others[8];  /* whose ranks a report shows too */
    int nothers;
    _Atomic(const char *) failure; /* of this rank, which the others may not know; NULL: none */
} bench_watch;

/* Starts the thread. rank, nranks: what the launcher's variables say. Call it before MPI_Init, so
 * that the thread takes the launcher's SIGTERM and can report. If the thread cannot be created
 * there is no watchdog. Local. */
void bench_watch_start(bench_watch *watch, const char *program, int rank, int nranks,
                       int deadline_ms);
/* Ends the thread. Local. */
void bench_watch_end(bench_watch *watch);
/* Sets the communicator whose peers are checked; NULL for none. It must stay valid until this is
 * called again. Local. */
void bench_watch_comm(bench_watch *watch, weir_comm *comm);
/* Adds a communicator whose calls a report shows as well; NULL removes all. Local. */
void bench_watch_other(bench_watch *watch, weir_comm *comm);
/* takes: from now on, a SIGTERM only asks the program to end early; 0: it ends the program. Local.
 */
void bench_watch_take_term(bench_watch *watch, int takes);
/* Returns 1 if a SIGTERM has asked the program to end early. Local. */
int bench_watch_was_terminated(const bench_watch *watch);
/* Says that all ranks end by agreement, after an error or with the work done: if the launcher then
 * terminates the job, no rank is lost. Local. */
void bench_watch_agree_end(bench_watch *watch);
/* Says that this rank has failed, and waits for the others to agree to end: if they do not, the
 * report has this text, which must stay valid. Local. */
void bench_watch_failed(bench_watch *watch, const char *text);
/* Reports progress: the rank enters a phase (static storage). allowed_ms: time beyond the deadline
 * that the phase may take. Local; a few instructions. */
static inline void bench_watch_step(bench_watch *watch, const char *phase, uint64_t allowed_ms)
{
    uint64_t steps = atomic_load_explicit(&watch->steps, memory_order_relaxed);
    atomic_store_explicit(&watch->allowed_ms, allowed_ms, memory_order_relaxed);
    atomic_store_explicit(&watch->phase, phase, memory_order_relaxed);
    atomic_store_explicit(&watch->steps, steps + 1, memory_order_relaxed);
}
/* Reports progress within the phase: its deadline begins anew. Local; a few instructions. */
static inline void bench_watch_progress(bench_watch *watch)
{
    atomic_fetch_add_explicit(&watch->steps, 1, memory_order_relaxed);
}
/* Reports the state of every rank, or without a communicator of this one, and ends the process with
 * exit code 4. Without a communicator, a process that was stopped for long reports only that: the
 * other ranks may have ended because of it. Any thread. */
_Noreturn void bench_watch_give_up(const bench_watch *watch, weir_comm *comm, const char *why);

/*
 * The report of ranks that have no communicator yet. One rank of each node writes it: it collects
 * the states of the others, and shows those that send none as silent.
 */

/* Reports this rank's state, and returns when the report of this node's ranks has been written:
 * after at most one to two seconds, or within one once the launcher's SIGTERM is pending. Local,
 * blocking. */
void bench_setup_report(const bench_watch *watch, const char *phase, const char *why);
/* The same for ranks that the launcher terminates, within a second. Writes nothing if all
 * ranks of this node send their state: then none of them was lost. */
void bench_setup_report_lost(const bench_watch *watch, const char *phase);
/* Returns 1 from the start of bench_setup_report on. Any thread. */
int bench_setup_is_reporting(void);
/* Returns 1 if a rank of this node collects states: the job cannot go on. Local. */
int bench_setup_is_collected(void);
/* Claims the line that reports why no job can start, until this process ends. Returns 1, or 0 if
 * another rank of this node has claimed it. The launcher may end all ranks when the first ends, so
 * ranks other than rank 0 wait half a second before they claim the line. Local. */
int bench_setup_claim_refusal(int is_first);
/* Keeps the claim until the other ranks of this node have seen it: for a second of many sleeps,
 * which last longer where ranks wait for a processor. */
void bench_setup_hold_refusal(void);

#endif
