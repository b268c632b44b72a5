/*
 * Groups: what a thread calls between ncclGroupStart and the end of the outermost group is kept,
 * and runs at that end. First the jobs run, which create communicators or otherwise communicate
 * with other ranks on the host; jobs on several communicators run in threads, because they may wait
 * for each other. Then the calls of each communicator run. On the GPUs of one node, where calls
 * only launch kernels, one thread runs all of them; where calls wait for other ranks, each
 * communicator gets a thread if there are several.
 */
#include "nccl/abi.h"

#include "coll/coll.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct group {
    ncclResult_t error; /* the result of the first call that was rejected */
    weiri_nccl_call *calls;
    size_t ncalls, calls_max; /* and how many fit */
    weiri_nccl_job *jobs;
    size_t njobs, jobs_max;
} group;

_Thread_local weiri_nccl_thread weiri_nccl_this_thread;
static _Thread_local group this_group;

ncclResult_t weiri_nccl_refuse(ncclResult_t result)
{
    if (weiri_nccl_this_thread.group_depth > 0 && this_group.error == ncclSuccess)
        this_group.error = result;
    return result;
}

/* Makes room for one more element in a list of `used`, in memory for `*most`. */
static int group_grow(void **list, size_t used, size_t *most, size_t each)
{
    if (used < *most)
        return 1;
    size_t more = *most ? 2 * *most : 32;
    void *longer = realloc(*list, more * each);
    if (!longer)
        return 0;
    *list = longer;
    *most = more;
    return 1;
}

static ncclResult_t group_no_memory(void)
{
    return weiri_nccl_refuse(
        weiri_nccl_fail(ncclSystemError, "no memory for the calls of a group"));
}

/* A launch waits for one event of each communicator. */
static int group_has_event(ncclComm_t handle)
{
    for (size_t i = 0; i < this_group.ncalls; i++)
        if (this_group.calls[i].event && this_group.calls[i].handle == handle)
            return 1;
    return 0;
}

ncclResult_t weiri_nccl_keep(const weiri_nccl_call *call)
{
    if (call->event && group_has_event(call->handle))
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidUsage, "a group has two calls with launchCompletionEvent on one "
                              "communicator; at most one may have it"));
    void *list = this_group.calls;
    if (!group_grow(&list, this_group.ncalls, &this_group.calls_max, sizeof *call))
        return group_no_memory();
    this_group.calls = list;
    this_group.calls[this_group.ncalls++] = *call;
    return ncclSuccess;
}

static void job_drop(const weiri_nccl_job *job)
{
    if (job->drop)
        job->drop(job->argument);
    free(job->argument);
}

ncclResult_t weiri_nccl_do(weiri_nccl_job job)
{
    if (!weiri_nccl_this_thread.group_depth)
        return weiri_nccl_do_all(&job, 1);
    void *list = this_group.jobs;
    if (!group_grow(&list, this_group.njobs, &this_group.jobs_max, sizeof job)) {
        job_drop(&job);
        return group_no_memory();
    }
    this_group.jobs = list;
    this_group.jobs[this_group.njobs++] = job;
    return ncclSuccess;
}

/* ------------------------------------------------------------------- threads */

typedef struct worker {
    pthread_t thread;
    int started;
    ncclResult_t (*run)(void *argument);
    void *argument;
    ncclResult_t result;
} worker;

static void *worker_main(void *opaque)
{
    worker *self = opaque;
    self->result = self->run(self->argument);
    return NULL;
}

/* The first failure of two results; ncclInProgress is none, but is reported. */
static ncclResult_t worse_of(ncclResult_t first, ncclResult_t second)
{
    if (first == ncclSuccess || (first == ncclInProgress && second != ncclSuccess))
        return second;
    return first;
}

static int has_failed(ncclResult_t result)
{
    return result != ncclSuccess && result != ncclInProgress;
}

/* Runs all workers concurrently, or a single one in this thread. Returns the first failure. */
static ncclResult_t run_workers(worker *workers, size_t count)
{
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < count; i++) {
        worker *one = &workers[i];
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
        result = worse_of(result, workers[i].result);
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
    const weiri_nccl_job *jobs; /* the jobs of the group, from the first of these on */
    size_t count;
} chain;

static ncclResult_t run_chain(void *opaque)
{
    const chain *mine = opaque;
    ncclResult_t result = run_job(mine->jobs);
    for (size_t i = 1; mine->jobs->on && i < mine->count && !has_failed(result); i++)
        if (mine->jobs[i].on == mine->jobs->on)
            result = worse_of(result, run_job(&mine->jobs[i]));
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
    worker *workers = calloc(count + 1, sizeof *workers);
    chain *chains = calloc(count + 1, sizeof *chains);
    for (size_t i = 0; workers && chains && i < count; i++) {
        if (!is_first_on_comm(jobs, i))
            continue;
        chains[nchains] = (chain){&jobs[i], count - i};
        workers[nchains].run = run_chain;
        workers[nchains].argument = &chains[nchains];
        nchains++;
    }
    result = workers && chains ? run_workers(workers, nchains) : group_no_memory();
    for (size_t i = 0; i < count; i++)
        free(jobs[i].argument);
    free(chains);
    free(workers);
    return result;
}

/* --------------------------------------------------------------------- calls */

/* The calls of one communicator. */
typedef struct part {
    weiri_nccl_comm *comm;
    weiri_nccl_call *calls;
    size_t ncalls;
} part;

static ncclResult_t group_run_collectives(const part *mine, int *has_p2p)
{
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < mine->ncalls && result == ncclSuccess; i++) {
        if (mine->calls[i].onesided)
            result = weiri_nccl_rma_run(mine->comm, &mine->calls[i]);
        else if (weiri_nccl_is_p2p(&mine->calls[i]))
            *has_p2p = 1;
        else
            result = weiri_nccl_run(mine->comm, &mine->calls[i]);
    }
    return result;
}

/* Runs the calls of one communicator, and then leaves it, so that an abort of this communicator
 * need not wait for the other parts. */
static ncclResult_t group_run_part(void *opaque)
{
    part *mine = opaque;
    int has_p2p = 0;
    ncclResult_t result = group_run_collectives(mine, &has_p2p);
    if (result == ncclSuccess && has_p2p)
        result = weiri_nccl_result_of(
            mine->comm, weiri_nccl_p2p_run(mine->comm, mine->calls, mine->ncalls));
    weiri_nccl_leave(mine->comm);
    mine->comm = NULL;
    return result;
}

/* Sorts the calls by communicator, each one's in order, into parts, and enters the communicators.
 * Returns the number of parts, or -1 if a handle is no longer valid. */
static int group_sort_calls(const group *all, part *parts, weiri_nccl_call *sorted)
{
    int count = 0;
    size_t filled = 0;
    for (size_t i = 0; i < all->ncalls; i++) {
        ncclComm_t handle = all->calls[i].handle;
        size_t before = 0;
        while (before < i && all->calls[before].handle != handle)
            before++;
        if (before < i)
            continue;
        part *mine = &parts[count];
        mine->comm = weiri_nccl_enter(handle);
        if (!mine->comm)
            break;
        count++;
        mine->calls = &sorted[filled];
        for (size_t j = i; j < all->ncalls; j++)
            if (all->calls[j].handle == handle)
                sorted[filled++] = all->calls[j];
        mine->ncalls = filled - (size_t)(mine->calls - sorted);
    }
    if (filled == all->ncalls)
        return count;
    while (count > 0)
        weiri_nccl_leave(parts[--count].comm);
    return -1;
}

/* Whether the calls of a communicator only launch kernels. Between nodes they block, also on GPUs;
 * and so do the first calls that a plan of a tuning table serves. */
static int only_launches(const part *of)
{
    const weiri_nccl_comm *comm = of->comm;
    int launches = comm->device >= 0 && (comm->vendor || weir_comm_nnodes(comm->comm) == 1);
    for (size_t i = 0; launches && !comm->vendor && i < of->ncalls; i++)
        launches = of->calls[i].onesided || weiri_nccl_is_p2p(&of->calls[i]) ||
                   !weiri_coll_waits(comm->comm, &of->calls[i].call);
    return launches;
}

static ncclResult_t group_run_parts(part *parts, size_t count)
{
    ncclResult_t result = ncclSuccess;
    int launches = 1;
    for (size_t i = 0; i < count; i++)
        launches &= count == 1 || only_launches(&parts[i]);
    if (launches || count == 1) {
        for (size_t i = 0; i < count && result == ncclSuccess; i++)
            result = group_run_part(&parts[i]);
        return result;
    }
    worker *workers = calloc(count, sizeof *workers);
    if (!workers)
        return group_no_memory();
    for (size_t i = 0; i < count; i++) {
        workers[i].run = group_run_part;
        workers[i].argument = &parts[i];
    }
    result = run_workers(workers, count);
    free(workers);
    return result;
}

/* The longest estimate, because communicators run concurrently; negative if one is unknown. */
static float group_estimate_parts(const part *parts, size_t count)
{
    float longest = 0;
    for (size_t i = 0; i < count; i++) {
        float us = weiri_nccl_estimate(parts[i].comm, parts[i].calls, parts[i].ncalls);
        if (us < 0)
            return us;
        longest = us > longest ? us : longest;
    }
    return longest;
}

/* Runs the calls of a group or, if estimate_us is not NULL, estimates their time instead. */
static ncclResult_t group_run_calls(const group *all, float *estimate_us)
{
    ncclResult_t result = ncclSuccess;
    if (estimate_us)
        *estimate_us = 0;
    if (!all->ncalls)
        return result;
    part *parts = calloc(all->ncalls, sizeof *parts);
    weiri_nccl_call *sorted = calloc(all->ncalls, sizeof *sorted);
    int count = -1;
    if (!parts || !sorted)
        result = group_no_memory();
    else if ((count = group_sort_calls(all, parts, sorted)) < 0)
        result = weiri_nccl_not_entered(); /* the error text is set already */
    else if (estimate_us)
        *estimate_us = group_estimate_parts(parts, (size_t)count);
    else
        result = group_run_parts(parts, (size_t)count);
    while (count-- > 0)
        if (parts[count].comm) /* has not run */
            weiri_nccl_leave(parts[count].comm);
    free(sorted);
    free(parts);
    return result;
}

ncclResult_t ncclGroupStart(void)
{
    weiri_nccl_this_thread.group_depth++;
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(GroupStart);

/* Frees the calls, and the jobs that have not run. */
static void group_free(const group *all)
{
    for (size_t i = 0; i < all->njobs; i++)
        job_drop(&all->jobs[i]);
    for (size_t i = 0; i < all->ncalls; i++)
        weiri_nccl_rma_free(all->calls[i].onesided);
    free(all->calls);
    free(all->jobs);
}

/* Ends a nesting level; the outermost one runs the group, or estimates its time as above. */
static ncclResult_t group_end(float *estimate_us)
{
    if (--weiri_nccl_this_thread.group_depth)
        return ncclSuccess;
    group all = this_group;
    memset(&this_group, 0, sizeof this_group);
    ncclResult_t result = all.error;
    if (result == ncclSuccess) {
        result = weiri_nccl_do_all(all.jobs, all.njobs);
        all.njobs = 0;
    }
    if (!has_failed(result))
        result = worse_of(result, group_run_calls(&all, estimate_us));
    group_free(&all);
    return result;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!weiri_nccl_this_thread.group_depth)
        return weiri_nccl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    return group_end(NULL);
}
WEIRI_NCCL_ALIAS(GroupEnd);

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
    float ignored;
    if (!weiri_nccl_this_thread.group_depth)
        return weiri_nccl_fail(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
    int is_known = simInfo && simInfo->size >= sizeof *simInfo &&
                   simInfo->magic == NCCL_SIM_INFO_MAGIC;
    if (!is_known)
        weiri_nccl_refuse(weiri_nccl_fail(ncclInvalidArgument, "ncclGroupSimulateEnd: simInfo is "
                                          "NULL, or not from NCCL_SIM_INFO_INITIALIZER"));
    return group_end(is_known ? &simInfo->estimatedTime : &ignored);
}
WEIRI_NCCL_ALIAS(GroupSimulateEnd);
