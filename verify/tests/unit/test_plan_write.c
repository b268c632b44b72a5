/*
 * Plans as text: a written plan is read back as the same plan, and a file of MSCCL++'s DSL is
 * written as it was read, byte for byte.
 */
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/unit_test.h"

#include <unistd.h>

static weir_plan *parse(const char *text)
{
    weir_plan *plan = NULL;
    weir_status status = weir_plan_parse(text, strlen(text), "text", &plan);
    if (status != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return plan;
}

static char *print(const weir_plan *plan)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(weir_plan_print(plan, &text, &bytes), WEIR_OK);
    assert_int_equal(bytes, strlen(text));
    return text;
}

static void same_list(const void *a, size_t a_count, const void *b, size_t b_count, size_t each)
{
    assert_int_equal(a_count, b_count);
    if (a_count)
        assert_memory_equal(a, b, a_count * each);
}
#define SAME_LIST(a, b, list, count)                                                               \
    same_list((a)->list, (a)->count, (b)->list, (b)->count, sizeof *(a)->list)

static void same_gpu(const weiri_plan_gpu *a, const weiri_plan_gpu *b)
{
    assert_memory_equal(a->chunks, b->chunks, sizeof a->chunks);
    for (int type = 0; type < 2; type++)
        SAME_LIST(a, b, links[type], nlinks[type]);
    SAME_LIST(a, b, switches, nswitches);
    SAME_LIST(a, b, remotes, nremotes);
    SAME_LIST(a, b, semaphores, nsemaphores);
    SAME_LIST(a, b, blocks, nblocks);
    SAME_LIST(a, b, ops, nops);
    SAME_LIST(a, b, refs, nrefs);
    SAME_LIST(a, b, ids, nids);
}

/* Checks that two plans are equal in every list and number. */
static void same_plan(const weir_plan *a, const weir_plan *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->collective_name, b->collective_name);
    assert_int_equal(a->uses_ll, b->uses_ll);
    assert_int_equal(a->in_place, b->in_place);
    assert_int_equal(a->reuse_resources, b->reuse_resources);
    assert_int_equal(a->double_scratch, b->double_scratch);
    assert_int_equal(a->has_packets, b->has_packets);
    assert_int_equal(a->nthreads, b->nthreads);
    assert_int_equal(a->alignment, b->alignment);
    assert_int_equal(a->min_bytes, b->min_bytes);
    assert_int_equal(a->max_bytes, b->max_bytes);
    assert_int_equal(a->nranks, b->nranks);
    for (int rank = 0; rank < a->nranks; rank++)
        same_gpu(&a->gpus[rank], &b->gpus[rank]);
}

/* ------------------------------------------------------------------- samples */

TEST(files_of_the_dsl_are_written_unchanged)
{
    for (size_t i = 0; i < PLAN_SAMPLE_COUNT; i++) {
        char *before = plan_sample_text(plan_sample_names[i]);
        weir_plan *plan = parse(before);
        char *after = print(plan);
        weir_plan *again = parse(after);
        same_plan(plan, again);
        if (strcmp(before, after) != 0)
            fail_msg("%s is not written as it was read", plan_sample_names[i]);
        weir_plan_free(again);
        weir_plan_free(plan);
        free(after);
        free(before);
    }
}

/* --------------------------------------------------- elements of the format */

#define NAME "a \\\"name\\\" with \\u0001, \\\\ and \303\274"
static const char every_form[] =
    "{\"name\": \"" NAME "\", \"collective\": \"allreduce\", \"protocol\": \"LL\","
    " \"inplace\": false, \"reuse_resources\": true, \"num_threads_per_block\": 512,"
    " \"use_double_scratch_buffer\": true, \"buffer_alignment\": 32,"
    " \"min_message_size\": 1024, \"max_message_size\": 1048576, \"gpus\": ["
    "{\"id\": 0, \"input_chunks\": 2, \"output_chunks\": 2, \"scratch_chunks\": 4,"
    " \"channels\": [{\"channel_type\": \"memory\", \"connected_to\": [1, 1]},"
    "  {\"channel_type\": \"port\", \"connected_to\": [1]},"
    "  {\"channel_type\": \"switch\", \"buffer_type\": \"i\","
    "   \"rank_groups\": [{\"size\": 2, \"ranks\": [0, 1]}]}],"
    " \"remote_buffers\": [{\"rank\": 1, \"type\": \"s\","
    "  \"access_channel_types\": [\"memory\", \"port\"]}],"
    " \"semaphores\": [{\"init_value\": 3}],"
    " \"threadblocks\": [{\"id\": 4, \"channels\": ["
    "   {\"channel_type\": \"switch\", \"channel_ids\": [0]},"
    "   {\"channel_type\": \"port\", \"channel_ids\": [0]},"
    "   {\"channel_type\": \"memory\", \"channel_ids\": [1, 0]}],"
    "  \"remote_buffer_refs\": [{\"access_channel_type\": \"port\", \"remote_buffer_ids\": [0]}],"
    "  \"ops\": [{\"name\": \"signal\", \"channel_ids\": [1, 0], \"channel_type\": \"memory\"},"
    "   {\"name\": \"sem_acquire\", \"semaphore_ids\": [0]},"
    "   {\"name\": \"barrier\", \"barrier_id\": 2, \"num_threadblocks\": 1},"
    "   {\"name\": \"pwsf\", \"src_buff\": [{\"type\": \"i\", \"index\": 0, \"size\": 1}],"
    "    \"dst_buff\": [{\"buffer_id\": 0, \"index\": 3, \"size\": 1}],"
    "    \"channel_ids\": [0], \"channel_type\": \"port\"},"
    "   {\"name\": \"pipeline\", \"iter_context\": {\"unit_size\": 1024, \"num_chunks\": 2},"
    "    \"ops\": [{\"name\": \"copy\", \"src_buff\": [{\"type\": \"i\", \"index\": 0,"
    "     \"size\": 2}], \"dst_buff\": [{\"type\": \"o\", \"index\": 0, \"size\": 2}],"
    "     \"tbg_info\": {\"tb_id\": 1, \"tbg_size\": 3}}, {\"name\": \"nop\"}]},"
    "   {\"name\": \"glre\", \"src_buff\": [{\"switch_channel_id\": 0, \"index\": 1,"
    "     \"size\": 1}], \"dst_buff\": [{\"type\": \"o\", \"index\": 1, \"size\": 1}],"
    "     \"channel_type\": \"switch\", \"reduce_op\": \"max\"}]}]},"
    "{\"id\": 1, \"input_chunks\": 2, \"output_chunks\": 2, \"scratch_chunks\": 4,"
    " \"threadblocks\": [], \"channels\": [], \"remote_buffers\": [], \"semaphores\": []}]}";

TEST(every_element_of_the_format_survives_the_round_trip)
{
    weir_plan *plan = parse(every_form);
    char *text = print(plan);
    weir_plan *again = parse(text);
    same_plan(plan, again);
    assert_non_null(strstr(text, "\"name\": \"" NAME "\""));
    assert_non_null(strstr(text, "\"max_message_size\": 1048576\n}\n"));
    assert_non_null(strstr(text, "\"tb_id\": 1"));
    weir_plan_free(again);
    weir_plan_free(plan);
    free(text);
}

/* The DSL writes the reduction of a switch channel in a form that differs from all others. */
TEST(the_dsl_form_of_a_group_reduction_is_read)
{
    static const char dsl[] =
        "{\"name\": \"glre\", \"buffer_type\": \"i\", \"buffer_offset\": 1, \"size\": 1,"
        " \"dst_chunk\": {\"rank\": 0, \"type\": \"o\", \"index\": 1, \"size\": 1},"
        " \"channel_ids\": [%d], \"channel_type\": \"switch\", \"reduce_op\": \"max\"}]}]},";
    const char *form = strstr(every_form, "{\"name\": \"glre\"");
    const char *rest = strstr(form, "{\"id\": 1");
    char text[4096], changed[512];
    snprintf(changed, sizeof changed, dsl, 0);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(form - every_form), every_form, changed, rest);
    weir_plan *plan = parse(every_form), *other = parse(text);
    char *expected = print(plan), *made = print(other);
    assert_string_equal(made, expected);
    free(expected);
    free(made);
    weir_plan_free(plan);
    weir_plan_free(other);
    snprintf(changed, sizeof changed, dsl, 1);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(form - every_form), every_form, changed, rest);
    assert_int_equal(weir_plan_parse(text, strlen(text), "text", &plan), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "channel_ids[0] is 1"));
}

TEST(files_contain_the_printed_text)
{
    char file[64];
    snprintf(file, sizeof file, "/tmp/weir_plan_write.%d.json", (int)getpid());
    weir_plan *plan = parse(every_form), *again = NULL;
    char *text = print(plan);
    assert_int_equal(weir_plan_write(plan, file), WEIR_OK);
    char *written = plan_file_text(file);
    assert_non_null(written);
    assert_string_equal(written, text);
    assert_int_equal(weir_plan_read(file, &again), WEIR_OK);
    same_plan(plan, again);
    unlink(file);
    assert_int_equal(weir_plan_write(plan, "/no/such/folder/x.json"), WEIR_ERR_SYSTEM);
    assert_non_null(strstr(weir_last_error(), "/no/such/folder/x.json"));
    assert_int_equal(weir_plan_write(plan, "/dev/full"), WEIR_ERR_SYSTEM);
    weir_plan_free(again);
    weir_plan_free(plan);
    free(written);
    free(text);
}

int main(void)
{
    return run_all_tests("plan_write");
}
