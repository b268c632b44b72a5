/*
 * Runs of packets: a message of one rank to one other, in the sender's slot at
 * the receiver, 8 bytes of it a packet. The receiver polls several packets in
 * turn, so that waiting for all of them takes no longer than for the last.
 *
 * Packets carry their flags: no order of memory is needed. A slot is written
 * again two epochs later, when the sender knows that its reader has finished,
 * because it has heard from that rank in the epoch between.
 */
#ifndef WEIR_COLL_CUDA_PACKETS_CUH
#define WEIR_COLL_CUDA_PACKETS_CUH

#include "coll/cuda/move.cuh"

enum { WEIRI_GPU_PACKET_UNROLL = 4 };

/* The phases of a slot: the message itself, and one packet that stands for its
 * sender where there is no message or where it says what comes. */
enum { WEIRI_GPU_MESSAGE, WEIRI_GPU_HEADER };

WEIRI_GPU_FN uint32_t weiri_gpu_packets(uint64_t bytes)
{
    return (uint32_t)((bytes + 7) / 8);
}

/* Waits for COUNT packets, step_bytes apart; those outside the mask are not
 * looked at. peer: who sends them; -1: packet number r is rank r's. */
template <int COUNT>
WEIRI_GPU_FN void weiri_gpu_receive_all(const weiri_gpu_view &view, const char *packets,
                                        size_t step_bytes, uint32_t mask, uint64_t epoch,
                                        int peer, uint64_t data[COUNT])
{
    uint64_t low[COUNT] = {}, high[COUNT] = {};
    uint32_t missing;
    weir_waiter waiter = {0, 0};
    for (;;) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (mask >> i & 1)
                weir_load_pair((const uint64_t *)(packets + i * step_bytes), &low[i], &high[i]);
        missing = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if ((mask >> i & 1) && ((uint32_t)(low[i] >> 32) != (uint32_t)epoch ||
                                    (uint32_t)(high[i] >> 32) != (uint32_t)epoch))
                missing |= 1u << i;
        if (!missing)
            break;
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            int from = 0;
            while (peer < 0 && !(missing >> from & 1))
                from++;
            weiri_gpu_fail(view, status, peer < 0 ? from : peer, WEIR_WAIT_PACKET, epoch, missing);
            break;
        }
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        data[i] = high[i] << 32 | (uint32_t)low[i];
}

/* Sends bytes as packets; the worker's share of them. */
WEIRI_GPU_FN void weiri_gpu_send_run(char *slot, const char *from, uint64_t bytes, uint64_t epoch,
                                     uint32_t worker, uint32_t workers)
{
    enum { UNROLL = WEIRI_GPU_PACKET_UNROLL };
    uint32_t packets = weiri_gpu_packets(bytes);
    for (uint32_t first = worker; first < packets; first += workers * UNROLL) {
        uint64_t data[UNROLL];
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            if (first + u * workers < packets)
                data[u] = weiri_gpu_load8(from, first + u * workers, bytes);
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            if (first + u * workers < packets)
                weiri_gpu_send(slot, first + u * workers, epoch, data[u]);
    }
}

/* Receives what weiri_gpu_send_run of a rank has sent. */
WEIRI_GPU_FN void weiri_gpu_receive_run(const weiri_gpu_view &view, const char *slot, char *to,
                                        uint64_t bytes, uint64_t epoch, int peer, uint32_t worker,
                                        uint32_t workers)
{
    enum { UNROLL = WEIRI_GPU_PACKET_UNROLL };
    uint32_t packets = weiri_gpu_packets(bytes);
    for (uint32_t first = worker; first < packets; first += workers * UNROLL) {
        uint64_t data[UNROLL];
        uint32_t mask = 0;
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            mask |= (uint32_t)(first + u * workers < packets) << u;
        weiri_gpu_receive_all<UNROLL>(view, slot + (size_t)first * 16, (size_t)workers * 16, mask,
                                      epoch, peer, data);
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            if (mask >> u & 1)
                weiri_gpu_store8(to, first + u * workers, bytes, data[u]);
    }
}

/* The single packet of a slot's header. */
WEIRI_GPU_FN void weiri_gpu_send_header(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                        uint64_t header)
{
    weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, WEIRI_GPU_HEADER), 0, epoch,
                   header);
}

WEIRI_GPU_FN uint64_t weiri_gpu_receive_header(const weiri_gpu_view &view, int peer,
                                               uint64_t epoch)
{
    return weiri_gpu_receive(view, weiri_gpu_slot(view, view.rank, peer, epoch, WEIRI_GPU_HEADER),
                             0, epoch, peer);
}

/* The i-th rank after this one, around: peers are served in an order in which
 * no two ranks begin with the same; i == nranks - 1 is this rank itself. */
WEIRI_GPU_FN int weiri_gpu_rank_after(const weiri_gpu_view &view, int i)
{
    int rank = view.rank + 1 + i;
    return rank < view.nranks ? rank : rank - view.nranks;
}

/* 2^32 / n, rounded up: x * it >> 32 is x / n for x below 2^28. */
WEIRI_GPU_FN uint32_t weiri_gpu_reciprocal(uint32_t n)
{
    switch (n) {
    case 2:
        return 0x80000000u;
    case 3:
        return 0x55555556u;
    case 4:
        return 0x40000000u;
    case 5:
        return 0x33333334u;
    case 6:
        return 0x2aaaaaabu;
    case 7:
        return 0x24924925u;
    default:
        return 0x20000000u;
    }
}

/* A thread among those that serve one rank each: as many for every rank, in
 * neighbouring threads of the grid, whole warps where there are enough. */
typedef struct weiri_gpu_lane {
    uint32_t first, step;     /* serves the ranks after this one number first, first + step, ... */
    uint32_t worker, workers; /* its place among those that serve the same rank */
} weiri_gpu_lane;

/* Without division, which would stand before the loads of the input. */
WEIRI_GPU_FN weiri_gpu_lane weiri_gpu_lane_of(const weiri_gpu_view &view)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t threads = gridDim.x * blockDim.x, nranks = (uint32_t)view.nranks;
    if (threads < nranks) {
        weiri_gpu_lane few = {thread, threads, 0, 1};
        return few;
    }
    uint32_t workers = (uint32_t)((uint64_t)threads * weiri_gpu_reciprocal(nranks) >> 32);
    uint32_t first = 0;
    if (workers >= 32)
        workers &= ~31u;
#pragma unroll
    for (uint32_t i = 1; i <= WEIRI_GPU_RANKS_MAX; i++)
        first += thread >= i * workers;
    weiri_gpu_lane lane = {first, nranks, thread - first * workers, workers};
    if (thread >= nranks * workers)
        lane.first = nranks;
    return lane;
}

/* A grid whose threads carry a packet each, in small blocks, as long as the
 * device has room. */
static inline weiri_gpu_shape weiri_gpu_packet_shape(uint64_t packets, int processors)
{
    weiri_gpu_shape shape = {1, 32};
    if (packets <= 32)
        return shape;
    shape.threads = 64;
    while (shape.threads < 512 && packets > (uint64_t)shape.threads * (uint64_t)processors)
        shape.threads *= 2;
    uint64_t blocks = (packets + (uint64_t)shape.threads - 1) / (uint64_t)shape.threads;
    shape.blocks = blocks < (uint64_t)processors ? (int)blocks : processors;
    return shape;
}

#endif
