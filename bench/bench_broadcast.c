/* bench_broadcast: every rank gets root's buffer. S is one buffer, as is busbw's. */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_BROADCAST, "bench_broadcast", argc,
                              argv);
}
