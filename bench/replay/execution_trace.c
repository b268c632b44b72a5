/*
 * An execution trace that PyTorch's ExecutionTraceObserver writes for one rank: JSON with a list of
 * nodes, of which "record_param_comms" are the calls; their ids grow with the order of issue. It
 * has no times. Chakra's tools begin with these files.
 */
#include "base/error.h"
#include "bench/replay/json.h"
#include "bench/replay/torch.h"

#include <stdlib.h>
#include <string.h>

typedef struct observed_node {
    int64_t id;
    long line;
    char name[REPLAY_TORCH_NAME], *inputs, *outputs; /* as text: {"values": [...], ...} */
} observed_node;

static int observed_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' && strstr(head, "\"schema\"") &&
           strstr(head, "\"nodes\"") && !strstr(head, "\"traceEvents\"");
}

/* The list behind a key in the text of an object, or an empty text. */
static char *list_of(char *object, const char *key)
{
    static char none[1];
    char *at = object ? strstr(object, key) : NULL;
    if (!at)
        return none;
    return at + strcspn(at, "[");
}

/* Keeps the text of an object that may be needed. Returns 0 if there is no memory. */
static int keep_text(replay_json *json, char **text)
{
    replay_json_raw(json);
    free(*text);
    *text = strdup(json->is_cut ? "" : json->text);
    return *text != NULL;
}

static weir_status observed_use(replay_torch *torch, replay_reader *reader, observed_node *node)
{
    replay_torch_call call = REPLAY_TORCH_CALL_INIT;
    char *values = list_of(node->inputs, "\"values\"");
    call.line = node->line;
    call.order = node->id;
    if (!strcmp(node->name, "## process_group:init ##"))
        return replay_torch_groups(torch, values);
    if (node->inputs && !*node->inputs) {
        replay_note(reader, node->line, "a call with values of more than 128 KiB: left out");
        return WEIR_OK;
    }
    return replay_torch_add_values(torch, &call, values, list_of(node->inputs, "\"types\""),
                                   list_of(node->outputs, "\"values\""),
                                   list_of(node->outputs, "\"types\""));
}

static weir_status observed_node_read(replay_torch *torch, replay_reader *reader, replay_json *json)
{
    observed_node node = {.id = -1, .line = json->line};
    int has_memory = 1, is_wanted = 1;
    while (has_memory && is_wanted && replay_json_key(json)) {
        if (replay_json_is(json, "id"))
            node.id = replay_json_whole(json, -1);
        else if (replay_json_is(json, "inputs"))
            has_memory = keep_text(json, &node.inputs);
        else if (replay_json_is(json, "outputs"))
            has_memory = keep_text(json, &node.outputs);
        else if (!replay_json_is(json, "name"))
            replay_json_skip(json);
        else {
            replay_json_string(json, node.name, sizeof node.name);
            is_wanted = !strcmp(node.name, "record_param_comms") ||
                        !strcmp(node.name, "## process_group:init ##");
        }
    }
    weir_status status = json->status;
    if (!has_memory)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a node of %s", node.name);
    else if (!is_wanted)
        replay_json_leave(json);
    else if (!json->fault && *node.name && status == WEIR_OK)
        status = observed_use(torch, reader, &node);
    free(node.inputs);
    free(node.outputs);
    return status;
}

static weir_status observed_top(replay_torch *torch, replay_reader *reader, replay_json *json)
{
    weir_status status = WEIR_OK;
    replay_json_next(json);
    while (status == WEIR_OK && replay_json_key(json)) {
        if (replay_json_is(json, "schema")) {
            char schema[64];
            replay_json_string(json, schema, sizeof schema);
            if (strncmp(schema, "1.", 2) != 0)
                replay_note(reader, json->line, "schema %s, not 1.x, is read as 1.1", schema);
            continue;
        }
        if (!replay_json_is(json, "nodes")) {
            replay_json_skip(json);
            continue;
        }
        if (replay_json_next(json) != REPLAY_JSON_ARRAY)
            continue;
        while (status == WEIR_OK && replay_json_next(json) == REPLAY_JSON_OBJECT)
            status = observed_node_read(torch, reader, json);
    }
    return status;
}

static weir_status observed_read(replay_reader *reader, replay_source *source)
{
    replay_json json;
    replay_torch *torch;
    weir_status status = replay_json_open(&json, source);
    if (status != WEIR_OK)
        return status;
    status = replay_torch_begin(reader, &torch);
    if (status == WEIR_OK)
        status = observed_top(torch, reader, &json);
    if (status == WEIR_OK)
        status = json.status;
    reader->trace->is_cut |= json.fault != NULL;
    if (status == WEIR_OK && json.fault)
        replay_note(reader, json.line, "%s: what follows is left out", json.fault);
    if (status == WEIR_OK)
        status = replay_torch_end(torch, -1);
    replay_json_close(&json);
    return status;
}

const replay_format replay_format_execution_trace = {
    "an execution trace of PyTorch", observed_recognises, observed_read, replay_torch_finish};
