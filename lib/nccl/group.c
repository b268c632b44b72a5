/*
 * Groups: what a thread calls between ncclGroupStart and the end of the outermost group is kept,
 * and runs at that end. First the jobs run, which create communicators or otherwise communicate
 * with other ranks on the host; jobs on several communicators run in threads, because they may wait
 * for each other. Then the calls of each communicator run. On the GPUs of one node, where calls
 * only launch kernels, one thread runs all of them; where calls wait for other ranks, each
 * communicator gets a thread if there are several.
 */
#include "nccl/abi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct group {
    int depth;
    ncclResult_t error; /* of the first call that was rejected */
    weiri_nccl_call *calls;
    size_t ncalls, call_room;
    weiri_nccl_job *jobs;
    size_t njobs, job_room;
} group;

static _Thread_local group current;

int weiri_nccl_in_group(void)
{
    return current.depth > 0;
}

ncclResult_t weiri_nccl_refuse(ncclResult_t result)
{
    if (current.depth > 0 && current.error == ncclSuccess)
        current.error = result;
    return result;
}

/* Makes room for one more. */
static int grow(void **list, size_t used, size_t *room, size_t each)
{
    if (used < *room)
        return 1;
    size_t more = *room ? 2 * *room : 32;
    void *longer = realloc(*list, more * each);
    if (!longer)
        return 0;
    *list = longer;
    *room = more;
    return 1;
}

static ncclResult_t no_memory(void)
{
    return weiri_nccl_refuse(weiri_nccl_fail(ncclSystemError, "no memory for a group's calls"));
}

ncclResult_t weiri_nccl_keep(const weiri_nccl_call *call)
{
    void *list = current.calls;
    if (!grow(&list, current.ncalls, &current.call_room, sizeof *call))
        return no_memory();
    current.calls = list;
    current.calls[current.ncalls++] = *call;
    return ncclSuccess;
}

ncclResult_t weiri_nccl_do(weiri_nccl_job job)
{
    if (!current.depth)
        return weiri_nccl_do_all(&job, 1);
    void *list = current.jobs;
    if (!grow(&list, current.njobs, &current.job_room, sizeof job)) {
        free(job.argument);
        return no_memory();
    }
    current.jobs = list;
    current.jobs[current.njobs++] = job;
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

static void *work(void *opaque)
{
    worker *self = opaque;
    self->result = self->run(self->argument);
    return NULL;
}

/* All at once, or the only one here; the first failure. */
static ncclResult_t run_workers(worker *workers, size_t count)
{
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < count; i++) {
        worker *one = &workers[i];
        one->started = count > 1 && pthread_create(&one->thread, NULL, work, one) == 0;
        if (count > 1 && !one->started)
            one->result = weiri_nccl_fail(ncclSystemError, "no thread for a rank of the group");
    }
    if (count == 1)
        work(workers);
    for (size_t i = 0; i < count; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
        if (result == ncclSuccess)
            result = workers[i].result;
    }
    return result;
}

/* Jobs on one communicator. */
typedef struct chain {
    const weiri_nccl_job *jobs; /* all there are, from the first of these on */
    size_t count;
} chain;

static ncclResult_t run_chain(void *opaque)
{
    const chain *mine = opaque;
    ncclResult_t result = mine->jobs->run(mine->jobs->argument);
    for (size_t i = 1; mine->jobs->on && i < mine->count && result == ncclSuccess; i++)
        if (mine->jobs[i].on == mine->jobs->on)
            result = mine->jobs[i].run(mine->jobs[i].argument);
    return result;
}

static int is_first(const weiri_nccl_job *jobs, size_t index)
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
        if (!is_first(jobs, i))
            continue;
        chains[nchains] = (chain){&jobs[i], count - i};
        workers[nchains].run = run_chain;
        workers[nchains].argument = &chains[nchains];
        nchains++;
    }
    result = workers && chains ? run_workers(workers, nchains) : no_memory();
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

static ncclResult_t run_collectives(const part *mine, int *has_p2p)
{
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < mine->ncalls && result == ncclSuccess; i++) {
        if (weiri_nccl_is_p2p(&mine->calls[i]))
            *has_p2p = 1;
        else
            result = weiri_nccl_run(mine->comm, &mine->calls[i]);
    }
    return result;
}

/* Leaves the communicator behind it: its abort is not to wait for other parts. */
static ncclResult_t run_part(void *opaque)
{
    part *mine = opaque;
    int has_p2p = 0;
    ncclResult_t result = run_collectives(mine, &has_p2p);
    if (result == ncclSuccess && has_p2p)
        result = weiri_nccl_result_of(
            mine->comm, weiri_nccl_p2p_run(mine->comm, mine->calls, mine->ncalls));
    weiri_nccl_leave(mine->comm);
    mine->comm = NULL;
    return result;
}

/* Puts each communicator's calls together, in order; how many communicators, or -1. */
static int divide(const group *all, part *parts, weiri_nccl_call *sorted)
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

/* Whether calls only launch kernels. Across nodes they wait, also on GPUs. */
static int waits_for_nobody(const weiri_nccl_comm *comm)
{
    return comm->device >= 0 && (comm->vendor || weir_comm_nnodes(comm->comm) == 1);
}

static ncclResult_t run_parts(part *parts, size_t count)
{
    ncclResult_t result = ncclSuccess;
    int launches = 1;
    for (size_t i = 0; i < count; i++)
        launches &= waits_for_nobody(parts[i].comm);
    if (launches || count == 1) {
        for (size_t i = 0; i < count && result == ncclSuccess; i++)
            result = run_part(&parts[i]);
        return result;
    }
    worker *workers = calloc(count, sizeof *workers);
    if (!workers)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        workers[i].run = run_part;
        workers[i].argument = &parts[i];
    }
    result = run_workers(workers, count);
    free(workers);
    return result;
}

/* Communicators run concurrently; negative if one's time is unknown. */
static float estimate_parts(const part *parts, size_t count)
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

/* Runs a group's calls or, where estimate_us is not NULL, stores what they would take. */
static ncclResult_t run_calls(const group *all, float *estimate_us)
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
        result = no_memory();
    else if ((count = divide(all, parts, sorted)) < 0)
        result = ncclInvalidArgument; /* the error text is set already */
    else if (estimate_us)
        *estimate_us = estimate_parts(parts, (size_t)count);
    else
        result = run_parts(parts, (size_t)count);
    while (count-- > 0)
        if (parts[count].comm) /* it has not run */
            weiri_nccl_leave(parts[count].comm);
    free(sorted);
    free(parts);
    return result;
}

ncclResult_t ncclGroupStart(void)
{
    current.depth++;
    return ncclSuccess;
}
WEIRI_NCCL_ALIAS(GroupStart);

/* Jobs that have not run, and calls. */
static void drop(const group *all)
{
    for (size_t i = 0; i < all->njobs; i++)
        free(all->jobs[i].argument);
    free(all->calls);
    free(all->jobs);
}

/* Ends a group that began; likewise. */
static ncclResult_t end(float *estimate_us)
{
    if (--current.depth)
        return ncclSuccess;
    group all = current;
    memset(&current, 0, sizeof current);
    ncclResult_t result = all.error;
    if (result == ncclSuccess) {
        result = weiri_nccl_do_all(all.jobs, all.njobs);
        all.njobs = 0;
    }
    if (result == ncclSuccess)
        result = run_calls(&all, estimate_us);
    drop(&all);
    return result;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!current.depth)
        return weiri_nccl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    return end(NULL);
}
WEIRI_NCCL_ALIAS(GroupEnd);

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
    float ignored;
    if (!current.depth)
        return weiri_nccl_fail(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
    int is_known = simInfo && simInfo->size >= sizeof *simInfo &&
                   simInfo->magic == NCCL_SIM_INFO_MAGIC;
    if (!is_known)
        weiri_nccl_refuse(weiri_nccl_fail(ncclInvalidArgument, "ncclGroupSimulateEnd: simInfo is "
                                          "NULL, or not from NCCL_SIM_INFO_INITIALIZER"));
    return end(is_known ? &simInfo->estimatedTime : &ignored);
}
WEIRI_NCCL_ALIAS(GroupSimulateEnd);
