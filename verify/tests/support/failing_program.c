/*
 * Makes one call of a program fail; linked into programs with the wrappers of failing_calls.c, and
 * driven by the environment. With FAILING_LIST=FILE, a run writes each place that calls a function
 * of failing_calls.h: "FUNCTION OFFSET CALLS". With FAILING_AT="FUNCTION OFFSET NUMBER", that call
 * of the place fails, counted over all processes that the program forks. With FAILING_LEAKS=FILE, a
 * run writes what is open and the places that allocated what is not freed when it ends.
 */
#define _GNU_SOURCE
#include "verify/tests/support/failing_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 4096, DESCRIPTORS = 256 };

/* Shared by all processes of the program. */
typedef struct board {
    failing_plan plan;
    struct {
        void *site;
        uint32_t call, calls;
    } places[PLACES];
    pid_t first; /* the process that writes the list */
} board;

static board *shared;
static char was_open[DESCRIPTORS]; /* when the program began */

static void program_note(failing_call call, const void *site)
{
    size_t i = (size_t)((uintptr_t)site * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PLACES;
    void *none = NULL;
    while (!__atomic_compare_exchange_n(&shared->places[i].site, &none, (void *)(uintptr_t)site, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
           none != site) {
        i = (i + 1) % PLACES;
        none = NULL;
    }
    shared->places[i].call = call;
    __atomic_add_fetch(&shared->places[i].calls, 1, __ATOMIC_RELAXED);
}

static void program_choose(const char *text)
{
    char function[32];
    unsigned long offset, number;
    if (sscanf(text, "%31s %lx %lu", function, &offset, &number) != 3)
        abort();
    for (int call = 0; call < FAILING_COUNT; call++)
        if (strcmp(failing_name((failing_call)call), function) == 0)
            shared->plan.call = (failing_call)call;
    shared->plan.only = (const void *)offset; /* NOLINT: an offset in the program */
    shared->plan.number = number;
}

__attribute__((constructor)) static void program_begin(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    shared->first = getpid();
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    if (getenv("FAILING_AT"))
        program_choose(getenv("FAILING_AT"));
    else if (getenv("FAILING_LIST"))
        shared->plan.seen = program_note;
    failing_arm(&shared->plan);
}

/* Writes which descriptors have been opened since the program began. */
static void program_write_descriptors(FILE *to)
{
    char path[32], file[256];
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(path, file, sizeof file - 1);
        if (length > 0 && fd != fileno(to) && !was_open[fd])
            fprintf(to, "%.*s\n", (int)length, file);
    }
}

/* Writes the places of the blocks that nobody has freed, and the files that nobody has closed. */
static void program_write_leaks(const char *path)
{
    FILE *file = fopen(path, "ae");
    if (file)
        program_write_descriptors(file);
    for (int i = 0; file && failing_block_site(i); i++)
        fprintf(file, "%lx\n", (unsigned long)(uintptr_t)failing_block_site(i));
    if (file)
        fclose(file);
}

__attribute__((destructor)) static void program_end(void)
{
    failing_disarm();
    if (getenv("FAILING_LEAKS"))
        program_write_leaks(getenv("FAILING_LEAKS"));
    FILE *file =
        shared->plan.seen && shared->first == getpid() ? fopen(getenv("FAILING_LIST"), "we") : NULL;
    for (int i = 0; file && i < PLACES; i++)
        if (shared->places[i].site)
            fprintf(file, "%s %lx %u\n", failing_name((failing_call)shared->places[i].call),
                    (unsigned long)(uintptr_t)failing_place(shared->places[i].site),
                    shared->places[i].calls);
    if (file)
        fclose(file);
}
