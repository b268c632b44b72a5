/* Draws the picture of a machine: see machine.h. */
#include "results/read/machine.h"

#include "results/output/print.h"

enum {
    MOST_NODES = 16,
    MOST_DEVICES = 64, /* of one kind */
    BOX_WIDTH = 116,
    BOX_STEP = 126,
    MARGIN = 10,
    NODE_TOP = 40,
    GPU_TOP = 112,
    GPU_HEIGHT = 44,
    NIC_GAP = 50, /* below GPUs */
    NIC_HEIGHT = 44,
};

typedef struct device {
    const json_t *facts;
    int node, x; /* its column, and the left edge of its box */
} device;

typedef struct node {
    const json_t *facts;
    int x, width, ngpus, nnics;
} node;

typedef struct picture {
    FILE *page;
    node nodes[MOST_NODES];
    device gpus[MOST_DEVICES], nics[MOST_DEVICES];
    int nnodes, ngpus, nnics, width;
    int nic_top; /* below the GPUs, or in their place if there are none */
} picture;

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

static int at_most(size_t count, int most)
{
    return count < (size_t)most ? (int)count : most;
}

/* The column of a device; the first one if its NUMA node is unknown. */
static int column_of(const picture *p, const json_t *facts)
{
    int numa = whole_of(facts, "numa");
    for (int i = 0; i < p->nnodes; i++)
        if (whole_of(p->nodes[i].facts, "numa") == numa)
            return i;
    return 0;
}

static int gather_devices(const picture *p, const json_t *list, device *devices, int is_nic,
                          node *nodes)
{
    int count = at_most(json_array_size(list), MOST_DEVICES);
    for (int i = 0; i < count; i++) {
        const json_t *facts = json_array_get(list, (size_t)i);
        int column = column_of(p, facts);
        int *there = is_nic ? &nodes[column].nnics : &nodes[column].ngpus;
        devices[i] = (device){facts, column, (*there)++ * BOX_STEP};
    }
    return count;
}

static void lay_out(picture *p, const json_t *topology)
{
    const json_t *nodes = json_object_get(topology, "numa");
    int x = MARGIN;
    p->nnodes = at_most(json_array_size(nodes), MOST_NODES);
    for (int i = 0; i < p->nnodes; i++)
        p->nodes[i] = (node){.facts = json_array_get(nodes, (size_t)i)};
    if (p->nnodes == 0)
        p->nodes[p->nnodes++] = (node){.facts = NULL};
    p->ngpus = gather_devices(p, json_object_get(topology, "gpus"), p->gpus, 0, p->nodes);
    p->nnics = gather_devices(p, json_object_get(topology, "nics"), p->nics, 1, p->nodes);
    for (int i = 0; i < p->nnodes; i++) {
        node *own = &p->nodes[i];
        int boxes = own->ngpus > own->nnics ? own->ngpus : own->nnics;
        own->x = x;
        own->width = (boxes > 2 ? boxes : 2) * BOX_STEP + MARGIN;
        x += own->width + MARGIN;
    }
    p->width = x;
    p->nic_top = GPU_TOP + (p->ngpus ? GPU_HEIGHT + NIC_GAP : -MARGIN);
    for (int i = 0; i < p->ngpus; i++)
        p->gpus[i].x += p->nodes[p->gpus[i].node].x + MARGIN;
    for (int i = 0; i < p->nnics; i++)
        p->nics[i].x += p->nodes[p->nics[i].node].x + MARGIN;
}

/* Writes text, truncated to the width of a box. */
static void put_text(picture *p, int x, int y, int is_strong, const char *text, int most)
{
    char cut[128];
    snprintf(cut, sizeof cut, "%.*s", most, text);
    fprintf(p->page, "<text x=\"%d\" y=\"%d\"%s>", x, y,
            is_strong ? " font-weight=\"600\"" : " opacity=\".75\"");
    results_put_xml(p->page, cut);
    fputs("</text>\n", p->page);
}

static void put_box(picture *p, int x, int y, int width, int height, const char *fill)
{
    fprintf(p->page,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" "
            "fill-opacity=\".18\" stroke=\"currentColor\" stroke-opacity=\".5\"/>\n",
            x, y, width, height, fill);
}

static void put_node(picture *p, const node *own, int bottom)
{
    char line[160];
    double gib = json_number_value(json_object_get(own->facts, "memory_bytes")) / 1073741824;
    put_box(p, own->x, NODE_TOP, own->width, bottom - NODE_TOP, "none");
    snprintf(line, sizeof line, "NUMA node %d, %.0f GiB", whole_of(own->facts, "numa"), gib);
    put_text(p, own->x + MARGIN, NODE_TOP + 20, 1, own->facts ? line : "Machine", 60);
    snprintf(line, sizeof line, "cores %.100s", text_of(own->facts, "cpus"));
    put_text(p, own->x + MARGIN, NODE_TOP + 38, 0, line, own->width / 7);
}

static void put_gpu(picture *p, const device *own)
{
    int nic = whole_of(own->facts, "nic");
    put_box(p, own->x, GPU_TOP, BOX_WIDTH, GPU_HEIGHT, "#2ca02c");
    put_text(p, own->x + 8, GPU_TOP + 18, 1, text_of(own->facts, "name"), 12);
    put_text(p, own->x + 8, GPU_TOP + 34, 0, text_of(own->facts, "model"), 15);
    for (int i = 0; i < p->nnics; i++)
        if (nic >= 0 && whole_of(p->nics[i].facts, "nic") == nic)
            fprintf(p->page, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" "
                             "stroke=\"currentColor\" stroke-opacity=\".5\"/>\n",
                    own->x + BOX_WIDTH / 2, GPU_TOP + GPU_HEIGHT, p->nics[i].x + BOX_WIDTH / 2,
                    p->nic_top);
}

static void put_nic(picture *p, const device *own)
{
    char line[64] = "";
    double gbits = json_number_value(json_object_get(own->facts, "link_gbits"));
    int is_down = json_is_false(json_object_get(own->facts, "link_up"));
    if (gbits > 0)
        snprintf(line, sizeof line, "%.0f Gbit/s%s", gbits, is_down ? ", down" : "");
    put_box(p, own->x, p->nic_top, BOX_WIDTH, NIC_HEIGHT, "#1f77b4");
    put_text(p, own->x + 8, p->nic_top + 18, 1, text_of(own->facts, "name"), 12);
    put_text(p, own->x + 8, p->nic_top + 34, 0, is_down && !line[0] ? "down" : line, 16);
}

static void put_nvlink(picture *p, const json_t *topology)
{
    const json_t *nvlink = json_object_get(json_object_get(topology, "distances"), "nvlink_gbs");
    if (!json_is_array(nvlink) || p->ngpus < 2)
        return;
    int from = p->gpus[0].x, to = p->gpus[p->ngpus - 1].x + BOX_WIDTH;
    fprintf(p->page, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#2ca02c\" "
                     "stroke-width=\"5\" stroke-linecap=\"round\"/>\n",
            from, GPU_TOP - 6, to, GPU_TOP - 6);
    put_text(p, from, GPU_TOP - 13, 0, "NVLink", 6);
}

void results_topology_put(const json_t *topology, FILE *page)
{
    picture p = {.page = page};
    lay_out(&p, topology);
    int bottom = p.nnics   ? p.nic_top + NIC_HEIGHT + MARGIN
                 : p.ngpus ? GPU_TOP + GPU_HEIGHT + MARGIN
                           : GPU_TOP - 3 * MARGIN;
    int height = bottom + MARGIN;
    fputs("<figure class=\"scroll\" tabindex=\"0\">\n", page);
    fprintf(page, "<svg class=\"machine\" viewBox=\"0 0 %d %d\" style=\"width:%dpx\" "
                  "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"currentColor\" "
                  "role=\"img\" aria-label=\"NUMA nodes with their GPUs and NICs\">\n",
            p.width, height, p.width);
    put_text(&p, MARGIN, 22, 1, text_of(topology, "processor"), 100);
    for (int i = 0; i < p.nnodes; i++)
        put_node(&p, &p.nodes[i], bottom);
    for (int i = 0; i < p.ngpus; i++)
        put_gpu(&p, &p.gpus[i]);
    for (int i = 0; i < p.nnics; i++)
        put_nic(&p, &p.nics[i]);
    put_nvlink(&p, topology);
    fputs("</svg>\n<figcaption>", page);
    results_put_xml(page, text_of(topology, "summary"));
    fputs("</figcaption></figure>\n", page);
}
