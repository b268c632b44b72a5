/*
 * Reads the graphs that NCCL has made: for each kind of algorithm some channels, each of which is a
 * way from GPU to GPU, from and to a NIC if there are several nodes. Channels of a graph that take
 * the same way are counted once.
 */
#include "topo/nccl_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/small_xml.h"

enum { RING = 4, PATTERNS = 7 };

#define graph_refuse(xml, element, ...)                                                            \
    weiri_xml_refuse(xml, (xml)->elements[element].line, __VA_ARGS__)

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

static weir_status graph_number(const weiri_xml *xml, int element, const char *name, long high,
                                long *number)
{
    const char *text = weiri_xml_value(xml, element, name);
    char *end = NULL;
    errno = 0;
    *number = text ? strtol(text, &end, 0) : -1;
    if (!text || errno || end == text || *end || *number < 0 || *number > high)
        return graph_refuse(xml, element, "<%.20s %s=\"%.40s\">: expected a number from 0 to %ld",
                            xml->elements[element].name, name, text ? text : "", high);
    return WEIR_OK;
}

/* The number of a device, whose upper digits are the number of its host. */
static weir_status graph_device(const weiri_xml *xml, int element, long *device)
{
    const char *text = weiri_xml_value(xml, element, "dev");
    char *end = NULL;
    const unsigned long long number = text ? strtoull(text, &end, 16) : 0;
    *device = (long)(number & 0xffffffffu);
    if (!text || end == text || *end || text[0] == '-')
        return graph_refuse(xml, element, "<%.20s dev=\"%.40s\">: expected a device's number",
                            xml->elements[element].name, text ? text : "");
    return WEIR_OK;
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

static weir_status graph_add_gpu(const weiri_xml *xml, int element, const weiri_topo *topo,
                                 nccl_way *way)
{
    long device;
    const weir_status status = graph_device(xml, element, &device);
    if (status)
        return status;
    const int gpu = graph_find_gpu(topo, device);
    if (gpu < 0)
        return graph_refuse(xml, element,
                            "the machine has no GPU %ld; name the one that the graphs are of by "
                            "--nccl FILE or --xml FILE",
                            device);
    for (int i = 0; i < way->ngpus; i++)
        if (way->gpus[i] == gpu)
            return graph_refuse(xml, element, "GPU %ld is in this channel twice", device);
    way->gpus[way->ngpus++] = gpu;
    return WEIR_OK;
}

static weir_status graph_read_way(const weiri_xml *xml, int channel, const weiri_topo *topo,
                                  nccl_way *way)
{
    weir_status status = WEIR_OK;
    *way = (nccl_way){.gpus = calloc((size_t)topo->gpus.count + 1, sizeof *way->gpus),
                      .net_in = -1,
                      .net_out = -1,
                      .count = 1};
    if (!way->gpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a channel");
    for (int i = xml->elements[channel].child; !status && i >= 0; i = xml->elements[i].next) {
        if (strcmp(xml->elements[i].name, "gpu") == 0)
            status = graph_add_gpu(xml, i, topo, way);
        else if (strcmp(xml->elements[i].name, "net") == 0)
            status = graph_device(xml, i, way->ngpus ? &way->net_out : &way->net_in);
    }
    if (!status && way->ngpus == 0)
        status = graph_refuse(xml, channel, "<channel> has no <gpu>");
    return status;
}

static int graph_same_way(const nccl_way *a, const nccl_way *b)
{
    return a->ngpus == b->ngpus && a->net_in == b->net_in && a->net_out == b->net_out &&
           memcmp(a->gpus, b->gpus, (size_t)a->ngpus * sizeof *a->gpus) == 0;
}

static weir_status graph_read_ways(const weiri_xml *xml, int element, const weiri_topo *topo,
                                   nccl_graph *graph)
{
    weir_status status = WEIR_OK;
    int most = 0;
    for (int i = xml->elements[element].child; i >= 0; i = xml->elements[i].next)
        most++;
    graph->ways = calloc((size_t)most + 1, sizeof *graph->ways);
    if (!graph->ways)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d channels", most);
    for (int i = weiri_xml_find(xml, xml->elements[element].child, "channel"); !status && i >= 0;
         i = weiri_xml_find(xml, xml->elements[i].next, "channel")) {
        nccl_way *made = &graph->ways[graph->nways];
        int same = 0;
        status = graph_read_way(xml, i, topo, made);
        graph->nchannels++;
        while (!status && same < graph->nways && !graph_same_way(&graph->ways[same], made))
            same++;
        if (status || same == graph->nways) {
            graph->nways++; /* to be freed, even after a failure */
        } else {
            graph->ways[same].count++;
            free(made->gpus);
        }
    }
    return status;
}

static weir_status graph_read(const weiri_xml *xml, int element, const weiri_topo *topo,
                              nccl_graph *graph)
{
    const char *intra = weiri_xml_value(xml, element, "speedintra");
    const char *inter = weiri_xml_value(xml, element, "speedinter");
    const char *near = weiri_xml_value(xml, element, "typeintra");
    const char *far = weiri_xml_value(xml, element, "typeinter");
    weir_status status = graph_number(xml, element, "id", 255, &graph->id);
    if (!status)
        status = graph_number(xml, element, "pattern", PATTERNS - 1, &graph->pattern);
    graph->intra_gbs = intra ? strtod(intra, NULL) : 0;
    graph->inter_gbs = inter ? strtod(inter, NULL) : 0;
    snprintf(graph->intra, sizeof graph->intra, "%s", near ? near : "");
    snprintf(graph->inter, sizeof graph->inter, "%s", far ? far : "");
    return status ? status : graph_read_ways(xml, element, topo, graph);
}

static weir_status graphs_read_all(const weiri_xml *xml, const weiri_topo *topo,
                                   nccl_graphs *graphs)
{
    weir_status status = WEIR_OK;
    if (strcmp(xml->elements[0].name, "graphs") != 0)
        return graph_refuse(
            xml, 0,
            "<%.40s> is not NCCL's graphs, which begin with <graphs> "
            "(NCCL_GRAPH_DUMP_FILE)%s",
            xml->elements[0].name,
            strcmp(xml->elements[0].name, "system") == 0 ? "; --nccl FILE shows a machine" : "");
    graphs->list = calloc((size_t)xml->nelements, sizeof *graphs->list);
    if (!graphs->list)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for graphs");
    for (int i = weiri_xml_find(xml, xml->elements[0].child, "graph"); !status && i >= 0;
         i = weiri_xml_find(xml, xml->elements[i].next, "graph"))
        status = graph_read(xml, i, topo, &graphs->list[graphs->count++]);
    if (!status && graphs->count == 0)
        status = graph_refuse(xml, 0, "<graphs> has no <graph>");
    return status;
}

weir_status weiri_graphs_read(const char *path, const weiri_topo *topo, nccl_graphs *graphs)
{
    weiri_xml xml;
    *graphs = (nccl_graphs){0};
    weir_status status = weiri_xml_read(path, &xml);
    if (status)
        return status;
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
