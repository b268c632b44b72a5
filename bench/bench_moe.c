/*
 * bench_moe: dispatch and combine of mixture-of-experts layers (weir/moe.h), compared with
 * MPI_Alltoallv on rows packed by hand. Its options and loops are in bench/moe, because a call
 * consists of a routing and several buffers.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_moe, WEIR_COLL_ALLTOALLV, "bench_moe", argc, argv);
}
