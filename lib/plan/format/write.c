/*
 * Writes plans as JSON, in the form and the order of keys of MSCCL++'s DSL, so that its
 * reader and ours take them. A plan that was read from such a file is written as that file.
 * Ids are written as files have them: counted in the lists of the thread block.
 */
#include "plan/format/plan.h"

#include "base/error.h"
#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    bench_json json;
    const weiri_plan_gpu *gpu;
    const weiri_plan_block *block;
} writer;

/* The keys that these functions take are NULL for a value of an array. */

static void put_key(writer *to, const char *key)
{
    if (key)
        bench_json_key(&to->json, key);
}

static void open_object(writer *to, const char *key)
{
    put_key(to, key);
    bench_json_open_object(&to->json);
}

static void close_object(writer *to)
{
    bench_json_close_object(&to->json);
}

static void open_array(writer *to, const char *key)
{
    put_key(to, key);
    bench_json_open_list(&to->json);
}

static void close_array(writer *to)
{
    bench_json_close_list(&to->json);
}

static void put_number(writer *to, const char *key, uint64_t number)
{
    put_key(to, key);
    bench_json_unsigned(&to->json, number);
}

static void put_flag(writer *to, const char *key, int flag)
{
    put_key(to, key);
    bench_json_flag(&to->json, flag);
}

static void put_text(writer *to, const char *key, const char *text)
{
    put_key(to, key);
    bench_json_text(&to->json, text);
}

static void put_ids(writer *to, const char *key, uint32_t first, uint32_t count)
{
    open_array(to, key);
    for (uint32_t i = 0; i < count; i++)
        put_number(to, NULL, to->gpu->ids[first + i]);
    close_array(to);
}

/* ---------------------------------------------------------------- operations */

/* Where a channel of the rank stands in the thread block's list. */
static uint32_t place_in_list(const writer *to, const weiri_plan_list *list, uint32_t id)
{
    uint32_t place = 0;
    while (place < list->count && to->gpu->ids[list->first + place] != id)
        place++;
    return place;
}

static void put_channels(writer *to, const weiri_plan_op *op)
{
    const weiri_plan_list *list = &to->block->channels[op->channel];
    open_array(to, "channel_ids");
    for (uint32_t i = 0; i < op->nids; i++)
        put_number(to, NULL, place_in_list(to, list, to->gpu->ids[op->first_id + i]));
    close_array(to);
}

static void put_refs(writer *to, const char *key, uint32_t first, uint32_t count)
{
    open_array(to, key);
    for (uint32_t i = 0; i < count; i++) {
        const weiri_plan_ref *ref = &to->gpu->refs[first + i];
        open_object(to, NULL);
        if (ref->place == WEIRI_PLAN_LOCAL)
            put_text(to, "type", (const char[]){weiri_plan_buffer_letters[ref->buffer], 0});
        else
            put_number(to, ref->place == WEIRI_PLAN_GROUP ? "switch_channel_id" : "buffer_id",
                       (uint64_t)ref->id);
        put_number(to, "index", ref->index);
        put_number(to, "size", ref->size);
        close_object(to);
    }
    close_array(to);
}

static void put_sync(writer *to, const weiri_plan_op *op)
{
    if (op->kind == WEIRI_PLAN_BARRIER_OP) {
        put_number(to, "barrier_id", op->barrier);
        put_number(to, "num_threadblocks", op->nblocks);
    } else if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP) {
        put_ids(to, "semaphore_ids", op->first_id, op->nids);
    } else if (op->channel != WEIRI_PLAN_NO_CHANNEL) {
        put_channels(to, op);
        put_text(to, "channel_type", weiri_plan_channel_name(op->channel));
    }
}

static void put_move(writer *to, const weiri_plan_op *op)
{
    put_refs(to, "src_buff", op->first_src, op->nsrcs);
    put_refs(to, "dst_buff", op->first_dst, op->ndsts);
    if (op->channel != WEIRI_PLAN_NO_CHANNEL) {
        if (op->nids)
            put_channels(to, op);
        put_text(to, "channel_type", weiri_plan_channel_name(op->channel));
    }
    if (op->reduce_op >= 0)
        put_text(to, "reduce_op", weir_op_name((weir_op)op->reduce_op));
    if (op->nparts > 1) {
        open_object(to, "tbg_info");
        put_number(to, "tb_id", op->part);
        put_number(to, "tbg_size", op->nparts);
        close_object(to);
    }
}

static void put_simple_op(writer *to, const weiri_plan_op *op)
{
    open_object(to, NULL);
    put_text(to, "name", weiri_plan_kind_name(op->kind));
    if (weiri_plan_traits[op->kind].mode == WEIRI_PLAN_SYNC)
        put_sync(to, op);
    else
        put_move(to, op);
    close_object(to);
}

static void put_pipeline(writer *to, const weiri_plan_op *op)
{
    open_object(to, NULL);
    put_text(to, "name", weiri_plan_kind_name(op->kind));
    open_object(to, "iter_context");
    put_number(to, "unit_size", op->unit_bytes);
    put_number(to, "num_chunks", op->num_chunks);
    close_object(to);
    open_array(to, "ops");
    for (uint32_t i = 1; i <= op->nops; i++)
        put_simple_op(to, op + i);
    close_array(to);
    close_object(to);
}

/* -------------------------------------------------------------------- a rank */

/* A thread block's lists, in the order of their places among the rank's ids, which is that
 * of the file. */
static void put_lists(writer *to, const char *key, const char *type_key, const char *ids_key,
                      const weiri_plan_list *lists)
{
    uint32_t from = 0;
    open_array(to, key);
    for (;;) {
        int next = -1;
        for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++)
            if (lists[type].count && lists[type].first >= from &&
                (next < 0 || lists[type].first < lists[next].first))
                next = type;
        if (next < 0)
            break;
        open_object(to, NULL);
        put_text(to, type_key, weiri_plan_channel_name((weiri_plan_channel)next));
        put_ids(to, ids_key, lists[next].first, lists[next].count);
        close_object(to);
        from = lists[next].first + lists[next].count;
    }
    close_array(to);
}

static void put_block(writer *to)
{
    const weiri_plan_block *block = to->block;
    open_object(to, NULL);
    put_number(to, "id", block->id);
    open_array(to, "ops");
    for (uint32_t i = 0; i < block->nops;) {
        const weiri_plan_op *op = &to->gpu->ops[block->first_op + i];
        if (op->kind == WEIRI_PLAN_PIPELINE_OP)
            put_pipeline(to, op);
        else
            put_simple_op(to, op);
        i += op->kind == WEIRI_PLAN_PIPELINE_OP ? 1 + op->nops : 1;
    }
    close_array(to);
    put_lists(to, "channels", "channel_type", "channel_ids", block->channels);
    put_lists(to, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids",
              block->remotes);
    close_object(to);
}

static void put_rank_channels(writer *to)
{
    const weiri_plan_gpu *gpu = to->gpu;
    open_array(to, "channels");
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        if (gpu->nlinks[type] == 0)
            continue;
        open_object(to, NULL);
        put_text(to, "channel_type", weiri_plan_channel_name((weiri_plan_channel)type));
        open_array(to, "connected_to");
        for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
            put_number(to, NULL, (uint64_t)gpu->links[type][i].peer);
        close_array(to);
        close_object(to);
    }
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        const weiri_plan_switch *group = &gpu->switches[i];
        open_object(to, NULL);
        put_text(to, "channel_type", weiri_plan_channel_name(WEIRI_PLAN_SWITCH));
        put_text(to, "buffer_type", (const char[]){weiri_plan_buffer_letters[group->buffer], 0});
        open_array(to, "rank_groups");
        open_object(to, NULL);
        put_number(to, "size", group->size);
        put_ids(to, "ranks", group->first_rank, group->nranks);
        close_object(to);
        close_array(to);
        close_object(to);
    }
    close_array(to);
}

static void put_rank_buffers(writer *to)
{
    const weiri_plan_gpu *gpu = to->gpu;
    open_array(to, "remote_buffers");
    for (uint32_t i = 0; i < gpu->nremotes; i++) {
        const weiri_plan_remote *remote = &gpu->remotes[i];
        open_object(to, NULL);
        put_number(to, "rank", (uint64_t)remote->rank);
        put_text(to, "type", (const char[]){weiri_plan_buffer_letters[remote->buffer], 0});
        open_array(to, "access_channel_types");
        for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++)
            if (remote->access >> type & 1)
                put_text(to, NULL, weiri_plan_channel_name((weiri_plan_channel)type));
        close_array(to);
        close_object(to);
    }
    close_array(to);
    open_array(to, "semaphores");
    for (uint32_t i = 0; i < gpu->nsemaphores; i++) {
        open_object(to, NULL);
        put_number(to, "init_value", gpu->semaphores[i]);
        close_object(to);
    }
    close_array(to);
}

static void put_gpu(writer *to, int rank)
{
    open_object(to, NULL);
    put_number(to, "id", (uint64_t)rank);
    put_number(to, "input_chunks", to->gpu->chunks[WEIR_PLAN_INPUT]);
    put_number(to, "output_chunks", to->gpu->chunks[WEIR_PLAN_OUTPUT]);
    put_number(to, "scratch_chunks", to->gpu->chunks[WEIR_PLAN_SCRATCH]);
    open_array(to, "threadblocks");
    for (uint32_t i = 0; i < to->gpu->nblocks; i++) {
        to->block = &to->gpu->blocks[i];
        put_block(to);
    }
    close_array(to);
    put_rank_channels(to);
    put_rank_buffers(to);
    close_object(to);
}

/* ------------------------------------------------------------------ the whole */

static void put_plan(writer *to, const weir_plan *plan)
{
    open_object(to, NULL);
    put_text(to, "name", plan->name);
    put_text(to, "collective", plan->collective_name);
    put_text(to, "protocol", plan->uses_ll ? "LL" : "Simple");
    put_flag(to, "inplace", plan->in_place);
    put_flag(to, "reuse_resources", plan->reuse_resources);
    open_array(to, "gpus");
    for (int rank = 0; rank < plan->nranks; rank++) {
        to->gpu = &plan->gpus[rank];
        put_gpu(to, rank);
    }
    close_array(to);
    put_number(to, "num_threads_per_block", plan->nthreads);
    put_flag(to, "use_double_scratch_buffer", plan->double_scratch);
    put_number(to, "buffer_alignment", plan->alignment);
    put_number(to, "min_message_size", plan->min_bytes);
    put_number(to, "max_message_size", plan->max_bytes);
    close_object(to);
    putc('\n', to->json.file);
}

weir_status weir_plan_print(const weir_plan *plan, char **text, size_t *bytes)
{
    char *made = NULL;
    size_t length = 0;
    writer to = {.json = {.file = open_memstream(&made, &length), .layout = BENCH_JSON_INDENTED}};
    if (!to.json.file)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its text", plan->file);
    put_plan(&to, plan);
    int failed = ferror(to.json.file);
    if (fclose(to.json.file) != 0 || failed) {
        free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its text", plan->file);
    }
    *text = made;
    *bytes = length;
    return WEIR_OK;
}

weir_status weir_plan_write(const weir_plan *plan, const char *file)
{
    writer to = {.json = {.file = fopen(file, "wb"), .layout = BENCH_JSON_INDENTED}};
    if (!to.json.file)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write the plan %s", file);
    put_plan(&to, plan);
    int failed = ferror(to.json.file);
    if (fclose(to.json.file) != 0 || failed)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write the plan %s", file);
    return WEIR_OK;
}
