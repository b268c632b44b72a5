/* All pairs of a fleet in n - 1 rounds of n / 2 pairs side by side, and the verdicts. */
#include "bench/health/deviation.h"
#include "bench/health/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the pairs of a fleet reached; n x n, symmetric, NaN where unknown. */
typedef struct pair_times {
    int n;
    double *latency_us, *message_us;
} pair_times;

/* A measure of pairs, as it is reported. */
typedef struct pair_measure {
    const char *name, *unit, *look;
    int decimals, is_bandwidth;
} pair_measure;

static const pair_measure latency_measure = {
    "latency", "us",
    "the path between the nodes (traceroute, switch port counters), frequency "
    "settings, other jobs",
    2, 0};
static const pair_measure bandwidth_measure = {
    "bandwidth", "GB/s",
    "link rates (ethtool, ibstat), cables, switch ports (errors, flow "
    "control), other jobs",
    2, 1};

/* The rounds of a tournament: node n - 1 stays, the others rotate. With an odd number of nodes, one
 * rests in each round. Returns the number of pairs. */
static int pairs_of_round(int n, int round, int (*pairs)[2])
{
    const int even = n + n % 2, turning = even - 1;
    int count = 0;
    for (int i = 0; i < even / 2; i++) {
        const int a = i == 0 ? even - 1 : (round + i) % turning;
        const int b = (round + turning - i) % turning;
        if (a < n && b < n) {
            pairs[count][0] = a < b ? a : b;
            pairs[count++][1] = a < b ? b : a;
        }
    }
    return count;
}

static void pairs_record(pair_times *times, int a, int b, const fleet_result *results)
{
    const double latency_us = fmax(results[a].latency_us, results[b].latency_us);
    const double gbs = fmin(results[a].gbs, results[b].gbs);
    for (int i = 0; i < 2; i++) { /* fmin ignores NaN: the fastest of all rounds counts */
        const size_t at = (size_t)(i ? b : a) * (size_t)times->n + (size_t)(i ? a : b);
        times->latency_us[at] = fmin(times->latency_us[at], latency_us);
        times->message_us[at] = fmin(times->message_us[at], gbs > 0 ? 1 / gbs : NAN);
    }
}

/* Measures the pairs of a round; only the marked pairs, if marks (n x n) are given. */
static void pairs_run_round(health_report *report, fleet_nodes *fleet, int round, pair_times *times,
                            const char *marks, fleet_result *results)
{
    const int n = times->n;
    int(*pairs)[2] = calloc((size_t)n, sizeof *pairs);
    fleet_group *groups = calloc((size_t)n, sizeof *groups);
    int ngroups = 0;
    const int count = pairs && groups ? pairs_of_round(n, round, pairs) : 0;
    for (int i = 0; i < count; i++)
        if (!fleet_is_silent(fleet, pairs[i][0]) && !fleet_is_silent(fleet, pairs[i][1]) &&
            (!marks || marks[pairs[i][0] * n + pairs[i][1]]))
            groups[ngroups++] = (fleet_group){pairs[i], 2};
    if (ngroups)
        fleet_round(fleet, groups, ngroups, results);
    for (int i = 0; i < ngroups; i++)
        if (!fleet_check_group(report, fleet, &groups[i], results))
            pairs_record(times, groups[i].nodes[0], groups[i].nodes[1], results);
    free(groups);
    free(pairs);
}

/* ----------------------------------------------------------------- verdicts */

static double pairs_value(const pair_measure *measure, double time)
{
    return measure->is_bandwidth ? 1 / time : time;
}

/* Adds a failed check of a node, or of a link if b is not -1. */
static void pairs_add_slow(health_report *report, const fleet_nodes *fleet,
                           const pair_measure *measure, int a, int b, double time, double usual,
                           double deviations)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES], source[HEALTH_TEXT_BYTES];
    if (b < 0) {
        snprintf(id, sizeof id, "fleet.node%d.%s", a, measure->name);
        snprintf(what, sizeof what, "%s of node %s with the others (median)", measure->name,
                 fleet_node(fleet, a)->host);
    } else {
        snprintf(id, sizeof id, "fleet.link%d-%d.%s", a, b, measure->name);
        snprintf(what, sizeof what, "%s of the link %s - %s", measure->name,
                 fleet_node(fleet, a)->host, fleet_node(fleet, b)->host);
    }
    snprintf(source, sizeof source, "the fleet's median; this is %.1f deviations away", deviations);
    health_check *check = health_add(report, id, what);
    health_look(check, measure->look);
    health_set_value(check, pairs_value(measure, time), measure->unit, measure->decimals);
    health_expect(check, measure->is_bandwidth ? HEALTH_AT_LEAST : HEALTH_AT_MOST,
                  pairs_value(measure, usual), HEALTH_SLOW, source);
}

static void pairs_judge(health_report *report, const fleet_nodes *fleet,
                        const pair_measure *measure, const double *times, int n)
{
    double usual, *nodes = calloc((size_t)n, sizeof *nodes);
    double *pairs = calloc((size_t)n * (size_t)n, sizeof *pairs);
    const double least = fleet_least_deviation(fleet);
    char id[HEALTH_ID_BYTES];
    int slow = 0;
    if (!nodes || !pairs || deviation_find(times, n, least, nodes, pairs, &usual) != 0) {
        fputs("weir-check: out of memory\n", stderr);
        exit(3);
    }
    for (int a = 0; a < n; a++)
        if (nodes[a] > DEVIATIONS_MOST) {
            pairs_add_slow(report, fleet, measure, a, -1, deviation_node_time(times, n, a), usual,
                           nodes[a]);
            slow++;
        }
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (pairs[a * n + b] > DEVIATIONS_MOST) {
                pairs_add_slow(report, fleet, measure, a, b, times[a * n + b], usual,
                               pairs[a * n + b]);
                slow++;
            }
    snprintf(id, sizeof id, "fleet.%s", measure->name);
    health_check *check = health_add(report, id, "median over all pairs of nodes");
    if (!isnan(usual))
        health_set_value(check, pairs_value(measure, usual), measure->unit, measure->decimals);
    if (n > 2 && !slow && !isnan(usual))
        health_set(check, HEALTH_PASS, "no node or link is %.0f deviations away", DEVIATIONS_MOST);
    free(pairs);
    free(nodes);
}

/* Marks the pairs that take more than half as long again as is usual. Returns their number. */
static int pairs_mark(const fleet_nodes *fleet, const double *times, int n, char *marks)
{
    static const double MUCH = 1.5;
    const double least = fleet_least_deviation(fleet);
    double usual, *nodes = calloc((size_t)n, sizeof *nodes);
    double *pairs = calloc((size_t)n * (size_t)n, sizeof *pairs);
    int count = 0;
    if (nodes && pairs && deviation_find(times, n, least, nodes, pairs, &usual) == 0)
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++)
                if (times[a * n + b] > MUCH * usual) {
                    marks[a * n + b] = 1;
                    count++;
                }
    free(pairs);
    free(nodes);
    return count;
}

/* The sum of the logarithms of all times that were measured. */
static double pairs_sum(const pair_times *times)
{
    double sum = 0;
    for (int i = 0; i < times->n * times->n; i++) {
        sum += times->latency_us[i] > 0 ? log(times->latency_us[i]) : 0;
        sum += times->message_us[i] > 0 ? log(times->message_us[i]) : 0;
    }
    return sum;
}

/* Measures again what took long: processors of a node also do other work, whose chance would widen
 * the fleet's deviation. */
static void pairs_confirm(health_report *report, fleet_nodes *fleet, pair_times *times, int rounds,
                          fleet_result *results)
{
    const int n = times->n;
    char *marks = calloc((size_t)n, (size_t)n);
    if (marks && pairs_mark(fleet, times->latency_us, n, marks) +
                         pairs_mark(fleet, times->message_us, n, marks) >
                     0)
        for (int round = 0; round < rounds; round++)
            pairs_run_round(report, fleet, round, times, marks, results);
    free(marks);
}

void fleet_check_pairs(health_report *report, fleet_nodes *fleet)
{
    enum { REPEATS = 3, REPEATS_BUSY = 12 };
    static const double IMPROVED = 0.2; /* of the logarithms, by a pair in both directions */
    int since_improved = 0;
    const int n = fleet_count(fleet), rounds = n + n % 2 - 1;
    const size_t all = (size_t)n * (size_t)n;
    pair_times times = {.n = n,
                        .latency_us = calloc(all, sizeof(double)),
                        .message_us = calloc(all, sizeof(double))};
    fleet_result *results = calloc((size_t)n, sizeof *results);
    if (!times.latency_us || !times.message_us || !results) {
        fputs("weir-check: out of memory\n", stderr);
        exit(3);
    }
    for (size_t i = 0; i < all; i++)
        times.latency_us[i] = times.message_us[i] = NAN;
    for (int round = 0; round < rounds; round++)
        pairs_run_round(report, fleet, round, &times, NULL, results);
    /* Times that are chance become better; times of slow links do not. */
    const int most = fleet_least_deviation(fleet) > DEVIATION_LEAST ? REPEATS_BUSY : REPEATS;
    for (int i = 0; i < most && (i < REPEATS || since_improved < 2); i++) {
        const double before = pairs_sum(&times);
        pairs_confirm(report, fleet, &times, rounds, results);
        since_improved = before - pairs_sum(&times) > IMPROVED ? 0 : since_improved + 1;
    }
    pairs_judge(report, fleet, &latency_measure, times.latency_us, n);
    pairs_judge(report, fleet, &bandwidth_measure, times.message_us, n);
    health_check *check = health_add(report, "fleet.rounds", "rounds of pairs side by side");
    health_set_value(check, fleet_rounds(fleet), "", 0);
    if (fleet_rounds(fleet) > rounds)
        snprintf(check->detail, sizeof check->detail, "%d of them to confirm what was slow",
                 fleet_rounds(fleet) - rounds);
    free(results);
    free(times.latency_us);
    free(times.message_us);
}
