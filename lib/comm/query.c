/* What a communicator says about itself. */
#include "comm/comm.h"

#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

int weir_comm_rank(const weir_comm *comm)
{
    return comm->rank;
}

int weir_comm_nranks(const weir_comm *comm)
{
    return comm->nranks;
}

int weir_comm_is_invariant(const weir_comm *comm)
{
    return comm && comm->invariant;
}

int weir_comm_nnodes(const weir_comm *comm)
{
    return comm->nnodes;
}

int weir_comm_local_nranks(const weir_comm *comm)
{
    return comm->local_nranks;
}

int weir_comm_local_rank(const weir_comm *comm)
{
    return comm->local_rank;
}

weir_boot *weir_comm_boot(const weir_comm *comm)
{
    return comm->boot;
}

weir_backend weir_comm_backend(const weir_comm *comm)
{
    return comm->gpu ? WEIR_BACKEND_CUDA : WEIR_BACKEND_HOST;
}

int weir_comm_device(const weir_comm *comm)
{
    return comm->gpu ? comm->gpu->device : -1;
}

weir_transport weir_comm_transport(const weir_comm *comm)
{
    return comm->internode ? comm->internode->net->ops->transport : comm->memory->transport;
}

int weir_comm_shares_cores(const weir_comm *comm)
{
    return comm->oversubscribed;
}

size_t weir_comm_scratch_bytes(const weir_comm *comm)
{
    if (comm->internode)
        return weir_comm_scratch_bytes(comm->host_comm) + comm->internode->window_bytes +
               (comm->gpu_comm ? weir_comm_scratch_bytes(comm->gpu_comm) : 0);
    return comm->scratch_bytes + (comm->gpu ? comm->gpu->scratch_bytes : 0);
}
