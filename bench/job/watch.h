/*
 * The watch of a rank: a thread that ends the process when the job cannot go
 * on. It looks four times a second whether the rank has gone on; if not, it asks
 * the communicator whether a peer has died or is stopped. So a rank that is
 * stuck where weir does not see it, inside MPI or at its start and end, ends
 * within its deadline and a few seconds, and says where it stood.
 */
#ifndef BENCH_JOB_WATCH_H
#define BENCH_JOB_WATCH_H

#include <weir/weir.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct bench_watch {
    const char *program;
    int deadline_ms;
    pthread_t thread;
    int started;
    atomic_int ended;
    atomic_uint_fast64_t steps;       /* how often the rank has gone on */
    atomic_uint_fast64_t allowed_ms;  /* beyond the deadline, for the current step */
    _Atomic(const char *) phase;
    pthread_mutex_t mutex;            /* for comm */
    weir_comm *comm;                  /* NULL before it is made and after it is gone */
} bench_watch;

/* Starts the thread; call it before MPI_Init, so that the launcher's SIGTERM is
 * taken by the watch and leaves time for a report. Without a thread there is no
 * watch. Local. */
void bench_watch_start(bench_watch *watch, const char *program, int deadline_ms);
/* Ends it. Local. */
void bench_watch_end(bench_watch *watch);
/* Whose peers to look at; NULL for none. It must outlive this. Local. */
void bench_watch_comm(bench_watch *watch, weir_comm *comm);
/* The rank goes on, into a phase (static storage). allowed_ms: what it may take
 * beyond the deadline without being stuck. Local, a few instructions. */
static inline void bench_watch_step(bench_watch *watch, const char *phase, uint64_t allowed_ms)
{
    uint64_t steps = atomic_load_explicit(&watch->steps, memory_order_relaxed);
    atomic_store_explicit(&watch->allowed_ms, allowed_ms, memory_order_relaxed);
    atomic_store_explicit(&watch->phase, phase, memory_order_relaxed);
    atomic_store_explicit(&watch->steps, steps + 1, memory_order_relaxed);
}
/* Reports where every rank stands, or, without a communicator, where this one
 * does, and ends the process with exit code 4. Any thread. */
_Noreturn void bench_watch_give_up(bench_watch *watch, weir_comm *comm, const char *why);

#endif
