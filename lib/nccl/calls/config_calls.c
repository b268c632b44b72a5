/*
 * The collectives with options for one call (ncclCollConfig_t). The options are checked, and the
 * selected algorithm is found, when the call is made; so the caller's structure need not live until
 * the end of a group.
 */
#include "nccl/comm/init.h"

#include "comm/comm.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { CLUSTER_MOST = 8 };

/* What a call takes from its options. */
typedef struct call_options {
    const char *algo; /* static storage; NULL: automatic */
    cudaEvent_t event;
    weiri_budget budget; /* 0: as the communicator's */
} call_options;

static ncclResult_t options_refuse(const char *name, const char *member, int value,
                                   const char *expected)
{
    return weiri_nccl_fail(ncclInvalidArgument, "%sConfig: %s is %d, expected %s", name, member,
                           value, expected);
}

/* Copies a structure of any version. */
static ncclResult_t options_read(const char *name, const ncclCollConfig_t *config,
                                 ncclCollConfig_t *own)
{
    *own = (ncclCollConfig_t){.minCTAs = NCCL_CONFIG_UNDEF_INT,
                              .maxCTAs = NCCL_CONFIG_UNDEF_INT,
                              .nvlsCTAs = NCCL_CONFIG_UNDEF_INT,
                              .cgaClusterSize = NCCL_CONFIG_UNDEF_INT,
                              .forceAlgSelection = 1,
                              .CTAPolicy = NCCL_CONFIG_UNDEF_INT};
    if (config->magic != NCCL_CONFIG_MAGIC || config->size < offsetof(ncclCollConfig_t, minCTAs))
        return weiri_nccl_fail(ncclInvalidArgument,
                               "%sConfig: the options were not set to "
                               "NCCL_COLLCONFIG_INITIALIZER",
                               name);
    memcpy(own, config, config->size < sizeof *own ? config->size : sizeof *own);
    return ncclSuccess;
}

static int is_set_outside(int value, int low, int high)
{
    return value != NCCL_CONFIG_UNDEF_INT && (value < low || value > high);
}

static ncclResult_t options_check(const char *name, const ncclCollConfig_t *own)
{
    if (is_set_outside(own->minCTAs, 1, INT_MAX))
        return options_refuse(name, "minCTAs", own->minCTAs, "at least 1");
    if (is_set_outside(own->maxCTAs, own->minCTAs > 1 ? own->minCTAs : 1, INT_MAX))
        return options_refuse(name, "maxCTAs", own->maxCTAs, "at least 1 and minCTAs");
    if (is_set_outside(own->nvlsCTAs, 1, INT_MAX))
        return options_refuse(name, "nvlsCTAs", own->nvlsCTAs, "at least 1");
    if (is_set_outside(own->cgaClusterSize, 0, CLUSTER_MOST))
        return options_refuse(name, "cgaClusterSize", own->cgaClusterSize, "0 to 8");
    if (is_set_outside(own->CTAPolicy, 0, WEIRI_NCCL_POLICIES))
        return options_refuse(name, "CTAPolicy", own->CTAPolicy, "NCCL_CTA_POLICY_ values");
    if (own->forceAlgSelection != 0 && own->forceAlgSelection != 1)
        return options_refuse(name, "forceAlgSelection", own->forceAlgSelection, "0 or 1");
    return ncclSuccess;
}

/* The row of a name of `length` characters that serves the communicator; NULL: none. */
static const char *find_algo(const weiri_nccl_comm *comm, weir_collective collective,
                             const char *name, size_t length)
{
    size_t count = 0;
    const weir_algo_info *all = weir_algo_list(&count);
    const weir_algo_backend backend = weir_comm_algo_backend(comm->comm);
    for (size_t i = 0; i < count; i++)
        if (all[i].collective == collective && all[i].backend == backend &&
            strlen(all[i].name) == length && strncasecmp(all[i].name, name, length) == 0 &&
            comm->nranks >= all[i].min_ranks && comm->nranks <= all[i].max_ranks)
            return all[i].name;
    return NULL;
}

/* The first algorithm of a list that serves the communicator. Gather and scatter have none. */
static ncclResult_t options_select(const char *name, const weiri_nccl_comm *comm,
                                   weir_collective collective, const ncclCollConfig_t *own,
                                   call_options *options)
{
    const char *at = own->algSelection;
    if (!at || !*at || comm->nranks == 1)
        return ncclSuccess;
    while (*at && !options->algo && !comm->vendor && collective != WEIR_COLL_COUNT) {
        const size_t length = strcspn(at, ",");
        options->algo = find_algo(comm, collective, at, length);
        at += length + (at[length] == ',');
    }
    if (options->algo || !own->forceAlgSelection)
        return ncclSuccess;
    return weiri_nccl_fail(ncclInvalidArgument,
                           "%sConfig: algSelection \"%s\" names no algorithm that serves %d "
                           "ranks here; set forceAlgSelection to 0 to fall back to automatic "
                           "selection",
                           name, own->algSelection, comm->nranks);
}

/* Reads the options of a call. config may be NULL. */
static ncclResult_t options_resolve(const char *name, ncclComm_t handle, weir_collective collective,
                                    const ncclCollConfig_t *config, call_options *options)
{
    ncclCollConfig_t own;
    *options = (call_options){0};
    if (!config)
        return ncclSuccess;
    ncclResult_t result = options_read(name, config, &own);
    if (result == ncclSuccess)
        result = options_check(name, &own);
    weiri_nccl_comm *comm = result == ncclSuccess ? weiri_nccl_enter(handle) : NULL;
    if (!comm)
        return weiri_nccl_refuse(result == ncclSuccess ? weiri_nccl_not_entered() : result);
    options->event = own.launchCompletionEvent;
    const int open = NCCL_CONFIG_UNDEF_INT;
    options->budget =
        (weiri_budget){own.minCTAs == open ? 0 : own.minCTAs, own.maxCTAs == open ? 0 : own.maxCTAs,
                       own.CTAPolicy == open ? WEIR_BLOCKS_AUTO : weiri_nccl_policy(own.CTAPolicy)};
    result = options_select(name, comm, collective, &own, options);
    if (result == ncclSuccess && options->event && (comm->device < 0 || comm->vendor))
        result = weiri_nccl_fail(
            ncclInvalidUsage, "%sConfig: launchCompletionEvent needs a GPU that weir uses", name);
    weiri_nccl_leave(comm);
    return weiri_nccl_refuse(result);
}

/* Submits a call with its options. */
static ncclResult_t run_with_options(weiri_nccl_call *call, int op, int root,
                                     const ncclCollConfig_t *config)
{
    call_options options;
    const char *name = weiri_nccl_function_of(call);
    ncclResult_t result =
        options_resolve(name, call->handle, call->call.collective, config, &options);
    if (result != ncclSuccess)
        return result;
    call->call.op = (weir_op)op;
    call->call.root = root;
    call->call.algo_name = options.algo;
    call->call.min_blocks = options.budget.least;
    call->call.max_blocks = options.budget.most;
    call->call.block_policy = options.budget.policy;
    call->event = options.event;
    return weiri_nccl_submit(call);
}

ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t *config)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_ALLREDUCE, sendbuff, recvbuff, count, datatype, comm, stream);
    return run_with_options(&call, (int)op, 0, config);
}
WEIRI_NCCL_ALIAS(AllReduceConfig);

ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t *config)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_BROADCAST, sendbuff, recvbuff, count, datatype, comm, stream);
    return run_with_options(&call, 0, root, config);
}
WEIRI_NCCL_ALIAS(BroadcastConfig);

ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t *config)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_REDUCE, sendbuff, recvbuff, count, datatype, comm, stream);
    return run_with_options(&call, (int)op, root, config);
}
WEIRI_NCCL_ALIAS(ReduceConfig);

ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t *config)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_ALLGATHER, sendbuff, recvbuff, sendcount, datatype, comm,
                    stream);
    return run_with_options(&call, 0, 0, config);
}
WEIRI_NCCL_ALIAS(AllGatherConfig);

ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t *config)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_REDUCE_SCATTER, sendbuff, recvbuff, recvcount, datatype, comm,
                    stream);
    return run_with_options(&call, (int)op, 0, config);
}
WEIRI_NCCL_ALIAS(ReduceScatterConfig);

ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t *config)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_ALLTOALL, sendbuff, recvbuff, count, datatype, comm, stream);
    return run_with_options(&call, 0, 0, config);
}
WEIRI_NCCL_ALIAS(AlltoAllConfig);

ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t *config)
{
    call_options options;
    ncclResult_t result = options_resolve("ncclGather", comm, WEIR_COLL_COUNT, config, &options);
    if (result != ncclSuccess)
        return result;
    return weiri_nccl_gather(sendbuff, recvbuff, count, datatype, root, comm, stream,
                             options.event);
}
WEIRI_NCCL_ALIAS(GatherConfig);

ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t *config)
{
    call_options options;
    ncclResult_t result = options_resolve("ncclScatter", comm, WEIR_COLL_COUNT, config, &options);
    if (result != ncclSuccess)
        return result;
    return weiri_nccl_scatter(sendbuff, recvbuff, count, datatype, root, comm, stream,
                              options.event);
}
WEIRI_NCCL_ALIAS(ScatterConfig);
