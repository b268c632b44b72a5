/* Counts forks by a handler in the child, so that a check costs one comparison. */
#include "base/fork.h"

#include "base/error.h"

#include <pthread.h>
#include <unistd.h>

/* The analyzer's macros are for callers. */
#undef weiri_fork_fail

int weiri_forks;

static void fork_count_child(void)
{
    weiri_forks++;
}

static void fork_register(void)
{
    pthread_atfork(NULL, NULL, fork_count_child);
}

int weiri_fork_count(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_register);
    return weiri_forks;
}

weir_status weiri_fork_fail(const char *what)
{
    return weiri_fail(WEIR_ERR_INVALID,
                      "process %ld was forked from the one that created this %s, and cannot use "
                      "it; create another one after fork",
                      (long)getpid(), what);
}
