/*
 * Writes plans as JSON in the form and key order of MSCCL++'s DSL, so that both its reader and
 * weir's accept them. Writing a plan that was read from such a file reproduces the file. Ids are
 * written relative to the lists of their thread block.
 */
#include "plan/format/plan.h"

#include "base/error.h"
#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    weiri_json_writer json;
    const weiri_plan_gpu *gpu;
    const weiri_plan_block *block;
} writer;

/* The functions below write one value; key is NULL in arrays. */

static void plan_write_key(writer *to, const char *key)
{
    if (key)
        weiri_json_key(&to->json, key);
}

static void plan_write_open_object(writer *to, const char *key)
{
    plan_write_key(to, key);
    weiri_json_open_object(&to->json);
}

static void plan_write_close_object(writer *to)
{
    weiri_json_close_object(&to->json);
}

static void plan_write_open_array(writer *to, const char *key)
{
    plan_write_key(to, key);
    weiri_json_open_list(&to->json);
}

static void plan_write_close_array(writer *to)
{
    weiri_json_close_list(&to->json);
}

static void plan_write_number(writer *to, const char *key, uint64_t number)
{
    plan_write_key(to, key);
    weiri_json_unsigned(&to->json, number);
}

static void plan_write_flag(writer *to, const char *key, int flag)
{
    plan_write_key(to, key);
    weiri_json_add_flag(&to->json, flag);
}

static void plan_write_text(writer *to, const char *key, const char *text)
{
    plan_write_key(to, key);
    weiri_json_add_text(&to->json, text);
}

static void plan_write_ids(writer *to, const char *key, uint32_t first, uint32_t count)
{
    plan_write_open_array(to, key);
    for (uint32_t i = 0; i < count; i++)
        plan_write_number(to, NULL, to->gpu->ids[first + i]);
    plan_write_close_array(to);
}

/* ---------------------------------------------------------------- operations */

/* The position of a channel of the rank in the thread block's list. */
static uint32_t plan_write_place_in_list(const writer *to, const weiri_plan_list *list, uint32_t id)
{
    uint32_t place = 0;
    while (place < list->count && to->gpu->ids[list->first + place] != id)
        place++;
    return place;
}

static void plan_write_channels(writer *to, const weiri_plan_op *op)
{
    const weiri_plan_list *list = &to->block->channels[op->channel];
    plan_write_open_array(to, "channel_ids");
    for (uint32_t i = 0; i < op->nids; i++)
        plan_write_number(to, NULL,
                          plan_write_place_in_list(to, list, to->gpu->ids[op->first_id + i]));
    plan_write_close_array(to);
}

static void plan_write_refs(writer *to, const char *key, uint32_t first, uint32_t count)
{
    plan_write_open_array(to, key);
    for (uint32_t i = 0; i < count; i++) {
        const weiri_plan_ref *ref = &to->gpu->refs[first + i];
        plan_write_open_object(to, NULL);
        if (ref->place == WEIRI_PLAN_LOCAL)
            plan_write_text(to, "type", (const char[]){weiri_plan_buffer_letters[ref->buffer], 0});
        else
            plan_write_number(to,
                              ref->place == WEIRI_PLAN_GROUP ? "switch_channel_id" : "buffer_id",
                              (uint64_t)ref->id);
        plan_write_number(to, "index", ref->index);
        plan_write_number(to, "size", ref->size);
        plan_write_close_object(to);
    }
    plan_write_close_array(to);
}

static void plan_write_sync(writer *to, const weiri_plan_op *op)
{
    if (op->kind == WEIRI_PLAN_BARRIER_OP) {
        plan_write_number(to, "barrier_id", op->barrier);
        plan_write_number(to, "num_threadblocks", op->nblocks);
    } else if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP) {
        plan_write_ids(to, "semaphore_ids", op->first_id, op->nids);
    } else if (op->channel != WEIRI_PLAN_NO_CHANNEL) {
        plan_write_channels(to, op);
        plan_write_text(to, "channel_type", weiri_plan_channel_name(op->channel));
    }
}

static void plan_write_move(writer *to, const weiri_plan_op *op)
{
    plan_write_refs(to, "src_buff", op->first_src, op->nsrcs);
    plan_write_refs(to, "dst_buff", op->first_dst, op->ndsts);
    if (op->channel != WEIRI_PLAN_NO_CHANNEL) {
        if (op->nids)
            plan_write_channels(to, op);
        plan_write_text(to, "channel_type", weiri_plan_channel_name(op->channel));
    }
    if (op->reduce_op >= 0)
        plan_write_text(to, "reduce_op", weir_op_name((weir_op)op->reduce_op));
    if (op->nparts > 1) {
        plan_write_open_object(to, "tbg_info");
        plan_write_number(to, "tb_id", op->part);
        plan_write_number(to, "tbg_size", op->nparts);
        plan_write_close_object(to);
    }
}

static void plan_write_simple_op(writer *to, const weiri_plan_op *op)
{
    plan_write_open_object(to, NULL);
    plan_write_text(to, "name", weiri_plan_kind_name(op->kind));
    if (weiri_plan_traits[op->kind].mode == WEIRI_PLAN_SYNC)
        plan_write_sync(to, op);
    else
        plan_write_move(to, op);
    plan_write_close_object(to);
}

static void plan_write_pipeline(writer *to, const weiri_plan_op *op)
{
    plan_write_open_object(to, NULL);
    plan_write_text(to, "name", weiri_plan_kind_name(op->kind));
    plan_write_open_object(to, "iter_context");
    plan_write_number(to, "unit_size", op->unit_bytes);
    plan_write_number(to, "num_chunks", op->num_chunks);
    plan_write_close_object(to);
    plan_write_open_array(to, "ops");
    for (uint32_t i = 1; i <= op->nops; i++)
        plan_write_simple_op(to, op + i);
    plan_write_close_array(to);
    plan_write_close_object(to);
}

/* -------------------------------------------------------------------- a rank */

/* Writes a thread block's lists in the order of their ranges in the rank's ids, which is the
 * order of the file. */
static void plan_write_lists(writer *to, const char *key, const char *type_key, const char *ids_key,
                             const weiri_plan_list *lists)
{
    uint32_t from = 0;
    plan_write_open_array(to, key);
    for (;;) {
        int next = -1;
        for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++)
            if (lists[type].count && lists[type].first >= from &&
                (next < 0 || lists[type].first < lists[next].first))
                next = type;
        if (next < 0)
            break;
        plan_write_open_object(to, NULL);
        plan_write_text(to, type_key, weiri_plan_channel_name((weiri_plan_channel)next));
        plan_write_ids(to, ids_key, lists[next].first, lists[next].count);
        plan_write_close_object(to);
        from = lists[next].first + lists[next].count;
    }
    plan_write_close_array(to);
}

static void plan_write_block(writer *to)
{
    const weiri_plan_block *block = to->block;
    plan_write_open_object(to, NULL);
    plan_write_number(to, "id", block->id);
    plan_write_open_array(to, "ops");
    for (uint32_t i = 0; i < block->nops;) {
        const weiri_plan_op *op = &to->gpu->ops[block->first_op + i];
        if (op->kind == WEIRI_PLAN_PIPELINE_OP)
            plan_write_pipeline(to, op);
        else
            plan_write_simple_op(to, op);
        i += op->kind == WEIRI_PLAN_PIPELINE_OP ? 1 + op->nops : 1;
    }
    plan_write_close_array(to);
    plan_write_lists(to, "channels", "channel_type", "channel_ids", block->channels);
    plan_write_lists(to, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids",
                     block->remotes);
    plan_write_close_object(to);
}

static void plan_write_rank_channels(writer *to)
{
    const weiri_plan_gpu *gpu = to->gpu;
    plan_write_open_array(to, "channels");
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        if (gpu->nlinks[type] == 0)
            continue;
        plan_write_open_object(to, NULL);
        plan_write_text(to, "channel_type", weiri_plan_channel_name((weiri_plan_channel)type));
        plan_write_open_array(to, "connected_to");
        for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
            plan_write_number(to, NULL, (uint64_t)gpu->links[type][i].peer);
        plan_write_close_array(to);
        plan_write_close_object(to);
    }
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        const weiri_plan_switch *group = &gpu->switches[i];
        plan_write_open_object(to, NULL);
        plan_write_text(to, "channel_type", weiri_plan_channel_name(WEIRI_PLAN_SWITCH));
        plan_write_text(to, "buffer_type",
                        (const char[]){weiri_plan_buffer_letters[group->buffer], 0});
        plan_write_open_array(to, "rank_groups");
        plan_write_open_object(to, NULL);
        plan_write_number(to, "size", group->size);
        plan_write_ids(to, "ranks", group->first_rank, group->nranks);
        plan_write_close_object(to);
        plan_write_close_array(to);
        plan_write_close_object(to);
    }
    plan_write_close_array(to);
}

static void plan_write_rank_buffers(writer *to)
{
    const weiri_plan_gpu *gpu = to->gpu;
    plan_write_open_array(to, "remote_buffers");
    for (uint32_t i = 0; i < gpu->nremotes; i++) {
        const weiri_plan_remote *remote = &gpu->remotes[i];
        plan_write_open_object(to, NULL);
        plan_write_number(to, "rank", (uint64_t)remote->rank);
        plan_write_text(to, "type", (const char[]){weiri_plan_buffer_letters[remote->buffer], 0});
        plan_write_open_array(to, "access_channel_types");
        for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++)
            if (remote->access >> type & 1)
                plan_write_text(to, NULL, weiri_plan_channel_name((weiri_plan_channel)type));
        plan_write_close_array(to);
        plan_write_close_object(to);
    }
    plan_write_close_array(to);
    plan_write_open_array(to, "semaphores");
    for (uint32_t i = 0; i < gpu->nsemaphores; i++) {
        plan_write_open_object(to, NULL);
        plan_write_number(to, "init_value", gpu->semaphores[i]);
        plan_write_close_object(to);
    }
    plan_write_close_array(to);
}

static void plan_write_gpu(writer *to, int rank)
{
    plan_write_open_object(to, NULL);
    plan_write_number(to, "id", (uint64_t)rank);
    plan_write_number(to, "input_chunks", to->gpu->chunks[WEIR_PLAN_INPUT]);
    plan_write_number(to, "output_chunks", to->gpu->chunks[WEIR_PLAN_OUTPUT]);
    plan_write_number(to, "scratch_chunks", to->gpu->chunks[WEIR_PLAN_SCRATCH]);
    plan_write_open_array(to, "threadblocks");
    for (uint32_t i = 0; i < to->gpu->nblocks; i++) {
        to->block = &to->gpu->blocks[i];
        plan_write_block(to);
    }
    plan_write_close_array(to);
    plan_write_rank_channels(to);
    plan_write_rank_buffers(to);
    plan_write_close_object(to);
}

/* ------------------------------------------------------------------- the plan */

static void plan_write_plan(writer *to, const weir_plan *plan)
{
    plan_write_open_object(to, NULL);
    plan_write_text(to, "name", plan->name);
    plan_write_text(to, "collective", plan->collective_name);
    plan_write_text(to, "protocol", plan->uses_ll ? "LL" : "Simple");
    plan_write_flag(to, "inplace", plan->in_place);
    plan_write_flag(to, "reuse_resources", plan->reuse_resources);
    plan_write_open_array(to, "gpus");
    for (int rank = 0; rank < plan->nranks; rank++) {
        to->gpu = &plan->gpus[rank];
        plan_write_gpu(to, rank);
    }
    plan_write_close_array(to);
    plan_write_number(to, "num_threads_per_block", plan->nthreads);
    plan_write_flag(to, "use_double_scratch_buffer", plan->double_scratch);
    plan_write_number(to, "buffer_alignment", plan->alignment);
    plan_write_number(to, "min_message_size", plan->min_bytes);
    plan_write_number(to, "max_message_size", plan->max_bytes);
    plan_write_close_object(to);
    putc('\n', to->json.file);
}

weir_status weir_plan_print(const weir_plan *plan, char **text, size_t *bytes)
{
    char *made = NULL;
    size_t length = 0;
    writer to = {.json = {.file = open_memstream(&made, &length), .layout = WEIRI_JSON_INDENTED}};
    if (!to.json.file)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to print the plan", plan->file);
    plan_write_plan(&to, plan);
    int failed = ferror(to.json.file);
    if (fclose(to.json.file) != 0 || failed) {
        free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to print the plan", plan->file);
    }
    *text = made;
    *bytes = length;
    return WEIR_OK;
}

weir_status weir_plan_write(const weir_plan *plan, const char *file)
{
    writer to = {.json = {.file = fopen(file, "wb"), .layout = WEIRI_JSON_INDENTED}};
    if (!to.json.file)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write the plan %s", file);
    plan_write_plan(&to, plan);
    int failed = ferror(to.json.file);
    if (fclose(to.json.file) != 0 || failed)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write the plan %s", file);
    return WEIR_OK;
}
