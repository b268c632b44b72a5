/* The plan builder: which operations it fuses, and which fences it adds, keeps and removes. */
#include "verify/tests/support/plan_builders.h"
#include "verify/tests/support/unit_test.h"

/* Rank 1 waits for count signals. */
static void wait_for(const two *with, int is_port, int count)
{
    for (int i = 0; i < count; i++)
        weir_plan_wait(is_port ? with->port[1] : with->memory[1], 0, WEIR_PLAN_AFTER);
}

/* --------------------------------------------------------------------- fusion */

TEST(signals_to_several_channels_become_one)
{
    weir_plan_builder *b = create((weir_plan_spec){.nranks = 3});
    weir_plan_chan to[3][3];
    for (int rank = 0; rank < 3; rank++)
        FOR_PEERS(peer, rank, 3)
    to[rank][peer] = weir_plan_memory_channel(b, rank, peer);
    for (int rank = 0; rank < 3; rank++) {
        for (int round = 0; round < 2; round++)
            FOR_PEERS(peer, rank, 3)
        weir_plan_signal(to[rank][peer], 0, WEIR_PLAN_BOTH);
        for (int round = 0; round < 2; round++)
            FOR_PEERS(peer, rank, 3)
        weir_plan_wait(to[rank][peer], 0, WEIR_PLAN_BOTH);
    }
    weir_plan *plan = build(b);
    char text[512];
    assert_string_equal(names_of(plan, 0, 0, text), "signal signal wait wait");
    assert_int_equal(plan->gpus[0].ops[0].nids, 2);
    weir_plan_free(plan);
}

TEST(a_port_put_absorbs_its_signal_and_flush)
{
    two t = create_two((weir_plan_spec){0});
    weir_plan_copy(at(t.out[0], 0), at(t.in[0], 0), 0);
    weir_plan_put(t.port[0], at(t.out[1], 1), at(t.in[0], 1), 0);
    weir_plan_signal(t.port[0], 0, WEIR_PLAN_BEFORE);
    weir_plan_flush(t.port[0], 0, WEIR_PLAN_AFTER);
    weir_plan_copy(at(t.in[0], 1), at(t.in[0], 0), 0);
    wait_for(&t, 1, 1);
    expect(t.b, "copy nop pwsf nop copy");

    t = create_two((weir_plan_spec){0}); /* memory channels have no such operation */
    weir_plan_put(t.memory[0], at(t.out[1], 1), at(t.in[0], 1), 0);
    weir_plan_signal(t.memory[0], 0, WEIR_PLAN_BEFORE);
    wait_for(&t, 0, 1);
    expect(t.b, "put nop signal");

    t = create_two((weir_plan_spec){.flags = WEIR_PLAN_NO_FUSION});
    weir_plan_put(t.port[0], at(t.out[1], 1), at(t.in[0], 1), 0);
    weir_plan_signal(t.port[0], 0, WEIR_PLAN_BEFORE);
    weir_plan_flush(t.port[0], 0, WEIR_PLAN_UNSYNCED);
    wait_for(&t, 1, 1);
    expect(t.b, "put nop signal flush");
}

TEST(puts_to_several_ranks_over_ports_become_one)
{
    weir_plan_builder *b = create((weir_plan_spec){.nranks = 3, .chunk_factor = 2});
    for (int rank = 0; rank < 3; rank++)
        weir_plan_scratch(b, rank, 4);
    for (int peer = 1; peer < 3; peer++) {
        weir_plan_chan to = weir_plan_port_channel(b, 0, peer);
        weir_plan_chan from = weir_plan_port_channel(b, peer, 0);
        weir_plan_put_signal_flush(to, at(weir_plan_output(b, peer), 0),
                                   at(weir_plan_input(b, 0), peer), 0);
        weir_plan_wait(from, 0, WEIR_PLAN_AFTER);
    }
    weir_plan *plan = build(b);
    char text[512];
    assert_string_equal(names_of(plan, 0, 0, text), "pwsf");
    assert_int_equal(plan->gpus[0].ops[0].ndsts, 2);
    assert_int_equal(plan->gpus[0].ops[0].nids, 2);
    weir_plan_free(plan);
}

TEST(packets_over_ports_must_be_packets_at_the_source)
{
    two t = create_two((weir_plan_spec){0});
    weir_plan_copy_packets(at(t.scratch[0], 0), at(t.in[0], 0), 0);
    weir_plan_put_packets(t.port[0], at(t.scratch[1], 1), at(t.scratch[0], 0), 0);
    weir_plan_flush(t.port[0], 0, WEIR_PLAN_BEFORE);
    weir_plan_unpack_packets(at(t.out[1], 0), at(t.scratch[1], 1), 0);
    weir_plan *plan = build(t.b);
    char text[512];
    assert_string_equal(names_of(plan, 0, 0, text), "cpkt nop ppkt nop flush");
    assert_true(plan->gpus[0].refs[plan->gpus[0].ops[2].first_src].is_packets);
    weir_plan_free(plan);
    t = create_two((weir_plan_spec){0});
    weir_plan_put_packets(t.port[0], at(t.scratch[1], 1), at(t.in[0], 0), 0);
    assert_int_equal(weir_plan_build(t.b, &plan), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "the source holds packets in buffer 'i'"));
}

TEST(puts_of_one_port_channel_stay_in_order)
{
    two t = create_two((weir_plan_spec){0});
    for (int i = 0; i < 2; i++) {
        weir_plan_put(t.port[0], at(t.out[1], i), at(t.in[0], i), 0);
        weir_plan_signal(t.port[0], 0, WEIR_PLAN_BEFORE);
    }
    wait_for(&t, 1, 2);
    expect(t.b, "pws nop pws");
}

TEST(reductions_absorb_sources_and_puts)
{
    two t = create_two((weir_plan_spec){0});
    for (int i = 1; i < 3; i++) {
        weir_plan_chunks other = at(t.in[0], i);
        weir_plan_reduce(at(t.in[0], 0), at(t.in[0], 0), &other, 1, 0);
    }
    weir_plan_put(t.memory[0], at(t.out[1], 0), at(t.in[0], 0), 0);
    weir_plan_put(t.memory[0], at(t.scratch[1], 0), at(t.in[0], 0), 0);
    weir_plan *plan = build(t.b);
    char text[512];
    assert_string_equal(names_of(plan, 0, 0, text), "res");
    assert_int_equal(plan->gpus[0].ops[0].nsrcs, 3);
    assert_int_equal(plan->gpus[0].ops[0].ndsts, 3);
    weir_plan_free(plan);

    t = create_two((weir_plan_spec){0}); /* different accumulator, different result */
    weir_plan_chunks other = at(t.in[0], 1);
    weir_plan_reduce(at(t.out[0], 0), at(t.in[0], 0), &other, 1, 0);
    weir_plan_reduce(at(t.out[0], 1), at(t.in[0], 0), &other, 1, 0);
    weir_plan_put(t.memory[0], at(t.out[1], 0), at(t.out[0], 0), 0);
    expect(t.b, "re re nop put");

    t = create_two((weir_plan_spec){0}); /* a port reads the result from memory */
    other = at(t.in[0], 1);
    weir_plan_reduce(at(t.out[0], 0), at(t.in[0], 0), &other, 1, 0);
    weir_plan_put(t.port[0], at(t.out[1], 0), at(t.out[0], 0), 0);
    expect(t.b, "re nop put");
}

TEST(remote_reductions_absorb_puts_to_the_same_chunks)
{
    for (int place = 0; place < 2; place++) {
        two t = create_two((weir_plan_spec){.in_place = 1});
        weir_plan_chunks theirs = weir_plan_slice(t.in[1], 0, 2);
        weir_plan_chunks own = weir_plan_slice(t.in[0], 0, 2);
        weir_plan_read_reduce(t.memory[0], own, own, &theirs, 1, 0);
        weir_plan_put(t.memory[0], weir_plan_slice(t.out[1], place, 2), own, 0);
        expect(t.b, place ? "rre nop put" : "rres");
    }
}

TEST(packet_reductions_absorb_sends)
{
    two t = create_two((weir_plan_spec){0});
    weir_plan_chunks come = at(t.scratch[0], 0);
    weir_plan_reduce_packets(at(t.out[0], 0), at(t.in[0], 0), &come, 1, 0);
    weir_plan_put_packets(t.memory[0], at(t.scratch[1], 1), at(t.out[0], 0), 0);
    expect(t.b, "respkt");
    t = create_two((weir_plan_spec){0});
    come = at(t.scratch[0], 0);
    weir_plan_reduce_packets(at(t.out[0], 0), at(t.in[0], 0), &come, 1, 0);
    weir_plan_copy_packets(at(t.scratch[0], 2), at(t.out[0], 0), 0);
    weir_plan_forward_packets(t.memory[0], at(t.scratch[1], 1), at(t.scratch[0], 2), 0);
    expect(t.b, "recspkt");
    t = create_two((weir_plan_spec){0});
    weir_plan_forward_packets(t.memory[0], at(t.scratch[1], 1), at(t.scratch[0], 2), 0);
    weir_plan_forward_packets(t.memory[0], at(t.scratch[1], 3), at(t.scratch[0], 2), 0);
    expect(t.b, "rppkt");
}

/* The program as users of the DSL write it. */
TEST(an_allreduce_over_a_switch_channel_is_built_and_accepted)
{
    enum { N = 4 };
    weir_plan_builder *b = create((weir_plan_spec){.name = "allreduce_nvls",
                                                   .nranks = N,
                                                   .in_place = 1,
                                                   .instances = N,
                                                   .min_bytes = 1 << 20});
    weir_plan_switch all = weir_plan_switch_channel(b, WEIR_PLAN_INPUT, NULL, N);
    weir_plan_chan to[N][N];
    for (int rank = 0; rank < N; rank++)
        FOR_PEERS(peer, rank, N)
    to[rank][peer] = weir_plan_memory_channel(b, rank, peer);
    for (int rank = 0; rank < N; rank++) {
        weir_plan_chunks own = at(weir_plan_input(b, rank), rank);
        FOR_PEERS(peer, rank, N)
        weir_plan_relaxed_signal(to[rank][peer], 0, WEIR_PLAN_BOTH);
        FOR_PEERS(peer, rank, N)
        weir_plan_relaxed_wait(to[rank][peer], 0, WEIR_PLAN_AFTER);
        weir_plan_switch_reduce(all, rank, own, 0);
        weir_plan_switch_broadcast(all, own, rank, 0);
        FOR_PEERS(peer, rank, N)
        weir_plan_signal(to[rank][peer], 0, WEIR_PLAN_BEFORE);
        FOR_PEERS(peer, rank, N)
        weir_plan_wait(to[rank][peer], 0, WEIR_PLAN_BOTH);
    }
    weir_plan *plan = build(b);
    char text[512];
    for (uint32_t block = 0; block < N; block++)
        assert_string_equal(names_of(plan, 1, block, text),
                            "rlxsignal rlxwait nop glres nop signal wait");
    assert_int_equal(plan->gpus[1].nswitches, N);
    if (weir_plan_check(plan, NULL) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    weir_plan_free(plan);
}

/* --------------------------------------------------------------------- fences */

TEST(fences_separate_operations_on_the_same_chunk)
{
    for (int flag = 0; flag <= WEIR_PLAN_NO_FENCES; flag += WEIR_PLAN_NO_FENCES) {
        two t = create_two((weir_plan_spec){.flags = (unsigned)flag});
        weir_plan_copy(at(t.out[0], 0), at(t.in[0], 0), 0);
        weir_plan_copy(at(t.out[0], 1), at(t.in[0], 0), 0); /* both read */
        weir_plan_copy(at(t.scratch[0], 0), at(t.out[0], 1), 0);
        weir_plan_copy(at(t.scratch[0], 1), at(t.out[0], 0), 0);
        expect(t.b, flag ? "copy copy copy copy" : "copy copy nop copy copy");
    }
}

TEST(fences_that_order_nothing_are_removed)
{
    for (int keep = 0; keep < 2; keep++) {
        two t = create_two((weir_plan_spec){.flags = keep ? WEIR_PLAN_KEEP_FENCES : 0});
        weir_plan_barrier(t.b, 0, 0);
        weir_plan_signal(t.memory[0], 0, WEIR_PLAN_BOTH);
        weir_plan_wait(t.memory[0], 0, WEIR_PLAN_BOTH);
        weir_plan_copy(at(t.out[0], 0), at(t.in[0], 0), 0);
        weir_plan_barrier(t.b, 0, 0);
        weir_plan_copy(at(t.out[0], 1), at(t.in[0], 1), 0);
        weir_plan_signal(t.memory[0], 0, WEIR_PLAN_BOTH);
        wait_for(&t, 0, 2);
        weir_plan_signal(t.memory[1], 0, WEIR_PLAN_UNSYNCED);
        expect(t.b, keep ? "nop signal nop wait nop copy nop copy nop signal nop"
                         : "signal wait nop copy copy nop signal");
    }
}

/* The arrival of packets may mean that a peer has finished, so the fence after them is kept. */
TEST(fences_after_packets_are_kept)
{
    two t = create_two((weir_plan_spec){0});
    weir_plan_unpack_packets(at(t.out[0], 0), at(t.scratch[0], 0), 0);
    weir_plan_barrier(t.b, 0, 0);
    weir_plan_put(t.memory[0], at(t.in[1], 0), at(t.in[0], 0), 0);
    expect(t.b, "upkt nop put");
}

TEST(fences_are_placed_inside_pipelines_only_if_iterations_conflict)
{
    for (int other = 0; other < 2; other++) {
        two t = create_two((weir_plan_spec){0});
        weir_plan_copy(at(t.scratch[0], 0), at(t.in[0], 0), 0);
        weir_plan_pipeline_begin(t.b, 1024, 2);
        weir_plan_copy(at(t.scratch[0], 1), at(t.scratch[0], 0), 0);
        weir_plan_copy(weir_plan_slice(t.scratch[0], 2, 2), weir_plan_slice(t.in[0], 2, 2), 0);
        if (other) /* the next iteration overwrites what this one reads */
            weir_plan_copy(at(t.out[0], 0), at(t.scratch[0], 3), 0);
        weir_plan_pipeline_end(t.b);
        weir_plan_copy(at(t.out[0], 1), at(t.scratch[0], 1), 0);
        expect(t.b,
               other ? "copy [ nop copy copy nop copy ] copy" : "copy nop [ copy copy ] nop copy");
    }
}

TEST(fences_in_pipelines_do_not_replace_those_outside)
{
    two t = create_two((weir_plan_spec){0});
    weir_plan_wait(t.memory[0], 0, WEIR_PLAN_AFTER);
    weir_plan_pipeline_begin(t.b, 1024, 1);
    weir_plan_wait(t.port[0], 0, WEIR_PLAN_AFTER);
    weir_plan_copy(at(t.scratch[0], 0), at(t.in[0], 0), 0);
    weir_plan_signal(t.port[1], 0, WEIR_PLAN_UNSYNCED);
    weir_plan_pipeline_end(t.b);
    weir_plan_get(t.memory[0], at(t.out[0], 0), at(t.in[1], 0), 0);
    weir_plan_signal(t.memory[1], 0, WEIR_PLAN_UNSYNCED);
    expect(t.b, "wait nop [ wait nop copy ] get");
}

int main(void)
{
    return run_all_tests("plan_fusion");
}
