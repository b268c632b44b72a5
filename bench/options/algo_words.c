/* The words of --algo, and the algorithms that --tune tries: see algo_words.h. */
#include "bench/options/algo_words.h"

#include "base/env.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES = sizeof((bench_algo_word *)0)->name };

/* Grids that --tune tries, and the bytes of a call's size per thread at which a grid is worth
 * trying. Packet kernels move 8 bytes of data per packet and are bound by latency; the others move
 * large amounts and must keep the links busy. The last grid of a list has no upper limit. */
typedef struct grid {
    int blocks, threads;
} grid;

static const grid packet_grids[] = {
    {1, 32},  {1, 64},   {1, 128}, {2, 64},   {4, 64},   {8, 64},    {16, 64},   {32, 64},
    {64, 64}, {64, 128}, {96, 64}, {96, 128}, {128, 64}, {128, 128}, {128, 256}, {128, 512}};
static const grid direct_grids[] = {{8, 256},   {16, 256},  {16, 512}, {32, 256},
                                    {32, 512},  {48, 512},  {64, 512}, {96, 512},
                                    {128, 256}, {128, 512}, {256, 256}};

enum {
    PACKET_LEAST = 2, /* bytes per thread */
    PACKET_MOST = 96,
    DIRECT_LEAST = 8,
    DIRECT_MOST = 1024,
    ENGINES_FROM_BYTES = 256 << 10,
};

typedef struct words {
    bench_algo_word *list;
    int count;
} words;

static void add_algorithm(words *w, const char *name, size_t least, size_t most)
{
    if (w->count < 0 || w->count == BENCH_CANDIDATES_MAX) {
        w->count = -1;
        return;
    }
    bench_algo_word *word = &w->list[w->count++];
    snprintf(word->name, sizeof word->name, "%s", name);
    word->file = NULL;
    word->file_bytes = 0;
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
        add_algorithm(w, text, least, most);
    }
}

/* Whether these ranks' communicator refuses an algorithm because it is invariant: by --invariant,
 * which has set the variable, or by the variable. */
static int is_out_of_order(const weir_algo_info *row, int nranks)
{
    const char *invariant = weiri_env(WEIRI_ENV_INVARIANT);
    return invariant && strcmp(invariant, "1") == 0 && row->in_order &&
           (nranks > 2 || row->backend == WEIR_ALGO_INTERNODE);
}

/* Adds every algorithm of the collective; with tunes, each GPU algorithm with its grids too. */
static void add_all(words *w, weir_collective collective, const char *backend, int nranks,
                    int tunes)
{
    size_t count = 0;
    const weir_algo_info *table = weir_algo_list(&count);
    int on_gpus = strcmp(backend, "cuda") == 0;
    for (size_t i = 0; i < count; i++) {
        const weir_algo_info *row = &table[i];
        if (row->collective != collective || nranks < row->min_ranks || nranks > row->max_ranks ||
            strcmp(weir_algo_backend_name(row->backend), backend) != 0 ||
            is_out_of_order(row, nranks))
            continue;
        int engines = on_gpus && strcmp(row->name, "ce") == 0;
        add_algorithm(w, row->name, tunes && engines ? ENGINES_FROM_BYTES : 0, 0);
        if (tunes && on_gpus && !engines)
            add_grids(w, row->name);
    }
}

/* ------------------------------------------------------------ words of --algo */

static int is_name_byte(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

/* 1 if the word is FILE:KERNEL or FILE:KERNEL:16x64, where the file has a / or ends in .cu or .c;
 * file_bytes is then the length of the file name. */
static int is_file_word(const char *word, size_t length, size_t *file_bytes)
{
    size_t at = length, digits = length;
    while (digits && (isdigit((unsigned char)word[digits - 1]) || word[digits - 1] == 'x'))
        digits--;
    if (digits && digits < length && word[digits - 1] == ':' &&
        isdigit((unsigned char)word[digits]))
        at = digits - 1;
    while (at && is_name_byte(word[at - 1]))
        at--;
    if (at < 2 || word[at - 1] != ':')
        return 0;
    *file_bytes = at - 1;
    return memchr(word, '/', *file_bytes) != NULL ||
           (at > 3 && memcmp(word + at - 3, ".c", 2) == 0) ||
           (at > 4 && memcmp(word + at - 4, ".cu", 3) == 0);
}

static int is_readable(const char *name, size_t length)
{
    char path[4096];
    if (length >= sizeof path)
        return 0;
    memcpy(path, name, length);
    path[length] = '\0';
    return access(path, R_OK) == 0;
}

/* The length of a list's first word: up to a comma, unless the whole list names one file. */
static size_t word_length(const char *list)
{
    size_t all = strlen(list), file_bytes;
    if (is_file_word(list, all, &file_bytes) && is_readable(list, file_bytes))
        return all;
    return strcspn(list, ",");
}

static const char *after_word(const char *list, size_t length)
{
    return list[length] ? list + length + 1 : NULL;
}

size_t bench_algo_grid(const char *name, int *blocks, int *threads)
{
    const char *colon = strchr(name, ':');
    *blocks = *threads = 0;
    if (colon)
        sscanf(colon, ":%dx%d", blocks, threads);
    return colon ? (size_t)(colon - name) : strlen(name);
}

/* Adds a word of --algo as it is written; the caller expands "all". */
static void add_word(words *w, const char *text, size_t length)
{
    char name[WORD_BYTES];
    size_t file_bytes = 0;
    int is_file = is_file_word(text, length, &file_bytes);
    const char *from = is_file ? text + file_bytes + 1 : text;
    length -= is_file ? file_bytes + 1 : 0;
    snprintf(name, sizeof name, "%.*s", (int)(length < WORD_BYTES ? length : WORD_BYTES - 1), from);
    add_algorithm(w, name, 0, 0);
    if (is_file && w->count > 0) {
        w->list[w->count - 1].file = text;
        w->list[w->count - 1].file_bytes = file_bytes;
    }
}

int bench_algos_list(const bench_options *options, weir_collective collective, const char *backend,
                     int nranks, bench_algo_word *list)
{
    words w = {list, 0};
    if (options->tune_path) {
        add_algorithm(&w, "auto", 0, 0);
        add_all(&w, collective, backend, nranks, 1);
        return w.count;
    }
    for (const char *rest = bench_options_plan_only(options) ? NULL : options->algo; rest;) {
        const size_t length = word_length(rest);
        if (length == 3 && memcmp(rest, "all", 3) == 0) {
            add_algorithm(&w, "auto", 0, 0);
            add_all(&w, collective, backend, nranks, 0);
        } else {
            add_word(&w, rest, length);
        }
        rest = after_word(rest, length);
    }
    return w.count;
}

/* ------------------------------------------------------------------- checks */

static int is_grid(const char *text)
{
    enum { DIGITS_MAX = 7 };
    static const char digits[] = "0123456789";
    int blocks, threads;
    const size_t first = strspn(text + 1, digits);
    if (first == 0 || first > DIGITS_MAX || text[1 + first] != 'x')
        return 0;
    const char *second = text + 1 + first + 1;
    const size_t last = strspn(second, digits);
    return last > 0 && last <= DIGITS_MAX && !second[last] &&
           bench_algo_grid(text, &blocks, &threads) == 0 && blocks > 0 && threads > 0;
}

static int is_builtin(const char *word, weir_collective collective)
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

typedef struct names {
    const char *list[BENCH_CANDIDATES_MAX];
    int count;
} names;

/* Adds a collective's algorithms of one backend, without names that are already in the list. */
static void collect_names(names *known, weir_collective collective, weir_algo_backend backend)
{
    size_t count = 0;
    const weir_algo_info *table = weir_algo_list(&count);
    for (size_t i = 0; i < count; i++) {
        int fits = table[i].collective == collective && table[i].backend == backend;
        for (int j = 0; j < known->count && fits; j++)
            fits = strcmp(known->list[j], table[i].name) != 0;
        if (fits && known->count < BENCH_CANDIDATES_MAX)
            known->list[known->count++] = table[i].name;
    }
}

/* Writes that the word is unknown, and the algorithms that are known. The number of nodes is not
 * known yet, so algorithms that work only across nodes are listed apart. */
static int refuse_builtin(const char *word, weir_collective collective, int backend, char *bad,
                          size_t bytes)
{
    names known = {.count = 0};
    if (backend != BENCH_BACKEND_CUDA)
        collect_names(&known, collective, WEIR_ALGO_HOST);
    if (backend != BENCH_BACKEND_HOST)
        collect_names(&known, collective, WEIR_ALGO_CUDA);
    const int on_one = known.count;
    collect_names(&known, collective, WEIR_ALGO_INTERNODE);
    size_t used = (size_t)snprintf(bad, bytes, "%s: unknown for %s; known: auto, all", word,
                                   weir_collective_name(collective));
    for (int i = 0; i < known.count && used < bytes; i++)
        used += (size_t)snprintf(bad + used, bytes - used, "%s%s",
                                 i == on_one ? "; only across nodes: " : ", ", known.list[i]);
    if (used < bytes)
        snprintf(bad + used, bytes - used, "; or a kernel's FILE.cu:NAME");
    return -1;
}

static int check_file_word(const char *word, size_t length, size_t file_bytes, char *bad,
                           size_t bytes)
{
    const char *name = word + file_bytes + 1;
    size_t name_bytes = length - file_bytes - 1, kernel_bytes = 0;
    while (kernel_bytes < name_bytes && is_name_byte(name[kernel_bytes]))
        kernel_bytes++;
    const char *problem = NULL;
    if (kernel_bytes == 0 || isdigit((unsigned char)*name))
        problem = "expected FILE:NAME, the name of a kernel in it";
    else if (name_bytes >= WORD_BYTES)
        problem = "names of kernels have at most 31 characters, a grid with them";
    else if (!is_readable(word, file_bytes))
        problem = strerror(errno);
    if (!problem)
        return 0;
    snprintf(bad, bytes, "%.*s: %s", (int)length, word, problem);
    return -1;
}

static int is_all(const bench_algo_word *word)
{
    return !word->file && strcmp(word->name, "all") == 0;
}

/* 1 if rows of both words would have the same name; "all" covers every built-in algorithm. */
static int is_double(const bench_algo_word *a, const bench_algo_word *b, weir_collective collective)
{
    if (is_all(a) != is_all(b)) {
        const char *name = is_all(a) ? b->name : a->name;
        return !strchr(name, ':') && is_builtin(name, collective);
    }
    return strcmp(a->name, b->name) == 0;
}

static int check_doubles(const char *list, weir_collective collective, char *bad, size_t bytes)
{
    bench_algo_word named[BENCH_CANDIDATES_MAX];
    words w = {named, 0};
    for (const char *rest = list; rest;) {
        const size_t length = word_length(rest);
        add_word(&w, rest, length);
        for (int i = 0; i + 1 < w.count; i++)
            if (is_double(&named[i], &named[w.count - 1], collective)) {
                snprintf(bad, bytes, "%.80s%s: %s and %s have rows of the same name; leave one out",
                         list, strlen(list) > 80 ? "..." : "", named[i].name,
                         named[w.count - 1].name);
                return -1;
            }
        rest = after_word(rest, length);
    }
    return 0;
}

int bench_algos_check(const bench_options *options, weir_collective collective, char *bad,
                      size_t bytes)
{
    for (const char *rest = options->algo; rest;) {
        const size_t length = word_length(rest);
        size_t file_bytes = 0;
        char word[WORD_BYTES];
        snprintf(word, sizeof word, "%.*s", (int)(length < WORD_BYTES ? length : WORD_BYTES - 1),
                 rest);
        if (is_file_word(rest, length, &file_bytes)) {
            if (check_file_word(rest, length, file_bytes, bad, bytes))
                return -1;
        } else if (!is_builtin(word, collective)) {
            return refuse_builtin(word, collective, options->backend, bad, bytes);
        }
        rest = after_word(rest, length);
    }
    return check_doubles(options->algo, collective, bad, bytes);
}

int bench_algo_words_next(const char **rest, bench_algo_word *word)
{
    if (!*rest)
        return 0;
    words w = {word, 0};
    const size_t length = word_length(*rest);
    add_word(&w, *rest, length);
    *rest = after_word(*rest, length);
    return 1;
}
