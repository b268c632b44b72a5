/* Making and freeing this rank's regions; what weir_mem stands on. */
#ifndef WEIR_COMM_NODE_REGION_H
#define WEIR_COMM_NODE_REGION_H

#include "comm/comm.h"

/* Allocates a region of bytes (0 allowed), or on GPUs adopts a caller's memory,
 * and publishes it. id: its entry. */
weir_status weiri_region_create(weir_comm *comm, void *adopted, size_t bytes, int *id);
/* Withdraws and frees it. Peers keep their mappings until their next sweep. */
void weiri_region_free(weir_comm *comm, int id);

#endif
