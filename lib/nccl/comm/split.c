/*
 * Deriving communicators from others. The ranks of a new communicator learn their new ranks over
 * the old one's bootstrap and get a new unique id; the new communicator shares nothing with the old
 * one.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/comm/init.h"

#include "base/error.h"
#include "boot/tcp.h"
#include "comm/split.h"

#include <stdlib.h>
#include <string.h>

/* The argument of a job. */
typedef struct split {
    ncclComm_t parent;
    int color, key;
    ncclComm_t *made;
    weiri_nccl_settings settings;
    weiri_nccl_comm *own; /* as in weiri_nccl_comm_request */
    int nexcluded;        /* ncclCommShrink */
    int excluded[];
} split;

static ncclResult_t create_part(const weiri_nccl_comm *comm, const split *request,
                                const weir_unique_id *id, int rank, int nranks,
                                weiri_nccl_comm *reserved)
{
    const weiri_nccl_comm_request part = {.id = *id,
                                          .rank = rank,
                                          .nranks = nranks,
                                          .device = comm->device,
                                          .settings = request->settings,
                                          .own = request->own,
                                          .reserved = reserved,
                                          .made = request->made};
    return weiri_nccl_comm_create(&part);
}

/* The settings of a communicator derived from a parent, which is checked when they are needed. */
static ncclResult_t read_part_config(ncclComm_t parent, const ncclConfig_t *config,
                                     weiri_nccl_settings *settings)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(parent);
    if (!comm)
        return weiri_nccl_not_entered();
    ncclResult_t result = weiri_nccl_read_config(config, &comm->settings, settings);
    weiri_nccl_leave(comm);
    return result;
}

/* The group's first rank creates the unique id, and an exchange among all ranks of comm passes
 * it on. ids has an entry for each rank of comm. All ranks fail if one has no memory. */
static ncclResult_t split_with(weiri_nccl_comm *comm, const split *request,
                               weiri_split_group *group, weir_unique_id *ids)
{
    weir_status status = weiri_split_exchange(comm->boot, request->color, request->key, group);
    if (status != WEIR_OK)
        return weiri_nccl_result(status);
    weiri_nccl_comm *reserved = weiri_nccl_comm_reserve(request->own, &request->settings);
    status = reserved ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a communicator");
    if (status == WEIR_OK && group->count && group->rank == 0)
        status = weir_unique_id_create(&ids[comm->rank]);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, ids, sizeof *ids);
    if (status == WEIR_OK && group->count)
        return create_part(comm, request, &ids[group->members[0]], group->rank, group->count,
                           reserved);
    const ncclResult_t result = weiri_nccl_result(status);
    if (status != WEIR_OK)
        weiri_boot_tcp_cancel(&ids[comm->rank]); /* all zero, and ignored, if none was created */
    weiri_nccl_comm_unreserve(request->own, reserved);
    return result;
}

static ncclResult_t refuse_to_divide_vendor(const char *name)
{
    return weiri_nccl_fail(ncclInvalidUsage,
                           "%s: a communicator of the fallback library cannot be divided", name);
}

static ncclResult_t run_split(void *argument)
{
    const split *request = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter(request->parent);
    if (!comm)
        return weiri_nccl_not_entered();
    weir_unique_id *ids = calloc((size_t)comm->nranks, sizeof *ids);
    weiri_split_group group = {.members = ids ? calloc((size_t)comm->nranks, sizeof *group.members)
                                              : NULL};
    ncclResult_t result = comm->vendor ? refuse_to_divide_vendor("ncclCommSplit")
                                       : split_with(comm, request, &group, ids);
    free(group.members);
    free(ids);
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
    weiri_nccl_settings settings;
    ncclResult_t result = read_part_config(comm, config, &settings);
    split *request = NULL;
    if (result == ncclSuccess && !newcomm)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
    if (result == ncclSuccess && color < NCCL_SPLIT_NOCOLOR)
        result =
            weiri_nccl_fail(ncclInvalidArgument,
                            "ncclCommSplit: color %d; expected >= 0 or NCCL_SPLIT_NOCOLOR", color);
    if (result == ncclSuccess && !(request = malloc(sizeof *request)))
        result = weiri_nccl_fail(ncclSystemError, "ncclCommSplit: no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *newcomm = NULL;
    if (color == NCCL_SPLIT_NOCOLOR)
        settings.blocking = 1; /* nothing is created */
    *request =
        (split){.parent = comm, .color = color, .key = key, .made = newcomm, .settings = settings};
    return weiri_nccl_do_create((weiri_nccl_job){run_split, request, comm, NULL, 0}, &settings,
                                &request->own, newcomm);
}
WEIRI_NCCL_ALIAS(CommSplit);

/* ------------------------------------------------------------------ shrinking */

static int is_excluded(const split *request, int rank)
{
    for (int i = 0; i < request->nexcluded; i++)
        if (request->excluded[i] == rank)
            return 1;
    return 0;
}

/* Sends the id from the first remaining rank to the others; excluded ranks do not take part. An id
 * of zeros says that the first rank could not create one. */
static weir_status distribute_id(const weiri_nccl_comm *comm, const split *request, int first,
                                 weir_unique_id *id)
{
    static const weir_unique_id none;
    weir_status status = WEIR_OK;
    if (comm->rank != first) {
        status = weir_boot_recv(comm->boot, id, sizeof *id, first, 1);
        if (status == WEIR_OK && memcmp(id, &none, sizeof none) == 0)
            status = weiri_fail(WEIR_ERR_PEER,
                                "ncclCommShrink: rank %d could not create the id of "
                                "the new communicator; its error says why",
                                first);
        return status;
    }
    status = weir_unique_id_create(id);
    for (int peer = first + 1; peer < comm->nranks; peer++) {
        if (is_excluded(request, peer))
            continue;
        const weir_status sent =
            weir_boot_send(comm->boot, status == WEIR_OK ? id : &none, sizeof *id, peer, 1);
        if (status == WEIR_OK)
            status = sent;
    }
    return status;
}

static ncclResult_t shrink_with(const weiri_nccl_comm *comm, const split *request)
{
    int first = -1, new_rank = 0, size = 0;
    weir_unique_id id = {{0}};
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (is_excluded(request, rank))
            continue;
        first = first < 0 ? rank : first;
        new_rank += rank < comm->rank;
        size++;
    }
    if (is_excluded(request, comm->rank))
        return weiri_nccl_fail(ncclInvalidUsage, "ncclCommShrink: rank %d is excluded itself",
                               comm->rank);
    weir_status status = distribute_id(comm, request, first, &id);
    if (status == WEIR_OK)
        return create_part(comm, request, &id, new_rank, size, NULL);
    const ncclResult_t result = weiri_nccl_result(status);
    weiri_boot_tcp_cancel(&id);
    return result;
}

static ncclResult_t run_shrink(void *argument)
{
    const split *request = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter(request->parent);
    if (!comm)
        return weiri_nccl_not_entered();
    ncclResult_t result =
        comm->vendor ? refuse_to_divide_vendor("ncclCommShrink") : shrink_with(comm, request);
    if (result == ncclSuccess)
        atomic_store(&comm->is_shrunk, 1);
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                            ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    weiri_nccl_settings settings;
    ncclResult_t result = read_part_config(comm, config, &settings);
    split *request = NULL;
    if (result == ncclSuccess && (!newcomm || excludeRanksCount < 1 || !excludeRanksList))
        result =
            weiri_nccl_fail(ncclInvalidArgument, "ncclCommShrink: no rank to exclude is given");
    if (result == ncclSuccess && (shrinkFlags & NCCL_SHRINK_ABORT))
        result = ncclCommRevoke(comm, 0);
    if (result == ncclSuccess &&
        !(request = malloc(sizeof *request + (size_t)excludeRanksCount * sizeof(int))))
        result = weiri_nccl_fail(ncclSystemError, "ncclCommShrink: no memory");
    if (result != ncclSuccess)
        return weiri_nccl_refuse(result);
    *newcomm = NULL;
    *request = (split){
        .parent = comm, .made = newcomm, .settings = settings, .nexcluded = excludeRanksCount};
    memcpy(request->excluded, excludeRanksList, (size_t)excludeRanksCount * sizeof(int));
    return weiri_nccl_do_create((weiri_nccl_job){run_shrink, request, comm, NULL, 0}, &settings,
                                &request->own, newcomm);
}
WEIRI_NCCL_ALIAS(CommShrink);
