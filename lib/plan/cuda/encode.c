/*
 * Programs into images (image.h), in two passes: a list of each block's steps, in which
 * lines with gaps are taken apart and meetings of the block's threads are placed; then the
 * lists into pages.
 */
#include "plan/cuda/encode.h"

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

/* A step before it has a page. */
typedef struct item {
    weiri_image_step step;
    uint32_t first, count; /* of the encoder's operands or ids */
    uint32_t target;       /* turn: the item of the body's first step */
} item;

typedef struct list {
    void *at;
    uint32_t count, most;
} list;

/* What a step does, for where the block meets. */
typedef enum effect {
    MOVES,
    WAITS,
    ORDERS,         /* tells others that what was moved before is there */
    ORDERS_NOTHING, /* a relaxed signal */
    LOOPS,
} effect;

typedef struct encoder {
    const weiri_program *program;
    const char *name;
    weir_status status;
    list items, operands, ids, begins; /* begins: each block's first item */
    /* Since the block's threads met last: */
    int moved, waited, fenced;
    uint32_t first_move; /* item */
    uint32_t meetings;   /* so far */
    uint32_t *met;       /* [2 * channel + is a wait]: meetings when it was used last, plus 1 */
    uint32_t *users;     /* likewise: the block that uses it, plus 1; SEVERAL */
} encoder;

static void *append(encoder *to, list *of, size_t element_bytes)
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

static item *item_at(const encoder *of, uint32_t index)
{
    return (item *)of->items.at + index;
}

/* ----------------------------------------------------------------- meetings */

/* Where in its buffer an operand of a step begins and ends. */
typedef struct extent {
    uint32_t base;
    uint64_t begin, end;
} extent;

static extent extent_of(const encoder *of, const item *one, uint32_t i)
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

static int conflict(const encoder *of, const item *a, const item *b)
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

static int conflicts(const encoder *of, const item *last)
{
    const uint32_t end = (uint32_t)(last - item_at(of, 0));
    if (end - of->first_move > MOVES_MOST)
        return 1;
    for (uint32_t i = of->first_move; i < end; i++) {
        const item *before = item_at(of, i);
        if (before->step.kind <= WEIRI_IMAGE_REDUCE && conflict(of, before, last))
            return 1;
    }
    return 0;
}

static void meet(encoder *to, item *before)
{
    before->step.flags |= WEIRI_IMAGE_MEETS;
    to->moved = to->waited = to->fenced = 0;
    to->meetings++;
}

/* Whether the block must meet before the last item, which is complete. */
static void place_meeting(encoder *to, effect what)
{
    item *last = item_at(to, to->items.count - 1);
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

static item *add_item(encoder *to, weiri_image_kind kind, const weiri_step *from)
{
    item *made = append(to, &to->items, sizeof *made);
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
static void add_operand(encoder *to, const weiri_step *step, const weiri_operand *from, uint64_t v)
{
    weiri_image_operand *made = append(to, &to->operands, sizeof *made);
    if (!made)
        return;
    made->offset = weiri_step_at(&to->program->geometry, step, from, v) - (v << from->is_packets);
    made->base = from->base;
}

/* Some destinations of a run of a step's line. */
static void add_run(encoder *to, weiri_image_kind kind, const weiri_step *step, uint64_t v,
                    weiri_run run, uint32_t dst, uint32_t ndsts)
{
    const weiri_operand *operands = weiri_program_operands(to->program) + step->first_operand;
    item *made = add_item(to, kind, step);
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

static void add_move(encoder *to, weiri_image_kind kind, const weiri_step *step)
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

static void add_id(encoder *to, uint32_t id)
{
    uint32_t *made = append(to, &to->ids, sizeof *made);
    if (!made)
        return;
    *made = id;
    item *last = item_at(to, to->items.count - 1);
    last->step.nids++;
    last->count++;
}

/* The next step for ids of an operation. */
static item *add_id_item(encoder *to, weiri_image_kind kind, const weiri_step *step, effect what)
{
    item *made = add_item(to, kind, step);
    if (!made)
        return NULL;
    made->step.flags |= step->flags & WEIRI_STEP_RELAXED ? WEIRI_IMAGE_RELAXED : 0;
    made->first = to->ids.count;
    place_meeting(to, what);
    return made;
}

static uint32_t channel_id(const encoder *of, uint32_t channel, int is_wait)
{
    const weiri_channel *end = weiri_program_channels(of->program) + channel;
    const uint32_t shared = of->users[2 * channel + (uint32_t)is_wait] == SEVERAL;
    return channel << WEIRI_IMAGE_ID_SHIFT | (uint32_t)end->peer |
           (shared ? WEIRI_IMAGE_SHARED : 0);
}

/* Each channel is one thread's; the same channel again is so only once the block has met,
 * as it may be another thread. */
static void add_channels(encoder *to, weiri_image_kind kind, const weiri_step *step, effect what)
{
    const uint32_t *ids = weiri_program_ids(to->program) + step->first_id;
    const int is_wait = what == WAITS;
    item *made = NULL;
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

static void add_semaphores(encoder *to, weiri_image_kind kind, const weiri_step *step, effect what)
{
    const uint32_t *ids = weiri_program_ids(to->program) + step->first_id;
    for (uint32_t i = 0; i < step->nids && to->status == WEIR_OK; i++) {
        if (i % IDS_MOST == 0 && !add_id_item(to, kind, step, what))
            return;
        add_id(to, ids[i]);
    }
}

/* Steps of ports are the first thread's, in their order. The put's channel is in nblocks. */
static void add_port_put(encoder *to, const weiri_step *step)
{
    const uint32_t before = to->items.count;
    add_move(to, WEIRI_IMAGE_PORT_PUT, step);
    for (uint32_t i = before; i < to->items.count && to->status == WEIR_OK; i++) {
        const uint32_t channel = weiri_program_ids(to->program)[step->first_id];
        item *one = item_at(to, i);
        one->step.nids = 0;
        one->target = channel_id(to, channel, 0);
        if (to->moved || to->waited || to->fenced)
            meet(to, one);
    }
}

static void add_barrier(encoder *to, const weiri_step *step)
{
    item *made = add_item(to, WEIRI_IMAGE_BARRIER, step);
    if (!made)
        return;
    made->step.slot = step->slot;
    made->step.nblocks = step->nblocks;
    place_meeting(to, ORDERS);
}

/* ------------------------------------------------------------------- blocks */

static void add_step(encoder *to, const weiri_step *step)
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
static void add_loop(encoder *to, const weiri_step *step)
{
    item *head = add_item(to, WEIRI_IMAGE_LOOP, step);
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
    item *turn = add_item(to, WEIRI_IMAGE_TURN, step);
    if (!turn)
        return;
    turn->target = body;
    meet(to, turn);
}

static void add_block(encoder *to, const weiri_program_block *block)
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
static weir_status find_users(encoder *to)
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

/* -------------------------------------------------------------------- pages */

static int has_operands(const item *one)
{
    return one->step.kind <= WEIRI_IMAGE_REDUCE || one->step.kind == WEIRI_IMAGE_PORT_PUT;
}

/* What an item needs of a page. Of a port's put the id is one, too. */
static uint32_t bytes_of(const item *one)
{
    uint32_t bytes = (uint32_t)sizeof one->step;
    if (has_operands(one))
        bytes += one->count * (uint32_t)sizeof(weiri_image_operand);
    if (!has_operands(one))
        bytes += one->count * (uint32_t)sizeof(uint32_t);
    if (one->step.kind == WEIRI_IMAGE_PORT_PUT)
        bytes += (uint32_t)sizeof(uint32_t);
    return bytes;
}

static uint32_t end_of_block(const encoder *of, uint32_t block)
{
    return block + 1 < of->begins.count ? ((uint32_t *)of->begins.at)[block + 1] : of->items.count;
}

/* How many items from one on, before end, go into a page. */
static uint32_t items_of_page(const encoder *of, uint32_t first, uint32_t end, uint32_t page_bytes,
                              uint64_t *bytes)
{
    uint32_t count = 0;
    *bytes = sizeof(weiri_image_page);
    while (first + count < end && *bytes + bytes_of(item_at(of, first + count)) <= page_bytes)
        *bytes += bytes_of(item_at(of, first + count++));
    return count;
}

/* The pages' length: of the longest block's, if that is one page. */
static uint32_t choose_page_bytes(const encoder *of, uint32_t most)
{
    uint64_t longest = sizeof(weiri_image_page);
    for (uint32_t b = 0; b < of->begins.count; b++) {
        uint64_t bytes;
        const uint32_t begin = ((uint32_t *)of->begins.at)[b], end = end_of_block(of, b);
        if (items_of_page(of, begin, end, most, &bytes) < end - begin)
            return most;
        longest = bytes > longest ? bytes : longest;
    }
    return (uint32_t)((longest + 15) / 16 * 16);
}

/* Where each item came to lie. */
typedef struct spot {
    uint32_t page, step;
} spot;

static void fill_step(const encoder *of, const item *one, weiri_image_page *page, uint32_t nth,
                      uint32_t *noperands, uint32_t *nids)
{
    weiri_image_step *steps = (weiri_image_step *)(page + 1);
    weiri_image_operand *operands = (weiri_image_operand *)(steps + page->nsteps);
    uint32_t *ids = (uint32_t *)(void *)((char *)page + page->ids_at);
    steps[nth] = one->step;
    steps[nth].first = has_operands(one) ? *noperands : *nids;
    if (has_operands(one)) {
        memcpy(operands + *noperands, (weiri_image_operand *)of->operands.at + one->first,
               one->count * sizeof *operands);
        *noperands += one->count;
    } else if (one->count) {
        memcpy(ids + *nids, (uint32_t *)of->ids.at + one->first, one->count * sizeof *ids);
        *nids += one->count;
    }
    if (one->step.kind == WEIRI_IMAGE_PORT_PUT) {
        steps[nth].nids = (uint16_t)*nids; /* which id */
        ids[(*nids)++] = one->target;
    }
}

static void fill_page(const encoder *of, weiri_image_page *page, uint32_t first, uint32_t count)
{
    uint32_t noperands = 0, nids = 0;
    page->nsteps = count;
    for (uint32_t i = 0; i < count; i++)
        if (has_operands(item_at(of, first + i)))
            page->noperands += item_at(of, first + i)->count;
    page->ids_at = (uint32_t)(sizeof *page + count * sizeof(weiri_image_step) +
                              page->noperands * sizeof(weiri_image_operand));
    for (uint32_t i = 0; i < count; i++)
        fill_step(of, item_at(of, first + i), page, i, &noperands, &nids);
}

/* Gives each item its page; 0: one needs more than a page. */
static uint32_t count_pages(const encoder *of, uint32_t page_bytes, spot *spots)
{
    uint32_t next = of->begins.count;
    for (uint32_t b = 0; b < of->begins.count; b++) {
        const uint32_t end = end_of_block(of, b);
        uint32_t at = ((uint32_t *)of->begins.at)[b], page = b;
        while (at < end) {
            uint64_t bytes;
            const uint32_t count = items_of_page(of, at, end, page_bytes, &bytes);
            if (!count)
                return 0;
            for (uint32_t i = 0; i < count; i++)
                spots[at + i] = (spot){page, i};
            at += count;
            page = at < end ? next++ : page;
        }
    }
    return next;
}

static void fill_pages(const encoder *of, const spot *spots, const weiri_image *image)
{
    for (uint32_t b = 0; b < of->begins.count; b++) {
        const uint32_t end = end_of_block(of, b);
        for (uint32_t at = ((uint32_t *)of->begins.at)[b]; at < end;) {
            uint32_t count = 1;
            while (at + count < end && spots[at + count].page == spots[at].page)
                count++;
            weiri_image_page *page = (weiri_image_page *)(void *)(
                image->pages + (size_t)spots[at].page * image->page_bytes);
            fill_page(of, page, at, count);
            page->next = at + count < end ? spots[at + count].page : 0;
            for (uint32_t i = 0; i < count; i++) {
                weiri_image_step *step = (weiri_image_step *)(page + 1) + i;
                if (step->kind == WEIRI_IMAGE_TURN) {
                    const spot to = spots[item_at(of, at + i)->target];
                    step->page = to.page;
                    step->step = to.step;
                }
            }
            at += count;
        }
    }
}

static weir_status make_pages(const encoder *of, uint32_t page_most, weiri_image *image)
{
    weiri_image made = {.page_bytes = choose_page_bytes(of, page_most),
                        .nblocks = of->begins.count};
    spot *spots = calloc(of->items.count + 1, sizeof *spots);
    if (!spots)
        goto no_memory;
    made.npages = count_pages(of, made.page_bytes, spots);
    if (!made.npages) {
        free(spots);
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: rank %d: an operation has more references than a kernel takes at "
                          "once; divide it",
                          of->name, of->program->rank);
    }
    made.pages = calloc(made.npages, made.page_bytes);
    if (!made.pages)
        goto no_memory;
    fill_pages(of, spots, &made);
    free(spots);
    *image = made;
    return WEIR_OK;
no_memory:
    free(spots);
    return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", of->name);
}

weir_status weiri_image_encode(const weiri_program *program, const char *name, uint32_t page_bytes,
                               weiri_image *image)
{
    static const weiri_program_block nothing;
    encoder to = {.program = program, .name = name};
    if (program->nranks > WEIRI_GPU_RANKS_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s: %d ranks; GPUs of one host serve up to %d",
                          name, program->nranks, WEIRI_GPU_RANKS_MAX);
    to.status = find_users(&to);
    for (uint32_t b = 0; b < program->nblocks; b++)
        add_block(&to, &weiri_program_blocks(program)[b]);
    if (program->nblocks == 0)
        add_block(&to, &nothing);
    weir_status status = to.status == WEIR_OK ? make_pages(&to, page_bytes, image) : to.status;
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
