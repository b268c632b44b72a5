/* The search for one slow node or link by halves, on a fleet (search.h is the search itself). */
#include "bench/health/deviation.h"
#include "bench/health/fleet.h"
#include "bench/health/search.h"

#include "base/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fastest that any group has been: what the others are compared with. */
typedef struct halves_best {
    double latency_us, gbs;
} halves_best;

/* The values of a group are the values of its slowest member. */
static void halves_values(const fleet_group *group, const fleet_result *results, double *latency_us,
                          double *gbs)
{
    *latency_us = 0;
    *gbs = INFINITY;
    for (int i = 0; i < group->count; i++) {
        const fleet_result *result = &results[group->nodes[i]];
        *latency_us = fmax(*latency_us, result->latency_us);
        *gbs = fmin(*gbs, result->gbs);
    }
}

/* Executes a round, and repeats it up to four times with the slow groups only: the fastest time of
 * a group counts. Returns 1 if a group failed otherwise than by its time. */
static int halves_round(health_report *report, fleet_nodes *fleet, const fleet_group *groups,
                        int ngroups, fleet_result *results, halves_best *best, double deviations[2])
{
    enum { REPEATS = 5 };
    const double least = fleet_least_deviation(fleet);
    halves_best fastest[2] = {{INFINITY, 0}, {INFINITY, 0}};
    int tested[2] = {0, 1}, ntested = ngroups;
    for (int repeat = 0; repeat < REPEATS && ntested; repeat++) {
        fleet_group again[2];
        for (int i = 0; i < ntested; i++)
            /* NOLINTNEXTLINE(*.uninitialized.ArraySubscript): there are two groups at most */
            again[i] = groups[tested[i]];
        fleet_round(fleet, again, ntested, results);
        for (int i = 0; i < ntested; i++) {
            double latency_us, gbs;
            if (fleet_check_group(report, fleet, &again[i], results))
                return 1;
            halves_values(&again[i], results, &latency_us, &gbs);
            fastest[tested[i]].latency_us = fmin(fastest[tested[i]].latency_us, latency_us);
            fastest[tested[i]].gbs = fmax(fastest[tested[i]].gbs, gbs);
            best->latency_us = fmin(best->latency_us, latency_us);
            best->gbs = fmax(best->gbs, gbs);
        }
        ntested = 0;
        for (int g = 0; g < ngroups; g++) {
            deviations[g] = fmax(deviation_of(fastest[g].latency_us, best->latency_us, least),
                                 deviation_of(1 / fastest[g].gbs, 1 / best->gbs, least));
            if (deviations[g] > DEVIATIONS_MOST)
                tested[ntested++] = g;
        }
    }
    return 0;
}

/* Executes the rounds of a search until it ends or a group fails otherwise than by its time.
 * Returns the worst deviation of a slow group. */
static double halves_search(health_report *report, fleet_nodes *fleet, fleet_search *search,
                            fleet_result *results)
{
    halves_best best = {INFINITY, 0};
    fleet_group groups[2];
    double worst = 0;
    int ngroups;
    while ((ngroups = search_next(search, groups)) > 0) {
        double deviations[2] = {0};
        int slow[2] = {0};
        if (halves_round(report, fleet, groups, ngroups, results, &best, deviations))
            return worst;
        for (int g = 0; g < ngroups; g++) {
            slow[g] = deviations[g] > DEVIATIONS_MOST;
            worst = slow[g] ? fmax(worst, deviations[g]) : worst;
        }
        search_tell(search, slow);
    }
    return worst;
}

static void halves_report(health_report *report, const fleet_nodes *fleet,
                          const fleet_search *search, double worst)
{
    const unsigned rounds = (unsigned)search->rounds;
    health_check *check = health_add(report, "fleet.search", "a slow node or link, by halves");
    health_look(check, "link rates, cables, switch ports, other jobs; weir-check --fleet without "
                       "--bisect measures every pair");
    if (search->nodes[0] < 0 && search->state == SEARCH_DONE)
        health_set(check, HEALTH_PASS, "none in %u round%s", rounds, weiri_s(rounds));
    else if (search->nodes[0] < 0)
        health_set(check, HEALTH_SKIPPED, "ended by another failure after %u round%s", rounds,
                   weiri_s(rounds));
    else if (search->nodes[1] < 0)
        health_set(check, HEALTH_SLOW, "node %s, %.1f deviations, found in %u round%s",
                   fleet_node(fleet, search->nodes[0])->host, worst, rounds, weiri_s(rounds));
    else
        health_set(check, HEALTH_SLOW, "the link %s - %s, %.1f deviations, found in %u round%s",
                   fleet_node(fleet, search->nodes[0])->host,
                   fleet_node(fleet, search->nodes[1])->host, worst, rounds, weiri_s(rounds));
}

void fleet_check_by_halves(health_report *report, fleet_nodes *fleet)
{
    const int n = fleet_count(fleet);
    fleet_search search;
    fleet_result *results = calloc((size_t)n, sizeof *results);
    if (!results || search_begin(&search, n) != 0) {
        fputs("weir-check: out of memory\n", stderr);
        exit(3);
    }
    const double worst = halves_search(report, fleet, &search, results);
    halves_report(report, fleet, &search, worst);
    search_end(&search);
    free(results);
}
