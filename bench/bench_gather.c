/* bench_gather: root gets every rank's block. S is root's buffer, busbw's are the blocks of others.
 */
#include "bench/program.h"

#include "base/contract.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, (weir_collective)WEIRI_COLL_GATHER,
                              "bench_gather", argc, argv);
}
