/* bench_blocks: the pages of KV caches, moved from prefill to decode ranks (weir/blocks.h). */
#include "bench/program.h"

int main(int argc, char **argv)
{
    return bench_program_main(&bench_blocks, WEIR_COLL_SENDRECV, "bench_blocks", argc, argv);
}
