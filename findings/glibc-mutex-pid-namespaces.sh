#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc ldd
unshare -p true 2>/dev/null || lacks "no process namespaces (root is needed)"
echo "software: glibc $(ldd --version | sed -n '1s/.* //p'), Linux $(uname -r)"
says "a mutex in shared memory knows its owner by a thread number that containers use twice: a process with the number of the holder, in another process namespace, is let into a recursive mutex that is held, and gets EDEADLK from an error-checking one; a normal mutex works"
cat >mutex.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int held[2], ended[2];

static void hold(pthread_mutex_t *mutex)
{
    char c = 0;
    pthread_mutex_lock(mutex);
    if (write(held[1], &c, 1) == 1 && read(ended[0], &c, 1) == 1)
        _exit(0);
}

static void try(pthread_mutex_t *mutex)
{
    struct timespec end;
    char c = 0;
    if (read(held[0], &c, 1) != 1)
        _exit(1);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    const int status = pthread_mutex_timedlock(mutex, &end);
    printf(" %s", status ? strerrorname_np(status) : "locked");
    fflush(stdout);
    _exit(write(ended[1], &c, 1) != 1);
}

/* Each process is number 1 of a process namespace of its own. */
static void start(void (*act)(pthread_mutex_t *mutex), pthread_mutex_t *mutex)
{
    if (fork() != 0)
        return;
    if (unshare(CLONE_NEWPID) == 0 && fork() == 0)
        act(mutex);
    while (wait(NULL) > 0)
        ;
    _exit(0);
}

int main(void)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_RECURSIVE};
    for (int i = 0; i < 3; i++) {
        pthread_mutex_t *mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t shared;
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_settype(&shared, types[i]);
        pthread_mutex_init(mutex, &shared);
        if (pipe(held) || pipe(ended))
            return 1;
        start(hold, mutex);
        start(try, mutex);
        while (wait(NULL) > 0)
            ;
    }
    puts("");
    return 0;
}
C
gcc -o mutex mutex.c -pthread 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "lock of a mutex that process 1 of another namespace holds: normal, error-checking, recursive" "ETIMEDOUT EDEADLK locked" "$(timeout 20 ./mutex | xargs)"
finish
