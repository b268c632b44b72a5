/* The chain of this rank's calls, and its comparison with other ranks': see called.h. */
#include "comm/called.h"

#include "base/contract.h"
#include "base/env.h"
#include "base/error.h"
#include "comm/internode/internode.h"
#include "comm/monitor/settings.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int called_is_on(void)
{
    const char *own = weiri_env(WEIRI_ENV_CHECK);
    const char *mode = weiri_monitor_nccl_version() ? weiri_env(WEIRI_ENV_NCCL_CHECK_MODE) : NULL;
    return own ? strcmp(own, "0") != 0 : mode && strcmp(mode, "DEBUG_GLOBAL") == 0;
}

/* The communicator of this rank's node whose pages hold the calls. */
static weir_comm *called_host(weir_comm *top)
{
    return top->internode ? top->host_comm : top;
}

static uint64_t called_depth(const weir_comm *host)
{
    return host->gpu ? WEIRI_CALLED_MOST : WEIRI_CALLED_ON_HOST;
}

void weiri_called_open(weir_comm *comm)
{
    const weir_comm *host = called_host(comm);
    if (!called_is_on())
        return;
    for (int i = 0; i < WEIR_COLL_COUNT; i++) {
        const weiri_contract *contract = weiri_contract_of(i);
        const uint64_t dtype = i == WEIR_COLL_SENDRECV ? 0 : 0xffu << WEIRI_CALLED_DTYPE;
        const uint64_t op = contract->reduces ? 0xffu << WEIRI_CALLED_OP : 0;
        const uint64_t root = contract->has_root ? UINT64_MAX << WEIRI_CALLED_ROOT : 0;
        comm->called_masks[i] =
            (weiri_called_word){.what = 0xff | dtype | op | WEIRI_CALLED_IS | root,
                                .count = contract->is_uneven ? 0 : UINT64_MAX};
    }
    comm->called_page = host->peers[host->rank].page;
    weir_comm *all[] = {comm, comm->host_comm, comm->gpu_comm};
    for (int i = 0; i < 3; i++)
        if (all[i])
            all[i]->await_calls = weiri_called_await;
    comm->checks = 1;
}

/* -------------------------------------------------------------------- the text */

static const char *called_ordinal(uint64_t number)
{
    static const char *const ends[] = {"th", "st", "nd", "rd"};
    return number % 100 / 10 != 1 && number % 10 < 4 ? ends[number % 10] : ends[0];
}

static void called_describe(char *text, size_t bytes, const weiri_called *call)
{
    const char *op = weir_op_name((weir_op)(call->what >> WEIRI_CALLED_OP & 0xff));
    const char *dtype = weir_dtype_name((weir_dtype)(call->what >> WEIRI_CALLED_DTYPE & 0xff));
    const int has_dtype = (call->what & 0xff) != WEIR_COLL_SENDRECV;
    const weiri_contract *contract = weiri_contract_of((int)(call->what & 0xff));
    char count[24] = "", root[24] = "";
    if (!contract->is_uneven)
        snprintf(count, sizeof count, " %llu", (unsigned long long)call->count);
    if (contract->has_root)
        snprintf(root, sizeof root, " root %d", (int)(call->what >> WEIRI_CALLED_ROOT));
    snprintf(text, bytes, "%s%s%s%s%s%s%s", contract->name, has_dtype ? " " : "",
             has_dtype ? dtype : "", count, contract->reduces ? " " : "",
             contract->reduces ? op : "", root);
}

void weiri_called_text(char *text, size_t bytes, int rank, const weiri_called *call, int other,
                       const weiri_called *other_call)
{
    char first[96], second[96];
    const unsigned long long number = call->number;
    called_describe(first, sizeof first, call);
    called_describe(second, sizeof second, other_call);
    if (!weiri_called_differ(call, other_call))
        snprintf(text, bytes,
                 "rank %d and rank %d have called different collectives before their %llu%s call",
                 rank, other, number, called_ordinal(number));
    else
        snprintf(text, bytes, "rank %d calls %s as its %llu%s call, rank %d %s", rank, first,
                 number, called_ordinal(number), other, second);
}

static weir_status called_error(const weir_comm *top, int rank, const weiri_called *call, int other,
                                const weiri_called *other_call)
{
    char text[320];
    weiri_called_text(text, sizeof text, rank, call, other, other_call);
    return weiri_fail(WEIR_ERR_MISMATCH, "rank %d: %s", top->rank, text);
}

int weiri_called_found(const weiri_where *where, weiri_called calls[2], int ranks[2])
{
    const uint64_t number = weir_load_acquire(&where->differ[0]);
    for (int i = 0; i < 2; i++) {
        calls[i] = (weiri_called){.number = number,
                                  .what = weir_load_relaxed(&where->differ[1 + 3 * i]),
                                  .count = weir_load_relaxed(&where->differ[2 + 3 * i])};
        ranks[i] = (int)weir_load_relaxed(&where->differ[3 + 3 * i]);
    }
    return number != 0;
}

/* Publishes that the call of a rank differs from this rank's, and sets the error line. */
static weir_status called_fail(const weir_comm *top, int rank, const weiri_called *call,
                               const weiri_called *own)
{
    uint64_t *differ = top->where->differ;
    const uint64_t words[] = {call->what, call->count, (uint64_t)rank,
                              own->what,  own->count,  (uint64_t)top->rank};
    for (int i = 0; i < 6 && !weir_load_relaxed(differ); i++)
        weir_store_relaxed(&differ[1 + i], words[i]);
    weir_store_release(differ, call->number);
    return called_error(top, rank, call, top->rank, own);
}

/* ------------------------------------------------------------ ranks of this node */

/* Reads a rank's call of that number. Returns 0 if it is not there, or may be overwritten. */
static int called_read(const weir_comm *host, int rank, uint64_t number, weiri_called *call)
{
    const weiri_comm_page *page = host->peers[rank].page;
    const weiri_called_word *from = &page->called[number & (called_depth(host) - 1)];
    if (!number || weir_load_acquire(&page->ncalled.value) < number)
        return 0;
    *call = (weiri_called){number, weir_load_relaxed(&from->what), weir_load_relaxed(&from->count),
                           weir_load_relaxed(&from->chain)};
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return weir_load_relaxed(&page->ncalled.value) + 1 < number + called_depth(host);
}

/* The latest call of a rank of this node; what is 0 if there is none. */
static weiri_called called_latest(const weir_comm *host, int rank)
{
    weiri_called call;
    const uint64_t number = weir_load_acquire(&host->peers[rank].page->ncalled.value);
    return called_read(host, rank, number, &call) ? call : (weiri_called){.what = 0};
}

weiri_called weiri_called_own(weir_comm *comm)
{
    const weir_comm *host = called_host(comm);
    return comm->checks ? called_latest(host, host->rank) : (weiri_called){.what = 0};
}

void weiri_called_note(weir_comm *comm)
{
    weir_comm *top = comm->parent ? comm->parent : comm;
    if (WEIRI_LIKELY(!top->checks))
        return;
    const weiri_called own = weiri_called_own(top);
    weir_store_relaxed(&top->where->what, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    weir_store_relaxed(&top->where->count, own.count);
    weir_store_relaxed(&top->where->call, own.number << 8 | (own.what & 0xff));
    weir_store_release(&top->where->what, own.what);
}

/* Reads the calls of that number of a rank and of this one. Returns 1 if their chains differ, 0 if
 * they are equal, -1 if one of them is not there. */
static int called_differ_at(const weir_comm *host, int rank, uint64_t number, weiri_called *call,
                            weiri_called *own)
{
    if (!called_read(host, rank, number, call) || !called_read(host, host->rank, number, own))
        return -1;
    return call->chain != own->chain;
}

/* Once chains differ, they differ from then on: finds the first call that differs. */
static weir_status called_compare_rank(const weir_comm *top, const weir_comm *host, int rank)
{
    weiri_called call, own;
    const uint64_t theirs = weir_load_acquire(&host->peers[rank].page->ncalled.value);
    const uint64_t mine = weir_load_acquire(&host->peers[host->rank].page->ncalled.value);
    uint64_t last = theirs < mine ? theirs : mine;
    const uint64_t most = theirs < mine ? mine : theirs;
    uint64_t equal = most < called_depth(host) ? 0 : most - called_depth(host) + 1;
    if (called_differ_at(host, rank, last, &call, &own) != 1)
        return WEIR_OK;
    while (last - equal > 1) {
        const uint64_t middle = equal + (last - equal) / 2;
        if (called_differ_at(host, rank, middle, &call, &own) == 1)
            last = middle;
        else
            equal = middle;
    }
    return called_differ_at(host, rank, last, &call, &own) == 1
               ? called_fail(top, weiri_comm_parent_rank(host, rank), &call, &own)
               : WEIR_OK;
}

/* ----------------------------------------------------------- ranks of other nodes */

/* Compares a call of a remote rank with this rank's of that number. is_message: the call has a
 * chain, and sent a message that this rank has not received so far. */
static weir_status called_compare_remote(const weir_comm *top, int rank, const weiri_called *call,
                                         int is_message)
{
    const weir_comm *host = top->host_comm;
    weiri_called own;
    if (!call->what || !called_read(host, host->rank, call->number, &own))
        return WEIR_OK;
    return weiri_called_differ(call, &own) || (is_message && call->chain != own.chain)
               ? called_fail(top, rank, call, &own)
               : WEIR_OK;
}

/* Reads the call of the next message of a rank. Returns 0 if none has arrived, or if another
 * thread, as that of a lane, has released it meanwhile: then it may be overwritten. */
static int called_of_message(const weiri_internode *internode, int rank, weiri_called *call)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    const uint64_t taken = weir_load_relaxed(&peer->taken);
    if (!weiri_internode_has_arrived(peer))
        return 0;
    *call = weiri_internode_head_of(weiri_internode_incoming(internode, rank))->called;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return weir_load_relaxed(&peer->taken) == taken;
}

static weir_status called_compare_link(const weir_comm *top, int rank)
{
    const weiri_internode_peer *peer = &top->internode->peers[rank];
    weiri_called arrived;
    weir_status status = WEIR_OK;
    if (peer->inbox && called_of_message(top->internode, rank, &arrived))
        status = called_compare_remote(top, rank, &arrived, 1);
    if (status == WEIR_OK && peer->mirror) {
        weiri_net_lock(top->internode->net); /* another thread may receive a record */
        const weiri_called call = weiri_called_of(peer->mirror);
        weiri_net_unlock(top->internode->net);
        status = called_compare_remote(top, rank, &call, 0);
    }
    return status;
}

/* ------------------------------------------------------------------- comparisons */

/* The state record of any rank, as far as this rank knows. */
static const weiri_where *called_record(const weir_comm *top, int rank)
{
    const weiri_internode *internode = top->internode;
    if (!internode)
        return &top->peers[rank].page->where;
    if (!weiri_internode_is_remote(internode, rank))
        return &top->host_comm->peers[internode->place_of[rank]].page->where;
    return weiri_internode_has_answered(internode, rank)
               ? weiri_internode_record_of(internode, rank)
               : internode->peers[rank].mirror;
}

/* After an abort: repeats what another rank has found, because this rank may not have made the call
 * in which others differ. */
static weir_status called_compare_found(const weir_comm *top)
{
    weiri_called calls[2];
    int ranks[2], found = 0;
    if (top->internode)
        weiri_net_lock(top->internode->net); /* another thread may receive a record */
    for (int rank = 0; rank < top->nranks && !found; rank++) {
        const weiri_where *where = called_record(top, rank);
        found = where && weiri_called_found(where, calls, ranks);
    }
    if (top->internode)
        weiri_net_unlock(top->internode->net);
    return found ? called_error(top, ranks[0], &calls[0], ranks[1], &calls[1]) : WEIR_OK;
}

/* Compares the calls of one communicator. */
static weir_status called_compare_all(weir_comm *top)
{
    const weir_comm *host = called_host(top);
    weir_status status = WEIR_OK;
    for (int rank = 0; rank < host->nranks && status == WEIR_OK; rank++)
        if (rank != host->rank)
            status = called_compare_rank(top, host, rank);
    const weiri_internode_links *links = top->internode ? top->internode->links : NULL;
    const int count = links ? weiri_internode_link_count(links) : 0;
    for (int i = 0; i < count && status == WEIR_OK; i++)
        status = called_compare_link(top, links->ranks[i]);
    if (status == WEIR_OK && weiri_comm_is_aborted(host))
        status = called_compare_found(top);
    return status;
}

/* Publishes calls that differ, as found in a lane, in the record that reports show. */
static void called_pass_on(weiri_where *to, const weiri_where *from)
{
    for (int i = 6; i >= 0; i--) /* the number last: then all are valid */
        weir_store_release(&to->differ[i], weir_load_acquire(&from->differ[i]));
}

weir_status weiri_called_compare(weir_comm *comm)
{
    weir_comm *top = comm->parent ? comm->parent : comm;
    if (WEIRI_LIKELY(!top->checks))
        return WEIR_OK;
    if (top->lane_of) {
        top = top->lane_of;
        weiri_internode_try_poll(top->internode);
    }
    weir_status status = called_compare_all(top);
    for (int i = 0; i < top->nlanes && status == WEIR_OK; i++) {
        status = called_compare_all(top->lanes[i]);
        if (status != WEIR_OK)
            called_pass_on(top->where, top->lanes[i]->where);
    }
    return status;
}

weir_status weiri_called_compare_next(weir_comm *comm)
{
    enum { AGO = 16 };
    const weir_comm *host = called_host(comm);
    weiri_called call, own;
    comm->compared = comm->compared + 1 < host->nranks ? comm->compared + 1 : 0;
    const uint64_t number = comm->calls + 1;
    if (comm->compared == host->rank || number <= AGO ||
        called_differ_at(host, comm->compared, number - AGO, &call, &own) != 1)
        return WEIR_OK;
    return called_compare_rank(comm, host, comm->compared);
}

void weiri_called_show(weir_comm *comm, int of_node)
{
    weir_comm *top = comm->parent ? comm->parent : comm;
    weiri_called_note(top);
    if (top->checks && top->internode)
        weiri_internode_show_records(top->internode, of_node);
    if (top->lane_of)
        weiri_called_show(top->lane_of, of_node);
}

weir_status weiri_called_await(weir_comm *comm)
{
    enum { STEPS = 100 };
    weir_comm *top = comm->parent ? comm->parent : comm;
    const struct timespec nap = {.tv_nsec = 1000000};
    const int steps = top->checks && top->internode ? STEPS : 1;
    weir_status status = WEIR_OK;
    for (int i = 0; i < steps && status == WEIR_OK; i++) {
        status = weiri_called_compare(top);
        if (status != WEIR_OK || steps == 1)
            break;
        weiri_internode_try_poll(top->internode);
        nanosleep(&nap, NULL);
    }
    return status;
}
