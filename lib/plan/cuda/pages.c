/* Packs the encoder's items into pages; see image.h. */
#include "plan/cuda/encoder.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static int has_operands(const weiri_item *one)
{
    return one->step.kind <= WEIRI_IMAGE_REDUCE || one->step.kind == WEIRI_IMAGE_PORT_PUT;
}

/* The bytes that an item needs in a page. A port put also has an id, that of its channel. */
static uint32_t bytes_of(const weiri_item *one)
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

static uint32_t end_of_block(const weiri_encoder *of, uint32_t block)
{
    return block + 1 < of->begins.count ? ((uint32_t *)of->begins.at)[block + 1] : of->items.count;
}

/* How many items, from `first` on and before `end`, fit into a page. */
static uint32_t items_of_page(const weiri_encoder *of, uint32_t first, uint32_t end,
                              uint32_t page_bytes, uint64_t *bytes)
{
    uint32_t count = 0;
    *bytes = sizeof(weiri_image_page);
    while (first + count < end && *bytes + bytes_of(weiri_item_at(of, first + count)) <= page_bytes)
        *bytes += bytes_of(weiri_item_at(of, first + count++));
    return count;
}

/* The length of the pages: that of the longest block's list if it fits into one page. */
static uint32_t choose_page_bytes(const weiri_encoder *of, uint32_t most)
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

/* The position of an item in the pages. */
typedef struct item_position {
    uint32_t page, step;
} item_position;

static void fill_step(const weiri_encoder *of, const weiri_item *one, weiri_image_page *page,
                      uint32_t nth, uint32_t *noperands, uint32_t *nids)
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
        steps[nth].nids = (uint16_t)*nids; /* index of the id */
        ids[(*nids)++] = one->target;
    }
}

static void fill_page(const weiri_encoder *of, weiri_image_page *page, uint32_t first,
                      uint32_t count)
{
    uint32_t noperands = 0, nids = 0;
    page->nsteps = count;
    for (uint32_t i = 0; i < count; i++)
        if (has_operands(weiri_item_at(of, first + i)))
            page->noperands += weiri_item_at(of, first + i)->count;
    page->ids_at = (uint32_t)(sizeof *page + count * sizeof(weiri_image_step) +
                              page->noperands * sizeof(weiri_image_operand));
    for (uint32_t i = 0; i < count; i++)
        fill_step(of, weiri_item_at(of, first + i), page, i, &noperands, &nids);
}

/* Assigns pages to items and returns their number; 0: an item needs more than a page. */
static uint32_t assign_pages(const weiri_encoder *of, uint32_t page_bytes, item_position *positions)
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
                positions[at + i] = (item_position){page, i};
            at += count;
            page = at < end ? next++ : page;
        }
    }
    return next;
}

static void fill_pages(const weiri_encoder *of, const item_position *positions,
                       const weiri_image *image)
{
    for (uint32_t b = 0; b < of->begins.count; b++) {
        const uint32_t end = end_of_block(of, b);
        for (uint32_t at = ((uint32_t *)of->begins.at)[b]; at < end;) {
            uint32_t count = 1;
            while (at + count < end && positions[at + count].page == positions[at].page)
                count++;
            weiri_image_page *page =
                (weiri_image_page *)(void *)(image->pages +
                                             (size_t)positions[at].page * image->page_bytes);
            fill_page(of, page, at, count);
            page->next = at + count < end ? positions[at + count].page : 0;
            for (uint32_t i = 0; i < count; i++) {
                weiri_image_step *step = (weiri_image_step *)(page + 1) + i;
                if (step->kind == WEIRI_IMAGE_LOOP_END) {
                    const item_position to = positions[weiri_item_at(of, at + i)->target];
                    step->page = to.page;
                    step->step = to.step;
                }
            }
            at += count;
        }
    }
}

weir_status weiri_image_make_pages(const weiri_encoder *of, uint32_t page_most, weiri_image *image)
{
    weiri_image made = {.page_bytes = choose_page_bytes(of, page_most),
                        .nblocks = of->begins.count};
    item_position *positions = calloc(of->items.count + 1, sizeof *positions);
    if (!positions)
        goto no_memory;
    made.npages = assign_pages(of, made.page_bytes, positions);
    if (!made.npages) {
        free(positions);
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: rank %d: an operation has more references than the kernel "
                          "supports; divide it",
                          of->name, of->program->rank);
    }
    made.pages = calloc(made.npages, made.page_bytes);
    if (!made.pages)
        goto no_memory;
    fill_pages(of, positions, &made);
    free(positions);
    *image = made;
    return WEIR_OK;
no_memory:
    free(positions);
    return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", of->name);
}
