/*
 * Functions of a part that this build lacks (CUDA, MPI) and that it never calls, because they take
 * an object which only that part creates: WEIRI_ABSENT(name); in its *_none.c or *_missing.c. A
 * call would abort.
 */
#ifndef WEIR_BASE_ABSENT_H
#define WEIR_BASE_ABSENT_H

#include <stdlib.h>

#ifndef __clang__ /* types of functions, which are never called */
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif

__attribute__((used)) static void weiri_absent(void)
{
    abort();
}

#define WEIRI_ABSENT(name) __typeof__(name) name __attribute__((alias("weiri_absent")))

#endif
