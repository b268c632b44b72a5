/* Which wires this build has, and what they check alike. */
#include "transport/net/net.h"

#include "base/error.h"

const weiri_net_ops *weiri_net_ops_of(weir_transport transport)
{
    switch (transport) {
    case WEIR_TRANSPORT_SHM:
        return &weiri_net_shm;
    case WEIR_TRANSPORT_TCP:
        return &weiri_net_tcp;
#if WEIR_HAVE_VERBS
    case WEIR_TRANSPORT_IB:
        return &weiri_net_ib;
#endif
    default:
        return NULL;
    }
}

weir_status weiri_net_check_source(const weiri_net_mem *mem, uint64_t at, uint64_t bytes)
{
    if (at <= mem->bytes && bytes <= mem->bytes - at)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s wire: %llu bytes at offset %llu leave the own memory, which has %zu",
                      weir_transport_name(mem->net->ops->transport), (unsigned long long)bytes,
                      (unsigned long long)at, mem->bytes);
}
