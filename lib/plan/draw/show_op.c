/* Prints one operation (show.h). */
#include "plan/draw/show.h"

#include <inttypes.h>

void weiri_plan_show_ids(const uint32_t *ids, uint32_t count, FILE *to)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t end = i;
        while (end + 1 < count && ids[end + 1] == ids[end] + 1)
            end++;
        fprintf(to, end > i ? "%s%u..%u" : "%s%u", i ? " " : "", ids[i], ids[end]);
        i = end;
    }
}

static void plan_show_chunks(const weiri_plan_ref *ref, FILE *to)
{
    fprintf(to, "%c[%u", weiri_plan_buffer_letters[ref->buffer], ref->index);
    fprintf(to, ref->size > 1 ? "..%u]" : "]", ref->index + ref->size - 1);
}

static void plan_show_ref(const weir_plan *plan, int rank, const weiri_plan_ref *ref, FILE *to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    if (ref->place == WEIRI_PLAN_REMOTE)
        fprintf(to, "rank %d ", ref->rank);
    if (ref->place == WEIRI_PLAN_GROUP) {
        const weiri_plan_switch *group = &gpu->switches[ref->rank];
        fputs("ranks ", to);
        weiri_plan_show_ids(gpu->ids + group->first_rank, group->nranks, to);
        fputc(' ', to);
    }
    plan_show_chunks(ref, to);
}

/* The number of references, from the first on, to the same chunks on ascending ranks. */
static uint32_t plan_show_count_same_chunks(const weiri_plan_ref *refs, uint32_t count)
{
    uint32_t n = 1;
    while (n < count && refs->place == WEIRI_PLAN_REMOTE && refs[n].place == WEIRI_PLAN_REMOTE &&
           refs[n].buffer == refs->buffer && refs[n].index == refs->index &&
           refs[n].size == refs->size && refs[n].rank > refs[n - 1].rank)
        n++;
    return n;
}

static void plan_show_refs(const weir_plan *plan, int rank, const weiri_plan_ref *refs,
                           uint32_t count, const char *between, FILE *to)
{
    for (uint32_t i = 0; i < count;) {
        uint32_t n = plan_show_count_same_chunks(refs + i, count - i), ranks[WEIRI_PLAN_REFS_MAX];
        fputs(i ? between : "", to);
        for (uint32_t k = 0; k < n; k++)
            ranks[k] = (uint32_t)refs[i + k].rank;
        if (n > 1) {
            fputs("ranks ", to);
            weiri_plan_show_ids(ranks, n, to);
            fputc(' ', to);
            plan_show_chunks(&refs[i], to);
        } else {
            plan_show_ref(plan, rank, &refs[i], to);
        }
        i += n;
    }
}

static const char *plan_show_sign_of(int reduce_op)
{
    static const char *const signs[WEIR_OP_COUNT] = {[WEIR_SUM] = "+",
                                                     [WEIR_PROD] = "*",
                                                     [WEIR_MAX] = "max",
                                                     [WEIR_MIN] = "min",
                                                     [WEIR_AVG] = "+"};
    return reduce_op < 0 ? "+" : signs[reduce_op];
}

static void plan_show_pairs(const weir_plan *plan, int rank, const weiri_plan_op *op, FILE *to)
{
    const weiri_plan_ref *srcs = &plan->gpus[rank].refs[op->first_src];
    const weiri_plan_ref *dsts = &plan->gpus[rank].refs[op->first_dst];
    for (uint32_t i = 0; i < op->ndsts; i++) {
        fputs(i ? ", " : "", to);
        plan_show_ref(plan, rank, &srcs[i], to);
        fputs(" -> ", to);
        plan_show_ref(plan, rank, &dsts[i], to);
    }
}

/* Prints all sources and all destinations: of a reduction or a broadcast. */
static void plan_show_all_to_all(const weir_plan *plan, int rank, const weiri_plan_op *op, FILE *to)
{
    const weiri_plan_ref *refs = plan->gpus[rank].refs;
    char between[8];
    snprintf(between, sizeof between, " %s ", plan_show_sign_of(op->reduce_op));
    plan_show_refs(plan, rank, &refs[op->first_src], op->nsrcs, between, to);
    fputs(" -> ", to);
    plan_show_refs(plan, rank, &refs[op->first_dst], op->ndsts, ", ", to);
}

/* Prints the peers of the operation's channels. */
static void plan_show_channels(const weir_plan *plan, int rank, const weiri_plan_op *op, FILE *to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    for (uint32_t i = 0; i < op->nids; i++) {
        const weiri_plan_link *link = &gpu->links[op->channel][gpu->ids[op->first_id + i]];
        fprintf(to, "%s%d", i ? " " : "rank ", link->peer);
        if (link->ordinal)
            fprintf(to, "#%d", link->ordinal);
    }
    if (op->channel == WEIRI_PLAN_PORT)
        fputs(" by port", to);
}

static void plan_show_sync(const weir_plan *plan, int rank, const weiri_plan_op *op, FILE *to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    int waits = weiri_plan_is_wait(op->kind);
    if (op->kind == WEIRI_PLAN_BARRIER_OP)
        fprintf(to, "%u of %u thread blocks", op->barrier, op->nblocks);
    else if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        for (uint32_t i = 0; i < op->nids; i++)
            fprintf(to, "%s%u", i ? " " : "semaphore ", gpu->ids[op->first_id + i]);
    else if (op->channel <= WEIRI_PLAN_PORT && op->nids) {
        fputs(waits ? "for " : "to ", to);
        plan_show_channels(plan, rank, op, to);
    }
}

static void plan_show_extras(const weir_plan *plan, int rank, const weiri_plan_op *op, int own_part,
                             FILE *to)
{
    int signals = weiri_plan_is_put_signal(op->kind);
    int moves = op->ndsts > 0 && op->channel <= WEIRI_PLAN_PORT;
    if (moves && op->nids && (signals || op->channel == WEIRI_PLAN_PORT)) {
        fputs(signals ? ", signal " : ", ", to);
        plan_show_channels(plan, rank, op, to);
    }
    if (op->reduce_op > WEIR_SUM)
        fprintf(to, "  (%s)", weir_op_name((weir_op)op->reduce_op));
    if (op->nparts > 1 && op->part == (uint32_t)own_part)
        fprintf(to, "  (one part of %u)", op->nparts);
    else if (op->nparts > 1)
        fprintf(to, "  (part %u of %u)", op->part, op->nparts);
}

void weiri_plan_show_op(const weir_plan *plan, int rank, const weiri_plan_op *op, int own_part,
                        FILE *to)
{
    weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
    if (op->kind == WEIRI_PLAN_NOP_OP) {
        fputs(weiri_plan_kind_name(op->kind), to);
        return;
    }
    fprintf(to, "%-9s ", weiri_plan_kind_name(op->kind));
    if (mode == WEIRI_PLAN_LOOP)
        fprintf(to, "%" PRIu64 " bytes per turn, over %u chunks", op->unit_bytes, op->num_chunks);
    else if (mode == WEIRI_PLAN_SYNC)
        plan_show_sync(plan, rank, op, to);
    else if (mode == WEIRI_PLAN_PAIRS)
        plan_show_pairs(plan, rank, op, to);
    else
        plan_show_all_to_all(plan, rank, op, to);
    if (mode != WEIRI_PLAN_LOOP && mode != WEIRI_PLAN_SYNC)
        plan_show_extras(plan, rank, op, own_part, to);
}
