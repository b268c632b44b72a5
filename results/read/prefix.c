/*
 * Prefixes of launchers and log collectors, found by consensus: what stands before text that only a
 * benchmark prints (results_marker) is a prefix, and its shape, words and punctuation, is removed
 * from all lines that begin with it. No launcher is known by name.
 *
 * A prefix without its time stamp names the source of a line. If several sources have printed a
 * table, the lines are sorted by source.
 */
#include "results/read/lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 16, SHAPE_BYTES = 64, PREFIX_BYTES = 200, LABELS = 256, LABEL_BYTES = 96 };

typedef struct shapes {
    char text[SHAPES][SHAPE_BYTES]; /* W: a word, else punctuation; blanks are left out */
    int count, bare;                /* bare: markers without a prefix */
} shapes;

/* ------------------------------------------------------------------- markers */

static int begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* As begins; a tab counts as a blank. */
static int begins_words(const char *text, const char *words)
{
    while (*words && (*text == *words || (*text == '\t' && *words == ' '))) {
        text++;
        words++;
    }
    return !*words;
}

static int is_marker(const char *at)
{
    static const char *const words[] = {
        "# nThread ",        "# nccl-tests ", "# rccl-tests ",   "# weir ",
        "# Collective test", "# minBytes ",   "# Using devices", "# Out of bounds",
        "# Avg bus",         "# OSU ",        "# Size",          "# Datatype:",
        "# Benchmarking ",   "# #processes",  "# Intel(R) MPI",  "# Intel (R) MPI"};
    static const char *const after_blanks[] = {"Rank ",        "size ",    "(B) ",
                                               "out-of-place", "in-place", "Intel"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (begins(at, words[i]))
            return 1;
    const size_t blanks = strspn(at + 1, " \t");
    for (size_t i = 0; blanks && i < sizeof after_blanks / sizeof *after_blanks; i++)
        if (begins_words(at + 1 + blanks, after_blanks[i]))
            return 1;
    return 0;
}

char *results_marker(char *line)
{
    static const char *const csv[] = {"schema,run_id,", "numCycle,",
                                      "{\"name\":", "{\"numCycle\":", "{\"#wrong\":"};
    for (char *at = line; (at = strchr(at, '#')) != NULL && at - line < PREFIX_BYTES; at++)
        if (is_marker(at))
            return at;
    for (size_t i = 0; i < sizeof csv / sizeof *csv; i++) {
        char *at = strstr(line, csv[i]);
        if (at && at - line < PREFIX_BYTES)
            return at;
    }
    return NULL;
}

/* ------------------------------------------------------------------- shapes */

static int is_word(char c)
{
    return isalnum((unsigned char)c) || strchr("_.-/", c) || (unsigned char)c > 127;
}

/* Writes the shape of the text before a marker. Returns 0 if it is too long, or is none: only
 * blanks, or a word to which the marker sticks. */
static int shape_of(const char *from, const char *to, char *shape)
{
    int length = 0, ends_with_word = 0;
    while (from < to) {
        ends_with_word = 0;
        if (length >= SHAPE_BYTES - 1)
            return 0;
        if (*from == ' ' || *from == '\t') {
            from++;
        } else if (is_word(*from)) {
            while (from < to && is_word(*from))
                from++;
            shape[length++] = 'W';
            ends_with_word = 1;
        } else {
            shape[length++] = *from++;
        }
    }
    shape[length] = '\0';
    return length > 0 && !ends_with_word;
}

static void learn(shapes *known, const results_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        char *line = lines->list[i].text, *marker = results_marker(line), shape[SHAPE_BYTES];
        int k = 0;
        if (!marker)
            continue;
        if (!shape_of(line, marker, shape)) {
            known->bare++;
            continue;
        }
        while (k < known->count && strcmp(known->text[k], shape) != 0)
            k++;
        if (k == known->count && k < SHAPES)
            memcpy(known->text[known->count++], shape, sizeof shape);
    }
}

/* The longest shapes first: a tag may follow a time stamp, or stand alone. */
static int by_length(const void *a, const void *b)
{
    return (int)strlen(b) - (int)strlen(a);
}

/* Words alone, such as seconds or the names of a pod and its container, could be text of any line:
 * they are a prefix only if every marker has one. */
static int is_distinct(const char *shape)
{
    return shape[strspn(shape, "W")] != '\0';
}

/* The end of a prefix of that shape at the start of a line, or NULL. The blank after the last word
 * of a prefix belongs to it; other blanks belong to the line. */
static char *shape_end(const char *shape, char *at)
{
    for (; *shape; shape++) {
        if (*shape == 'W' || at[strspn(at, " \t")] == *shape)
            at += strspn(at, " \t");
        if (*shape == 'W') {
            if (!is_word(*at))
                return NULL;
            while (is_word(*at))
                at++;
            if (shape[1] == 'W' && *at != ' ' && *at != '\t')
                return NULL;
        } else if (*at++ != *shape) {
            return NULL;
        }
    }
    return shape[-1] != 'W' || *at == ' ' || *at == '\t' || !*at ? at : NULL;
}

static char *prefix_end(const shapes *known, char *line)
{
    for (int i = 0; i < known->count; i++) {
        char *end = shape_end(known->text[i], line);
        if (end)
            return end;
    }
    return NULL;
}

/* ------------------------------------------------------------------- sources */

/* The length of a time, a date, a part of one, or the seconds since a start, at the text; else 0.
 */
static size_t time_length(const char *at)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul",
                                        "Aug", "Sep", "Oct", "Nov", "Dec", "Mon", "Tue",
                                        "Wed", "Thu", "Fri", "Sat", "Sun"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(at, names[i]) && !isalpha((unsigned char)at[3])) {
            const size_t length = 3 + strspn(at + 3, " ");
            return i < 12 ? length + strspn(at + length, "0123456789") : length;
        }
    const size_t length = strspn(at, "0123456789-:.,TZ+"), digits = strspn(at, "0123456789");
    int colons = 0, dashes = 0, dots = 0;
    for (size_t i = digits; i < length; i++) {
        colons += at[i] == ':' && isdigit((unsigned char)at[i + 1]);
        dashes += at[i] == '-';
        dots += at[i] == '.';
    }
    return digits && (digits >= 9 || colons || dashes >= 2 || (dots == 1 && length >= 5) ||
                      (digits == 4 && begins(at, "20")))
               ? length
               : 0;
}

/* What names a source: the prefix without time stamps and blanks. */
static void label_of(const char *from, const char *to, char *label)
{
    size_t length = 0;
    for (int is_start = 1; from < to && length + 1 < LABEL_BYTES;) {
        const size_t skipped = is_start ? time_length(from) : 0;
        if (skipped) {
            from += skipped;
            continue;
        }
        is_start = !is_word(*from);
        if (*from != ' ' && *from != '\t')
            label[length++] = *from;
        from++;
    }
    label[length] = '\0';
}

typedef struct labels {
    char text[LABELS][LABEL_BYTES];
    int count, more; /* more: there are others */
    int has_head[LABELS], has_rows[LABELS];
} labels;

static int label_number(labels *known, const char *label)
{
    for (int i = known->count - 1; i >= 0; i--)
        if (strcmp(known->text[i], label) == 0)
            return i;
    if (known->count == LABELS) {
        known->more = 1;
        return 0;
    }
    memcpy(known->text[known->count], label, strlen(label) + 1);
    return known->count++;
}

/* Whether a line may be one of a table: four numbers or words, the first a whole number. */
static int is_row(const char *line)
{
    int words = 0;
    line += strspn(line, " \t");
    if (!isdigit((unsigned char)*line))
        return 0;
    for (; *line; line += strspn(line, " \t")) {
        words++;
        line += strcspn(line, " \t");
    }
    return words >= 4;
}

/* Whether each source has its own table, so that its lines can be read alone. */
static int are_sources(const labels *known)
{
    int heads = 0;
    for (int i = 0; i < known->count; i++) {
        heads += known->has_head[i];
        if (known->has_rows[i] && !known->has_head[i])
            return 0;
    }
    return heads >= 2 && !known->more;
}

static int by_source(const void *first, const void *second)
{
    const results_line *a = first, *b = second;
    return a->source != b->source ? a->source - b->source
                                  : (a->place > b->place) - (a->place < b->place);
}

/* ---------------------------------------------------------------- all lines */

/* A container's line that is continued in the next one: "... stdout P ". */
static int is_partial(const char *from, const char *to)
{
    while (to > from && to[-1] == ' ')
        to--;
    return to - from > 9 && to[-1] == 'P' && to[-2] == ' ' &&
           (begins(to - 8, "stdout ") || begins(to - 8, "stderr "));
}

/* Where another prefix of the same kind begins inside a line to which another line sticks: only
 * shapes in brackets are looked for. */
static char *inner_prefix(const shapes *known, const labels *all, char *line)
{
    for (char *at = line; (at = strchr(at, '[')) != NULL; at++) {
        char label[LABEL_BYTES], *end = at > line ? prefix_end(known, at) : NULL;
        if (!end)
            continue;
        label_of(at, end, label);
        for (int i = 0; i < all->count; i++)
            if (strcmp(all->text[i], label) == 0)
                return at;
    }
    return NULL;
}

typedef struct stripping {
    results_set *set;
    const shapes *known;
    labels all;
    results_lines *made;
    size_t room;
    char *partial; /* the beginning of the next line */
} stripping;

static void add_line(stripping *s, char *text, const results_line *of, int source)
{
    results_lines *made = s->made;
    if (made->count == s->room) {
        results_line *list = results_keep(s->set, 2 * s->room * sizeof *list);
        memcpy(list, made->list, made->count * sizeof *list);
        made->list = list;
        s->room *= 2;
    }
    if (s->partial)
        text = results_keep_printed(s->set, "%s%s", s->partial, text);
    s->partial = NULL;
    made->list[made->count] = (results_line){text, of->number, source, made->count};
    made->count++;
    if (results_marker(text))
        s->all.has_head[source] = 1;
    s->all.has_rows[source] |= is_row(text);
}

static void keep_partial(stripping *s, const char *text)
{
    s->partial = results_keep_printed(s->set, "%s%s", s->partial ? s->partial : "", text);
}

/* Whether a prefix inside a line is the line's own: Open MPI 4 tags every piece of output that it
 * reads, so that the text after the prefix continues the line. */
static int is_same_source(const shapes *known, char *inner, const char *label)
{
    char inner_label[LABEL_BYTES];
    label_of(inner, prefix_end(known, inner), inner_label);
    return strcmp(inner_label, label) == 0;
}

static void strip_line(stripping *s, const results_line *line)
{
    char *at = line->text, *end = prefix_end(s->known, at), label[LABEL_BYTES] = "";
    if (end)
        label_of(at, end, label);
    const int source = label_number(&s->all, label);
    const int is_open = end && is_partial(at, end);
    char *inner = end ? inner_prefix(s->known, &s->all, end) : NULL;
    if (end) /* the blank after a word belongs to the prefix */
        at = end + (is_word(end[-1]) && *end == ' ');
    if (inner) {
        results_line rest = {results_keep_text(s->set, inner, strlen(inner)), line->number, 0, 0};
        const int is_torn = is_same_source(s->known, inner, label);
        *inner = '\0';
        if (is_torn)
            keep_partial(s, at);
        else
            add_line(s, at, line, source);
        strip_line(s, &rest);
    } else if (is_open) {
        keep_partial(s, at);
    } else {
        add_line(s, at, line, source);
    }
}

void results_lines_strip(results_set *set, results_lines *lines)
{
    shapes known = {.count = 0};
    learn(&known, lines);
    lines->has_marker = known.bare > 0 || known.count > 0;
    int kept = 0;
    for (int i = 0; i < known.count; i++)
        if (is_distinct(known.text[i]) || known.bare == 0)
            memmove(known.text[kept++], known.text[i], SHAPE_BYTES);
    known.count = kept;
    if (kept == 0)
        return;
    qsort(known.text, (size_t)kept, sizeof *known.text, by_length);
    results_lines made = {.list = results_keep(set, (lines->count + 1) * sizeof *made.list),
                          .sources = 1,
                          .changed = 1,
                          .has_marker = 1};
    stripping *s = calloc(1, sizeof *s);
    if (!s)
        return;
    *s = (stripping){.set = set, .known = &known, .made = &made, .room = lines->count + 1};
    for (size_t i = 0; i < lines->count; i++)
        strip_line(s, &lines->list[i]);
    if (are_sources(&s->all)) {
        made.sources = s->all.count;
        qsort(made.list, made.count, sizeof *made.list, by_source);
    } else {
        for (size_t i = 0; i < made.count; i++)
            made.list[i].source = 0;
    }
    free(s);
    *lines = made;
}
