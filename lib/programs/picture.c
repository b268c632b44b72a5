/* Lays out and writes the picture of a node: see picture.h. */
#include "programs/picture.h"

#include "base/text.h"
#include "programs/xml.h"

#include <string.h>

enum {
    BOX_WIDTH = 128,
    BOX_STEP = 138,
    MARGIN = 10,
    NODE_TOP = 40,
    NVLINK_ROOM = 40, /* above GPUs, if there are links */
    GPU_HEIGHT = 60,
    NIC_GAP = 50, /* below GPUs */
    NIC_HEIGHT = 44,
    WAY_STEP = 54,  /* from one way below the machine to the next */
    NODE_TEXT = 52, /* from the top of a node to its devices */
    TITLE_CHARACTERS = 127,
    TITLE_WIDTH = 8 /* at most; of one character */
};

/* Where everything is: columns of NUMA nodes, and the left edges of the boxes. */
typedef struct layout {
    const weiri_picture *picture;
    FILE *file;
    int node_x[WEIRI_PICTURE_NODES], node_width[WEIRI_PICTURE_NODES], nnodes;
    int gpu_x[WEIRI_PICTURE_DEVICES], nic_x[WEIRI_PICTURE_DEVICES];
    int gpu_top, nic_top, bottom, width, has_nvlink;
} layout;

/* The column of a device; the first one if its NUMA node is unknown. */
static int picture_column(const layout *l, int numa)
{
    for (int i = 0; i < l->picture->nnodes; i++)
        if (l->picture->nodes[i].numa == numa)
            return i;
    return 0;
}

/* Puts devices into columns; x is then relative to the column. Counts them in `there`. */
static void picture_place(const layout *l, const weiri_picture_device *devices, int count, int *x,
                          int *there)
{
    for (int i = 0; i < count; i++)
        x[i] = MARGIN + there[picture_column(l, devices[i].numa)]++ * BOX_STEP;
}

static void picture_lay_out(layout *l)
{
    const weiri_picture *p = l->picture;
    int ngpus[WEIRI_PICTURE_NODES] = {0}, nnics[WEIRI_PICTURE_NODES] = {0}, x = MARGIN;
    l->nnodes = p->nnodes ? p->nnodes : 1;
    picture_place(l, p->gpus, p->ngpus, l->gpu_x, ngpus);
    picture_place(l, p->nics, p->nnics, l->nic_x, nnics);
    for (int i = 0; i < l->nnodes; i++) {
        const int boxes = ngpus[i] > nnics[i] ? ngpus[i] : nnics[i];
        l->node_x[i] = x;
        l->node_width[i] = (boxes > 2 ? boxes : 2) * BOX_STEP + MARGIN;
        x += l->node_width[i] + MARGIN;
    }
    const int title = 2 * MARGIN + (int)strnlen(p->title, TITLE_CHARACTERS) * TITLE_WIDTH;
    l->width = x > title ? x : title;
    for (int i = 0; i < p->ngpus; i++)
        l->gpu_x[i] += l->node_x[picture_column(l, p->gpus[i].numa)];
    for (int i = 0; i < p->nnics; i++)
        l->nic_x[i] += l->node_x[picture_column(l, p->nics[i].numa)];
    for (int i = 0; i < p->ngpus * p->ngpus; i++)
        l->has_nvlink |= p->nvlink_gbs[i / p->ngpus][i % p->ngpus] > 0;
    l->gpu_top = NODE_TOP + NODE_TEXT + (l->has_nvlink ? NVLINK_ROOM : 0);
    l->nic_top = p->ngpus ? l->gpu_top + GPU_HEIGHT + NIC_GAP : NODE_TOP + NODE_TEXT;
    l->bottom = p->nnics   ? l->nic_top + NIC_HEIGHT + MARGIN
                : p->ngpus ? l->gpu_top + GPU_HEIGHT + MARGIN
                           : NODE_TOP + NODE_TEXT;
}

/* Writes text, cut to a number of characters. */
static void picture_text(const layout *l, int x, int y, int is_strong, const char *text, int most)
{
    char cut[128];
    snprintf(cut, sizeof cut, "%.*s", most, text);
    fprintf(l->file, "<text x=\"%d\" y=\"%d\"%s>", x, y,
            is_strong ? " font-weight=\"600\"" : " opacity=\".75\"");
    weiri_xml_put(l->file, cut);
    fputs("</text>\n", l->file);
}

static void picture_box(const layout *l, int x, int y, int width, int height, const char *shade)
{
    fprintf(l->file,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill-opacity=\"%s\" "
            "stroke=\"currentColor\" stroke-opacity=\".5\"/>\n",
            x, y, width, height, shade);
}

static void picture_node(const layout *l, int i)
{
    char line[160] = "Machine";
    const int x = l->node_x[i] + MARGIN;
    picture_box(l, l->node_x[i], NODE_TOP, l->node_width[i], l->bottom - NODE_TOP, "0");
    if (i >= l->picture->nnodes) {
        picture_text(l, x, NODE_TOP + 20, 1, line, 60);
        return;
    }
    const weiri_picture_node *node = &l->picture->nodes[i];
    const double gib = node->memory_bytes / 1073741824;
    const int length = snprintf(line, sizeof line, "NUMA node %d", node->numa);
    if (gib > 0)
        snprintf(line + length, sizeof line - (size_t)length, ", %.*f GiB", gib < 10, gib);
    picture_text(l, x, NODE_TOP + 20, 1, line, 60);
    char cpus[sizeof line - 8];
    const size_t room = (size_t)l->node_width[i] / 7 - strlen("cores ");
    weiri_text_shorten_list(node->cpus, cpus, room < sizeof cpus ? room : sizeof cpus);
    snprintf(line, sizeof line, "cores %s", cpus);
    picture_text(l, x, NODE_TOP + 38, 0, line, sizeof line);
}

/* The box of a GPU, and a line to the NIC that it uses. */
static void picture_gpu(const layout *l, int i)
{
    const weiri_picture_device *gpu = &l->picture->gpus[i];
    const int x = l->gpu_x[i] + 8;
    char line[64];
    picture_box(l, l->gpu_x[i], l->gpu_top, BOX_WIDTH, GPU_HEIGHT, ".16");
    picture_text(l, x, l->gpu_top + 18, 1, gpu->name, 12);
    picture_text(l, x, l->gpu_top + 34, 0, gpu->model, 16);
    snprintf(line, sizeof line, "PCIe %.0f GB/s", gpu->pcie_gbs);
    if (gpu->pcie_gbs > 0)
        picture_text(l, x, l->gpu_top + 50, 0, line, 16);
    for (int k = 0; k < l->picture->nnics; k++)
        if (gpu->nic >= 0 && l->picture->nics[k].number == gpu->nic)
            fprintf(l->file,
                    "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"currentColor\" "
                    "stroke-opacity=\".5\"/>\n",
                    l->gpu_x[i] + BOX_WIDTH / 2, l->gpu_top + GPU_HEIGHT,
                    l->nic_x[k] + BOX_WIDTH / 2, l->nic_top);
}

static void picture_nic(const layout *l, int i)
{
    const weiri_picture_device *nic = &l->picture->nics[i];
    char line[64] = "";
    if (nic->link_gbits > 0)
        snprintf(line, sizeof line, "%.0f Gbit/s%s", nic->link_gbits, nic->is_down ? ", down" : "");
    picture_box(l, l->nic_x[i], l->nic_top, BOX_WIDTH, NIC_HEIGHT, ".06");
    picture_text(l, l->nic_x[i] + 8, l->nic_top + 18, 1, nic->name, 12);
    picture_text(l, l->nic_x[i] + 8, l->nic_top + 34, 0, nic->is_down && !line[0] ? "down" : line,
                 16);
}

/* 1 if every GPU has links to every other one. */
static int picture_links_all(const weiri_picture *p)
{
    for (int from = 0; from < p->ngpus; from++)
        for (int to = 0; to < p->ngpus; to++)
            if (from != to && !(p->nvlink_gbs[from][to] > 0))
                return 0;
    return p->ngpus > 1;
}

/* A bar if all GPUs are linked, else an arc for each pair that is. */
static void picture_nvlinks(const layout *l)
{
    const weiri_picture *p = l->picture;
    const int y = l->gpu_top - 6, is_full = picture_links_all(p), half = BOX_WIDTH / 2;
    char line[64] = "NVLink";
    if (!l->has_nvlink)
        return;
    if (is_full) {
        snprintf(line, sizeof line, "NVLink, %.0f GB/s", p->nvlink_gbs[0][1]);
        fprintf(l->file,
                "<path d=\"M%d %dH%d\" stroke=\"currentColor\" stroke-width=\"5\" "
                "stroke-linecap=\"round\" stroke-opacity=\".6\"/>\n",
                l->gpu_x[0], y, l->gpu_x[p->ngpus - 1] + BOX_WIDTH);
    }
    picture_text(l, l->gpu_x[0], l->gpu_top - 13 - (is_full ? 0 : NVLINK_ROOM / 2), 0, line, 40);
    for (int from = 0; from < p->ngpus && !is_full; from++)
        for (int to = from + 1; to < p->ngpus; to++)
            if (p->nvlink_gbs[from][to] > 0 || p->nvlink_gbs[to][from] > 0)
                fprintf(l->file,
                        "<path d=\"M%d %dC%d %d %d %d %d %d\" fill=\"none\" "
                        "stroke=\"currentColor\" stroke-width=\"2\" stroke-opacity=\".6\"/>\n",
                        l->gpu_x[from] + half, y + 6, l->gpu_x[from] + half, y - NVLINK_ROOM + 14,
                        l->gpu_x[to] + half, y - NVLINK_ROOM + 14, l->gpu_x[to] + half, y + 6);
}

/* An arrow from one GPU's column to another's: above the line to the right, below it to the left.
 */
static void picture_hop(const layout *l, int from, int to, int y)
{
    const int x = l->gpu_x[from] + BOX_WIDTH / 2, end = l->gpu_x[to] + BOX_WIDTH / 2;
    const int side = end > x ? -1 : 1;
    fprintf(l->file,
            "<path d=\"M%d %dQ%d %d %d %d\" fill=\"none\" stroke=\"currentColor\" "
            "stroke-opacity=\".6\" marker-end=\"url(#way)\"/>\n",
            x, y + side * 8, (x + end) / 2, y + side * 26, end, y + side * 8);
}

static void picture_way(const layout *l, const weiri_picture_way *way, int y)
{
    picture_text(l, MARGIN, y - 24, 0, way->label, (int)sizeof way->label);
    for (int i = 0; i < way->ngpus; i++) {
        const int next = i + 1 < way->ngpus ? i + 1 : way->is_closed ? 0 : i;
        const int gpu = way->gpus[i], x = gpu < WEIRI_PICTURE_DEVICES ? l->gpu_x[gpu] : 0;
        if (gpu >= l->picture->ngpus || way->gpus[next] >= l->picture->ngpus)
            continue;
        fprintf(l->file,
                "<circle cx=\"%d\" cy=\"%d\" r=\"8\" fill-opacity=\".12\"/>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"10\">%d</text>\n",
                x + BOX_WIDTH / 2, y, x + BOX_WIDTH / 2, y + 4, i + 1);
        if (next != i)
            picture_hop(l, gpu, way->gpus[next], y);
    }
}

static void picture_ways(const layout *l)
{
    const weiri_picture *p = l->picture;
    if (p->nways)
        fputs("<marker id=\"way\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
              "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
              "fill=\"currentColor\"/></marker>\n",
              l->file);
    for (int i = 0; i < p->nways; i++)
        picture_way(l, &p->ways[i], l->bottom + WAY_STEP * (i + 1) - MARGIN);
}

void weiri_picture_put(const weiri_picture *picture, int is_file, FILE *file)
{
    layout l = {.picture = picture, .file = file};
    picture_lay_out(&l);
    const int height = l.bottom + MARGIN + picture->nways * WAY_STEP;
    fprintf(file,
            "<svg %sclass=\"machine\" viewBox=\"0 0 %d %d\" style=\"width:%dpx%s\" "
            "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"currentColor\" "
            "role=\"img\" aria-label=\"NUMA nodes with their GPUs and NICs\">\n",
            is_file ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", l.width, height, l.width,
            is_file ? ";background:#fff;color:#222" : "");
    if (is_file) {
        fputs("<title>", file);
        weiri_xml_put(file, picture->summary);
        fprintf(file, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", l.width,
                height);
    }
    picture_text(&l, MARGIN, 22, 1, picture->title, TITLE_CHARACTERS);
    for (int i = 0; i < l.nnodes; i++)
        picture_node(&l, i);
    for (int i = 0; i < picture->ngpus; i++)
        picture_gpu(&l, i);
    for (int i = 0; i < picture->nnics; i++)
        picture_nic(&l, i);
    picture_nvlinks(&l);
    picture_ways(&l);
    fputs("</svg>\n", file);
}
