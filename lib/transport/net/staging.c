/* The staging state of a network: a context for one GPU, created with the first memory that needs
 * staging. */
#include "transport/net/staging.h"

#include "base/error.h"

weir_status weiri_staging_add(weiri_staging *stage, const weiri_net *net, const void *memory)
{
    const char *name = weir_transport_name(net->ops->transport);
    if (!stage->ops)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d: transport %s takes host memory only, since this build has no "
                          "CUDA",
                          net->rank, name);
    if (!stage->context)
        return stage->ops->open(memory, &stage->context);
    if (!stage->ops->holds(stage->context, memory))
        return weiri_fail(
            WEIR_ERR_UNSUPPORTED,
            "rank %d: transport %s stages memory of one GPU, and %p belongs to another", net->rank,
            name, memory);
    return WEIR_OK;
}

void weiri_staging_close(weiri_staging *stage)
{
    if (stage->context)
        stage->ops->close(stage->context);
    stage->context = NULL;
}

weir_status weiri_staging_slot_open(const weiri_staging *stage, size_t bytes,
                                    weiri_staging_slot *slot)
{
    return slot->buffer ? WEIR_OK : stage->ops->slot_open(stage->context, bytes, slot);
}

void weiri_staging_slot_close(const weiri_staging *stage, weiri_staging_slot *slot)
{
    if (slot->buffer)
        stage->ops->slot_close(stage->context, slot);
}
