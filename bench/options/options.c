/* Answers that follow from several options: see options.h. */
#include "bench/options/options.h"

#include <string.h>

int bench_options_verifies(const bench_options *options)
{
    return bench_options_oracles(options) != 0;
}

unsigned bench_options_oracles(const bench_options *options)
{
    static const unsigned oracles[] = {[BENCH_VERIFY_MPI] = BENCH_ORACLE_MPI,
                                       [BENCH_VERIFY_EXACT] = BENCH_ORACLE_EXACT,
                                       [BENCH_VERIFY_BOTH] = BENCH_ORACLE_MPI | BENCH_ORACLE_EXACT,
                                       [BENCH_VERIFY_OFF] = 0};
    return options->checks == 0 ? 0 : oracles[options->verify];
}

int bench_options_rounds(const bench_options *options)
{
    int most = options->rounds;
    int few = most < BENCH_FEW_ROUNDS ? most : BENCH_FEW_ROUNDS;
    int iterations = options->batched ? options->graph : options->iterations;
    if (iterations) {
        int times = options->graph > 1 && !options->batched ? options->graph : 1;
        long long all = (long long)iterations * times;
        long long fitting = all / BENCH_ROUND_ITERATIONS;
        most = fitting < few ? 1 : fitting < most ? (int)fitting : most;
    }
    return options->inject_timed ? 1 : most;
}

int bench_options_until_s(const bench_options *options)
{
    enum { DEFAULT_S = 10 };
    return options->timeout_s ? options->timeout_s : DEFAULT_S;
}

int bench_options_plan_only(const bench_options *options)
{
    return options->plan && strcmp(options->algo, "plan") == 0;
}

int bench_options_names_algos(const bench_options *options)
{
    return !options->tune_path && strcmp(options->algo, "all") != 0;
}
