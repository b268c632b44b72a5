/*
 * Writes plans as JSON in the form and key order of MSCCL++'s DSL, so that both its reader and
 * weir's accept them. Writing a plan that was read from such a file reproduces the file. Ids are
 * written relative to the lists of their thread block.
 */
#include "plan/format/plan.h"

#include "base/error.h"
#include "base/json.h"
#include "base/write_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct writer {
    weiri_json_writer json;
    const weiri_plan_gpu *gpu;
    const weiri_plan_block *block;
} writer;

static void plan_write_ids(writer *to, const char *key, uint32_t first, uint32_t count)
{
    weiri_json_put_list(&to->json, key);
    for (uint32_t i = 0; i < count; i++)
        weiri_json_unsigned(&to->json, to->gpu->ids[first + i]);
    weiri_json_close_list(&to->json);
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
    weiri_json_put_list(&to->json, "channel_ids");
    for (uint32_t i = 0; i < op->nids; i++)
        weiri_json_unsigned(&to->json,
                            plan_write_place_in_list(to, list, to->gpu->ids[op->first_id + i]));
    weiri_json_close_list(&to->json);
}

static void plan_write_refs(writer *to, const char *key, uint32_t first, uint32_t count)
{
    weiri_json_put_list(&to->json, key);
    for (uint32_t i = 0; i < count; i++) {
        const weiri_plan_ref *ref = &to->gpu->refs[first + i];
        weiri_json_open_object(&to->json);
        if (ref->place == WEIRI_PLAN_LOCAL)
            weiri_json_put_text(&to->json, "type",
                                (const char[]){weiri_plan_buffer_letters[ref->buffer], 0});
        else
            weiri_json_put_unsigned(
                &to->json, ref->place == WEIRI_PLAN_GROUP ? "switch_channel_id" : "buffer_id",
                (uint64_t)ref->id);
        weiri_json_put_unsigned(&to->json, "index", ref->index);
        weiri_json_put_unsigned(&to->json, "size", ref->size);
        weiri_json_close_object(&to->json);
    }
    weiri_json_close_list(&to->json);
}

static void plan_write_sync(writer *to, const weiri_plan_op *op)
{
    if (op->kind == WEIRI_PLAN_BARRIER_OP) {
        weiri_json_put_unsigned(&to->json, "barrier_id", op->barrier);
        weiri_json_put_unsigned(&to->json, "num_threadblocks", op->nblocks);
    } else if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP) {
        plan_write_ids(to, "semaphore_ids", op->first_id, op->nids);
    } else if (op->channel != WEIRI_PLAN_NO_CHANNEL) {
        plan_write_channels(to, op);
        weiri_json_put_text(&to->json, "channel_type", weiri_plan_channel_name(op->channel));
    }
}

static void plan_write_move(writer *to, const weiri_plan_op *op)
{
    plan_write_refs(to, "src_buff", op->first_src, op->nsrcs);
    plan_write_refs(to, "dst_buff", op->first_dst, op->ndsts);
    if (op->channel != WEIRI_PLAN_NO_CHANNEL) {
        if (op->nids)
            plan_write_channels(to, op);
        weiri_json_put_text(&to->json, "channel_type", weiri_plan_channel_name(op->channel));
    }
    if (op->reduce_op >= 0)
        weiri_json_put_text(&to->json, "reduce_op", weir_op_name((weir_op)op->reduce_op));
    if (op->nparts > 1) {
        weiri_json_put_object(&to->json, "tbg_info");
        weiri_json_put_unsigned(&to->json, "tb_id", op->part);
        weiri_json_put_unsigned(&to->json, "tbg_size", op->nparts);
        weiri_json_close_object(&to->json);
    }
}

static void plan_write_simple_op(writer *to, const weiri_plan_op *op)
{
    weiri_json_open_object(&to->json);
    weiri_json_put_text(&to->json, "name", weiri_plan_kind_name(op->kind));
    if (weiri_plan_traits[op->kind].mode == WEIRI_PLAN_SYNC)
        plan_write_sync(to, op);
    else
        plan_write_move(to, op);
    weiri_json_close_object(&to->json);
}

static void plan_write_pipeline(writer *to, const weiri_plan_op *op)
{
    weiri_json_open_object(&to->json);
    weiri_json_put_text(&to->json, "name", weiri_plan_kind_name(op->kind));
    weiri_json_put_object(&to->json, "iter_context");
    weiri_json_put_unsigned(&to->json, "unit_size", op->unit_bytes);
    weiri_json_put_unsigned(&to->json, "num_chunks", op->num_chunks);
    weiri_json_close_object(&to->json);
    weiri_json_put_list(&to->json, "ops");
    for (uint32_t i = 1; i <= op->nops; i++)
        plan_write_simple_op(to, op + i);
    weiri_json_close_list(&to->json);
    weiri_json_close_object(&to->json);
}

/* -------------------------------------------------------------------- a rank */

/* Writes a thread block's lists in the order of their ranges in the rank's ids, which is the
 * order of the file. */
static void plan_write_lists(writer *to, const char *key, const char *type_key, const char *ids_key,
                             const weiri_plan_list *lists)
{
    uint32_t from = 0;
    weiri_json_put_list(&to->json, key);
    for (;;) {
        int next = -1;
        for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++)
            if (lists[type].count && lists[type].first >= from &&
                (next < 0 || lists[type].first < lists[next].first))
                next = type;
        if (next < 0)
            break;
        weiri_json_open_object(&to->json);
        weiri_json_put_text(&to->json, type_key, weiri_plan_channel_name((weiri_plan_channel)next));
        plan_write_ids(to, ids_key, lists[next].first, lists[next].count);
        weiri_json_close_object(&to->json);
        from = lists[next].first + lists[next].count;
    }
    weiri_json_close_list(&to->json);
}

static void plan_write_block(writer *to)
{
    const weiri_plan_block *block = to->block;
    weiri_json_open_object(&to->json);
    weiri_json_put_unsigned(&to->json, "id", block->id);
    weiri_json_put_list(&to->json, "ops");
    for (uint32_t i = 0; i < block->nops;) {
        const weiri_plan_op *op = &to->gpu->ops[block->first_op + i];
        if (op->kind == WEIRI_PLAN_PIPELINE_OP)
            plan_write_pipeline(to, op);
        else
            plan_write_simple_op(to, op);
        i += op->kind == WEIRI_PLAN_PIPELINE_OP ? 1 + op->nops : 1;
    }
    weiri_json_close_list(&to->json);
    plan_write_lists(to, "channels", "channel_type", "channel_ids", block->channels);
    plan_write_lists(to, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids",
                     block->remotes);
    weiri_json_close_object(&to->json);
}

static void plan_write_rank_channels(writer *to)
{
    const weiri_plan_gpu *gpu = to->gpu;
    weiri_json_put_list(&to->json, "channels");
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        if (gpu->nlinks[type] == 0)
            continue;
        weiri_json_open_object(&to->json);
        weiri_json_put_text(&to->json, "channel_type",
                            weiri_plan_channel_name((weiri_plan_channel)type));
        weiri_json_put_list(&to->json, "connected_to");
        for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
            weiri_json_unsigned(&to->json, (uint64_t)gpu->links[type][i].peer);
        weiri_json_close_list(&to->json);
        weiri_json_close_object(&to->json);
    }
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        const weiri_plan_switch *group = &gpu->switches[i];
        weiri_json_open_object(&to->json);
        weiri_json_put_text(&to->json, "channel_type", weiri_plan_channel_name(WEIRI_PLAN_SWITCH));
        weiri_json_put_text(&to->json, "buffer_type",
                            (const char[]){weiri_plan_buffer_letters[group->buffer], 0});
        weiri_json_put_list(&to->json, "rank_groups");
        weiri_json_open_object(&to->json);
        weiri_json_put_unsigned(&to->json, "size", group->size);
        plan_write_ids(to, "ranks", group->first_rank, group->nranks);
        weiri_json_close_object(&to->json);
        weiri_json_close_list(&to->json);
        weiri_json_close_object(&to->json);
    }
    weiri_json_close_list(&to->json);
}

static void plan_write_rank_buffers(writer *to)
{
    const weiri_plan_gpu *gpu = to->gpu;
    weiri_json_put_list(&to->json, "remote_buffers");
    for (uint32_t i = 0; i < gpu->nremotes; i++) {
        const weiri_plan_remote *remote = &gpu->remotes[i];
        weiri_json_open_object(&to->json);
        weiri_json_put_unsigned(&to->json, "rank", (uint64_t)remote->rank);
        weiri_json_put_text(&to->json, "type",
                            (const char[]){weiri_plan_buffer_letters[remote->buffer], 0});
        weiri_json_put_list(&to->json, "access_channel_types");
        for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++)
            if (remote->access >> type & 1)
                weiri_json_add_text(&to->json, weiri_plan_channel_name((weiri_plan_channel)type));
        weiri_json_close_list(&to->json);
        weiri_json_close_object(&to->json);
    }
    weiri_json_close_list(&to->json);
    weiri_json_put_list(&to->json, "semaphores");
    for (uint32_t i = 0; i < gpu->nsemaphores; i++) {
        weiri_json_open_object(&to->json);
        weiri_json_put_unsigned(&to->json, "init_value", gpu->semaphores[i]);
        weiri_json_close_object(&to->json);
    }
    weiri_json_close_list(&to->json);
}

static void plan_write_gpu(writer *to, int rank)
{
    weiri_json_open_object(&to->json);
    weiri_json_put_unsigned(&to->json, "id", (uint64_t)rank);
    weiri_json_put_unsigned(&to->json, "input_chunks", to->gpu->chunks[WEIR_PLAN_INPUT]);
    weiri_json_put_unsigned(&to->json, "output_chunks", to->gpu->chunks[WEIR_PLAN_OUTPUT]);
    weiri_json_put_unsigned(&to->json, "scratch_chunks", to->gpu->chunks[WEIR_PLAN_SCRATCH]);
    weiri_json_put_list(&to->json, "threadblocks");
    for (uint32_t i = 0; i < to->gpu->nblocks; i++) {
        to->block = &to->gpu->blocks[i];
        plan_write_block(to);
    }
    weiri_json_close_list(&to->json);
    plan_write_rank_channels(to);
    plan_write_rank_buffers(to);
    weiri_json_close_object(&to->json);
}

/* ------------------------------------------------------------------- the plan */

static void plan_write_plan(writer *to, const weir_plan *plan)
{
    weiri_json_open_object(&to->json);
    weiri_json_put_text(&to->json, "name", plan->name);
    weiri_json_put_text(&to->json, "collective", plan->collective_name);
    weiri_json_put_text(&to->json, "protocol", plan->uses_ll ? "LL" : "Simple");
    weiri_json_put_flag(&to->json, "inplace", plan->in_place);
    weiri_json_put_flag(&to->json, "reuse_resources", plan->reuse_resources);
    weiri_json_put_list(&to->json, "gpus");
    for (int rank = 0; rank < plan->nranks; rank++) {
        to->gpu = &plan->gpus[rank];
        plan_write_gpu(to, rank);
    }
    weiri_json_close_list(&to->json);
    weiri_json_put_unsigned(&to->json, "num_threads_per_block", plan->nthreads);
    weiri_json_put_flag(&to->json, "use_double_scratch_buffer", plan->double_scratch);
    weiri_json_put_unsigned(&to->json, "buffer_alignment", plan->alignment);
    weiri_json_put_unsigned(&to->json, "min_message_size", plan->min_bytes);
    weiri_json_put_unsigned(&to->json, "max_message_size", plan->max_bytes);
    weiri_json_close_object(&to->json);
    putc('\n', to->json.file);
}

static void plan_write_to(const void *plan, FILE *file)
{
    writer to = {.json = {.file = file, .layout = WEIRI_JSON_INDENTED}};
    plan_write_plan(&to, plan);
}

weir_status weir_plan_print(const weir_plan *plan, char **text, size_t *bytes)
{
    WEIRI_REQUIRE(plan && text && bytes);
    char *made = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&made, &length);
    int failed = !file;
    if (file) {
        plan_write_to(plan, file);
        failed = ferror(file);
        failed |= fclose(file) != 0;
    }
    if (failed) {
        free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to print the plan", plan->file);
    }
    *text = made;
    *bytes = length;
    return WEIR_OK;
}

weir_status weir_plan_write(const weir_plan *plan, const char *name)
{
    WEIRI_REQUIRE(plan && name);
    if (weiri_write_file(name, plan_write_to, plan) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write the plan %s", name);
    return WEIR_OK;
}
