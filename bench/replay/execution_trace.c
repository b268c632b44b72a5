/*
 * An execution trace that PyTorch's ExecutionTraceObserver writes for one rank: JSON with a list of
 * nodes, of which "record_param_comms" are the calls; their ids grow with the order of issue. It
 * has no times. Chakra's tools begin with these files.
 */
#include "bench/replay/json.h"
#include "bench/replay/torch.h"

#include <string.h>

typedef struct observed_file {
    replay_reader *reader;
    replay_torch *torch;
} observed_file;

static int observed_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' && strstr(head, "\"schema\"") &&
           strstr(head, "\"nodes\"") && !strstr(head, "\"traceEvents\"");
}

/* The list of a key in a part of a node, or an empty text. */
static char *list_of(const char *node, const char *part, const char *key)
{
    static char none[1];
    char *object = replay_json_find(node, part);
    char *list = object ? replay_json_find(object, key) : NULL;
    return list && *list == '[' ? list : none;
}

static weir_status observed_node(observed_file *file, const replay_json_value *value)
{
    replay_torch_call call = REPLAY_TORCH_CALL_INIT;
    char name[REPLAY_TORCH_NAME];
    replay_json_text(replay_json_find(value->text, "name"), name, sizeof name);
    const int is_call = !strcmp(name, "record_param_comms");
    if (!is_call && strcmp(name, "## process_group:init ##") != 0)
        return WEIR_OK;
    if (value->is_cut && is_call) {
        replay_note(file->reader, value->line, "a call of more than 128 KiB of text: left out");
        return WEIR_OK;
    }
    call.line = value->line;
    call.order = replay_json_number(value->text, "id");
    char *lists[] = {
        list_of(value->text, "inputs", "values"), list_of(value->text, "inputs", "types"),
        list_of(value->text, "outputs", "values"), list_of(value->text, "outputs", "types")};
    for (int i = 0; i < 4; i++)
        replay_json_end(lists[i]);
    return is_call
               ? replay_torch_add_values(file->torch, &call, lists[0], lists[1], lists[2], lists[3])
               : replay_torch_groups(file->torch, lists[0]);
}

static weir_status observed_use(void *context, const replay_json_value *value)
{
    observed_file *file = context;
    char schema[REPLAY_TORCH_NAME];
    if (!value->key)
        return observed_node(file, value);
    if (strcmp(value->key, "schema") != 0)
        return WEIR_OK;
    replay_json_text(value->text, schema, sizeof schema);
    return strncmp(schema, "1.", 2) ? replay_fail(file->reader, WEIR_ERR_INVALID, value->line,
                                                  "schema %s; version 1 can be read", schema)
                                    : WEIR_OK;
}

static weir_status observed_read(replay_reader *reader, replay_source *source)
{
    observed_file file = {.reader = reader};
    weir_status status = replay_torch_begin(reader, &file.torch);
    if (status == WEIR_OK)
        status = replay_json_read(reader, source, "nodes", observed_use, &file);
    return status == WEIR_OK ? replay_torch_end(file.torch, -1) : status;
}

const replay_format replay_format_execution_trace = {
    "an execution trace of PyTorch", observed_recognises, observed_read, replay_torch_finish};
