/*
 * How a buffer passes through staging buffers: it is divided into pieces, one per lane and round,
 * so that all lanes work in the same region at the same time. A staging buffer holds a sender's
 * pieces of `depth` rounds (at least two); a round's pieces are overwritten by those of the round
 * `depth` later.
 */
#ifndef WEIR_COLL_CUDA_PIECES_CUH
#define WEIR_COLL_CUDA_PIECES_CUH

#include "coll/cuda/device/direct.cuh"

#if defined(WEIR_EMULATED)
#define WEIRI_GPU_LEAST_PIECE(bytes) 128u /* small, so that tests have several rounds */
#else
#define WEIRI_GPU_LEAST_PIECE(bytes) (uint32_t)(bytes)
#endif

struct weiri_gpu_pieces {
    size_t length;  /* bytes of what is divided */
    uint32_t piece; /* bytes of a lane's piece; the last ones are shorter or empty */
    uint32_t lanes, rounds, depth;
};

/* Computes piece, rounds and depth from length and lanes, which are set, and from the staging bytes
 * of one sender. Pieces are whole lines of 128 bytes, which links carry best, and as long as the
 * staging buffer allows; but shorter, down to `least` bytes, if there would be fewer than the
 * wanted `rounds`, so that one piece travels while another is used. Counts in units, because 64-bit
 * divisions are function calls. */
WEIRI_GPU_FN void weiri_gpu_cut_pieces(weiri_gpu_pieces *p, uint32_t stage_bytes, uint32_t rounds,
                                       uint32_t least)
{
    const uint32_t room = stage_bytes / (2 * p->lanes);
    const int shift = room < 128 ? 4 : 7; /* log2 of a unit: 16 or 128 bytes */
    const uint32_t units = (uint32_t)((p->length + (1u << shift) - 1) >> shift);
    uint32_t piece = units / (rounds * p->lanes);
    piece = piece > least >> shift ? piece : least >> shift;
    piece = piece < room >> shift ? piece : room >> shift;
    p->rounds = (units + piece * p->lanes - 1) / (piece * p->lanes);
    p->piece = ((units + p->rounds * p->lanes - 1) / (p->rounds * p->lanes)) << shift;
    p->depth = stage_bytes / (p->lanes * p->piece);
}

/* A lane's piece of a round. */
WEIRI_GPU_FN weiri_gpu_range weiri_gpu_piece_at(const weiri_gpu_pieces &p, uint32_t lane,
                                                uint32_t round)
{
    const size_t at = ((size_t)round * p.lanes + lane) * p.piece;
    const size_t left = at < p.length ? p.length - at : 0;
    return {at, left < p.piece ? left : p.piece};
}

#endif
