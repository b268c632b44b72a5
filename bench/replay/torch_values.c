/*
 * The values that PyTorch's execution traces have of a call: lists as JSON or Python write them.
 * record_param_comms has [TENSORS,] SEQUENCE, (GROUP, DESCRIPTION), RANK, NAME, IN SPLITS, OUT
 * SPLITS, FIRST RANK, STRIDE, SIZE; a tensor is [id, storage, offset, elements, bytes of an
 * element, device].
 */
#include "bench/replay/torch.h"

#include <stdlib.h>
#include <string.h>

enum { TORCH_VALUES = 16 };

/* Takes a list apart at its own level. Changes the text. Returns the number of values. */
static int values_split(char *text, char **values)
{
    int count = 0, depth = 0;
    char quote = '\0', *at = text + strspn(text, " ");
    if (*at++ != '[')
        return 0;
    values[count++] = at;
    for (; *at && (depth > 0 || quote || *at != ']'); at++) {
        if (quote && *at == '\\' && at[1]) {
            at++;
        } else if (quote) {
            quote = *at == quote ? '\0' : quote;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (*at == ',' && depth == 0) {
            *at = '\0';
            if (count == TORCH_VALUES)
                return count;
            values[count++] = at + 1;
        }
        if (!quote)
            depth += (*at == '[' || *at == '(') - (*at == ']' || *at == ')');
    }
    *at = '\0';
    for (int i = 0; i < count; i++)
        values[i] += strspn(values[i], " ");
    return count;
}

/* Adds up the elements of the tensors in a value, [id, storage, offset, elements, bytes, device].
 * *storage becomes the last one's. Returns -1 if there is none. */
static int64_t values_elements(const char *value, long long *storage)
{
    int64_t sum = -1;
    for (const char *at = value; (at = strchr(at, '[')) != NULL; at++) {
        long long id, offset, elements, bytes;
        if (sscanf(at, "[%lld ,%lld ,%lld ,%lld ,%lld", &id, storage, &offset, &elements, &bytes) !=
            5)
            continue;
        if (elements < 0 || elements > (int64_t)REPLAY_COUNT_MAX)
            return -1;
        sum = sum < 0 ? elements : sum + elements;
    }
    return sum;
}

/* The text between the first two quotes. */
static void values_quoted(const char *value, char to[REPLAY_TORCH_NAME])
{
    const char *at = value + strcspn(value, "'\"");
    const size_t length = *at ? strcspn(at + 1, *at == '"' ? "\"" : "'") : 0;
    *to = '\0';
    if (length < REPLAY_TORCH_NAME)
        snprintf(to, REPLAY_TORCH_NAME, "%.*s", (int)length, *at ? at + 1 : "");
}

static int64_t values_whole(const char *value)
{
    char *end;
    const int64_t number = strtoll(value, &end, 10);
    return end == value ? -1 : number;
}

weir_status replay_torch_add_values(replay_torch *torch, replay_torch_call *call, char *inputs,
                                    char *input_types, char *outputs, char *output_types)
{
    char *values[TORCH_VALUES];
    const int count = values_split(inputs, values);
    const char *type = strstr(input_types, "Tensor(");
    long long in_storage = -1, out_storage = -2;
    int group = 0;
    /* The group is a pair of its name and its description. */
    while (group < count && !((values[group][0] == '[' || values[group][0] == '(') &&
                              strchr("'\"", values[group][1]) && values[group][1]))
        group++;
    if (group + 7 >= count) {
        *call->name = '\0';
        return replay_torch_add(torch, call);
    }
    values_quoted(values[group], call->group);
    values_quoted(values[group + 2], call->name);
    call->rank = values_whole(values[group + 1]);
    call->in_split = values[group + 3];
    call->out_split = values[group + 4];
    call->start = values_whole(values[group + 5]);
    call->stride = values_whole(values[group + 6]);
    call->size = values_whole(values[group + 7]);
    call->in = group == 2 ? values_elements(values[0], &in_storage) : -1;
    call->out = values_elements(outputs, &out_storage);
    call->is_in_place = in_storage == out_storage;
    if (!type)
        type = strstr(output_types, "Tensor(");
    if (type && strcspn(type + 7, ")") < sizeof call->dtype)
        snprintf(call->dtype, sizeof call->dtype, "%.*s", (int)strcspn(type + 7, ")"), type + 7);
    return replay_torch_add(torch, call);
}
