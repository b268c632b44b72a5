/*
 * Distributions of alltoallv: parsing, weights, and element counts. For nccl-tests' traffic the
 * arithmetic uses bytes and doubles in nccl-tests' order, so that byte counts agree.
 */
#include "bench/sizes/dist.h"

#include "base/words.h"
#include "bench/options/options.h"

#include "programs/numbers.h"
#include "verify/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 16, ZIPF_MOST = 20 };
static const double hot_share = 0.9;

/* The text after "word:"; NULL if text does not begin with it or nothing follows. */
static const char *value_of(const char *text, const char *word)
{
    size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && text[length] == ':' && text[length + 1]
               ? text + length + 1
               : NULL;
}

static int parse_number(const char *text, double low, double high, double *number)
{
    return weiri_decimal_read(text, number) == 0 && *number >= low && *number <= high;
}

weir_status bench_dist_parse(const char *text, bench_dist *dist)
{
    static const char *const words[] = {"spread", "zipf", "hot", "matrix", "trace"};
    const char *value = NULL;
    int kind = 0, good = 0;
    memset(dist, 0, sizeof *dist);
    dist->nsteps = 1;
    if (strcmp(text, "uniform") == 0)
        return WEIR_OK;
    while (kind <= BENCH_DIST_TRACE && !(value = value_of(text, words[kind])))
        kind++;
    dist->kind = (bench_dist_kind)kind;
    dist->path = value;
    if (kind == BENCH_DIST_SPREAD)
        good = parse_number(value, 0, 1, &dist->parameter);
    else if (kind == BENCH_DIST_ZIPF)
        good = parse_number(value, 0, ZIPF_MOST, &dist->parameter);
    else if (kind == BENCH_DIST_HOT)
        good = parse_number(value, 1, 1 << 20, &dist->parameter) &&
               dist->parameter == floor(dist->parameter);
    else
        good = value != NULL;
    return good ? WEIR_OK : WEIR_ERR_INVALID;
}

/* ------------------------------------------------------------------- weights */

/* Draws a random order of the ranks from the seed: order[p] is the rank at place p. */
static void draw_order(int nranks, uint64_t seed, int *order)
{
    for (int p = 0; p < nranks; p++)
        order[p] = p;
    for (int p = nranks - 1; p > 0; p--) {
        int other =
            (int)(weirv_mix64(seed * 0x9e3779b97f4a7c15u + (uint64_t)p) % (uint64_t)(p + 1));
        int kept = order[p];
        order[p] = order[other];
        order[other] = kept;
    }
}

/* The weight of the receiver at a place of the order. */
static double weight_at(const bench_dist *dist, int place, int nranks)
{
    double hot = dist->parameter;
    if (dist->kind == BENCH_DIST_ZIPF)
        return pow(1.0 + place, -dist->parameter);
    if (hot >= nranks)
        return 1;
    return place < hot ? hot_share / hot : (1 - hot_share) / (nranks - hot);
}

static weir_status make_weights(bench_dist *dist, int nranks, uint64_t seed)
{
    size_t n = (size_t)nranks;
    int *order = malloc(n * sizeof *order);
    dist->weights = malloc(n * n * sizeof *dist->weights);
    if (order && dist->weights) {
        draw_order(nranks, seed, order);
        for (size_t from = 0; from < n; from++)
            for (int place = 0; place < nranks; place++)
                dist->weights[from * n + (size_t)order[place]] = weight_at(dist, place, nranks);
    }
    free(order);
    return order && dist->weights ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* Scales a matrix so that the largest sum of a row or column is 1; dividing by the largest weight
 * first keeps sums from overflowing. */
static void scale_weights(double *weights, size_t n)
{
    double largest = 0, heaviest = 0;
    for (size_t i = 0; i < n * n; i++)
        largest = weights[i] > largest ? weights[i] : largest;
    for (size_t i = 0; i < n * n; i++)
        weights[i] /= largest;
    for (size_t rank = 0; rank < n; rank++) {
        double sent = 0, received = 0;
        for (size_t peer = 0; peer < n; peer++) {
            sent += weights[rank * n + peer];
            received += weights[peer * n + rank];
        }
        heaviest = sent > heaviest ? sent : heaviest;
        heaviest = received > heaviest ? received : heaviest;
    }
    for (size_t i = 0; i < n * n; i++)
        weights[i] /= heaviest;
}

weir_status bench_dist_open(bench_dist *dist, int nranks, uint64_t seed, char *problem)
{
    weir_status status = WEIR_OK;
    size_t n = (size_t)nranks;
    if (dist->kind == BENCH_DIST_SPREAD)
        return WEIR_OK;
    if (dist->kind == BENCH_DIST_HOT && dist->parameter > nranks) {
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--dist hot:%.0f: there %s %d rank%s; give 1 to %d of them", dist->parameter,
                 nranks == 1 ? "is" : "are", nranks, weiri_s(nranks), nranks);
        return WEIR_ERR_INVALID;
    }
    if (dist->kind == BENCH_DIST_MATRIX || dist->kind == BENCH_DIST_TRACE)
        status = bench_dist_read(dist, nranks, &dist->weights, &dist->nsteps, problem);
    else if ((status = make_weights(dist, nranks, seed)) != WEIR_OK)
        snprintf(problem, BENCH_PROBLEM_BYTES, "no memory for the weights of --dist");
    for (int step = 0; status == WEIR_OK && step < dist->nsteps; step++)
        scale_weights(dist->weights + (size_t)step * n * n, n);
    return status;
}

void bench_dist_close(bench_dist *dist)
{
    free(dist->weights);
    dist->weights = NULL;
}

/* ------------------------------------------------------------------ elements */

static double spread_bytes(const bench_dist *dist, size_t total_bytes, int from, int to, int nranks)
{
    double distance = (double)((to - from + nranks) % nranks);
    double distances = (double)nranks * (nranks - 1) / 2;
    double equal = (double)total_bytes / nranks;
    double weighted = distance * (double)total_bytes / distances;
    return (1 - dist->parameter) * equal + dist->parameter * weighted;
}

size_t bench_dist_elements(const bench_dist *dist, int step, size_t count, size_t element_bytes,
                           int from, int to, int nranks)
{
    size_t n = (size_t)nranks, total_bytes = count * n * element_bytes, bytes = total_bytes;
    if (nranks > 1 && dist->kind == BENCH_DIST_SPREAD)
        bytes = (size_t)spread_bytes(dist, total_bytes, from, to, nranks);
    else if (nranks > 1)
        bytes = (size_t)(dist->weights[((size_t)step * n + (size_t)from) * n + (size_t)to] *
                         (double)total_bytes);
    return (bytes & ~(size_t)(ALIGN_BYTES - 1)) / element_bytes;
}
