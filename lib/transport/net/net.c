/* Which wires this build has, and what they check alike. */
#include "transport/net/net.h"

#include "base/error.h"

const weiri_wire_ops *weiri_wire_of(weir_transport transport)
{
    switch (transport) {
    case WEIR_TRANSPORT_SHM:
        return &weiri_wire_shm;
    case WEIR_TRANSPORT_TCP:
        return &weiri_wire_tcp;
#if WEIR_HAVE_VERBS
    case WEIR_TRANSPORT_IB:
        return &weiri_wire_ib;
#endif
    default:
        return NULL;
    }
}

weir_status weiri_wire_check_source(const weiri_wire_mem *mem, uint64_t at, uint64_t bytes)
{
    if (at <= mem->bytes && bytes <= mem->bytes - at)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s wire: %llu bytes at offset %llu leave the own memory, which has %zu",
                      weir_transport_name(mem->wire->ops->transport), (unsigned long long)bytes,
                      (unsigned long long)at, mem->bytes);
}
