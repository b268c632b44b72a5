/* The TCP bootstrap of launchers that name rank 0's host: torchrun and Slurm. */
#ifndef WEIR_BOOT_BY_NAME_H
#define WEIR_BOOT_BY_NAME_H

#include "base/env.h"

/* Where a launcher's variables say that rank 0 runs. */
typedef struct weiri_named_root {
    weiri_env_key variable; /* that has the host, for error lines */
    const char *host;       /* a name or an address */
    int port;
    char job[128]; /* what differs between jobs and is the same in all ranks: part of the key */
} weiri_named_root;

/* Reads a variable that must be set. WEIR_ERR_INVALID otherwise: the line says that `setters` set
 * it ("torchrun sets RANK, ..."); or if it is not a number from low to high. */
weir_status weiri_launch_number(weiri_env_key key, long low, long high, const char *setters,
                                int *number);
/* Creates the bootstrap; the host's name is resolved, IPv4 before IPv6. If the name resolves to the
 * loopback interface, as a host's own name does on Debian, rank 0 listens on every interface, and
 * the ranks of its node use the address that the others reach. Collective. WEIR_ERR_SYSTEM if the
 * name cannot be resolved; else as weir_boot_tcp_create_at. */
weir_status weiri_boot_by_name_create(const weiri_named_root *root, int rank, int nranks,
                                      weir_boot **boot);

#endif
