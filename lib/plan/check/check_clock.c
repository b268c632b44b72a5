/* Vector clocks: reference-counted, copied on write, and recycled through a list of free ones. */
#include "plan/check/check.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (UINT64_C(512) << 20)

weiri_clock *weiri_clock_new(weiri_clocks *clocks)
{
    size_t bytes = clocks->nchains * sizeof(uint32_t);
    weiri_clock *made = clocks->free;
    if (made) {
        clocks->free = made->next;
    } else {
        if (clocks->bytes + bytes > BYTES_MAX) {
            clocks->failed = WEIR_ERR_UNSUPPORTED;
            return NULL;
        }
        made = malloc(sizeof *made + bytes);
        clocks->bytes += bytes;
    }
    if (!made) {
        clocks->failed = WEIR_ERR_NO_MEMORY;
        return NULL;
    }
    made->next = NULL;
    made->refs = 1;
    memset(made->at, 0, bytes);
    return made;
}

void weiri_clock_drop(weiri_clocks *clocks, weiri_clock *clock)
{
    if (!clock || --clock->refs)
        return;
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
    memcpy(copy->at, (*clock)->at, clocks->nchains * sizeof(uint32_t));
    weiri_clock_drop(clocks, *clock);
    *clock = copy;
    return 1;
}

void weiri_clock_join(weiri_clocks *clocks, weiri_clock **clock, const weiri_clock *other)
{
    uint32_t n = clocks->nchains, i = 0;
    while (i < n && (*clock)->at[i] >= other->at[i])
        i++;
    if (i == n || !clock_make_exclusive(clocks, clock))
        return;
    uint32_t *at = (*clock)->at;
    for (; i < n; i++)
        at[i] = at[i] > other->at[i] ? at[i] : other->at[i];
}

void weiri_clock_set(weiri_clocks *clocks, weiri_clock **clock, uint32_t chain, uint32_t at)
{
    if (clock_make_exclusive(clocks, clock))
        (*clock)->at[chain] = at;
}

void weiri_clocks_free(weiri_clocks *clocks)
{
    while (clocks->free) {
        weiri_clock *next = clocks->free->next;
        free(clocks->free);
        clocks->free = next;
    }
}
