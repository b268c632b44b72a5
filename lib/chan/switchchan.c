/*
 * Switch channels: reduce, or store, the same byte range of every member's memory, by loads and
 * stores. They hold no state and provide no ordering; members synchronise over memory channels.
 */
#include "base/error.h"
#include "chan/chan.h"
#include "compute/copy.h"
#include "compute/reduce.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>

struct weir_switchchan {
    weir_comm *comm;
    weir_switchchan_dev device;
    void *kept; /* GPUs only: copy of device in GPU memory */
};

static weir_status switchchan_gather(weir_mem *const *members, int count,
                                     weir_switchchan_dev *device)
{
    device->count = (uint32_t)count;
    device->bytes = weir_mem_bytes(members[0]);
    for (int i = 0; i < count; i++) {
        device->members[i] = weir_mem_pointer(members[i]);
        if (weir_mem_bytes(members[i]) != device->bytes)
            return weiri_fail(
                WEIR_ERR_INVALID,
                "the members of a switch channel have %zu and %zu bytes; expected equal "
                "lengths",
                device->bytes, weir_mem_bytes(members[i]));
        if (!device->members[i])
            return weiri_fail(WEIR_ERR_UNSUPPORTED,
                              "member %d of a switch channel is not mapped here; it is on another "
                              "node",
                              i);
    }
    return WEIR_OK;
}

weir_status weir_switchchan_create(weir_comm *comm, weir_mem *const *members, int count,
                                   weir_switchchan **chan)
{
    if (!comm || !members || !chan || count < 1 || count > WEIR_SWITCH_MEMBERS)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_switchchan_create: expected comm, chan and 1 to %d members, not %d",
                          WEIR_SWITCH_MEMBERS, count);
    for (int i = 0; i < count; i++)
        if (!members[i])
            return weiri_fail(WEIR_ERR_INVALID, "weir_switchchan_create: member %d is NULL", i);
    weir_status status = weiri_comm_admit(comm, "weir_switchchan_create");
    if (status != WEIR_OK)
        return status;
    weir_switchchan *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a switch channel");
    made->comm = comm;
    status = switchchan_gather(members, count, &made->device);
    if (status == WEIR_OK)
        status = weiri_gpu_keep(comm, &made->device, sizeof made->device, &made->kept);
    if (status == WEIR_OK)
        *chan = made;
    else
        free(made);
    return status;
}

weir_switchchan_dev *weir_switchchan_device(weir_switchchan *chan)
{
    return chan->kept ? chan->kept : &chan->device;
}

void weir_switchchan_free(weir_switchchan *chan)
{
    if (chan)
        weiri_gpu_release(chan->comm, chan->kept);
    free(chan);
}

static weir_status switchchan_check_range(const weir_switchchan *chan, const void *other,
                                          size_t offset_bytes, size_t bytes)
{
    if (!chan || (!other && bytes))
        return weiri_fail(WEIR_ERR_INVALID, "a switch channel and a buffer are required");
    if (chan->comm->gpu)
        return weiri_fail(
            WEIR_ERR_UNSUPPORTED,
            "host functions cannot access GPU memory; use weir_switchchan_device in a "
            "kernel");
    if (offset_bytes > chan->device.bytes || bytes > chan->device.bytes - offset_bytes)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%zu bytes at offset %zu exceed the switch channel's %zu bytes", bytes,
                          offset_bytes, chan->device.bytes);
    return WEIR_OK;
}

weir_status weir_switchchan_reduce(weir_switchchan *chan, void *to, size_t offset_bytes,
                                   size_t count, weir_dtype dtype, weir_op op)
{
    const void *sources[WEIR_SWITCH_MEMBERS];
    const size_t element = weir_dtype_bytes(dtype);
    weiri_reduce_fn reduce = weiri_reduce_get(dtype, op);
    if (!reduce || count > SIZE_MAX / element)
        return weiri_fail(WEIR_ERR_INVALID, "unknown data type or operation, or too many elements");
    weir_status status = switchchan_check_range(chan, to, offset_bytes, count * element);
    if (status != WEIR_OK)
        return status;
    for (uint32_t i = 0; i < chan->device.count; i++)
        sources[i] = chan->device.members[i] + offset_bytes;
    reduce(to, sources, (int)chan->device.count, count, chan->device.count, 0);
    return WEIR_OK;
}

weir_status weir_switchchan_broadcast(weir_switchchan *chan, size_t offset_bytes, const void *from,
                                      size_t bytes)
{
    weir_status status = switchchan_check_range(chan, from, offset_bytes, bytes);
    for (uint32_t i = 0; i < (status == WEIR_OK ? chan->device.count : 0); i++)
        if (chan->device.members[i] + offset_bytes != from)
            weiri_copy(chan->device.members[i] + offset_bytes, from, bytes);
    return status;
}
