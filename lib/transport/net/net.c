/* The network transports of this build, one registered by the program, and a check that all of
 * them make. */
#include "transport/net/net.h"

#include "base/error.h"

static const weiri_net_ops *registered;

void weiri_net_register(const weiri_net_ops *ops)
{
    registered = ops;
}

const weiri_net_ops *weiri_net_ops_of(weir_transport transport)
{
    static const weiri_net_ops *const built[] = {
        &weiri_net_tcp,
#if WEIR_HAVE_VERBS
        &weiri_net_ib,
#endif
    };
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if (built[i]->transport == transport)
            return built[i];
    return registered && registered->transport == transport ? registered : NULL;
}

weir_status weiri_net_check_source(const weiri_net_mem *mem, uint64_t at, uint64_t bytes)
{
    if (at <= mem->bytes && bytes <= mem->bytes - at)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "transport %s: %llu bytes at offset %llu are beyond the registered source "
                      "memory of %zu bytes",
                      weir_transport_name(mem->net->ops->transport), (unsigned long long)bytes,
                      (unsigned long long)at, mem->bytes);
}
