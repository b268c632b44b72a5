/*
 * Encodes programs as images (image.h), in two passes: a list of every block's steps, in which
 * lines with gaps are divided (encode_moves.c) and block barriers are placed (encode_sync.c); then
 * the lists are packed into pages (pages.c).
 */
#include "plan/cuda/encoder.h"

#include "base/error.h"

#include <stdlib.h>

enum { IDS_MOST = 64 }; /* per step; operations with more become several steps */

/* --------------------------------------------------------- signals and waits */

static void add_id(weiri_encoder *to, uint32_t id)
{
    uint32_t *made = weiri_encoder_append(to, &to->ids, sizeof *made);
    if (!made)
        return;
    *made = id;
    weiri_item *last = weiri_item_at(to, to->items.count - 1);
    last->step.nids++;
    last->count++;
}

/* Adds the next step for ids of an operation. */
static weiri_item *add_id_item(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step,
                               weiri_effect what)
{
    weiri_item *made = weiri_encoder_add_item(to, kind, step);
    if (!made)
        return NULL;
    made->step.flags |= step->flags & WEIRI_STEP_RELAXED ? WEIRI_IMAGE_RELAXED : 0;
    made->first = to->ids.count;
    weiri_encoder_sync_if_needed(to, what);
    return made;
}

static uint32_t channel_id(const weiri_encoder *of, uint32_t channel, int is_wait)
{
    const weiri_channel *end = weiri_program_channels(of->program) + channel;
    const uint32_t shared = of->users[2 * channel + (uint32_t)is_wait] == WEIRI_SEVERAL;
    return channel << WEIRI_IMAGE_ID_SHIFT | (uint32_t)end->peer |
           (shared ? WEIRI_IMAGE_SHARED : 0);
}

/* One thread handles each channel. The same channel may come again only after the block has
 * synchronized, as another thread may handle it then. */
static void add_channels(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step,
                         weiri_effect what)
{
    const uint32_t *ids = weiri_program_ids(to->program) + step->first_id;
    const int is_wait = what == WEIRI_WAITS;
    weiri_item *made = NULL;
    for (uint32_t i = 0; i < step->nids && to->status == WEIR_OK; i++) {
        unsigned char *redundant = &to->redundant[2 * ids[i] + (uint32_t)is_wait];
        uint32_t *last_sync = &to->last_sync[2 * ids[i] + (uint32_t)is_wait];
        if (*redundant) { /* the first one is left out */
            *redundant = 0;
            continue;
        }
        const int again = *last_sync == to->syncs + 1;
        if (!made || made->step.nids == IDS_MOST || again)
            made = add_id_item(to, kind, step, what);
        if (!made)
            return;
        if (again && !(made->step.flags & WEIRI_IMAGE_SYNC)) {
            weiri_encoder_sync(to, made);
            to->waited = is_wait;
        }
        *last_sync = to->syncs + 1;
        add_id(to, channel_id(to, ids[i], is_wait));
    }
}

static void add_semaphores(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step,
                           weiri_effect what)
{
    const uint32_t *ids = weiri_program_ids(to->program) + step->first_id;
    for (uint32_t i = 0; i < step->nids && to->status == WEIR_OK; i++) {
        if (i % IDS_MOST == 0 && !add_id_item(to, kind, step, what))
            return;
        add_id(to, ids[i]);
    }
}

/* Port steps are executed by the first thread, in order. The channel's id goes into `target`. */
static void add_port_put(weiri_encoder *to, const weiri_step *step)
{
    const uint32_t before = to->items.count;
    weiri_encoder_add_move(to, WEIRI_IMAGE_PORT_PUT, step);
    for (uint32_t i = before; i < to->items.count && to->status == WEIR_OK; i++) {
        const uint32_t channel = weiri_program_ids(to->program)[step->first_id];
        weiri_item *one = weiri_item_at(to, i);
        one->step.nids = 0;
        one->target = channel_id(to, channel, 0);
        if (to->moved || to->waited || to->fenced)
            weiri_encoder_sync(to, one);
    }
}

static void add_barrier(weiri_encoder *to, const weiri_step *step)
{
    weiri_item *made = weiri_encoder_add_item(to, WEIRI_IMAGE_BARRIER, step);
    if (!made)
        return;
    made->step.slot = step->slot;
    made->step.nblocks = step->nblocks;
    weiri_encoder_sync_if_needed(to, WEIRI_ORDERS);
}

/* ------------------------------------------------------------------- blocks */

static void add_step(weiri_encoder *to, const weiri_step *step)
{
    const int is_port = step->flags & WEIRI_STEP_IS_PORT;
    const int relaxed = step->flags & WEIRI_STEP_RELAXED;
    const weiri_effect signals = relaxed ? WEIRI_ORDERS_NOTHING : WEIRI_ORDERS;
    switch ((weiri_step_kind)step->kind) {
    case WEIRI_STEP_FENCE:
        to->fenced |= to->moved || to->waited;
        break;
    case WEIRI_STEP_BARRIER:
        add_barrier(to, step);
        break;
    case WEIRI_STEP_SEM_ACQUIRE:
        add_semaphores(to, WEIRI_IMAGE_ACQUIRE, step, WEIRI_WAITS);
        break;
    case WEIRI_STEP_SEM_RELEASE:
        add_semaphores(to, WEIRI_IMAGE_RELEASE, step, WEIRI_ORDERS);
        break;
    case WEIRI_STEP_SIGNAL:
        add_channels(to, is_port ? WEIRI_IMAGE_PORT_SIGNAL : WEIRI_IMAGE_SIGNAL, step, signals);
        break;
    case WEIRI_STEP_WAIT:
        add_channels(to, is_port ? WEIRI_IMAGE_PORT_WAIT : WEIRI_IMAGE_WAIT, step, WEIRI_WAITS);
        break;
    case WEIRI_STEP_FLUSH:
        add_channels(to, WEIRI_IMAGE_PORT_FLUSH, step, WEIRI_WAITS);
        break;
    case WEIRI_STEP_COPY:
        weiri_encoder_add_move(to, WEIRI_IMAGE_COPY, step);
        break;
    case WEIRI_STEP_REDUCE:
        weiri_encoder_add_move(to, WEIRI_IMAGE_REDUCE, step);
        break;
    case WEIRI_STEP_PORT_PUT:
        add_port_put(to, step);
        break;
    default:
        to->status = weiri_fail(WEIR_ERR_INTERNAL, "%s: a step of kind %d", to->name, step->kind);
    }
}

/* A loop: its step, its body, and its end, which jumps back to the body. */
static void add_loop(weiri_encoder *to, const weiri_step *step)
{
    weiri_item *head = weiri_encoder_add_item(to, WEIRI_IMAGE_LOOP, step);
    if (!head)
        return;
    head->step.iterations = step->turns;
    for (uint32_t i = 1; i <= step->nsteps; i++)
        if (step[i].flags & WEIRI_STEP_IN_LOOP)
            head->step.iteration_bytes = step[i].turn_bytes;
    weiri_encoder_sync_if_needed(to, WEIRI_LOOPS);
    const uint32_t body = to->items.count;
    for (uint32_t i = 1; i <= step->nsteps; i++)
        add_step(to, step + i);
    weiri_item *end = weiri_encoder_add_item(to, WEIRI_IMAGE_LOOP_END, step);
    if (!end)
        return;
    end->target = body;
    weiri_encoder_sync(to, end);
}

static void add_block(weiri_encoder *to, const weiri_program_block *block)
{
    const weiri_step *steps = weiri_program_steps(to->program) + block->first_step;
    uint32_t *begin = weiri_encoder_append(to, &to->begins, sizeof *begin);
    if (!begin)
        return;
    *begin = to->items.count;
    to->moved = to->waited = to->fenced = 0;
    to->syncs++;
    for (uint32_t i = 0; i < block->nsteps && to->status == WEIR_OK; i++) {
        if (steps[i].kind != WEIRI_STEP_LOOP) {
            add_step(to, &steps[i]);
            continue;
        }
        if (steps[i].turns)
            add_loop(to, &steps[i]);
        i += steps[i].nsteps;
    }
}

/* Rejects channels that more blocks share than the kernel allows. */
static weir_status check_users(const weiri_encoder *of, const weiri_step *step, uint32_t id)
{
    const int is_wait = step->kind == WEIRI_STEP_WAIT;
    const int is_port = (step->flags & WEIRI_STEP_IS_PORT) != 0;
    if (of->users[2 * id + (uint32_t)is_wait] != WEIRI_SEVERAL)
        return WEIR_OK;
    if (is_wait && is_port)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "%s: rank %d: several thread blocks wait on its port channel %u; give "
                          "each block its own channel",
                          of->name, of->program->rank, id);
    if (!is_wait && !is_port && !of->nvlink)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "%s: rank %d: several thread blocks signal through its memory channel "
                          "%u, which requires NVLink between the GPUs; give each block its own "
                          "channel",
                          of->name, of->program->rank, id);
    return WEIR_OK;
}

/* Finds which block signals through each channel, and which waits on it. */
static weir_status find_users(weiri_encoder *to)
{
    const weiri_program *program = to->program;
    to->users = calloc(2 * (size_t)program->nchannels + 1, sizeof *to->users);
    to->last_sync = calloc(2 * (size_t)program->nchannels + 1, sizeof *to->last_sync);
    if (!to->users || !to->last_sync)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", to->name);
    const weiri_program_block *blocks = weiri_program_blocks(program);
    for (uint32_t b = 0; b < program->nblocks; b++)
        for (uint32_t s = 0; s < blocks[b].nsteps; s++) {
            const weiri_step *step = weiri_program_steps(program) + blocks[b].first_step + s;
            if (step->kind != WEIRI_STEP_SIGNAL && step->kind != WEIRI_STEP_WAIT)
                continue;
            for (uint32_t i = 0; i < step->nids; i++) {
                const uint32_t id = weiri_program_ids(program)[step->first_id + i];
                uint32_t *user = &to->users[2 * id + (step->kind == WEIRI_STEP_WAIT)];
                *user = weiri_one_more_user(*user, b);
                weir_status status = check_users(to, step, id);
                if (status != WEIR_OK)
                    return status;
            }
        }
    return WEIR_OK;
}

static uint32_t what_does(const weiri_image_step *step)
{
    const int packets = step->flags & (WEIRI_IMAGE_FROM_PACKETS | WEIRI_IMAGE_TO_PACKETS);
    switch (step->kind) {
    case WEIRI_IMAGE_COPY:
        return packets ? WEIRI_IMAGE_DOES_PACKETS : WEIRI_IMAGE_DOES_COPIES;
    case WEIRI_IMAGE_REDUCE:
        return packets ? WEIRI_IMAGE_DOES_PACKET_REDUCES : WEIRI_IMAGE_DOES_REDUCES;
    case WEIRI_IMAGE_SIGNAL:
    case WEIRI_IMAGE_WAIT:
        return WEIRI_IMAGE_DOES_SIGNALS;
    default:
        return WEIRI_IMAGE_DOES_OTHERS;
    }
}

weir_status weiri_image_encode(const weir_plan *plan, const weiri_program *program,
                               uint32_t page_bytes, int nvlink, weiri_image *image)
{
    static const weiri_program_block nothing;
    weiri_encoder to = {
        .program = program, .name = plan->file, .in_place = plan->in_place, .nvlink = nvlink};
    int announces = 0;
    if (program->nranks > WEIRI_GPU_RANKS_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s: %d ranks; plans on GPUs support up to %d",
                          to.name, program->nranks, WEIRI_GPU_RANKS_MAX);
    to.status =
        weiri_image_plan_entry(plan, program->rank, program->nchannels, &announces, &to.redundant);
    if (to.status == WEIR_OK)
        to.status = find_users(&to);
    for (uint32_t b = 0; b < program->nblocks; b++)
        add_block(&to, &weiri_program_blocks(program)[b]);
    if (program->nblocks == 0)
        add_block(&to, &nothing);
    weir_status status = to.status;
    if (status == WEIR_OK)
        status = weiri_image_make_pages(&to, page_bytes, image);
    if (status == WEIR_OK) {
        image->announces = announces;
        image->does = announces ? WEIRI_IMAGE_DOES_ANNOUNCES : 0;
        for (uint32_t i = 0; i < to.items.count; i++)
            image->does |= what_does(&weiri_item_at(&to, i)->step);
    }
    free(to.items.at);
    free(to.operands.at);
    free(to.ids.at);
    free(to.begins.at);
    free(to.redundant);
    free(to.last_sync);
    free(to.users);
    return status;
}

static uint64_t *counter_at(char *segment, uint32_t number)
{
    weiri_image_counter *counters =
        (weiri_image_counter *)(void *)(segment + WEIRI_IMAGE_COUNTERS_AT);
    return &counters[number].value;
}

void weiri_image_fill_channels(const weiri_program *program, char *const *segments,
                               weiri_image_channel *channels)
{
    const weiri_channel *ends = weiri_program_channels(program);
    for (uint32_t i = 0; i < program->nchannels; i++) {
        if (ends[i].is_port)
            continue;
        channels[i].outbound = counter_at(segments[ends[i].peer], ends[i].outbound);
        channels[i].inbound = counter_at(segments[program->rank], ends[i].inbound);
    }
}
