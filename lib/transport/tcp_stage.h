/*
 * Memory of a GPU on the tcp wire: sockets do not reach it, so payloads pass through
 * pinned host memory. Each stream has two buffers each way, so that one is copied while
 * the other is on its way through the socket, and no stream waits for another's.
 *
 * Sending: the first payloads of a queue are copied out ahead of being written. Receiving:
 * what a buffer holds is copied in when it is full or the payload ends, and a frame counts
 * as taken only once its copies have ended; what else the stream brings waits for that.
 *
 * The table is the seam to CUDA: tcp_stage_cuda.c fills it, tcp_stage_none.c says that a
 * build has none, and a test may have its own.
 */
#ifndef WEIR_TRANSPORT_TCP_STAGE_H
#define WEIR_TRANSPORT_TCP_STAGE_H

#include "weir.h"

enum { WEIRI_TCP_SLOTS = 2, WEIRI_TCP_SLOT_BYTES = 256 << 10 };

/* A pinned buffer and the copy that uses it. */
typedef struct weiri_tcp_slot {
    char *buffer;
    void *event;     /* the table's own */
    int is_busy;     /* a copy, or for sending a payload, is in it */
    int is_copied;   /* for sending: the payload is there */
    uint64_t frames; /* for receiving: how many are taken when the copy has ended */
} weiri_tcp_slot;

typedef struct weiri_tcp_stage_ops {
    /* A context for the GPU that has the memory. WEIR_ERR_INVALID: no GPU has. */
    weir_status (*open)(const void *memory, void **context);
    /* Whether the memory is of the same GPU. */
    int (*holds)(void *context, const void *memory);
    /* Waits for all copies. */
    void (*close)(void *context);
    /* Fill and empty buffer and event. WEIR_ERR_NO_MEMORY. slot_close waits for the copy. */
    weir_status (*slot_open)(void *context, weiri_tcp_slot *slot);
    void (*slot_close)(void *context, weiri_tcp_slot *slot);
    /* Starts a copy between the slot's buffer and GPU memory. Those of one direction are
     * carried out in order. */
    weir_status (*copy_out)(void *context, weiri_tcp_slot *slot, const void *from, size_t bytes);
    weir_status (*copy_in)(void *context, weiri_tcp_slot *slot, void *to, size_t bytes);
    /* Whether the slot's copy has ended. */
    weir_status (*is_done)(void *context, const weiri_tcp_slot *slot, int *done);
} weiri_tcp_stage_ops;

/* NULL in a build without CUDA. */
const weiri_tcp_stage_ops *weiri_tcp_stage_ops_get(void);

#endif
