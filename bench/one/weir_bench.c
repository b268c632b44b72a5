/*
 * All benchmarks and weir-check in one program, for packages: with CUDA each program contains all
 * kernels. It runs the one whose name it was started under (a link bench_allreduce), or that its
 * first argument names: `weir-bench allreduce -b 8`. The Makefile writes the list of programs.
 */
#include <stdio.h>
#include <string.h>

#define PROGRAM(name, symbol) int symbol##_main(int argc, char **argv);
#include "weir_bench_programs.h"
#undef PROGRAM

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} programs[] = {
#define PROGRAM(name, symbol) {name, symbol##_main},
#include "weir_bench_programs.h"
#undef PROGRAM
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* Finds "bench_allreduce" by that name or by "allreduce", and weir-check by "check". */
static int program_find(const char *name)
{
    for (int i = 0; i < PROGRAMS; i++)
        if (strcmp(name, programs[i].name) == 0 ||
            strcmp(name, strpbrk(programs[i].name, "_-") + 1) == 0)
            return i;
    return -1;
}

static int print_usage(FILE *file)
{
    fprintf(file, "weir-bench PROGRAM [OPTIONS]: runs a benchmark, or weir-check. Programs:");
    for (int i = 0; i < PROGRAMS; i++)
        fprintf(file, " %s", strpbrk(programs[i].name, "_-") + 1);
    fprintf(file, "\nweir-bench PROGRAM --help lists the options of a program.\n");
    return file == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *own = slash ? slash + 1 : argv[0];
    const int as_own = strncmp(own, "bench_", 6) == 0 || strcmp(own, "weir-check") == 0;
    const int found = as_own ? program_find(own) : argc > 1 ? program_find(argv[1]) : -1;
    if (found >= 0)
        return programs[found].main(argc - !as_own, argv + !as_own);
    if (!as_own && argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return print_usage(stdout);
    if (argc > 1 || as_own)
        fprintf(stderr, "weir-bench: no program '%s'\n", as_own ? own : argv[1]);
    return print_usage(stderr);
}
