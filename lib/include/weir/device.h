/*
 * Semaphores, memory channels, switch channels and packets for kernels and host threads, as plain
 * data and inline functions. The same source compiles as C, where a rank is one thread (tid 0 of
 * 1), and as CUDA, where the threads of a block share a call.
 *
 * Calls. Functions with the parameters tid and nthreads are made by all nthreads threads of a
 * block (or by any set of threads numbered 0..nthreads-1), which divide the work. All other
 * functions are made by one thread per channel. They are local. Only functions that wait can
 * block; these return 0 on success, WEIR_ERR_TIMEOUT when the guard's deadline passes, or
 * WEIR_ERR_ABORTED when the communicator is aborted. Errors are per thread unless a comment says
 * otherwise: threads of a block must combine their results (weir_block_any of weir/kernel.h)
 * before they branch on them.
 *
 * Memory order. put and get are plain stores and loads. A signal releases everything that the
 * calling thread wrote before it; wait and poll acquire, so that everything the thread reads
 * afterwards is at least as new as the signal. The relaxed forms order nothing; they are for data
 * that carries its own flag, or for pure synchronisation. On a GPU a block needs a barrier
 * (__syncthreads) between the puts of its threads and the signal, and between the wait and the
 * gets of its threads.
 *
 * Packets. An LL packet is one 8-byte store of 4 bytes of data and a 4-byte flag, of which no
 * reader can see a part, so that its arrival needs no fence. The flag is the epoch of the exchange
 * (a counter of the caller's): never 0, and different from that of the packet it overwrites. A
 * packet buffer is twice as long as its data: weir_packet_bytes(). A writer must know that the
 * reader has finished with the previous epoch in that buffer. LL16 packets hold 8 bytes of data in
 * 16 bytes; LL128 lines of 128 bytes are described below.
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include <weir/target.h>
#include <weir/weir.h>

#if !WEIR_ON_DEVICE
#include <sched.h>
#include <string.h>
#endif

WEIR_C_CASTS_BEGIN

/* ------------------------------------------------------------------ waiting */

/* The record of a slow wait, which weir_comm_report of any rank reads, and which remains after a
 * failed wait. Only the waiting rank writes it. The kinds marked "error" record the cause of a
 * failed kernel instead of a wait. */
enum {
    WEIR_WAIT_NONE,      /* not in a slow wait */
    WEIR_WAIT_WORD,      /* for a word of the host algorithms */
    WEIR_WAIT_SEMAPHORE, /* for a signal */
    WEIR_WAIT_PACKET,    /* for a packet */
    WEIR_WAIT_COUNTS,    /* error: expected = bytes expected from the peer, seen = bytes it sends */
    WEIR_WAIT_SEND,      /* error: expected = bytes of the input, seen = end of the peer's split */
    WEIR_WAIT_RECV,      /* error: the same for the output */
    WEIR_WAIT_FAILED,    /* error: weir_kernel_fail was called; expected = -status */
};
typedef struct weir_wait_record {
    uint64_t kind;           /* WEIR_WAIT_* */
    uint64_t peer;           /* the rank being waited on; all bits set: several ranks */
    uint64_t expected, seen; /* the value waited for, and the latest value read */
} weir_wait_record;

/* The value of the abort word after a kernel of this rank has failed. */
enum { WEIR_ABORTED_BY_KERNEL = 2 };

/* What a wait checks besides its word. */
typedef struct weir_guard {
    const uint64_t *abort_word; /* becomes non-zero when the communicator is aborted */
    uint64_t timeout_ns;        /* the deadline, from the first check of the clock */
    uint32_t spins;             /* polls before a host rank yields its processor */
    int32_t peer;               /* the rank being waited on; -1: several ranks */
    weir_wait_record *record;   /* where slow waits are recorded; may be NULL */
} weir_guard;

/* Pauses a GPU thread, or yields the processor on the host, where ranks may outnumber the cores. */
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

/* The state of one wait between its polls. Initialise it with zeros. */
typedef struct weir_waiter {
    uint64_t polls, started_ns; /* started_ns is 0 until the wait is slow */
} weir_waiter;

/* Call after each unsuccessful poll: pauses or yields, and regularly checks the abort word and the
 * clock. Returns 0 to poll again, WEIR_ERR_TIMEOUT or WEIR_ERR_ABORTED. */
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

/* Writes the record of a slow wait; WEIR_WAIT_NONE marks its end. */
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

/* Waits until *word, a monotonic counter, is at least target. Acquires. */
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

/* One end of a semaphore. The counters are in memory, not in launch arguments, so that a captured
 * launch replays correctly. */
typedef struct weir_sem_dev {
    uint64_t *remote_inbound; /* the peer's inbound counter, mapped here */
    uint64_t *inbound;        /* this rank's: the peer stores the number of its signals here */
    uint64_t *outbound;       /* this rank's: signals sent */
    uint64_t *expected;       /* this rank's: signals consumed */
} weir_sem_dev;

/* Signal the peer. weir_sem_signal releases the calling thread's writes: the peer reads them after
 * the wait that consumes the signal. weir_sem_signal_relaxed orders nothing. Non-blocking. One
 * thread at a time calls them on a semaphore. */
WEIR_FN void weir_sem_signal(weir_sem_dev *sem)
{
    weir_store_release(sem->remote_inbound, ++*sem->outbound);
}

WEIR_FN void weir_sem_signal_relaxed(weir_sem_dev *sem)
{
    weir_store_relaxed(sem->remote_inbound, ++*sem->outbound);
}

/* Waits for the peer's next signal and consumes it. Acquires: what the peer wrote before a signal
 * that is not relaxed can be read afterwards. Returns 0, WEIR_ERR_TIMEOUT if the guard's deadline
 * passed, or WEIR_ERR_ABORTED if the communicator was aborted; a failed wait consumes nothing. One
 * thread at a time calls it on a semaphore. */
WEIR_FN int weir_sem_wait(weir_sem_dev *sem, const weir_guard *guard)
{
    int status = weir_wait_at_least(sem->inbound, *sem->expected + 1, guard);
    *sem->expected += status == 0;
    return status;
}

/* Consume a signal if one has arrived and return 1, else return 0. weir_sem_poll acquires.
 * Non-blocking. */
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

/* A memory channel as weir_memchan_device returns it. */
typedef struct weir_memchan_dev {
    weir_sem_dev sem;
    weir_guard guard;
    char *remote;  /* the peer's memory, mapped here */
    char *local;   /* this rank's memory: source of put, destination of get */
    char *packets; /* this rank's memory in which the peer's packets arrive, or NULL */
    size_t remote_bytes, local_bytes, packets_bytes;
} weir_memchan_dev;

/* Copies bytes with the nthreads calling threads, of which this is number tid: 16 bytes per thread
 * and step if both addresses have the same alignment modulo 16, else single bytes on a GPU. */
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

/* Copy from this rank's memory to the peer's (put), and back (get). Offsets and lengths are in
 * bytes and are not checked against the channel's sizes. All nthreads threads of a group make the
 * call with the same arguments and divide the bytes; tid, from 0 to nthreads - 1, is the caller's
 * number among them. On the host, where a rank is one thread, that is 0 of 1; in a kernel, usually
 * threadIdx.x of blockDim.x. No memory order: signal afterwards (weir_signal), in a kernel after a
 * barrier of the block (__syncthreads). Non-blocking. */
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

/* Signal, wait and poll on the channel's semaphore; one thread of a block calls them.
 *
 * weir_signal signals the peer and releases what the calling thread wrote before, such as its
 * weir_put. weir_wait blocks until the peer's next signal, consumes it and acquires: what the peer
 * put before the signal can be read afterwards. It returns 0, WEIR_ERR_TIMEOUT if the
 * communicator's timeout_ms passed, or WEIR_ERR_ABORTED; a failed wait consumes nothing. weir_poll
 * consumes a signal if one has arrived and returns 1, else returns 0; it acquires. The relaxed
 * forms order nothing. Signals count: each is consumed once. In a kernel a block needs a barrier
 * (__syncthreads) between the puts of its threads and the signal, and between the wait and the
 * threads that read; the other threads must be given the result of the wait. */
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

enum { WEIR_SWITCH_MEMBERS = 64 }; /* the largest group */

/* A switch channel as weir_switchchan_device returns it. */
typedef struct weir_switchchan_dev {
    char *members[WEIR_SWITCH_MEMBERS]; /* every member's memory, mapped here */
    uint32_t count;
    size_t bytes; /* of each member */
} weir_switchchan_dev;

/* Copies `bytes` from `from` to the same offset of every member. The nthreads calling threads, of
 * which this is number tid, divide the bytes, as in weir_put. No memory order. Non-blocking. */
WEIR_FN void weir_switch_broadcast(const weir_switchchan_dev *chan, size_t offset, const char *from,
                                   size_t bytes, uint32_t tid, uint32_t nthreads)
{
    for (uint32_t i = 0; i < chan->count; i++)
        if (chan->members[i] + offset != from)
            weir_copy_shared(chan->members[i] + offset, from, bytes, tid, nthreads);
}

/* Adds count floats at the same offset of every member, in the order of the members, into `to`.
 * The calling threads divide the elements, as in weir_put. No memory order. Non-blocking. (Kernels
 * that need another type or operation do the same with chan->members.) */
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

/* Returns the bytes of LL packets for data_bytes bytes of data: 8 per 4 bytes, rounded up. */
WEIR_FN size_t weir_packet_bytes(size_t data_bytes)
{
    return (data_bytes + 3) / 4 * 8;
}

/* Returns an LL packet. */
WEIR_FN uint64_t weir_packet_make(uint32_t data, uint32_t flag)
{
    return (uint64_t)flag << 32 | data;
}

/* Returns 1 and the data if the packet has this flag, else 0. Non-blocking. */
WEIR_FN int weir_packet_read(const uint64_t *packet, uint32_t flag, uint32_t *data)
{
    uint64_t value = weir_load_relaxed(packet);
    if ((uint32_t)(value >> 32) != flag)
        return 0;
    *data = (uint32_t)value;
    return 1;
}

/* Writes an LL16 packet: 8 bytes of data in two LL packets, stored with one 16-byte access.
 * packet must be 16-byte aligned. */
WEIR_FN void weir_packet16_write(uint64_t *packet, uint32_t flag, uint64_t data)
{
    weir_store_pair(packet, weir_packet_make((uint32_t)data, flag),
                    weir_packet_make((uint32_t)(data >> 32), flag));
}

/* Returns 1 and the data if both halves have this flag, else 0. Non-blocking. */
WEIR_FN int weir_packet16_read(const uint64_t *packet, uint32_t flag, uint64_t *data)
{
    uint64_t low, high;
    weir_load_pair(packet, &low, &high);
    if ((uint32_t)(low >> 32) != flag || (uint32_t)(high >> 32) != flag)
        return 0;
    *data = (high << 32) | (uint32_t)low;
    return 1;
}

/* Load and store up to 4 bytes at any alignment, little endian. */
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

/* Sends bytes of this rank's memory as LL packets to the peer's packet buffer, which must be the
 * channel's remote memory. remote_offset counts bytes of packets and is a multiple of 8. flag is
 * the epoch, never 0, that the peer's weir_get_packets waits for; it differs from that of the
 * packets that it replaces. tid and nthreads are as in weir_put. Non-blocking; no signal is
 * needed. */
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

/* Waits for the peer's LL packets in this rank's packet buffer and unpacks them into its local
 * memory. packets_offset counts bytes of packets; flag is the sender's. tid and nthreads are as in
 * weir_put: each thread waits for the packets that it unpacks, and returns 0, or WEIR_ERR_TIMEOUT
 * or WEIR_ERR_ABORTED of that wait. */
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

/* ------------------------------------------------------------- LL128 lines */

/*
 * An LL128 line has 120 bytes of data followed by a flag of 8 bytes, so that it adds a fifteenth to
 * the data, where LL packets double it. On a GPU whole warps must call these functions, with
 * nthreads a multiple of 32; eight threads store or load one line with one instruction. NVLink
 * delivers such a line as a whole, PCIe may not: use LL128 only between GPUs connected by NVLink.
 * Line buffers are aligned to 128 bytes and hold nothing but lines, since other data could be taken
 * for a flag.
 */
enum { WEIR_PACKET128_BYTES = 128, WEIR_PACKET128_DATA = 120, WEIR_PACKET128_WORDS = 15 };

/* Returns the bytes of LL128 lines for data_bytes bytes of data. */
WEIR_FN size_t weir_packet128_bytes(size_t data_bytes)
{
    return (data_bytes + WEIR_PACKET128_DATA - 1) / WEIR_PACKET128_DATA * WEIR_PACKET128_BYTES;
}

/* Load and store up to 8 of `left` bytes at any alignment; missing bytes are read as 0. */
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

/* Sends bytes of this rank's memory as LL128 lines to the peer's packet buffer, which must be the
 * channel's remote memory. remote_offset counts bytes of lines and is a multiple of 128. flag is
 * the epoch that the peer's weir_get_packets128 waits for, and tid and nthreads are as in
 * weir_put. Non-blocking; no signal is needed. */
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

/* Waits until a line in this rank's packet buffer has the flag (host). Acquires. */
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

/* Waits for the peer's LL128 lines in this rank's packet buffer and unpacks them into its local
 * memory. Returns 0, WEIR_ERR_TIMEOUT or WEIR_ERR_ABORTED. On a GPU all threads of a warp return
 * the same value: if the wait of any of them timed out WEIR_ERR_TIMEOUT, else WEIR_ERR_ABORTED;
 * warps may differ from each other. */
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
                return __any_sync(0xffffffff, status == WEIR_ERR_TIMEOUT) ? WEIR_ERR_TIMEOUT
                                                                          : WEIR_ERR_ABORTED;
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

/* A barrier with the peers of count channels, one channel per peer: what the calling threads of any
 * rank wrote before it, the calling threads of all ranks read after it. The calling threads divide
 * the channels among themselves; on a GPU the block needs a barrier (__syncthreads) before and
 * after the call. Returns 0 or the error of the thread's first failed wait. */
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

WEIR_C_CASTS_END

#endif
