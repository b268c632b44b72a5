/*
 * Vector clocks: reference-counted, copied on write, and recycled through lists of free ones.
 *
 * The components of a clock are in pages, which clocks share as long as they are equal: most
 * operations change few components, so a plan with thousands of thread blocks needs little memory
 * and time for each of its signals. A page that is absent holds zeros.
 */
#include "plan/check/check.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (UINT64_C(512) << 20)

static uint32_t clock_pages(const weiri_clocks *clocks)
{
    return (clocks->nchains + WEIRI_CLOCK_PAGE - 1) / WEIRI_CLOCK_PAGE;
}

/* The header of a clock or page. All are released together, including the ones in use after a
 * failure. */
typedef struct clock_made {
    _Alignas(max_align_t) struct clock_made *next;
} clock_made;

/* Allocates a clock or page; NULL sets `failed`. */
static void *clock_allocate(weiri_clocks *clocks, size_t bytes)
{
    if (clocks->bytes + bytes > BYTES_MAX) {
        clocks->failed = WEIR_ERR_UNSUPPORTED;
        return NULL;
    }
    clock_made *made = malloc(sizeof *made + bytes);
    if (!made) {
        clocks->failed = WEIR_ERR_NO_MEMORY;
        return NULL;
    }
    made->next = clocks->made;
    clocks->made = made;
    clocks->bytes += bytes;
    return made + 1;
}

/* ------------------------------------------------------------------------ pages */

static void clock_drop_page(weiri_clocks *clocks, weiri_clock_page *page)
{
    if (!page || --page->refs)
        return;
    page->next = clocks->free_pages;
    clocks->free_pages = page;
}

/* Replaces a page, which may be NULL, by an equal one that is exclusive to the caller. 0: no
 * memory. */
static int clock_own_page(weiri_clocks *clocks, weiri_clock_page **page)
{
    weiri_clock_page *made = clocks->free_pages;
    if (*page && (*page)->refs == 1)
        return 1;
    if (made)
        clocks->free_pages = made->next;
    else
        made = clock_allocate(clocks, sizeof *made);
    if (!made)
        return 0;
    made->next = NULL;
    made->refs = 1;
    if (*page)
        memcpy(made->at, (*page)->at, sizeof made->at);
    else
        memset(made->at, 0, sizeof made->at);
    clock_drop_page(clocks, *page);
    *page = made;
    return 1;
}

/* Whether no component of a page, which may be NULL, is lower than the component of the other page.
 */
static int clock_page_covers(const weiri_clock_page *page, const weiri_clock_page *other)
{
    uint32_t lower = 0;
    if (!other || page == other)
        return 1;
    for (uint32_t i = 0; i < WEIRI_CLOCK_PAGE; i++)
        lower |= (page ? page->at[i] : 0) < other->at[i];
    return !lower;
}

/* ----------------------------------------------------------------------- clocks */

weiri_clock *weiri_clock_new(weiri_clocks *clocks)
{
    const size_t bytes = clock_pages(clocks) * sizeof(weiri_clock_page *);
    weiri_clock *made = clocks->free;
    if (made)
        clocks->free = made->next;
    else
        made = clock_allocate(clocks, sizeof *made + bytes);
    if (!made)
        return NULL;
    made->next = NULL;
    made->refs = 1;
    memset(made->pages, 0, bytes);
    return made;
}

void weiri_clock_drop(weiri_clocks *clocks, weiri_clock *clock)
{
    if (!clock || --clock->refs)
        return;
    for (uint32_t i = 0; i < clock_pages(clocks); i++)
        clock_drop_page(clocks, clock->pages[i]);
    clock->next = clocks->free;
    clocks->free = clock;
}

/* Makes a clock exclusive to the caller. 0: no memory. */
static int clock_make_exclusive(weiri_clocks *clocks, weiri_clock **clock)
{
    if ((*clock)->refs == 1)
        return 1;
    weiri_clock *copy = weiri_clock_new(clocks);
    if (!copy)
        return 0;
    for (uint32_t i = 0; i < clock_pages(clocks); i++) {
        copy->pages[i] = (*clock)->pages[i];
        if (copy->pages[i])
            copy->pages[i]->refs++;
    }
    weiri_clock_drop(clocks, *clock);
    *clock = copy;
    return 1;
}

static void clock_join_page(weiri_clocks *clocks, weiri_clock_page **page, weiri_clock_page *other)
{
    if (clock_page_covers(other, *page)) {
        clock_drop_page(clocks, *page);
        *page = other;
        other->refs++;
    } else if (clock_own_page(clocks, page)) {
        uint32_t *at = (*page)->at;
        for (uint32_t i = 0; i < WEIRI_CLOCK_PAGE; i++)
            at[i] = at[i] > other->at[i] ? at[i] : other->at[i];
    }
}

void weiri_clock_join(weiri_clocks *clocks, weiri_clock **clock, const weiri_clock *other)
{
    const uint32_t npages = clock_pages(clocks);
    for (uint32_t i = 0; i < npages && *clock != other; i++) {
        if (clock_page_covers((*clock)->pages[i], other->pages[i]))
            continue;
        if (!clock_make_exclusive(clocks, clock))
            return;
        clock_join_page(clocks, &(*clock)->pages[i], other->pages[i]);
    }
}

void weiri_clock_set(weiri_clocks *clocks, weiri_clock **clock, uint32_t chain, uint32_t at)
{
    if (clock_make_exclusive(clocks, clock) &&
        clock_own_page(clocks, &(*clock)->pages[chain / WEIRI_CLOCK_PAGE]))
        (*clock)->pages[chain / WEIRI_CLOCK_PAGE]->at[chain % WEIRI_CLOCK_PAGE] = at;
}

void weiri_clocks_free(weiri_clocks *clocks)
{
    while (clocks->made) {
        clock_made *next = ((clock_made *)clocks->made)->next;
        free(clocks->made);
        clocks->made = next;
    }
}
