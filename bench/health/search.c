/* The search for one slow node or link: see search.h. */
#include "bench/health/search.h"

#include <stdlib.h>
#include <string.h>

int search_begin(fleet_search *search, int n)
{
    *search = (fleet_search){.n = n, .na = n, .nodes = {-1, -1}};
    search->a = calloc((size_t)n, sizeof *search->a);
    search->b = calloc((size_t)n, sizeof *search->b);
    search->space = calloc((size_t)n + 4, sizeof *search->space);
    if (!search->a || !search->b || !search->space) {
        search_end(search);
        return -1;
    }
    for (int i = 0; i < n; i++)
        search->a[i] = i;
    return 0;
}

void search_end(fleet_search *search)
{
    free(search->a);
    free(search->b);
    free(search->space);
    search->a = search->b = search->space = NULL;
}

static void search_found(fleet_search *search, int node, int other)
{
    search->nodes[0] = node;
    search->nodes[1] = other;
    search->state = SEARCH_DONE;
}

/* Appends nodes to a group, whose memory follows that of the group before. */
static void search_put(fleet_group *group, const int *nodes, int count)
{
    memcpy(group->nodes + group->count, nodes, (size_t)count * sizeof *nodes);
    group->count += count;
}

/* A node that is not suspected, other than `not`; -1: there is none. */
static int search_good(const fleet_search *search, int not )
{
    for (int node = 0; node < search->n; node++) {
        int is_suspect = node == not ;
        for (int i = 0; i < search->na; i++)
            is_suspect |= search->a[i] == node;
        for (int i = 0; i < search->nb; i++)
            is_suspect |= search->b[i] == node;
        if (!is_suspect)
            return node;
    }
    return -1;
}

/* ----------------------------------------------------------- few nodes */

/* Two or three nodes: every pair is tested, and `step` counts the pairs; is_slow has a bit for
 * each. */
static const int few_pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}};

static int search_few_next(fleet_search *search, fleet_group groups[2])
{
    search_put(&groups[0], few_pairs[search->step], 2);
    return 1;
}

static void search_few_tell(fleet_search *search, int is_slow)
{
    static const int shared[8] = {[3] = 0, [5] = 1, [6] = 2}; /* the node of two slow pairs */
    search->is_slow |= (is_slow != 0) << search->step;
    if (++search->step < (search->n == 2 ? 1 : 3))
        return;
    const int slow = search->is_slow;
    search->state = SEARCH_DONE;
    for (int i = 0; i < 3; i++)
        if (slow == 1 << i)
            search_found(search, few_pairs[i][0], few_pairs[i][1]);
    if (slow == 3 || slow == 5 || slow == 6)
        search_found(search, shared[slow], -1);
}

/* ------------------------------------------------------------- within a set */

/* Halves of at least two nodes. Of three nodes the third is tested with a good one. */
static int search_split_next(fleet_search *search, fleet_group groups[2])
{
    const int half = (search->na + 1) / 2;
    search_put(&groups[0], search->a, half);
    groups[1].nodes = groups[0].nodes + groups[0].count;
    search_put(&groups[1], search->a + half, search->na - half);
    if (groups[1].count == 1) {
        const int good = search_good(search, -1);
        search_put(&groups[1], &good, 1);
    }
    return 2;
}

static void search_split_tell(fleet_search *search, const int slow[2])
{
    const int half = (search->na + 1) / 2, rest = search->na - half;
    if (slow[0] || slow[1])
        search->is_slow = 1;
    if (slow[0]) {
        search->na = half;
    } else if (slow[1] && rest == 1) {
        search_found(search, search->a[half], -1);
    } else if (slow[1]) {
        memmove(search->a, search->a + half, (size_t)rest * sizeof *search->a);
        search->na = rest;
    } else {
        memcpy(search->b, search->a + half, (size_t)rest * sizeof *search->b);
        search->na = half;
        search->nb = rest;
        search->state = SEARCH_CROSS;
    }
    if (search->state == SEARCH_SPLIT && search->na == 2)
        search->state = SEARCH_ENDS;
}

static int search_ends_next(fleet_search *search, fleet_group groups[2])
{
    const int good = search_good(search, -1), other = search_good(search, good);
    search_put(&groups[0], &search->a[0], 1);
    search_put(&groups[0], &good, 1);
    groups[1].nodes = groups[0].nodes + 2;
    search_put(&groups[1], &search->a[1], 1);
    search_put(&groups[1], &other, 1);
    return 2;
}

static void search_ends_tell(fleet_search *search, const int slow[2])
{
    if (slow[0] || slow[1])
        search_found(search, search->a[slow[0] ? 0 : 1], -1);
    else
        search_found(search, search->a[0], search->a[1]);
}

/* ---------------------------------------------------------- between two sets */

/* The part of a set that group g tests: in the second step the halves of b are exchanged. A set of
 * one node is in both groups, so they are tested in two steps. */
static void search_part(const fleet_search *search, int is_b, int g, int *first, int *count)
{
    const int n = is_b ? search->nb : search->na;
    const int half = (n + 1) / 2;
    const int is_second = is_b && search->state == SEARCH_CROSS2 ? 1 - g : g;
    *first = n == 1 ? 0 : is_second ? half : 0;
    *count = n == 1 ? 1 : is_second ? n - half : half;
}

static int search_cross_groups(const fleet_search *search)
{
    return search->na > 1 && search->nb > 1 ? 2 : 1;
}

static int search_cross_next(fleet_search *search, fleet_group groups[2])
{
    const int count = search_cross_groups(search);
    for (int g = 0; g < count; g++) {
        if (g)
            groups[g].nodes = groups[g - 1].nodes + groups[g - 1].count;
        for (int is_b = 0; is_b < 2; is_b++) {
            int first, part;
            search_part(search, is_b, g, &first, &part);
            search_put(&groups[g], (is_b ? search->b : search->a) + first, part);
        }
    }
    return count;
}

/* Keeps the parts that group g tested. */
static void search_keep(fleet_search *search, int g)
{
    for (int is_b = 0; is_b < 2; is_b++) {
        int first, part, *nodes = is_b ? search->b : search->a;
        search_part(search, is_b, g, &first, &part);
        memmove(nodes, nodes + first, (size_t)part * sizeof *nodes);
        *(is_b ? &search->nb : &search->na) = part;
    }
    search->is_slow = 1;
    search->state = SEARCH_CROSS;
    if (search->na == 1 && search->nb == 1)
        search_found(search, search->a[0], search->b[0]);
}

static void search_cross_tell(fleet_search *search, const int slow[2])
{
    const int count = search_cross_groups(search);
    const int is_pair = search->na == 1 && search->nb == 1;
    for (int g = 0; g < count; g++)
        if (slow[g]) {
            search_keep(search, g);
            return;
        }
    if (search->state == SEARCH_CROSS2 || is_pair) {
        search->state = SEARCH_DONE;
        return;
    }
    search->state = SEARCH_CROSS2;
    /* A single node that is slow with one half is fast with the other half: no test is needed. */
    if (count == 1 && search->is_slow) {
        if (search->nb == 1) { /* the halves of a are not exchanged */
            const int half = (search->na + 1) / 2;
            memmove(search->a, search->a + half, (size_t)(search->na - half) * sizeof *search->a);
            search->na -= half;
            search->state = SEARCH_CROSS;
            if (search->na == 1)
                search_found(search, search->a[0], search->b[0]);
        } else {
            search_keep(search, 0);
        }
    }
}

/* ---------------------------------------------------------------- the search */

int search_next(fleet_search *search, fleet_group groups[2])
{
    if (search->state == SEARCH_DONE)
        return 0;
    groups[0] = groups[1] = (fleet_group){.nodes = search->space};
    search->rounds++;
    if (search->n < 4)
        return search_few_next(search, groups);
    switch (search->state) {
    case SEARCH_SPLIT:
        return search_split_next(search, groups);
    case SEARCH_ENDS:
        return search_ends_next(search, groups);
    default:
        return search_cross_next(search, groups);
    }
}

void search_tell(fleet_search *search, const int slow[2])
{
    if (search->n < 4)
        search_few_tell(search, slow[0]);
    else if (search->state == SEARCH_SPLIT)
        search_split_tell(search, slow);
    else if (search->state == SEARCH_ENDS)
        search_ends_tell(search, slow);
    else
        search_cross_tell(search, slow);
}
