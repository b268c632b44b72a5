/* Words of --algo, and the candidates of --tune. */
#include "bench/algos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = sizeof((bench_algo_word *)0)->name };

/* Grids to try, and how many bytes of a call's size a thread of them should have to
 * be worth it: packets are 8 bytes of data, and latency decides; the others move much
 * and must fill the links. The last grid of a list has no upper limit. */
typedef struct grid {
    int blocks, threads;
} grid;

static const grid packet_grids[] = {
    {1, 32},  {1, 64},   {1, 128}, {2, 64},   {4, 64},   {8, 64},    {16, 64},   {32, 64},
    {64, 64}, {64, 128}, {96, 64}, {96, 128}, {128, 64}, {128, 128}, {128, 256}, {128, 512}};
static const grid direct_grids[] = {{8, 256},  {16, 256}, {16, 512}, {32, 256},  {32, 512},
                                    {48, 512}, {64, 512}, {96, 512}, {128, 256}, {128, 512},
                                    {256, 256}};

enum {
    PACKET_LEAST = 2, /* bytes a thread */
    PACKET_MOST = 96,
    DIRECT_LEAST = 8,
    DIRECT_MOST = 1024,
    ENGINES_FROM_BYTES = 256 << 10,
};

typedef struct words {
    bench_algo_word *list;
    int count;
} words;

static void add(words *w, const char *name, size_t least, size_t most)
{
    if (w->count < 0 || w->count == BENCH_CONTENDERS_MAX) {
        w->count = -1;
        return;
    }
    bench_algo_word *word = &w->list[w->count++];
    snprintf(word->name, sizeof word->name, "%s", name);
    word->least_bytes = least;
    word->most_bytes = most;
}

static void add_grids(words *w, const char *name)
{
    int packets = strncmp(name, "packet", 6) == 0 || strncmp(name, "ll128", 5) == 0;
    const grid *grids = packets ? packet_grids : direct_grids;
    size_t count = packets ? sizeof packet_grids / sizeof *packet_grids
                           : sizeof direct_grids / sizeof *direct_grids;
    for (size_t i = 0; i < count; i++) {
        size_t threads = (size_t)grids[i].blocks * (size_t)grids[i].threads;
        size_t least = i ? threads * (packets ? PACKET_LEAST : DIRECT_LEAST) : 0;
        size_t most = i + 1 < count ? threads * (packets ? PACKET_MOST : DIRECT_MOST) : 0;
        char text[WORD_BYTES];
        snprintf(text, sizeof text, "%.15s:%dx%d", name, grids[i].blocks, grids[i].threads);
        add(w, text, least, most);
    }
}

/* Every algorithm of the collective; for the tuner with its grids too. */
static void add_all(words *w, weir_collective collective, const char *backend, int nranks,
                    int tunes)
{
    size_t count = 0;
    const weir_algo_info *table = weir_algo_list(&count);
    int on_gpus = strcmp(backend, "cuda") == 0;
    for (size_t i = 0; i < count; i++) {
        const weir_algo_info *row = &table[i];
        if (row->collective != collective || nranks < row->min_ranks || nranks > row->max_ranks ||
            strcmp(row->backend, backend) != 0)
            continue;
        int engines = on_gpus && strcmp(row->name, "ce") == 0;
        add(w, row->name, tunes && engines ? ENGINES_FROM_BYTES : 0, 0);
        if (tunes && on_gpus && !engines)
            add_grids(w, row->name);
    }
}

/* The next word of a list; the rest of the list, NULL at its end. */
static const char *next_word(const char *list, char *word)
{
    size_t length = strcspn(list, ",");
    snprintf(word, WORD_BYTES, "%.*s", (int)(length < WORD_BYTES ? length : WORD_BYTES - 1), list);
    return list[length] ? list + length + 1 : NULL;
}

int bench_algos_list(const bench_options *options, weir_collective collective, const char *backend,
                     int nranks, bench_algo_word *list)
{
    words w = {list, 0};
    if (options->tune_path) {
        add(&w, "auto", 0, 0);
        add_all(&w, collective, backend, nranks, 1);
        return w.count;
    }
    char word[WORD_BYTES];
    for (const char *rest = options->algo; rest;) {
        rest = next_word(rest, word);
        if (strcmp(word, "all") == 0) {
            add(&w, "auto", 0, 0);
            add_all(&w, collective, backend, nranks, 0);
        } else {
            add(&w, word, 0, 0);
        }
    }
    return w.count;
}

static int is_grid(const char *text)
{
    int blocks, threads;
    char extra;
    return sscanf(text, ":%dx%d%c", &blocks, &threads, &extra) == 2 && blocks > 0 && threads > 0;
}

static int is_word(const char *word, weir_collective collective)
{
    size_t count = 0, length = strcspn(word, ":");
    const weir_algo_info *table = weir_algo_list(&count);
    if (strcmp(word, "auto") == 0 || strcmp(word, "all") == 0)
        return 1;
    for (size_t i = 0; i < count; i++)
        if (table[i].collective == collective && strlen(table[i].name) == length &&
            strncmp(table[i].name, word, length) == 0)
            return !word[length] || is_grid(word + length);
    return 0;
}

int bench_algos_check(const char *list, weir_collective collective, char *bad)
{
    for (const char *rest = list; rest;) {
        rest = next_word(rest, bad);
        if (!is_word(bad, collective))
            return -1;
    }
    return 0;
}
