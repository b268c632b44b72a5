/*
 * The text of a report: a line for each rank, or with many ranks a line for each group of ranks in
 * the same position, after lines that say which ranks wait for which.
 *
 *   weir: where 256 ranks stand (deadline 5000 ms): rank 255 is dead
 *     ranks 0-254 wait for rank 255
 *     ranks 0-254: allreduce, call 7; waits in barrier for rank 255
 *     rank 255: dead; last seen in allreduce, call 6; in no long wait of weir
 *
 * Of many groups the first are shown, those with lost ranks, or that wait for one, before others. A
 * rank that gave up, because its counts differ from its peer's for example, stands out as lost ones
 * do. If none does, the first line says which ranks wait for each other in a circle, else for which
 * rank all wait, directly or through others.
 */
#include "comm/report_text.h"

#include "base/words.h"
#include "comm/called.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POSITION_BYTES = 256,
    RANGES_BYTES = 160,
    GROUP_LINES = 24, /* of waits, and of positions */
    CIRCLE_RANKS = 8  /* of a circle that are shown */
};

typedef struct writer {
    char *text;
    size_t bytes, used;
} writer;

static void report_print(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report_print(writer *w, const char *format, ...)
{
    size_t left = w->used < w->bytes ? w->bytes - w->used : 0;
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(left ? w->text + w->used : NULL, left, format, arguments);
    va_end(arguments);
    w->used += more > 0 ? (size_t)more : 0;
}

/* Returns the rank that a rank waits for, or -1. */
static int report_awaited(const weiri_report_rank *rank)
{
    uint64_t kind = rank->unknown ? WEIR_WAIT_NONE : weir_load_acquire(&rank->where->wait.kind);
    if (rank->life == WEIRI_DEAD || kind == WEIR_WAIT_NONE || kind > WEIR_WAIT_PACKET)
        return -1;
    return (int)(int64_t)weir_load_relaxed(&rank->where->wait.peer);
}

/* The error for which a rank ended all waits; WEIR_OK: none. */
static weir_status report_gave_up(const weiri_report_rank *rank)
{
    return rank->unknown ? WEIR_OK : (weir_status) - (int)weir_load_relaxed(&rank->where->gave_up);
}

/* What a rank waits for; with_values: also the values of the word. */
static void report_wait(writer *w, const weiri_where *where, int with_values)
{
    static const char *const kinds[] = {"", "", "a semaphore", "packets"};
    char phase[WEIRI_TEXT_BYTES + 1];
    uint64_t kind = weir_load_acquire(&where->wait.kind);
    int64_t peer = (int64_t)weir_load_relaxed(&where->wait.peer);
    uint64_t expected = weir_load_relaxed(&where->wait.expected);
    if (kind == WEIR_WAIT_NONE || kind > WEIR_WAIT_PACKET) {
        report_print(w, "; in no long wait of weir");
        return;
    }
    weiri_text_load(phase, where->phase);
    report_print(w, "; waits in %s", kind == WEIR_WAIT_WORD ? phase : kinds[kind]);
    if (peer >= 0)
        report_print(w, " for rank %d", (int)peer);
    if (expected && with_values)
        report_print(w, ": expected %llu, seen %llu", (unsigned long long)expected,
                     (unsigned long long)weir_load_relaxed(&where->wait.seen));
}

/* A rank's state, note, latest collective and wait. */
static void report_position(writer *w, const weiri_report *report, int rank, int with_values)
{
    const weiri_report_rank *of = &report->ranks[rank];
    char note[WEIRI_TEXT_BYTES + 1];
    if (of->unknown) {
        report_print(w, "%s; on another node", of->life == WEIRI_DEAD ? "dead" : "no answer");
        return;
    }
    if (of->life == WEIRI_STOPPED)
        report_print(w, "stopped (state T); last seen in ");
    else if (of->life == WEIRI_DEAD)
        report_print(w, "dead; last seen in ");
    else if (report->aborted && !of->answered)
        report_print(w, "no answer; last seen in ");
    uint64_t call = weir_load_relaxed(&of->where->call);
    weiri_text_load(note, of->where->note);
    if (*note)
        report_print(w, "%s, iteration %llu; ", note,
                     (unsigned long long)weir_load_relaxed(&of->where->iteration));
    if (call)
        report_print(w, "%s, call %llu", weir_collective_name((weir_collective)(call & 0xff)),
                     (unsigned long long)(call >> 8));
    else
        report_print(w, "no collective yet");
    if (report_gave_up(of) != WEIR_OK)
        report_print(w, "; gave up: %s (%s)", weir_status_text(report_gave_up(of)),
                     weir_status_name(report_gave_up(of)));
    else
        report_wait(w, of->where, with_values);
}

static void report_line(writer *w, const weiri_report *report, int rank)
{
    const weiri_report_rank *of = &report->ranks[rank];
    report_print(w, "  rank %d (pid %d", rank, of->pid);
    if (of->node >= 0)
        report_print(w, ", node %d", of->node);
    report_print(w, "): ");
    report_position(w, report, rank, 1);
    report_print(w, "\n");
}

/* ------------------------------------------------------------------- groups */

/* A partition of the ranks: group[rank] is the lowest rank of its group, or -1. */
typedef struct groups {
    int nranks;
    int *group;
} groups;

/* Prints the ranks of a group as ranges, "ranks 0-3, 7", cut off with dots. Returns how many there
 * are. */
static int report_ranges(writer *w, const groups *of, int group)
{
    char list[RANGES_BYTES] = "";
    size_t used = 0;
    int count = 0, cut = 0;
    for (int rank = group, end; rank < of->nranks; rank = end) {
        end = rank + 1;
        if (of->group[rank] != group)
            continue;
        while (end < of->nranks && of->group[end] == group)
            end++;
        count += end - rank;
        if ((cut |= used + 24 > sizeof list))
            continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", rank);
        if (end - rank > 1)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%d",
                                     end - rank > 2 ? "-" : ", ", end - 1);
    }
    report_print(w, "%s %s%s", count == 1 ? "rank" : "ranks", list, cut ? ", ..." : "");
    if (cut)
        report_print(w, " (%d ranks)", count);
    return count;
}

/* What is wrong with a rank: 0 nothing, else an index of lost_words. SILENT: it runs on another
 * node and has not sent its record after an abort. */
enum { SILENT = WEIRI_DEAD + 1, LOSSES };
static const char *const lost_words[LOSSES][2] = {{"", ""},
                                                  {"is stopped", "are stopped"},
                                                  {"is dead", "are dead"},
                                                  {"does not answer", "do not answer"}};

static int report_loss(const weiri_report *report, int rank)
{
    const weiri_report_rank *of = &report->ranks[rank];
    if (of->life != WEIRI_RUNS)
        return (int)of->life;
    return report->aborted && of->unknown ? SILENT : 0;
}

/* The lost ranks, one by one. */
static int report_each_lost(writer *w, const weiri_report *report)
{
    int lost = 0;
    for (int rank = 0; rank < report->nranks; rank++)
        if (report_loss(report, rank))
            report_print(w, "%s rank %d %s", lost++ ? "," : "", rank,
                         lost_words[report_loss(report, rank)][0]);
    return lost;
}

/* Writes the lost ranks as ranges. */
static int report_lost_ranges(writer *w, const weiri_report *report, groups *of)
{
    int lost = 0;
    for (int loss = 1; loss < LOSSES; loss++) {
        int first = -1;
        for (int rank = 0; rank < report->nranks; rank++) {
            int is_one = report_loss(report, rank) == loss;
            first = is_one && first < 0 ? rank : first;
            of->group[rank] = is_one ? first : -1;
        }
        if (first < 0)
            continue;
        report_print(w, "%s ", lost++ ? "," : "");
        int count = report_ranges(w, of, first);
        report_print(w, " %s", lost_words[loss][count > 1]);
    }
    return lost;
}

/* Returns the rank that a rank waits for, or -1 if that is no rank. */
static int report_next(const weiri_report *report, int rank)
{
    const int awaited = report_awaited(&report->ranks[rank]);
    return awaited < report->nranks ? awaited : -1;
}

/* Returns the rank for which a rank waits in the end, itself if it waits for none; -1 if it waits
 * in a circle. */
static int report_last_awaited(const weiri_report *report, int rank)
{
    for (int steps = 0; steps < report->nranks; steps++) {
        const int awaited = report_next(report, rank);
        if (awaited < 0)
            return rank;
        rank = awaited;
    }
    return -1;
}

/* An ordinary rank is neither lost nor has given up. If not all ranks are shown, the ranks that are
 * not ordinary come first. */
static int report_is_ordinary(const weiri_report *report, int rank)
{
    return report_loss(report, rank) == 0 && report_gave_up(&report->ranks[rank]) == WEIR_OK;
}

/* Finds the circle in which a rank's waits end. Returns how many ranks it has, with its lowest one;
 * 0 if it ends meanwhile: records of running ranks change. */
static int report_find_circle(const weiri_report *report, int rank, int *lowest)
{
    int count = 0;
    for (int steps = 0; steps < report->nranks && rank >= 0; steps++)
        rank = report_next(report, rank);
    const int first = *lowest = rank;
    do {
        rank = rank < 0 ? -1 : report_next(report, rank);
        *lowest = rank < *lowest ? rank : *lowest;
        count++;
    } while (rank >= 0 && rank != first && count < report->nranks);
    return rank >= 0 && rank == first ? count : 0;
}

/* "3 ranks wait for each other in a circle: rank 0 for rank 2, rank 2 for rank 1, rank 1 for rank
 * 0". Returns 0 if there is no circle. */
static int report_circle(writer *w, const weiri_report *report, int in_or_before)
{
    int rank = -1;
    const int count = report_find_circle(report, in_or_before, &rank);
    if (!count)
        return 0;
    if (count == 1)
        report_print(w, " all run; rank %d waits for itself", rank);
    else
        report_print(w, " all run; %d ranks wait for each other in a circle:", count);
    for (int i = 0; count > 1 && i < count && i < CIRCLE_RANKS && rank >= 0; i++) {
        const int next = report_next(report, rank);
        report_print(w, "%s rank %d for rank %d", i ? "," : "", rank, next);
        rank = next;
    }
    report_print(w, "%s", count > CIRCLE_RANKS ? ", ..." : "");
    return 1;
}

/* The calls of two ranks that differ, as a rank has found them, or as their records show. Returns 0
 * if there are none. */
static int report_calls(writer *w, const weiri_report *report)
{
    weiri_called calls[2] = {{.what = 0}};
    int ranks[2], found = 0;
    char text[320];
    for (int rank = 0; rank < report->nranks && !found; rank++)
        found = !report->ranks[rank].unknown &&
                weiri_called_found(report->ranks[rank].where, calls, ranks);
    if (!found)
        calls[1].what = 0;
    for (int rank = 0; rank < report->nranks && !found; rank++) {
        if (report->ranks[rank].unknown)
            continue;
        calls[0] = weiri_called_of(report->ranks[rank].where);
        ranks[0] = rank;
        found = weiri_called_differ(&calls[0], &calls[1]);
        if (!calls[1].what) {
            calls[1] = calls[0];
            ranks[1] = rank;
        }
    }
    if (found) {
        weiri_called_text(text, sizeof text, ranks[0], &calls[0], ranks[1], &calls[1]);
        report_print(w, " %s", text);
    }
    return found;
}

/* Where no rank is lost: calls that differ, or the first one that gave up, or ranks that wait in a
 * circle, or the one for which all that wait do. */
static void report_cause(writer *w, const weiri_report *report)
{
    int waiting = 0, cause = -1;
    if (report_calls(w, report))
        return;
    for (int rank = 0; rank < report->nranks; rank++)
        if (report_gave_up(&report->ranks[rank]) != WEIR_OK) {
            report_print(w, " rank %d gave up: %s", rank,
                         weir_status_text(report_gave_up(&report->ranks[rank])));
            return;
        }
    for (int rank = 0; rank < report->nranks; rank++) {
        const int last = report_last_awaited(report, rank);
        if (last == rank)
            continue;
        if (last < 0 && report_circle(w, report, rank))
            return;
        if (last < 0 || (waiting && last != cause)) {
            waiting = 0;
            break;
        }
        cause = last;
        waiting++;
    }
    if (waiting)
        report_print(w, " all run; %d rank%s wait%s for rank %d%s", waiting,
                     weiri_s((unsigned)waiting), waiting == 1 ? "s" : "", cause,
                     report->aborted && !report->ranks[cause].answered ? ", which does not answer"
                                                                       : "");
    else
        report_print(w, " all run; one is slow or stuck");
}

/* How many lines for groups there are, and what is left out. */
typedef struct group_lines {
    int count, hidden_groups, hidden_ranks;
} group_lines;

/* Returns 1 if there are many lines before the line of a group; the group is then only counted. */
static int report_hides(group_lines *lines, const groups *of, int group)
{
    if (lines->count++ < GROUP_LINES)
        return 0;
    lines->hidden_groups++;
    for (int rank = group; rank < of->nranks; rank++)
        lines->hidden_ranks += of->group[rank] == group;
    return 1;
}

/* "ranks 0-254 wait for rank 255". */
static void report_waits(writer *w, const weiri_report *report, groups *of, int *first)
{
    for (int rank = 0; rank < report->nranks; rank++)
        first[rank] = -1;
    for (int rank = 0; rank < report->nranks; rank++) {
        const int awaited = report_next(report, rank);
        of->group[rank] = -1;
        if (awaited < 0)
            continue;
        if (first[awaited] < 0)
            first[awaited] = rank;
        of->group[rank] = first[awaited];
    }
    group_lines lines = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int rank = 0; rank < report->nranks; rank++) {
            const int awaited = report_next(report, rank); /* may have changed */
            if (of->group[rank] != rank || awaited < 0 ||
                report_is_ordinary(report, awaited) != pass || report_hides(&lines, of, rank))
                continue;
            report_print(w, "  ");
            int count = report_ranges(w, of, rank);
            report_print(w, " %s for rank %d\n", count == 1 ? "waits" : "wait", awaited);
        }
    if (lines.hidden_groups)
        report_print(w, "  %d more ranks wait for %d others\n", lines.hidden_ranks,
                     lines.hidden_groups);
}

/* A line for each position that ranks are in. positions holds POSITION_BYTES for each rank. */
static void report_positions(writer *w, const weiri_report *report, groups *of,
                             char (*positions)[POSITION_BYTES])
{
    for (int rank = 0; rank < report->nranks; rank++) {
        writer one = {.text = positions[rank], .bytes = POSITION_BYTES};
        report_position(&one, report, rank, 0);
        int group = 0;
        while (group < rank &&
               (of->group[group] != group || strcmp(positions[group], positions[rank]) != 0))
            group++;
        of->group[rank] = group;
    }
    group_lines lines = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int rank = 0; rank < report->nranks; rank++) {
            if (of->group[rank] != rank || report_is_ordinary(report, rank) != pass ||
                report_hides(&lines, of, rank))
                continue;
            report_print(w, "  ");
            report_ranges(w, of, rank);
            report_print(w, ": %s\n", positions[rank]);
        }
    if (lines.hidden_groups)
        report_print(w, "  %d more ranks in %d other positions\n", lines.hidden_ranks,
                     lines.hidden_groups);
}

/* The report of many ranks; without memory for the groups, a line for each. */
static int report_groups(writer *w, const weiri_report *report)
{
    size_t n = (size_t)report->nranks;
    groups of = {.nranks = report->nranks, .group = calloc(n, sizeof *of.group)};
    int *first = calloc(n, sizeof *first);
    char(*positions)[POSITION_BYTES] = calloc(n, sizeof *positions);
    int has_memory = of.group && first && positions;
    if (has_memory) {
        if (!report_lost_ranges(w, report, &of))
            report_cause(w, report);
        report_print(w, "\n");
        report_waits(w, report, &of, first);
        report_positions(w, report, &of, positions);
    }
    free(positions);
    free(first);
    free(of.group);
    return has_memory;
}

int weiri_report_print(const weiri_report *report, char *text, size_t bytes)
{
    writer w = {.text = text, .bytes = bytes};
    report_print(&w, "weir: where %d ranks stand (deadline %llu ms):", report->nranks,
                 (unsigned long long)report->timeout_ms);
    if (report->nranks > WEIRI_REPORT_LINES && report_groups(&w, report))
        return (int)w.used;
    if (!report_each_lost(&w, report))
        report_cause(&w, report);
    report_print(&w, "\n");
    for (int rank = 0; rank < report->nranks; rank++)
        report_line(&w, report, rank);
    return (int)w.used;
}
