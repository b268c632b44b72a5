/*
 * An execution trace that PyTorch's ExecutionTraceObserver writes for one rank: JSON with a list of
 * nodes, of which "record_param_comms" are the calls; their ids grow with the order of issue. It
 * has no times. Chakra's tools begin with these files.
 */
#include "bench/replay/json.h"
#include "bench/replay/torch.h"

#include <stdlib.h>
#include <string.h>

typedef struct observed_node {
    int64_t id;
    char name[REPLAY_TORCH_NAME], *inputs, *outputs; /* as text: {"values": [...], ...} */
} observed_node;

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

static int is_wanted(const char *name)
{
    return !strcmp(name, "record_param_comms") || !strcmp(name, "## process_group:init ##");
}

static const replay_json_field fields[] = {
    {"name", REPLAY_JSON_TEXT, REPLAY_TORCH_NAME, offsetof(observed_node, name)},
    {"id", REPLAY_JSON_WHOLE, 0, offsetof(observed_node, id)},
    {"inputs", REPLAY_JSON_RAW, 0, offsetof(observed_node, inputs)},
    {"outputs", REPLAY_JSON_RAW, 0, offsetof(observed_node, outputs)},
};
static const replay_json_table table = {fields, sizeof fields / sizeof *fields, is_wanted};

/* The list behind a key in the text of an object, or an empty text. */
static char *list_of(char *object, const char *key)
{
    static char none[1];
    char *at = object ? strstr(object, key) : NULL;
    return at ? at + strcspn(at, "[") : none;
}

static weir_status observed_use(observed_file *file, const observed_node *node, long line)
{
    replay_torch_call call = REPLAY_TORCH_CALL_INIT;
    char *values = list_of(node->inputs, "\"values\"");
    call.line = line;
    call.order = node->id;
    if (!strcmp(node->name, "## process_group:init ##"))
        return replay_torch_groups(file->torch, values);
    if (node->inputs && !*node->inputs) {
        replay_note(file->reader, line, "a call with values of more than 128 KiB: left out");
        return WEIR_OK;
    }
    return replay_torch_add_values(file->torch, &call, values, list_of(node->inputs, "\"types\""),
                                   list_of(node->outputs, "\"values\""),
                                   list_of(node->outputs, "\"types\""));
}

static weir_status observed_node_read(replay_json *json, void *context)
{
    observed_node node = {.id = -1};
    const long line = json->line;
    const int is_call = replay_json_object(json, &table, &node);
    weir_status status = json->status;
    if (is_call && status == WEIR_OK && !json->fault && *node.name)
        status = observed_use(context, &node, line);
    free(node.inputs);
    free(node.outputs);
    return status;
}

static weir_status observed_top(replay_json *json, void *context)
{
    observed_file *file = context;
    weir_status status = WEIR_OK;
    replay_json_next(json);
    while (status == WEIR_OK && replay_json_key(json)) {
        if (replay_json_is(json, "nodes")) {
            status = replay_json_each(json, observed_node_read, file);
        } else if (replay_json_is(json, "schema")) {
            replay_json_next(json);
            if (strncmp(json->text, "1.", 2) != 0)
                status = replay_fail(file->reader, WEIR_ERR_INVALID, json->line,
                                     "schema %.60s; version 1 can be read", json->text);
        } else {
            replay_json_skip(json);
        }
    }
    return status;
}

static weir_status observed_read(replay_reader *reader, replay_source *source)
{
    observed_file file = {.reader = reader};
    weir_status status = replay_torch_begin(reader, &file.torch);
    if (status == WEIR_OK)
        status = replay_json_file(reader, source, observed_top, &file);
    return status == WEIR_OK ? replay_torch_end(file.torch, -1) : status;
}

const replay_format replay_format_execution_trace = {
    "an execution trace of PyTorch", observed_recognises, observed_read, replay_torch_finish};
