/* Threads of a rank that work at the same time: see crew.h. */
#include "bench/replay/crew.h"

#include "base/error.h"
#include "bench/replay/match.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct crew_member {
    replay_crew *crew;
    pthread_t thread;
    int lane;
    weir_status status;
} crew_member;

struct replay_crew {
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    uint64_t runs; /* that have begun */
    int running;   /* threads that have not ended the last run */
    int ends;      /* the threads are to return */
    replay_crew_work work;
    void *context;
    int nthreads;
    crew_member members[REPLAY_LANES_MAX];
};

static void *crew_thread(void *context)
{
    crew_member *member = context;
    replay_crew *crew = member->crew;
    pthread_mutex_lock(&crew->mutex);
    for (uint64_t seen = 0;;) {
        while (crew->runs == seen && !crew->ends)
            pthread_cond_wait(&crew->changed, &crew->mutex);
        if (crew->ends)
            break;
        seen = crew->runs;
        pthread_mutex_unlock(&crew->mutex);
        member->status = crew->work(crew->context, member->lane);
        pthread_mutex_lock(&crew->mutex);
        crew->running--;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

weir_status replay_crew_open(int count, replay_crew **made)
{
    replay_crew *crew = calloc(1, sizeof *crew);
    if (!crew)
        return replay_no_memory();
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->changed, NULL);
    *made = crew;
    for (int lane = 1; lane < count; lane++) {
        crew_member *member = &crew->members[crew->nthreads];
        *member = (crew_member){.crew = crew, .lane = lane};
        const int error = pthread_create(&member->thread, NULL, crew_thread, member);
        if (error)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, error, "cannot start a thread for each lane");
        crew->nthreads++;
    }
    return WEIR_OK;
}

weir_status replay_crew_run(replay_crew *crew, replay_crew_work work, void *context)
{
    pthread_mutex_lock(&crew->mutex);
    crew->work = work;
    crew->context = context;
    crew->runs++;
    crew->running = crew->nthreads;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->mutex);
    weir_status status = work(context, 0);
    pthread_mutex_lock(&crew->mutex);
    while (crew->running)
        pthread_cond_wait(&crew->changed, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
    for (int i = 0; i < crew->nthreads && status == WEIR_OK; i++)
        status = crew->members[i].status;
    return status;
}

void replay_crew_close(replay_crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew->ends = 1;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->mutex);
    for (int i = 0; i < crew->nthreads; i++)
        pthread_join(crew->members[i].thread, NULL);
    pthread_mutex_destroy(&crew->mutex);
    pthread_cond_destroy(&crew->changed);
    free(crew);
}
