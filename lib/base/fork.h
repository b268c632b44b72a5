/*
 * Detects objects of a process that has forked. A child has copies of its parent's sockets and
 * mappings: if it used them, it would write into the parent's job. An object stores
 * weiri_fork_count() when it is created, and its functions compare.
 */
#ifndef WEIR_BASE_FORK_H
#define WEIR_BASE_FORK_H

#include <weir/weir.h>

/* How many forks separate this process from the one that made the first object; read-only. */
extern int weiri_forks;

/* Returns the value to store in a new object. Thread-safe. */
int weiri_fork_count(void);

/* Returns 1 if this process is not the one that created the object. */
static inline int weiri_fork_is_child(int stored)
{
    return __builtin_expect(stored != weiri_forks, 0);
}

/* Sets the error of a function that was called in a forked child: WEIR_ERR_INVALID. what is the
 * object: "communicator". */
weir_status weiri_fork_fail(const char *what);

/* clang's analyzer sees one file at a time (base/error.h). */
#ifdef __clang_analyzer__
#define weiri_fork_fail(what) ((void)(weiri_fork_fail)(what), WEIR_ERR_INVALID)
#endif

#endif
