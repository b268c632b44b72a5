/*
 * Reads the graphs that NCCL has made: for each kind of algorithm some channels, each of which is a
 * way from GPU to GPU, from and to a NIC if there are several nodes. Channels of a graph that take
 * the same way are counted once.
 */
#include "topo/nccl_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/small_xml.h"

enum { RING = 4, PATTERNS = 7 };

const char *weiri_graph_name(const nccl_graph *graph)
{
    static const char *const names[PATTERNS] = {"graph", "balanced tree", "split tree",    "tree",
                                                "ring",  "NVLS",          "CollNet direct"};
    return names[graph->pattern];
}

int weiri_graph_is_ring(const nccl_graph *graph)
{
    return graph->pattern == RING;
}

/* The number of a device, whose upper digits are the number of its host. */
static long graph_device(const weiri_xml_element *device)
{
    const char *text = weiri_xml_value(device, "dev");
    char *end = NULL;
    const unsigned long long number = text ? strtoull(text, &end, 16) : 0;
    if (!text || end == text || *end || text[0] == '-')
        weiri_xml_refuse(device, "<%.20s dev=\"%.40s\">: expected a device's number",
                         device->words[0], text ? text : "");
    return (long)(number & 0xffffffffu);
}

/* GPUs have CUDA's numbers if the machine knows them. */
static int graph_find_gpu(const weiri_topo *topo, long device)
{
    char name[32];
    snprintf(name, sizeof name, "cuda%ld", device);
    for (int i = 0; i < topo->gpus.count; i++)
        if (strcmp(topo->gpus.entries[i].device.name, name) == 0)
            return i;
    return device < topo->gpus.count ? (int)device : -1;
}

static void graph_add_gpu(const weiri_xml_element *element, const weiri_topo *topo, nccl_way *way)
{
    const long device = graph_device(element);
    const int gpu = graph_find_gpu(topo, device);
    if (gpu < 0)
        weiri_xml_refuse(element,
                         "the machine has no GPU %ld; name the one that the graphs are of by "
                         "--nccl FILE or --xml FILE",
                         device);
    for (int i = 0; i < way->ngpus; i++)
        if (way->gpus[i] == gpu)
            weiri_xml_refuse(element, "GPU %ld is in this channel twice", device);
    if (!element->of->status)
        way->gpus[way->ngpus++] = gpu;
}

static void graph_read_way(const weiri_xml_element *channel, const weiri_topo *topo, nccl_way *way)
{
    *way = (nccl_way){.net_in = -1, .net_out = -1, .count = 1};
    way->gpus = calloc((size_t)topo->gpus.count + 1, sizeof *way->gpus);
    if (!way->gpus)
        weiri_xml_refuse(channel, "no memory for a channel");
    for (const weiri_xml_element *i = channel->child; i && !i->of->status; i = i->next) {
        if (weiri_xml_is(i, "gpu"))
            graph_add_gpu(i, topo, way);
        else if (weiri_xml_is(i, "net"))
            *(way->ngpus ? &way->net_out : &way->net_in) = graph_device(i);
    }
    if (way->ngpus == 0)
        weiri_xml_refuse(channel, "<channel> has no <gpu>");
}

static int graph_same_way(const nccl_way *a, const nccl_way *b)
{
    return a->ngpus == b->ngpus && a->net_in == b->net_in && a->net_out == b->net_out &&
           memcmp(a->gpus, b->gpus, (size_t)a->ngpus * sizeof *a->gpus) == 0;
}

static void graph_read_ways(const weiri_xml_element *element, const weiri_topo *topo,
                            nccl_graph *graph)
{
    size_t most = 1;
    for (const weiri_xml_element *i = element->child; i; i = i->next)
        most++;
    graph->ways = calloc(most, sizeof *graph->ways);
    if (!graph->ways)
        weiri_xml_refuse(element, "no memory for %zu channels", most);
    for (const weiri_xml_element *i = weiri_xml_child(element, "channel"); i && !i->of->status;
         i = weiri_xml_find(i->next, "channel")) {
        nccl_way *made = &graph->ways[graph->nways], *same = graph->ways;
        graph_read_way(i, topo, made);
        graph->nchannels++;
        while (same < made && !graph_same_way(same, made))
            same++;
        if (i->of->status || same == made) {
            graph->nways++; /* to be freed, even after a failure */
        } else {
            same->count++;
            free(made->gpus);
        }
    }
}

static void graph_read(const weiri_xml_element *element, const weiri_topo *topo, nccl_graph *graph)
{
    const char *intra = weiri_xml_value(element, "speedintra");
    const char *inter = weiri_xml_value(element, "speedinter");
    const char *near = weiri_xml_value(element, "typeintra");
    const char *far = weiri_xml_value(element, "typeinter");
    graph->id = weiri_xml_number(element, "id", 0, 255, -1);
    graph->pattern = weiri_xml_number(element, "pattern", 0, PATTERNS - 1, -1);
    graph->intra_gbs = intra ? strtod(intra, NULL) : 0;
    graph->inter_gbs = inter ? strtod(inter, NULL) : 0;
    snprintf(graph->intra, sizeof graph->intra, "%s", near ? near : "");
    snprintf(graph->inter, sizeof graph->inter, "%s", far ? far : "");
    graph_read_ways(element, topo, graph);
}

static weir_status graphs_read_all(const weiri_xml *xml, const weiri_topo *topo,
                                   nccl_graphs *graphs)
{
    const weiri_xml_element *root = xml->elements, *graph = weiri_xml_child(root, "graph");
    if (!weiri_xml_is(root, "graphs"))
        weiri_xml_refuse(
            root,
            "<%.40s> is not NCCL's graphs, which begin with <graphs> (NCCL_GRAPH_DUMP_FILE)%s",
            root->words[0], weiri_xml_is(root, "system") ? "; --nccl FILE shows a machine" : "");
    graphs->list = calloc((size_t)xml->nelements, sizeof *graphs->list);
    if (!graphs->list)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for graphs");
    if (!graph)
        weiri_xml_refuse(root, "<graphs> has no <graph>");
    for (; graph && !xml->status; graph = weiri_xml_find(graph->next, "graph"))
        graph_read(graph, topo, &graphs->list[graphs->count++]);
    return xml->status;
}

weir_status weiri_graphs_read(const char *path, const weiri_topo *topo, nccl_graphs *graphs)
{
    weiri_xml xml;
    *graphs = (nccl_graphs){0};
    weir_status status = weiri_xml_read(path, &xml);
    if (!status)
        status = graphs_read_all(&xml, topo, graphs);
    weiri_xml_free(&xml);
    if (status)
        weiri_graphs_free(graphs);
    return status;
}

void weiri_graphs_free(nccl_graphs *graphs)
{
    for (int i = 0; i < graphs->count; i++) {
        for (int k = 0; k < graphs->list[i].nways; k++)
            free(graphs->list[i].ways[k].gpus);
        free(graphs->list[i].ways);
    }
    free(graphs->list);
    *graphs = (nccl_graphs){0};
}
