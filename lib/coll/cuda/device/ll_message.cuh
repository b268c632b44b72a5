/*
 * Messages as sequences of LL packets: one rank's message to one peer, in the sender's slot at the
 * receiver, 8 bytes per packet. The receiver polls several packets at once, so waiting for all of
 * them takes no longer than waiting for the last.
 *
 * Packets carry their flags, so no memory ordering is needed. A slot is written again two epochs
 * later. By then the sender knows that the reader has finished with it, because it has received
 * something from that rank in the epoch between.
 */
#ifndef WEIR_COLL_CUDA_LL_MESSAGE_CUH
#define WEIR_COLL_CUDA_LL_MESSAGE_CUH

#include "coll/cuda/device/copy.cuh"

enum { WEIRI_GPU_PACKET_UNROLL = 4 };

/* The two phases of a slot: the message, and a single header packet, which says what follows or
 * stands for an empty message. */
enum { WEIRI_GPU_MESSAGE, WEIRI_GPU_HEADER };

WEIRI_GPU_FN uint32_t weiri_gpu_packet_count(uint64_t bytes)
{
    return (uint32_t)((bytes + 7) / 8);
}

/* Waits for the packets in the mask, of COUNT packets that are step_bytes apart. peer: the sender,
 * or -1 if packet number r comes from rank r. */
template <int COUNT>
WEIRI_GPU_FN void weiri_gpu_receive_packets(const weiri_gpu_view &view, const char *packets,
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

/* Word number `index` of a message. */
template <bool EVEN>
WEIRI_GPU_FN uint64_t weiri_gpu_load_nth(const char *from, uint32_t index, uint64_t bytes)
{
    return weiri_gpu_load_next(from + (uint64_t)index * 8, bytes - (uint64_t)index * 8, EVEN);
}

template <bool EVEN>
WEIRI_GPU_FN void weiri_gpu_store_nth(char *to, uint32_t index, uint64_t bytes, uint64_t word)
{
    weiri_gpu_store_next(to + (uint64_t)index * 8, word, bytes - (uint64_t)index * 8, EVEN);
}

/* Sends this worker's packets of a message, UNROLL at a time. place() returns the slot; it is
 * called with the loads already in flight and may pass the epoch to weiri_gpu_keep_after_loads. If
 * it returns NULL, sending stops. */
template <int UNROLL, bool EVEN, typename PLACE>
WEIRI_GPU_FN void weiri_gpu_send_words(const char *from, uint64_t bytes, uint64_t epoch,
                                       uint32_t worker, uint32_t workers, PLACE place)
{
    uint32_t packets = weiri_gpu_packet_count(bytes);
#pragma unroll 1
    for (uint32_t first = worker; first < packets; first += workers * UNROLL) {
        uint64_t data[UNROLL] = {};
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            if (first + u * workers < packets)
                data[u] = weiri_gpu_load_nth<EVEN>(from, first + u * workers, bytes);
        char *slot = place(&epoch);
        if (!slot)
            return;
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            if (first + u * workers < packets)
                weiri_gpu_send(slot, first + u * workers, epoch, data[u]);
    }
}

/* Sends bytes to a peer as packets; each worker sends its part. */
WEIRI_GPU_FN void weiri_gpu_send_message(const weiri_gpu_view &view, int peer, const char *from,
                                         uint64_t bytes, uint64_t epoch, uint32_t worker,
                                         uint32_t workers)
{
    const auto place = [&](uint64_t *settled) {
        weiri_gpu_keep_after_loads(settled);
        return weiri_gpu_slot(view, peer, view.rank, *settled, WEIRI_GPU_MESSAGE);
    };
    if (weiri_gpu_word_aligned(from, bytes))
        weiri_gpu_send_words<WEIRI_GPU_PACKET_UNROLL, true>(from, bytes, epoch, worker, workers,
                                                            place);
    else
        weiri_gpu_send_words<1, false>(from, bytes, epoch, worker, workers, place);
}

template <int UNROLL, bool EVEN>
WEIRI_GPU_FN void weiri_gpu_receive_words(const weiri_gpu_view &view, const char *slot, int peer,
                                          char *to, uint64_t bytes, uint64_t epoch, uint32_t worker,
                                          uint32_t workers)
{
    uint32_t packets = weiri_gpu_packet_count(bytes);
#pragma unroll 1
    for (uint32_t first = worker; first < packets; first += workers * UNROLL) {
        uint64_t data[UNROLL];
        uint32_t mask = 0;
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++)
            mask |= (uint32_t)(first + u * workers < packets) << u;
        weiri_gpu_receive_packets<UNROLL>(view, slot + (size_t)first * 16, (size_t)workers * 16,
                                          mask, epoch, peer, data);
#pragma unroll
        for (uint32_t u = 0; u < UNROLL; u++) {
            if (mask >> u & 1)
                weiri_gpu_store_nth<EVEN>(to, first + u * workers, bytes, data[u]);
        }
    }
}

/* Receives what a peer has sent with weiri_gpu_send_message. */
WEIRI_GPU_FN void weiri_gpu_receive_message(const weiri_gpu_view &view, int peer, char *to,
                                            uint64_t bytes, uint64_t epoch, uint32_t worker,
                                            uint32_t workers)
{
    const char *slot = weiri_gpu_slot(view, view.rank, peer, epoch, WEIRI_GPU_MESSAGE);
    if (weiri_gpu_word_aligned(to, bytes))
        weiri_gpu_receive_words<WEIRI_GPU_PACKET_UNROLL, true>(view, slot, peer, to, bytes, epoch,
                                                               worker, workers);
    else
        weiri_gpu_receive_words<1, false>(view, slot, peer, to, bytes, epoch, worker, workers);
}

/* Whether this worker handles the header: the worker after the ones that have the last packets. */
WEIRI_GPU_FN int weiri_gpu_has_header(uint64_t bytes, uint32_t worker, uint32_t workers)
{
    uint32_t packets = weiri_gpu_packet_count(bytes);
    return worker == (packets < workers ? packets : packets % workers);
}

/* Sends the header packet of a slot. */
WEIRI_GPU_FN void weiri_gpu_send_header(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                        uint64_t header)
{
    weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, WEIRI_GPU_HEADER), 0, epoch,
                   header);
}

/* The header's value if the wait for it ended without one. */
#define WEIRI_GPU_NO_HEADER (~(uint64_t)0)

WEIRI_GPU_FN uint64_t weiri_gpu_receive_header(const weiri_gpu_view &view, int peer, uint64_t epoch)
{
    return weiri_gpu_receive(view, weiri_gpu_slot(view, view.rank, peer, epoch, WEIRI_GPU_HEADER),
                             0, epoch, peer, WEIRI_GPU_NO_HEADER);
}

/* The i-th peer of this rank, in cyclic order, so that no two ranks begin with the same peer; i ==
 * nranks - 1 is this rank itself. */
WEIRI_GPU_FN int weiri_gpu_rank_after(const weiri_gpu_view &view, int i)
{
    return weiri_gpu_nth_after(view.rank, i + 1, view.nranks);
}

/* Assignment of threads to peers: each thread serves one peer at a time, and each peer is served by
 * the same number of threads. */
typedef struct weiri_gpu_assignment {
    uint32_t first, step;     /* serves the ranks number first, first + step, ... after this one */
    uint32_t worker, workers; /* this thread's number among the threads that serve its rank */
} weiri_gpu_assignment;

/* whole / n for n from 2 to 8, without a division if n is a power of two. */
WEIRI_GPU_FN uint32_t weiri_gpu_divide_by_ranks(uint32_t whole, uint32_t n)
{
    if (n & (n - 1))
        return whole / n;
    return whole >> ((n >> 1) - (n >> 3));
}

/* Assigns warps to peers in turn, or threads if there are fewer warps than ranks. Threads left over
 * serve none. */
WEIRI_GPU_FN weiri_gpu_assignment weiri_gpu_assign_peer(const weiri_gpu_view &view)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t threads = gridDim.x * blockDim.x, nranks = (uint32_t)view.nranks;
    uint32_t unit = threads >= nranks * 32 ? 5 : 0; /* 2^unit threads */
    uint32_t mine = thread >> unit, each = weiri_gpu_divide_by_ranks(threads >> unit, nranks);
    if (!each) {
        weiri_gpu_assignment few = {thread, threads, 0, 1};
        return few;
    }
    uint32_t place = weiri_gpu_divide_by_ranks(mine, nranks);
    weiri_gpu_assignment lane = {mine - place * nranks, nranks,
                                 (place << unit) + (thread & ((1u << unit) - 1)), each << unit};
    if (place >= each)
        lane.first = nranks;
    return lane;
}

#endif
