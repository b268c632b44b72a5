/*
 * Sends and receives between two ranks, in which no other rank takes part. So
 * they cannot be one of weir's collectives, which number their epochs alike on
 * all ranks; each direction of a pair counts for itself. Ranks of different machines
 * send messages (comm/net.h); those of one have mailboxes.
 *
 * Every rank owns one that all peers map. It has, for each sender, lanes:
 * rings of slots. A long message is cut into pieces, dealt to the lanes in turn, of
 * which every lane gets at least one, be it empty; a short one, on GPUs, into parts,
 * one for each lane that it needs, which travel as packets. Each piece and part tells
 * how long the message is, and the receiver compares that with what it expects.
 *
 *   sent     the sender's, in the receiver's mailbox: pieces stored so far, and parts
 *            before them; stored with release behind a piece, loaded with acquire before it
 *   taken    the receiver's, in the sender's mailbox: pieces and parts used up
 *   slots    the sender's, in the receiver's mailbox
 *   packets  likewise, in memory of their own, as data could be taken for their flags, which
 *            are counts
 *
 * Both counters only grow, and each end keeps its own count in its own mailbox,
 * so that a captured launch replays correctly.
 */
#ifndef WEIR_NCCL_P2P_H
#define WEIR_NCCL_P2P_H

#include "base/target.h"
#include "weir.h"
#include "weir_device.h"

enum {
    WEIRI_P2P_SLOTS = 2,
#if defined(WEIR_EMULATED)
    WEIRI_P2P_SLOT_BYTES = 256, /* tests cross the pieces' borders soon */
    WEIRI_P2P_PACKETS = 16,
#else
    WEIRI_P2P_SLOT_BYTES = 128 << 10, /* a sender's fence takes as long as 40 KiB */
    WEIRI_P2P_PACKETS = 896,          /* two for each of a block's threads */
#endif
    WEIRI_P2P_PART_BYTES = 8 * WEIRI_P2P_PACKETS, /* the most of a short message in a lane */
};

/* Lanes of each direction of a pair. On GPUs a block serves each, two fit on a multiprocessor,
 * and all blocks of all peers must be on the device at once; in memory of the process there
 * is one. */
WEIR_FN int weiri_p2p_lanes(int on_gpu, int nranks)
{
    if (!on_gpu)
        return 1;
    return nranks <= 2 ? 64 : nranks <= 4 ? 32 : 16;
}

typedef struct weiri_p2p_lane {
    uint64_t sent; /* the sender's */
    uint64_t pad0[15];
    uint64_t taken; /* the peer's, of what this rank sends to it in this lane */
    uint64_t pad1[15];
    uint64_t own_sent, own_taken; /* this rank's counts: sent to the peer, taken from it */
    uint64_t pad2[14];
    struct {
        uint64_t message_bytes;
        uint64_t pad[15];
        char data[WEIRI_P2P_SLOT_BYTES];
    } slot[WEIRI_P2P_SLOTS];
    /* The first says how long the message is; the rest of its line is not used. */
    uint64_t packet[WEIRI_P2P_SLOTS][2 * (8 + WEIRI_P2P_PACKETS)];
} weiri_p2p_lane;

/* A rank's mailbox is an array [peer][lane]; a peer is known by its place on the machine. */
WEIR_FN weiri_p2p_lane *weiri_p2p_lane_at(char *mailbox, int peer, int lanes, int lane)
{
    return (weiri_p2p_lane *)(void *)mailbox + (size_t)peer * (size_t)lanes + (size_t)lane;
}

/* Whether a message travels as packets, where there are so many lanes. */
WEIR_FN int weiri_p2p_is_short(uint64_t bytes, int lanes)
{
    return bytes <= (uint64_t)lanes * WEIRI_P2P_PART_BYTES;
}

/* Lanes that a message uses of those there are. Both ends know it by the length. Of a short one
 * a lane carries half of what it could, a packet for each of a block's threads, as long as there
 * are lanes. */
WEIR_FN int weiri_p2p_lanes_of(uint64_t bytes, int lanes)
{
    const uint64_t all = (uint64_t)lanes * (WEIRI_P2P_PART_BYTES / 2);
    if (bytes >= all)
        return lanes;
    return bytes ? (int)(((uint32_t)bytes - 1) / (WEIRI_P2P_PART_BYTES / 2)) + 1 : 1;
}

/* The bytes of a lane's part of a short message from *at on: words of 8 but at the end. */
WEIR_FN uint64_t weiri_p2p_part(uint64_t bytes, int lanes, int lane, uint64_t *at)
{
    const uint32_t each = (((uint32_t)bytes - 1) / (uint32_t)lanes / 8 + 1) * 8;
    *at = (uint64_t)each * (uint32_t)lane;
    if (*at >= bytes)
        return 0;
    return bytes - *at < each ? bytes - *at : each;
}

/* Bytes of a piece but the last: a slot, or less where all lanes get one: whole lines.
 * (Divisions are of 32 bits: those of 64 are calls on a GPU.) */
WEIR_FN uint64_t weiri_p2p_piece_bytes(uint64_t bytes, int lanes)
{
    const uint32_t slot = WEIRI_P2P_SLOT_BYTES, line = 128;
    if (lanes == 1 || bytes >= (uint64_t)slot * (uint32_t)lanes)
        return slot;
    uint32_t even = ((uint32_t)bytes / (uint32_t)lanes / line + 1) * line;
    return even < slot ? even : slot;
}

/* Pieces of a message in one of its lanes. */
WEIR_FN uint64_t weiri_p2p_pieces(uint64_t bytes, int lanes, int lane)
{
    uint64_t slots = (bytes + WEIRI_P2P_SLOT_BYTES - 1) / WEIRI_P2P_SLOT_BYTES;
    if (slots <= (uint64_t)lanes)
        return 1;
    uint32_t behind = (uint32_t)slots - (uint32_t)lane - 1;
    return slots > (uint64_t)lane ? behind / (uint32_t)lanes + 1 : 1;
}

/* The bytes of a lane's piece from *at on. */
WEIR_FN uint64_t weiri_p2p_piece(uint64_t bytes, int lanes, int lane, uint64_t piece, uint64_t *at)
{
    const uint64_t length = weiri_p2p_piece_bytes(bytes, lanes);
    *at = (piece * (uint64_t)lanes + (uint64_t)lane) * length;
    if (*at >= bytes)
        return 0;
    uint64_t left = bytes - *at;
    return left < length ? left : length;
}

#endif
