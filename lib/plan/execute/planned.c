/*
 * Plans that rows of the tuning table name (coll/planned.h): read, proved and agreed on at the
 * first call, and run by one executor of the communicator.
 */
#include "coll/planned.h"

#include "base/error.h"
#include "base/log.h"
#include "plan/execute/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank found in a plan file. */
typedef enum planned_outcome {
    PLANNED_USABLE,
    PLANNED_OTHER_RANKS, /* a plan for another number of ranks, which is no fault */
    PLANNED_BAD,
} planned_outcome;

typedef struct planned_finding {
    uint64_t identity;
    int64_t outcome;
} planned_finding;

/* --------------------------------------------------------------------- reading */

static weir_status planned_prove(weiri_planned *row)
{
    weiri_plan_context seen = {0};
    weir_status status = weir_plan_check(row->plan, NULL);
    if (status == WEIR_OK)
        status = weiri_plan_reduce_op(row->plan, &row->needs_op);
    if (status == WEIR_OK && !weiri_plan_proof_of(row->plan))
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the proof of a plan");
    if (status != WEIR_OK)
        return status;
    weiri_plan_survey(row->plan, &seen);
    memcpy(row->reached, seen.reached, sizeof row->reached);
    row->ports = seen.ports;
    return WEIR_OK;
}

/* Reads and proves a row's plan. On PLANNED_BAD, the error line says why. */
static planned_outcome planned_read(const weiri_coll *coll, weiri_planned *row)
{
    if (coll->comm->gpu && coll->comm->nnodes > 1) {
        weiri_fail(WEIR_ERR_UNSUPPORTED,
                   "plans serve GPUs of one node, and host memory; these are GPUs of %d nodes",
                   coll->comm->nnodes);
        return PLANNED_BAD;
    }
    if (weir_plan_read(row->path, &row->plan) != WEIR_OK)
        return PLANNED_BAD;
    if (row->plan->collective != (int)row->collective) {
        weiri_fail(WEIR_ERR_INVALID, "%s: it is a plan for %s", row->path,
                   row->plan->collective_name);
        return PLANNED_BAD;
    }
    if (row->plan->nranks != coll->nranks)
        return PLANNED_OTHER_RANKS;
    return planned_prove(row) == WEIR_OK ? PLANNED_USABLE : PLANNED_BAD;
}

/* The lowest rank whose finding excludes the plan; nranks: none. */
static int planned_find_fault(const planned_finding *all, int nranks)
{
    int rank = 0;
    while (rank < nranks && all[rank].outcome == PLANNED_USABLE &&
           all[rank].identity == all[0].identity)
        rank++;
    return rank;
}

static void planned_warn(const weiri_coll *coll, const weiri_planned *row,
                         const planned_finding *all, int rank)
{
    if (rank != coll->rank)
        return;
    if (all[rank].outcome == PLANNED_OTHER_RANKS)
        weiri_log(WEIRI_LOG_INFO, "%s: %s is for %d ranks, not for %d; the row is skipped",
                  row->where, row->path, row->plan ? row->plan->nranks : 0, coll->nranks);
    else if (all[rank].outcome == PLANNED_BAD)
        weiri_log(WEIRI_LOG_WARN, "%s: the row is skipped: %s", row->where, weir_last_error());
    else
        weiri_log(WEIRI_LOG_WARN,
                  "%s: the row is skipped: %s differs between rank 0 and rank %d; give all nodes "
                  "the same file",
                  row->where, row->path, rank);
}

/* Reads the plan on every rank and agrees on whether it is used. Collective. */
static weir_status planned_open(weiri_coll *coll, weiri_planned *row)
{
    weir_boot *boot = coll->comm->boot;
    planned_finding *all = calloc((size_t)coll->nranks, sizeof *all);
    weir_status status = weir_boot_agree(
        boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a plan"));
    if (status == WEIR_OK) {
        const planned_outcome found = planned_read(coll, row);
        all[coll->rank] = (planned_finding){row->plan ? row->plan->identity : 0, found};
        char why[512];
        snprintf(why, sizeof why, "%s", weir_last_error());
        status = weir_boot_allgather(boot, all, sizeof *all);
        if (status == WEIR_OK && found == PLANNED_BAD)
            weiri_fail(WEIR_ERR_INVALID, "%s", why); /* for planned_warn */
    }
    if (status == WEIR_OK) {
        int fault = planned_find_fault(all, coll->nranks);
        row->state = fault == coll->nranks ? WEIRI_PLANNED_READY : WEIRI_PLANNED_SKIPPED;
        if (row->state == WEIRI_PLANNED_SKIPPED)
            planned_warn(coll, row, all, fault);
        else if (row->plan)
            snprintf(row->name, sizeof row->name, WEIRI_PLANNED_PREFIX "%.26s", row->plan->name);
    }
    free(all);
    if (status != WEIR_OK || row->state != WEIRI_PLANNED_READY || coll->executor)
        return status;
    status = weir_executor_create(coll->comm, &coll->executor);
    if (status == WEIR_OK)
        coll->executor->for_calls = 1;
    return status;
}

/* --------------------------------------------------------------------- running */

/* Whether a plan serves a call, from what is equal on all ranks. A plan divides an average after it
 * has rounded the sum, which algorithms of weir do not. */
static int planned_serves(const weiri_planned *row, const weiri_task *task,
                          const weiri_plan_offer *offer)
{
    const weir_call *call = task->call;
    const weiri_plan_proof *proof = weiri_plan_proof_of(row->plan);
    const uint64_t most = proof->max_chunk_bytes;
    weiri_plan_layout layout;
    if (weiri_contract_of((int)call->collective)->reduces &&
        (call->op == WEIR_AVG || (row->needs_op >= 0 && row->needs_op != (int)call->op)))
        return 0;
    if (weiri_plan_has_root(row->plan) && call->root != proof->root)
        return 0;
    return weiri_plan_lay_out(row->plan, offer->call.in_bytes, offer->call.out_bytes,
                              task->element_bytes, &layout) == WEIR_OK &&
           (!most || layout.chunk_bytes <= most);
}

static int planned_is_symmetric(const weir_comm *comm, const void *pointer, uint64_t bytes)
{
    const weiri_desc desc = weiri_region_describe(comm, pointer, bytes);
    return desc.generation && comm->regions[desc.region].symmetric != NULL;
}

/* Whether a call on GPUs needs a buffer, the input (0) or the output (1), in memory that peers
 * reach. A plan in place has one region, the longer buffer. Of a plan with a root, the input has a
 * staging buffer whatever its length, and so has the output of a reduce, as ranks other than the
 * root may have none. */
static int planned_needs_mapped(const weiri_planned *row, const weiri_plan_offer *offer, int which)
{
    const uint64_t in = offer->call.in_bytes, out = offer->call.out_bytes;
    const uint64_t bytes = row->plan->in_place ? (in > out ? in : out) : which ? out : in;
    if (row->plan->in_place && which != (out >= in))
        return 0;
    if (weiri_plan_has_root(row->plan) && (!which || row->collective == WEIR_COLL_REDUCE))
        return 0;
    return row->reached[which] && bytes > WEIRI_STAGING_ALWAYS_BYTES;
}

/* On GPUs: whether the call's memory allows the plan to serve it, on all ranks or on none. A plan
 * that does not need mapped memory serves any buffers; else those buffers must be symmetric memory,
 * of which all ranks have promised that they use it in the same calls (weir_mem_symmetric). */
static int planned_fits_memory(const weiri_coll *coll, const weiri_planned *row,
                               const weiri_task *task, weiri_plan_offer *offer)
{
    const void *const at[2] = {task->call->in, task->call->out};
    const uint64_t bytes[2] = {offer->call.in_bytes, offer->call.out_bytes};
    int fits = 1;
    offer->any_buffers = coll->comm->gpu || coll->comm->internode || row->ports;
    for (int which = 0; which < 2 && coll->comm->gpu; which++)
        if (planned_needs_mapped(row, offer, which)) {
            offer->any_buffers = 0;
            fits &= planned_is_symmetric(coll->comm, at[which], bytes[which]);
        }
    return fits;
}

/* On GPUs: whether the thread blocks of every rank, which must all be resident, are within the
 * budget of a call. */
static int planned_fits_budget(const weiri_coll *coll, const weiri_planned *row,
                               const weir_call *call)
{
    const weiri_budget budget = weiri_budget_of_call(coll->comm->budget, call);
    for (int rank = 0; coll->comm->gpu && rank < row->plan->nranks; rank++) {
        const int blocks = (int)row->plan->gpus[rank].nblocks;
        if (weiri_budget_limit(budget, blocks) < blocks)
            return 0;
    }
    return 1;
}

/* Fills what a plan needs to know of a call. Returns whether the plan may serve it. */
static int planned_offer(const weiri_coll *coll, const weiri_planned *row, const weiri_task *task,
                         weiri_plan_offer *offer)
{
    const weiri_contract *contract = weiri_contract_of((int)task->call->collective);
    const size_t n = (size_t)coll->nranks;
    *offer = (weiri_plan_offer){.plan = row->plan, .ports = row->ports, .call = *task->call};
    offer->call.in_bytes = task->count_bytes * (contract->in_has_blocks ? n : 1);
    offer->call.out_bytes = task->count_bytes * (contract->out_has_blocks ? n : 1);
    if (!contract->reduces)
        offer->call.op = WEIR_SUM;
    return planned_fits_budget(coll, row, task->call) && planned_serves(row, task, offer) &&
           planned_fits_memory(coll, row, task, offer);
}

weiri_planned_use weiri_planned_look(const weiri_coll *coll, const weiri_planned *row,
                                     const weiri_task *task)
{
    weiri_plan_offer offer;
    if (row->state == WEIRI_PLANNED_UNREAD)
        return WEIRI_PLANNED_WAITS;
    if (row->state != WEIRI_PLANNED_READY || !planned_offer(coll, row, task, &offer))
        return WEIRI_PLANNED_PASSES;
    if (weiri_plan_waits(coll->executor, &offer))
        return WEIRI_PLANNED_WAITS;
    return weiri_plan_has_context(coll->executor, &offer) ? WEIRI_PLANNED_SERVES
                                                          : WEIRI_PLANNED_PASSES;
}

weir_status weiri_planned_run(weiri_coll *coll, weiri_planned *row, const weiri_task *task,
                              int *served)
{
    weiri_plan_offer offer;
    weiri_plan_context *context = NULL;
    weir_status status = WEIR_OK;
    int never = 0;
    *served = 0;
    if (WEIRI_UNLIKELY(row->state == WEIRI_PLANNED_UNREAD))
        status = planned_open(coll, row);
    if (status != WEIR_OK || row->state != WEIRI_PLANNED_READY ||
        !planned_offer(coll, row, task, &offer))
        return status;
    status = weiri_plan_accept(coll->executor, &offer, &context, &never);
    if (never) {
        row->state = WEIRI_PLANNED_SKIPPED;
        if (coll->rank == 0)
            weiri_log(WEIRI_LOG_WARN, "%s: the row is skipped from now on: %s", row->where,
                      weir_last_error());
    }
    if (status != WEIR_OK || !context)
        return status;
    *served = 1;
    coll->last_algo = row->name;
    return weiri_plan_context_run(coll->executor, context, &offer.call);
}

void weiri_planned_close(weiri_coll *coll)
{
    weiri_executor_free(coll->executor);
    while (coll->planned) {
        weiri_planned *row = coll->planned;
        coll->planned = row->next;
        weir_plan_free(row->plan);
        free(row->path);
        free(row->where);
        free(row);
    }
}
