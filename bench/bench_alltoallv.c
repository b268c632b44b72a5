/*
 * bench_alltoallv: blocks of different lengths from every rank to every rank, by --dist (dist.h).
 * S is what one rank sends, or receives, whichever is more; busbw counts
 * (n-1)/n of it. There is no in-place form.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_ALLTOALLV, "bench_alltoallv", argc,
                              argv);
}
