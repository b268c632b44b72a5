/*
 * Jobs: work that communicates with other ranks on the host. Jobs on several communicators run in
 * threads, because they may wait for each other; jobs on one communicator take turns.
 */
#include "nccl/calls/pending.h"

#include <stdlib.h>
#include <time.h>

static void *worker_main(void *opaque)
{
    weiri_nccl_worker *self = opaque;
    self->result = self->run(self->argument);
    return NULL;
}

ncclResult_t weiri_nccl_workers_run(weiri_nccl_worker *workers, size_t count)
{
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < count; i++) {
        weiri_nccl_worker *one = &workers[i];
        one->started = count > 1 && pthread_create(&one->thread, NULL, worker_main, one) == 0;
        if (count > 1 && !one->started)
            one->result = weiri_nccl_fail(ncclSystemError,
                                          "cannot start a thread for a communicator of the group");
    }
    if (count == 1)
        worker_main(workers);
    for (size_t i = 0; i < count; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
        result = weiri_nccl_worse_of(result, workers[i].result);
    }
    return result;
}

weiri_nccl_comm *weiri_nccl_turn_take(ncclComm_t handle, unsigned *turn)
{
    weiri_nccl_comm *comm = handle ? weiri_nccl_enter_opened(handle) : NULL;
    if (!comm)
        return NULL;
    atomic_fetch_add(&comm->jobs, 1);
    *turn = atomic_fetch_add(&comm->turns_taken, 1);
    return comm;
}

void weiri_nccl_turn_begin(weiri_nccl_comm *comm, unsigned turn)
{
    const struct timespec nap = {.tv_nsec = 100000};
    while (atomic_load(&comm->turn) != turn)
        nanosleep(&nap, NULL); /* a job in the background creates a communicator */
}

void weiri_nccl_turn_end(weiri_nccl_comm *comm)
{
    atomic_fetch_add(&comm->turn, 1);
    atomic_fetch_sub(&comm->jobs, 1);
    weiri_nccl_leave(comm);
}

/* Runs a job in its turn. If its communicator is gone, the job finds that out. */
static ncclResult_t run_job(const weiri_nccl_job *job)
{
    unsigned turn = 0;
    weiri_nccl_comm *on = job->takes_turn ? NULL : weiri_nccl_turn_take(job->on, &turn);
    if (!on)
        return job->run(job->argument);
    weiri_nccl_turn_begin(on, turn);
    ncclResult_t result = job->run(job->argument);
    weiri_nccl_turn_end(on);
    return result;
}

/* The jobs on one communicator. */
typedef struct chain {
    const weiri_nccl_job *jobs; /* the group's jobs from this communicator's first job on */
    size_t count;
} chain;

static ncclResult_t run_chain(void *opaque)
{
    const chain *mine = opaque;
    ncclResult_t result = run_job(mine->jobs);
    for (size_t i = 1; mine->jobs->on && i < mine->count && !weiri_nccl_has_failed(result); i++)
        if (mine->jobs[i].on == mine->jobs->on)
            result = weiri_nccl_worse_of(result, run_job(&mine->jobs[i]));
    return result;
}

static int is_first_on_comm(const weiri_nccl_job *jobs, size_t index)
{
    for (size_t i = 0; jobs[index].on && i < index; i++)
        if (jobs[i].on == jobs[index].on)
            return 0;
    return 1;
}

ncclResult_t weiri_nccl_do_all(const weiri_nccl_job *jobs, size_t count)
{
    ncclResult_t result = ncclSuccess;
    size_t nchains = 0;
    if (count == 1) { /* needs no memory, for lack of which other ranks would wait */
        result = run_job(jobs);
        free(jobs->argument);
        return result;
    }
    weiri_nccl_worker *workers = calloc(count + 1, sizeof *workers);
    chain *chains = calloc(count + 1, sizeof *chains);
    for (size_t i = 0; workers && chains && i < count; i++) {
        if (!is_first_on_comm(jobs, i))
            continue;
        chains[nchains] = (chain){&jobs[i], count - i};
        workers[nchains].run = run_chain;
        workers[nchains].argument = &chains[nchains];
        nchains++;
    }
    result = workers && chains
                 ? weiri_nccl_workers_run(workers, nchains)
                 : weiri_nccl_fail(ncclSystemError, "no memory for the jobs of a group");
    for (size_t i = 0; i < count; i++)
        free(jobs[i].argument);
    free(chains);
    free(workers);
    return result;
}
