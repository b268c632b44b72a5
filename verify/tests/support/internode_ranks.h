/*
 * Helpers for tests of communicators across nodes that are emulated on one node: ranks with
 * different values of WEIR_HOSTID.
 */
#ifndef VERIFY_TESTS_SUPPORT_INTERNODE_RANKS_H
#define VERIFY_TESTS_SUPPORT_INTERNODE_RANKS_H

#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/device_standin.h"
#include "verify/tests/support/net_shm.h"

#include <stdlib.h>
#include <string.h>

/* The node of each rank, one letter per rank. */
typedef struct layout {
    const char *machines;
    int nnodes;
    const char *transport; /* NULL: shm */
    int gpus; /* whether the ranks have stand-ins for GPUs */
} layout;

static inline int ranks_of(const layout *where)
{
    return (int)strlen(where->machines);
}

static inline weir_comm *open_across(weir_boot *boot, const layout *where)
{
    char name[2] = {where->machines[weir_boot_rank(boot)], '\0'};
    net_shm_register();
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", where->transport ? where->transport : "shm", 1);
    weir_comm *comm = open_comm(boot);
    if (comm && where->gpus && standin_attach(comm) != WEIR_OK) {
        weir_comm_destroy(comm);
        return NULL;
    }
    return comm;
}

static inline int in_layout(int (*body)(weir_boot *boot, void *argument), layout *where)
{
    run_ranks(ranks_of(where), body, where);
    return 0;
}

#endif
