/*
 * Communicators out of others. The ranks of a new one learn over the old one's
 * bootstrap who they are and get a unique id of their own; from there on a new
 * communicator is like any other and shares nothing with the old one.
 */
#include "nccl/gpu.h"
#include "nccl/init.h"

#include "base/error.h"
#include "boot/tcp.h"
#include "comm/split.h"

#include <stdlib.h>
#include <string.h>

/* A job's argument. */
typedef struct split {
    ncclComm_t parent;
    int color, key;
    ncclComm_t *made;
    int nexcluded; /* ncclCommShrink */
    int excluded[];
} split;

static ncclResult_t bear(const weiri_nccl_comm *comm, const weir_unique_id *id, int rank,
                         int nranks, ncclComm_t *made)
{
    const weiri_nccl_birth birth = {
        .id = *id, .rank = rank, .nranks = nranks, .device = comm->device, .made = made};
    return weiri_nccl_bear(&birth);
}

/* The group's first rank creates the unique id, and an exchange among all ranks of comm passes
 * it on. ids has an entry for each rank of comm. */
static ncclResult_t split_with(weiri_nccl_comm *comm, const split *wish, weiri_split_group *group,
                               weir_unique_id *ids)
{
    weir_status status = weiri_split_exchange(comm->boot, wish->color, wish->key, group);
    if (status != WEIR_OK)
        return weiri_nccl_result(status);
    if (group->count && group->rank == 0)
        status = weir_unique_id_create(&ids[comm->rank]);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, ids, sizeof *ids);
    if (status == WEIR_OK && group->count)
        return bear(comm, &ids[group->members[0]], group->rank, group->count, wish->made);
    const ncclResult_t result = weiri_nccl_result(status);
    if (status != WEIR_OK)
        weiri_boot_tcp_cancel(&ids[comm->rank]); /* all zero, and ignored, if none was created */
    return result;
}

static ncclResult_t refuse_vendor(void)
{
    return weiri_nccl_fail(ncclInvalidUsage,
                           "a communicator of the library fallen back to cannot be divided");
}

static ncclResult_t run_split(void *argument)
{
    const split *wish = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter(wish->parent);
    if (!comm)
        return ncclInvalidArgument;
    ncclResult_t result = ncclSystemError;
    weiri_split_group group = {.members = calloc((size_t)comm->nranks, sizeof *group.members)};
    weir_unique_id *ids = calloc((size_t)comm->nranks, sizeof *ids);
    if (comm->vendor)
        result = refuse_vendor();
    else if (group.members && ids)
        result = split_with(comm, wish, &group, ids);
    free(group.members);
    free(ids);
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
    ncclResult_t result = weiri_nccl_check_config(config);
    split *wish = NULL;
    if (result == ncclSuccess && (!newcomm || color < NCCL_SPLIT_NOCOLOR))
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommSplit: color %d", color);
    if (result == ncclSuccess && !(wish = malloc(sizeof *wish)))
        result = weiri_nccl_fail(ncclSystemError, "no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *newcomm = NULL;
    *wish = (split){.parent = comm, .color = color, .key = key, .made = newcomm};
    return weiri_nccl_do((weiri_nccl_job){run_split, wish, comm});
}
WEIRI_NCCL_ALIAS(CommSplit);

/* -------------------------------------------------------------------- shrink */

static int is_excluded(const split *wish, int rank)
{
    for (int i = 0; i < wish->nexcluded; i++)
        if (wish->excluded[i] == rank)
            return 1;
    return 0;
}

/* From the first of those that stay to the others: those that go do not take part. */
static weir_status pass_id(const weiri_nccl_comm *comm, const split *wish, int first,
                           weir_unique_id *id)
{
    weir_status status = WEIR_OK;
    if (comm->rank != first)
        return weir_boot_recv(comm->boot, id, sizeof *id, first, 1);
    status = weir_unique_id_create(id);
    for (int peer = first + 1; peer < comm->nranks && status == WEIR_OK; peer++)
        if (!is_excluded(wish, peer))
            status = weir_boot_send(comm->boot, id, sizeof *id, peer, 1);
    return status;
}

static ncclResult_t shrink(const weiri_nccl_comm *comm, const split *wish)
{
    int first = -1, place = 0, size = 0;
    weir_unique_id id = {{0}};
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (is_excluded(wish, rank))
            continue;
        first = first < 0 ? rank : first;
        place += rank < comm->rank;
        size++;
    }
    if (is_excluded(wish, comm->rank))
        return weiri_nccl_fail(ncclInvalidUsage, "ncclCommShrink: rank %d is excluded itself",
                               comm->rank);
    weir_status status = pass_id(comm, wish, first, &id);
    if (status == WEIR_OK)
        return bear(comm, &id, place, size, wish->made);
    const ncclResult_t result = weiri_nccl_result(status);
    weiri_boot_tcp_cancel(&id);
    return result;
}

static ncclResult_t run_shrink(void *argument)
{
    const split *wish = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter(wish->parent);
    if (!comm)
        return ncclInvalidArgument;
    ncclResult_t result = comm->vendor ? refuse_vendor() : shrink(comm, wish);
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                            ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    ncclResult_t result = weiri_nccl_check_config(config);
    split *wish = NULL;
    if (result == ncclSuccess && (!newcomm || excludeRanksCount < 1 || !excludeRanksList))
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommShrink: nobody is excluded");
    if (result == ncclSuccess && (shrinkFlags & NCCL_SHRINK_ABORT))
        result = ncclCommRevoke(comm, 0);
    if (result == ncclSuccess &&
        !(wish = malloc(sizeof *wish + (size_t)excludeRanksCount * sizeof(int))))
        result = weiri_nccl_fail(ncclSystemError, "no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *newcomm = NULL;
    *wish = (split){.parent = comm, .made = newcomm, .nexcluded = excludeRanksCount};
    memcpy(wish->excluded, excludeRanksList, (size_t)excludeRanksCount * sizeof(int));
    return weiri_nccl_do((weiri_nccl_job){run_shrink, wish, comm});
}
WEIRI_NCCL_ALIAS(CommShrink);
