/*
 * The public calls on a communicator. Creation exchanges the ranks' placement, and then creates a
 * communicator of one node (node/node_comm.c) or of several (internode/internode_comm.c).
 *
 * Calls between the files of lib/comm go down this list only: comm.c, same_build.c, those of
 * monitor, internode_comm.c, node_comm.c, internode.c, internode_message.c, wait.c, called.c,
 * internode_watch.c, internode_links.c, internode_pass.c, internode_window.c, abort.c, life.c,
 * query.c.
 */
#include "base/config.h"
#include "base/env.h"
#include "base/env_check.h"
#include "base/error.h"
#include "comm/called.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode_comm.h"
#include "comm/monitor/monitor.h"
#include "comm/monitor/recorder.h"
#include "comm/same_build.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weir_status comm_refuse_value(const char *name, int own, int rank, int other, int other_rank,
                                     weiri_env_key variable)
{
    return weiri_fail(WEIR_ERR_MISMATCH,
                      "%s differs: it is %d on rank %d and %d on rank %d; give all ranks the same "
                      "configuration and %s",
                      name, own, rank, other, other_rank, weiri_env_name(variable));
}

/* Compares what must be equal on all ranks. */
static weir_status comm_compare_placements(const weiri_placement *placements, int rank, int other)
{
    const weiri_placement *mine = &placements[rank], *theirs = &placements[other];
    if (theirs->invariant != mine->invariant)
        return comm_refuse_value("invariant", mine->invariant, rank, theirs->invariant, other,
                                 WEIRI_ENV_INVARIANT);
    if (theirs->budget.most != mine->budget.most)
        return comm_refuse_value("max_blocks", mine->budget.most, rank, theirs->budget.most, other,
                                 WEIRI_ENV_MAX_BLOCKS);
    if (theirs->budget.least != mine->budget.least)
        return comm_refuse_value("min_blocks", mine->budget.least, rank, theirs->budget.least,
                                 other, WEIRI_ENV_NCCL_MIN_CTAS);
    if (theirs->budget.policy != mine->budget.policy)
        return comm_refuse_value("block_policy", (int)mine->budget.policy, rank,
                                 (int)theirs->budget.policy, other, WEIRI_ENV_BLOCK_POLICY);
    return WEIR_OK;
}

/* Exchanges the ranks' placements. Collective. */
static weir_status comm_find_placements(weir_boot *boot, const weir_comm_config *own,
                                        const weiri_address *monitor, weiri_placement *placements,
                                        int *is_one_node)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    placements[rank] = (weiri_placement){.host = weiri_host_id(),
                                         .hardware = weiri_hardware_id(),
                                         .kernel = weiri_kernel_id(),
                                         .pid = (int32_t)getpid(),
                                         .job_rank = weiri_recorder_job_rank(rank),
                                         .invariant = own->invariant,
                                         .budget = weiri_budget_of_config(own),
                                         .monitor = *monitor};
    weiri_host_own_cores(rank, placements[rank].cores);
    weir_status status = weir_boot_allgather(boot, placements, sizeof *placements);
    *is_one_node = 1;
    for (int i = 0; i < nranks && status == WEIR_OK; i++)
        *is_one_node &= placements[i].host == placements[0].host;
    for (int i = 0; i < nranks && status == WEIR_OK; i++)
        status = comm_compare_placements(placements, rank, i);
    return status; /* the same on all ranks */
}

weir_status weiri_comm_open_lanes(weir_comm *comm, const weir_comm_config *config)
{
    const weiri_address none = {.port = 0};
    weiri_placement *placements = calloc((size_t)comm->nranks, sizeof *placements);
    int ignored;
    weir_status status = weir_boot_agree(
        comm->boot,
        placements ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to place the ranks"));
    if (status == WEIR_OK)
        status = comm_find_placements(comm->boot, config, &none, placements, &ignored);
    if (status == WEIR_OK)
        status = weiri_internode_open_lanes(comm, config, placements);
    free(placements);
    return status;
}

/* config_status: whether own could be read. */
static weir_status comm_create(weir_boot *boot, const weir_comm_config *own,
                               weir_status config_status, weir_comm **comm)
{
    weir_status status = weiri_comm_check_builds(boot);
    if (status != WEIR_OK)
        return status;
    int is_one_node = 1;
    weiri_address monitor;
    weiri_placement *placements = calloc((size_t)weir_boot_nranks(boot), sizeof *placements);
    status = config_status;
    if (status == WEIR_OK && !placements)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to place the ranks");
    if (status == WEIR_OK)
        status = weiri_env_check();
    status = weir_boot_agree(boot, status);
    if (status != WEIR_OK) {
        free(placements);
        return status;
    }
    if (weir_boot_rank(boot) == 0)
        weiri_env_warn_unknown();
    weiri_monitor_prepare(&monitor);
    status = comm_find_placements(boot, own, &monitor, placements, &is_one_node);
    if (status == WEIR_OK && !is_one_node)
        status = weiri_internode_comm_create(boot, own, placements, comm);
    else if (status == WEIR_OK)
        status = weiri_comm_create_node(boot, own, NULL, NULL, comm);
    if (status == WEIR_OK && (*comm)->gpu_comm) {
        status = weiri_internode_open_lanes(*comm, own, placements);
        if (status != WEIR_OK)
            (void)weiri_internode_comm_destroy(*comm);
    }
    weiri_monitor_open(status == WEIR_OK ? *comm : NULL, placements);
    if (status == WEIR_OK)
        weiri_called_open(*comm);
    if (status == WEIR_OK)
        weiri_recorder_open(*comm, placements);
    free(placements);
    return status;
}

/* Checks the budget of thread blocks, and adds the environment's. */
static weir_status comm_read_budget(weir_comm_config *own)
{
    long most = own->max_blocks;
    if (own->max_blocks < 0 || own->min_blocks < 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s is %d; expected 1 or more, or 0 for the algorithm's own number",
                          own->max_blocks < 0 ? "max_blocks" : "min_blocks",
                          own->max_blocks < 0 ? own->max_blocks : own->min_blocks);
    if (!weir_block_policy_name(own->block_policy))
        return weiri_fail(WEIR_ERR_INVALID, "block_policy is %d; expected a WEIR_BLOCKS_ value",
                          (int)own->block_policy);
    const weir_status status =
        own->max_blocks ? WEIR_OK : weiri_env_long(WEIRI_ENV_MAX_BLOCKS, 1, INT_MAX, 0, &most);
    own->max_blocks = (int)most;
    const char *word = weiri_env(WEIRI_ENV_BLOCK_POLICY);
    for (int i = 0; own->block_policy == WEIR_BLOCKS_AUTO && word && i <= WEIR_BLOCKS_ZERO; i++)
        if (strcmp(word, weir_block_policy_name((weir_block_policy)i)) == 0)
            own->block_policy = i == WEIR_BLOCKS_AUTO ? WEIR_BLOCKS_DEFAULT : (weir_block_policy)i;
    if (status == WEIR_OK && own->block_policy == WEIR_BLOCKS_AUTO && word)
        return weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected default, efficiency or zero",
                          weiri_env_name(WEIRI_ENV_BLOCK_POLICY), word);
    if (own->block_policy == WEIR_BLOCKS_AUTO)
        own->block_policy = WEIR_BLOCKS_DEFAULT;
    return status;
}

/* Adds the environment's values to a configuration. */
static weir_status comm_read_environment(weir_comm_config *own)
{
    long invariant = 0;
    if (own->invariant < 0 || own->invariant > 1)
        return weiri_fail(WEIR_ERR_INVALID, "invariant is %d; expected 0 or 1", own->invariant);
    weir_status status = weiri_env_long(WEIRI_ENV_INVARIANT, 0, 1, 0, &invariant);
    own->invariant |= (int)invariant;
    return status == WEIR_OK ? comm_read_budget(own) : status;
}

static int create_has_ended(void *opaque)
{
    const weiri_wait_guard *outer = opaque;
    return outer && outer->has_ended(outer->context);
}

/* The waits for other ranks obey the deadline of the communicator that is created, and what ends
 * waits of a call of which this one is a part. */
weir_status weir_comm_create(weir_boot *boot, const weir_comm_config *config, weir_comm **comm)
{
    weir_comm_config own = WEIR_COMM_CONFIG_INIT;
    const weiri_wait_guard *outer = weiri_wait_guarded;
    if (!boot || !comm)
        return weiri_fail(WEIR_ERR_INVALID, "weir_comm_create: boot and comm are required");
    weir_status status = weiri_config_read("weir_comm_config", config, &own, sizeof own);
    if (status == WEIR_OK)
        status = comm_read_environment(&own);
    weiri_wait_guard guard = {create_has_ended, (void *)(uintptr_t)outer, own.timeout_ms};
    if (outer && outer->timeout_ms < guard.timeout_ms)
        guard.timeout_ms = outer->timeout_ms;
    if (own.timeout_ms > 0)
        weiri_wait_guarded = &guard;
    status = comm_create(boot, &own, status, comm);
    weiri_wait_guarded = outer;
    return status;
}

weir_status weir_comm_destroy(weir_comm *comm)
{
    if (!comm)
        return WEIR_OK;
    if (weiri_comm_is_forked(comm))
        return weiri_fork_fail("communicator");
    weiri_monitor_close(comm);
    weiri_recorder_close(comm);
    if (!weiri_comm_is_aborted(comm) && weiri_called_compare(comm) != WEIR_OK)
        (void)weiri_comm_give_up(comm, WEIR_ERR_MISMATCH);
    return comm->internode ? weiri_internode_comm_destroy(comm) : weiri_node_comm_destroy(comm);
}

weir_status weir_comm_barrier(weir_comm *comm)
{
    WEIRI_REQUIRE(comm);
    const uint64_t begin_ns = comm && comm->recorder ? weir_clock_ns() : 0;
    const weir_status status = weiri_comm_barrier(comm);
    if (begin_ns && status == WEIR_OK)
        weiri_recorder_barrier(comm, begin_ns, weir_clock_ns());
    return status;
}

weir_status weiri_comm_barrier(weir_comm *comm)
{
    weir_status status = weiri_comm_admit(comm, "weir_comm_barrier");
    if (status == WEIR_OK)
        status =
            comm->internode ? weiri_internode_comm_barrier(comm) : weiri_node_comm_barrier(comm);
    return status == WEIR_OK && weiri_comm_was_aborted(comm)
               ? weiri_comm_fail_aborted(comm, "weir_comm_barrier")
               : status;
}
