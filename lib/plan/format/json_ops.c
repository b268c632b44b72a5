/* Reads the operations of a thread block, and resolves ids that index into the block's lists. */
#include "plan/format/json.h"

#include <string.h>

static weiri_plan_kind plan_json_kind_of(weiri_json *in, json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    for (int kind = 0; name && kind < WEIRI_PLAN_KINDS; kind++)
        if (strcmp(name, weiri_plan_traits[kind].name) == 0)
            return (weiri_plan_kind)kind;
    uint32_t op = in->op;
    in->op = WEIRI_JSON_NO_OP; /* the position would name a kind */
    if (name)
        weiri_json_reject(in, "op %u: unknown operation '%.40s'", op, name);
    else
        weiri_json_reject(in, "op %u: name is missing or not a string", op);
    return WEIRI_PLAN_NOP_OP;
}

/* Replaces ids that index into a list of the thread block by the entries of that list. */
static void plan_json_resolve_ids(weiri_json *in, const weiri_plan_list *list, uint32_t first,
                                  uint32_t count, const char *key)
{
    uint32_t *ids = weiri_json_gpu(in)->ids;
    for (uint32_t i = 0; i < count && in->status == WEIR_OK; i++) {
        if (ids[first + i] >= list->count)
            weiri_json_reject(in, "%s[%u] is %u; the thread block has %u of that type", key, i,
                              ids[first + i], list->count);
        else
            ids[first + i] = ids[list->first + ids[first + i]];
    }
}

static void plan_json_place_remote(weiri_json *in, const weiri_plan_block *block,
                                   weiri_plan_channel channel, uint32_t id, weiri_plan_ref *ref)
{
    const weiri_plan_gpu *gpu = weiri_json_gpu(in);
    const weiri_plan_list *list =
        &block->remotes[channel == WEIRI_PLAN_NO_CHANNEL ? WEIRI_PLAN_MEMORY : channel];
    if (id >= list->count || gpu->ids[list->first + id] >= gpu->nremotes) {
        weiri_json_reject(in,
                          "buffer_id %u; the thread block has %u remote buffers for %s channels",
                          id, list->count, weiri_plan_channel_name(channel));
        return;
    }
    const weiri_plan_remote *remote = &gpu->remotes[gpu->ids[list->first + id]];
    ref->place = WEIRI_PLAN_REMOTE;
    ref->buffer = (uint8_t)remote->buffer;
    ref->rank = remote->rank;
    ref->id = (int32_t)id;
}

static void plan_json_place_group(weiri_json *in, const weiri_plan_block *block, uint32_t id,
                                  weiri_plan_ref *ref)
{
    const weiri_plan_gpu *gpu = weiri_json_gpu(in);
    const weiri_plan_list *list = &block->channels[WEIRI_PLAN_SWITCH];
    if (id >= list->count || gpu->ids[list->first + id] >= gpu->nswitches) {
        weiri_json_reject(in, "switch_channel_id %u; the thread block has %u switch channels", id,
                          list->count);
        return;
    }
    ref->place = WEIRI_PLAN_GROUP;
    ref->rank = (int32_t)gpu->ids[list->first + id];
    ref->buffer = (uint8_t)gpu->switches[ref->rank].buffer;
    ref->id = (int32_t)id;
}

static void plan_json_read_ref(weiri_json *in, json_t *object, const weiri_plan_block *block,
                               weiri_plan_channel channel, weiri_plan_ref *ref)
{
    weiri_json_known(in, weiri_json_object(in, object, "a chunk reference"),
                     "|type|buffer_id|switch_channel_id|index|size|rank|");
    ref->index = weiri_json_count(in, object, "index", WEIRI_PLAN_CHUNKS_MAX);
    ref->size = weiri_json_count(in, object, "size", WEIRI_PLAN_CHUNKS_MAX);
    ref->rank = in->rank;
    ref->id = -1;
    if (in->status != WEIR_OK)
        return;
    if (json_object_get(object, "switch_channel_id"))
        plan_json_place_group(in, block,
                              weiri_json_count(in, object, "switch_channel_id", INT32_MAX), ref);
    else if (json_object_get(object, "buffer_id"))
        plan_json_place_remote(in, block, channel,
                               weiri_json_count(in, object, "buffer_id", INT32_MAX), ref);
    else
        ref->buffer = (uint8_t)weiri_json_buffer(in, object, "type");
}

static weiri_plan_ref *plan_json_append_ref(weiri_json *in, uint32_t *count)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    weiri_plan_ref *ref = weiri_plan_append(&gpu->refs, &gpu->nrefs, sizeof *ref);
    if (ref)
        ++*count;
    else
        weiri_json_no_memory(in);
    return ref;
}

static void plan_json_read_refs(weiri_json *in, json_t *object, const char *key,
                                const weiri_plan_block *block, weiri_plan_channel channel,
                                uint32_t *first, uint32_t *count)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    json_t *item;
    size_t i;
    *first = gpu->nrefs;
    json_array_foreach(weiri_json_array(in, object, key), i, item)
    {
        weiri_plan_ref *ref = plan_json_append_ref(in, count);
        if (!ref)
            return;
        plan_json_read_ref(in, item, block, channel, ref);
        if (in->status != WEIR_OK)
            return;
    }
}

/* Reads glre in the form of the DSL: with buffer_offset, size and dst_chunk instead of src_buff
 * and dst_buff, and the switch channel in channel_ids. */
static void plan_json_read_group_reduce(weiri_json *in, json_t *object,
                                        const weiri_plan_block *block, weiri_plan_op *op)
{
    const weiri_plan_list *list = &block->channels[WEIRI_PLAN_SWITCH];
    const weiri_plan_gpu *gpu = weiri_json_gpu(in);
    uint32_t id = 0;
    if (op->nids != 1 || op->channel != WEIRI_PLAN_SWITCH) {
        weiri_json_reject(in, "channel_ids must name exactly one switch channel");
        return;
    }
    while (id < list->count && gpu->ids[list->first + id] != gpu->ids[op->first_id])
        id++;
    op->nids = 0;
    op->first_src = gpu->nrefs;
    weiri_plan_ref *src = plan_json_append_ref(in, &op->nsrcs);
    if (!src)
        return;
    src->index = weiri_json_count(in, object, "buffer_offset", WEIRI_PLAN_CHUNKS_MAX);
    src->size = weiri_json_count(in, object, "size", WEIRI_PLAN_CHUNKS_MAX);
    plan_json_place_group(in, block, id, src);
    op->first_dst = gpu->nrefs;
    weiri_plan_ref *dst = plan_json_append_ref(in, &op->ndsts);
    if (dst)
        plan_json_read_ref(in, json_object_get(object, "dst_chunk"), block, op->channel, dst);
}

static void plan_json_read_reduce_op(weiri_json *in, json_t *object, weiri_plan_op *op)
{
    weir_op value;
    op->reduce_op = -1;
    if (!json_object_get(object, "reduce_op"))
        return;
    const char *name = weiri_json_text(in, object, "reduce_op");
    if (in->status != WEIR_OK || strcmp(name, "nop") == 0)
        return;
    if (weir_op_parse(name, &value) == WEIR_OK)
        op->reduce_op = (int)value;
    else
        weiri_json_reject(in, "reduce_op is '%.40s'; expected sum, prod, max, min or avg", name);
}

static void plan_json_read_sync(weiri_json *in, json_t *object, weiri_plan_op *op)
{
    json_t *group = json_object_get(object, "tbg_info");
    json_t *iterations = json_object_get(object, "iter_context");
    op->nparts = 1;
    if (op->kind == WEIRI_PLAN_BARRIER_OP) {
        op->barrier = weiri_json_count(in, object, "barrier_id", INT32_MAX);
        op->nblocks = weiri_json_count(in, object, "num_threadblocks", INT32_MAX);
    }
    if (group) {
        weiri_json_known(in, weiri_json_object(in, group, "tbg_info"), "|tb_id|tbg_size|");
        op->part = weiri_json_count(in, group, "tb_id", INT32_MAX);
        op->nparts = weiri_json_count(in, group, "tbg_size", INT32_MAX);
    }
    if (op->kind == WEIRI_PLAN_PIPELINE_OP) {
        weiri_json_known(in, weiri_json_object(in, iterations, "iter_context"),
                         "|unit_size|num_chunks|");
        op->unit_bytes =
            weiri_json_number(in, iterations, "unit_size", INT64_MAX, WEIRI_JSON_REQUIRED);
        op->num_chunks = weiri_json_count(in, iterations, "num_chunks", INT32_MAX);
    }
}

/* The operation's ids are appended to the rank's ids first and resolved there, so that the lists
 * of the thread block stay unchanged. */
static void plan_json_fill_op(weiri_json *in, json_t *object, const weiri_plan_block *block,
                              weiri_plan_op *op)
{
    json_t *word = json_object_get(object, "channel_type");
    op->kind = plan_json_kind_of(in, object);
    op->channel =
        word ? weiri_json_channel(in, weiri_json_text(in, object, "channel_type"), "channel_type")
             : WEIRI_PLAN_NO_CHANNEL;
    plan_json_read_sync(in, object, op);
    plan_json_read_reduce_op(in, object, op);
    if (json_object_get(object, "semaphore_ids")) {
        weiri_json_ids(in, object, "semaphore_ids", &op->first_id, &op->nids);
    } else if (json_object_get(object, "channel_ids")) {
        weiri_json_ids(in, object, "channel_ids", &op->first_id, &op->nids);
        if (op->channel != WEIRI_PLAN_NO_CHANNEL)
            plan_json_resolve_ids(in, &block->channels[op->channel], op->first_id, op->nids,
                                  "channel_ids");
    }
    if (op->kind == WEIRI_PLAN_GROUP_REDUCE_OP && json_object_get(object, "dst_chunk")) {
        if (in->status == WEIR_OK)
            plan_json_read_group_reduce(in, object, block, op);
        return;
    }
    plan_json_read_refs(in, object, "src_buff", block, op->channel, &op->first_src, &op->nsrcs);
    plan_json_read_refs(in, object, "dst_buff", block, op->channel, &op->first_dst, &op->ndsts);
}

static void plan_json_read_op(weiri_json *in, json_t *object, uint32_t index, int in_body);

static void plan_json_read_body(weiri_json *in, json_t *object, uint32_t pipeline)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    uint32_t before = gpu->blocks[in->block].nops;
    json_t *item;
    size_t i;
    json_array_foreach(weiri_json_array(in, object, "ops"), i, item)
        plan_json_read_op(in, item, gpu->blocks[in->block].nops, 1);
    if (in->status == WEIR_OK)
        gpu->ops[pipeline].nops = gpu->blocks[in->block].nops - before;
}

static void plan_json_read_op(weiri_json *in, json_t *object, uint32_t index, int in_body)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    if (in->status != WEIR_OK)
        return;
    weiri_plan_op *op = weiri_plan_append(&gpu->ops, &gpu->nops, sizeof *op);
    if (!op) {
        weiri_json_no_memory(in);
        return;
    }
    uint32_t place = gpu->nops - 1;
    in->op = index;
    gpu->blocks[in->block].nops++;
    weiri_json_known(in, weiri_json_object(in, object, "an operation"),
                     "|name|channel_type|channel_ids|semaphore_ids|src_buff|dst_buff|reduce_op|"
                     "tbg_info|barrier_id|num_threadblocks|iter_context|ops|buffer_type|"
                     "buffer_offset|size|dst_chunk|");
    op->in_body = (uint32_t)in_body;
    if (in->status == WEIR_OK)
        plan_json_fill_op(in, object, &gpu->blocks[in->block], op);
    if (in->status == WEIR_OK && op->kind == WEIRI_PLAN_PIPELINE_OP && !in_body)
        plan_json_read_body(in, object, place);
    else if (in->status == WEIR_OK && op->kind == WEIRI_PLAN_PIPELINE_OP)
        weiri_json_reject(in, "pipelines cannot be nested");
}

void weiri_json_read_ops(weiri_json *in, json_t *block)
{
    json_t *item;
    size_t i;
    json_array_foreach(weiri_json_array(in, block, "ops"), i, item)
        plan_json_read_op(in, item, weiri_json_gpu(in)->blocks[in->block].nops, 0);
}
