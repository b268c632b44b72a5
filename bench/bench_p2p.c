/*
 * bench_p2p: pairs of ranks, one after the other (ping-pong, one way, both ways), then all ranks at
 * once (shifts, bisection). S is one message, as is busbw's. There is no in-place form.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_p2p, WEIR_COLL_SENDRECV, "bench_p2p", argc, argv);
}
