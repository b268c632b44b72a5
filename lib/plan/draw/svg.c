/* Draws a simulated plan; show.h describes the picture. */
#include "plan/draw/show.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels. */
enum {
    LEFT = 84,
    WIDTH = 900, /* of the time */
    RIGHT = 20,
    TOP = 64, /* of the first rank */
    LANE = 16,
    BOX = 12,
    MEMORY = 9,
    GAP = 10, /* between ranks */
    LEGEND = 58,
    LETTER = 6,
    MANY_ARROWS = 300,
};

typedef struct drawing {
    const weir_plan *plan;
    const weiri_plan_cost *cost;
    FILE *to;
    int only;          /* rank; -1: all */
    int *tops;         /* of each rank's lanes */
    uint8_t *critical; /* of each step */
    unsigned looks;    /* a bit for each look that occurs, for the legend */
    int height;
} drawing;

/* ---------------------------------------------------------------------- looks */

typedef struct look {
    const char *word, *meaning, *light, *dark;
} look;

enum { LOOK_COPY, LOOK_PUT, LOOK_REDUCE, LOOK_PACKETS, LOOK_GROUP, LOOK_SIGNAL, LOOK_ORDER, LOOKS };

static const look looks[LOOKS] = {
    [LOOK_COPY] = {"copy", "copy", "#8db8e2", "#41719f"},
    [LOOK_PUT] = {"put", "put, get", "#3572b0", "#6aa5de"},
    [LOOK_REDUCE] = {"reduce", "reduce", "#dd8a2e", "#e39a4b"},
    [LOOK_PACKETS] = {"packets", "packets", "#2a9175", "#41b394"},
    [LOOK_GROUP] = {"group", "switch", "#8d5fb8", "#b38bdb"},
    [LOOK_SIGNAL] = {"signal", "signal, wait", "#70747e", "#9da2ad"},
    [LOOK_ORDER] = {"order", "order of operations", "#c3c7cf", "#575c66"},
};

static int plan_svg_look_of(weiri_plan_kind kind)
{
    const weiri_plan_trait *trait = &weiri_plan_traits[kind];
    if (trait->mode == WEIRI_PLAN_SYNC)
        return *trait->channels ? LOOK_SIGNAL : LOOK_ORDER;
    if (strcmp(trait->channels, "s") == 0)
        return LOOK_GROUP;
    if (trait->mode == WEIRI_PLAN_REDUCE)
        return LOOK_REDUCE;
    if (trait->packets)
        return LOOK_PACKETS;
    return *trait->channels ? LOOK_PUT : LOOK_COPY;
}

static void plan_svg_style(const drawing *d)
{
    fputs("<style>\n"
          "text { font: 11px system-ui, sans-serif; fill: #24292f }\n"
          ".h { font-size: 13px; font-weight: 600 }\n"
          ".m { fill: #57606a }\n"
          ".r { text-anchor: end }\n"
          ".b { font-size: 10px; fill: #ffffff; text-anchor: middle; pointer-events: none }\n"
          ".d { fill: #24292f }\n"
          ".page { fill: #ffffff }\n.lane { fill: #f1f3f6 }\n.mem { fill: #e4e8ee }\n"
          ".grid { stroke: #d5dae1; stroke-width: 1 }\n"
          ".wait { fill: #c3c7cf }\n"
          ".c { stroke: #b3261e; stroke-width: 1.5 }\n"
          ".arrow { stroke: #44505e; stroke-width: 1; fill: none; opacity: .75 }\n"
          ".land { stroke-dasharray: 3 2 }\n.many { opacity: .15; stroke-width: .6 }\n"
          ".tip { fill: #44505e }\n.spot { fill: #3572b0 }\n",
          d->to);
    for (int i = 0; i < LOOKS; i++)
        fprintf(d->to, ".%s { fill: %s }\n", looks[i].word, looks[i].light);
    fputs("@media (prefers-color-scheme: dark) {\n"
          "text { fill: #e6edf3 }\n.m { fill: #9da7b3 }\n.b { fill: #0d1117 }\n"
          ".d { fill: #e6edf3 }\n"
          ".page { fill: #0d1117 }\n.lane { fill: #171c24 }\n.mem { fill: #222933 }\n"
          ".grid { stroke: #2a313c }\n.wait { fill: #575c66 }\n.c { stroke: #ff8a80 }\n"
          ".arrow { stroke: #a9b4c1 }\n.tip { fill: #a9b4c1 }\n.spot { fill: #6aa5de }\n",
          d->to);
    for (int i = 0; i < LOOKS; i++)
        fprintf(d->to, ".%s { fill: %s }\n", looks[i].word, looks[i].dark);
    fputs("}\n</style>\n", d->to);
}

/* Writes the text of an element: escapes markup, and replaces control characters. */
static void plan_svg_text(FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else
            fputc((unsigned char)*text < ' ' ? '?' : *text, to);
}

/* --------------------------------------------------------------------- places */

static int plan_svg_is_drawn(const drawing *d, int rank)
{
    return d->only < 0 || rank == d->only;
}

static double plan_svg_x_of(const drawing *d, double us)
{
    double total = d->cost->total_us > 0 ? d->cost->total_us : 1;
    return LEFT + us / total * WIDTH;
}

/* The vertical middle of a thread block's lane, and of a rank's memory. */
static int plan_svg_y_of(const drawing *d, int rank, uint32_t block)
{
    return d->tops[rank] + MEMORY + 2 + (int)block * LANE + LANE / 2;
}

static int plan_svg_memory_y(const drawing *d, int rank)
{
    return d->tops[rank] + MEMORY / 2;
}

static weir_status plan_svg_place_lanes(drawing *d)
{
    uint32_t lanes = 0;
    int y = TOP;
    for (int rank = 0; rank < d->plan->nranks; rank++) {
        d->tops[rank] = y;
        if (!plan_svg_is_drawn(d, rank))
            continue;
        lanes += d->plan->gpus[rank].nblocks;
        y += MEMORY + 2 + (int)d->plan->gpus[rank].nblocks * LANE + GAP;
    }
    d->height = y + LEGEND;
    if (d->only < d->plan->nranks && lanes <= WEIRI_PLAN_SVG_LANES_MAX &&
        d->cost->nsteps <= WEIRI_PLAN_SVG_STEPS_MAX)
        return WEIR_OK;
    if (d->only >= d->plan->nranks)
        return weiri_fail(WEIR_ERR_INVALID, "%s: no rank %d; it has ranks 0 to %d", d->plan->file,
                          d->only, d->plan->nranks - 1);
    return weiri_fail(
        WEIR_ERR_INVALID,
        "%s: %u thread blocks with %u operations are too many to draw (limits: %d and "
        "%d); select one --rank, or fewer --bytes",
        d->plan->file, lanes, d->cost->nsteps, WEIRI_PLAN_SVG_LANES_MAX, WEIRI_PLAN_SVG_STEPS_MAX);
}

/* ---------------------------------------------------------------------- parts */

static void plan_svg_head(const drawing *d)
{
    const weir_plan *plan = d->plan;
    const weiri_plan_cost *cost = d->cost;
    int width = LEFT + WIDTH + RIGHT;
    fprintf(d->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">",
            width, d->height, width, d->height);
    fputs("Timeline of the plan ", d->to);
    plan_svg_text(d->to, plan->name);
    fprintf(d->to, "</title>\n<desc id=\"desc\">Thread blocks of %d ranks perform ", plan->nranks);
    plan_svg_text(d->to, plan->collective_name);
    fprintf(d->to,
            " of %" PRIu64 " bytes in an estimated %.2f microseconds: %u operations as boxes, "
            "waits as bars, signals and data as arrows.</desc>\n",
            cost->message_bytes, cost->total_us, cost->nsteps);
    plan_svg_style(d);
    fputs("<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" "
          "markerHeight=\"6\" orient=\"auto\"><path class=\"tip\" d=\"M0 0 6 3 0 6z\"/></marker>"
          "</defs>\n",
          d->to);
    fprintf(d->to, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", width, d->height);
    fputs("<text class=\"h\" x=\"12\" y=\"20\">", d->to);
    plan_svg_text(d->to, plan->name);
    fprintf(d->to, "</text>\n<text class=\"m\" x=\"12\" y=\"36\">");
    plan_svg_text(d->to, plan->collective_name);
    fprintf(d->to, ", %d ranks, %" PRIu64 " bytes, estimated on ", plan->nranks,
            cost->message_bytes);
    plan_svg_text(d->to, cost->model.name);
    fprintf(d->to, ": %.2f us</text>\n", cost->total_us);
}

/* Grid lines at round times. */
static void plan_svg_axis(const drawing *d)
{
    double total = d->cost->total_us > 0 ? d->cost->total_us : 1;
    double step = pow(10, floor(log10(total / 4)));
    while (total / step > 12)
        step *= total / step > 24 ? 5 : 2;
    for (int i = 0; i * step <= total; i++) {
        double x = plan_svg_x_of(d, i * step);
        fprintf(d->to, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, TOP - 6, d->height - LEGEND);
        fprintf(d->to, "<text class=\"m\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%g%s</text>\n",
                x, TOP - 10, i * step, i ? "" : " us");
    }
}

static void plan_svg_lanes(const drawing *d)
{
    for (int rank = 0; rank < d->plan->nranks; rank++) {
        const weiri_plan_gpu *gpu = &d->plan->gpus[rank];
        if (!plan_svg_is_drawn(d, rank))
            continue;
        fprintf(d->to, "<text x=\"12\" y=\"%d\">rank %d</text>", d->tops[rank] + MEMORY, rank);
        fprintf(d->to,
                "<rect class=\"mem\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"><title>"
                "memory of rank %d</title></rect>\n",
                LEFT, d->tops[rank], WIDTH, MEMORY, rank);
        for (uint32_t block = 0; block < gpu->nblocks; block++) {
            int y = plan_svg_y_of(d, rank, block);
            fprintf(d->to, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
                    LEFT, y - LANE / 2 + 1, WIDTH, LANE - 2);
            fprintf(d->to, "<text class=\"m r\" x=\"%d\" y=\"%d\">block %u</text>\n", LEFT - 6,
                    y + 4, gpu->blocks[block].id);
        }
    }
}

/* The title of a box, which viewers show as a tooltip. */
static void plan_svg_title(const drawing *d, const weiri_plan_step *step, const weiri_plan_op *op)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *words = open_memstream(&text, &bytes);
    if (!words)
        return;
    fprintf(words, "rank %d, thread block %u, op %u", step->rank,
            d->plan->gpus[step->rank].blocks[step->block].id, step->op);
    if (op->in_body)
        fprintf(words, ", turn %" PRIu64, step->turn);
    fprintf(words, ", %.2f to %.2f us: ", step->began_us, step->ended_us);
    weiri_plan_show_op(d->plan, step->rank, op, -1, words);
    if (fclose(words) == 0) {
        fputs("<title>", d->to);
        plan_svg_text(d->to, text);
        fputs("</title>", d->to);
    }
    free(text);
}

static void plan_svg_step(drawing *d, uint32_t i)
{
    const weiri_plan_step *step = &d->cost->steps[i];
    const weiri_plan_gpu *gpu = &d->plan->gpus[step->rank];
    const weiri_plan_op *op = &gpu->ops[gpu->blocks[step->block].first_op + step->op];
    const char *name = weiri_plan_kind_name(op->kind);
    int y = plan_svg_y_of(d, step->rank, step->block), which = plan_svg_look_of(op->kind);
    double x = plan_svg_x_of(d, step->began_us), end = plan_svg_x_of(d, step->ended_us);
    double reached = plan_svg_x_of(d, step->reached_us), width = end - x < 1 ? 1 : end - x;
    d->looks |= 1u << which;
    if (x - reached > 0.5)
        fprintf(d->to, "<rect class=\"wait\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"2\"/>",
                reached, y - 1, x - reached);
    fprintf(d->to, "<rect class=\"%s%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\">",
            looks[which].word, d->critical[i] ? " c" : "", x, y - BOX / 2, width, BOX);
    plan_svg_title(d, step, op);
    fputs("</rect>", d->to);
    if (width > (double)LETTER * (double)strlen(name) + 4)
        fprintf(d->to, "<text class=\"b%s\" x=\"%.1f\" y=\"%d\">%s</text>",
                which == LOOK_COPY || which == LOOK_ORDER ? " d" : "", x + width / 2, y + 4, name);
    fputc('\n', d->to);
}

static void plan_svg_arrow(const drawing *d, double x, int y, double end, int end_y,
                           const char *how)
{
    fprintf(d->to, "<path class=\"arrow%s\" marker-end=\"url(#tip)\" d=\"M%.1f %dL%.1f %d\"/>\n",
            how, x, y, end, end_y);
}

/* Arrows from causes to the operations that waited for them, and to the memory that data arrives
 * in. */
static void plan_svg_arrows(const drawing *d)
{
    const weiri_plan_cost *cost = d->cost;
    uint32_t arrows = cost->narrivals;
    for (uint32_t i = 0; i < cost->nsteps; i++)
        arrows += (uint32_t)cost->steps[i].waited;
    int many = d->only < 0 && arrows > MANY_ARROWS;
    for (uint32_t i = 0; i < cost->narrivals; i++) {
        const weiri_plan_arrival *arrival = &cost->arrivals[i];
        const weiri_plan_step *from = &cost->steps[arrival->step];
        double x = plan_svg_x_of(d, arrival->us);
        if (!plan_svg_is_drawn(d, arrival->rank))
            continue;
        fprintf(d->to,
                "<circle class=\"spot\" cx=\"%.1f\" cy=\"%d\" r=\"2.5\"><title>%" PRIu64
                " bytes from rank %d, %.2f us</title></circle>\n",
                x, plan_svg_memory_y(d, arrival->rank), arrival->bytes, from->rank, arrival->us);
        if (plan_svg_is_drawn(d, from->rank))
            plan_svg_arrow(d, plan_svg_x_of(d, from->ended_us),
                           plan_svg_y_of(d, from->rank, from->block), x,
                           plan_svg_memory_y(d, arrival->rank), many ? " land many" : " land");
    }
    for (uint32_t i = 0; i < cost->nsteps; i++) {
        const weiri_plan_step *step = &cost->steps[i];
        const weiri_plan_step *from = step->waited ? &cost->steps[step->cause] : step;
        if (step->waited && plan_svg_is_drawn(d, step->rank) && plan_svg_is_drawn(d, from->rank))
            plan_svg_arrow(d, plan_svg_x_of(d, from->ended_us),
                           plan_svg_y_of(d, from->rank, from->block),
                           plan_svg_x_of(d, step->began_us),
                           plan_svg_y_of(d, step->rank, step->block), many ? " many" : "");
    }
}

static void plan_svg_legend(const drawing *d)
{
    int x = LEFT, y = d->height - LEGEND + 16;
    for (int i = 0; i < LOOKS; i++) {
        if (!(d->looks >> i & 1))
            continue;
        fprintf(d->to,
                "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"12\" height=\"%d\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text>\n",
                looks[i].word, x, y - 10, BOX, x + 17, y, looks[i].meaning);
        x += 34 + LETTER * (int)strlen(looks[i].meaning);
    }
    x = LEFT;
    y += 22;
    fprintf(d->to,
            "<rect class=\"wait\" x=\"%d\" y=\"%d\" width=\"16\" height=\"2\"/>"
            "<text x=\"%d\" y=\"%d\">waits</text>\n",
            x, y - 5, x + 21, y);
    plan_svg_arrow(d, x + 70, y - 4, x + 96, y - 4, "");
    fprintf(d->to, "<text x=\"%d\" y=\"%d\">what it waited for</text>\n", x + 101, y);
    plan_svg_arrow(d, x + 220, y - 4, x + 246, y - 4, " land");
    fprintf(d->to,
            "<text x=\"%d\" y=\"%d\">into a rank's memory (the bar above its blocks)"
            "</text>\n",
            x + 251, y);
    fprintf(d->to,
            "<rect class=\"order c\" x=\"%d\" y=\"%d\" width=\"14\" height=\"10\"/>"
            "<text x=\"%d\" y=\"%d\">critical path</text>\n",
            x + 530, y - 9, x + 549, y);
}

static weir_status plan_svg_find_critical(drawing *d)
{
    uint32_t count = 0;
    int64_t *path = weiri_plan_critical_path(d->cost, &count);
    d->critical = calloc(d->cost->nsteps + 1, 1);
    d->tops = calloc((size_t)d->plan->nranks, sizeof *d->tops);
    for (uint32_t i = 0; path && d->critical && i < count; i++)
        d->critical[path[i]] = 1;
    int made = path && d->critical && d->tops;
    free(path);
    return made ? WEIR_OK
                : weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to draw the plan", d->plan->file);
}

weir_status weiri_plan_svg(const weir_plan *plan, const weiri_plan_cost *cost, int rank, FILE *to)
{
    drawing d = {.plan = plan, .cost = cost, .to = to, .only = rank};
    weir_status status = plan_svg_find_critical(&d);
    if (status == WEIR_OK)
        status = plan_svg_place_lanes(&d);
    if (status == WEIR_OK) {
        plan_svg_head(&d);
        plan_svg_axis(&d);
        plan_svg_lanes(&d);
        for (uint32_t i = 0; i < cost->nsteps; i++)
            if (plan_svg_is_drawn(&d, cost->steps[i].rank))
                plan_svg_step(&d, i);
        plan_svg_arrows(&d);
        plan_svg_legend(&d);
        fputs("</svg>\n", to);
    }
    free(d.critical);
    free(d.tops);
    return status;
}
