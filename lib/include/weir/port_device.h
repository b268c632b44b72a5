/*
 * Triggers and port channels: how kernels and host threads make requests to a proxy. Like
 * weir/device.h, the same source compiles as C and as CUDA.
 *
 * A trigger asks the proxy, a host thread, to copy data to a peer, to signal the peer, to report
 * when the data has arrived, or for an action that the proxy's owner implements. Any number of
 * threads push triggers; the proxy executes them in the order of their tickets.
 *
 * FIFO protocol. The FIFO is a ring of slots of four words in host memory. Producers write slots
 * and the ticket counter (head); the proxy writes the count of triggers taken (tail). A producer
 * takes a ticket once there is room, and stores its trigger into the ticket's slot. The top bit of
 * each word alternates with every lap around the ring: a slot whose four words have the bit of the
 * proxy's current lap holds a complete trigger. So slots need not be cleared, and the order in
 * which the words arrive does not matter. head is in memory close to the producers, tail close to
 * the proxy; producers keep a copy of the tail and read the tail itself only when the ring looks
 * full.
 *
 * Memory order. Pushing a trigger releases everything that the calling thread wrote before, so that
 * the proxy moves current data. On a GPU a block needs a barrier (__syncthreads) between its
 * threads' writes and the push. weir_port_wait and weir_port_poll acquire what the peer put before
 * its signal.
 *
 * Calls. One thread calls these functions for a channel; functions that only push triggers may be
 * called by several threads at the same time. Functions that return int return 0 or the error of a
 * wait, as in weir/device.h: every push may wait for room in the FIFO.
 *
 * Number of waiting threads. On a GPU the waits poll host memory, and polls of many threads slow
 * the copies for which they wait. Let at most 8 threads of a GPU wait at a time, and pass the news
 * on to the others through the GPU's memory.
 */
#ifndef WEIR_PORT_DEVICE_H
#define WEIR_PORT_DEVICE_H

#include <weir/device.h>

#if !WEIR_ON_DEVICE
#include <unistd.h>
#endif

WEIR_C_CASTS_BEGIN

/* ------------------------------------------------------------------ triggers */

/* The actions of a trigger. The first three may be combined, and are executed in this order. */
enum {
    WEIR_TRIGGER_PUT = 1,
    WEIR_TRIGGER_SIGNAL = 2,
    WEIR_TRIGGER_FLUSH = 4,
    WEIR_TRIGGER_CUSTOM = 8, /* for the owner's handler; the other fields are free */
};

typedef struct weir_trigger {
    uint32_t op;              /* WEIR_TRIGGER_* */
    uint32_t chan;            /* the port channel's id */
    uint64_t to, from, bytes; /* put: remote offset, local offset, length; less than 2^63 */
} weir_trigger;

enum { WEIR_FIFO_WORDS = 4 };
#define WEIR_FIFO_LAP 0x8000000000000000u

/* The producers' view of the FIFO. */
typedef struct weir_fifo_dev {
    uint64_t *slots;        /* WEIR_FIFO_WORDS each, host memory, 32-byte aligned */
    uint64_t *head;         /* the next ticket; producers' memory */
    uint64_t *tail_seen;    /* a copy of the tail, perhaps old; producers' memory */
    const uint64_t *tail;   /* triggers taken; the proxy's memory */
    uint32_t shift;         /* there are 2^shift slots */
    int32_t wake;           /* host producers: the eventfd that wakes a sleeping proxy */
    const uint64_t *asleep; /* host producers: 1 while the proxy sleeps; NULL for kernels */
    weir_guard guard;
} weir_fifo_dev;

/* Adds to a word that only one GPU or one process uses, and returns its old value. Relaxed. */
WEIR_FN uint64_t weir_fetch_add(uint64_t *word, uint64_t more)
{
#if WEIR_ON_DEVICE
    return atomicAdd((unsigned long long *)word, (unsigned long long)more);
#else
    const uint64_t before = __atomic_fetch_add(word, more, __ATOMIC_RELAXED);
#if defined(WEIR_EMULATED)
    weir_emulated_stored();
#endif
    return before;
#endif
}

/* Replaces a word that only this process uses if it equals expected, and returns its old value.
 * Relaxed. */
#if !WEIR_ON_DEVICE
WEIR_FN uint64_t weir_compare_exchange(uint64_t *word, uint64_t expected, uint64_t value)
{
    __atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
#endif

/* On a GPU, a fence of system scope that is both acquire and release. */
WEIR_FN void weir_fence_both(void)
{
#if WEIR_ON_DEVICE
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/* Returns the lap bit of a ticket. That of the first lap is set, because slots are zeroed at
 * first. */
WEIR_FN uint64_t weir_fifo_lap(uint64_t ticket, uint32_t shift)
{
    return (ticket >> shift) & 1 ? 0 : WEIR_FIFO_LAP;
}

/* Waits like weir_wait_at_least for a word in the memory of the other processor (a GPU for a host
 * word). On a GPU it polls with relaxed loads and acquires once at the end: an acquire invalidates
 * the multiprocessor's L1 cache, and many threads that poll with acquires delay the fences of the
 * threads that they wait for. */
WEIR_FN int weir_wait_far(const uint64_t *word, uint64_t target, const weir_guard *guard)
{
#if WEIR_ON_DEVICE
    weir_waiter waiter = {0, 0};
    uint64_t noted_ns = 0, seen;
    while ((seen = weir_load_relaxed(word)) < target) {
        const int status = weir_waiter_step(&waiter, guard);
        if (status || waiter.started_ns != noted_ns) {
            noted_ns = waiter.started_ns;
            weir_wait_note(guard, WEIR_WAIT_SEMAPHORE, target, seen);
        }
        if (status)
            return status;
    }
    weir_fence_both();
    if (noted_ns)
        weir_wait_note(guard, WEIR_WAIT_NONE, 0, 0);
    return 0;
#else
    return weir_wait_at_least(word, target, guard);
#endif
}

/* Waits until a ticket's slot is free. seen is an old value of the tail. */
WEIR_FN int weir_fifo_await_room(const weir_fifo_dev *fifo, uint64_t ticket, uint64_t seen)
{
    const uint64_t slots = (uint64_t)1 << fifo->shift;
    if ((int64_t)(ticket - seen) < (int64_t)slots)
        return 0;
    const int status = weir_wait_far(fifo->tail, ticket + 1 - slots, &fifo->guard);
    if (!status)
        weir_store_relaxed(fifo->tail_seen, weir_load_relaxed(fifo->tail));
    return status;
}

/* Takes the next ticket and waits until its slot is free. The proxy no longer reads the slot's
 * previous trigger once the tail has passed it.
 *
 * A host thread waits first and then takes the ticket, so that a timeout leaves the FIFO intact. A
 * kernel takes the ticket first: a read of the counter takes long on a GPU, and a failed wait of a
 * kernel aborts the communicator anyway. */
WEIR_FN int weir_fifo_reserve(const weir_fifo_dev *fifo, uint64_t *ticket)
{
#if WEIR_ON_DEVICE || defined(WEIR_EMULATED)
    const uint64_t tail = weir_load_relaxed(fifo->tail_seen); /* overlaps with the atomic */
    *ticket = weir_fetch_add(fifo->head, 1);
    return weir_fifo_await_room(fifo, *ticket, tail);
#else
    uint64_t head = weir_load_relaxed(fifo->head);
    for (;;) {
        const int status = weir_fifo_await_room(fifo, head, weir_load_relaxed(fifo->tail_seen));
        if (status)
            return status;
        const uint64_t seen = weir_compare_exchange(fifo->head, head, head + 1);
        if (seen == head)
            break;
        head = seen;
    }
    *ticket = head;
    return 0;
#endif
}

/* Stores a trigger into its ticket's slot. On the host each store is a release, which is free on
 * x86; on a GPU the caller has executed a fence if there is data to order. */
WEIR_FN void weir_fifo_commit(const weir_fifo_dev *fifo, uint64_t ticket,
                              const weir_trigger *trigger)
{
    const uint64_t lap = weir_fifo_lap(ticket, fifo->shift), rest = WEIR_FIFO_LAP - 1;
    const uint64_t mask = ((uint64_t)1 << fifo->shift) - 1;
    uint64_t *slot = fifo->slots + (ticket & mask) * WEIR_FIFO_WORDS;
    const uint64_t what = (uint64_t)trigger->op << 32 | trigger->chan;
#if WEIR_ON_DEVICE
    weir_store_pair(slot, lap | (what & rest), lap | (trigger->to & rest));
    weir_store_pair(slot + 2, lap | (trigger->from & rest), lap | (trigger->bytes & rest));
#else
    weir_store_release(slot, lap | (what & rest));
    weir_store_release(slot + 1, lap | (trigger->to & rest));
    weir_store_release(slot + 2, lap | (trigger->from & rest));
    weir_store_release(slot + 3, lap | (trigger->bytes & rest));
#endif
}

/* Wakes a sleeping proxy, after a commit. Kernels cannot; the proxy polls for their triggers. */
WEIR_FN void weir_fifo_wake(const weir_fifo_dev *fifo)
{
#if !WEIR_ON_DEVICE
    const uint64_t one = 1;
    if (!fifo->asleep)
        return;
    /* Orders the commit before the load; the proxy checks the FIFO again before it sleeps. */
    weir_fence_system();
    if (weir_load_relaxed(fifo->asleep) && write(fifo->wake, &one, sizeof one) < 0)
        return; /* the eventfd's counter is full, so the proxy is being woken */
#else
    (void)fifo;
#endif
}

/* Pushes the trigger of one thread. */
WEIR_FN int weir_fifo_push_one(const weir_fifo_dev *fifo, const weir_trigger *trigger, int ordered,
                               uint64_t *ticket)
{
    const int status = weir_fifo_reserve(fifo, ticket);
    if (status)
        return status;
    if (ordered)
        weir_fence_both();
    weir_fifo_commit(fifo, *ticket, trigger);
    weir_fifo_wake(fifo);
    return 0;
}

/* The active threads of a warp push one at a time. A thread that waits for room may depend on the
 * trigger of another thread of its warp, and the compiler may otherwise keep that one waiting at
 * the reconvergence point. */
WEIR_FN int weir_fifo_push_in_turn(const weir_fifo_dev *fifo, const weir_trigger *trigger,
                                   int ordered, uint64_t *ticket)
{
#if WEIR_ON_DEVICE
    const unsigned here = __activemask();
    int status = 0, lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    for (unsigned left = here; left; left &= left - 1) {
        if (lane == __ffs((int)left) - 1)
            status = weir_fifo_push_one(fifo, trigger, ordered, ticket);
        __syncwarp(here);
    }
    return status;
#else
    return weir_fifo_push_one(fifo, trigger, ordered, ticket);
#endif
}

/* Pushes a trigger and returns its ticket. Releases the calling thread's writes. */
WEIR_FN int weir_fifo_push(const weir_fifo_dev *fifo, const weir_trigger *trigger, uint64_t *ticket)
{
    return weir_fifo_push_in_turn(fifo, trigger, 1, ticket);
}

/* Pushes a trigger that refers to no data written by the calling thread. Relaxed. */
WEIR_FN int weir_fifo_push_relaxed(const weir_fifo_dev *fifo, const weir_trigger *trigger,
                                   uint64_t *ticket)
{
    return weir_fifo_push_in_turn(fifo, trigger, 0, ticket);
}

/* Waits until the proxy has taken the trigger of a ticket. The handler of a custom trigger has then
 * returned, and its writes are visible. */
WEIR_FN int weir_fifo_wait(const weir_fifo_dev *fifo, uint64_t ticket)
{
    return weir_wait_far(fifo->tail, ticket + 1, &fifo->guard);
}

/* ------------------------------------------------------------- port channels */

/* A port channel as weir_portchan_device returns it. */
typedef struct weir_portchan_dev {
    weir_fifo_dev fifo;      /* the proxy's, with a guard that names the peer */
    const uint64_t *inbound; /* host memory: the number of signals that the peer sent */
    const uint64_t *flushed; /* host memory: 1 + the ticket of the last completed flush */
    uint64_t *expected;      /* the caller's memory: signals consumed */
    uint32_t id;
    uint64_t remote_bytes, local_bytes;
} weir_portchan_dev;

/* Pushes a trigger of this channel and returns its ticket. */
WEIR_FN int weir_port_push(weir_portchan_dev *chan, uint32_t op, uint64_t to, uint64_t from,
                           uint64_t bytes, uint64_t *ticket)
{
    const weir_trigger trigger = {op, chan->id, to, from, bytes};
    return weir_fifo_push(&chan->fifo, &trigger, ticket);
}

/* Waits until the flush with this ticket has completed. */
WEIR_FN int weir_port_await_flush(weir_portchan_dev *chan, uint64_t ticket)
{
    return weir_wait_far(chan->flushed, ticket + 1, &chan->fifo.guard);
}

/* Requests a copy of `bytes` from local_offset of this rank's memory to remote_offset of the
 * peer's. Does not wait for the copy: the source may be overwritten after a flush. */
WEIR_FN int weir_port_put(weir_portchan_dev *chan, uint64_t remote_offset, uint64_t local_offset,
                          uint64_t bytes)
{
    uint64_t ticket;
    return weir_port_push(chan, WEIR_TRIGGER_PUT, remote_offset, local_offset, bytes, &ticket);
}

/* Requests a signal to the peer. When the peer consumes it, all earlier puts of this channel are
 * visible there. */
WEIR_FN int weir_port_signal(weir_portchan_dev *chan)
{
    uint64_t ticket;
    return weir_port_push(chan, WEIR_TRIGGER_SIGNAL, 0, 0, 0, &ticket);
}

/* A put followed by a signal, in one trigger. */
WEIR_FN int weir_port_put_with_signal(weir_portchan_dev *chan, uint64_t remote_offset,
                                      uint64_t local_offset, uint64_t bytes)
{
    uint64_t ticket;
    return weir_port_push(chan, WEIR_TRIGGER_PUT | WEIR_TRIGGER_SIGNAL, remote_offset, local_offset,
                          bytes, &ticket);
}

/* Waits until all earlier requests of this channel have completed at the peer. */
WEIR_FN int weir_port_flush(weir_portchan_dev *chan)
{
    uint64_t ticket;
    const int status = weir_port_push(chan, WEIR_TRIGGER_FLUSH, 0, 0, 0, &ticket);
    return status ? status : weir_port_await_flush(chan, ticket);
}

/* A put followed by a signal and a flush, in one trigger. */
WEIR_FN int weir_port_put_with_signal_and_flush(weir_portchan_dev *chan, uint64_t remote_offset,
                                                uint64_t local_offset, uint64_t bytes)
{
    uint64_t ticket;
    const uint32_t op = WEIR_TRIGGER_PUT | WEIR_TRIGGER_SIGNAL | WEIR_TRIGGER_FLUSH;
    const int status = weir_port_push(chan, op, remote_offset, local_offset, bytes, &ticket);
    return status ? status : weir_port_await_flush(chan, ticket);
}

/* Waits for the peer's next signal and consumes it. Acquires what the peer put before the signal.
 * Returns 0, WEIR_ERR_TIMEOUT or WEIR_ERR_ABORTED; a failed wait consumes nothing. */
WEIR_FN int weir_port_wait(weir_portchan_dev *chan)
{
    const int status = weir_wait_far(chan->inbound, *chan->expected + 1, &chan->fifo.guard);
    *chan->expected += status == 0;
    return status;
}

/* Consumes a signal if one has arrived and returns 1, else returns 0. Acquires. Non-blocking. */
WEIR_FN int weir_port_poll(weir_portchan_dev *chan)
{
    const int arrived = weir_load_acquire(chan->inbound) > *chan->expected;
    *chan->expected += (uint64_t)arrived;
    return arrived;
}

WEIR_C_CASTS_END

#endif
