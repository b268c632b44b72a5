/*
 * What a process says about the ranks of its node to the RAS service of another one. Lines of text,
 * fields separated by one blank:
 *
 *   comm HASH NRANKS NNODES NAME
 *   rank R SEEN HOSTID PID ADDRESS HOST DEVICE ABORTED FINISHED AWAITED AWAITED_NS CALL COUNTS...
 *   phase TEXT                                  the step of the slow wait of the last rank
 *   timed NUMBER BEGIN_NS DURATION_NS           of the last rank
 *   end
 *
 * Names and texts are the rest of their lines. Readers ignore lines that they do not know.
 */
#include "comm/monitor/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void records_write_rank(const weiri_view_rank *one, int rank, FILE *to)
{
    char address[WEIRI_ADDRESS_TEXT_BYTES];
    fprintf(to, "rank %d %d %" PRIx64 " %d %s %s %d %d %d %d %" PRIu64 " %" PRIu64, rank,
            (int)one->seen, one->peer.host, one->peer.pid,
            weiri_address_text(&one->peer.address, address), one->host, one->device,
            one->is_aborted, one->is_finished, one->awaited, one->awaited_ns, one->call);
    for (int i = 0; i < WEIRI_MONITOR_COUNTS; i++)
        fprintf(to, " %" PRIu64, one->counts[i]);
    fprintf(to, "\n");
    if (*one->phase)
        fprintf(to, "phase %s\n", one->phase);
    for (int i = 0; i < one->ncalls; i++)
        fprintf(to, "timed %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", one->calls[i].number,
                one->calls[i].begin_ns, one->calls[i].duration_ns);
}

void weiri_records_write(const weiri_view *view, const uint64_t *known, int nknown, FILE *to)
{
    for (int i = 0; i < view->ncomms; i++) {
        const weiri_view_comm *comm = &view->comms[i];
        int skip = 0;
        while (skip < nknown && known[skip] != comm->hash)
            skip++;
        if (skip < nknown)
            continue;
        fprintf(to, "comm %" PRIx64 " %d %d %s\n", comm->hash, comm->nranks, comm->nnodes,
                *comm->name ? comm->name : "unknown");
        for (int rank = 0; rank < comm->nranks; rank++)
            if (comm->ranks[rank].seen != WEIRI_SEEN_NOT)
                records_write_rank(&comm->ranks[rank], rank, to);
    }
    fprintf(to, "end\n");
}

/* ------------------------------------------------------------------ reading */

/* Text that comes from elsewhere and is printed: without control characters, quotes, backslashes.
 */
static void records_clean(char *to, size_t bytes, const char *from)
{
    size_t used = 0;
    for (; *from && used + 1 < bytes; from++)
        to[used++] = *from < ' ' || *from > '~' || *from == '"' || *from == '\\' ? '?' : *from;
    to[used] = '\0';
}

static weiri_view_comm *records_read_comm(weiri_view *view, const char *line)
{
    uint64_t hash;
    int nranks, nnodes, at = 0;
    if (sscanf(line, "%" SCNx64 " %d %d %n", &hash, &nranks, &nnodes, &at) < 3 || !at)
        return NULL;
    weiri_view_comm *comm = weiri_view_comm_of(view, hash, nranks);
    if (comm && !comm->is_own) {
        comm->nnodes = nnodes;
        records_clean(comm->name, sizeof comm->name, line + at);
    }
    return comm;
}

static int records_read_counts(weiri_view_rank *one, const char *text)
{
    for (int i = 0; i < WEIRI_MONITOR_COUNTS; i++) {
        char *end = NULL;
        one->counts[i] = strtoull(text, &end, 10);
        if (end == text)
            return 0;
        text = end;
    }
    return 1;
}

/* Returns the rank that the line describes, NULL if that is known already. */
static weiri_view_rank *records_read_rank(weiri_view_comm *comm, const char *line)
{
    char address[WEIRI_ADDRESS_TEXT_BYTES], host[WEIRI_VIEW_HOST_BYTES];
    weiri_view_rank one = {.ncalls = 0};
    weiri_named_address named;
    int rank, seen, at = 0;
    if (sscanf(line, "%d %d %" SCNx64 " %d %71s %63s %d %d %d %d %" SCNu64 " %" SCNu64 "%n", &rank,
               &seen, &one.peer.host, &one.peer.pid, address, host, &one.device, &one.is_aborted,
               &one.is_finished, &one.awaited, &one.awaited_ns, &one.call, &at) < 12 ||
        !at || rank < 0 || rank >= comm->nranks || seen <= WEIRI_SEEN_NOT ||
        seen > WEIRI_SEEN_DEAD || !records_read_counts(&one, line + at))
        return NULL;
    weiri_view_rank *into = &comm->ranks[rank];
    if (into->seen != WEIRI_SEEN_NOT && into->seen != WEIRI_SEEN_SILENT)
        return NULL;
    if (weiri_named_address_parse(address, &named) == WEIR_OK)
        one.peer.address = named.address;
    records_clean(one.host, sizeof one.host, host);
    one.seen = (weiri_seen)seen;
    one.awaited = one.awaited < comm->nranks ? one.awaited : -1;
    free(into->calls);
    *into = one;
    return into;
}

static void records_read_timed(weiri_view_rank *rank, const char *line)
{
    weiri_monitored_call call;
    if (rank->ncalls == WEIRI_MONITOR_CALLS ||
        sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &call.number, &call.begin_ns,
               &call.duration_ns) != 3)
        return;
    if (!rank->calls)
        rank->calls = malloc(WEIRI_MONITOR_CALLS * sizeof *rank->calls);
    if (rank->calls)
        rank->calls[rank->ncalls++] = call;
}

int weiri_records_read(weiri_view *view, char *text)
{
    int comm = -1, has_end = 0; /* comm: an index, because the list may move */
    weiri_view_rank *rank = NULL;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && !has_end;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "comm ", 5) == 0) {
            const weiri_view_comm *found = records_read_comm(view, line + 5);
            comm = found ? (int)(found - view->comms) : -1;
            rank = NULL;
        } else if (strncmp(line, "rank ", 5) == 0) {
            rank = comm >= 0 ? records_read_rank(&view->comms[comm], line + 5) : NULL;
        } else if (rank && strncmp(line, "phase ", 6) == 0) {
            records_clean(rank->phase, sizeof rank->phase, line + 6);
        } else if (rank && strncmp(line, "timed ", 6) == 0) {
            records_read_timed(rank, line + 6);
        }
        has_end = strcmp(line, "end") == 0;
    }
    return has_end;
}
