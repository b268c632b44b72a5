/* Reads one rank of a plan: channels, remote buffers, semaphores, thread blocks. */
#include "plan/format/json.h"

static void plan_json_read_links(weiri_json *in, json_t *object, weiri_plan_channel type)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    uint32_t first, count;
    weiri_json_known(in, object, "|channel_type|connected_to|");
    weiri_json_ids(in, object, "connected_to", &first, &count);
    for (uint32_t i = 0; i < count && in->status == WEIR_OK; i++) {
        weiri_plan_link *link =
            weiri_plan_append(&gpu->links[type], &gpu->nlinks[type], sizeof *link);
        if (link)
            link->peer = (int32_t)gpu->ids[first + i];
        else
            weiri_json_no_memory(in);
    }
}

static void plan_json_read_switch(weiri_json *in, json_t *object)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    json_t *group;
    size_t i;
    weiri_json_known(in, object, "|channel_type|buffer_type|rank_groups|");
    weir_plan_buffer buffer = weiri_json_buffer(in, object, "buffer_type");
    json_array_foreach(weiri_json_array(in, object, "rank_groups"), i, group)
    {
        weiri_plan_switch *made = weiri_plan_append(&gpu->switches, &gpu->nswitches, sizeof *made);
        if (!made) {
            weiri_json_no_memory(in);
            return;
        }
        weiri_json_known(in, weiri_json_object(in, group, "a rank group"), "|size|ranks|");
        made->buffer = buffer;
        made->size = weiri_json_count(in, group, "size", WEIRI_PLAN_CHUNKS_MAX);
        weiri_json_ids(in, group, "ranks", &made->first_rank, &made->nranks);
    }
}

static void plan_json_read_channels(weiri_json *in, json_t *gpu)
{
    json_t *object;
    size_t i;
    json_array_foreach(weiri_json_array(in, gpu, "channels"), i, object)
    {
        const char *word =
            weiri_json_text(in, weiri_json_object(in, object, "a channel"), "channel_type");
        weiri_plan_channel type = weiri_json_channel(in, word, "channel_type");
        if (in->status != WEIR_OK)
            return;
        if (type == WEIRI_PLAN_SWITCH)
            plan_json_read_switch(in, object);
        else if (type != WEIRI_PLAN_NO_CHANNEL)
            plan_json_read_links(in, object, type);
    }
}

static void plan_json_read_remotes(weiri_json *in, json_t *object)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    json_t *item, *word;
    size_t i, j;
    json_array_foreach(weiri_json_array(in, object, "remote_buffers"), i, item)
    {
        weiri_plan_remote *made = weiri_plan_append(&gpu->remotes, &gpu->nremotes, sizeof *made);
        if (!made) {
            weiri_json_no_memory(in);
            return;
        }
        weiri_json_known(in, weiri_json_object(in, item, "a remote buffer"),
                         "|rank|type|access_channel_types|");
        made->rank = (int32_t)weiri_json_number(in, item, "rank", INT32_MAX, WEIRI_JSON_REQUIRED);
        made->buffer = weiri_json_buffer(in, item, "type");
        json_array_foreach(weiri_json_array(in, item, "access_channel_types"), j, word)
        {
            const char *text = json_is_string(word) ? json_string_value(word) : "";
            made->access |= 1u << weiri_json_channel(in, text, "access_channel_types");
        }
    }
}

static void plan_json_read_semaphores(weiri_json *in, json_t *object)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    json_t *item;
    size_t i;
    json_array_foreach(weiri_json_array(in, object, "semaphores"), i, item)
    {
        uint32_t *value =
            weiri_plan_append(&gpu->semaphores, &gpu->nsemaphores, sizeof *gpu->semaphores);
        if (!value) {
            weiri_json_no_memory(in);
            return;
        }
        weiri_json_known(in, weiri_json_object(in, item, "a semaphore"), "|init_value|");
        *value = weiri_json_count(in, item, "init_value", INT32_MAX);
    }
}

/* Reads a thread block's lists of one kind. Adjacent entries of one channel type form one list. */
static void plan_json_read_lists(weiri_json *in, json_t *object, const char *key,
                                 const char *type_key, const char *ids_key, const char *known,
                                 weiri_plan_list *lists)
{
    json_t *item;
    size_t i;
    json_array_foreach(weiri_json_array(in, object, key), i, item)
    {
        weiri_json_known(in, weiri_json_object(in, item, key), known);
        weiri_plan_channel type =
            weiri_json_channel(in, weiri_json_text(in, item, type_key), type_key);
        uint32_t first, count;
        if (in->status != WEIR_OK || type == WEIRI_PLAN_NO_CHANNEL)
            return;
        weiri_json_ids(in, item, ids_key, &first, &count);
        if (lists[type].count && lists[type].first + lists[type].count != first)
            weiri_json_reject(in, "%s lists %s channels in two places; expected one", key,
                              weiri_plan_channel_name(type));
        else if (!lists[type].count)
            lists[type].first = first;
        lists[type].count += count;
    }
}

static void plan_json_read_block(weiri_json *in, json_t *object)
{
    weiri_plan_gpu *gpu = weiri_json_gpu(in);
    weiri_plan_block *block = weiri_plan_append(&gpu->blocks, &gpu->nblocks, sizeof *block);
    if (!block) {
        weiri_json_no_memory(in);
        return;
    }
    in->block = gpu->nblocks - 1;
    block->first_op = gpu->nops;
    weiri_json_known(in, weiri_json_object(in, object, "a thread block"),
                     "|id|ops|channels|remote_buffer_refs|");
    block->id = weiri_json_count(in, object, "id", INT32_MAX);
    for (uint32_t other = 0; other < in->block; other++)
        if (gpu->blocks[other].id == block->id)
            weiri_json_reject(
                in, "another thread block of the rank has the same id; expected different ids");
    plan_json_read_lists(in, object, "channels", "channel_type", "channel_ids",
                         "|channel_type|channel_ids|buff|", block->channels);
    plan_json_read_lists(in, object, "remote_buffer_refs", "access_channel_type",
                         "remote_buffer_ids", "|access_channel_type|remote_buffer_ids|",
                         block->remotes);
    weiri_json_read_ops(in, object);
    in->block = in->op = WEIRI_JSON_NO_OP;
}

void weiri_json_read_rank(weiri_json *in, json_t *object)
{
    static const char *const keys[] = {"input_chunks", "output_chunks", "scratch_chunks"};
    json_t *item;
    size_t i;
    weiri_json_known(in, weiri_json_object(in, object, "a gpu"),
                     "|id|input_chunks|output_chunks|scratch_chunks|threadblocks|channels|"
                     "remote_buffers|semaphores|");
    if (weiri_json_number(in, object, "id", INT32_MAX, WEIRI_JSON_REQUIRED) != (uint64_t)in->rank)
        weiri_json_reject(in, "gpus[%d] has another id; expected the entries in rank order",
                          in->rank);
    for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
        weiri_json_gpu(in)->chunks[buffer] =
            (uint32_t)weiri_json_number(in, object, keys[buffer], WEIRI_PLAN_CHUNKS_MAX, 0);
    plan_json_read_channels(in, object);
    plan_json_read_remotes(in, object);
    plan_json_read_semaphores(in, object);
    json_array_foreach(weiri_json_array(in, object, "threadblocks"), i, item)
    {
        if (in->status == WEIR_OK)
            plan_json_read_block(in, item);
    }
}
