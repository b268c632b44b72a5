/* The last step of reading a recorded job: what no single file shows. */
#ifndef BENCH_REPLAY_COMPLETE_H
#define BENCH_REPLAY_COMPLETE_H

#include "bench/replay/read.h"

/* Numbers ranks without gaps, removes communicators without calls, checks each call by itself, and
 * lets times begin at 0. WEIR_ERR_INVALID: a rank's recording is missing, or a call is impossible;
 * the error line names file and line. */
weir_status replay_complete(replay_reader *reader);

#endif
