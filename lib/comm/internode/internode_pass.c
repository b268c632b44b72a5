/*
 * What ranks pass on to each other if not all are connected (WEIR_CONNECT): aborts, the end of the
 * report, and final state records. Each rank passes each of them on once, to all peers that it is
 * connected to, so a rank that is lost or does not poll delays no rank that has another path. The
 * leaders are connected at distances 1, 2, 4, ..., so everything reaches all leaders in log2(nodes)
 * steps, and the other ranks of a node through its shared memory.
 *
 * Each rank sends its record to its peers. Leaders also pass on the records of their node's ranks
 * and those that have arrived, which are put into the mirror of the same rank in the peer's window.
 * Several ranks may put the same record there; its bytes are the same. If a leader is lost, the
 * ranks of its node connect to two other leaders and do its part.
 */
#include "comm/internode/internode.h"

#include <stddef.h>
#include <string.h>

/* In which the leader of a node answers, and longer for each rank. */
enum { LEADER_NS = 200 * 1000 * 1000, LEADER_NS_EACH = 4 * 1000 * 1000 };

void weiri_internode_signal_links(weiri_internode *internode, size_t word, uint64_t value)
{
    const weiri_internode_links *links = internode->links;
    for (int i = 0; i < links->count; i++) {
        const weiri_internode_peer *peer = &internode->peers[links->ranks[i]];
        if (peer->endpoint->failed == WEIR_OK)
            internode->net->ops->signal(peer->endpoint, &peer->key, peer->words_there + word,
                                        value);
    }
}

static void pass_word(weiri_internode *internode, const weiri_internode_peer *peer, size_t word,
                      uint64_t value)
{
    if (value)
        internode->net->ops->signal(peer->endpoint, &peer->key, peer->words_there + word, value);
}

void weiri_internode_catch_up(weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    pass_word(internode, peer, offsetof(weiri_internode_words, abort),
              internode->abort_sent ? internode->abort_reason : 0);
    pass_word(internode, peer, offsetof(weiri_internode_words, printed),
              (uint64_t)internode->printed);
    pass_word(internode, peer, offsetof(weiri_internode_words, finished),
              (uint64_t)internode->finished);
    pass_word(internode, peer, offsetof(weiri_internode_words, left), (uint64_t)internode->left);
    memset(internode->passed, 0,
           (size_t)internode->parent->nranks); /* records, to this peer, too */
}

/* Whether this node's leader has died, or has not answered for a while since an abort. */
static int pass_misses_leader(weiri_internode *internode)
{
    const weir_comm *local = internode->local;
    if (weiri_comm_is_dead(local, 0))
        return 1;
    if (!internode->abort_ns)
        internode->abort_ns = weir_clock_ns();
    return !weir_load_acquire(&local->peers[0].page->where.answered) &&
           weir_clock_ns() - internode->abort_ns >
               LEADER_NS + (uint64_t)internode->parent->nranks * LEADER_NS_EACH;
}

/* The ranks of a node whose leader is lost connect to other leaders when that ends all waits, so
 * that the node still hears of the others, and they of it. Returns 1 if this is such a rank. */
static int pass_replaces_leader(weiri_internode *internode)
{
    if (internode->replaces_leader || internode->local->rank == 0 || !pass_misses_leader(internode))
        return internode->replaces_leader;
    internode->replaces_leader = 1;
    for (int sign = -1; sign <= 1; sign += 2)
        internode->net->ops->endpoint_begin(
            internode->peers[weiri_internode_leader_at(internode, sign)].endpoint);
    return 1;
}

/* The reason for which this rank's node was aborted by one of its ranks; 0: none. A failed kernel
 * is passed on when the host has found it. */
static uint64_t pass_reason(const weiri_internode *internode)
{
    const uint64_t reason = weir_load_acquire(internode->local->guard.abort_word);
    return reason == WEIR_ABORTED_BY_KERNEL ? 0 : reason;
}

int weiri_internode_signal_abort(weiri_internode *internode, uint64_t reason)
{
    if (internode->abort_sent)
        return 0;
    internode->abort_sent = 1;
    internode->abort_reason = reason;
    weiri_internode_signal_links(internode, offsetof(weiri_internode_words, abort), reason);
    return 1;
}

int weiri_internode_has_printed(const weiri_internode *internode)
{
    const weiri_internode_links *links = internode->links;
    for (int i = 0; i < weiri_internode_link_count(links); i++)
        if (weir_load_acquire(&internode->peers[links->ranks[i]].words->printed))
            return 1;
    return 0;
}

/* The window of this node's leader, which has the same layout up to the boxes; this rank's own if
 * the leader has freed its window. */
static const char *pass_leader_window(const weiri_internode *internode)
{
    const weiri_desc desc = internode->leader_window;
    weir_comm *local = internode->local;
    if (!internode->is_first_use || local->rank == 0 || weiri_region_map(local, 0, desc) != WEIR_OK)
        return internode->window;
    return local->peers[0].mappings[desc.region].segment.base;
}

static int pass_has_own_answer(const weiri_internode *internode, int rank)
{
    return weir_load_acquire(&internode->peers[rank].words->answered) != 0;
}

const weiri_where *weiri_internode_record_of(const weiri_internode *internode, int rank)
{
    if (pass_has_own_answer(internode, rank))
        return internode->peers[rank].mirror;
    const char *mirror = (const char *)internode->peers[rank].mirror;
    return (const weiri_where *)(const void *)(pass_leader_window(internode) +
                                               (mirror - internode->window));
}

int weiri_internode_has_answered(const weiri_internode *internode, int rank)
{
    if (pass_has_own_answer(internode, rank))
        return 1;
    const char *own = (const char *)&internode->peers[rank].words->answered;
    const char *there = pass_leader_window(internode) + (own - internode->window);
    return weir_load_acquire((const uint64_t *)(const void *)there) != 0;
}

static void pass_printed(weiri_internode *internode)
{
    if (internode->printed || !weiri_internode_has_printed(internode))
        return;
    internode->printed = 1;
    weiri_internode_signal_links(internode, offsetof(weiri_internode_words, printed), 1);
}

/* Returns the final record of a rank in the window; NULL if it is not known. Records of the node's
 * ranks are copied into the window first. */
static const weiri_where *pass_record_of(weiri_internode *internode, int rank)
{
    if (weiri_internode_is_remote(internode, rank)) {
        const weiri_internode_peer *peer = &internode->peers[rank];
        return weir_load_acquire(&peer->words->answered) ? peer->mirror : NULL;
    }
    const int place = internode->place_of[rank];
    const weiri_where *where = &internode->local->peers[place].page->where;
    if (!weir_load_acquire(&where->answered))
        return NULL;
    if (rank != internode->parent->rank) /* this rank's record was copied before */
        internode->own_records[place] = *where;
    return &internode->own_records[place];
}

void weiri_internode_put_record(weiri_internode *internode, int to, int rank,
                                const weiri_where *record, int is_final)
{
    const weiri_net_ops *ops = internode->net->ops;
    const weiri_internode_peer *peer = &internode->peers[to];
    if (peer->endpoint->failed != WEIR_OK)
        return;
    weir_status status = ops->put(peer->endpoint, internode->mem,
                                  (uint64_t)((const char *)record - internode->window), &peer->key,
                                  weiri_internode_mirror_at(internode, to, rank), sizeof *record);
    if (status == WEIR_OK && is_final)
        ops->signal(peer->endpoint, &peer->key,
                    weiri_internode_words_at(internode, to, rank) +
                        offsetof(weiri_internode_words, answered),
                    1);
}

static void pass_records(weiri_internode *internode)
{
    const weiri_internode_links *links = internode->links;
    const int *node_of = internode->node_of;
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        const weiri_where *record =
            internode->passed[rank] ? NULL : pass_record_of(internode, rank);
        if (!record)
            continue;
        internode->passed[rank] = 1;
        for (int i = 0; i < links->count; i++) {
            const int to = links->ranks[i];
            if (node_of[to] != node_of[rank])
                weiri_internode_put_record(internode, to, rank, record, 1);
        }
    }
}

void weiri_internode_pass_on(weiri_internode *internode)
{
    if (!internode->is_first_use)
        return;
    const uint64_t reason = internode->abort_sent ? 0 : pass_reason(internode);
    if (reason)
        weiri_internode_signal_abort(internode, reason);
    pass_printed(internode);
    if (internode->abort_sent && (internode->local->rank == 0 || pass_replaces_leader(internode)))
        pass_records(internode);
}
