/* The time line of a step as SVG, ranks by time, with a colour for each kind of call. */
#include "bench/replay/replay_output.h"

#include "base/write_file.h"
#include "bench/job/exchange.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1200,
    LEFT = 70,
    ROW = 16,
    HEAD = 36,
    LEGEND = 30,
    LEGEND_WIDTH = 100,
    BARS_MAX = 20000
};

/* A call of a rank. */
typedef struct bar {
    float start_us, end_us;
    int16_t kind; /* replay_kind or REPLAY_EXCHANGE; -1: none */
    int16_t lane;
} bar;

/* A row of bars for each rank. */
typedef struct panel {
    const char *title;
    const bar *bars; /* nranks x room */
} panel;

typedef struct picture {
    panel panels[2];
    int npanels, nranks, nlanes;
    int room; /* bars of a rank */
    double span_us;
} picture;

static const char *colour_of(int kind)
{
    static const char *const colours[REPLAY_KINDS + 1] = {
        "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2",
        "#bcbd22", "#17becf", "#aec7e8", "#ffbb78", "#7f7f7f", "#98df8a"};
    return colours[kind];
}

static double x_of(const picture *p, double us)
{
    return LEFT + us / p->span_us * (WIDTH - LEFT - 10);
}

static void draw_rank(const picture *p, const panel *of, int rank, int y, FILE *to)
{
    fprintf(to, "<text x=\"4\" y=\"%d\">rank %d</text>\n", y + ROW - 4, rank);
    for (int i = 0; i < p->room; i++) {
        const bar *b = &of->bars[(size_t)rank * (size_t)p->room + (size_t)i];
        if (b->kind < 0)
            continue;
        const double x = x_of(p, (double)b->start_us), end = x_of(p, (double)b->end_us);
        fprintf(to,
                "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%s, "
                "%.1f us</title></rect>\n",
                x, y + b->lane * (ROW - 3) / p->nlanes, end - x > 0.4 ? end - x : 0.4,
                (ROW - 3) / p->nlanes, colour_of(b->kind), replay_step_name(b->kind),
                (double)(b->end_us - b->start_us));
    }
}

static void draw_legend(int y, FILE *to)
{
    for (int kind = 0, x = LEFT; kind <= REPLAY_KINDS; kind++) {
        if (kind == REPLAY_SEND || kind == REPLAY_RECV) /* they are drawn as exchanges */
            continue;
        fprintf(to,
                "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" "
                "y=\"%d\">%s</text>\n",
                x, y, colour_of(kind), x + 13, y + 9, replay_step_name(kind));
        x += LEGEND_WIDTH;
    }
}

static void draw(const void *context, FILE *to)
{
    const picture *p = context;
    const int height = p->npanels * (HEAD + p->nranks * ROW) + LEGEND;
    int y = 0;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n",
            WIDTH, height);
    for (int i = 0; i < p->npanels; i++) {
        fprintf(to, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s: 0 to %.1f us</text>\n", LEFT,
                y + HEAD - 12, p->panels[i].title, p->span_us);
        y += HEAD;
        for (int rank = 0; rank < p->nranks; rank++, y += ROW)
            draw_rank(p, &p->panels[i], rank, y, to);
    }
    draw_legend(y + 10, to);
    fputs("</svg>\n", to);
}

/* The recorded calls as a panel; 0: not all times are known. */
static int panel_of_recording(const replay_trace *trace, int room, bar *bars, double *span_us)
{
    for (int rank = 0; rank < trace->nranks; rank++)
        for (int i = 0; i < room; i++) {
            bar *b = &bars[(size_t)rank * (size_t)room + (size_t)i];
            b->kind = -1;
            if ((size_t)i >= trace->ranks[rank].count)
                continue;
            const replay_call *call = &trace->ranks[rank].calls[i];
            if (isnan(call->start_s) || isnan(call->duration_s))
                return 0;
            b->start_us = (float)(call->start_s * 1e6);
            b->end_us = b->start_us + call->duration_s * 1e6F;
            b->kind = replay_is_message(call) ? REPLAY_EXCHANGE : call->kind;
            b->lane = trace->comms[call->comm].lane;
            *span_us = (double)b->end_us > *span_us ? (double)b->end_us : *span_us;
        }
    return 1;
}

/* This rank's steps in the last repetition. */
static void bars_of_rank(const replay_measurement *m, int room, bar *bars)
{
    const replay_subject *s = &m->subjects[0];
    for (int i = 0; i < room; i++) {
        bars[i].kind = -1;
        if ((size_t)i >= m->plan->nworks)
            continue;
        bars[i] =
            (bar){(float)(s->starts_us[i] - s->begin_us), (float)(s->ends_us[i] - s->begin_us),
                  m->plan->works[i].step->kind, m->plan->works[i].lane};
    }
}

/* Writes both panels, on rank 0. */
static weir_status write_panels(const replay_measurement *m, const char *path, const bar *replayed,
                                int room)
{
    const replay_trace *trace = m->plan->trace;
    picture p = {.nranks = m->job->nranks, .nlanes = m->plan->nlanes, .room = room, .span_us = 1};
    bar *recorded =
        replay_take(&m->plan->pool, (size_t)trace->nranks * (size_t)room, sizeof *recorded);
    if (!recorded)
        return replay_no_memory();
    if (panel_of_recording(trace, room, recorded, &p.span_us))
        p.panels[p.npanels++] = (panel){"recorded", recorded};
    p.panels[p.npanels++] = (panel){"replayed over weir", replayed};
    for (size_t i = 0; i < (size_t)p.nranks * (size_t)room; i++)
        if (replayed[i].kind >= 0 && (double)replayed[i].end_us > p.span_us)
            p.span_us = (double)replayed[i].end_us;
    weir_status status = WEIR_OK;
    if (weiri_write_file(path, draw, &p) != 0)
        status = bench_job_note(
            m->job, weiri_write_refuses_path(errno) ? WEIR_ERR_INVALID : WEIR_ERR_SYSTEM,
            "--timeline %s: %s", path, strerror(errno));
    return status;
}

weir_status replay_timeline_write(const replay_measurement *m, const char *path)
{
    const replay_trace *trace = m->plan->trace;
    size_t most = 0; /* a rank has as many calls as steps, or more */
    for (int rank = 0; rank < trace->nranks; rank++)
        most = trace->ranks[rank].count > most ? trace->ranks[rank].count : most;
    const int room = most > BARS_MAX ? BARS_MAX : (int)most;
    bar *mine = replay_take(&m->plan->pool, (size_t)room, sizeof *mine);
    weir_status status = bench_job_agree(m->job, mine ? WEIR_OK : replay_no_memory(), "time line");
    if (status != WEIR_OK)
        return status;
    bars_of_rank(m, room, mine);
    bar *all = bench_exchange_collect(m->job, mine, (size_t)room * sizeof *mine);
    if (m->job->rank == 0)
        status = all ? write_panels(m, path, all, room) : replay_no_memory();
    free(all);
    return bench_job_agree(m->job, status, "time line");
}
