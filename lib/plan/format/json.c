/*
 * Reads plans from the JSON that MSCCL++'s DSL writes, with jansson. Ids that a file gives
 * relative to a thread block are resolved during reading; the result is validated (validate.c)
 * as built plans are. Unknown keys are ignored with one warning each.
 */
#include "plan/format/json.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 28 };

static int plan_json_collective_of(const char *name)
{
    for (int i = 0; i < WEIR_COLL_COUNT; i++)
        if (strcmp(name, weir_collective_name((weir_collective)i)) == 0)
            return i;
    return strcmp(name, "reducescatter") == 0 ? WEIR_COLL_REDUCE_SCATTER : -1;
}

static void plan_json_read_header(weiri_json *in, json_t *root)
{
    weir_plan *plan = in->plan;
    weiri_json_known(in, root,
                     "|name|collective|protocol|inplace|reuse_resources|gpus|"
                     "num_threads_per_block|use_double_scratch_buffer|buffer_alignment|"
                     "min_message_size|max_message_size|");
    plan->name = strdup(weiri_json_text(in, root, "name"));
    plan->collective_name = strdup(weiri_json_text(in, root, "collective"));
    if (!plan->name || !plan->collective_name) {
        weiri_json_no_memory(in);
        return;
    }
    plan->collective = plan_json_collective_of(plan->collective_name);
    const char *protocol =
        json_object_get(root, "protocol") ? weiri_json_text(in, root, "protocol") : "Simple";
    plan->uses_ll = strcmp(protocol, "LL") == 0;
    if (!plan->uses_ll && strcmp(protocol, "Simple") != 0)
        weiri_json_reject(in, "protocol is '%.40s'; expected Simple or LL", protocol);
    plan->in_place = weiri_json_flag(in, root, "inplace", 0);
    plan->reuse_resources = weiri_json_flag(in, root, "reuse_resources", 0);
    plan->double_scratch = weiri_json_flag(in, root, "use_double_scratch_buffer", 0);
    plan->nthreads =
        (uint32_t)weiri_json_number(in, root, "num_threads_per_block", INT32_MAX, 1024);
    plan->alignment = (uint32_t)weiri_json_number(in, root, "buffer_alignment", INT32_MAX, 16);
    plan->min_bytes = weiri_json_number(in, root, "min_message_size", UINT64_MAX, 0);
    plan->max_bytes =
        json_object_get(root, "max_message_size")
            ? weiri_json_number(in, root, "max_message_size", UINT64_MAX, WEIRI_JSON_REQUIRED)
            : UINT64_MAX;
}

static void plan_json_read_root(weiri_json *in, json_t *root)
{
    json_t *gpus;
    if (!json_is_object(root)) {
        weiri_json_reject(in, "the document is not a JSON object; expected a plan");
        return;
    }
    plan_json_read_header(in, root);
    gpus = weiri_json_array(in, root, "gpus");
    size_t count = json_array_size(gpus);
    if (count < 1 || count > WEIRI_PLAN_RANKS_MAX) {
        weiri_json_reject(in, "gpus has %zu entries; expected 1 to %d", count,
                          WEIRI_PLAN_RANKS_MAX);
        return;
    }
    if (in->status != WEIR_OK)
        return;
    in->plan->gpus = calloc(count, sizeof *in->plan->gpus);
    if (!in->plan->gpus) {
        weiri_json_no_memory(in);
        return;
    }
    in->plan->nranks = (int)count;
    for (in->rank = 0; in->rank < (int)count && in->status == WEIR_OK; in->rank++)
        weiri_json_read_rank(in, json_array_get(gpus, (size_t)in->rank));
}

static json_t *plan_json_parse_text(const char *text, size_t bytes, const char *name)
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
    WEIRI_REQUIRE(text && name && plan);
    weir_plan *made = calloc(1, sizeof *made);
    if (made)
        made->file = strdup(name);
    if (!made || !made->file) {
        free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the plan", name);
    }
    weiri_json in = {.plan = made,
                     .rank = WEIRI_JSON_NO_RANK,
                     .block = WEIRI_JSON_NO_OP,
                     .op = WEIRI_JSON_NO_OP};
    json_t *root = plan_json_parse_text(text, bytes, name);
    if (root)
        plan_json_read_root(&in, root);
    else
        in.status = WEIR_ERR_INVALID;
    if (in.status == WEIR_OK)
        in.status = weiri_plan_validate(made);
    json_decref(root);
    if (in.status == WEIR_OK) {
        *plan = made;
        weiri_log(WEIRI_LOG_DEBUG, "plan %s: read", name);
    } else {
        weir_plan_free(made);
    }
    return in.status;
}

weir_status weir_plan_read(const char *file, weir_plan **plan)
{
    WEIRI_REQUIRE(file && plan);
    FILE *from = fopen(file, "rb");
    char *text = NULL;
    long bytes = -1;
    weir_status status;
    int readable = from && (getc(from) != EOF || !ferror(from)); /* fails for a directory */
    if (readable && fseek(from, 0, SEEK_END) == 0)
        bytes = ftell(from);
    if (from && bytes >= 0 && bytes <= FILE_BYTES_MAX && fseek(from, 0, SEEK_SET) == 0)
        text = malloc((size_t)bytes + 1);
    if (text && fread(text, 1, (size_t)bytes, from) == (size_t)bytes)
        status = weir_plan_parse(text, (size_t)bytes, file, plan);
    else if (from && bytes > FILE_BYTES_MAX)
        status = weiri_fail(WEIR_ERR_INVALID,
                            "%s: the file is too long for a plan; expected at most %d bytes", file,
                            FILE_BYTES_MAX);
    else
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read the plan %s", file);
    free(text);
    if (from)
        fclose(from);
    return status;
}
