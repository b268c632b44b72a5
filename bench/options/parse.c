/* Reads the command line of a benchmark, and prints --help: see parse.h. */
#include "bench/options/parse.h"

#include "bench/options/option_values.h"

#include <string.h>

weir_status bench_options_parse(int argc, char **argv, weir_collective collective,
                                bench_options *options, char *problem)
{
    memset(options, 0, sizeof *options);
    weiri_options_set_defaults(&bench_options_table, options);
    weir_status status = weiri_options_take_all(&bench_options_table, argc, argv, options);
    if (status != WEIR_OK) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s", weir_last_error());
        return status;
    }
    if (!options->algo)
        options->algo = options->plan ? "plan" : "auto";
    if (options->action != BENCH_ACTION_RUN)
        return WEIR_OK;
    if (bench_floor_of_environment(options, problem) != 0)
        return WEIR_ERR_INVALID;
    if (bench_split_of_options(options, problem) != 0)
        return WEIR_ERR_INVALID;
    return bench_options_check(options, collective, problem);
}

void bench_options_help(FILE *to, const char *program)
{
    fprintf(to,
            "usage: [mpirun -np RANKS] %s [options]\n\n"
            "Measures and verifies a collective, and prints nccl-tests' table. Its ranks are\n"
            "started by a launcher (mpirun, srun, torchrun, PMIx) or by the program itself (-g).\n"
            "Options with a letter are nccl-tests' options, with the same meaning.\n\n",
            program);
    weiri_options_print(&bench_options_table, to);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data or a missed floor, 2 usage, 3 system or\n"
                "environment, 4 a deadline passed.\n");
}
