/* Patterns of sendrecv: see pattern.h. */
#include "bench/sizes/pattern.h"

#include <stdio.h>
#include <string.h>

static const char *const names[BENCH_PATTERNS] = {
    [BENCH_PATTERN_RING] = "ring",     [BENCH_PATTERN_PINGPONG] = "pingpong",
    [BENCH_PATTERN_ONEWAY] = "oneway", [BENCH_PATTERN_BOTHWAYS] = "bothways",
    [BENCH_PATTERN_SHIFT] = "shift",   [BENCH_PATTERN_BISECTION] = "bisection",
};

const char *bench_pattern_kind_name(bench_pattern_kind kind)
{
    return names[kind];
}

/* Takes the next word of a list; BENCH_PATTERNS if it is no kind. */
static bench_pattern_kind next_kind(const char **list)
{
    const size_t length = strcspn(*list, ",");
    int kind = 0;
    while (kind < BENCH_PATTERNS &&
           (strlen(names[kind]) != length || memcmp(names[kind], *list, length) != 0))
        kind++;
    *list += length;
    return (bench_pattern_kind)kind;
}

/* Whether there is another word, which *list then points to. */
static int has_more(const char **list)
{
    *list += **list == ',';
    return **list != '\0';
}

int bench_patterns_are_known(const char *list)
{
    do {
        if (next_kind(&list) == BENCH_PATTERNS)
            return 0;
        if (list[0] == ',' && !list[1])
            return 0;
    } while (has_more(&list));
    return 1;
}

static int count_of(bench_pattern_kind kind, int nranks)
{
    const int pairs = nranks * (nranks - 1) / 2;
    switch (kind) {
    case BENCH_PATTERN_RING:
        return 1;
    case BENCH_PATTERN_ONEWAY:
        return 2 * pairs;
    case BENCH_PATTERN_PINGPONG:
    case BENCH_PATTERN_BOTHWAYS:
        return pairs;
    case BENCH_PATTERN_SHIFT:
        return nranks - 1;
    default:
        return nranks > 1;
    }
}

int bench_patterns_count(const char *list, int nranks)
{
    int count = 0;
    do
        count += count_of(next_kind(&list), nranks);
    while (has_more(&list));
    return count;
}

/* The pair of that index among the unordered pairs, or the ordered ones. */
static void find_pair(bench_pattern *pattern, int nranks, int index)
{
    const int is_ordered = pattern->kind == BENCH_PATTERN_ONEWAY;
    for (int a = 0; a < nranks; a++)
        for (int b = is_ordered ? 0 : a + 1; b < nranks; b++)
            if (a != b && index-- == 0) {
                pattern->first = a;
                pattern->second = b;
            }
}

static void name_pattern(bench_pattern *pattern)
{
    const char *kind = names[pattern->kind];
    if (pattern->kind == BENCH_PATTERN_RING || pattern->kind == BENCH_PATTERN_BISECTION)
        snprintf(pattern->name, sizeof pattern->name, "%s", kind);
    else if (pattern->kind == BENCH_PATTERN_SHIFT)
        snprintf(pattern->name, sizeof pattern->name, "%s:%d", kind, pattern->first);
    else
        snprintf(pattern->name, sizeof pattern->name, "%s:%d-%d", kind, pattern->first,
                 pattern->second);
}

bench_pattern bench_pattern_at(const char *list, int nranks, int index)
{
    bench_pattern pattern = {.kind = BENCH_PATTERN_RING};
    do {
        pattern.kind = next_kind(&list);
        const int count = count_of(pattern.kind, nranks);
        if (index < count)
            break;
        index -= count;
    } while (has_more(&list));
    if (pattern.kind == BENCH_PATTERN_SHIFT)
        pattern.first = index + 1;
    else
        find_pair(&pattern, nranks, index);
    name_pattern(&pattern);
    return pattern;
}

/* The peer of a rank that both sends to it and receives from it; -1: none. */
static int partner(const bench_pattern *pattern, int rank, int nranks)
{
    const int half = nranks / 2;
    if (pattern->kind == BENCH_PATTERN_BISECTION)
        return rank < half ? rank + half : rank < 2 * half ? rank - half : -1;
    return rank == pattern->first ? pattern->second : rank == pattern->second ? pattern->first : -1;
}

int bench_pattern_destination(const bench_pattern *pattern, int rank, int nranks)
{
    switch (pattern->kind) {
    case BENCH_PATTERN_RING:
        return (rank + 1) % nranks;
    case BENCH_PATTERN_SHIFT:
        return (rank + pattern->first) % nranks;
    case BENCH_PATTERN_ONEWAY:
        return rank == pattern->first ? pattern->second : -1;
    default:
        return partner(pattern, rank, nranks);
    }
}

int bench_pattern_source(const bench_pattern *pattern, int rank, int nranks)
{
    switch (pattern->kind) {
    case BENCH_PATTERN_RING:
        return (rank + nranks - 1) % nranks;
    case BENCH_PATTERN_SHIFT:
        return (rank + nranks - pattern->first) % nranks;
    case BENCH_PATTERN_ONEWAY:
        return rank == pattern->second ? pattern->first : -1;
    default:
        return partner(pattern, rank, nranks);
    }
}

int bench_pattern_has_all(const bench_pattern *pattern, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (bench_pattern_source(pattern, rank, nranks) < 0 ||
            bench_pattern_destination(pattern, rank, nranks) < 0)
            return 0;
    return 1;
}
