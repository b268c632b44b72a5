/*
 * A write beyond the limit of file sizes (ulimit -f) sends SIGXFSZ, which ends a program that does
 * not expect it. Between these two calls such a write of the calling thread fails with EFBIG
 * instead, whatever the program does with the signal.
 */
#ifndef WEIR_BASE_FILE_SIGNAL_H
#define WEIR_BASE_FILE_SIGNAL_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

typedef struct weiri_file_signal {
    sigset_t before; /* the thread's mask */
    int was_pending; /* from elsewhere: it stays */
} weiri_file_signal;

static inline void weiri_file_signal_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGXFSZ);
}

static inline void weiri_file_signal_hold(weiri_file_signal *held)
{
    sigset_t one, pending;
    weiri_file_signal_set(&one);
    held->was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &one, &held->before);
}

/* Discards the signal if it came meanwhile. errno stays. */
static inline void weiri_file_signal_release(const weiri_file_signal *held)
{
    const int reason = errno;
    const struct timespec none = {0, 0};
    sigset_t one;
    weiri_file_signal_set(&one);
    if (!held->was_pending)
        sigtimedwait(&one, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
    errno = reason;
}

#endif
