/* Threads of a rank that work at the same time: see crew.h. */
#include "bench/replay/crew.h"

#include "base/error.h"
#include "bench/replay/match.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

typedef struct crew_member {
    replay_crew *crew;
    pthread_t thread;
    sem_t begins; /* a run, or the end of the thread */
    int lane;
    weir_status status;
} crew_member;

struct replay_crew {
    sem_t ended;           /* counts members that have ended the run */
    replay_crew_work work; /* NULL: the threads are to return */
    void *context;
    int nthreads;
    crew_member members[REPLAY_LANES_MAX];
};

static void crew_wait(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue; /* interrupted by a signal */
}

static void *crew_thread(void *context)
{
    crew_member *member = context;
    replay_crew *crew = member->crew;
    for (crew_wait(&member->begins); crew->work; crew_wait(&member->begins)) {
        member->status = crew->work(crew->context, member->lane);
        sem_post(&crew->ended);
    }
    return NULL;
}

weir_status replay_crew_open(int count, replay_crew **made)
{
    replay_crew *crew = *made = calloc(1, sizeof *crew);
    if (!crew)
        return replay_no_memory();
    sem_init(&crew->ended, 0, 0);
    for (int lane = 1; lane < count; lane++) {
        crew_member *member = &crew->members[crew->nthreads];
        *member = (crew_member){.crew = crew, .lane = lane};
        sem_init(&member->begins, 0, 0);
        const int error = pthread_create(&member->thread, NULL, crew_thread, member);
        if (error)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, error, "cannot start a thread for each lane");
        crew->nthreads++;
    }
    return WEIR_OK;
}

static void crew_begin(replay_crew *crew, replay_crew_work work, void *context)
{
    crew->work = work;
    crew->context = context;
    for (int i = 0; i < crew->nthreads; i++)
        sem_post(&crew->members[i].begins);
}

weir_status replay_crew_run(replay_crew *crew, replay_crew_work work, void *context)
{
    crew_begin(crew, work, context);
    weir_status status = work(context, 0);
    for (int i = 0; i < crew->nthreads; i++)
        crew_wait(&crew->ended);
    for (int i = 0; i < crew->nthreads && status == WEIR_OK; i++)
        status = crew->members[i].status;
    return status;
}

void replay_crew_close(replay_crew *crew)
{
    if (!crew)
        return;
    crew_begin(crew, NULL, NULL);
    for (int i = 0; i < crew->nthreads; i++)
        pthread_join(crew->members[i].thread, NULL);
    free(crew);
}
