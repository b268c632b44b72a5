/*
 * Contexts of an executor (executor.h): what the backend needs to know of a plan, which context a
 * call uses, how contexts are created, and which are freed to make room.
 */
#include "plan/execute/executor.h"

#include "base/error.h"
#include "base/log.h"
#include "plan/check/check.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------ properties of a plan */

/* WEIR_SUM and no reduce_op leave it to the caller. */
weir_status weiri_plan_reduce_op(const weir_plan *plan, int *needs)
{
    *needs = -1;
    for (int rank = 0; rank < plan->nranks; rank++) {
        const weiri_plan_gpu *gpu = &plan->gpus[rank];
        for (uint32_t block = 0; block < gpu->nblocks; block++)
            for (uint32_t i = 0; i < gpu->blocks[block].nops; i++) {
                int named = gpu->ops[gpu->blocks[block].first_op + i].reduce_op;
                if (named < 0 || named == WEIR_SUM || named == *needs)
                    continue;
                char where[WEIRI_PLAN_WHERE_BYTES];
                if (*needs >= 0)
                    return weiri_fail(WEIR_ERR_INVALID,
                                      "%s: reduce_op is %s here and %s before; expected the "
                                      "same in the whole plan",
                                      weiri_plan_where(plan, rank, block, i, where),
                                      weir_op_name((weir_op)named), weir_op_name((weir_op)*needs));
                *needs = named;
            }
    }
    return WEIR_OK;
}

static weir_status check_reduce_op(const weir_plan *plan, int needs_op, weir_op op)
{
    if (needs_op < 0 || needs_op == (int)op)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID, "%s: the plan reduces with %s (reduce_op), not with %s",
                      plan->file, weir_op_name((weir_op)needs_op), weir_op_name(op));
}

static void note_reference(const weiri_plan_op *op, const weiri_plan_ref *ref,
                           weiri_plan_context *context)
{
    if (ref->buffer == WEIR_PLAN_SCRATCH)
        context->only_packets &= ref->is_packets;
    else if (op->channel == WEIRI_PLAN_PORT)
        context->reached[ref->buffer] |= WEIRI_REACHED_BY_PORTS;
    else if (ref->place != WEIRI_PLAN_LOCAL)
        context->reached[ref->buffer] |= WEIRI_REACHED_BY_PEERS;
}

/* An upper bound on a rank's port channels: its own and those that peers list to it. */
static uint32_t count_ports(const weir_plan *plan, int rank)
{
    uint32_t count = plan->gpus[rank].nlinks[WEIRI_PLAN_PORT];
    for (int peer = 0; peer < plan->nranks; peer++)
        for (uint32_t i = 0; i < plan->gpus[peer].nlinks[WEIRI_PLAN_PORT]; i++) {
            const weiri_plan_link *link = &plan->gpus[peer].links[WEIRI_PLAN_PORT][i];
            count += link->peer == rank;
        }
    return count;
}

void weiri_plan_survey(const weir_plan *plan, weiri_plan_context *context)
{
    int reduces = 0;
    context->only_packets = plan->has_packets;
    for (int rank = 0; rank < plan->nranks; rank++) {
        const weiri_plan_gpu *gpu = &plan->gpus[rank];
        const uint32_t ports = count_ports(plan, rank);
        context->has_ports |= ports != 0;
        context->ports = ports > context->ports ? ports : context->ports;
        for (uint32_t i = 0; i < gpu->nops; i++) {
            const weiri_plan_op *op = &gpu->ops[i];
            reduces |= weiri_plan_traits[op->kind].mode == WEIRI_PLAN_REDUCE;
            for (uint32_t r = 0; r < op->nsrcs; r++)
                note_reference(op, &gpu->refs[op->first_src + r], context);
            for (uint32_t r = 0; r < op->ndsts; r++)
                note_reference(op, &gpu->refs[op->first_dst + r], context);
        }
    }
    if (plan->in_place)
        context->reached[0] = context->reached[1] = context->reached[0] | context->reached[1];
    context->reduces =
        reduces && (plan->collective < 0 || weiri_contract_of(plan->collective)->reduces);
}

/* ---------------------------------------------------------------- contexts */

/* What identifies a context; the same on all ranks. On the host, and on GPUs if the context serves
 * any buffers, contexts do not depend on whether a rank's input and output overlap, so that ranks
 * may differ in it. */
typedef struct context_key {
    uint64_t identity, in_bytes, out_bytes, overlaps;
} context_key;

static context_key key_of_call(const weir_executor *executor, const weir_plan *plan,
                               const weir_call *call, int any_buffers)
{
    const int depends =
        executor->ops != &weiri_executor_host && !weiri_plan_has_root(plan) && !any_buffers;
    return (context_key){plan->identity, call->in_bytes, call->out_bytes,
                         depends && weiri_plan_overlap(call)};
}

static context_key key_of(const weiri_plan_context *context)
{
    return (context_key){context->identity, context->layout.in_bytes, context->layout.out_bytes,
                         (uint64_t)context->overlaps};
}

/* Searches the latest contexts first. */
static weiri_plan_context *context_find(const weir_executor *executor, context_key wanted)
{
    for (int i = executor->ncontexts - 1; i >= 0; i--) {
        const context_key key = key_of(executor->contexts[i]);
        if (memcmp(&key, &wanted, sizeof key) == 0)
            return executor->contexts[i];
    }
    return NULL;
}

weiri_plan_context *weiri_plan_context_find(const weir_executor *executor, const weir_plan *plan,
                                            const weir_call *call, int any_buffers)
{
    weiri_plan_context *found =
        context_find(executor, key_of_call(executor, plan, call, any_buffers));
    return found && found->layout.block_bytes % weir_dtype_bytes(call->dtype) == 0 ? found : NULL;
}

/* Fails on all ranks unless all ranks create the context for the same call; otherwise they would
 * wait for each other. */
static weir_status check_same_call(weir_comm *comm, const weiri_plan_context *context)
{
    context_key *all = calloc((size_t)comm->nranks, sizeof *all);
    weir_status status = weir_boot_agree(
        comm->boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a plan"));
    if (status != WEIR_OK) {
        free(all);
        return status;
    }
    const context_key own = key_of(context);
    all[comm->rank] = own;
    status = weir_boot_allgather(comm->boot, all, sizeof *all);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        if (memcmp(&all[rank], &own, sizeof own) != 0)
            status = weiri_fail(
                WEIR_ERR_MISMATCH,
                "%s: rank %d runs it with %llu bytes of input and %llu of output%s, rank %d %s "
                "with %llu and %llu%s; all ranks must run the same plan with the same lengths, "
                "and all or none of them in place",
                context->name, comm->rank, (unsigned long long)own.in_bytes,
                (unsigned long long)own.out_bytes, own.overlaps ? " in place" : "", rank,
                all[rank].identity == own.identity ? "the same" : "another plan",
                (unsigned long long)all[rank].in_bytes, (unsigned long long)all[rank].out_bytes,
                all[rank].overlaps ? " in place" : "");
    free(all);
    return weir_boot_agree(comm->boot, status);
}

/* Takes what is known of a plan from one of its contexts. */
static int context_copy_proof(const weir_executor *executor, const weir_plan *plan,
                              weiri_plan_context *context)
{
    for (int i = 0; i < executor->ncontexts; i++) {
        const weiri_plan_context *other = executor->contexts[i];
        if (other->identity == plan->identity && (other->is_checked || !executor->checks)) {
            context->is_checked = other->is_checked;
            context->proof = other->proof;
            return 1;
        }
    }
    return 0;
}

/* Finds the proof of a plan that has no context yet: the one that the plan holds since it was
 * checked, else a new one. Every rank comes to the same result. Plans that are too large for the
 * checker run unchecked. */
static weir_status context_prove_plan(const weir_executor *executor, const weir_plan *plan,
                                      weiri_plan_context *context)
{
    weir_status status = WEIR_OK;
    context->proof.root = -1;
    if (context_copy_proof(executor, plan, context))
        return WEIR_OK;
    if (executor->checks && !weiri_plan_proof_of(plan))
        status = weir_plan_check(plan, NULL);
    const weiri_plan_proof *proof = weiri_plan_proof_of(plan);
    if (proof)
        context->proof = *proof;
    context->is_checked = executor->checks || proof;
    if (status != WEIR_ERR_UNSUPPORTED)
        return status;
    weiri_log(WEIRI_LOG_WARN, "%s; it runs unchecked", weir_last_error());
    return WEIR_OK;
}

/* Proves a plan, and rejects a call with longer chunks than the proof covers. */
static weir_status context_check_plan(const weir_executor *executor, const weir_plan *plan,
                                      weiri_plan_context *context)
{
    weir_status status = context_prove_plan(executor, plan, context);
    if (status != WEIR_OK || !executor->checks || context->proof.max_chunk_bytes == 0 ||
        context->layout.chunk_bytes <= context->proof.max_chunk_bytes)
        return status;
    return weiri_fail(
        WEIR_ERR_INVALID,
        "%s: the plan is accepted %s, but the call, with %llu bytes of input and %llu "
        "of output, has chunks of %llu bytes; use shorter messages or another plan",
        plan->file, context->proof.lengths, (unsigned long long)context->layout.in_bytes,
        (unsigned long long)context->layout.out_bytes,
        (unsigned long long)context->layout.chunk_bytes);
}

/* Sets what a rank finds out without its peers. */
static weir_status context_describe(const weir_executor *executor, const weir_plan *plan,
                                    weiri_plan_context *context)
{
    context->identity = plan->identity;
    context->collective = plan->collective;
    context->in_place = plan->in_place;
    context->has_root = weiri_plan_has_root(plan);
    context->in_blocks = weiri_plan_blocks(plan, WEIR_PLAN_INPUT);
    context->out_blocks = weiri_plan_blocks(plan, WEIR_PLAN_OUTPUT);
    context->name = strdup(plan->file);
    if (!context->name)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a plan's context");
    weir_status status = context_check_plan(executor, plan, context);
    if (status != WEIR_OK)
        return status;
    weiri_plan_survey(plan, context);
    return weiri_program_compile(plan, executor->comm->rank, &context->layout, &context->program);
}

void weiri_plan_context_free(weir_executor *executor, weiri_plan_context *context)
{
    executor->ops->release(executor, context);
    free(context->program);
    free(context->name);
    free(context);
}

/* Removes the least recently used context from the list, of those that no graph captured. NULL: all
 * are captured. */
static weiri_plan_context *remove_oldest(weir_executor *executor)
{
    int oldest = -1;
    for (int i = 0; i < executor->ncontexts; i++)
        if (!executor->contexts[i]->is_captured &&
            (oldest < 0 || executor->contexts[i]->used < executor->contexts[oldest]->used))
            oldest = i;
    if (oldest < 0)
        return NULL;
    weiri_plan_context *taken = executor->contexts[oldest];
    executor->contexts[oldest] = executor->contexts[--executor->ncontexts];
    return taken;
}

/* Whether the existing contexts leave no room for one more. Every rank comes to the same result. */
static int contexts_full(const weir_executor *executor, const weiri_plan_context *more)
{
    uint64_t bytes = more->layout.scratch_bytes, ports = more->ports;
    for (int i = 0; i < executor->ncontexts; i++) {
        bytes += executor->contexts[i]->shared_bytes;
        ports += executor->contexts[i]->ports;
    }
    return executor->ncontexts == WEIRI_PLAN_CONTEXTS_MAX || bytes > WEIRI_CONTEXTS_BYTES ||
           ports > WEIRI_CONTEXTS_PORTS;
}

/* Frees contexts. No rank uses them any more, as all have passed check_same_call. */
static weir_status evict_contexts(weir_executor *executor, const weiri_plan_context *more)
{
    while (executor->ncontexts && !executor->for_calls && contexts_full(executor, more)) {
        weiri_plan_context *oldest = remove_oldest(executor);
        if (!oldest)
            break;
        weiri_plan_context_free(executor, oldest);
    }
    if (executor->ncontexts < WEIRI_PLAN_CONTEXTS_MAX)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: captured graphs use all %d contexts of the executor; capture with "
                      "several executors",
                      more->name, WEIRI_PLAN_CONTEXTS_MAX);
}

/* Collective, as all ranks look up the same context keys. Every rank has finished its earlier calls
 * when it enters check_same_call. */
static weir_status context_create(weir_executor *executor, const weir_plan *plan,
                                  const weiri_plan_layout *layout, int needs_op,
                                  const weir_call *call, int any_buffers,
                                  weiri_plan_context **context)
{
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, executor->comm, "weir_executor_run");
    if (status != WEIR_OK)
        return status;
    weiri_plan_context *made = calloc(1, sizeof *made);
    if (!made)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a plan's context");
    if (made) {
        made->layout = *layout;
        made->any_buffers = any_buffers;
        made->overlaps = (int)key_of_call(executor, plan, call, any_buffers).overlaps;
        made->needs_op = needs_op;
        made->call = call;
        status = context_describe(executor, plan, made);
    }
    if (status == WEIR_OK && executor->ops->admit)
        status = executor->ops->admit(executor, plan, call);
    if (status == WEIR_OK && !executor->for_calls) /* which frees no context */
        status = executor->ops->settle(executor);
    status = weir_boot_agree(executor->comm->boot, status);
    if (status == WEIR_OK)
        status = check_same_call(executor->comm, made);
    if (status == WEIR_OK) /* the same on all ranks */
        status = evict_contexts(executor, made);
    if (status == WEIR_OK)
        status = executor->ops->prepare(executor, plan, made);
    status = weiri_setup_end(&setup, status);
    if (status == WEIR_OK) {
        executor->contexts[executor->ncontexts++] = made;
        made->call = NULL;
        *context = made;
    } else if (made) {
        weiri_plan_context_free(executor, made);
    }
    return status;
}

weir_status weiri_plan_context_get(weir_executor *executor, const weir_plan *plan,
                                   const weir_call *call, int any_buffers,
                                   weiri_plan_context **context)
{
    *context = weiri_plan_context_find(executor, plan, call, any_buffers);
    if (*context)
        return check_reduce_op(plan, (*context)->needs_op, call->op);
    weiri_plan_layout layout;
    int needs_op;
    weir_status status = weiri_plan_reduce_op(plan, &needs_op);
    if (status == WEIR_OK)
        status = check_reduce_op(plan, needs_op, call->op);
    if (status == WEIR_OK)
        status = weiri_plan_lay_out(plan, call->in_bytes, call->out_bytes,
                                    weir_dtype_bytes(call->dtype), &layout);
    if (status != WEIR_OK || call->in_bytes + call->out_bytes == 0)
        return status;
    return context_create(executor, plan, &layout, needs_op, call, any_buffers, context);
}
