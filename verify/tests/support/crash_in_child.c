/*
 * In every C test program: a process that a test forks and that crashes ends by its signal.
 * cmocka's handlers, which it inherits, would run the tests that follow in it, of which each forks
 * again: within seconds there are thousands of processes.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

static void child_crash_ends(void)
{
    static const int signals[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction set;
        Dl_info from;
        if (sigaction(signals[i], NULL, &set) == 0 && set.sa_handler != SIG_DFL &&
            set.sa_handler != SIG_IGN &&
            dladdr(__extension__(void *)(set.sa_handler), &from) != 0 &&
            strstr(from.dli_fname, "cmocka"))
            signal(signals[i], SIG_DFL);
    }
}

__attribute__((constructor)) static void child_crash_prepare(void)
{
    pthread_atfork(NULL, NULL, child_crash_ends);
}
