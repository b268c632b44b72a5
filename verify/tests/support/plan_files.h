/* Files of plans for tests: the samples, if present, and texts that are read and written again. */
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

/* The text of a file, which the caller frees; NULL if it does not exist. */
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

/* The text of a sample; skips the test if it does not exist. */
static inline char *plan_sample_text(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, PLAN_SAMPLES "%s.json", name);
    char *text = plan_file_text(file);
    if (!text) {
        print_message("%s does not exist\n", file);
        skip();
    }
    return text;
}

/* Checks that a written text is read and written again unchanged. */
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
