/* The parsers of option values: see option_values.h. */
#include "bench/options/option_values.h"

#include "bench/options/faults.h"
#include "bench/options/peers.h"
#include "programs/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bench_parse_int(const bench_option *row, const char *text, bench_options *options,
                    char *expected)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < row->low || value > row->high) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "a whole number from %ld to %ld", row->low,
                 row->high);
        return -1;
    }
    *(int *)((char *)options + row->offset) = (int)value;
    return 0;
}

int bench_parse_whole(const bench_option *row, const char *text, bench_options *options,
                      char *expected)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || !isdigit((unsigned char)*text) || *end || value < (unsigned long)row->low ||
        value > (unsigned long)row->high) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "a whole number from %ld to %ld", row->low,
                 row->high);
        return -1;
    }
    *(size_t *)((char *)options + row->offset) = value;
    return 0;
}

weir_status bench_parse_bytes(const char *text, size_t *bytes)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return WEIR_ERR_INVALID;
    double value = strtod(text, &end);
    double unit = 1;
    if (*end) {
        const char *suffix = strchr(suffixes, toupper((unsigned char)*end));
        if (!suffix || end[1])
            return WEIR_ERR_INVALID;
        unit = ldexp(1, 10 * (int)(suffix - suffixes + 1));
    }
    if (!(value >= 0) || value * unit > ldexp(1, 62))
        return WEIR_ERR_INVALID;
    *bytes = (size_t)(value * unit);
    return WEIR_OK;
}

int bench_parse_size(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    size_t bytes = 0;
    if (bench_parse_bytes(text, &bytes) != WEIR_OK || bytes < (size_t)row->low) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "a size of %ld or more such as 8, 64K, 16M or 1G",
                 row->low);
        return -1;
    }
    *(size_t *)((char *)options + row->offset) = bytes;
    return 0;
}

int bench_parse_min(const bench_option *row, const char *text, bench_options *options,
                    char *expected)
{
    options->min_given = 1;
    return bench_parse_size(row, text, options, expected);
}

int bench_parse_max(const bench_option *row, const char *text, bench_options *options,
                    char *expected)
{
    options->max_given = 1;
    return bench_parse_size(row, text, options, expected);
}

int bench_parse_step(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    options->step_given = 1;
    return bench_parse_size(row, text, options, expected);
}

int bench_parse_factor(const bench_option *row, const char *text, bench_options *options,
                       char *expected)
{
    options->step_given = 1;
    if (bench_parse_whole(row, text, options, expected) == 0)
        return 0;
    snprintf(expected, BENCH_EXPECTED_BYTES, "a factor, a whole number of %ld or more such as 2",
             row->low);
    return -1;
}

int bench_parse_text(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    if (!*text) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "%s, not an empty word", row->argument);
        return -1;
    }
    *(const char **)((char *)options + row->offset) = text;
    return 0;
}

/* Stores the index of the word in row->argument, "a|b|c", and at offset row->low the text. */
int bench_parse_word(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    size_t length = strlen(text);
    int index = 0;
    for (const char *word = row->argument; *word; word += strcspn(word, "|"), index++) {
        word += *word == '|';
        if (length && strcspn(word, "|") == length && strncmp(word, text, length) == 0) {
            *(int *)((char *)options + row->offset) = index;
            *(const char **)((char *)options + row->low) = text;
            return 0;
        }
    }
    snprintf(expected, BENCH_EXPECTED_BYTES, "one of %s", row->argument);
    return -1;
}

/* The second words are those that the option had first. Files keep them, so that those of all
 * versions can be compared. */
static const char *const buffers_words[][2] = {[BENCH_BUFFERS_WEIR] = {"registered", "weir"},
                                               [BENCH_BUFFERS_PLAIN] = {"unregistered", "plain"}};

int bench_buffers_find(const char *text)
{
    for (int kind = BENCH_BUFFERS_WEIR; kind <= BENCH_BUFFERS_PLAIN; kind++)
        for (int i = 0; i < 2; i++)
            if (strcmp(text, buffers_words[kind][i]) == 0)
                return kind;
    return -1;
}

int bench_parse_buffers(const bench_option *row, const char *text, bench_options *options,
                        char *expected)
{
    const int kind = bench_buffers_find(text);
    if (kind < 0) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "one of %s", row->argument);
        return -1;
    }
    options->buffers = kind;
    options->words.buffers = buffers_words[kind][1];
    return 0;
}

int bench_parse_dtype(const bench_option *row, const char *text, bench_options *options,
                      char *expected)
{
    weir_dtype dtype = WEIR_FLOAT;
    (void)row;
    if (strcmp(text, "all") == 0) {
        options->dtype = BENCH_ALL;
        return 0;
    }
    if (weir_dtype_parse(text, &dtype) != WEIR_OK) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "all or a type (%s)", weir_last_error());
        return -1;
    }
    options->dtype = (int)dtype;
    return 0;
}

int bench_parse_op(const bench_option *row, const char *text, bench_options *options,
                   char *expected)
{
    weir_op op = WEIR_SUM;
    (void)row;
    if (strcmp(text, "all") == 0) {
        options->op = BENCH_ALL;
        return 0;
    }
    if (weir_op_parse(text, &op) != WEIR_OK) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "all or an operation (%s)", weir_last_error());
        return -1;
    }
    options->op = (int)op;
    return 0;
}

int bench_parse_root(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    if (strcmp(text, "all") != 0)
        return bench_parse_int(row, text, options, expected);
    options->root = BENCH_ALL;
    return 0;
}

int bench_parse_peer(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    (void)row;
    if (!*text || options->npeers == BENCH_PEERS_MAX) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "a peer's name, at most %d times",
                 BENCH_PEERS_MAX);
        return -1;
    }
    options->peers[options->npeers++] = bench_peer_of(text);
    return 0;
}

int bench_parse_percent(const bench_option *row, const char *text, bench_options *options,
                        char *expected)
{
    double *value = (double *)((char *)options + row->offset);
    return weiri_percent_read(text, WEIRI_PERCENT, 1, value, expected, BENCH_EXPECTED_BYTES);
}

/* A finite number of at least 0. Returns 0, or -1. */
static int floor_number(const char *text, double *gbs)
{
    char *end = NULL;
    const double value = isdigit((unsigned char)*text) || *text == '.' ? strtod(text, &end) : 0;
    if (!end || end == text || *end || !isfinite(value))
        return -1;
    *gbs = value;
    return 0;
}

int bench_parse_floor(const bench_option *row, const char *text, bench_options *options,
                      char *expected)
{
    (void)row;
    if (floor_number(text, &options->floor_gbs) != 0) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "a bandwidth in GB/s such as 350 or 12.5");
        return -1;
    }
    options->floor_name = "--min-bw";
    return 0;
}

int bench_floor_of_environment(bench_options *options, char *problem)
{
    static const double share = 0.9; /* nccl-tests tolerates 10% */
    const char *text = getenv("NCCL_TESTS_MIN_BW");
    if (options->floor_name || !text || !*text || *text == '-') /* negative: no floor */
        return 0;
    if (floor_number(text, &options->floor_gbs) != 0) {
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "NCCL_TESTS_MIN_BW=%.100s: expected a bandwidth in GB/s such as 350", text);
        return -1;
    }
    options->floor_gbs *= share;
    options->floor_name = "90% of NCCL_TESTS_MIN_BW";
    return 0;
}

/* --inject slow:PERCENT, which changes times and no data. */
static int parse_slow(const char *percent, bench_options *options, char *expected)
{
    enum { LEAST = 1, MOST = 1000 };
    char *end;
    long share = isdigit((unsigned char)percent[0]) ? strtol(percent, &end, 10) : 0;
    if (share < LEAST || share > MOST || *end) {
        snprintf(expected, BENCH_EXPECTED_BYTES, "slow: and a share from %d to %d percent, such as "
                 "slow:20", LEAST, MOST);
        return -1;
    }
    options->inject_slow = (int)share;
    return 0;
}

int bench_parse_inject(const bench_option *row, const char *text, bench_options *options,
                       char *expected)
{
    (void)row;
    char name[32] = "";
    size_t length = strcspn(text, "@");
    if (strncmp(text, "slow:", 5) == 0)
        return parse_slow(text + 5, options, expected);
    int has_time = strcmp(text + length, "@timed") == 0;
    if (length < sizeof name && (has_time || !text[length]))
        memcpy(name, text, length);
    options->inject = bench_fault_parse(name);
    options->inject_timed = has_time;
    if (has_time && !bench_fault_has_time((bench_fault)options->inject))
        options->inject = BENCH_FAULT_NONE;
    if (strcmp(text, "list") == 0)
        options->action = BENCH_ACTION_LIST_FAULTS;
    else if (options->inject == BENCH_FAULT_NONE) {
        snprintf(expected, BENCH_EXPECTED_BYTES,
                 "slow:PERCENT, or a fault that --inject list prints; with @timed one of the "
                 "output that exact data show");
        return -1;
    }
    return 0;
}

int bench_parse_flag(const bench_option *row, const char *text, bench_options *options,
                     char *expected)
{
    (void)text;
    (void)expected;
    *(int *)((char *)options + row->offset) = (int)row->high;
    return 0;
}
