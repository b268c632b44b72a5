/*
 * bench_allreduce: every rank gets the reduction of all ranks' inputs. S is one buffer; busbw
 * counts 2(n-1)/n of it, what a ring moves over each link.
 */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_collectives, WEIR_COLL_ALLREDUCE, "bench_allreduce", argc,
                              argv);
}
