/*
 * The interpreter of programs on the host: runs all thread blocks of a rank in one thread, one
 * after another. A block runs until a step cannot proceed because a signal, a packet or another
 * block has not arrived; then the next block runs. If no block has made progress in a pass over all
 * blocks, the rank waits as all host ranks do: with a deadline, watching for aborts and dead peers,
 * and with a report of which block is at which operation. If the blocks wait only for each other,
 * the launch fails at once.
 */
#include "plan/host/run_host.h"

#include "base/error.h"

#include <stdio.h>

/* The result of an attempt to perform a step. */
typedef enum outcome { STUCK, DONE, FAILED } outcome;

static const uint32_t *plan_host_ids_of(const weiri_host_launch *launch, const weiri_step *step)
{
    return weiri_program_ids(launch->program) + step->first_id;
}

static weiri_host_channel *plan_host_channel_of(const weiri_host_launch *launch,
                                                const weiri_step *step, uint32_t item)
{
    return &launch->own->channels[plan_host_ids_of(launch, step)[item]];
}

/* ------------------------------------------------------------------ signals */

static outcome plan_host_signal_step(weiri_host_launch *launch, const weiri_step *step)
{
    for (uint32_t i = 0; i < step->nids; i++) {
        weiri_host_channel *channel = plan_host_channel_of(launch, step, i);
        if (channel->port) {
            if (weir_port_signal(weir_portchan_device(channel->port)))
                return FAILED;
        } else { /* release even for relaxed signals: they announce that this launch has begun */
            weir_store_release(channel->outbound, ++channel->sent);
        }
    }
    return DONE;
}

/* Consumes a signal if one has arrived. */
static int plan_host_take_signal(weiri_host_channel *channel)
{
    if (channel->port)
        return weir_port_poll(weir_portchan_device(channel->port));
    if (weir_load_acquire(channel->inbound) <= channel->consumed)
        return 0;
    channel->consumed++;
    return 1;
}

static outcome plan_host_wait_step(weiri_host_launch *launch, const weiri_step *step,
                                   weiri_host_block *block)
{
    while (block->item < step->nids &&
           plan_host_take_signal(plan_host_channel_of(launch, step, block->item)))
        block->item++;
    return block->item == step->nids ? DONE : STUCK;
}

/* ------------------------------------------------------- blocks of the rank */

static outcome plan_host_barrier_step(weiri_host_launch *launch, const weiri_step *step,
                                      weiri_host_block *block)
{
    uint64_t *count = &launch->own->barriers[step->slot];
    if (!block->entered) {
        block->entered = 1;
        block->target = (*count / step->nblocks + 1) * step->nblocks;
        ++*count;
    }
    return *count >= block->target ? DONE : STUCK;
}

static outcome plan_host_acquire_step(weiri_host_launch *launch, const weiri_step *step,
                                      weiri_host_block *block)
{
    for (; block->item < step->nids; block->item++) {
        uint64_t *value = &launch->own->semaphores[plan_host_ids_of(launch, step)[block->item]];
        if (*value == 0)
            return STUCK;
        --*value;
    }
    return DONE;
}

static outcome plan_host_release_step(weiri_host_launch *launch, const weiri_step *step)
{
    for (uint32_t i = 0; i < step->nids; i++)
        launch->own->semaphores[plan_host_ids_of(launch, step)[i]]++;
    return DONE;
}

/* -------------------------------------------------------------------- ports */

static outcome plan_host_put_step(weiri_host_launch *launch, const weiri_step *step,
                                  const weiri_host_block *block)
{
    const weiri_program *program = launch->program;
    const weiri_operand *all = weiri_program_operands(program);
    const weiri_operand *from = all + step->first_operand, *to = from + 1;
    weir_portchan_dev *port = weir_portchan_device(plan_host_channel_of(launch, step, 0)->port);
    const weiri_line_part span = weiri_step_span(step, block->turn);
    for (uint64_t v = span.first; v < span.end;) {
        const weiri_run run = weiri_step_run(&program->geometry, step, all, v, span.end);
        const uint64_t source = weiri_host_arena_offset(launch, from->base) +
                                weiri_step_at(&program->geometry, step, from, v);
        const uint64_t target = weiri_host_arena_offset(launch, to->base) +
                                weiri_step_at(&program->geometry, step, to, v);
        if (run.data_bytes &&
            weir_port_put(port, target, source, run.data_bytes << from->is_packets))
            return FAILED;
        v += run.line_bytes;
    }
    return DONE;
}

static outcome plan_host_flush_step(weiri_host_launch *launch, const weiri_step *step,
                                    weiri_host_block *block)
{
    while (block->item < step->nids) {
        weir_portchan_dev *port =
            weir_portchan_device(plan_host_channel_of(launch, step, block->item)->port);
        if (!block->entered && weir_port_push(port, WEIR_TRIGGER_FLUSH, 0, 0, 0, &block->target))
            return FAILED;
        block->entered = 1;
        if (weir_load_acquire(port->flushed) < block->target + 1)
            return STUCK;
        block->entered = 0;
        block->item++;
    }
    return DONE;
}

/* --------------------------------------------------------------------- data */

/* Reads the posts that a step needs; DONE if the addresses of all its buffers are known. */
static outcome plan_host_find_posts(weiri_host_launch *launch, const weiri_step *step,
                                    weiri_host_block *block)
{
    const weiri_operand *operands = weiri_program_operands(launch->program) + step->first_operand;
    for (uint32_t i = 0; i < step->nsrcs + step->ndsts; i++) {
        const int owner = operands[i].base / WEIR_PLAN_BUFFERS;
        if (operands[i].is_scratch || !weiri_rank_set_has(launch->unread, (uint32_t)owner))
            continue;
        const int got = weiri_host_read_post(launch, owner);
        block->post = got == 1 ? -1 : owner;
        if (got != 1)
            return got ? FAILED : STUCK;
    }
    return DONE;
}

/* ------------------------------------------------------------------- blocks */

static outcome plan_host_try_step(weiri_host_launch *launch, const weiri_step *step,
                                  weiri_host_block *block)
{
    outcome known = DONE;
    switch ((weiri_step_kind)step->kind) {
    case WEIRI_STEP_BARRIER:
        return plan_host_barrier_step(launch, step, block);
    case WEIRI_STEP_SEM_ACQUIRE:
        return plan_host_acquire_step(launch, step, block);
    case WEIRI_STEP_SEM_RELEASE:
        return plan_host_release_step(launch, step);
    case WEIRI_STEP_SIGNAL:
        return plan_host_signal_step(launch, step);
    case WEIRI_STEP_WAIT:
        return plan_host_wait_step(launch, step, block);
    case WEIRI_STEP_FLUSH:
        return plan_host_flush_step(launch, step, block);
    case WEIRI_STEP_COPY:
    case WEIRI_STEP_REDUCE:
        if (WEIRI_UNLIKELY(launch->unread))
            known = plan_host_find_posts(launch, step, block);
        if (WEIRI_UNLIKELY(known != DONE))
            return known;
        return weiri_host_move(launch, step, block) ? DONE : STUCK;
    case WEIRI_STEP_PORT_PUT:
        return plan_host_put_step(launch, step, block);
    default:
        return DONE; /* a fence: program order within the thread is enough */
    }
}

/* Moves a block from a completed step to the next one, or to the next turn of its loop. */
static void plan_host_next_step(const weiri_step *steps, weiri_host_block *block)
{
    const weiri_step *step = &steps[block->step];
    uint32_t next = block->step + 1;
    if (step->kind == WEIRI_STEP_LOOP) {
        if (step->turns && step->nsteps) {
            block->loop = block->step;
            block->turn = 0;
        } else {
            next += step->nsteps;
        }
    } else if (block->loop != WEIRI_HOST_NO_LOOP &&
               next == block->loop + 1 + steps[block->loop].nsteps) {
        if (++block->turn < steps[block->loop].turns)
            next = block->loop + 1;
        else
            block->loop = WEIRI_HOST_NO_LOOP;
    }
    block->step = next;
    block->moved = 0;
    block->item = 0;
    block->entered = 0;
    block->post = -1;
}

/* Runs a block until it is stuck, has ended or failed. *progressed is set if it made progress. */
static outcome plan_host_run_block(weiri_host_launch *launch, uint32_t which, int *progressed)
{
    const weiri_step *steps = weiri_program_steps(launch->program);
    const weiri_program_block *in = weiri_program_blocks(launch->program) + which;
    weiri_host_block *block = &launch->own->blocks[which];
    const uint32_t end = in->first_step + in->nsteps;
    while (block->step < end) {
        const uint64_t moved = block->moved;
        const uint32_t item = block->item;
        const outcome now = plan_host_try_step(launch, &steps[block->step], block);
        if (now != DONE) {
            *progressed |= block->moved != moved || block->item != item;
            return now;
        }
        plan_host_next_step(steps, block);
        *progressed = 1;
    }
    return DONE;
}

/* ---------------------------------------------------------------- waiting */

/* What a block waits for from a peer. */
typedef struct obstacle {
    const uint64_t *word;
    const void *packet; /* a packet, instead of a word */
    uint64_t target;
    int peer;
} obstacle;

static int plan_host_find_obstacle(const weiri_host_launch *launch, const weiri_step *step,
                                   const weiri_host_block *block, obstacle *what)
{
    const weiri_channel *channels = weiri_program_channels(launch->program);
    const weiri_coll *coll = launch->host->coll;
    if (block->post >= 0) {
        what->word = &weiri_post_of(coll, block->post)->flag.value;
        what->target = coll->epoch;
        what->peer = weiri_comm_parent_rank(coll->comm, block->post);
        return 1;
    }
    if (step->kind == WEIRI_STEP_COPY || step->kind == WEIRI_STEP_REDUCE) {
        what->packet = block->missing;
        what->target = launch->flag;
        what->peer = weiri_host_sender(launch, block->missing);
        return 1;
    }
    if (step->kind != WEIRI_STEP_WAIT && step->kind != WEIRI_STEP_FLUSH)
        return 0;
    const weiri_host_channel *channel = plan_host_channel_of(launch, step, block->item);
    what->peer = channels[plan_host_ids_of(launch, step)[block->item]].peer;
    if (!channel->port) {
        what->word = channel->inbound;
        what->target = channel->consumed + 1;
        return 1;
    }
    const weir_portchan_dev *port = weir_portchan_device(channel->port);
    what->word = step->kind == WEIRI_STEP_WAIT ? port->inbound : port->flushed;
    what->target = step->kind == WEIRI_STEP_WAIT ? *port->expected + 1 : block->target + 1;
    return 1;
}

/* A block that waits for a peer; if there is none, any block that has not ended. */
static uint32_t plan_host_find_waiting_block(const weiri_host_launch *launch, obstacle *what,
                                             int *is_remote)
{
    const weiri_step *steps = weiri_program_steps(launch->program);
    const weiri_program_block *blocks = weiri_program_blocks(launch->program);
    uint32_t found = 0;
    *is_remote = 0;
    for (uint32_t i = 0; i < launch->program->nblocks; i++) {
        const weiri_host_block *block = &launch->own->blocks[i];
        if (block->step >= blocks[i].first_step + blocks[i].nsteps)
            continue;
        found = i;
        *is_remote = plan_host_find_obstacle(launch, &steps[block->step], block, what);
        if (*is_remote)
            return i;
    }
    return found;
}

/* Writes "thread block 3, op 5 (wait) of FILE"; reports of waiting ranks include its beginning. */
static void plan_host_describe_block(const weiri_host_launch *launch, uint32_t which, char *text,
                                     size_t bytes)
{
    const weiri_step *step = weiri_program_steps(launch->program) + launch->own->blocks[which].step;
    snprintf(text, bytes, "thread block %u, op %u (%s) of %.100s",
             weiri_program_blocks(launch->program)[which].id, step->op,
             weiri_plan_kind_name((weiri_plan_kind)step->plan_kind), launch->context->name);
}

static weir_status plan_host_fail_deadlock(const weiri_host_launch *launch, uint32_t which)
{
    char where[WEIRI_PLAN_WHERE_BYTES];
    const weiri_program_block *block = weiri_program_blocks(launch->program) + which;
    const weiri_step *step = weiri_program_steps(launch->program) + launch->own->blocks[which].step;
    weir_comm_abort(launch->executor->comm);
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: no thread block of the rank can proceed, because they wait for each "
                      "other; run weir-plan check to find the cause",
                      weiri_step_where(launch->context, block, step, where));
}

/* Reports a failed step: a peer's buffer could not be mapped, the proxy has ended, or waiting for
 * room in the FIFO of a port failed. */
static weir_status plan_host_fail_step(const weiri_host_launch *launch, uint32_t which)
{
    char phase[WEIRI_PLAN_WHERE_BYTES];
    weir_status status = launch->status;
    plan_host_describe_block(launch, which, phase, sizeof phase);
    if (status == WEIR_OK)
        status = weir_proxy_status(launch->host->ports.proxy);
    if (status == WEIR_OK)
        status =
            weir_load_acquire(launch->host->node->guard.abort_word)
                ? weiri_fail(WEIR_ERR_ABORTED, "the communicator was aborted")
                : weiri_fail(WEIR_ERR_TIMEOUT, "the proxy accepted no trigger before the deadline");
    weir_comm_abort(launch->executor->comm);
    return weiri_fail_context(status, "rank %d: %s", launch->program->rank, phase);
}

/* Waits a little after a pass in which no block made progress. */
static weir_status plan_host_idle(weiri_host_launch *launch, weiri_waiter *waiter)
{
    enum {
        LOOKS = 64
    }; /* the position is described only in every 64th poll, because a wait
        * records it at most that often */
    obstacle what = {NULL, NULL, 0, -1};
    int is_remote;
    char phase[WEIRI_PLAN_WHERE_BYTES] = "a plan";
    uint32_t which = plan_host_find_waiting_block(launch, &what, &is_remote);
    if (!is_remote)
        return plan_host_fail_deadlock(launch, which);
    if ((waiter->polls.polls + 1) % LOOKS == 0)
        plan_host_describe_block(launch, which, phase, sizeof phase);
    const uint64_t flag = what.packet ? weiri_host_flag_at(launch, what.packet) : 0;
    return weiri_comm_idle_for(launch->host->node, waiter, what.packet ? &flag : what.word,
                               what.target, what.peer, phase);
}

weir_status weiri_host_interpret(weiri_host_launch *launch)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    weir_comm *node = launch->host->node;
    for (;;) {
        int progressed = 0;
        uint32_t left = 0;
        for (uint32_t i = 0; i < launch->program->nblocks; i++) {
            const outcome now = plan_host_run_block(launch, i, &progressed);
            if (now == FAILED)
                return plan_host_fail_step(launch, i);
            left += now != DONE;
        }
        if (!left)
            break;
        weir_status status = WEIR_OK;
        if (progressed) {
            weiri_comm_idle_end(node, &waiter);
            waiter = (weiri_waiter){.polls = {0, 0}};
        } else {
            status = plan_host_idle(launch, &waiter);
        }
        if (WEIRI_UNLIKELY(status != WEIR_OK))
            return status;
    }
    weiri_comm_idle_end(node, &waiter);
    return WEIR_OK;
}
