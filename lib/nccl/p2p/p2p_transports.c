/*
 * The two transports of pieces that the host moves: mailboxes (p2p.h) to ranks of this node, and
 * messages (comm/internode/internode.h) to ranks of other nodes. The messages of pairs have a
 * separate window, so they are independent of those of collectives.
 */
#include "nccl/p2p/p2p_host.h"

/* ---------------------------------------------------------------- mailboxes */

/* On the host a direction of a pair has one lane. own_lane is in this rank's mailbox: it holds what
 * comes from the peer, and the counts of what goes to it. peer_lane is in the peer's mailbox. */
static weiri_p2p_lane *mailbox_lane(const weiri_nccl_p2p *p2p, int owner, int peer)
{
    return weiri_p2p_lane_at(weiri_p2p_box(p2p->mailbox[owner], owner, peer, p2p->lanes), 0);
}

static weiri_p2p_lane *own_lane(const weiri_nccl_comm *comm, int peer)
{
    return mailbox_lane(comm->p2p, comm->p2p->node_rank, weiri_comm_node_rank(comm->comm, peer));
}

static weiri_p2p_lane *peer_lane(const weiri_nccl_comm *comm, int peer)
{
    return mailbox_lane(comm->p2p, weiri_comm_node_rank(comm->comm, peer), comm->p2p->node_rank);
}

static uint64_t mailbox_piece_bytes(const weiri_nccl_comm *comm)
{
    (void)comm;
    return WEIRI_P2P_SLOT_BYTES;
}

static int mailbox_has_room(const weiri_nccl_comm *comm, int peer)
{
    const weiri_p2p_lane *mine = own_lane(comm, peer);
    return mine->own_sent < weir_load_acquire(&mine->taken) + WEIRI_P2P_SLOTS;
}

static char *mailbox_outgoing(const weiri_nccl_comm *comm, int peer)
{
    return peer_lane(comm, peer)->slot[own_lane(comm, peer)->own_sent % WEIRI_P2P_SLOTS].data;
}

static weir_status mailbox_post(const weiri_nccl_comm *comm, int peer, uint64_t bytes,
                                weiri_p2p_head head)
{
    weiri_p2p_lane *mine = own_lane(comm, peer), *to = peer_lane(comm, peer);
    unsigned slot = (unsigned)(mine->own_sent % WEIRI_P2P_SLOTS);
    (void)bytes;
    to->slot[slot].message_bytes = head.message_bytes;
    to->slot[slot].lent_region = head.lent.region;
    to->slot[slot].lent_generation = head.lent.generation;
    to->slot[slot].lent_offset = head.lent.offset;
    weir_store_release(&to->sent, ++mine->own_sent);
    return WEIR_OK;
}

static int mailbox_has_arrived(const weiri_nccl_comm *comm, int peer)
{
    const weiri_p2p_lane *mine = own_lane(comm, peer);
    return weir_load_acquire(&mine->sent) > mine->own_taken;
}

static const char *mailbox_incoming(const weiri_nccl_comm *comm, int peer, weiri_p2p_head *head)
{
    const weiri_p2p_lane *mine = own_lane(comm, peer);
    unsigned slot = (unsigned)(mine->own_taken % WEIRI_P2P_SLOTS);
    head->message_bytes = mine->slot[slot].message_bytes;
    head->lent = (weiri_desc){mine->slot[slot].lent_region, mine->slot[slot].lent_generation,
                              mine->slot[slot].lent_offset};
    return mine->slot[slot].data;
}

static weir_status mailbox_take(const weiri_nccl_comm *comm, int peer)
{
    weir_store_release(&peer_lane(comm, peer)->taken, ++own_lane(comm, peer)->own_taken);
    return WEIR_OK;
}

static weiri_p2p_awaited mailbox_room(const weiri_nccl_comm *comm, int peer)
{
    const weiri_p2p_lane *mine = own_lane(comm, peer);
    return (weiri_p2p_awaited){&mine->taken, mine->own_sent + 1 - WEIRI_P2P_SLOTS};
}

static weiri_p2p_awaited mailbox_arrival(const weiri_nccl_comm *comm, int peer)
{
    const weiri_p2p_lane *mine = own_lane(comm, peer);
    return (weiri_p2p_awaited){&mine->sent, mine->own_taken + 1};
}

static weiri_p2p_awaited mailbox_all_taken(const weiri_nccl_comm *comm, int peer)
{
    const weiri_p2p_lane *mine = own_lane(comm, peer);
    return (weiri_p2p_awaited){&mine->taken, mine->own_sent};
}

/* ----------------------------------------------------------------- messages */

static uint64_t message_piece_bytes(const weiri_nccl_comm *comm)
{
    return comm->p2p->pairs->slot_bytes;
}

static int message_has_room(const weiri_nccl_comm *comm, int peer)
{
    return weiri_internode_has_room(&comm->p2p->pairs->peers[peer]);
}

static char *message_outgoing(const weiri_nccl_comm *comm, int peer)
{
    return weiri_internode_outgoing(comm->p2p->pairs, peer);
}

static weir_status message_post(const weiri_nccl_comm *comm, int peer, uint64_t bytes,
                                weiri_p2p_head head)
{
    return weiri_internode_post(comm->p2p->pairs, peer, NULL, bytes, head.message_bytes);
}

static int message_has_arrived(const weiri_nccl_comm *comm, int peer)
{
    return weiri_internode_has_arrived(&comm->p2p->pairs->peers[peer]);
}

static const char *message_incoming(const weiri_nccl_comm *comm, int peer, weiri_p2p_head *head)
{
    const char *data = weiri_internode_incoming(comm->p2p->pairs, peer);
    *head = (weiri_p2p_head){.message_bytes = weiri_internode_head_of(data)->total_bytes};
    return data;
}

static weir_status message_take(const weiri_nccl_comm *comm, int peer)
{
    return weiri_internode_take(comm->p2p->pairs, peer);
}

static weiri_p2p_awaited message_room(const weiri_nccl_comm *comm, int peer)
{
    const weiri_internode_peer *path = &comm->p2p->pairs->peers[peer];
    return (weiri_p2p_awaited){&path->words->consumed, weiri_internode_room_at(path)};
}

static weiri_p2p_awaited message_arrival(const weiri_nccl_comm *comm, int peer)
{
    const weiri_internode_peer *path = &comm->p2p->pairs->peers[peer];
    return (weiri_p2p_awaited){&path->words->arrived, path->taken + 1};
}

const weiri_p2p_transport *weiri_p2p_transport_to(const weiri_nccl_comm *comm, int rank)
{
    static const weiri_p2p_transport mailbox_transport = {
        .piece_bytes = mailbox_piece_bytes,
        .has_room = mailbox_has_room,
        .outgoing = mailbox_outgoing,
        .post = mailbox_post,
        .has_arrived = mailbox_has_arrived,
        .incoming = mailbox_incoming,
        .take = mailbox_take,
        .room = mailbox_room,
        .arrival = mailbox_arrival,
        .all_taken = mailbox_all_taken,
    };
    static const weiri_p2p_transport message_transport = {
        .piece_bytes = message_piece_bytes,
        .has_room = message_has_room,
        .outgoing = message_outgoing,
        .post = message_post,
        .has_arrived = message_has_arrived,
        .incoming = message_incoming,
        .take = message_take,
        .room = message_room,
        .arrival = message_arrival,
    };
    return weiri_p2p_is_remote(comm, rank) ? &message_transport : &mailbox_transport;
}
