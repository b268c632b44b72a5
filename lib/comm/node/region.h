/* Creating and freeing this rank's regions, on which weir_mem is based. */
#ifndef WEIR_COMM_NODE_REGION_H
#define WEIR_COMM_NODE_REGION_H

#include "comm/comm.h"

/* Allocates a region of `bytes` (may be 0), or on the cuda backend adopts the caller's memory, and
 * publishes it in the directory entry *id. is_reserved: host memory, whose pages get memory when
 * weiri_region_back is called for them. */
weir_status weiri_region_create(weir_comm *comm, void *adopted, size_t bytes, int is_reserved,
                                int *id);
/* Backs a range of a reserved region with memory, and what is in the same pages.
 * WEIR_ERR_NO_MEMORY.
 */
weir_status weiri_region_back(const weir_comm *comm, int id, size_t at, size_t bytes);
/* Withdraws and frees a region. Peers keep their mappings until their next sweep. */
void weiri_region_free(weir_comm *comm, int id);

#endif
