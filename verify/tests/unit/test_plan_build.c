/* The plan builder: programs that also exist in MSCCL++'s DSL produce the DSL's files byte for
 * byte. */
#include "verify/tests/support/plan_builders.h"
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/unit_test.h"

/* ------------------------------------------------------ programs of the DSL */

enum { RANKS = 8 };

static int index_among_peers(int rank, int other)
{
    return other < rank ? other : other - 1;
}

static weir_plan *make_allreduce(const char *name)
{
    weir_plan_spec spec = {.name = name,
                           .collective = WEIR_COLL_ALLREDUCE,
                           .nranks = RANKS,
                           .chunk_factor = 8,
                           .in_place = 1,
                           .flags = WEIR_PLAN_KEEP_FENCES};
    weir_plan_builder *b = create(spec);
    weir_plan_chan to[RANKS][8][RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        for (int tb = 0; tb < 8; tb++)
            FOR_PEERS(peer, rank, RANKS)
    to[rank][tb][peer] = weir_plan_memory_channel(b, rank, peer);
    for (int rank = 0; rank < RANKS; rank++)
        for (int tb = 0; tb < 8; tb++) {
            int at = rank * 8 + tb;
            weir_plan_chunks own = weir_plan_slice(weir_plan_input(b, rank), at, 1);
            FOR_PEERS(peer, rank, RANKS)
            weir_plan_relaxed_signal(to[rank][tb][peer], tb, WEIR_PLAN_BOTH);
            FOR_PEERS(peer, rank, RANKS)
            weir_plan_relaxed_wait(to[rank][tb][peer], tb, WEIR_PLAN_AFTER);
            for (int peer = 0; peer < RANKS; peer++) {
                weir_plan_chunks theirs = weir_plan_slice(weir_plan_input(b, peer), at, 1);
                if (peer != rank)
                    weir_plan_read_reduce(to[rank][tb][peer], own, own, &theirs, 1, tb);
            }
            FOR_PEERS(peer, rank, RANKS)
            weir_plan_put(to[rank][tb][peer], weir_plan_slice(weir_plan_input(b, peer), at, 1), own,
                          tb);
            FOR_PEERS(peer, rank, RANKS)
            weir_plan_signal(to[rank][tb][peer], tb, WEIR_PLAN_BEFORE);
            FOR_PEERS(peer, rank, RANKS)
            weir_plan_wait(to[rank][tb][peer], tb, WEIR_PLAN_BOTH);
        }
    return build(b);
}

static weir_plan *make_allreduce_packets(const char *name)
{
    weir_plan_spec spec = {.name = name,
                           .collective = WEIR_COLL_ALLREDUCE,
                           .nranks = RANKS,
                           .chunk_factor = RANKS,
                           .in_place = 1,
                           .double_scratch = 1,
                           .flags = WEIR_PLAN_KEEP_FENCES | WEIR_PLAN_NO_FENCES};
    weir_plan_builder *b = create(spec);
    weir_plan_chan to[RANKS][RANKS];
    weir_plan_chunks scratch[RANKS];
    int half = (RANKS - 1) * RANKS;
    for (int rank = 0; rank < RANKS; rank++) {
        scratch[rank] = weir_plan_scratch(b, rank, 2 * half);
        FOR_PEERS(peer, rank, RANKS)
        to[rank][peer] = weir_plan_memory_channel(b, rank, peer);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        weir_plan_chunks in = weir_plan_input(b, rank);
        FOR_PEERS(peer, rank, RANKS)
        weir_plan_put_packets(
            to[rank][peer],
            weir_plan_slice(scratch[peer], index_among_peers(peer, rank) * RANKS, RANKS),
            weir_plan_slice(in, peer * RANKS, RANKS), index_among_peers(rank, peer));
        for (int i = 0; i < RANKS; i++) {
            weir_plan_chunks others[RANKS], own = weir_plan_slice(in, rank * RANKS + i, 1);
            for (int k = 0; k < RANKS - 1; k++)
                others[k] = weir_plan_slice(scratch[rank], k * RANKS + i, 1);
            weir_plan_reduce_packets(own, own, others, RANKS - 1, i);
            FOR_PEERS(peer, rank, RANKS)
            weir_plan_put_packets(
                to[rank][peer],
                weir_plan_slice(scratch[peer], half + index_among_peers(peer, rank) * RANKS + i, 1),
                own, i);
        }
        FOR_PEERS(peer, rank, RANKS)
        weir_plan_unpack_packets(
            weir_plan_slice(in, peer * RANKS, RANKS),
            weir_plan_slice(scratch[rank], half + index_among_peers(rank, peer) * RANKS, RANKS),
            peer);
    }
    return build(b);
}

static weir_plan *make_allreduce_pipeline(const char *name)
{
    enum { BOTH = 2 };
    weir_plan_spec spec = {.name = name,
                           .collective = WEIR_COLL_ALLREDUCE,
                           .nranks = BOTH,
                           .in_place = 1,
                           .reuse_resources = 1,
                           .flags = WEIR_PLAN_KEEP_FENCES};
    weir_plan_builder *b = create(spec);
    weir_plan_switch all = weir_plan_switch_channel(b, WEIR_PLAN_SCRATCH, NULL, BOTH);
    weir_plan_chunks scratch[BOTH];
    for (int rank = 0; rank < BOTH; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, BOTH);
    for (int rank = 0; rank < BOTH; rank++) {
        weir_plan_chan first = weir_plan_memory_channel(b, rank, 1 - rank);
        weir_plan_chan second = weir_plan_memory_channel(b, rank, 1 - rank);
        weir_plan_semaphore copied = weir_plan_semaphore_create(b, rank, 0);
        weir_plan_semaphore reduced = weir_plan_semaphore_create(b, rank, 0);
        weir_plan_chunks own = weir_plan_slice(scratch[rank], rank, 1);
        weir_plan_pipeline_begin(b, 1 << 20, 1);
        for (int i = 0; i < BOTH; i++)
            weir_plan_copy(weir_plan_slice(scratch[rank], i, 1),
                           weir_plan_slice(weir_plan_input(b, rank), i, 1), 0);
        weir_plan_signal(first, 0, WEIR_PLAN_BEFORE);
        weir_plan_wait(first, 0, WEIR_PLAN_AFTER);
        weir_plan_release(copied, 0, WEIR_PLAN_BOTH);
        weir_plan_acquire(copied, 1, WEIR_PLAN_AFTER);
        weir_plan_switch_reduce(all, rank, own, 1);
        weir_plan_switch_broadcast(all, own, rank, 1);
        weir_plan_signal(second, 1, WEIR_PLAN_BEFORE);
        weir_plan_release(reduced, 1, WEIR_PLAN_BOTH);
        weir_plan_acquire(reduced, 2, WEIR_PLAN_BOTH);
        weir_plan_wait(second, 2, WEIR_PLAN_AFTER);
        for (int i = 0; i < BOTH; i++)
            weir_plan_copy(weir_plan_slice(weir_plan_output(b, rank), i, 1),
                           weir_plan_slice(scratch[rank], i, 1), 2);
        weir_plan_pipeline_end(b);
    }
    return build(b);
}

static weir_plan *make_alltoall(const char *name)
{
    weir_plan_spec spec = {.name = name,
                           .collective = WEIR_COLL_ALLTOALL,
                           .nranks = RANKS,
                           .in_place = 1,
                           .instances = 2,
                           .flags = WEIR_PLAN_KEEP_FENCES};
    weir_plan_builder *b = create(spec);
    weir_plan_chan to[RANKS][RANKS];
    weir_plan_chunks scratch[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        scratch[rank] = weir_plan_scratch(b, rank, RANKS - 1);
        FOR_PEERS(peer, rank, RANKS)
        to[rank][peer] = weir_plan_memory_channel(b, rank, peer);
    }
    for (int rank = 0; rank < RANKS; rank++)
        for (int peer = 0; peer < RANKS; peer++) {
            if (peer == rank)
                continue;
            int tb = index_among_peers(rank, peer);
            weir_plan_chunks of_peer = weir_plan_slice(weir_plan_input(b, rank), peer, 1);
            weir_plan_relaxed_signal(to[rank][peer], tb, WEIR_PLAN_BOTH);
            weir_plan_relaxed_wait(to[rank][peer], tb, WEIR_PLAN_AFTER);
            weir_plan_put(to[rank][peer],
                          weir_plan_slice(scratch[peer], index_among_peers(peer, rank), 1), of_peer,
                          tb);
            weir_plan_signal(to[rank][peer], tb, WEIR_PLAN_BEFORE);
            weir_plan_wait(to[rank][peer], tb, WEIR_PLAN_AFTER);
            weir_plan_copy(of_peer, weir_plan_slice(scratch[rank], tb, 1), tb);
        }
    return build(b);
}

static weir_plan *make_allgather_packets(const char *name)
{
    weir_plan_spec spec = {.name = name,
                           .collective = WEIR_COLL_ALLGATHER,
                           .nranks = RANKS,
                           .in_place = 1,
                           .double_scratch = 1,
                           .flags = WEIR_PLAN_KEEP_FENCES};
    weir_plan_builder *b = create(spec);
    weir_plan_chunks scratch[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        for (int step = 1; step < RANKS; step++) {
            int peer = (rank + step) % RANKS;
            weir_plan_chunks out = weir_plan_output(b, rank);
            weir_plan_put_packets(weir_plan_memory_channel(b, rank, peer),
                                  weir_plan_slice(scratch[peer], rank, 1),
                                  weir_plan_slice(out, rank, 1), step - 1);
        }
    for (int rank = 0; rank < RANKS; rank++)
        for (int step = 1; step < RANKS; step++) {
            int peer = (rank + step) % RANKS;
            weir_plan_unpack_packets(weir_plan_slice(weir_plan_output(b, rank), peer, 1),
                                     weir_plan_slice(scratch[rank], peer, 1), RANKS + step - 2);
        }
    return build(b);
}

/* The first line in which two texts differ. */
static const char *difference(const char *a, const char *b)
{
    const char *line = b;
    while (*a && *a == *b) {
        if (*b == '\n')
            line = b + 1;
        a++;
        b++;
    }
    return *a == *b ? NULL : line;
}

TEST(programs_of_the_dsl_produce_its_files)
{
    static const struct {
        const char *name, *file;
        weir_plan *(*make)(const char *name);
    } programs[] = {
        {"single_node_allreduce", "single_node_allreduce.8", make_allreduce},
        {"single_node_allreduce_pkt", "single_node_allreduce_pkt.8", make_allreduce_packets},
        {"single_node_allreduce_pipeline", "single_node_allreduce_pipeline.8",
         make_allreduce_pipeline},
        {"single_node_alltoall_alltoall", "single_node_alltoall_alltoall.8", make_alltoall},
        {"single_node_allgather_pkt", "single_node_allgather_pkt.8", make_allgather_packets},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *made = NULL, *expected = plan_sample_text(programs[i].file);
        size_t bytes;
        weir_plan *plan = programs[i].make(programs[i].name);
        assert_int_equal(weir_plan_print(plan, &made, &bytes), WEIR_OK);
        const char *line = difference(made, expected);
        if (line)
            fail_msg("%s: differs from the DSL's file at '%.60s' (byte %d)", programs[i].name, line,
                     (int)(line - expected));
        weir_plan_free(plan);
        free(made);
        free(expected);
    }
}

int main(void)
{
    return run_all_tests("plan_build");
}
