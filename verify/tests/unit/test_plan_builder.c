/*
 * The plan builder: instances and groups of thread blocks divide chunks as documented, and the
 * first wrong call of a program is reported by build with its function and rank.
 */
#include "verify/tests/support/plan_builders.h"
#include "verify/tests/support/unit_test.h"

/* ------------------------------------------------------------------- instances */

TEST(instances_divide_chunks_and_repeat_the_rest)
{
    weir_plan_builder *b =
        create((weir_plan_spec){.collective = WEIR_COLL_ALLTOALL, .instances = 3});
    int pair[] = {0, 1};
    int both = weir_plan_group(b, pair, 2);
    for (int rank = 0; rank < 2; rank++) {
        weir_plan_chan to = weir_plan_memory_channel(b, rank, 1 - rank);
        weir_plan_semaphore semaphore = weir_plan_semaphore_create(b, rank, 7);
        weir_plan_put(to, at(weir_plan_output(b, 1 - rank), rank),
                      at(weir_plan_input(b, rank), 1 - rank), 1);
        weir_plan_signal(to, 1, WEIR_PLAN_BEFORE);
        weir_plan_wait(to, 1, WEIR_PLAN_AFTER);
        weir_plan_barrier(b, rank, both);
        weir_plan_release(semaphore, 0, WEIR_PLAN_BOTH);
    }
    weir_plan *plan = build(b);
    const weiri_plan_gpu *gpu = &plan->gpus[0];
    assert_int_equal(gpu->chunks[WEIR_PLAN_INPUT], 6);
    assert_int_equal(gpu->nlinks[WEIRI_PLAN_MEMORY], 3);
    assert_int_equal(gpu->nsemaphores, 3);
    assert_int_equal(gpu->semaphores[2], 7);
    assert_int_equal(gpu->nblocks, 6);
    const weiri_plan_block *block = &gpu->blocks[5]; /* the third instance of block 1 */
    const weiri_plan_op *ops = &gpu->ops[block->first_op];
    assert_int_equal(block->id, 5);
    assert_int_equal(gpu->refs[ops[0].first_src].index, 1 * 3 + 2);
    assert_int_equal(gpu->refs[ops[0].first_dst].index, 0 * 3 + 2);
    assert_int_equal(gpu->ids[ops[2].first_id], 2);
    assert_int_equal(ops[block->nops - 1].kind, WEIRI_PLAN_BARRIER_OP);
    assert_int_equal(ops[block->nops - 1].barrier, 2);
    weir_plan_free(plan);
}

/* One block uses two chunks and another uses one of them: instances divide both in the same
 * manner. */
TEST(instances_divide_single_chunks_where_lengths_differ)
{
    for (int i = 0; i < 4; i++) {
        const int mixed = i % 2, rank = i / 2;
        two t = create_two((weir_plan_spec){.instances = 2});
        weir_plan_copy(weir_plan_slice(t.scratch[rank], 0, 2), weir_plan_slice(t.in[rank], 0, 2),
                       0);
        if (mixed)
            weir_plan_copy(at(t.out[rank], 1), at(t.scratch[rank], 1), 0);
        weir_plan *plan = build(t.b);
        const weiri_plan_gpu *gpu = &plan->gpus[rank];
        const weiri_plan_op *ops = &gpu->ops[gpu->blocks[1].first_op];
        char text[512];
        assert_string_equal(names_of(plan, rank, 1, text), mixed ? "copy copy nop copy" : "copy");
        assert_int_equal(gpu->refs[ops[0].first_src].size, mixed ? 1 : 2);
        assert_int_equal(gpu->refs[ops[0].first_src].index, mixed ? 1 : 2);
        if (mixed)
            assert_int_equal(gpu->refs[ops[3].first_src].index, 3);
        weir_plan_free(plan);
    }
}

TEST(a_plan_has_what_its_specification_says)
{
    two t = create_two((weir_plan_spec){.name = "spec",
                                        .in_place = 1,
                                        .double_scratch = 1,
                                        .reuse_resources = 1,
                                        .nthreads = 96,
                                        .alignment = 32,
                                        .min_bytes = 1024,
                                        .max_bytes = 4096});
    weir_plan_copy(at(t.out[0], 0), at(t.in[0], 0), 0);
    weir_plan *plan = build(t.b);
    uint64_t least, most;
    weir_plan_range(plan, &least, &most);
    assert_true(least == 1024 && most == 4096);
    assert_true(plan->min_bytes == 1024 && plan->max_bytes == 4096);
    assert_true(plan->nthreads == 96 && plan->alignment == 32);
    assert_true(plan->in_place && plan->double_scratch && plan->reuse_resources);
    assert_string_equal(plan->name, "spec");
    assert_int_equal(plan->nranks, 2);
    weir_plan_free(plan);
}

TEST(groups_divide_bytes)
{
    two t = create_two((weir_plan_spec){0});
    int blocks[] = {2, 0};
    weir_plan_copy(at(t.out[0], 0), at(t.in[0], 0), weir_plan_group(t.b, blocks, 2));
    weir_plan *plan = build(t.b);
    const weiri_plan_gpu *gpu = &plan->gpus[0];
    assert_int_equal(gpu->nblocks, 3);
    assert_int_equal(gpu->ops[gpu->blocks[0].first_op].part, 1);
    assert_int_equal(gpu->ops[gpu->blocks[2].first_op].part, 0);
    assert_int_equal(gpu->ops[gpu->blocks[2].first_op].nparts, 2);
    assert_int_equal(gpu->blocks[1].nops, 0);
    weir_plan_free(plan);
}

/* --------------------------------------------------------------------- errors */

enum { FIRST_AT_BUILD = 16 }; /* the first case that only build can detect */

/* Makes wrong call number `which`; returns a text that the message must contain, or NULL after the
 * last case. */
static const char *call_wrongly(const two *t, int which)
{
    weir_plan_chunks one = at(t->in[0], 0), two_chunks = weir_plan_slice(t->in[0], 0, 2);
    int blocks[] = {0, 1, 0};
    switch (which) {
    case 0:
        weir_plan_put(t->memory[0], at(t->out[1], 0), at(t->in[1], 0), 0);
        return "weir_plan_put: rank 0: the source belongs to rank 1; expected one of rank 0";
    case 1:
        weir_plan_put(t->memory[0], at(t->out[0], 0), one, 0);
        return "weir_plan_put: rank 0: the destination belongs to rank 0; expected one of rank 1";
    case 2:
        weir_plan_copy(at(t->out[0], 0), two_chunks, 0);
        return "weir_plan_copy: rank 0: 1 chunks for 2";
    case 3:
        weir_plan_slice(t->in[1], 3, 2);
        return "weir_plan_slice: rank 1: chunks 3 to 4 of a range of 4 chunks in buffer 'i'";
    case 4:
        weir_plan_copy(weir_plan_slice(t->in[0], 1, 2), two_chunks, 0);
        return "weir_plan_copy: rank 0: source and destination share chunks at different positions";
    case 5:
        weir_plan_copy(at(t->out[0], 0), one, WEIRI_PLAN_BLOCKS_MAX);
        return "weir_plan_copy: rank 0: thread block 1024; expected 0 to 1023";
    case 6:
        weir_plan_put_packets(t->memory[0], at(t->out[1], 0), one, 0);
        return "weir_plan_put_packets: rank 0: the destination holds packets in buffer 'o'";
    case 7:
        weir_plan_signal(t->memory[0], weir_plan_group(t->b, blocks, 2), WEIR_PLAN_BOTH);
        return "weir_plan_signal: rank 0: a group of thread blocks";
    case 8:
        weir_plan_group(t->b, blocks, 3);
        return "weir_plan_group: thread block 0 is named twice";
    case 9:
        weir_plan_memory_channel(t->b, 1, 1);
        return "weir_plan_memory_channel: rank 1: a channel to the rank itself";
    case 10:
        weir_plan_port_channel(t->b, 0, 2);
        return "weir_plan_port_channel: rank 2: no such rank; expected 0 to 1";
    case 11:
        weir_plan_put_signal(t->memory[0], at(t->out[1], 0), one, 0);
        return "weir_plan_put_signal: rank 0: a memory channel; expected a port channel";
    case 12:
        weir_plan_pipeline_begin(t->b, 1000, 1);
        return "weir_plan_pipeline_begin: unit_bytes 1000, num_chunks 1; expected a positive "
               "multiple of";
    case 13:
        weir_plan_pipeline_begin(t->b, 1024, 1);
        weir_plan_copy(weir_plan_slice(t->out[0], 0, 2), two_chunks, 0);
        return "weir_plan_copy: rank 0: a reference to 2 chunks in a pipeline over 1";
    case FIRST_AT_BUILD:
        weir_plan_pipeline_begin(t->b, 1024, 1);
        return "weir_plan_build: a pipeline was begun but not ended";
    case FIRST_AT_BUILD + 1:
        weir_plan_signal(t->memory[0], 0, WEIR_PLAN_BOTH);
        return "weir_plan_build: rank 0: 1 signal on memory channel 0 to rank 1, but 0 waits at "
               "the other end";
    case FIRST_AT_BUILD + 2:
        weir_plan_wait(weir_plan_memory_channel(t->b, 1, 0), 0, WEIR_PLAN_BOTH);
        return "weir_plan_build: rank 1: a wait on memory channel 1 to rank 0, but that rank has "
               "not created the other end";
    case 14:
        weir_plan_switch_reduce(weir_plan_switch_channel(t->b, WEIR_PLAN_SCRATCH, NULL, 2), 3,
                                weir_plan_slice(t->out[0], 0, 2), 0);
        return "weir_plan_switch_reduce: rank 0: chunks 3 to 4 of rank 0's buffer 's'; it has 4";
    case 15:
        weir_plan_reduce(one, one, NULL, 0, 0);
        return "weir_plan_reduce: rank 0: 0 other sources";
    default:
        return NULL;
    }
}

TEST(a_slice_of_a_slice_begins_within_it)
{
    two t = create_two((weir_plan_spec){.name = "slices"});
    weir_plan_chunks outer = weir_plan_slice(t.in[0], 1, 3);
    weir_plan_copy(at(t.out[0], 0), weir_plan_slice(outer, 2, 1), 0);
    weir_plan *plan = build(t.b);
    const weiri_plan_gpu *gpu = &plan->gpus[0];
    assert_int_equal(gpu->refs[gpu->ops[0].first_src].index, 3);
    weir_plan_free(plan);
}

TEST(the_first_wrong_call_is_reported)
{
    for (int which = 0;; which++) {
        two t = create_two((weir_plan_spec){.name = "wrong"});
        weir_plan *plan = NULL;
        const char *text = call_wrongly(&t, which);
        if (text)
            weir_plan_signal(t.port[0], -1, WEIR_PLAN_BOTH); /* wrong too, but not reported */
        weir_status status = weir_plan_build(t.b, &plan);
        if (!text) {
            assert_int_equal(status, WEIR_OK);
            weir_plan_free(plan);
            return;
        }
        assert_int_equal(status, WEIR_ERR_INVALID);
        assert_null(plan);
        if (which >= FIRST_AT_BUILD)
            continue; /* the wrong signal above is reported instead */
        if (!strstr(weir_last_error(), text))
            fail_msg("case %d: '%s' lacks '%s'", which, weir_last_error(), text);
        assert_ptr_equal(strstr(weir_last_error(), "wrong: "), weir_last_error());
    }
}

TEST(missing_operations_are_reported_by_build)
{
    for (int which = FIRST_AT_BUILD; which < FIRST_AT_BUILD + 3; which++) {
        two t = create_two((weir_plan_spec){0});
        weir_plan *plan = NULL;
        const char *text = call_wrongly(&t, which);
        assert_int_equal(weir_plan_build(t.b, &plan), WEIR_ERR_INVALID);
        if (!strstr(weir_last_error(), text))
            fail_msg("case %d: '%s' lacks '%s'", which, weir_last_error(), text);
    }
}

TEST(wrong_specifications_are_rejected)
{
    static const weir_plan_spec wrong[] = {
        {.nranks = 2},
        {.name = "a\nb", .nranks = 2},
        {.name = "x", .nranks = 0},
        {.name = "x", .nranks = 129},
        {.name = "x", .nranks = 2, .collective = WEIR_COLL_ALLTOALLV},
        {.name = "x", .nranks = 2, .instances = -1},
        {.name = "x", .nranks = 2, .chunk_factor = 1 << 20},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weir_plan_builder *builder = NULL;
        assert_int_equal(weir_plan_builder_create(&wrong[i], &builder), WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), "weir_plan_builder_create"));
        assert_null(builder);
    }
    weir_plan_spec odd = {.name = "odd", .nranks = 2, .alignment = 24};
    weir_plan_builder *builder = create(odd);
    weir_plan *plan = NULL;
    assert_int_equal(weir_plan_build(builder, &plan), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "buffer_alignment is 24"));
}

int main(void)
{
    return run_all_tests("plan_builder");
}
