/*
 * The status as text, laid out as NCCL's RAS service does: a summary of the job, a table of the
 * communicators, then errors and warnings by communicator, which is called #GROUP-INDEX; and at the
 * end, ranks that others wait for and stragglers, which NCCL does not report.
 *
 * Communicators of one group have the same numbers of ranks and nodes, status and errors.
 */
#include "comm/monitor/status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DETAILS = 10 /* more missing ranks are only counted */ };

/* What the table says of a communicator. */
typedef struct text_row {
    const weiri_view_comm *comm;
    const char *status;
    int missing, mismatch, failed;
    int group, index;
} text_row;

static const char *text_status(const weiri_view_comm *comm)
{
    int aborted = 0, finished = 0;
    for (int rank = 0; rank < comm->nranks; rank++) {
        aborted |= comm->ranks[rank].is_aborted;
        finished |= comm->ranks[rank].is_finished;
    }
    return aborted ? "ABORT" : finished ? "FINALIZE" : "RUNNING";
}

/* Returns 1 if running ranks have made different numbers of calls of a function. */
static int text_differs(const weiri_view_comm *comm, int function, uint64_t *least, uint64_t *most)
{
    *least = UINT64_MAX;
    *most = 0;
    for (int rank = 0; rank < comm->nranks; rank++) {
        const uint64_t count = comm->ranks[rank].counts[function];
        if (weiri_view_is_missing(&comm->ranks[rank]))
            continue;
        *least = count < *least ? count : *least;
        *most = count > *most ? count : *most;
    }
    return *least < *most;
}

static text_row text_row_of(const weiri_view_comm *comm)
{
    uint64_t least, most;
    text_row row = {.comm = comm,
                    .status = text_status(comm),
                    .missing = weiri_status_missing(comm),
                    .failed = strcmp(text_status(comm), "ABORT") == 0};
    for (int function = 0; function < WEIR_COLL_SENDRECV; function++)
        row.mismatch |= text_differs(comm, function, &least, &most);
    return row;
}

static const char *text_errors(const text_row *row)
{
    static const char *const names[] = {"OK",
                                        "MISMATCH",
                                        "ERROR",
                                        "ERROR,MISMATCH",
                                        "INCOMPLETE",
                                        "INCOMPLETE,MISMATCH",
                                        "INCOMPLETE,ERROR",
                                        "INCOMPLETE,ERROR,MISMATCH"};
    return names[(row->missing > 0) * 4 + row->failed * 2 + row->mismatch];
}

static int text_same_group(const text_row *one, const text_row *other)
{
    return one->comm->nranks == other->comm->nranks && one->comm->nnodes == other->comm->nnodes &&
           strcmp(one->status, other->status) == 0 &&
           strcmp(text_errors(one), text_errors(other)) == 0;
}

/* Larger communicators first. */
static int text_compare_rows(const void *a, const void *b)
{
    const text_row *one = a, *other = b;
    if (one->comm->nranks != other->comm->nranks)
        return one->comm->nranks > other->comm->nranks ? -1 : 1;
    if (one->comm->nnodes != other->comm->nnodes)
        return one->comm->nnodes > other->comm->nnodes ? -1 : 1;
    const int order = strcmp(text_errors(other), text_errors(one));
    return order ? order : strcmp(one->status, other->status);
}

static void text_number_groups(text_row *rows, int count)
{
    for (int i = 1; i < count; i++) {
        const int same = text_same_group(&rows[i - 1], &rows[i]);
        rows[i].group = rows[i - 1].group + !same;
        rows[i].index = same ? rows[i - 1].index + 1 : 0;
    }
}

/* ------------------------------------------------------------------ the job */

typedef struct text_process {
    uint64_t host;
    int pid, has_gpu;
} text_process;

static int text_compare_processes(const void *a, const void *b)
{
    const text_process *one = a, *other = b;
    if (one->host != other->host)
        return one->host < other->host ? -1 : 1;
    return one->pid < other->pid ? -1 : one->pid > other->pid;
}

/* Lists the processes of all known ranks, sorted by node. */
static int text_processes(const weiri_view *view, text_process **list)
{
    int count = 0, distinct = 0;
    for (int i = 0; i < view->ncomms; i++)
        count += view->comms[i].nranks;
    text_process *all = calloc((size_t)count + 1, sizeof *all);
    count = 0;
    for (int i = 0; all && i < view->ncomms; i++)
        for (int rank = 0; rank < view->comms[i].nranks; rank++) {
            const weiri_view_rank *one = &view->comms[i].ranks[rank];
            if (one->peer.pid > 0)
                all[count++] = (text_process){one->peer.host, one->peer.pid, one->device >= 0};
        }
    if (all)
        qsort(all, (size_t)count, sizeof *all, text_compare_processes);
    for (int i = 0; i < count; i++) {
        if (distinct && text_compare_processes(&all[distinct - 1], &all[i]) == 0)
            all[distinct - 1].has_gpu |= all[i].has_gpu;
        else
            all[distinct++] = all[i];
    }
    *list = all;
    return distinct;
}

static void text_job(const weiri_view *view, FILE *to)
{
    text_process *list = NULL;
    const int count = text_processes(view, &list);
    int nodes = 0, gpus = 0, most = 0, run = 0;
    for (int i = 0; i < count; i++) {
        const int is_new = i == 0 || list[i].host != list[i - 1].host;
        nodes += is_new;
        run = is_new ? 1 : run + 1;
        most = run > most ? run : most;
        gpus += list[i].has_gpu;
    }
    free(list);
    fprintf(to,
            "Job summary\n===========\n\n"
            "  Nodes  Processes         GPUs  Processes     GPUs\n"
            "(total)   per node  per process    (total)  (total)\n"
            "%7d  %9d  %11d  %9d  %7d\n",
            nodes, most, gpus > 0, count, gpus);
}

/* ------------------------------------------------------------ communicators */

static void text_table(const text_row *rows, int count, FILE *to)
{
    if (!count) {
        fprintf(to, "No communicator data collected!\n");
        return;
    }
    fprintf(to, "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
                "    #  in group  per comm  per node  per comm  in group\n");
    for (int i = 0, end; i < count; i = end) {
        const weiri_view_comm *comm = rows[i].comm;
        char per_node[32];
        int ranks = 0;
        for (end = i; end < count && rows[end].group == rows[i].group; end++)
            ranks += rows[end].comm->nranks - rows[end].missing;
        const int nodes = comm->nnodes > 0 ? comm->nnodes : 1;
        const int low = comm->nranks / nodes, high = (comm->nranks + nodes - 1) / nodes;
        snprintf(per_node, sizeof per_node, low == high ? "%d" : "%d-%d", low, high);
        fprintf(to, "%5d  %8d  %8d  %8s  %8d  %8d  %8s  %6s\n", rows[i].group, end - i, nodes,
                per_node, comm->nranks, ranks, rows[i].status, text_errors(&rows[i]));
    }
}

static void text_title(const text_row *row, const char *title, FILE *to)
{
    fprintf(to, "#%d-%d (%016" PRIx64 "%s%s) %s\n", row->group, row->index, row->comm->hash,
            *row->comm->name ? " " : "", row->comm->name, title);
}

static const char *text_seen(weiri_seen seen)
{
    static const char *const words[] = {"is not known", "is running", "was stopped by a signal",
                                        "does not answer", "is considered dead"};
    return words[seen];
}

static void text_place(const weiri_view_rank *one, FILE *to)
{
    if (one->device >= 0)
        fprintf(to, "GPU %d managed by ", one->device);
    fprintf(to, "process %d on node %s\n", one->peer.pid, one->host);
}

static void text_missing(const text_row *row, FILE *to)
{
    int shown = 0;
    text_title(row, "INCOMPLETE", to);
    fprintf(to, "  Missing communicator data from %d rank%s\n", row->missing,
            row->missing > 1 ? "s" : "");
    for (int rank = 0; rank < row->comm->nranks && shown < DETAILS; rank++) {
        const weiri_view_rank *one = &row->comm->ranks[rank];
        if (!weiri_view_is_missing(one))
            continue;
        shown++;
        fprintf(to, "  The missing rank: %d -- it %s; ", rank, text_seen(one->seen));
        text_place(one, to);
    }
    if (row->missing > shown)
        fprintf(to, "  and %d more\n", row->missing - shown);
    fprintf(to, "\n");
}

static void text_error(const text_row *row, FILE *to)
{
    if (row->missing)
        text_missing(row, to);
    if (row->failed) {
        text_title(row, "ERROR", to);
        fprintf(to, "  The communicator was aborted\n\n");
    }
}

static void text_mismatch(const text_row *row, FILE *to)
{
    uint64_t least, most;
    text_title(row, "MISMATCH", to);
    for (int function = 0; function < WEIR_COLL_SENDRECV; function++) {
        if (!text_differs(row->comm, function, &least, &most))
            continue;
        fprintf(to, "  Communicator ranks have different %s operation counts\n",
                weiri_monitor_function_name(function));
        for (int rank = 0, shown = 0; rank < row->comm->nranks && shown < DETAILS; rank++) {
            const weiri_view_rank *one = &row->comm->ranks[rank];
            if (weiri_view_is_missing(one) || one->counts[function] == most)
                continue;
            shown++;
            fprintf(to, "  Rank %d has launched up to operation %" PRIu64 " of %" PRIu64 " -- ",
                    rank, one->counts[function], most);
            text_place(one, to);
        }
    }
    fprintf(to, "\n");
}

/* ------------------------------------------------------- waits, stragglers */

static void text_waits(const text_row *row, FILE *to)
{
    for (int rank = 0; rank < row->comm->nranks; rank++) {
        const weiri_view_rank *one = &row->comm->ranks[rank];
        uint64_t longest_ns;
        const int waiting = weiri_status_waiting(row->comm, rank, &longest_ns);
        if (!waiting)
            continue;
        const char *name = weir_collective_name((weir_collective)(one->call & 0xff));
        text_title(row, "WAITED FOR", to);
        fprintf(to, "  Rank %d: %d rank%s wait%s for it, for up to %.3f s; ", rank, waiting,
                waiting > 1 ? "s" : "", waiting > 1 ? "" : "s", (double)longest_ns / 1e9);
        if (one->call)
            fprintf(to, "it %s, last seen in %s, call %" PRIu64 " -- ", text_seen(one->seen),
                    name ? name : "a call", one->call >> 8);
        else
            fprintf(to, "it has called no collective yet -- ");
        text_place(one, to);
        fprintf(to, "\n");
    }
}

static void text_straggler(const weiri_view *view, const text_row *row, FILE *to)
{
    const weiri_straggler found = weiri_view_straggler(view, row->comm);
    if (found.rank < 0)
        return;
    text_title(row, "STRAGGLER", to);
    fprintf(to,
            "  Rank %d: in the last %d timed calls the other ranks waited most for it: each "
            "of them %.6f s in all, at most %.6f s in one call; it came last in %d of them -- ",
            found.rank, found.ncalls, (double)found.waited_ns / 1e9, (double)found.most_ns / 1e9,
            found.nlast);
    text_place(&row->comm->ranks[found.rank], to);
    fprintf(to, "\n");
}

static void text_sections(const weiri_view *view, const text_row *rows, int count, FILE *to)
{
    fprintf(to, "\nErrors\n======\n\n");
    for (int i = 0; i < count; i++)
        text_error(&rows[i], to);
    fprintf(to, "Warnings\n========\n\n");
    if (view->timeouts)
        fprintf(to,
                "TIMEOUT\n  Encountered %d communication timeout%s while gathering "
                "communicator data\n\n",
                view->timeouts, view->timeouts > 1 ? "s" : "");
    if (view->is_full)
        fprintf(to,
                "COMMUNICATORS\n  There are more than %d communicators; the others are not "
                "shown\n\n",
                WEIRI_VIEW_COMMS);
    for (int i = 0; i < count; i++)
        if (rows[i].mismatch)
            text_mismatch(&rows[i], to);
    fprintf(to, "Slow ranks\n==========\n\n");
    for (int i = 0; i < count; i++) {
        text_waits(&rows[i], to);
        text_straggler(view, &rows[i], to);
    }
}

void weiri_status_text(const weiri_view *view, FILE *to)
{
    const char *version = weiri_monitor_nccl_version();
    int runtime = 0, driver = 0;
    text_row *rows = calloc((size_t)view->ncomms + 1, sizeof *rows);
    const int count = rows ? view->ncomms : 0;
    for (int i = 0; i < count; i++)
        rows[i] = text_row_of(&view->comms[i]);
    if (count)
        qsort(rows, (size_t)count, sizeof *rows, text_compare_rows);
    text_number_groups(rows, count);
    weiri_status_cuda(&runtime, &driver);
    fprintf(to, "NCCL version %s as weir %s\nCUDA runtime version %d, driver version %d\n\n",
            version ? version : "0.0.0", WEIR_VERSION, runtime, driver);
    text_job(view, to);
    fprintf(to, "\nCommunicators... (%.2fs)\n=============\n\n", (double)view->took_ns / 1e9);
    text_table(rows, count, to);
    text_sections(view, rows, count, to);
    free(rows);
}
