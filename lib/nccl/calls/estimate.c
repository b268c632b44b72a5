/*
 * Estimates for ncclGroupSimulateEnd: one latency per call, plus the bytes that enter or leave the
 * busiest rank divided by the rate of its links. Sends and receives of a group run at once.
 */
#include "nccl/rma/rma.h"

#include "base/contract.h"
#include "base/float_env.h"
#include "comm/comm.h"
#include "comm/gpu/gpu.h"
#include "plan/cost/model.h"

/* The machine model whose figures apply; NULL: there are none. */
static const char *machine_of(const weiri_nccl_comm *comm)
{
    if (comm->vendor || weir_comm_nnodes(comm->comm) > 1)
        return NULL;
    if (comm->device < 0)
        return "host";
    return comm->comm->gpu && comm->comm->gpu->nvlink ? "h200x8" : NULL;
}

/* Least number of bytes that pass the links of the call's busiest rank in one direction. */
static double bytes_through(const weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    double bytes = (double)weiri_nccl_count(call) * (double)weir_dtype_bytes(call->call.dtype);
    const weiri_contract *contract = weiri_contract_of((int)call->call.collective);
    if (call->onesided) /* waits, and what other ranks put, are not known */
        return call->onesided->peer == comm->rank ? 0 : (double)call->onesided->bytes;
    if (weiri_nccl_is_p2p(call))
        return weiri_nccl_peer(call) == comm->rank ? 0 : bytes;
    if (comm->nranks == 1)
        return 0;
    return weiri_contract_bus_factor(contract, comm->nranks) * bytes *
           weiri_contract_blocks(contract, comm->nranks);
}

static float estimate_us(const weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    weiri_plan_model model;
    const char *machine = machine_of(comm);
    double bytes = 0, out = 0, in = 0;
    size_t launches = 0; /* one for all sends and receives */
    if (!machine || weiri_plan_model_read(machine, &model) != WEIR_OK)
        return NCCL_UNDEF_FLOAT;
    for (size_t i = 0; i < count; i++) {
        double these = bytes_through(comm, &calls[i]);
        if (calls[i].onesided || !weiri_nccl_is_p2p(&calls[i])) {
            bytes += these;
            launches++;
        } else if (weiri_nccl_sends(&calls[i])) {
            out += these;
        } else {
            in += these;
        }
    }
    launches += out > 0 || in > 0;
    bytes += out > in ? out : in;
    double latency_us = model.launch_us + model.barrier_us + model.signal_us;
    return (float)((double)launches * latency_us + bytes / (model.link_gbs * 1e3));
}

float weiri_nccl_estimate(const weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    const weiri_float_env environment = weiri_float_begin();
    const float us = estimate_us(comm, calls, count);
    weiri_float_end(environment);
    return us;
}
