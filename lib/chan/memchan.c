/* Memory channels: combines a semaphore and mapped memory into the plain struct that the inline
 * functions of <weir/device.h> use, on the host and in kernels. */
#include "base/error.h"
#include "chan/chan.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>

struct weir_memchan {
    weir_comm *comm;
    weir_memchan_dev device;
    void *kept; /* GPUs only: copy of device in GPU memory */
};

weir_status weir_memchan_create(weir_sem *sem, const weir_mem *remote, const weir_mem *local,
                                const weir_mem *packets, weir_memchan **chan)
{
    if (!sem || !remote || !local || !chan)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_memchan_create: sem, remote, local and chan are required");
    if (!sem->remote || !weir_mem_pointer(remote))
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d's memory is not mapped here; a memory channel needs a "
                          "connection over mapped memory; use a port channel",
                          sem->conn->peer);
    weir_memchan *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a memory channel");
    made->device = (weir_memchan_dev){
        .sem = sem->device,
        .guard = sem->conn->comm->guard,
        .remote = weir_mem_pointer(remote),
        .local = weir_mem_pointer(local),
        .packets = packets ? weir_mem_pointer(packets) : NULL,
        .remote_bytes = weir_mem_bytes(remote),
        .local_bytes = weir_mem_bytes(local),
        .packets_bytes = packets ? weir_mem_bytes(packets) : 0,
    };
    made->comm = sem->conn->comm;
    if (made->comm->gpu)
        made->device.guard = made->comm->gpu->ops->guard(made->comm);
    made->device.guard.peer = sem->conn->peer;
    weir_status status =
        weiri_gpu_keep(made->comm, &made->device, sizeof made->device, &made->kept);
    if (status == WEIR_OK)
        *chan = made;
    else
        free(made);
    return status;
}

weir_memchan_dev *weir_memchan_device(weir_memchan *chan)
{
    return chan->kept ? chan->kept : &chan->device;
}

void weir_memchan_free(weir_memchan *chan)
{
    if (chan)
        weiri_gpu_release(chan->comm, chan->kept);
    free(chan);
}
