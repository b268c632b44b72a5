/*
 * Memory of a GPU that a wire cannot reach by itself, neither by sockets nor by its device:
 * what goes from or to it passes through pinned host memory, in slots, each with one copy at
 * a time. Wires keep their own slots and say when a slot may be used again.
 *
 * The table is the seam to CUDA: staging_cuda.c fills it, staging_none.c says that a build has
 * none, and a test may have its own.
 */
#ifndef WEIR_TRANSPORT_NET_STAGING_H
#define WEIR_TRANSPORT_NET_STAGING_H

#include "transport/net/net.h"

enum { WEIRI_STAGING_BUFFER_BYTES = 256 << 10 /* copied at once, at most */ };

/* A pinned buffer and the copy that uses it. */
typedef struct weiri_staging_slot {
    char *buffer;
    void *event; /* the table's own */
} weiri_staging_slot;

typedef struct weiri_staging_ops {
    /* A context for the GPU that has the memory. WEIR_ERR_INVALID: no GPU has. */
    weir_status (*open)(const void *memory, void **context);
    /* Whether the memory is of the same GPU. */
    int (*holds)(void *context, const void *memory);
    /* Waits for all copies. */
    void (*close)(void *context);
    /* Fill and empty a slot, whose buffer has so many bytes. WEIR_ERR_NO_MEMORY. slot_close
     * waits for the copy. */
    weir_status (*slot_open)(void *context, size_t bytes, weiri_staging_slot *slot);
    void (*slot_close)(void *context, weiri_staging_slot *slot);
    /* Starts a copy between the slot's buffer and GPU memory. Those of one direction are
     * carried out in order. */
    weir_status (*copy_out)(void *context, weiri_staging_slot *slot, const void *from, size_t bytes);
    weir_status (*copy_in)(void *context, weiri_staging_slot *slot, void *to, size_t bytes);
    /* Whether the slot's copy has ended. */
    weir_status (*is_done)(void *context, const weiri_staging_slot *slot, int *done);
} weiri_staging_ops;

/* What a wire has of it. */
typedef struct weiri_staging {
    const weiri_staging_ops *ops; /* NULL in a build without CUDA */
    void *context;              /* made with the first memory that is staged; NULL: none is */
} weiri_staging;

/* NULL in a build without CUDA. */
const weiri_staging_ops *weiri_staging_ops_get(void);

/* Memory of a GPU is to pass through the wire's stage, which is opened with the first.
 * WEIR_ERR_UNSUPPORTED: this build has no CUDA, or the memory is of another GPU. */
weir_status weiri_staging_add(weiri_staging *stage, const weiri_net *net, const void *memory);
/* Behind its slots. */
void weiri_staging_close(weiri_staging *stage);
/* Opens a slot unless it is open; closes one that is. */
weir_status weiri_staging_slot_open(const weiri_staging *stage, size_t bytes, weiri_staging_slot *slot);
void weiri_staging_slot_close(const weiri_staging *stage, weiri_staging_slot *slot);

#endif
