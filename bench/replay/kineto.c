/*
 * The trace that PyTorch's profiler (Kineto) writes for one rank: JSON with a list of events, of
 * which "record_param_comms" are the calls, and kernels named nccl... say how long they ran, and on
 * which stream. Events have times in microseconds, in newer versions since baseTimeNanoseconds.
 * Events stand thread by thread, so that only their times give the order of calls.
 */
#include "bench/replay/json.h"
#include "bench/replay/torch.h"

#include <stdlib.h>
#include <string.h>

typedef struct kineto_file {
    replay_reader *reader;
    replay_torch *torch;
    int64_t base_ns, rank;
} kineto_file;

static int kineto_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' &&
           (strstr(head, "\"traceEvents\"") || strstr(head, "\"baseTimeNanoseconds\"") ||
            (strstr(head, "\"schemaVersion\"") && strstr(head, "\"deviceProperties\"")));
}

static int is_kernel(const char *name)
{
    return !strncmp(name, "nccl", 4) && strstr(name, "Kernel");
}

#define TEXT(key, to) replay_json_string(event, key, to, sizeof(to))
#define WHOLE(key) replay_json_number(event, key)

static weir_status kineto_call(kineto_file *file, const char *event, long line)
{
    replay_torch_call call = REPLAY_TORCH_CALL_INIT;
    char ranks[1024], in_split[1024], out_split[1024];
    TEXT("Collective name", call.name);
    TEXT("dtype", call.dtype);
    TEXT("Process Group Name", call.group);
    TEXT("Process Group Ranks", ranks);
    TEXT("In split size", in_split);
    TEXT("Out split size", out_split);
    call.ranks = ranks;
    call.in_split = in_split;
    call.out_split = out_split;
    call.in = WHOLE("In msg nelems");
    call.out = WHOLE("Out msg nelems");
    call.rank = WHOLE("Rank");
    call.size = WHOLE("Group size");
    call.start = WHOLE("Global rank start");
    call.stride = WHOLE("Global rank stride");
    call.id = WHOLE("External id");
    call.number = WHOLE("Record function id");
    call.order = replay_json_ns(replay_json_find(event, "ts"));
    call.line = line;
    if (call.order < 0) {
        replay_note(file->reader, line,
                    "a call without a time, so its place among the others is unknown: left out");
        return WEIR_OK;
    }
    if (!*call.group) /* old versions have a number */
        snprintf(call.group, sizeof call.group, "%lld", (long long)WHOLE("Process Group ID"));
    call.time_ns = file->base_ns + call.order;
    return replay_torch_add(file->torch, &call);
}

/* Most events end here as soon as their name is known. */
static weir_status kineto_event(kineto_file *file, const replay_json_value *value)
{
    const char *event = value->text;
    char name[REPLAY_TORCH_NAME];
    replay_json_text(replay_json_find(event, "name"), name, sizeof name);
    if (!strcmp(name, "record_param_comms"))
        return kineto_call(file, event, value->line);
    if (!is_kernel(name))
        return WEIR_OK;
    const int64_t id = WHOLE("External id"),
                  duration_ns = replay_json_ns(replay_json_find(event, "dur"));
    return id < 0 || duration_ns < 0
               ? WEIR_OK
               : replay_torch_kernel(file->torch, id, (double)duration_ns * 1e-9, WHOLE("stream"));
}

static weir_status kineto_use(void *context, const replay_json_value *value)
{
    kineto_file *file = context;
    if (!value->key)
        return kineto_event(file, value);
    const int64_t whole = replay_json_whole(value->text);
    if (!strcmp(value->key, "baseTimeNanoseconds"))
        file->base_ns = whole < 0 ? 0 : whole;
    if (!strcmp(value->key, "schemaVersion") && whole != 1)
        return replay_fail(file->reader, WEIR_ERR_INVALID, value->line,
                           "schemaVersion %lld; version 1 can be read", (long long)whole);
    if (strcmp(value->key, "distributedInfo") != 0)
        return WEIR_OK;
    file->rank = replay_json_number(value->text, "rank");
    return replay_torch_groups(file->torch, value->text);
}

static weir_status kineto_read(replay_reader *reader, replay_source *source)
{
    kineto_file file = {.reader = reader, .rank = -1};
    weir_status status = replay_torch_begin(reader, &file.torch);
    if (status == WEIR_OK)
        status = replay_json_read(reader, source, "traceEvents", kineto_use, &file);
    return status == WEIR_OK ? replay_torch_end(file.torch, file.rank) : status;
}

const replay_format replay_format_kineto = {"a trace of PyTorch's profiler", kineto_recognises,
                                            kineto_read, replay_torch_finish};
