/*
 * Compiled programs of plans: encoded addresses equal those of layout.h, byte for byte, at lengths
 * that are and are not divisible; both ends of a channel use the same number for its counter.
 */
#include "plan/compile/compile.h"
#include "verify/tests/support/unit_test.h"

/* Three chunks per block; operands across blocks, scratch with data and with packets, a loop,
 * parts. */
static const char text[] =
    "{'name': 'p', 'collective': 'alltoall', 'protocol': 'LL', 'buffer_alignment': 8, 'gpus': ["
    "{'id': 0, 'input_chunks': 6, 'output_chunks': 6, 'scratch_chunks': 8, 'channels': ["
    "  {'channel_type': 'memory', 'connected_to': [1, 1]},"
    "  {'channel_type': 'port', 'connected_to': [1]}, {'channel_type': 'switch',"
    "   'buffer_type': 'i', 'rank_groups': [{'size': 6, 'ranks': [0, 1]}]}],"
    " 'remote_buffers': [{'rank': 1, 'type': 's', 'access_channel_types': ['memory']}],"
    " 'threadblocks': [{'id': 0, 'channels': [{'channel_type': 'memory', 'channel_ids': [1]},"
    "   {'channel_type': 'switch', 'channel_ids': [0]}],"
    "  'remote_buffer_refs': [{'access_channel_type': 'memory', 'remote_buffer_ids': [0]}],"
    "  'ops': [{'name': 'copy', 'src_buff': [{'type': 'i', 'index': 0, 'size': 6}],"
    "   'dst_buff': [{'type': 's', 'index': 1, 'size': 6}]},"
    "  {'name': 'copy', 'src_buff': [{'type': 'i', 'index': 1, 'size': 3},"
    "   {'type': 's', 'index': 0, 'size': 2}], 'dst_buff': [{'type': 'o', 'index': 2, 'size': 3},"
    "   {'type': 'o', 'index': 0, 'size': 2}], 'tbg_info': {'tb_id': 1, 'tbg_size': 2}},"
    "  {'name': 'ppkt', 'channel_type': 'memory',"
    "   'src_buff': [{'type': 'i', 'index': 2, 'size': 4}],"
    "   'dst_buff': [{'buffer_id': 0, 'index': 3, 'size': 4}]},"
    "  {'name': 'glre', 'channel_type': 'switch',"
    "   'src_buff': [{'switch_channel_id': 0, 'index': 2, 'size': 2}],"
    "   'dst_buff': [{'type': 'o', 'index': 4, 'size': 2}]},"
    "  {'name': 'signal', 'channel_type': 'memory', 'channel_ids': [0]},"
    "  {'name': 'pipeline', 'iter_context': {'unit_size': 16, 'num_chunks': 3}, 'ops': ["
    "   {'name': 'copy', 'src_buff': [{'type': 'i', 'index': 3, 'size': 3}],"
    "    'dst_buff': [{'type': 'o', 'index': 0, 'size': 3}]}]}]}]},"
    "{'id': 1, 'input_chunks': 6, 'output_chunks': 6, 'scratch_chunks': 8, 'channels': ["
    "  {'channel_type': 'memory', 'connected_to': [0, 0, 0]}], 'threadblocks': []}]}";

static weir_plan *read_plan(void)
{
    weir_plan *plan = NULL;
    char json[sizeof text];
    for (size_t i = 0; i < sizeof text; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    weir_status status = weir_plan_parse(json, strlen(json), "test", &plan);
    if (status == WEIR_ERR_UNSUPPORTED)
        skip();
    if (status != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return plan;
}

/* Whether byte v of a step's line is data in all operands, by layout.h. */
static int is_data(const weiri_plan_layout *layout, const weiri_step *step,
                   const weiri_operand *operands, uint64_t v)
{
    uint64_t chunk = v / layout->chunk_bytes, rest = v % layout->chunk_bytes;
    for (uint32_t i = 0; i < step->nsrcs + step->ndsts; i++)
        if (rest >= weiri_plan_chunk_bytes(layout, (weir_plan_buffer)(operands[i].base % 3),
                                           operands[i].index + (uint32_t)chunk))
            return 0;
    return 1;
}

static void check_byte(const weiri_plan_layout *layout, const weiri_operand *operand, uint64_t v,
                       uint64_t at)
{
    uint64_t chunk = v / layout->chunk_bytes, rest = v % layout->chunk_bytes;
    uint64_t begin = weiri_plan_offset(layout, (weir_plan_buffer)(operand->base % 3),
                                       operand->index + (uint32_t)chunk);
    assert_int_equal(at, begin + (rest << operand->is_packets));
}

/* Walks a span as executors do, and counts in `seen` how often each byte is processed. */
static void walk(const weiri_program *program, const weiri_plan_layout *layout,
                 const weiri_step *step, uint64_t iteration, unsigned char *seen)
{
    const weiri_operand *operands = weiri_program_operands(program);
    const weiri_operand *own = operands + step->first_operand;
    weiri_line_part span = weiri_step_span(step, iteration);
    for (uint64_t v = span.first; v < span.end;) {
        weiri_run run = weiri_step_run(&program->geometry, step, operands, v, span.end);
        assert_true(run.line_bytes > 0 && run.line_bytes <= span.end - v);
        for (uint64_t i = 0; i < run.line_bytes; i++) {
            assert_int_equal(i < run.data_bytes, is_data(layout, step, own, v + i));
            for (uint32_t o = 0; o < step->nsrcs + step->ndsts && i < run.data_bytes; o++)
                check_byte(layout, &own[o], v + i,
                           weiri_step_at(&program->geometry, step, &own[o], v) +
                               (i << own[o].is_packets));
            seen[v + i]++;
        }
        v += run.line_bytes;
    }
}

static void check_step(const weiri_program *program, const weiri_plan_layout *layout,
                       const weiri_step *step, uint64_t iterations, uint64_t line)
{
    unsigned char *seen = calloc(line + 1, 1);
    for (uint64_t i = 0; i < iterations; i++)
        walk(program, layout, step, i, seen);
    for (uint64_t v = 0; v < line; v++)
        assert_int_equal(seen[v], v >= step->first && v < step->end);
    free(seen);
}

static int check_length(const weir_plan *plan, uint64_t bytes)
{
    weiri_plan_layout layout;
    weiri_program *program = NULL;
    assert_int_equal(weiri_plan_lay_out(plan, bytes, bytes, 1, &layout), WEIR_OK);
    assert_int_equal(weiri_program_compile(plan, 0, &layout, &program), WEIR_OK);
    static const uint64_t sizes[] = {6, 3, 2, 4, 2, 0, 0, 3};
    const weiri_step *steps = weiri_program_steps(program);
    assert_int_equal(program->nsteps, sizeof sizes / sizeof *sizes);
    assert_int_equal(steps[6].kind, WEIRI_STEP_LOOP);
    int straight = 0;
    for (uint32_t i = 0; i < program->nsteps; i++)
        if (sizes[i]) {
            check_step(program, &layout, &steps[i], i == 7 ? steps[6].turns : 1,
                       sizes[i] * layout.chunk_bytes);
            straight += (steps[i].flags & WEIRI_STEP_STRAIGHT) != 0;
        }
    assert_int_equal(steps[4].nsrcs, 2);
    free(program);
    return straight;
}

TEST(addresses_equal_those_of_the_layout)
{
    weir_plan *plan = read_plan();
    for (uint64_t bytes = 2; bytes < 300; bytes += 2)
        check_length(plan, bytes);
    /* At a divisible length, all steps but the two with data in scratch beside packets. */
    assert_int_equal(check_length(plan, 2 * 3 * 64), 4);
    assert_true(check_length(plan, 2 * 3 * 64 - 8) < 4);
    weir_plan_free(plan);
}

TEST(both_ends_of_a_channel_use_the_same_counter)
{
    weir_plan *plan = read_plan();
    weiri_plan_layout layout;
    weiri_program *programs[2];
    assert_int_equal(weiri_plan_lay_out(plan, 96, 96, 1, &layout), WEIR_OK);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(weiri_program_compile(plan, rank, &layout, &programs[rank]), WEIR_OK);
    assert_int_equal(programs[0]->nchannels, 3);
    assert_int_equal(programs[1]->nchannels, 4);
    const weiri_channel *unlisted = weiri_program_channels(programs[1]) + 3;
    assert_true(unlisted->is_port && unlisted->peer == 0 && unlisted->ordinal == 0);
    for (uint32_t i = 0; i < 2; i++) {
        const weiri_channel *local = weiri_program_channels(programs[0]) + i;
        const weiri_channel *remote = weiri_program_channels(programs[1]) + i;
        assert_int_equal(local->inbound, remote->outbound);
        assert_int_equal(local->outbound, remote->inbound);
    }
    assert_true(programs[0]->ncounters >= 3 && programs[0]->ncounters == programs[1]->ncounters);
    const weiri_step *signal = weiri_program_steps(programs[0]) + 5;
    assert_int_equal(weiri_program_ids(programs[0])[signal->first_id], 1);
    for (int rank = 0; rank < 2; rank++)
        free(programs[rank]);
    weir_plan_free(plan);
}

int main(void)
{
    return run_all_tests("plan_program");
}
