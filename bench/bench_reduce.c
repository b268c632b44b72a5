/* bench_reduce: root gets the reduction of all ranks' inputs. S is one buffer, as is busbw's. */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_REDUCE, "bench_reduce", argc, argv);
}
