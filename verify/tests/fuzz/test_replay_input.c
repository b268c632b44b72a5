/*
 * The readers of recorded jobs get arbitrary bytes, whose beginning selects the format. They make a
 * trace or report a reason, and a trace survives being written as weir's text and read again. Its
 * calls are matched and put into an order, in which every call has its place once; or a reason is
 * reported.
 */
#include "verify/tests/support/fuzz_input.h"

#include "bench/replay/match.h"
#include "bench/replay/read.h"

static char *write_text(const replay_trace *trace, size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    FUZZ_DEMAND(to);
    FUZZ_DEMAND(replay_text_write(trace, to) == 0);
    fclose(to);
    return text;
}

static void match_calls(replay_trace *trace)
{
    replay_schedule *schedule = NULL;
    if (replay_match(trace, &schedule) != WEIR_OK) {
        FUZZ_DEMAND(*weir_last_error());
        return;
    }
    for (int rank = 0; rank < trace->nranks; rank++) {
        size_t calls = 0;
        for (int lane = 0; lane < schedule->nlanes; lane++) {
            const replay_steps *steps = &schedule->lanes[rank * schedule->nlanes + lane];
            for (size_t i = 0; i < steps->count; i++)
                calls += steps->list[i].ncalls;
        }
        FUZZ_DEMAND(calls == trace->ranks[rank].count);
    }
    replay_schedule_free(schedule);
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    replay_trace *trace = NULL, *again = NULL;
    size_t length, length_again;
    const weir_status status = replay_read_data("input", (const char *)data, bytes, &trace);
    FUZZ_DEMAND((status == WEIR_OK) == (trace != NULL));
    FUZZ_DEMAND(trace || strstr(weir_last_error(), "input") || *weir_last_error());
    if (!trace)
        return;
    FUZZ_DEMAND(replay_calls(trace) > 0 && trace->ncomms > 0 && trace->nranks > 0);
    char *text = write_text(trace, &length);
    if (replay_read_data("again", text, length, &again) != WEIR_OK) {
        fprintf(stderr, "%s\n%s", weir_last_error(), text);
        FUZZ_DEMAND(!"what was written is read");
    }
    char *text_again = write_text(again, &length_again);
    if (length != length_again || memcmp(text, text_again, length) != 0)
        fprintf(stderr, "--- written\n%s--- again\n%s", text, text_again);
    FUZZ_DEMAND(length == length_again && memcmp(text, text_again, length) == 0);
    free(text);
    free(text_again);
    match_calls(again);
    replay_trace_free(trace);
    replay_trace_free(again);
}
