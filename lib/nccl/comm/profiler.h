/* What libweir_nccl.so adds to the monitoring of communicators (comm/monitor): sends and receives,
 * NCCL's variables, and the answer to a profiler plug-in. */
#ifndef WEIR_NCCL_PROFILER_H
#define WEIR_NCCL_PROFILER_H

#include "nccl/abi.h"

/* Before the first communicator is created; further calls have no effect. */
void weiri_nccl_profiler_start(void);

/* Runs the sends and receives of a group by serve, counts and times them. */
typedef weir_status weiri_nccl_serve(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                     size_t count);
weir_status weiri_nccl_p2p_monitored(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                     size_t count, weiri_nccl_serve *serve);

#endif
