/* The bootstrap of launchers that only number the ranks of one node. */
#ifndef WEIR_BOOT_ONE_NODE_H
#define WEIR_BOOT_ONE_NODE_H

#include "base/launchers.h"

#include <weir/weir.h>

/* Creates a TCP bootstrap whose unique id rank 0 passes to the others over a Unix socket, which
 * they find by the identity of their job (base/job_identity.h). row: the launcher's row.
 * Collective. WEIR_ERR_TIMEOUT on all ranks if some have not come after WEIR_TIMEOUT_MS;
 * WEIR_ERR_PEER if a rank ends meanwhile; WEIR_ERR_SYSTEM; else as weir_boot_tcp_create. */
weir_status weiri_boot_one_node_create(const weiri_launcher_row *row, int rank, int nranks,
                                       weir_boot **boot);

#endif
