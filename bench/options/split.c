/* Rules that divide ranks: see split.h. */
#include "bench/options/split.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    char symbol;
} operations[] = {
    [BENCH_SPLIT_NONE] = {"", '\0'},  [BENCH_SPLIT_AND] = {"and", '&'},
    [BENCH_SPLIT_OR] = {"or", '|'},   [BENCH_SPLIT_MOD] = {"mod", '%'},
    [BENCH_SPLIT_DIV] = {"div", '/'},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const char *skip_blanks(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* A whole number to the end of the text, except for blanks. base 0: as its prefix says. */
static int read_value(const char *text, int base, int *value)
{
    char *end;
    text = skip_blanks(text);
    if (base == 0 && strncasecmp(text, "0b", 2) == 0) {
        base = 2;
        text += 2;
    }
    if (!isxdigit((unsigned char)*text)) /* strtol would take a sign, or blanks after 0b */
        return -1;
    errno = 0;
    const long read = strtol(text, &end, base);
    if (end == text || *skip_blanks(end) || errno || read > INT_MAX)
        return -1;
    *value = (int)read;
    return 0;
}

int bench_split_read(const char *text, bench_split *split)
{
    text = skip_blanks(text);
    for (int i = BENCH_SPLIT_AND; i < OPERATIONS; i++) {
        const size_t length = strlen(operations[i].word);
        const int is_word = strncasecmp(text, operations[i].word, length) == 0;
        bench_split read = {.operation = (bench_split_operation)i};
        if (!is_word && *text != operations[i].symbol)
            continue;
        text = skip_blanks(text + (is_word ? length : 1));
        if (read_value(text + (*text == ':'), 0, &read.value) != 0)
            return -1;
        if (read.value == 0 && (i == BENCH_SPLIT_MOD || i == BENCH_SPLIT_DIV))
            return -1;
        *split = read;
        return 0;
    }
    return -1;
}

int bench_split_read_mask(const char *text, bench_split *split)
{
    bench_split read = {.operation = BENCH_SPLIT_AND};
    if (read_value(text, 16, &read.value) != 0)
        return -1;
    *split = read;
    return 0;
}

int bench_split_color(const bench_split *split, int rank)
{
    switch (split->operation) {
    case BENCH_SPLIT_AND:
        return rank & split->value;
    case BENCH_SPLIT_OR:
        return rank | split->value;
    case BENCH_SPLIT_MOD:
        return rank % split->value;
    case BENCH_SPLIT_DIV:
        return rank / split->value;
    case BENCH_SPLIT_NONE:
        break;
    }
    return 0;
}

void bench_split_name(const bench_split *split, char *text, size_t bytes)
{
    const bench_split_operation operation = split->operation;
    if (operation == BENCH_SPLIT_NONE)
        snprintf(text, bytes, "%s", "");
    else if (operation == BENCH_SPLIT_AND || operation == BENCH_SPLIT_OR)
        snprintf(text, bytes, "%s:%#x", operations[operation].word, (unsigned)split->value);
    else
        snprintf(text, bytes, "%s:%d", operations[operation].word, split->value);
}
