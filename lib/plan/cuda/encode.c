/*
 * Programs into images (image.h), in two passes: a list of each block's steps, in which
 * lines with gaps are taken apart and meetings of the block's threads are placed; then the
 * lists into pages.
 */
#include "plan/cuda/encoder.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum {
    DSTS_MOST = 32, /* of a copy; what has more becomes several */
    IDS_MOST = 64,  /* of a step, likewise */
    MOVES_MOST = 32, /* between meetings, lest looking for conflicts takes long */
};
#define NOBODY 0
#define SEVERAL UINT32_MAX

/* What a step does, for where the block meets. */
typedef enum effect {
    MOVES,
    WAITS,
    ORDERS,         /* tells others that what was moved before is there */
    ORDERS_NOTHING, /* a relaxed signal */
    LOOPS,
} effect;

static void *append(weiri_encoder *to, weiri_list *of, size_t element_bytes)
{
    if (to->status != WEIR_OK)
        return NULL;
    if (of->count == of->most) {
        uint32_t most = of->most ? 2 * of->most : 64;
        void *more = realloc(of->at, most * element_bytes);
        if (!more) {
            to->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", to->name);
            return NULL;
        }
        of->at = more;
        of->most = most;
    }
    return memset((char *)of->at + of->count++ * element_bytes, 0, element_bytes);
}

/* ----------------------------------------------------------------- meetings */

/* Where in its buffer an operand of a step begins and ends. */
typedef struct extent {
    uint32_t base;
    uint64_t begin, end;
} extent;

static extent extent_of(const weiri_encoder *of, const weiri_item *one, uint32_t i)
{
    const weiri_image_operand *operand =
        (const weiri_image_operand *)of->operands.at + one->first + i;
    const weiri_image_step *step = &one->step;
    const int is_dst = i >= step->nsrcs;
    const int is_first = i == 0 || i == step->nsrcs;
    const int bit = is_dst ? WEIRI_IMAGE_TO_PACKETS : WEIRI_IMAGE_FROM_PACKETS;
    const int packets = (step->flags & bit) && !(step->kind == WEIRI_IMAGE_REDUCE && is_first);
    return (extent){operand->base, operand->offset + (step->run_begin << packets),
                    operand->offset + (step->run_end << packets)};
}

/* Input and output of a rank may be the same memory, at any offset. */
static int overlap(extent a, extent b)
{
    const uint32_t buffers = WEIRI_IMAGE_BUFFERS, scratch = WEIRI_IMAGE_BUFFERS - 1;
    if (a.base / buffers != b.base / buffers)
        return 0;
    if (a.base != b.base)
        return a.base % buffers != scratch && b.base % buffers != scratch;
    return a.begin < b.end && b.begin < a.end;
}

static int conflict(const weiri_encoder *of, const weiri_item *a, const weiri_item *b)
{
    const uint32_t na = (uint32_t)a->step.nsrcs + a->step.ndsts;
    const uint32_t nb = (uint32_t)b->step.nsrcs + b->step.ndsts;
    for (uint32_t i = 0; i < na; i++)
        for (uint32_t j = 0; j < nb; j++)
            if ((i >= a->step.nsrcs || j >= b->step.nsrcs) &&
                overlap(extent_of(of, a, i), extent_of(of, b, j)))
                return 1;
    return 0;
}

static int conflicts(const weiri_encoder *of, const weiri_item *last)
{
    const uint32_t end = (uint32_t)(last - weiri_item_at(of, 0));
    if (end - of->first_move > MOVES_MOST)
        return 1;
    for (uint32_t i = of->first_move; i < end; i++) {
        const weiri_item *before = weiri_item_at(of, i);
        if (before->step.kind <= WEIRI_IMAGE_REDUCE && conflict(of, before, last))
            return 1;
    }
    return 0;
}

static void meet(weiri_encoder *to, weiri_item *before)
{
    before->step.flags |= WEIRI_IMAGE_MEETS;
    to->moved = to->waited = to->fenced = 0;
    to->meetings++;
}

/* Whether the block must meet before the last item, which is complete. */
static void place_meeting(weiri_encoder *to, effect what)
{
    weiri_item *last = weiri_item_at(to, to->items.count - 1);
    int must = to->waited || to->fenced;
    if (what == WAITS)
        must = 0;
    else if (what == MOVES)
        must = must || (to->moved && conflicts(to, last));
    else if (what != ORDERS_NOTHING)
        must = must || to->moved;
    if (must)
        meet(to, last);
    if (what == MOVES && !to->moved)
        to->first_move = to->items.count - 1;
    to->moved |= what == MOVES;
    to->waited |= what == WAITS || last->step.kind == WEIRI_IMAGE_BARRIER;
}

/* -------------------------------------------------------------------- moves */

static weiri_item *add_item(weiri_encoder *to, weiri_image_kind kind, const weiri_step *from)
{
    weiri_item *made = append(to, &to->items, sizeof *made);
    if (!made)
        return NULL;
    made->step.kind = (uint8_t)kind;
    made->step.op = from->op;
    return made;
}

static int is_packets(const weiri_step *step, const weiri_operand *operands, uint32_t i)
{
    return i < step->nsrcs + step->ndsts && operands[i].is_packets;
}

/* Of the sources but the first, and of the destinations but the first, or of a copy all of
 * them: whether they are packets. */
static uint8_t packet_flags(const weiri_step *step, const weiri_operand *operands)
{
    const uint32_t nth = step->kind == WEIRI_STEP_REDUCE;
    const int from = nth < step->nsrcs && is_packets(step, operands, nth);
    const int to = nth < step->ndsts && is_packets(step, operands, step->nsrcs + nth);
    return (uint8_t)((from ? WEIRI_IMAGE_FROM_PACKETS : 0) | (to ? WEIRI_IMAGE_TO_PACKETS : 0));
}

/* An operand whose line goes on as it does from byte v on. */
static void add_operand(weiri_encoder *to, const weiri_step *step, const weiri_operand *from,
                        uint64_t v)
{
    weiri_image_operand *made = append(to, &to->operands, sizeof *made);
    if (!made)
        return;
    made->offset = weiri_step_at(&to->program->geometry, step, from, v) - (v << from->is_packets);
    made->base = from->base;
}

/* Some destinations of a run of a step's line. */
static void add_run(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step, uint64_t v,
                    weiri_run run, uint32_t dst, uint32_t ndsts)
{
    const weiri_operand *operands = weiri_program_operands(to->program) + step->first_operand;
    weiri_item *made = add_item(to, kind, step);
    if (!made)
        return;
    const int loops = step->flags & WEIRI_STEP_IN_LOOP;
    weiri_image_step *image = &made->step;
    image->flags = (uint8_t)(packet_flags(step, operands) | (loops ? WEIRI_IMAGE_IN_LOOP : 0));
    image->nsrcs = (uint16_t)step->nsrcs;
    image->ndsts = (uint16_t)ndsts;
    image->run_begin = v;
    image->run_end = v + run.line_bytes;
    image->begin = loops ? step->first : image->run_begin;
    image->end = loops ? step->end : image->run_end;
    image->data_end = v + run.data_bytes;
    made->first = to->operands.count;
    for (uint32_t i = 0; i < step->nsrcs; i++)
        add_operand(to, step, &operands[i], v);
    for (uint32_t i = 0; i < ndsts; i++)
        add_operand(to, step, &operands[step->nsrcs + dst + i], v);
    made->count = to->operands.count - made->first;
    if (kind != WEIRI_IMAGE_PORT_PUT)
        place_meeting(to, MOVES);
}

static void add_move(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step)
{
    const weiri_operand *operands = weiri_program_operands(to->program);
    const weiri_operand *own = operands + step->first_operand;
    const uint32_t most = kind == WEIRI_IMAGE_COPY ? DSTS_MOST : step->ndsts;
    for (uint64_t v = step->first; v < step->end;) {
        const weiri_run run =
            weiri_step_run(&to->program->geometry, step, operands, v, step->end);
        const int empty = run.data_bytes == 0 && !packet_flags(step, own);
        for (uint32_t dst = 0; dst < step->ndsts && !empty; dst += most)
            add_run(to, kind, step, v, run, dst,
                    step->ndsts - dst < most ? step->ndsts - dst : most);
        v += run.line_bytes;
    }
}

/* --------------------------------------------------------- signals and waits */

static void add_id(weiri_encoder *to, uint32_t id)
{
    uint32_t *made = append(to, &to->ids, sizeof *made);
    if (!made)
        return;
    *made = id;
    weiri_item *last = weiri_item_at(to, to->items.count - 1);
    last->step.nids++;
    last->count++;
}

/* The next step for ids of an operation. */
static weiri_item *add_id_item(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step,
                               effect what)
{
    weiri_item *made = add_item(to, kind, step);
    if (!made)
        return NULL;
    made->step.flags |= step->flags & WEIRI_STEP_RELAXED ? WEIRI_IMAGE_RELAXED : 0;
    made->first = to->ids.count;
    place_meeting(to, what);
    return made;
}

static uint32_t channel_id(const weiri_encoder *of, uint32_t channel, int is_wait)
{
    const weiri_channel *end = weiri_program_channels(of->program) + channel;
    const uint32_t shared = of->users[2 * channel + (uint32_t)is_wait] == SEVERAL;
    return channel << WEIRI_IMAGE_ID_SHIFT | (uint32_t)end->peer |
           (shared ? WEIRI_IMAGE_SHARED : 0);
}

/* Each channel is one thread's; the same channel again is so only once the block has met,
 * as it may be another thread. */
static void add_channels(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step,
                         effect what)
{
    const uint32_t *ids = weiri_program_ids(to->program) + step->first_id;
    const int is_wait = what == WAITS;
    weiri_item *made = NULL;
    for (uint32_t i = 0; i < step->nids && to->status == WEIR_OK; i++) {
        uint32_t *met = &to->met[2 * ids[i] + (uint32_t)is_wait];
        const int again = *met == to->meetings + 1;
        if (!made || made->step.nids == IDS_MOST || again)
            made = add_id_item(to, kind, step, what);
        if (!made)
            return;
        if (again && !(made->step.flags & WEIRI_IMAGE_MEETS)) {
            meet(to, made);
            to->waited = is_wait;
        }
        *met = to->meetings + 1;
        add_id(to, channel_id(to, ids[i], is_wait));
    }
}

static void add_semaphores(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step,
                           effect what)
{
    const uint32_t *ids = weiri_program_ids(to->program) + step->first_id;
    for (uint32_t i = 0; i < step->nids && to->status == WEIR_OK; i++) {
        if (i % IDS_MOST == 0 && !add_id_item(to, kind, step, what))
            return;
        add_id(to, ids[i]);
    }
}

/* Steps of ports are the first thread's, in their order. The put's channel is in nblocks. */
static void add_port_put(weiri_encoder *to, const weiri_step *step)
{
    const uint32_t before = to->items.count;
    add_move(to, WEIRI_IMAGE_PORT_PUT, step);
    for (uint32_t i = before; i < to->items.count && to->status == WEIR_OK; i++) {
        const uint32_t channel = weiri_program_ids(to->program)[step->first_id];
        weiri_item *one = weiri_item_at(to, i);
        one->step.nids = 0;
        one->target = channel_id(to, channel, 0);
        if (to->moved || to->waited || to->fenced)
            meet(to, one);
    }
}

static void add_barrier(weiri_encoder *to, const weiri_step *step)
{
    weiri_item *made = add_item(to, WEIRI_IMAGE_BARRIER, step);
    if (!made)
        return;
    made->step.slot = step->slot;
    made->step.nblocks = step->nblocks;
    place_meeting(to, ORDERS);
}

/* ------------------------------------------------------------------- blocks */

static void add_step(weiri_encoder *to, const weiri_step *step)
{
    const int is_port = step->flags & WEIRI_STEP_IS_PORT;
    const effect signals = step->flags & WEIRI_STEP_RELAXED ? ORDERS_NOTHING : ORDERS;
    switch ((weiri_step_kind)step->kind) {
    case WEIRI_STEP_FENCE:
        to->fenced |= to->moved || to->waited;
        break;
    case WEIRI_STEP_BARRIER:
        add_barrier(to, step);
        break;
    case WEIRI_STEP_SEM_ACQUIRE:
        add_semaphores(to, WEIRI_IMAGE_ACQUIRE, step, WAITS);
        break;
    case WEIRI_STEP_SEM_RELEASE:
        add_semaphores(to, WEIRI_IMAGE_RELEASE, step, ORDERS);
        break;
    case WEIRI_STEP_SIGNAL:
        add_channels(to, is_port ? WEIRI_IMAGE_PORT_SIGNAL : WEIRI_IMAGE_SIGNAL, step, signals);
        break;
    case WEIRI_STEP_WAIT:
        add_channels(to, is_port ? WEIRI_IMAGE_PORT_WAIT : WEIRI_IMAGE_WAIT, step, WAITS);
        break;
    case WEIRI_STEP_FLUSH:
        add_channels(to, WEIRI_IMAGE_PORT_FLUSH, step, WAITS);
        break;
    case WEIRI_STEP_COPY:
        add_move(to, WEIRI_IMAGE_COPY, step);
        break;
    case WEIRI_STEP_REDUCE:
        add_move(to, WEIRI_IMAGE_REDUCE, step);
        break;
    case WEIRI_STEP_PORT_PUT:
        add_port_put(to, step);
        break;
    default:
        to->status = weiri_fail(WEIR_ERR_INTERNAL, "%s: a step of kind %d", to->name, step->kind);
    }
}

/* A loop's step, its body, and its end, which goes back to the body. */
static void add_loop(weiri_encoder *to, const weiri_step *step)
{
    weiri_item *head = add_item(to, WEIRI_IMAGE_LOOP, step);
    if (!head)
        return;
    head->step.turns = step->turns;
    for (uint32_t i = 1; i <= step->nsteps; i++)
        if (step[i].flags & WEIRI_STEP_IN_LOOP)
            head->step.turn_bytes = step[i].turn_bytes;
    place_meeting(to, LOOPS);
    const uint32_t body = to->items.count;
    for (uint32_t i = 1; i <= step->nsteps; i++)
        add_step(to, step + i);
    weiri_item *turn = add_item(to, WEIRI_IMAGE_TURN, step);
    if (!turn)
        return;
    turn->target = body;
    meet(to, turn);
}

static void add_block(weiri_encoder *to, const weiri_program_block *block)
{
    const weiri_step *steps = weiri_program_steps(to->program) + block->first_step;
    uint32_t *begin = append(to, &to->begins, sizeof *begin);
    if (!begin)
        return;
    *begin = to->items.count;
    to->moved = to->waited = to->fenced = 0;
    to->meetings++;
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

/* Which block signals through a channel, and which waits for it. */
static weir_status find_users(weiri_encoder *to)
{
    const weiri_program *program = to->program;
    to->users = calloc(2 * (size_t)program->nchannels + 1, sizeof *to->users);
    to->met = calloc(2 * (size_t)program->nchannels + 1, sizeof *to->met);
    if (!to->users || !to->met)
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
                *user = *user == NOBODY || *user == b + 1 ? b + 1 : SEVERAL;
                if (*user == SEVERAL && step->kind == WEIRI_STEP_WAIT &&
                    (step->flags & WEIRI_STEP_IS_PORT))
                    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                                      "%s: rank %d: several thread blocks wait on its port channel "
                                      "%u; give each block a channel of its own",
                                      to->name, program->rank, id);
            }
        }
    return WEIR_OK;
}

weir_status weiri_image_encode(const weiri_program *program, const char *name, uint32_t page_bytes,
                               weiri_image *image)
{
    static const weiri_program_block nothing;
    weiri_encoder to = {.program = program, .name = name};
    if (program->nranks > WEIRI_GPU_RANKS_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s: %d ranks; GPUs of one host serve up to %d",
                          name, program->nranks, WEIRI_GPU_RANKS_MAX);
    to.status = find_users(&to);
    for (uint32_t b = 0; b < program->nblocks; b++)
        add_block(&to, &weiri_program_blocks(program)[b]);
    if (program->nblocks == 0)
        add_block(&to, &nothing);
    weir_status status = to.status;
    if (status == WEIR_OK)
        status = weiri_image_make_pages(&to, page_bytes, image);
    free(to.items.at);
    free(to.operands.at);
    free(to.ids.at);
    free(to.begins.at);
    free(to.met);
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
