/*
 * Helpers for tests that read plans from files: the DSL's samples, if they are installed, and
 * texts that are read and written again.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_FILES_H
#define VERIFY_TESTS_SUPPORT_PLAN_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/format/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_SAMPLES "../shared/plans/"

enum { PLAN_SAMPLE_COUNT = 7 };
static const char *const plan_sample_names[PLAN_SAMPLE_COUNT] = {
    "exec_reduce",
    "exec_transfer_pack",
    "single_node_allgather_pkt.8",
    "single_node_allreduce.8",
    "single_node_allreduce_pipeline.8",
    "single_node_allreduce_pkt.8",
    "single_node_alltoall_alltoall.8",
};

/* The text of a file, the caller's; NULL: there is none. */
static inline char *plan_file_text(const char *file)
{
    FILE *from = fopen(file, "rb");
    if (!from)
        return NULL;
    assert_int_equal(fseek(from, 0, SEEK_END), 0);
    size_t bytes = (size_t)ftell(from);
    rewind(from);
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, bytes, from), bytes);
    text[bytes] = 0;
    fclose(from);
    return text;
}

/* That of a sample; where it is not here, the test is skipped. */
static inline char *plan_sample_text(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, PLAN_SAMPLES "%s.json", name);
    char *text = plan_file_text(file);
    if (!text) {
        print_message("no %s here\n", file);
        skip();
    }
    return text;
}

/* What was written reads as the same text again. */
static inline void plan_reads_again(const char *text, size_t bytes, const char *name)
{
    char *again = NULL;
    size_t more;
    weir_plan *read = NULL;
    if (weir_plan_parse(text, bytes, name, &read) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    assert_int_equal(weir_plan_print(read, &again, &more), WEIR_OK);
    assert_string_equal(text, again);
    weir_plan_free(read);
    free(again);
}

#endif
