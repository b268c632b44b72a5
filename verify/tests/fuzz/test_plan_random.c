/*
 * Builder and checker agree on random programs: a program that the checker accepts with all
 * requested fences and without fusion is also accepted as the builder optimises it, and divided
 * among instances. Only races and termination are checked, not results. Programs that are wrong to
 * begin with are skipped.
 */
#include "verify/tests/support/long_part.h"
#include "verify/tests/support/plan_builders.h"
#include "verify/tests/support/unit_test.h"

enum { RANKS = 3, BLOCKS = 2, SEEDS = 1000, SHORT_SEEDS = 250, PLAIN = 4, PACKETS = 4 };

typedef struct program {
    weir_plan_builder *b;
    uint64_t state; /* of the generator */
    weir_plan_chan memory[RANKS][RANKS][BLOCKS], port[RANKS][RANKS][BLOCKS];
    weir_plan_chunks scratch[RANKS];
    weir_plan_semaphore semaphore[RANKS];
    weir_plan_switch group[WEIR_PLAN_BUFFERS];
    int both; /* thread blocks */
} program;

static int draw(program *p, int below)
{
    p->state = p->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((p->state >> 33) % (uint64_t)below);
}

/* Random fences, in three of four cases with those that the operation needs. */
static weir_plan_sync sync_with(program *p, weir_plan_sync needed)
{
    unsigned any = (unsigned)draw(p, 4);
    return (weir_plan_sync)(draw(p, 4) ? any | needed : any);
}

static weir_plan_chunks plain(program *p, int rank, int size)
{
    weir_plan_chunks from = draw(p, 3) == 0   ? weir_plan_input(p->b, rank)
                            : draw(p, 2) == 0 ? weir_plan_output(p->b, rank)
                                              : weir_plan_slice(p->scratch[rank], 0, PLAIN);
    return weir_plan_slice(from, draw(p, (from.size ? (int)from.size : size) - size + 1), size);
}

static weir_plan_chunks packets(program *p, int rank, int size)
{
    return weir_plan_slice(p->scratch[rank], PLAIN + draw(p, PACKETS - size + 1), size);
}

static void add_barrier(program *p, int block)
{
    for (int rank = 0; rank < RANKS; rank++) {
        FOR_PEERS(peer, rank, RANKS)
        weir_plan_signal(p->memory[rank][peer][block], block, sync_with(p, WEIR_PLAN_BEFORE));
        FOR_PEERS(peer, rank, RANKS)
        weir_plan_wait(p->memory[rank][peer][block], block, sync_with(p, WEIR_PLAN_AFTER));
    }
}

static void put_over_ports(program *p, int rank, int block, int size)
{
    for (int i = 1 + draw(p, 2); i > 0; i--) {
        int peer = (rank + i) % RANKS;
        weir_plan_put(p->port[rank][peer][block], plain(p, peer, size), plain(p, rank, size),
                      block);
        if (draw(p, 2))
            continue;
        weir_plan_signal(p->port[rank][peer][block], block, sync_with(p, WEIR_PLAN_BEFORE));
        if (draw(p, 2))
            weir_plan_flush(p->port[rank][peer][block], block, sync_with(p, WEIR_PLAN_UNSYNCED));
        weir_plan_wait(p->port[peer][rank][block], block, sync_with(p, WEIR_PLAN_AFTER));
    }
}

static void use_packets(program *p, int rank, int peer, int block, int size)
{
    weir_plan_chunks sent = packets(p, peer, size), data = plain(p, peer, size);
    weir_plan_put_packets(p->memory[rank][peer][block], sent, plain(p, rank, size), block);
    if (draw(p, 2)) {
        weir_plan_unpack_packets(data, sent, block);
        return;
    }
    weir_plan_reduce_packets(data, data, &sent, 1, block);
    if (draw(p, 2))
        weir_plan_copy_packets(packets(p, peer, size), data, block);
    if (draw(p, 2))
        weir_plan_put_packets(p->memory[peer][rank][block], packets(p, rank, size), data, block);
}

static void reduce(program *p, int rank, int peer, int block, int size)
{
    weir_plan_chunks sum = plain(p, rank, size), theirs = plain(p, peer, size);
    int index = (int)sum.index;
    if (draw(p, 2)) {
        weir_plan_read_reduce(p->memory[rank][peer][block], sum, sum, &theirs, 1, block);
        if (draw(p, 2))
            weir_plan_put(p->memory[rank][peer][block], plain(p, peer, size), sum, block);
        return;
    }
    weir_plan_switch_reduce(p->group[sum.buffer], index, sum, block);
    if (draw(p, 2))
        weir_plan_switch_broadcast(p->group[sum.buffer], sum, index, block);
}

static void step(program *p, int block)
{
    int size = 1 + draw(p, 2), rank = draw(p, RANKS), peer = (rank + 1 + draw(p, 2)) % RANKS;
    switch (draw(p, 8)) {
    case 0:
        weir_plan_put(p->memory[rank][peer][block], plain(p, peer, size), plain(p, rank, size),
                      block);
        break;
    case 1:
        weir_plan_get(p->memory[rank][peer][block], plain(p, rank, size), plain(p, peer, size),
                      block);
        break;
    case 2:
        weir_plan_copy(packets(p, rank, 1), plain(p, rank, 1), draw(p, 3) ? block : p->both);
        break;
    case 3:
        put_over_ports(p, rank, block, size);
        break;
    case 4:
        use_packets(p, rank, peer, block, size);
        break;
    case 5:
        reduce(p, rank, peer, block, size);
        break;
    case 6:
        weir_plan_release(p->semaphore[rank], block, sync_with(p, WEIR_PLAN_BEFORE));
        weir_plan_acquire(p->semaphore[rank], 1 - block, sync_with(p, WEIR_PLAN_AFTER));
        break;
    default:
        add_barrier(p, block);
    }
}

static void add_barrier_of_blocks(program *p)
{
    for (int rank = 0; rank < RANKS; rank++)
        weir_plan_barrier(p->b, rank, p->both);
    add_barrier(p, 0);
    for (int rank = 0; rank < RANKS; rank++)
        weir_plan_barrier(p->b, rank, p->both);
}

static void begin(program *p, int seed, weir_plan_spec spec)
{
    static const int blocks[BLOCKS] = {0, 1};
    spec.nranks = RANKS;
    spec.chunk_factor = 2;
    spec.in_place = seed % 3 == 0;
    spec.double_scratch = seed % 5 == 0;
    p->b = create(spec);
    p->state = (uint64_t)seed * 7919 + 13;
    for (int rank = 0; rank < RANKS; rank++) {
        p->scratch[rank] = weir_plan_scratch(p->b, rank, PLAIN + PACKETS);
        p->semaphore[rank] = weir_plan_semaphore_create(p->b, rank, 0);
        for (int peer = 0; peer < RANKS; peer++)
            for (int block = 0; block < BLOCKS && peer != rank; block++) {
                p->memory[rank][peer][block] = weir_plan_memory_channel(p->b, rank, peer);
                p->port[rank][peer][block] = weir_plan_port_channel(p->b, rank, peer);
            }
    }
    for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
        p->group[buffer] = weir_plan_switch_channel(p->b, (weir_plan_buffer)buffer, NULL, RANKS);
    p->both = weir_plan_group(p->b, blocks, BLOCKS);
}

/* NULL if the builder rejects the program. */
static weir_plan *make(int seed, weir_plan_spec spec)
{
    program p;
    weir_plan *plan = NULL;
    begin(&p, seed, spec);
    int nblocks = 1 + draw(&p, BLOCKS), loops = draw(&p, 3) == 0;
    add_barrier_of_blocks(&p);
    for (int i = draw(&p, 3); i > 0; i--)
        step(&p, draw(&p, nblocks));
    if (loops)
        weir_plan_pipeline_begin(p.b, 64, 2);
    for (int i = 1 + draw(&p, 4); i > 0; i--)
        step(&p, draw(&p, nblocks));
    if (loops)
        weir_plan_pipeline_end(p.b);
    for (int i = draw(&p, 3); i > 0; i--)
        step(&p, draw(&p, nblocks));
    add_barrier_of_blocks(&p);
    add_barrier_of_blocks(&p);
    if (weir_plan_build(p.b, &plan) != WEIR_OK)
        return NULL;
    plan->collective = -1; /* unknown, so that only the order is checked */
    if (loops)             /* of up to 8 turns */
        plan->max_bytes = 256 * (uint64_t)plan->gpus[0].chunks[WEIR_PLAN_INPUT];
    return plan;
}

/* Whether the checker accepts a plan; adds its number of fences to *fences. */
static int is_accepted(weir_plan *plan, unsigned *fences)
{
    int accepted = plan && weir_plan_check(plan, NULL) == WEIR_OK;
    for (int rank = 0; plan && rank < RANKS; rank++)
        for (uint32_t i = 0; i < plan->gpus[rank].nops; i++)
            *fences += plan->gpus[rank].ops[i].kind == WEIRI_PLAN_NOP_OP;
    return accepted;
}

TEST(removed_fences_and_fusions_keep_programs_correct)
{
    static const weir_plan_spec variants[] = {
        {.instances = 1},
        {.flags = WEIR_PLAN_NO_FUSION},
        {.flags = WEIR_PLAN_KEEP_FENCES},
        {.instances = 2},
    };
    unsigned accepted = 0, before = 0, after = 0, ignored = 0;
    const int seeds = long_part("750 of 1000 random programs") ? SEEDS : SHORT_SEEDS;
    for (int seed = 0; seed < seeds; seed++) {
        weir_plan *whole =
            make(seed, (weir_plan_spec){.flags = WEIR_PLAN_KEEP_FENCES | WEIR_PLAN_NO_FUSION});
        int is_right = is_accepted(whole, &before);
        accepted += (unsigned)is_right;
        weir_plan_free(whole);
        for (size_t i = 0; is_right && i < sizeof variants / sizeof *variants; i++) {
            weir_plan *plan = make(seed, variants[i]);
            if (plan && !is_accepted(plan, i ? &ignored : &after))
                fail_msg("seed %d, variant %zu: %s", seed, i, weir_last_error());
            weir_plan_free(plan);
        }
    }
    print_message("# %u of %d programs; %u fences were requested, %u are left\n", accepted, seeds,
                  before, after);
    assert_true(accepted > (unsigned)seeds / 4);
    assert_true(after < before / 2);
}

int main(void)
{
    return run_all_tests("plan_random");
}
