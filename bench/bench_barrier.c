/* bench_barrier: the barrier of all ranks, compared with MPI_Barrier. */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_barriers, WEIR_COLL_ALLREDUCE, "bench_barrier", argc, argv);
}
