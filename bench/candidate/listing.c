/* The lines of --list-algos: see candidates.h. */
#include "bench/candidate/candidates.h"

#include "bench/options/algo_words.h"
#include "bench/sizes/shape.h"

static void print_builtin(FILE *to, weir_collective collective)
{
    size_t count = 0;
    const weir_algo_info *table = weir_algo_list(&count);
    for (size_t i = 0; i < count; i++) {
        char ranks[32];
        snprintf(ranks, sizeof ranks, "%d-%d", table[i].min_ranks, table[i].max_ranks);
        if (table[i].collective == collective)
            fprintf(to, "%-20s %-8s %-8s %s\n", table[i].name,
                    weir_algo_backend_name(table[i].backend), ranks, table[i].summary);
    }
}

void bench_listing_print(FILE *to, const bench_options *options, weir_collective collective)
{
    const char *rest = options->algo;
    bench_algo_word word;
    fprintf(to, "%-20s %-8s %-8s %s\n", "algorithm", "backend", "ranks", "what it does");
    print_builtin(to, bench_collective_call(collective));
    if (options->plan)
        bench_plan_print(to, options);
    while (bench_algo_words_next(&rest, &word))
        if (word.file)
            fprintf(to, "%-20s %-8s %-8s kernel of %.*s\n", word.name, "any", "1-64",
                    (int)word.file_bytes, word.file);
}
