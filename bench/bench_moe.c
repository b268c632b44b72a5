/*
 * bench_moe: dispatch and combine of mixture-of-experts layers (weir/moe.h), beside MPI_Alltoallv
 * with rows packed by hand. It has its own options and loops (bench/moe), because a call consists
 * of a routing and several buffers; job, statistics and files are those of the other benchmarks.
 */
#include "bench/moe/moe_program.h"

int main(int argc, char **argv)
{
    return bench_moe_main(argc, argv);
}
