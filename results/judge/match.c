/*
 * Which rows of two sets belong together. Rows with the same key measure the same thing; rows with
 * the same key and different run ids are runs of it. If one run measures several algorithms for a
 * key, the algorithm becomes a part of the key. Sides with different candidates (a log of nccl-
 * tests and weir's CSV) are matched without the columns that only one tool states.
 */
#include "results/judge/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *key; /* without the algorithm, which is added later if necessary */
    const results_row *row;
    int is_b;
    int is_beside; /* B's wrong row of a candidate that is not compared */
    size_t at;     /* index in its set: the order of runs */
} entry;

typedef struct matching {
    results_set *a, *b;
    const results_rules *rules;
    results_comparison *made;
    entry *entries;
    size_t count;
    int by_host;
    int relaxed;       /* rows of another tool: without the columns that only weir states */
    int by_backend;    /* every row states its memory */
    int by_conditions; /* every row states its buffers, mode and graph: schema 6 and newer */
} matching;

static int has_contender(const results_set *set, const char *wanted)
{
    for (size_t i = 0; i < set->count; i++)
        if (results_is_contender(wanted, &set->rows[i]))
            return 1;
    return 0;
}

/* The candidate to use of a side: weir, or the only one. */
static int sole_contender(const results_set *set, char *name, size_t bytes)
{
    name[0] = '\0';
    if (has_contender(set, "weir")) {
        snprintf(name, bytes, "weir");
        return 0;
    }
    for (size_t i = 0; i < set->count; i++) {
        char key[300];
        results_contender_key(set->rows[i].text[RESULTS_CONTENDER], key, sizeof key);
        if (!name[0])
            snprintf(name, bytes, "%.63s", key);
        else if (strcmp(name, key) != 0)
            return -1;
    }
    return 0;
}

/* Whether none of the rows is weir's. */
static int is_foreign(const results_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (results_is_own(set->rows[i].origin))
            return 0;
    return 1;
}

/* Whether the sides have a candidate in common that a comparison without options concerns. Another
 * tool's log is compared with weir, not with the peers that weir's benchmark measured too. */
static int has_common(const matching *m)
{
    if (is_foreign(m->a) != is_foreign(m->b))
        return 0;
    for (size_t i = 0; i < m->a->count; i++) {
        char key[300];
        results_contender_key(m->a->rows[i].text[RESULTS_CONTENDER], key, sizeof key);
        if (has_contender(m->b, key))
            return 1;
    }
    return 0;
}

static int choose_contenders(matching *m)
{
    results_comparison *made = m->made;
    const results_rules *rules = m->rules;
    if (m->a->count == 0 || m->b->count == 0)
        return 0;
    if (!rules->contender_a && !rules->contender_b && has_common(m))
        return 0;
    snprintf(made->contender_a, sizeof made->contender_a, "%s",
             rules->contender_a ? rules->contender_a : "");
    snprintf(made->contender_b, sizeof made->contender_b, "%s",
             rules->contender_b ? rules->contender_b : "");
    if ((!rules->contender_a &&
         sole_contender(m->a, made->contender_a, sizeof made->contender_a) != 0) ||
        (!rules->contender_b &&
         sole_contender(m->b, made->contender_b, sizeof made->contender_b) != 0)) {
        results_note(m->b, "weir-compare", 0,
                     "A and B have no candidate in common, and one of "
                     "them has several; name them with --contender-a and --contender-b");
        return -1;
    }
    made->cross = strcmp(made->contender_a, made->contender_b) != 0;
    return 0;
}

static void side_hosts(const results_set *set, char *hosts, size_t bytes, int *several)
{
    hosts[0] = '\0';
    for (size_t i = 0; i < set->count; i++) {
        const char *host = set->rows[i].text[RESULTS_HOST];
        if (!hosts[0]) {
            snprintf(hosts, bytes, "%s", host);
        } else if (host[0] && strncmp(hosts, host, bytes - 1) != 0) {
            snprintf(hosts, bytes, "several");
            *several = 1;
            return;
        }
    }
}

/* For data movement measured by other tools the data type is not significant. */
static const char *dtype_key(const matching *m, const results_row *row)
{
    return m->relaxed && strstr(row->text[RESULTS_COLLECTIVE], "reduce") == NULL
               ? "any"
               : row->text[RESULTS_DTYPE];
}

/* Schemas before the fourth had one distribution and no column for it. */
static const char *dist_key(const results_row *row)
{
    int unsaid =
        !row->text[RESULTS_DIST][0] && strcmp(row->text[RESULTS_COLLECTIVE], "alltoallv") == 0;
    return unsaid ? "spread:1" : row->text[RESULTS_DIST];
}

static const char *counts_key(const matching *m, const results_row *row)
{
    const char *counts = row->text[RESULTS_COUNTS];
    return m->relaxed || strcmp(counts, "host") == 0 ? "" : counts;
}

static int has_foreign(const results_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->rows[i].origin != RESULTS_OWN_CSV && set->rows[i].origin != RESULTS_OWN_ROWS)
            return 1;
    return 0;
}

/* Whether every row of a side has a value in that column. */
static int states(const results_set *set, results_column column)
{
    for (size_t i = 0; i < set->count; i++)
        if (!set->rows[i].text[column][0])
            return 0;
    return 1;
}

/* Whether the time is the processor's, and of how many groups: such rows fit their own kind only.
 */
static const char *kind_key(const results_row *row)
{
    const char *contender = row->text[RESULTS_CONTENDER];
    const char *detail = strchr(contender, ':') ? strrchr(contender, ':') + 1 : "";
    return strncmp(detail, "cputime", 7) == 0 || strstr(detail, "-groups") ? detail : "";
}

/* What makes times of the same call other times: the buffers, how operations follow each other, and
 * the launches of graphs, on which only "whether" depends. */
static const char *conditions_key(const matching *m, const results_row *row)
{
    if (!m->by_conditions)
        return "";
    return results_keep_printed(m->b, "%.20s/%.20s/%s", row->text[RESULTS_BUFFERS],
                                row->text[RESULTS_MODE],
                                strcmp(row->text[RESULTS_GRAPH], "0") == 0 ? "" : "graph");
}

/* Makes the key. Numbers have a fixed width, so that keys sort in the order of the table. */
static const char *make_key(const matching *m, const results_row *row)
{
    int relaxed = m->relaxed;
    return results_keep_printed(
        m->b, "%s|%.60s|%s|%s|%06d|%04d|%06d|%s|%s|%s|%s|%.40s|%s|%.20s/%.10s|%.30s|%020llu",
        row->text[RESULTS_COLLECTIVE], m->by_host ? row->text[RESULTS_HOST] : "", dtype_key(m, row),
        row->text[RESULTS_REDOP], row->nranks, relaxed ? 0 : row->nnodes, row->root + 1,
        row->text[RESULTS_PLACEMENT], m->by_backend ? row->text[RESULTS_BACKEND] : "",
        dist_key(row), counts_key(m, row), kind_key(row), conditions_key(m, row),
        row->text[RESULTS_SPLIT], row->text[RESULTS_GROUP], row->text[RESULTS_SMS_BUDGET],
        row->bytes);
}

static void add_entries(matching *m, results_set *set, int is_b)
{
    const char *wanted = is_b ? m->made->contender_b : m->made->contender_a;
    for (size_t i = 0; i < set->count; i++) {
        const results_row *row = &set->rows[i];
        char contender[300];
        int is_compared = results_is_contender(wanted, row);
        if (!is_compared && !(is_b && row->failed && !m->rules->contender_b))
            continue;
        results_contender_key(row->text[RESULTS_CONTENDER], contender, sizeof contender);
        const char *key = make_key(m, row);
        if (!m->made->cross || !is_compared)
            key = results_keep_printed(m->b, "%s|%.200s", key, contender);
        m->entries[m->count++] =
            (entry){.key = key, .row = row, .is_b = is_b, .is_beside = !is_compared, .at = i};
    }
}

/* Sorts by key, side, run, and then in the order of reading. */
static int by_key_and_run(const void *first, const void *second)
{
    const entry *a = first, *b = second;
    int order = strcmp(a->key, b->key);
    if (order == 0)
        order = a->is_b - b->is_b;
    if (order == 0)
        order = a->row->round - b->row->round;
    if (order == 0)
        order = strcmp(a->row->text[RESULTS_RUN_ID], b->row->text[RESULTS_RUN_ID]);
    if (order == 0) /* a printed table has no intervals */
        order = (a->row->origin == RESULTS_OWN_OUTPUT) - (b->row->origin == RESULTS_OWN_OUTPUT);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

static int same_run(const entry *a, const entry *b)
{
    return a->is_b == b->is_b && a->row->round == b->row->round &&
           strcmp(a->row->text[RESULTS_RUN_ID], b->row->text[RESULTS_RUN_ID]) == 0;
}

static int differ_by_algo(const results_row *a, const results_row *b)
{
    const char *first = a->text[RESULTS_ALGO], *second = b->text[RESULTS_ALGO];
    return first[0] && second[0] && strcmp(first, second) != 0;
}

/* Adds the algorithm to all keys for which one run measured several. */
static void split_by_algo(matching *m)
{
    for (size_t from = 0, to; from < m->count; from = to) {
        int several = 0;
        for (to = from + 1; to < m->count && strcmp(m->entries[to].key, m->entries[from].key) == 0;
             to++)
            several |= same_run(&m->entries[to - 1], &m->entries[to]) &&
                       differ_by_algo(m->entries[to - 1].row, m->entries[to].row);
        for (size_t i = from; i < to && several; i++)
            m->entries[i].key = results_keep_printed(m->b, "%s|%.200s", m->entries[i].key,
                                                     m->entries[i].row->text[RESULTS_ALGO]);
    }
    qsort(m->entries, m->count, sizeof *m->entries, by_key_and_run);
}

/* Whether a run has this row already: weir's rows can be in a CSV, a JSON file and a printed table,
 * and for 0 bytes all algorithms are the same. */
static int is_duplicate(const matching *m, const entry *one, const entry *before)
{
    if (!same_run(one, before))
        return 0;
    if (one->row->origin == before->row->origin && one->row->bytes > 0 && !m->made->cross)
        results_note(one->is_b ? m->b : m->a, one->row->path, one->row->line,
                     "the same measurement as %s:%d, or a later cycle of -N; %s", before->row->path,
                     before->row->line,
                     one->row->failed ? "only its failure counts" : "row left out");
    return 1;
}

static void add_to_side(results_side *side, const results_row *row)
{
    if (row->failed) {
        side->failed = row;
        return;
    }
    if (row->resolution > side->resolution)
        side->resolution = row->resolution;
    side->rows[side->starts] = row;
    side->logs[side->starts++] = log(row->median_us);
}

/* Makes a pair of entries [from, to), which have the same key. The first of a run's cycles (-N)
 * represents all, because cycles say nothing about other runs; but wrong results count in any of
 * them. */
static void make_pair(matching *m, size_t from, size_t to)
{
    results_pair *pair = &m->made->pairs[m->made->count++];
    size_t count = to - from;
    *pair = (results_pair){.key = m->entries[from].key,
                           .example = m->entries[from].row,
                           .is_beside = m->entries[from].is_beside,
                           .reason = ""};
    results_side *const sides[] = {&pair->a, &pair->b};
    for (int i = 0; i < 2; i++) {
        sides[i]->rows = results_keep(m->b, count * sizeof *sides[i]->rows);
        sides[i]->logs = results_keep(m->b, count * sizeof *sides[i]->logs);
    }
    for (size_t i = from; i < to; i++)
        if (i == from || !is_duplicate(m, &m->entries[i], &m->entries[i - 1]) ||
            m->entries[i].row->failed)
            add_to_side(sides[m->entries[i].is_b], m->entries[i].row);
}

static void make_pairs(matching *m)
{
    for (size_t from = 0, to; from < m->count; from = to) {
        for (to = from + 1; to < m->count && strcmp(m->entries[to].key, m->entries[from].key) == 0;)
            to++;
        make_pair(m, from, to);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t count_starts(results_set *set)
{
    size_t starts = 0;
    const char **runs = results_keep(set, set->count * sizeof *runs);
    for (size_t i = 0; i < set->count; i++)
        runs[i] = set->rows[i].text[RESULTS_RUN_ID];
    qsort(runs, set->count, sizeof *runs, by_text);
    for (size_t i = 0; i < set->count; i++)
        starts += i == 0 || strcmp(runs[i], runs[i - 1]) != 0;
    return starts;
}

int results_match(results_set *a, results_set *b, const results_rules *rules,
                  results_comparison *made)
{
    matching m = {.a = a, .b = b, .rules = rules, .made = made};
    *made = (results_comparison){.count = 0};
    side_hosts(a, made->hosts_a, sizeof made->hosts_a, &m.by_host);
    side_hosts(b, made->hosts_b, sizeof made->hosts_b, &m.by_host);
    made->losses = b->losses;
    made->starts_a = count_starts(a);
    made->starts_b = count_starts(b);
    if (choose_contenders(&m) != 0)
        return -1;
    m.relaxed = made->cross || has_foreign(a) || has_foreign(b);
    m.by_backend = !m.relaxed || (states(a, RESULTS_BACKEND) && states(b, RESULTS_BACKEND));
    m.by_conditions = states(a, RESULTS_MODE) && states(b, RESULTS_MODE);
    const size_t most = a->count + b->count;
    m.entries = results_keep(b, most * sizeof *m.entries);
    made->pairs = results_keep(b, most * sizeof *made->pairs);
    add_entries(&m, a, 0);
    add_entries(&m, b, 1);
    qsort(m.entries, m.count, sizeof *m.entries, by_key_and_run);
    if (!made->cross)
        split_by_algo(&m);
    make_pairs(&m);
    results_differences_find(a, b, made);
    return 0;
}
