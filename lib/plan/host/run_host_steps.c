/*
 * The host's interpreter of programs: all thread blocks of a rank in one thread. A block runs
 * until a step cannot go on (a signal, a packet, another block is missing); then the next
 * one has its turn. When none got on in a round, the rank waits as all host ranks do: with a
 * deadline, with an eye on aborts and on peers that died, and with a report that says which
 * block stands at which operation. Blocks that only wait for each other wait in vain, which
 * is said at once.
 */
#include "plan/host/run_host.h"

#include "base/error.h"

#include <stdio.h>

/* How a step ends its look. */
typedef enum outcome { STUCK, DONE, FAILED } outcome;

static const uint32_t *ids_of(const weiri_host_launch *launch, const weiri_step *step)
{
    return weiri_program_ids(launch->program) + step->first_id;
}

static weiri_host_channel *channel_of(const weiri_host_launch *launch, const weiri_step *step,
                                      uint32_t item)
{
    return &launch->own->channels[ids_of(launch, step)[item]];
}

/* ------------------------------------------------------------------ signals */

static outcome signal_step(weiri_host_launch *launch, const weiri_step *step)
{
    for (uint32_t i = 0; i < step->nids; i++) {
        weiri_host_channel *channel = channel_of(launch, step, i);
        if (channel->port) {
            if (weir_port_signal(weir_portchan_device(channel->port)))
                return FAILED;
        } else { /* relaxed ones, too: they say that this rank's launch has begun */
            weir_store_release(channel->outbound, ++channel->sent);
        }
    }
    return DONE;
}

/* Consumes a signal, if there is one. */
static int take_signal(weiri_host_channel *channel)
{
    if (channel->port)
        return weir_port_poll(weir_portchan_device(channel->port));
    if (weir_load_acquire(channel->inbound) <= channel->consumed)
        return 0;
    channel->consumed++;
    return 1;
}

static outcome wait_step(weiri_host_launch *launch, const weiri_step *step,
                         weiri_host_block *block)
{
    while (block->item < step->nids && take_signal(channel_of(launch, step, block->item)))
        block->item++;
    return block->item == step->nids ? DONE : STUCK;
}

/* ------------------------------------------------------- blocks of the rank */

static outcome barrier_step(weiri_host_launch *launch, const weiri_step *step,
                            weiri_host_block *block)
{
    uint64_t *met = &launch->own->meetings[step->slot];
    if (!block->entered) {
        block->entered = 1;
        block->target = (*met / step->nblocks + 1) * step->nblocks;
        ++*met;
    }
    return *met >= block->target ? DONE : STUCK;
}

static outcome acquire_step(weiri_host_launch *launch, const weiri_step *step,
                            weiri_host_block *block)
{
    for (; block->item < step->nids; block->item++) {
        uint64_t *value = &launch->own->semaphores[ids_of(launch, step)[block->item]];
        if (*value == 0)
            return STUCK;
        --*value;
    }
    return DONE;
}

static outcome release_step(weiri_host_launch *launch, const weiri_step *step)
{
    for (uint32_t i = 0; i < step->nids; i++)
        launch->own->semaphores[ids_of(launch, step)[i]]++;
    return DONE;
}

/* -------------------------------------------------------------------- ports */

static outcome put_step(weiri_host_launch *launch, const weiri_step *step,
                        const weiri_host_block *block)
{
    const weiri_program *program = launch->program;
    const weiri_operand *all = weiri_program_operands(program);
    const weiri_operand *from = all + step->first_operand, *to = from + 1;
    weir_portchan_dev *port = weir_portchan_device(channel_of(launch, step, 0)->port);
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

static outcome flush_step(weiri_host_launch *launch, const weiri_step *step,
                          weiri_host_block *block)
{
    while (block->item < step->nids) {
        weir_portchan_dev *port =
            weir_portchan_device(channel_of(launch, step, block->item)->port);
        if (!block->entered &&
            weir_port_push(port, WEIR_TRIGGER_FLUSH, 0, 0, 0, &block->target))
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

/* Whether the buffers of a step are known: posts are read as far as it needs them. */
static outcome find_posts(weiri_host_launch *launch, const weiri_step *step,
                          weiri_host_block *block)
{
    const weiri_operand *operands = weiri_program_operands(launch->program) + step->first_operand;
    for (uint32_t i = 0; i < step->nsrcs + step->ndsts; i++) {
        const int owner = operands[i].base / WEIR_PLAN_BUFFERS;
        if (operands[i].is_scratch || !(launch->unread >> owner & 1))
            continue;
        const int got = weiri_host_read_post(launch, owner);
        block->post = got == 1 ? -1 : owner;
        if (got != 1)
            return got ? FAILED : STUCK;
    }
    return DONE;
}

static outcome move_step(weiri_host_launch *launch, const weiri_step *step,
                         weiri_host_block *block)
{
    const outcome known = launch->unread ? find_posts(launch, step, block) : DONE;
    if (WEIRI_UNLIKELY(known != DONE))
        return known;
    if (step->kind == WEIRI_STEP_COPY)
        return weiri_host_copy(launch, step, block) ? DONE : STUCK;
    return weiri_host_reduce(launch, step, block) ? DONE : STUCK;
}

/* ------------------------------------------------------------------- blocks */

static outcome look(weiri_host_launch *launch, const weiri_step *step, weiri_host_block *block)
{
    switch ((weiri_step_kind)step->kind) {
    case WEIRI_STEP_BARRIER:
        return barrier_step(launch, step, block);
    case WEIRI_STEP_SEM_ACQUIRE:
        return acquire_step(launch, step, block);
    case WEIRI_STEP_SEM_RELEASE:
        return release_step(launch, step);
    case WEIRI_STEP_SIGNAL:
        return signal_step(launch, step);
    case WEIRI_STEP_WAIT:
        return wait_step(launch, step, block);
    case WEIRI_STEP_FLUSH:
        return flush_step(launch, step, block);
    case WEIRI_STEP_COPY:
    case WEIRI_STEP_REDUCE:
        return move_step(launch, step, block);
    case WEIRI_STEP_PORT_PUT:
        return put_step(launch, step, block);
    default:
        return DONE; /* a fence: the thread's order is enough */
    }
}

/* From a step that is done to the next one: around in a loop, or on. */
static void advance(const weiri_step *steps, weiri_host_block *block)
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

/* Runs a block as far as it comes. `got_on` is set if that is any further than before. */
static outcome run_block(weiri_host_launch *launch, uint32_t which, int *got_on)
{
    const weiri_step *steps = weiri_program_steps(launch->program);
    const weiri_program_block *in = weiri_program_blocks(launch->program) + which;
    weiri_host_block *block = &launch->own->blocks[which];
    const uint32_t end = in->first_step + in->nsteps;
    while (block->step < end) {
        const uint64_t moved = block->moved;
        const uint32_t item = block->item;
        const outcome now = look(launch, &steps[block->step], block);
        if (now != DONE) {
            *got_on |= block->moved != moved || block->item != item;
            return now;
        }
        advance(steps, block);
        *got_on = 1;
    }
    return DONE;
}

/* ---------------------------------------------------------------- waiting */

/* What a block waits for of a peer. */
typedef struct obstacle {
    const uint64_t *word;
    const void *packet; /* instead of a word */
    uint64_t target;
    int peer;
} obstacle;

static int find_obstacle(const weiri_host_launch *launch, const weiri_step *step,
                         const weiri_host_block *block, obstacle *what)
{
    const weiri_channel *channels = weiri_program_channels(launch->program);
    const weiri_coll *coll = launch->host->coll;
    if (block->post >= 0) {
        what->word = &coll->areas[block->post].post[coll->epoch & 1]->flag;
        what->target = coll->epoch;
        what->peer = weiri_comm_name(coll->comm, block->post);
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
    const weiri_host_channel *channel = channel_of(launch, step, block->item);
    what->peer = channels[ids_of(launch, step)[block->item]].peer;
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

/* A block that has not ended and waits for a peer; else any that has not ended. */
static uint32_t find_waiting(const weiri_host_launch *launch, obstacle *what, int *is_remote)
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
        *is_remote = find_obstacle(launch, &steps[block->step], block, what);
        if (*is_remote)
            return i;
    }
    return found;
}

/* "thread block 3, op 5 (wait) of FILE": the record of where a rank stands has its begin. */
static void describe(const weiri_host_launch *launch, uint32_t which, char *text, size_t bytes)
{
    const weiri_step *step =
        weiri_program_steps(launch->program) + launch->own->blocks[which].step;
    snprintf(text, bytes, "thread block %u, op %u (%s) of %.100s",
             weiri_program_blocks(launch->program)[which].id, step->op,
             weiri_plan_kind_name((weiri_plan_kind)step->plan_kind), launch->context->name);
}

static weir_status stuck_for_ever(const weiri_host_launch *launch, uint32_t which)
{
    char where[WEIRI_PLAN_WHERE_BYTES];
    const weiri_program_block *block = weiri_program_blocks(launch->program) + which;
    const weiri_step *step =
        weiri_program_steps(launch->program) + launch->own->blocks[which].step;
    weir_comm_abort(launch->executor->comm);
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: no thread block of the rank can go on: they wait for each other; "
                      "weir-plan check says what the plan lacks",
                      weiri_step_where(launch->context, block, step, where));
}

/* A peer's buffer could not be mapped, or a port took no more: the proxy ended, or a wait
 * for room in its FIFO. */
static weir_status step_failed(const weiri_host_launch *launch, uint32_t which)
{
    char phase[WEIRI_PLAN_WHERE_BYTES];
    weir_status status = launch->status;
    describe(launch, which, phase, sizeof phase);
    if (status == WEIR_OK)
        status = weir_proxy_status(launch->host->ports.proxy);
    if (status == WEIR_OK)
        status = weir_load_acquire(launch->host->here->guard.abort_word)
                     ? weiri_fail(WEIR_ERR_ABORTED, "the communicator was aborted")
                     : weiri_fail(WEIR_ERR_TIMEOUT, "the proxy took no trigger in time");
    weir_comm_abort(launch->executor->comm);
    return weiri_fail_context(status, "rank %d: %s", launch->program->rank, phase);
}

/* After a round in which no block got on. */
static weir_status idle(weiri_host_launch *launch, weiri_waiter *waiter)
{
    enum { LOOKS = 64 }; /* of which a wait notes where it stands once at most */
    obstacle what = {NULL, NULL, 0, -1};
    int is_remote;
    char phase[WEIRI_PLAN_WHERE_BYTES] = "a plan";
    uint32_t which = find_waiting(launch, &what, &is_remote);
    if (!is_remote)
        return stuck_for_ever(launch, which);
    if ((waiter->polls.polls + 1) % LOOKS == 0)
        describe(launch, which, phase, sizeof phase);
    const uint64_t flag = what.packet ? weiri_host_flag_at(launch, what.packet) : 0;
    return weiri_comm_idle_for(launch->host->here, waiter, what.packet ? &flag : what.word,
                               what.target, what.peer, phase);
}

weir_status weiri_host_interpret(weiri_host_launch *launch)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    weir_comm *here = launch->host->here;
    for (;;) {
        int got_on = 0;
        uint32_t left = 0;
        for (uint32_t i = 0; i < launch->program->nblocks; i++) {
            const outcome now = run_block(launch, i, &got_on);
            if (now == FAILED)
                return step_failed(launch, i);
            left += now != DONE;
        }
        if (!left)
            break;
        weir_status status = WEIR_OK;
        if (got_on) {
            weiri_comm_idle_end(here, &waiter);
            waiter = (weiri_waiter){.polls = {0, 0}};
        } else {
            status = idle(launch, &waiter);
        }
        if (WEIRI_UNLIKELY(status != WEIR_OK))
            return status;
    }
    weiri_comm_idle_end(here, &waiter);
    return WEIR_OK;
}
