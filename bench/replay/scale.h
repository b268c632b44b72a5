/* --ranks: a recording for another number of ranks. */
#ifndef BENCH_REPLAY_SCALE_H
#define BENCH_REPLAY_SCALE_H

#include "bench/replay/trace.h"

/* Makes the calls of nranks ranks from those of rank 0. There is a rule only if every communicator
 * has all ranks and every rank makes the same calls, without sends, receives and counts for each
 * rank. allreduce, broadcast, reduce and barrier stay as they are; of the others the larger buffer
 * keeps its size, rounded up to a whole element for each rank. A root must exist. WEIR_ERR_INVALID
 * if there is no rule; the error line names the call. */
weir_status replay_scale(replay_trace *trace, int nranks);

#endif
