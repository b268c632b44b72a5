/*
 * The FIFO of triggers: the proxy's end, and the memory of both ends. Producers write slots, one
 * consumer (the proxy's thread) reads them and advances the tail. <weir/port_device.h> explains how
 * a slot is distinguished from the same slot one lap earlier.
 */
#ifndef WEIR_CHAN_FIFO_H
#define WEIR_CHAN_FIFO_H

#include <weir/port_device.h>

/* The consumer's end; used by one thread. */
typedef struct weiri_fifo_end {
    const uint64_t *slots;
    uint64_t *tail; /* the published tail, which producers read */
    uint64_t taken; /* the consumer's copy of it: the ticket of the next trigger */
    uint32_t shift;
} weiri_fifo_end;

/* Reads the next trigger. Returns 1 if it is complete, else 0. What its producer wrote before it is
 * then visible (acquire). */
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

/* Frees the slot of the trigger that was read last, and publishes the tail. */
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
    void *memory;         /* tail and slots, in host memory that kernels can access */
    size_t bytes;
    uint64_t *heads; /* head and tail_seen, in the producers' memory */
    int pinned;
} weiri_fifo;

/* Creates a FIFO of at least the given number of slots, rounded up to a power of two. Host
 * producers write to the eventfd wake if *asleep is set. Local. */
weir_status weiri_fifo_create(weir_comm *comm, unsigned slots, int wake, const uint64_t *asleep,
                              weiri_fifo *fifo);
void weiri_fifo_destroy(weiri_fifo *fifo);
/* Reads how many tickets producers have taken, from host or GPU memory. Local; may block. */
weir_status weiri_fifo_head(const weiri_fifo *fifo, uint64_t *head);
#endif

#endif
