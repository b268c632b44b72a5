/* What a fleet's nodes are, and what their exchanges say apart from times. */
#include "bench/health/fleet.h"

#include <stdlib.h>
#include <string.h>

/* Adds a failed check once: later rounds confirm it. */
static void fleet_add_failure(health_report *report, const char *id, const char *what,
                              health_verdict verdict, const char *detail, const char *look)
{
    if (health_find(report, id))
        return;
    health_check *check = health_add(report, id, what);
    health_look(check, look);
    health_set(check, verdict, "%s", detail);
}

static void fleet_add_silent(health_report *report, const fleet_nodes *fleet, int node)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
    snprintf(id, sizeof id, "fleet.node%d.answer", node);
    snprintf(what, sizeof what, "node %s answers", fleet_node(fleet, node)->host);
    fleet_add_failure(report, id, what, HEALTH_HUNG, "no answer before the deadline",
                      "the node's console, dmesg, stopped or swapped-out processes");
}

static void fleet_add_wrong(health_report *report, const fleet_nodes *fleet, int from, int to,
                            int bytes)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES], detail[HEALTH_TEXT_BYTES];
    snprintf(id, sizeof id, "fleet.node%d.data", from);
    snprintf(what, sizeof what, "data from node %s", fleet_node(fleet, from)->host);
    snprintf(detail, sizeof detail, "%d wrong bytes arrived at %s", bytes,
             fleet_node(fleet, to)->host);
    fleet_add_failure(
        report, id, what, HEALTH_WRONG, detail,
        "the node's memory (edac-util, memtester) and network adapter (error counters)");
}

int fleet_check_group(health_report *report, const fleet_nodes *fleet, const fleet_group *group,
                      const fleet_result *results)
{
    int found = 0, has_silent = 0;
    for (int i = 0; i < group->count; i++) {
        const fleet_result *result = &results[group->nodes[i]];
        found |= result->outcome != FLEET_RIGHT;
        has_silent |= result->outcome == FLEET_SILENT;
        if (result->outcome == FLEET_SILENT)
            fleet_add_silent(report, fleet, group->nodes[i]);
        if (result->outcome == FLEET_WRONG)
            fleet_add_wrong(report, fleet, group->nodes[result->wrong_from], group->nodes[i],
                            result->wrong_bytes);
    }
    /* A silent member explains the errors of the others. */
    for (int i = 0; i < group->count && !has_silent; i++) {
        const int node = group->nodes[i];
        char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
        if (results[node].outcome != FLEET_FAILED)
            continue;
        snprintf(id, sizeof id, "fleet.node%d.exchange", node);
        snprintf(what, sizeof what, "messages of node %s", fleet_node(fleet, node)->host);
        fleet_add_failure(report, id, what, HEALTH_HUNG, results[node].text,
                          "routes and firewalls between the nodes; WEIR_SOCKET_IFNAME");
    }
    return found;
}

/* ------------------------------------------------------------------- facts */

/* The most frequent value of what most nodes have. */
static int fleet_usual(const fleet_nodes *fleet, int (*value)(const fleet_facts *facts))
{
    int usual = 0, most = 0;
    for (int i = 0; i < fleet_count(fleet); i++) {
        int same = 0;
        for (int k = 0; k < fleet_count(fleet); k++)
            same += !fleet_is_silent(fleet, k) &&
                    value(fleet_node(fleet, k)) == value(fleet_node(fleet, i));
        if (!fleet_is_silent(fleet, i) && same > most) {
            most = same;
            usual = value(fleet_node(fleet, i));
        }
    }
    return usual;
}

static int facts_cores(const fleet_facts *facts)
{
    return facts->cores;
}
static int facts_gpus(const fleet_facts *facts)
{
    return facts->gpus;
}
static int facts_nics(const fleet_facts *facts)
{
    return facts->nics;
}

static void fleet_check_counts(health_report *report, const fleet_nodes *fleet)
{
    static const struct {
        const char *name;
        int (*value)(const fleet_facts *facts);
    } rows[] = {{"cores", facts_cores}, {"gpus", facts_gpus}, {"nics", facts_nics}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const int usual = fleet_usual(fleet, rows[row].value);
        char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
        int fewer = 0;
        for (int i = 0; i < fleet_count(fleet); i++) {
            const int value = rows[row].value(fleet_node(fleet, i));
            if (fleet_is_silent(fleet, i) || value >= usual)
                continue;
            fewer++;
            snprintf(id, sizeof id, "fleet.node%d.%s", i, rows[row].name);
            snprintf(what, sizeof what, "%s of node %s", rows[row].name,
                     fleet_node(fleet, i)->host);
            health_check *check = health_add(report, id, what);
            health_look(check, "weir-topo and weir-check on that node");
            health_set_value(check, value, "", 0);
            health_expect(check, HEALTH_AT_LEAST, usual, HEALTH_MISSING, "what most nodes have");
        }
        if (fewer)
            continue;
        snprintf(id, sizeof id, "fleet.%s", rows[row].name);
        snprintf(what, sizeof what, "%s of each node", rows[row].name);
        health_check *check = health_add(report, id, what);
        health_set_value(check, usual, "", 0);
        health_expect(check, HEALTH_AT_LEAST, usual, HEALTH_MISSING, "what most nodes have");
    }
}

/* Names the nodes whose text differs from the first node's. Returns their number. */
static int fleet_differ(const fleet_nodes *fleet, size_t offset, char *names, size_t bytes)
{
    const char *first = (const char *)fleet_node(fleet, 0) + offset;
    int count = 0;
    names[0] = '\0';
    for (int i = 1; i < fleet_count(fleet); i++) {
        const char *mine = (const char *)fleet_node(fleet, i) + offset;
        const size_t used = strlen(names);
        if (fleet_is_silent(fleet, i) || strcmp(mine, first) == 0)
            continue;
        count++;
        snprintf(names + used, bytes - used, "%s%s (%s)", used ? ", " : "",
                 fleet_node(fleet, i)->host, mine);
    }
    return count;
}

void fleet_check_facts(health_report *report, const fleet_nodes *fleet)
{
    char names[HEALTH_TEXT_BYTES - 40];
    int answered = 0;
    for (int i = 0; i < fleet_count(fleet); i++) {
        answered += !fleet_is_silent(fleet, i);
        if (fleet_is_silent(fleet, i))
            fleet_add_silent(report, fleet, i);
    }
    report->nodes = fleet_count(fleet);
    snprintf(report->hardware, sizeof report->hardware, "%d nodes, the first: %.180s",
             fleet_count(fleet), fleet_node(fleet, 0)->hardware);
    health_check *check = health_add(report, "fleet.nodes", "nodes that answer");
    health_set_value(check, answered, "", 0);
    health_expect(check, HEALTH_EQUAL, fleet_count(fleet), HEALTH_HUNG, "the job");
    fleet_check_counts(report, fleet);
    for (int i = 0; i < fleet_count(fleet) && !report->busy; i++)
        if (fleet_node(fleet, i)->busy) {
            report->busy = 1;
            snprintf(
                report->busy_text, sizeof report->busy_text,
                "other processes use the processors of node %s, so only what takes 17 times as "
                "long counts as slow",
                fleet_node(fleet, i)->host);
        }
    check = health_add(report, "fleet.versions", "all nodes run the same weir and GPU driver");
    health_look(check, "install the same version everywhere");
    if (fleet_differ(fleet, offsetof(fleet_facts, version), names, sizeof names))
        health_set(check, HEALTH_BROKEN, "%s here, but %s", fleet_node(fleet, 0)->version, names);
    else
        health_set(check, HEALTH_PASS, "%s", fleet_node(fleet, 0)->version);
    check = health_add(report, "fleet.hardware", "all nodes have the same structure");
    if (fleet_differ(fleet, offsetof(fleet_facts, hardware), names, sizeof names))
        health_set(check, HEALTH_NOTED, "others: %s", names);
    else
        health_set(check, HEALTH_PASS, "%s", fleet_node(fleet, 0)->hardware);
}
