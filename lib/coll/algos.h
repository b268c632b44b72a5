/* The run functions of the algorithm table; each is described in its file. */
#ifndef WEIR_COLL_ALGOS_H
#define WEIR_COLL_ALGOS_H

#include "coll/coll.h"

weir_status weiri_allreduce_packet(weiri_coll *coll, const weir_call *call);
weir_status weiri_allreduce_packet2(weiri_coll *coll, const weir_call *call);
weir_status weiri_allreduce_fused(weiri_coll *coll, const weir_call *call);
weir_status weiri_allreduce_ring(weiri_coll *coll, const weir_call *call);
weir_status weiri_reduce_scatter_packet(weiri_coll *coll, const weir_call *call);
weir_status weiri_reduce_scatter_direct(weiri_coll *coll, const weir_call *call);
weir_status weiri_allgather_packet(weiri_coll *coll, const weir_call *call);
weir_status weiri_allgather_direct(weiri_coll *coll, const weir_call *call);
weir_status weiri_broadcast_packet(weiri_coll *coll, const weir_call *call);
weir_status weiri_broadcast_direct(weiri_coll *coll, const weir_call *call);
weir_status weiri_reduce_packet(weiri_coll *coll, const weir_call *call);
weir_status weiri_reduce_direct(weiri_coll *coll, const weir_call *call);
/* alltoall, alltoallv and sendrecv: coll->pairs says what goes where. */
weir_status weiri_exchange_packet(weiri_coll *coll, const weir_call *call);
weir_status weiri_exchange_direct(weiri_coll *coll, const weir_call *call);

/* Across machines (coll/net/). */
weir_status weiri_internode_coll_relay(weiri_coll *coll, const weir_call *call);
weir_status weiri_internode_coll_allreduce_rails(weiri_coll *coll, const weir_call *call);
weir_status weiri_internode_coll_allgather_rails(weiri_coll *coll, const weir_call *call);
weir_status weiri_internode_coll_reduce_scatter_rails(weiri_coll *coll, const weir_call *call);
weir_status weiri_internode_coll_broadcast_rails(weiri_coll *coll, const weir_call *call);
weir_status weiri_internode_coll_reduce_rails(weiri_coll *coll, const weir_call *call);
weir_status weiri_internode_coll_pairs(weiri_coll *coll, const weir_call *call);

/* GPUs: launches the kernel of the algorithm that the call's choice names, or
 * of the collective's last one where that does not serve the call. Not blocking. */
weir_status weiri_cuda_run(weiri_coll *coll, const weir_call *call);

/* The same by copy engines; without symmetric memory the general algorithm. */
weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weir_call *call);
weir_status weiri_cuda_allreduce_ce(weiri_coll *coll, const weir_call *call);

/* What weir_comm_last_algo says when an algorithm had to give way to another. */
static inline weir_status weiri_algo_give_way(weiri_coll *coll, const weir_call *call,
                                              const char *name, weiri_algo_run run)
{
    coll->last_algo = name;
    return run(coll, call);
}

#endif
