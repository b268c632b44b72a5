/*
 * Groups: what a thread calls between ncclGroupStart and the end of the outermost group is kept,
 * and runs at that end. First the jobs run, which create communicators or otherwise communicate
 * with other ranks on the host (jobs.c). Then the calls of each communicator run. On the GPUs of
 * one node, where calls only launch kernels, one thread runs all of them; where calls wait for
 * other ranks, each communicator gets a thread if there are several.
 */
#include "nccl/calls/pending.h"

#include "coll/coll.h"
#include "comm/monitor/recorder.h"

#include <stdlib.h>

/* The calls of one communicator. */
typedef struct part {
    weiri_nccl_comm *comm;
    weiri_nccl_call *calls;
    size_t ncalls;
    int group; /* its number in recordings */
} part;

static ncclResult_t group_no_memory(void)
{
    return weiri_nccl_fail(ncclSystemError, "no memory for the calls of a group");
}

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
    weiri_recorder_set_group(mine->group);
    ncclResult_t result = group_run_collectives(mine, &has_p2p);
    if (result == ncclSuccess && has_p2p)
        result = weiri_nccl_result_of(mine->comm,
                                      weiri_nccl_p2p_run(mine->comm, mine->calls, mine->ncalls));
    weiri_recorder_set_group(-1);
    weiri_nccl_leave(mine->comm);
    mine->comm = NULL;
    return result;
}

/* Sorts the calls by communicator, each one's in order, into parts, and enters the communicators.
 * Returns the number of parts, or -1 if a handle is no longer valid. */
static int group_sort_calls(const weiri_nccl_pending *all, part *parts, weiri_nccl_call *sorted)
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

/* Whether the calls of a communicator only launch kernels. Between nodes, sends, receives and
 * one-sided calls block, and some collectives do. */
static int only_launches(const part *of)
{
    const weiri_nccl_comm *comm = of->comm;
    int launches = comm->device >= 0;
    for (size_t i = 0; launches && !comm->vendor && i < of->ncalls; i++)
        launches = of->calls[i].onesided || weiri_nccl_is_p2p(&of->calls[i])
                       ? weir_comm_nnodes(comm->comm) == 1
                       : !weiri_coll_waits(comm->comm, &of->calls[i].call);
    return launches;
}

static ncclResult_t group_run_parts(part *parts, size_t count)
{
    ncclResult_t result = ncclSuccess;
    int launches = 1;
    const int group = weiri_recorder_new_group();
    for (size_t i = 0; i < count; i++) {
        launches &= count == 1 || only_launches(&parts[i]);
        parts[i].group = group;
    }
    if (launches || count == 1) {
        for (size_t i = 0; i < count && result == ncclSuccess; i++)
            result = group_run_part(&parts[i]);
        return result;
    }
    weiri_nccl_worker *workers = calloc(count, sizeof *workers);
    if (!workers)
        return group_no_memory();
    for (size_t i = 0; i < count; i++) {
        workers[i].run = group_run_part;
        workers[i].argument = &parts[i];
    }
    result = weiri_nccl_workers_run(workers, count);
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
static ncclResult_t group_run_calls(const weiri_nccl_pending *all, float *estimate_us)
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

/* Ends a nesting level; the outermost one runs the group, or estimates its time as above. */
static ncclResult_t group_end(float *estimate_us)
{
    if (--weiri_nccl_this_thread.group_depth)
        return ncclSuccess;
    weiri_nccl_pending all = weiri_nccl_pending_take();
    ncclResult_t result = all.error;
    if (result == ncclSuccess) {
        result = weiri_nccl_do_all(all.jobs, all.njobs);
        all.njobs = 0;
    }
    if (!weiri_nccl_has_failed(result))
        result = weiri_nccl_worse_of(result, group_run_calls(&all, estimate_us));
    weiri_nccl_pending_free(&all);
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
    int is_known =
        simInfo && simInfo->size >= sizeof *simInfo && simInfo->magic == NCCL_SIM_INFO_MAGIC;
    if (!is_known)
        weiri_nccl_refuse(weiri_nccl_fail(ncclInvalidArgument,
                                          "ncclGroupSimulateEnd: simInfo is "
                                          "NULL, or not from NCCL_SIM_INFO_INITIALIZER"));
    return group_end(is_known ? &simInfo->estimatedTime : &ignored);
}
WEIRI_NCCL_ALIAS(GroupSimulateEnd);
