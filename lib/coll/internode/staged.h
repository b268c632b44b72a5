/* Calls across machines on buffers of GPUs. */
#ifndef WEIR_COLL_INTERNODE_STAGED_H
#define WEIR_COLL_INTERNODE_STAGED_H

#include "coll/coll.h"

/* Runs a call whose buffers are a GPU's by its choice's algorithm, as far as that needs it
 * on copies in host memory. size_bytes: what the tuning table counts. Blocking: the stream's
 * work before it ends first, and the output is complete when it returns. */
weir_status weiri_internode_coll_gpu(weiri_coll *coll, const weir_call *call, size_t size_bytes);

#endif
