/*
 * Copies a builder's program into a plan. Each block, channel, semaphore and barrier is repeated
 * for each of the n instances and numbered as the DSL does: the k-th becomes n k to n k + n - 1.
 * Each chunk is divided among the instances.
 *
 * Of a reference to chunks [index, index + size), instance i gets size contiguous chunks from
 * n index + i size on, as with the DSL. That is right if any two references that overlap cover the
 * same chunks, because signals and fences order only operations of the same instance. If references
 * with different ranges overlap, instance i gets chunk n (index + k) + i of each chunk k instead,
 * and an operation on several chunks becomes several operations ("single chunks").
 */
#include "plan/build/build.h"

#include "base/contract.h"

#include <stdlib.h>
#include <string.h>

typedef struct emitter {
    weir_plan_builder *builder;
    uint32_t instances;
    int singly; /* 1: operations are divided into single chunks */
    const weiri_build_rank *from;
    weiri_plan_gpu *to;
    const weiri_build_block *block;
    uint32_t instance;
} emitter;

/* ------------------------------------------ are operations divided into single chunks? */

typedef struct use {
    uint32_t rank, buffer, index, size;
} use;

static int plan_emit_compare_uses(const void *a, const void *b)
{
    const use *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->buffer != right->buffer)
        return left->buffer < right->buffer ? -1 : 1;
    if (left->index != right->index)
        return left->index < right->index ? -1 : 1;
    return left->size < right->size ? -1 : left->size > right->size;
}

/* In place, input and output are the same memory. (Collectives in which they have different
 * offsets always need single chunks.) */
static uint32_t plan_emit_memory_of(const weir_plan_builder *builder, uint32_t buffer)
{
    return builder->spec.in_place && buffer == WEIR_PLAN_INPUT ? WEIR_PLAN_OUTPUT : buffer;
}

static void plan_emit_add_use(weir_plan_builder *builder, int rank, const weiri_plan_ref *ref,
                              use **uses, uint32_t *count)
{
    const weiri_build_switch *group =
        ref->place == WEIRI_PLAN_GROUP
            ? &builder->switches[builder->ranks[rank].switches.items[ref->rank]]
            : NULL;
    for (uint32_t i = 0; i < (group ? group->ranks.count : 1); i++) {
        use *made = weiri_plan_append(uses, count, sizeof **uses);
        if (!made) {
            weiri_build_no_memory(builder);
            return;
        }
        *made = (use){group ? group->ranks.items[i] : (uint32_t)ref->rank,
                      plan_emit_memory_of(builder, ref->buffer), ref->index, ref->size};
    }
}

static void plan_emit_list_uses(weir_plan_builder *builder, int rank, use **uses, uint32_t *count)
{
    const weiri_build_rank *from = &builder->ranks[rank];
    for (uint32_t block = 0; block < from->nblocks; block++)
        for (uint32_t i = 0; i < from->blocks[block].nops; i++) {
            const weiri_build_op *op = &from->blocks[block].ops[i];
            for (uint32_t r = 0; r < op->nsrcs; r++)
                plan_emit_add_use(builder, rank, &op->srcs[r], uses, count);
            for (uint32_t r = 0; r < op->ndsts; r++)
                plan_emit_add_use(builder, rank, &op->dsts[r], uses, count);
        }
}

static int plan_emit_need_single_chunks(weir_plan_builder *builder)
{
    use *uses = NULL;
    uint32_t count = 0;
    int found = 0;
    /* In place, the input and output of these begin at different chunks of the same memory. */
    const weiri_contract *contract = weiri_contract_of((int)builder->spec.collective);
    if (builder->spec.in_place && contract->in_has_blocks != contract->out_has_blocks)
        return 1;
    for (int rank = 0; rank < builder->spec.nranks; rank++)
        plan_emit_list_uses(builder, rank, &uses, &count);
    if (count)
        qsort(uses, count, sizeof *uses, plan_emit_compare_uses);
    for (uint32_t i = 1; i < count && !found; i++)
        found = uses[i].rank == uses[i - 1].rank && uses[i].buffer == uses[i - 1].buffer &&
                uses[i].index < uses[i - 1].index + uses[i - 1].size &&
                (uses[i].index != uses[i - 1].index || uses[i].size != uses[i - 1].size);
    free(uses);
    return found;
}

/* ------------------------------------------------------------------ operations */

static void *plan_emit_append(const emitter *in, void *list, uint32_t *count, size_t element_bytes)
{
    void *made = weiri_plan_append(list, count, element_bytes);
    if (!made)
        weiri_build_no_memory(in->builder);
    return made;
}

static void plan_emit_id(const emitter *in, uint32_t id)
{
    uint32_t *made = plan_emit_append(in, &in->to->ids, &in->to->nids, sizeof id);
    if (made)
        *made = id;
}

static uint32_t plan_emit_numbered(const emitter *in, uint32_t number)
{
    return number * in->instances + in->instance;
}

/* The id of the memory in a file: the position of its remote buffer or switch channel in the
 * block's list. */
static int32_t plan_emit_file_id(const emitter *in, weiri_plan_channel type,
                                 const weiri_plan_ref *ref)
{
    uint32_t at = 0;
    if (ref->place == WEIRI_PLAN_LOCAL)
        return -1;
    if (ref->place == WEIRI_PLAN_GROUP)
        return (int32_t)weiri_build_find(&in->block->channels[WEIRI_PLAN_SWITCH],
                                         (uint32_t)ref->rank);
    while (in->from->remotes[at].rank != ref->rank ||
           in->from->remotes[at].buffer != (weir_plan_buffer)ref->buffer)
        at++;
    return (int32_t)weiri_build_find(&in->block->remotes[type], at);
}

/* chunk: which chunk of the reference, if operations are divided into single chunks. */
static void plan_emit_ref(const emitter *in, weiri_plan_channel type, const weiri_plan_ref *ref,
                          uint32_t chunk)
{
    weiri_plan_ref *made = plan_emit_append(in, &in->to->refs, &in->to->nrefs, sizeof *made);
    if (!made)
        return;
    *made = *ref;
    made->id = plan_emit_file_id(in, type, ref);
    if (ref->place == WEIRI_PLAN_GROUP)
        made->rank = (int32_t)plan_emit_numbered(in, (uint32_t)ref->rank);
    made->index = ref->index * in->instances + in->instance * ref->size;
    if (in->singly) {
        made->index = (ref->index + chunk) * in->instances + in->instance;
        made->size = 1;
    }
}

/* 1 if files of the DSL contain the channel or semaphore ids of this operation. */
static int plan_emit_keeps_ids(const weiri_build_op *op)
{
    return weiri_plan_traits[op->kind].mode == WEIRI_PLAN_SYNC || op->channel == WEIRI_PLAN_PORT ||
           op->kind == WEIRI_PLAN_GET_OP;
}

static void plan_emit_one_op(const emitter *in, const weiri_build_op *op, weiri_plan_kind kind,
                             uint32_t chunk, uint32_t nparts)
{
    int reduces = weiri_plan_traits[kind].mode == WEIRI_PLAN_REDUCE;
    weiri_plan_op *made = plan_emit_append(in, &in->to->ops, &in->to->nops, sizeof *made);
    if (!made)
        return;
    made->kind = kind;
    made->channel = op->channel;
    made->reduce_op = reduces ? (int)in->builder->spec.op : -1;
    made->barrier = op->kind == WEIRI_PLAN_BARRIER_OP ? plan_emit_numbered(in, op->barrier) : 0;
    made->nblocks = op->nblocks;
    made->part = nparts > 1 ? op->part : 0;
    made->nparts = nparts;
    made->in_body = op->loop != 0;
    made->first_id = in->to->nids;
    for (uint32_t i = 0; plan_emit_keeps_ids(op) && i < op->nids; i++)
        plan_emit_id(in, plan_emit_numbered(in, op->ids[i]));
    made->nids = in->to->nids - made->first_id;
    made->first_src = in->to->nrefs;
    for (uint32_t i = 0; i < op->nsrcs; i++)
        plan_emit_ref(in, op->channel, &op->srcs[i], chunk);
    made->nsrcs = in->to->nrefs - made->first_src;
    made->first_dst = in->to->nrefs;
    for (uint32_t i = 0; i < op->ndsts; i++)
        plan_emit_ref(in, op->channel, &op->dsts[i], chunk);
    made->ndsts = in->to->nrefs - made->first_dst;
}

/* Emits an operation once for each chunk of its part, which must consist of whole chunks. Of a put
 * with signal only the last one signals. */
static void plan_emit_single_chunks(const emitter *in, const weiri_build_op *op)
{
    uint32_t size = op->srcs[0].size, each = size / op->nparts;
    uint32_t first = op->part * each;
    int signals = weiri_plan_is_put_signal(op->kind);
    if (size % op->nparts)
        weiri_build_reject(in->builder, "weir_plan_build", (int)(in->from - in->builder->ranks),
                           "a group of %u thread blocks divides %u chunks that other operations "
                           "use singly; with several instances expected 1 chunk or a multiple of "
                           "the number of blocks",
                           op->nparts, size);
    for (uint32_t chunk = first; chunk < first + each; chunk++)
        plan_emit_one_op(in, op, signals && chunk + 1 < size ? WEIRI_PLAN_PUT_OP : op->kind, chunk,
                         1);
}

static void plan_emit_op(const emitter *in, const weiri_build_op *op)
{
    if (in->singly && op->nsrcs && op->srcs[0].size > 1)
        plan_emit_single_chunks(in, op);
    else
        plan_emit_one_op(in, op, op->kind, 0, op->nparts);
}

/* Emits the pipeline that begins with operation `at` of the block; returns the next operation. */
static uint32_t plan_emit_pipeline(const emitter *in, uint32_t at)
{
    const weiri_build_block *block = in->block;
    uint32_t number = block->ops[at].loop, place = in->to->nops;
    const weiri_build_loop *loop = &in->builder->loops[number - 1];
    weiri_plan_op *made = plan_emit_append(in, &in->to->ops, &in->to->nops, sizeof *made);
    if (!made)
        return block->nops;
    if (in->singly && loop->is_mixed)
        weiri_build_reject(in->builder, "weir_plan_build", (int)(in->from - in->builder->ranks),
                           "the operations of a pipeline have different numbers of chunks; they "
                           "cannot be divided among instances");
    made->kind = WEIRI_PLAN_PIPELINE_OP;
    made->channel = WEIRI_PLAN_NO_CHANNEL;
    made->reduce_op = -1;
    made->nparts = 1;
    made->unit_bytes = loop->unit_bytes;
    made->num_chunks = in->singly ? 1 : loop->num_chunks;
    for (; at < block->nops && block->ops[at].loop == number; at++)
        plan_emit_op(in, &block->ops[at]);
    in->to->ops[place].nops = in->to->nops - place - 1;
    return at;
}

static void plan_emit_block(const emitter *in, uint32_t id)
{
    const weiri_build_block *from = in->block;
    weiri_plan_block *made = plan_emit_append(in, &in->to->blocks, &in->to->nblocks, sizeof *made);
    if (!made)
        return;
    made->id = id;
    made->first_op = in->to->nops;
    for (uint32_t i = 0; i < from->nchannel_order; i++) {
        weiri_plan_channel type = from->channel_order[i];
        made->channels[type].first = in->to->nids;
        made->channels[type].count = from->channels[type].count;
        for (uint32_t k = 0; k < from->channels[type].count; k++)
            plan_emit_id(in, plan_emit_numbered(in, from->channels[type].items[k]));
    }
    for (uint32_t i = 0; i < from->nremote_order; i++) {
        weiri_plan_channel type = from->remote_order[i];
        made->remotes[type].first = in->to->nids;
        made->remotes[type].count = from->remotes[type].count;
        for (uint32_t k = 0; k < from->remotes[type].count; k++)
            plan_emit_id(in, from->remotes[type].items[k]);
    }
    for (uint32_t at = 0; at < from->nops && in->builder->status == WEIR_OK;) {
        if (from->ops[at].loop)
            at = plan_emit_pipeline(in, at);
        else
            plan_emit_op(in, &from->ops[at++]);
    }
    made->nops = in->to->nops - made->first_op;
}

/* ---------------------------------------------------------------------- a rank */

static void plan_emit_links(const emitter *in, int type)
{
    const weiri_build_list *peers = &in->from->peers[type];
    for (uint32_t i = 0; i < peers->count * in->instances; i++) {
        weiri_plan_link *made =
            plan_emit_append(in, &in->to->links[type], &in->to->nlinks[type], sizeof *made);
        if (!made)
            return;
        made->peer = (int32_t)peers->items[i / in->instances];
    }
}

static void plan_emit_switches(const emitter *in)
{
    for (uint32_t i = 0; i < in->from->switches.count * in->instances; i++) {
        const weiri_build_switch *group =
            &in->builder->switches[in->from->switches.items[i / in->instances]];
        weiri_plan_switch *made =
            plan_emit_append(in, &in->to->switches, &in->to->nswitches, sizeof *made);
        if (!made)
            return;
        made->buffer = group->buffer;
        made->size = made->nranks = group->ranks.count;
        made->first_rank = in->to->nids;
        for (uint32_t k = 0; k < group->ranks.count; k++)
            plan_emit_id(in, group->ranks.items[k]);
    }
}

static void plan_emit_memory(const emitter *in, int rank)
{
    for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
        in->to->chunks[buffer] =
            weiri_build_chunks(in->builder, rank, (weir_plan_buffer)buffer) * in->instances;
    for (uint32_t i = 0; i < in->from->nremotes; i++) {
        weiri_plan_remote *made =
            plan_emit_append(in, &in->to->remotes, &in->to->nremotes, sizeof *made);
        if (!made)
            return;
        *made = in->from->remotes[i];
    }
    for (uint32_t i = 0; i < in->from->semaphores.count * in->instances; i++) {
        uint32_t *made =
            plan_emit_append(in, &in->to->semaphores, &in->to->nsemaphores, sizeof *made);
        if (!made)
            return;
        *made = in->from->semaphores.items[i / in->instances];
    }
}

static void plan_emit_rank(emitter *in, int rank)
{
    plan_emit_links(in, WEIRI_PLAN_MEMORY);
    plan_emit_links(in, WEIRI_PLAN_PORT);
    plan_emit_switches(in);
    plan_emit_memory(in, rank);
    for (uint32_t i = 0; i < in->from->nblocks; i++) {
        in->block = &in->from->blocks[i];
        for (in->instance = 0; in->instance < in->instances; in->instance++)
            if (in->builder->status == WEIR_OK)
                plan_emit_block(in, plan_emit_numbered(in, i));
    }
}

/* -------------------------------------------------------------------- the plan */

static weir_plan *plan_emit_new_plan(const weir_plan_builder *builder)
{
    const weir_plan_spec *spec = &builder->spec;
    weir_plan *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->name = strdup(spec->name);
    made->file = strdup(spec->name);
    made->collective_name = strdup(weir_collective_name(spec->collective));
    made->gpus = calloc((size_t)spec->nranks, sizeof *made->gpus);
    made->nranks = spec->nranks;
    made->collective = (int)spec->collective;
    made->in_place = spec->in_place != 0;
    made->reuse_resources = spec->reuse_resources != 0;
    made->double_scratch = spec->double_scratch != 0;
    made->nthreads = spec->nthreads;
    made->alignment = spec->alignment;
    made->min_bytes = spec->min_bytes;
    made->max_bytes = spec->max_bytes;
    if (made->name && made->file && made->collective_name && made->gpus)
        return made;
    weir_plan_free(made);
    return NULL;
}

weir_status weiri_build_emit(weir_plan_builder *builder, weir_plan **plan)
{
    emitter in = {.builder = builder, .instances = (uint32_t)builder->spec.instances};
    weir_plan *made = plan_emit_new_plan(builder);
    if (!made)
        weiri_build_no_memory(builder);
    if (made && in.instances > 1)
        in.singly = plan_emit_need_single_chunks(builder);
    for (int rank = 0; rank < builder->spec.nranks && builder->status == WEIR_OK; rank++) {
        in.from = &builder->ranks[rank];
        in.to = &made->gpus[rank];
        plan_emit_rank(&in, rank);
        made->uses_ll |= weiri_plan_gpu_has_packets(in.to);
    }
    if (builder->status == WEIR_OK)
        *plan = made;
    else
        weir_plan_free(made);
    return builder->status;
}
