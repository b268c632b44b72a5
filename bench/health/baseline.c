/* Expectations from an earlier report, and from what the report itself has measured. */
#include "base/error.h"
#include "bench/health/expect.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct health_baseline {
    json_t *root, *checks;
    char name[HEALTH_TEXT_BYTES];
};

weir_status health_baseline_read(const char *path, health_baseline **baseline)
{
    json_error_t error;
    FILE *file = fopen(path, "r");
    if (!file)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "--baseline %s", path);
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (!root)
        return weiri_fail(WEIR_ERR_INVALID, "--baseline %s:%d: %s", path, error.line, error.text);
    json_t *checks = json_object_get(root, "checks");
    const char *tool = json_string_value(json_object_get(root, "tool"));
    health_baseline *read = calloc(1, sizeof *read);
    if (!read || !json_is_array(checks) || !tool || strcmp(tool, "weir-check") != 0) {
        json_decref(root);
        free(read);
        return weiri_fail(WEIR_ERR_INVALID,
                          "--baseline %s: not a report of weir-check; record one with --json FILE",
                          path);
    }
    read->root = root;
    read->checks = checks;
    snprintf(read->name, sizeof read->name, "baseline %s", path);
    *baseline = read;
    return WEIR_OK;
}

void health_baseline_free(health_baseline *baseline)
{
    if (!baseline)
        return;
    json_decref(baseline->root);
    free(baseline);
}

/* Expects a value of the baseline. */
static void baseline_expect(const health_baseline *baseline, double tolerance, double value,
                            const char *unit, health_check *check)
{
    if (check->relation != HEALTH_ANY && check->verdict != HEALTH_PASS)
        return;
    if (strcmp(unit, "us") == 0 || strcmp(unit, "s") == 0)
        health_expect(check, HEALTH_AT_MOST, value * (1 + 2 * tolerance), HEALTH_SLOW,
                      baseline->name);
    else if (strcmp(unit, "GB/s") == 0)
        health_expect(check, HEALTH_AT_LEAST, value * (1 - tolerance), HEALTH_SLOW, baseline->name);
    else if (strcmp(unit, "Gbit/s") == 0 || strcmp(unit, "") == 0)
        health_expect(check, HEALTH_AT_LEAST, value, HEALTH_MISSING, baseline->name);
    else /* amounts of memory, of which the kernel takes a varying part */
        health_expect(check, HEALTH_AT_LEAST, value * (1 - tolerance), HEALTH_MISSING,
                      baseline->name);
}

/* Counters and limits are no property of a good node: their own expectations are enough. */
static int baseline_is_property(const char *id)
{
    return !strstr(id, ".errors") && !strstr(id, ".ecc.") && !strstr(id, ".throttled") &&
           strcmp(id, "node.shm") != 0 && strcmp(id, "node.files") != 0;
}

static int baseline_is_device(const char *id)
{
    return strncmp(id, "gpu", 3) == 0 || strncmp(id, "nic", 3) == 0;
}

/* Shows versions that differ from the baseline's. A difference is no fault by itself. */
static void baseline_note_versions(const health_baseline *baseline, const json_t *entry,
                                   health_check *check)
{
    const char *before = json_string_value(json_object_get(entry, "detail"));
    const size_t used = strlen(check->detail);
    if (!before || !before[0] || strcmp(before, check->detail) == 0 || used >= sizeof check->detail)
        return;
    snprintf(check->detail + used, sizeof check->detail - used, "; the baseline had %.100s",
             before);
    snprintf(check->source, sizeof check->source, "%s", baseline->name);
}

void health_baseline_apply(const health_baseline *baseline, double tolerance, int is_complete,
                           health_report *report)
{
    size_t i;
    json_t *entry;
    json_array_foreach(baseline->checks, i, entry)
    {
        const char *id = json_string_value(json_object_get(entry, "id"));
        const char *what = json_string_value(json_object_get(entry, "what"));
        const char *unit = json_string_value(json_object_get(entry, "unit"));
        const json_t *value = json_object_get(entry, "value");
        if (id && strcmp(id, "node.versions") == 0 && health_find(report, id))
            baseline_note_versions(baseline, entry, health_find(report, id));
        if (!id || !what || !unit || !json_is_number(value) || !baseline_is_property(id))
            continue;
        health_check *check = health_find(report, id);
        if (!check && is_complete && baseline_is_device(id)) {
            check = health_add(report, id, what);
            health_set(check, HEALTH_MISSING, "the baseline has it");
            snprintf(check->source, sizeof check->source, "%s", baseline->name);
            health_look(
                check,
                "nvidia-smi -L, ip link, ibstat, dmesg; another baseline for other hardware");
        } else if (check && isnan(check->value) && baseline_is_device(id)) {
            health_set(check, HEALTH_MISSING, "the baseline has a value: %g %s",
                       json_number_value(value), unit);
        } else if (check) {
            baseline_expect(baseline, tolerance, json_number_value(value), unit, check);
        }
    }
}

/* ---------------------------------------------------------------- ceilings */

/* Shares of what was measured that a good node reaches by far: they find what is broken, not what
 * is a little slow. */
static const double LEAST_OF_COPY = 0.05, LEAST_OF_PCIE = 0.7;
enum { MOST_LATENCIES = 200 };

static void ceilings_of_collective(const health_report *report, health_check *check)
{
    const health_check *copy = health_find(report, "host.copy.all");
    const health_check *latency = health_find(report, "host.links.latency");
    if (strcmp(check->unit, "GB/s") == 0 && copy && copy->value > 0)
        health_expect(check, HEALTH_AT_LEAST, LEAST_OF_COPY * copy->value / check->nranks,
                      HEALTH_SLOW, "5% of each rank's share of host.copy.all");
    if (strcmp(check->unit, "us") == 0 && latency && latency->value > 0)
        health_expect(check, HEALTH_AT_MOST, MOST_LATENCIES * latency->value * check->nranks,
                      HEALTH_SLOW, "200 times host.links.latency for each rank");
}

static void ceilings_of_pcie(const health_report *report, health_check *check)
{
    int gpu, length = 0;
    char id[HEALTH_ID_BYTES];
    if (sscanf(check->id, "gpu%d.copy.%n", &gpu, &length) != 1 || !length ||
        (strcmp(check->id + length, "from-host") != 0 &&
         strcmp(check->id + length, "to-host") != 0))
        return;
    snprintf(id, sizeof id, "gpu%d.pcie", gpu);
    const health_check *link = health_find(report, id);
    if (link && link->value > 0)
        health_expect(check, HEALTH_AT_LEAST, LEAST_OF_PCIE * link->value, HEALTH_SLOW,
                      "70% of the rate of its PCIe link");
}

void health_ceilings_apply(health_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        health_check *check = &report->checks[i];
        if (check->relation != HEALTH_ANY || isnan(check->value))
            continue;
        if (check->collective[0])
            ceilings_of_collective(report, check);
        else
            ceilings_of_pcie(report, check);
    }
}
