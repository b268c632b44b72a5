/*
 * The proxy's end of a FIFO of triggers (weir/port_device.h says how slots are told
 * from those of the lap before), and the memory of both ends.
 */
#ifndef WEIR_CHAN_FIFO_H
#define WEIR_CHAN_FIFO_H

#include <weir/port_device.h>

/* The consumer, one thread. */
typedef struct weiri_fifo_end {
    const uint64_t *slots;
    uint64_t *tail; /* what producers see */
    uint64_t taken; /* the same, and the ticket of the next trigger */
    uint32_t shift;
} weiri_fifo_end;

/* The next trigger if it is there as a whole: 1, else 0. What its producer wrote before
 * it is there, too. */
WEIR_FN int weiri_fifo_peek(const weiri_fifo_end *end, weir_trigger *trigger)
{
    const uint64_t mask = ((uint64_t)1 << end->shift) - 1, rest = WEIR_FIFO_LAP - 1;
    const uint64_t *slot = end->slots + (end->taken & mask) * WEIR_FIFO_WORDS;
    const uint64_t lap = weir_fifo_lap(end->taken, end->shift);
    uint64_t words[WEIR_FIFO_WORDS];
    for (int i = 0; i < WEIR_FIFO_WORDS; i++) {
        words[i] = weir_load_acquire(slot + i);
        if ((words[i] & WEIR_FIFO_LAP) != lap)
            return 0;
    }
    trigger->op = (uint32_t)((words[0] & rest) >> 32);
    trigger->chan = (uint32_t)words[0];
    trigger->to = words[1] & rest;
    trigger->from = words[2] & rest;
    trigger->bytes = words[3] & rest;
    return 1;
}

/* Frees the slot of the trigger that was seen last, and tells its producer. */
WEIR_FN void weiri_fifo_pop(weiri_fifo_end *end)
{
    weir_store_release(end->tail, ++end->taken);
}

#if !defined(__cplusplus)
#include "comm/comm.h"

/* Both ends and their memory. */
typedef struct weiri_fifo {
    weir_comm *comm;
    weiri_fifo_end end;
    weir_fifo_dev device; /* for producers of this communicator's backend */
    void *memory;         /* tail and slots: host memory, which kernels see, too */
    size_t bytes;
    uint64_t *heads;      /* head and tail_seen, near the producers */
    int pinned;
} weiri_fifo;

/* At least so many slots, a power of two. wake and asleep are for host producers.
 * Local. */
weir_status weiri_fifo_create(weir_comm *comm, unsigned slots, int wake, const uint64_t *asleep,
                              weiri_fifo *fifo);
void weiri_fifo_destroy(weiri_fifo *fifo);
/* How many tickets producers have taken, wherever that is counted. Local, blocking. */
weir_status weiri_fifo_head(const weiri_fifo *fifo, uint64_t *head);
#endif

#endif
