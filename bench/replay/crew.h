/* Threads of a rank that work at the same time, one for each lane of a recording. */
#ifndef BENCH_REPLAY_CREW_H
#define BENCH_REPLAY_CREW_H

#include <weir/weir.h>

typedef struct replay_crew replay_crew;

typedef weir_status (*replay_crew_work)(void *context, int lane);

/* Starts the threads of lanes 1 to count - 1; lane 0 is the caller's. Local. WEIR_ERR_NO_MEMORY or
 * WEIR_ERR_SYSTEM. Release with replay_crew_close. */
weir_status replay_crew_open(int count, replay_crew **crew);
/* Runs the work of every lane at once. Blocks until all have ended; returns the first failure of
 * the lowest lane. */
weir_status replay_crew_run(replay_crew *crew, replay_crew_work work, void *context);
/* crew may be NULL. */
void replay_crew_close(replay_crew *crew);

#endif
