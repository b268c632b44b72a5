/* bench_init: creation, first calls, split and destruction of a communicator, phase by phase. */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_init, WEIR_COLL_ALLREDUCE, "bench_init", argc, argv);
}
