/* Which wires this build has. */
#include "transport/wire.h"

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
