/* The arithmetic of hours: see windows.h. */
#include "bench/hours/windows.h"

#include "bench/statistics/bootstrap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double least_us = 0.01, class_width = 0.001;

void bench_histogram_add(bench_histogram *histogram, double us)
{
    const double at = us > least_us ? log(us / least_us) / log1p(class_width) : 0;
    const int last = BENCH_HISTOGRAM_CLASSES - 1;
    histogram->classes[at < last ? (int)at : last]++;
    histogram->count++;
    histogram->max_us = us > histogram->max_us ? us : histogram->max_us;
}

double bench_histogram_quantile(const bench_histogram *histogram, double share)
{
    const double wanted = share * (double)histogram->count;
    uint64_t below = 0;
    for (int i = 0; i < BENCH_HISTOGRAM_CLASSES; i++) {
        below += histogram->classes[i];
        if (histogram->classes[i] && (double)below >= wanted)
            return fmin(least_us * pow(1 + class_width, i + 0.5), histogram->max_us);
    }
    return NAN;
}

/* ------------------------------------------------------------------------- drift */

void bench_drift_add(bench_drift *drift, double hours, double median_us)
{
    if (drift->count++ == 0)
        drift->first_us = median_us;
    const double y = median_us - drift->first_us; /* so that squares keep their digits */
    drift->sum_x += hours;
    drift->sum_y += y;
    drift->sum_xx += hours * hours;
    drift->sum_xy += hours * y;
    drift->sum_yy += y * y;
}

int bench_drift_slope(const bench_drift *drift, double *percent, double *low, double *high)
{
    const double n = drift->count;
    if (drift->count < 3)
        return 0;
    const double xx = drift->sum_xx - drift->sum_x * drift->sum_x / n;
    const double xy = drift->sum_xy - drift->sum_x * drift->sum_y / n;
    const double yy = drift->sum_yy - drift->sum_y * drift->sum_y / n;
    const double slope = xy / xx, rest = fmax(0, yy - slope * xy);
    const double error = sqrt(rest / (n - 2) / xx) * bench_student_quantile(drift->count - 2);
    const double scale = 100 / drift->first_us;
    *percent = slope * scale;
    *low = (slope - error) * scale;
    *high = (slope + error) * scale;
    return 1;
}

/* ------------------------------------------------------------------------ causes */

int bench_causes_open(bench_causes *causes, int nranks)
{
    const size_t count = (size_t)nranks * BENCH_SIGNS;
    *causes = (bench_causes){.nranks = nranks,
                             .usual = calloc(count, sizeof *causes->usual),
                             .window.explained = calloc(count, sizeof(bench_cause)),
                             .all.explained = calloc(count, sizeof(bench_cause))};
    return causes->usual && causes->window.explained && causes->all.explained ? 0 : -1;
}

void bench_causes_close(bench_causes *causes)
{
    free(causes->usual);
    free(causes->window.explained);
    free(causes->all.explained);
    *causes = (bench_causes){.nranks = 0};
}

void bench_causes_learn(bench_causes *causes, const double *changes)
{
    causes->quiet++;
    for (int i = 0; i < causes->nranks * BENCH_SIGNS; i++)
        causes->usual[i] += (changes[i] - causes->usual[i]) / (double)causes->quiet;
}

static int causes_explains(bench_sign_kind kind, double change, double usual, double excess_us)
{
    switch (kind) {
    case BENCH_SIGN_EVENT:
    case BENCH_SIGN_LEVEL:
        return change > 0 && usual < 0.5;
    case BENCH_SIGN_TIME:
        return change - usual >= excess_us / 2;
    case BENCH_SIGN_RATE:
        break;
    }
    return change >= 3 * usual + 3;
}

/* The rank whose sign explains an outlier, with the largest change; -1: none. */
static int causes_find_rank(const bench_causes *causes, const double *changes, int sign,
                            double excess_us)
{
    int found = -1;
    for (int rank = 0; rank < causes->nranks; rank++) {
        const int at = rank * BENCH_SIGNS + sign;
        if (causes_explains(bench_sign_infos[sign].kind, changes[at], causes->usual[at],
                            excess_us) &&
            (found < 0 || changes[at] > changes[found * BENCH_SIGNS + sign]))
            found = rank;
    }
    return found;
}

void bench_causes_explain(bench_causes *causes, const double *changes, double excess_us)
{
    causes->window.outliers++;
    for (int sign = 0; sign < BENCH_SIGNS; sign++) {
        const int rank = causes_find_rank(causes, changes, sign, excess_us);
        if (rank < 0)
            continue;
        bench_cause *cause = &causes->window.explained[rank * BENCH_SIGNS + sign];
        cause->outliers++;
        cause->lost_us += excess_us;
        return;
    }
    causes->window.unexplained++;
}

void bench_causes_end_window(bench_causes *causes)
{
    bench_cause_counts *window = &causes->window, *all = &causes->all;
    all->outliers += window->outliers;
    all->unexplained += window->unexplained;
    window->outliers = window->unexplained = 0;
    for (int i = 0; i < causes->nranks * BENCH_SIGNS; i++) {
        all->explained[i].outliers += window->explained[i].outliers;
        all->explained[i].lost_us += window->explained[i].lost_us;
        window->explained[i] = (bench_cause){0, 0};
    }
}

/* Whether cause i lost more time than cause k, or as much and is named earlier. By time rather than
 * by number: a rank that is stopped once may lose more than thousands of short interruptions. */
static int causes_precede(const bench_cause *explained, int i, int k)
{
    return explained[i].lost_us > explained[k].lost_us ||
           (explained[i].lost_us == explained[k].lost_us && i < k);
}

/* The cause that lost most time after another one; -1: there is none. */
static int causes_next(const bench_causes *causes, const bench_cause *explained, int after)
{
    int found = -1;
    for (int i = 0; i < causes->nranks * BENCH_SIGNS; i++)
        if (explained[i].outliers && (after < 0 || causes_precede(explained, after, i)) &&
            (found < 0 || causes_precede(explained, i, found)))
            found = i;
    return found;
}

void bench_causes_describe(const bench_causes *causes, const bench_cause_counts *counts, char *text,
                           size_t bytes)
{
    enum { NAMED = 3 };
    FILE *out = fmemopen(text, bytes, "w");
    uint64_t left = counts->outliers - counts->unexplained;
    const char *separator = "";
    *text = '\0';
    if (!out)
        return;
    int cause = -1;
    for (int named = 0; left && named < NAMED; named++, separator = "; ") {
        cause = causes_next(causes, counts->explained, cause);
        const uint64_t count = counts->explained[cause].outliers;
        fprintf(out, "%s%llu while ", separator, (unsigned long long)count);
        fprintf(out, bench_sign_infos[cause % BENCH_SIGNS].during, cause / BENCH_SIGNS);
        left -= count;
    }
    if (left)
        fprintf(out, "; %llu with other causes", (unsigned long long)left);
    if (counts->unexplained)
        fprintf(out, "%s%llu unexplained", separator, (unsigned long long)counts->unexplained);
    fclose(out);
}
