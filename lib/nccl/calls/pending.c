/* The calls and jobs that a thread's group keeps until it ends. */
#include "nccl/calls/pending.h"

#include <stdlib.h>
#include <string.h>

_Thread_local weiri_nccl_thread weiri_nccl_this_thread;
static _Thread_local weiri_nccl_pending this_group;

ncclResult_t weiri_nccl_refuse(ncclResult_t result)
{
    if (weiri_nccl_this_thread.group_depth > 0 && this_group.error == ncclSuccess)
        this_group.error = result;
    return result;
}

/* Makes room for one more element in a list of `used`, in memory for `*most`. */
static int pending_grow(void **list, size_t used, size_t *most, size_t each)
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

static ncclResult_t pending_no_memory(void)
{
    return weiri_nccl_refuse(
        weiri_nccl_fail(ncclSystemError, "no memory for the calls of a group"));
}

/* A launch waits for one event of each communicator. */
static int pending_has_event(ncclComm_t handle)
{
    for (size_t i = 0; i < this_group.ncalls; i++)
        if (this_group.calls[i].event && this_group.calls[i].handle == handle)
            return 1;
    return 0;
}

ncclResult_t weiri_nccl_keep(const weiri_nccl_call *call)
{
    if (call->event && pending_has_event(call->handle))
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidUsage, "a group has two calls with launchCompletionEvent on one "
                              "communicator; at most one may have it"));
    void *list = this_group.calls;
    if (!pending_grow(&list, this_group.ncalls, &this_group.calls_max, sizeof *call))
        return pending_no_memory();
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
    if (!pending_grow(&list, this_group.njobs, &this_group.jobs_max, sizeof job)) {
        job_drop(&job);
        return pending_no_memory();
    }
    this_group.jobs = list;
    this_group.jobs[this_group.njobs++] = job;
    return ncclSuccess;
}

weiri_nccl_pending weiri_nccl_pending_take(void)
{
    const weiri_nccl_pending taken = this_group;
    memset(&this_group, 0, sizeof this_group);
    return taken;
}

void weiri_nccl_pending_free(const weiri_nccl_pending *all)
{
    for (size_t i = 0; i < all->njobs; i++)
        job_drop(&all->jobs[i]);
    for (size_t i = 0; i < all->ncalls; i++)
        free(all->calls[i].onesided);
    free(all->calls);
    free(all->jobs);
}
