/*
 * weiri_plan_validate accepts a correct plan, and rejects each single change that makes a number,
 * a channel or a chunk invalid, with a message that states it. The identity of a plan differs
 * after any change of its content.
 */
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

/* Sets a member to a wrong value, demands this message, and sets it back. */
#define REJECTED(plan, member, value, words)                                                       \
    do {                                                                                           \
        const uint64_t before = (uint64_t)(member);                                                \
        (member) = (value);                                                                        \
        expect_rejected(plan, words, __LINE__);                                                    \
        (member) = (__typeof__(member))before;                                                     \
        assert_int_equal(weiri_plan_validate(plan), WEIR_OK);                                      \
    } while (0)
#define ACCEPTED(plan, member, value)                                                              \
    do {                                                                                           \
        const uint64_t before = (uint64_t)(member);                                                \
        (member) = (value);                                                                        \
        if (weiri_plan_validate(plan) != WEIR_OK)                                                  \
            fail_msg("line %d: %s", __LINE__, weir_last_error());                                  \
        (member) = (__typeof__(member))before;                                                     \
    } while (0)

static void expect_rejected(weir_plan *plan, const char *words, int line)
{
    if (weiri_plan_validate(plan) != WEIR_ERR_INVALID)
        fail_msg("line %d: accepted", line);
    if (!strstr(weir_last_error(), words))
        fail_msg("line %d: '%s' lacks '%s'", line, weir_last_error(), words);
}

/* The rank's first operation of a kind. */
static weiri_plan_op *op_of(weir_plan *plan, int rank, weiri_plan_kind kind)
{
    weiri_plan_gpu *gpu = &plan->gpus[rank];
    for (uint32_t i = 0; i < gpu->nops; i++)
        if (gpu->ops[i].kind == kind)
            return &gpu->ops[i];
    fail_msg("rank %d has no %s", rank, weiri_plan_kind_name(kind));
    return NULL;
}

TEST(numbers_of_a_plan)
{
    weir_plan *plan = plan_of(HANDSHAKE);
    REJECTED(plan, plan->nthreads, 0, "num_threads_per_block is 0");
    REJECTED(plan, plan->nthreads, WEIRI_PLAN_THREADS_MAX + 1, "num_threads_per_block");
    ACCEPTED(plan, plan->nthreads, WEIRI_PLAN_THREADS_MAX);
    ACCEPTED(plan, plan->nthreads, 1);
    REJECTED(plan, plan->alignment, 4, "buffer_alignment is 4");
    REJECTED(plan, plan->alignment, 24, "buffer_alignment is 24");
    REJECTED(plan, plan->alignment, 2 * WEIRI_PLAN_ALIGNMENT_MAX, "buffer_alignment");
    ACCEPTED(plan, plan->alignment, 8);
    ACCEPTED(plan, plan->alignment, WEIRI_PLAN_ALIGNMENT_MAX);
    plan->min_bytes = plan->max_bytes;
    assert_int_equal(weiri_plan_validate(plan), WEIR_OK);
    plan->max_bytes--;
    expect_rejected(plan, "min_message_size is more than max_message_size", __LINE__);
    weir_plan_free(plan);
}

TEST(chunks_of_a_rank)
{
    weir_plan *plan = plan_of(HANDSHAKE);
    REJECTED(plan, plan->gpus[1].chunks[WEIR_PLAN_OUTPUT], 3, "output_chunks is 3; expected");
    REJECTED(plan, plan->gpus[1].chunks[WEIR_PLAN_SCRATCH], WEIRI_PLAN_CHUNKS_MAX + 1,
             "scratch_chunks");
    ACCEPTED(plan, plan->gpus[1].chunks[WEIR_PLAN_SCRATCH], WEIRI_PLAN_CHUNKS_MAX);
    weir_plan_free(plan);
}

TEST(peers_of_channels_and_buffers)
{
    weir_plan *plan = plan_of(PORTS);
    weiri_plan_gpu *gpu = &plan->gpus[1];
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        REJECTED(plan, gpu->links[type][0].peer, 1, "rank 1: connected_to names the rank itself");
        REJECTED(plan, gpu->links[type][0].peer, plan->nranks, "the plan has ranks 0 to");
        REJECTED(plan, gpu->links[type][0].peer, -1, "connected_to names rank -1");
    }
    REJECTED(plan, gpu->remotes[0].rank, 1, "remote_buffers names the rank itself");
    REJECTED(plan, gpu->remotes[0].rank, plan->nranks, "remote_buffers names rank");
    weir_plan_free(plan);
}

TEST(ranks_of_a_switch_channel)
{
    weir_plan *plan = plan_of(SWITCHES);
    weiri_plan_gpu *gpu = &plan->gpus[0];
    uint32_t *ranks = &gpu->ids[gpu->switches[0].first_rank];
    assert_int_equal(gpu->switches[0].nranks, 2);
    REJECTED(plan, ranks[1], 0, "a switch channel names rank 0 twice");
    REJECTED(plan, ranks[0], 2, "a switch channel names rank 2; the plan has ranks 0 to 1");
    const int own_first = ranks[0] == 0;
    gpu->switches[0].first_rank += (uint32_t)own_first;
    gpu->switches[0].nranks = 1; /* the other rank alone */
    expect_rejected(plan, "do not include the rank itself", __LINE__);
    weir_plan_free(plan);
}

TEST(parts_and_channels_of_an_operation)
{
    weir_plan *plan = plan_of(GROUPS);
    weiri_plan_gpu *gpu = &plan->gpus[0];
    weiri_plan_op *signal = op_of(plan, 0, WEIRI_PLAN_SIGNAL_OP);
    REJECTED(plan, signal->nparts, 0, "part 0 of 0");
    REJECTED(plan, signal->part, 1, "part 1 of 1");
    REJECTED(plan, signal->nparts, WEIRI_PLAN_BLOCKS_MAX + 1, "(tbg_info)");
    ACCEPTED(plan, signal->nparts, WEIRI_PLAN_BLOCKS_MAX);
    REJECTED(plan, signal->channel, WEIRI_PLAN_NO_CHANNEL, "channel_type is missing");
    REJECTED(plan, signal->channel, WEIRI_PLAN_SWITCH, "does not support channel_type switch");
    REJECTED(plan, signal->nids, 0, "channel_ids is missing or empty");
    REJECTED(plan, gpu->ids[signal->first_id], gpu->nlinks[WEIRI_PLAN_MEMORY],
             "channel_ids[0] is beyond the rank's");
    weir_plan_free(plan);
}

TEST(channels_of_puts)
{
    weir_plan *plan = plan_of(PORTS);
    weiri_plan_op *put = op_of(plan, 0, WEIRI_PLAN_PUT_OP);
    REJECTED(plan, put->nids, 0, "0 channel_ids for");
    weir_plan_free(plan);
    plan = plan_of("custom 3 i2 o2 s2\n0.0; pws i0+1 > 1:s0+1 @p1\n1.0; wait @p0\n2.0; nop");
    weiri_plan_gpu *gpu = &plan->gpus[0];
    put = op_of(plan, 0, WEIRI_PLAN_PUT_SIGNAL_OP);
    for (uint32_t i = 0; i < gpu->nlinks[put->channel]; i++)
        if (gpu->links[put->channel][i].peer == 2)
            REJECTED(plan, gpu->ids[put->first_id], i,
                     "channel_ids[0] leads to rank 2, dst_buff[0] is rank 1's");
    weir_plan_free(plan);
}

TEST(barriers_and_semaphores)
{
    weir_plan *plan = plan_of(BARRIERS);
    weiri_plan_op *barrier = op_of(plan, 0, WEIRI_PLAN_BARRIER_OP);
    REJECTED(plan, barrier->nblocks, 0, "of 0 thread blocks");
    REJECTED(plan, barrier->nblocks, plan->gpus[0].nblocks + 1, "thread blocks; expected an id");
    REJECTED(plan, barrier->barrier, WEIRI_PLAN_BLOCKS_MAX, "expected an id below");
    ACCEPTED(plan, barrier->barrier, WEIRI_PLAN_BLOCKS_MAX - 1);
    weir_plan_free(plan);
    plan = plan_of(GATHER);
    weiri_plan_op *acquire = op_of(plan, 0, WEIRI_PLAN_SEM_ACQUIRE_OP);
    weiri_plan_op *release = op_of(plan, 0, WEIRI_PLAN_SEM_RELEASE_OP);
    REJECTED(plan, acquire->nids, 0, "semaphore_ids is missing or empty");
    REJECTED(plan, release->nids, 0, "semaphore_ids is missing or empty");
    REJECTED(plan, plan->gpus[0].ids[acquire->first_id], plan->gpus[0].nsemaphores,
             "semaphore_ids[0] is beyond the rank's 1 semaphores");
    weir_plan_free(plan);
}

TEST(pipelines)
{
    weir_plan *plan = plan_of(PIPELINE);
    weiri_plan_op *pipeline = op_of(plan, 0, WEIRI_PLAN_PIPELINE_OP);
    REJECTED(plan, pipeline->in_body, 1, "cannot be nested");
    REJECTED(plan, pipeline->unit_bytes, 0, "unit_size is 0");
    REJECTED(plan, pipeline->unit_bytes, plan->alignment + 1, "a multiple of buffer_alignment");
    REJECTED(plan, pipeline->unit_bytes, (UINT64_C(1) << 40) + plan->alignment, "unit_size is");
    ACCEPTED(plan, pipeline->unit_bytes, UINT64_C(1) << 40);
    REJECTED(plan, pipeline->num_chunks, 0, "num_chunks is 0");
    REJECTED(plan, pipeline->num_chunks, WEIRI_PLAN_CHUNKS_MAX + 1, "num_chunks is");
    REJECTED(plan, pipeline->nops, 0, "has no operations");
    REJECTED(plan, pipeline->nops, 1000, "has no operations");
    weir_plan_free(plan);
}

TEST(references_of_an_operation)
{
    weir_plan *plan = plan_of(HANDSHAKE);
    weiri_plan_gpu *gpu = &plan->gpus[0];
    weiri_plan_op *reduce = op_of(plan, 0, WEIRI_PLAN_READ_REDUCE_OP);
    weiri_plan_op *copy = op_of(plan, 0, WEIRI_PLAN_COPY_OP);
    weiri_plan_op *signal = op_of(plan, 0, WEIRI_PLAN_SIGNAL_OP);
    weiri_plan_ref *from = &gpu->refs[reduce->first_src], *to = &gpu->refs[reduce->first_dst];
    REJECTED(plan, signal->nsrcs, 1, "moves no data");
    REJECTED(plan, copy->nsrcs, 0, "src_buff or dst_buff is missing");
    REJECTED(plan, reduce->ndsts, 0, "src_buff or dst_buff is missing");
    REJECTED(plan, copy->nsrcs, 2, "2 sources for 1 destinations");
    REJECTED(plan, reduce->nsrcs, WEIRI_PLAN_REFS_MAX + 1, "expected at most");
    REJECTED(plan, reduce->ndsts, 2, "has more than 1 references");
    REJECTED(plan, from[0].place, WEIRI_PLAN_REMOTE, "is a remote reference; expected a local");
    REJECTED(plan, from[0].size, 0, "buffer 'i'");
    REJECTED(plan, from[0].index, gpu->chunks[WEIR_PLAN_INPUT], "buffer 'i'; it has");
    REJECTED(plan, from[0].size, gpu->chunks[WEIR_PLAN_INPUT] + 1, "buffer 'i'; it has");
    REJECTED(plan, from[1].index, plan->gpus[1].chunks[WEIR_PLAN_SCRATCH], "buffer 's'; it has");
    from[1].index = to->index = 0;
    REJECTED(plan, from[1].size, 2, "src_buff[1] differs in size");
    REJECTED(plan, to->size, 2, "dst_buff[0] differs in size");
    weir_plan_free(plan);
    plan = plan_of(UNPACKED);
    weiri_plan_op *unpack = op_of(plan, 0, WEIRI_PLAN_UNPACK_OP);
    REJECTED(plan, plan->gpus[0].refs[unpack->first_src].buffer, WEIR_PLAN_INPUT,
             "holds packets in buffer 'i'");
    weir_plan_free(plan);
}

/* Changes a member, and demands another identity. */
#define DIFFERS(plan, member)                                                                      \
    do {                                                                                           \
        const uint64_t before = weiri_plan_identity(plan);                                         \
        (member)++;                                                                                \
        if (weiri_plan_identity(plan) == before)                                                   \
            fail_msg("line %d: the same identity", __LINE__);                                      \
        (member)--;                                                                                \
        assert_true(weiri_plan_identity(plan) == before);                                          \
    } while (0)

TEST(places_that_a_plan_does_not_have_are_not_named)
{
    weir_plan *plan = plan_of(HANDSHAKE);
    char text[WEIRI_PLAN_WHERE_BYTES];
    assert_string_equal(weiri_plan_where(plan, -1, 0, 0, text), "text");
    assert_string_equal(weiri_plan_where(plan, 2, 0, 0, text), "text");
    assert_string_equal(weiri_plan_where(plan, 1, 1, 0, text), "text: rank 1");
    assert_string_equal(weiri_plan_where(plan, 1, 0, UINT32_MAX, text),
                        "text: rank 1, thread block 0");
    assert_string_equal(weiri_plan_where(plan, 1, 0, 0, text),
                        "text: rank 1, thread block 0, op 0 (copy)");
    weir_plan_free(plan);
}

TEST(identities_differ_after_any_change)
{
    static const char *const texts[] = {PORTS, SWITCHES, GATHER, PIPELINE, GROUPS};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        weir_plan *plan = plan_of(texts[t]);
        weiri_plan_gpu *gpu = &plan->gpus[plan->nranks - 1];
        DIFFERS(plan, plan->name[0]);
        DIFFERS(plan, plan->collective_name[0]);
        plan->in_place ^= 1, plan->double_scratch ^= 1;
        DIFFERS(plan, plan->nthreads);
        DIFFERS(plan, plan->alignment);
        DIFFERS(plan, plan->min_bytes);
        DIFFERS(plan, plan->max_bytes);
        for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
            DIFFERS(plan, gpu->chunks[buffer]);
        for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
            for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
                DIFFERS(plan, gpu->links[type][i].peer);
        for (uint32_t i = 0; i < gpu->nswitches; i++)
            DIFFERS(plan, gpu->switches[i].buffer);
        for (uint32_t i = 0; i < gpu->nsemaphores; i++)
            DIFFERS(plan, gpu->semaphores[i]);
        for (uint32_t i = 0; i < gpu->nids; i++)
            DIFFERS(plan, gpu->ids[i]);
        for (uint32_t i = 0; i < gpu->nblocks; i++) {
            DIFFERS(plan, gpu->blocks[i].id);
            DIFFERS(plan, gpu->blocks[i].first_op);
            DIFFERS(plan, gpu->blocks[i].nops);
        }
        for (uint32_t i = 0; i < gpu->nops; i++) {
            DIFFERS(plan, gpu->ops[i].part);
            DIFFERS(plan, gpu->ops[i].nparts);
            DIFFERS(plan, gpu->ops[i].unit_bytes);
            DIFFERS(plan, gpu->ops[i].num_chunks);
            DIFFERS(plan, gpu->ops[i].nblocks);
        }
        for (uint32_t i = 0; i < gpu->nrefs; i++) {
            DIFFERS(plan, gpu->refs[i].index);
            DIFFERS(plan, gpu->refs[i].size);
            DIFFERS(plan, gpu->refs[i].rank);
        }
        weir_plan_free(plan);
    }
}

int main(void)
{
    return run_all_tests("plan_validate");
}
