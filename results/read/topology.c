/* The picture of a machine that a file describes (topology.json of weir-topo --json): see
 * machine.h. */
#include "results/read/machine.h"

#include "programs/picture.h"
#include "results/output/print.h"

#include <stdlib.h>

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) ? json_string_value(value) : "";
}

/* -1: none. */
static int whole_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    json_int_t whole = json_integer_value(value);
    return json_is_integer(value) && whole >= 0 && whole < 100000 ? (int)whole : -1;
}

/* 0: unknown. */
static double speed_of(const json_t *object, const char *key)
{
    const double speed = json_number_value(json_object_get(object, key));
    return speed > 0 && speed < 1e6 ? speed : 0;
}

static int at_most(const json_t *list, int most)
{
    const size_t count = json_array_size(list);
    return count < (size_t)most ? (int)count : most;
}

static void topology_add_nodes(const json_t *list, weiri_picture *picture)
{
    picture->nnodes = at_most(list, WEIRI_PICTURE_NODES);
    for (int i = 0; i < picture->nnodes; i++) {
        const json_t *facts = json_array_get(list, (size_t)i);
        const double bytes = json_number_value(json_object_get(facts, "memory_bytes"));
        picture->nodes[i] = (weiri_picture_node){.numa = whole_of(facts, "numa"),
                                                 .memory_bytes = bytes < 1e18 ? bytes : 0,
                                                 .cpus = text_of(facts, "cpus")};
    }
}

static int topology_add_devices(const json_t *list, weiri_picture_device *devices)
{
    const int count = at_most(list, WEIRI_PICTURE_DEVICES);
    for (int i = 0; i < count; i++) {
        const json_t *facts = json_array_get(list, (size_t)i);
        devices[i] =
            (weiri_picture_device){.name = text_of(facts, "name"),
                                   .model = text_of(facts, "model"),
                                   .numa = whole_of(facts, "numa"),
                                   .number = whole_of(facts, "nic"),
                                   .nic = whole_of(facts, "nic"),
                                   .pcie_gbs = speed_of(facts, "pcie_gbs"),
                                   .link_gbits = speed_of(facts, "link_gbits"),
                                   .is_down = json_is_false(json_object_get(facts, "link_up"))};
    }
    return count;
}

static void topology_add_nvlink(const json_t *matrix, weiri_picture *picture)
{
    for (int from = 0; from < picture->ngpus; from++)
        for (int to = 0; to < picture->ngpus; to++) {
            const json_t *row = json_array_get(matrix, (size_t)from);
            const double gbs = json_number_value(json_array_get(row, (size_t)to));
            picture->nvlink_gbs[from][to] = from != to && gbs > 0 && gbs < 1e6 ? gbs : 0;
        }
}

void results_topology_put(const json_t *topology, FILE *page)
{
    weiri_picture *picture = calloc(1, sizeof *picture);
    if (!picture)
        return;
    picture->title = text_of(topology, "processor");
    picture->summary = text_of(topology, "summary");
    topology_add_nodes(json_object_get(topology, "numa"), picture);
    picture->ngpus = topology_add_devices(json_object_get(topology, "gpus"), picture->gpus);
    picture->nnics = topology_add_devices(json_object_get(topology, "nics"), picture->nics);
    topology_add_nvlink(json_object_get(json_object_get(topology, "distances"), "nvlink_gbs"),
                        picture);
    fputs("<figure class=\"scroll\" tabindex=\"0\">\n", page);
    weiri_picture_put(picture, 0, page);
    fputs("<figcaption>", page);
    results_put_xml(page, picture->summary);
    fputs("</figcaption></figure>\n", page);
    free(picture);
}
