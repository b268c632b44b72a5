/*
 * The command line of the benchmarks is made of arbitrary bytes: the first one selects the
 * collective, then each line is an argument. Options are accepted or rejected with a line that says
 * why.
 */
#include "verify/tests/support/fuzz_input.h"

#include "bench/options/parse.h"

enum { ARGUMENTS_MAX = 32 };

void fuzz_input(const uint8_t *data, size_t bytes)
{
    char *text = calloc(1, bytes + 1), *argv[ARGUMENTS_MAX + 2] = {"bench_fuzzed"}, *rest;
    char problem[BENCH_PROBLEM_BYTES] = "";
    bench_options options;
    int argc = 1;
    FUZZ_DEMAND(text);
    memcpy(text, data, bytes);
    for (char *line = strtok_r(bytes ? text + 1 : text, "\n", &rest); line && argc <= ARGUMENTS_MAX;
         line = strtok_r(NULL, "\n", &rest))
        argv[argc++] = line;
    weir_collective collective = (weir_collective)(bytes ? data[0] % WEIR_COLL_COUNT : 0);
    weir_status status = bench_options_parse(argc, argv, collective, &options, problem);
    FUZZ_DEMAND((status == WEIR_OK) == (*problem == '\0'));
    FUZZ_DEMAND(strlen(problem) < sizeof problem && !strchr(problem, '\n'));
    if (status == WEIR_OK && options.action == BENCH_ACTION_RUN)
        FUZZ_DEMAND(bench_options_rounds(&options) >= 1);
    free(text);
}
