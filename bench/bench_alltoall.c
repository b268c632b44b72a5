/*
 * bench_alltoall: rank r gets block r of every rank. S is the whole buffer, nranks blocks;
 * busbw counts (n-1)/n of it. There is no in-place form.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_ALLTOALL, "bench_alltoall", argc, argv);
}
