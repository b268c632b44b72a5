/*
 * Changes plans for fix.c: adds fences, signals, waits, flushes and semaphores, and takes them
 * back.
 *
 * A signal is added as late as possible: before the next operation that may wait, so that it covers
 * what the block does until then, and depends on nothing more. Signals and waits are added outside
 * of pipelines, where they occur once in a launch.
 */
#include "plan/cli/fix.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ copies */

void plan_fix_free(plan_fix_draft *draft)
{
    for (int rank = 0; draft->plan && rank < draft->plan->nranks; rank++)
        free(draft->marks[rank]);
    weir_plan_free(draft->plan);
    draft->plan = NULL;
}

/* The form of a file is a copy: writing a plan and reading it changes nothing. */
weir_status plan_fix_copy(const plan_fix_draft *from, plan_fix_draft *to)
{
    char *text = NULL;
    size_t bytes = 0;
    *to = (plan_fix_draft){.doubled = from->doubled, .number = from->number};
    weir_status status = weir_plan_print(from->plan, &text, &bytes);
    if (status == WEIR_OK)
        status = weir_plan_parse(text, bytes, from->plan->file, &to->plan);
    free(text);
    for (int rank = 0; status == WEIR_OK && rank < to->plan->nranks; rank++) {
        const size_t count = to->plan->gpus[rank].nops;
        to->marks[rank] = calloc(count + 1, sizeof *to->marks[rank]);
        if (!to->marks[rank])
            status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to change a plan");
        else if (from->marks[rank])
            memcpy(to->marks[rank], from->marks[rank], count * sizeof *to->marks[rank]);
    }
    if (status != WEIR_OK)
        plan_fix_free(to);
    return status;
}

/* -------------------------------------------------------------------- operations */

static weiri_plan_gpu *gpu_at(const plan_fix_draft *draft, plan_fix_at at)
{
    return &draft->plan->gpus[at.rank];
}

static weiri_plan_block *block_at(const plan_fix_draft *draft, plan_fix_at at)
{
    return &gpu_at(draft, at)->blocks[at.block];
}

/* The operation at a position; NULL at the end of the block. */
static weiri_plan_op *op_at(const plan_fix_draft *draft, plan_fix_at at)
{
    const weiri_plan_block *block = block_at(draft, at);
    return at.op < block->nops ? &gpu_at(draft, at)->ops[block->first_op + at.op] : NULL;
}

static int is_kind(const plan_fix_draft *draft, plan_fix_at at, weiri_plan_kind kind)
{
    const weiri_plan_op *op = op_at(draft, at);
    return op && op->kind == kind;
}

static plan_fix_at next_of(plan_fix_at at)
{
    at.op++;
    return at;
}

/* The pipeline whose body has the operation; the operation's position if it is in none. */
static plan_fix_at pipeline_of(const plan_fix_draft *draft, plan_fix_at at)
{
    while (op_at(draft, at) && op_at(draft, at)->in_body)
        at.op--;
    return at;
}

/* The place after an operation, or after its pipeline. */
static plan_fix_at place_after(const plan_fix_draft *draft, plan_fix_at at)
{
    const plan_fix_at loop = pipeline_of(draft, at);
    if (is_kind(draft, loop, WEIRI_PLAN_PIPELINE_OP))
        at.op = loop.op + op_at(draft, loop)->nops;
    return next_of(at);
}

/* Adds an operation before the one at a position, to the same pipeline as `op` says. Returns 0
 * without memory. */
static int insert_op(plan_fix_draft *draft, plan_fix_at at, weiri_plan_op op)
{
    weiri_plan_gpu *gpu = gpu_at(draft, at);
    const uint32_t place = gpu->blocks[at.block].first_op + at.op;
    plan_fix_mark *marks = realloc(draft->marks[at.rank], (gpu->nops + 2) * sizeof *marks);
    if (marks)
        draft->marks[at.rank] = marks;
    if (!marks || !weiri_plan_append(&gpu->ops, &gpu->nops, sizeof op))
        return 0;
    const size_t behind = gpu->nops - 1 - place;
    memmove(&gpu->ops[place + 1], &gpu->ops[place], behind * sizeof op);
    memmove(&marks[place + 1], &marks[place], behind * sizeof *marks);
    gpu->ops[place] = op;
    marks[place] = (plan_fix_mark){draft->number, WEIRI_PLAN_KINDS};
    gpu->blocks[at.block].nops++;
    for (uint32_t i = at.block + 1; i < gpu->nblocks; i++)
        gpu->blocks[i].first_op++;
    uint32_t loop = place;
    while (op.in_body && gpu->ops[loop].kind != WEIRI_PLAN_PIPELINE_OP)
        loop--;
    if (op.in_body)
        gpu->ops[loop].nops++;
    for (int i = 0; i < draft->ntracked; i++) {
        plan_fix_at *other = &draft->tracked[i];
        if (other->rank == at.rank && other->block == at.block && other->op >= at.op &&
            other->op != WEIRI_CHECK_NONE)
            other->op++;
    }
    return 1;
}

static weiri_plan_op new_op(weiri_plan_kind kind, uint32_t in_body)
{
    return (weiri_plan_op){.kind = kind,
                           .channel = WEIRI_PLAN_NO_CHANNEL,
                           .reduce_op = -1,
                           .nparts = 1,
                           .in_body = in_body};
}

/* Whether the block has a fence before or after this place. */
static int is_fenced(const plan_fix_draft *draft, plan_fix_at at)
{
    plan_fix_at before = at;
    if (before.op-- > 0 && (is_kind(draft, before, WEIRI_PLAN_NOP_OP) ||
                            is_kind(draft, before, WEIRI_PLAN_BARRIER_OP)))
        return 1;
    return is_kind(draft, at, WEIRI_PLAN_NOP_OP) || is_kind(draft, at, WEIRI_PLAN_BARRIER_OP);
}

/* Adds a fence unless there is one, or the block ends here. */
static int insert_nop(plan_fix_draft *draft, plan_fix_at at, uint32_t in_body)
{
    if (is_fenced(draft, at) || !op_at(draft, at))
        return 1;
    return insert_op(draft, at, new_op(WEIRI_PLAN_NOP_OP, in_body));
}

/* ---------------------------------------------------------- channels, semaphores */

/* The n-th channel of a type between two ranks, on the first; WEIRI_CHECK_NONE: it has fewer. */
static uint32_t find_link(const weiri_plan_gpu *gpu, int type, int peer, int32_t ordinal)
{
    for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
        if (gpu->links[type][i].peer == peer && gpu->links[type][i].ordinal == ordinal)
            return i;
    return WEIRI_CHECK_NONE;
}

/* Appends an id to the rank's ids. */
static int append_id(weiri_plan_gpu *gpu, uint32_t id)
{
    uint32_t *made = weiri_plan_append(&gpu->ids, &gpu->nids, sizeof *made);
    if (made)
        *made = id;
    return made != NULL;
}

/* Makes an operation on one channel, which the block's list then has. Returns 0 without memory. */
static int make_channel_op(plan_fix_draft *draft, plan_fix_at at, weiri_plan_kind kind, int type,
                           uint32_t link, weiri_plan_op *op)
{
    weiri_plan_gpu *gpu = gpu_at(draft, at);
    weiri_plan_list *list = &block_at(draft, at)->channels[type];
    int has = 0;
    for (uint32_t i = 0; i < list->count; i++)
        has |= gpu->ids[list->first + i] == link;
    const weiri_plan_list longer = {gpu->nids, list->count + 1};
    for (uint32_t i = 0; !has && i < list->count; i++)
        if (!append_id(gpu, gpu->ids[list->first + i]))
            return 0;
    if (!has && !append_id(gpu, link))
        return 0;
    if (!has)
        *list = longer;
    *op = new_op(kind, 0);
    op->channel = (weiri_plan_channel)type;
    op->first_id = gpu->nids;
    op->nids = 1;
    return append_id(gpu, link);
}

static int count_links(const weiri_plan_gpu *gpu, int type, int peer)
{
    int count = 0;
    for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
        count += gpu->links[type][i].peer == peer;
    return count;
}

/* Connects two ranks by one more channel of the type that they have. Sets its ordinal. */
static int connect(plan_fix_draft *draft, int from, int to, int *type, int32_t *ordinal)
{
    weiri_plan_gpu *ends[] = {&draft->plan->gpus[from], &draft->plan->gpus[to]};
    *type =
        !count_links(ends[0], WEIRI_PLAN_MEMORY, to) && count_links(ends[0], WEIRI_PLAN_PORT, to)
            ? WEIRI_PLAN_PORT
            : WEIRI_PLAN_MEMORY;
    *ordinal = count_links(ends[0], *type, to);
    if (count_links(ends[1], *type, from) != *ordinal)
        return 0;
    for (int i = 0; i < 2; i++) {
        weiri_plan_link *link =
            weiri_plan_append(&ends[i]->links[*type], &ends[i]->nlinks[*type], sizeof *link);
        if (!link)
            return 0;
        *link = (weiri_plan_link){i ? from : to, *ordinal};
    }
    return 1;
}

/* The last channel between two ranks, if nothing uses it in this direction: each direction is a
 * separate counter. */
static int reuse(const plan_fix_draft *draft, int from, int to, int *type, int32_t *ordinal)
{
    for (*type = WEIRI_PLAN_MEMORY; *type <= WEIRI_PLAN_PORT; ++*type) {
        *ordinal = count_links(&draft->plan->gpus[from], *type, to) - 1;
        if (*ordinal < 0)
            continue;
        const int ranks[] = {from, to};
        int is_used = 0;
        for (int end = 0; end < 2; end++) {
            const weiri_plan_gpu *gpu = &draft->plan->gpus[ranks[end]];
            const uint32_t link = find_link(gpu, *type, ranks[1 - end], *ordinal);
            for (uint32_t i = 0; i < gpu->nops; i++)
                for (uint32_t j = 0; j < gpu->ops[i].nids; j++) {
                    const weiri_plan_op *op = &gpu->ops[i];
                    const int waits = weiri_plan_is_wait(op->kind);
                    if ((int)op->channel == *type && gpu->ids[op->first_id + j] == link)
                        is_used |= waits == end;
                }
        }
        return !is_used;
    }
    return 0;
}

/* ------------------------------------------------------------------------- fixes */

/* The place at which a signal for what an operation does is added. */
static plan_fix_at signal_place(const plan_fix_draft *draft, plan_fix_at after)
{
    const weiri_check check = {.plan = draft->plan};
    const weiri_check_block block = {.rank = after.rank, .index = after.block};
    plan_fix_at at = place_after(draft, after);
    while (op_at(draft, at) && !weiri_check_may_wait(&check, &block, op_at(draft, at)))
        at = next_of(at);
    return at;
}

static plan_fix_at end_if_none(const plan_fix_draft *draft, plan_fix_at at)
{
    if (at.op == WEIRI_CHECK_NONE)
        at.op = block_at(draft, at)->nops;
    return pipeline_of(draft, at);
}

/* Adds a wait or an acquisition, and a fence. */
static int insert_wait(plan_fix_draft *draft, plan_fix_at before, weiri_plan_op op)
{
    const plan_fix_at at = end_if_none(draft, before);
    return insert_op(draft, at, op) && insert_nop(draft, next_of(at), 0);
}

/* Adds a fence, and a signal or a release. */
static int insert_signal(plan_fix_draft *draft, plan_fix_at at, weiri_plan_op op)
{
    if (!insert_op(draft, at, op))
        return 0;
    return op.kind == WEIRI_PLAN_RELAXED_SIGNAL_OP || insert_nop(draft, at, 0);
}

static int add_order(plan_fix_draft *draft, const plan_fix *fix, int is_begin)
{
    int type;
    int32_t ordinal;
    weiri_plan_op signal, wait;
    const int from = fix->first.rank, to = fix->second.rank;
    if (from == to ||
        (!reuse(draft, from, to, &type, &ordinal) && !connect(draft, from, to, &type, &ordinal)))
        return 0;
    const plan_fix_at at =
        is_begin ? (plan_fix_at){from, fix->first.block, 0} : signal_place(draft, fix->first);
    return make_channel_op(draft, at,
                           is_begin ? WEIRI_PLAN_RELAXED_SIGNAL_OP : WEIRI_PLAN_SIGNAL_OP, type,
                           find_link(&draft->plan->gpus[from], type, to, ordinal), &signal) &&
           insert_signal(draft, at, signal) &&
           make_channel_op(draft, fix->second,
                           is_begin ? WEIRI_PLAN_RELAXED_WAIT_OP : WEIRI_PLAN_WAIT_OP, type,
                           find_link(&draft->plan->gpus[to], type, from, ordinal), &wait) &&
           insert_wait(draft, fix->second, wait);
}

static int add_semaphore(plan_fix_draft *draft, const plan_fix *fix)
{
    weiri_plan_gpu *gpu = gpu_at(draft, fix->first);
    weiri_plan_op ops[] = {new_op(WEIRI_PLAN_SEM_RELEASE_OP, 0),
                           new_op(WEIRI_PLAN_SEM_ACQUIRE_OP, 0)};
    if (!weiri_plan_append(&gpu->semaphores, &gpu->nsemaphores, sizeof *gpu->semaphores))
        return 0;
    for (int i = 0; i < 2; i++) {
        ops[i].first_id = gpu->nids;
        ops[i].nids = 1;
        if (!append_id(gpu, gpu->nsemaphores - 1))
            return 0;
    }
    return insert_signal(draft, signal_place(draft, fix->first), ops[0]) &&
           insert_wait(draft, fix->second, ops[1]);
}

/* Adds a wait for what an operation signals to the rank of `second`. Returns 0 if it signals
 * nothing to it. */
static int add_wait_for(plan_fix_draft *draft, const plan_fix *fix, const weiri_plan_op *signal)
{
    const weiri_plan_gpu *from = gpu_at(draft, fix->first), *to = gpu_at(draft, fix->second);
    weiri_plan_op op;
    if (signal->kind == WEIRI_PLAN_SEM_RELEASE_OP && fix->first.rank == fix->second.rank) {
        op = new_op(WEIRI_PLAN_SEM_ACQUIRE_OP, 0);
        op.first_id = signal->first_id;
        op.nids = 1;
        return insert_wait(draft, fix->second, op);
    }
    for (uint32_t i = 0; signal->channel < WEIRI_PLAN_SWITCH && i < signal->nids; i++) {
        const weiri_plan_link *link =
            &from->links[signal->channel][from->ids[signal->first_id + i]];
        if (link->peer != fix->second.rank)
            continue;
        return make_channel_op(draft, fix->second, WEIRI_PLAN_WAIT_OP, (int)signal->channel,
                               find_link(to, (int)signal->channel, fix->first.rank, link->ordinal),
                               &op) &&
               insert_wait(draft, fix->second, op);
    }
    return 0;
}

/* Adds a wait for the next signal or release of a block. */
static int add_wait(plan_fix_draft *draft, const plan_fix *fix)
{
    for (plan_fix_at at = fix->first; op_at(draft, at); at = next_of(at)) {
        const weiri_plan_op signal = *op_at(draft, at);
        if (weiri_check_adds_credits(&signal) && add_wait_for(draft, fix, &signal))
            return 1;
    }
    return 0;
}

static int add_flush(plan_fix_draft *draft, plan_fix_at put)
{
    const weiri_plan_op *op = op_at(draft, put);
    weiri_plan_op flush = new_op(WEIRI_PLAN_FLUSH_OP, op->in_body);
    flush.channel = op->channel;
    flush.first_id = op->first_id;
    flush.nids = op->nids;
    plan_fix_at at = next_of(put);
    while (op_at(draft, at) && op_at(draft, at)->in_body == flush.in_body &&
           is_kind(draft, at, WEIRI_PLAN_SIGNAL_OP))
        at = next_of(at);
    return insert_op(draft, at, flush) && insert_nop(draft, next_of(at), flush.in_body);
}

static int strengthen(plan_fix_draft *draft, plan_fix_at at, weiri_plan_kind relaxed,
                      weiri_plan_kind strong)
{
    weiri_plan_op *op = op_at(draft, at);
    if (op && op->kind == relaxed) {
        plan_fix_mark *mark = &draft->marks[at.rank][op - draft->plan->gpus[at.rank].ops];
        if (!mark->fix)
            *mark = (plan_fix_mark){draft->number, relaxed};
        op->kind = strong;
    }
    return op != NULL;
}

static int make_stronger(plan_fix_draft *draft, plan_fix *fix)
{
    if (fix->second.rank >= 0 &&
        !(strengthen(draft, fix->second, WEIRI_PLAN_RELAXED_WAIT_OP, WEIRI_PLAN_WAIT_OP) &&
          insert_nop(draft, next_of(fix->second), op_at(draft, fix->second)->in_body)))
        return 0;
    if (fix->first.rank < 0)
        return 1;
    return strengthen(draft, fix->first, WEIRI_PLAN_RELAXED_SIGNAL_OP, WEIRI_PLAN_SIGNAL_OP) &&
           insert_nop(draft, fix->first, op_at(draft, fix->first)->in_body);
}

static int double_scratch(plan_fix_draft *draft)
{
    draft->plan->double_scratch = 1;
    draft->doubled = draft->number;
    return 1;
}

/* Whether both places exist, or the one that the fix has. A rank may have no thread block. */
static int has_places(const plan_fix *fix)
{
    if (fix->kind == WEIRI_CHECK_FIX_STRONGER)
        return fix->first.rank >= 0 || fix->second.rank >= 0;
    return fix->first.rank >= 0 && (fix->kind == WEIRI_CHECK_FIX_NOP ||
                                    fix->kind == WEIRI_CHECK_FIX_FLUSH || fix->second.rank >= 0);
}

int plan_fix_apply(plan_fix_draft *draft, plan_fix *fix, int form)
{
    if (!has_places(fix))
        return 0;
    if (form && fix->kind != WEIRI_CHECK_FIX_SCRATCH && fix->kind != WEIRI_CHECK_FIX_WAIT)
        return 0;
    switch (fix->kind) {
    case WEIRI_CHECK_FIX_NONE:
        return 0;
    case WEIRI_CHECK_FIX_STRONGER:
        return make_stronger(draft, fix);
    case WEIRI_CHECK_FIX_NOP:
        return !is_fenced(draft, fix->first) && op_at(draft, fix->first) &&
               insert_nop(draft, fix->first, op_at(draft, fix->first)->in_body);
    case WEIRI_CHECK_FIX_FLUSH:
        return op_at(draft, fix->first) && add_flush(draft, fix->first);
    case WEIRI_CHECK_FIX_ORDER:
        return add_order(draft, fix, 0);
    case WEIRI_CHECK_FIX_BEGIN:
        return add_order(draft, fix, 1);
    case WEIRI_CHECK_FIX_SCRATCH:
        return form ? add_order(draft, fix, 1) : double_scratch(draft);
    case WEIRI_CHECK_FIX_BLOCKS:
        return fix->first.rank == fix->second.rank && add_semaphore(draft, fix);
    case WEIRI_CHECK_FIX_WAIT:
        return form ? add_order(draft, fix, 0) : add_wait(draft, fix);
    }
    return 0;
}

/* ------------------------------------------------------------------------ removal */

static void remove_op(plan_fix_draft *draft, plan_fix_at at)
{
    weiri_plan_gpu *gpu = gpu_at(draft, at);
    const uint32_t place = gpu->blocks[at.block].first_op + at.op;
    const plan_fix_at loop = pipeline_of(draft, at);
    if (loop.op != at.op)
        op_at(draft, loop)->nops--;
    gpu->nops--;
    memmove(&gpu->ops[place], &gpu->ops[place + 1], (gpu->nops - place) * sizeof *gpu->ops);
    memmove(&draft->marks[at.rank][place], &draft->marks[at.rank][place + 1],
            (gpu->nops - place) * sizeof **draft->marks);
    gpu->blocks[at.block].nops--;
    for (uint32_t i = at.block + 1; i < gpu->nblocks; i++)
        gpu->blocks[i].first_op--;
}

void plan_fix_remove(plan_fix_draft *draft, uint32_t number)
{
    if (draft->doubled == number)
        draft->plan->double_scratch = 0;
    draft->doubled = draft->doubled == number ? 0 : draft->doubled;
    for (plan_fix_at at = {0}; at.rank < draft->plan->nranks; at.rank++)
        for (at.block = 0; at.block < gpu_at(draft, at)->nblocks; at.block++)
            for (at.op = block_at(draft, at)->nops; at.op-- > 0;) {
                weiri_plan_op *op = op_at(draft, at);
                plan_fix_mark *mark = &draft->marks[at.rank][op - draft->plan->gpus[at.rank].ops];
                if (mark->fix != number)
                    continue;
                if (mark->was == WEIRI_PLAN_KINDS) {
                    remove_op(draft, at);
                } else {
                    op->kind = mark->was;
                    mark->fix = 0;
                }
            }
}
