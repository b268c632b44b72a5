/*
 * What a kernel calls: semaphores, memory channels and packets as plain data
 * and inline functions. The same source compiles as C, where a rank is one
 * thread (tid 0 of 1), and as CUDA, where the threads of a block share a call.
 *
 * Memory order. put and get are plain stores and loads. signal orders
 * everything that the calling thread wrote before it, wait and poll everything
 * it reads after them; the relaxed forms order nothing and serve where data
 * carries its own flag or is not touched at all. On a GPU the other threads of
 * a block must meet (__syncthreads) between their puts and the signal, and
 * between the wait and their gets.
 *
 * Packets. A packet holds data and flag in one 8-byte store that no reader can
 * see half of, so arrival needs no fence. The flag is the epoch of the
 * exchange: never 0, different from that of the packet it overwrites. A buffer
 * of packets is twice as long as its data: weir_packet_bytes(). Writers must
 * know that the reader has finished with the previous epoch in that buffer.
 *
 * The 16-byte form has 8 bytes of data; the 128-byte form is described below.
 *
 * Every wait ends: when the word arrives, when the guard's deadline passes
 * (WEIR_ERR_TIMEOUT), or when the communicator is aborted (WEIR_ERR_ABORTED).
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include <weir/target.h>
#include <weir/weir.h>

#if !WEIR_ON_DEVICE
#include <sched.h>
#include <string.h>
#endif

/* ------------------------------------------------------------------ waiting */

/* What a wait tells the other ranks about itself once it has become slow, and
 * leaves behind if it fails. Written by the waiting rank alone. */
enum {
    WEIR_WAIT_NONE,
    WEIR_WAIT_WORD,
    WEIR_WAIT_SEMAPHORE,
    WEIR_WAIT_PACKET,
    WEIR_WAIT_COUNTS, /* no wait: the bytes expected of the peer, and those it sends */
    WEIR_WAIT_SEND,   /* no wait: bytes of the input, and where the peer's split of it ends */
    WEIR_WAIT_RECV,   /* the same of the output */
    WEIR_WAIT_FAILED, /* no wait: weir_kernel_fail, with the status, as a positive number */
};
typedef struct weir_wait_record {
    uint64_t kind; /* WEIR_WAIT_*: what the rank waits for; NONE: in no slow wait */
    uint64_t peer; /* the rank waited for; all bits set: several */
    uint64_t expected, seen;
} weir_wait_record;

/* What a kernel stores into the abort word that ends for a reason of its own. */
enum { WEIR_ABORTED_BY_KERNEL = 2 };

/* What a wait watches besides its word. */
typedef struct weir_guard {
    const uint64_t *abort_word; /* becomes non-zero when the communicator is aborted */
    uint64_t timeout_ns;        /* longest wait */
    uint32_t spins;             /* polls before a host rank yields its processor */
    int32_t peer;               /* whom waits with this guard wait for; -1: several */
    weir_wait_record *record;   /* where a slow wait is noted; may be NULL */
} weir_guard;

/* Lets another rank run: host ranks may outnumber the cores. */
WEIR_FN void weir_relax(void)
{
#if WEIR_ON_DEVICE
    __nanosleep(100);
#elif defined(WEIR_EMULATED)
    weir_emulated_relax();
#else
    sched_yield();
#endif
}

/* The state of one wait between its polls; start it zeroed. */
typedef struct weir_waiter {
    uint64_t polls, started_ns;
} weir_waiter;

/* One unsuccessful poll: pauses, or yields, and now and then looks at the
 * abort word and the clock. 0, WEIR_ERR_TIMEOUT or WEIR_ERR_ABORTED. */
WEIR_FN int weir_waiter_step(weir_waiter *waiter, const weir_guard *guard)
{
    enum { FREE_POLLS = 64, POLLS_PER_CHECK = 64 };
    uint64_t polls = ++waiter->polls;
    if (polls < guard->spins) {
        if (polls > FREE_POLLS)
            weir_pause();
        return 0;
    }
    weir_relax();
    if (polls % POLLS_PER_CHECK)
        return 0;
    if (weir_load_acquire(guard->abort_word))
        return WEIR_ERR_ABORTED;
    uint64_t now_ns = weir_clock_ns();
    if (!waiter->started_ns)
        waiter->started_ns = now_ns;
    return now_ns - waiter->started_ns > guard->timeout_ns ? WEIR_ERR_TIMEOUT : 0;
}

/* Notes a slow wait, or with WEIR_WAIT_NONE its end. */
WEIR_FN void weir_wait_note(const weir_guard *guard, uint64_t kind, uint64_t expected,
                            uint64_t seen)
{
    weir_wait_record *record = guard->record;
    if (!record)
        return;
    weir_store_relaxed(&record->peer, (uint64_t)(int64_t)guard->peer);
    weir_store_relaxed(&record->expected, expected);
    weir_store_relaxed(&record->seen, seen);
    weir_store_release(&record->kind, kind);
}

/* Waits until *word, a monotonic counter, is at least target; acquires. */
WEIR_FN int weir_wait_at_least(const uint64_t *word, uint64_t target, const weir_guard *guard)
{
    weir_waiter waiter = {0, 0};
    uint64_t noted_ns = 0, seen;
    while ((seen = weir_load_acquire(word)) < target) {
        int status = weir_waiter_step(&waiter, guard);
        if (status || waiter.started_ns != noted_ns) {
            noted_ns = waiter.started_ns;
            weir_wait_note(guard, WEIR_WAIT_SEMAPHORE, target, seen);
        }
        if (status)
            return status;
    }
    if (noted_ns)
        weir_wait_note(guard, WEIR_WAIT_NONE, 0, 0);
    return 0;
}

/* --------------------------------------------------------------- semaphores */

/* One end of a semaphore. The counters live in memory, not in launch
 * arguments, so that a captured launch replays correctly. */
typedef struct weir_sem_dev {
    uint64_t *remote_inbound; /* the peer's inbound counter, mapped here */
    uint64_t *inbound;        /* ours: the peer stores into it */
    uint64_t *outbound;       /* ours: how often we have signalled */
    uint64_t *expected;       /* ours: how many signals we have consumed */
} weir_sem_dev;

WEIR_FN void weir_sem_signal(weir_sem_dev *sem)
{
    weir_store_release(sem->remote_inbound, ++*sem->outbound);
}

WEIR_FN void weir_sem_signal_relaxed(weir_sem_dev *sem)
{
    weir_store_relaxed(sem->remote_inbound, ++*sem->outbound);
}

/* Consumes one signal; on failure none is consumed. */
WEIR_FN int weir_sem_wait(weir_sem_dev *sem, const weir_guard *guard)
{
    int status = weir_wait_at_least(sem->inbound, *sem->expected + 1, guard);
    *sem->expected += status == 0;
    return status;
}

/* Consumes a signal if one is there: 1, else 0. Never blocks. */
WEIR_FN int weir_sem_poll(weir_sem_dev *sem)
{
    int arrived = weir_load_acquire(sem->inbound) > *sem->expected;
    *sem->expected += (uint64_t)arrived;
    return arrived;
}

WEIR_FN int weir_sem_poll_relaxed(weir_sem_dev *sem)
{
    int arrived = weir_load_relaxed(sem->inbound) > *sem->expected;
    *sem->expected += (uint64_t)arrived;
    return arrived;
}

/* ---------------------------------------------------------- memory channels */

typedef struct weir_memchan_dev {
    weir_sem_dev sem;
    weir_guard guard;
    char *remote;  /* the peer's memory, mapped here */
    char *local;   /* our memory: source of put, destination of get */
    char *packets; /* our memory where the peer's packets arrive, or NULL */
    size_t remote_bytes, local_bytes, packets_bytes;
} weir_memchan_dev;

/* Copies bytes with the calling threads; 16 bytes a thread where both ends
 * are aligned alike. */
WEIR_FN void weir_copy_shared(char *to, const char *from, size_t bytes, uint32_t tid,
                              uint32_t nthreads)
{
#if WEIR_ON_DEVICE
    size_t head = (16 - (uintptr_t)to % 16) % 16;
    if (head > bytes || (uintptr_t)to % 16 != (uintptr_t)from % 16)
        head = bytes;
    size_t words = (bytes - head) / 16;
    size_t tail = head + words * 16;
    for (size_t i = tid; i < head; i += nthreads)
        to[i] = from[i];
    for (size_t i = tid; i < words; i += nthreads)
        ((uint4 *)(to + head))[i] = ((const uint4 *)(from + head))[i];
    for (size_t i = tail + tid; i < bytes; i += nthreads)
        to[i] = from[i];
#else
    size_t share = (bytes + nthreads - 1) / nthreads;
    size_t first = share * tid < bytes ? share * tid : bytes;
    memcpy(to + first, from + first, bytes - first < share ? bytes - first : share);
#endif
}

/* Offsets and lengths in bytes; the caller keeps within the channel's sizes. */
WEIR_FN void weir_put(weir_memchan_dev *chan, size_t remote_offset, size_t local_offset,
                      size_t bytes, uint32_t tid, uint32_t nthreads)
{
    weir_copy_shared(chan->remote + remote_offset, chan->local + local_offset, bytes, tid,
                     nthreads);
}

WEIR_FN void weir_get(weir_memchan_dev *chan, size_t local_offset, size_t remote_offset,
                      size_t bytes, uint32_t tid, uint32_t nthreads)
{
    weir_copy_shared(chan->local + local_offset, chan->remote + remote_offset, bytes, tid,
                     nthreads);
}

/* One thread calls these. */
WEIR_FN void weir_signal(weir_memchan_dev *chan)
{
    weir_sem_signal(&chan->sem);
}

WEIR_FN void weir_signal_relaxed(weir_memchan_dev *chan)
{
    weir_sem_signal_relaxed(&chan->sem);
}

WEIR_FN int weir_wait(weir_memchan_dev *chan)
{
    return weir_sem_wait(&chan->sem, &chan->guard);
}

WEIR_FN int weir_poll(weir_memchan_dev *chan)
{
    return weir_sem_poll(&chan->sem);
}

WEIR_FN int weir_poll_relaxed(weir_memchan_dev *chan)
{
    return weir_sem_poll_relaxed(&chan->sem);
}

/* ---------------------------------------------------------- switch channels */

enum { WEIR_SWITCH_MEMBERS = 64 };

typedef struct weir_switchchan_dev {
    char *members[WEIR_SWITCH_MEMBERS]; /* each one's memory, mapped here */
    uint32_t count;
    size_t bytes; /* of each */
} weir_switchchan_dev;

/* The same bytes of every member become these, by the calling threads. */
WEIR_FN void weir_switch_broadcast(const weir_switchchan_dev *chan, size_t offset,
                                   const char *from, size_t bytes, uint32_t tid,
                                   uint32_t nthreads)
{
    for (uint32_t i = 0; i < chan->count; i++)
        if (chan->members[i] + offset != from)
            weir_copy_shared(chan->members[i] + offset, from, bytes, tid, nthreads);
}

/* Sums of floats, in the members' order; other types and operations are alike. */
WEIR_FN void weir_switch_sum(const weir_switchchan_dev *chan, float *to, size_t offset,
                             size_t count, uint32_t tid, uint32_t nthreads)
{
    for (size_t i = tid; i < count; i += nthreads) {
        float sum = ((const float *)(const void *)(chan->members[0] + offset))[i];
        for (uint32_t m = 1; m < chan->count; m++)
            sum += ((const float *)(const void *)(chan->members[m] + offset))[i];
        to[i] = sum;
    }
}

/* ------------------------------------------------------------------ packets */

/* Bytes of packets that carry so many bytes of data: 8 for each 4 begun. */
WEIR_FN size_t weir_packet_bytes(size_t data_bytes)
{
    return (data_bytes + 3) / 4 * 8;
}

WEIR_FN uint64_t weir_packet_make(uint32_t data, uint32_t flag)
{
    return (uint64_t)flag << 32 | data;
}

/* 1 and the data if the packet carries this flag, else 0. */
WEIR_FN int weir_packet_read(const uint64_t *packet, uint32_t flag, uint32_t *data)
{
    uint64_t value = weir_load_relaxed(packet);
    if ((uint32_t)(value >> 32) != flag)
        return 0;
    *data = (uint32_t)value;
    return 1;
}

/* The 16-byte form: 8 bytes of data in two packets of one access. packet is
 * 16-byte aligned. */
WEIR_FN void weir_packet16_write(uint64_t *packet, uint32_t flag, uint64_t data)
{
    weir_store_pair(packet, weir_packet_make((uint32_t)data, flag),
                    weir_packet_make((uint32_t)(data >> 32), flag));
}

/* 1 and the data if both halves carry this flag, else 0. */
WEIR_FN int weir_packet16_read(const uint64_t *packet, uint32_t flag, uint64_t *data)
{
    uint64_t low, high;
    weir_load_pair(packet, &low, &high);
    if ((uint32_t)(low >> 32) != flag || (uint32_t)(high >> 32) != flag)
        return 0;
    *data = (high << 32) | (uint32_t)low;
    return 1;
}

WEIR_FN uint32_t weir_word_load(const char *from, size_t bytes)
{
    uint32_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint32_t)(unsigned char)from[i] << (8 * i);
    return word;
}

WEIR_FN void weir_word_store(char *to, uint32_t word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (char)(word >> (8 * i));
}

/* Sends local bytes as packets into the peer's packet buffer, which is the
 * remote memory here. remote_offset counts bytes of packets, a multiple of 8. */
WEIR_FN void weir_put_packets(weir_memchan_dev *chan, size_t remote_offset, size_t local_offset,
                              size_t bytes, uint32_t tid, uint32_t nthreads, uint32_t flag)
{
    uint64_t *packets = (uint64_t *)(void *)(chan->remote + remote_offset);
    const char *from = chan->local + local_offset;
    for (size_t i = tid; 4 * i < bytes; i += nthreads) {
        size_t length = bytes - 4 * i < 4 ? bytes - 4 * i : 4;
        weir_store_relaxed(packets + i,
                           weir_packet_make(weir_word_load(from + 4 * i, length), flag));
    }
}

/* Waits for the peer's packets in our packet buffer and unpacks them into
 * local memory. Each thread waits for its own packets: 0 or the wait's error. */
WEIR_FN int weir_get_packets(weir_memchan_dev *chan, size_t local_offset, size_t packets_offset,
                             size_t bytes, uint32_t tid, uint32_t nthreads, uint32_t flag)
{
    const uint64_t *packets = (const uint64_t *)(const void *)(chan->packets + packets_offset);
    char *to = chan->local + local_offset;
    for (size_t i = tid; 4 * i < bytes; i += nthreads) {
        size_t length = bytes - 4 * i < 4 ? bytes - 4 * i : 4;
        weir_waiter waiter = {0, 0};
        uint64_t noted_ns = 0;
        uint32_t word = 0;
        while (!weir_packet_read(packets + i, flag, &word)) {
            int status = weir_waiter_step(&waiter, &chan->guard);
            if (status || waiter.started_ns != noted_ns) {
                noted_ns = waiter.started_ns;
                weir_wait_note(&chan->guard, WEIR_WAIT_PACKET, flag,
                               weir_load_relaxed(packets + i) >> 32);
            }
            if (status)
                return status;
        }
        if (noted_ns)
            weir_wait_note(&chan->guard, WEIR_WAIT_NONE, 0, 0);
        weir_word_store(to + 4 * i, word, length);
    }
    return 0;
}

/* ----------------------------------------------------- packets of 128 bytes */

/* 120 bytes of data and a flag of 8 behind them: they cost a fifteenth more than
 * their data, where packets cost as much again. On a GPU the threads of whole warps
 * call these, eight of them a packet, which they store and load with one instruction
 * each: over NVLink it arrives as a whole, over PCIe it may not, so they are for GPUs
 * that NVLink joins. Buffers of such packets are aligned to 128 bytes and hold nothing
 * else, or data could be taken for a flag. */
enum { WEIR_PACKET128_BYTES = 128, WEIR_PACKET128_DATA = 120, WEIR_PACKET128_WORDS = 15 };

/* Bytes of them that carry so many bytes of data. */
WEIR_FN size_t weir_packet128_bytes(size_t data_bytes)
{
    return (data_bytes + WEIR_PACKET128_DATA - 1) / WEIR_PACKET128_DATA * WEIR_PACKET128_BYTES;
}

/* Up to 8 of the `left` bytes that begin at from; the rest is 0. */
WEIR_FN uint64_t weir_long_load(const char *from, size_t left)
{
    if (left >= 8 && (uintptr_t)from % 8 == 0)
        return *(const uint64_t *)(const void *)from;
    uint64_t word = weir_word_load(from, left < 4 ? left : 4);
    if (left > 4)
        word |= (uint64_t)weir_word_load(from + 4, left < 8 ? left - 4 : 4) << 32;
    return word;
}

WEIR_FN void weir_long_store(char *to, uint64_t word, size_t left)
{
    if (left >= 8 && (uintptr_t)to % 8 == 0) {
        *(uint64_t *)(void *)to = word;
        return;
    }
    weir_word_store(to, (uint32_t)word, left < 4 ? left : 4);
    if (left > 4)
        weir_word_store(to + 4, (uint32_t)(word >> 32), left < 8 ? left - 4 : 4);
}

/* Sends local bytes as packets into the peer's packet buffer, which is the remote
 * memory here. remote_offset counts bytes of packets, a multiple of 128. */
WEIR_FN void weir_put_packets128(weir_memchan_dev *chan, size_t remote_offset, size_t local_offset,
                                 size_t bytes, uint32_t tid, uint32_t nthreads, uint64_t flag)
{
    char *packets = chan->remote + remote_offset;
    const char *from = chan->local + local_offset;
    const size_t count = weir_packet128_bytes(bytes) / WEIR_PACKET128_BYTES;
#if WEIR_ON_DEVICE
    const uint32_t part = tid % 8;
    for (size_t first = tid / 32 * 4; first < count; first += nthreads / 8) {
        const size_t i = first + tid % 32 / 8, at = WEIR_PACKET128_DATA * i + 16 * part;
        uint64_t low = at < bytes ? weir_long_load(from + at, bytes - at) : 0, high = flag;
        if (part < 7)
            high = at + 8 < bytes ? weir_long_load(from + at + 8, bytes - at - 8) : 0;
        __syncwarp();
        if (i < count)
            weir_store_pair((uint64_t *)(packets + WEIR_PACKET128_BYTES * i) + 2 * part, low, high);
    }
#else
    for (size_t i = tid; i < count; i += nthreads) {
        uint64_t *words = (uint64_t *)(void *)(packets + WEIR_PACKET128_BYTES * i);
        for (size_t w = 0; w < WEIR_PACKET128_WORDS; w++) {
            const size_t at = WEIR_PACKET128_DATA * i + 8 * w;
            weir_store_relaxed(words + w, at < bytes ? weir_long_load(from + at, bytes - at) : 0);
        }
        weir_store_release(words + WEIR_PACKET128_WORDS, flag);
    }
#endif
}

/* Waits until our packet carries the flag: 0 or the wait's error. */
WEIR_FN int weir_packet128_wait(const uint64_t *words, uint64_t flag, const weir_guard *guard)
{
    weir_waiter waiter = {0, 0};
    uint64_t seen;
    while ((seen = weir_load_acquire(words + WEIR_PACKET128_WORDS)) != flag) {
        int status = weir_waiter_step(&waiter, guard);
        if (status) {
            weir_wait_note(guard, WEIR_WAIT_PACKET, flag, seen);
            return status;
        }
    }
    return 0;
}

/* Waits for the peer's packets in our packet buffer and unpacks them into local
 * memory: 0 or the wait's error, which on a GPU all threads of a warp have alike. */
WEIR_FN int weir_get_packets128(weir_memchan_dev *chan, size_t local_offset, size_t packets_offset,
                                size_t bytes, uint32_t tid, uint32_t nthreads, uint64_t flag)
{
    const char *packets = chan->packets + packets_offset;
    char *to = chan->local + local_offset;
    const size_t count = weir_packet128_bytes(bytes) / WEIR_PACKET128_BYTES;
#if WEIR_ON_DEVICE
    const uint32_t part = tid % 8;
    for (size_t first = tid / 32 * 4; first < count; first += nthreads / 8) {
        const size_t i = first + tid % 32 / 8, at = WEIR_PACKET128_DATA * i + 16 * part;
        const uint64_t *words = (const uint64_t *)(packets + WEIR_PACKET128_BYTES * i) + 2 * part;
        weir_waiter waiter = {0, 0};
        uint64_t low = 0, high = 0;
        int status = 0;
        for (;;) {
            int late = 0;
            __syncwarp();
            if (i < count) {
                weir_load_pair(words, &low, &high);
                late = part == 7 && high != flag;
            }
            if (__any_sync(0xffffffff, status))
                return status ? status : WEIR_ERR_ABORTED;
            if (!__any_sync(0xffffffff, late))
                break;
            status = weir_waiter_step(&waiter, &chan->guard);
        }
        if (at < bytes)
            weir_long_store(to + at, low, bytes - at);
        if (part < 7 && at + 8 < bytes)
            weir_long_store(to + at + 8, high, bytes - at - 8);
    }
#else
    for (size_t i = tid; i < count; i += nthreads) {
        const uint64_t *words =
            (const uint64_t *)(const void *)(packets + WEIR_PACKET128_BYTES * i);
        int status = weir_packet128_wait(words, flag, &chan->guard);
        if (status)
            return status;
        for (size_t w = 0; w < WEIR_PACKET128_WORDS; w++) {
            const size_t at = WEIR_PACKET128_DATA * i + 8 * w;
            if (at < bytes)
                weir_long_store(to + at, weir_load_relaxed(words + w), bytes - at);
        }
    }
#endif
    return 0;
}

/* ------------------------------------------------------------------ barriers */

/* Meets the peers of all channels, one to each: what any rank wrote before, all read
 * after. On a GPU the threads of a block share the channels, and the block meets
 * (__syncthreads) before the call and behind it. 0 or the first wait's error. */
WEIR_FN int weir_barrier(weir_memchan_dev *const *chans, uint32_t count, uint32_t tid,
                         uint32_t nthreads)
{
    int status = 0;
    for (uint32_t i = tid; i < count; i += nthreads)
        weir_signal(chans[i]);
    for (uint32_t i = tid; i < count && !status; i += nthreads)
        status = weir_wait(chans[i]);
    return status;
}

#endif
