/* What tests of the readers of recorded jobs have in common. */
#ifndef VERIFY_TESTS_SUPPORT_REPLAY_SAMPLES_H
#define VERIFY_TESTS_SUPPORT_REPLAY_SAMPLES_H

#include "bench/replay/read.h"
#include "verify/tests/support/unit_test.h"

#define SAMPLES "verify/tests/formats/replay/"

static inline replay_trace *read_text(const char *name, const char *text)
{
    replay_trace *trace = NULL;
    if (replay_read_data(name, text, strlen(text), &trace) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return trace;
}

/* Expects a note that has this part, with its line and how often it occurred. */
static inline void expect_note(const replay_trace *trace, const char *part, uint32_t line,
                               uint64_t count)
{
    for (int i = 0; i < trace->nnotes; i++)
        if (strstr(trace->notes[i].text, part)) {
            assert_int_equal(trace->notes[i].line, line);
            assert_int_equal(trace->notes[i].count, count);
            return;
        }
    fail_msg("no note has \"%s\"", part);
}

static inline char *file_text(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Expects that a sample reads as the text of NAME.want. */
static inline void expect_sample(const char *path, const char *want)
{
    replay_trace *trace = NULL;
    char *text = NULL, *paths[] = {strdup(path)};
    size_t bytes = 0;
    if (replay_read(paths, 1, &trace) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    assert_int_equal(replay_text_write(trace, to), 0);
    fclose(to);
    assert_string_equal(text, file_text(want));
    replay_trace_free(trace);
    free(paths[0]);
    free(text);
}

/* Expects that a text is refused with a message that has this part. */
static inline void expect_refused(const char *name, const char *text, const char *part)
{
    replay_trace *trace = NULL;
    assert_int_equal(replay_read_data(name, text, strlen(text), &trace), WEIR_ERR_INVALID);
    if (!strstr(weir_last_error(), part))
        fail_msg("\"%s\" is not in \"%s\"", part, weir_last_error());
}

#endif
