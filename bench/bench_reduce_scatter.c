/*
 * bench_reduce_scatter: rank r gets block r of the reduction. S is the whole input, nranks
 * blocks; busbw counts (n-1)/n of it.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_REDUCE_SCATTER, "bench_reduce_scatter",
                              argc, argv);
}
