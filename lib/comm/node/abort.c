/* The abort words of a node's ranks, which any of these ranks sets. The first reason stays. */
#include "comm/comm.h"

static void abort_set_words(weir_comm *comm, uint64_t reason)
{
    for (int rank = 0; rank < comm->nranks; rank++) {
        uint64_t none = 0;
        __atomic_compare_exchange_n(&comm->peers[rank].page->abort.value, &none, reason, 0,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
}

void weiri_comm_abort_node(weir_comm *comm, uint64_t reason)
{
    abort_set_words(comm, reason);
    if (comm->parent && comm->parent->gpu_comm)
        abort_set_words(comm->parent->gpu_comm, reason);
    if (comm->parent && comm->parent->host_comm)
        abort_set_words(comm->parent->host_comm, reason);
}
