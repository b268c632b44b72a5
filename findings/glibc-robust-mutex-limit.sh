#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc ldd
echo "software: glibc $(ldd --version | sed -n '1s/.* //p'), Linux $(uname -r)"
says "of the robust mutexes that a thread holds when it dies, the kernel releases the 2048 locked last; the earlier ones stay locked for ever, and nobody gets EOWNERDEAD"
cat >robust.c <<'C'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

enum { MUTEXES = 3000 };
static pthread_mutex_t mutex[MUTEXES];

static void *hold(void *unused)
{
    for (int i = 0; i < MUTEXES; i++)
        pthread_mutex_lock(&mutex[i]);
    return unused;
}

int main(void)
{
    pthread_mutexattr_t robust;
    pthread_t thread;
    int dead = 0, busy = 0, last_busy = -1;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < MUTEXES; i++)
        pthread_mutex_init(&mutex[i], &robust);
    pthread_create(&thread, NULL, hold, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < MUTEXES; i++) {
        const int status = pthread_mutex_trylock(&mutex[i]);
        dead += status == EOWNERDEAD;
        if (status == EBUSY) {
            busy++;
            last_busy = i;
        }
    }
    printf("%d %d %d\n", dead, busy, last_busy);
    return 0;
}
C
gcc -o robust robust.c -pthread 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "of 3000: released, still locked, the number of the last one still locked" "2048 952 951" "$(timeout 20 ./robust)"
finish
