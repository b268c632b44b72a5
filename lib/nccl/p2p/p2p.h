/*
 * Sends and receives between two ranks, in which no other rank takes part. They cannot be a
 * collective of weir, whose epochs are numbered equally on all ranks; each direction of a pair
 * keeps its own count. Ranks of different nodes send messages (comm/internode/internode.h); those
 * of one node use mailboxes.
 *
 * Every rank owns a mailbox, which all peers of the node map. It contains, for each peer, lanes:
 * rings of slots. A long message is divided into pieces of equal length, dealt to the lanes in
 * turn, equally many to each; the last may be empty. On GPUs a short message is divided into parts,
 * one for each lane that it needs, which travel as LL packets. Each piece and part contains the
 * length of its message, which the receiver compares with what it expects. On the host a piece may
 * have the place of a message in the sender's memory instead of data: the message is lent. The
 * receiver copies from there, and the sender's call ends when the last such piece is taken.
 *
 *   sent     written by the sender, in the receiver's mailbox: pieces stored so far, and parts
 *            before them; stored with release after a piece, loaded with acquire before it
 *   taken    written by the receiver, in the sender's mailbox: pieces and parts consumed
 *   slots    written by the sender, in the receiver's mailbox
 *   packets  likewise, in separate memory after all lanes, because data could be taken for
 *            their flags, which are counts
 *
 * Both counters only grow, and each end keeps its own count in its own mailbox, so that a captured
 * launch replays correctly.
 *
 * Messages of a direction pass in order, and the pieces of a message in rounds of one piece per
 * lane. A block that serves several lanes of a pair serves all of them in a round before the next.
 * So each end waits only for what the other does earlier in that order, however the lanes are
 * distributed.
 */
#ifndef WEIR_NCCL_P2P_H
#define WEIR_NCCL_P2P_H

#include <weir/target.h>
#include <weir/weir.h>
#include <weir/device.h>

enum {
    WEIRI_P2P_SLOTS = 2,
#if defined(WEIR_EMULATED)
    WEIRI_P2P_SLOT_BYTES = 256, /* small, so that tests use several pieces */
    WEIRI_P2P_SHORT_PIECE_BYTES = 100,
    WEIRI_P2P_PACKETS = 16,
#else
    WEIRI_P2P_SLOT_BYTES = 112 << 10, /* a block's threads copy it in two rounds of eight loads */
    WEIRI_P2P_SHORT_PIECE_BYTES = 16 << 10,
    WEIRI_P2P_PACKETS = 896, /* two for each of a block's threads */
#endif
    WEIRI_P2P_PART_BYTES = 8 * WEIRI_P2P_PACKETS, /* the most of a short message in a lane */
    /* A piece of a lent message: so short that a sender sees progress while its receiver copies,
     * or serves other senders. */
    WEIRI_P2P_LENT_BYTES = 4 << 20,
};

/* Lanes of each direction of a pair: long messages use all of them, short ones the first ones,
 * which have packets. */
typedef struct weiri_p2p_lanes {
    int32_t all, with_packets;
} weiri_p2p_lanes;

/* On GPUs as many lanes as keep a link busy if few ranks send, and so few lanes with packets that
 * one block for each, in both directions with all peers, is resident at once. On the host one
 * lane. */
WEIR_FN weiri_p2p_lanes weiri_p2p_lanes_for(int on_gpu, int nranks)
{
    const weiri_p2p_lanes one = {1, 0}, two = {128, 64}, few = {128, 32}, many = {64, 16};
    return !on_gpu ? one : nranks <= 2 ? two : nranks <= 4 ? few : many;
}

typedef struct weiri_p2p_lane {
    uint64_t sent; /* written by the sender */
    uint64_t pad0[15];
    uint64_t taken; /* written by the peer: taken of what this rank sends to it in this lane */
    uint64_t pad1[15];
    uint64_t own_sent, own_taken; /* this rank's counts: sent to the peer, taken from it */
    uint64_t pad2[14];
    struct {
        uint64_t message_bytes;
        uint32_t lent_region, lent_generation; /* on the host: a weiri_desc */
        uint64_t lent_offset;
        uint64_t pad[13];
        char data[WEIRI_P2P_SLOT_BYTES];
    } slot[WEIRI_P2P_SLOTS];
} weiri_p2p_lane;

/* The first packet of each slot is the header, with the message's length; the rest of its line is
 * unused. */
typedef struct weiri_p2p_packets {
    uint64_t words[WEIRI_P2P_SLOTS][2 * (8 + WEIRI_P2P_PACKETS)];
} weiri_p2p_packets;

/* A mailbox has a box for each peer: its lanes, followed by their packets. Owner and peer are ranks
 * of the node communicator. */
WEIR_FN size_t weiri_p2p_box_bytes(weiri_p2p_lanes lanes)
{
    return (size_t)lanes.all * sizeof(weiri_p2p_lane) +
           (size_t)lanes.with_packets * sizeof(weiri_p2p_packets);
}

/* All boxes of a mailbox of one of n ranks; behind them are the words of one-sided calls (rma.h).
 */
WEIR_FN size_t weiri_p2p_boxes_bytes(weiri_p2p_lanes lanes, int nranks)
{
    return (nranks > 1 ? (size_t)nranks - 1 : 1) * weiri_p2p_box_bytes(lanes);
}

WEIR_FN char *weiri_p2p_box(char *mailbox, int owner, int peer, weiri_p2p_lanes lanes)
{
    return mailbox + (size_t)(peer - (peer > owner)) * weiri_p2p_box_bytes(lanes);
}

WEIR_FN weiri_p2p_lane *weiri_p2p_lane_at(char *box, int lane)
{
    return (weiri_p2p_lane *)(void *)box + lane;
}

WEIR_FN weiri_p2p_packets *weiri_p2p_packets_at(char *box, weiri_p2p_lanes lanes, int lane)
{
    return (weiri_p2p_packets *)(void *)weiri_p2p_lane_at(box, lanes.all) + lane;
}

/* Whether a message travels as packets. */
WEIR_FN int weiri_p2p_is_short(uint64_t bytes, weiri_p2p_lanes lanes)
{
    return bytes <= (uint64_t)lanes.with_packets * WEIRI_P2P_PART_BYTES;
}

/* Lanes that a short message uses; both ends derive it from the length. As long as there are lanes,
 * a lane carries half of what it could: one packet for each of a block's threads. */
WEIR_FN int weiri_p2p_lanes_of_short(uint64_t bytes, weiri_p2p_lanes lanes)
{
    const uint64_t all = (uint64_t)lanes.with_packets * (WEIRI_P2P_PART_BYTES / 2);
    if (bytes >= all)
        return lanes.with_packets;
    return bytes ? (int)(((uint32_t)bytes - 1) / (WEIRI_P2P_PART_BYTES / 2)) + 1 : 1;
}

/* Lanes that a long message uses: half of them if pieces would be short. */
WEIR_FN int weiri_p2p_lanes_of_long(uint64_t bytes, weiri_p2p_lanes lanes)
{
    const int are_short = bytes < (uint64_t)lanes.all * WEIRI_P2P_SHORT_PIECE_BYTES;
    return are_short ? (lanes.all + 1) / 2 : lanes.all;
}

/* Lanes that a message uses. */
WEIR_FN int weiri_p2p_lanes_of(uint64_t bytes, weiri_p2p_lanes lanes)
{
    return weiri_p2p_is_short(bytes, lanes) ? weiri_p2p_lanes_of_short(bytes, lanes)
                                            : weiri_p2p_lanes_of_long(bytes, lanes);
}

/* The bytes of a lane's part of a short message, from *at on: whole words of 8 except at the
 * end. */
WEIR_FN uint64_t weiri_p2p_part(uint64_t bytes, int lanes, int lane, uint64_t *at)
{
    const uint32_t each = (((uint32_t)bytes - 1) / (uint32_t)lanes / 8 + 1) * 8;
    *at = (uint64_t)each * (uint32_t)lane;
    if (*at >= bytes)
        return 0;
    return bytes - *at < each ? bytes - *at : each;
}

/* How a long message is divided. */
typedef struct weiri_p2p_division {
    int32_t lanes;
    uint32_t rounds;      /* pieces in each lane */
    uint32_t piece_bytes; /* whole lines of 128 bytes */
} weiri_p2p_division;

/* Divides a long message into as few rounds as the slots allow; both ends derive it from the
 * length. Counts in lines with 32 bits, because 64-bit divisions are function calls on a GPU. */
WEIR_FN weiri_p2p_division weiri_p2p_divide(uint64_t bytes, weiri_p2p_lanes lanes)
{
    const uint32_t line = 128, lines = (uint32_t)((bytes + line - 1) / line);
    weiri_p2p_division cut = {weiri_p2p_lanes_of_long(bytes, lanes), 1, 0};
    const uint32_t round_lines = (uint32_t)cut.lanes * (WEIRI_P2P_SLOT_BYTES / line);
    if (lines > round_lines)
        cut.rounds = (lines - 1) / round_lines + 1;
    const uint32_t pieces = (uint32_t)cut.lanes * cut.rounds;
    cut.piece_bytes = (lines + pieces - 1) / pieces * line;
    return cut;
}

/* The bytes of a lane's piece, from *at on; 0 if it is empty. */
WEIR_FN uint32_t weiri_p2p_piece(uint64_t bytes, weiri_p2p_division cut, int lane, uint32_t round,
                                 uint64_t *at)
{
    *at = ((uint64_t)round * (uint32_t)cut.lanes + (uint32_t)lane) * cut.piece_bytes;
    if (*at >= bytes)
        return 0;
    const uint64_t left = bytes - *at;
    return left < cut.piece_bytes ? (uint32_t)left : cut.piece_bytes;
}

#endif
