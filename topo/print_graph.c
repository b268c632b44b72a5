/* Prints the graphs that NCCL has made, as text, as JSON, and as a picture below the machine's. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/words.h"
#include "programs/picture.h"
#include "topo/nccl_graph.h"

static const char *gpu_name(const weiri_topo *topo, int gpu)
{
    return weiri_topo_gpu(topo, gpu)->name;
}

/* What the GPUs of a way have between them, if that is not NVLink: "3 far, 1 switch". */
static void print_hops(const weiri_topo *topo, const nccl_way *way, int hops, FILE *out)
{
    static const char *const shared[] = {"", "switch", "root", "numa", "far"};
    int counts[WEIRI_TOPO_CROSS_NUMA + 1] = {0}, kinds = 0;
    for (int i = 0; i < hops; i++) {
        const int from = way->gpus[i], to = way->gpus[(i + 1) % way->ngpus];
        if (weiri_topo_nvlink_gbs(topo, from, to) <= 0)
            counts[weiri_topo_gpu_gpu(topo, from, to)]++;
    }
    for (int kind = WEIRI_TOPO_SAME_SWITCH; kind <= WEIRI_TOPO_CROSS_NUMA; kind++)
        if (counts[kind])
            fprintf(out, "%s%d %s", kinds++ ? ", " : "   (", counts[kind], shared[kind]);
    fputs(kinds ? ")\n" : "\n", out);
}

static void print_way(const weiri_topo *topo, const nccl_graph *graph, const nccl_way *way,
                      FILE *out)
{
    const int is_closed = weiri_graph_is_ring(graph) && way->net_in < 0 && way->ngpus > 1;
    fprintf(out, "  %3d x ", way->count);
    if (way->net_in >= 0)
        fprintf(out, " net%ld", way->net_in);
    for (int i = 0; i < way->ngpus; i++)
        fprintf(out, " %s", gpu_name(topo, way->gpus[i]));
    if (way->net_out >= 0)
        fprintf(out, " net%ld", way->net_out);
    print_hops(topo, way, way->ngpus - !is_closed, out);
}

static void print_text(const nccl_graphs *graphs, const weiri_topo *topo, FILE *out)
{
    for (int i = 0; i < graphs->count; i++) {
        const nccl_graph *graph = &graphs->list[i];
        fprintf(out, "%s%s (graph %ld): %d channel%s", i ? "\n" : "", weiri_graph_name(graph),
                graph->id, graph->nchannels, weiri_s(graph->nchannels));
        if (graph->intra_gbs > 0)
            fprintf(out, ", %g GB/s each between GPUs (%s)", graph->intra_gbs, graph->intra);
        if (graph->inter_gbs > 0 && graph->nways && graph->ways[0].net_in >= 0)
            fprintf(out, ", %g GB/s to NICs (%s)", graph->inter_gbs, graph->inter);
        fputc('\n', out);
        for (int k = 0; k < graph->nways; k++)
            print_way(topo, graph, &graph->ways[k], out);
    }
    fputs("\nA ring ends where it begins; a tree is a chain of GPUs within a node. In brackets: "
          "hops\n"
          "without NVLink, and what their GPUs share.\n",
          out);
}

static void print_json(const nccl_graphs *graphs, const weiri_topo *topo, FILE *out)
{
    weiri_json_writer json = {.file = out, .layout = WEIRI_JSON_INDENTED};
    weiri_json_open_object(&json);
    weiri_json_put_list(&json, "graphs");
    for (int i = 0; i < graphs->count; i++) {
        const nccl_graph *graph = &graphs->list[i];
        weiri_json_open_object(&json);
        weiri_json_put_whole(&json, "id", graph->id);
        weiri_json_put_text(&json, "kind", weiri_graph_name(graph));
        weiri_json_put_whole(&json, "channels", graph->nchannels);
        weiri_json_put_real(&json, "gpu_gbs", graph->intra_gbs);
        weiri_json_put_real(&json, "nic_gbs", graph->inter_gbs);
        weiri_json_put_list(&json, "ways");
        for (int k = 0; k < graph->nways; k++) {
            const nccl_way *way = &graph->ways[k];
            weiri_json_open_object(&json);
            weiri_json_put_whole(&json, "channels", way->count);
            weiri_json_put_list(&json, "gpus");
            for (int g = 0; g < way->ngpus; g++)
                weiri_json_add_text(&json, gpu_name(topo, way->gpus[g]));
            weiri_json_close_list(&json);
            weiri_json_put_whole(&json, "net_in", way->net_in);
            weiri_json_put_whole(&json, "net_out", way->net_out);
            weiri_json_close_object(&json);
        }
        weiri_json_close_list(&json);
        weiri_json_close_object(&json);
    }
    weiri_json_close_list(&json);
    weiri_json_close_object(&json);
    fputc('\n', out);
}

static weir_status print_picture(const nccl_graphs *graphs, const weiri_topo *topo, FILE *out)
{
    int most = 0, count = 0;
    for (int i = 0; i < graphs->count; i++)
        most += graphs->list[i].nways;
    weiri_picture_way *ways = calloc((size_t)most + 1, sizeof *ways);
    for (int i = 0; ways && i < graphs->count; i++)
        for (int k = 0; k < graphs->list[i].nways; k++) {
            const nccl_way *way = &graphs->list[i].ways[k];
            weiri_picture_way *made = &ways[count++];
            *made = (weiri_picture_way){.gpus = way->gpus,
                                        .ngpus = way->ngpus,
                                        .is_closed = weiri_graph_is_ring(&graphs->list[i]) &&
                                                     way->net_in < 0};
            snprintf(made->label, sizeof made->label, "%d x %s", way->count,
                     weiri_graph_name(&graphs->list[i]));
        }
    if (ways)
        weiri_topo_draw(topo, ways, count, out);
    free(ways);
    return ways ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

weir_status weiri_topo_print_graphs(const weiri_topo *topo, const char *path, weiri_graph_form form,
                                    FILE *out)
{
    nccl_graphs graphs;
    weir_status status = weiri_graphs_read(path, topo, &graphs);
    if (status)
        return status;
    if (form == WEIRI_GRAPH_SVG)
        status = print_picture(&graphs, topo, out);
    else
        (form == WEIRI_GRAPH_JSON ? print_json : print_text)(&graphs, topo, out);
    weiri_graphs_free(&graphs);
    return status;
}
