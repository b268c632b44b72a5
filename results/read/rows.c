/* Rows, their memory, their messages, and the validation of every row, whichever tool wrote it. */
#include "results/read/rows.h"

#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, MESSAGES_A_FILE = 20, FIELD_BYTES = 256 };

struct results_block {
    results_block *next;
    size_t used, bytes;
    _Alignas(16) char data[];
};

void results_set_init(results_set *set, int ranks, FILE *messages)
{
    *set = (results_set){.ranks = ranks, .messages = messages};
}

void results_set_free(results_set *set)
{
    while (set->blocks) {
        results_block *next = set->blocks->next;
        free(set->blocks);
        set->blocks = next;
    }
    free(set->rows);
    *set = (results_set){0};
}

void results_no_memory(void)
{
    fprintf(stderr, "weir: out of memory; give fewer results at once\n");
    exit(3);
}

void *results_keep(results_set *set, size_t bytes)
{
    results_block *block = set->blocks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!block || block->bytes - block->used < bytes) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = malloc(sizeof *block + room);
        if (!block)
            results_no_memory();
        *block = (results_block){.next = set->blocks, .bytes = room};
        set->blocks = block;
    }
    void *kept = block->data + block->used;
    block->used += bytes;
    return kept;
}

char *results_keep_text(results_set *set, const char *text, size_t length)
{
    char *kept = results_keep(set, length + 1);
    memcpy(kept, text, length);
    kept[length] = '\0';
    return kept;
}

char *results_keep_printed(results_set *set, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return results_keep_text(set, text, strlen(text));
}

/* The length of the UTF-8 character at the start of text; 0 if there is none or it is a control
 * character. */
static size_t plain_character(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    int control = c[0] < ' ' || c[0] == 127 || (c[0] == 0xc2 && c[1] < 0xa0);
    return control ? 0 : weiri_utf8_length(text);
}

char *results_plain(char *text)
{
    for (char *at = text; *at;) {
        const size_t length = plain_character(at);
        if (length == 0)
            *at = '?';
        at += length ? length : 1;
    }
    return text;
}

static void report(results_set *set, const char *path, int line, const char *format, va_list list)
{
    char text[1024];
    set->problems++;
    if (!set->noted_path || strcmp(set->noted_path, path) != 0) {
        set->noted_path = results_keep_text(set, path, strlen(path));
        set->noted = 0;
    }
    if (++set->noted > MESSAGES_A_FILE + 1 || !set->messages)
        return;
    size_t length = (size_t)snprintf(text, sizeof text, line > 0 ? "%s:%d: " : "%s: ", path, line);
    if (set->noted > MESSAGES_A_FILE) {
        if (length < sizeof text)
            snprintf(text + length, sizeof text - length, "more problems, not shown");
    } else if (length < sizeof text) {
        vsnprintf(text + length, sizeof text - length, format, list);
    }
    fprintf(set->messages, "%s\n", results_plain(text));
}

void results_note(results_set *set, const char *path, int line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report(set, path, line, format, list);
    va_end(list);
}

void results_lose(results_set *set, const char *path, int line, const char *format, ...)
{
    va_list list;
    set->losses++;
    va_start(list, format);
    report(set, path, line, format, list);
    va_end(list);
}

void results_complain(const char *program, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "%s: %s\n", program, results_plain(text));
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* N of rN-...: at most 6 digits. */
static int round_of(const char *path)
{
    const char *name = base_name(path);
    size_t digits = name[0] == 'r' ? strspn(name + 1, "0123456789") : 0;
    return digits > 0 && digits <= 6 && name[1 + digits] == '-' ? atoi(name + 1) : 0;
}

results_row results_row_make(const char *path, int line, results_origin origin)
{
    results_row row = {.path = path, .line = line, .origin = origin, .round = round_of(path)};
    for (int i = 0; i < RESULTS_COLUMNS; i++)
        row.text[i] = "";
    return row;
}

int results_is_own(results_origin origin)
{
    return origin <= RESULTS_OWN_OUTPUT || origin == RESULTS_OWN_ROWS;
}

/* Whether a spreadsheet would take text for a formula. */
static int is_formula(const char *text)
{
    return text[0] && strchr("=+-@", text[0]);
}

/* Whether a name is safe in a terminal, a page and a spreadsheet. Unsafe characters are replaced by
 * '?' or '_', which is reported. */
static int is_harmless(const char *text)
{
    if (is_formula(text))
        return 0;
    for (size_t length; *text; text += length)
        if ((length = plain_character(text)) == 0)
            return 0;
    return 1;
}

static const char *make_harmless(results_set *set, const char *text)
{
    char *kept = results_keep_text(set, text, strlen(text));
    if (is_formula(kept))
        kept[0] = '_';
    return results_plain(kept);
}

/* Required columns, which are validated as numbers. */
static int is_checked_later(int column)
{
    return column == RESULTS_NRANKS || column == RESULTS_NNODES || column == RESULTS_BYTES ||
           column == RESULTS_MEDIAN_US;
}

static void drop_unless_number(results_set *set, results_row *row, int column)
{
    const char *text = row->text[column];
    double number;
    if (!text[0] || results_real(text, &number) == 0)
        return;
    void (*report_it)(results_set *, const char *, int, const char *, ...) =
        column == RESULTS_WRONG ? results_lose : results_note;
    report_it(set, row->path, row->line, "%s '%s' is not a number; left out",
              results_column_name((results_column)column), text);
    row->text[column] = "";
}

/* -1: the row is no row. */
static int check_text(results_set *set, results_row *row, int column)
{
    const char *text = row->text[column], *name = results_column_name(column);
    if (strlen(text) > FIELD_BYTES) {
        results_lose(set, row->path, row->line, "%s has more than %d characters; row left out",
                     name, FIELD_BYTES);
        return -1;
    }
    int is_number = results_is_number_column((results_column)column);
    if (!is_number && !is_harmless(text)) {
        results_note(set, row->path, row->line,
                     "%s '%s' contains unsafe characters; they are replaced", name, text);
        row->text[column] = make_harmless(set, text);
    } else if (is_number && !is_checked_later(column)) {
        drop_unless_number(set, row, column);
    }
    return 0;
}

static int check_texts(results_set *set, results_row *row)
{
    for (int i = 0; i < RESULTS_COLUMNS; i++)
        if (check_text(set, row, i) != 0)
            return -1;
    if (!row->text[RESULTS_RUN_ID][0])
        row->text[RESULTS_RUN_ID] = make_harmless(set, row->path);
    return 0;
}

/* Reads a count. Reports it and returns -1 if the text is not a number in the permitted range. */
static int read_count(results_set *set, results_row *row, int column, unsigned long long least,
                      unsigned long long *value)
{
    if (results_whole(row->text[column], value) == 0 && *value >= least)
        return 0;
    results_lose(set, row->path, row->line,
                 "%s '%s' is not a whole number of %llu or more; row left out",
                 results_column_name(column), row->text[column], least);
    return -1;
}

static int read_shape(results_set *set, results_row *row)
{
    unsigned long long number = 0;
    if (!row->text[RESULTS_NRANKS][0] && set->ranks > 0)
        row->text[RESULTS_NRANKS] = results_keep_printed(set, "%d", set->ranks);
    if (!row->text[RESULTS_NRANKS][0]) {
        results_lose(set, row->path, row->line,
                     "the file does not state the number of ranks; give --ranks; row left out");
        return -1;
    }
    if (read_count(set, row, RESULTS_NRANKS, 1, &number) != 0)
        return -1;
    row->nranks = number > 1000000000 ? 1000000000 : (int)number;
    if (row->text[RESULTS_NNODES][0]) {
        if (read_count(set, row, RESULTS_NNODES, 1, &number) != 0)
            return -1;
        row->nnodes = number > 1000000000 ? 1000000000 : (int)number;
    }
    row->root = -1;
    if (results_whole(row->text[RESULTS_ROOT], &number) == 0 && number < 1000000000)
        row->root = (int)number;
    return read_count(set, row, RESULTS_BYTES, 0, &row->bytes);
}

/* A bandwidth as the file states it, else the computed one. Other tools print 0.03 for 0.0327: what
 * is made of the time is more exact if the printed text agrees with it. */
static double bandwidth(const results_row *row, results_column column, double made)
{
    const char *text = row->text[column], *dot = strchr(text, '.');
    double value = made, unit = 1;
    if (results_real(text, &value) != 0 || results_is_own(row->origin) || strpbrk(text, "eE"))
        return value;
    for (size_t i = dot ? strspn(dot + 1, "0123456789") : 0; i > 0; i--)
        unit /= 10;
    return fabs(value - made) <= unit / 2 + 0.005 * made ? made : value;
}

static int read_times(results_set *set, results_row *row)
{
    row->median_us = row->low_us = row->high_us = row->algbw_gbs = row->busbw_gbs = NAN;
    row->failed = results_sense_failed(set, row);
    if (row->failed) {
        drop_unless_number(set, row, RESULTS_MEDIAN_US);
        return 0;
    }
    const char *text = row->text[RESULTS_MEDIAN_US];
    double factor = results_bus_factor(row->text[RESULTS_COLLECTIVE], row->nranks);
    if (results_real(text, &row->median_us) != 0 || row->median_us <= 0) {
        const int is_zero = text[0] && !text[strspn(text, "0.")];
        if (is_zero && !results_is_own(row->origin))
            results_note(set, row->path, row->line,
                         "median_us '%s' is below what the tool prints; row left out", text);
        else
            results_lose(set, row->path, row->line, "median_us '%s' is not a time; row left out",
                         text);
        return -1;
    }
    results_sense_numbers(set, row);
    results_real(row->text[RESULTS_CI_LOW_US], &row->low_us);
    results_real(row->text[RESULTS_CI_HIGH_US], &row->high_us);
    if (!(row->low_us > 0 && row->low_us <= row->median_us && row->median_us <= row->high_us))
        row->low_us = row->high_us = NAN;
    row->algbw_gbs = bandwidth(row, RESULTS_ALGBW_GBS, (double)row->bytes / row->median_us / 1e3);
    row->busbw_gbs = bandwidth(row, RESULTS_BUSBW_GBS, row->algbw_gbs * factor);
    return 0;
}

void results_row_fail(results_row *row)
{
    row->text[RESULTS_VERIFY] = "fail";
    row->failed = 1;
    row->median_us = row->low_us = row->high_us = row->algbw_gbs = row->busbw_gbs = NAN;
}

static int check_words(results_set *set, results_row *row)
{
    static const int needed[] = {RESULTS_COLLECTIVE, RESULTS_CONTENDER, RESULTS_DTYPE,
                                 RESULTS_PLACEMENT};
    const char *placement = row->text[RESULTS_PLACEMENT], *verify = row->text[RESULTS_VERIFY];
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!row->text[needed[i]][0]) {
            results_lose(set, row->path, row->line, "%s is empty; row left out",
                         results_column_name(needed[i]));
            return -1;
        }
    if (strcmp(placement, "out") != 0 && strcmp(placement, "in") != 0) {
        results_lose(set, row->path, row->line,
                     "placement '%s' is neither out nor in; row left out", placement);
        return -1;
    }
    if (verify[0] && strcmp(verify, "pass") != 0 && strcmp(verify, "fail") != 0 &&
        strcmp(verify, "off") != 0) {
        results_lose(set, row->path, row->line,
                     "verify '%s' is none of pass, fail, off; row left out", verify);
        return -1;
    }
    return 0;
}

/* nccl-tests prints the operation of -o for sendrecv, which does not reduce. */
static void clear_operation(results_row *row)
{
    if (!results_is_own(row->origin) && !strstr(row->text[RESULTS_COLLECTIVE], "reduce"))
        row->text[RESULTS_REDOP] = "none";
}

int results_add(results_set *set, results_row *row)
{
    clear_operation(row);
    if (check_texts(set, row) != 0 || check_words(set, row) != 0 || read_shape(set, row) != 0)
        return -1;
    results_sense_words(set, row);
    if (read_times(set, row) != 0)
        return -1;
    if (set->count == set->room) {
        size_t room = set->room ? 2 * set->room : 256;
        results_row *rows = realloc(set->rows, room * sizeof *rows);
        if (!rows)
            results_no_memory();
        set->rows = rows;
        set->room = room;
    }
    set->rows[set->count++] = *row;
    return 0;
}
