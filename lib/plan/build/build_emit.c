/*
 * A builder's program as a plan: every block, channel, semaphore and barrier once for each
 * instance, numbered as the DSL does (n instances: the k-th becomes n k .. n k + n - 1), every
 * chunk divided among them.
 *
 * An instance's share of chunks [index, index + size) is, as with the DSL, size chunks in one
 * piece: n index + i size on. That holds where all references to the same memory are to the
 * same chunks: signals and fences order what one instance does. Where references of other
 * lengths overlap, an instance has instead its n-th of each single chunk, n (index + k) + i,
 * and an operation of several chunks becomes one for each.
 */
#include "plan/build/build.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

typedef struct emitter {
    weir_plan_builder *builder;
    uint32_t instances;
    int singly; /* operations are divided into single chunks */
    const weiri_build_rank *from;
    weiri_plan_gpu *to;
    const weiri_build_block *block;
    uint32_t instance;
} emitter;

/* ------------------------------------------------------- pieces or single chunks */

typedef struct use {
    uint32_t rank, buffer, index, size;
} use;

static int compare_uses(const void *a, const void *b)
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

/* In place, input and output of collectives whose chunks are the same in both are one. */
static uint32_t memory_of(const weir_plan_builder *builder, uint32_t buffer)
{
    return builder->spec.in_place && buffer == WEIR_PLAN_INPUT ? WEIR_PLAN_OUTPUT : buffer;
}

static void add_use(weir_plan_builder *builder, int rank, const weiri_plan_ref *ref, use **uses,
                    uint32_t *count)
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
                      memory_of(builder, ref->buffer), ref->index, ref->size};
    }
}

static void list_uses(weir_plan_builder *builder, int rank, use **uses, uint32_t *count)
{
    const weiri_build_rank *from = &builder->ranks[rank];
    for (uint32_t block = 0; block < from->nblocks; block++)
        for (uint32_t i = 0; i < from->blocks[block].nops; i++) {
            const weiri_build_op *op = &from->blocks[block].ops[i];
            for (uint32_t r = 0; r < op->nsrcs; r++)
                add_use(builder, rank, &op->srcs[r], uses, count);
            for (uint32_t r = 0; r < op->ndsts; r++)
                add_use(builder, rank, &op->dsts[r], uses, count);
        }
}

static int need_single_chunks(weir_plan_builder *builder)
{
    use *uses = NULL;
    uint32_t count = 0;
    int found = 0;
    /* In place, these have their input and output at different chunks. */
    if (builder->spec.in_place && (builder->spec.collective == WEIR_COLL_ALLGATHER ||
                                   builder->spec.collective == WEIR_COLL_REDUCE_SCATTER))
        return 1;
    for (int rank = 0; rank < builder->spec.nranks; rank++)
        list_uses(builder, rank, &uses, &count);
    if (count)
        qsort(uses, count, sizeof *uses, compare_uses);
    for (uint32_t i = 1; i < count && !found; i++)
        found = uses[i].rank == uses[i - 1].rank && uses[i].buffer == uses[i - 1].buffer &&
                uses[i].index < uses[i - 1].index + uses[i - 1].size &&
                (uses[i].index != uses[i - 1].index || uses[i].size != uses[i - 1].size);
    free(uses);
    return found;
}

/* ------------------------------------------------------------------ operations */

static void *append(const emitter *in, void *list, uint32_t *count, size_t element_bytes)
{
    void *made = weiri_plan_append(list, count, element_bytes);
    if (!made)
        weiri_build_no_memory(in->builder);
    return made;
}

static void emit_id(const emitter *in, uint32_t id)
{
    uint32_t *made = append(in, &in->to->ids, &in->to->nids, sizeof id);
    if (made)
        *made = id;
}

static uint32_t numbered(const emitter *in, uint32_t number)
{
    return number * in->instances + in->instance;
}

/* What a file calls the memory: where its remote buffer or switch channel stands in the
 * block's list. */
static int32_t file_id(const emitter *in, weiri_plan_channel type, const weiri_plan_ref *ref)
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

/* chunk: which single one; or all of them, in one piece. */
static void emit_ref(const emitter *in, weiri_plan_channel type, const weiri_plan_ref *ref,
                     uint32_t chunk)
{
    weiri_plan_ref *made = append(in, &in->to->refs, &in->to->nrefs, sizeof *made);
    if (!made)
        return;
    *made = *ref;
    made->id = file_id(in, type, ref);
    if (ref->place == WEIRI_PLAN_GROUP)
        made->rank = (int32_t)numbered(in, (uint32_t)ref->rank);
    made->index = ref->index * in->instances + in->instance * ref->size;
    if (in->singly) {
        made->index = (ref->index + chunk) * in->instances + in->instance;
        made->size = 1;
    }
}

/* Ids are kept where a file has them: of signals and waits, of gets, over ports. */
static int keeps_ids(const weiri_build_op *op)
{
    return weiri_plan_traits[op->kind].mode == WEIRI_PLAN_SYNC ||
           op->channel == WEIRI_PLAN_PORT || op->kind == WEIRI_PLAN_GET_OP;
}

static void emit_piece(const emitter *in, const weiri_build_op *op, weiri_plan_kind kind,
                       uint32_t chunk, uint32_t nparts)
{
    int reduces = weiri_plan_traits[kind].mode == WEIRI_PLAN_REDUCE;
    weiri_plan_op *made = append(in, &in->to->ops, &in->to->nops, sizeof *made);
    if (!made)
        return;
    made->kind = kind;
    made->channel = op->channel;
    made->reduce_op = reduces ? (int)in->builder->spec.op : -1;
    made->barrier = op->kind == WEIRI_PLAN_BARRIER_OP ? numbered(in, op->barrier) : 0;
    made->nblocks = op->nblocks;
    made->part = nparts > 1 ? op->part : 0;
    made->nparts = nparts;
    made->in_body = op->loop != 0;
    made->first_id = in->to->nids;
    for (uint32_t i = 0; keeps_ids(op) && i < op->nids; i++)
        emit_id(in, numbered(in, op->ids[i]));
    made->nids = in->to->nids - made->first_id;
    made->first_src = in->to->nrefs;
    for (uint32_t i = 0; i < op->nsrcs; i++)
        emit_ref(in, op->channel, &op->srcs[i], chunk);
    made->nsrcs = in->to->nrefs - made->first_src;
    made->first_dst = in->to->nrefs;
    for (uint32_t i = 0; i < op->ndsts; i++)
        emit_ref(in, op->channel, &op->dsts[i], chunk);
    made->ndsts = in->to->nrefs - made->first_dst;
}

/* Single chunks of an operation: all, or those of its part, which are whole. Of a put with a
 * signal only the last one signals. */
static void emit_singly(const emitter *in, const weiri_build_op *op)
{
    uint32_t size = op->srcs[0].size, each = size / op->nparts;
    uint32_t first = op->part * each;
    int signals = op->kind == WEIRI_PLAN_PUT_SIGNAL_OP ||
                  op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP;
    if (size % op->nparts)
        weiri_build_refuse(in->builder, "weir_plan_build", (int)(in->from - in->builder->ranks),
                           "%u thread blocks divide %u chunks, which other operations use "
                           "singly: instances need a multiple of the blocks, or one chunk",
                           op->nparts, size);
    for (uint32_t chunk = first; chunk < first + each; chunk++)
        emit_piece(in, op, signals && chunk + 1 < size ? WEIRI_PLAN_PUT_OP : op->kind, chunk, 1);
}

static void emit_op(const emitter *in, const weiri_build_op *op)
{
    if (in->singly && op->nsrcs && op->srcs[0].size > 1)
        emit_singly(in, op);
    else
        emit_piece(in, op, op->kind, 0, op->nparts);
}

/* The pipeline that begins with this operation of the block; where it ends. */
static uint32_t emit_pipeline(const emitter *in, uint32_t at)
{
    const weiri_build_block *block = in->block;
    uint32_t number = block->ops[at].loop, place = in->to->nops;
    const weiri_build_loop *loop = &in->builder->loops[number - 1];
    weiri_plan_op *made = append(in, &in->to->ops, &in->to->nops, sizeof *made);
    if (!made)
        return block->nops;
    if (in->singly && loop->is_mixed)
        weiri_build_refuse(in->builder, "weir_plan_build", (int)(in->from - in->builder->ranks),
                           "a pipeline's operations on several numbers of chunks cannot be "
                           "divided among instances");
    made->kind = WEIRI_PLAN_PIPELINE_OP;
    made->channel = WEIRI_PLAN_NO_CHANNEL;
    made->reduce_op = -1;
    made->nparts = 1;
    made->unit_bytes = loop->unit_bytes;
    made->num_chunks = in->singly ? 1 : loop->num_chunks;
    for (; at < block->nops && block->ops[at].loop == number; at++)
        emit_op(in, &block->ops[at]);
    in->to->ops[place].nops = in->to->nops - place - 1;
    return at;
}

static void emit_block(const emitter *in, uint32_t id)
{
    const weiri_build_block *from = in->block;
    weiri_plan_block *made = append(in, &in->to->blocks, &in->to->nblocks, sizeof *made);
    if (!made)
        return;
    made->id = id;
    made->first_op = in->to->nops;
    for (uint32_t i = 0; i < from->nchannel_order; i++) {
        weiri_plan_channel type = from->channel_order[i];
        made->channels[type].first = in->to->nids;
        made->channels[type].count = from->channels[type].count;
        for (uint32_t k = 0; k < from->channels[type].count; k++)
            emit_id(in, numbered(in, from->channels[type].items[k]));
    }
    for (uint32_t i = 0; i < from->nremote_order; i++) {
        weiri_plan_channel type = from->remote_order[i];
        made->remotes[type].first = in->to->nids;
        made->remotes[type].count = from->remotes[type].count;
        for (uint32_t k = 0; k < from->remotes[type].count; k++)
            emit_id(in, from->remotes[type].items[k]);
    }
    for (uint32_t at = 0; at < from->nops && in->builder->status == WEIR_OK;) {
        if (from->ops[at].loop)
            at = emit_pipeline(in, at);
        else
            emit_op(in, &from->ops[at++]);
    }
    made->nops = in->to->nops - made->first_op;
}

/* ---------------------------------------------------------------------- a rank */

static void emit_links(const emitter *in, int type)
{
    const weiri_build_list *peers = &in->from->peers[type];
    for (uint32_t i = 0; i < peers->count * in->instances; i++) {
        weiri_plan_link *made =
            append(in, &in->to->links[type], &in->to->nlinks[type], sizeof *made);
        if (!made)
            return;
        made->peer = (int32_t)peers->items[i / in->instances];
    }
}

static void emit_switches(const emitter *in)
{
    for (uint32_t i = 0; i < in->from->switches.count * in->instances; i++) {
        const weiri_build_switch *group =
            &in->builder->switches[in->from->switches.items[i / in->instances]];
        weiri_plan_switch *made =
            append(in, &in->to->switches, &in->to->nswitches, sizeof *made);
        if (!made)
            return;
        made->buffer = group->buffer;
        made->size = made->nranks = group->ranks.count;
        made->first_rank = in->to->nids;
        for (uint32_t k = 0; k < group->ranks.count; k++)
            emit_id(in, group->ranks.items[k]);
    }
}

static void emit_memory(const emitter *in, int rank)
{
    for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
        in->to->chunks[buffer] =
            weiri_build_chunks(in->builder, rank, (weir_plan_buffer)buffer) * in->instances;
    for (uint32_t i = 0; i < in->from->nremotes; i++) {
        weiri_plan_remote *made = append(in, &in->to->remotes, &in->to->nremotes, sizeof *made);
        if (!made)
            return;
        *made = in->from->remotes[i];
    }
    for (uint32_t i = 0; i < in->from->semaphores.count * in->instances; i++) {
        uint32_t *made =
            append(in, &in->to->semaphores, &in->to->nsemaphores, sizeof *made);
        if (!made)
            return;
        *made = in->from->semaphores.items[i / in->instances];
    }
}

static void emit_rank(emitter *in, int rank)
{
    emit_links(in, WEIRI_PLAN_MEMORY);
    emit_links(in, WEIRI_PLAN_PORT);
    emit_switches(in);
    emit_memory(in, rank);
    for (uint32_t i = 0; i < in->from->nblocks; i++) {
        in->block = &in->from->blocks[i];
        for (in->instance = 0; in->instance < in->instances; in->instance++)
            if (in->builder->status == WEIR_OK)
                emit_block(in, numbered(in, i));
    }
}

/* ------------------------------------------------------------------- the whole */

static weir_plan *new_plan(const weir_plan_builder *builder)
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

static int has_packets(const weiri_plan_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->nops; i++)
        if (weiri_plan_traits[gpu->ops[i].kind].packets)
            return 1;
    return 0;
}

weir_status weiri_build_emit(weir_plan_builder *builder, weir_plan **plan)
{
    emitter in = {.builder = builder, .instances = (uint32_t)builder->spec.instances};
    weir_plan *made = new_plan(builder);
    if (!made)
        weiri_build_no_memory(builder);
    if (made && in.instances > 1)
        in.singly = need_single_chunks(builder);
    for (int rank = 0; rank < builder->spec.nranks && builder->status == WEIR_OK; rank++) {
        in.from = &builder->ranks[rank];
        in.to = &made->gpus[rank];
        emit_rank(&in, rank);
        made->uses_ll |= has_packets(in.to);
    }
    if (builder->status == WEIR_OK)
        *plan = made;
    else
        weir_plan_free(made);
    return builder->status;
}
