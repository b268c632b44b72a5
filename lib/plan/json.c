/*
 * Reads plans from JSON, with jansson: the form that MSCCL++'s DSL writes. Ids that a file
 * gives relative to a thread block are resolved here; what they refer to is then validated
 * (validate.c) in one form with built plans. Unknown keys are ignored, with one warning each.
 */
#include "plan/plan.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 28, WARNINGS_MAX = 16, NOWHERE = -1 };
#define NO_OP UINT32_MAX

typedef struct reader {
    weir_plan *plan;
    int rank; /* where the reader is */
    uint32_t block, op;
    const char *warned[WARNINGS_MAX]; /* of the document's own keys */
    int nwarned;
    weir_status status; /* the first failure; what follows does nothing */
} reader;

__attribute__((format(printf, 2, 3))) static void refuse(reader *in, const char *format, ...)
{
    char where[WEIRI_PLAN_WHERE_BYTES], what[256];
    va_list arguments;
    if (in->status != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    weiri_plan_where(in->plan, in->rank, in->block, in->op, where);
    in->status = weiri_fail(WEIR_ERR_INVALID, "%s: %s", where, what);
}

static void no_memory(reader *in)
{
    if (in->status == WEIR_OK)
        in->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the plan", in->plan->file);
}

/* -------------------------------------------------------------------- values */

/* Warns of members that nobody here reads; known is "|name|name|". */
static void look_for_unknown(reader *in, json_t *object, const char *known)
{
    const char *key;
    json_t *value;
    char word[64];
    json_object_foreach(object, key, value)
    {
        snprintf(word, sizeof word, "|%.60s|", key);
        if (strstr(known, word))
            continue;
        int told = in->nwarned == WARNINGS_MAX;
        for (int i = 0; i < in->nwarned && !told; i++)
            told = strcmp(in->warned[i], key) == 0;
        if (told)
            continue;
        in->warned[in->nwarned++] = key;
        weiri_log(WEIRI_LOG_WARN, "%s: the key '%.60s' is unknown and ignored", in->plan->file,
                  key);
    }
}

static json_t *object_of(reader *in, json_t *value, const char *what)
{
    if (!json_is_object(value))
        refuse(in, "%s is no object", what);
    return value;
}

/* An array member; an absent one is empty. */
static json_t *array_of(reader *in, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value && !json_is_array(value))
        refuse(in, "%s is no array", key);
    return value;
}

/* A number without a fraction. All numbers come as reals, since files have integers beyond
 * the 63 bits that jansson's own integers have: from 2^64 on it is UINT64_MAX. */
static int is_whole(const json_t *value, uint64_t most, uint64_t *whole)
{
    double real = json_is_real(value) ? json_real_value(value) : -1;
    if (!(real >= 0) || (real < 0x1p64 && (double)(uint64_t)real != real))
        return 0;
    *whole = real < 0x1p64 ? (uint64_t)real : UINT64_MAX;
    return *whole <= most;
}

enum { REQUIRED = -1 };

/* An integer member from 0 to most; if it is absent, absent, which may be REQUIRED. */
static uint64_t number_of(reader *in, json_t *object, const char *key, uint64_t most,
                          int64_t absent)
{
    const json_t *value = json_object_get(object, key);
    uint64_t number = 0;
    if (!value && absent != REQUIRED)
        return (uint64_t)absent;
    if (!value)
        refuse(in, "%s is missing", key);
    else if (!is_whole(value, most, &number))
        refuse(in, "%s is no integer from 0 to %llu", key, (unsigned long long)most);
    return number;
}

static int flag_of(reader *in, json_t *object, const char *key, int absent)
{
    json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        refuse(in, "%s is neither true nor false", key);
    return value ? json_is_true(value) : absent;
}

static const char *text_of(reader *in, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        refuse(in, "%s is %s", key, value ? "no text" : "missing");
    return json_is_string(value) ? json_string_value(value) : "";
}

static weir_plan_buffer buffer_of(reader *in, json_t *object, const char *key)
{
    const char *text = text_of(in, object, key);
    for (int i = 0; i < WEIR_PLAN_BUFFERS; i++)
        if (text[0] == weiri_plan_buffer_letters[i] && !text[1])
            return (weir_plan_buffer)i;
    refuse(in, "%s is '%.40s'; expected i, o or s", key, text);
    return WEIR_PLAN_SCRATCH;
}

static weiri_plan_channel channel_of(reader *in, const char *text, const char *key)
{
    for (int type = 0; type <= WEIRI_PLAN_CHANNELS; type++)
        if (strcmp(text, weiri_plan_channel_name((weiri_plan_channel)type)) == 0)
            return (weiri_plan_channel)type;
    refuse(in, "%s is '%.40s'; expected memory, port or switch", key, text);
    return WEIRI_PLAN_NO_CHANNEL;
}

static weiri_plan_gpu *gpu_of(const reader *in)
{
    return &in->plan->gpus[in->rank];
}

/* Appends an array's integers to the rank's ids; where they begin and how many they are. */
static void read_ids(reader *in, json_t *object, const char *key, uint32_t *first,
                     uint32_t *count)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    json_t *list = array_of(in, object, key), *item;
    size_t i;
    *first = gpu->nids;
    *count = 0;
    json_array_foreach(list, i, item)
    {
        uint64_t value;
        if (!is_whole(item, INT32_MAX, &value)) {
            refuse(in, "%s[%zu] is no id", key, i);
            return;
        }
        uint32_t *id = weiri_plan_append(&gpu->ids, &gpu->nids, sizeof *gpu->ids);
        if (!id) {
            no_memory(in);
            return;
        }
        *id = (uint32_t)value;
        ++*count;
    }
}

/* ---------------------------------------------------------- a rank's resources */

static void read_links(reader *in, json_t *object, weiri_plan_channel type)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    uint32_t first, count;
    look_for_unknown(in, object, "|channel_type|connected_to|");
    read_ids(in, object, "connected_to", &first, &count);
    for (uint32_t i = 0; i < count && in->status == WEIR_OK; i++) {
        weiri_plan_link *link =
            weiri_plan_append(&gpu->links[type], &gpu->nlinks[type], sizeof *link);
        if (link)
            link->peer = (int32_t)gpu->ids[first + i];
        else
            no_memory(in);
    }
}

static void read_switch(reader *in, json_t *object)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    json_t *group;
    size_t i;
    look_for_unknown(in, object, "|channel_type|buffer_type|rank_groups|");
    weir_plan_buffer buffer = buffer_of(in, object, "buffer_type");
    json_array_foreach(array_of(in, object, "rank_groups"), i, group)
    {
        weiri_plan_switch *made =
            weiri_plan_append(&gpu->switches, &gpu->nswitches, sizeof *made);
        if (!made) {
            no_memory(in);
            return;
        }
        look_for_unknown(in, object_of(in, group, "a rank group"), "|size|ranks|");
        made->buffer = buffer;
        made->size = (uint32_t)number_of(in, group, "size", WEIRI_PLAN_CHUNKS_MAX, REQUIRED);
        read_ids(in, group, "ranks", &made->first_rank, &made->nranks);
    }
}

static void read_channels(reader *in, json_t *gpu)
{
    json_t *object;
    size_t i;
    json_array_foreach(array_of(in, gpu, "channels"), i, object)
    {
        const char *word = text_of(in, object_of(in, object, "a channel"), "channel_type");
        weiri_plan_channel type = channel_of(in, word, "channel_type");
        if (in->status != WEIR_OK)
            return;
        if (type == WEIRI_PLAN_SWITCH)
            read_switch(in, object);
        else if (type != WEIRI_PLAN_NO_CHANNEL)
            read_links(in, object, type);
    }
}

static void read_remotes(reader *in, json_t *object)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    json_t *item, *word;
    size_t i, j;
    json_array_foreach(array_of(in, object, "remote_buffers"), i, item)
    {
        weiri_plan_remote *made = weiri_plan_append(&gpu->remotes, &gpu->nremotes, sizeof *made);
        if (!made) {
            no_memory(in);
            return;
        }
        look_for_unknown(in, object_of(in, item, "a remote buffer"),
                         "|rank|type|access_channel_types|");
        made->rank = (int32_t)number_of(in, item, "rank", INT32_MAX, REQUIRED);
        made->buffer = buffer_of(in, item, "type");
        json_array_foreach(array_of(in, item, "access_channel_types"), j, word)
        {
            const char *text = json_is_string(word) ? json_string_value(word) : "";
            made->access |= 1u << channel_of(in, text, "access_channel_types");
        }
    }
}

static void read_semaphores(reader *in, json_t *object)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    json_t *item;
    size_t i;
    json_array_foreach(array_of(in, object, "semaphores"), i, item)
    {
        uint32_t *value =
            weiri_plan_append(&gpu->semaphores, &gpu->nsemaphores, sizeof *gpu->semaphores);
        if (!value) {
            no_memory(in);
            return;
        }
        look_for_unknown(in, object_of(in, item, "a semaphore"), "|init_value|");
        *value = (uint32_t)number_of(in, item, "init_value", INT32_MAX, REQUIRED);
    }
}

/* ---------------------------------------------------------------- operations */

static weiri_plan_kind kind_of(reader *in, json_t *object)
{
    const char *name = text_of(in, object, "name");
    for (int kind = 0; kind < WEIRI_PLAN_KINDS; kind++)
        if (strcmp(name, weiri_plan_traits[kind].name) == 0)
            return (weiri_plan_kind)kind;
    refuse(in, "the operation '%.40s' is unknown", name);
    return WEIRI_PLAN_NOP_OP;
}

/* Replaces ids that count in a list of the thread block by what the list says. */
static void resolve(reader *in, const weiri_plan_list *list, uint32_t first, uint32_t count,
                    const char *key)
{
    uint32_t *ids = gpu_of(in)->ids;
    for (uint32_t i = 0; i < count && in->status == WEIR_OK; i++) {
        if (ids[first + i] >= list->count)
            refuse(in, "%s[%u] is %u; the thread block has %u of that type", key, i,
                   ids[first + i], list->count);
        else
            ids[first + i] = ids[list->first + ids[first + i]];
    }
}

static void place_remote(reader *in, const weiri_plan_block *block, weiri_plan_channel channel,
                         uint32_t id, weiri_plan_ref *ref)
{
    const weiri_plan_gpu *gpu = gpu_of(in);
    const weiri_plan_list *list =
        &block->remotes[channel == WEIRI_PLAN_NO_CHANNEL ? WEIRI_PLAN_MEMORY : channel];
    if (id >= list->count || gpu->ids[list->first + id] >= gpu->nremotes) {
        refuse(in, "buffer_id %u; the thread block has %u remote buffers for %s channels", id,
               list->count, weiri_plan_channel_name(channel));
        return;
    }
    const weiri_plan_remote *remote = &gpu->remotes[gpu->ids[list->first + id]];
    ref->place = WEIRI_PLAN_REMOTE;
    ref->buffer = (uint8_t)remote->buffer;
    ref->rank = remote->rank;
    ref->id = (int32_t)id;
}

static void place_group(reader *in, const weiri_plan_block *block, uint32_t id,
                        weiri_plan_ref *ref)
{
    const weiri_plan_gpu *gpu = gpu_of(in);
    const weiri_plan_list *list = &block->channels[WEIRI_PLAN_SWITCH];
    if (id >= list->count || gpu->ids[list->first + id] >= gpu->nswitches) {
        refuse(in, "switch_channel_id %u; the thread block has %u", id, list->count);
        return;
    }
    ref->place = WEIRI_PLAN_GROUP;
    ref->rank = (int32_t)gpu->ids[list->first + id];
    ref->buffer = (uint8_t)gpu->switches[ref->rank].buffer;
    ref->id = (int32_t)id;
}

static void read_ref(reader *in, json_t *object, const weiri_plan_block *block,
                     weiri_plan_channel channel, weiri_plan_ref *ref)
{
    look_for_unknown(in, object_of(in, object, "a chunk reference"),
                     "|type|buffer_id|switch_channel_id|index|size|");
    ref->index = (uint32_t)number_of(in, object, "index", WEIRI_PLAN_CHUNKS_MAX, REQUIRED);
    ref->size = (uint32_t)number_of(in, object, "size", WEIRI_PLAN_CHUNKS_MAX, REQUIRED);
    ref->rank = in->rank;
    ref->id = -1;
    if (in->status != WEIR_OK)
        return;
    if (json_object_get(object, "switch_channel_id"))
        place_group(in, block,
                    (uint32_t)number_of(in, object, "switch_channel_id", INT32_MAX, REQUIRED),
                    ref);
    else if (json_object_get(object, "buffer_id"))
        place_remote(in, block, channel,
                     (uint32_t)number_of(in, object, "buffer_id", INT32_MAX, REQUIRED), ref);
    else
        ref->buffer = (uint8_t)buffer_of(in, object, "type");
}

static void read_refs(reader *in, json_t *object, const char *key, const weiri_plan_block *block,
                      weiri_plan_channel channel, uint32_t *first, uint32_t *count)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    json_t *item;
    size_t i;
    *first = gpu->nrefs;
    json_array_foreach(array_of(in, object, key), i, item)
    {
        weiri_plan_ref *ref = weiri_plan_append(&gpu->refs, &gpu->nrefs, sizeof *ref);
        if (!ref) {
            no_memory(in);
            return;
        }
        read_ref(in, item, block, channel, ref);
        ++*count;
        if (in->status != WEIR_OK)
            return;
    }
}

static void read_reduce_op(reader *in, json_t *object, weiri_plan_op *op)
{
    weir_op value;
    op->reduce_op = -1;
    if (!json_object_get(object, "reduce_op"))
        return;
    const char *name = text_of(in, object, "reduce_op");
    if (in->status != WEIR_OK || strcmp(name, "nop") == 0)
        return;
    if (weir_op_parse(name, &value) == WEIR_OK)
        op->reduce_op = (int)value;
    else
        refuse(in, "reduce_op is '%.40s'; expected sum, prod, max, min or avg", name);
}

static void read_sync(reader *in, json_t *object, weiri_plan_op *op)
{
    json_t *group = json_object_get(object, "tbg_info");
    json_t *turns = json_object_get(object, "iter_context");
    op->nparts = 1;
    if (op->kind == WEIRI_PLAN_BARRIER_OP) {
        op->barrier = (uint32_t)number_of(in, object, "barrier_id", INT32_MAX, REQUIRED);
        op->nblocks = (uint32_t)number_of(in, object, "num_threadblocks", INT32_MAX, REQUIRED);
    }
    if (group) {
        look_for_unknown(in, object_of(in, group, "tbg_info"), "|tb_id|tbg_size|");
        op->part = (uint32_t)number_of(in, group, "tb_id", INT32_MAX, REQUIRED);
        op->nparts = (uint32_t)number_of(in, group, "tbg_size", INT32_MAX, REQUIRED);
    }
    if (op->kind == WEIRI_PLAN_PIPELINE_OP) {
        look_for_unknown(in, object_of(in, turns, "iter_context"), "|unit_size|num_chunks|");
        op->unit_bytes = number_of(in, turns, "unit_size", INT64_MAX, REQUIRED);
        op->num_chunks = (uint32_t)number_of(in, turns, "num_chunks", INT32_MAX, REQUIRED);
    }
}

/* Lists of ids come before they are resolved, in a place of their own, for the thread
 * block's lists stay as they are. */
static void fill_op(reader *in, json_t *object, const weiri_plan_block *block, weiri_plan_op *op)
{
    json_t *word = json_object_get(object, "channel_type");
    op->kind = kind_of(in, object);
    op->channel = word ? channel_of(in, text_of(in, object, "channel_type"), "channel_type")
                       : WEIRI_PLAN_NO_CHANNEL;
    read_sync(in, object, op);
    read_reduce_op(in, object, op);
    if (json_object_get(object, "semaphore_ids")) {
        read_ids(in, object, "semaphore_ids", &op->first_id, &op->nids);
    } else if (json_object_get(object, "channel_ids")) {
        read_ids(in, object, "channel_ids", &op->first_id, &op->nids);
        if (op->channel != WEIRI_PLAN_NO_CHANNEL)
            resolve(in, &block->channels[op->channel], op->first_id, op->nids, "channel_ids");
    }
    read_refs(in, object, "src_buff", block, op->channel, &op->first_src, &op->nsrcs);
    read_refs(in, object, "dst_buff", block, op->channel, &op->first_dst, &op->ndsts);
}

static void read_op(reader *in, json_t *object, uint32_t index, int in_body);

static void read_body(reader *in, json_t *object, uint32_t pipeline)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    uint32_t before = gpu->blocks[in->block].nops;
    json_t *item;
    size_t i;
    json_array_foreach(array_of(in, object, "ops"), i, item)
        read_op(in, item, gpu->blocks[in->block].nops, 1);
    if (in->status == WEIR_OK)
        gpu->ops[pipeline].nops = gpu->blocks[in->block].nops - before;
}

static void read_op(reader *in, json_t *object, uint32_t index, int in_body)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    if (in->status != WEIR_OK)
        return;
    weiri_plan_op *op = weiri_plan_append(&gpu->ops, &gpu->nops, sizeof *op);
    if (!op) {
        no_memory(in);
        return;
    }
    uint32_t place = gpu->nops - 1;
    in->op = index;
    gpu->blocks[in->block].nops++;
    look_for_unknown(in, object_of(in, object, "an operation"),
                     "|name|channel_type|channel_ids|semaphore_ids|src_buff|dst_buff|reduce_op|"
                     "tbg_info|barrier_id|num_threadblocks|iter_context|ops|");
    op->in_body = (uint32_t)in_body;
    if (in->status == WEIR_OK)
        fill_op(in, object, &gpu->blocks[in->block], op);
    if (in->status == WEIR_OK && op->kind == WEIRI_PLAN_PIPELINE_OP && !in_body)
        read_body(in, object, place);
    else if (in->status == WEIR_OK && op->kind == WEIRI_PLAN_PIPELINE_OP)
        refuse(in, "a pipeline within a pipeline");
}

/* -------------------------------------------------------------- thread blocks */

/* A thread block's lists of one kind, by type. Several entries of a type are one list. */
static void read_lists(reader *in, json_t *object, const char *key, const char *type_key,
                       const char *ids_key, const char *known, weiri_plan_list *lists)
{
    json_t *item;
    size_t i;
    json_array_foreach(array_of(in, object, key), i, item)
    {
        look_for_unknown(in, object_of(in, item, key), known);
        weiri_plan_channel type = channel_of(in, text_of(in, item, type_key), type_key);
        uint32_t first, count;
        if (in->status != WEIR_OK || type == WEIRI_PLAN_NO_CHANNEL)
            return;
        read_ids(in, item, ids_key, &first, &count);
        if (lists[type].count && lists[type].first + lists[type].count != first)
            refuse(in, "%s has %s channels in two places; expected one", key,
                   weiri_plan_channel_name(type));
        else if (!lists[type].count)
            lists[type].first = first;
        lists[type].count += count;
    }
}

static void read_block(reader *in, json_t *object)
{
    weiri_plan_gpu *gpu = gpu_of(in);
    weiri_plan_block *block = weiri_plan_append(&gpu->blocks, &gpu->nblocks, sizeof *block);
    json_t *item;
    size_t i;
    if (!block) {
        no_memory(in);
        return;
    }
    in->block = gpu->nblocks - 1;
    block->first_op = gpu->nops;
    look_for_unknown(in, object_of(in, object, "a thread block"),
                     "|id|ops|channels|remote_buffer_refs|");
    block->id = (uint32_t)number_of(in, object, "id", INT32_MAX, REQUIRED);
    for (uint32_t other = 0; other < in->block; other++)
        if (gpu->blocks[other].id == block->id)
            refuse(in, "two thread blocks have this id");
    read_lists(in, object, "channels", "channel_type", "channel_ids",
               "|channel_type|channel_ids|buff|", block->channels);
    read_lists(in, object, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids",
               "|access_channel_type|remote_buffer_ids|", block->remotes);
    json_array_foreach(array_of(in, object, "ops"), i, item)
        read_op(in, item, gpu->blocks[in->block].nops, 0);
    in->block = in->op = NO_OP;
}

/* ------------------------------------------------------------------ the whole */

static void read_gpu(reader *in, json_t *object)
{
    static const char *const keys[] = {"input_chunks", "output_chunks", "scratch_chunks"};
    json_t *item;
    size_t i;
    look_for_unknown(in, object_of(in, object, "a gpu"),
                     "|id|input_chunks|output_chunks|scratch_chunks|threadblocks|channels|"
                     "remote_buffers|semaphores|");
    if (number_of(in, object, "id", INT32_MAX, REQUIRED) != (uint64_t)in->rank)
        refuse(in, "gpus[%d] has another id; expected them in the order of ranks", in->rank);
    for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
        gpu_of(in)->chunks[buffer] =
            (uint32_t)number_of(in, object, keys[buffer], WEIRI_PLAN_CHUNKS_MAX, 0);
    read_channels(in, object);
    read_remotes(in, object);
    read_semaphores(in, object);
    json_array_foreach(array_of(in, object, "threadblocks"), i, item)
    {
        if (in->status == WEIR_OK)
            read_block(in, item);
    }
}

static int collective_of(const char *name)
{
    for (int i = 0; i < WEIR_COLL_COUNT; i++)
        if (strcmp(name, weir_collective_name((weir_collective)i)) == 0)
            return i;
    return strcmp(name, "reducescatter") == 0 ? WEIR_COLL_REDUCE_SCATTER : -1;
}

static void read_head(reader *in, json_t *root)
{
    weir_plan *plan = in->plan;
    look_for_unknown(in, root,
                     "|name|collective|protocol|inplace|reuse_resources|gpus|"
                     "num_threads_per_block|use_double_scratch_buffer|buffer_alignment|"
                     "min_message_size|max_message_size|");
    plan->name = strdup(text_of(in, root, "name"));
    plan->collective_name = strdup(text_of(in, root, "collective"));
    if (!plan->name || !plan->collective_name) {
        no_memory(in);
        return;
    }
    plan->collective = collective_of(plan->collective_name);
    const char *protocol =
        json_object_get(root, "protocol") ? text_of(in, root, "protocol") : "Simple";
    plan->uses_ll = strcmp(protocol, "LL") == 0;
    if (!plan->uses_ll && strcmp(protocol, "Simple") != 0)
        refuse(in, "protocol is '%.40s'; expected Simple or LL", protocol);
    plan->in_place = flag_of(in, root, "inplace", 0);
    plan->reuse_resources = flag_of(in, root, "reuse_resources", 0);
    plan->double_scratch = flag_of(in, root, "use_double_scratch_buffer", 0);
    plan->nthreads = (uint32_t)number_of(in, root, "num_threads_per_block", INT32_MAX, 1024);
    plan->alignment = (uint32_t)number_of(in, root, "buffer_alignment", INT32_MAX, 16);
    plan->min_bytes = number_of(in, root, "min_message_size", UINT64_MAX, 0);
    plan->max_bytes = json_object_get(root, "max_message_size")
                          ? number_of(in, root, "max_message_size", UINT64_MAX, REQUIRED)
                          : UINT64_MAX;
}

static void read_root(reader *in, json_t *root)
{
    json_t *gpus;
    if (!json_is_object(root)) {
        refuse(in, "a plan is an object");
        return;
    }
    read_head(in, root);
    gpus = array_of(in, root, "gpus");
    size_t count = json_array_size(gpus);
    if (count < 1 || count > WEIRI_PLAN_RANKS_MAX)
        refuse(in, "gpus has %zu ranks; expected 1 to %d", count, WEIRI_PLAN_RANKS_MAX);
    if (in->status != WEIR_OK)
        return;
    in->plan->gpus = calloc(count, sizeof *in->plan->gpus);
    if (!in->plan->gpus) {
        no_memory(in);
        return;
    }
    in->plan->nranks = (int)count;
    for (in->rank = 0; in->rank < (int)count && in->status == WEIR_OK; in->rank++)
        read_gpu(in, json_array_get(gpus, (size_t)in->rank));
}

static json_t *parse(const char *text, size_t bytes, const char *name)
{
    json_error_t error;
    json_t *root =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!root)
        weiri_fail(WEIR_ERR_INVALID, "%s:%d:%d: %s; expected a plan in JSON", name, error.line,
                   error.column, error.text);
    return root;
}

weir_status weir_plan_parse(const char *text, size_t bytes, const char *name, weir_plan **plan)
{
    weir_plan *made = calloc(1, sizeof *made);
    if (made)
        made->file = strdup(name);
    if (!made || !made->file) {
        free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the plan", name);
    }
    reader in = {.plan = made, .rank = NOWHERE, .block = NO_OP, .op = NO_OP};
    json_t *root = parse(text, bytes, name);
    if (root)
        read_root(&in, root);
    else
        in.status = WEIR_ERR_INVALID;
    if (in.status == WEIR_OK)
        in.status = weiri_plan_validate(made);
    json_decref(root);
    if (in.status == WEIR_OK)
        *plan = made;
    else
        weir_plan_free(made);
    return in.status;
}

weir_status weir_plan_read(const char *file, weir_plan **plan)
{
    FILE *from = fopen(file, "rb");
    char *text = NULL;
    long bytes = -1;
    weir_status status;
    int readable = from && (getc(from) != EOF || !ferror(from)); /* a folder is not */
    if (readable && fseek(from, 0, SEEK_END) == 0)
        bytes = ftell(from);
    if (from && bytes >= 0 && bytes <= FILE_BYTES_MAX && fseek(from, 0, SEEK_SET) == 0)
        text = malloc((size_t)bytes + 1);
    if (text && fread(text, 1, (size_t)bytes, from) == (size_t)bytes)
        status = weir_plan_parse(text, (size_t)bytes, file, plan);
    else if (from && bytes > FILE_BYTES_MAX)
        status = weiri_fail(WEIR_ERR_INVALID, "%s: longer than %d bytes; no plan is", file,
                            FILE_BYTES_MAX);
    else
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read the plan %s", file);
    free(text);
    if (from)
        fclose(from);
    return status;
}
