/* Fills a view from the communicators of this process; what follows from a view. */
#include "comm/monitor/view.h"

#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"
#include "comm/monitor/process.h"
#include "comm/report_text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weiri_view_comm *weiri_view_comm_of(weiri_view *view, uint64_t hash, int nranks)
{
    for (int i = 0; i < view->ncomms; i++)
        if (view->comms[i].hash == hash)
            return view->comms[i].nranks == nranks ? &view->comms[i] : NULL;
    view->is_full |= view->ncomms == WEIRI_VIEW_COMMS;
    if (nranks < 1 || nranks > WEIRI_RANKS_MAX || view->ncomms == WEIRI_VIEW_COMMS)
        return NULL;
    weiri_view_rank *ranks = calloc((size_t)nranks, sizeof *ranks);
    weiri_view_comm *longer =
        ranks ? realloc(view->comms, ((size_t)view->ncomms + 1) * sizeof *longer) : NULL;
    if (!longer) {
        free(ranks);
        return NULL;
    }
    for (int rank = 0; rank < nranks; rank++) {
        ranks[rank].awaited = ranks[rank].device = ranks[rank].peer.pid = -1;
        memcpy(ranks[rank].host, "unknown", 8);
    }
    view->comms = longer;
    view->comms[view->ncomms] = (weiri_view_comm){.hash = hash, .nranks = nranks, .ranks = ranks};
    return &view->comms[view->ncomms++];
}

/* The IP address at which a process describes itself, else the name of this host for its ranks. */
static void view_name_host(const weiri_monitor_peer *peer, int is_here,
                           char host[WEIRI_VIEW_HOST_BYTES])
{
    const int family = peer->address.is_ipv6 ? AF_INET6 : AF_INET;
    if (peer->address.port)
        inet_ntop(family, peer->address.ip, host, WEIRI_VIEW_HOST_BYTES);
    else if (is_here && gethostname(host, WEIRI_VIEW_HOST_BYTES - 1) == 0)
        host[WEIRI_VIEW_HOST_BYTES - 1] = '\0';
}

static weiri_seen view_seen_of(const weiri_report_rank *report)
{
    if (report->life == WEIRI_DEAD)
        return WEIRI_SEEN_DEAD;
    if (report->life == WEIRI_STOPPED)
        return WEIRI_SEEN_STOPPED;
    return report->unknown ? WEIRI_SEEN_NOT : WEIRI_SEEN_RUNNING;
}

/* The slow wait in a rank's record. Only waits for words of peers say when they began. */
static void view_take_wait(weiri_view_rank *rank, const weiri_where *where)
{
    const uint64_t kind = weir_load_acquire(&where->wait.kind);
    const uint64_t since_ns = weir_load_relaxed(&where->since_ns), now_ns = weir_clock_ns();
    if (kind == WEIR_WAIT_NONE || kind > WEIR_WAIT_PACKET)
        return;
    rank->awaited = (int)(int64_t)weir_load_relaxed(&where->wait.peer);
    if (kind != WEIR_WAIT_WORD)
        return;
    weiri_text_load(rank->phase, where->phase);
    rank->awaited_ns = since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
}

/* What a rank of this node has in its page. */
static void view_take_page(weiri_view_rank *rank, const weiri_comm_page *page,
                           const weiri_where *where, int has_gpu)
{
    const weiri_monitored *from = &page->monitored;
    view_take_wait(rank, where);
    rank->device = has_gpu ? page->gpu.device : -1;
    rank->is_aborted = weir_load_relaxed(&page->abort.value) != 0;
    rank->is_finished = weir_load_relaxed(&page->finished.value) != 0;
    rank->call = weir_load_relaxed(&where->call);
    for (int i = 0; i < WEIRI_MONITOR_COUNTS; i++)
        rank->counts[i] = weir_load_relaxed(&from->counts[i]);
    rank->calls = malloc(WEIRI_MONITOR_CALLS * sizeof *rank->calls);
    rank->ncalls = rank->calls ? weiri_timed_calls_copy(from, rank->calls) : 0;
}

static void view_look_at(weiri_view_comm *into, const weiri_monitor *monitor)
{
    const weir_comm *comm = monitor->comm, *node = comm->host_comm ? comm->host_comm : comm;
    into->nnodes = comm->nnodes;
    into->is_own = 1;
    memcpy(into->name, monitor->name, sizeof into->name);
    for (int rank = 0; rank < comm->nranks; rank++) {
        weiri_view_rank *one = &into->ranks[rank];
        const int place = comm->internode ? comm->internode->place_of[rank] : rank;
        const int is_here = !comm->internode || !weiri_internode_is_remote(comm->internode, rank);
        if (one->calls) /* another rank of this process has described it */
            continue;
        const weiri_report_rank report = weiri_report_look_at(comm, rank);
        one->peer = monitor->peers[rank];
        one->seen = view_seen_of(&report);
        view_name_host(&one->peer, is_here, one->host);
        if (is_here)
            view_take_page(one, node->peers[place].page, report.where, comm->gpu != NULL);
    }
}

void weiri_view_look(weiri_view *view)
{
    for (const weiri_monitor *one = weiri_monitor_list_lock(); one; one = one->next) {
        weiri_view_comm *into = weiri_view_comm_of(view, one->comm->job, one->comm->nranks);
        view->straggler_calls = one->settings.ncalls;
        if (into)
            view_look_at(into, one);
    }
    weiri_monitor_list_unlock();
}

void weiri_view_free(weiri_view *view)
{
    for (int i = 0; i < view->ncomms; i++) {
        for (int rank = 0; rank < view->comms[i].nranks; rank++)
            free(view->comms[i].ranks[rank].calls);
        free(view->comms[i].ranks);
    }
    free(view->comms);
    memset(view, 0, sizeof *view);
}

int weiri_view_blocker(const weiri_view_comm *comm, int rank)
{
    int at = rank;
    for (int steps = 0; steps <= comm->nranks; steps++) {
        const int next = comm->ranks[at].awaited;
        if (next < 0 || next >= comm->nranks || comm->ranks[at].seen == WEIRI_SEEN_DEAD)
            return at == rank ? -1 : at;
        if (at != rank && weiri_view_is_missing(&comm->ranks[at]))
            return at; /* what it waited for before it stopped matters no more */
        at = next;
    }
    return -1;
}

weiri_straggler weiri_view_straggler(const weiri_view *view, const weiri_view_comm *comm)
{
    weiri_straggler found = {.rank = -1};
    weiri_timed_calls *ranks = calloc((size_t)comm->nranks, sizeof *ranks);
    if (!ranks)
        return found;
    for (int rank = 0; rank < comm->nranks; rank++)
        ranks[rank] = (weiri_timed_calls){comm->ranks[rank].calls, comm->ranks[rank].ncalls};
    found = weiri_straggler_find(
        ranks, comm->nranks, view->straggler_calls ? view->straggler_calls : 64, comm->nnodes == 1);
    free(ranks);
    return found;
}
