/*
 * Staging: GPU memory that a network transport cannot access, by sockets or by its device, passes
 * through pinned host memory, in slots with one copy at a time. Each transport owns its slots and
 * decides when a slot may be used again.
 *
 * The ops table is the interface to CUDA: staging_cuda.c implements it, staging_none.c is a build
 * without CUDA, and tests substitute their own (verify/tests/support/staging_standin.h).
 */
#ifndef WEIR_TRANSPORT_NET_STAGING_H
#define WEIR_TRANSPORT_NET_STAGING_H

#include "transport/net/net.h"

enum { WEIRI_STAGING_BUFFER_BYTES = 256 << 10 /* most bytes per copy */ };

/* A pinned buffer and the copy that uses it. */
typedef struct weiri_staging_slot {
    char *buffer;
    void *event; /* defined by the ops */
} weiri_staging_slot;

typedef struct weiri_staging_ops {
    /* Creates a context for the GPU that owns the memory. WEIR_ERR_INVALID if it is not GPU
     * memory. */
    weir_status (*open)(const void *memory, void **context);
    /* Whether the same GPU owns the memory. */
    int (*holds)(void *context, const void *memory);
    /* Waits for all copies, then frees the context. */
    void (*close)(void *context);
    /* Allocates a slot with a buffer of the given size. WEIR_ERR_NO_MEMORY. slot_close waits for
     * the slot's copy and frees it. */
    weir_status (*slot_open)(void *context, size_t bytes, weiri_staging_slot *slot);
    void (*slot_close)(void *context, weiri_staging_slot *slot);
    /* Start a copy between the slot's buffer and GPU memory. Copies of one direction are performed
     * in order. */
    weir_status (*copy_out)(void *context, weiri_staging_slot *slot, const void *from,
                            size_t bytes);
    weir_status (*copy_in)(void *context, weiri_staging_slot *slot, void *to, size_t bytes);
    /* Sets *done if the slot's copy has ended. Does not block. */
    weir_status (*is_done)(void *context, const weiri_staging_slot *slot, int *done);
} weiri_staging_ops;

/* The staging state of a network. */
typedef struct weiri_staging {
    const weiri_staging_ops *ops; /* NULL in a build without CUDA */
    void *context;                /* created with the first staged memory; else NULL */
} weiri_staging;

/* The implementation of this build; NULL without CUDA. */
const weiri_staging_ops *weiri_staging_ops_get(void);

/* Called when GPU memory is registered that must be staged; creates the context the first time.
 * WEIR_ERR_UNSUPPORTED if this build has no CUDA, or the memory belongs to another GPU. */
weir_status weiri_staging_add(weiri_staging *stage, const weiri_net *net, const void *memory);
/* Call it after all slots are closed. */
void weiri_staging_close(weiri_staging *stage);
/* Opens a slot unless it is open; closes a slot if it is open. */
weir_status weiri_staging_slot_open(const weiri_staging *stage, size_t bytes,
                                    weiri_staging_slot *slot);
void weiri_staging_slot_close(const weiri_staging *stage, weiri_staging_slot *slot);

#endif
