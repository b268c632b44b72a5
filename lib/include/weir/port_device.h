/*
 * What a kernel or a host thread calls to have a proxy work for it: triggers through a
 * FIFO, and port channels. As weir/device.h, the same source compiles as C and as CUDA.
 *
 * A trigger asks the proxy, a thread of the host, to move data to a peer, to signal
 * it, to say when that has arrived, or for whatever the proxy's owner handles. Any
 * number of threads push triggers; the proxy carries them out in the order of their
 * tickets.
 *
 * The FIFO is a ring of slots of four words in host memory. A producer takes a ticket
 * once there is room for it and stores its trigger into the ticket's slot; the top bit
 * of each word tells in which lap around the ring it was stored. A slot whose four
 * words have the bit of the lap that the proxy is in holds a whole trigger: nobody
 * clears slots, and no order among the words matters. The counter of tickets lies near
 * the producers, the count of triggers taken (tail) near the proxy; producers ask for
 * the tail only when the ring looks full by what they last saw of it.
 *
 * Memory order. Pushing a trigger orders everything that the calling thread wrote
 * before it, so that the proxy finds the data it is to move; on a GPU the other threads
 * of a block meet (__syncthreads) with the caller first. weir_port_wait and
 * weir_port_poll acquire what the peer put before its signal.
 *
 * One thread calls these functions for a channel; several may where they only push
 * triggers. Every wait ends as those of weir/device.h do.
 */
#ifndef WEIR_PORT_DEVICE_H
#define WEIR_PORT_DEVICE_H

#include <weir/device.h>

#if !WEIR_ON_DEVICE
#include <unistd.h>
#endif

/* ------------------------------------------------------------------ triggers */

/* What a trigger asks for; the first three combine, and are done in this order. */
enum {
    WEIR_TRIGGER_PUT = 1,
    WEIR_TRIGGER_SIGNAL = 2,
    WEIR_TRIGGER_FLUSH = 4,
    WEIR_TRIGGER_CUSTOM = 8, /* the proxy's owner handles it; all other fields are free */
};

typedef struct weir_trigger {
    uint32_t op;   /* WEIR_TRIGGER_* */
    uint32_t chan; /* the port channel's number */
    uint64_t to, from, bytes; /* of a put; less than 2^63 */
} weir_trigger;

enum { WEIR_FIFO_WORDS = 4 };
#define WEIR_FIFO_LAP ((uint64_t)1 << 63)

/* The FIFO as its producers see it. */
typedef struct weir_fifo_dev {
    uint64_t *slots;      /* WEIR_FIFO_WORDS each, host memory, 32-byte aligned */
    uint64_t *head;       /* near the producers: the next ticket */
    uint64_t *tail_seen;  /* near the producers: the tail at some moment */
    const uint64_t *tail; /* near the proxy: triggers taken */
    uint32_t shift;       /* there are 2^shift slots */
    int32_t wake;         /* host producers: written to if the proxy sleeps */
    const uint64_t *asleep; /* host producers: whether it does; NULL for kernels */
    weir_guard guard;
} weir_fifo_dev;

/* Adds to a word of one GPU or of one process; what it was. Orders nothing. */
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

/* Stores value if the word of this process is as expected; what it was. Orders nothing. */
#if !WEIR_ON_DEVICE
WEIR_FN uint64_t weir_compare_exchange(uint64_t *word, uint64_t expected, uint64_t value)
{
    __atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
#endif

/* On a GPU: orders what was read and written before it against what is written after
 * it, and what was read before against what is read after. */
WEIR_FN void weir_fence_both(void)
{
#if WEIR_ON_DEVICE
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/* The lap bit of a ticket's slot; the first lap's is set, as slots begin as zeros. */
WEIR_FN uint64_t weir_fifo_lap(uint64_t ticket, uint32_t shift)
{
    return (ticket >> shift) & 1 ? 0 : WEIR_FIFO_LAP;
}

/* Waits for a word at the other end of a bus; acquires, as weir_wait_at_least. On a GPU only
 * once it is there: a poll that acquires empties the caches of its multiprocessor, and where
 * many threads wait so, the fences of those whom they wait for hardly get on. One poll is
 * under way at a time, since those of a thread queue up behind each other. */
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

/* Waits until a ticket's slot is free; seen: the tail at some moment. */
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

/* Takes the next ticket, whose slot is free. The store into the slot depends on the tail
 * seen here, behind which the proxy has no business with the slot's last trigger.
 *
 * A thread of the host takes its ticket once there is room: where there is none in time,
 * nothing is taken, and others go on. A kernel, for which one look at the counter takes
 * long and whose failed wait ends the communicator anyway, takes it first. */
WEIR_FN int weir_fifo_reserve(const weir_fifo_dev *fifo, uint64_t *ticket)
{
#if WEIR_ON_DEVICE || defined(WEIR_EMULATED)
    const uint64_t tail = weir_load_relaxed(fifo->tail_seen); /* both are under way together */
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

/* Stores a trigger into its ticket's slot. On a host each word is a release, which costs
 * nothing there; on a GPU a fence came before, if there is anything to order. */
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

/* After a commit: wakes a proxy that sleeps. For kernels it wakes by itself. */
WEIR_FN void weir_fifo_wake(const weir_fifo_dev *fifo)
{
#if !WEIR_ON_DEVICE
    const uint64_t one = 1;
    if (!fifo->asleep)
        return;
    weir_fence_system(); /* the commit comes first: it sleeps only after a last look */
    if (weir_load_relaxed(fifo->asleep) && write(fifo->wake, &one, sizeof one) < 0)
        return; /* its counter is full: it has been woken often enough */
#else
    (void)fifo;
#endif
}

/* One thread's trigger. */
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

/* The threads of a warp that are here push one after the other: a thread that waits for
 * room may wait for a trigger of its neighbour's, and the compiler has those that need
 * not wait stay with those that do. */
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

/* Pushes a trigger: 0, or the error of the wait for room. */
WEIR_FN int weir_fifo_push(const weir_fifo_dev *fifo, const weir_trigger *trigger,
                           uint64_t *ticket)
{
    return weir_fifo_push_in_turn(fifo, trigger, 1, ticket);
}

/* The same for a trigger behind which no data stands: orders nothing. */
WEIR_FN int weir_fifo_push_relaxed(const weir_fifo_dev *fifo, const weir_trigger *trigger,
                                   uint64_t *ticket)
{
    return weir_fifo_push_in_turn(fifo, trigger, 0, ticket);
}

/* Waits until the proxy has taken the trigger of a ticket: a custom one has then been
 * handled, and what its handler wrote is there. */
WEIR_FN int weir_fifo_wait(const weir_fifo_dev *fifo, uint64_t ticket)
{
    return weir_wait_far(fifo->tail, ticket + 1, &fifo->guard);
}

/* ------------------------------------------------------------- port channels */

typedef struct weir_portchan_dev {
    weir_fifo_dev fifo;      /* the proxy's, with a guard that names the peer */
    const uint64_t *inbound; /* host memory: how often the peer has signalled */
    const uint64_t *flushed; /* host memory: 1 + the ticket of the last flush that is done */
    uint64_t *expected;      /* ours, near the caller: how many signals we have consumed */
    uint32_t id;
    uint64_t remote_bytes, local_bytes;
} weir_portchan_dev;

/* Pushes a trigger of this channel. */
WEIR_FN int weir_port_push(weir_portchan_dev *chan, uint32_t op, uint64_t to, uint64_t from,
                           uint64_t bytes, uint64_t *ticket)
{
    const weir_trigger trigger = {op, chan->id, to, from, bytes};
    return weir_fifo_push(&chan->fifo, &trigger, ticket);
}

WEIR_FN int weir_port_await_flush(weir_portchan_dev *chan, uint64_t ticket)
{
    return weir_wait_far(chan->flushed, ticket + 1, &chan->fifo.guard);
}

/* Copies bytes from offset local_offset of the own memory to offset remote_offset of the
 * peer's. The source may be written again after a flush. All of these return 0, or the
 * error of a wait: for room in the FIFO, or for what they say. */
WEIR_FN int weir_port_put(weir_portchan_dev *chan, uint64_t remote_offset, uint64_t local_offset,
                          uint64_t bytes)
{
    uint64_t ticket;
    return weir_port_push(chan, WEIR_TRIGGER_PUT, remote_offset, local_offset, bytes, &ticket);
}

/* Signals the peer, which then sees all puts of this channel before. */
WEIR_FN int weir_port_signal(weir_portchan_dev *chan)
{
    uint64_t ticket;
    return weir_port_push(chan, WEIR_TRIGGER_SIGNAL, 0, 0, 0, &ticket);
}

WEIR_FN int weir_port_put_with_signal(weir_portchan_dev *chan, uint64_t remote_offset,
                                      uint64_t local_offset, uint64_t bytes)
{
    uint64_t ticket;
    return weir_port_push(chan, WEIR_TRIGGER_PUT | WEIR_TRIGGER_SIGNAL, remote_offset, local_offset,
                          bytes, &ticket);
}

/* Waits until all that this channel was asked for before has arrived at the peer. */
WEIR_FN int weir_port_flush(weir_portchan_dev *chan)
{
    uint64_t ticket;
    const int status = weir_port_push(chan, WEIR_TRIGGER_FLUSH, 0, 0, 0, &ticket);
    return status ? status : weir_port_await_flush(chan, ticket);
}

WEIR_FN int weir_port_put_with_signal_and_flush(weir_portchan_dev *chan, uint64_t remote_offset,
                                                uint64_t local_offset, uint64_t bytes)
{
    uint64_t ticket;
    const uint32_t op = WEIR_TRIGGER_PUT | WEIR_TRIGGER_SIGNAL | WEIR_TRIGGER_FLUSH;
    const int status = weir_port_push(chan, op, remote_offset, local_offset, bytes, &ticket);
    return status ? status : weir_port_await_flush(chan, ticket);
}

/* Waits for the peer's next signal and consumes it; on failure none is consumed. */
WEIR_FN int weir_port_wait(weir_portchan_dev *chan)
{
    const int status = weir_wait_far(chan->inbound, *chan->expected + 1, &chan->fifo.guard);
    *chan->expected += status == 0;
    return status;
}

/* Consumes a signal if one is there: 1, else 0. Never blocks. */
WEIR_FN int weir_port_poll(weir_portchan_dev *chan)
{
    const int arrived = weir_load_acquire(chan->inbound) > *chan->expected;
    *chan->expected += (uint64_t)arrived;
    return arrived;
}

#endif
