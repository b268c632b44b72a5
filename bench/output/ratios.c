/* Comment lines about algorithms and ratios: see table.h. */
#include "bench/output/table.h"

#include "base/words.h"
#include "programs/terminal.h"

#include <math.h>
#include <string.h>

static const char *const places[] = {"out of place", "in place"};

void bench_ratios_begin(bench_ratios *ratios, FILE *out)
{
    memset(ratios, 0, sizeof *ratios);
    ratios->out = out;
}

static int is_usable(const bench_result *result)
{
    return result->figures.is_usable;
}

static bench_ratio_sum *find_sum(bench_ratios *ratios, const char *name, const char *subject)
{
    int i = 0;
    while (i < ratios->nsums && (strcmp(ratios->sums[i].name, name) != 0 ||
                                 strcmp(ratios->sums[i].subject, subject) != 0))
        i++;
    if (i == BENCH_CANDIDATES_MAX)
        return NULL;
    if (i == ratios->nsums) {
        snprintf(ratios->sums[i].name, sizeof ratios->sums[i].name, "%s", name);
        snprintf(ratios->sums[i].subject, sizeof ratios->sums[i].subject, "%s", subject);
        ratios->nsums++;
    }
    return &ratios->sums[i];
}

static void add_ratio(bench_ratio_sum *sum, const bench_row *row, int placement,
                      const bench_ratio *ratio)
{
    if (!sum || row->shape.bytes == 0)
        return;
    if (sum->rows == 0 || ratio->ratio < sum->worst.ratio) {
        sum->worst = *ratio;
        sum->worst_bytes = row->shape.bytes;
        sum->worst_placement = placement;
    }
    sum->log_sum += log(ratio->ratio);
    sum->rows++;
}

/* Says which one takes longer; in colour on a terminal: green if weir is faster, red if slower. */
static void write_verdict(FILE *out, const bench_ratio *ratio, const char *other, const char *ours)
{
    static const weiri_colour colours[] = {WEIRI_COLOUR_BAD, WEIRI_COLOUR_NONE, WEIRI_COLOUR_GOOD};
    const weiri_colour colour = colours[bench_ratio_sign(ratio) + 1];
    char text[160];
    bench_ratio_describe(ratio, other, ours, text, sizeof text);
    if (colour == WEIRI_COLOUR_NONE)
        fputs(text, out);
    else
        fprintf(out, "%s%s%s", weiri_terminal_colour(out, colour), text,
                weiri_terminal_colour(out, WEIRI_COLOUR_NONE));
}

/* The name of a candidate beside weir's choice: a peer's, or that of another algorithm of weir. */
static void name_other(const bench_result *other, char *name, size_t bytes)
{
    const char *algo = other->algo;
    if (other->peer)
        snprintf(name, bytes, "%s%s%s", other->candidate, *algo ? " " : "", algo);
    else
        snprintf(name, bytes, "%s", *algo ? algo : other->candidate);
}

/* Another algorithm, or a peer, beside the candidate that the table shows. */
static void write_other(bench_ratios *ratios, const bench_row *row, int placement,
                        const bench_result *shown, const bench_result *other)
{
    char name[128];
    name_other(other, name, sizeof name);
    if (!is_usable(other)) {
        fprintf(ratios->out, "%s wrong", name);
        return;
    }
    bench_ratio ratio = bench_result_ratio(other, shown);
    fprintf(ratios->out, "%s %.2f us: ", name, other->stats.median);
    if (other->peer)
        write_verdict(ratios->out, &ratio, other->candidate, "weir");
    else
        write_verdict(ratios->out, &ratio, name, *shown->algo ? shown->algo : "weir");
    if (other->peer)
        add_ratio(find_sum(ratios, other->candidate, "weir"), row, placement, &ratio);
}

/* The length of the name that the modes of a library share: "nccl:2.28.3" of
 * "nccl:2.28.3:symmetric". */
static size_t family_length(const char *name)
{
    const char *colon = strchr(name, ':');
    colon = colon ? strchr(colon + 1, ':') : NULL;
    return colon ? (size_t)(colon - name) : strlen(name);
}

static int is_family(const bench_result *a, const bench_result *b)
{
    size_t length = family_length(a->candidate);
    return length == family_length(b->candidate) &&
           strncmp(a->candidate, b->candidate, length) == 0;
}

/* Of a library in several modes, the fastest one. NULL if fewer than two modes are usable, or if
 * the mode at index first is not the first one, so that each library is found once. */
static const bench_result *find_best(const bench_row *row, int placement, int first)
{
    const bench_result *results = row->results[placement], *best = NULL;
    int modes = 0;
    for (int i = 0; i < row->ncandidates; i++) {
        const bench_result *mode = &results[i];
        if (!mode->peer || !is_usable(mode) || !is_family(mode, &results[first]))
            continue;
        if (i < first)
            return NULL;
        modes++;
        if (!best || mode->stats.median < best->stats.median)
            best = mode;
    }
    return modes < 2 ? NULL : best;
}

static void add_best(bench_ratios *ratios, const bench_row *row, int placement,
                     const bench_result *best, const char *subject, const bench_ratio *ratio)
{
    char name[sizeof ratios->sums[0].name];
    snprintf(name, sizeof name, "%.*s, best mode", (int)family_length(best->candidate),
             best->candidate);
    add_ratio(find_sum(ratios, name, subject), row, placement, ratio);
}

static void write_best(bench_ratios *ratios, const bench_row *row, int placement, int first)
{
    const bench_result *best = find_best(row, placement, first);
    if (!best)
        return;
    const bench_result *shown = &row->results[placement][row->primary[placement]];
    const size_t length = family_length(best->candidate);
    const bench_ratio ratio = bench_result_ratio(best, shown);
    fprintf(ratios->out, "; best of %.*s is %s: ", (int)length, best->candidate,
            best->candidate[length] ? best->candidate + length + 1 : "default");
    write_verdict(ratios->out, &ratio, "it", "weir");
    add_best(ratios, row, placement, best, "weir", &ratio);
}

/* Compares a kernel of the user with the candidate that the table shows and with the peers; only
 * the summary has the result. */
static void add_kernel(bench_ratios *ratios, const bench_row *row, int placement, int kernel)
{
    const bench_result *results = row->results[placement], *own = &results[kernel];
    const int primary = row->primary[placement];
    for (int i = 0; i < row->ncandidates; i++) {
        if (!is_usable(&results[i]) || (i != primary && !results[i].peer))
            continue;
        const bench_ratio ratio = bench_result_ratio(&results[i], own);
        const char *name = results[i].peer ? results[i].candidate : "weir";
        add_ratio(find_sum(ratios, name, own->algo), row, placement, &ratio);
        const bench_result *best = results[i].peer ? find_best(row, placement, i) : NULL;
        if (!best)
            continue;
        const bench_ratio of_best = bench_result_ratio(best, own);
        add_best(ratios, row, placement, best, own->algo, &of_best);
    }
}

static void write_placement(bench_ratios *ratios, const bench_row *row, int placement)
{
    const bench_result *results = row->results[placement];
    int primary = row->primary[placement], others = 0;
    for (int i = 0; i < row->ncandidates; i++)
        others += i != primary && results[i].ran;
    if (!others || !is_usable(&results[primary]))
        return;
    /* NOLINTNEXTLINE(*-core.CallAndMessage): there are two placements at most */
    fprintf(ratios->out, "#   %s, %zu B: weir %s %.2f us", places[placement], row->shape.bytes,
            results[primary].algo, results[primary].stats.median);
    const char *separator = ", ";
    for (int i = 0; i < row->ncandidates; i++) {
        if (i == primary || !results[i].ran)
            continue;
        fputs(separator, ratios->out);
        separator = "; ";
        write_other(ratios, row, placement, &results[primary], &results[i]);
    }
    for (int i = 0; i < row->ncandidates; i++)
        if (results[i].peer && is_usable(&results[i]))
            write_best(ratios, row, placement, i);
    for (int i = 0; i < row->ncandidates; i++)
        if (i != primary && results[i].is_users && is_usable(&results[i]))
            add_kernel(ratios, row, placement, i);
    fputc('\n', ratios->out);
}

static void note_algorithm(bench_ratios *ratios, const bench_row *row)
{
    const bench_result *result =
        &row->results[BENCH_OUT_OF_PLACE][row->primary[BENCH_OUT_OF_PLACE]];
    const char *name = result->refusal[0] ? "" : result->algo;
    size_t bytes = row->shape.bytes;
    int i = 0;
    while (i < ratios->nspans && strcmp(ratios->spans[i].name, name) != 0)
        i++;
    if (!*name || i == BENCH_SPANS_MAX)
        return;
    bench_algo_span *span = &ratios->spans[i];
    if (i == ratios->nspans) {
        ratios->nspans++;
        snprintf(span->name, sizeof span->name, "%s", name);
        span->first_bytes = span->last_bytes = bytes;
    }
    span->first_bytes = bytes < span->first_bytes ? bytes : span->first_bytes;
    span->last_bytes = bytes > span->last_bytes ? bytes : span->last_bytes;
}

/* Once for each type and operation instead of for each size. */
static void write_refusals(bench_ratios *ratios, const bench_row *row)
{
    for (int i = 0; i < row->ncandidates; i++) {
        const bench_result *result = &row->results[BENCH_OUT_OF_PLACE][i];
        char line[sizeof ratios->last_refusal];
        if (!result->refusal[0])
            continue;
        snprintf(line, sizeof line, "#   %s takes no part in %s %s: %s", result->candidate,
                 weir_dtype_name(row->dtype), bench_row_op_name(row), result->refusal);
        if (strcmp(line, ratios->last_refusal) != 0)
            fprintf(ratios->out, "%s\n", line);
        memcpy(ratios->last_refusal, line, sizeof line);
    }
}

void bench_ratios_row(bench_ratios *ratios, const bench_row *row)
{
    note_algorithm(ratios, row);
    write_refusals(ratios, row);
    for (int placement = 0; placement < row->placements; placement++)
        write_placement(ratios, row, placement);
    fflush(ratios->out);
}

/* The slower side of the mean comes first. */
static void write_sum(FILE *out, const bench_ratio_sum *sum)
{
    const double mean = exp(sum->log_sum / (double)sum->rows);
    const int is_subject_faster = mean >= 1;
    fprintf(out,
            "# %-20s : %s takes %.2fx as long as %s (geometric mean of %ld row%s); worst for "
            "%s: ",
            sum->name, is_subject_faster ? sum->name : sum->subject,
            is_subject_faster ? mean : 1 / mean, is_subject_faster ? sum->subject : sum->name,
            sum->rows, weiri_s(sum->rows), sum->subject);
    write_verdict(out, &sum->worst, sum->name, sum->subject);
    fprintf(out, " at %zu B %s\n", sum->worst_bytes, places[sum->worst_placement]);
}

void bench_ratios_end(const bench_ratios *ratios)
{
    FILE *out = ratios->out;
    if (ratios->nspans)
        fprintf(out, "# %-20s :", "Algorithms of weir");
    for (int i = 0; i < ratios->nspans; i++) {
        const bench_algo_span *span = &ratios->spans[i];
        fprintf(out, "%s %s %zu", i ? "," : "", span->name, span->first_bytes);
        if (span->last_bytes != span->first_bytes)
            fprintf(out, " to %zu", span->last_bytes);
        fprintf(out, " B");
    }
    fprintf(out, "%s", ratios->nspans ? "\n" : "");
    for (int i = 0; i < ratios->nsums; i++) {
        const bench_ratio_sum *sum = &ratios->sums[i];
        if (sum->rows)
            write_sum(out, sum);
    }
    fflush(out);
}
