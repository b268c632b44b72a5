/* Expectations: reading their file, and checking B. An expectation is unmet if the median over runs
 * misses it by more than its 95% interval. */
#include "results/judge/expect.h"

#include "results/read/load.h"

#include <errno.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20, WORDS = 16 };

const char *results_outcome_name(results_outcome outcome)
{
    static const char *const names[] = {"met", "close", "unmet", "absent"};
    return names[outcome];
}

/* 8, 4K, 2M, 1G: powers of 1024, as for the benchmarks' -b. */
static int read_bytes(const char *text, unsigned long long *bytes)
{
    char digits[24];
    size_t length = strspn(text, "0123456789");
    unsigned shift = 0;
    if (length == 0 || length >= sizeof digits)
        return -1;
    memcpy(digits, text, length);
    digits[length] = '\0';
    switch (text[length]) {
    case 'K':
    case 'k':
        shift = 10;
        break;
    case 'M':
    case 'm':
        shift = 20;
        break;
    case 'G':
    case 'g':
        shift = 30;
        break;
    case '\0':
        break;
    default:
        return -1;
    }
    if (results_whole(digits, bytes) != 0 || *bytes > (~0ull >> 30) || (shift && text[length + 1]))
        return -1;
    *bytes <<= shift;
    return 0;
}

static int read_option(results_expectation *made, char *word)
{
    char *value = strchr(word, '=');
    unsigned long long number;
    if (strcmp(word, "algbw") == 0 || strcmp(word, "busbw") == 0) {
        made->is_algbw = word[0] == 'a';
        return 0;
    }
    if (!value || !value[1])
        return -1;
    *value++ = '\0';
    if (strcmp(word, "dtype") == 0)
        made->dtype = results_dtype(value);
    else if (strcmp(word, "op") == 0)
        made->redop = value;
    else if (strcmp(word, "place") == 0)
        made->placement = value;
    else if (strcmp(word, "contender") == 0)
        made->contender = value;
    else if (strcmp(word, "algo") == 0)
        made->algo = value;
    else if (strcmp(word, "ranks") == 0 && results_whole(value, &number) == 0 && number > 0 &&
             number < 1000000)
        made->nranks = (int)number;
    else
        return -1;
    return 0;
}

/* Whether a word before `at` has the same key; read_option has ended those before at their '='. */
static int is_repeated(char **words, int from, int at)
{
    const size_t length = strcspn(words[at], "=");
    const int is_bandwidth = strcmp(words[at], "algbw") == 0 || strcmp(words[at], "busbw") == 0;
    for (int i = from; i < at; i++)
        if ((strlen(words[i]) == length && strncmp(words[i], words[at], length) == 0) ||
            (is_bandwidth && (strcmp(words[i], "algbw") == 0 || strcmp(words[i], "busbw") == 0)))
            return 1;
    return 0;
}

/* words: collective, size, options, relation, number, unit. Returns NULL, or the error. */
static const char *read_words(results_expectation *made, char **words, int count)
{
    if (count < 5)
        return "expected: collective size [word=value...] >= number GB/s";
    if (count > WORDS)
        return "too many words";
    const char *relation = words[count - 3], *unit = words[count - 1];
    made->collective = results_collective(words[0]);
    made->is_time = strcmp(unit, "us") == 0;
    if (!made->collective)
        return "unknown collective";
    if (read_bytes(words[1], &made->bytes) != 0)
        return "expected a size such as 8, 4K or 1G";
    if (!made->is_time && strcmp(unit, "GB/s") != 0)
        return "expected the unit GB/s or us";
    if (strcmp(relation, made->is_time ? "<=" : ">=") != 0)
        return "expected >= before GB/s, <= before us";
    if (results_real(words[count - 2], &made->value) != 0 || made->value <= 0)
        return "expected a number above 0 before the unit";
    for (int i = 2; i < count - 3; i++)
        if (is_repeated(words, 2, i))
            return "an option or a bandwidth is given twice";
        else if (read_option(made, words[i]) != 0)
            return "expected dtype=, op=, ranks=, place=, contender=, algo=, algbw, busbw";
    return NULL;
}

/* Reads one line. Returns 0, or -1 after reporting that it is invalid. */
static int read_line(results_set *set, const char *path, int number, char *line,
                     results_expectations *made)
{
    char *words[WORDS + 1];
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t\r");
    for (size_t end = strlen(line); end > 0 && strchr(" \t\r", line[end - 1]); end--)
        line[end - 1] = '\0';
    if (!line[0])
        return 0;
    results_expectation one = {
        .text = results_keep_text(set, line, strlen(line)), .path = path, .line = number};
    const char *problem = read_words(&one, words, results_split(line, words, WORDS + 1));
    if (problem) {
        results_note(set, path, number, "'%s': %s", one.text, problem);
        return -1;
    }
    made->list[made->count++] = one;
    return 0;
}

/* Reads all lines. Returns 0; or 1, reported, if a line is invalid or there is none. */
static int read_lines(results_set *set, const char *path, char *text, size_t length,
                      results_expectations *made)
{
    int refused = 0;
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    made->list = results_keep(set, lines * sizeof *made->list);
    char *at = text, *line;
    for (int number = 1; (line = results_next_line(&at, text + length)); number++)
        refused |= read_line(set, path, number, line, made) != 0;
    if (made->count == 0 && !refused)
        results_note(set, path, 0,
                     "contains no expectation; expected lines such as "
                     "'allreduce 1G >= 350 GB/s'");
    return refused || made->count == 0;
}

int results_expect_read(results_set *set, const char *path, results_expectations *made)
{
    *made = (results_expectations){.count = 0};
    FILE *file = fopen(path, "re");
    if (!file) {
        results_note(set, path, 0, "%s", strerror(errno));
        return -1;
    }
    char *text = results_keep(set, FILE_BYTES + 1);
    size_t length = fread(text, 1, FILE_BYTES, file);
    int failed = ferror(file) || !feof(file);
    fclose(file);
    text[length] = '\0';
    if (failed) {
        results_note(set, path, 0, "cannot be read, or longer than %d bytes", FILE_BYTES);
        return -1;
    }
    if (memchr(text, 0, length)) {
        results_note(set, path, 0,
                     "binary data; expected lines such as "
                     "'allreduce 1G >= 350 GB/s'");
        return 1;
    }
    return read_lines(set, path, text, length, made);
}

static const results_row *row_of(const results_side *side)
{
    return side->failed ? side->failed : side->starts ? side->rows[0] : NULL;
}

static int fits(const results_expectation *one, const results_row *row)
{
    const char *contender = row->text[RESULTS_CONTENDER];
    const char *wanted = one->contender ? one->contender : "weir";
    size_t word = strlen(wanted);
    return strcmp(one->collective, row->text[RESULTS_COLLECTIVE]) == 0 &&
           one->bytes == row->bytes && (!one->nranks || one->nranks == row->nranks) &&
           (!one->dtype || strcmp(one->dtype, row->text[RESULTS_DTYPE]) == 0) &&
           (!one->redop || strcmp(one->redop, row->text[RESULTS_REDOP]) == 0) &&
           (!one->placement || strcmp(one->placement, row->text[RESULTS_PLACEMENT]) == 0) &&
           (!one->algo || strcmp(one->algo, row->text[RESULTS_ALGO]) == 0) &&
           strncmp(wanted, contender, word) == 0 &&
           (contender[word] == '\0' || contender[word] == ':');
}

/* Half the width of the interval of the logarithm of B's median over runs. */
static double half_width(const results_pair *pair)
{
    double scale = pair->paired ? pair->scale / sqrt(2) : pair->scale;
    double of_median = pair->b.starts > 2 ? sqrt(3.14159265 / 2) : 1;
    return gsl_cdf_tdist_Pinv(0.975, pair->freedom) * scale * of_median / sqrt(pair->b.starts);
}

/* By how much the row misses the expectation, as a logarithm. */
static double shortfall(const results_expectation *one, const results_pair *pair, double *got)
{
    const results_row *row = pair->b.rows[0];
    *got = one->is_time    ? pair->b.median_us
           : one->is_algbw ? row->algbw_gbs * row->median_us / pair->b.median_us
                           : pair->b.busbw_gbs;
    return one->is_time ? log(*got / one->value) : log(one->value / fmax(*got, 1e-12));
}

/* A run with wrong results misses any expectation. */
static void check_pair(results_expectation *one, const results_pair *pair, double *worst)
{
    double got = NAN, misses = INFINITY;
    results_outcome outcome = RESULTS_UNMET;
    if (!pair->b.failed) {
        misses = shortfall(one, pair, &got);
        outcome = misses <= 0                  ? RESULTS_MET
                  : misses <= half_width(pair) ? RESULTS_CLOSE
                                               : RESULTS_UNMET;
    }
    if (one->outcome == RESULTS_ABSENT || outcome > one->outcome)
        one->outcome = outcome;
    if (misses > *worst) {
        *worst = misses;
        one->worst = pair;
        one->got = got;
    }
}

static void check_one(results_expectation *one, const results_comparison *comparison)
{
    double worst = -INFINITY;
    one->outcome = RESULTS_ABSENT;
    for (size_t i = 0; i < comparison->count; i++) {
        const results_pair *pair = &comparison->pairs[i];
        const results_row *row = row_of(&pair->b);
        if (row && fits(one, row))
            check_pair(one, pair, &worst);
    }
}

void results_expect_describe(const results_expectation *one, char *text, size_t bytes)
{
    const results_row *row = one->worst ? row_of(&one->worst->b) : NULL;
    char got[32] = "wrong results";
    if (!isnan(one->got))
        snprintf(got, sizeof got, "%.4g", one->got);
    text[0] = '\0';
    if (row)
        snprintf(text, bytes, "%s, %s %s, %d ranks, %s, %s %s", got, row->text[RESULTS_DTYPE],
                 row->text[RESULTS_REDOP], row->nranks, row->text[RESULTS_PLACEMENT],
                 row->text[RESULTS_CONTENDER], row->text[RESULTS_ALGO]);
}

void results_expect_check(results_expectations *made, const results_comparison *comparison)
{
    for (size_t i = 0; i < made->count; i++) {
        check_one(&made->list[i], comparison);
        made->outcomes[made->list[i].outcome]++;
    }
}
