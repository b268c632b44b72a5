/*
 * Allocates what a check uses: the blocks of all ranks, counters for their channels and semaphores,
 * barriers, port requests, places, and the chains of the vector clocks.
 */
#include "plan/check/check.h"

#include <stdlib.h>

static void *allocate(weiri_check *check, size_t count, size_t bytes)
{
    void *made = calloc(count ? count : 1, bytes);
    if (!made)
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
    return made;
}

/* ----------------------------------------------------------------- counters */

static uint32_t add_counter(weiri_check *check, int type, int from, int to, uint32_t ordinal)
{
    weiri_check_counter *made =
        weiri_check_append(check, &check->counters, &check->ncounters, sizeof *made);
    if (!made)
        return 0;
    *made = (weiri_check_counter){.type = type,
                                  .from = from,
                                  .to = to,
                                  .ordinal = ordinal,
                                  .signaller = WEIRI_CHECK_NONE,
                                  .waiter = WEIRI_CHECK_NONE,
                                  .waiting = WEIRI_CHECK_NONE};
    return check->ncounters - 1;
}

/* Creates a counter for the signals of each of a rank's channels. */
static void add_signal_counters(weiri_check *check, int rank, int type)
{
    const weiri_plan_gpu *gpu = &check->plan->gpus[rank];
    check->out[rank][type] = allocate(check, gpu->nlinks[type], sizeof(uint32_t));
    check->in[rank][type] = allocate(check, gpu->nlinks[type], sizeof(uint32_t));
    for (uint32_t i = 0; i < gpu->nlinks[type] && check->status == WEIR_OK; i++) {
        const weiri_plan_link *link = &gpu->links[type][i];
        check->out[rank][type][i] =
            add_counter(check, type, rank, link->peer, (uint32_t)link->ordinal);
    }
}

/* Finds the counters that a rank waits on: the counters of the peer, in the order of the channels
 * between the two. If the peer lacks a channel, a counter that nobody signals replaces it. */
static void add_wait_counters(weiri_check *check, int rank, int type)
{
    const weir_plan *plan = check->plan;
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    uint32_t next[WEIRI_PLAN_RANKS_MAX] = {0}; /* in the peer's list */
    for (uint32_t i = 0; i < gpu->nlinks[type] && check->status == WEIR_OK; i++) {
        int peer = gpu->links[type][i].peer;
        const weiri_plan_gpu *theirs = &plan->gpus[peer];
        while (next[peer] < theirs->nlinks[type] && theirs->links[type][next[peer]].peer != rank)
            next[peer]++;
        if (next[peer] < theirs->nlinks[type])
            check->in[rank][type][i] = check->out[peer][type][next[peer]++];
        else
            check->in[rank][type][i] =
                add_counter(check, type, peer, rank, (uint32_t)gpu->links[type][i].ordinal);
    }
}

static void add_counters(weiri_check *check)
{
    const int nranks = check->plan->nranks;
    for (int rank = 0; rank < nranks && check->status == WEIR_OK; rank++)
        for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
            add_signal_counters(check, rank, type);
    for (int rank = 0; rank < nranks && check->status == WEIR_OK; rank++)
        for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
            add_wait_counters(check, rank, type);
    for (int rank = 0; rank < nranks && check->status == WEIR_OK; rank++) {
        const weiri_plan_gpu *gpu = &check->plan->gpus[rank];
        check->first_semaphore[rank] = check->ncounters;
        for (uint32_t i = 0; i < gpu->nsemaphores && check->status == WEIR_OK; i++) {
            uint32_t made = add_counter(check, WEIRI_PLAN_SWITCH, rank, rank, i);
            if (check->status == WEIR_OK)
                check->counters[made].initial = gpu->semaphores[i];
        }
    }
}

/* ------------------------------------------------------ what operations use */

int weiri_check_adds_credits(const weiri_plan_op *op)
{
    return weiri_plan_is_signal(op->kind) || op->kind == WEIRI_PLAN_SEM_RELEASE_OP;
}

int weiri_check_waits_for_credits(const weiri_plan_op *op)
{
    return weiri_plan_is_wait(op->kind) || op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP;
}

static void note_counters(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const int acquisitions = weiri_check_waits_for_credits(op);
    const int advances = weiri_check_adds_credits(op);
    for (uint32_t i = 0; (acquisitions || advances) && i < op->nids; i++) {
        weiri_check_counter *counter =
            &check->counters[weiri_check_counter_of(check, check->blocks[block].rank, op, i)];
        uint32_t *user = acquisitions ? &counter->waiter : &counter->signaller;
        if (*user != block)
            *user = *user == WEIRI_CHECK_NONE ? block : WEIRI_CHECK_MANY;
    }
}

static void note_barrier(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const int rank = check->blocks[block].rank;
    uint32_t i = 0;
    while (i < check->nbarriers &&
           !(check->barriers[i].rank == rank && check->barriers[i].barrier == op->barrier &&
             check->barriers[i].nblocks == op->nblocks))
        i++;
    if (i == check->nbarriers) {
        weiri_check_barrier *made =
            weiri_check_append(check, &check->barriers, &check->nbarriers, sizeof *made);
        if (!made)
            return;
        *made =
            (weiri_check_barrier){.rank = rank,
                                  .barrier = op->barrier,
                                  .nblocks = op->nblocks,
                                  .last_user = WEIRI_CHECK_NONE,
                                  .waiting = WEIRI_CHECK_NONE,
                                  .entries = allocate(check, op->nblocks, sizeof *made->entries)};
    }
    weiri_check_barrier *barrier = &check->barriers[i];
    barrier->nusers += barrier->last_user != block;
    barrier->last_user = block;
}

static void note_ports(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    weiri_check_block *at = &check->blocks[block];
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    for (uint32_t i = 0; i < op->ndsts; i++) {
        uint32_t link = gpu->ids[op->first_id + i];
        if (weiri_check_port_of(check, block, link))
            continue;
        weiri_check_port *made = weiri_check_append(check, &at->ports, &at->nports, sizeof *made);
        if (!made)
            return;
        made->link = link;
        made->chain = check->clocks.nchains;
        check->clocks.nchains += 2;
    }
}

/* Records what a block's operations use. The blocks of a rank are processed in order, so comparing
 * with the last user suffices to count the users of a barrier. */
static void note_ops(weiri_check *check, uint32_t block)
{
    const weiri_check_block *at = &check->blocks[block];
    uint32_t nops = weiri_check_gpu(check, at)->blocks[at->index].nops;
    for (uint32_t i = 0; i < nops && check->status == WEIR_OK; i++) {
        const weiri_plan_op *op = weiri_check_op(check, at, i);
        note_counters(check, block, op);
        if (op->kind == WEIRI_PLAN_BARRIER_OP)
            note_barrier(check, block, op);
        if (op->ndsts && op->channel == WEIRI_PLAN_PORT)
            note_ports(check, block, op);
    }
}

static void check_barrier_users(weiri_check *check)
{
    for (uint32_t i = 0; i < check->nbarriers; i++) {
        const weiri_check_barrier *barrier = &check->barriers[i];
        if (barrier->nusers == barrier->nblocks ||
            (barrier->nusers > barrier->nblocks && !check->is_strict))
            continue;
        const weiri_check_block *at = &check->blocks[barrier->last_user];
        uint32_t op = 0;
        while (weiri_check_op(check, at, op)->kind != WEIRI_PLAN_BARRIER_OP ||
               weiri_check_op(check, at, op)->barrier != barrier->barrier ||
               weiri_check_op(check, at, op)->nblocks != barrier->nblocks)
            op++;
        weiri_check_report_violation(
            check, WEIR_PLAN_FAULT_BARRIER, barrier->rank, barrier->last_user, op,
            "barrier %u expects %u thread blocks, but %u of the rank use it", barrier->barrier,
            barrier->nblocks, barrier->nusers);
        weiri_check_advise(check, "name all thread blocks that call it, and only these: "
                                  "rank.barrier([...]) (weir_plan_group, weir_plan_barrier)");
    }
}

/* ------------------------------------------------------------ blocks, places */

static void add_blocks(weiri_check *check)
{
    const weir_plan *plan = check->plan;
    for (int rank = 0; rank < plan->nranks; rank++) {
        check->first_block[rank] = check->nblocks;
        check->nblocks += plan->gpus[rank].nblocks;
    }
    check->first_block[plan->nranks] = check->nblocks;
    check->blocks = allocate(check, check->nblocks, sizeof *check->blocks);
    check->ready = allocate(check, check->nblocks, sizeof *check->ready);
    check->rank_chain = check->nblocks;
    check->clocks.nchains = check->nblocks + (uint32_t)plan->nranks;
    for (int rank = 0; rank < plan->nranks && check->status == WEIR_OK; rank++)
        for (uint32_t i = check->first_block[rank]; i < check->first_block[rank + 1]; i++) {
            check->blocks[i].rank = rank;
            check->blocks[i].index = i - check->first_block[rank];
            check->blocks[i].chain = i;
        }
}

static void add_places(weiri_check *check)
{
    const weir_plan *plan = check->plan;
    uint64_t count = 0;
    check->block_chunks = weiri_plan_block_chunks(plan);
    for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++)
        check->blocks_of[buffer] = weiri_plan_blocks(plan, (weir_plan_buffer)buffer);
    for (int rank = 0; rank < plan->nranks; rank++)
        for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++) {
            check->first_place[rank][buffer] = (uint32_t)count;
            uint64_t chunks = (uint64_t)check->blocks_of[buffer] * check->block_chunks;
            if (buffer == WEIR_PLAN_SCRATCH) {
                chunks = plan->gpus[rank].chunks[buffer];
                check->half[rank] = (uint32_t)chunks;
                chunks *= plan->double_scratch ? 2 : 1;
            }
            count += chunks;
            if (count > WEIRI_CHECK_PLACES_MAX) {
                weiri_check_fail(check, WEIR_ERR_UNSUPPORTED,
                                 "more than %d chunks: too large to check", WEIRI_CHECK_PLACES_MAX);
                return;
            }
        }
    check->nplaces = (uint32_t)count;
    check->places = allocate(check, count, sizeof *check->places);
}

void weiri_check_set_up(weiri_check *check)
{
    add_blocks(check);
    if (check->status == WEIR_OK)
        add_counters(check);
    for (uint32_t i = 0; i < check->nblocks && check->status == WEIR_OK; i++)
        note_ops(check, i);
    if (check->status == WEIR_OK && check->clocks.nchains > WEIRI_CHECK_CHAINS_MAX)
        weiri_check_fail(check, WEIR_ERR_UNSUPPORTED,
                         "%u thread blocks and uses of port channels: too large to check",
                         check->clocks.nchains);
    if (check->status == WEIR_OK)
        add_places(check);
    if (check->status == WEIR_OK)
        check_barrier_users(check);
}

void weiri_check_tear_down(weiri_check *check)
{
    for (uint32_t i = 0; check->blocks && i < check->nblocks; i++)
        free(check->blocks[i].ports);
    for (uint32_t i = 0; i < check->ncounters; i++) {
        free(check->counters[i].signals);
        free(check->counters[i].acquisitions);
    }
    for (int rank = 0; rank < check->plan->nranks; rank++)
        for (int type = 0; type < 2; type++) {
            free(check->out[rank][type]);
            free(check->in[rank][type]);
        }
    free(check->blocks);
    free(check->ready);
    free(check->counters);
    for (uint32_t i = 0; i < check->nbarriers; i++)
        free(check->barriers[i].entries);
    free(check->barriers);
    free(check->places);
    free(check->instances);
    free(check->lanes);
    free(check->sources);
    free(check->accesses);
    free(check->values);
}
