/* The algorithm table: one row for each algorithm of each collective. */
#include "coll/algos.h"

#define HOST(collective, name, summary, min_ranks, run)                                            \
    {                                                                                              \
        {WEIR_COLL_##collective, name, "host", summary, min_ranks, WEIRI_RANKS_MAX}, run           \
    }

const weiri_algo weiri_algo_table[] = {
    HOST(ALLREDUCE, "packet", "publish the input, reduce everybody's; one latency, small sizes", 2,
         weiri_allreduce_packet),
    HOST(ALLREDUCE, "packet2", "reduce a share, gather the shares, through slots; plain memory", 2,
         weiri_allreduce_packet2),
    HOST(ALLREDUCE, "fused", "read a share of all, reduce, write it to all; library memory", 2,
         weiri_allreduce_fused),
    HOST(ALLREDUCE, "ring", "partial sums from rank to rank, through slots", 2,
         weiri_allreduce_ring),
    HOST(REDUCE_SCATTER, "packet", "publish the input, reduce the own block of everybody's", 2,
         weiri_reduce_scatter_packet),
    HOST(REDUCE_SCATTER, "direct", "reduce the own block from everybody's library memory", 2,
         weiri_reduce_scatter_direct),
    HOST(ALLGATHER, "packet", "publish the input, copy everybody's", 2, weiri_allgather_packet),
    HOST(ALLGATHER, "direct", "copy from everybody's library memory", 2, weiri_allgather_direct),
    HOST(BROADCAST, "packet", "the root publishes, the others follow", 2, weiri_broadcast_packet),
    HOST(BROADCAST, "direct", "copy from the root's library memory", 2, weiri_broadcast_direct),
    HOST(REDUCE, "packet", "publish the input, the root reduces everybody's", 2,
         weiri_reduce_packet),
    HOST(REDUCE, "direct", "each reduces a share into the root's library memory", 2,
         weiri_reduce_direct),
    HOST(ALLTOALL, "packet", "messages through scratch memory", 2, weiri_exchange_packet),
    HOST(ALLTOALL, "direct", "copy from the sender's library memory", 2, weiri_exchange_direct),
    HOST(ALLTOALLV, "packet", "messages through scratch memory", 2, weiri_exchange_packet),
    HOST(ALLTOALLV, "direct", "copy from the sender's library memory", 2, weiri_exchange_direct),
    HOST(SENDRECV, "packet", "messages through scratch memory", 2, weiri_exchange_packet),
    HOST(SENDRECV, "direct", "copy from the sender's library memory", 2, weiri_exchange_direct),
};

const size_t weiri_algo_table_rows = sizeof weiri_algo_table / sizeof *weiri_algo_table;
