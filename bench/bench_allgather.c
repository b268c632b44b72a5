/*
 * bench_allgather: every rank gets every rank's block. S is the whole output, nranks blocks;
 * busbw counts (n-1)/n of it.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_ALLGATHER, "bench_allgather", argc,
                              argv);
}
