/* The bootstrap of launchers that only number the ranks of one node. */
#ifndef WEIR_BOOT_ONE_NODE_H
#define WEIR_BOOT_ONE_NODE_H

#include <weir/weir.h>

/* Creates a TCP bootstrap whose unique id rank 0 leaves in a file that only this user can read. job
 * is the launcher's name of the job. The ranks must be children of one process, the launcher's.
 * Collective. WEIR_ERR_TIMEOUT if there is no file after WEIR_TIMEOUT_MS; WEIR_ERR_SYSTEM if it
 * cannot be written; else as weir_boot_tcp_create. */
weir_status weiri_boot_one_node_create(const char *job, int rank, int nranks, weir_boot **boot);

#endif
