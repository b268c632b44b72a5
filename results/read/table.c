/* Headings to columns: see table.h. */
#include "results/read/table.h"

#include "results/read/load.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PHRASE_BYTES = 96 };

/* Headings of one word. */
static const struct {
    const char *word;
    results_meaning meaning;
} words[] = {
    {"size", RESULTS_CELL_SIZE},          {"#bytes", RESULTS_CELL_SIZE},
    {"count", RESULTS_CELL_COUNT},        {"type", RESULTS_CELL_TYPE},
    {"redop", RESULTS_CELL_REDOP},        {"root", RESULTS_CELL_ROOT},
    {"time", RESULTS_CELL_TIME},          {"cputime", RESULTS_CELL_CPU_TIME},
    {"algbw", RESULTS_CELL_ALGBW},        {"busbw", RESULTS_CELL_BUSBW},
    {"#wrong", RESULTS_CELL_WRONG},       {"wrong", RESULTS_CELL_WRONG},
    {"defects", RESULTS_CELL_WRONG},      {"error", RESULTS_CELL_ERROR},
    {"i_min", RESULTS_CELL_MIN},          {"i_max", RESULTS_CELL_MAX},
    {"i_p99", RESULTS_CELL_P99},          {"i_cv%", RESULTS_CELL_OTHER},
    {"iterations", RESULTS_CELL_ITERS},   {"#repetitions", RESULTS_CELL_ITERS},
    {"validation", RESULTS_CELL_VERDICT}, {"mbytes/sec", RESULTS_CELL_OTHER},
    {"msg/sec", RESULTS_CELL_OTHER},      {"messages/s", RESULTS_CELL_OTHER},
};

/* The factor of a unit in parentheses or brackets at the end of a word, 0 if there is none. Writes
 * where it begins. */
static double unit_of(const char *word, size_t *begin)
{
    static const struct {
        const char *text;
        double scale;
    } units[] = {{"us", 1},    {"usec", 1},   {"ms", 1e3},       {"msec", 1e3},     {"s", 1e6},
                 {"sec", 1e6}, {"ns", 1e-3},  {"nsec", 1e-3},    {"B", 1},          {"bytes", 1},
                 {"KB", 1024}, {"KiB", 1024}, {"MB", 1048576.0}, {"MiB", 1048576.0}};
    const char *open = strpbrk(word, "([");
    const size_t length = open ? strcspn(open + 1, ")]") : 0;
    *begin = open ? (size_t)(open - word) : strlen(word);
    if (!open || !open[1 + length])
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].text) == length && strncmp(open + 1, units[i].text, length) == 0)
            return units[i].scale;
    return -1; /* another unit, such as MB/s */
}

/* "Avg Latency", "P99 Tail Lat", "t_max": a phrase before its unit. */
static results_meaning meaning_of(const char *phrase)
{
    static const char *const overlaps[] = {"overall", "compute", "comm", "overlap",
                                           "init",    "wait",    "test", "t_ovrl",
                                           "t_pure",  "t_cpu",   "pure"};
    const char *tail = strstr(phrase, "tail");
    for (size_t i = 0; i < sizeof overlaps / sizeof *overlaps; i++)
        if (strncmp(phrase, overlaps[i], strlen(overlaps[i])) == 0)
            return RESULTS_CELL_OVERLAP;
    if (tail)
        return strncmp(phrase, "p99 ", 4) == 0 ? RESULTS_CELL_P99 : RESULTS_CELL_OTHER;
    if (strncmp(phrase, "min", 3) == 0 || strcmp(phrase, "t_min") == 0)
        return RESULTS_CELL_MIN;
    if (strncmp(phrase, "max", 3) == 0 || strcmp(phrase, "t_max") == 0)
        return RESULTS_CELL_MAX;
    if (strncmp(phrase, "avg", 3) == 0 || strcmp(phrase, "t_avg") == 0 ||
        strcmp(phrase, "t") == 0 || strcmp(phrase, "latency") == 0 || strcmp(phrase, "time") == 0)
        return RESULTS_CELL_TIME;
    return RESULTS_CELL_OTHER;
}

static void add_cell(results_table *table, results_meaning meaning, double scale, int end)
{
    if (table->count == RESULTS_TABLE_CELLS)
        return;
    if (meaning == RESULTS_CELL_TIME || meaning == RESULTS_CELL_CPU_TIME)
        table->halves++;
    table->cells[table->count++] = (results_cell){meaning, scale, table->halves - 1, end};
}

static results_meaning known_word(const char *word)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(word, words[i].word) == 0)
            return words[i].meaning;
    return RESULTS_CELL_OVERLAP; /* none */
}

int results_table_is_heading(const char *word)
{
    return known_word(word) != RESULTS_CELL_OVERLAP;
}

/* Ends a phrase that has no unit: each of its words is a column. */
static void flush(results_table *table, int *pending)
{
    for (; *pending > 0; --*pending)
        add_cell(table, RESULTS_CELL_OTHER, 0, 0);
}

/* Adds a word to the phrase. Returns whether its unit ends it. */
static int add_word(char *phrase, char *word, double *scale)
{
    size_t begin, used = strlen(phrase);
    *scale = unit_of(word, &begin);
    for (size_t i = 0; i < begin && used + 2 < PHRASE_BYTES; i++) {
        if (i == 0 && used > 0)
            phrase[used++] = ' ';
        phrase[used++] = (char)tolower((unsigned char)word[i]);
    }
    phrase[used] = '\0';
    return *scale != 0;
}

void results_table_headings(results_table *table, char *line)
{
    char phrase[PHRASE_BYTES] = "", *rest = NULL;
    const char *start = line;
    int pending = 0;
    *table = (results_table){.count = 0};
    line += strspn(line, " \t");
    line += line[0] == '#' && (line[1] == ' ' || line[1] == '\t');
    for (char *word = strtok_r(line, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        const results_meaning meaning = known_word(word);
        const int end = (int)(word - start) + (int)strlen(word);
        double scale;
        if (meaning != RESULTS_CELL_OVERLAP) {
            flush(table, &pending);
            phrase[0] = '\0';
            add_cell(table, meaning, 0, end);
        } else if (add_word(phrase, word, &scale)) {
            pending = 0;
            add_cell(table, meaning_of(phrase), scale, end);
            phrase[0] = '\0';
        } else {
            pending++;
        }
    }
    flush(table, &pending);
}

void results_table_units(results_table *table, const char *line)
{
    double size = 0, time = 0;
    size_t begin;
    for (const char *at = line; (at = strchr(at, '(')) != NULL; at++) {
        const double scale = unit_of(at, &begin);
        const int is_bytes = strchr("BKMb", at[1]) != NULL;
        if (scale > 0 && is_bytes && size == 0)
            size = scale;
        else if (scale > 0 && !is_bytes && time == 0)
            time = scale;
    }
    for (int i = 0; i < table->count; i++) {
        results_cell *cell = &table->cells[i];
        if (cell->meaning == RESULTS_CELL_SIZE && size > 0)
            cell->scale = size;
        if (time > 0 &&
            (cell->meaning == RESULTS_CELL_TIME || cell->meaning == RESULTS_CELL_CPU_TIME ||
             cell->meaning == RESULTS_CELL_MIN || cell->meaning == RESULTS_CELL_MAX ||
             cell->meaning == RESULTS_CELL_P99))
            cell->scale = time;
    }
}

int results_table_find(const results_table *table, results_meaning meaning, int half)
{
    for (int i = 0; i < table->count; i++)
        if (table->cells[i].meaning == meaning && (half < 0 || table->cells[i].half == half))
            return i;
    return -1;
}

static int is_number(const char *text)
{
    char *end;
    if (strcmp(text, "N/A") == 0)
        return 1;
    strtod(text, &end);
    return end > text && !*end;
}

int results_table_fits(const results_cell *cell, const char *text)
{
    unsigned long long whole;
    switch (cell->meaning) {
    case RESULTS_CELL_SIZE:
    case RESULTS_CELL_COUNT:
        return results_whole(text, &whole) == 0;
    case RESULTS_CELL_TYPE:
    case RESULTS_CELL_REDOP:
        return isalpha((unsigned char)text[0]) != 0;
    case RESULTS_CELL_VERDICT:
    case RESULTS_CELL_OTHER:
        return 1;
    case RESULTS_CELL_ERROR:
    case RESULTS_CELL_WRONG:
        return is_number(text) ||
               (is_number(text) == 0 && strchr(text, '*') && isdigit((unsigned char)text[0]));
    default:
        return is_number(text);
    }
}
