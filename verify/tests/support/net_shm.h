/*
 * A network transport between ranks of one node, for tests of communicators across emulated
 * nodes (ranks with different values of WEIR_HOSTID). Programs that call net_shm_register need
 * the object of net_shm.c, which every test program is linked with.
 */
#ifndef VERIFY_TESTS_SUPPORT_NET_SHM_H
#define VERIFY_TESTS_SUPPORT_NET_SHM_H

#include "transport/net/net.h"

extern const weiri_net_ops net_shm_ops;

/* Makes WEIR_TRANSPORT=shm a network transport of this process. Call it before a communicator
 * across nodes is created. Calling it again has no effect. */
static inline void net_shm_register(void)
{
    weiri_net_register(&net_shm_ops);
}

#endif
