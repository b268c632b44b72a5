/*
 * An execution trace of one rank in Chakra's form (.et), as its converter makes of PyTorch's: a
 * message of metadata, then nodes, each behind its length. "record_param_comms" are the calls, with
 * the values of PyTorch's trace as Python writes them.
 */
#define _GNU_SOURCE /* memmem */
#include "bench/replay/torch.h"

#include "chakra.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum { CHAKRA_BYTES_MAX = 1 << 26 }; /* of a node */

/* A file, and the message that is read. */
typedef struct chakra_file {
    replay_source *source;
    replay_torch *torch;
    unsigned char *data;
    size_t bytes, room;
    uint64_t nodes;
} chakra_file;

/* Reads up to `bytes`; fewer at the end of the file. */
static weir_status chakra_get(chakra_file *file, unsigned char *to, size_t bytes, size_t *got)
{
    weir_status status = WEIR_OK;
    size_t more = 1;
    for (*got = 0; *got < bytes && more && status == WEIR_OK; *got += more) {
        char *data;
        status = replay_source_peek(file->source, &data, &more);
        more = more < bytes - *got ? more : bytes - *got;
        memcpy(to + *got, data, more);
        replay_source_take(file->source, more);
    }
    return status;
}

/* Reads the next message. *is_whole becomes 0 if the file ends within it, or its length is none. */
static weir_status chakra_message(chakra_file *file, int *is_whole, int *is_end)
{
    uint64_t length = 0;
    unsigned char byte = 0x80;
    size_t got = 1;
    weir_status status = WEIR_OK;
    *is_end = *is_whole = 0;
    for (int shift = 0; shift < 35 && byte & 0x80 && got && status == WEIR_OK; shift += 7) {
        status = chakra_get(file, &byte, 1, &got);
        *is_end = !got && !shift;
        length |= (uint64_t)(byte & 0x7f) << shift;
    }
    if (status != WEIR_OK || !got || byte & 0x80 || length > CHAKRA_BYTES_MAX)
        return status;
    if (length > file->room) {
        free(file->data);
        file->room = (size_t)length;
        file->data = malloc(file->room);
        if (!file->data)
            return replay_no_memory();
    }
    status = chakra_get(file, file->data, (size_t)length, &file->bytes);
    *is_whole = file->bytes == length;
    return status;
}

static weir_status chakra_use(chakra_file *file, Chakra__Node *node)
{
    static char none[1];
    replay_torch_call call = REPLAY_TORCH_CALL_INIT;
    Chakra__Values *in = node->inputs, *out = node->outputs;
    if (!strcmp(node->name, "## process_group:init ##"))
        return replay_torch_groups(file->torch, in ? in->values : none);
    if (strcmp(node->name, "record_param_comms") != 0)
        return WEIR_OK;
    call.order = (int64_t)(node->id & INT64_MAX);
    call.line = (long)file->nodes; /* a node is what a line is in other formats */
    return replay_torch_add_values(file->torch, &call, in ? in->values : none,
                                   in ? in->types : none, out ? out->values : none,
                                   out ? out->types : none);
}

static weir_status chakra_nodes(replay_reader *reader, chakra_file *file)
{
    int is_whole, is_end;
    weir_status status = chakra_message(file, &is_whole, &is_end); /* the metadata */
    while (status == WEIR_OK && is_whole) {
        status = chakra_message(file, &is_whole, &is_end);
        if (status != WEIR_OK || is_end || !is_whole)
            break;
        Chakra__Node *node = chakra__node__unpack(NULL, file->bytes, file->data);
        is_whole = node != NULL;
        file->nodes++;
        if (node)
            status = chakra_use(file, node);
        if (node)
            chakra__node__free_unpacked(node, NULL);
    }
    reader->trace->is_cut |= !is_end;
    if (status == WEIR_OK && !is_end)
        replay_note(reader, 0,
                    "the file ends within a node, or has none there: what follows node "
                    "%llu is left out",
                    (unsigned long long)file->nodes);
    return status;
}

static weir_status chakra_read(replay_reader *reader, replay_source *source)
{
    chakra_file file = {.source = source};
    weir_status status = replay_torch_begin(reader, &file.torch);
    if (status == WEIR_OK)
        status = chakra_nodes(reader, &file);
    if (status == WEIR_OK)
        status = replay_torch_end(file.torch, -1);
    free(file.data);
    return status;
}

static int chakra_recognises(const char *head, size_t bytes)
{
    return memmem(head, bytes < 64 ? bytes : 64, "\x0a\x06schema", 8) != NULL;
}

const replay_format replay_format_chakra = {"an execution trace of Chakra", chakra_recognises,
                                            chakra_read, replay_torch_finish};
