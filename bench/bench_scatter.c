/* bench_scatter: every rank gets its block of root's. S is root's buffer, busbw's are the blocks of
 * others. */
#include "bench/program.h"

#include "base/contract.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, (weir_collective)WEIRI_COLL_SCATTER,
                              "bench_scatter", argc, argv);
}
