/* bench_replay: the communication of a recorded job, checked and timed. See bench/replay. */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_replay, WEIR_COLL_ALLREDUCE, "bench_replay", argc, argv);
}
