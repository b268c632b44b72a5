/*
 * bench_sendrecv: rank r sends to r + 1 and receives from r - 1, cyclic, or as --pattern says. S is
 * one buffer, as is busbw's. There is no in-place form.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_SENDRECV, "bench_sendrecv", argc, argv);
}
